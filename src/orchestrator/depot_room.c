/* Room for checkpoints. Counted by looking at the disk: what uploads have sent counts as if it were
 * there, and what of it is written already does not count twice. What somebody only says that it
 * will send counts for nobody but itself: others' checkpoints do not wait for promises. */
#include "core/text.h"
#include "orchestrator/depot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#define FREE_MIN ((uint64_t)1 << 30) /* stays free, for the journal */
#define FREE_SHARE 20                /* this part of the disk stays free, if that is more */

/* ---- what there is ---- */

struct usage {
    struct depot_task *t;
    uint64_t kept, left;
    uint64_t partial; /* of uploads that have a claim */
    bool forget;      /* what nobody claims goes */
};

static bool is_claimed(const struct depot_task *t, const char *job)
{
    for (uint32_t i = 0; i < t->claims_n; i++) {
        if (strcmp(t->claims[i].job, job) == 0) {
            return true;
        }
    }
    return false;
}

static void count(void *arg, const char *job, bool whole, uint64_t bytes)
{
    struct usage *u = arg;

    if (whole) {
        u->kept += bytes;
    } else if (is_claimed(u->t, job)) {
        u->partial += bytes;
    } else if (!u->forget || ckpt_intake_forget(u->t->d->dir, job, NULL) != MU_OK) {
        u->left += bytes;
    }
}

static int look(struct depot_task *t, struct usage *u)
{
    int rc;

    *u = (struct usage){.t = t, .forget = t->alone};
    rc = ckpt_usage(t->d->dir, count, u, &t->why);
    if (rc == MU_OK) {
        t->kept = u->kept;
        t->left = u->left;
        t->measured = true;
    }
    return rc;
}

int room_measure(struct depot_task *t)
{
    struct usage u;

    return look(t, &u);
}

/* ---- is it enough? ---- */

/* Free now, and of it what is to stay free. */
static int disk(const struct deposits *d, uint64_t *free_out, uint64_t *stays_out,
                struct ckpt_why *why)
{
    struct statvfs st;

    if (statvfs(d->disk, &st) != 0) {
        snprintf(why->text, sizeof(why->text), "can't see how much is free on the disk of %s: %s",
                 d->disk, strerror(errno));
        return MU_EIO;
    }
    *free_out = (uint64_t)st.f_bavail * st.f_frsize;
    *stays_out = MAX(FREE_MIN, (uint64_t)st.f_blocks * st.f_frsize / FREE_SHARE);
    return MU_OK;
}

int room_on_disk(const struct deposits *d, struct ckpt_why *why)
{
    uint64_t now, stays;
    char a[TEXT_BYTES_MAX], b[TEXT_BYTES_MAX];
    int rc = disk(d, &now, &stays, why);

    if (rc != MU_OK || now >= stays) {
        return rc;
    }
    snprintf(why->text, sizeof(why->text),
             "the orchestrator's disk has %s free, and %s stay free for its journal. Make room "
             "there, or remove checkpoints (muster ckpt rm)",
             text_bytes(now, a), text_bytes(stays, b));
    return MU_ELIMIT;
}

static int check(const struct depot_task *t, const struct usage *u, struct ckpt_why *why)
{
    uint64_t claimed = 0, now, stays;
    char a[TEXT_BYTES_MAX], b[TEXT_BYTES_MAX], c[TEXT_BYTES_MAX];
    int rc = disk(t->d, &now, &stays, why);

    for (uint32_t i = 0; i < t->claims_n; i++) {
        claimed += t->claims[i].bytes;
    }
    if (rc != MU_OK) {
        return rc;
    }
    if (t->d->quota > 0 && u->kept + u->left + claimed > t->d->quota) {
        snprintf(why->text, sizeof(why->text),
                 "no room for %s: of the orchestrator's --ckpt-quota of %s, %s are in use. Keep "
                 "fewer (--ckpt-keep), remove some (muster ckpt rm), or raise it",
                 text_bytes(t->ask.total, a), text_bytes(t->d->quota, b),
                 text_bytes(u->kept + u->left + claimed - t->ask.total, c));
        return MU_ELIMIT;
    }
    if (now + u->partial < claimed + stays) {
        snprintf(why->text, sizeof(why->text),
                 "no room for %s: the orchestrator's disk has %s free, and %s stay free for its "
                 "journal. Make room there, or remove checkpoints (muster ckpt rm)",
                 text_bytes(t->ask.total, a), text_bytes(now, b), text_bytes(stays, c));
        return MU_ELIMIT;
    }
    return MU_OK;
}

int room_prune(struct depot_task *t, uint32_t keep, struct ckpt_why *why)
{
    return ckpt_prune(t->d->dir, t->ask.job, t->ask.step, keep, t->ask.keep_every, NULL, why);
}

int room_make(struct depot_task *t)
{
    struct usage u;
    int rc = look(t, &u);

    rc = rc == MU_OK ? check(t, &u, &t->why) : rc;
    if (rc == MU_ELIMIT && t->ask.keep > 0) {
        /* With this one there would be one too many: the oldest may go now, but never the last. */
        (void)room_prune(t, MAX(t->ask.keep, 2) - 1, NULL);
        rc = look(t, &u);
        rc = rc == MU_OK ? check(t, &u, &t->why) : rc;
    }
    return rc;
}
