#include "ckpt/ahead.h"

#include "ckpt/file.h"

#include <errno.h>
#include <linux/aio_abi.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* One piece is being looked at while the other one comes. */
struct piece {
    uint8_t *data;
    uint64_t at;
    uint32_t n; /* 0: nothing was asked for */
    bool coming;
    int64_t result; /* bytes, or less than 0 */
    struct iocb call;
};

struct ahead {
    aio_context_t context;
    int fd; /* -1: none, or one that can't be read in this way */
    uint32_t looked_at;
    struct piece pieces[2];
};

/* ---- the kernel's side ---- */

static void begin(struct ahead *a, struct piece *p, uint64_t at, uint32_t n)
{
    struct iocb *calls[] = {&p->call};

    p->at = at;
    p->n = n;
    p->call = (struct iocb){.aio_lio_opcode = IOCB_CMD_PREAD,
                            .aio_fildes = (uint32_t)a->fd,
                            .aio_buf = (uint64_t)(uintptr_t)p->data,
                            .aio_nbytes = (n + FILE_PAGE - 1) / FILE_PAGE * FILE_PAGE,
                            .aio_offset = (int64_t)at};
    p->coming = syscall(SYS_io_submit, a->context, 1, calls) == 1;
    p->result = -1;
}

static void await(struct ahead *a, struct piece *p)
{
    while (p->coming) {
        struct io_event e;
        const long n = syscall(SYS_io_getevents, a->context, 1, 1, &e, NULL);

        if (n == 1) {
            p->result = e.res;
            p->coming = false;
        } else if (n < 0 && errno != EINTR) { /* Our own fault: what comes may come at any time. */
            mu_assert(!"what was begun can be waited for");
        }
    }
}

/* ---- who wants it ---- */

struct ahead *ahead_open(void)
{
    struct ahead *a = calloc(1, sizeof(*a));

    if (a == NULL) {
        return NULL;
    }
    a->fd = -1;
    for (int i = 0; i < 2; i++) {
        if (posix_memalign((void **)&a->pieces[i].data, FILE_PAGE, (size_t)CKPT_CHUNK) != 0) {
            a->pieces[i].data = NULL;
            ahead_close(a);
            return NULL;
        }
    }
    if (syscall(SYS_io_setup, 2, &a->context) != 0) {
        a->context = 0;
        ahead_close(a);
        return NULL;
    }
    return a;
}

void ahead_close(struct ahead *a)
{
    if (a == NULL) {
        return;
    }
    ahead_file(a, -1);
    if (a->context != 0) {
        (void)syscall(SYS_io_destroy, a->context);
    }
    free(a->pieces[0].data);
    free(a->pieces[1].data);
    free(a);
}

void ahead_file(struct ahead *a, int fd)
{
    if (a == NULL) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        await(a, &a->pieces[i]);
        a->pieces[i].n = 0;
    }
    a->fd = fd >= 0 && file_direct(fd, true) ? fd : -1;
}

/* The plain way is left, and says what is wrong. */
static int give_up(struct ahead *a)
{
    const int fd = a->fd;

    ahead_file(a, -1);
    (void)file_direct(fd, false);
    return MU_EAGAIN;
}

int ahead_read(struct ahead *a, uint64_t at, uint32_t n, uint64_t next_at, uint32_t next_n,
               const uint8_t **data_out)
{
    struct piece *p, *next;

    if (a == NULL || a->fd < 0) {
        return MU_EAGAIN;
    }
    p = &a->pieces[1 - a->looked_at];
    next = &a->pieces[a->looked_at];
    if (at % FILE_PAGE != 0 || n == 0 || n > CKPT_CHUNK) {
        return give_up(a);
    }
    await(a, p);
    if (p->n != n || p->at != at || p->result < 0) {
        begin(a, p, at, n);
        await(a, p);
    }
    if (p->result < (int64_t)n) {
        return give_up(a);
    }
    a->looked_at = 1 - a->looked_at;
    next->n = 0;
    if (next_n > 0 && next_at % FILE_PAGE == 0 && next_n <= CKPT_CHUNK) {
        begin(a, next, next_at, next_n);
    }
    *data_out = p->data;
    return MU_OK;
}
