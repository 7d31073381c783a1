/* The three messages, and the hashes. Each begins with magic, version and which of the three it is:
 *
 *   HELLO   6 class   8 run   16 from   24 to   32 the dialer's nonce
 *   ANSWER                            32 the listener's nonce   64 hash
 *   PROOF                                                       64 hash
 *
 * Every other byte is zero, and checked. A hash covers a label of its own, the role of whoever made
 * it, the job, the run, all of HELLO and the listener's nonce: so none can be used on another
 * connection, or sent back to the side that made it. */
#include "link/hello.h"

#include "wire/bytes.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>

#define HELLO_MAGIC UINT32_C(0x3168756d) /* "muh1" */
#define HELLO_VERSION 1

enum { KIND_HELLO = 1, KIND_ANSWER, KIND_PROOF };
enum {
    AT_VERSION = 4,
    AT_KIND = 5,
    AT_CLASS = 6,
    AT_RUN = 8,
    AT_FROM = 16,
    AT_TO = 24,
    AT_NONCE = 32
};
enum { AT_HASH = 64, PREFIX_BYTES = 8 };

/* What a hash is made of, one after the other. */
struct words {
    uint8_t bytes[320];
    size_t n;
};

static void add(struct words *w, const void *bytes, size_t n)
{
    mu_assert(n <= sizeof(w->bytes) - w->n);
    memcpy(w->bytes + w->n, bytes, n);
    w->n += n;
}

static void add_number(struct words *w, uint64_t number)
{
    uint8_t bytes[8];

    put_u64(bytes, number);
    add(w, bytes, sizeof(bytes));
}

/* The label with its end, then the job, padded: no two sequences of words give the same bytes. */
static void begin(struct words *w, const char *label, const struct hello_config *config)
{
    char job[NAME_MAX_LEN] = "";

    w->n = 0;
    add(w, label, strlen(label) + 1);
    memcpy(job, config->job, strnlen(config->job, NAME_MAX_LEN));
    add(w, job, sizeof(job));
    add_number(w, config->run);
}

/* Without a hash nothing can be said or checked, and none fails but for want of memory. */
static void seal(const struct words *w, const uint8_t key[KEY_BYTES],
                 uint8_t out[HELLO_PROOF_BYTES])
{
    size_t n = 0;

    mu_assert(EVP_Q_mac(NULL, "HMAC", NULL, "SHA256", NULL, key, KEY_BYTES, w->bytes, w->n, out,
                        HELLO_PROOF_BYTES, &n) != NULL);
    mu_assert(n == HELLO_PROOF_BYTES);
}

static void hash_of_side(const struct hello *h, bool dialer, uint8_t out[HELLO_PROOF_BYTES])
{
    struct words w;

    begin(&w, dialer ? "muster data hello 1, dialer" : "muster data hello 1, listener", &h->config);
    add(&w, h->sent, HELLO_BYTES); /* class, run, from, to, and the dialer's nonce */
    add(&w, h->nonce[1], HELLO_NONCE_BYTES);
    seal(&w, h->config.run_key, out);
}

static void name_session(struct hello *h)
{
    static const char label[] = "muster data session 1";
    struct words w = {.n = 0};
    size_t n = 0;

    add(&w, label, sizeof(label));
    add(&w, h->nonce, sizeof(h->nonce));
    mu_assert(EVP_Q_digest(NULL, "SHA256", NULL, w.bytes, w.n, h->session.id, &n) == 1);
    mu_assert(n == HELLO_NONCE_BYTES);
}

static void begin_message(uint8_t kind, enum link_class class, uint8_t out[HELLO_BYTES])
{
    memset(out, 0, HELLO_BYTES);
    put_u32(out, HELLO_MAGIC);
    out[AT_VERSION] = HELLO_VERSION;
    out[AT_KIND] = kind;
    out[AT_CLASS] = (uint8_t) class;
}

void hello_dial(struct hello *h, const struct hello_config *config, enum link_class class, wid to,
                const uint8_t nonce[HELLO_NONCE_BYTES], uint8_t out[HELLO_BYTES])
{
    *h = (struct hello){.config = *config, .to = to};
    h->session.dialed = true;
    memcpy(h->nonce[0], nonce, HELLO_NONCE_BYTES);
    h->session.class = class;
    begin_message(KIND_HELLO, class, out);
    put_u32(out + AT_RUN, config->run);
    put_u64(out + AT_FROM, config->self);
    put_u64(out + AT_TO, to);
    memcpy(out + AT_NONCE, nonce, HELLO_NONCE_BYTES);
    memcpy(h->sent, out, HELLO_BYTES);
}

void hello_listen(struct hello *h, const struct hello_config *config,
                  const uint8_t nonce[HELLO_NONCE_BYTES])
{
    *h = (struct hello){.config = *config};
    memcpy(h->nonce[1], nonce, HELLO_NONCE_BYTES);
}

static void refuse(struct hello *h, const char *why)
{
    h->state = HELLO_REFUSED;
    h->why = why;
}

static bool is_zero(const uint8_t *bytes, size_t from, size_t to)
{
    uint8_t all = 0;

    while (from < to) {
        all |= bytes[from++];
    }
    return all == 0;
}

static void settle(struct hello *h, wid peer)
{
    name_session(h);
    h->session.peer = peer;
    h->state = HELLO_DONE;
}

