/* What the tender's thread does for the group's links. */
#include "comm/links.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Shared memory begins at the unix socket. */
_Static_assert(COMM_SHM == LINK_UNIX && COMM_TCP == LINK_TCP && COMM_ERROR_MAX == LINK_ERROR_MAX,
               "what the tender is told, and says, is the same");

#define SWEEP_AGAIN_MS 50
#define FLUSH_AGAIN_MS 1

/* What calls that are over have left queued. A call that is made sends it by itself. */
static bool flush_left(struct comm *c)
{
    bool left = atomic_load(&c->tended->flush);

    if (left && pthread_mutex_trylock(&c->engine) == 0) {
        left = group_flush(c);
        atomic_store(&c->tended->flush, left);
        pthread_mutex_unlock(&c->engine);
    }
    return left;
}

void links_wake(struct comm *c)
{
    tender_wake(c->tender);
}

void links_flush(struct comm *c)
{
    atomic_store(&c->tended->flush, true);
    links_wake(c);
}

static bool has(void *arg, wid peer)
{
    return comm_has_link(arg, peer);
}

static uint64_t due(void *arg)
{
    struct comm *c = arg;
    const bool left = links_sweep(c);
    const uint64_t now_ns = clock_ns();
    uint64_t due_ns = wants_dial(c, now_ns);

    due_ns = MIN(due_ns, links_check(c, now_ns));
    if (left) {
        due_ns = MIN(due_ns, now_ns + SWEEP_AGAIN_MS * MS);
    }
    if (flush_left(c)) {
        due_ns = MIN(due_ns, now_ns + FLUSH_AGAIN_MS * MS);
    }
    wants_tell(c);
    return due_ns;
}

int links_open(struct comm *c, const struct comm_config *config, char *error)
{
    const struct tender_config listen = {.hello = c->hello,
                                         .host = config->host,
                                         .address = config->address,
                                         .iface = config->iface,
                                         .paths = c->config.paths};
    const struct link_user user = {
        .arg = c, .has = has, .made = link_make, .event = link_event, .due = due};

    c->tended = calloc(1, sizeof(*c->tended));
    if (c->tended == NULL) {
        snprintf(error, COMM_ERROR_MAX, "out of memory");
        return MU_ENOMEM;
    }
    pthread_mutex_init(&c->tended->pace_lock, NULL);
    int rc = tender_open(&listen, &c->tender, error);

    if (rc == MU_OK && tender_attach(c->tender, LINK_GROUP, &user) != MU_OK) {
        snprintf(error, COMM_ERROR_MAX, "can't start a thread; is the limit of threads reached?");
        rc = MU_EIO;
    }
    return rc;
}

void links_close(struct comm *c)
{
    if (c->tender != NULL) {
        tender_close(c->tender);
        c->tender = NULL;
    }
    if (c->tended != NULL) {
        wants_close(c->tended);
        pthread_mutex_destroy(&c->tended->pace_lock);
        free(c->tended);
        c->tended = NULL;
    }
}

struct tender *comm_tender(struct comm *c)
{
    return c->tender;
}
