#include "fuzz/wire_check.h"

#include "base/crc32c.h"
#include "lib/chance.h"
#include "lib/wire_print.h"
#include "wire/bytes.h"

#include <stdlib.h>
#include <string.h>

enum { SCRATCH_MAX = 4u << 20 };

struct wire_scratch wire_check_scratch(uint8_t option)
{
    static const size_t caps[] = {SCRATCH_MAX, 4096, 100, 0};
    static uint64_t memory[SCRATCH_MAX / 8];
    const size_t cap = caps[option % ARRAY_LEN(caps)];

    /* The end of the room is the end of the memory, so that a write beyond it is seen. */
    return (struct wire_scratch){(uint8_t *)memory + (SCRATCH_MAX - cap), cap, 0};
}

void wire_check_refused(int status, const struct wire_fault *fault,
                        const struct wire_scratch *scratch)
{
    mu_assert(status < 0);
    mu_assert(fault->status == status);
    mu_assert(fault->text[0] != '\0');
    mu_assert(memchr(fault->text, '\0', sizeof(fault->text)) != NULL);
    mu_assert(scratch->used == 0);
}

uint8_t *wire_check_copy(const uint8_t *bytes, size_t n)
{
    uint8_t *copy = malloc(n);

    mu_assert(copy != NULL || n == 0);
    if (n > 0) {
        memcpy(copy, bytes, n);
    }
    return copy;
}

void wire_check_mend_frame(uint8_t *frame, size_t n)
{
    if (n < WIRE_HEADER_BYTES) {
        return;
    }
    put_u32(frame, WIRE_MAGIC);
    frame[4] = WIRE_MAJOR;
    put_u32(frame + 8, (uint32_t)(n - WIRE_HEADER_BYTES));
    put_u32(frame + 28, 0);
    put_u32(frame + 28, crc32c(0, frame, n));
}

void wire_check_mend_record(uint8_t *record, size_t n)
{
    if (n < WIRE_RECORD_HEADER_BYTES) {
        return;
    }
    record[2] = WIRE_MAJOR;
    put_u32(record + 4, (uint32_t)(n - WIRE_RECORD_HEADER_BYTES));
    put_u32(record + 8, 0);
    put_u32(record + 8, crc32c(0, record, n));
}

void wire_check_mend_stream(uint8_t *stream, size_t n)
{
    while (n >= WIRE_HEADER_BYTES) {
        const size_t len = MIN(WIRE_HEADER_BYTES + (size_t)get_u32(stream + 8), n);

        wire_check_mend_frame(stream, len);
        stream += len;
        n -= len;
    }
}

void wire_check_cut(const uint8_t *stream, size_t n, uint64_t seed,
                    void (*receive)(void *arg, const uint8_t *piece, size_t n), void *arg)
{
    struct prng p;

    prng_init(&p, seed);
    while (n > 0) {
        size_t part = (size_t)prng_between(&p, 1, prng_chance(&p, 500000) ? 3 : 200);

        part = MIN(part, n);
        receive(arg, stream, part);
        stream += part;
        n -= part;
    }
}

static void check_print(unsigned type, const union wire_any *msg, uint64_t generation)
{
    static const size_t caps[] = {0, 1, 3, 4, 5, 17, 100, 4096};

    for (size_t i = 0; i < ARRAY_LEN(caps); i++) {
        char *line = malloc(caps[i]);

        mu_assert(line != NULL || caps[i] == 0);
        size_t n = wire_print(type, msg, generation, line, caps[i]);

        mu_assert(caps[i] == 0 ? n == 0 : n < caps[i] && strlen(line) == n);
        for (size_t k = 0; k < n; k++) {
            mu_assert((uint8_t)line[k] >= 0x20 && line[k] != 0x7f);
        }
        free(line);
    }
}

/* The same version gives the same bytes; an older sender left fields out, a newer one may have
 * said more than is known here. */
static void check_bytes(const uint8_t *again, size_t again_n, const uint8_t *was, size_t was_n,
                        uint8_t minor)
{
    if (minor == WIRE_MINOR) {
        mu_assert(again_n == was_n && memcmp(again, was, was_n) == 0);
    } else {
        mu_assert(minor < WIRE_MINOR ? again_n >= was_n : again_n <= was_n);
    }
}

void wire_check_frame(const struct wire_header *h, const union wire_any *msg, const uint8_t *frame,
                      size_t n)
{
    const enum wire_type type = (enum wire_type)h->type;
    const size_t size = wire_size(type, msg);
    uint8_t *again = malloc(size);
    size_t again_n = 0;

    mu_assert(again != NULL);
    mu_assert(wire_encode(type, msg, h->generation, h->request, again, size, &again_n) == MU_OK);
    mu_assert(again_n == size);
    check_bytes(again, again_n, frame, n, h->minor);
    check_print(h->type, msg, h->generation);
    free(again);
}

void wire_check_record(unsigned type, const union wire_any *msg, const uint8_t *record, size_t n)
{
    const size_t size = wire_record_size((enum wire_type)type, msg);
    uint8_t *again = malloc(size);
    size_t again_n = 0;

    mu_assert(again != NULL);
    mu_assert(wire_record_encode((enum wire_type)type, msg, again, size, &again_n) == MU_OK);
    mu_assert(again_n == size);
    check_bytes(again, again_n, record, n, record[3]);
    check_print(type, msg, 0);
    free(again);
}
