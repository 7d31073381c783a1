/* The bottom of a TLS session: a socket, written without SIGPIPE, so that no process-wide setting
 * is changed; read directly, or from bytes that tls_feed() lends. */
#ifndef NET_TLS_BIO_H
#define NET_TLS_BIO_H

#include "base/base.h"

#include <openssl/bio.h>

/* NULL: out of memory. The socket stays the caller's. */
BIO *tls_bio_open(int fd);
void tls_bio_feed(BIO *bio, const uint8_t *bytes, size_t n);

/* errno of the last read or write that failed; 0: none, or the peer closed. */
int tls_bio_errno(BIO *bio);

#endif
