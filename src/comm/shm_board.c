#include "base/hook.h"
#include "comm/fence.h"
#include "comm/memfd.h"
#include "comm/shm.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct shm_board {
    pthread_mutex_t lock;
    struct board *board; /* NULL: not made yet */
    int fd;
    bool used[BOARD_LANES];
};

size_t shm_board_bytes(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return (sizeof(struct board) + page - 1) & ~(page - 1);
}

int shm_board_open(struct shm_board **board_out)
{
    struct shm_board *b = calloc(1, sizeof(*b));

    if (b == NULL) {
        return MU_ENOMEM;
    }
    pthread_mutex_init(&b->lock, NULL);
    b->fd = -1;
    *board_out = b;
    return MU_OK;
}

void shm_board_close(struct shm_board *b)
{
    if (b->board != NULL) {
        munmap(b->board, shm_board_bytes());
        close(b->fd);
    }
    pthread_mutex_destroy(&b->lock);
    free(b);
}

static int make(struct shm_board *b)
{
    void *memory;
    int rc = memfd_make("muster-board", shm_board_bytes(), &memory, &b->fd);

    if (rc != MU_OK) {
        return rc;
    }
    b->board = memory;
    b->board->magic = BOARD_MAGIC;
    b->board->bytes = sizeof(struct board);
    return MU_OK;
}

/* The lane's last peer may still look: what it was sent there does not count any more, and
 * `void_to` says so before anything is overwritten. */
static void lane_reset(struct board_lane *lane)
{
    HOOK();
    atomic_store(&lane->void_to, atomic_load(&lane->head));
    fence_release();
    atomic_store(&lane->sleeps_head, WAIT_AWAKE);
    atomic_store(&lane->sleeps_tail, WAIT_AWAKE);
    atomic_store(&lane->tail, 0);
}

int shm_board_take(struct shm_board *b, wid owner, struct shm_lane *lane_out)
{
    uint32_t i = 0;
    int rc = MU_OK;

    pthread_mutex_lock(&b->lock);
    while (i < BOARD_LANES && b->used[i]) {
        i++;
    }
    if (i == BOARD_LANES) {
        rc = MU_ELIMIT;
    } else if (b->board == NULL) {
        rc = make(b);
    }
    if (rc == MU_OK) {
        struct board_lane *lane = &b->board->lanes[i];

        b->board->owner = owner;
        b->used[i] = true;
        lane_reset(lane);
        *lane_out = (struct shm_lane){
            .lane = lane, .index = i, .start = atomic_load(&lane->head), .fd = b->fd};
    }
    pthread_mutex_unlock(&b->lock);
    return rc;
}

void shm_board_give(struct shm_board *b, uint32_t index)
{
    pthread_mutex_lock(&b->lock);
    mu_assert(b->used[index]);
    b->used[index] = false;
    pthread_mutex_unlock(&b->lock);
}
