/* The text of one option as its value. */
#include "cli/opts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int wants(const char *source, const char *what, const char *text, char *error)
{
    snprintf(error, OPTS_ERROR_MAX, "%.100s wants %.200s, got '%.100s'", source, what, text);
    return MU_EINVAL;
}

static int read_flag(const char *text, const char *source, bool *to, char *error)
{
    static const char *const words[][2] = {
        {"true", "false"}, {"1", "0"}, {"yes", "no"}, {"on", "off"}};

    if (text == NULL) {
        *to = true;
        return MU_OK;
    }
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        for (int no = 0; no < 2; no++) {
            if (strcasecmp(text, words[i][no]) == 0) {
                *to = no == 0;
                return MU_OK;
            }
        }
    }
    return wants(source, "true or false", text, error);
}

static uint32_t limit(const struct opt *o)
{
    return o->max == 0 ? UINT32_MAX : o->max;
}

static int read_u32(const struct opt *o, const char *text, const char *source, uint32_t *to,
                    char *error)
{
    size_t digits_n = strspn(text, "0123456789");
    unsigned long long number;
    char range[96];

    errno = 0;
    number = strtoull(text, NULL, 10);
    if (digits_n > 0 && text[digits_n] == '\0' && errno == 0 && number >= o->min &&
        number <= limit(o)) {
        *to = (uint32_t)number;
        return MU_OK;
    }
    if (o->max == 0) {
        snprintf(range, sizeof(range), "a whole number from %" PRIu32, o->min);
    } else {
        snprintf(range, sizeof(range), "a whole number from %" PRIu32 " to %" PRIu32, o->min,
                 o->max);
    }
    return wants(source, range, text, error);
}

static int read_seconds(const struct opt *o, const char *text, const char *source, uint32_t *to,
                        char *error)
{
    bool plain = strspn(text, "0123456789.") == strlen(text) && strpbrk(text, "0123456789");
    char range[96];
    char *end;
    double ms = strtod(text, &end) * 1000.0 + 0.5;

    if (plain && *end == '\0' && ms >= o->min && ms < limit(o) + 1.0) {
        *to = (uint32_t)ms;
        return MU_OK;
    }
    if (o->max == 0) {
        snprintf(range, sizeof(range), "seconds, like 2 or 0.5, from %g", o->min / 1000.0);
    } else {
        snprintf(range, sizeof(range), "seconds, like 2 or 0.5, from %g to %g", o->min / 1000.0,
                 o->max / 1000.0);
    }
    return wants(source, range, text, error);
}

static int read_choice(const struct opt *o, const char *text, const char *source, uint8_t *to,
                       char *error)
{
    const char *at = o->choices;
    char list[128] = "one of ";

    for (uint8_t i = 0; *at != '\0'; i++) {
        size_t n = strcspn(at, "|");

        if (strlen(text) == n && strncmp(at, text, n) == 0) {
            *to = i;
            return MU_OK;
        }
        strncat(list, i > 0 ? ", " : "", sizeof(list) - strlen(list) - 1);
        strncat(list, at, MIN(n, sizeof(list) - strlen(list) - 1));
        at += n + (at[n] == '|');
    }
    return wants(source, list, text, error);
}

static int read_custom(const struct opt *o, const char *text, const char *source, void *to,
                       char *error)
{
    char why[OPTS_ERROR_MAX] = "";
    int rc = o->read(text, to, why);

    if (rc == MU_OK) {
        return MU_OK;
    }
    if (why[0] == '\0') {
        return wants(source, o->wants != NULL ? o->wants : "something else", text, error);
    }
    snprintf(error, OPTS_ERROR_MAX, "%.100s: %.400s", source, why);
    return rc;
}

int opts_value(const struct opt *o, const char *text, const char *source, void *to, char *error)
{
    void *place = (char *)to + o->at;

    switch (o->type) {
    case OPT_FLAG:
        return read_flag(text, source, place, error);
    case OPT_STRING:
        *(const char **)place = text;
        return MU_OK;
    case OPT_U32:
        return read_u32(o, text, source, place, error);
    case OPT_SECONDS:
        return read_seconds(o, text, source, place, error);
    case OPT_CHOICE:
        return read_choice(o, text, source, place, error);
    case OPT_READ:
        return read_custom(o, text, source, place, error);
    case OPT_END:
    case OPT_GROUP:
        break;
    }
    base_panic(__FILE__, __LINE__, "an option without a value");
}
