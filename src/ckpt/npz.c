#include "ckpt/npz.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define HEAD_BYTES 30  /* of an entry, its name and the rest follow */
#define CRC_AT 14      /* in it */
#define EXTRA_BYTES 20 /* zip64: kind, length, two sizes */
#define NPY_BYTES 128  /* numpy's head, blanks included: arrays begin at a multiple of 64 in it */
#define ZIP64 45       /* the version that can read it */
#define DATE 0x0021    /* 1980-01-01: the same bytes whenever they are written */
#define FULL UINT32_MAX

/* ---- the sum that zip files have ---- */

static void crc_init(uint32_t tables[8][256])
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;

        for (int k = 0; k < 8; k++) {
            c = (c & 1) != 0 ? c >> 1 ^ 0xedb88320u : c >> 1;
        }
        tables[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; i++) {
        for (int k = 1; k < 8; k++) {
            const uint32_t c = tables[k - 1][i];

            tables[k][i] = c >> 8 ^ tables[0][c & 255];
        }
    }
}

/* Eight bytes at a time. */
static uint32_t crc_add(uint32_t tables[8][256], uint32_t crc, const uint8_t *p, size_t n)
{
    crc = ~crc;
    for (; n >= 8; n -= 8, p += 8) {
        const uint32_t low = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                                    (uint32_t)p[3] << 24);

        crc = tables[7][low & 255] ^ tables[6][low >> 8 & 255] ^ tables[5][low >> 16 & 255] ^
              tables[4][low >> 24] ^ tables[3][p[4]] ^ tables[2][p[5]] ^ tables[1][p[6]] ^
              tables[0][p[7]];
    }
    for (; n > 0; n--, p++) {
        crc = crc >> 8 ^ tables[0][(crc ^ *p) & 255];
    }
    return ~crc;
}

/* ---- little-endian ---- */

struct bytes {
    uint8_t b[HEAD_BYTES + NPZ_NAME_MAX + 128];
    size_t n;
};

static void put(struct bytes *o, uint64_t v, int width)
{
    for (int i = 0; i < width; i++) {
        o->b[o->n++] = (uint8_t)(v >> 8 * i);
    }
}

static int write_out(struct npz *z, const void *data, size_t n)
{
    z->at += n;
    return file_write(z->fd, data, n);
}

/* ---- entries ---- */

/* What the head of an entry and its line in the directory have in common, sizes left to zip64. */
static void put_common(struct bytes *o, const struct npz_entry *e, uint16_t extra)
{
    put(o, ZIP64, 2);
    put(o, 0, 2); /* flags */
    put(o, 0, 2); /* stored */
    put(o, 0, 2); /* time */
    put(o, DATE, 2);
    put(o, e->crc, 4);
    put(o, FULL, 4);
    put(o, FULL, 4);
    put(o, strlen(e->name), 2);
    put(o, extra, 2);
}

static void put_name(struct bytes *o, const char *name)
{
    const size_t n = strlen(name);

    memcpy(o->b + o->n, name, n);
    o->n += n;
}

static void npy_head(char head[NPY_BYTES], uint64_t bytes, bool f32)
{
    int n;

    memset(head, ' ', NPY_BYTES);
    memcpy(head, "\x93NUMPY\x01\x00", 8);
    head[8] = NPY_BYTES - 10;
    head[9] = 0;
    n = snprintf(head + 10, NPY_BYTES - 10,
                 "{'descr': '%s', 'fortran_order': False, 'shape': (%" PRIu64 ",), }",
                 f32 ? "<f4" : "|u1", f32 ? bytes / 4 : bytes);
    head[10 + n] = ' ';
    head[NPY_BYTES - 1] = '\n';
}

void npz_init(struct npz *z, int fd, struct npz_entry *entries)
{
    z->fd = fd;
    z->at = 0;
    z->entries = entries;
    z->n = 0;
    crc_init(z->crc_tables);
}

int npz_begin(struct npz *z, const char *name, uint64_t bytes, bool f32)
{
    struct npz_entry *e = &z->entries[z->n++];
    struct bytes o = {.n = 0};
    char npy[NPY_BYTES];

    *e = (struct npz_entry){.at = z->at, .bytes = bytes + NPY_BYTES};
    snprintf(e->name, sizeof(e->name), "%s.npy", name);
    put(&o, 0x04034b50, 4);
    put_common(&o, e, EXTRA_BYTES);
    put_name(&o, e->name);
    put(&o, 1, 2);
    put(&o, EXTRA_BYTES - 4, 2);
    put(&o, e->bytes, 8);
    put(&o, e->bytes, 8);
    npy_head(npy, bytes, f32);
    return write_out(z, o.b, o.n) != 0 ? -1 : npz_add(z, (const uint8_t *)npy, sizeof(npy));
}

int npz_add(struct npz *z, const uint8_t *data, size_t n)
{
    struct npz_entry *e = &z->entries[z->n - 1];

    e->crc = crc_add(z->crc_tables, e->crc, data, n);
    return write_out(z, data, n);
}

/* The sum is known only now, and stands in front. */
int npz_end(struct npz *z)
{
    const struct npz_entry *e = &z->entries[z->n - 1];
    struct bytes o = {.n = 0};

    put(&o, e->crc, 4);
    return pwrite(z->fd, o.b, o.n, (off_t)(e->at + CRC_AT)) == (ssize_t)o.n ? 0 : -1;
}

/* ---- the directory ---- */

static int write_line(struct npz *z, const struct npz_entry *e)
{
    struct bytes o = {.n = 0};

    put(&o, 0x02014b50, 4);
    put(&o, ZIP64, 2);
    put_common(&o, e, EXTRA_BYTES + 8);
    put(&o, 0, 2); /* comment */
    put(&o, 0, 2); /* disk */
    put(&o, 0, 2); /* attributes */
    put(&o, 0, 4);
    put(&o, FULL, 4); /* place: zip64 */
    put_name(&o, e->name);
    put(&o, 1, 2);
    put(&o, EXTRA_BYTES + 8 - 4, 2);
    put(&o, e->bytes, 8);
    put(&o, e->bytes, 8);
    put(&o, e->at, 8);
    return write_out(z, o.b, o.n);
}

int npz_finish(struct npz *z)
{
    const uint64_t start = z->at;
    struct bytes o = {.n = 0};
    uint64_t end;

    for (uint32_t i = 0; i < z->n; i++) {
        if (write_line(z, &z->entries[i]) != 0) {
            return -1;
        }
    }
    end = z->at;
    put(&o, 0x06064b50, 4);
    put(&o, 44, 8); /* bytes that follow of this record */
    put(&o, ZIP64, 2);
    put(&o, ZIP64, 2);
    put(&o, 0, 8); /* disks */
    put(&o, z->n, 8);
    put(&o, z->n, 8);
    put(&o, end - start, 8);
    put(&o, start, 8);
    put(&o, 0x07064b50, 4); /* where that is */
    put(&o, 0, 4);
    put(&o, end, 8);
    put(&o, 1, 4);
    put(&o, 0x06054b50, 4); /* the end: "see above" */
    put(&o, 0, 4);
    put(&o, 0xffff, 2);
    put(&o, 0xffff, 2);
    put(&o, FULL, 4);
    put(&o, FULL, 4);
    put(&o, 0, 2);
    return write_out(z, o.b, o.n);
}
