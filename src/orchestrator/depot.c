/* Checkpoints that the orchestrator keeps: frames, beginning and end. */
#include "orchestrator/depot.h"

#include "core/text.h"
#include "orchestrator/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- words ---- */

bool depot_is_job(const char *job)
{
    return text_is_name(job, strlen(job)) && job[0] != '.';
}

void depot_answer(struct session *s, const struct msg_depot *m, uint64_t request, int status,
                  const char *fmt, ...)
{
    struct msg_depot_says says = {.op = m->op, .status = status, .item = m->item, .at = m->at};
    va_list args;

    va_start(args, fmt);
    text_vsay(says.text, sizeof(says.text), fmt, args);
    va_end(args);
    conn_say(s->conn, WIRE_DEPOT_SAYS, &says, 0, request);
}

void depot_wrong(struct session *s, const struct msg_depot *m, uint64_t request, const char *fmt,
                 ...)
{
    char what[TEXT_MAX_LEN];
    va_list args;

    va_start(args, fmt);
    vsnprintf(what, sizeof(what), fmt, args);
    va_end(args);
    log_warn("orchestrator", "%s, about checkpoints: %s: closed", conn_peer(s->conn), what);
    depot_answer(s, m, request, MU_EPROTO, "%s", what);
    session_end(s, 1000);
}

/* ---- frames ---- */

static void refuse_name(struct session *s, const struct msg_depot *m, uint64_t request,
                        struct depot_lane *lane)
{
    struct depot_task *t = depot_task_new(s, m, request);

    if (t != NULL) {
        depot_task_fail(t, lane, MU_EINVAL,
                        "'%s' can't be the name of a job with checkpoints: it takes 1 to %d "
                        "letters, digits and . _ -, and does not begin with a dot",
                        m->job, NAME_MAX_LEN - 1);
    }
}

void deposits_frame(struct session *s, const struct msg_depot *m, uint64_t request)
{
    struct deposits *d = s->o->deposits;
    const bool looks = m->op == DEPOT_LIST || m->op == DEPOT_READ;

    if (m->op == DEPOT_PUT || m->op == DEPOT_COMMIT) {
        upload_piece(s, m, request);
    } else if (!depot_is_job(m->job) && !(m->op == DEPOT_LIST && m->job[0] == '\0')) {
        refuse_name(s, m, request, looks ? &d->looks : &d->changes);
    } else if (m->op == DEPOT_LIST) {
        look_list(s, m, request);
    } else if (m->op == DEPOT_READ) {
        look_read(s, m, request);
    } else if (m->op == DEPOT_BEGIN) {
        upload_begin(s, m, request);
    } else {
        look_remove(s, m, request);
    }
}

void deposits_closed(struct session *s)
{
    struct deposits *d = s->o->deposits;
    struct upload *next;

    if (d == NULL) {
        return;
    }
    for (struct upload *u = d->uploads; u != NULL; u = next) {
        next = u->next;
        if (u->owner == s->number) {
            upload_end(u);
        }
    }
    if (s->depot_reads) {
        LIST_REMOVE(s, depot_link);
        s->depot_reads = false;
    }
}

uint64_t deposits_kept(const struct orchestrator *o)
{
    return o->deposits->kept;
}

/* ---- beginning and end ---- */

static void measure(struct depot_task *t)
{
    t->says.status = room_measure(t);
}

/* What is there from an earlier life. Nobody waits for it. */
static int count_first(struct deposits *d)
{
    struct depot_task *t = calloc(1, sizeof(*t));

    if (t == NULL) {
        return MU_ENOMEM;
    }
    t->d = d;
    t->session = NOBODY;
    t->run = measure;
    depot_task_start(t, &d->changes);
    return MU_OK;
}

int deposits_open(struct orchestrator *o, uint64_t quota)
{
    struct deposits *d = calloc(1, sizeof(*d));

    if (d == NULL) {
        return MU_ENOMEM;
    }
    d->o = o;
    d->loop = o->loop;
    d->quota = quota;
    snprintf(d->disk, sizeof(d->disk), "%s", o->data_dir);
    snprintf(d->dir, sizeof(d->dir), "%s/ckpt", o->data_dir);
    depot_lanes_init(d);
    LIST_INIT(&d->readers);
    uv_timer_init(o->loop, &d->timer);
    d->timer.data = d;
    o->deposits = d;
    return count_first(d);
}

void depot_free_if_over(struct deposits *d)
{
    if (d->o == NULL && d->timer_closed && d->works_n == 0 && d->ending_n == 0) {
        free(d);
    }
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct deposits *d = handle->data;

    d->timer_closed = true;
    depot_free_if_over(d);
}

/* Work that has begun goes on by itself: it needs nothing of the orchestrator's. */
void deposits_close(struct orchestrator *o)
{
    struct deposits *d = o->deposits;

    if (d == NULL) {
        return;
    }
    o->deposits = NULL;
    d->o = NULL;
    LIST_INIT(&d->readers); /* Sessions go without a word. */
    while (d->uploads != NULL) {
        upload_end(d->uploads);
    }
    depot_lanes_clear(d);
    depot_lane_pump(&d->changes, d);
    uv_close((uv_handle_t *)&d->timer, on_timer_closed);
}
