#include "core/config.h"

#include "core/config_rules.h"
#include "core/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int config_init(struct config *config, const char *job, const struct config_limits *limits)
{
    struct config c = {.limits = *limits};

    if (!text_is_name(job, strnlen(job, NAME_MAX_LEN)) || limits->keys_n == 0 ||
        limits->window_n == 0 || limits->total_bytes == 0 || limits->value_bytes == 0 ||
        limits->value_bytes > CONFIG_VALUE_MAX) {
        return MU_EINVAL;
    }
    strcpy(c.job, job);
    c.entries = calloc(limits->keys_n, sizeof(c.entries[0]));
    c.values = malloc(limits->total_bytes);
    c.window = calloc(limits->window_n, sizeof(c.window[0]));
    if (c.entries == NULL || c.values == NULL || c.window == NULL) {
        config_close(&c);
        return MU_ENOMEM;
    }
    *config = c;
    return MU_OK;
}

void config_close(struct config *config)
{
    free(config->entries);
    free(config->values);
    free(config->window);
    *config = (struct config){0};
}

void config_reset(struct config *config, const char *job)
{
    strcpy(config->job, job);
    config->entries_n = config->values_n = 0;
    config->version = config->floor = 0;
    config->pending = false;
}

size_t config_memory(const struct config *config)
{
    return config->limits.keys_n * sizeof(config->entries[0]) + config->limits.total_bytes +
           config->limits.window_n * sizeof(config->window[0]);
}

