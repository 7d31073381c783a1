/* Descriptors made from table.def, and the codec that walks them. Inside of wire/ and its tests. */
#ifndef WIRE_TABLE_H
#define WIRE_TABLE_H

#include "wire/wire.h"

enum wire_kind {
    KIND_U8,
    KIND_U16,
    KIND_U32,
    KIND_I32,
    KIND_U64,
    KIND_WID,
    KIND_HEX,
    KIND_ENUM,
    KIND_STRING,
    KIND_BYTES,
    KIND_BITS,
    KIND_SECRET,
    KIND_BLOB,
    KIND_LIST,
    KIND_ITEMS
};

struct wire_desc;

struct wire_field {
    const char *name;
    const char *values;                   /* enum: "first|second" */
    const struct wire_desc *(*sub)(void); /* list, items: what it has */
    uint32_t max;                         /* enum: bound; string, bytes: size; else count */
    uint16_t offset;                      /* of the value, or of the count */
    uint16_t data;                        /* of the pointer of blob and list; of the first item */
    uint8_t kind;
    uint8_t since;
};

/* Those that have a count and structs. */
static inline bool wire_has_items(const struct wire_field *f)
{
    return f->kind == KIND_LIST || f->kind == KIND_ITEMS;
}

struct wire_desc {
    const char *name;
    const struct wire_field *fields;
    uint32_t fields_n;
    uint32_t size; /* of the struct */
    uint32_t max;  /* longest encoding */
};

/* What a blob, a list or items has in the message that begins at `in`; NULL if there is none. */
const uint8_t *wire_items(const struct wire_field *f, const uint8_t *in);

/* NULL if there is no such type. */
const struct wire_desc *wire_desc(unsigned type);

/* The fields of msg alone. They are those of minor version `minor` and before. */
size_t wire_fields_size(const struct wire_desc *d, uint8_t minor, const void *msg);
int wire_fields_encode(const struct wire_desc *d, uint8_t minor, const void *msg, uint8_t *buf,
                       size_t cap, size_t *n_out);

/* theirs: the sender's minor; ours: this side's. */
int wire_fields_decode(const struct wire_desc *d, uint8_t theirs, uint8_t ours,
                       const uint8_t *payload, size_t n, void *msg, struct wire_scratch *scratch,
                       struct wire_fault *fault);

/* Sets the fault, if there is one to set, and returns status. */
int wire_fault_set(struct wire_fault *fault, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Aligned room for n bytes, or NULL. */
void *wire_scratch_take(struct wire_scratch *scratch, size_t n);

#endif
