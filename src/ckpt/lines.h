/* Texts of this folder: lines of a word and values, ended by a line with the sha256 of all before
 * it. There is one way to write each, and no other is read. */
#ifndef CKPT_LINES_H
#define CKPT_LINES_H

#include "ckpt/ckpt.h"

/* ---- written ---- */

struct lines_out {
    char *text;
    size_t n, cap;
    bool failed; /* no memory: what follows does nothing */
};

void lines_add(struct lines_out *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void lines_hex(struct lines_out *o, const uint8_t *bytes, size_t n);
/* Adds the last line. On success *text_out is the caller's; on failure nothing is left. */
int lines_seal(struct lines_out *o, char **text_out, size_t *n_out);

/* ---- read ---- */

struct lines_in {
    const char *at, *end;
    uint32_t line; /* from 1, for complaints */
};

/* False if the last line does not hold; otherwise *in is all before it. */
bool lines_open(struct lines_in *in, const char *text, size_t n);

/* The line's word and the blank after it. */
bool lines_word(struct lines_in *in, const char *word);
/* A number as it is written, at most max, and the `after` (a blank or a newline) it ends with. */
bool lines_u64(struct lines_in *in, uint64_t max, char after, uint64_t *out);
bool lines_u32(struct lines_in *in, uint32_t max, char after, uint32_t *out);
/* The rest of the line: 1 to cap - 1 bytes, terminated. */
bool lines_text(struct lines_in *in, char *to, size_t cap);
/* n bytes as hex, and the line's end. */
bool lines_bytes(struct lines_in *in, uint8_t *to, size_t n);

/* "word number" as one line. */
bool lines_pair(struct lines_in *in, const char *word, uint64_t max, uint64_t *out);

#endif
