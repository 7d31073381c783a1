/* Birth, with the past, and death. */
#include "journal/journal_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void say_unreadable(struct journal *j, const char *which, int status, const char *text)
{
    snprintf(j->replay_error, sizeof(j->replay_error),
             "the journal %.256s can't be read: record %s: %s. %s", j->config.url, which, text,
             status == MU_EVERSION ? "Start the version of muster that wrote it, or a newer one"
                                   : "Restore the directory from a copy");
}

static int replay(struct journal *j, uint64_t seq, const void *row, size_t n)
{
    char which[40] = "of its snapshot";
    struct wire_fault fault;
    struct store_bytes whole;
    struct record r;
    int rc = parts_take(&j->gather, row, n, &whole);

    if (seq != 0) {
        snprintf(which, sizeof(which), "%" PRIu64, seq);
    }
    if (rc == MU_EAGAIN) {
        return MU_OK;
    }
    if (rc != MU_OK) {
        say_unreadable(j, which, rc, "its parts do not go together");
        return rc;
    }
    rc = journal_decode(j, whole.data, whole.n, &r, &fault);
    if (rc != MU_OK) {
        say_unreadable(j, which, rc, fault.text);
        return rc;
    }
    rc = machines_apply(j->live, j->n, &r, false);
    if (rc == MU_OK && j->has_shadows) {
        rc = machines_apply(j->shadow, j->n, &r, false);
    }
    if (rc != MU_OK) {
        snprintf(j->replay_error, sizeof(j->replay_error),
                 "the journal %.256s can't be replayed: record %s ('%s') does not go with those "
                 "before it, or there is no room for it%s%.256s%s. Start with higher limits, or "
                 "restore the directory from a copy",
                 j->config.url, which, record_name(r.kind), j->config.limits != NULL ? " (" : "",
                 j->config.limits != NULL ? j->config.limits : "",
                 j->config.limits != NULL ? ")" : "");
        return MU_ECORRUPT;
    }
    if (j->config.applied != NULL) {
        j->config.applied(j->config.arg, &r, true);
    }
    if (seq != 0) {
        j->seq = seq;
        j->bytes += whole.n;
    } else {
        j->snap.last_n++;
        j->snap.last_bytes += whole.n;
    }
    return MU_OK;
}

static int replay_snapshot(void *arg, const void *data, size_t n)
{
    return replay(arg, 0, data, n);
}

static int replay_record(void *arg, uint64_t seq, const void *data, size_t n)
{
    return replay(arg, seq, data, n);
}

static void destroy(struct journal *j)
{
    free(j->gather.bytes);
    free(j->scratch);
    free(j);
}

int journal_open(const struct journal_config *config, struct journal **j_out,
                 char error[JOURNAL_ERROR_MAX])
{
    struct journal *j = calloc(1, sizeof(*j));
    struct store_replay past = {.arg = j, .snapshot = replay_snapshot, .record = replay_record};
    int rc;

    if (j == NULL) {
        snprintf(error, JOURNAL_ERROR_MAX, "out of memory");
        return MU_ENOMEM;
    }
    mu_assert(config->machines_n > 0 && config->machines_n <= JOURNAL_MACHINES_MAX);
    j->config = *config;
    j->n = config->machines_n;
    j->has_shadows = true;
    STAILQ_INIT(&j->pending);
    STAILQ_INIT(&j->snap.behind);
    for (uint32_t i = 0; i < j->n; i++) {
        const struct journal_machine *m = &config->machines[i];

        j->live[i] = j->shadow[i] = m->live;
        j->shadow[i].state = m->shadow;
        j->has_shadows &= m->shadow != NULL;
        j->codecs[i] = m->codec != NULL ? m->codec : &record_codec;
    }
    rc = store_open(config->url, &past, &config->notify, &j->store, error);
    if (rc != MU_OK) {
        if (j->replay_error[0] != '\0') {
            snprintf(error, JOURNAL_ERROR_MAX, "%s", j->replay_error);
        }
        destroy(j);
        return rc;
    }
    j->seq = MAX(j->seq, store_snapshot_seq(j->store));
    j->config.url = j->config.limits = NULL; /* They were borrowed. */
    *j_out = j;
    return MU_OK;
}

struct store *journal_abandon(struct journal *j)
{
    struct store *st = j->store;

    while (!STAILQ_EMPTY(&j->pending)) {
        struct entry *e = STAILQ_FIRST(&j->pending);

        STAILQ_REMOVE_HEAD(&j->pending, link);
        free(e);
    }
    snapshot_close(j);
    destroy(j);
    return st;
}

void journal_close(struct journal *j)
{
    if (j != NULL) {
        store_close(j->store); /* which says nothing more */
        journal_abandon(j);
    }
}
