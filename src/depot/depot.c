/* Asks and answers. A line is given up whenever what comes over it can't be told apart any more: it
 * broke, an answer is wrong, or somebody stopped waiting for one. */
#include "depot/talk.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SLICE_MS 50u /* between two looks at `cancel` */
#define PAUSE_MIN_MS 10u
#define PAUSE_MAX_MS 2000u

/* ---- the line ---- */

int depot_open(const struct depot_line *line, struct depot **d_out)
{
    struct depot *d = calloc(1, sizeof(*d));

    if (d == NULL) {
        return MU_ENOMEM;
    }
    d->line = *line;
    *d_out = d;
    return MU_OK;
}

void depot_close(struct depot *d)
{
    if (d != NULL) {
        d->line.close(d->line.arg);
        free(d);
    }
}

void depot_cancel(struct depot *d, const _Atomic bool *cancel)
{
    d->cancel = cancel;
}

int talk_cancelled(const struct depot *d, struct ckpt_why *why)
{
    return d->cancel != NULL && *d->cancel ? ckpt_say(why, MU_EDONE, "it was called off") : MU_OK;
}

void talk_hang_up(struct depot *d)
{
    if (d->up) {
        d->line.close(d->line.arg);
    }
    d->up = false;
    d->unanswered = 0;
}

int talk_fault(struct depot *d, struct ckpt_why *why, const char *fmt, ...)
{
    struct ckpt_why own;
    va_list args;

    va_start(args, fmt);
    vsnprintf(own.text, sizeof(own.text), fmt, args);
    va_end(args);
    talk_hang_up(d);
    return ckpt_say(why, MU_EPROTO,
                    "the orchestrator's answer about checkpoints is wrong: %.300s. Is it of "
                    "another version?",
                    own.text);
}

/* After a function of the line that has failed. */
static int failed(struct depot *d, int rc)
{
    d->again = rc == MU_EIO || rc == MU_ETIMEDOUT;
    talk_hang_up(d);
    return d->again ? MU_EIO : rc;
}

static int connect_line(struct depot *d, struct ckpt_why *why)
{
    int rc = talk_cancelled(d, why);

    if (rc != MU_OK || d->up) {
        return rc;
    }
    rc = d->line.open(d->line.arg, why);
    if (rc != MU_OK) {
        return failed(d, rc);
    }
    d->up = true;
    d->life++;
    return MU_OK;
}

/* ---- again and again ---- */

void talk_progress(struct depot *d)
{
    d->down_ms = 0;
    d->pause_ms = PAUSE_MIN_MS;
}

/* MU_EDONE: it was called off meanwhile. */
static int sleep_for(const struct depot *d, uint64_t ms, struct ckpt_why *why)
{
    const uint64_t end_ms = clock_ms() + ms;
    uint64_t at_ms;
    int rc;

    while ((rc = talk_cancelled(d, why)) == MU_OK && (at_ms = clock_ms()) < end_ms) {
        const struct timespec t = {.tv_nsec = (long)MIN(end_ms - at_ms, SLICE_MS) * 1000000};

        (void)nanosleep(&t, NULL);
    }
    return rc;
}

/* After a try that gave rc: MU_OK for another, or why not. */
static int wait_for_next(struct depot *d, int rc, struct ckpt_why *why)
{
    const uint64_t at_ms = clock_ms();
    struct ckpt_why last;
    uint64_t pause_ms;

    if (d->down_ms == 0) {
        d->down_ms = at_ms;
    }
    if (d->line.patience_ms == 0) {
        return rc;
    }
    if (at_ms - d->down_ms >= d->line.patience_ms) {
        last = *why;
        return ckpt_say(why, rc, "%.*s; tried again for %" PRIu32 " s", (int)sizeof(last.text) - 64,
                        last.text, d->line.patience_ms / 1000);
    }
    pause_ms = MIN(d->pause_ms, d->down_ms + d->line.patience_ms - at_ms);
    d->pause_ms = MIN(2 * d->pause_ms, PAUSE_MAX_MS);
    return sleep_for(d, pause_ms, why);
}

