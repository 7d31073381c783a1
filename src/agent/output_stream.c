/* From a pipe to lines on the console and bytes in a file. */
#include "agent/output_state.h"

#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READS_PER_TURN 4 /* Then the loop sees to others. */
#define TAG_MAX 32

/* ---- the console ---- */

/* "[3] ", in the rank's colour on a terminal. */
static size_t make_tag(const struct stream *s, char tag[TAG_MAX])
{
    static const int colours[] = {36, 32, 33, 35, 34, 96, 92, 93, 95, 94};
    char name[16];
    int n;

    if (!s->output->prefix) {
        return 0;
    }
    if (s->rank == OUTPUT_NO_RANK) {
        snprintf(name, sizeof(name), "[s%u]", s->slot);
    } else {
        snprintf(name, sizeof(name), "[%u]", s->rank);
    }
    if (s->console->colour) {
        unsigned c = (s->rank == OUTPUT_NO_RANK ? s->slot : s->rank) % ARRAY_LEN(colours);

        n = snprintf(tag, TAG_MAX, "\033[%dm%s\033[0m ", colours[c], name);
    } else {
        n = snprintf(tag, TAG_MAX, "%s ", name);
    }
    return (size_t)n;
}

static size_t count_lines(const char *bytes, size_t n)
{
    size_t lines = 0;

    for (const char *at = bytes, *end = bytes + n; at < end; lines++) {
        at = memchr(at, '\n', (size_t)(end - at));
        if (at == NULL) {
            return lines + 1;
        }
        at++;
    }
    return lines;
}

static size_t put_lines(char *to, const char *bytes, size_t n, const char *tag, size_t tag_n,
                        bool goes_on)
{
    char *start = to;

    for (const char *at = bytes, *end = bytes + n; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t line_n = stop != NULL ? (size_t)(stop - at) + 1 : (size_t)(end - at);

        if (!goes_on) {
            memcpy(to, tag, tag_n);
            to += tag_n;
        }
        goes_on = false;
        memcpy(to, at, line_n);
        to += line_n;
        at += line_n;
    }
    return (size_t)(to - start);
}

static void put_console(struct stream *s, struct job *j, size_t n)
{
    struct output *o = s->output;
    struct lane *lane = s->console->lane;

    o->slots[s->slot].console_last[lane - o->lanes] =
        writer_put(lane->writer, s->console->target, j, n);
}

/* Whoever else has begun a line here has it ended before ours begins. With no prefix nothing is
 * added: then the console gets what was written. */
static void emit(struct stream *s, size_t n)
{
    struct lane *lane = s->console->lane;
    bool prefix = s->output->prefix, goes_on = lane->open == s;
    char tag[TAG_MAX];
    size_t tag_n = make_tag(s, tag), used = 0;
    struct job *j;

    if (n == 0) {
        return;
    }
    j = writer_job(1 + n + tag_n * count_lines(s->bytes, n));
    if (j != NULL) {
        if (prefix && lane->open != NULL && !goes_on) {
            writer_job_bytes(j)[used++] = '\n';
        }
        used += put_lines(writer_job_bytes(j) + used, s->bytes, n, tag, tag_n, goes_on);
        put_console(s, j, used);
        lane->open = s->bytes[n - 1] == '\n' ? NULL : s;
    }
    s->n -= n;
    memmove(s->bytes, s->bytes + n, s->n);
}

