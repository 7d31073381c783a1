#include "ending.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHA256_BYTES 32

int ending_digest(const struct ending_part *parts, size_t parts_n, char hex_out[ENDING_HEX])
{
    unsigned char sum[SHA256_BYTES];
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    int ok = context != NULL && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1;

    for (size_t i = 0; i < parts_n && ok; i++) {
        ok = EVP_DigestUpdate(context, parts[i].data, parts[i].bytes) == 1;
    }
    ok = ok && EVP_DigestFinal_ex(context, sum, NULL) == 1;
    EVP_MD_CTX_free(context);
    for (size_t i = 0; i < SHA256_BYTES && ok; i++) {
        snprintf(hex_out + 2 * i, 3, "%02x", sum[i]);
    }
    return ok ? 0 : -1;
}

uint64_t ending_samples(uint64_t steps, uint64_t samples_n, uint64_t global_batch)
{
    uint64_t per_epoch = (samples_n + global_batch - 1) / global_batch;

    return steps / per_epoch * samples_n + steps % per_epoch * global_batch;
}

uint64_t ending_steps(uint64_t steps, uint64_t samples_n, uint64_t global_batch, uint64_t epochs)
{
    uint64_t all = (samples_n + global_batch - 1) / global_batch * epochs;

    return epochs == 0 || (steps > 0 && steps < all) ? steps : all;
}

/* ---- the report ---- */

static void write_report(FILE *file, const mu_training *t, const mu_world_info *w, int rc)
{
    fprintf(file, "{\"node\": \"%s\", \"pid\": %d, \"ended\": \"%s\",\n", w->node, (int)getpid(),
            rc == MU_EDONE   ? "done"
            : rc == MU_ELEFT ? "left"
                             : "failed");
    fprintf(file, " \"step\": %" PRIu64 ", \"samples\": %" PRIu64 ", \"slices\": %" PRIu64, t->step,
            t->samples, t->slices);
    fprintf(file, ", \"slices_again\": %" PRIu64 ", \"generations\": %" PRIu64 ",\n",
            t->slices_again, t->generations);
    fprintf(file, " \"pause_us\": %" PRIu64 ", \"pause_max_us\": %" PRIu64, t->pause_us,
            t->pause_max_us);
    fprintf(file, ", \"pause_all_us\": %" PRIu64 ",\n", t->pause_all_us);
    fprintf(file, " \"state_sent\": %" PRIu64 ", \"state_got\": %" PRIu64 ",\n", t->state_sent,
            t->state_got);
    fprintf(file, " \"checkpoint\": %" PRIu64 ", \"saves\": %" PRIu64 ", \"save_us\": %" PRIu64,
            t->checkpoint, t->saves, t->save_us);
    fprintf(file, ",\n \"digest\": \"");
    for (size_t i = 0; i < sizeof(t->digest); i++) {
        fprintf(file, "%02x", t->digest[i]);
    }
    fprintf(file, "\",\n");
}

static void write_changes(FILE *file, const struct progress *p)
{
    fprintf(file, " \"changes\": [");
    for (size_t i = 0; i < p->changes_n; i++) {
        const struct progress_change *c = &p->changes[i];

        fprintf(file, "%s\n  {\"generation\": %" PRIu64 ", \"step\": %" PRIu64, i > 0 ? "," : "",
                c->generation, c->step);
        fprintf(file, ", \"rank\": %d, \"world\": %d, \"pause_us\": %" PRIu64 "}", c->rank,
                c->world, c->pause_us);
    }
    fprintf(file, "]}\n");
}

int ending_report(const char *path, mu_run *run, const struct progress *progress, int rc)
{
    char name[PATH_MAX], part[PATH_MAX + 8];
    struct stat st;
    mu_world_info world;
    mu_training training;
    FILE *file;
    int bad;

    if (mu_training_get(run, &training) != MU_OK || mu_world(run, &world) != MU_OK) {
        fprintf(stderr, "report: %s\n", mu_error());
        return -1;
    }
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        snprintf(name, sizeof(name), "%s/%s.%d.json", path, world.node, (int)getpid());
    } else {
        snprintf(name, sizeof(name), "%s", path);
    }
    snprintf(part, sizeof(part), "%s.part", name);
    file = fopen(part, "w");
    bad = file == NULL;
    if (file != NULL) {
        write_report(file, &training, &world, rc);
        write_changes(file, progress);
        bad = ferror(file) != 0;
        bad = fclose(file) != 0 || bad || rename(part, name) != 0;
    }
    if (bad) {
        fprintf(stderr, "report: %s can't be written: %s\n", name, strerror(errno));
    }
    mu_world_free(&world);
    return bad ? -1 : 0;
}

int ending_leave(const char *program, const char *path, mu_run *run,
                 const struct progress *progress, int rc, uint64_t *step_out)
{
    mu_training training = {0};
    int status = rc == MU_EDONE || rc == MU_ELEFT ? 0 : 1;

    if (status != 0 || mu_training_get(run, &training) != MU_OK) {
        fprintf(stderr, "%s: %s\n", program, mu_error());
        status = 1;
    }
    if (rc == MU_ELEFT) {
        fprintf(stderr, "left after step %" PRIu64 "\n", training.step);
    }
    if (path != NULL && ending_report(path, run, progress, rc) != 0) {
        status = 1;
    }
    if (status == 0 && mu_leave(run) != MU_OK) {
        fprintf(stderr, "%s: %s\n", program, mu_error());
        status = 1;
    }
    *step_out = training.step;
    return status;
}
