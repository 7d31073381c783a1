/* The server's life: the thread, the queue's other end, the clock of the streams. */
#include "http/state.h"

#include "base/clock.h"
#include "base/thread.h"
#include "net/listen.h"

#include <openssl/crypto.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define IDLE_S 30u
#define REQUEST_MS 60000u
#define COMMENT_MS 15000u
#define CONN_BYTES                                                                   \
    ((size_t)32 << 10)   /* for a request's line and headers, and what is being sent \
                          */
#define BATCH 64         /* requests in one turn of the loop */
#define BATCH_NS 2000000 /* no further request is begun in a turn that has taken so long */
#define FLUSH_MS 500u    /* for answers that are on their way when it closes */

/* TLS 1.2 for monitoring that is old; both with modern ciphers only. */
#define TLS_PRIORITIES "SECURE128:+SECURE192:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

/* ---- the loop's side ---- */

static void on_wake(uv_async_t *wake)
{
    struct http *h = wake->data;
    const uint64_t end_ns = uv_hrtime() + BATCH_NS;

    for (int i = 0; i < BATCH && !h->closing && (i == 0 || uv_hrtime() < end_ns); i++) {
        pthread_mutex_lock(&h->lock);
        struct http_request *q = TAILQ_FIRST(&h->queue);

        if (q != NULL) {
            TAILQ_REMOVE(&h->queue, q, link);
        }
        pthread_mutex_unlock(&h->lock);
        if (q == NULL) {
            return;
        }
        TAILQ_INSERT_TAIL(&h->held, q, link);
        q->route->handle(h->config.arg, q);
    }
    if (!h->closing) {
        uv_async_send(wake); /* There may be more; others have their turn first. */
    }
}

static void on_tick(uv_timer_t *tick)
{
    struct http *h = tick->data;

    http_streams_comment(h);
    http_conns_sweep(h, net_now_ms());
}

/* ---- libmicrohttpd ---- */

__attribute__((format(printf, 2, 0))) static void on_log(void *cls, const char *fmt, va_list args)
{
    struct http *h = cls;
    char text[NET_ERROR_MAX];

    vsnprintf(text, sizeof(text), fmt, args);
    text[strcspn(text, "\r\n")] = '\0';
    if (h->starting) {
        snprintf(h->why, sizeof(h->why), "%s", text);
    } else {
        log_debug("http", "%s", text);
    }
}

_Noreturn static void on_panic(void *cls, const char *file, unsigned line, const char *reason)
{
    base_panic(file, (int)line, reason != NULL ? reason : "libmicrohttpd");
}

/* Paths are decoded here, part by part. */
static size_t leave_escaped(void *cls, struct MHD_Connection *mhd, char *text)
{
    return strlen(text);
}

static struct MHD_Daemon *start_daemon(struct http *h, int fd, const char *cert, const char *key)
{
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)cert},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)key},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)TLS_PRIORITIES},
        {MHD_OPTION_END, 0, NULL},
    };

    if (cert == NULL) {
        tls[0] = tls[3];
    } else {
        flags |= MHD_USE_TLS;
    }
    return MHD_start_daemon(
        flags, 0, NULL, NULL, http_on_request, h, MHD_OPTION_EXTERNAL_LOGGER, on_log, h,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_CONNS_MAX,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONN_BYTES,
        MHD_OPTION_CONNECTION_TIMEOUT, h->limits.idle_s, MHD_OPTION_UNESCAPE_CALLBACK,
        leave_escaped, NULL, MHD_OPTION_URI_LOG_CALLBACK, http_on_target, h,
        MHD_OPTION_NOTIFY_COMPLETED, http_on_completed, h, MHD_OPTION_NOTIFY_CONNECTION,
        http_on_connection, h, MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
}

/* The process's signals are not for that thread. */
static int start_thread(struct http *h, int fd, const char *cert, const char *key, char *error)
{
    sigset_t all, was;

    MHD_set_panic_func(on_panic, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &was);
    h->starting = true;
    h->mhd = start_daemon(h, fd, cert, key);
    h->starting = false;
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    if (h->mhd == NULL) {
        snprintf(error, NET_ERROR_MAX, "the HTTP server can't be started: %.400s",
                 h->why[0] != '\0' ? h->why : "out of memory");
        return MU_EIO;
    }
    return MU_OK;
}

/* ---- its life ---- */

static void set_limits(struct http_limits *l)
{
    l->idle_s = l->idle_s != 0 ? l->idle_s : IDLE_S;
    l->request_ms = l->request_ms != 0 ? l->request_ms : REQUEST_MS;
    l->comment_ms = l->comment_ms != 0 ? l->comment_ms : COMMENT_MS;
    l->queue_max = l->queue_max != 0 ? l->queue_max : HTTP_QUEUE_MAX;
    l->streams_max = l->streams_max != 0 ? l->streams_max : HTTP_STREAMS_MAX;
}