/* The last line ends with the stream, whether it says so or not. */
static void end_line(struct stream *s)
{
    struct lane *lane = s->console->lane;
    struct job *j;

    emit(s, s->n);
    if (lane->open != s) {
        return;
    }
    lane->open = NULL;
    if (s->output->prefix && (j = writer_job(1)) != NULL) {
        writer_job_bytes(j)[0] = '\n';
        put_console(s, j, 1);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct stream *s = timer->data;

    emit(s, s->n);
}

static void take_lines(struct stream *s)
{
    const char *last = memrchr(s->bytes, '\n', s->n);

    if (last != NULL) {
        emit(s, (size_t)(last - s->bytes) + 1);
    } else if (s->n == STREAM_BYTES) {
        emit(s, s->n);
    }
    if (s->n == 0) {
        uv_timer_stop(&s->timer);
    } else if (!uv_is_active((uv_handle_t *)&s->timer)) {
        uv_timer_start(&s->timer, on_timer, STREAM_PARTIAL_MS, 0);
    }
}

/* ---- the file ---- */

static void put_file(struct stream *s, size_t from, size_t n)
{
    struct job *j = writer_job(n);

    if (j != NULL) {
        memcpy(writer_job_bytes(j), s->bytes + from, n);
        s->output->slots[s->slot].file_last = writer_put(s->output->files, s->file, j, n);
    }
}

/* ---- the pipe ---- */

static bool has_room(struct stream *s)
{
    bool console = s->console == NULL || writer_has_room(s->console->lane->writer);
    bool file = s->file == NULL || writer_has_room(s->output->files);

    return console && file;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct stream *s = poll->data;

    for (int turn = 0; turn < READS_PER_TURN; turn++) {
        ssize_t n;

        if (!has_room(s)) {
            s->paused = true;
            uv_poll_stop(&s->poll);
            return;
        }
        n = read(s->fd, s->bytes + s->n, STREAM_BYTES - s->n);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (n <= 0) {
            stream_end(s);
            return;
        }
        if (s->file != NULL) {
            put_file(s, s->n, (size_t)n);
        }
        if (s->console != NULL) {
            s->n += (size_t)n;
            take_lines(s);
        }
    }
}

void stream_resume(struct stream *s)
{
    if (s->paused && !s->ended && has_room(s)) {
        s->paused = false;
        uv_poll_start(&s->poll, UV_READABLE, on_readable);
    }
}

static void on_closed(uv_handle_t *handle)
{
    struct stream *s = handle->data;

    if (--s->handles_n == 0) {
        free(s);
    }
}

void stream_end(struct stream *s)
{
    struct output *o = s->output;

    if (s->ended) {
        return;
    }
    s->ended = true;
    if (s->console != NULL) {
        end_line(s);
    }
    if (s->file != NULL) {
        writer_end(o->files, s->file);
        o->slots[s->slot].file_last = writer_last(o->files);
    }
    LIST_REMOVE(s, link);
    o->slots[s->slot].streams_n--;
    uv_close((uv_handle_t *)&s->poll, on_closed);
    uv_close((uv_handle_t *)&s->timer, on_closed);
    close(s->fd);
    output_check(o);
}

/* DIR/<job>/<node>/attempt_<generation>/<rank>/stdout.log; NULL: out of memory. */
static struct target *file_of(const struct output *o, const struct output_start *start,
                              unsigned which)
{
    const char *name = which == 0 ? "stdout" : "stderr";
    bool ranked = start->rank != OUTPUT_NO_RANK;
    struct target *t;
    char *path;

    if (asprintf(&path, "%s/attempt_%" PRIu64 "/%s%u/%s.log", o->root, start->generation,
                 ranked ? "" : "slot_", ranked ? start->rank : start->slot, name) < 0) {
        return NULL;
    }
    t = target_file(path);
    free(path);
    return t;
}

static void choose(struct stream *s, const struct output_start *start, unsigned which)
{
    struct output *o = s->output;
    uint8_t to = start->to[which];

    if (to != STREAM_CONSOLE && o->root == NULL) {
        if (!o->told_no_dir) {
            o->told_no_dir = true;
            log_warn("output", "there is no directory for the workers' output, so it goes to the "
                               "console; give one with --log-dir");
        }
        to = STREAM_CONSOLE;
    }
    if (to != STREAM_FILE) {
        s->console = &o->consoles[which];
    }
    if (to != STREAM_CONSOLE) {
        s->file = file_of(o, start, which);
        if (s->file != NULL) {
            put_file(s, 0, 0); /* A file that is empty says more than none. */
        }
    }
}

int stream_open(struct output *o, const struct output_start *start, unsigned which, int fd)
{
    struct stream *s = malloc(sizeof(*s)); /* Its bytes need not be touched. */

    if (s == NULL) {
        return MU_ENOMEM;
    }
    memset(s, 0, offsetof(struct stream, bytes));
    if (uv_poll_init(o->loop, &s->poll, fd) != 0) {
        free(s);
        return MU_ENOMEM;
    }
    uv_timer_init(o->loop, &s->timer);
    s->poll.data = s->timer.data = s;
    s->handles_n = 2;
    s->output = o;
    s->fd = fd;
    s->slot = start->slot;
    s->rank = start->rank;
    s->start = o->slots[s->slot].start;
    choose(s, start, which);
    LIST_INSERT_HEAD(&o->streams, s, link);
    o->slots[s->slot].streams_n++;
    uv_poll_start(&s->poll, UV_READABLE, on_readable);
    return MU_OK;
}
