#include "agent/output_state.h"

#include "base/env.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- open ---- */

static bool same_file(int a, int b)
{
    struct stat sa, sb;

    return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
           sa.st_ino == sb.st_ino;
}

static void on_room(void *data)
{
    struct output *o = data;

    for (struct stream *s = LIST_FIRST(&o->streams), *next; s != NULL; s = next) {
        next = LIST_NEXT(s, link);
        stream_resume(s);
    }
    output_check(o);
}

static int open_consoles(struct output *o, const int fds[2])
{
    static const char *const names[2] = {"stdout", "stderr"};
    const bool plain = env_text("NO_COLOR") != NULL;

    for (unsigned i = 0; i < 2; i++) {
        struct console *c = &o->consoles[i];
        int rc = MU_OK;

        c->lane = &o->lanes[i == 1 && same_file(fds[0], fds[1]) ? 0 : i];
        c->colour = !plain && isatty(fds[i]);
        c->target = target_fd(fds[i], names[i]);
        if (c->target == NULL) {
            return MU_ENOMEM;
        }
        if (c->lane->writer == NULL) {
            rc = writer_open(o->loop, on_room, o, &c->lane->writer);
        }
        if (rc != MU_OK) {
            free(c->target);
            c->target = NULL;
            return rc;
        }
    }
    return MU_OK;
}

static void close_writers(struct output *o)
{
    for (unsigned i = 0; i < 2; i++) {
        if (o->consoles[i].target != NULL) {
            writer_end(o->consoles[i].lane->writer, o->consoles[i].target);
        }
    }
    for (unsigned i = 0; i < 2; i++) {
        writer_close(o->lanes[i].writer);
    }
    writer_close(o->files);
}

int output_open(uv_loop_t *loop, const struct output_config *config, struct output **o_out)
{
    struct output *o = calloc(1, sizeof(*o));
    int rc = MU_ENOMEM;

    if (o == NULL) {
        return MU_ENOMEM;
    }
    o->loop = loop;
    o->prefix = config->prefix;
    o->news = config->news;
    o->data = config->data;
    if (config->log_dir != NULL) {
        if (asprintf(&o->root, "%s/%s/%s", config->log_dir, config->job, config->node) < 0) {
            o->root = NULL;
            goto err_memory;
        }
        rc = writer_open(loop, on_room, o, &o->files);
        if (rc != MU_OK) {
            goto err_memory;
        }
    }
    rc = open_consoles(o, config->fds);
    if (rc != MU_OK) {
        goto err_writers;
    }
    uv_timer_init(loop, &o->flush);
    o->flush.data = o;
    *o_out = o;
    return MU_OK;
err_writers:
    close_writers(o);
err_memory:
    free(o->root);
    free(o);
    return rc;
}

/* ---- a process ---- */

int output_start(struct output *o, const struct output_start *start, int fds_out[2])
{
    int ends[2][2] = {{-1, -1}, {-1, -1}};
    int rc = MU_OK;

    mu_assert(start->slot < SLOTS_MAX && !o->closing);
    for (unsigned i = 0; i < 2; i++) {
        if (pipe2(ends[i], O_CLOEXEC) != 0 || fcntl(ends[i][0], F_SETFL, O_NONBLOCK) != 0) {
            log_error("output", "could not make a pipe for slot %u: %s", start->slot,
                      strerror(errno));
            rc = MU_ELIMIT;
            goto err;
        }
    }
    o->slots[start->slot].start++;
    for (unsigned i = 0; i < 2; i++) {
        rc = stream_open(o, start, i, ends[i][0]);
        if (rc != MU_OK) {
            goto err;
        }
        ends[i][0] = -1;
    }
    fds_out[0] = ends[0][1];
    fds_out[1] = ends[1][1];
    return MU_OK;
err: /* A stream that was opened sees its end. */
    for (unsigned i = 0; i < 4; i++) {
        if (ends[i / 2][i % 2] >= 0) {
            close(ends[i / 2][i % 2]);
        }
    }
    return rc;
}

void output_set_rank(struct output *o, uint32_t slot, uint32_t rank)
{
    struct stream *s;

    LIST_FOREACH(s, &o->streams, link)
    {
        if (s->slot == slot && s->start == o->slots[slot].start) {
            s->rank = rank;
        }
    }
}

static bool is_written(const struct output *o, const struct slot_output *s)
{
    for (unsigned i = 0; i < 2; i++) {
        if (o->lanes[i].writer != NULL && !writer_is_done(o->lanes[i].writer, s->console_last[i])) {
            return false;
        }
    }
    return o->files == NULL || writer_is_done(o->files, s->file_last);
}

bool output_is_done(const struct output *o, uint32_t slot)
{
    mu_assert(slot < SLOTS_MAX);
    return o->slots[slot].streams_n == 0 && is_written(o, &o->slots[slot]);
}

uint32_t output_starts(const struct output *o, uint32_t slot)
{
    mu_assert(slot < SLOTS_MAX);
    return o->slots[slot].start;
}

bool output_start_is_done(const struct output *o, uint32_t slot, uint32_t start)
{
    const struct stream *s;

    mu_assert(slot < SLOTS_MAX);
    LIST_FOREACH(s, &o->streams, link)
    {
        if (s->slot == slot && s->start == start) {
            return false;
        }
    }
    return is_written(o, &o->slots[slot]);
}

/* ---- close ---- */

static void on_flush_closed(uv_handle_t *timer)
{
    struct output *o = timer->data;

    free(o->root);
    free(o);
}

static void finish(struct output *o)
{
    o->over = true;
    while (!LIST_EMPTY(&o->streams)) {
        stream_end(LIST_FIRST(&o->streams));
    }
    close_writers(o);
    uv_close((uv_handle_t *)&o->flush, on_flush_closed);
}

void output_check(struct output *o)
{
    if (!o->closing) {
        if (o->news != NULL) {
            o->news(o->data);
        }
        return;
    }
    if (o->over) {
        return;
    }
    for (uint32_t i = 0; i < SLOTS_MAX; i++) {
        if (!output_is_done(o, i)) {
            return;
        }
    }
    finish(o);
}

static void on_flush(uv_timer_t *timer)
{
    struct output *o = timer->data;

    if (!o->over) {
        finish(o);
    }
}

void output_close(struct output *o, uint32_t flush_ms)
{
    if (o == NULL || o->closing) {
        return;
    }
    o->closing = true;
    uv_timer_start(&o->flush, on_flush, flush_ms, 0);
    output_check(o);
}
