/* A journal that has grown is replaced by the records that rebuild the state it has come to.
 *
 * Only when no record is pending: what the cluster dumps then is exactly what records 1 to
 * store_seq() have made. */
#include "base/log.h"
#include "orchestrator/driver.h"
#include "wire/record.h"

#include <inttypes.h>
#include <stdlib.h>

#define GROWN_RECORDS 4096
#define GROWN_BYTES ((uint64_t)8 << 20)
#define AGAIN_MS 60000
#define COOKIE_SNAPSHOT 1

struct dump {
    struct effects base;
    struct store_bytes *list;
    size_t n, cap;
    bool failed;
};

static bool dump_room(struct dump *d)
{
    size_t cap = d->cap == 0 ? 256 : d->cap * 2;
    struct store_bytes *list;

    if (d->n < d->cap) {
        return true;
    }
    list = realloc(d->list, cap * sizeof(*list));
    if (list == NULL) {
        return false;
    }
    d->list = list;
    d->cap = cap;
    return true;
}

static void dump_emit(struct effects *base, const struct effect *e)
{
    struct dump *d = (struct dump *)base;
    size_t n = record_size(e->u.record);
    uint8_t *bytes;

    if (d->failed || !dump_room(d) || (bytes = malloc(n)) == NULL) {
        d->failed = true;
        return;
    }
    record_encode(e->u.record, bytes, n);
    d->list[d->n++] = (struct store_bytes){bytes, n};
}

static void dump_free(struct dump *d)
{
    for (size_t i = 0; i < d->n; i++) {
        free((void *)(uintptr_t)d->list[i].data);
    }
    free(d->list);
}

static bool due(const struct orchestrator *o)
{
    const struct records *rs = &o->records;
    uint64_t grown_n = store_seq(rs->store) - store_snapshot_seq(rs->store);

    return rs->n == 0 && !rs->snapshotting && grown_n > 0 && o->now_ms >= rs->snapshot_ms &&
           (grown_n > GROWN_RECORDS || rs->bytes > GROWN_BYTES);
}

void snapshot_if_due(struct orchestrator *o)
{
    struct records *rs = &o->records;
    struct dump d = {.base.emit = dump_emit};
    int rc;

    if (!due(o)) {
        return;
    }
    cluster_dump(o->cluster, &d.base);
    rc = d.failed
             ? MU_ENOMEM
             : store_snapshot(rs->store, store_seq(rs->store), d.list, d.n, true, COOKIE_SNAPSHOT);
    dump_free(&d);
    rs->snapshotting = true;
    if (rc != MU_OK) {
        snapshot_done(o, rc);
    }
}

void snapshot_done(struct orchestrator *o, int status)
{
    struct records *rs = &o->records;

    rs->snapshotting = false;
    if (status == MU_OK) {
        rs->bytes = 0;
        log_debug("journal", "a snapshot stands for records 1 to %" PRIu64,
                  store_snapshot_seq(rs->store));
        return;
    }
    rs->snapshot_ms = o->now_ms + AGAIN_MS;
    log_warn("journal",
             "no snapshot could be made (%s): the journal goes on growing, and it is "
             "tried again in a minute",
             mu_strerror(status));
}
