#include "core/kind.h"

#include <stdio.h>
#include <string.h>

#define DIFFERENCE_MAX 512

/* Lines whose names have two words, of which the first is shown or not. */
static const struct {
    const char *word;
    bool shown;
} TWO[] = {{"state ", true}, {"fact ", false}, {KIND_NUMERIC, false}, {KIND_SAVES, false}};

static const char *next_line(const char *line)
{
    line += strcspn(line, "\n");
    return line + (*line == '\n');
}

/* How long a line's name is; *skip_out: so much of it is not shown. */
static size_t name_length(const char *line, size_t *skip_out)
{
    *skip_out = 0;
    for (size_t i = 0; i < ARRAY_LEN(TWO); i++) {
        const size_t n = strlen(TWO[i].word);

        if (strncmp(line, TWO[i].word, n) == 0) {
            *skip_out = TWO[i].shown ? 0 : n;
            return n + strcspn(line + n, " \n");
        }
    }
    return strcspn(line, " \n");
}

const char *kind_line(const char *text, const char *name, size_t name_n)
{
    for (; *text != '\0'; text = next_line(text)) {
        if (strncmp(text, name, name_n) == 0 && strcspn(text + name_n, " \n") == 0) {
            return text;
        }
    }
    return NULL;
}

static void write_value(char *text, size_t cap, const char *line, size_t name_n)
{
    const char *value = line != NULL ? line + name_n + (line[name_n] == ' ') : "none";

    snprintf(text, cap, "%.*s", (int)strcspn(value, "\n"), value);
}

static enum kind_weight weight_of(const char *line)
{
    return strncmp(line, KIND_NUMERIC, strlen(KIND_NUMERIC)) == 0 ? KIND_IF_STRICT
           : strncmp(line, KIND_SAVES, strlen(KIND_SAVES)) == 0   ? KIND_IS_TOLD
                                                                  : KIND_COUNTS;
}

static void tell(const char *here, const char *there, kind_differ_fn *differ, void *arg)
{
    const char *line = here != NULL ? here : there;
    char ours[DIFFERENCE_MAX / 2], theirs[DIFFERENCE_MAX / 2], text[2 * DIFFERENCE_MAX];
    size_t skip, name_n = name_length(line, &skip);

    write_value(ours, sizeof(ours), here, name_n);
    write_value(theirs, sizeof(theirs), there, name_n);
    snprintf(text, sizeof(text), "%.*s: here %s / there %s", (int)(name_n - skip), line + skip,
             ours, theirs);
    differ(arg, weight_of(line), text);
}

bool kind_compare(const char *here, const char *there, kind_differ_fn *differ, void *arg)
{
    bool any = false;
    size_t skip;

    if (strcmp(here, there) == 0) {
        return false;
    }
    for (const char *line = here; *line != '\0'; line = next_line(line)) {
        const char *other = kind_line(there, line, name_length(line, &skip));
        const size_t n = strcspn(line, "\n");

        if (other == NULL || strcspn(other, "\n") != n || memcmp(line, other, n) != 0) {
            tell(line, other, differ, arg);
            any = true;
        }
    }
    for (const char *line = there; *line != '\0'; line = next_line(line)) {
        if (kind_line(here, line, name_length(line, &skip)) == NULL) {
            tell(NULL, line, differ, arg);
            any = true;
        }
    }
    if (!any) {
        differ(arg, KIND_COUNTS,
               "the parts of the state are the same, but were named in another order");
    }
    return true;
}
