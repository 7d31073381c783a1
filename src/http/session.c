/* Sessions of pages. A browser's EventSource sends no Authorization, but it sends a cookie: so a
 * bearer can be changed into one, for a while and for the same rights. The cookie is random, is
 * not readable by scripts, and is kept here alone: what is ended counts no more. */
#include "http/state.h"

#include "base/random.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#define COOKIE "muster_session"
#define ATTRIBUTES "; Path=/; HttpOnly; SameSite=Strict"

static bool parse(const char *hex, uint8_t id[HTTP_SESSION_BYTES])
{
    if (hex == NULL || strlen(hex) != 2 * HTTP_SESSION_BYTES) {
        return false;
    }
    for (size_t i = 0; i < 2 * HTTP_SESSION_BYTES; i++) {
        static const char digits[] = "0123456789abcdef";
        const char *digit = strchr(digits, hex[i]);

        if (digit == NULL) {
            return false;
        }
        id[i / 2] = (uint8_t)(id[i / 2] << 4 | (digit - digits));
    }
    return true;
}

/* All are compared always, so that time tells nothing. NULL: there is none, or it is over. Under
 * the lock. */
static struct http_session *find(struct http *h, const uint8_t id[HTTP_SESSION_BYTES])
{
    struct http_session *found = NULL;
    const uint64_t now_ms = net_now_ms();

    for (size_t i = 0; i < HTTP_SESSIONS_MAX; i++) {
        struct http_session *s = &h->sessions[i];

        if (CRYPTO_memcmp(s->id, id, sizeof(s->id)) == 0 && s->until_ms > now_ms) {
            found = s;
        }
    }
    return found;
}

enum http_role http_session_role(struct http_request *q)
{
    const char *cookie = MHD_lookup_connection_value(q->mhd, MHD_COOKIE_KIND, COOKIE);
    const struct http_session *s;
    enum http_role role;

    if (!parse(cookie, q->session)) {
        return HTTP_NOBODY;
    }
    pthread_mutex_lock(&q->h->lock);
    s = find(q->h, q->session);
    role = s != NULL ? s->role : HTTP_NOBODY;
    pthread_mutex_unlock(&q->h->lock);
    q->by_session = role != HTTP_NOBODY;
    return role;
}

static void set_cookie(struct http_request *q, const char *value, unsigned seconds)
{
    char text[HTTP_VALUE_MAX];

    snprintf(text, sizeof(text), COOKIE "=%s; Max-Age=%u" ATTRIBUTES "%s", value, seconds,
             q->h->config.cert_file != NULL ? "; Secure" : "");
    http_set_header(q, MHD_HTTP_HEADER_SET_COOKIE, text);
}

/* When there are too many, the one goes that would end first. */
void http_session_begin(struct http_request *q)
{
    struct http_session *s = &q->h->sessions[0];
    char hex[2 * HTTP_SESSION_BYTES + 1];

    pthread_mutex_lock(&q->h->lock);
    for (size_t i = 1; i < HTTP_SESSIONS_MAX; i++) {
        if (q->h->sessions[i].until_ms < s->until_ms) {
            s = &q->h->sessions[i];
        }
    }
    random_bytes(s->id, sizeof(s->id));
    s->role = q->role;
    s->until_ms = net_now_ms() + (uint64_t)HTTP_SESSION_S * 1000;
    for (size_t i = 0; i < sizeof(s->id); i++) {
        snprintf(hex + 2 * i, 3, "%02x", s->id[i]);
    }
    pthread_mutex_unlock(&q->h->lock);
    set_cookie(q, hex, HTTP_SESSION_S);
    OPENSSL_cleanse(hex, sizeof(hex));
}

void http_session_end(struct http_request *q)
{
    struct http_session *s;

    pthread_mutex_lock(&q->h->lock);
    s = q->by_session ? find(q->h, q->session) : NULL;
    if (s != NULL) {
        *s = (struct http_session){0};
    }
    pthread_mutex_unlock(&q->h->lock);
    set_cookie(q, "", 0);
}
