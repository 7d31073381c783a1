#include "lib/mind.h"

int mind_open(struct mind *m, const struct cluster_config *config, struct effects *fx)
{
    int rc;

    *m = (struct mind){0};
    rc = config_table_init(config->jobs_max, &config->settings, &m->settings);
    if (rc == MU_OK) {
        rc = cluster_init(config, m->settings, &m->cluster);
    }
    if (rc != MU_OK) {
        mind_close(m);
        return rc;
    }
    m->all[0] = (struct machine_live){&cluster_machine, m->cluster, fx};
    m->all[1] = (struct machine_live){&settings_machine, m->settings, fx};
    return MU_OK;
}

void mind_close(struct mind *m)
{
    cluster_close(m->cluster);
    config_table_close(m->settings);
    *m = (struct mind){0};
}

int mind_apply(struct mind *m, const struct record *r, bool live)
{
    return machines_apply(m->all, ARRAY_LEN(m->all), r, live);
}

void mind_dump(struct mind *m, struct sink *to)
{
    machines_dump(m->all, ARRAY_LEN(m->all), to);
}
