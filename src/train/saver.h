/* Saving, from inside: what is set up, and the thread that writes a copy while training goes on.
 * Who writes, and when a checkpoint is ended or given up, core/step says.
 *
 *   save_config.c  what the environment and the caller say
 *   shelf.c        where checkpoints are kept
 *   saver.c        the thread, and the copy it has
 *   save.c         when, and the copying; base.c: what a run starts from */
#ifndef TRAIN_SAVER_H
#define TRAIN_SAVER_H

#include "core/message.h"
#include "run/agent_line.h"

#include <pthread.h>
#include <stdatomic.h>

struct save_config {
    char dir[CKPT_PATH_MAX]; /* "": nothing is saved */
    struct ckpt_every every; /* steps 0: the clock decides, if ms is not 0, too */
    uint64_t keep_every;
    uint32_t keep;
    bool shared, zstd;
    bool memory; /* dir is no disk's: each step goes there, and waits for the one before */
    bool depot;  /* dir is SAVE_DEPOT: the orchestrator keeps them, rank 0 puts them there */
};

#define SAVE_DEPOT "orchestrator:"

/* MUSTER_CKPT_DIR and its like; dir, steps and ms (NULL, 0, negative: not said) are the caller's
 * and come first. MU_EINVAL; says why. */
int save_config_read(struct save_config *c, const char *dir, uint64_t steps, int64_t ms);
/* MUSTER_CKPT_MEMORY: a folder in memory, for the newest state. */
int save_config_memory(struct save_config *c);

/* What is to be written: a shard of the state as it was after a step. */
struct save_copy {
    struct ckpt_target target;
    char tag[CKPT_TAG_MAX];
    uint32_t shard;
    struct ckpt_mark mark; /* its generation is the one whose members have cut it */
    uint32_t parts_n;
    struct ckpt_part *parts;
    struct piece *pieces; /* where each part is, while it is copied */
    uint8_t *data;
    size_t cap;
};

/* What the thread is to do. */
enum saver_work {
    SAVER_REST,
    SAVER_PREPARE, /* make room for `prepare` bytes */
    SAVER_WRITE,   /* this worker's shard; if it is the only one, SAVER_END too */
    SAVER_END,     /* all shards are there: the checkpoint is ended */
    SAVER_ABANDON  /* it will not be: what is there of it goes */
};

struct train;

struct saver {
    struct save_config config;
    char job[MU_NAME_MAX];
    uint64_t folder; /* which one it is, as ckpt_folder() says; 1: the orchestrator's */
    struct train *t; /* whose state it is: woken when saver_news() has something to say */

    pthread_mutex_t lock;
    pthread_cond_t changed; /* on the monotonic clock */
    pthread_t thread;
    bool open, stop;
    bool abandon; /* SAVER_ABANDON comes after what is to be done now */
    enum saver_work work;
    size_t prepare;
    uint8_t news;             /* enum save_how: what became of `copy`, until it is asked for */
    uint64_t began_ms;        /* when it was copied */
    uint64_t room_generation; /* for whose share there is room */
    _Atomic bool cancel;      /* what is being written is of no use */
    struct save_copy copy;    /* the thread's while it works, the caller's otherwise */
};

/* ---- shelf.c: where checkpoints are kept ---- */

struct shelf {
    const struct saver *s;
    struct agent_line line; /* to the orchestrator, if it keeps them */
    struct depot *depot;    /* the same; NULL: they are in a folder */
    struct ckpt_why why;    /* what the last call failed for */
};

/* s is borrowed until close. patience_ms: for an orchestrator that does not answer. MU_ENOMEM. */
int shelf_open(struct shelf *f, const struct saver *s, uint32_t patience_ms);
void shelf_close(struct shelf *f);
/* As ckpt_list(), ckpt_open() and ckpt_remove(), for the saver's job; MU_EIO, too, if nobody
 * answers. The shelf must outlive what it gives. */
int shelf_list(struct shelf *f, struct ckpt_entry **entries_out, uint32_t *n_out);
int shelf_get(struct shelf *f, uint64_t step, struct ckpt **c_out);
int shelf_remove(struct shelf *f, uint64_t step);

/* ---- saver.c ---- */

/* Off if config.dir is "". For a state of so many parts, whose names the caller fills in.
 * MU_ENOMEM. */
int saver_open(struct saver *s, uint32_t parts_n);
/* Waits for what is under way, but for no longer than wait_ms; then gives it up. */
void saver_close(struct saver *s, uint64_t wait_ms);

/* Waits until the thread rests: for one write at most, as long as the disk (or PUT_MS: the
 * orchestrator) takes for it. Then `copy` is the caller's. */
void saver_take(struct saver *s);
/* Gives `copy` to the thread: this worker's shard is to be written. */
void saver_go(struct saver *s);
/* All shards of `copy` are there. */
void saver_end(struct saver *s);
/* The checkpoint of `copy` will not be: what was written goes, or is left for the next one to
 * prune. Does not wait. */
void saver_abandon(struct saver *s);
/* Gives up what is being written, and waits until that is done. */
void saver_drop(struct saver *s);

/* True, once: what became of the last copy. */
bool saver_news(struct saver *s, struct attempt *attempt_out);

/* Makes room for so many bytes, in the thread; saver_room(): now. MU_ENOMEM. */
void saver_prepare(struct saver *s, size_t bytes);
int saver_room(struct saver *s, size_t bytes);

#endif
