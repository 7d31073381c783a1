#include "cli/opts.h"

#include "cli/cli.h"
#include "cli/suggest.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_CAP 64

struct parser {
    const struct opts *spec;
    int argc;
    char **argv;
    int next; /* in argv */
    void *to;
    struct opts_words words;
    char error[OPTS_ERROR_MAX];
};

/* Whether the first n bytes of `typed` are `name`, '-' and '_' being the same. */
static bool same(const char *typed, size_t n, const char *name, size_t name_n)
{
    if (n != name_n) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if ((typed[i] == '_' ? '-' : typed[i]) != name[i]) {
            return false;
        }
    }
    return true;
}

static bool has_name(const struct opt *o, const char *typed, size_t n)
{
    if (o->name != NULL && same(typed, n, o->name, strlen(o->name))) {
        return true;
    }
    for (const char *at = o->aliases; at != NULL && *at != '\0';) {
        size_t alias_n = strcspn(at, " ");

        if (same(typed, n, at, alias_n)) {
            return true;
        }
        at += alias_n + strspn(at + alias_n, " ");
    }
    return false;
}

static const struct opt *find_long(const struct opts *spec, const char *typed, size_t n)
{
    for (const struct opt *o = spec->table; o->type != OPT_END; o++) {
        if (o->type != OPT_GROUP && has_name(o, typed, n)) {
            return o;
        }
    }
    return NULL;
}

static const struct opt *find_short(const struct opts *spec, char letter)
{
    for (const struct opt *o = spec->table; o->type != OPT_END; o++) {
        if (o->letter != '\0' && o->letter == letter) {
            return o;
        }
    }
    return NULL;
}

static int unknown(struct parser *p, const char *typed, size_t n)
{
    struct suggestion s;
    char name[NAME_CAP];

    snprintf(name, sizeof(name), "%.*s", (int)n, typed);
    for (char *c = name; *c != '\0'; c++) {
        *c = *c == '_' ? '-' : *c;
    }
    suggest_begin(&s, name);
    suggest_offer(&s, "help");
    for (const struct opt *o = p->spec->table; o->type != OPT_END; o++) {
        if (o->name != NULL && !o->hidden) {
            suggest_offer(&s, o->name);
        }
    }
    if (s.best == NULL) {
        snprintf(p->error, sizeof(p->error), "there is no option '%.*s'", (int)MIN(n, 100), typed);
    } else {
        snprintf(p->error, sizeof(p->error), "there is no option '%.*s'. Did you mean --%s?",
                 (int)MIN(n, 100), typed, s.best);
    }
    return MU_EINVAL;
}

/* Takes the next word as the value of `source`, unless there is one already. */
static int with_value(struct parser *p, const struct opt *o, const char *source, const char *text)
{
    if (text == NULL && o->type != OPT_FLAG) {
        if (p->next == p->argc) {
            snprintf(p->error, sizeof(p->error), "%s needs a value", source);
            return MU_EINVAL;
        }
        text = p->argv[p->next++];
    }
    return opts_value(o, text, source, p->to, p->error);
}

static int no_flag(struct parser *p, const char *typed, size_t n)
{
    const struct opt *o = NULL;

    if (n > 3 && same(typed, 3, "no-", 3)) {
        o = find_long(p->spec, typed + 3, n - 3);
    }
    if (o == NULL || o->type != OPT_FLAG || typed[n] == '=') {
        return MU_ENOENT;
    }
    return opts_value(o, "false", typed, p->to, p->error);
}

static int take_long(struct parser *p, const char *word)
{
    size_t n = strcspn(word + 2, "=");
    const struct opt *o = find_long(p->spec, word + 2, n);
    char source[NAME_CAP + 2];
    int rc;

    if (o != NULL) {
        snprintf(source, sizeof(source), "%.*s", (int)n + 2, word);
        return with_value(p, o, source, word[2 + n] == '=' ? word + 2 + n + 1 : NULL);
    }
    rc = no_flag(p, word + 2, n);
    return rc == MU_ENOENT ? unknown(p, word, n + 2) : rc;
}

