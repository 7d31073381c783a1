/* Checkpoints: the state of a run at a step, in files that can be trusted or are not there.
 *
 *   DIR/JOB/step-000000001200/           one checkpoint: there is one if this folder is there
 *       manifest                         what it is, and a line for each chunk; text
 *       shard-0000, shard-0001, …        the chunks, one after another, in the order of the state
 *   DIR/JOB/.step-000000001200.TAG/      one that is being written, or was left behind
 *
 * The state is one row of bytes, its parts one after another, cut into chunks of CKPT_CHUNK bytes
 * (the last may be shorter). Shard k of n has chunks [C * k / n, C * (k + 1) / n) of the C there
 * are; n writers write one each, side by side: each leaves "shard-0000.sums" beside its shard when
 * that is safe on the disk, and tells the first of them. That one, when all have, gathers the sums,
 * writes the manifest, and renames the folder: all that is in it is on the disk by then.
 *
 *   manifest.c  the manifest's text: written (manifest.h shows one), and parsed (manifest_parse.c)
 *   shard.c     a shard: written, its sums told (sums.c); pack.c: chunks as they are stored
 *   save.c      a checkpoint from its first folder to its last rename (place.c)
 *   find.c      what there is in a folder; what can go; folder.c: which folder it is
 *   load.c      a checkpoint is opened, and its chunks are read (read.c, one ahead: ahead.c); every
 *               one is verified
 *   intake.c    one that comes over a connection, chunk by chunk; disk.c: pieces of files, room
 *   remove.c    folders taken away, so that nobody takes half of one for a whole
 *   export.c    files that other tools can open: raw or .npz (npz.c)
 *   file.c      the few system calls that all of this is made of, each with a HOOK(); name.c: what
 *               folders and files are called; lines.c: texts that end with their sha256; sum.c;
 *               every.c: how often
 *
 * Nothing here waits for another process, logs, or keeps a thread. Every function may be used from
 * any thread; a struct by one at a time. What a person should read is put in *why. */
#ifndef CKPT_CKPT_H
#define CKPT_CKPT_H

#include "base/base.h"

#define CKPT_CHUNK ((uint64_t)4 << 20)
#define CKPT_SUM_BYTES 16   /* xxh3-128 of a chunk as it is stored, canonical */
#define CKPT_PARTS_MAX 4096 /* as many as a state may have */
#define CKPT_SHARDS_MAX 1024
#define CKPT_CHUNKS_MAX (1u << 22) /* 16 TiB */
#define CKPT_TAG_MAX 48            /* letters, digits and - */
#define CKPT_PATH_MAX 4096
#define CKPT_MANIFEST_MAX ((size_t)512 << 20)

struct ckpt_why {
    char text[CKPT_PATH_MAX + 256];
};

