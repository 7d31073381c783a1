/* Is this worker of the same kind as the others? The first of a run leaves its text in the settings
 * of the job; the others compare theirs before anybody counts on them. */
#include "train/kind.h"
#include "base/env.h"
#include "base/log.h"
#include "train/train.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define AREA "run"
#define AGAIN_MS 100
#define VERDICT_MAX 260 /* of what an error has room for */

/* ---- its text ---- */

static void write_data(FILE *out, const struct train *t)
{
    if (t->what.sharded) {
        fprintf(out, "data shard of %" PRIu64 " elements\n", t->what.shard.elements_n);
    } else {
        fprintf(out,
                "data %" PRIu64 " samples, batch %" PRIu64 ", epochs %" PRIu64 ", seed %" PRIu64
                "\n",
                t->what.walk.samples_n, t->what.walk.batch_n, t->what.walk.epochs_n, t->what.seed);
    }
}

static void write_gradient(FILE *out, const struct train *t)
{
    fprintf(out, "gradient");
    for (uint32_t i = 0; i < t->what.parts_n; i++) {
        fprintf(out, "%s %zu %s", i > 0 ? "," : "", t->what.parts[i].count,
                dtype_name(t->what.parts[i].dtype));
    }
    fputc('\n', out);
}

static void write_metrics(FILE *out, const struct train *t)
{
    fprintf(out, "metrics");
    for (uint32_t i = 0; i < t->crew.run->metrics.named_n; i++) {
        fprintf(out, " %s", t->crew.run->metrics.items[i].name);
    }
    fputc('\n', out);
}

static void write_saves(FILE *out, const struct train *t)
{
    const struct save_config *c = &t->savers[SAVE_DISK].config;

    fprintf(out, KIND_SAVES "to %s\n",
            c->dir[0] == '\0' ? "none"
            : c->depot        ? SAVE_DEPOT
            : c->shared       ? "one folder for all"
                              : "a folder");
    fprintf(out, KIND_SAVES "in-memory %s\n",
            t->savers[SAVE_MEMORY].config.dir[0] != '\0' ? "yes" : "no");
    if (c->dir[0] != '\0') {
        fprintf(out, KIND_SAVES "every %" PRIu64 " %s\n",
                c->every.steps != 0 ? c->every.steps : c->every.ms,
                c->every.steps != 0 ? "steps" : "ms");
    }
}

int kind_text(const struct train *t, char **text_out)
{
    const mu_config *config = &t->crew.run->config;
    char *text = NULL;
    size_t n = 0, before_n;
    FILE *out = open_memstream(&text, &n);
    bool bad;

    if (out == NULL) {
        return run_fail(MU_ENOMEM, "no memory for a description of what is trained");
    }
    fprintf(out, "slices %" PRIu32 "\n", config->slices);
    fprintf(out, "steps %" PRIu64 "\n", config->steps);
    write_gradient(out, t);
    write_metrics(out, t);
    write_data(out, t);
    fprintf(out, "digest every %" PRIu64 "\n", config->digest_every);
    fprintf(out, "check every %" PRIu64 "\n", config->check_every);
    fflush(out);
    before_n = n;
    state_describe(&t->what.state, out);
    fflush(out);
    if (text != NULL && n - before_n > CONFIG_VALUE_MAX / 2) {
        const uint64_t hash = XXH3_64bits(text + before_n, n - before_n);

        /* A setting has only so much room: one line takes the place of all of these. */
        fseek(out, (long)before_n, SEEK_SET);
        fprintf(out, "state %" PRIu32 "-parts %016" PRIx64 "\n", t->what.state.n, hash);
    }
    fputs(t->what.facts != NULL ? t->what.facts : "", out);
    kind_numerics(out);
    write_saves(out, t);
    bad = ferror(out) != 0;
    if (fclose(out) != 0 || bad) {
        free(text);
        return run_fail(MU_ENOMEM, "no memory for a description of what is trained");
    }
    text[n] = '\0'; /* What was behind the one line of a long state is not part of it. */
    *text_out = text;
    return MU_OK;
}

