#include "cli/suggest.h"

#include <string.h>

#define NAME_MAX_BYTES 32

/* How many letters must be added, dropped or changed to make one word of the other; two words
 * longer than NAME_MAX_BYTES are far apart whatever they are. */
static size_t distance(const char *a, const char *b)
{
    size_t a_n = strlen(a), b_n = strlen(b);
    size_t row[NAME_MAX_BYTES + 1];

    if (a_n > NAME_MAX_BYTES || b_n > NAME_MAX_BYTES) {
        return SIZE_MAX;
    }
    for (size_t j = 0; j <= b_n; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= a_n; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= b_n; j++) {
            size_t changed = diagonal + (a[i - 1] != b[j - 1]);
            size_t shorter = MIN(row[j], row[j - 1]) + 1;

            diagonal = row[j];
            row[j] = MIN(changed, shorter);
        }
    }
    return row[b_n];
}

void suggest_begin(struct suggestion *s, const char *typed)
{
    s->typed = typed + strspn(typed, "-");
    s->best = NULL;
    s->distance = 3; /* Further than two letters is no typing error. */
}

void suggest_offer(struct suggestion *s, const char *name)
{
    size_t typed_n = strlen(s->typed);
    size_t d = distance(s->typed, name);

    /* The beginning of a name is near to it, after every typing error. */
    if (typed_n >= 3 && strncmp(s->typed, name, typed_n) == 0) {
        d = MIN(d, 2);
    }
    if (d < s->distance && d < strlen(name)) {
        s->best = name;
        s->distance = d;
    }
}
