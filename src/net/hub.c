#include "net/hub.h"

#include "net/conn_state.h"

#include <pthread.h>
#include <stdlib.h>

/* Loops of several threads are found here; all else in a hub is its loop's thread's. */
static pthread_mutex_t hubs_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hub *hubs;

static void on_prepare(uv_prepare_t *handle)
{
    struct hub *hub = handle->data;
    struct conn *last = TAILQ_LAST(&hub->dirty, conn_list);

    /* Not those that callbacks add meanwhile: they would keep the loop from waiting for others. */
    for (struct conn *c = TAILQ_FIRST(&hub->dirty); c != NULL; c = TAILQ_FIRST(&hub->dirty)) {
        const bool end = c == last;

        conn_clean(c);
        conn_settle(c);
        if (end) {
            break;
        }
    }
}

static struct hub *find(uv_loop_t *loop)
{
    struct hub *hub = hubs;

    while (hub != NULL && hub->loop != loop) {
        hub = hub->next;
    }
    return hub;
}

struct hub *hub_get(uv_loop_t *loop)
{
    pthread_mutex_lock(&hubs_lock);
    struct hub *hub = find(loop);

    if (hub == NULL) {
        hub = calloc(1, sizeof(*hub));
        if (hub != NULL) {
            hub->loop = loop;
            TAILQ_INIT(&hub->dirty);
            uv_prepare_init(loop, &hub->prepare);
            hub->prepare.data = hub;
            uv_prepare_start(&hub->prepare, on_prepare);
            uv_unref((uv_handle_t *)&hub->prepare);
            hub->next = hubs;
            hubs = hub;
        }
    }
    if (hub != NULL) {
        hub->refs++;
    }
    pthread_mutex_unlock(&hubs_lock);
    return hub;
}

static void on_closed(uv_handle_t *handle)
{
    struct hub *hub = handle->data;

    desk_close(&hub->desk);
    free(hub);
}

void hub_put(struct hub *hub)
{
    pthread_mutex_lock(&hubs_lock);
    const bool last = --hub->refs == 0;

    if (last) {
        struct hub **at = &hubs;

        while (*at != hub) {
            at = &(*at)->next;
        }
        *at = hub->next;
    }
    pthread_mutex_unlock(&hubs_lock);
    if (last) {
        uv_close((uv_handle_t *)&hub->prepare, on_closed);
    }
}
