/* MosaicML's MDS: a folder with an index.json (version 2) and shards, which may be packed with zstd
 * or gzip, and have hashes. A shard is looked at as a whole when it is first read. */
#include "data/chunk.h"

#include <inttypes.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#define INDEX_MAX ((uint64_t)256 << 20)

/* One form in which a shard is stored. */
struct stored {
    char *path;           /* NULL: not stored so */
    char *hash, *hash_of; /* in hex, and what kind of; NULL: none */
    uint64_t bytes;
};

struct entry {
    struct stored raw, packed;
    char *compression; /* of `packed` */
    uint64_t first, samples;
    bool checked; /* what was written is there: seen once, by any thread */
};

struct mds {
    struct entry *entries;
    size_t n, cap;
    int64_t *sizes; /* by column; -1: it varies */
    size_t varying_n;
};

/* The shard that a cursor has at hand. */
struct held {
    const struct entry *entry;
    struct source source;
    struct bytes bytes;
    const uint8_t *data;
    uint64_t n;
};

static bool guess(const struct guess *g)
{
    return guess_ends(g, "index.json") && memmem(g->head, g->head_n, "\"shards\"", 8) != NULL &&
           memmem(g->head, g->head_n, "\"mds\"", 5) != NULL;
}

/* ---- hashes ---- */

static void to_hex(const uint8_t *p, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++) {
        sprintf(out + 2 * i, "%02x", p[i]);
    }
}

/* False: nobody knows that kind. */
static bool hash(const char *kind, const uint8_t *p, uint64_t n, char out[2 * EVP_MAX_MD_SIZE + 1])
{
    uint8_t sum[EVP_MAX_MD_SIZE];
    unsigned sum_n = 0;
    char name[32];
    size_t i;

    if (strcmp(kind, "xxh64") == 0 || strcmp(kind, "xxh3_64") == 0) {
        XXH64_canonicalFromHash((XXH64_canonical_t *)sum,
                                kind[3] == '6' ? XXH64(p, n, 0) : XXH3_64bits(p, n));
        sum_n = 8;
    } else if (strcmp(kind, "xxh128") == 0 || strcmp(kind, "xxh3_128") == 0) {
        XXH128_canonicalFromHash((XXH128_canonical_t *)sum, XXH3_128bits(p, n));
        sum_n = 16;
    } else {
        for (i = 0; kind[i] != '\0' && i + 1 < sizeof(name); i++) {
            name[i] = kind[i] == '_' ? '-' : kind[i]; /* sha3_256 */
        }
        name[i] = '\0';
        if (strncmp(name, "blake2", 6) == 0) {
            strcpy(name, strcmp(name, "blake2s") == 0 ? "blake2s256" : "blake2b512");
        }
        if (EVP_get_digestbyname(name) == NULL ||
            EVP_Digest(p, n, sum, &sum_n, EVP_get_digestbyname(name), NULL) != 1) {
            return false;
        }
    }
    to_hex(sum, sum_n, out);
    return true;
}

static int check_hash(const struct shard *s, const struct stored *f, const uint8_t *p, uint64_t n)
{
    char hex[2 * EVP_MAX_MD_SIZE + 1];

    if (f->hash == NULL) {
        return MU_OK;
    }
    if (!hash(f->hash_of, p, n, hex)) {
        return error_say(MU_EINVAL, "%s: nobody knows how to check the hash '%.40s'", s->name,
                         f->hash_of);
    }
    return strcasecmp(hex, f->hash) == 0
               ? MU_OK
               : error_say(MU_ECORRUPT, "%s at 0: the shard is not what was written (%s)", f->path,
                           f->hash_of);
}

/* ---- a shard ---- */

