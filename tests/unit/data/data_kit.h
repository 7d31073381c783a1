/* Files of a test in a folder of its own, and what a reader makes of them. */
#ifndef UNIT_DATA_DATA_KIT_H
#define UNIT_DATA_DATA_KIT_H

#include "data/chunk.h"
#include "data/reader.h"
#include "unit/unit.h"

/* Made before each test, removed behind it. */
int kit_setup(void **state);
int kit_teardown(void **state);
#define KIT_TEST(fn) cmocka_unit_test_setup_teardown(fn, kit_setup, kit_teardown)

/* "FOLDER/name"; valid until the 8th next call. */
const char *kit_path(const char *name);
void kit_write(const char *name, const void *data, size_t n);
/* free() it. */
uint8_t *kit_read(const char *path, size_t *n_out);

/* What a test puts together, byte by byte. */
struct made {
    uint8_t b[1 << 18];
    size_t n;
};

void made_bytes(struct made *m, const void *data, size_t n);
void made_text(struct made *m, const char *text);
void made_le(struct made *m, uint64_t v, int width);
/* "one|two|three": as the payload of a chunk. */
void made_payload(struct made *m, const char *records);
/* A chunk by chunk.h's drawing: `compressor` is the number that stands in the file. */
void made_chunk(struct made *m, enum layout layout, uint32_t compressor, const void *payload,
                size_t n, uint32_t records);
/* … of the records of such a text, compressed. */
void made_records(struct made *m, enum layout layout, enum compressor compressor,
                  const char *records);

/* The reader's records with '|' behind each, or the error; "#12 at 37" if one of them is damaged
 * there. Valid until the next call. */
const char *kit_show(const char *source, const char *options);
/* What it skipped while it was read that way. */
extern uint64_t kit_skipped;

/* A record's fields: "a=1 b='x'"; valid until the next call. */
const char *kit_fields(const char *source, const char *options, uint64_t number);

#endif
