#include "core/versions.h"

#include <string.h>

void versions_init(struct versions *versions, struct versions_entry *entries, uint32_t cap,
                   uint32_t window, void (*drop)(void *arg, void *value), void *arg)
{
    mu_assert(window >= 1);
    *versions = (struct versions){
        .entries = entries, .cap = cap, .window = window, .drop = drop, .arg = arg};
}

/* Removes the first n entries: they are the oldest. */
static void drop_first(struct versions *v, uint32_t n)
{
    for (uint32_t i = 0; i < n && v->drop != NULL; i++) {
        v->drop(v->arg, v->entries[i].value);
    }
    v->n -= n;
    memmove(v->entries, v->entries + n, v->n * sizeof(v->entries[0]));
}

void versions_close(struct versions *versions)
{
    drop_first(versions, versions->n);
}

int versions_create(struct versions *versions, uint64_t version, const char *name, void *value)
{
    size_t name_n = strnlen(name, NAME_MAX_LEN);
    uint32_t at = 0;       /* where it goes in */
    uint32_t oldest_n = 0; /* entries of the oldest version */
    uint32_t kinds_n = 0;  /* versions; at most the window */
    uint32_t newer_n = 0;
    bool known = false;

    if (name_n == 0 || name_n == NAME_MAX_LEN) {
        return MU_EINVAL;
    }
    for (uint32_t i = 0; i < versions->n; i++) {
        const struct versions_entry *e = &versions->entries[i];
        bool first = i == 0 || e->version != e[-1].version;
        if (e->version == version && strcmp(e->name, name) == 0) {
            return MU_EEXIST;
        }
        known |= e->version == version;
        kinds_n += first;
        newer_n += first && e->version > version;
        oldest_n += kinds_n == 1;
        at = e->version <= version ? i + 1 : at;
    }
    if (newer_n == versions->window) {
        return MU_ESTALE;
    }
    /* A new one that makes too many is newer than the oldest, or it would be stale. */
    uint32_t out_n = !known && kinds_n == versions->window ? oldest_n : 0;
    if (versions->n - out_n == versions->cap) {
        return MU_ELIMIT;
    }
    drop_first(versions, out_n);
    at -= out_n;
    memmove(&versions->entries[at + 1], &versions->entries[at],
            (versions->n - at) * sizeof(versions->entries[0]));
    versions->n++;
    versions->entries[at] = (struct versions_entry){.version = version, .value = value};
    strcpy(versions->entries[at].name, name);
    return MU_OK;
}

int versions_get(const struct versions *versions, uint64_t version, const char *name,
                 void **value_out)
{
    for (uint32_t i = 0; i < versions->n; i++) {
        const struct versions_entry *e = &versions->entries[i];
        if (e->version == version && strcmp(e->name, name) == 0) {
            *value_out = e->value;
            return MU_OK;
        }
    }
    return MU_ENOENT;
}
