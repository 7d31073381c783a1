/* Headers of frames and records: versions, bounds, checksums. */
#include "base/crc32c.h"
#include "wire/bytes.h"
#include "wire/table.h"

#include <stdio.h>
#include <string.h>

enum { AT_CRC = 28, AT_RECORD_CRC = 8 };

void wire_version_text(unsigned their_major, unsigned their_minor, char *buf, size_t cap)
{
    snprintf(buf, cap,
             "this side speaks wire version %d.%d, the other %u.%u: "
             "install the same major version of muster on both",
             WIRE_MAJOR, WIRE_MINOR, their_major, their_minor);
}

static int refuse_version(struct wire_fault *fault, unsigned major, unsigned minor)
{
    if (fault != NULL) {
        fault->status = MU_EVERSION;
        wire_version_text(major, minor, fault->text, sizeof(fault->text));
    }
    return MU_EVERSION;
}

/* A newer minor version may have grown the message. */
static uint64_t payload_limit(const struct wire_desc *d, uint8_t minor)
{
    return minor > WIRE_MINOR ? (uint64_t)d->max * 2 + 1024 : d->max;
}

static int refuse_type(struct wire_fault *fault, const char *what, unsigned type, uint8_t minor)
{
    return wire_fault_set(fault, minor > WIRE_MINOR ? MU_EVERSION : MU_EPROTO,
                          "%s type %u of version %d.%u is not known to version %d.%d", what, type,
                          WIRE_MAJOR, minor, WIRE_MAJOR, WIRE_MINOR);
}

size_t wire_size(enum wire_type type, const void *msg)
{
    mu_assert(wire_is_message(type));
    return WIRE_HEADER_BYTES + wire_fields_size(wire_desc(type), WIRE_MINOR, msg);
}

int wire_encode(enum wire_type type, const void *msg, uint64_t generation, uint64_t request,
                uint8_t *buf, size_t cap, size_t *n_out)
{
    const struct wire_desc *d = type < 256 ? wire_desc(type) : NULL;
    size_t n = 0;

    mu_assert(d != NULL);
    if (cap < WIRE_HEADER_BYTES) {
        return MU_ELIMIT;
    }
    int rc = wire_fields_encode(d, WIRE_MINOR, msg, buf + WIRE_HEADER_BYTES,
                                cap - WIRE_HEADER_BYTES, &n);

    if (rc != MU_OK) {
        return rc;
    }
    put_u32(buf, WIRE_MAGIC);
    buf[4] = WIRE_MAJOR;
    buf[5] = WIRE_MINOR;
    put_u16(buf + 6, (uint16_t)type);
    put_u32(buf + 8, (uint32_t)n);
    put_u64(buf + 12, generation);
    put_u64(buf + 20, request);
    put_u32(buf + AT_CRC, 0);
    put_u32(buf + AT_CRC, crc32c(0, buf, WIRE_HEADER_BYTES + n));
    *n_out = WIRE_HEADER_BYTES + n;
    return MU_OK;
}

int wire_header_decode(const uint8_t bytes[WIRE_HEADER_BYTES], struct wire_header *h_out,
                       struct wire_fault *fault)
{
    uint8_t zeroed[WIRE_HEADER_BYTES];
    struct wire_header h = {
        .major = bytes[4],
        .minor = bytes[5],
        .type = get_u16(bytes + 6),
        .length = get_u32(bytes + 8),
        .generation = get_u64(bytes + 12),
        .request = get_u64(bytes + 20),
        .crc = get_u32(bytes + AT_CRC),
    };

    if (get_u32(bytes) != WIRE_MAGIC) {
        return wire_fault_set(fault, MU_EPROTO, "not a muster frame: it starts with 0x%08x",
                              (unsigned)get_u32(bytes));
    }
    if (h.major != WIRE_MAJOR) {
        return refuse_version(fault, h.major, h.minor);
    }
    const struct wire_desc *d = h.type < 256 ? wire_desc(h.type) : NULL;

    if (d == NULL) {
        return refuse_type(fault, "message", h.type, h.minor);
    }
    if (h.length > payload_limit(d, h.minor)) {
        return wire_fault_set(fault, MU_ELIMIT, "%s: a payload of %u bytes; at most %llu are taken",
                              d->name, (unsigned)h.length,
                              (unsigned long long)payload_limit(d, h.minor));
    }
    memcpy(zeroed, bytes, AT_CRC);
    put_u32(zeroed + AT_CRC, 0);
    h.crc_head = crc32c(0, zeroed, sizeof(zeroed));
    *h_out = h;
    return MU_OK;
}

