#include "ckpt/lines.h"

#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHA_BYTES 32
#define SEAL_WORD "sha256 "
#define SEAL_BYTES (sizeof(SEAL_WORD) - 1 + (size_t)2 * SHA_BYTES + 1)

static const char DIGITS[] = "0123456789abcdef";

static bool sha256(const char *text, size_t n, uint8_t out[SHA_BYTES])
{
    return EVP_Digest(text, n, out, NULL, EVP_sha256(), NULL) == 1;
}

/* ---- written ---- */

/* Room for n more, and a terminator. */
static bool reserve(struct lines_out *o, size_t n)
{
    if (!o->failed && o->n + n + 1 > o->cap) {
        const size_t cap = MAX(2 * o->cap, o->n + n + 1024);
        char *text = realloc(o->text, cap);

        o->failed = text == NULL;
        if (text != NULL) {
            o->text = text;
            o->cap = cap;
        }
    }
    return !o->failed;
}

void lines_add(struct lines_out *o, const char *fmt, ...)
{
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    mu_assert(n >= 0);
    if (!reserve(o, (size_t)n)) {
        return;
    }
    va_start(args, fmt);
    vsnprintf(o->text + o->n, (size_t)n + 1, fmt, args);
    va_end(args);
    o->n += (size_t)n;
}

void lines_hex(struct lines_out *o, const uint8_t *bytes, size_t n)
{
    if (!reserve(o, 2 * n)) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        o->text[o->n++] = DIGITS[bytes[i] >> 4];
        o->text[o->n++] = DIGITS[bytes[i] & 15];
    }
}

int lines_seal(struct lines_out *o, char **text_out, size_t *n_out)
{
    uint8_t sha[SHA_BYTES];

    if (!o->failed && sha256(o->text, o->n, sha)) {
        lines_add(o, SEAL_WORD);
        lines_hex(o, sha, sizeof(sha));
        lines_add(o, "\n");
    } else {
        o->failed = true;
    }
    if (o->failed) {
        free(o->text);
        *o = (struct lines_out){.text = NULL};
        return MU_ENOMEM;
    }
    *text_out = o->text;
    *n_out = o->n;
    return MU_OK;
}

/* ---- read ---- */

bool lines_open(struct lines_in *in, const char *text, size_t n)
{
    uint8_t said[SHA_BYTES], is[SHA_BYTES];
    struct lines_in seal;

    if (n <= SEAL_BYTES || text[n - SEAL_BYTES - 1] != '\n') {
        return false;
    }
    seal = (struct lines_in){.at = text + n - SEAL_BYTES, .end = text + n};
    if (!lines_word(&seal, "sha256") || !lines_bytes(&seal, said, sizeof(said)) ||
        !sha256(text, n - SEAL_BYTES, is) || memcmp(said, is, sizeof(is)) != 0) {
        return false;
    }
    *in = (struct lines_in){.at = text, .end = text + n - SEAL_BYTES, .line = 1};
    return true;
}

static bool take(struct lines_in *in, char c)
{
    if (in->at == in->end || *in->at != c) {
        return false;
    }
    in->at++;
    in->line += c == '\n';
    return true;
}

bool lines_word(struct lines_in *in, const char *word)
{
    const size_t n = strlen(word);

    if ((size_t)(in->end - in->at) < n || memcmp(in->at, word, n) != 0) {
        return false;
    }
    in->at += n;
    return take(in, ' ');
}

bool lines_u64(struct lines_in *in, uint64_t max, char after, uint64_t *out)
{
    const char *start = in->at;
    uint64_t v = 0;

    for (; in->at < in->end && *in->at >= '0' && *in->at <= '9'; in->at++) {
        const uint64_t digit = (uint64_t)(*in->at - '0');

        if (v > (max - MIN(digit, max)) / 10 || digit > max) {
            return false;
        }
        v = v * 10 + digit;
    }
    if (in->at == start || (*start == '0' && in->at - start > 1) || !take(in, after)) {
        return false;
    }
    *out = v;
    return true;
}

bool lines_u32(struct lines_in *in, uint32_t max, char after, uint32_t *out)
{
    uint64_t v;

    if (!lines_u64(in, max, after, &v)) {
        return false;
    }
    *out = (uint32_t)v;
    return true;
}

bool lines_text(struct lines_in *in, char *to, size_t cap)
{
    const char *end = memchr(in->at, '\n', (size_t)(in->end - in->at));
    const size_t n = end != NULL ? (size_t)(end - in->at) : 0;

    if (n == 0 || n >= cap || memchr(in->at, '\0', n) != NULL) {
        return false;
    }
    memcpy(to, in->at, n);
    to[n] = '\0';
    in->at = end;
    return take(in, '\n');
}

static int digit_of(char c)
{
    const char *found = c != '\0' ? strchr(DIGITS, c) : NULL;

    return found != NULL ? (int)(found - DIGITS) : -1;
}

bool lines_bytes(struct lines_in *in, uint8_t *to, size_t n)
{
    if ((size_t)(in->end - in->at) < 2 * n) {
        return false;
    }
    for (size_t i = 0; i < n; i++, in->at += 2) {
        const int high = digit_of(in->at[0]), low = digit_of(in->at[1]);

        if (high < 0 || low < 0) {
            return false;
        }
        to[i] = (uint8_t)(high << 4 | low);
    }
    return take(in, '\n');
}

bool lines_pair(struct lines_in *in, const char *word, uint64_t max, uint64_t *out)
{
    return lines_word(in, word) && lines_u64(in, max, '\n', out);
}
