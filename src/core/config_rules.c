#include "core/config_rules.h"

#include "core/schedule.h"
#include "core/text.h"

#include <inttypes.h>
#include <string.h>

const char *const config_acting[CONFIG_ACTING_N] = {"size", "members",  "min",
                                                    "max",  "schedule", "paused"};

bool config_key_acts(const char *key)
{
    for (size_t i = 0; i < CONFIG_ACTING_N; i++) {
        if (strcmp(key, config_acting[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool segment_valid(const char *segment, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!text_is_name(&segment[i], 1)) {
            return false;
        }
    }
    return n > 0 && !(n == 1 && segment[0] == '.') && !(n == 2 && memcmp(segment, "..", 2) == 0);
}

bool config_key_valid(const char *key, char *why, size_t cap)
{
    size_t key_n = strnlen(key, CONFIG_KEY_MAX);
    size_t from = 0;

    if (key_n == CONFIG_KEY_MAX) {
        text_say(why, cap, "the key has more than %d characters", CONFIG_KEY_MAX - 1);
        return false;
    }
    for (size_t i = 0; i <= key_n; i++) {
        if (i < key_n && key[i] != '/') {
            continue;
        }
        if (!segment_valid(key + from, i - from)) {
            text_say(why, cap,
                     "the key %s is not valid: write letters, digits, '.', '_' and '-', in parts "
                     "separated by '/', none of them empty, '.' or '..'",
                     text_quote(key, key_n).text);
            return false;
        }
        from = i + 1;
    }
    return true;
}

/* min <= size <= max, as far as they are set. */
static int check_sizes(const struct config *config, const char *key, const char *value,
                       uint32_t value_n, char *why, size_t cap)
{
    static const char *const keys[] = {"min", "size", "max"};
    uint64_t sizes[ARRAY_LEN(keys)];
    const char *below = NULL;
    uint64_t least = 0;

    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        struct rec_config r;
        bool is_new = strcmp(key, keys[i]) == 0;
        if (is_new && !text_number(value, value_n, 1, MEMBERS_MAX, &sizes[i])) {
            text_say(why, cap, "%s must be a whole number from 1 to %u, not %s", key, MEMBERS_MAX,
                     text_quote(value, value_n).text);
            return MU_EINVAL;
        }
        if (!is_new &&
            (config_get(config, keys[i], &r) != MU_OK ||
             !text_number((const char *)r.value, r.value_n, 1, MEMBERS_MAX, &sizes[i]))) {
            continue;
        }
        if (sizes[i] < least) {
            text_say(why, cap, "%s would be %" PRIu64 ", below %s, which would be %" PRIu64,
                     keys[i], sizes[i], below, least);
            return MU_EINVAL;
        }
        below = keys[i];
        least = sizes[i];
    }
    return MU_OK;
}

static int check_members(const char *value, uint32_t value_n, char *why, size_t cap)
{
    uint32_t starts[CONFIG_MEMBERS_MAX + 1] = {0};
    uint32_t n = 0;

    for (uint32_t i = 0; i <= value_n; i++) {
        if (i < value_n && value[i] != ',') {
            continue;
        }
        const char *name = value + starts[n];
        uint32_t name_n = i - starts[n];
        if (n == CONFIG_MEMBERS_MAX) {
            text_say(why, cap, "members has more than %d names", CONFIG_MEMBERS_MAX);
            return MU_EINVAL;
        }
        if (!text_is_name(name, name_n)) {
            text_say(why, cap, "members: name %" PRIu32 ", %s, is not the name of a node", n + 1,
                     text_quote(name, name_n).text);
            return MU_EINVAL;
        }
        for (uint32_t k = 0; k < n; k++) {
            if (starts[k + 1] - starts[k] - 1 == name_n &&
                memcmp(value + starts[k], name, name_n) == 0) {
                text_say(why, cap, "members: %s is listed twice", text_quote(name, name_n).text);
                return MU_EINVAL;
            }
        }
        starts[++n] = i + 1;
    }
    return MU_OK;
}

static int check_schedule(const char *value, uint32_t value_n, char *why, size_t cap)
{
    struct schedule schedule;
    char what[TEXT_MAX_LEN];
    int rc = schedule_parse(value, value_n, &schedule, what, sizeof(what));

    if (rc != MU_OK) {
        text_say(why, cap, "schedule: %s", what);
    }
    return rc;
}

static int check_paused(const char *value, uint32_t value_n, char *why, size_t cap)
{
    if ((value_n == 4 && memcmp(value, "true", 4) == 0) ||
        (value_n == 5 && memcmp(value, "false", 5) == 0)) {
        return MU_OK;
    }
    text_say(why, cap, "paused must be true or false, not %s", text_quote(value, value_n).text);
    return MU_EINVAL;
}

int config_value_check(const struct config *config, const char *key, const char *value,
                       uint32_t value_n, char *why, size_t cap)
{
    value = value_n == 0 ? "" : value;
    if (strcmp(key, "size") == 0 || strcmp(key, "min") == 0 || strcmp(key, "max") == 0) {
        return check_sizes(config, key, value, value_n, why, cap);
    }
    if (strcmp(key, "members") == 0) {
        return check_members(value, value_n, why, cap);
    }
    if (strcmp(key, "schedule") == 0) {
        return check_schedule(value, value_n, why, cap);
    }
    return strcmp(key, "paused") == 0 ? check_paused(value, value_n, why, cap) : MU_OK;
}
