/* `muster data pack`: records of any format into one file of RecordIO. */
#include "cli/data_cmd.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Sources side by side: record i is record i of each of them, one after the other. */
struct zip {
    mu_reader **readers;
    mu_scan **scans;
    uint32_t n;
    uint8_t *bytes;
    size_t cap;
};

static void close_zip(struct zip *z)
{
    for (uint32_t i = 0; i < z->n; i++) {
        mu_scan_close(z->scans[i]);
        mu_reader_close(z->readers[i]);
    }
    free(z->readers);
    free(z->scans);
    free(z->bytes);
}

static int open_zip(const struct data_call *c, struct zip *z, uint64_t *first, uint64_t *end)
{
    const uint32_t n = c->zip ? c->files_n : 1;
    int status = EXIT_SUCCESS;

    z->readers = calloc(n, sizeof(mu_reader *));
    z->scans = calloc(n, sizeof(mu_scan *));
    if (z->readers == NULL || z->scans == NULL) {
        return data_cmd_say("out of memory");
    }
    for (; z->n < n && status == EXIT_SUCCESS; z->n++) {
        struct data_call one = *c;
        uint64_t from, to;
        int rc;

        if (c->zip) {
            one.files += z->n;
            one.files_n = 1;
        }
        status = data_cmd_open(&one, &z->readers[z->n], &from, &to);
        if (status != EXIT_SUCCESS) {
            break;
        }
        if (z->n > 0 && mu_reader_records(z->readers[z->n]) != mu_reader_records(z->readers[0])) {
            status = data_cmd_say("%s has %" PRIu64 " records, and %s has %" PRIu64
                                  ": --zip wants the same number of each",
                                  c->files[z->n], mu_reader_records(z->readers[z->n]), c->files[0],
                                  mu_reader_records(z->readers[0]));
        }
        *first = from;
        *end = to;
        rc = mu_scan_open(z->readers[z->n], from, to - from, &z->scans[z->n]);
        status = rc == MU_OK ? status : data_cmd_failed(rc);
    }
    return status;
}

/* The next one of each, in *record; a JSON line if that is asked for. */
static int next(const struct data_call *c, struct zip *z, mu_record *record)
{
    size_t n = 0;

    if (z->n == 1) {
        return mu_scan_next(z->scans[0], record);
    }
    for (uint32_t i = 0; i < z->n; i++) {
        int rc = mu_scan_next(z->scans[i], record);

        if (rc != MU_OK) {
            return rc;
        }
        if (n + record->n > z->cap) {
            uint8_t *bytes = realloc(z->bytes, (n + record->n) * 2);

            if (bytes == NULL) {
                return error_say(MU_ENOMEM, "no memory for a record of %zu bytes", n + record->n);
            }
            z->bytes = bytes;
            z->cap = (n + record->n) * 2;
        }
        if (record->n > 0) {
            memcpy(z->bytes + n, record->data, record->n);
        }
        n += record->n;
    }
    *record = (mu_record){.number = record->number, .data = z->bytes, .n = n};
    return MU_OK;
}

static int put(const struct data_call *c, mu_writer *w, const mu_record *record)
{
    json_t *object;
    char *text;
    int rc;

    if (c->format != DATA_JSON) {
        return mu_writer_put(w, record->data, record->n);
    }
    object = data_text_json(record);
    text = object != NULL
               ? json_dumps(json_object_get(object, record->fields_n > 0 ? "fields" : "data"),
                            JSON_COMPACT | JSON_ENCODE_ANY)
               : NULL;
    rc = text != NULL ? mu_writer_put(w, text, strlen(text))
                      : error_say(MU_ENOMEM, "no memory for JSON");
    free(text);
    json_decref(object);
    return rc;
}

/* With --split they are OUT-00000, OUT-00001, …, in front of what the name ends in. */
static int open_writer(const struct data_call *c, uint64_t number, mu_writer **w_out)
{
    const char *end = strrchr(c->out, '.');
    char options[128], *path = NULL;
    int rc;

    end = end == NULL || strchr(end, '/') != NULL || end == c->out ? c->out + strlen(c->out) : end;
    snprintf(options, sizeof(options), "compressor=%.40s%s%.40s", c->compressor,
             c->chunk != NULL ? "&chunk=" : "", c->chunk != NULL ? c->chunk : "");
    if (c->split == 0) {
        return mu_writer_open(c->out, options, w_out);
    }
    if (asprintf(&path, "%.*s-%05" PRIu64 "%s", (int)(end - c->out), c->out, number, end) < 0) {
        return error_say(MU_ENOMEM, "no memory for a name");
    }
    rc = mu_writer_open(path, options, w_out);
    free(path);
    return rc;
}

static int copy(const struct data_call *c, struct zip *z, uint64_t total, uint64_t *bytes)
{
    const uint64_t split = c->split > 0 ? c->split : UINT64_MAX;
    mu_writer *w = NULL;
    struct data_bar bar;
    mu_record record;
    uint64_t done = 0;
    int rc = open_writer(c, 0, &w);

    data_bar_begin(&bar, c->out, total);
    while (rc == MU_OK) {
        rc = next(c, z, &record);
        if (rc == MU_OK && done > 0 &&
            done % split == 0) { /* Only now: no file is empty for nothing. */
            rc = mu_writer_finish(w);
            mu_writer_close(w);
            w = NULL;
            rc = rc == MU_OK ? open_writer(c, done / split, &w) : rc;
        }
        rc = rc == MU_OK ? put(c, w, &record) : rc;
        if (rc == MU_OK) {
            *bytes += record.n;
            data_bar_show(&bar, ++done);
        }
    }
    data_bar_end(&bar);
    rc = rc == MU_EDONE ? mu_writer_finish(w) : rc;
    mu_writer_close(w);
    return rc;
}

int data_cmd_pack(const struct data_call *c)
{
    struct zip z = {.n = 0};
    uint64_t first = 0, end = 0, bytes = 0;
    int status = open_zip(c, &z, &first, &end);

    if (status == EXIT_SUCCESS) {
        int rc = copy(c, &z, end - first, &bytes);

        status = rc == MU_OK ? EXIT_SUCCESS : data_cmd_failed(rc);
    }
    if (status == EXIT_SUCCESS) {
        printf("%s: %" PRIu64 " record%s of %" PRIu64 " bytes in all\n", c->out, end - first,
               end - first == 1 ? "" : "s", bytes);
    }
    close_zip(&z);
    return status;
}
