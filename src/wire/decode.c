/* Bytes to structs, field by field as the descriptor says. Nothing is read beyond the payload,
 * and a count is believed only as far as the bytes that are there can bear it out. */
#include "core/text.h"
#include "wire/bytes.h"
#include "wire/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct reader {
    const uint8_t *start; /* of the payload: offsets in faults count from here */
    const uint8_t *p;
    const uint8_t *end; /* of the message or the element that is being read */
    const struct wire_desc *top;
    struct wire_scratch *scratch;
    struct wire_fault *fault;
    uint8_t theirs;
    uint8_t ours;
};

static int decode_fields(struct reader *r, const struct wire_desc *d, uint8_t *out);

int wire_fault_set(struct wire_fault *fault, int status, const char *fmt, ...)
{
    if (fault != NULL) {
        va_list args;

        fault->status = status;
        va_start(args, fmt);
        vsnprintf(fault->text, sizeof(fault->text), fmt, args);
        va_end(args);
    }
    return status;
}

__attribute__((cold, noinline)) static int refuse(const struct reader *r, const struct wire_desc *d,
                                                  const struct wire_field *f, int status,
                                                  const char *why)
{
    size_t at = (size_t)(r->p - r->start);

    if (f == NULL) {
        return wire_fault_set(r->fault, status, "%s: at byte %zu: %s", r->top->name, at, why);
    }
    if (d == r->top) {
        return wire_fault_set(r->fault, status, "%s: %s at byte %zu: %s", d->name, f->name, at,
                              why);
    }
    return wire_fault_set(r->fault, status, "%s: %s.%s at byte %zu: %s", r->top->name, d->name,
                          f->name, at, why);
}

static int cut(const struct reader *r, const struct wire_desc *d, const struct wire_field *f)
{
    return refuse(r, d, f, MU_EPROTO, "the bytes end within it");
}

void *wire_scratch_take(struct wire_scratch *scratch, size_t n)
{
    const size_t align = sizeof(uint64_t);
    size_t used = scratch->used;
    size_t pad = (align - ((uintptr_t)scratch->mem + used) % align) % align;

    if (used > scratch->cap || scratch->cap - used < pad || scratch->cap - used - pad < n) {
        return NULL;
    }
    scratch->used = used + pad + n;
    return scratch->mem + used + pad;
}

static inline bool left(const struct reader *r, size_t n)
{
    return (size_t)(r->end - r->p) >= n;
}

static int decode_string(struct reader *r, const struct wire_desc *d, const struct wire_field *f,
                         uint8_t *at)
{
    if (!left(r, 2)) {
        return cut(r, d, f);
    }
    size_t n = get_u16(r->p);

    if (n >= f->max) {
        return refuse(r, d, f, MU_ELIMIT, "the string is too long");
    }
    if (!left(r, 2 + n)) {
        return cut(r, d, f);
    }
    if (!text_valid(r->p + 2, n)) {
        return refuse(r, d, f, MU_EPROTO, "it has control characters or is not UTF-8");
    }
    memcpy(at, r->p + 2, n); /* The rest is zero already. */
    r->p += 2 + n;
    return MU_OK;
}

static int decode_list(struct reader *r, const struct wire_desc *d, uint8_t *items, uint32_t n)
{
    const uint8_t *end = r->end;

    memset(items, 0, (size_t)n * d->size);
    for (uint32_t i = 0; i < n; i++) {
        if (!left(r, 2) || !left(r, 2 + (size_t)get_u16(r->p))) {
            return refuse(r, d, NULL, MU_EPROTO, "the list ends early");
        }
        r->end = r->p + 2 + get_u16(r->p);
        r->p += 2;
        int rc = decode_fields(r, d, items + (size_t)i * d->size);

        if (rc != MU_OK) {
            return rc;
        }
        r->end = end;
    }
    return MU_OK;
}