static int unpack_zstd(const struct shard *s, const struct entry *e, struct held *d)
{
    ZSTD_DStream *z = ZSTD_createDStream();
    ZSTD_inBuffer in = {d->source.map, (size_t)d->source.map_n, 0};
    size_t left = 1;
    int rc = z != NULL ? MU_OK : shard_no_memory(s);

    d->bytes.n = 0;
    while (rc == MU_OK && left != 0) {
        ZSTD_outBuffer out;

        rc = bytes_room(&d->bytes,
                        (size_t)MIN(e->raw.bytes + 1, (uint64_t)d->bytes.n + ((size_t)1 << 20)));
        out = (ZSTD_outBuffer){d->bytes.data, d->bytes.cap, d->bytes.n};
        if (rc != MU_OK) {
            break;
        }
        left = ZSTD_decompressStream(z, &out, &in);
        if (ZSTD_isError(left) || out.pos > e->raw.bytes ||
            (in.pos == in.size && left != 0 && out.pos < out.size)) {
            rc = error_say(MU_ECORRUPT, "%s at %zu: what is compressed there is damaged",
                           e->packed.path, in.pos);
        }
        d->bytes.n = out.pos;
    }
    ZSTD_freeDStream(z);
    d->data = d->bytes.data;
    d->n = d->bytes.n;
    return rc;
}

static int unpack_gzip(const struct shard *s, const struct entry *e, struct held *d)
{
    struct window w;
    const uint8_t *p;
    uint64_t have;
    int rc = source_unpack(&d->source, PACKING_GZIP);

    if (rc == MU_OK && (d->source.damaged || d->source.size != e->raw.bytes)) {
        return error_say(MU_ECORRUPT, "%s at %" PRIu64 ": what is compressed there is damaged",
                         e->packed.path, d->source.damaged_at);
    }
    window_init(&w, &d->source);
    rc = rc == MU_OK ? window_need(&w, 0, d->source.size, &p, &have) : rc;
    rc = rc == MU_OK ? bytes_room(&d->bytes, (size_t)e->raw.bytes + 1) : rc;
    if (rc == MU_OK) {
        memcpy(d->bytes.data, p, (size_t)e->raw.bytes);
        d->data = d->bytes.data;
        d->n = e->raw.bytes;
    }
    window_close(&w);
    return rc;
}

/* The shard's head: its samples, and where each begins; they lie in a row. */
static int check_offsets(const struct entry *e, const char *path, const uint8_t *p, uint64_t n)
{
    uint64_t at = 4 + 4 * (e->samples + 1);

    if (n != e->raw.bytes || n < at || le32(p) != e->samples) {
        return error_say(MU_ECORRUPT,
                         "%s at 0: the shard has not the %" PRIu64 " bytes and %" PRIu64
                         " samples that the index tells of",
                         path, e->raw.bytes, e->samples);
    }
    for (uint64_t i = 0; i <= e->samples; i++) {
        const uint64_t next = le32(p + 4 + 4 * i);

        if (next < at || next > n) {
            return error_say(MU_ECORRUPT,
                             "%s at %" PRIu64 ": the place of sample %" PRIu64 " is damaged", path,
                             4 + 4 * i, i);
        }
        at = next;
    }
    return MU_OK;
}

static int hold(const struct shard *s, struct held *d, struct entry *e)
{
    const bool raw =
        e->raw.path != NULL && (e->packed.path == NULL || access(e->raw.path, R_OK) == 0);
    const struct stored *f = raw ? &e->raw : &e->packed;
    const bool checked = __atomic_load_n(&e->checked, __ATOMIC_ACQUIRE);
    int rc;

    if (d->entry == e) {
        return MU_OK;
    }
    d->entry = NULL;
    source_close(&d->source);
    rc = source_open(&d->source, f->path);
    if (rc == MU_OK && d->source.map_n != f->bytes) {
        rc = error_say(MU_ECORRUPT,
                       "%s at %" PRIu64 ": it ends there, and should have %" PRIu64 " bytes",
                       f->path, d->source.map_n, f->bytes);
    }
    rc = rc == MU_OK && !checked ? check_hash(s, f, d->source.map, d->source.map_n) : rc;
    if (rc != MU_OK) {
        return rc;
    }
    d->data = d->source.map;
    d->n = d->source.map_n;
    if (!raw && strncmp(e->compression, "zstd", 4) == 0) {
        rc = unpack_zstd(s, e, d);
    } else if (!raw && strncmp(e->compression, "gz", 2) == 0) {
        rc = unpack_gzip(s, e, d);
    } else if (!raw) {
        rc = error_say(MU_EINVAL, "%s is compressed with %.40s; zstd and gz can be read", f->path,
                       e->compression);
    }
    rc = rc == MU_OK && !raw && !checked ? check_hash(s, &e->raw, d->data, d->n) : rc;
    rc = rc == MU_OK ? check_offsets(e, f->path, d->data, d->n)
                     : rc; /* Each time: the file may have changed. */
    if (rc == MU_OK) {
        __atomic_store_n(&e->checked, true, __ATOMIC_RELEASE);
        d->entry = e;
    }
    return rc;
}

