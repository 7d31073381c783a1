/* A chunk of RecordIO: 20 bytes of head, five u32 little-endian, and a payload of {u32 length,
 * bytes} for each record, compressed as a whole. Two layouts share the magic number in front:
 *
 *       A: ElasticDL, PaddlePaddle        B: pyrecordio 0.0.2
 *    4  CRC-32 of the payload             records
 *    8  0 none, 1 snappy, 2 gzip          CRC-32C of the payload
 *   12  bytes of the payload              1 none, 2 snappy, 3 gzip
 *   16  records                           bytes of the payload
 *
 * Sums are those of the payload as it is stored. Snappy is framed in A, and one block in B. */
#ifndef DATA_CHUNK_H
#define DATA_CHUNK_H

#include "data/shard.h"

#define CHUNK_HEAD 20
#define CHUNK_MAGIC "\x04\x03\x02\x01"

enum compressor { COMPRESS_NONE, COMPRESS_SNAPPY, COMPRESS_GZIP };

struct chunk_head {
    enum layout layout;
    enum compressor compressor;
    uint32_t crc, bytes, records;
};

struct bytes {
    uint8_t *data;
    size_t n, cap;
};

/* Room for so many in all. MU_ENOMEM. */
int bytes_room(struct bytes *b, size_t n);

/* False: no such head, or one that tells of what can't be in `left` bytes. */
bool chunk_parse(enum layout layout, const uint8_t *p, uint64_t left, struct chunk_head *out);
void chunk_write(const struct chunk_head *head, uint8_t out[CHUNK_HEAD]); /* layout A */
bool chunk_sum_holds(const struct chunk_head *head, const uint8_t *payload);

/* What the payload holds: *data_out is in the payload itself, or in `to`. MU_ECORRUPT with the text
 * of why; MU_ENOMEM; MU_ELIMIT: more than `max` bytes. */
int chunk_unpack(const struct chunk_head *head, const uint8_t *payload, uint64_t max,
                 struct bytes *to, const uint8_t **data_out, size_t *n_out);
/* Whether lengths and bytes are those of so many records. */
bool chunk_holds(const uint8_t *data, size_t n, uint32_t records);

/* ---- frames.c: snappy's framing ---- */

int frames_unpack(const uint8_t *p, size_t n, uint64_t max, struct bytes *to);
/* Appends to `to`. */
int frames_pack(const uint8_t *p, size_t n, struct bytes *to);

#endif
