#include "agent/output_writer.h"

#include "base/log.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOM_MAX (512u << 10) /* bytes queued beyond which there is no room */

struct job {
    struct job *next;
    struct target *target;
    bool is_end; /* of the target, which it is a part of */
    size_t n;
    char *bytes;
};

struct target {
    int fd; /* -1: not yet opened */
    bool is_file;
    bool dead;      /* nothing will ever be written to it again */
    struct job end; /* So that an end needs no memory. */
    char name[];
};

/* Shared by the loop and the thread; freed by whoever leaves last. Under the lock but where noted.
 */
struct writer {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct job *first, **last;
    size_t queued;
    uint64_t put_n, done_n; /* jobs; put_n is the loop's alone */
    bool wanted;            /* somebody waits for room */
    bool closed;
    uint32_t users; /* the loop and the thread */
    bool reported;  /* the thread's alone: that a file can't be written */
    void (*room)(void *data);
    void *data;
    uv_async_t *async; /* its own memory: the loop closes it while the thread may be stuck */
};

/* ---- the thread ---- */

static void make_folders(char *path)
{
    for (char *at = strchr(path + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(path, 0777); /* What is wrong with it is said when the file can't be opened. */
        *at = '/';
    }
}

static void report(struct writer *w, struct target *t, const char *what)
{
    if (!t->is_file) {
        log_warn("output", "could not write to %s: %s; what the workers print there is dropped",
                 t->name, strerror(errno));
        t->dead = true;
    } else if (!w->reported) {
        w->reported = true;
        log_error("output",
                  "could not %s %s: %s; what the workers print is lost until that is mended, and "
                  "training goes on",
                  what, t->name, strerror(errno));
    }
}

static bool open_file(struct writer *w, struct target *t)
{
    if (t->fd >= 0 || !t->is_file) {
        return true;
    }
    make_folders(t->name);
    t->fd = open(t->name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (t->fd < 0) {
        report(w, t, "open");
    }
    return t->fd >= 0;
}

static void write_job(struct writer *w, const struct job *j)
{
    struct target *t = j->target;
    size_t at = 0;

    if (t->dead || !open_file(w, t)) {
        return;
    }
    while (at < j->n) {
        ssize_t n = write(t->fd, j->bytes + at, j->n - at);

        if (n >= 0) {
            at += (size_t)n;
        } else if (errno == EAGAIN) { /* Somebody who shares it does not like to wait. */
            struct pollfd p = {.fd = t->fd, .events = POLLOUT};

            poll(&p, 1, -1);
        } else if (errno != EINTR) {
            report(w, t, "write");
            return;
        }
    }
}

static void end_target(struct target *t)
{
    if (t->is_file && t->fd >= 0) {
        close(t->fd);
    }
    free(t);
}

static void drop(struct job *j)
{
    if (j->is_end) {
        end_target(j->target);
    } else {
        free(j);
    }
}

static void writer_free(struct writer *w)
{
    for (struct job *j = w->first, *next; j != NULL; j = next) {
        next = j->next;
        drop(j);
    }
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

/* With the lock held, which it gives back. */
static void leave(struct writer *w)
{
    bool last = --w->users == 0;

    pthread_mutex_unlock(&w->lock);
    if (last) {
        writer_free(w);
    }
}

static void *work(void *arg)
{
    struct writer *w = arg;

    pthread_mutex_lock(&w->lock);
    for (;;) {
        struct job *j = w->first;
        size_t n;

        if (w->closed) {
            break;
        }
        if (j == NULL) {
            pthread_cond_wait(&w->wake, &w->lock);
            continue;
        }
        w->first = j->next;
        if (w->first == NULL) {
            w->last = &w->first;
        }
        pthread_mutex_unlock(&w->lock);
        n = j->n;
        if (!j->is_end) {
            write_job(w, j);
        }
        drop(j);
        pthread_mutex_lock(&w->lock);
        w->queued -= n;
        w->done_n++;
        if (!w->closed && (w->first == NULL || (w->wanted && w->queued < ROOM_MAX))) {
            w->wanted = false;
            uv_async_send(w->async);
        }
    }
    leave(w);
    return NULL;
}

/* ---- the loop ---- */

static void on_async(uv_async_t *async)
{
    const struct writer *w = async->data;

    w->room(w->data);
}

static void free_handle(uv_handle_t *handle)
{
    free(handle);
}

int writer_open(uv_loop_t *loop, void (*room)(void *data), void *data, struct writer **w_out)
{
    struct writer *w = calloc(1, sizeof(*w));
    pthread_t thread;

    if (w == NULL) {
        return MU_ENOMEM;
    }
    w->async = calloc(1, sizeof(*w->async));
    if (w->async == NULL || uv_async_init(loop, w->async, on_async) != 0) {
        free(w->async);
        free(w);
        return MU_ENOMEM;
    }
    w->async->data = w;
    w->room = room;
    w->data = data;
    w->last = &w->first;
    w->users = 2;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    if (thread_start(&thread, work, w) != MU_OK) {
        log_error("output", "could not start a thread: are there too many?");
        uv_close((uv_handle_t *)w->async, free_handle);
        writer_free(w);
        return MU_ELIMIT;
    }
    pthread_detach(thread);
    *w_out = w;
    return MU_OK;
}

static struct target *target_make(int fd, bool is_file, const char *name)
{
    size_t n = strlen(name) + 1;
    struct target *t = calloc(1, sizeof(*t) + n);

    if (t != NULL) {
        t->fd = fd;
        t->is_file = is_file;
        memcpy(t->name, name, n);
    }
    return t;
}

struct target *target_fd(int fd, const char *name)
{
    return target_make(fd, false, name);
}

struct target *target_file(const char *path)
{
    return target_make(-1, true, path);
}

bool writer_has_room(struct writer *w)
{
    bool room;

    pthread_mutex_lock(&w->lock);
    room = w->queued < ROOM_MAX;
    w->wanted = w->wanted || !room;
    pthread_mutex_unlock(&w->lock);
    return room;
}

struct job *writer_job(size_t n)
{
    struct job *j = malloc(sizeof(*j) + n);

    if (j != NULL) {
        *j = (struct job){.bytes = (char *)(j + 1)};
    }
    return j;
}

char *writer_job_bytes(struct job *j)
{
    return j->bytes;
}

static void put(struct writer *w, struct job *j)
{
    pthread_mutex_lock(&w->lock);
    *w->last = j;
    w->last = &j->next;
    w->queued += j->n;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
}

uint64_t writer_put(struct writer *w, struct target *t, struct job *j, size_t n)
{
    j->target = t;
    j->n = n;
    put(w, j);
    return ++w->put_n;
}

void writer_end(struct writer *w, struct target *t)
{
    t->end.target = t;
    t->end.is_end = true;
    w->put_n++;
    put(w, &t->end);
}

uint64_t writer_last(const struct writer *w)
{
    return w->put_n;
}

bool writer_is_done(struct writer *w, uint64_t number)
{
    bool done;

    pthread_mutex_lock(&w->lock);
    done = w->done_n >= number;
    pthread_mutex_unlock(&w->lock);
    return done;
}

void writer_close(struct writer *w)
{
    if (w == NULL) {
        return;
    }
    uv_close((uv_handle_t *)w->async, free_handle);
    pthread_mutex_lock(&w->lock);
    w->closed = true;
    pthread_cond_signal(&w->wake);
    leave(w);
}
