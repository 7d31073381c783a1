/* From the words of the command line to a checkpoint, or to a sentence that says what is not there.
 */
#include "cli/ckpt_cmd.h"

#include "cli/ckpt_text.h"
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int ckpt_cmd_say(int status, const char *fmt, ...)
{
    va_list args;

    fputs("muster ckpt: ", stderr);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    return status;
}

const char *ckpt_cmd_why(int rc, const struct ckpt_why *why)
{
    return why->text[0] != '\0' ? why->text : mu_strerror(rc);
}

int ckpt_cmd_folder(const struct ckpt_call *c)
{
    struct stat st;

    if (c->depot != NULL) {
        return EXIT_SUCCESS;
    }
    if (stat(c->dir, &st) != 0) {
        if (errno == ENOENT) {
            return ckpt_cmd_say(EXIT_NOT_FOUND, "there is no folder %s", c->dir);
        }
        return ckpt_cmd_say(EXIT_FAILURE, "%s: %s", c->dir, strerror(errno));
    }
    if (!S_ISDIR(st.st_mode)) {
        return ckpt_cmd_say(EXIT_FAILURE,
                            "%s is no folder; name the one that --ckpt-dir of muster run names",
                            c->dir);
    }
    return EXIT_SUCCESS;
}

void ckpt_cmd_hint(const struct ckpt_call *c, char *text, size_t cap)
{
    struct ckpt_why why = {.text = ""};
    struct ckpt_entry *entries = NULL;
    char *path = c->depot == NULL ? realpath(c->dir, NULL) : NULL;
    char *job = path != NULL ? strrchr(path, '/') : NULL;
    uint32_t n = 0;

    text[0] = '\0';
    if (job != NULL && job > path) {
        *job++ = '\0';
        if (ckpt_list(path, job, &entries, &n, &why) == MU_OK && n > 0) {
            snprintf(text, cap, "; it is the folder of a job: say %s %s", path, job);
        }
        free(entries);
    }
    free(path);
}

/* "; there are those of a, b and 3 more" */
static void say_others(const struct ckpt_call *c, char *text, size_t cap)
{
    struct ckpt_why why = {.text = ""};
    char *names = NULL;
    uint32_t n = 0;

    text[0] = '\0';
    if (ckpt_place_jobs(c, &names, &why) != MU_OK) {
        return;
    }
    for (const char *name = names; *name != '\0'; name += strlen(name) + 1, n++) {
        if (n < 5) {
            size_t at = strlen(text);

            snprintf(text + at, cap - at, "%s%s", n == 0 ? "; there are those of " : ", ", name);
        }
    }
    if (n > 5) {
        size_t at = strlen(text);

        snprintf(text + at, cap - at, " and %" PRIu32 " more", n - 5);
    }
    free(names);
    if (n == 0) {
        ckpt_cmd_hint(c, text, cap);
    }
}

int ckpt_cmd_find(const struct ckpt_call *c, struct ckpt_found *found_out)
{
    char others[CKPT_PATH_MAX];
    struct ckpt_why why = {.text = ""};
    struct ckpt_found f = {0};
    int rc, status = ckpt_cmd_folder(c);

    if (status != EXIT_SUCCESS) {
        return status;
    }
    rc = ckpt_place_list(c, c->job, &f, &why);
    if (rc != MU_OK) {
        return ckpt_cmd_say(EXIT_FAILURE, "%s", ckpt_cmd_why(rc, &why));
    }
    if (f.n == 0) {
        free(f.entries);
        say_others(c, others, sizeof(others));
        return ckpt_cmd_say(EXIT_NOT_FOUND, "there are no checkpoints of job %s in %s%s", c->job,
                            c->dir, others);
    }
    *found_out = f;
    return EXIT_SUCCESS;
}

int ckpt_cmd_place(const struct ckpt_call *c, const struct ckpt_found *f, uint64_t step,
                   uint32_t *at_out)
{
    for (uint32_t i = 0; i < f->n; i++) {
        if (f->entries[i].step == step) {
            *at_out = i;
            return EXIT_SUCCESS;
        }
    }
    return ckpt_cmd_say(EXIT_NOT_FOUND,
                        "there is no checkpoint of step %" PRIu64 " of job %s in %s; the newest "
                        "is step %" PRIu64 ", the oldest step %" PRIu64,
                        step, c->job, c->dir, f->entries[0].step, f->entries[f->n - 1].step);
}

int ckpt_cmd_choose(const struct ckpt_call *c, const struct ckpt_found *f, uint32_t *at_out)
{
    uint64_t step;

    if (c->steps_n == 0) {
        *at_out = 0;
        return EXIT_SUCCESS;
    }
    mu_assert(ckpt_text_step(c->steps[0], &step)); /* ckpt.c has refused what is none. */
    return ckpt_cmd_place(c, f, step, at_out);
}

int ckpt_cmd_open(const struct ckpt_call *c, const struct ckpt_found *f, uint32_t at,
                  struct ckpt **open_out)
{
    struct ckpt_why why = {.text = ""};
    int rc = ckpt_place_open(c, c->job, f->entries[at].step, open_out, &why);

    return rc == MU_OK ? EXIT_SUCCESS : ckpt_cmd_failed(c, f, at, rc, &why);
}

int ckpt_cmd_failed(const struct ckpt_call *c, const struct ckpt_found *f, uint32_t at, int rc,
                    const struct ckpt_why *why)
{
    const char *text = ckpt_cmd_why(rc, why);
    uint64_t step = f->entries[at].step;

    if (rc == MU_ENOENT) { /* It was a moment ago. */
        return ckpt_cmd_say(EXIT_NOT_FOUND, "step %" PRIu64 " of job %s is gone: %s", step, c->job,
                            text);
    }
    if (rc != MU_ECORRUPT) {
        return ckpt_cmd_say(EXIT_FAILURE, "step %" PRIu64 " of job %s: %s", step, c->job, text);
    }
    if (at + 1 == f->n) {
        return ckpt_cmd_say(EXIT_FAILURE,
                            "step %" PRIu64 " of job %s is damaged: %s; there is none before it",
                            step, c->job, text);
    }
    return ckpt_cmd_say(EXIT_FAILURE,
                        "step %" PRIu64 " of job %s is damaged: %s; the one before it is step "
                        "%" PRIu64,
                        step, c->job, text, f->entries[at + 1].step);
}
