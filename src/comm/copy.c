#include "comm/copy.h"

#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define COPY_MIN 1024 /* below it memcpy() is as good */
#define FAR_MIN 512   /* below it taking the lines away is as good */
#define BLOCK 128u
#define LINE 64u

typedef uint64_t vector __attribute__((vector_size(32), aligned(1), may_alias));

/* For each set of registers; the barrier keeps the compiler from making a memcpy() of it. */
#define COPY_BLOCKS(to, from, n)                           \
    for (size_t at = 0; at < (n); at += BLOCK) {           \
        const vector *in = (const vector *)((from) + at);  \
        vector *out = (vector *)((to) + at);               \
        vector a = in[0], b = in[1], c = in[2], d = in[3]; \
        __asm__ volatile("" ::: "memory");                 \
        out[0] = a;                                        \
        out[1] = b;                                        \
        out[2] = c;                                        \
        out[3] = d;                                        \
    }

static void blocks_portable(uint8_t *to, const uint8_t *from, size_t n)
{
    COPY_BLOCKS(to, from, n)
}

#ifdef __x86_64__
__attribute__((target("avx"))) static void blocks_avx(uint8_t *to, const uint8_t *from, size_t n)
{
    COPY_BLOCKS(to, from, n)
}
#endif

void copy_bytes(void *to, const void *from, size_t n)
{
    const size_t blocks = n < COPY_MIN ? 0 : n / BLOCK * BLOCK;

    if (blocks > 0) {
#ifdef __x86_64__
        if (__builtin_cpu_supports("avx")) {
            blocks_avx(to, from, blocks);
        } else {
            blocks_portable(to, from, blocks);
        }
#else
        blocks_portable(to, from, blocks);
#endif
    }
    if (n > blocks) {
        memcpy((uint8_t *)to + blocks, (const uint8_t *)from + blocks, n - blocks);
    }
}

#ifdef __SSE2__
static void line_far(uint8_t *to, const uint8_t *from)
{
    const __m128i *in = (const __m128i *)(const void *)from;
    __m128i *out = (__m128i *)(void *)to;
    __m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1), c = _mm_loadu_si128(in + 2),
            d = _mm_loadu_si128(in + 3);

    _mm_stream_si128(out, a);
    _mm_stream_si128(out + 1, b);
    _mm_stream_si128(out + 2, c);
    _mm_stream_si128(out + 3, d);
}

/* Whole lines, so that nothing has to be read first. */
void copy_far(void *to, const void *from, size_t n)
{
    uint8_t *out = to;
    const uint8_t *in = from;
    const size_t head = n < FAR_MIN ? n : (LINE - (uintptr_t)to % LINE) % LINE;
    const size_t lines = (n - head) / LINE * LINE;

    memcpy(out, in, head);
    for (size_t i = head; i < head + lines; i += LINE) {
        line_far(out + i, in + i);
    }
    memcpy(out + head + lines, in + head + lines, n - head - lines);
}

/* Such stores are ordered with no others. */
void copy_far_done(void)
{
    _mm_sfence();
}
#else
void copy_far(void *to, const void *from, size_t n)
{
    copy_bytes(to, from, n);
}

void copy_far_done(void)
{
}
#endif
