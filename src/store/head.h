/* The head: a small file beside the journal that says how far it was acknowledged.
 *
 * SQLite can't tell a write-ahead log that was cut short from one that ends there: it would open
 * without the last transactions and say nothing. So after each commit, and before anybody is told,
 * the last record's number and chained sum are written and synced here. Rows may be ahead of the
 * head (a crash between the two: never acknowledged) but not behind it.
 *
 * Two slots, a disk block apart, written in turn: a torn write leaves the other. A write that
 * failed is repeated in its own slot, because nobody knows what that holds now.
 *
 * I/O goes through SQLite's VFS, as the database's does: one seam for the tests of both. */
#ifndef STORE_HEAD_H
#define STORE_HEAD_H

#include "store/sum.h"

#include <sqlite3.h>

struct head_mark {
    unsigned char id[16];
    uint64_t seq;
    struct sum chain;
};

struct head {
    sqlite3_file *file; /* NULL until opened */
    uint64_t counter;   /* of the newest slot */
    bool exists;        /* a whole slot was found, or created */
    bool whole;         /* both slots were */
    struct head_mark mark;
};

/* Opens the file, made if missing, and reads it. Returns a status of SQLite's. path ends with two
 * zero bytes and is borrowed for the head's life. */
int head_open(struct head *h, sqlite3_vfs *vfs, const char *path);

/* Writes both slots of a file that holds nothing worth keeping. */
int head_create(struct head *h, const struct head_mark *mark);

/* Writes and syncs the older slot. On failure h still says what it said. */
int head_write(struct head *h, const struct head_mark *mark);

void head_close(struct head *h);

#endif