/* ---- samples ---- */

static void decode(const mu_column *column, mu_field *f)
{
    const char *kind = column->detail;
    const uint8_t *p = f->data;

    if (strcmp(kind, "float32") == 0 && f->n == 4) {
        float v;

        memcpy(&v, p, sizeof(v));
        f->real = (double)v;
    } else if (strcmp(kind, "float64") == 0 && f->n == 8) {
        memcpy(&f->real, p, sizeof(f->real));
    } else if (strncmp(kind, "str_", 4) == 0) {
        f->type = field_number(f) ? f->type : MU_TEXT;
    } else if (column->type == MU_INTEGER && f->n >= 1 && f->n <= 8) {
        uint64_t v = 0;

        for (size_t i = f->n; i-- > 0;) {
            v = v << 8 | p[i];
        }
        if (kind[0] == 'i' && f->n < 8 && (v >> (8 * f->n - 1)) != 0) {
            v |= UINT64_MAX << 8 * f->n;
        }
        f->integer = (int64_t)v;
    }
}

static int take(const struct shard *s, struct cursor *c, const struct held *d, uint64_t i,
                mu_record *out)
{
    const struct mds *m = s->own;
    const uint64_t begin = le32(d->data + 4 + 4 * i), end = le32(d->data + 8 + 4 * i);
    uint64_t at = begin + 4 * m->varying_n;
    const uint8_t *size = d->data + begin;
    int rc = cursor_fields(s, c, s->columns.n);

    if (rc != MU_OK) {
        return rc;
    }
    for (size_t k = 0; k < s->columns.n; k++) {
        const mu_column *column = &s->columns.items[k];
        uint64_t n = m->sizes[k] >= 0 ? (uint64_t)m->sizes[k] : UINT64_MAX;

        if (n == UINT64_MAX && at <= end) {
            n = le32(size);
            size += 4;
        }
        if (at > end || n > end - at) {
            return shard_damaged(s, begin,
                                 "sample %" PRIu64 " of shard %" PRIu64 " ends in its column %s", i,
                                 (uint64_t)(d->entry - m->entries), column->name);
        }
        c->fields[k] = (mu_field){
            .name = column->name, .type = column->type, .data = d->data + at, .n = (size_t)n};
        decode(column, &c->fields[k]);
        at += n;
    }
    out->data = d->data + begin;
    out->n = (size_t)(end - begin);
    out->fields = c->fields;
    out->fields_n = (uint32_t)s->columns.n;
    return MU_OK;
}

static struct held *held_of(const struct shard *s, struct cursor *c)
{
    if (c->own == NULL) {
        c->own = calloc(1, sizeof(struct held));
        if (c->own == NULL) {
            shard_no_memory(s);
        }
    }
    return c->own;
}

static int read_mds(const struct shard *s, struct cursor *c, uint64_t number, mu_record *out)
{
    const struct mds *m = s->own;
    struct held *d = held_of(s, c);
    size_t low = 0, high = m->n;
    int rc;

    while (high - low > 1) {
        const size_t middle = (low + high) / 2;

        if (m->entries[middle].first <= number) {
            low = middle;
        } else {
            high = middle;
        }
    }
    rc = d != NULL ? hold(s, d, &m->entries[low]) : MU_ENOMEM;
    return rc == MU_OK ? take(s, c, d, number - m->entries[low].first, out) : rc;
}

static void leave(const struct shard *s, struct cursor *c)
{
    struct held *d = c->own;

    source_close(&d->source);
    free(d->bytes.data);
    free(d);
}

/* ---- the index ---- */

static enum mu_type type_of(const char *encoding)
{
    static const char *const integers[] = {"int",   "int8",   "int16",  "int32",  "int64",
                                           "uint8", "uint16", "uint32", "uint64", "str_int"};

