/* Properties of whatever the decoder accepts, shared by the fuzzers of wire/. */
#ifndef FUZZ_WIRE_CHECK_H
#define FUZZ_WIRE_CHECK_H

#include "wire/wire.h"

/* An option byte chooses how much room the decoder gets; fuzzers find the small ones too. */
struct wire_scratch wire_check_scratch(uint8_t option);

/* A refusal has a reason, and gives back the scratch. */
void wire_check_refused(int status, const struct wire_fault *fault,
                        const struct wire_scratch *scratch);

/* A copy in memory of exactly that size, so that a sanitizer sees a byte too many; to be freed. */
uint8_t *wire_check_copy(const uint8_t *bytes, size_t n);

/* Makes the checksum of a frame or record right, and its length if there is a whole header. */
void wire_check_mend_frame(uint8_t *frame, size_t n);
void wire_check_mend_record(uint8_t *record, size_t n);

/* Makes the checksums of frames that follow each other right, each as long as it says. */
void wire_check_mend_stream(uint8_t *stream, size_t n);

/* Gives a stream to receive(), in pieces whose lengths come from the seed. */
void wire_check_cut(const uint8_t *stream, size_t n, uint64_t seed,
                    void (*receive)(void *arg, const uint8_t *piece, size_t n), void *arg);

/* What was decoded prints into any room, encodes again, and, if its sender was of this very
 * version, gives the bytes that it came from. */
void wire_check_frame(const struct wire_header *h, const union wire_any *msg, const uint8_t *frame,
                      size_t n);
void wire_check_record(unsigned type, const union wire_any *msg, const uint8_t *record, size_t n);

#endif
