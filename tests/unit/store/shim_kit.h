/* A VFS for the tests of the store, named "shim", on top of the system's. It counts operations on
 * files and, at a chosen one, fails it, tears it or kills the process; it can hold syncs back, and
 * can keep a tape of all changes, from which any power cut can be played. The head's I/O passes
 * through it too. Offers no shared memory, so a log works only in exclusive mode. */
#ifndef UNIT_STORE_SHIM_KIT_H
#define UNIT_STORE_SHIM_KIT_H

#include "base/base.h"

#define SHIM "shim"

enum shim_op {
    SHIM_WRITE = 1,
    SHIM_SYNC = 2,
    SHIM_TRUNCATE = 4,
    SHIM_DELETE = 8,
    SHIM_CHANGE = SHIM_WRITE | SHIM_SYNC | SHIM_TRUNCATE | SHIM_DELETE,
    SHIM_READ = 16,
    SHIM_OPEN = 32,
};

enum shim_act {
    SHIM_PASS,
    SHIM_KILL, /* SIGKILL before it */
    SHIM_TEAR, /* a write: half of it, then SIGKILL; otherwise like SHIM_KILL */
    SHIM_FULL, /* a write: half of it, then "disk full"; otherwise an error */
    SHIM_FAIL, /* an error, nothing done */
    SHIM_LIE,  /* done, but reported as an error */
};

void shim_register(void);

/* Acts on operations first .. first + n - 1 of those in the mask, counted from 1 from now on. */
void shim_arm(enum shim_act act, unsigned mask, uint64_t first, uint64_t n);

/* Besides, SIGKILL before the operation of this number. 0: none. Arming clears it. */
void shim_kill_at(uint64_t n);

/* Of those in the mask, since it was armed. */
uint64_t shim_count(void);

/* While held, syncs wait; shim_wait_held() returns once one does; shim_release() lets it go. */
void shim_hold(void);
void shim_wait_held(void);
void shim_release(void);

/* --- The tape --- */

struct shim_entry {
    enum shim_op op;
    uint64_t mark; /* op 0: a mark of the test's */
    char name[32]; /* the file's, without its directory */
    uint64_t at;   /* offset or new size */
    size_t n;
    unsigned char *data;
};

struct shim_tape {
    struct shim_entry *entries;
    size_t n;
    size_t cap;
};

/* Records from here until shim_tape_take(), which gives the tape to the caller. */
void shim_tape_begin(void);
void shim_tape_mark(uint64_t mark);
struct shim_tape shim_tape_take(void);
void shim_tape_free(struct shim_tape *tape);

#endif
