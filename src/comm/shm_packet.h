/* What the unix socket of a link carries. Between two processes of one host and one build
 * (board.h says which), so a struct will do. */
#ifndef COMM_SHM_PACKET_H
#define COMM_SHM_PACKET_H

#include "link/hello.h"

#define PACKET_FDS_MAX 2

enum packet_kind {
    PACKET_BOARD = 1, /* the first, and only once; with the board's fd and the alarm_fd */
    PACKET_SEGMENT,   /* with its fd; each id is larger than the one before */
    PACKET_GONE,
    PACKET_MOVE, /* a claim: link_claim() */
};

struct packet {
    uint32_t kind;
    uint32_t id;         /* lane, segment */
    uint64_t bytes;      /* of the board, of the segment */
    uint64_t generation; /* MOVE */
    uint32_t start;      /* BOARD: the first note's number in the lane */
    uint32_t reserved;
    uint8_t proof[HELLO_PROOF_BYTES];
};

#endif