/* The place of a key among the entries: its own, or where it would go in. */
static uint32_t place_of(const struct config *c, const char *key, bool *found)
{
    uint32_t lo = 0;
    uint32_t hi = c->entries_n;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (strcmp(c->entries[mid].key, key) < 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    *found = lo < c->entries_n && strcmp(c->entries[lo].key, key) == 0;
    return lo;
}

static struct config_entry *find(const struct config *c, const char *key)
{
    bool found;
    uint32_t i = place_of(c, key, &found);

    return found ? &c->entries[i] : NULL;
}

static int check_version(const struct config_request *q, const struct config_entry *entry,
                         char *why, size_t cap)
{
    if (q->remove && entry == NULL) {
        text_say(why, cap, "%s does not exist", q->key);
        return MU_ENOENT;
    }
    if (q->expect == CONFIG_ANY) {
        return MU_OK;
    }
    if (entry == NULL && q->expect != 0) {
        text_say(why, cap, "%s does not exist; version %" PRIu64 " was expected", q->key,
                 q->expect);
        return MU_ECONFLICT;
    }
    if (entry != NULL && q->expect == 0) {
        text_say(why, cap, "%s exists, at version %" PRIu64, q->key, entry->version);
        return MU_EEXIST;
    }
    if (entry != NULL && q->expect != entry->version) {
        text_say(why, cap, "%s is at version %" PRIu64 ", not %" PRIu64 ": read it again", q->key,
                 entry->version, q->expect);
        return MU_ECONFLICT;
    }
    return MU_OK;
}

static int check_room(const struct config *c, const struct config_request *q,
                      const struct config_entry *entry, char *why, size_t cap)
{
    uint32_t others_n = c->values_n - (entry == NULL ? 0 : entry->value_n);

    if (q->value_n > c->limits.value_bytes) {
        text_say(why, cap, "the value of %s has %" PRIu32 " bytes, more than %" PRIu32, q->key,
                 q->value_n, c->limits.value_bytes);
        return MU_ELIMIT;
    }
    if (entry == NULL && c->entries_n == c->limits.keys_n) {
        text_say(why, cap, "there are %" PRIu32 " keys already: remove some", c->entries_n);
        return MU_ELIMIT;
    }
    if (q->value_n > c->limits.total_bytes - others_n) {
        text_say(why, cap, "all values together would exceed %" PRIu32 " bytes: remove some",
                 c->limits.total_bytes);
        return MU_ELIMIT;
    }
    return MU_OK;
}

int config_check(struct config *config, const struct config_request *request,
                 struct rec_config *record_out, char *why, size_t cap)
{
    const struct config_entry *entry;
    int rc = MU_OK;

    if (config->pending) {
        text_say(why, cap, "another change is being written: try again");
        return MU_EAGAIN;
    }
    if (!config_key_valid(request->key, why, cap)) {
        return MU_EINVAL;
    }
    entry = find(config, request->key);
    rc = check_version(request, entry, why, cap);
    if (rc == MU_OK && !request->remove) {
        rc = check_room(config, request, entry, why, cap);
    }
    if (rc == MU_OK && !request->remove) {
        rc = config_value_check(config, request->key, request->value, request->value_n, why, cap);
    }
    if (rc != MU_OK) {
        return rc;
    }
    config->pending = true;
    *record_out = (struct rec_config){.version = config->version + 1, .deleted = request->remove};
    strcpy(record_out->job, config->job);
    strcpy(record_out->key, request->key);
    if (!request->remove) {
        record_out->value_n = request->value_n;
        /* Records own nothing: whoever reads one reads the value, and none writes it. */
        record_out->value = (uint8_t *)(uintptr_t)request->value;
    }
    return MU_OK;
}

void config_abort(struct config *config)
{
    mu_assert(config->pending);
    config->pending = false;
}

/* Takes the value of entry i out of `values` and closes the hole. */
static void drop_value(struct config *c, uint32_t i)
{
    uint32_t at = c->entries[i].at;
    uint32_t n = c->entries[i].value_n;

    c->values_n -= n;
    memmove(c->values + at, c->values + at + n, c->values_n - at);
    for (uint32_t k = 0; k < c->entries_n; k++) {
        c->entries[k].at -= c->entries[k].at > at ? n : 0;
    }
    c->entries[i].value_n = 0;
}

static void apply_removal(struct config *c, uint32_t i)
{
    drop_value(c, i);
    c->entries_n--;
    memmove(&c->entries[i], &c->entries[i + 1], (c->entries_n - i) * sizeof(c->entries[0]));
}

static void apply_value(struct config *c, uint32_t i, bool found, const struct rec_config *r)
{
    if (found) {
        drop_value(c, i);
    } else {
        memmove(&c->entries[i + 1], &c->entries[i], (c->entries_n - i) * sizeof(c->entries[0]));
        c->entries_n++;
        strcpy(c->entries[i].key, r->key);
    }
    if (r->value_n > 0) {
        memcpy(c->values + c->values_n, r->value, r->value_n);
    }
    c->entries[i].version = r->version;
    c->entries[i].at = c->values_n;
    c->entries[i].value_n = r->value_n;
    c->values_n += r->value_n;
}

int config_apply(struct config *config, const struct rec_config *record)
{
    bool is_mark = record->deleted && record->key[0] == '\0';
    bool found;

    if (record->version <= config->version || strcmp(record->job, config->job) != 0 ||
        (!is_mark && !config_key_valid(record->key, NULL, 0))) {
        return MU_ECORRUPT;
    }
    uint32_t i = place_of(config, record->key, &found);
    if (record->deleted && !is_mark) {
        if (!found) {
            return MU_ECORRUPT;
        }
        apply_removal(config, i);
    } else if (!is_mark) {
        struct config_request q = {.key = record->key, .value_n = record->value_n};
        int rc = check_room(config, &q, found ? &config->entries[i] : NULL, NULL, 0);
        if (rc != MU_OK) {
            return rc;
        }
        apply_value(config, i, found, record);
    }

    struct config_change *change = &config->window[record->version % config->limits.window_n];
    strcpy(change->key, record->key);
    change->deleted = record->deleted;
    if (is_mark) {
        config->floor = record->version; /* What happened before it is not known. */
    } else if (record->version != config->version + 1) {
        config->floor = record->version - 1;
    }
    config->version = record->version;
    if (config->version - config->floor > config->limits.window_n) {
        config->floor = config->version - config->limits.window_n;
    }
    config->pending = false;
    return MU_OK;
}

static int give(const struct config *c, const struct config_entry *entry, struct rec_config *out)
{
    if (entry == NULL) {
        return MU_ENOENT;
    }
    *out = (struct rec_config){.version = entry->version, .value_n = entry->value_n};
    strcpy(out->job, c->job);
    strcpy(out->key, entry->key);
    out->value = c->values + entry->at;
    return MU_OK;
}

static int give_removal(const struct config *c, const char *key, uint64_t version,
                        struct rec_config *out)
{
    *out = (struct rec_config){.version = version, .deleted = true};
    strcpy(out->job, c->job);
    strcpy(out->key, key);
    return MU_OK;
}

int config_get(const struct config *config, const char *key, struct rec_config *out)
{
    return give(config, find(config, key), out);
}

int config_list(const struct config *config, const char *prefix, const char *after,
                struct rec_config *out)
{
    bool found;
    uint32_t i = place_of(config, strcmp(after, prefix) < 0 ? prefix : after, &found);

    i += found && strcmp(config->entries[i].key, after) == 0;
    if (i == config->entries_n || strncmp(config->entries[i].key, prefix, strlen(prefix)) != 0) {
        return MU_ENOENT;
    }
    return give(config, &config->entries[i], out);
}

/* The oldest key that is younger than `after`: a pass over all, as dumps are rare and short. */
int config_dump(const struct config *config, uint64_t after, struct rec_config *out)
{
    const struct config_entry *oldest = NULL;

    for (uint32_t i = 0; i < config->entries_n; i++) {
        const struct config_entry *e = &config->entries[i];
        if (e->version > after && (oldest == NULL || e->version < oldest->version)) {
            oldest = e;
        }
    }
    if (oldest == NULL && after < config->version) {
        return give_removal(config, "", config->version, out);
    }
    return give(config, oldest, out);
}

/* Whether change v was followed by another of the same key. */
static bool is_overtaken(const struct config *c, uint64_t v, const struct config_entry *entry)
{
    const struct config_change *change = &c->window[v % c->limits.window_n];

    if (entry != NULL) {
        return entry->version != v;
    }
    for (uint64_t later = v + 1; later <= c->version; later++) {
        if (strcmp(c->window[later % c->limits.window_n].key, change->key) == 0) {
            return true;
        }
    }
    return false;
}

int config_since(const struct config *config, uint64_t after, struct rec_config *out)
{
    if (after < config->floor || after > config->version) {
        return MU_ESTALE;
    }
    for (uint64_t v = after + 1; v <= config->version; v++) {
        const struct config_change *change = &config->window[v % config->limits.window_n];
        const struct config_entry *entry = find(config, change->key);
        if (!is_overtaken(config, v, entry)) {
            return entry != NULL ? give(config, entry, out)
                                 : give_removal(config, change->key, v, out);
        }
    }
    return MU_ENOENT;
}

bool config_matches(const char *watched, const char *key)
{
    size_t n = strlen(watched);

    return n == 0 || watched[n - 1] == '/' ? strncmp(watched, key, n) == 0
                                           : strcmp(watched, key) == 0;
}
