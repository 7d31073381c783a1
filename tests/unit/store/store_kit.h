/* Helpers of the store's tests: records that can be recognised, directories that come and go. */
#ifndef UNIT_STORE_STORE_KIT_H
#define UNIT_STORE_STORE_KIT_H

#include "unit/unit.h"

#include "store/sqlite.h"
#include "store/store.h"

#define KIT_RECORDS 512
#define KIT_FILES 3
#define KIT_RECORD_MAX 12000

/* Record `tag` has bytes that follow from the tag alone. Tags that are multiples of 16 make the
 * empty record, which is seen as KIT_EMPTY. Others have 8 bytes or more, some several pages. */
#define KIT_EMPTY UINT64_MAX
size_t kit_make(uint64_t tag, unsigned char *to);
uint64_t kit_seen_as(uint64_t tag);

/* Snapshot rows of "up to n": kit_snapshot_n(n) records with the tags kit_snapshot_tag(n, i). */
size_t kit_snapshot_n(uint64_t upto);
uint64_t kit_snapshot_tag(uint64_t upto, size_t i);

/* What a replay showed. */
struct kit_seen {
    uint64_t snapshot[KIT_RECORDS];
    size_t snapshot_n;
    uint64_t first, last;       /* of the records; 0: none */
    uint64_t tags[KIT_RECORDS]; /* by number */
    bool garbled;               /* a record that nobody made, or out of order */
};

/* Receives into seen, which it clears. */
struct store_replay kit_replay(struct kit_seen *seen);

/* Completions as they came. */
struct kit_done {
    uint64_t cookie;
    int status;
    uint64_t seq;
};

struct kit_log {
    struct kit_done done[KIT_RECORDS];
    size_t n;
};

void kit_on_done(void *arg, uint64_t cookie, int status, uint64_t seq); /* arg: a kit_log */

int kit_append(struct store *st, uint64_t tag); /* the tag is the cookie */
int kit_snapshot(struct store *st, uint64_t upto);

/* Opens with the shim and small checkpoints; error as in store_sqlite_open(). */
int kit_open(const char *dir, struct kit_seen *seen, struct store **out, char *error);

/* A fresh directory, in memory if there is such a place. Removed by kit_dir_remove(). */
void kit_dir_make(char *dir, size_t cap);
void kit_dir_remove(const char *dir);

/* The files of a store as they lie there: the database, its log, its head. n < 0: missing. */
struct kit_image {
    unsigned char *data[KIT_FILES];
    long n[KIT_FILES];
};

extern const char *const KIT_NAMES[KIT_FILES];

void kit_image_read(const char *dir, struct kit_image *image);
void kit_image_write(const char *dir, const struct kit_image *image);
bool kit_image_equal(const struct kit_image *a, const struct kit_image *b);
void kit_image_free(struct kit_image *image);

/* MUSTER_TEST_FULL: all of a sweep, otherwise one in `few`. */
bool kit_full(void);
uint64_t kit_stride(uint64_t few);

/* Fails the test unless what was seen is records 1..n with tag = number, n >= acked and n <= most,
 * the first of them possibly as a snapshot. */
void kit_check(const struct kit_seen *seen, const struct store *st, uint64_t acked, uint64_t most);

/* A history with groups, empty and long records, two snapshots and checkpoints. Needs a store with
 * the shim; makes the same operations each time. Calls acked(seq)
 * as completions come. Returns the number of records. */
uint64_t kit_history(struct store *st, void (*acked)(uint64_t seq));

#endif
