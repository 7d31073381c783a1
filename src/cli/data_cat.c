/* `muster data cat`: records on stdout. */
#include "cli/data_cmd.h"

#include <stdlib.h>

static int print(const struct data_call *c, const mu_record *record)
{
    char *text;
    size_t n;

    switch ((enum data_format)c->format) {
    case DATA_JSON:
        return data_text_print(data_text_json(record));
    case DATA_BASE64:
        text = data_text_base64(record->data, record->n, &n);
        if (text == NULL) {
            return data_cmd_say("record %llu is too large for base64",
                                (unsigned long long)record->number);
        }
        fwrite(text, 1, n, stdout);
        free(text);
        break;
    default:
        fwrite(record->data, 1, record->n, stdout);
        break;
    }
    if (c->format != DATA_RAW) {
        putchar('\n');
    }
    return EXIT_SUCCESS;
}

int data_cmd_cat(const struct data_call *c)
{
    uint64_t first, end;
    mu_record record;
    mu_reader *reader;
    mu_scan *scan = NULL;
    int rc, status = data_cmd_open(c, &reader, &first, &end);

    if (status != EXIT_SUCCESS) {
        return status;
    }
    rc = mu_scan_open(reader, first, end - first, &scan);
    while (rc == MU_OK && status == EXIT_SUCCESS && ferror(stdout) == 0) {
        rc = mu_scan_next(scan, &record);
        status = rc == MU_OK ? print(c, &record) : status;
    }
    if (rc != MU_OK && rc != MU_EDONE) {
        status = data_cmd_failed(rc);
    }
    mu_scan_close(scan);
    mu_reader_close(reader);
    return status;
}
