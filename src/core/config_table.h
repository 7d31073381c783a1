/* The settings of all jobs (core/config.h), as a machine of its own: its records are RECORD_CONFIG.
 *
 * Which jobs there are is the cluster's to say: this one hears its records. A job has settings from
 * its first record until it is forgotten; what people wanted of one run is not wanted of the next,
 * so that keys which act on the cluster go with the record of that run. The cluster in its turn
 * reads the settings, and hears of their changes; which change is right is for both, and so
 * cluster_wish() makes the records. */
#ifndef CORE_CONFIG_TABLE_H
#define CORE_CONFIG_TABLE_H

#include "core/config.h"
#include "core/record.h"

struct config_table;

extern const struct machine_type settings_machine; /* state: a struct config_table */

/* MU_EINVAL for limits as in config_init(), MU_ENOMEM. */
int config_table_init(uint32_t jobs_max, const struct config_limits *limits,
                      struct config_table **t_out);
void config_table_close(struct config_table *t);
size_t config_table_memory(const struct config_table *t);

/* The job's settings, valid until it is forgotten; NULL if there is no such job, or no table. */
struct config *config_table_find(const struct config_table *t, const char *job);

#endif
