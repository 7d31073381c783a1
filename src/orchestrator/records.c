/* The journal of the orchestrator's machines: the cluster and the settings. */
#include "base/log.h"
#include "orchestrator/driver.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what was done ---- */

static void tally(struct counts *n, const struct record *r)
{
    if (r->kind == RECORD_GENERATION) {
        n->generations[r->u.generation.kind]++;
    }
    n->settings += r->kind == RECORD_CONFIG;
}

static void applied(void *arg, const struct record *r, bool replayed)
{
    struct orchestrator *o = arg;

    web_record(o, r, replayed);
    if (replayed) {
        return;
    }
    effects_forget(o);
    tally(&o->counts, r);
    if (r->kind == RECORD_FORGOTTEN) {
        log_write(driver_info(o), "orchestrator",
                  "job '%s' (run %u) is forgotten: another one needs its place", r->u.forgotten.job,
                  r->u.forgotten.run);
    }
    values_record(o, r);
    training_record(o, r);
    settings_record(o, r);
}

/* Who asked for what a record does. The asks that wait are the record's: each ends with it. */
struct admin_ask {
    struct orchestrator *o;
    uint32_t conn;
    uint64_t request;
};

static void answer_asker(void *arg, int status, const struct record *r)
{
    struct admin_ask *a = arg;
    struct session *s = session_find(a->o, a->conn);

    (void)r;
    if (s != NULL && status == MU_OK) {
        people_answer(s, a->request, MU_OK, false, "%s", "");
    } else if (s != NULL) {
        people_answer(s, a->request, MU_EAGAIN, false,
                      "nothing was changed: the journal in %.100s can't be written (%s). See "
                      "the orchestrator's log, make room, then try again",
                      a->o->data_dir, mu_strerror(status));
    }
    free(a);
}

/* `asked`: a person's request, of which the record is the answer. */
void records_append(struct orchestrator *o, const struct record *r, bool asked)
{
    struct admin_ask *a = asked && o->asking.conn != NOBODY ? malloc(sizeof(*a)) : NULL;

    if (a != NULL) {
        *a = (struct admin_ask){o, o->asking.conn, o->asking.request};
        o->asking.waits = true;
    }
    journal_append(o->journal, r,
                   a != NULL ? (struct journal_done){answer_asker, a} : (struct journal_done){0});
}

/* ---- life ---- */

/* Nothing that it says from here on would be true. */
static void fenced(void *arg, const char *why)
{
    (void)arg;
    log_error("journal", "%s: this orchestrator ends", why);
    _exit(EXIT_FAILURE);
}

static int machine_pair(struct orchestrator *o, struct cluster **c, struct config_table **t)
{
    int rc = config_table_init(o->config.jobs_max, &o->config.settings, t);

    return rc == MU_OK ? cluster_init(&o->config, *t, c) : rc;
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

int machines_open(struct orchestrator *o)
{
    int rc = machine_pair(o, &o->cluster, &o->configs);

    return rc == MU_OK ? machine_pair(o, &o->shadow.cluster, &o->shadow.configs) : rc;
}

int records_open(struct orchestrator *o, const char *store, char *error)
{
    /* In a snapshot jobs come before their settings. */
    const struct journal_machine machines[] = {
        {.live = {&cluster_machine, o->cluster, &o->fx}, .shadow = o->shadow.cluster},
        {.live = {&settings_machine, o->configs, NULL}, .shadow = o->shadow.configs},
    };
    char url[PATH_MAX_LEN + 8], limits[96];
    struct journal_config config = {.url = url,
                                    .machines = machines,
                                    .machines_n = ARRAY_LEN(machines),
                                    .notify = {.fn = notify, .arg = &o->news},
                                    .applied = applied,
                                    .fenced = fenced,
                                    .arg = o,
                                    .limits = limits};
    int rc;

    snprintf(url, sizeof(url), "%s%s",
             store != NULL ? "" : "sqlite:", store != NULL ? store : o->data_dir);
    snprintf(limits, sizeof(limits), "%u jobs, %u nodes, %u workers", o->config.jobs_max,
             o->config.nodes_max, o->config.workers_max);
    rc = journal_open(&config, &o->journal, error);
    if (rc == MU_OK) {
        o->config.store = id_of(journal_id(o->journal));
        cluster_set_store(o->cluster, o->config.store);
    }
    return rc;
}

void records_close(struct orchestrator *o)
{
    journal_close(o->journal);
    o->journal = NULL;
}

void machines_close(struct orchestrator *o)
{
    cluster_close(o->cluster);
    cluster_close(o->shadow.cluster);
    config_table_close(o->configs);
    config_table_close(o->shadow.configs);
}
