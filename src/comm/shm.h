/* A link through shared memory, from inside.
 *
 * Notes go through lanes (board.h), which the engine writes and reads without a system call. Beside
 * them there is the unix socket of the handshake. It carries memory (as file descriptors) and
 * claims, which are rare; the tender listens to it, and any thread may have something to say there.
 *
 *   shm_board.c   this worker's board, and which of its lanes are taken
 *   shm_socket.c  what is said on the socket; shm_packet.h: packets
 *   shm_hear.c    what is heard there
 *   shm_peer.c    the peer's segments as they are mapped here
 *   shm_link.c    birth and death; the slots of link_ops that send
 *   shm_recv.c    the slots of link_ops that receive
 *
 * Locks, each taken after those before it: c->lock, shm_link.out.lock, segments, board;
 * shm_link.peer.lock is taken alone. */
#ifndef COMM_SHM_H
#define COMM_SHM_H

#include "comm/board.h"
#include "comm/comm_state.h"

/* ---- shm_board.c ---- */

struct shm_board;

/* Its memory is made with the first lane. */
int shm_board_open(struct shm_board **board_out);
void shm_board_close(struct shm_board *b);

size_t shm_board_bytes(void); /* of whole pages */

struct shm_lane {
    struct board_lane *lane;
    uint32_t index;
    uint32_t start; /* the lane's head: heads go on where the lane's last user ended, so that the
                     * notes of that one stay void */
    int fd;         /* of the whole board; the board's */
};

/* A lane that nobody uses, with its tail at 0. owner: of the board. MU_ELIMIT: there is none;
 * MU_ENOMEM, MU_EIO. Any thread. */
int shm_board_take(struct shm_board *b, wid owner, struct shm_lane *lane_out);
void shm_board_give(struct shm_board *b, uint32_t index);

/* ---- shm_peer.c: what the tender adds and the engine uses ---- */

struct shm_segment {
    uint32_t id;
    int fd;
    const uint8_t *map;
    size_t bytes;
    bool used; /* the engine has seen it: only the engine unmaps it */
    bool gone; /* its owner has freed it */
};

#define SHM_HOT 8 /* a power of two */

struct shm_peer {
    pthread_mutex_t lock;
    struct shm_segment *segments; /* by id */
    uint32_t n, cap, gone_n;
    uint32_t last_id;                /* of those that came; each is larger than the one before */
    _Atomic bool sweep;              /* some that are gone wait for the engine */
    struct shm_segment hot[SHM_HOT]; /* the engine's copies, by id */
};

void shm_peer_init(struct shm_peer *p);
void shm_peer_close(struct shm_peer *p);

/* fd is given on success. MU_EPROTO, MU_ELIMIT, MU_ENOMEM, with *why_out. The tender. */
int shm_peer_add(struct shm_peer *p, uint32_t id, int fd, size_t bytes, const char **why_out);
void shm_peer_gone(struct shm_peer *p, uint32_t id);

/* The engine. MU_EAGAIN: it has not come yet; MU_ENOENT: it is gone. It stays until
 * shm_peer_sweep(). */
int shm_peer_find(struct shm_peer *p, uint32_t id, const uint8_t **map_out, size_t *bytes_out);
/* Unmaps what is gone: nothing that was found is looked at any more. */
void shm_peer_sweep(struct shm_peer *p);

/* ---- the link ---- */

/* What is to be said on the socket, by any thread. */
struct shm_out {
    pthread_mutex_t lock;
    _Atomic bool due;      /* the socket was full: something waits here */
    _Atomic uint32_t told; /* the peer knows of the segments up to here */
    uint32_t *gone;        /* segments whose end the peer is yet to hear of */
    uint32_t gone_n, gone_cap;
    bool board_due, move_due, broken;
    uint64_t move_generation;
    uint8_t move_proof[HELLO_PROOF_BYTES];
};

struct shm_link {
    struct link link; /* first; its fd is the unix socket */
    int pidfd;        /* -1: none */
    struct shm_lane out_lane;
    struct shm_out out;
    struct shm_peer peer;

    /* Set by the tender before `in`, which the engine looks at first. */
    const struct board *in_board;
    int in_event; /* the peer's alarm_fd */
    uint32_t in_start;
    _Atomic(const struct board_lane *) in; /* the peer's lane for us; NULL: not here yet */

    /* The engine's. */
    uint32_t head;      /* of ours, as published */
    uint64_t taken_n;   /* by the peer, as last looked at */
    uint64_t done_n;    /* with the peer's */
    uint32_t head_seen; /* the peer's head when there was nothing to take */
    bool has_note;
    struct note note; /* the current one, copied before it was checked */
    uint32_t segment;
    uint64_t offset;
};

static inline struct shm_link *shm_of(struct link *l)
{
    return (struct shm_link *)l;
}

static inline const struct board_lane *shm_in(struct shm_link *s)
{
    return atomic_load_explicit(&s->in, memory_order_acquire);
}

static inline bool link_is_lost(struct link *l)
{
    return atomic_load_explicit(&l->lost, memory_order_acquire) != MU_OK;
}

/* ---- shm_recv.c: slots of link_ops ---- */

int shm_head(struct link *l, struct note *note_out);
int shm_body(struct link *l, void *place, const void **data_out);
int shm_done(struct link *l);

/* ---- shm_socket.c ---- */

/* Sends what is due. MU_EAGAIN: not all of it. Never waits. MU_EPEER: the socket is broken, of
 * which the tender hears. */
int shm_out_flush(struct shm_link *s);
void shm_out_move(struct shm_link *s, uint64_t generation, const uint8_t proof[HELLO_PROOF_BYTES]);

/* What the tender is to wait for on the socket: POLLIN, and POLLOUT while something is due; when
 * it comes: shm_link_hear(). */
short shm_link_events(struct link *l);

/* ---- for views; the engine ---- */

/* Maps [offset, offset + bytes) of the peer's segment, read-only, at `at`, in place of what is
 * there. at, offset: of whole pages. MU_EAGAIN: the segment has not come yet; MU_EINVAL: that is
 * not in it; MU_ENOMEM; MU_EPEER: it is gone. */
int shm_map_at(struct link *l, uint32_t segment, uint64_t offset, size_t bytes, void *at);

/* Where the bytes of the current note lie: false if they were copied, or this is no shm link.
 * After body(). */
bool shm_body_ref(struct link *l, struct segment_ref *ref_out);

#endif
