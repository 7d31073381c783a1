/* The help of a command, made of its table. */
#include "cli/opts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define WIDTH 92
#define COLUMN 30 /* where explanations begin */

/* Prints words from column `indent` on, wrapped, with as many blanks before each further line. */
static void wrap(const char *text, int indent)
{
    int at = indent;

    while (*text != '\0') {
        int n = (int)strcspn(text, " \n");

        if (at > indent && at + 1 + n > WIDTH) {
            printf("\n%*s", indent, "");
            at = indent;
        } else if (at > indent) {
            putchar(' ');
            at++;
        }
        printf("%.*s", n, text);
        at += n;
        text += n;
        if (*text == '\n') {
            printf("\n%*s", indent, "");
            at = indent;
        }
        text += *text != '\0';
    }
    putchar('\n');
}

static const char *value_name(const struct opt *o)
{
    if (o->value != NULL) {
        return o->value;
    }
    switch (o->type) {
    case OPT_U32:
        return "N";
    case OPT_SECONDS:
        return "SECONDS";
    case OPT_CHOICE:
        return o->choices;
    default:
        return "TEXT";
    }
}

/* A flag that is on unless it is taken back. */
static bool is_on(const struct opt *o)
{
    return o->type == OPT_FLAG && o->preset != NULL && strcmp(o->preset, "true") == 0;
}

/* Columns on a terminal; a character of several bytes is one. */
static int columns(const char *text)
{
    int n = 0;

    for (; *text != '\0'; text++) {
        n += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return n;
}

/* "  -r, --redirects N", and how wide that is. */
static int left(const struct opt *o)
{
    int n = printf("  ");

    if (o->letter != '\0') {
        n += printf("-%c, ", o->letter);
    }
    n += printf("--%s%s", is_on(o) ? "[no-]" : "", o->name);
    for (const char *at = o->aliases; at != NULL && *at != '\0';) {
        int alias_n = (int)strcspn(at, " ");

        n += printf(", --%.*s", alias_n, at);
        at += alias_n + (int)strspn(at + alias_n, " ");
    }
    if (o->type != OPT_FLAG) {
        printf(" %s", value_name(o));
        n += 1 + columns(value_name(o));
    }
    return n;
}

static void choice_word(const char *choices, uint8_t which, char *buf, size_t cap)
{
    while (which > 0 && *choices != '\0') {
        choices += strcspn(choices, "|");
        choices += *choices == '|';
        which--;
    }
    snprintf(buf, cap, "%.*s", (int)strcspn(choices, "|"), choices);
}

/* "" if there is none to tell of. */
static void default_text(const struct opt *o, const void *to, char *buf, size_t cap)
{
    const void *place = (const char *)to + o->at;

    *buf = '\0';
    if (o->preset != NULL && o->type != OPT_FLAG) {
        snprintf(buf, cap, "%s", o->preset);
    } else if (o->shown && o->type == OPT_U32) {
        snprintf(buf, cap, "%" PRIu32, *(const uint32_t *)place);
    } else if (o->shown && o->type == OPT_SECONDS) {
        snprintf(buf, cap, "%g", *(const uint32_t *)place / 1000.0);
    } else if (o->shown && o->type == OPT_CHOICE) {
        choice_word(o->choices, *(const uint8_t *)place, buf, cap);
    }
}

static void explain(const struct opt *o, const void *to)
{
    char text[1024], preset[128];
    int column = left(o);

    default_text(o, to, preset, sizeof(preset));
    snprintf(text, sizeof(text), "%s%s%s%s%s%s%s", o->help, *preset != '\0' ? " (default: " : "",
             preset, *preset != '\0' ? ")" : "", o->env != NULL ? " [$" : "",
             o->env != NULL ? o->env : "", o->env != NULL ? "]" : "");
    if (column > COLUMN - 2) {
        putchar('\n');
        column = 0;
    }
    printf("%*s", COLUMN - column, "");
    wrap(text, COLUMN);
}

void opts_help(const struct opts *spec, const void *to)
{
    printf("usage: muster %s%s%s\n\n", spec->command, *spec->usage != '\0' ? " " : "", spec->usage);
    wrap(spec->about, 0);
    if (spec->table->type != OPT_GROUP) {
        printf("\nOptions:\n");
    }
    for (const struct opt *o = spec->table; o->type != OPT_END; o++) {
        if (o->type == OPT_GROUP) {
            printf("\n%s:\n", o->help);
        } else if (!o->hidden) {
            explain(o, to);
        }
    }
    printf("%s  -h, --help%*sshow this and exit\n", spec->table->type == OPT_GROUP ? "\n" : "",
           COLUMN - 12, "");
    if (spec->examples != NULL) {
        printf("\nExamples:\n%s", spec->examples);
    }
}
