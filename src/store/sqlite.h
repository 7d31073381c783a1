/* A store in a directory of one's own, on SQLite.
 *
 *   journal.db       the rows, with journal.db-wal while it is open or after a crash
 *   journal.db-head  how far it was acknowledged (head.h); part of the store, like journal.db-wal
 *   journal.db-lock  held by the process that has it open
 *
 * One connection, exclusive, write-ahead log, synchronous=FULL. A thread takes all queued appends
 * in one transaction. Full disks and failed writes fail the appends they hit, and it goes on when
 * writing works again.
 *
 * To copy a store, close it or copy all files of a stopped process. */
#ifndef STORE_SQLITE_H
#define STORE_SQLITE_H

#include "store/store.h"

#define STORE_SQLITE_FORMAT 3 /* those before were never released, and are not read */

struct store_sqlite_config {
    const char *dir; /* at most 400 bytes; made if missing, below a directory that exists */
    struct store_notify notify;
    const char *vfs;      /* SQLite's name of it; NULL, but for tests */
    int checkpoint_pages; /* of log before it is folded into the database; 0: 1,000 */
};

/* Opens or creates, and replays. Everything is borrowed for the call, *store_out is the caller's.
 * On an error *store_out is untouched, error says what happened, to which file and what to do, and
 * the files are left as they were. MU_EBUSY: another process has it open. MU_ECORRUPT: something
 * acknowledged is missing or different. MU_EVERSION: made by a newer muster. */
int store_sqlite_open(const struct store_sqlite_config *config, const struct store_replay *replay,
                      struct store **store_out, char error[STORE_ERROR_MAX]);

/* "sqlite:DIR", for store_open(). */
int store_sqlite_scheme(const char *dir, const struct store_replay *replay,
                        const struct store_notify *notify, struct store **store_out,
                        char error[STORE_ERROR_MAX]);

#endif
