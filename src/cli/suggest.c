/* "Did you mean": the command nearest to what was typed. */
#include "cli/cli.h"

#include <stdio.h>
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

static const char *nearest(const char *name)
{
    const char *best = NULL;
    size_t best_distance = 3; /* Further than two letters is no typing error. */

    name += strspn(name, "-");
    for (const struct cli_command *c = cli_commands; c->name != NULL; c++) {
        size_t d = distance(name, c->name);

        if (d < best_distance && d < strlen(c->name)) {
            best = c->name;
            best_distance = d;
        }
    }
    return best;
}

int cli_unknown(const char *name)
{
    const char *best = nearest(name);

    if (best != NULL) {
        fprintf(stderr, "muster: there is no command \"%s\". Did you mean \"muster %s\"?\n", name,
                best);
    } else {
        fprintf(stderr, "muster: there is no command \"%s\". \"muster help\" lists them all.\n",
                name);
    }
    return EXIT_USAGE;
}
