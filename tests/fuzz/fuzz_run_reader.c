/* A worker's line to its agent: whatever comes, in pieces of any size. It sees the same frames as a
 * decoder that has each whole, refuses the same one, and its memory follows what has come. The
 * first byte seeds the cuts; its lowest bit makes the checksums right. Settings among them are
 * taken as answers to calls that wait. */
#include "base/crc32c.h"
#include "fuzz/fuzz.h"
#include "fuzz/wire_check.h"
#include "lib/chance.h"
#include "lib/wire_print.h"
#include "run/run.h"

#include <stdlib.h>
#include <string.h>

struct seen {
    uint64_t digest;
    int status; /* MU_EAGAIN: what is left is the beginning of a frame */
};

static void note(struct seen *seen, const struct wire_header *h, const union wire_any *msg)
{
    char line[4096];
    size_t n = wire_print(h->type, msg, h->generation, line, sizeof(line));

    seen->digest = prng_mix(seen->digest ^ crc32c(h->type, line, n));
}

/* ---- settings ---- */

enum { ASKS_N = ASK_SETTING_WATCH + 1 };

/* A worker with a call of each kind about settings waiting, by number; number 0 is nobody's. */
struct waiting {
    struct mu_run run;
    struct config_ask asks[ASKS_N];
};

static struct waiting *waiting_open(void)
{
    struct waiting *w = calloc(1, sizeof(*w));

    mu_assert(w != NULL);
    pthread_cond_init(&w->run.changed, NULL);
    for (uint32_t i = ASK_SETTING_GET; i < ASKS_N; i++) {
        struct config_ask *a = &w->asks[i];

        settings_ask_init(a, (enum ask_kind)i);
        a->ask.m.request = i;
        a->ask.next = w->run.asks;
        w->run.asks = &a->ask;
    }
    return w;
}

static void waiting_take(struct waiting *w, const struct msg_says *m)
{
    struct msg_says own = *m;

    own.request %= ASKS_N;
    asks_told(&w->run, &own);
}

/* What was answered is whole; what was not has nothing that is lost. */
static void waiting_close(struct waiting *w)
{
    for (uint32_t i = ASK_SETTING_GET; i < ASKS_N; i++) {
        struct config_ask *a = &w->asks[i];
        bool done = a->ask.done, is_ok = done && a->ask.status == MU_OK;

        mu_assert(!done || a->ask.status <= 0);
        mu_assert(!done || is_ok || (a->got.n == 0 && a->got.items == NULL));
        mu_assert(!is_ok || i != ASK_SETTING_GET ||
                  (a->got.n == 1 && a->got.items[0].value != NULL));
        mu_assert(done || w->run.lost == MU_OK);
        for (size_t k = 0; k < a->got.n; k++) {
            const mu_setting *s = &a->got.items[k];

            mu_assert(s->value == NULL || ((const char *)s->value)[s->value_n] == '\0');
            mu_assert(strlen(s->key) < MU_KEY_MAX && s->value_n <= MU_VALUE_MAX);
            mu_assert(!is_ok || k == 0 || strcmp(s[-1].key, s->key) <= 0);
        }
        mu_settings_free(&a->got);
    }
    pthread_cond_destroy(&w->run.changed);
    free(w);
}

/* ---- frames ---- */

/* Frame by frame, each whole. */
static struct seen expect(const uint8_t *p, size_t n)
{
    struct seen seen = {0, MU_OK};
    struct wire_fault fault = {0};
    struct wire_header h;
    union wire_any msg;

    while (seen.status == MU_OK) {
        if (n < WIRE_HEADER_BYTES) {
            seen.status = MU_EAGAIN;
            break;
        }
        seen.status = wire_header_decode(p, &h, &fault);
        if (seen.status != MU_OK) {
            break;
        }
        size_t len = WIRE_HEADER_BYTES + (size_t)h.length;

        if (n < len) {
            seen.status = MU_EAGAIN;
            break;
        }
        struct wire_scratch scratch = wire_check_scratch(0);

        seen.status = wire_decode(&h, p + WIRE_HEADER_BYTES, h.length, &msg, &scratch, &fault);
        if (seen.status == MU_OK) {
            note(&seen, &h, &msg);
        }
        p += len;
        n -= len;
    }
    return seen;
}

static struct seen read_in_pieces(const uint8_t *p, size_t n, uint64_t seed)
{
    struct seen seen = {0, MU_EAGAIN};
    struct wire_fault fault = {0};
    struct wire_header h;
    struct waiting *w = waiting_open();
    struct intake *in = &w->run.line.in;
    struct prng cuts;
    size_t at = 0;

    prng_init(&cuts, seed);
    while (seen.status == MU_EAGAIN && at < n) {
        size_t part = prng_between(&cuts, 1, prng_chance(&cuts, 500000) ? 3 : 5000);

        part = MIN(part, n - at);
        memcpy(in->bytes, p + at, part);
        intake_filled(in, part);
        at += part;
        while ((seen.status = intake_next(in, &h, &fault)) == MU_OK) {
            note(&seen, &h, &in->desk.msg);
            if (h.type == WIRE_SAYS) {
                waiting_take(w, &in->desk.msg.says);
            }
        }
        mu_assert(in->inbox.cap <= 512 + 2 * at);
    }
    mu_assert(seen.status == MU_EAGAIN || fault.text[0] != '\0');
    intake_close(in);
    waiting_close(w);
    return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0) {
        return 0;
    }
    const uint8_t options = *data++;
    uint8_t *stream = wire_check_copy(data, --n);

    if ((options & 1) != 0) {
        wire_check_mend_stream(stream, n);
    }
    struct seen want = expect(stream, n);
    struct seen got = read_in_pieces(stream, n, options);

    /* What is over a limit is the peer's fault, too. */
    mu_assert((want.status == MU_ELIMIT ? MU_EPROTO : want.status) == got.status);
    mu_assert(want.digest == got.digest);
    free(stream);
    return 0;
}