    for (size_t i = 0; i < ARRAY_LEN(integers); i++) {
        if (strcmp(encoding, integers[i]) == 0) {
            return MU_INTEGER;
        }
    }
    return strcmp(encoding, "float32") == 0 || strcmp(encoding, "float64") == 0 ||
                   strcmp(encoding, "str_float") == 0
               ? MU_REAL
           : strcmp(encoding, "str") == 0 || strcmp(encoding, "json") == 0 ||
                   strcmp(encoding, "str_decimal") == 0
               ? MU_TEXT
               : MU_BYTES;
}

static int bad_index(const struct shard *s, const char *what)
{
    return shard_damaged(s, 0, "the index %s", what);
}

/* {"basename": …, "bytes": n, "hashes": {"sha1": "…"}} */
static int read_stored(const struct shard *s, json_t *from, struct stored *out)
{
    const char *base = json_string_value(json_object_get(from, "basename"));
    const char *slash = strrchr(s->path, '/'), *kind;
    json_t *value;

    out->bytes = (uint64_t)json_integer_value(json_object_get(from, "bytes"));
    if (base == NULL || base[0] == '/' || strstr(base, "..") != NULL || out->bytes > UINT32_MAX) {
        return bad_index(s, "names a shard that can't be: it has no basename, leaves its folder, "
                            "or is larger than 4 GiB");
    }
    if (asprintf(&out->path, "%.*s%s", slash != NULL ? (int)(slash + 1 - s->path) : 0, s->path,
                 base) < 0) {
        out->path = NULL;
        return shard_no_memory(s);
    }
    json_object_foreach(json_object_get(from, "hashes"), kind, value)
    {
        if (out->hash == NULL && json_is_string(value)) {
            out->hash = strdup(json_string_value(value));
            out->hash_of = strdup(kind);
            if (out->hash == NULL || out->hash_of == NULL) {
                return shard_no_memory(s);
            }
        }
    }
    return MU_OK;
}

static void stored_free(struct stored *f)
{
    free(f->path);
    free(f->hash);
    free(f->hash_of);
}

static void entry_free(struct entry *e)
{
    stored_free(&e->raw);
    stored_free(&e->packed);
    free(e->compression);
}

/* The columns of the first shard; those of the others have to be the same. */
static int read_columns(struct shard *s, json_t *from, bool first)
{
    struct mds *m = s->own;
    json_t *names = json_object_get(from, "column_names"),
           *encodings = json_object_get(from, "column_encodings");
    json_t *sizes = json_object_get(from, "column_sizes");
    const size_t n = json_array_size(names);
    int rc = MU_OK;

    if (n == 0 || n > DATA_COLUMNS_MAX || json_array_size(encodings) != n ||
        json_array_size(sizes) != n || (!first && n != s->columns.n)) {
        return bad_index(s, "has a shard with other columns than the first, or none");
    }
    if (first) {
        m->sizes = calloc(n, sizeof(*m->sizes));
        rc = m->sizes != NULL ? MU_OK : shard_no_memory(s);
    }
    for (size_t i = 0; i < n && rc == MU_OK; i++) {
        const char *name = json_string_value(json_array_get(names, i));
        const char *encoding = json_string_value(json_array_get(encodings, i));
        json_t *size = json_array_get(sizes, i);
        const int64_t bytes = json_is_integer(size) ? (int64_t)json_integer_value(size) : -1;

        if (name == NULL || encoding == NULL || bytes > UINT32_MAX ||
            (bytes < 0 && !json_is_null(size))) {
            rc = bad_index(s, "has a column without a name, a type or a size");
        } else if (first) {
            m->sizes[i] = bytes;
            m->varying_n += bytes < 0;
            rc = columns_add(&s->columns, name, strlen(name), type_of(encoding), encoding);
        } else if (strcmp(name, s->columns.items[i].name) != 0 ||
                   strcmp(encoding, s->columns.items[i].detail) != 0 || bytes != m->sizes[i]) {
            rc = bad_index(s, "has a shard with other columns than the first");
        }
    }
    return rc;
}

