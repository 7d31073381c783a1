/* One peer, by one path. Notes go in order, each way, and none is lost while the link lives.
 *
 * Threads: the engine's (whoever holds comm->engine: the thread that makes a call, or moves
 * the group) calls the slots of link_ops. Any thread may call link_lose(). A link is made by the
 * tender and closed by the engine. */
#ifndef COMM_LINK_H
#define COMM_LINK_H

#include "comm/note.h"
#include "link/hello.h"

#include <stdatomic.h>

struct comm;
struct link;
struct waiter;

#define LINK_COPY_MAX 8192

struct link_ops {
    /* Sends a note with note->bytes from data. copy: at most LINK_COPY_MAX bytes, copied. Otherwise
     * data must stay as it is until taken() has come to the number of this note (l->sent_n after
     * the call), or drop(); and for shm it must lie in a segment of ours (segment.h). MU_EAGAIN: no
     * room now; flush(), wait, again. MU_EPEER: the link is lost. */
    int (*send)(struct link *l, const struct note *note, const void *data, bool copy);

    /* Moves bytes that are under way. MU_EAGAIN: there are more, and no room now. */
    int (*flush)(struct link *l);

    /* How many of the notes sent so far the sender need no longer keep the data of: tcp: those that
     * the kernel has; shm: those that the peer is done with. */
    uint64_t (*taken)(struct link *l);

    /* The next note that has come. MU_EAGAIN: none yet. The same one until done(). A note of
     * another generation than the group's is dealt with inside: older ones are done with, a newer
     * one stays (MU_EAGAIN) until the group has moved. */
    int (*head)(struct link *l, struct note *note_out);

    /* Its bytes, all of them; MU_EAGAIN: not yet. They are put at `place` if that is not NULL and
     * the path can do so for nothing; *data_out says where they are. Valid until done(). */
    int (*body)(struct link *l, void *place, const void **data_out);

    /* Done with this note: the peer may have its memory back. MU_EPEER: the bytes did not count,
     * for the sender had given up that call: whatever was made from them is void. */
    int (*done)(struct link *l);

    /* The call failed here: no bytes of notes that are not taken yet count any more, and their data
     * may be changed or freed when this returns. */
    void (*drop)(struct link *l);

    /* Sends the proof for a generation that this worker moves to. */
    int (*prove)(struct link *l, uint64_t generation, const uint8_t proof[HELLO_PROOF_BYTES]);

    /* Adds what must happen for anything above to get on (wait.h): to receive if rx, to send, or to
     * have notes taken, if tx; and, whatever is asked for, what is queued to leave. */
    void (*await)(struct link *l, bool rx, bool tx, struct waiter *w);

    /* What was sent is still delivered if that can be; frees the link. */
    void (*close)(struct link *l);
};

struct link {
    const struct link_ops *ops;
    struct comm *comm;
    struct hello_session session;
    char where[ADDR_MAX_LEN + 16]; /* for the log: "shm", "tcp 10.0.0.2:4711" */
    uint64_t sent_n;

    _Atomic int lost; /* not MU_OK: nothing comes or goes any more */

    /* Under comm->lock. */
    uint64_t claim; /* the newest generation that the peer says it is in, and its proof */
    uint8_t claim_proof[HELLO_PROOF_BYTES];
    struct link *next; /* of all links of this worker */
    uint64_t id;       /* the tender's, as are these: never used twice */
    int fd;            /* what it was opened with */
    uint8_t path;      /* COMM_SHM, COMM_TCP */
    bool in_group;     /* changed by the engine, under the lock */
    uint32_t watched;  /* as epoll has it; 0: not at all */
    bool readable;     /* by TCP, and not in the group: a claim may have come */
    bool counted;      /* among the lost ones */
    uint64_t made_ns;

    /* The engine's. */
    uint32_t rank; /* in the group; UINT32_MAX: not in it */
    uint64_t said; /* the generation that the peer was sent a proof for */
    uint64_t
        proved; /* the generation whose key it has proved to know; notes of others are not parsed */
};

/* From any thread, with c->lock or without: the peer is gone (MU_EPEER), broke the protocol
 * (MU_EPROTO), or was refused. The first reason stays. Whoever waits is woken; the peer sees the
 * connection end. */
void link_lose(struct link *l, int status, const char *why);

/* The peer says that it is in this generation: remembered, and checked as soon as this worker is. A
 * wrong proof loses the link, and so does an older generation than the group's, unless the peer is
 * a member of the group: then it is only late. From the tender or the engine, without c->lock. */
void link_claim(struct link *l, uint64_t generation, const uint8_t proof[HELLO_PROOF_BYTES]);

#endif