/* Gives rc. why may be NULL. */
int ckpt_say(struct ckpt_why *why, int rc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* How often one is made: 0: not by that. */
struct ckpt_every {
    uint64_t steps;
    uint64_t ms;
};

/* "200": steps; "90s", "10m", "1h", "500ms": time. False: it is neither. */
bool ckpt_every_read(const char *text, struct ckpt_every *every_out);

/* ---- what a checkpoint is ---- */

struct ckpt_part {
    char name[MU_NAME_MAX];
    uint64_t bytes;
};

struct ckpt_chunk {
    uint32_t shard;
    uint32_t
        stored;  /* bytes in the shard; of all of them but compressed ones, those of the state */
    uint64_t at; /* in the shard */
    uint8_t sum[CKPT_SUM_BYTES];
};

/* Where the run stood. */
struct ckpt_mark {
    char job[MU_NAME_MAX];
    uint64_t run, generation;
    uint64_t step;    /* the last that is in the state; from 1 */
    uint64_t epoch;   /* of that step */
    uint64_t samples; /* of all steps up to it */
    uint64_t offset;  /* of mu_shard() */
    uint64_t seed;    /* of the order of the samples */
    uint64_t data_n;  /* samples in the data set */
    uint64_t batch;   /* samples in a step; 0: mu_shard() */
    uint32_t slices;
    uint64_t saved_ms; /* since 1970 */
};

struct ckpt_manifest {
    char version[32]; /* of the muster that wrote it */
    struct ckpt_mark mark;
    bool zstd; /* chunks are compressed, each by itself */
    struct ckpt_part *parts;
    uint32_t parts_n;
    uint64_t bytes; /* of all parts */
    uint32_t shards_n;
    struct ckpt_chunk *chunks;
    uint32_t chunks_n; /* as many as `bytes` make */
};

/* ---- manifest.c ---- */

/* Text of its own making, lines of "word value", ended by a line with the sha256 of all before it.
 * On success *text_out is the caller's, not terminated. MU_ENOMEM, MU_EINVAL. */
int ckpt_manifest_write(const struct ckpt_manifest *m, char **text_out, size_t *n_out);

/* Whatever the text is: either all of it is well, or MU_ECORRUPT; MU_EVERSION (written by a newer
 * muster), MU_ENOMEM. On success *m_out is the caller's: ckpt_manifest_free(). */
int ckpt_manifest_parse(const char *text, size_t n, struct ckpt_manifest *m_out,
                        struct ckpt_why *why);
void ckpt_manifest_free(struct ckpt_manifest *m);

/* Bytes of the state in a chunk, and how many chunks so many bytes are. */
uint64_t ckpt_chunk_bytes(uint64_t bytes, uint32_t chunk);
uint32_t ckpt_chunks(uint64_t bytes);
/* The chunks [*first_out, *end_out) of a shard. */
void ckpt_shard_chunks(uint32_t chunks_n, uint32_t shards_n, uint32_t shard, uint32_t *first_out,
                       uint32_t *end_out);

/* ---- saving ---- */

struct ckpt_target {
    const char *dir, *job; /* made if they are not there; a job's name has no / and no leading . */
    uint64_t step;
    const char *tag; /* the same for all writers of this attempt, and for no other */
    uint32_t shards_n;
    uint64_t bytes;
    bool zstd;
};

/* One writer's part. data: the bytes of the chunks of `shard`, one after another; `cancel` (may be
 * NULL) is looked at between chunks: MU_EDONE. MU_EIO, MU_ELIMIT (the disk, or the quota, is full),
 * MU_ENOMEM. */
int ckpt_write_shard(const struct ckpt_target *t, uint32_t shard, const uint8_t *data,
                     const _Atomic bool *cancel, struct ckpt_why *why);

/* All writers have left their sums: the manifest is written and the folder renamed. parts: they sum
 * up to t->bytes. One of the same step that is there already stays if it has the same chunks,
 * otherwise it makes place. Whatever fails, what was there before is there, and the attempt's
 * folder can be abandoned. */
int ckpt_commit(const struct ckpt_target *t, const struct ckpt_mark *mark,
                const struct ckpt_part *parts, uint32_t parts_n, struct ckpt_why *why);

/* Takes the attempt's folder away, if it is there. */
void ckpt_abandon(const struct ckpt_target *t);

/* ---- what there is ---- */

struct ckpt_entry {
    uint64_t step;
    uint64_t bytes; /* on the disk */
};

/* By step, the newest first; chunks are not read, and manifests are not either. No such folder:
 * none. On success *entries_out is the caller's: free(). MU_EIO, MU_ENOMEM. */
int ckpt_list(const char *dir, const char *job, struct ckpt_entry **entries_out, uint32_t *n_out,
              struct ckpt_why *why);

/* A number for DIR/JOB, which is made: the same for all who see the same folder. run 0: all who
 * look are on this host; otherwise they are of this run, wherever they are, and the first of them
 * leaves a mark there. MU_EINVAL, MU_EIO, MU_ELIMIT. */
int ckpt_folder(const char *dir, const char *job, uint64_t host, uint64_t run, uint64_t *id_out,
                struct ckpt_why *why);

/* Names of the jobs in a folder, sorted, each ended by 0, the last by two. free(). */
int ckpt_jobs(const char *dir, char **names_out, struct ckpt_why *why);

#define CKPT_NEWEST UINT64_MAX

/* `step` has been saved (CKPT_NEWEST: whichever is the newest). Of those up to it, keeps the newest
 * keep_n (at least one) and those whose step is a multiple of `every` (0: none for that reason),
 * and takes the others away. Those after it stay, and are nobody's reason to go: a run that went
 * back behind them, because they are damaged, comes to their steps again. What attempts for steps
 * before it have left behind goes too, whoever's they are: a writer that failed may have come after
 * ckpt_abandon(). And those for its step, with a tag other than `tag` (may be NULL). */
int ckpt_prune(const char *dir, const char *job, uint64_t step, uint32_t keep_n, uint64_t every,
               const char *tag, struct ckpt_why *why);

/* MU_ENOENT, MU_EIO. */
int ckpt_remove(const char *dir, const char *job, uint64_t step, struct ckpt_why *why);

/* ---- loading ---- */

struct ckpt;

/* The manifest is verified, and that each shard is there and as long as it should be. MU_ENOENT,
 * MU_ECORRUPT, MU_EVERSION, MU_EIO, MU_ENOMEM. On success *c_out is the caller's: ckpt_close(). */
int ckpt_open(const char *dir, const char *job, uint64_t step, struct ckpt **c_out,
              struct ckpt_why *why);
void ckpt_close(struct ckpt *c);
const struct ckpt_manifest *ckpt_manifest(const struct ckpt *c);

/* The bytes of one chunk, verified, at `to` (room for ckpt_chunk_bytes()). MU_ECORRUPT: what is
 * there is not what was written; nothing at `to` counts. MU_EIO, MU_ENOMEM. */
int ckpt_read_chunk(struct ckpt *c, uint32_t chunk, uint8_t *to, struct ckpt_why *why);

/* All bytes of a part, to `to`; part by part is as fast as chunk by chunk. */
int ckpt_read_part(struct ckpt *c, uint32_t part, uint8_t *to, struct ckpt_why *why);

/* Every chunk is read and verified. The first that is wrong is named. */
int ckpt_verify(struct ckpt *c, struct ckpt_why *why);

/* One that is not in a folder: its manifest's text, and how to read its shards. */
struct ckpt_source {
    /* Exactly n bytes of a shard from `at` on. MU_ENOENT: there is no such shard, or it has no such
     * bytes; MU_EIO … */
    int (*read)(void *arg, uint32_t shard, uint64_t at, size_t n, uint8_t *to,
                struct ckpt_why *why);
    void (*close)(void *arg); /* with the checkpoint; also if it can't be opened */
    void *arg;
    char name[256]; /* for people: where it is */
};

/* As ckpt_open(), but for the shards, which are looked at when they are read. */
int ckpt_open_source(const char *text, size_t n, const char *job, uint64_t step,
                     const struct ckpt_source *source, struct ckpt **c_out, struct ckpt_why *why);

/* A chunk as it is stored: compressed if zstd and it gets smaller, otherwise *stored_out is data.
 * *p: NULL, or what the call before has left; it holds what *stored_out points to. MU_ENOMEM. */
struct ckpt_packer;
int ckpt_pack(struct ckpt_packer **p, const uint8_t *data, size_t bytes, bool zstd,
              const uint8_t **stored_out, uint32_t *n_out, uint8_t sum_out[CKPT_SUM_BYTES]);
void ckpt_pack_free(struct ckpt_packer *p);

/* ---- disk.c: for those who keep them for others ---- */

#define CKPT_MANIFEST_FILE UINT32_MAX

/* Up to n bytes from `at` on of a shard, or of the manifest (CKPT_MANIFEST_FILE), as they are:
 * fewer at the file's end. *total_out: bytes of the file. MU_ENOENT, MU_EINVAL, MU_EIO. */
int ckpt_read_file(const char *dir, const char *job, uint64_t step, uint32_t shard, uint64_t at,
                   size_t n, uint8_t *to, size_t *n_out, uint64_t *total_out, struct ckpt_why *why);

/* Calls count() for each checkpoint of each job, and for what is being written or was left behind
 * (not whole). No such folder: none. MU_EIO. */
typedef void ckpt_count(void *arg, const char *job, bool whole, uint64_t bytes);
int ckpt_usage(const char *dir, ckpt_count *count, void *arg, struct ckpt_why *why);

/* ---- intake.c: one that comes chunk by chunk, in their order, from elsewhere ---- */

struct ckpt_intake;

/* One shard of at most `bytes` in all. What an intake of the same step has left behind is taken up
 * as far as its chunks are whole. Others of this job are taken away. Reads what is there: not for a
 * thread that has no time. MU_EINVAL (the job's name), MU_ELIMIT, MU_EIO, MU_ENOMEM. */
int ckpt_intake_open(const char *dir, const char *job, uint64_t step, uint64_t bytes,
                     struct ckpt_intake **i_out, struct ckpt_why *why);
/* Chunks that are there, and the xxh3-128 of their sums one after another. */
uint32_t ckpt_intake_has(const struct ckpt_intake *i, uint8_t sum_out[CKPT_SUM_BYTES]);
/* The next chunk, or one that is there: then it and those after it are forgotten first.
 * MU_ECORRUPT: the data has another sum. MU_EINVAL: another chunk comes first. MU_ELIMIT, MU_EIO.
 */
int ckpt_intake_put(struct ckpt_intake *i, uint32_t chunk, const uint8_t *data, uint32_t stored,
                    const uint8_t sum[CKPT_SUM_BYTES], struct ckpt_why *why);
/* All chunks are there: the manifest is of them, of this job and step; it is as ckpt_commit() with
 * it. MU_ECORRUPT: it is not. */
int ckpt_intake_commit(struct ckpt_intake *i, const char *manifest, size_t n, struct ckpt_why *why);
/* Takes away what intakes of a job have left behind; none may be open. MU_EINVAL, MU_EIO. */
int ckpt_intake_forget(const char *dir, const char *job, struct ckpt_why *why);
/* What has come stays for the next one who opens it. NULL is fine. */
void ckpt_intake_close(struct ckpt_intake *i);

/* ---- export.c ---- */

/* All parts into one .npz file (arrays of bytes, uncompressed; of 4-byte floats if f32 and their
 * length allows it), or, if `raw`, into a file each in the folder `to`. Written beside it and
 * renamed. */
int ckpt_export(struct ckpt *c, const char *to, bool raw, bool f32, struct ckpt_why *why);

#endif
