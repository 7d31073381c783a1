/* Uploads. Of one job there is one: whoever begins takes over, and what the one before has sent is
 * taken up if it is the same. */
#include "core/text.h"
#include "orchestrator/depot.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARN_EVERY_MS 1000

/* Of a manifest: more than its chunks and parts can take. */
#define TEXT_BASE_MAX ((uint64_t)1 << 20)
#define TEXT_CHUNK_MAX 96

static struct upload *find(const struct deposits *d, const char *job)
{
    struct upload *u = d->uploads;

    while (u != NULL && strcmp(u->job, job) != 0) {
        u = u->next;
    }
    return u;
}

static void refused(struct depot_task *t)
{
    struct orchestrator *o = t->d->o;

    o->counts.ckpt_refused++;
    if (o->now_ms >= t->d->warned_ms + WARN_EVERY_MS || t->d->warned_ms == 0) {
        t->d->warned_ms = o->now_ms;
        log_warn("orchestrator", "job '%s': checkpoint of step %" PRIu64 " refused: %.400s",
                 t->ask.job, t->ask.step, t->why.text);
    }
}

void upload_stale(struct depot_task *t)
{
    t->says.status = MU_ESTALE;
    snprintf(t->why.text, sizeof(t->why.text),
             "the checkpoint of step %" PRIu64
             " of job '%s' is not being put any more: it has failed, or another was begun",
             t->ask.step, t->ask.job);
}

/* ---- the end of one ---- */

static void run_end(struct depot_task *t)
{
    ckpt_intake_close(t->upload->intake);
}

void upload_end(struct upload *u)
{
    struct deposits *d = u->d;
    struct upload **at = &d->uploads;

    if (u->dead) {
        return;
    }
    while (*at != u) {
        at = &(*at)->next;
    }
    *at = u->next;
    d->uploads_n--;
    d->ending_n++;
    u->dead = true;
    if (u->building != NULL) {
        free(u->building->data);
        free(u->building);
        u->building = NULL;
    }
    depot_task_start(&u->end, &d->changes);
}

/* Nobody waits for those who have begun and say nothing more. True: there were some. What they have
 * sent can be forgotten now. */
static bool end_idle(struct deposits *d, const struct upload *except)
{
    const uint64_t idle_ms = (uint64_t)UPLOAD_IDLE_LEASES * d->o->config.lease_ms;
    struct upload *next;
    bool any = false;

    driver_time(d->o);
    for (struct upload *u = d->uploads; u != NULL; u = next) {
        next = u->next;
        if (u != except && u->begun && !u->committing && u->chunks_n == 0 &&
            d->o->now_ms >= u->heard_ms + idle_ms) {
            upload_end(u);
            any = true;
        }
    }
    return any;
}

/* ---- begin ---- */

static void run_begin(struct depot_task *t)
{
    struct upload *u = t->upload;
    int rc = room_make(t);

    if (rc == MU_OK) {
        rc = ckpt_intake_open(t->d->dir, u->job, u->step, u->bytes, &u->intake, &t->why);
    }
    if (rc == MU_OK) {
        t->says.item = ckpt_intake_has(u->intake, t->says.sum);
    }
    t->says.status = rc;
}

static bool begin_done(struct depot_task *t)
{
    struct upload *u = t->upload;

    if (t->says.status == MU_ELIMIT && !t->alone && !u->dead &&
        (end_idle(t->d, u) || t->left > 0)) {
        t->alone = true; /* What broke off may go; but nothing that is about to be taken up. */
        depot_task_again(t);
        return false;
    }
    if (t->says.status == MU_ELIMIT) {
        refused(t);
    }
    if (t->says.status == MU_OK && u->dead) {
        upload_stale(t);
    } else if (t->says.status == MU_OK) {
        u->begun = true;
        u->received = MIN(t->says.item * CKPT_CHUNK, u->bytes); /* taken up from before */
        u->heard_ms = t->d->o->now_ms;
    } else {
        upload_end(u);
    }
    return true;
}

