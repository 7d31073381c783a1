/* Names and paths. See file.h. */
#include "ckpt/file.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define STEP_DIGITS 12 /* at least: so that names sort by step */

static bool is_word(char c, const char *others)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr(others, c) != NULL);
}

static bool all_of(const char *text, const char *others)
{
    while (is_word(*text, others)) {
        text++;
    }
    return *text == '\0';
}

bool name_is_job(const char *name)
{
    return name[0] != '\0' && name[0] != '.' && strlen(name) < MU_NAME_MAX && all_of(name, "._-");
}

bool name_is_tag(const char *tag)
{
    return tag[0] != '\0' && strlen(tag) < CKPT_TAG_MAX && all_of(tag, "-");
}

bool name_is_part(const char *name)
{
    const size_t n = strnlen(name, MU_NAME_MAX);

    for (size_t i = 0; i < n; i++) {
        if ((uint8_t)name[i] <= ' ' || name[i] == 0x7f) {
            return false;
        }
    }
    return n > 0 && n < MU_NAME_MAX;
}

/* The step at the front of a text, as it is written; NULL: none. Gives what follows. */
static const char *take_step(const char *text, uint64_t *step_out)
{
    uint64_t step = 0;
    size_t n = 0;

    for (; text[n] >= '0' && text[n] <= '9'; n++) {
        const uint64_t digit = (uint64_t)(text[n] - '0');

        if (step > (UINT64_MAX - digit) / 10) {
            return NULL;
        }
        step = step * 10 + digit;
    }
    if (n < STEP_DIGITS || (n > STEP_DIGITS && text[0] == '0') || step == 0) {
        return NULL;
    }
    *step_out = step;
    return text + n;
}

bool name_is_step(const char *name, uint64_t *step_out)
{
    const char *end;
    uint64_t step;

    if (strncmp(name, "step-", 5) != 0) {
        return false;
    }
    end = take_step(name + 5, &step);
    if (end == NULL || *end != '\0') {
        return false;
    }
    *step_out = step;
    return true;
}

bool name_is_attempt(const char *name, uint64_t *step_out, const char **tag_out)
{
    const char *end;
    uint64_t step;

    if (strncmp(name, ".step-", 6) != 0) {
        return false;
    }
    end = take_step(name + 6, &step);
    if (end == NULL || *end != '.') {
        return false;
    }
    end++;
    if (!name_is_tag(end) && strcmp(end, NAME_OLD) != 0 && strcmp(end, NAME_GONE) != 0) {
        return false;
    }
    *step_out = step;
    *tag_out = end;
    return true;
}

/* ---- paths ---- */

int path_set(struct path *p, struct ckpt_why *why, const char *fmt, ...)
{
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(p->text, sizeof(p->text), fmt, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof(p->text)) {
        return ckpt_say(why, MU_EINVAL, "the path %.100s… is too long", p->text);
    }
    return MU_OK;
}

int path_job(struct path *p, const char *dir, const char *job, struct ckpt_why *why)
{
    if (dir[0] == '\0') {
        return ckpt_say(why, MU_EINVAL, "the folder of the checkpoints has no name");
    }
    if (!name_is_job(job)) {
        return ckpt_say(why, MU_EINVAL,
                        "\"%.64s\" can't be the name of a job with checkpoints: it takes 1 to %d "
                        "letters, digits and . _ -, and does not begin with a dot",
                        job, MU_NAME_MAX - 1);
    }
    return path_set(p, why, "%s/%s", dir, job);
}

int path_step(struct path *p, const char *dir, const char *job, uint64_t step, struct ckpt_why *why)
{
    int rc = path_job(p, dir, job, why);

    return rc != MU_OK ? rc : path_set(p, why, "%s/%s/step-%012" PRIu64, dir, job, step);
}

int path_attempt(struct path *p, const char *dir, const char *job, uint64_t step, const char *tag,
                 struct ckpt_why *why)
{
    int rc = path_job(p, dir, job, why);

    return rc != MU_OK ? rc
                       : path_set(p, why, "%s/%s/.step-%012" PRIu64 ".%s", dir, job, step, tag);
}

int path_target(struct path *p, const struct ckpt_target *t, struct ckpt_why *why)
{
    if (!name_is_tag(t->tag)) {
        return ckpt_say(why, MU_EINVAL,
                        "\"%.64s\" can't be the tag of a checkpoint: it takes 1 to %d letters, "
                        "digits and -",
                        t->tag, CKPT_TAG_MAX - 1);
    }
    if (t->step == 0 || t->shards_n == 0 || t->shards_n > CKPT_SHARDS_MAX) {
        return ckpt_say(why, MU_EINVAL,
                        "a checkpoint is of step 1 or later and has 1 to %d shards, not of step "
                        "%" PRIu64 " with %" PRIu32,
                        CKPT_SHARDS_MAX, t->step, t->shards_n);
    }
    if (ckpt_chunks(t->bytes) > CKPT_CHUNKS_MAX) {
        return ckpt_say(why, MU_EINVAL, "%" PRIu64 " bytes are too many for a checkpoint",
                        t->bytes);
    }
    return path_attempt(p, t->dir, t->job, t->step, t->tag, why);
}
