/* TLS 1.3 keyed by 32 bytes that both sides know, with (EC)DHE: nothing that was recorded can be
 * read when the key leaks later. Nothing else is accepted: there are no certificates, no tickets
 * and no older versions. A library of its own, for those who need no event loop. */
#ifndef NET_PSK_H
#define NET_PSK_H

#include "base/base.h"

#include <openssl/ssl.h>

#define PSK_BYTES 32

/* The context for one side. identity: what the key is called on the wire; it must outlive all
 * sessions. The key is copied. NULL: OpenSSL's queue of errors says why, or it is out of memory. */
SSL_CTX *psk_open(bool server, const char *identity, const uint8_t key[PSK_BYTES]);

/* A session on a connected non-blocking socket, which stays the caller's, over a BIO of tls_bio.h.
 * It may outlive ctx. To be driven by SSL_do_handshake, SSL_read and SSL_write. NULL: out of
 * memory. */
SSL *psk_session(SSL_CTX *ctx, int fd);

/* Whether a finished handshake was made with the key. Nothing else may be spoken to. */
bool psk_proved(const SSL *ssl);

#endif