/* ---- comparing ---- */

struct verdict {
    bool warn;
    uint32_t n, told_n; /* differences that count; those that are in the text */
    char text[VERDICT_MAX];
};

static void on_difference(void *arg, enum kind_weight weight, const char *text)
{
    struct verdict *v = arg;
    size_t at = strlen(v->text);

    if (weight == KIND_IS_TOLD) {
        log_warn(AREA,
                 "unlike the first worker of the run, checkpoints are saved %s. Start all nodes "
                 "with the same --ckpt-… flags",
                 text);
        return;
    }
    if (weight == KIND_IF_STRICT && v->warn) {
        log_warn(AREA, "another numeric kind than the first worker's: %s; results may differ",
                 text);
        return;
    }
    log_error(AREA, "unlike the first worker of the run: %s", text);
    v->n++;
    if (at == 0 || at + strlen(text) + 3 < sizeof(v->text)) {
        snprintf(v->text + at, sizeof(v->text) - at, "%s%s", at > 0 ? "; " : "", text);
        v->told_n++;
    }
}

static int judge(const struct train *t, const char *key, const char *here, const char *there,
                 bool warn)
{
    struct verdict v = {.warn = warn};
    char more[32] = "";

    if (!kind_compare(here, there, on_difference, &v) || v.n == 0) {
        return MU_OK;
    }
    if (v.n > v.told_n) {
        snprintf(more, sizeof(more), "; %" PRIu32 " more are logged", v.n - v.told_n);
    }
    return run_fail(MU_EREFUSED,
                    "this worker is not like the first one of its run: %s%s. Start it like that "
                    "one; if that one was wrong: muster config rm --job %s %s",
                    v.text, more, t->crew.run->life.job, key);
}

/* ---- the settings ---- */

/* Leaves it there if it is the first, or gets what the first has left. there_out->value NULL: that
 * is this one's. */
static int exchange(mu_run *run, const char *key, const char *here, mu_setting *there_out)
{
    for (;;) {
        int rc = mu_config_put(run, key, here, strlen(here), 0, MU_FOREVER, NULL);

        if (rc == MU_EEXIST || rc == MU_ECONFLICT) {
            rc = mu_config_get(run, key, MU_FOREVER, there_out);
        }
        if (rc != MU_EAGAIN && rc != MU_ETIMEDOUT && rc != MU_ENOENT) {
            return rc;
        }
        usleep(AGAIN_MS * 1000); /* The orchestrator is away, or it has just been removed. */
    }
}

int kind_check(struct train *t)
{
    struct mu_run *run = t->crew.run;
    char key[MU_KEY_MAX], *here = NULL;
    mu_setting there = {0};
    const char *mode = env_text("MUSTER_NUMERICS");
    const bool warn = mode != NULL && strcmp(mode, "warn") == 0;
    uint32_t number;
    int rc;

    if (mode != NULL && !warn && strcmp(mode, "strict") != 0) {
        return run_fail(MU_EINVAL, "MUSTER_NUMERICS is '%.40s'; it can be strict or warn", mode);
    }
    kind_threads();
    if (run->alone) {
        return MU_OK;
    }
    pthread_mutex_lock(&run->lock);
    number = run->life.run;
    pthread_mutex_unlock(&run->lock);
    snprintf(key, sizeof(key), "muster/%" PRIu32 "/kind", number);
    rc = kind_text(t, &here);
    if (rc == MU_OK) {
        rc = exchange(run, key, here, &there);
    }
    if (rc == MU_OK && there.value != NULL) {
        rc = judge(t, key, here, there.value, warn);
    } else if (rc == MU_OK && number > 1) {
        snprintf(key, sizeof(key), "muster/%" PRIu32 "/kind", number - 1); /* It is over. */
        (void)mu_config_remove(run, key, MU_ANY, 1000);
    }
    free(here);
    mu_setting_free(&there);
    return rc;
}
