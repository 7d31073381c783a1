/* What an agent and its keeper say to each other: one struct per packet on a SOCK_SEQPACKET pair.
 * Both are the same binary, so the struct is the format. */
#ifndef AGENT_KEEPER_MESSAGE_H
#define AGENT_KEEPER_MESSAGE_H

#include "core/message.h"

enum keeper_kind {
    KEEPER_START, /* with three descriptors: the command (below), stdout, stderr */
    KEEPER_STOP,
    KEEPER_STARTED,
    KEEPER_EXITED
};

/* … or a struct keeper_will, told apart by its size. */
#define KEEPER_FDS 3

struct keeper_message {
    uint32_t kind;
    uint32_t slot;
    uint64_t cookie;
    uint64_t marker;
    int32_t pid;
    uint32_t grace_ms;
    uint32_t code;
    char why[TEXT_MAX_LEN];
};

/* A command: argv, environment and directory in one memfd, because an environment may be longer
 * than any packet. */
struct keeper_command {
    char **argv;
    char **env;
    const char *dir; /* NULL: stay */
};

/* A descriptor with the command in it, the caller's. MU_ENOMEM, MU_ELIMIT (no descriptors). */
int keeper_pack(char *const *argv, char *const *env, const char *dir, int *fd_out);

/* Maps it for good: meant for a process that is about to exec. False: not from keeper_pack(). */
bool keeper_unpack(int fd, struct keeper_command *c_out);

#endif
