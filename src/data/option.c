/* "format=csv&header=no&delimiter=tab": what may be said of sources and writers. */
#include "data/shard.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int hex(char c)
{
    return c >= '0' && c <= '9'                 ? c - '0'
           : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                : -1;
}

static void solve_percent(char *text)
{
    char *to = text;

    for (; *text != '\0'; text++) {
        if (*text == '%' && hex(text[1]) >= 0 && hex(text[2]) >= 0 &&
            hex(text[1]) + hex(text[2]) > 0) {
            *to++ = (char)(hex(text[1]) * 16 + hex(text[2]));
            text += 2;
        } else {
            *to++ = *text;
        }
    }
    *to = '\0';
}

int option_each(const char *text, option_fn *fn, void *to)
{
    char *copy = strdup(text), *next = copy;
    int rc = copy != NULL ? MU_OK : error_say(MU_ENOMEM, "no memory for options");

    while (rc == MU_OK && next != NULL && *next != '\0') {
        char *key = strsep(&next, "&"), *value = strchr(key, '=');

        if (value == NULL) {
            rc = error_say(MU_EINVAL, "the option '%.80s' has no value: write %.80s=…", key, key);
        } else {
            *value++ = '\0';
            solve_percent(value);
            rc = fn(to, key, value);
        }
    }
    free(copy);
    return rc;
}

int option_yes(const char *key, const char *value, bool *to)
{
    const bool yes =
        strcmp(value, "yes") == 0 || strcmp(value, "true") == 0 || strcmp(value, "1") == 0;

    if (!yes && strcmp(value, "no") != 0 && strcmp(value, "false") != 0 &&
        strcmp(value, "0") != 0) {
        return error_say(MU_EINVAL, "the option %s wants yes or no, got '%.80s'", key, value);
    }
    *to = yes;
    return MU_OK;
}

int option_size(const char *key, const char *value, uint64_t min, uint64_t max, uint64_t *to)
{
    static const struct {
        const char *name;
        int shift;
    } units[] = {{"", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}};
    unsigned long long n;
    char *end;

    errno = 0;
    n = strtoull(value, &end, 10);
    for (size_t i = 0; errno == 0 && *value >= '0' && *value <= '9' && i < ARRAY_LEN(units); i++) {
        if (strcmp(end, units[i].name) == 0 && n <= UINT64_MAX >> units[i].shift &&
            n << units[i].shift >= min && n << units[i].shift <= max) {
            *to = n << units[i].shift;
            return MU_OK;
        }
    }
    return error_say(MU_EINVAL,
                     "the option %s wants bytes from %" PRIu64 " to %" PRIu64
                     ", such as 65536, 64KiB or 1MiB; got '%.80s'",
                     key, min, max, value);
}

int option_text(const char *value, char **to)
{
    char *copy = strdup(value);

    if (copy == NULL) {
        return error_say(MU_ENOMEM, "no memory for options");
    }
    free(*to);
    *to = copy;
    return MU_OK;
}

/* ---- of reading ---- */

static int set_delimiter(struct data_options *o, const char *value)
{
    if (strcmp(value, "tab") == 0) {
        o->delimiter = '\t';
    } else if (strlen(value) == 1 && strchr("\"\r\n", value[0]) == NULL) {
        o->delimiter = value[0];
    } else {
        return error_say(MU_EINVAL, "the option delimiter wants one byte, or tab; got '%.80s'",
                         value);
    }
    return MU_OK;
}

static int set_format(struct data_options *o, const char *value)
{
    o->format = format_find(value);
    return o->format != NULL
               ? MU_OK
               : error_say(MU_EINVAL,
                           "there is no format '%.80s'; there are recordio, lines, csv, fixed, "
                           "tfrecord, idx, tar, mds, sqlite and file",
                           value);
}

static int set_layout(struct data_options *o, const char *value)
{
    if (strlen(value) != 1 || (value[0] != 'a' && value[0] != 'b')) {
        return error_say(MU_EINVAL, "the option layout wants a or b, got '%.80s'", value);
    }
    o->layout = value[0] == 'a' ? LAYOUT_A : LAYOUT_B;
    o->format = &format_recordio;
    return MU_OK;
}

static int set(void *to, const char *key, char *value)
{
    struct data_options *o = to;
    bool header = false;
    int rc;

    if (strcmp(key, "format") == 0) {
        return set_format(o, value);
    } else if (strcmp(key, "layout") == 0) {
        return set_layout(o, value);
    } else if (strcmp(key, "skip") == 0) {
        return option_yes(key, value, &o->skip);
    } else if (strcmp(key, "header") == 0) {
        rc = option_yes(key, value, &header);
        o->headless = !header;
        return rc;
    } else if (strcmp(key, "delimiter") == 0) {
        return set_delimiter(o, value);
    } else if (strcmp(key, "columns") == 0) {
        return option_text(value, &o->columns);
    } else if (strcmp(key, "types") == 0) {
        return option_text(value, &o->types);
    } else if (strcmp(key, "table") == 0) {
        return option_text(value, &o->table);
    } else if (strcmp(key, "record") == 0) {
        return option_size(key, value, 1, DATA_RECORD_MAX, &o->record);
    } else if (strcmp(key, "head") == 0) {
        return option_size(key, value, 0, UINT64_MAX / 2, &o->head);
    } else if (strcmp(key, "max") == 0) {
        return option_size(key, value, 1, UINT32_MAX, &o->max);
    }
    return error_say(
        MU_EINVAL,
        "there is no option '%.80s' of reading; there are format, layout, skip, header, "
        "delimiter, columns, types, table, record, head and max",
        key);
}

void data_options_init(struct data_options *o)
{
    *o = (struct data_options){.max = DATA_RECORD_MAX};
}

int data_options_read(struct data_options *o, const char *text)
{
    return option_each(text, set, o);
}

int data_options_copy(struct data_options *to, const struct data_options *from)
{
    int rc = MU_OK;

    *to = *from;
    to->columns = to->types = to->table = NULL;
    rc = from->columns != NULL ? option_text(from->columns, &to->columns) : rc;
    rc = rc == MU_OK && from->types != NULL ? option_text(from->types, &to->types) : rc;
    rc = rc == MU_OK && from->table != NULL ? option_text(from->table, &to->table) : rc;
    return rc;
}

void data_options_free(struct data_options *o)
{
    free(o->columns);
    free(o->types);
    free(o->table);
    o->columns = o->types = o->table = NULL;
}
