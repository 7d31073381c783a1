/* A slot: magic, format, counter, seq, id, chain, sum. Little-endian. See head.h. */
#include "store/head.h"

#include <stdlib.h>
#include <string.h>

#define SLOT_STRIDE 4096
#define SLOT_FORMAT 1
#define SLOT_SUMMED (8 + 8 + 8 + 8 + 16 + SUM_BYTES)
#define SLOT_BYTES (SLOT_SUMMED + SUM_BYTES)

static const unsigned char MAGIC[8] = {'m', 'u', 's', 't', 'e', 'r', 'H', 'D'};

static struct sum slot_sum(const unsigned char *slot)
{
    return sum_next(SUM_HEAD, (struct sum){{0}}, 0, slot, SLOT_SUMMED);
}

static void slot_encode(unsigned char *slot, uint64_t counter, const struct head_mark *mark)
{
    struct sum sum;

    memcpy(slot, MAGIC, 8);
    sum_put_u64(slot + 8, SLOT_FORMAT);
    sum_put_u64(slot + 16, counter);
    sum_put_u64(slot + 24, mark->seq);
    memcpy(slot + 32, mark->id, 16);
    memcpy(slot + 48, mark->chain.b, SUM_BYTES);
    sum = slot_sum(slot);
    memcpy(slot + SLOT_SUMMED, sum.b, SUM_BYTES);
}

/* False when the slot is not whole. */
static bool slot_decode(const unsigned char *slot, uint64_t *counter, struct head_mark *mark)
{
    struct sum sum = slot_sum(slot);

    if (memcmp(slot, MAGIC, 8) != 0 || sum_get_u64(slot + 8) != SLOT_FORMAT ||
        memcmp(slot + SLOT_SUMMED, sum.b, SUM_BYTES) != 0) {
        return false;
    }
    *counter = sum_get_u64(slot + 16);
    mark->seq = sum_get_u64(slot + 24);
    memcpy(mark->id, slot + 32, 16);
    memcpy(mark->chain.b, slot + 48, SUM_BYTES);
    return true;
}

static int read_slot(struct head *h, int which, bool *whole)
{
    unsigned char slot[SLOT_BYTES];
    struct head_mark mark;
    uint64_t counter;
    int rc;

    rc = h->file->pMethods->xRead(h->file, slot, SLOT_BYTES, (sqlite3_int64)which * SLOT_STRIDE);
    if (rc != SQLITE_OK && rc != SQLITE_IOERR_SHORT_READ) {
        return rc;
    }
    /* An even counter belongs into the first slot, an odd one into the second. */
    *whole =
        rc == SQLITE_OK && slot_decode(slot, &counter, &mark) && counter % 2 == (uint64_t)which;
    if (*whole && (!h->exists || counter > h->counter)) {
        h->exists = true;
        h->counter = counter;
        h->mark = mark;
    }
    return SQLITE_OK;
}

int head_open(struct head *h, sqlite3_vfs *vfs, const char *path)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_SUPER_JOURNAL;
    bool whole[2] = {false, false};
    int rc = SQLITE_OK;

    *h = (struct head){0};
    h->file = calloc(1, (size_t)vfs->szOsFile);
    if (!h->file) {
        return SQLITE_NOMEM;
    }
    rc = vfs->xOpen(vfs, path, h->file, flags, NULL);
    for (int i = 0; rc == SQLITE_OK && i < 2; i++) {
        rc = read_slot(h, i, &whole[i]);
    }
    if (rc != SQLITE_OK) {
        head_close(h);
        return rc;
    }
    h->whole = whole[0] && whole[1];
    return SQLITE_OK;
}

static int write_slot(struct head *h, uint64_t counter, const struct head_mark *mark)
{
    unsigned char slot[SLOT_BYTES];
    sqlite3_int64 at = (sqlite3_int64)(counter % 2) * SLOT_STRIDE;
    int rc;

    slot_encode(slot, counter, mark);
    rc = h->file->pMethods->xWrite(h->file, slot, SLOT_BYTES, at);
    if (rc == SQLITE_OK) {
        rc = h->file->pMethods->xSync(h->file, SQLITE_SYNC_NORMAL | SQLITE_SYNC_DATAONLY);
    }
    if (rc == SQLITE_OK) {
        h->counter = counter;
        h->mark = *mark;
    }
    return rc;
}

int head_create(struct head *h, const struct head_mark *mark)
{
    int rc = write_slot(h, 2, mark);

    if (rc == SQLITE_OK) {
        rc = write_slot(h, 3, mark);
    }
    if (rc == SQLITE_OK) {
        h->exists = h->whole = true;
    }
    return rc;
}

int head_write(struct head *h, const struct head_mark *mark)
{
    return write_slot(h, h->counter + 1, mark);
}

void head_close(struct head *h)
{
    if (h->file && h->file->pMethods) {
        h->file->pMethods->xClose(h->file);
    }
    free(h->file);
    *h = (struct head){0};
}
