/* Structs to bytes, field by field as the descriptor says. Refuses what the decoder would. */
#include "core/text.h"
#include "wire/bytes.h"
#include "wire/table.h"

#include <string.h>

struct writer {
    uint8_t *p;
    uint8_t *end;
    uint8_t minor;
};

/* p[0..] of a field as its C type: memcpy because the struct is known by offsets only. */
static inline uint32_t load_u32(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static int encode_fields(struct writer *w, const struct wire_desc *d, const uint8_t *in);

static inline bool room(const struct writer *w, size_t n)
{
    return (size_t)(w->end - w->p) >= n;
}

static int encode_string(struct writer *w, const struct wire_field *f, const uint8_t *at)
{
    const uint8_t *nul = memchr(at, 0, f->max);

    if (nul == NULL || !text_valid(at, (size_t)(nul - at))) {
        return MU_EINVAL;
    }
    size_t n = (size_t)(nul - at);

    if (!room(w, 2 + n)) {
        return MU_ELIMIT;
    }
    put_u16(w->p, (uint16_t)n);
    memcpy(w->p + 2, at, n);
    w->p += 2 + n;
    return MU_OK;
}

static int encode_list(struct writer *w, const struct wire_desc *d, const uint8_t *items,
                       uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint8_t *start = w->p;

        if (!room(w, 2)) {
            return MU_ELIMIT;
        }
        w->p += 2;
        int rc = encode_fields(w, d, items + (size_t)i * d->size);

        if (rc != MU_OK) {
            return rc;
        }
        put_u16(start, (uint16_t)(w->p - start - 2));
    }
    return MU_OK;
}

static int encode_counted(struct writer *w, const struct wire_field *f, const uint8_t *in)
{
    uint32_t n = load_u32(in + f->offset);
    const uint8_t *items = wire_items(f, in);

    if (n > f->max || (n > 0 && items == NULL)) {
        return MU_EINVAL;
    }
    if (!room(w, 4)) {
        return MU_ELIMIT;
    }
    put_u32(w->p, n);
    w->p += 4;
    if (wire_has_items(f)) {
        return encode_list(w, f->sub(), items, n);
    }
    if (!room(w, n)) {
        return MU_ELIMIT;
    }
    if (n > 0) {
        memcpy(w->p, items, n);
        w->p += n;
    }
    return MU_OK;
}

/* Fields of a fixed width. */
static int encode_scalar(struct writer *w, const struct wire_field *f, const uint8_t *at)
{
    uint16_t v16;
    uint64_t v64;

    switch ((enum wire_kind)f->kind) {
    case KIND_U64:
    case KIND_WID:
    case KIND_HEX:
        if (!room(w, 8)) {
            return MU_ELIMIT;
        }
        memcpy(&v64, at, 8);
        put_u64(w->p, v64);
        w->p += 8;
        return MU_OK;
    case KIND_U32:
    case KIND_I32:
        if (!room(w, 4)) {
            return MU_ELIMIT;
        }
        put_u32(w->p, load_u32(at));
        w->p += 4;
        return MU_OK;
    case KIND_U16:
        if (!room(w, 2)) {
            return MU_ELIMIT;
        }
        memcpy(&v16, at, 2);
        put_u16(w->p, v16);
        w->p += 2;
        return MU_OK;
    default: /* U8 and ENUM */
        if (f->kind == KIND_ENUM && *at >= f->max) {
            return MU_EINVAL;
        }
        if (!room(w, 1)) {
            return MU_ELIMIT;
        }
        *w->p++ = *at;
        return MU_OK;
    }
}

static int encode_fields(struct writer *w, const struct wire_desc *d, const uint8_t *in)
{
    for (uint32_t i = 0; i < d->fields_n; i++) {
        const struct wire_field *f = &d->fields[i];
        int rc = MU_OK;

        if (f->since > w->minor) {
            continue;
        }
        switch ((enum wire_kind)f->kind) {
        case KIND_STRING:
            rc = encode_string(w, f, in + f->offset);
            break;
        case KIND_BYTES:
        case KIND_BITS:
        case KIND_SECRET:
            if (!room(w, f->max)) {
                return MU_ELIMIT;
            }
            memcpy(w->p, in + f->offset, f->max);
            w->p += f->max;
            break;
        case KIND_BLOB:
        case KIND_LIST:
        case KIND_ITEMS:
            rc = encode_counted(w, f, in);
            break;
        default:
            rc = encode_scalar(w, f, in + f->offset);
            break;
        }
        if (rc != MU_OK) {
            return rc;
        }
    }
    return MU_OK;
}

int wire_fields_encode(const struct wire_desc *d, uint8_t minor, const void *msg, uint8_t *buf,
                       size_t cap, size_t *n_out)
{
    struct writer w = {buf, buf + cap, minor};
    int rc = encode_fields(&w, d, msg);

    if (rc == MU_OK) {
        *n_out = (size_t)(w.p - buf);
    }
    return rc;
}

static size_t counted_size(const struct wire_field *f, uint8_t minor, const uint8_t *in)
{
    size_t n = load_u32(in + f->offset);
    const uint8_t *items = wire_items(f, in);
    size_t sum = 4;

    if (!wire_has_items(f)) {
        return sum + n;
    }
    const struct wire_desc *d = f->sub();

    for (size_t i = 0; i < n && items != NULL; i++) {
        sum += 2 + wire_fields_size(d, minor, items + i * d->size);
    }
    return sum;
}

size_t wire_fields_size(const struct wire_desc *d, uint8_t minor, const void *msg)
{
    const uint8_t *in = msg;
    size_t sum = 0;

    for (uint32_t i = 0; i < d->fields_n; i++) {
        const struct wire_field *f = &d->fields[i];

        if (f->since > minor) {
            continue;
        }
        switch ((enum wire_kind)f->kind) {
        case KIND_U8:
        case KIND_ENUM:
            sum += 1;
            break;
        case KIND_U16:
            sum += 2;
            break;
        case KIND_U32:
        case KIND_I32:
            sum += 4;
            break;
        case KIND_U64:
        case KIND_WID:
        case KIND_HEX:
            sum += 8;
            break;
        case KIND_STRING:
            sum += 2 + strnlen((const char *)in + f->offset, f->max);
            break;
        case KIND_BYTES:
        case KIND_BITS:
        case KIND_SECRET:
            sum += f->max;
            break;
        case KIND_BLOB:
        case KIND_LIST:
        case KIND_ITEMS:
            sum += counted_size(f, minor, in);
            break;
        }
    }
    return sum;
}
