/* Makes descriptors of table.def. A field whose type or size is not what the table says
 * does not compile, nor does a struct with a field that the table lacks. */
#include "wire/table.h"

#include <string.h>

/* ---- every field of every struct is in the table ---- */

#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wmissing-field-initializers"

#define T_ELEMENT(NAME, ident, type) static const type complete_##ident __attribute__((unused)) = {
#define T_MESSAGE(number, NAME, ident, type) T_ELEMENT(NAME, ident, type)
#define T_BODY(number, NAME, ident, type) T_ELEMENT(NAME, ident, type)
#define T_RECORD(number, NAME, ident, type) T_ELEMENT(NAME, rec_##ident, type)
#define T_END \
    }         \
    ;
#define F_U8(field, since) 1,
#define F_U16(field, since) 1,
#define F_U32(field, since) 1,
#define F_I32(field, since) 1,
#define F_U64(field, since) 1,
#define F_WID(field, since) 1,
#define F_HEX(field, since) 1,
#define F_ENUM(field, bound, names, since) 1,
#define F_BOOL(field, since) 1,
#define F_STRING(field, bound, since) {1},
#define F_BYTES(field, bound, since) {1},
#define F_BITS(field, bound, since) {1},
#define F_SECRET(field, bound, since) {1},
#define F_BLOB(field, max, since) 1, NULL,
#define F_LIST(field, ident, max, since) 1, NULL,
#define F_ITEMS(field, ident, max, since) 1, {{0}},
#include "wire/table.def"

#pragma GCC diagnostic pop

/* ---- the longest encoding of each ---- */

enum {
#define T_ELEMENT(NAME, ident, type) MAX_##ident = 0
#define T_MESSAGE(number, NAME, ident, type) MAX_##ident = 0
#define T_BODY(number, NAME, ident, type) MAX_##ident = 0
#define T_RECORD(number, NAME, ident, type) MAX_rec_##ident = 0
#define T_END ,
#define F_U8(field, since) +1
#define F_U16(field, since) +2
#define F_U32(field, since) +4
#define F_I32(field, since) +4
#define F_U64(field, since) +8
#define F_WID(field, since) +8
#define F_HEX(field, since) +8
#define F_ENUM(field, bound, names, since) +1
#define F_BOOL(field, since) +1
#define F_STRING(field, bound, since) +2 + (bound)-1
#define F_BYTES(field, bound, since) +(bound)
#define F_BITS(field, bound, since) +(bound)
#define F_SECRET(field, bound, since) +(bound)
#define F_BLOB(field, max, since) +4 + (max)
#define F_LIST(field, ident, max, since) +4 + (max) * (2 + MAX_##ident)
#define F_ITEMS(field, ident, max, since) F_LIST(field, ident, max, since)
#include "wire/table.def"
};