static int read_entry(struct shard *s, json_t *from, struct entry *e)
{
    json_t *packed = json_object_get(from, "zip_data"), *samples = json_object_get(from, "samples");
    const char *compression = json_string_value(json_object_get(from, "compression"));
    const char *format = json_string_value(json_object_get(from, "format"));
    int rc;

    if (format == NULL || strcmp(format, "mds") != 0 ||
        json_integer_value(json_object_get(from, "version")) != 2) {
        return bad_index(s, "has a shard that is no MDS of version 2");
    }
    if (!json_is_integer(samples) || json_integer_value(samples) < 0 ||
        json_integer_value(samples) > UINT32_MAX) {
        return bad_index(s, "has a shard that doesn't count its samples");
    }
    e->samples = (uint64_t)json_integer_value(samples);
    rc = read_stored(s, json_object_get(from, "raw_data"), &e->raw);
    if (rc == MU_OK && json_is_object(packed)) {
        rc = read_stored(s, packed, &e->packed);
        e->compression = rc == MU_OK ? strdup(compression != NULL ? compression : "") : NULL;
        rc = rc == MU_OK && e->compression == NULL ? shard_no_memory(s) : rc;
    }
    return rc;
}

/* With skip=yes all of it is looked at: what is damaged is left out. */
static int look(struct shard *s, struct cursor *c, struct entry *e)
{
    struct held *d = held_of(s, c);
    mu_record record;
    int rc = d != NULL ? hold(s, d, e) : MU_ENOMEM;

    for (uint64_t i = 0; i < e->samples && rc == MU_OK; i++) {
        rc = take(s, c, d, i, &record);
    }
    return rc;
}

static int add_entry(struct shard *s, struct cursor *c, json_t *from)
{
    struct mds *m = s->own;
    struct entry *e = &m->entries[m->n];
    int rc = read_columns(s, from, s->columns.n == 0);

    rc = rc == MU_OK ? read_entry(s, from, e) : rc;
    if (rc == MU_OK && s->o->skip) {
        rc = look(s, c, e);
        if (c->own != NULL) {
            ((struct held *)c->own)->entry = NULL;
        }
        if ((rc == MU_ECORRUPT || rc == MU_ENOENT) && shard_skips(s)) {
            entry_free(e);
            *e = (struct entry){.first = 0};
            return MU_OK;
        }
    }
    if (rc != MU_OK || e->samples == 0) {
        entry_free(e);
        *e = (struct entry){.first = 0};
        return rc;
    }
    s->packed = e->packed.path != NULL ? (strncmp(e->compression, "gz", 2) == 0 ? "gzip" : "zstd")
                                       : s->packed;
    e->first = s->records;
    s->records += e->samples;
    s->bytes += e->packed.path != NULL ? e->packed.bytes : e->raw.bytes;
    m->n++;
    return MU_OK;
}

static int open_mds(struct shard *s)
{
    struct mds *m = calloc(1, sizeof(*m));
    struct cursor c = {.own = NULL};
    json_t *root, *list, *one;
    size_t i;
    int rc = MU_OK;

    if (m == NULL) {
        return shard_no_memory(s);
    }
    s->own = m;
    window_init(&c.window, &s->source);
    root = s->source.map != NULL && s->source.map_n <= INDEX_MAX
               ? json_loadb((const char *)s->source.map, (size_t)s->source.map_n,
                            JSON_REJECT_DUPLICATES, NULL)
               : NULL;
    list = json_object_get(root, "shards");
    if (!json_is_array(list)) {
        rc = bad_index(s, "is no JSON with a list of shards");
        goto out;
    }
    m->entries = calloc(json_array_size(list) + 1, sizeof(*m->entries));
    rc = m->entries != NULL ? MU_OK : shard_no_memory(s);
    json_array_foreach(list, i, one)
    {
        rc = rc == MU_OK ? add_entry(s, &c, one) : rc;
    }
out:
    json_decref(root);
    cursor_close(s, &c);
    return rc == MU_ECORRUPT && shard_skips(s) ? MU_OK : rc;
}

static void close_mds(struct shard *s)
{
    struct mds *m = s->own;

    for (size_t i = 0; m != NULL && i < m->n; i++) {
        entry_free(&m->entries[i]);
    }
    if (m != NULL) {
        free(m->entries);
        free(m->sizes);
        free(m);
    }
}

const struct format format_mds = {.name = "mds",
                                  .bare = true,
                                  .guess = guess,
                                  .open = open_mds,
                                  .close = close_mds,
                                  .read = read_mds,
                                  .leave = leave};
