/* Records in files, from inside: what the formats have in common.
 *
 *   source.c    the bytes of a file: mapped; of a gzip or zlib file what is inside, from any place
 *   option.c    "format=csv&header=no", and the option each of the formats looks at
 *   walk.c      formats in which a record only says where the next one begins: a mark every so many
 *   recordio.c lines.c csv.c fixed.c tfrecord.c idx.c tar.c mds.c sqlite.c whole.c   a format each
 *   find.c      which files a source names; guess: which format they are in
 *   reader.c    many of them as one row of records (the public mu_reader_…, mu_scan_…)
 *   chunk.c     a chunk of RecordIO, and its damages; writer.c writes it; frames.c: framed snappy
 *
 * A shard is indexed by its format's open(), and from then on only read: by many threads, each with
 * a cursor of its own. No size that a file tells of is believed before there are bytes for it, or
 * a limit has been looked at. Errors leave their text with error_say(). */
#ifndef DATA_SHARD_H
#define DATA_SHARD_H

#include "base/error.h"
#include "data/source.h"

#define DATA_FILES_MAX (1u << 20)
#define DATA_COLUMNS_MAX 4096
#define DATA_RECORD_MAX ((uint64_t)1 << 30) /* bytes, unless the option `max` says otherwise */

struct format;

enum layout { LAYOUT_ANY, LAYOUT_A, LAYOUT_B };

/* What may be said of how sources are to be read. Strings are its own. */
struct data_options {
    const struct format *format; /* NULL: found out */
    enum layout layout;          /* recordio */
    bool skip;                   /* damaged places are left out, and counted */
    bool headless;               /* csv: the first row is a record */
    char delimiter;              /* csv; 0: ',', of a .tsv file a tab */
    char *columns;               /* sqlite, csv: those wanted, with ',' between; NULL: all */
    char *types;                 /* csv: int,real,text,… ; NULL: found out */
    char *table;                 /* sqlite */
    uint64_t record, head;       /* fixed: bytes */
    uint64_t max;                /* bytes of a record */
};

void data_options_init(struct data_options *o);
/* Adds what the text says; MU_EINVAL names the word that can't be. */
int data_options_read(struct data_options *o, const char *text);
int data_options_copy(struct data_options *to, const struct data_options *from);
void data_options_free(struct data_options *o);

/* Called for each key=value of "key=value&…"; percent signs are solved. */
typedef int option_fn(void *to, const char *key, char *value);
int option_each(const char *text, option_fn *fn, void *to);
/* "yes", "no"; a size "1048576", "64KiB", "32MiB", "1GiB". MU_EINVAL. */
int option_yes(const char *key, const char *value, bool *to);
int option_size(const char *key, const char *value, uint64_t min, uint64_t max, uint64_t *to);
/* Copies the value over the old one. */
int option_text(const char *value, char **to);

struct columns {
    mu_column *items; /* names and details are its own */
    size_t n;
};

int columns_add(struct columns *c, const char *name, size_t name_n, enum mu_type type,
                const char *detail);
void columns_free(struct columns *c);

struct shard;

/* Told of while a shard is opened. Each may be NULL. */
struct watch {
    void (*damage)(void *arg, const struct shard *s,
                   uint64_t at); /* skipped; mu_error() says why */
    void (*progress)(void *arg, const struct shard *s, uint64_t at);
    void *arg;
};

struct shard {
    const struct format *format;
    char *path;
    char *name; /* what errors and people call it: the path, mostly */
    struct source source;
    const struct data_options *o; /* borrowed */
    struct columns columns;
    uint64_t records, chunks, skipped;
    uint64_t bytes; /* stored in files of which `source` is only the index */
    const char *packed;
    uint64_t at;     /* where its records begin (walked and fixed formats) */
    uint64_t record; /* fixed: bytes of each */
    uint64_t *marks; /* walked: where every MARK_EVERYth record begins */
    size_t marks_n, marks_cap;
    void *own;                 /* the format's */
    const struct watch *watch; /* while it is opened; NULL: nobody looks */
};

/* One thread's place in a shard. */
struct cursor {
    struct window window;
    uint64_t number, at; /* walked: record `number` begins there; at 0: not known */
    mu_field *fields;
    size_t fields_cap;
    uint8_t *bytes; /* for what has to be put together */
    size_t bytes_cap;
    void *own; /* the format's */
};

/* What a walked record takes: [at, at + n), and where the next is. */
struct extent {
    uint64_t at, n, next;
};

struct guess {
    const char *path;
    const uint8_t *head; /* of what is inside, if it is compressed */
    size_t head_n;
    uint64_t size;
    struct window *window;
};

struct format {
    const char *name;
    bool folder;                          /* a folder is one, as guess() finds (head_n is 0) */
    bool bare;                            /* never unpacked */
    bool zlib;                            /* files may be zlib streams */
    bool (*guess)(const struct guess *g); /* NULL: only if it is asked for */
    /* The source is open, if `bare` doesn't say otherwise. Sets records, columns. */
    int (*open)(struct shard *s);
    int (*read)(const struct shard *s, struct cursor *c, uint64_t number, mu_record *out);
    void (*close)(struct shard *s);                         /* NULL: nothing of its own */
    void (*leave)(const struct shard *s, struct cursor *c); /* the same */
    /* Walked formats: what begins at `at`; with `whole` its sums are looked at too. MU_EDONE: the
     * end. MU_ECORRUPT: out->next is where to go on, 0: nowhere. */
    int (*next)(const struct shard *s, struct cursor *c, uint64_t at, bool whole,
                struct extent *out);
    /* … the record in it: data, n, fields. NULL: all of it. */
    int (*take)(const struct shard *s, struct cursor *c, const struct extent *e, mu_record *out);
};

extern const struct format *const formats[]; /* in the order of guessing; ends with NULL */
const struct format *format_find(const char *name);
extern const struct format format_recordio, format_lines, format_csv, format_fixed, format_tfrecord,
    format_idx, format_tar, format_mds, format_sqlite, format_whole;

/* Text that may be cut where the sample ends. */
bool guess_text(const struct guess *g);
bool guess_ends(const struct guess *g, const char *ending); /* the path, .gz left out */

void shard_progress(const struct shard *s, uint64_t at);
/* "FILE at AT: …"; gives MU_ECORRUPT. */
int shard_damaged(const struct shard *s, uint64_t at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Where the last of this thread was. */
uint64_t shard_damaged_at(void);
/* The last error was damage: counted and told of if that is an option. Gives whether it is. */
bool shard_skips(struct shard *s);
int shard_no_memory(const struct shard *s);

/* Opened by its options, or as what it is found to be. path is a file or (mds) a folder. */
int shard_open(struct shard *s, const char *path, const struct data_options *o);
void shard_close(struct shard *s);
void cursor_close(const struct shard *s, struct cursor *c);
/* Room for so many fields, or bytes. */
int cursor_fields(const struct shard *s, struct cursor *c, size_t n);
int cursor_bytes(const struct shard *s, struct cursor *c, size_t n);

/* For formats with next(). */
int walk_open(struct shard *s);
int walk_read(const struct shard *s, struct cursor *c, uint64_t number, mu_record *out);

/* A number of text as its type has it; false: it is none. */
bool field_number(mu_field *f);

static inline uint32_t le32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t le64(const uint8_t *p)
{
    return le32(p) | (uint64_t)le32(p + 4) << 32;
}

#endif