static struct upload *upload_new(struct session *s, const struct msg_depot *m)
{
    struct deposits *d = s->o->deposits;
    struct upload *u = calloc(1, sizeof(*u));

    if (u == NULL) {
        return NULL;
    }
    u->d = d;
    u->owner = s->number;
    u->step = m->step;
    u->bytes = m->total;
    memcpy(u->job, m->job, sizeof(u->job));
    u->end.d = d;
    u->end.upload = u;
    u->end.session = NOBODY;
    u->end.run = run_end;
    memcpy(u->end.ask.job, m->job, sizeof(u->end.ask.job));
    u->next = d->uploads;
    d->uploads = u;
    d->uploads_n++;
    return u;
}

void upload_begin(struct session *s, const struct msg_depot *m, uint64_t request)
{
    struct deposits *d = s->o->deposits;
    struct depot_task *t = depot_task_new(s, m, request);
    struct upload *before;

    if (t == NULL) {
        return;
    }
    before = find(d, m->job);
    if (before != NULL) {
        upload_end(before);
    }
    if (m->total > CKPT_CHUNKS_MAX * CKPT_CHUNK) {
        depot_task_fail(t, &d->changes, MU_EINVAL,
                        "%" PRIu64 " bytes are too many for a checkpoint", m->total);
        return;
    }
    if (d->uploads_n >= UPLOADS_MAX) {
        end_idle(d, NULL);
    }
    if (d->uploads_n >= UPLOADS_MAX || d->ending_n >= UPLOADS_MAX) {
        depot_task_fail(t, &d->changes, MU_EAGAIN,
                        "%d checkpoints are being put to the orchestrator, and that is the most at "
                        "a time; try again in a moment",
                        UPLOADS_MAX);
        return;
    }
    t->upload = upload_new(s, m);
    if (t->upload == NULL) {
        depot_task_fail(t, &d->changes, MU_ENOMEM,
                        "the orchestrator has no memory for a checkpoint");
        return;
    }
    t->run = run_begin;
    t->done = begin_done;
    depot_task_start(t, &d->changes);
}

/* ---- a chunk, or the manifest, is whole ---- */

static void run_put(struct depot_task *t)
{
    int rc = t->d->quota > 0 ? room_make(t) : room_on_disk(t->d, &t->why);

    if (rc == MU_OK) {
        rc = ckpt_intake_put(t->upload->intake, t->ask.item, t->data, (uint32_t)t->ask.total,
                             t->ask.sum, &t->why);
    }
    t->says.status = rc;
    t->says.item = t->ask.item;
}

static bool put_done(struct depot_task *t)
{
    t->upload->chunks_n--;
    if (t->says.status == MU_OK) {
        t->d->o->counts.ckpt_received += t->ask.total;
        return true;
    }
    if (t->says.status == MU_ELIMIT) {
        refused(t);
    }
    upload_end(t->upload);
    return true;
}

static void run_commit(struct depot_task *t)
{
    int rc =
        ckpt_intake_commit(t->upload->intake, (const char *)t->data, (size_t)t->ask.total, &t->why);

    if (rc == MU_OK && t->ask.keep > 0) { /* It is safe: what can't go stays, and is told. */
        (void)room_prune(t, t->ask.keep, &t->why);
    }
    if (rc == MU_OK) {
        (void)room_measure(t);
    }
    t->says.status = rc;
}

static bool commit_done(struct depot_task *t)
{
    char kept[TEXT_BYTES_MAX], bytes[TEXT_BYTES_MAX];

    if (t->says.status == MU_OK) {
        log_write(driver_info(t->d->o), "orchestrator",
                  "job '%s': checkpoint of step %" PRIu64 " taken in, %s; %s are kept in all",
                  t->ask.job, t->ask.step, text_bytes(t->upload->bytes, bytes),
                  text_bytes(t->kept, kept));
        if (t->why.text[0] != '\0') {
            log_warn("orchestrator", "job '%s': older checkpoints stay: %.400s", t->ask.job,
                     t->why.text);
        }
    } else {
        log_warn("orchestrator", "job '%s': checkpoint of step %" PRIu64 " not taken in: %.400s",
                 t->ask.job, t->ask.step, t->why.text);
    }
    upload_end(t->upload);
    return true;
}