static int take_short(struct parser *p, const char *word)
{
    const struct opt *o = find_short(p->spec, word[1]);
    char source[] = {'-', word[1], '\0'};

    if (o == NULL || (o->type == OPT_FLAG && word[2] != '\0')) {
        return unknown(p, word, strlen(word));
    }
    return with_value(p, o, source, word[2] != '\0' ? word + 2 : NULL);
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static int take_word(struct parser *p, char *word)
{
    if (p->words.n == p->spec->words_max && !p->spec->stop_at_word) {
        snprintf(p->error, sizeof(p->error), "'%.100s' is one word too many", word);
        return MU_EINVAL;
    }
    p->words.words[p->words.n++] = word;
    return MU_OK;
}

/* The rest of argv as words. */
static int take_rest(struct parser *p)
{
    int rc = MU_OK;

    while (rc == MU_OK && p->next < p->argc) {
        rc = take_word(p, p->argv[p->next++]);
    }
    return rc;
}

/* MU_EDONE: help was asked for. */
static int take_all(struct parser *p)
{
    int rc = MU_OK;

    while (rc == MU_OK && p->next < p->argc) {
        char *word = p->argv[p->next++];

        if (strcmp(word, "--") == 0) {
            return take_rest(p);
        }
        if (is_help(word)) {
            return MU_EDONE;
        }
        if (word[0] == '-' && word[1] == '-') {
            rc = take_long(p, word);
        } else if (word[0] == '-' && word[1] != '\0') {
            rc = take_short(p, word);
        } else {
            rc = take_word(p, word);
            if (rc == MU_OK && p->spec->stop_at_word) {
                return take_rest(p);
            }
        }
    }
    return rc;
}

static int take_env(struct parser *p, const struct opt *o)
{
    for (const char *at = o->env; at != NULL && *at != '\0';) {
        size_t n = strcspn(at, " ");
        char name[NAME_CAP];
        const char *text;

        snprintf(name, sizeof(name), "%.*s", (int)n, at);
        text = getenv(name);
        if (text != NULL && *text != '\0') {
            return opts_value(o, text, name, p->to, p->error);
        }
        at += n + strspn(at + n, " ");
    }
    return MU_ENOENT;
}

/* Presets are our own: one that can't be read is our fault. */
static void take_presets(struct parser *p)
{
    for (const struct opt *o = p->spec->table; o->type != OPT_END; o++) {
        if (o->type != OPT_GROUP && o->preset != NULL) {
            int rc = opts_value(o, o->preset, o->name, p->to, p->error);

            mu_assert(rc == MU_OK);
        }
    }
}

static int take_environment(struct parser *p)
{
    for (const struct opt *o = p->spec->table; o->type != OPT_END; o++) {
        int rc = o->type == OPT_GROUP ? MU_ENOENT : take_env(p, o);

        if (rc != MU_OK && rc != MU_ENOENT) {
            return rc;
        }
    }
    return MU_OK;
}

static int too_few(struct parser *p)
{
    if (p->words.n >= p->spec->words_min) {
        return MU_OK;
    }
    snprintf(p->error, sizeof(p->error), "usage: muster %s %s", p->spec->command, p->spec->usage);
    return MU_EINVAL;
}

/* Help goes first: it must work whatever the environment holds. */
static bool asks_help(int argc, char **argv)
{
    return argc > 1 && is_help(argv[1]);
}

bool opts_parse(const struct opts *spec, int argc, char **argv, void *to,
                struct opts_words *words_out, int *status_out)
{
    struct parser p = {.spec = spec, .argc = argc, .argv = argv, .next = 1, .to = to};
    int rc = MU_EDONE;

    p.words.words = argv + 1;
    if (!asks_help(argc, argv)) {
        take_presets(&p);
        rc = take_environment(&p);
        rc = rc == MU_OK ? take_all(&p) : rc;
        rc = rc == MU_OK ? too_few(&p) : rc;
    }
    if (rc == MU_EDONE) {
        opts_help(spec, to);
        *status_out = EXIT_SUCCESS;
        return false;
    }
    if (rc != MU_OK) {
        *status_out = opts_usage_error(spec, "%s", p.error);
        return false;
    }
    if (p.words.n + 1 < (uint32_t)argc) {
        p.words.words[p.words.n] = NULL;
    }
    *words_out = p.words;
    return true;
}

int opts_usage_error(const struct opts *spec, const char *fmt, ...)
{
    char text[OPTS_ERROR_MAX];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    fprintf(stderr, "muster %s: %s\n(\"muster %s --help\" says more.)\n", spec->command, text,
            spec->command);
    return EXIT_USAGE;
}