int talk_run(struct depot *d, const void *who, int (*try)(void *arg, struct ckpt_why *why),
             void *arg, struct ckpt_why *why)
{
    struct ckpt_why own = {{0}};
    int rc;

    if (d->who != who && d->unanswered > 0) {
        talk_hang_up(d);
    }
    d->who = who;
    talk_progress(d);
    for (;;) {
        d->again = false;
        rc = connect_line(d, &own);
        rc = rc == MU_OK ? try(arg, &own) : rc;
        if (rc == MU_OK) {
            return MU_OK;
        }
        if (d->again && rc != MU_EDONE) {
            rc = wait_for_next(d, rc, &own);
            if (rc == MU_OK) {
                continue;
            }
        }
        if (d->unanswered > 0) { /* Nobody waits for them now. */
            talk_hang_up(d);
        }
        return ckpt_say(why, rc, "%s", own.text);
    }
}

/* ---- requests ---- */

uint64_t talk_number(struct depot *d)
{
    d->unanswered++;
    return ++d->request;
}

int talk_say(struct depot *d, const struct msg_depot *m, uint64_t request, struct ckpt_why *why)
{
    int rc = talk_cancelled(d, why);

    if (rc == MU_OK) {
        rc = d->line.say(d->line.arg, m, request, why);
        rc = rc == MU_OK ? MU_OK : failed(d, rc);
    }
    return rc;
}

int talk_say_all(struct depot *d, struct msg_depot *m, const void *data, size_t n, uint64_t request,
                 struct ckpt_why *why)
{
    int rc = MU_OK;

    m->total = n;
    for (size_t at = 0; rc == MU_OK && at < n; at += m->data_n) {
        m->at = at;
        m->data = (uint8_t *)(uintptr_t)data + at;
        m->data_n = (uint32_t)MIN(n - at, DEPOT_DATA_MAX);
        rc = talk_say(d, m, request, why);
    }
    return rc;
}

int talk_name(struct msg_depot *m, const char *job, uint64_t step, struct ckpt_why *why)
{
    if (strlen(job) >= sizeof(m->job)) {
        return ckpt_say(why, MU_EINVAL, "\"%.64s…\" is too long for the name of a job", job);
    }
    strcpy(m->job, job);
    m->step = step;
    return MU_OK;
}

/* ---- answers ---- */

static int next(struct depot *d, uint32_t wait_ms, uint64_t *request_out,
                const struct msg_depot_says **m_out, struct ckpt_why *why)
{
    const uint64_t end_ms = clock_ms() + wait_ms;

    for (;;) {
        const uint64_t at_ms = clock_ms();
        int rc = talk_cancelled(d, why);

        if (rc != MU_OK) {
            return rc;
        }
        if (at_ms >= end_ms) {
            ckpt_say(why, MU_EIO, "the orchestrator has not answered for %" PRIu32 " s",
                     wait_ms / 1000);
            return failed(d, MU_EIO);
        }
        rc = d->line.next(d->line.arg, (uint32_t)MIN(end_ms - at_ms, SLICE_MS), request_out, m_out,
                          why);
        if (rc == MU_OK) {
            return MU_OK;
        }
        if (rc != MU_ETIMEDOUT) {
            return failed(d, rc);
        }
    }
}

static int status_of(struct depot *d, const struct msg_depot_says *m, struct ckpt_why *why)
{
    const int status = m->status;

    if (status > 0) {
        return talk_fault(d, why, "its status is %d", status);
    }
    if (status == MU_OK) {
        return MU_OK;
    }
    ckpt_say(why, status, "%.*s", (int)sizeof(m->text),
             m->text[0] != '\0' ? m->text : mu_strerror(status));
    if (status == MU_EAGAIN) { /* Others may be on their way: they would be taken for new ones. */
        d->again = true;
        talk_hang_up(d);
    }
    return status;
}

int talk_answer(struct depot *d, enum depot_op op, uint64_t request, uint32_t wait_ms,
                const struct msg_depot_says **m_out, struct ckpt_why *why)
{
    const struct msg_depot_says *m;
    uint64_t number;
    int rc = next(d, wait_ms, &number, &m, why);

    if (rc != MU_OK) {
        return rc;
    }
    if (number != request) {
        return talk_fault(d, why, "it is to request %" PRIu64 ", and %" PRIu64 " was the next",
                          number, request);
    }
    if (m->op != op) {
        return talk_fault(d, why, "it is to another question (%d, not %d)", m->op, op);
    }
    d->unanswered--;
    *m_out = m;
    return status_of(d, m, why);
}

int talk_ask(struct depot *d, struct msg_depot *m, uint32_t wait_ms,
             const struct msg_depot_says **m_out, struct ckpt_why *why)
{
    const uint64_t request = talk_number(d);
    int rc = talk_say(d, m, request, why);

    return rc == MU_OK ? talk_answer(d, (enum depot_op)m->op, request, wait_ms, m_out, why) : rc;
}
