/* The journal's side of the driver: a record is kept as bytes from the moment that the cluster
 * hands it out until the journal has said how it went, and is applied or taken back in that order.
 *
 * A record that the journal refuses to queue is a failed write like any other, delivered in its
 * turn. Until it has been, every record behind it fails too: nothing is ever journaled after a
 * lost record that the cluster still believes in. (The store holds to the same.) */
#include "base/log.h"
#include "orchestrator/driver.h"
#include "store/sqlite.h"
#include "wire/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COOKIE_APPEND 0
#define COOKIE_SNAPSHOT 1

/* ---- out ---- */

static void bind_asker(struct orchestrator *o, const struct record *r, struct pending *p)
{
    struct asking *a = &o->asking;

    if (a->conn == NOBODY || a->record != NULL || r->kind != a->kind) {
        return;
    }
    if ((r->kind == RECORD_GENERATION && strcmp(r->u.generation.job, a->job) != 0) ||
        (r->kind == RECORD_FINISHED && strcmp(r->u.finished.job, a->job) != 0)) {
        return;
    }
    a->record = p;
    p->conn = a->conn;
    p->request = a->request;
}

void records_append(struct orchestrator *o, const struct record *r)
{
    struct records *rs = &o->records;
    size_t n = record_size(r);
    struct pending *p = malloc(sizeof(*p) + n);

    mu_assert(p != NULL); /* Without it nobody could be told; to die is always safe. */
    *p = (struct pending){.n = n};
    record_encode(r, p->bytes, n);
    bind_asker(o, r, p);
    p->status = rs->lost_n > 0 ? MU_EAGAIN : store_append(rs->store, p->bytes, n, COOKIE_APPEND);
    if (p->status != MU_OK) {
        p->lost = true;
        rs->lost_n++;
        uv_async_send(&o->news);
    }
    if (rs->last != NULL) {
        rs->last->next = p;
    } else {
        rs->first = p;
    }
    rs->last = p;
    rs->n++;
}

/* ---- back ---- */

static struct pending *pop(struct records *rs)
{
    struct pending *p = rs->first;

    mu_assert(p != NULL);
    rs->first = p->next;
    if (rs->first == NULL) {
        rs->last = NULL;
    }
    rs->n--;
    return p;
}

/* Decoded lists are less than eight times as long as their bytes. */
static int scratch_for(struct records *rs, size_t n)
{
    size_t cap = MAX(n * 8, (size_t)4096);
    uint8_t *mem;

    if (cap <= rs->scratch_cap) {
        return MU_OK;
    }
    mem = malloc(cap);
    if (mem == NULL) {
        return MU_ENOMEM;
    }
    free(rs->scratch);
    rs->scratch = mem;
    rs->scratch_cap = cap;
    return MU_OK;
}

/* Its lists are valid until the next one. */
static int decode(struct records *rs, const void *bytes, size_t n, struct record *r_out,
                  struct wire_fault *fault)
{
    struct wire_scratch scratch;
    int rc = scratch_for(rs, n);

    if (rc != MU_OK) {
        fault->status = rc;
        strcpy(fault->text, "out of memory");
        return rc;
    }
    scratch = (struct wire_scratch){.mem = rs->scratch, .cap = rs->scratch_cap};
    return record_decode(bytes, n, r_out, &scratch, fault);
}

static void decode_own(struct records *rs, const struct pending *p, struct record *r)
{
    struct wire_fault fault;

    mu_assert(decode(rs, p->bytes, p->n, r, &fault) == MU_OK);
}

static void note_trouble(struct orchestrator *o, const struct pending *p, int status)
{
    struct records *rs = &o->records;
    const char *why = p->lost ? "the disk does not keep up: too much waits to be written"
                              : store_error(rs->store);

    rs->failed_n++;
    o->counts.journal_failures++;
    if (!rs->broken) {
        rs->broken = true;
        log_error("journal",
                  "%s (%s). Leases go on; whatever needs a new record is refused until writing "
                  "works again",
                  why[0] != '\0' ? why : "a write failed", mu_strerror(status));
    }
}

static void note_success(struct records *rs)
{
    if (rs->broken) {
        log_info("journal", "writing works again; %" PRIu64 " records had to be refused",
                 rs->failed_n);
        rs->broken = false;
        rs->failed_n = 0;
    }
}

static void answer_asker(struct orchestrator *o, const struct pending *p, int status)
{
    struct session *s = session_find(o, p->conn);

    if (s == NULL) {
        return;
    }
    if (status == MU_OK) {
        people_answer(s, p->request, MU_OK, false, "%s", "");
    } else {
        people_answer(s, p->request, MU_EAGAIN, false,
                      "nothing was changed: the journal in %.100s can't be written (%s). See "
                      "the orchestrator's log, make room, then try again",
                      o->data_dir, mu_strerror(status));
    }
}

static void tally(struct counts *n, const struct record *r)
{
    if (r->kind == RECORD_GENERATION) {
        n->generations[r->u.generation.kind]++;
    }
    n->settings += r->kind == RECORD_CONFIG;
}

