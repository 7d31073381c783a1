/* `muster ckpt verify`: every byte is read, and compared with what was written. */
#include "cli/ckpt_cmd.h"
#include "cli/ckpt_text.h"
#include "core/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static int say_intact(const struct ckpt_call *c, const struct ckpt_entry *e,
                      const struct ckpt_manifest *m)
{
    char size[TEXT_BYTES_MAX];

    if (c->json) {
        return ckpt_json_print(json_pack("{s:s, s:I, s:b, s:I, s:I}", "job", c->job, "step",
                                         (json_int_t)e->step, "intact", true, "chunks",
                                         (json_int_t)m->chunks_n, "bytes", (json_int_t)m->bytes));
    }
    text_bytes(m->bytes, size);
    printf("step %" PRIu64 " of job %s is intact: %" PRIu32 " chunk%s, %s\n", e->step, c->job,
           m->chunks_n, m->chunks_n == 1 ? "" : "s", size);
    return EXIT_SUCCESS;
}

static int say_failed(const struct ckpt_call *c, const struct ckpt_found *f, uint32_t at, int rc,
                      const struct ckpt_why *why)
{
    if (c->json && rc == MU_ECORRUPT) {
        json_t *object = ckpt_json_damaged(c->job, &f->entries[at], ckpt_cmd_why(rc, why));

        if (object != NULL) {
            json_object_set_new(object, "intact", json_false());
        }
        ckpt_json_print(object);
    }
    fflush(stdout); /* So that lines stand in the order of steps where both go to one place. */
    return ckpt_cmd_failed(c, f, at, rc, why);
}

static int verify_one(const struct ckpt_call *c, const struct ckpt_found *f, uint32_t at)
{
    struct ckpt_why why = {.text = ""};
    struct ckpt *open = NULL;
    int rc = ckpt_place_open(c, c->job, f->entries[at].step, &open, &why);
    int status;

    if (rc == MU_OK) {
        rc = ckpt_verify(open, &why);
    }
    if (rc == MU_OK) {
        status = say_intact(c, &f->entries[at], ckpt_manifest(open));
    } else {
        status = say_failed(c, f, at, rc, &why);
    }
    ckpt_close(open);
    return status;
}

/* The first that is wrong decides; the others are still looked at. */
static int verify_all(const struct ckpt_call *c, const struct ckpt_found *f)
{
    int first = EXIT_SUCCESS;

    for (uint32_t i = 0; i < f->n; i++) {
        int status = verify_one(c, f, i);

        first = first != EXIT_SUCCESS ? first : status;
    }
    return first;
}

int ckpt_cmd_verify(const struct ckpt_call *c)
{
    struct ckpt_found f;
    uint32_t at;
    int status = ckpt_cmd_find(c, &f);

    if (status != EXIT_SUCCESS) {
        return status;
    }
    if (c->all) {
        status = verify_all(c, &f);
    } else {
        status = ckpt_cmd_choose(c, &f, &at);
        if (status == EXIT_SUCCESS) {
            status = verify_one(c, &f, at);
        }
    }
    free(f.entries);
    return status;
}
