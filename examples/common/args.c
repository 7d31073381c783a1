#include "args.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((noreturn, format(printf, 2, 3))) static void refuse(const char *program,
                                                                   const char *format, ...)
{
    va_list list;

    va_start(list, format);
    fprintf(stderr, "%s: ", program);
    vfprintf(stderr, format, list);
    fprintf(stderr, "; %s --help lists the options\n", program);
    va_end(list);
    exit(2);
}

static void help(const char *program, const char *about, const struct arg *args, size_t args_n)
{
    printf("%s: %s\n\nusage: %s [OPTION…]\n\n", program, about, program);
    for (size_t i = 0; i < args_n; i++) {
        int used = printf("  --%s %s", args[i].name, args[i].kind == ARG_TEXT ? "PATH" : "N");

        printf("%*s%s", used < 24 ? 24 - used : 1, "", args[i].help);
        if (args[i].kind == ARG_COUNT) {
            printf(" (%" PRIu64 ")", *(const uint64_t *)args[i].to);
        } else if (args[i].kind == ARG_REAL) {
            printf(" (%g)", *(const double *)args[i].to);
        } else if (*(const char *const *)args[i].to != NULL) {
            printf(" (%s)", *(const char *const *)args[i].to);
        }
        printf("\n");
    }
    printf("  --help                this list\n");
}

static uint64_t unit(char letter)
{
    switch (letter) {
    case 'K':
    case 'k':
        return 1 << 10;
    case 'M':
        return 1 << 20;
    case 'G':
        return 1 << 30;
    default:
        return 0;
    }
}

static int read_count(const char *text, uint64_t *number_out)
{
    char *end;
    uint64_t number;

    if (text[0] < '0' || text[0] > '9') { /* strtoull() takes signs and blanks. */
        return -1;
    }
    errno = 0;
    number = strtoull(text, &end, 10);
    if (errno == 0 && end[0] != '\0' && end[1] == '\0') {
        uint64_t factor = unit(end[0]);

        if (factor == 0 || number > UINT64_MAX / factor) {
            return -1;
        }
        number *= factor;
        end++;
    }
    if (errno != 0 || *end != '\0') {
        return -1;
    }
    *number_out = number;
    return 0;
}

static int read_real(const char *text, double *number_out)
{
    char *end;
    double number;

    errno = 0;
    number = strtod(text, &end);
    if (errno != 0 || end == text || *end != '\0') {
        return -1;
    }
    *number_out = number;
    return 0;
}

static void take(const char *program, const struct arg *a, const char *text)
{
    uint64_t count;
    double real;

    if (a->kind == ARG_TEXT) {
        *(const char **)a->to = text;
    } else if (a->kind == ARG_COUNT) {
        if (read_count(text, &count) != 0 || (double)count < a->min || (double)count > a->max) {
            refuse(program, "--%s is a whole number from %.0f to %.0f, not '%s'", a->name, a->min,
                   a->max, text);
        }
        *(uint64_t *)a->to = count;
    } else {
        /* Written so that a NaN is refused, too. */
        if (read_real(text, &real) != 0 || !(real >= a->min && real <= a->max)) {
            refuse(program, "--%s is a number from %g to %g, not '%s'", a->name, a->min, a->max,
                   text);
        }
        *(double *)a->to = real;
    }
}

static const struct arg *find(const struct arg *args, size_t args_n, const char *name, size_t n)
{
    for (size_t i = 0; i < args_n; i++) {
        if (strlen(args[i].name) == n && memcmp(args[i].name, name, n) == 0) {
            return &args[i];
        }
    }
    return NULL;
}

void args_parse(const char *program, const char *about, const struct arg *args, size_t args_n,
                int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        const char *value = strchr(word, '=');
        const struct arg *a;

        if (strcmp(word, "--help") == 0) {
            help(program, about, args, args_n);
            exit(0);
        }
        if (strncmp(word, "--", 2) != 0) {
            refuse(program, "'%s' is no option", word);
        }
        a = find(args, args_n, word + 2,
                 value != NULL ? (size_t)(value - word) - 2 : strlen(word) - 2);
        if (a == NULL) {
            refuse(program, "there is no option '%s'", word);
        }
        if (value == NULL && ++i == argc) {
            refuse(program, "--%s needs a value", a->name);
        }
        take(program, a, value != NULL ? value + 1 : argv[i]);
    }
}
