/* Which backend a URL means. */
#include "store/sqlite.h"

#include <stdio.h>
#include <string.h>

static const struct store_scheme sqlite_scheme = {"sqlite", store_sqlite_scheme};

static const struct store_scheme *schemes[4] = {&sqlite_scheme};

void store_scheme_add(const struct store_scheme *scheme)
{
    for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
        if (schemes[i] == NULL || schemes[i] == scheme) {
            schemes[i] = scheme;
            return;
        }
    }
    mu_assert(false);
}

int store_open(const char *url, const struct store_replay *replay,
               const struct store_notify *notify, struct store **store_out,
               char error[STORE_ERROR_MAX])
{
    size_t n = strcspn(url, ":");
    char known[128] = "";

    for (size_t i = 0; i < ARRAY_LEN(schemes) && schemes[i] != NULL; i++) {
        const char *name = schemes[i]->name;

        if (url[n] == ':' && strlen(name) == n && memcmp(url, name, n) == 0) {
            return schemes[i]->open(url + n + 1, replay, notify, store_out, error);
        }
        snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s:", i > 0 ? ", " : "",
                 name);
    }
    snprintf(error, STORE_ERROR_MAX,
             "no store is called '%.200s': the address of one begins with %s, as in "
             "sqlite:/var/lib/muster",
             url, known);
    return MU_EINVAL;
}
