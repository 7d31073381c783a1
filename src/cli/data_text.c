#include "cli/data_cmd.h"

#include <openssl/evp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BAR_BYTES 40

int data_cmd_say(const char *fmt, ...)
{
    va_list args;

    fflush(stdout);
    fputs("muster data: ", stderr);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    return EXIT_FAILURE;
}

int data_cmd_failed(int rc)
{
    const char *text = mu_error();

    (void)data_cmd_say("%s", *text != '\0' ? text : mu_strerror(rc));
    return rc == MU_ENOENT ? EXIT_NOT_FOUND : rc == MU_EINVAL ? EXIT_USAGE : EXIT_FAILURE;
}

char *data_cmd_options(const struct data_call *c, bool skip)
{
    char *text;

    return asprintf(&text, "%s%s%s", c->options != NULL ? c->options : "",
                    c->options != NULL && skip ? "&" : "", skip ? "skip=yes" : "") < 0
               ? NULL
               : text;
}

int data_cmd_find(const struct data_call *c, bool skip, struct found_list *out)
{
    char *options = data_cmd_options(c, skip);
    int rc;

    if (options == NULL) {
        return data_cmd_say("out of memory");
    }
    rc = find_files((const char *const *)c->files, c->files_n, options, out);
    free(options);
    return rc == MU_OK ? EXIT_SUCCESS : data_cmd_failed(rc);
}

int data_cmd_open(const struct data_call *c, mu_reader **reader_out, uint64_t *first_out,
                  uint64_t *end_out)
{
    char *options = data_cmd_options(c, c->skip);
    uint64_t records;
    int rc;

    if (options == NULL) {
        return data_cmd_say("out of memory");
    }
    rc = mu_reader_open((const char *const *)c->files, c->files_n, options, reader_out);
    free(options);
    if (rc != MU_OK) {
        return data_cmd_failed(rc);
    }
    records = mu_reader_records(*reader_out);
    *first_out = MIN(c->records.first, records);
    *end_out = MAX(MIN(c->records.end, records), *first_out);
    return EXIT_SUCCESS;
}

/* ---- records ---- */

char *data_text_base64(const void *data, size_t n, size_t *n_out)
{
    char *text = n < INT32_MAX ? malloc((n + 2) / 3 * 4 + 1) : NULL;

    if (text != NULL) {
        *n_out = (size_t)EVP_EncodeBlock((uint8_t *)text, data, (int)n);
    }
    return text;
}

json_t *data_text_value(const void *data, size_t n)
{
    json_t *value = json_stringn(data != NULL ? data : "", n); /* NULL: it is no UTF-8. */
    size_t text_n;
    char *text;

    if (value != NULL) {
        return value;
    }
    text = data_text_base64(data, n, &text_n);
    value = text != NULL ? json_pack("{s:s#}", "base64", text, text_n) : NULL;
    free(text);
    return value;
}

static json_t *field_json(const mu_field *f)
{
    json_t *number = NULL;

    switch (f->type) {
    case MU_INTEGER:
        return json_integer(f->integer);
    case MU_REAL:
        number = json_real(f->real); /* NULL: JSON has no such number. */
        return number != NULL ? number : json_null();
    case MU_NULL:
        return json_null();
    default:
        return data_text_value(f->data, f->n);
    }
}

json_t *data_text_json(const mu_record *record)
{
    json_t *object = json_object();
    json_t *fields =
        record->fields_n > 0 ? json_object() : data_text_value(record->data, record->n);
    bool failed =
        json_object_set_new(object, "record", json_integer((json_int_t)record->number)) != 0;

    for (uint32_t i = 0; i < record->fields_n; i++) {
        failed |= json_object_set_new(fields, record->fields[i].name,
                                      field_json(&record->fields[i])) != 0;
    }
    failed |= json_object_set_new(object, record->fields_n > 0 ? "fields" : "data", fields) != 0;
    if (failed) {
        json_decref(object);
        return NULL;
    }
    return object;
}

int data_text_print(json_t *object)
{
    char *text = object != NULL ? json_dumps(object, JSON_COMPACT) : NULL;

    json_decref(object);
    if (text == NULL) {
        return data_cmd_say("out of memory");
    }
    puts(text);
    free(text);
    return EXIT_SUCCESS;
}

/* ---- a bar ---- */

void data_bar_begin(struct data_bar *b, const char *what, uint64_t total)
{
    *b = (struct data_bar){what, isatty(STDERR_FILENO) ? total : 0, -1};
}

void data_bar_show(struct data_bar *b, uint64_t done)
{
    const int percent =
        b->total > 0 ? (int)((double)MIN(done, b->total) / (double)b->total * 100) : -1;
    const int full = percent * BAR_BYTES / 100;

    if (percent == b->percent) {
        return;
    }
    b->percent = percent;
    fprintf(stderr, "\r%s [%.*s%*s] %3d%%", b->what, full,
            "########################################", BAR_BYTES - full, "", percent);
    fflush(stderr);
}

void data_bar_end(struct data_bar *b)
{
    if (b->percent >= 0) {
        fputs("\r\033[K", stderr);
        b->percent = -1;
    }
}
