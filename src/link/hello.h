/* The first words on every connection between workers, TCP or unix: both sides prove that they
 * know a key before anything else is parsed. Pure: bytes in, bytes out; the caller moves them, and
 * gives the randomness.
 *
 *   dialer    HELLO   magic, version, class, run, from, to, its nonce
 *   listener  ANSWER  its nonce, and the hash of both nonces and all of HELLO with the run's key
 *   dialer    PROOF   the same hash for its own side
 *
 * The class says what the connection is for. HELPER: the run's key is all that it takes.
 *
 * GROUP: the run's key says: of this job and run, no more. To act in a generation each side then
 * proves, over the same connection and again for every generation that it moves to, that it knows
 * the key of that one (hello_proof()), bound to job, run, generation, both ranks and both nonces. A
 * connection that says anything else first, or an older generation than the other side's, is
 * closed. All hashes are HMAC-SHA256, compared in constant time. */
#ifndef LINK_HELLO_H
#define LINK_HELLO_H

#include "core/message.h"

#define HELLO_NONCE_BYTES 32
#define HELLO_PROOF_BYTES 32
#define HELLO_BYTES 96        /* each of the three has this length, padded with zeros */
#define HELLO_TIMEOUT_MS 5000 /* for all three together */

enum link_class { LINK_GROUP, LINK_HELPER, LINK_CLASSES };

struct hello_config {
    char job[NAME_MAX_LEN];
    uint32_t run;
    uint8_t run_key[KEY_BYTES];
    wid self;
    uint8_t classes; /* of a listener: a bit for each that is served here */
};

/* What both sides know afterwards. */
struct hello_session {
    wid peer;
    enum link_class class;
    bool dialed;                   /* by this side */
    uint8_t id[HELLO_NONCE_BYTES]; /* a hash of both nonces: never the same twice */
};

enum hello_state { HELLO_TALKS, HELLO_DONE, HELLO_REFUSED };

struct hello {
    struct hello_config config;
    enum hello_state state;
    const char *why; /* refused: for the log; never what the key is */
    struct hello_session session;
    wid to;                              /* dialer: whom it wants */
    uint8_t nonce[2][HELLO_NONCE_BYTES]; /* the dialer's, the listener's */
    uint8_t sent[HELLO_BYTES];           /* HELLO as it was sent or received */
    uint8_t in[HELLO_BYTES];
    uint32_t in_n;
    uint8_t stage;
};

/* nonce: fresh random bytes, copied. dial: *out is what to send first (HELLO_BYTES). */
void hello_dial(struct hello *h, const struct hello_config *config, enum link_class class, wid to,
                const uint8_t nonce[HELLO_NONCE_BYTES], uint8_t out[HELLO_BYTES]);
void hello_listen(struct hello *h, const struct hello_config *config,
                  const uint8_t nonce[HELLO_NONCE_BYTES]);

/* Takes up to n bytes that have come and says how many it took: it never takes one that is not
 * of the handshake. *out_n is HELLO_BYTES if `out` is to be sent now, else 0 (also when state is
 * DONE after it). Look at state afterwards. */
size_t hello_take(struct hello *h, const uint8_t *data, size_t n, uint8_t out[HELLO_BYTES],
                  size_t *out_n);

/* The proof for a generation, by `from` (rank from_rank) to `to`. */
void hello_proof(const struct hello_config *config, const struct hello_session *session,
                 uint64_t generation, const uint8_t key[KEY_BYTES], wid from, uint32_t from_rank,
                 wid to, uint32_t to_rank, uint8_t proof_out[HELLO_PROOF_BYTES]);

bool hello_equal(const uint8_t a[HELLO_PROOF_BYTES], const uint8_t b[HELLO_PROOF_BYTES]);

#endif
