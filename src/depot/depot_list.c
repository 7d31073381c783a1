/* What there is, page by page; and one that is to go. */
#include "core/text.h"
#include "depot/talk.h"
#include "wire/bytes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY_BYTES 16u
#define ENTRIES_MAX (1u << 20) /* more than any folder has, and less than would hurt */
#define NAMES_MAX ((size_t)16 << 20)

/* ---- checkpoints of a job ---- */

struct list {
    struct depot *d;
    struct msg_depot m;
    struct ckpt_entry *entries;
    uint32_t n;
};

/* Each older than the one before. */
static int take_entries(struct list *l, const struct msg_depot_says *m, struct ckpt_why *why)
{
    const uint32_t n = m->data_n / ENTRY_BYTES;
    struct ckpt_entry *entries;

    if (m->data_n % ENTRY_BYTES != 0 || (m->more && n == 0) || n > ENTRIES_MAX - l->n) {
        return talk_fault(l->d, why, "a list has %" PRIu32 " bytes%s", m->data_n,
                          m->more ? ", and more to come" : "");
    }
    entries = realloc(l->entries, MAX(l->n + n, 1) * sizeof(*entries));
    if (entries == NULL) {
        return ckpt_say(why, MU_ENOMEM, "no memory for a list of checkpoints");
    }
    l->entries = entries;
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *p = m->data + (size_t)i * ENTRY_BYTES;
        const struct ckpt_entry e = {.step = get_u64(p), .bytes = get_u64(p + 8)};

        if (e.step == 0 || (l->n > 0 && e.step >= entries[l->n - 1].step)) {
            return talk_fault(l->d, why, "a list has step %" PRIu64 " in a wrong place", e.step);
        }
        entries[l->n++] = e;
    }
    return MU_OK;
}

/* A try goes on where the one before it has come to. */
static int try_list(void *arg, struct ckpt_why *why)
{
    struct list *l = arg;
    bool more = true;

    while (more) {
        const struct msg_depot_says *m;
        int rc;

        l->m.at = l->n > 0 ? l->entries[l->n - 1].step : 0;
        rc = talk_ask(l->d, &l->m, TALK_ANSWER_MS, &m, why);
        if (rc == MU_OK) {
            more = m->more;
            rc = take_entries(l, m, why);
        }
        if (rc != MU_OK) {
            return rc;
        }
        talk_progress(l->d);
    }
    return MU_OK;
}

int depot_list(struct depot *d, const char *job, struct ckpt_entry **entries_out, uint32_t *n_out,
               struct ckpt_why *why)
{
    struct list l = {.d = d, .m = {.op = DEPOT_LIST}};
    int rc = job[0] != '\0' ? talk_name(&l.m, job, 0, why)
                            : ckpt_say(why, MU_EINVAL, "the name of the job is empty");

    rc = rc == MU_OK ? talk_run(d, &l, try_list, &l, why) : rc;
    if (rc != MU_OK) {
        free(l.entries);
        return rc;
    }
    *entries_out = l.entries;
    *n_out = l.n;
    return MU_OK;
}

/* ---- jobs ---- */

struct jobs {
    struct depot *d;
    struct msg_depot m;
    char *names; /* each ended by 0 */
    size_t n;
    size_t last; /* where the last one begins, if n > 0 */
};

static bool is_job(const char *name, size_t n)
{
    return n < MU_NAME_MAX && text_is_name(name, n) && name[0] != '.';
}

/* Names in their order, each after the last. */
static int take_names(struct jobs *j, const struct msg_depot_says *m, struct ckpt_why *why)
{
    const char *at = m->data_n > 0 ? (const char *)m->data : "", *end = at + m->data_n;
    char *names;

    if (m->data_n > NAMES_MAX - j->n || (m->more && m->data_n == 0)) {
        return talk_fault(j->d, why, "a list of jobs has %" PRIu32 " bytes%s", m->data_n,
                          m->more ? ", and more to come" : "");
    }
    names = realloc(j->names, j->n + m->data_n + 1);
    if (names == NULL) {
        return ckpt_say(why, MU_ENOMEM, "no memory for a list of jobs");
    }
    j->names = names;
    while (at < end) {
        const size_t n = strnlen(at, (size_t)(end - at));

        if (at + n == end || !is_job(at, n) || (j->n > 0 && strcmp(names + j->last, at) >= 0)) {
            return talk_fault(j->d, why, "a list of jobs has %s in a wrong place",
                              text_quote(at, n).text);
        }
        memcpy(names + j->n, at, n + 1);
        j->last = j->n;
        j->n += n + 1;
        at += n + 1;
    }
    return MU_OK;
}

static int try_jobs(void *arg, struct ckpt_why *why)
{
    struct jobs *j = arg;
    bool more = true;

    while (more) {
        const struct msg_depot_says *m;
        int rc;

        j->m.data = j->n > 0 ? (uint8_t *)j->names + j->last : NULL;
        j->m.data_n = j->n > 0 ? (uint32_t)(j->n - 1 - j->last) : 0;
        rc = talk_ask(j->d, &j->m, TALK_ANSWER_MS, &m, why);
        if (rc == MU_OK) {
            more = m->more;
            rc = take_names(j, m, why);
        }
        if (rc != MU_OK) {
            return rc;
        }
        talk_progress(j->d);
    }
    return MU_OK;
}

int depot_jobs(struct depot *d, char **names_out, struct ckpt_why *why)
{
    struct jobs j = {.d = d, .m = {.op = DEPOT_LIST}};
    int rc = talk_run(d, &j, try_jobs, &j, why);

    if (rc != MU_OK) {
        free(j.names);
        return rc;
    }
    j.names[j.n] = '\0'; /* take_names() has left room for it. */
    *names_out = j.names;
    return MU_OK;
}

/* ---- one goes ---- */

struct removal {
    struct depot *d;
    struct msg_depot m;
    bool said; /* by a try before: it may be gone, and the answer too */
};

static int try_remove(void *arg, struct ckpt_why *why)
{
    struct removal *r = arg;
    const struct msg_depot_says *m;
    const bool before = r->said;
    int rc;

    r->said = true;
    rc = talk_ask(r->d, &r->m, TALK_LONG_MS, &m, why);
    return rc == MU_ENOENT && before ? MU_OK : rc;
}

int depot_remove(struct depot *d, const char *job, uint64_t step, struct ckpt_why *why)
{
    struct removal r = {.d = d, .m = {.op = DEPOT_REMOVE}};
    int rc = talk_name(&r.m, job, step, why);

    return rc == MU_OK ? talk_run(d, &r, try_remove, &r, why) : rc;
}