static int decode_counted(struct reader *r, const struct wire_desc *d, const struct wire_field *f,
                          uint8_t *out)
{
    if (!left(r, 4)) {
        return cut(r, d, f);
    }
    uint32_t n = get_u32(r->p);
    const struct wire_desc *sub = wire_has_items(f) ? f->sub() : NULL;
    size_t least = sub != NULL ? 2 : 1; /* bytes of one, encoded */
    const uint8_t *items = NULL;
    int rc = MU_OK;

    if (n > f->max) {
        return refuse(r, d, f, MU_ELIMIT, "there are too many");
    }
    if ((size_t)(r->end - r->p - 4) / least < n) {
        return cut(r, d, f);
    }
    if (sub == NULL) {
        items = n > 0 ? r->p + 4 : NULL;
        r->p += 4 + (size_t)n;
    } else {
        uint8_t *mem = f->kind == KIND_ITEMS ? out + f->data
                       : n > 0               ? wire_scratch_take(r->scratch, n * sub->size)
                                             : NULL;

        if (n > 0 && mem == NULL) {
            return refuse(r, d, f, MU_ELIMIT, "no room left to decode it into");
        }
        r->p += 4;
        items = mem;
        rc = n > 0 ? decode_list(r, sub, mem, n) : MU_OK;
    }
    memcpy(out + f->offset, &n, sizeof(n));
    if (f->kind != KIND_ITEMS) {
        memcpy(out + f->data, &items, sizeof(items));
    }
    return rc;
}

/* Fields of a fixed width. */
static int decode_scalar(struct reader *r, const struct wire_desc *d, const struct wire_field *f,
                         uint8_t *at)
{
    uint16_t v16;
    uint32_t v32;
    uint64_t v64;

    switch ((enum wire_kind)f->kind) {
    case KIND_U64:
    case KIND_WID:
    case KIND_HEX:
        if (!left(r, 8)) {
            return cut(r, d, f);
        }
        v64 = get_u64(r->p);
        memcpy(at, &v64, 8);
        r->p += 8;
        return MU_OK;
    case KIND_U32:
    case KIND_I32:
        if (!left(r, 4)) {
            return cut(r, d, f);
        }
        v32 = get_u32(r->p);
        memcpy(at, &v32, 4);
        r->p += 4;
        return MU_OK;
    case KIND_U16:
        if (!left(r, 2)) {
            return cut(r, d, f);
        }
        v16 = get_u16(r->p);
        memcpy(at, &v16, 2);
        r->p += 2;
        return MU_OK;
    default: /* U8 and ENUM */
        if (!left(r, 1)) {
            return cut(r, d, f);
        }
        if (f->kind == KIND_ENUM && *r->p >= f->max) {
            return refuse(r, d, f, MU_EPROTO, "no such value");
        }
        *at = *r->p++;
        return MU_OK;
    }
}

static int decode_field(struct reader *r, const struct wire_desc *d, const struct wire_field *f,
                        uint8_t *out)
{
    switch ((enum wire_kind)f->kind) {
    case KIND_STRING:
        return decode_string(r, d, f, out + f->offset);
    case KIND_BYTES:
    case KIND_BITS:
    case KIND_SECRET:
        if (!left(r, f->max)) {
            return cut(r, d, f);
        }
        memcpy(out + f->offset, r->p, f->max);
        r->p += f->max;
        return MU_OK;
    case KIND_BLOB:
    case KIND_LIST:
    case KIND_ITEMS:
        return decode_counted(r, d, f, out);
    default:
        return decode_scalar(r, d, f, out + f->offset);
    }
}

/* Reads up to r->end, all of it. *out is zero to begin with. */
static int decode_fields(struct reader *r, const struct wire_desc *d, uint8_t *out)
{
    for (uint32_t i = 0; i < d->fields_n; i++) {
        const struct wire_field *f = &d->fields[i];

        if (f->since > r->theirs) {
            continue;
        }
        int rc = decode_field(r, d, f, out);

        if (rc != MU_OK) {
            return rc;
        }
    }
    if (r->p != r->end) {
        if (r->theirs <= r->ours) {
            return refuse(r, d, NULL, MU_EPROTO, "bytes are left over");
        }
        r->p = r->end; /* Fields of a newer version. */
    }
    return MU_OK;
}

int wire_fields_decode(const struct wire_desc *d, uint8_t theirs, uint8_t ours,
                       const uint8_t *payload, size_t n, void *msg, struct wire_scratch *scratch,
                       struct wire_fault *fault)
{
    struct reader r = {payload, payload, payload + n, d, scratch, fault, theirs, ours};
    size_t used = scratch->used;

    memset(msg, 0, d->size);
    int rc = decode_fields(&r, d, msg);

    if (rc != MU_OK) {
        scratch->used = used;
    }
    return rc;
}
