#include "unit/data/data_kit.h"

#include "base/crc32c.h"

#include <inttypes.h>
#include <snappy-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64];
static char shown[1 << 20];
uint64_t kit_skipped;

int kit_setup(void **state)
{
    snprintf(folder, sizeof(folder), "%s/muster-data-XXXXXX", unit_fast_dir());
    return mkdtemp(folder) != NULL ? 0 : -1;
}

int kit_teardown(void **state)
{
    char command[96];

    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command);
}

const char *kit_path(const char *name)
{
    static char paths[8][256];
    static int next;
    char *path = paths[next++ % 8];

    snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

void kit_write(const char *name, const void *data, size_t n)
{
    FILE *file = fopen(kit_path(name), "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

uint8_t *kit_read(const char *path, size_t *n_out)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(1 << 20);

    assert_non_null(file);
    assert_non_null(data);
    *n_out = fread(data, 1, 1 << 20, file);
    fclose(file);
    return data;
}

void made_bytes(struct made *m, const void *data, size_t n)
{
    assert_true(m->n + n <= sizeof(m->b));
    if (n > 0) {
        memcpy(m->b + m->n, data, n);
    }
    m->n += n;
}

void made_text(struct made *m, const char *text)
{
    made_bytes(m, text, strlen(text));
}

void made_le(struct made *m, uint64_t v, int width)
{
    for (int i = 0; i < width; i++) {
        m->b[m->n++] = (uint8_t)(v >> 8 * i);
    }
}

static uint32_t count(const char *records)
{
    uint32_t n = 1;

    for (; *records != '\0'; records++) {
        n += *records == '|';
    }
    return n;
}

void made_payload(struct made *m, const char *records)
{
    for (uint32_t i = count(records); i > 0; i--) {
        const size_t n = strcspn(records, "|");

        made_le(m, n, 4);
        made_bytes(m, records, n);
        records += n + 1;
    }
}

void made_chunk(struct made *m, enum layout layout, uint32_t compressor, const void *payload,
                size_t n, uint32_t records)
{
    made_le(m, 0x01020304, 4);
    if (layout == LAYOUT_A) {
        made_le(m, crc32(0, payload, (unsigned)n), 4);
        made_le(m, compressor, 4);
        made_le(m, n, 4);
        made_le(m, records, 4);
    } else {
        made_le(m, records, 4);
        made_le(m, crc32c(0, payload, n), 4);
        made_le(m, compressor, 4);
        made_le(m, n, 4);
    }
    made_bytes(m, payload, n);
}

static void gzip(const struct made *from, struct made *to)
{
    z_stream z = {.next_in = (uint8_t *)(uintptr_t)from->b,
                  .avail_in = (unsigned)from->n,
                  .next_out = to->b,
                  .avail_out = sizeof(to->b)};

    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    to->n = z.total_out;
    deflateEnd(&z);
}

/* One frame for each length and one for each record, a plain one now and then: some writers do so.
 */
static void frames(const struct made *from, struct made *to)
{
    size_t at = 0, step = 4;

    made_bytes(to, "\xff\x06\x00\x00sNaPpY", 10);
    for (uint32_t i = 0; at < from->n; i++) {
        const size_t n = MIN(step, from->n - at);
        const uint32_t crc = crc32c(0, from->b + at, n);
        char block[1 << 16];
        size_t block_n = sizeof(block);

        step = step == 4 ? le32(from->b + at) : 4;
        assert_int_equal(snappy_compress((const char *)from->b + at, n, block, &block_n),
                         SNAPPY_OK);
        made_le(to, i % 3 == 0 ? 1 : 0, 1);
        made_le(to, 4 + (i % 3 == 0 ? n : block_n), 3);
        made_le(to, (crc >> 15 | crc << 17) + 0xa282ead8u, 4);
        made_bytes(to, i % 3 == 0 ? (const void *)(from->b + at) : block, i % 3 == 0 ? n : block_n);
        at += n;
    }
}

void made_records(struct made *m, enum layout layout, enum compressor compressor,
                  const char *records)
{
    static struct made payload, packed;
    size_t n = sizeof(packed.b);

    payload.n = packed.n = 0;
    made_payload(&payload, records);
    if (compressor == COMPRESS_NONE) {
        packed = payload;
    } else if (compressor == COMPRESS_GZIP) {
        gzip(&payload, &packed);
    } else if (layout == LAYOUT_A) {
        frames(&payload, &packed);
    } else {
        assert_int_equal(snappy_compress((const char *)payload.b, payload.n, (char *)packed.b, &n),
                         SNAPPY_OK);
        packed.n = n;
    }
    made_chunk(m, layout, (uint32_t)compressor + (layout == LAYOUT_B), packed.b, packed.n,
               count(records));
}

const char *kit_show(const char *source, const char *options)
{
    mu_reader *reader;
    mu_record record;
    mu_scan *scan;
    size_t n = 0, shards_n;
    int rc = mu_reader_open(&source, 1, options, &reader);

    if (rc != MU_OK) {
        assert_true(mu_error()[0] != '\0');
        if (rc == MU_ECORRUPT) {
            snprintf(shown, sizeof(shown), "#%d at %" PRIu64, rc, shard_damaged_at());
            assert_non_null(strstr(mu_error(), source));
        } else {
            snprintf(shown, sizeof(shown), "#%d %s", rc, mu_error());
        }
        return shown;
    }
    kit_skipped = mu_reader_shards(reader, &shards_n)->skipped;
    assert_int_equal(mu_scan_open(reader, 0, UINT64_MAX, &scan), MU_OK);
    shown[0] = '\0';
    for (uint64_t i = 0; (rc = mu_scan_next(scan, &record)) != MU_EDONE; i++) {
        if (rc != MU_OK) {
            n += (size_t)snprintf(shown + n, sizeof(shown) - n, "#%d at %" PRIu64 "|", rc,
                                  shard_damaged_at());
            continue;
        }
        assert_int_equal(record.number, i);
        assert_true(n + record.n + 2 < sizeof(shown));
        if (record.n > 0) {
            memcpy(shown + n, record.data, record.n);
        }
        n += record.n;
        strcpy(shown + n++, "|");
    }
    assert_int_equal(mu_scan_next(scan, &record), MU_EDONE); /* Every time. */
    mu_scan_close(scan);
    mu_reader_close(reader);
    return shown;
}

const char *kit_fields(const char *source, const char *options, uint64_t number)
{
    mu_reader *reader;
    mu_record record;
    mu_scan *scan;
    size_t n = 0;
    int rc = mu_reader_open(&source, 1, options, &reader);

    if (rc != MU_OK) {
        snprintf(shown, sizeof(shown), "#%d %s", rc, mu_error());
        return shown;
    }
    assert_int_equal(mu_scan_open(reader, 0, 0, &scan), MU_OK);
    rc = mu_scan_at(scan, number, &record);
    snprintf(shown, sizeof(shown), "#%d %s", rc, rc != MU_OK ? mu_error() : "");
    for (uint32_t i = 0; rc == MU_OK && i < record.fields_n; i++) {
        const mu_field *f = &record.fields[i];

        n += (size_t)snprintf(shown + n, sizeof(shown) - n, "%s%s=", i > 0 ? " " : "", f->name);
        if (f->type == MU_INTEGER) {
            n += (size_t)snprintf(shown + n, sizeof(shown) - n, "%" PRId64, f->integer);
        } else if (f->type == MU_REAL) {
            n += (size_t)snprintf(shown + n, sizeof(shown) - n, "%g", f->real);
        } else if (f->type == MU_NULL) {
            n += (size_t)snprintf(shown + n, sizeof(shown) - n, "null");
        } else {
            const char quote = f->type == MU_TEXT ? '\'' : '"';

            n += (size_t)snprintf(shown + n, sizeof(shown) - n, "%c%.*s%c", quote, (int)f->n,
                                  (const char *)f->data, quote);
        }
    }
    mu_scan_close(scan);
    mu_reader_close(reader);
    return shown;
}
