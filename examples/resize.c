/* A trainer that computes nothing, and shows what a job does when its size changes: every step all
 * members meet, whoever comes later takes the step of the others, and rank 0 asks for the sizes of
 * a schedule by changing the job's setting `size`.
 *
 *     cc -o resize examples/resize.c $(pkg-config --cflags --libs muster)
 *
 *     ./resize --steps 20                               alone: a job of one
 *     muster run --nnodes 1:4 ./resize --steps 50 --schedule 2:10,3:10,4:20,1     on four nodes
 *
 * A line for each change:
 *
 *     step=10 generation=3 rank=0 size=3 event=world
 *
 *     world   this worker is in another generation         put     rank 0 has asked for a size
 *     spare   it is in none any more, and waits            left    … and leaves (--leave)
 *     step    a step is done (--verbose)                   done    all steps are; or the job is
 *     short   it has waited long enough for the size that was asked for */
#include <muster.h>

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

enum { PARTS_MAX = 64, MEET_MS = 250, HOLD_MS = 20, PUT_MS = 10000 };

struct part {
    int size;
    uint64_t steps; /* 0: for ever */
};

struct trainer {
    /* options */
    uint64_t steps;
    long step_ms;
    const char *schedule;
    struct part parts[PARTS_MAX];
    int parts_n;
    int leave;
    long patience_ms; /* for a size that was asked for */
    int by_muster;
    int verbose;

    mu_run *run;
    uint64_t id; /* of this process among the values of a meeting */
    uint64_t step;
    uint64_t generation; /* 0: it has not been in one */
    int rank;
    int size;
    int left;     /* it was left out, and goes */
    int held_for; /* the size that it waits for … */
    long held_ms; /* … and has for so long */
    int asked;    /* the size that this worker, as rank 0, has asked for last */
};

/* What each member says when they meet. */
struct word {
    uint64_t id;
    uint64_t step;
};

static void say(const struct trainer *t, const char *event)
{
    printf("step=%" PRIu64 " generation=%" PRIu64 " rank=%d size=%d event=%s\n", t->step,
           t->generation, t->rank, t->size, event);
}

static int fail(const char *what, int status)
{
    fprintf(stderr, "%s: %s: %s\n", what, mu_strerror(status), mu_error());
    return status;
}

static void sleep_ms(long ms)
{
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&left, NULL);
}

/* ---- the schedule: "size:steps,size:steps,size" ---- */

static int read_schedule(struct trainer *t)
{
    const char *at = t->schedule;

    while (at != NULL && *at != '\0') {
        struct part *p = &t->parts[t->parts_n];
        char *end;

        p->size = (int)strtol(at, &end, 10);
        p->steps = *end == ':' ? strtoull(end + 1, &end, 10) : 0;
        if (p->size < 1 || (*end != ',' && *end != '\0') || ++t->parts_n == PARTS_MAX) {
            fprintf(stderr, "--schedule: can't read '%s'; write size:steps,size:steps,size\n", at);
            return -1;
        }
        at = *end == ',' ? end + 1 : end;
    }
    return 0;
}

/* 0: whatever there is. */
static int size_at(const struct trainer *t, uint64_t step)
{
    uint64_t from = 0;

    for (int i = 0; i < t->parts_n; i++) {
        from += t->parts[i].steps;
        if (t->parts[i].steps == 0 || step < from) {
            return t->parts[i].size;
        }
    }
    return t->parts_n > 0 ? t->parts[t->parts_n - 1].size : 0;
}

/* Sets a key unless it has that value already, as somebody else may have been rank 0 before. */
static int put(struct trainer *t, const char *key, const char *value)
{
    uint64_t version = 0;
    mu_setting now;
    int rc = mu_config_get(t->run, key, PUT_MS, &now);

    if (rc == MU_OK) {
        int same = strcmp(now.value, value) == 0;

        version = now.version;
        mu_setting_free(&now);
        if (same) {
            return MU_OK;
        }
    } else if (rc != MU_ENOENT) {
        return rc;
    }
    rc = mu_config_put(t->run, key, value, strlen(value), version, PUT_MS, &version);
    if (rc == MU_OK) {
        printf("step=%" PRIu64 " generation=%" PRIu64 " rank=%d size=%d event=put %s=%s "
               "version=%" PRIu64 "\n",
               t->step, t->generation, t->rank, t->size, key, value, version);
    }
    return rc;
}

/* What may pass is tried again at the next meeting. */
static int ask_for(struct trainer *t, int size)
{
    char text[16];
    int rc;

    snprintf(text, sizeof(text), "%d", size);
    rc = t->by_muster ? put(t, "schedule", t->schedule) : put(t, "size", text);
    if (rc == MU_OK) {
        t->asked = size;
    } else if (rc == MU_EINVAL || rc == MU_ELIMIT || rc == MU_ENOMEM) {
        return fail("resize", rc);
    }
    return MU_OK;
}

/* ---- steps ---- */

/* Everyone's word: all take the newest step, and see the same world. */
static int meet(struct trainer *t)
{
    struct word mine = {t->id, t->step};
    uint64_t before = t->generation;
    mu_values values;
    int rc = mu_sync(t->run, "step", &mine, sizeof(mine), MEET_MS, &values);

    if (rc != MU_OK) {
        return rc;
    }
    t->generation = values.generation;
    t->size = (int)values.n;
    for (size_t i = 0; i < values.n; i++) {
        struct word one;

        memcpy(&one, values.items[i].data, sizeof(one));
        t->step = one.step > t->step ? one.step : t->step;
        t->rank = one.id == t->id ? (int)i : t->rank;
    }
    mu_values_free(&values);
    if (t->generation != before) {
        t->asked = 0;
        say(t, "world");
    }
    return MU_OK;
}