static void deliver_ok(struct orchestrator *o, const struct pending *p)
{
    struct record r;
    int rc;

    decode_own(&o->records, p, &r);
    effects_forget(o);
    rc = cluster_apply(o->cluster, &r, &o->fx);
    effects_forget(o);
    if (rc != MU_OK) {
        log_error("journal", "a durable '%s' record contradicts the state: %s", record_name(r.kind),
                  mu_strerror(rc));
    }
    mu_assert(rc == MU_OK);
    tally(&o->counts, &r);
    if (r.kind == RECORD_FORGOTTEN) {
        log_write(driver_info(o), "orchestrator",
                  "job '%s' (run %u) is forgotten: another one needs its place", r.u.forgotten.job,
                  r.u.forgotten.run);
    }
    values_record(o, &r);
    training_record(o, &r);
    web_record(o, &r, false);
    o->records.bytes += p->n;
    note_success(&o->records);
    answer_asker(o, p, MU_OK);
    settings_record(o, &r, MU_OK);
}

static void deliver_failed(struct orchestrator *o, const struct pending *p, int status)
{
    struct record r;
    struct event e = {.kind = EVENT_WRITE_FAILED, .u.record = &r};

    note_trouble(o, p, status);
    decode_own(&o->records, p, &r);
    driver_step(o, &e);
    answer_asker(o, p, status);
    settings_record(o, &r, status);
}

static void on_done(void *arg, uint64_t cookie, int status, uint64_t seq)
{
    struct orchestrator *o = arg;
    struct pending *p;

    (void)seq;
    if (cookie == COOKIE_SNAPSHOT) {
        snapshot_done(o, status);
        return;
    }
    p = pop(&o->records);
    mu_assert(!p->lost);
    if (status == MU_OK) {
        deliver_ok(o, p);
    } else {
        deliver_failed(o, p, status);
    }
    free(p);
}

/* Those that the journal never saw, once all before them are settled. What fails while they are
 * delivered has its turn in the next round of the loop. */
static void deliver_lost(struct orchestrator *o)
{
    struct records *rs = &o->records;

    for (uint32_t n = rs->lost_n; n > 0 && rs->first != NULL && rs->first->lost; n--) {
        struct pending *p = pop(rs);

        rs->lost_n--;
        deliver_failed(o, p, p->status);
        free(p);
    }
    if (rs->first != NULL && rs->first->lost) {
        uv_async_send(&o->news);
    }
}

void records_poll(struct orchestrator *o)
{
    store_poll(o->records.store, on_done, o);
    deliver_lost(o);
}

/* ---- the past ---- */

static int replay(struct orchestrator *o, uint64_t seq, const void *data, size_t n)
{
    struct records *rs = &o->records;
    char which[40] = "of its snapshot";
    struct wire_fault fault;
    struct record r;
    int rc = decode(rs, data, n, &r, &fault);

    if (seq != 0) {
        snprintf(which, sizeof(which), "%" PRIu64, seq);
    }
    if (rc != MU_OK) {
        snprintf(rs->replay_error, sizeof(rs->replay_error),
                 "the journal in %.256s can't be read: record %s: %s. %s", o->data_dir, which,
                 fault.text,
                 rc == MU_EVERSION ? "Start the version of muster that wrote it, or a newer one"
                                   : "Restore the directory from a copy");
        return rc;
    }
    rc = cluster_apply(o->cluster, &r, NULL);
    if (rc != MU_OK) {
        snprintf(rs->replay_error, sizeof(rs->replay_error),
                 "the journal in %.256s can't be replayed: record %s ('%s') does not go with those "
                 "before it, or there is no room for it (%u jobs, %u nodes, %u workers). Start "
                 "with higher limits, or restore the directory from a copy",
                 o->data_dir, which, record_name(r.kind), o->config.jobs_max, o->config.nodes_max,
                 o->config.workers_max);
        return MU_ECORRUPT;
    }
    web_record(o, &r, true);
    rs->bytes += n;
    return MU_OK;
}

static int replay_snapshot(void *arg, const void *data, size_t n)
{
    struct orchestrator *o = arg;
    int rc = replay(o, 0, data, n);

    o->records.bytes = 0;
    return rc;
}

static int replay_record(void *arg, uint64_t seq, const void *data, size_t n)
{
    return replay(arg, seq, data, n);
}

static void notify(void *arg)
{
    uv_async_send(arg);
}

static uint64_t id_of(const unsigned char bytes[STORE_ID_BYTES])
{
    uint64_t id;

    memcpy(&id, bytes, sizeof(id));
    return id != 0 ? id : 1;
}

int records_open(struct orchestrator *o, char *error)
{
    struct records *rs = &o->records;
    struct store_sqlite_config config = {.dir = o->data_dir,
                                         .notify = {.fn = notify, .arg = &o->news}};
    struct store_replay past = {.arg = o, .snapshot = replay_snapshot, .record = replay_record};
    int rc = store_sqlite_open(&config, &past, &rs->store, error);

    if (rc != MU_OK) {
        if (rs->replay_error[0] != '\0') {
            snprintf(error, STORE_ERROR_MAX, "%s", rs->replay_error);
        }
        return rc;
    }
    o->config.store = id_of(store_id(rs->store));
    cluster_set_store(o->cluster, o->config.store);
    return MU_OK;
}

void records_close(struct orchestrator *o)
{
    struct records *rs = &o->records;

    store_close(rs->store);
    rs->store = NULL;
    while (rs->first != NULL) {
        free(pop(rs));
    }
    free(rs->scratch);
    rs->scratch = NULL;
    rs->scratch_cap = 0;
}
