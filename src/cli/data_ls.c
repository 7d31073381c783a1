/* `muster data ls`: what is in files of records. Heads are read, records are not: verify does that.
 */
#include "cli/data_cmd.h"
#include "cli/table.h"
#include "core/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct table_column columns[] = {
    {.title = "FILE"},
    {.title = "FORMAT"},
    {.title = "RECORDS", .right = true},
    {.title = "CHUNKS", .right = true},
    {.title = "COMPRESSOR"},
    {.title = "SIZE", .right = true},
    {.title = ""},
};

static json_t *columns_json(const mu_reader *reader)
{
    size_t n;
    const mu_column *c = mu_reader_columns(reader, &n);
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++) {
        static const char *const types[] = {"bytes", "text", "integer", "real", "null"};

        json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "name", c[i].name, "type",
                                              types[c[i].type], "detail", c[i].detail));
    }
    return list;
}

static int print_json(const mu_reader *reader, const mu_reader_shard *s)
{
    json_t *object = json_pack("{s:o, s:s, s:I, s:I, s:s, s:I, s:I, s:o}", "file",
                               data_text_value(s->name, strlen(s->name)), "format", s->format,
                               "records", (json_int_t)s->records, "chunks", (json_int_t)s->chunks,
                               "compressor", s->packed, "bytes", (json_int_t)s->bytes, "skipped",
                               (json_int_t)s->skipped, "columns", columns_json(reader));

    return data_text_print(object);
}

static void add_row(struct table *t, const mu_reader_shard *s)
{
    char size[TEXT_BYTES_MAX];

    text_bytes(s->bytes, size);
    table_cell(t, "%s", s->name);
    table_cell(t, "%s", s->format);
    table_cell(t, "%" PRIu64, s->records);
    if (s->chunks > 0) {
        table_cell(t, "%" PRIu64, s->chunks);
    } else {
        table_cell(t, "%s", "");
    }
    table_cell(t, "%s", s->packed);
    table_cell(t, "%s", size);
    if (s->skipped > 0) {
        table_cell(t, "%" PRIu64 " damaged place%s left out", s->skipped,
                   s->skipped > 1 ? "s" : "");
    } else {
        table_cell(t, "%s", "");
    }
}

/* One file at a time: a damaged one is no reason to be silent about the others. */
int data_cmd_ls(const struct data_call *c)
{
    struct table table = {.columns = columns, .columns_n = ARRAY_LEN(columns)};
    struct found_list found;
    struct data_bar bar;
    uint64_t records = 0;
    int status = data_cmd_find(c, c->skip, &found), first = EXIT_SUCCESS;

    if (status != EXIT_SUCCESS) {
        return status;
    }
    data_bar_begin(&bar, "reading", found.n);
    for (size_t i = 0; i < found.n; i++) {
        mu_reader *reader;
        const mu_reader_shard *s;
        size_t n;
        int rc = reader_open_found(&found.files[i], 1, NULL, &reader);

        data_bar_show(&bar, i + 1);
        if (rc != MU_OK) {
            data_bar_end(&bar);
            status = data_cmd_failed(rc);
            first = first != EXIT_SUCCESS ? first : status;
            continue;
        }
        s = mu_reader_shards(reader, &n);
        records += s->records;
        if (c->json) {
            status = print_json(reader, s);
            first = first != EXIT_SUCCESS ? first : status;
        } else {
            add_row(&table, s);
        }
        mu_reader_close(reader);
    }
    data_bar_end(&bar);
    if (table_end(&table, stdout) != MU_OK) {
        first = data_cmd_say("out of memory");
    } else if (!c->json && found.n > 1) {
        printf("%" PRIu64 " records in %zu files\n", records, found.n);
    }
    find_free(&found);
    return first;
}
