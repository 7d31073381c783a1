/* The way of a record: bytes from the moment that its machine hands it out until the store has said
 * how it went, then applied or taken back, in that order. */
#include "journal/journal_state.h"

#include "base/log.h"
#include "core/mutation.h"
#include "wire/bytes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct codec *journal_codec(const struct journal *j, unsigned kind)
{
    const struct machine_live *m = machine_of(j->live, j->n, kind);

    return m == NULL ? NULL : j->codecs[m - j->live];
}

/* ---- bytes to records ---- */

/* Decoded lists are less than eight times as long as their bytes. */
static int scratch_for(struct journal *j, size_t n)
{
    size_t cap = MAX(n * 8, (size_t)4096);
    uint8_t *mem;

    if (cap <= j->scratch_cap) {
        return MU_OK;
    }
    mem = malloc(cap);
    if (mem == NULL) {
        return MU_ENOMEM;
    }
    free(j->scratch);
    j->scratch = mem;
    j->scratch_cap = cap;
    return MU_OK;
}

static int say_fault(struct wire_fault *fault, int status, const char *text)
{
    fault->status = status;
    snprintf(fault->text, sizeof(fault->text), "%s", text);
    return status;
}

int journal_decode(struct journal *j, const uint8_t *bytes, size_t n, struct record *r_out,
                   struct wire_fault *fault)
{
    struct wire_scratch scratch;
    const struct codec *codec;
    char text[TEXT_MAX_LEN];
    int rc = MU_OK;

    if (n < 2) {
        return say_fault(fault, MU_ECORRUPT, "it has no kind");
    }
    if (scratch_for(j, n) != MU_OK) {
        return say_fault(fault, MU_ENOMEM, "out of memory");
    }
    scratch = (struct wire_scratch){.mem = j->scratch, .cap = j->scratch_cap};
    codec = journal_codec(j, get_u16(bytes));
    if (codec == NULL && get_u16(bytes) < RECORD_OTHER) { /* What is damaged is not of a kind. */
        rc = record_decode(bytes, n, r_out, &scratch, fault);
    }
    if (codec == NULL && rc == MU_OK) {
        snprintf(text, sizeof(text), "it is of kind %u ('%s'), which nothing here keeps",
                 get_u16(bytes), record_name(get_u16(bytes)));
        return say_fault(fault, MU_EVERSION, text);
    }
    return codec == NULL ? rc : codec->decode(bytes, n, r_out, &scratch, fault);
}

/* ---- out ---- */

void journal_append(struct journal *j, const struct record *r, struct journal_done done)
{
    const struct codec *codec = journal_codec(j, r->kind);
    struct entry *e;
    size_t n;

    mu_assert(codec != NULL);
    n = codec->size(r);
    e = malloc(sizeof(*e) + n);
    mu_assert(e != NULL); /* Without it nobody could be told; to die is always safe. */
    *e = (struct entry){.n = n, .done = done};
    codec->encode(r, e->bytes, n);
    e->status = j->lost_n > 0 ? MU_EAGAIN : parts_append(j, e);
    if (e->status != MU_OK) {
        e->lost = true;
        j->lost_n++;
        if (j->config.notify.fn != NULL) {
            j->config.notify.fn(j->config.notify.arg);
        }
    }
    STAILQ_INSERT_TAIL(&j->pending, e, link);
    j->pending_n++;
}

/* ---- back ---- */

static struct entry *pop(struct journal *j)
{
    struct entry *e = STAILQ_FIRST(&j->pending);

    mu_assert(e != NULL);
    STAILQ_REMOVE_HEAD(&j->pending, link);
    j->pending_n--;
    return e;
}

static void note_trouble(struct journal *j, const struct entry *e, int status)
{
    const char *why =
        e->lost ? "the disk does not keep up: too much waits to be written" : store_error(j->store);

    j->failed_n++;
    j->refused_n++;
    if (!j->broken) {
        j->broken = true;
        log_write(j->config.quiet ? LOG_DEBUG : LOG_ERROR, "journal",
                  "%s (%s). Leases go on; whatever needs a new record is refused until writing "
                  "works again",
                  why[0] != '\0' ? why : "a write failed", mu_strerror(status));
    }
    if (status == MU_ESTALE && !j->fenced) {
        j->fenced = true;
        if (j->config.fenced != NULL) {
            j->config.fenced(j->config.arg, why);
        }
    }
}

static void note_success(struct journal *j)
{
    if (j->broken) {
        log_write(j->config.quiet ? LOG_DEBUG : LOG_INFO, "journal",
                  "writing works again; %" PRIu64 " records had to be refused", j->refused_n);
        j->broken = false;
        j->refused_n = 0;
    }
}

