/* The environment of a worker: torchrun's variables, TensorFlow's TF_CONFIG, and MUSTER_*. */
#ifndef AGENT_ENVIRON_H
#define AGENT_ENVIRON_H

#include "core/message.h"

/* Where, when and how workers save checkpoints. */
struct environ_ckpt {
    const char *dir;     /* absolute; NULL: all of this is as it is in `base` */
    const char *every;   /* "200" steps, or a time: "90s", "10m", "1h"; NULL: ENVIRON_CKPT_EVERY */
    uint32_t keep;       /* so many of the newest stay; 0: ENVIRON_CKPT_KEEP */
    uint32_t keep_every; /* all whose step is a multiple of this stay, too; 0: none */
    bool shared;         /* all hosts see the same folder: all ranks write one together */
    bool zstd;
    bool memory;            /* the newest state is kept in memory, too */
    const char *memory_dir; /* the folder in memory; NULL: there is none */
};

#define ENVIRON_CKPT_EVERY "10m"
#define ENVIRON_CKPT_KEEP 3

/* Everything is borrowed for the call. */
struct environ_config {
    char *const *base;                   /* what the agent was started with; NULL: nothing */
    const struct generation *generation; /* NULL: it warms up first, and has no rank */
    wid worker;                          /* a member of the generation, if there is one */
    uint32_t slots;                      /* of this node */
    uint8_t role;                        /* enum role: of a worker that has no generation */
    const char *role_name;               /* NULL: "default" */
    const char *job;
    const char *node;        /* its name */
    const char *master_addr; /* NULL: rank 0's */
    uint16_t master_port;    /* 0: rank 0's */
    uint32_t restarts;       /* how often it has failed before */
    uint32_t max_restarts;
    uint32_t step_timeout_ms; /* 0: as it is in `base` */
    const char *numerics;     /* "strict" or "warn"; NULL: as it is in `base` */
    struct environ_ckpt ckpt;
    bool heal;          /* false: as it is in `base` */
    const char *socket; /* of the agent (local.h); NULL: none */
    uint64_t cookie;
};

/* Makes a NULL-terminated list in one piece, the caller's, to be given to free(). What `base` holds
 * of the variables that are set here is replaced; what it holds of a rank, when there is none, and
 * MUSTER_TOKEN are removed. MU_EINVAL: the worker is no member. MU_ENOMEM.
 *
 *   RANK, WORLD_SIZE              position in the generation, and how many there are
 *   LOCAL_RANK, LOCAL_WORLD_SIZE  … among those of the same node
 *   GROUP_RANK, GROUP_WORLD_SIZE  of the node among the nodes
 *   ROLE_RANK, ROLE_WORLD_SIZE    … among those of the same role; ROLE_NAME
 *   MASTER_ADDR, MASTER_PORT      rank 0's, unless given
 *   TORCHELASTIC_RESTART_COUNT, TORCHELASTIC_MAX_RESTARTS, TORCHELASTIC_RUN_ID,
 *   TORCHELASTIC_USE_AGENT_STORE=False
 *   OMP_NUM_THREADS               1 when unset and slots > 1
 *   TF_CONFIG                     left out, with a warning, if it is longer than exec takes
 *   MUSTER_JOB, MUSTER_NODE, MUSTER_SLOT, MUSTER_RUN, MUSTER_GENERATION (0: none), MUSTER_SOCKET,
 *   MUSTER_COOKIE (16 hex digits), MUSTER_STEP_TIMEOUT_MS,
 *   MUSTER_NUMERICS, MUSTER_CKPT_DIR, MUSTER_CKPT_EVERY, MUSTER_CKPT_KEEP, MUSTER_CKPT_KEEP_EVERY,
 *   MUSTER_CKPT_SHARED, MUSTER_CKPT_ZSTD (1, or not there), MUSTER_CKPT_MEMORY, MUSTER_HEAL (1) */
int environ_make(const struct environ_config *config, char ***env_out);

/* The value of TF_CONFIG: JSON text, the caller's, to be given to free(). The first chief is
 * "chief", ps are "ps", evaluators are in no cluster but have a task, all others are "worker".
 * MU_EINVAL: the worker is no member. MU_ENOMEM. */
int environ_tf_config(const struct generation *g, wid worker, char **text_out);

/* The value in a list as environ_make gives it; NULL if it is not there. */
const char *environ_get(char *const *env, const char *name);

#endif
