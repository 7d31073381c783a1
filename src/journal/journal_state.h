/* The inside of a journal, shared by the files of this folder and by nobody else. */
#ifndef JOURNAL_JOURNAL_STATE_H
#define JOURNAL_JOURNAL_STATE_H

#include "journal/journal.h"

#include <sys/queue.h>

enum { COOKIE_RECORD, COOKIE_PART, COOKIE_SNAPSHOT };

/* A record on its way, as bytes; later perhaps what a shadow has yet to apply. */
struct entry {
    STAILQ_ENTRY(entry) link;
    struct journal_done done;
    bool lost;  /* the store did not even take it */
    bool early; /* it was applied, against the rule */
    int status;
    size_t n;
    uint8_t bytes[];
};

STAILQ_HEAD(entries, entry);

/* The parts of a record that have been read. */
struct gather {
    uint8_t *bytes;
    size_t n, cap;
    uint32_t next, parts_n; /* 0: none is begun */
};

struct snapshot {
    bool wanted; /* a test asks for one */
    bool on;     /* the shadow stays at the fence and is dumped … */
    bool writing, last;
    bool broken; /* a shadow could not follow: no more snapshots */
    uint64_t fence;
    uint64_t bytes; /* of the journal up to the fence */
    uint32_t machine;
    struct cursor at;
    uint64_t size_n, size_bytes; /* of the one that is made, then of the last */
    uint64_t last_n, last_bytes;
    uint64_t again_ms; /* not before, after one that failed */
    struct entries behind;
};

struct journal {
    struct journal_config config;
    struct store *store;
    struct machine_live live[JOURNAL_MACHINES_MAX], shadow[JOURNAL_MACHINES_MAX];
    const struct codec *codecs[JOURNAL_MACHINES_MAX];
    uint32_t n;
    bool has_shadows;
    struct entries pending;
    uint32_t pending_n;
    uint32_t lost_n; /* of these; as long as there are any, nothing is appended */
    uint8_t *scratch;
    size_t scratch_cap;
    uint64_t seq;   /* the row of the last record that was applied */
    uint64_t bytes; /* of records after the snapshot */
    uint64_t now_ms;
    bool broken; /* the last write failed, and that was logged */
    bool fenced;
    uint64_t failed_n, refused_n; /* ever, and since it is broken */
    struct gather gather;
    struct snapshot snap;
    char replay_error[JOURNAL_ERROR_MAX];
};

/* journal.c: its lists are valid until the next one. MU_ENOENT: it is no machine's. */
int journal_decode(struct journal *j, const uint8_t *bytes, size_t n, struct record *r_out,
                   struct wire_fault *fault);
const struct codec *journal_codec(const struct journal *j, unsigned kind);

/* journal_parts.c */
#define PART_HEAD_BYTES 12
#define PART_BYTES (STORE_RECORD_MAX - PART_HEAD_BYTES)

int parts_append(struct journal *j, const struct entry *e);
/* How many rows it takes, and row i of them, in room for STORE_RECORD_MAX if there are several. */
uint32_t parts_n(size_t n);
struct store_bytes part_at(const uint8_t *bytes, size_t n, uint32_t i, uint8_t *room);
/* A row was read: MU_OK, and the record is whole (borrowed until the next); MU_EAGAIN: there is
 * more of it to come. */
int parts_take(struct gather *g, const void *row, size_t n, struct store_bytes *whole_out);

/* journal_snapshot.c */
/* A record was applied. True: it keeps the entry. */
bool snapshot_take(struct journal *j, struct entry *e, const struct record *r);
void snapshot_turn(struct journal *j);
void snapshot_done(struct journal *j, int status);
void snapshot_close(struct journal *j);

#endif