static void tell(const struct entry *e, int status, const struct record *r)
{
    if (e->done.fn != NULL) {
        e->done.fn(e->done.arg, status, r);
    }
}

static void decode_own(struct journal *j, const struct entry *e, struct record *r)
{
    struct wire_fault fault;

    mu_assert(journal_decode(j, e->bytes, e->n, r, &fault) == MU_OK);
}

static void deliver_ok(struct journal *j, struct entry *e, uint64_t seq)
{
    struct record r;
    bool kept;
    int rc;

    decode_own(j, e, &r);
    rc = e->early ? MU_OK : machines_apply(j->live, j->n, &r, true);
    if (rc != MU_OK) {
        log_error("journal", "a durable '%s' record contradicts the state: %s", record_name(r.kind),
                  mu_strerror(rc));
    }
    mu_assert(rc == MU_OK);
    j->seq = seq;
    j->bytes += e->n;
    kept = snapshot_take(j, e, &r);
    note_success(j);
    if (j->config.applied != NULL) {
        j->config.applied(j->config.arg, &r, false);
    }
    tell(e, MU_OK, &r);
    if (!kept) {
        free(e);
    }
}

static void deliver_failed(struct journal *j, struct entry *e, int status)
{
    const struct machine_live *m;
    struct record r;

    note_trouble(j, e, status);
    decode_own(j, e, &r);
    m = machine_of(j->live, j->n, r.kind);
    if (m->machine->failed != NULL) {
        m->machine->failed(m->state, &r, j->now_ms, m->fx);
    }
    tell(e, status, &r);
    free(e);
}

static void on_done(void *arg, uint64_t cookie, int status, uint64_t seq)
{
    struct journal *j = arg;
    struct entry *e;

    if (cookie == COOKIE_SNAPSHOT) {
        snapshot_done(j, status);
        return;
    }
    if (cookie == COOKIE_PART) { /* One that fails takes the last one along. */
        return;
    }
    e = pop(j);
    mu_assert(!e->lost);
    if (status == MU_OK) {
        deliver_ok(j, e, seq);
    } else {
        deliver_failed(j, e, status);
    }
}

/* Those that the store never saw, once all before them are settled. What fails while they are
 * delivered has its turn in the next poll. */
static void deliver_lost(struct journal *j)
{
    struct entry *e;

    for (uint32_t n = j->lost_n; n > 0 && (e = STAILQ_FIRST(&j->pending)) && e->lost; n--) {
        j->lost_n--;
        pop(j);
        deliver_failed(j, e, e->status);
    }
    e = STAILQ_FIRST(&j->pending);
    if (e != NULL && e->lost && j->config.notify.fn != NULL) {
        j->config.notify.fn(j->config.notify.arg);
    }
}

void journal_poll(struct journal *j, uint64_t now_ms)
{
    j->now_ms = now_ms;
    store_poll(j->store, on_done, j);
    deliver_lost(j);
    snapshot_turn(j);
}

/* ---- time ---- */

/* What the rule APPLY_AFTER_DURABLE forbids. */
static void apply_early(struct journal *j)
{
    struct record r;
    struct entry *e;

    STAILQ_FOREACH(e, &j->pending, link)
    {
        if (!e->early) {
            e->early = true;
            decode_own(j, e, &r);
            machines_apply(j->live, j->n, &r, true);
        }
    }
}

uint64_t journal_deadline(const struct journal *j)
{
    uint64_t at_ms = UINT64_MAX;

    for (uint32_t i = 0; i < j->n; i++) {
        if (j->live[i].machine->deadline != NULL) {
            at_ms = MIN(at_ms, j->live[i].machine->deadline(j->live[i].state));
        }
    }
    return at_ms;
}

void journal_tick(struct journal *j, uint64_t now_ms)
{
    j->now_ms = now_ms;
    for (uint32_t i = 0; i < j->n; i++) {
        if (j->live[i].machine->tick != NULL) {
            j->live[i].machine->tick(j->live[i].state, now_ms, j->live[i].fx);
        }
    }
    if (MUTATED(APPLY_AFTER_DURABLE)) {
        apply_early(j);
    }
}

/* ---- looking in ---- */

struct journal_look journal_look(const struct journal *j)
{
    return (struct journal_look){.seq = store_seq(j->store),
                                 .snapshot_seq = store_snapshot_seq(j->store),
                                 .pending_n = j->pending_n,
                                 .bytes = j->bytes,
                                 .failed_n = j->failed_n,
                                 .writable = !j->broken,
                                 .error = store_error(j->store)};
}

const unsigned char *journal_id(const struct journal *j)
{
    return store_id(j->store);
}

struct store *journal_store(struct journal *j)
{
    return j->store;
}

void journal_snapshot_now(struct journal *j)
{
    j->snap.wanted = true;
}
