/* TLS 1.3 with an external PSK and (EC)DHE: both sides prove that they know the token, nothing that
 * was recorded can be read when it leaks later, and there are no certificates. */
#ifndef NET_TLS_H
#define NET_TLS_H

#include "net/token.h"

#include <openssl/ssl.h>

struct tls;

/* The token is copied. */
int tls_server_open(const struct token *token, struct tls **tls_out, char *error);
int tls_client_open(const struct token *token, struct tls **tls_out, char *error);
void tls_close(struct tls *tls); /* NULL is fine; sessions may outlive it */

/* A session on a connected non-blocking socket, which stays the caller's; NULL: out of memory.
 * To be driven by SSL_do_handshake (server: SSL_set_accept_state is done), SSL_read, SSL_write. */
SSL *tls_session(struct tls *tls, int fd);

/* From the first call on, the session reads what it is fed here instead of its socket: a caller
 * that serves many sessions reads into one buffer for all. The bytes are borrowed until
 * SSL_do_handshake or SSL_read has asked for more (SSL_ERROR_WANT_READ), or tls_feed(ssl, NULL, 0).
 */
void tls_feed(SSL *ssl, const uint8_t *bytes, size_t n);

/* Whether a finished handshake was keyed by the token. Nothing else may be spoken to. */
bool tls_proved(const SSL *ssl);

/* Why the last call on a session failed, for a person: a wrong token and bytes that are no TLS are
 * told apart from a peer that closed. `rc` is what the call returned. Clears OpenSSL's queue.
 * Returns MU_EREFUSED (wrong or no token), MU_EPROTO (not muster's TLS), MU_EIO (network, or cut
 * off) or MU_OK (closed in order). */
int tls_why(SSL *ssl, int rc, char *buf, size_t cap);

#endif
