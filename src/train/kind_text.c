#include "train/kind.h"

#include <string.h>

#define DIFFERENCE_MAX 512

struct line {
    const char *text;
    int n;      /* without its end */
    int name_n; /* of its beginning that names it */
};

static int word_end(const char *text, int from, int n)
{
    while (from < n && text[from] != ' ') {
        from++;
    }
    return from;
}

/* Takes the first line off *rest. */
static bool line_next(const char **rest, struct line *out)
{
    const char *text = *rest;
    int n = (int)strcspn(text, "\n");
    bool two = strncmp(text, "state ", 6) == 0 || strncmp(text, "fact ", 5) == 0 ||
               strncmp(text, KIND_NUMERIC, sizeof(KIND_NUMERIC) - 1) == 0;
    int name_n = word_end(text, 0, n);

    if (text[0] == '\0') {
        return false;
    }
    *rest = text + n + (text[n] == '\n');
    *out = (struct line){text, n, two && name_n < n ? word_end(text, name_n + 1, n) : name_n};
    return true;
}

static bool line_find(const char *rest, const struct line *like, struct line *out)
{
    struct line l;

    while (line_next(&rest, &l)) {
        if (l.name_n == like->name_n && memcmp(l.text, like->text, (size_t)l.name_n) == 0) {
            *out = l;
            return true;
        }
    }
    return false;
}

static void value_write(char *text, size_t cap, const struct line *l)
{
    if (l == NULL) {
        snprintf(text, cap, "none");
    } else {
        snprintf(text, cap, "%.*s", MAX(l->n - l->name_n - 1, 0),
                 l->text + MIN(l->name_n + 1, l->n));
    }
}

static void tell(const struct line *here, const struct line *there, kind_differ_fn *differ,
                 void *arg)
{
    const struct line *named = here != NULL ? here : there;
    bool numeric = strncmp(named->text, KIND_NUMERIC, sizeof(KIND_NUMERIC) - 1) == 0;
    int skip = numeric                                 ? (int)sizeof(KIND_NUMERIC) - 1
               : strncmp(named->text, "fact ", 5) == 0 ? 5
                                                       : 0;
    char ours[DIFFERENCE_MAX / 2], theirs[DIFFERENCE_MAX / 2], text[2 * DIFFERENCE_MAX];

    value_write(ours, sizeof(ours), here);
    value_write(theirs, sizeof(theirs), there);
    snprintf(text, sizeof(text), "%.*s: here %s / there %s", named->name_n - skip,
             named->text + skip, ours, theirs);
    differ(arg, numeric, text);
}

bool kind_compare(const char *here, const char *there, kind_differ_fn *differ, void *arg)
{
    const char *rest = here;
    struct line ours, theirs;
    bool any = false;

    if (strcmp(here, there) == 0) {
        return false;
    }
    while (line_next(&rest, &ours)) {
        bool found = line_find(there, &ours, &theirs);

        if (!found || ours.n != theirs.n || memcmp(ours.text, theirs.text, (size_t)ours.n) != 0) {
            tell(&ours, found ? &theirs : NULL, differ, arg);
            any = true;
        }
    }
    for (rest = there; line_next(&rest, &theirs);) {
        if (!line_find(here, &theirs, &ours)) {
            tell(NULL, &theirs, differ, arg);
            any = true;
        }
    }
    if (!any) {
        differ(arg, false, "the parts of the state are the same, but were named in another order");
    }
    return true;
}

int kind_mode(const char *text, bool *warn_out)
{
    bool warn = text != NULL && strcmp(text, "warn") == 0;

    if (!warn && text != NULL && text[0] != '\0' && strcmp(text, "strict") != 0) {
        return MU_EINVAL;
    }
    *warn_out = warn;
    return MU_OK;
}
