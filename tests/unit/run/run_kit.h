/* An agent that does what a test tells it, on a real unix socket with the real codec: libmuster on
 * the other end can't tell the difference. */
#ifndef UNIT_RUN_RUN_KIT_H
#define UNIT_RUN_RUN_KIT_H

#include "unit/unit.h"

#include "wire/wire.h"

#include <pthread.h>

#define FAKE_WORKER wid_make(4, 1, 2)
#define FAKE_SLOT 1
#define FAKE_COOKIE 0xfeed0000c0de0001u

enum fake_welcome {
    FAKE_LIFE,   /* as an agent should */
    FAKE_SLOWLY, /* … one byte after the other */
    FAKE_SILENT,
    FAKE_REFUSED,
    FAKE_ENDED,
    FAKE_GARBAGE,
    FAKE_CLOSE
};

struct fake {
    char dir[32];
    char path[64];
    int listen_fd;
    int fd;
    enum fake_welcome welcome;
    wid worker; /* that it welcomes */
    uint32_t lease_ms;
    struct msg_attach attach; /* as the worker said */
    struct report last;
    uint32_t beats_n;
    pthread_t thread;
    uint8_t frame[(64 << 10) + 1024]; /* the last one that was read */
    uint64_t scratch[512];
};

/* Listens, and sets the environment of a worker. A thread accepts and welcomes the first that
 * comes; after fake_attached() the connection is the test's. */
void fake_open(struct fake *f, enum fake_welcome welcome, uint32_t lease_ms);
/* … for another worker than FAKE_WORKER. */
void fake_open_as(struct fake *f, wid worker, enum fake_welcome welcome, uint32_t lease_ms);
void fake_attached(struct fake *f);
void fake_close(struct fake *f);

/* The worker calls something that needs the others, and says that it is warm. */
void fake_warm(struct fake *f, mu_run *run);

/* Opens it with a lease of 1 s; a worker joins as FAKE_WORKER, and its first report is read. */
mu_run *fake_join(struct fake *f, enum fake_welcome welcome);
/* … and is in generation 7, with those nodes; its own is 4. */
mu_run *fake_join_world(struct fake *f, const char *nodes);

void fake_say(struct fake *f, enum wire_type type, const void *msg);
void fake_bytes(struct fake *f, const void *bytes, size_t n);

/* The next frame but for beats, which are counted, and for reports that only say which generation
 * is reached: that changes when links do. Fails the test if there is none for long, or if it is of
 * another type. Valid until the next. */
const union wire_any *fake_next(struct fake *f, enum wire_type type, union wire_any *msg);
/* Waits for such a report, if that generation is not reached already (0: none is). */
void fake_reached(struct fake *f, uint64_t generation);

/* Reads up to the end and closes, in a thread, as an agent does; until fake_end_join(). The last
 * report that came is in `last`. */
void fake_end_begin(struct fake *f);
void fake_end_join(struct fake *f);

/* Whether no wait of the library that has an end lasts any longer than a moment: as if its time was
 * over. For what it does when others are silent. */
void fake_hurry(bool hurries);

/* The worker leaves, as it should, and the agent is closed. */
void fake_leave(struct fake *f, mu_run *run);

/* The agent's process has ended: its connection is closed, and no more. */
void fake_die(struct fake *f);

/* Members by node, "3 4 5", slot 1, life 2; address "127.0.0.3:1" and so on. */
void fake_generation(struct fake *f, uint64_t number, const char *nodes);

/* Waits until the worker knows of it: one that is no member has nothing to say of it. */
void fake_told(mu_run *run, uint64_t number);

/* What went wrong is explained with this in it. */
void fake_explains(const char *error, const char *part);

#endif
