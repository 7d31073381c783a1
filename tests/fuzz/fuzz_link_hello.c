/* The first words of a connection from any bytes, to the one who listens or the one who dialed.
 * However they are cut the outcome is the same; and nobody is trusted but for the very bytes that
 * one who has the key would have sent. The first byte chooses the side, the class and the cuts. */
#include "fuzz/fuzz.h"
#include "fuzz/wire_check.h"
#include "link/hello.h"

#include <string.h>

static const struct hello_config dialer = {.job = "fuzz", .run = 3, .run_key = {1}, .self = 71};
static const struct hello_config listener = {
    .job = "fuzz", .run = 3, .run_key = {1}, .self = 9, .classes = 3};
static const uint8_t nonces[2][HELLO_NONCE_BYTES] = {{1}, {2}};

struct listening {
    struct hello h;
    size_t taken;
    size_t said;
};

/* What the other side says if it has the key: HELLO and PROOF, or ANSWER. */
static size_t right_words(bool to_listener, enum link_class class, uint8_t words[2 * HELLO_BYTES])
{
    struct hello d, l;
    uint8_t hello[HELLO_BYTES], answer[HELLO_BYTES], proof[HELLO_BYTES];
    size_t n;

    hello_dial(&d, &dialer, class, listener.self, nonces[0], hello);
    hello_listen(&l, &listener, nonces[1]);
    hello_take(&l, hello, HELLO_BYTES, answer, &n);
    hello_take(&d, answer, HELLO_BYTES, proof, &n);
    mu_assert(d.state == HELLO_DONE);
    if (!to_listener) {
        memcpy(words, answer, HELLO_BYTES);
        return HELLO_BYTES;
    }
    memcpy(words, hello, HELLO_BYTES);
    memcpy(words + HELLO_BYTES, proof, HELLO_BYTES);
    return 2 * HELLO_BYTES;
}

static void begin(struct listening *s, bool listens, enum link_class class)
{
    uint8_t out[HELLO_BYTES];

    memset(s, 0, sizeof(*s));
    if (listens) {
        hello_listen(&s->h, &listener, nonces[1]);
    } else {
        hello_dial(&s->h, &dialer, class, listener.self, nonces[0], out);
    }
}

static void receive(void *arg, const uint8_t *piece, size_t n)
{
    struct listening *s = arg;

    while (n > 0 && s->h.state == HELLO_TALKS) {
        uint8_t out[HELLO_BYTES];
        size_t out_n;
        const size_t part = hello_take(&s->h, piece, n, out, &out_n);

        mu_assert(part > 0 && part <= n && (out_n == 0 || out_n == HELLO_BYTES));
        s->taken += part;
        s->said += out_n;
        piece += part;
        n -= part;
    }
    mu_assert((s->h.state == HELLO_REFUSED) == (s->h.why != NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct listening whole, cut;
    uint8_t right[2 * HELLO_BYTES];

    if (n == 0) {
        return 0;
    }
    const bool listens = (data[0] & 1) != 0;
    const enum link_class class = (data[0] & 2) != 0 ? LINK_HELPER : LINK_GROUP;
    const size_t right_n = right_words(listens, class, right);

    begin(&whole, listens, class);
    begin(&cut, listens, class);
    receive(&whole, data + 1, n - 1);
    wire_check_cut(data + 1, n - 1, data[0], receive, &cut);
    mu_assert(whole.h.state == cut.h.state && whole.said == cut.said);
    mu_assert(whole.h.state == HELLO_REFUSED || whole.taken == cut.taken);
    if (whole.h.state == HELLO_DONE) {
        mu_assert(whole.taken == right_n && n - 1 >= right_n);
        mu_assert(memcmp(data + 1, right, right_n) == 0);
    }
    return 0;
}
