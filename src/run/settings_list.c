/* Settings as callers get them: each is one block, so that any of them can be kept or freed by
 * itself. */
#include "run/run.h"

#include <stdlib.h>
#include <string.h>

int setting_make(mu_setting *setting, const char *key, bool removed, const void *value,
                 size_t value_n, uint64_t version)
{
    size_t room = removed ? 0 : value_n + 1;
    size_t key_n = strlen(key) + 1;
    char *block = calloc(1, room + key_n);

    if (block == NULL) {
        return MU_ENOMEM;
    }
    if (room > 1) {
        memcpy(block, value, value_n);
    }
    memcpy(block + room, key, key_n);
    *setting = (mu_setting){block + room, removed ? NULL : block, removed ? 0 : value_n, version};
    return MU_OK;
}

void mu_setting_free(mu_setting *setting)
{
    if (setting != NULL) {
        free((void *)(uintptr_t)(setting->value != NULL ? setting->value : setting->key));
        *setting = (mu_setting){0};
    }
}

void mu_settings_free(mu_settings *settings)
{
    if (settings != NULL) {
        for (size_t i = 0; i < settings->n; i++) {
            mu_setting_free(&settings->items[i]);
        }
        free(settings->items);
        *settings = (mu_settings){0};
    }
}

int settings_add(struct config_ask *a, const char *key, bool removed, const void *value,
                 size_t value_n, uint64_t version)
{
    mu_setting *items = realloc(a->got.items, (a->got.n + 1) * sizeof(items[0]));
    int rc = items != NULL ? setting_make(&items[a->got.n], key, removed, value, value_n, version)
                           : MU_ENOMEM;

    a->got.items = items != NULL ? items : a->got.items;
    a->got.n += rc == MU_OK;
    return rc;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const mu_setting *)a)->key, ((const mu_setting *)b)->key);
}

void settings_sort(mu_settings *settings)
{
    if (settings->n > 1) {
        qsort(settings->items, settings->n, sizeof(settings->items[0]), by_key);
    }
}