static struct http *make(uv_loop_t *loop, const struct http_config *config)
{
    struct http *h = calloc(1, sizeof(*h));

    if (h == NULL || uv_async_init(loop, &h->wake, on_wake) != 0) {
        free(h);
        return NULL;
    }
    uv_timer_init(loop, &h->tick);
    h->wake.data = h->tick.data = h;
    h->handles_n = 2;
    h->loop = loop;
    h->config = *config;
    h->limits = config->limits;
    set_limits(&h->limits);
    TAILQ_INIT(&h->held);
    TAILQ_INIT(&h->queue);
    TAILQ_INIT(&h->conns);
    TAILQ_INIT(&h->streams);
    TAILQ_INIT(&h->waking);
    pthread_mutex_init(&h->lock, NULL);
    thread_condition(&h->calm);
    return h;
}

static void on_closed(uv_handle_t *handle)
{
    struct http *h = handle->data;

    if (--h->handles_n == 0) {
        pthread_mutex_destroy(&h->lock);
        pthread_cond_destroy(&h->calm);
        OPENSSL_cleanse(&h->config, sizeof(h->config));
        free(h);
    }
}

static void release(struct http *h)
{
    uv_close((uv_handle_t *)&h->wake, on_closed);
    uv_close((uv_handle_t *)&h->tick, on_closed);
}

static void check_routes(const struct http_config *config)
{
    for (uint32_t i = 0; i < config->routes_n; i++) {
        mu_assert(http_route_valid(config->routes[i].path) && config->routes[i].handle != NULL);
    }
}

int http_open(uv_loop_t *loop, const struct http_config *config, struct http **h_out, char *error)
{
    const bool tls = config->cert_file != NULL;
    char *cert = NULL, *key = NULL;
    int fd = -1, rc = MU_OK;
    struct http *h;

    check_routes(config);
    if (tls) {
        rc = http_cert_read(config->cert_file, config->key_file, &cert, &key, error);
    }
    if (rc != MU_OK) {
        return rc;
    }
    h = make(loop, config);
    if (h == NULL) {
        snprintf(error, NET_ERROR_MAX, "out of memory");
        rc = MU_ENOMEM;
        goto out;
    }
    rc = listen_socket(&config->listen,
                       tls ? NULL
                           : "for HTTP without a certificate, because tokens would travel in the "
                             "clear; give --http-cert and --http-key, or listen on 127.0.0.1",
                       &fd, &h->port, error);
    if (rc == MU_OK) {
        rc = start_thread(h, fd, cert, key, error);
    }
    if (rc != MU_OK) {
        release(h);
        goto out;
    }
    fd = -1;
    uv_timer_start(&h->tick, on_tick, h->limits.comment_ms, h->limits.comment_ms);
    *h_out = h;
out:
    if (fd >= 0) {
        close(fd);
    }
    if (key != NULL) {
        OPENSSL_cleanse(key, strlen(key));
    }
    free(key);
    free(cert);
    return rc;
}

uint16_t http_port(const struct http *h)
{
    return h->port;
}

/* Nobody may be suspended when the thread ends, and from here on nobody will be. */
static void wake_all(struct http *h)
{
    struct http_request *q;

    h->closing = true;
    TAILQ_FOREACH(q, &h->queue, link)
    {
        MHD_resume_connection(q->mhd);
    }
    TAILQ_FOREACH(q, &h->held, link)
    {
        MHD_resume_connection(q->mhd);
    }
    http_streams_end(h);
}

static void flush(struct http *h)
{
    const uint64_t due_ms = clock_ms() + FLUSH_MS;

    while (h->sending_n > 0 && thread_wait(&h->calm, &h->lock, due_ms)) {
    }
}

void http_close(struct http *h)
{
    struct http_request *q;

    if (h == NULL || h->closing) {
        return;
    }
    pthread_mutex_lock(&h->lock);
    wake_all(h);
    flush(h);
    pthread_mutex_unlock(&h->lock);
    MHD_stop_daemon(h->mhd);
    while ((q = TAILQ_FIRST(&h->queue)) != NULL) {
        TAILQ_REMOVE(&h->queue, q, link);
        http_request_free(q);
    }
    TAILQ_FOREACH(q, &h->held, link)
    {
        q->h = NULL; /* Its handler frees it by answering. */
    }
    http_feeds_close(h);
    release(h);
}

void http_stats(struct http *h, struct http_stats *out)
{
    pthread_mutex_lock(&h->lock);
    *out = h->stats;
    out->queued_n = h->unanswered_n;
    pthread_mutex_unlock(&h->lock);
}
