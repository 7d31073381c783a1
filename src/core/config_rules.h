/* What a key and the values of muster's own keys may look like: config.c's, not for others. */
#ifndef CORE_CONFIG_RULES_H
#define CORE_CONFIG_RULES_H

#include "core/config.h"

/* MU_EINVAL with a sentence in why if the key is one of muster's and the value is not right for it,
 * beside the others that are set now. */
int config_value_check(const struct config *config, const char *key, const char *value,
                       uint32_t value_n, char *why, size_t cap);

/* Those that act on the cluster. They are about one run. */
#define CONFIG_ACTING_N 6
extern const char *const config_acting[CONFIG_ACTING_N];

#endif
