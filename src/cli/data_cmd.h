/* What the verbs of `muster data` share. Functions that return int give an exit status; if it is
 * not EXIT_SUCCESS they have said why on stderr. */
#ifndef CLI_DATA_CMD_H
#define CLI_DATA_CMD_H

#include "cli/cli.h"
#include "cli/opts.h"
#include "data/reader.h"

#include <jansson.h>
#include <stdio.h>

enum data_format { DATA_LINES, DATA_RAW, DATA_BASE64, DATA_JSON };

struct data_range {
    uint64_t first, end; /* UINT64_MAX: to the end */
};

/* What it was asked for. Strings are argv's own. */
struct data_call {
    char **files;
    uint32_t files_n;
    const char *options; /* how they are read; NULL */
    const char *out;
    const char *compressor, *chunk;
    uint32_t split; /* records of a file; 0: one file */
    struct data_range records;
    uint8_t format;
    bool skip, zip, json;
};

int data_cmd_pack(const struct data_call *c);
int data_cmd_ls(const struct data_call *c);
int data_cmd_cat(const struct data_call *c);
int data_cmd_verify(const struct data_call *c);

/* ---- data_text.c ---- */

/* "muster data: …" on stderr; gives EXIT_FAILURE. */
int data_cmd_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* … with what mu_error() says; EXIT_NOT_FOUND if rc is MU_ENOENT. */
int data_cmd_failed(int rc);
/* --read, and skip=yes if that was asked for. free() it; NULL: out of memory. */
char *data_cmd_options(const struct data_call *c, bool skip);
/* All of the files as one reader, and the records asked for in it. */
int data_cmd_open(const struct data_call *c, mu_reader **reader_out, uint64_t *first_out,
                  uint64_t *end_out);
int data_cmd_find(const struct data_call *c, bool skip, struct found_list *out);

/* A record as a JSON object; NULL: out of memory. */
json_t *data_text_json(const mu_record *record);
/* Text as it is; anything else as {"base64": …}. */
json_t *data_text_value(const void *data, size_t n);
/* free() it; NULL: out of memory. */
char *data_text_base64(const void *data, size_t n, size_t *n_out);
int data_text_print(json_t *object); /* on a line of its own; it is taken */

/* A bar on stderr if that is a terminal; otherwise nothing. */
struct data_bar {
    const char *what;
    uint64_t total;
    int percent; /* that is shown; -1: none */
};

void data_bar_begin(struct data_bar *b, const char *what, uint64_t total);
void data_bar_show(struct data_bar *b, uint64_t done);
void data_bar_end(struct data_bar *b); /* it goes away */

#endif
