/* The control page of a worker in shared memory. Its owner writes, peers on the same host read;
 * nobody writes into another's, so a worker that was given up can't do harm when it wakes.
 *
 * For each peer there is a lane: a ring of notes for that peer, how many there have been (head),
 * and how many of that peer's notes its owner is done with (tail). head and tail only grow, and
 * wrap. The reader sleeps on the writer's head, the writer on the reader's tail; `sleeps`, in the
 * sleeper's own board, tells the other one to wake it (store, fence, look; both ways). */
#ifndef COMM_BOARD_H
#define COMM_BOARD_H

#include "comm/link.h"

#include <stdatomic.h>

#define BOARD_MAGIC UINT64_C(0x6d7573742d626f31)
#define BOARD_LANES 256
#define BOARD_RING 16 /* notes under way in one lane; a power of two */

struct board_note {
    struct note note;
    uint32_t segment; /* 0: the bytes were copied, into `inlined` */
    uint32_t reserved;
    uint64_t offset; /* in the segment */
    _Alignas(64) uint8_t inlined[LINK_COPY_MAX];
};

struct board_lane {
    _Alignas(64) _Atomic uint32_t head;
    _Atomic uint32_t
        void_to; /* the bytes of notes before this one do not count if they were not done with */
    _Atomic uint32_t sleeps_head; /* enum wait_flag: the owner sleeps on the peer's head */
    _Atomic uint32_t sleeps_tail; /* the same for its tail */
    _Alignas(64) _Atomic uint32_t tail;
    struct board_note ring[BOARD_RING];
};

struct board {
    uint64_t magic;
    uint64_t bytes; /* sizeof(struct board): peers of another build are refused */
    uint64_t owner; /* wid */
    struct board_lane lanes[BOARD_LANES];
};

#endif
