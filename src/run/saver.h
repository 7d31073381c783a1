/* Saving, from inside: what is set up, and the thread that writes a copy while training goes on.
 *
 *   save_config.c  what the environment and the caller say
 *   saver.c        the thread, and the copy it has
 *   train_save.c   when, and the copying; train_base.c: what a run starts from */
#ifndef RUN_SAVER_H
#define RUN_SAVER_H

#include "run/depot_line.h"

#include <pthread.h>
#include <stdatomic.h>

struct save_config {
    char dir[CKPT_PATH_MAX]; /* "": nothing is saved */
    uint64_t every_steps;    /* 0: by the clock … */
    uint64_t every_ms;       /* … so often; 0: never */
    uint64_t keep_every;
    uint32_t keep;
    bool shared, zstd;
    bool memory; /* dir is no disk's: each step goes there, and waits for the one before */
    bool depot;  /* dir is SAVE_DEPOT: the orchestrator keeps them, rank 0 puts them there */
};

#define SAVE_DEPOT "orchestrator:"

/* MUSTER_CKPT_DIR and its like; dir, steps and ms (NULL, 0, negative: not said) are the caller's
 * and come first. MU_EINVAL; says why. */
int save_config_read(struct save_config *c, const char *dir, uint64_t steps, int64_t ms);
/* MUSTER_CKPT_MEMORY: a folder in memory, for the newest state. */
int save_config_memory(struct save_config *c);

/* What is to be written: a shard of the state as it was after a step. */
struct save_copy {
    struct ckpt_target target;
    char tag[CKPT_TAG_MAX];
    uint32_t shard;
    struct ckpt_mark mark;
    struct ckpt_part *parts;
    uint32_t parts_n;
    uint8_t *data;
    size_t cap;
};

struct saver {
    struct save_config config;
    char job[MU_NAME_MAX];
    /* A checkpoint is there. From the thread. NULL: nobody wants to know. */
    void (*on_saved)(void *arg, uint64_t step);
    void *arg;
    const struct depot_place *place; /* for the orchestrator's; borrowed until close */
    uint32_t mark;                   /* of the generation that has reduced the step */
    uint32_t writer, writers_n; /* this worker's place among those who write the step's state */

    pthread_mutex_t lock;
    pthread_cond_t changed; /* on the monotonic clock */
    pthread_t thread;
    bool open, has_thread, busy, stop;
    bool telling;             /* what was written is told; the next can be taken */
    uint64_t kept;            /* the last step that this worker has written its part of */
    size_t prepare;           /* bytes that it makes room for, while busy; 0: it writes */
    uint64_t room_generation; /* for whose share there is room */
    _Atomic bool cancel;
    _Atomic bool alone;    /* somebody was lost: who is missing will not come */
    struct save_copy copy; /* the thread's while busy, the caller's otherwise */
};

/* MU_ENOMEM. Off if config.dir is "". */
int saver_open(struct saver *s);
/* Waits for what is under way, but for no longer than wait_ms; then gives it up. */
void saver_close(struct saver *s, uint64_t wait_ms);

/* Gives up what is being written, and waits until that is done. */
void saver_drop(struct saver *s);

/* False: the last one is still being written, and it does not wait for that. Otherwise `copy` is
 * the caller's until saver_go(). Who waits finds that the last one has been told of, too. */
bool saver_take(struct saver *s, bool wait);
void saver_go(struct saver *s);

/* Makes room for so many bytes, in the thread; saver_room(): now. MU_ENOMEM. */
void saver_prepare(struct saver *s, size_t bytes);
int saver_room(struct saver *s, size_t bytes);

#endif