int wire_decode(const struct wire_header *h, const uint8_t *payload, size_t n, union wire_any *msg,
                struct wire_scratch *scratch, struct wire_fault *fault)
{
    const struct wire_desc *d = wire_desc(h->type);

    mu_assert(d != NULL);
    if (n != h->length) {
        return wire_fault_set(fault, MU_EPROTO, "%s: the header says %u bytes, there are %zu",
                              d->name, (unsigned)h->length, n);
    }
    if (crc32c(h->crc_head, payload, n) != h->crc) {
        return wire_fault_set(fault, MU_ECORRUPT, "%s: the checksum does not match", d->name);
    }
    return wire_fields_decode(d, h->minor, WIRE_MINOR, payload, n, msg, scratch, fault);
}

int wire_frame_decode(const uint8_t *frame, size_t n, struct wire_header *h_out,
                      union wire_any *msg, struct wire_scratch *scratch, struct wire_fault *fault)
{
    struct wire_header h;

    if (n < WIRE_HEADER_BYTES) {
        return wire_fault_set(fault, MU_EPROTO, "a frame of %zu bytes is shorter than its header",
                              n);
    }
    int rc = wire_header_decode(frame, &h, fault);

    if (rc == MU_OK) {
        rc = wire_decode(&h, frame + WIRE_HEADER_BYTES, n - WIRE_HEADER_BYTES, msg, scratch, fault);
    }
    if (rc == MU_OK) {
        *h_out = h;
    }
    return rc;
}

size_t wire_record_size(enum wire_type type, const void *msg)
{
    mu_assert(wire_is_record(type));
    return WIRE_RECORD_HEADER_BYTES + wire_fields_size(wire_desc(type), WIRE_MINOR, msg);
}

int wire_record_encode(enum wire_type type, const void *msg, uint8_t *buf, size_t cap,
                       size_t *n_out)
{
    size_t n = 0;

    mu_assert(wire_is_record(type));
    if (cap < WIRE_RECORD_HEADER_BYTES) {
        return MU_ELIMIT;
    }
    int rc = wire_fields_encode(wire_desc(type), WIRE_MINOR, msg, buf + WIRE_RECORD_HEADER_BYTES,
                                cap - WIRE_RECORD_HEADER_BYTES, &n);

    if (rc != MU_OK) {
        return rc;
    }
    put_u16(buf, (uint16_t)type);
    buf[2] = WIRE_MAJOR;
    buf[3] = WIRE_MINOR;
    put_u32(buf + 4, (uint32_t)n);
    put_u32(buf + AT_RECORD_CRC, 0);
    put_u32(buf + AT_RECORD_CRC, crc32c(0, buf, WIRE_RECORD_HEADER_BYTES + n));
    *n_out = WIRE_RECORD_HEADER_BYTES + n;
    return MU_OK;
}

int wire_record_decode(const uint8_t *buf, size_t n, unsigned *type_out, union wire_any *msg,
                       struct wire_scratch *scratch, struct wire_fault *fault)
{
    uint8_t head[WIRE_RECORD_HEADER_BYTES];

    if (n < sizeof(head) || n - sizeof(head) != get_u32(buf + 4)) {
        return wire_fault_set(fault, MU_ECORRUPT, "a record is cut: %zu bytes are there", n);
    }
    memcpy(head, buf, AT_RECORD_CRC);
    put_u32(head + AT_RECORD_CRC, 0);
    uint32_t crc = crc32c(crc32c(0, head, sizeof(head)), buf + sizeof(head), n - sizeof(head));
    unsigned type = get_u16(buf);
    uint8_t minor = buf[3];

    /* The checksum comes first: a damaged version or type must not pass for a foreign one. */
    if (crc != get_u32(buf + AT_RECORD_CRC)) {
        return wire_fault_set(fault, MU_ECORRUPT, "record type %u: the checksum does not match",
                              type);
    }
    if (buf[2] != WIRE_MAJOR) {
        return refuse_version(fault, buf[2], minor);
    }
    if (!wire_is_record(type)) {
        return refuse_type(fault, "record", type, minor);
    }
    const struct wire_desc *d = wire_desc(type);

    if (n - sizeof(head) > payload_limit(d, minor)) {
        return wire_fault_set(fault, MU_ELIMIT, "%s: a record of %zu bytes is too long", d->name,
                              n);
    }
    int rc = wire_fields_decode(d, minor, WIRE_MINOR, buf + sizeof(head), n - sizeof(head), msg,
                                scratch, fault);

    if (rc == MU_OK) {
        *type_out = type;
    }
    return rc;
}
