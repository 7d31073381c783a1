/* Options from one table: parsed, taken from the environment, explained and suggested by it.
 *
 * `--some-name VALUE`, `--some-name=VALUE`, and the same with '_' for '-'; `-r VALUE`, `-rVALUE`;
 * flags as `--x`, `--no-x`, `--x=false`. The command line goes before the environment, that before
 * the preset. `--help` and `-h` are always there. */
#ifndef CLI_OPTS_H
#define CLI_OPTS_H

#include "base/base.h"

#define OPTS_ERROR_MAX 512

enum opt_type {
    OPT_END,     /* the last entry of a table */
    OPT_GROUP,   /* a heading: only `help` counts */
    OPT_FLAG,    /* bool */
    OPT_STRING,  /* const char *, which points into argv or the environment */
    OPT_U32,     /* uint32_t, from min to max */
    OPT_SECONDS, /* uint32_t milliseconds, from "2" or "0.25"; min and max are milliseconds too */
    OPT_CHOICE,  /* uint8_t: the place of the word in `choices` */
    OPT_READ     /* whatever read() makes of it */
};

/* Sets *to and returns MU_OK, or leaves it. `error` (OPTS_ERROR_MAX, empty before) may be given a
 * sentence; if it stays empty "--name wants …, got 'text'" is said, from `wants`. */
typedef int (*opt_read)(const char *text, void *to, char *error);

struct opt {
    enum opt_type type;
    char letter;         /* of the short form; 0: none */
    bool hidden;         /* works, but is not in the help */
    bool shown;          /* U32, SECONDS, CHOICE: help shows what *to held as the default */
    const char *name;    /* with '-', not '_' */
    const char *aliases; /* other names, with blanks between; NULL: none */
    const char *value;   /* what the help calls the value: "SECONDS"; NULL: by the type */
    const char *help;
    size_t at;           /* offsetof() in the struct that opts_parse() fills */
    uint32_t min, max;   /* max 0: no limit */
    const char *preset;  /* read first, as if it were given; NULL: *to stays as the caller set it */
    const char *env;     /* variables, with blanks between, of which the first that is set counts */
    const char *choices; /* "auto|restart|inprocess" */
    const char *wants;   /* READ: "MIN or MIN:MAX" */
    opt_read read;
};

/* A command as its user sees it. */
struct opts {
    const char *command;  /* "run" */
    const char *usage;    /* what follows the command: "[OPTIONS] NODE" */
    const char *about;    /* paragraphs, with '\n' between; wrapped by the help */
    const char *examples; /* lines, printed as they are; NULL: none */
    const struct opt *table;
    bool stop_at_word; /* whatever follows the first word that is no option is left alone */
    uint32_t words_min, words_max;
};

/* The words that are no options; they are argv's own, moved together at its front. */
struct opts_words {
    char **words; /* NULL-terminated */
    uint32_t n;
};

/* argv[0] is the command's name. True: *to and *words_out are filled in. False: it has said what
 * was to be said (help on stdout, an error on stderr) and the command ends with *status_out. */
bool opts_parse(const struct opts *spec, int argc, char **argv, void *to,
                struct opts_words *words_out, int *status_out);

/* "muster COMMAND: …" on stderr, and where help is. Gives EXIT_USAGE. */
int opts_usage_error(const struct opts *spec, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The help, on stdout. `to` holds the defaults of options that are `shown`. */
void opts_help(const struct opts *spec, const void *to);

/* ---- the parts, for each other ---- */

/* `source` is how the error names the option: "--nnodes", "PET_NNODES". text NULL: a flag alone. */
int opts_value(const struct opt *o, const char *text, const char *source, void *to, char *error);

/* ---- readers for OPT_READ ---- */

int opts_endpoint(const char *text, void *to, char *error);  /* struct endpoint */
int opts_endpoints(const char *text, void *to, char *error); /* struct endpoints */

#endif