static void take_hello(struct hello *h, uint8_t out[HELLO_BYTES], size_t *out_n)
{
    if (!is_zero(h->in, AT_RUN + 4, AT_FROM) || !is_zero(h->in, AT_HASH, HELLO_BYTES)) {
        refuse(h, "its hello is malformed");
    } else if (get_u32(h->in + AT_RUN) != h->config.run) {
        refuse(h, "it is of another run of the job");
    } else if (get_u64(h->in + AT_TO) != h->config.self) {
        refuse(h, "it wants another worker, which may have been here before");
    } else if (get_u64(h->in + AT_FROM) == h->config.self) {
        refuse(h, "it says that it is this worker itself");
    } else if ((h->config.classes & 1u << h->session.class) == 0) {
        refuse(h, "it wants what this worker does not do (yet)");
    } else {
        memcpy(h->sent, h->in, HELLO_BYTES);
        memcpy(h->nonce[0], h->in + AT_NONCE, HELLO_NONCE_BYTES);
        begin_message(KIND_ANSWER, h->session.class, out);
        memcpy(out + AT_NONCE, h->nonce[1], HELLO_NONCE_BYTES);
        hash_of_side(h, false, out + AT_HASH);
        *out_n = HELLO_BYTES;
        h->stage = 1;
    }
}

static bool proves(const struct hello *h, bool dialer)
{
    uint8_t hash[HELLO_PROOF_BYTES];

    hash_of_side(h, dialer, hash);
    return hello_equal(hash, h->in + AT_HASH);
}

static void take_answer(struct hello *h, uint8_t out[HELLO_BYTES], size_t *out_n)
{
    if (!is_zero(h->in, PREFIX_BYTES, AT_NONCE)) {
        refuse(h, "its answer is malformed");
        return;
    }
    memcpy(h->nonce[1], h->in + AT_NONCE, HELLO_NONCE_BYTES);
    if (!proves(h, false)) {
        refuse(h, "it does not know the key of this job's run");
        return;
    }
    begin_message(KIND_PROOF, h->session.class, out);
    hash_of_side(h, true, out + AT_HASH);
    *out_n = HELLO_BYTES;
    settle(h, h->to);
}

static void take_proof(struct hello *h)
{
    if (!is_zero(h->in, PREFIX_BYTES, AT_HASH)) {
        refuse(h, "its proof is malformed");
    } else if (!proves(h, true)) {
        refuse(h, "it does not know the key of this job's run");
    } else {
        settle(h, get_u64(h->sent + AT_FROM));
    }
}

static uint8_t awaited(const struct hello *h)
{
    return h->session.dialed ? KIND_ANSWER : h->stage == 0 ? KIND_HELLO : KIND_PROOF;
}

/* What a stranger says is refused at the first wrong byte, so it need not be waited for. */
static bool begins_well(struct hello *h)
{
    uint8_t right[HELLO_BYTES];
    const size_t n = MIN(h->in_n, PREFIX_BYTES);

    begin_message(awaited(h), h->session.class, right);
    if (awaited(h) == KIND_HELLO && n > AT_CLASS && h->in[AT_CLASS] < LINK_CLASSES) {
        right[AT_CLASS] = h->in[AT_CLASS];
        h->session.class = (enum link_class)h->in[AT_CLASS];
    }
    if (memcmp(h->in, right, MIN(n, AT_VERSION)) != 0) {
        refuse(h, "it does not speak as workers of muster do");
    } else if (n > AT_VERSION && h->in[AT_VERSION] != HELLO_VERSION) {
        refuse(h, "it speaks another version: use the same muster everywhere");
    } else if (memcmp(h->in, right, n) != 0) {
        refuse(h, "it said something out of turn");
    }
    return h->state == HELLO_TALKS;
}

size_t hello_take(struct hello *h, const uint8_t *data, size_t n, uint8_t out[HELLO_BYTES],
                  size_t *out_n)
{
    *out_n = 0;
    if (h->state != HELLO_TALKS || n == 0) {
        return 0;
    }
    const size_t part = MIN(n, HELLO_BYTES - h->in_n);

    memcpy(h->in + h->in_n, data, part);
    h->in_n += (uint32_t)part;
    if (!begins_well(h) || h->in_n < HELLO_BYTES) {
        return part;
    }
    h->in_n = 0;
    if (h->session.dialed) {
        take_answer(h, out, out_n);
    } else if (h->stage == 0) {
        take_hello(h, out, out_n);
    } else {
        take_proof(h);
    }
    return part;
}

void hello_proof(const struct hello_config *config, const struct hello_session *session,
                 uint64_t generation, const uint8_t key[KEY_BYTES], wid from, uint32_t from_rank,
                 wid to, uint32_t to_rank, uint8_t proof_out[HELLO_PROOF_BYTES])
{
    struct words w;

    begin(&w, "muster data generation 1", config);
    add_number(&w, generation);
    add_number(&w, from);
    add_number(&w, from_rank);
    add_number(&w, to);
    add_number(&w, to_rank);
    add(&w, session->id, sizeof(session->id));
    seal(&w, key, proof_out);
}

bool hello_equal(const uint8_t a[HELLO_PROOF_BYTES], const uint8_t b[HELLO_PROOF_BYTES])
{
    return CRYPTO_memcmp(a, b, HELLO_PROOF_BYTES) == 0;
}
