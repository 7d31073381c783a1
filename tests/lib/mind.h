/* The orchestrator's machines together, as it has them: the cluster and the settings. */
#ifndef LIB_MIND_H
#define LIB_MIND_H

#include "core/cluster.h"

struct mind {
    struct config_table *settings;
    struct cluster *cluster;
    struct machine_live all[2];
};

/* MU_OK, or as cluster_init() has it; nothing is to be closed then. fx is borrowed. */
int mind_open(struct mind *m, const struct cluster_config *config, struct effects *fx);
void mind_close(struct mind *m);
int mind_apply(struct mind *m, const struct record *r, bool live);
void mind_dump(struct mind *m, struct sink *to);

#endif
