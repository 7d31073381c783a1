#include "net/line.h"

#include "base/log.h"
#include "base/prng.h"

#include <stdio.h>
#include <stdlib.h>

#define BACKOFF_MS 100
#define BACKOFF_MAX_MS 1000 /* well within the grace that a new orchestrator gives: a lease */
#define NOTE_MS 30000
#define NEVER UINT64_MAX

struct line {
    struct line_config config;
    const struct line_handler *handler;
    void *data;
    uv_timer_t timer;
    struct prng prng;  /* jitter */
    struct conn *conn; /* NULL: none, not even one that is being made */
    bool open;
    bool welcomed;     /* ever */
    uint32_t tries_n;  /* since the last welcome */
    uint64_t retry_ms; /* when to try next; NEVER: nothing to try */
    uint64_t away_ms;  /* since when it is away; 0: it is not */
    uint64_t note_ms;  /* away: when to say so again */
    char where[320];
    char first[HOST_MAX_LEN + 16];
};

/* ---- words for people ---- */

static void print_where(const struct endpoints *to, char *buf, size_t cap)
{
    size_t used = 0;

    for (uint32_t i = 0; i < to->n && used + 1 < cap; i++) {
        char one[HOST_MAX_LEN + 16];

        endpoint_print(&to->at[i], one, sizeof(one));
        used += (size_t)snprintf(buf + used, cap - used, "%s%s", i > 0 ? "," : "", one);
    }
}

static void say_away(struct line *l, const char *why, uint64_t now_ms)
{
    const char *area = l->config.area;

    if (l->away_ms != 0) {
        log_debug(area, "no connection to %s: %s", l->where, why);
        return;
    }
    l->away_ms = now_ms;
    l->note_ms = now_ms + NOTE_MS;
    if (l->welcomed) {
        log_warn(area, "the orchestrator at %s went away (%s); %s, reconnecting", l->where, why,
                 l->config.meanwhile);
    } else {
        log_warn(area, "no orchestrator at %s yet (%s); start one with: muster serve --listen %s",
                 l->where, why, l->first);
    }
}

static void say_still_away(struct line *l, uint64_t now_ms)
{
    const char *area = l->config.area;
    unsigned away_s = (unsigned)((now_ms - l->away_ms) / 1000);

    l->note_ms = now_ms + NOTE_MS;
    if (l->welcomed) {
        log_warn(area, "the orchestrator at %s has been away for %u s; %s", l->where, away_s,
                 l->config.meanwhile);
    } else {
        log_warn(area,
                 "no orchestrator at %s yet, for %u s; start one with: muster serve --listen %s",
                 l->where, away_s, l->first);
    }
}

/* ---- trying ---- */

static void on_timer(uv_timer_t *timer);

static void arm(struct line *l)
{
    uint64_t now_ms = net_now_ms();
    uint64_t at_ms = MIN(l->retry_ms, l->away_ms != 0 ? l->note_ms : NEVER);

    uv_update_time(l->timer.loop);
    if (at_ms == NEVER) {
        uv_timer_stop(&l->timer);
    } else {
        uv_timer_start(&l->timer, on_timer, at_ms > now_ms ? at_ms - now_ms : 0, 0);
    }
}

/* The first try after a welcome is at once; one that comes to nothing, or ends before the next
 * welcome, is followed by a pause. */
static void retry(struct line *l, uint64_t now_ms)
{
    uint64_t wait_ms = 0;

    if (l->tries_n > 0) {
        wait_ms = MIN((uint64_t)BACKOFF_MS << MIN(l->tries_n - 1, 16u), BACKOFF_MAX_MS);
    }
    /* Jitter: all agents of a cluster lose their orchestrator at the same moment. */
    l->tries_n++;
    l->retry_ms = now_ms + prng_between(&l->prng, wait_ms / 2, wait_ms);
    arm(l);
}

static void on_opened(struct conn *c)
{
    struct line *l = conn_data(c);

    l->open = true;
    l->handler->opened(l->data, conn_peer(c));
}

static void on_frame(struct conn *c, const struct wire_header *h, const union wire_any *msg)
{
    struct line *l = conn_data(c);

    l->handler->frame(l->data, h, msg);
}

/* The token is wrong, the version another, or what listens there no orchestrator: trying again
 * would not help. It would if we had been in before: then ours is being replaced. */
static bool is_final(const struct line *l, int status)
{
    return !l->welcomed && (status == MU_EREFUSED || status == MU_EVERSION || status == MU_EPROTO);
}

static void on_closed(struct conn *c, int status, const char *why)
{
    struct line *l = conn_data(c);
    const bool was_open = l->open;
    uint64_t now_ms = net_now_ms();

    l->conn = NULL;
    l->open = false;
    if (is_final(l, status)) {
        char text[NET_ERROR_MAX];

        snprintf(text, sizeof(text), "the orchestrator at %s: %s", l->where, why);
        l->handler->failed(l->data, status, text);
        return;
    }
    say_away(l, why, now_ms);
    retry(l, now_ms);
    if (was_open) {
        l->handler->lost(l->data);
    }
}

static const struct conn_handler handler = {
    .opened = on_opened, .frame = on_frame, .closed = on_closed};

static void on_timer(uv_timer_t *timer)
{
    struct line *l = timer->data;
    uint64_t now_ms = net_now_ms();
    int rc;

    if (l->away_ms != 0 && l->note_ms <= now_ms) {
        say_still_away(l, now_ms);
    }
    if (l->retry_ms <= now_ms) {
        l->retry_ms = NEVER;
        rc = conn_connect(timer->loop, l->config.to, l->config.tls, &handler, &l->config.limits, l,
                          &l->conn);
        if (rc != MU_OK) {
            say_away(l, mu_strerror(rc), now_ms);
            retry(l, now_ms);
        }
    }
    arm(l);
}

/* ---- for its user ---- */

int line_open(uv_loop_t *loop, const struct line_config *config, const struct line_handler *h,
              void *data, struct line **l_out)
{
    struct line *l = calloc(1, sizeof(*l));
    uint64_t seed;

    if (l == NULL) {
        return MU_ENOMEM;
    }
    l->config = *config;
    l->handler = h;
    l->data = data;
    random_bytes(&seed, sizeof(seed));
    prng_init(&l->prng, seed);
    print_where(config->to, l->where, sizeof(l->where));
    endpoint_print(&config->to->at[0], l->first, sizeof(l->first));
    uv_timer_init(loop, &l->timer);
    l->timer.data = l;
    retry(l, net_now_ms());
    *l_out = l;
    return MU_OK;
}

void line_say(struct line *l, enum wire_type type, const void *msg)
{
    if (l->conn != NULL) {
        conn_say(l->conn, type, msg, 0, 0);
    }
}

void line_welcome(struct line *l)
{
    if (l->away_ms != 0 && l->welcomed) {
        log_info(l->config.area, "the orchestrator at %s is back after %.1f s", l->where,
                 (double)(net_now_ms() - l->away_ms) / 1000);
    }
    l->welcomed = true;
    l->away_ms = 0;
    l->tries_n = 0;
}

bool line_is_away(const struct line *l)
{
    return l->away_ms != 0;
}

const char *line_where(const struct line *l)
{
    return l->where;
}

static void on_freed(uv_handle_t *timer)
{
    free(timer->data);
}

void line_close(struct line *l, uint32_t flush_ms)
{
    if (l == NULL) {
        return;
    }
    if (l->conn != NULL) {
        conn_close(l->conn, flush_ms);
    }
    uv_close((uv_handle_t *)&l->timer, on_freed);
}