/* Nobody met us: are we in a generation at all? MU_EDONE: we are to go. */
static int look_around(struct trainer *t)
{
    mu_world_info world;
    int rc = mu_world(t->run, &world);

    if (rc != MU_OK) {
        return rc;
    }
    if (world.rank < 0 && t->rank >= 0) {
        t->generation = world.generation;
        t->rank = -1;
        t->size = world.size;
        t->left = t->leave;
        say(t, t->leave ? "left" : "spare");
        rc = t->leave ? MU_EDONE : MU_OK;
    }
    mu_world_free(&world);
    return rc;
}

/* The run is over, or the agent gone: nothing will change that. Anything else passes. */
static int is_over(const struct trainer *t, int status)
{
    return status == MU_EDONE || (status == MU_EPEER && mu_progress(t->run, t->step) != MU_OK);
}

/* All see the same, so all hold; whoever's patience ends first takes the others along. */
static int must_hold(struct trainer *t, int wanted)
{
    if (wanted != t->held_for) {
        t->held_for = wanted;
        t->held_ms = 0;
    }
    if (wanted == 0 || wanted == t->size) {
        return 0;
    }
    if (t->held_ms >= t->patience_ms) {
        return 0;
    }
    sleep_ms(HOLD_MS);
    t->held_ms += HOLD_MS;
    if (t->held_ms >= t->patience_ms) {
        say(t, "short");
    }
    return 1;
}

static int train(struct trainer *t)
{
    int rc = MU_OK;

    while (rc == MU_OK) {
        int wanted;

        rc = meet(t);
        if (rc != MU_OK) {
            int is_out = look_around(t);

            rc = is_over(t, rc) ? rc : is_out;
            if (rc == MU_OK && t->rank < 0) {
                rc = mu_wait(t->run, t->generation, MU_FOREVER);
            }
            continue;
        }
        wanted = size_at(t, t->step);
        if (wanted != 0 && t->rank == 0 && wanted != t->asked) {
            rc = ask_for(t, wanted);
        }
        if (must_hold(t, wanted)) {
            continue;
        }
        if (t->step >= t->steps || rc != MU_OK) {
            break;
        }
        sleep_ms(t->step_ms);
        t->step++;
        rc = mu_progress(t->run, t->step);
        if (t->verbose) {
            say(t, "step");
        }
    }
    return rc;
}

/* ---- options ---- */

static int usage(void)
{
    fprintf(stderr,
            "usage: resize [--steps N] [--step-ms MS] [--schedule SIZE:STEPS,…,SIZE]\n"
            "              [--by-muster] [--patience-ms MS] [--leave] [--verbose]\n"
            "\n"
            "  --steps N         so many steps; 50\n"
            "  --step-ms MS      each takes so long; 20\n"
            "  --schedule S      rank 0 asks for these sizes, by changing the setting `size`\n"
            "  --by-muster       … or gives muster the schedule, by the setting `schedule`\n"
            "  --patience-ms MS  wait so long for a size that was asked for; 60000\n"
            "  --leave           exit when left out, instead of waiting as a spare\n"
            "  --verbose         a line for each step\n");
    return 2;
}

static int read_options(struct trainer *t, int argc, char **argv)
{
    const struct option options[] = {
        {"steps", required_argument, NULL, 'n'},       {"step-ms", required_argument, NULL, 'm'},
        {"schedule", required_argument, NULL, 's'},    {"by-muster", no_argument, &t->by_muster, 1},
        {"patience-ms", required_argument, NULL, 'p'}, {"leave", no_argument, &t->leave, 1},
        {"verbose", no_argument, &t->verbose, 1},      {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == 'n') {
            t->steps = strtoull(optarg, NULL, 10);
        } else if (c == 'm') {
            t->step_ms = strtol(optarg, NULL, 10);
        } else if (c == 'p') {
            t->patience_ms = strtol(optarg, NULL, 10);
        } else if (c == 's') {
            t->schedule = optarg;
        } else if (c != 0) {
            return -1;
        }
    }
    return optind == argc ? read_schedule(t) : -1;
}

int main(int argc, char **argv)
{
    struct trainer t = {.steps = 50, .step_ms = 20, .patience_ms = 60000, .rank = -1};
    int rc;

    if (read_options(&t, argc, argv) != 0) {
        return usage();
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (getrandom(&t.id, sizeof(t.id), 0) != sizeof(t.id)) {
        perror("getrandom");
        return 1;
    }
    rc = mu_join(NULL, &t.run);
    if (rc != MU_OK) {
        return fail("join", rc) == MU_EDONE ? 0 : 1;
    }
    rc = train(&t);
    if ((rc == MU_OK || rc == MU_EDONE) && !t.left) {
        say(&t, "done");
    } else if (!t.left) {
        fail("train", rc);
        return 1; /* Without leaving: it has not finished. */
    }
    rc = mu_leave(t.run);
    return rc == MU_OK ? 0 : fail("leave", rc) != MU_OK;
}
