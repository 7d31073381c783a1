/* Workers that add vectors, step after step, while others join, leave and die.
 *
 *     cc -o allreduce examples/allreduce.c $(pkg-config --cflags --libs muster)
 *
 *     ./allreduce --steps 20                            alone: a job of one
 *     muster run --nnodes 1:4 ./allreduce --steps 5000  on several nodes; kill some, start more
 *
 * Nobody is restarted: whoever lives goes on with the step that it was at, and a newcomer begins
 * with that of the others. Each result is compared with what it must be. A line for each change:
 *
 *     step=10 generation=3 rank=0 size=3 event=group
 *
 *     group   it makes its calls in another group     settled  a step counts, although a peer died
 *     lost    a peer died; the same step again        left     it was left out, and begins anew
 *     wrong   the sum is not what it must be          done     all steps are; or the job is */
#include <muster.h>

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct trainer {
    mu_run *run;
    uint64_t steps;
    size_t count;
    long step_ms;
    int plain; /* memory of its own instead of mu_alloc() */

    uint64_t step;
    mu_group_info group;
    int32_t *mine, *sum;
};

static void say(const struct trainer *t, const char *event, const char *more)
{
    printf("step=%" PRIu64 " generation=%" PRIu64 " rank=%d size=%d event=%s%s%s\n", t->step,
           t->group.generation, t->group.rank, t->group.size, event, more[0] != '\0' ? " " : "",
           more);
    fflush(stdout);
}

static int fail(const struct trainer *t, const char *what)
{
    fprintf(stderr, "%s at step %" PRIu64 ": %s\n", what, t->step, mu_error());
    return 1;
}

/* ---- one step ---- */

/* What a rank gives: the sum over all ranks is easy to know. */
static void fill(struct trainer *t)
{
    for (size_t i = 0; i < t->count; i++) {
        t->mine[i] = (int32_t)((size_t)(t->group.rank + 1) * (i % 7 + 1) + t->step);
    }
}

static int is_right(const struct trainer *t, int members)
{
    for (size_t i = 0; i < t->count; i++) {
        size_t want =
            (size_t)members * (size_t)(members + 1) / 2 * (i % 7 + 1) + (size_t)members * t->step;

        if (t->sum[i] != (int32_t)want) {
            return 0;
        }
    }
    return 1;
}

/* All have the sum of this step, or nobody has. */
static int add(struct trainer *t, mu_result *result)
{
    mu_call call;
    int rc;

    mu_call_init(&call, MU_ALLREDUCE);
    call.in = t->mine;
    call.out = t->sum;
    call.count = t->count;
    call.dtype = MU_I32;
    call.flags = MU_AGREE;
    rc = mu_make(t->run, &call, result);
    if (rc != MU_OK) {
        return rc;
    }
    if (!is_right(t, result->members)) {
        say(t, "wrong", "");
        exit(3);
    }
    t->step++;
    mu_progress(t->run, t->step);
    return MU_OK;
}

/* ---- changes ---- */

/* The step of those who were here before: newcomers say 0. */
static int catch_up(struct trainer *t)
{
    int64_t mine = (int64_t)t->step, all = 0;
    int rc = mu_allreduce(t->run, &mine, &all, 1, MU_I64, MU_MAX, MU_FOREVER);

    if (rc == MU_OK) {
        t->step = (uint64_t)all;
    }
    return rc;
}

static int enter(struct trainer *t)
{
    mu_result result;
    int rc = mu_regroup(t->run, MU_FOREVER);

    if (rc != MU_OK) {
        return rc;
    }
    if (mu_group(t->run, &t->group) == MU_OK && t->group.settled) {
        rc = add(t, &result); /* It is here already. */
        say(t, "settled", "");
    }
    if (rc == MU_OK) {
        rc = catch_up(t);
    }
    if (rc == MU_OK) {
        say(t, "group", "");
    }
    return rc;
}

static int train(struct trainer *t)
{
    const struct timespec pause = {t->step_ms / 1000, t->step_ms % 1000 * 1000000};
    int rc = MU_EPEER; /* There is no group yet. */

    while (rc == MU_EPEER || t->step < t->steps) {
        mu_result result = {0};

        if (rc == MU_EPEER) {
            rc = enter(t);
        }
        if (rc == MU_OK && t->step < t->steps) {
            fill(t);
            rc = add(t, &result);
            nanosleep(&pause, NULL);
        }
        if (rc == MU_EPEER) {
            say(t, "lost", mu_error());
        } else if (rc == MU_ESTALE) { /* The others went on without it, maybe long ago. */
            say(t, "left", "");
            t->step = 0;
            rc = MU_EPEER;
        } else if (rc != MU_OK) {
            return rc;
        } else if (result.newest > t->group.generation) {
            rc = MU_EPEER; /* All know of a newer generation: to that, all at once. */
        }
    }
    return MU_OK;
}

/* ---- beginning and end ---- */

static int parse(struct trainer *t, int argc, char **argv)
{
    static const struct option options[] = {{"steps", required_argument, NULL, 's'},
                                            {"count", required_argument, NULL, 'c'},
                                            {"step-ms", required_argument, NULL, 'm'},
                                            {"plain", no_argument, NULL, 'p'},
                                            {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 's') {
            t->steps = strtoull(optarg, NULL, 10);
        } else if (option == 'c') {
            t->count = strtoull(optarg, NULL, 10);
        } else if (option == 'm') {
            t->step_ms = strtol(optarg, NULL, 10);
        } else if (option == 'p') {
            t->plain = 1;
        } else {
            return -1;
        }
    }
    return optind == argc ? 0 : -1;
}

static int32_t *vector(struct trainer *t)
{
    size_t bytes = (t->count > 0 ? t->count : 1) * sizeof(int32_t);

    return t->plain ? calloc(1, bytes) : mu_alloc(t->run, bytes);
}

int main(int argc, char **argv)
{
    struct trainer t = {.steps = 100, .count = 1 << 18, .step_ms = 10};
    int rc;

    if (parse(&t, argc, argv) != 0) {
        fprintf(stderr, "usage: %s [--steps N] [--count N] [--step-ms N] [--plain]\n", argv[0]);
        return 2;
    }
    rc = mu_join(NULL, &t.run);
    if (rc == MU_EDONE) {
        say(&t, "done", "");
        return 0;
    }
    if (rc != MU_OK) {
        return fail(&t, "join");
    }
    t.mine = vector(&t);
    t.sum = vector(&t);
    if (t.mine == NULL || t.sum == NULL) {
        return fail(&t, "memory");
    }
    rc = train(&t);
    if (rc != MU_OK && rc != MU_EDONE) {
        return fail(&t, "allreduce");
    }
    say(&t, "done", "");
    if (t.plain) {
        free(t.mine);
        free(t.sum);
    }
    return mu_leave(t.run) == MU_OK ? 0 : fail(&t, "leave");
}
