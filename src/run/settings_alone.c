/* The settings of a job of one: in memory, with the rules, versions and limits that an orchestrator
 * has, so that a program finds nothing different when it runs by itself. */
#include "run/run.h"

#include <inttypes.h>
#include <string.h>

/* As cluster_defaults() has them, which would bring the whole orchestrator into this library. */
static const struct config_limits limits = {
    .keys_n = 256, .value_bytes = CONFIG_VALUE_MAX, .total_bytes = 256u << 10, .window_n = 1024};

static int add(struct config_ask *a, const struct rec_config *r)
{
    return settings_add(a, r->key, r->deleted, r->value, r->value_n, r->version);
}

static int do_get(struct mu_run *run, struct config_ask *a)
{
    struct rec_config r;

    if (config_get(&run->settings, a->ask.m.topic, &r) != MU_OK) {
        return run_fail(MU_ENOENT, "there is no setting '%s'", a->ask.m.topic);
    }
    return add(a, &r);
}

static int do_list(struct mu_run *run, struct config_ask *a)
{
    char after[CONFIG_KEY_MAX] = "";
    struct rec_config r;
    int rc = MU_OK;

    while (rc == MU_OK && config_list(&run->settings, a->ask.m.topic, after, &r) == MU_OK) {
        rc = add(a, &r);
        memcpy(after, r.key, sizeof(after));
    }
    a->got.version = run->settings.version;
    return rc;
}

static int do_change(struct mu_run *run, struct config_ask *a)
{
    struct config_request q = {.key = a->ask.m.topic,
                               .value = a->body.value,
                               .value_n = a->body.value_n,
                               .expect = a->ask.m.at,
                               .remove = a->body.deleted};
    char why[TEXT_MAX_LEN];
    struct rec_config r;
    int rc = config_check(&run->settings, &q, &r, why, sizeof(why));

    if (rc != MU_OK) {
        return run_fail(rc, "%s", why);
    }
    mu_assert(config_apply(&run->settings, &r) == MU_OK);
    a->got.version = r.version;
    pthread_cond_broadcast(&run->changed);
    return MU_OK;
}

/* What has changed up to now. MU_ESTALE: that is not known any more. */
static int changes(struct mu_run *run, struct config_ask *a)
{
    struct rec_config r;
    int rc;

    while ((rc = config_since(&run->settings, a->ask.m.at, &r)) == MU_OK) {
        a->ask.m.at = r.version;
        if (config_matches(a->ask.m.topic, r.key) && add(a, &r) != MU_OK) {
            return MU_ENOMEM;
        }
    }
    if (rc == MU_ESTALE) {
        return run_fail(rc, "version %" PRIu64 " of the settings is not known any more: list them",
                        a->ask.m.at);
    }
    a->got.version = a->ask.m.at = run->settings.version;
    return MU_OK;
}

static int do_watch(struct mu_run *run, struct config_ask *a)
{
    bool in_time = true;
    int rc;

    while ((rc = call_state(run)) == MU_OK && (rc = changes(run, a)) == MU_OK && a->got.n == 0 &&
           in_time) {
        in_time = call_wait(run, a->ask.due_ms);
    }
    settings_sort(&a->got);
    if (rc == MU_OK && a->got.n == 0) {
        rc = run_fail(MU_ETIMEDOUT, "nothing has changed after version %" PRIu64 " of the settings",
                      a->ask.m.at);
    }
    return rc;
}

static int do_kind(struct mu_run *run, struct config_ask *a)
{
    switch (a->ask.m.kind) {
    case ASK_SETTING_GET:
        return do_get(run, a);
    case ASK_SETTING_LIST:
        return do_list(run, a);
    case ASK_SETTING_WATCH:
        return do_watch(run, a);
    default:
        return do_change(run, a);
    }
}

int settings_alone(struct mu_run *run, struct config_ask *a)
{
    int rc = MU_OK;

    if (run->settings.entries == NULL) {
        rc = config_init(&run->settings, run->life.job, &limits);
    }
    if (rc == MU_OK) {
        rc = do_kind(run, a);
    }
    return rc == MU_ENOMEM ? run_fail(rc, "out of memory for the settings") : rc;
}
