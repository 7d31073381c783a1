/* One line for people. Elements of lists leave out what is zero: most of it is. */
#include "lib/wire_print.h"
#include "wire/table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct out {
    char *buf;
    size_t cap; /* without the terminator */
    size_t n;
    bool full;
};

static void put(struct out *o, const char *text, size_t n)
{
    if (n > o->cap - o->n) {
        n = o->cap - o->n;
        o->full = true;
    }
    memcpy(o->buf + o->n, text, n);
    o->n += n;
}

__attribute__((format(printf, 2, 3))) static void putf(struct out *o, const char *fmt, ...)
{
    char text[96];
    va_list args;

    va_start(args, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    mu_assert(n >= 0 && (size_t)n < sizeof(text));
    put(o, text, (size_t)n);
}

/* Quoted if it is empty or could be taken for something else. */
static void put_string(struct out *o, const char *text, size_t bound)
{
    size_t n = strnlen(text, bound);
    bool bare = n > 0;

    for (size_t i = 0; i < n; i++) {
        bare = bare && strchr(" \"\\=[]{},", text[i]) == NULL;
    }
    if (bare) {
        put(o, text, n);
        return;
    }
    put(o, "\"", 1);
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '"' || text[i] == '\\') {
            put(o, "\\", 1);
        }
        put(o, text + i, 1);
    }
    put(o, "\"", 1);
}

/* "0-3,8", or "none". */
static void put_bits(struct out *o, const uint8_t *bits, uint32_t bytes)
{
    const uint32_t n = bytes * 8;
    bool any = false;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t first = i;

        while (i < n && (bits[i / 8] >> i % 8 & 1) != 0) {
            i++;
        }
        if (i == first) {
            continue;
        }
        putf(o, i - first == 1 ? "%s%" PRIu32 : "%s%" PRIu32 "-%" PRIu32, any ? "," : "", first,
             i - 1);
        any = true;
    }
    if (!any) {
        put(o, "none", 4);
    }
}

static void put_enum(struct out *o, const char *names, uint8_t value)
{
    for (uint8_t i = 0; i < value && names != NULL; i++) {
        names = strchr(names, '|');
        names = names != NULL ? names + 1 : NULL;
    }
    if (names == NULL) {
        putf(o, "%u?", value);
    } else {
        put(o, names, strcspn(names, "|"));
    }
}

static void put_fields(struct out *o, const struct wire_desc *d, const uint8_t *in, bool terse);

static void put_counted(struct out *o, const struct wire_field *f, const uint8_t *in)
{
    const uint8_t *items = wire_items(f, in);
    uint32_t n;

    memcpy(&n, in + f->offset, sizeof(n));
    if (f->kind == KIND_BLOB) {
        putf(o, "%" PRIu32 "B", n);
        return;
    }
    put(o, "[", 1);
    for (uint32_t i = 0; i < n && items != NULL && !o->full; i++) {
        put(o, ", ", i > 0 ? 2 : 0);
        put_fields(o, f->sub(), items + (size_t)i * f->sub()->size, true);
    }
    put(o, "]", 1);
}

static bool is_zero(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i] != 0) {
            return false;
        }
    }
    return true;
}

static void put_bytes(struct out *o, const struct wire_field *f, const uint8_t *at)
{
    if (f->kind == KIND_SECRET) {
        put(o, is_zero(at, f->max) ? "no" : "yes", is_zero(at, f->max) ? 2 : 3);
    } else if (f->kind == KIND_BITS) {
        put_bits(o, at, f->max);
    } else {
        for (uint32_t i = 0; i < f->max; i++) {
            putf(o, "%02x", at[i]);
        }
    }
}