static void built(struct upload *u)
{
    struct depot_task *t = u->building;

    u->building = NULL;
    t->upload = u;
    if (t->ask.op == DEPOT_PUT) {
        u->chunks_n++;
        u->received = MIN(u->received + t->ask.total, u->bytes);
        t->run = run_put;
        t->done = put_done;
    } else {
        u->committing = true;
        t->run = run_commit;
        t->done = commit_done;
    }
    depot_task_start(t, &u->d->changes);
}

/* ---- pieces ---- */

static bool is_last(const struct msg_depot *m)
{
    return m->at >= m->total || m->data_n >= m->total - m->at;
}

/* It puts nothing here, or not any more. One answer for all pieces, in its turn. */
static void nothing_begun(struct session *s, const struct msg_depot *m, uint64_t request)
{
    struct depot_task *t = is_last(m) ? depot_task_new(s, m, request) : NULL;

    if (t != NULL) {
        depot_task_fail(t, &s->o->deposits->changes, MU_ESTALE,
                        "no checkpoint of step %" PRIu64
                        " of job '%s' is being put over this connection: begin one; if one was "
                        "begun, it has failed, or another began",
                        m->step, m->job);
    }
}

static uint64_t longest(const struct upload *u, const struct msg_depot *m)
{
    const uint64_t text = TEXT_BASE_MAX + (uint64_t)ckpt_chunks(u->bytes) * TEXT_CHUNK_MAX;

    return m->op == DEPOT_PUT ? CKPT_CHUNK : MIN(text, CKPT_MANIFEST_MAX);
}

/* False: the session is gone. */
static bool start_building(struct upload *u, struct session *s, const struct msg_depot *m,
                           uint64_t request)
{
    struct depot_task *t;

    if (m->total == 0 || m->total > longest(u, m)) {
        depot_wrong(s, m, request, "%" PRIu64 " bytes, where %" PRIu64 " are the most", m->total,
                    longest(u, m));
        return false;
    }
    if (m->op == DEPOT_PUT && u->chunks_n >= CHUNKS_MAX) {
        depot_wrong(s, m, request, "more than %d chunks at once: wait for answers", CHUNKS_MAX);
        return false;
    }
    t = depot_task_new(s, m, request);
    if (t == NULL) {
        return false;
    }
    t->data = malloc((size_t)m->total);
    if (t->data == NULL) {
        free(t);
        log_warn("orchestrator", "%s: no memory for a chunk of a checkpoint: closed",
                 conn_peer(s->conn));
        session_end(s, 0);
        return false;
    }
    u->building = t;
    u->got = 0;
    return true;
}

static bool goes_on(const struct upload *u, const struct msg_depot *m, uint64_t request)
{
    const struct depot_task *t = u->building;

    return m->op == t->ask.op && m->item == t->ask.item && m->total == t->ask.total &&
           m->at == u->got && request == t->request && m->data_n > 0 &&
           m->data_n <= m->total - m->at && memcmp(m->sum, t->ask.sum, sizeof(m->sum)) == 0;
}

void upload_piece(struct session *s, const struct msg_depot *m, uint64_t request)
{
    struct upload *u = find(s->o->deposits, m->job);

    if (u == NULL || u->owner != s->number || !u->begun || u->committing || u->step != m->step) {
        nothing_begun(s, m, request);
        return;
    }
    if (u->building == NULL && m->at == 0 && !start_building(u, s, m, request)) {
        return;
    }
    if (u->building == NULL || !goes_on(u, m, request)) {
        depot_wrong(s, m, request,
                    "a piece of %" PRIu32 " bytes at %" PRIu64 " of chunk %" PRIu32
                    " is not the next",
                    m->data_n, m->at, m->item);
        return;
    }
    driver_time(s->o);
    u->heard_ms = s->o->now_ms;
    memcpy(u->building->data + u->got, m->data, m->data_n);
    u->got += m->data_n;
    if (u->got == m->total) {
        built(u);
    }
}
