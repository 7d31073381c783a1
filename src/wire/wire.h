/* Frames and records: what core/message.h says, as bytes. Pure: no allocation, no I/O.
 *
 * A frame is a header of 32 bytes, little-endian, and a payload:
 *
 *    0  magic u32   4  major u8   5  minor u8   6  type u16   8  payload length u32
 *   12  generation u64 (between workers: the term)   20  request id u64   28  crc32c u32
 *
 * The crc is over the header with its own field zero, then the payload. A journal record has a
 * header of 12 bytes: type u16, major u8, minor u8, payload length u32, crc32c u32 (the same way).
 * Magic, major and minor stay where they are in every version to come.
 *
 * Payloads are the fields of wire/table.def in order. The sender's minor version says which
 * fields are there: those from a later one are zero; bytes after the known fields are skipped if
 * the sender is newer than this side and an error otherwise. Strings are valid UTF-8 without
 * control characters; enums are below their bound; every count has a limit, checked
 * before anything is read or stored. */
#ifndef WIRE_WIRE_H
#define WIRE_WIRE_H

#include "base/base.h"
#include "core/message_tasks.h"

#define WIRE_MAGIC 0x5254534du /* "MSTR" */
#define WIRE_MAJOR 1
#define WIRE_MINOR 8
#define WIRE_HEADER_BYTES 32
#define WIRE_RECORD_HEADER_BYTES 12

enum wire_type {
#define T_MESSAGE(number, NAME, ident, type) WIRE_##NAME = (number),
#define T_BODY(number, NAME, ident, type) WIRE_BODY_##NAME = (number),
#define T_RECORD(number, NAME, ident, type) WIRE_REC_##NAME = (number),
#define T_RECORD_AS(number, NAME, ident) WIRE_REC_##NAME = (number),
#include "wire/table.def"
};

/* Room for any message or record. The generation record is `generation`. */
union wire_any {
#define T_MESSAGE(number, NAME, ident, type) type ident;
#define T_BODY(number, NAME, ident, type) type ident;
#define T_RECORD(number, NAME, ident, type) type rec_##ident;
#include "wire/table.def"
};

struct wire_header {
    uint8_t major;
    uint8_t minor;
    uint16_t type;
    uint32_t length; /* of the payload */
    uint64_t generation;
    uint64_t request;
    uint32_t crc;
    uint32_t crc_head; /* crc of the header alone, its own field zero */
};

/* Where decoded lists go. mem is borrowed; used grows; reset it to 0 to forget them all. */
struct wire_scratch {
    uint8_t *mem;
    size_t cap;
    size_t used;
};

/* What was wrong: message, field, offset in the payload. Set on error only. */
struct wire_fault {
    int status;
    char text[TEXT_MAX_LEN];
};

/* "ready"; "unknown" if there is no such type. */
const char *wire_name(unsigned type);
bool wire_is_message(unsigned type);
bool wire_is_record(unsigned type);
bool wire_is_body(unsigned type);

/* The longest payload that this version sends for a type; 0 if there is no such type. A newer
 * minor version may send up to 2 * max + 1024. */
uint32_t wire_payload_max(unsigned type);

/* Bytes of the whole frame, header included. */
size_t wire_size(enum wire_type type, const void *msg);

/* Writes one frame. MU_ELIMIT: cap is too small (wire_size() tells). MU_EINVAL: msg holds what
 * no decoder would take: a string without end or with control characters, an enum or count out of
 * range. msg is the struct of that type, borrowed. */
int wire_encode(enum wire_type type, const void *msg, uint64_t generation, uint64_t request,
                uint8_t *buf, size_t cap, size_t *n_out);

/* For streams: reads the 32 bytes of a header and tells by h_out->length how many are to follow.
 * Only magic, version, type and the bound on the length are checked: believe nothing else in it
 * until wire_decode() has seen the crc. fault may be NULL, here and below. MU_EPROTO: not a frame,
 * or no such message. MU_EVERSION. MU_ELIMIT: too long. */
int wire_header_decode(const uint8_t bytes[WIRE_HEADER_BYTES], struct wire_header *h_out,
                       struct wire_fault *fault);

/* Decodes the payload of h into *msg (the member named by h->type). Lists are placed in the
 * scratch. Blobs are not copied: they point into payload, which must outlive *msg. All of the
 * struct is written, padding included. On error *msg is undefined and the scratch as before.
 * MU_ECORRUPT: crc. MU_EPROTO: malformed. MU_ELIMIT: a count beyond its limit, or no room in the
 * scratch. */
int wire_decode(const struct wire_header *h, const uint8_t *payload, size_t n, union wire_any *msg,
                struct wire_scratch *scratch, struct wire_fault *fault);

/* Both of the above for a frame that is whole in memory: n is exactly its length. */
int wire_frame_decode(const uint8_t *frame, size_t n, struct wire_header *h_out,
                      union wire_any *msg, struct wire_scratch *scratch, struct wire_fault *fault);

/* The same for records. A row that is cut or changed is MU_ECORRUPT; a type that this version
 * does not know is MU_EPROTO (MU_EVERSION if a newer minor wrote it). */
size_t wire_record_size(enum wire_type type, const void *msg);
int wire_record_encode(enum wire_type type, const void *msg, uint8_t *buf, size_t cap,
                       size_t *n_out);
int wire_record_decode(const uint8_t *buf, size_t n, unsigned *type_out, union wire_any *msg,
                       struct wire_scratch *scratch, struct wire_fault *fault);

/* The same for bodies: a byte with the sender's minor version, then the fields. Whoever passes one
 * on need not know what it is; the frame around it has the checksum. */
size_t wire_body_size(enum wire_type type, const void *msg);
int wire_body_encode(enum wire_type type, const void *msg, uint8_t *buf, size_t cap, size_t *n_out);
int wire_body_decode(enum wire_type type, const uint8_t *buf, size_t n, union wire_any *msg,
                     struct wire_scratch *scratch, struct wire_fault *fault);

/* One sentence that names both versions and says what to do; for either side. */
void wire_version_text(unsigned their_major, unsigned their_minor, char *buf, size_t cap);

#endif