static void put_number(struct out *o, const struct wire_field *f, const uint8_t *at)
{
    uint16_t v16;
    uint32_t v32;
    int32_t i32;
    uint64_t v64;

    switch ((enum wire_kind)f->kind) {
    case KIND_U16:
        memcpy(&v16, at, sizeof(v16));
        putf(o, "%u", v16);
        break;
    case KIND_U32:
        memcpy(&v32, at, sizeof(v32));
        putf(o, "%" PRIu32, v32);
        break;
    case KIND_I32:
        memcpy(&i32, at, sizeof(i32));
        putf(o, "%" PRId32, i32);
        break;
    case KIND_U64:
    case KIND_HEX:
        memcpy(&v64, at, sizeof(v64));
        putf(o, f->kind == KIND_HEX && v64 != 0 ? "0x%" PRIx64 : "%" PRIu64, v64);
        break;
    case KIND_WID:
        memcpy(&v64, at, sizeof(v64));
        putf(o, "n%" PRIu32 ".%" PRIu32 "#%" PRIu32, wid_node(v64), wid_slot(v64),
             wid_incarnation(v64));
        break;
    default:
        putf(o, "%u", *at);
        break;
    }
}

/* Bytes of a field in its struct; what its zero is told by. */
static size_t field_size(const struct wire_field *f)
{
    switch ((enum wire_kind)f->kind) {
    case KIND_U8:
    case KIND_ENUM:
    case KIND_STRING: /* Empty if its first byte is zero. */
        return 1;
    case KIND_U16:
        return 2;
    case KIND_U64:
    case KIND_WID:
    case KIND_HEX:
        return 8;
    case KIND_BYTES:
    case KIND_BITS:
    case KIND_SECRET:
        return f->max;
    default:
        return 4;
    }
}

static void put_field(struct out *o, const struct wire_field *f, const uint8_t *in)
{
    switch ((enum wire_kind)f->kind) {
    case KIND_STRING:
        put_string(o, (const char *)in + f->offset, f->max);
        break;
    case KIND_ENUM:
        put_enum(o, f->values, in[f->offset]);
        break;
    case KIND_BYTES:
    case KIND_BITS:
    case KIND_SECRET:
        put_bytes(o, f, in + f->offset);
        break;
    case KIND_BLOB:
    case KIND_LIST:
    case KIND_ITEMS:
        put_counted(o, f, in);
        break;
    default:
        put_number(o, f, in + f->offset);
        break;
    }
}

static void put_fields(struct out *o, const struct wire_desc *d, const uint8_t *in, bool terse)
{
    bool any = false;

    for (uint32_t i = 0; i < d->fields_n && !o->full; i++) {
        const struct wire_field *f = &d->fields[i];

        if (terse && i > 0 && is_zero(in + f->offset, field_size(f))) {
            continue;
        }
        put(o, " ", any ? 1 : 0);
        put(o, f->name, strlen(f->name));
        put(o, "=", 1);
        put_field(o, f, in);
        any = true;
    }
}

size_t wire_print(unsigned type, const void *msg, uint64_t generation, char *buf, size_t cap)
{
    static const char more[] = "…";
    const struct wire_desc *d = wire_desc(type);

    if (cap == 0) {
        return 0;
    }
    struct out o = {buf, cap - 1, 0, false};

    put(&o, wire_name(type), strlen(wire_name(type)));
    if (generation != 0) {
        putf(&o, " gen=%" PRIu64, generation);
    }
    if (d != NULL && d->fields_n > 0) {
        put(&o, " ", 1);
        put_fields(&o, d, msg, false);
    }
    if (o.full) {
        /* Make room for the ellipsis without cutting a character in two. */
        o.n = o.cap >= sizeof(more) - 1 ? o.cap - (sizeof(more) - 1) : 0;
        while (o.n > 0 && ((uint8_t)buf[o.n] & 0xc0) == 0x80) {
            o.n--;
        }
        o.full = false;
        put(&o, more, o.cap >= sizeof(more) - 1 ? sizeof(more) - 1 : 0);
    }
    buf[o.n] = '\0';
    return o.n;
}