/* An element's size is a u16. */
#define F_LIST(field, ident, max, since) \
    _Static_assert(MAX_##ident <= UINT16_MAX, "an element of a list is too long");
#include "wire/table.def"

/* ---- descriptors ---- */

#define T_ELEMENT(NAME, ident, type) typedef type type_##ident;
#define T_MESSAGE(number, NAME, ident, type) typedef type type_##ident;
#include "wire/table.def"

/* The offset of a field, if it is of that C type and size. */
#define AT(field, ctype) _Generic(((T *)0)->field, ctype : (uint16_t)offsetof(T, field))
#define AT_ARRAY(field, ctype, bound) \
    (uint16_t)(AT(field, ctype *) + 0 * sizeof(char[sizeof(((T *)0)->field) == (bound) ? 1 : -1]))

#define SCALAR(k, field, ctype, s) \
    {.name = #field, .offset = AT(field, ctype), .kind = (k), .since = (s)},
#define ARRAY(k, field, ctype, bound, s)      \
    {.name = #field,                          \
     .max = (bound),                          \
     .offset = AT_ARRAY(field, ctype, bound), \
     .kind = (k),                             \
     .since = (s)},
#define COUNTED(k, field, ctype, n, of, s) \
    {.name = #field,                       \
     .sub = (of),                          \
     .max = (n),                           \
     .offset = AT(field##_n, uint32_t),    \
     .data = AT(field, ctype *),           \
     .kind = (k),                          \
     .since = (s)},

#define DESC(ident, type, text)                       \
    static const struct wire_desc *desc_##ident(void) \
    {                                                 \
        typedef type T;                               \
        enum { LONGEST = MAX_##ident };               \
        static const char name[] = text;              \
        static const struct wire_field fields[] = {
#define T_ELEMENT(NAME, ident, type) DESC(ident, type, #ident)
#define T_MESSAGE(number, NAME, ident, type) DESC(ident, type, #ident)
#define T_BODY(number, NAME, ident, type) DESC(ident, type, #ident)
#define T_RECORD(number, NAME, ident, type) DESC(rec_##ident, type, #ident)
#define T_END                                                                                   \
    }                                                                                           \
    ;                                                                                           \
    static const struct wire_desc desc = {name, fields, ARRAY_LEN(fields), sizeof(T), LONGEST}; \
    return &desc;                                                                               \
    }
#define F_U8(field, since) SCALAR(KIND_U8, field, uint8_t, since)
#define F_U16(field, since) SCALAR(KIND_U16, field, uint16_t, since)
#define F_U32(field, since) SCALAR(KIND_U32, field, uint32_t, since)
#define F_I32(field, since) SCALAR(KIND_I32, field, int32_t, since)
#define F_U64(field, since) SCALAR(KIND_U64, field, uint64_t, since)
#define F_WID(field, since) SCALAR(KIND_WID, field, wid, since)
#define F_HEX(field, since) SCALAR(KIND_HEX, field, uint64_t, since)
#define F_ENUM(field, bound, names, s) \
    {.name = #field,                   \
     .values = (names),                \
     .max = (bound),                   \
     .offset = AT(field, uint8_t),     \
     .kind = KIND_ENUM,                \
     .since = (s)},
#define F_BOOL(field, since) F_ENUM(field, 2, "no|yes", since)
#define F_STRING(field, bound, since) ARRAY(KIND_STRING, field, char, bound, since)
#define F_BYTES(field, bound, since) ARRAY(KIND_BYTES, field, uint8_t, bound, since)
#define F_BITS(field, bound, since) ARRAY(KIND_BITS, field, uint8_t, bound, since)
#define F_SECRET(field, bound, since) ARRAY(KIND_SECRET, field, uint8_t, bound, since)
#define F_BLOB(field, max, since) COUNTED(KIND_BLOB, field, uint8_t, max, NULL, since)
#define F_LIST(field, ident, max, since) \
    COUNTED(KIND_LIST, field, type_##ident, max, desc_##ident, since)
#define F_ITEMS(field, ident, n, s)                                     \
    {.name = #field,                                                    \
     .sub = desc_##ident,                                               \
     .max = (n),                                                        \
     .offset = AT(field##_n, uint32_t),                                 \
     .data = AT_ARRAY(field, type_##ident, (n) * sizeof(type_##ident)), \
     .kind = KIND_ITEMS,                                                \
     .since = (s)},
#include "wire/table.def"

const uint8_t *wire_items(const struct wire_field *f, const uint8_t *in)
{
    const uint8_t *items = in + f->data;

    if (f->kind != KIND_ITEMS) {
        memcpy(&items, in + f->data, sizeof(items));
    }
    return items;
}

/* ---- by number ---- */

const struct wire_desc *wire_desc(unsigned type)
{
    switch (type) {
#define T_MESSAGE(number, NAME, ident, type) \
    case (number):                           \
        return desc_##ident();
#define T_BODY(number, NAME, ident, type) \
    case (number):                        \
        return desc_##ident();
#define T_RECORD(number, NAME, ident, type) \
    case (number):                          \
        return desc_rec_##ident();
#define T_RECORD_AS(number, NAME, ident) \
    case (number):                       \
        return desc_##ident();
#include "wire/table.def"
    default:
        return NULL;
    }
}

bool wire_is_message(unsigned type)
{
    return type < 256 && wire_desc(type) != NULL;
}

bool wire_is_record(unsigned type)
{
    return type >= 256 && type < 512 && wire_desc(type) != NULL;
}

bool wire_is_body(unsigned type)
{
    return type >= 512 && wire_desc(type) != NULL;
}

const char *wire_name(unsigned type)
{
    const struct wire_desc *d = wire_desc(type);

    return d != NULL ? d->name : "unknown";
}

uint32_t wire_payload_max(unsigned type)
{
    const struct wire_desc *d = wire_desc(type);

    return d != NULL ? d->max : 0;
}
