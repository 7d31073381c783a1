/* Checkpoints as programs read them. */
#include "cli/ckpt_cmd.h"
#include "orchestrator/words.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* jansson's integers have a sign. */
static json_t *number(uint64_t n)
{
    char text[24];

    if (n <= INT64_MAX) {
        return json_integer((json_int_t)n);
    }
    snprintf(text, sizeof(text), "%" PRIu64, n);
    return json_string(text);
}

json_t *ckpt_json(const char *job, const struct ckpt_entry *e, const struct ckpt_manifest *m)
{
    const struct ckpt_mark *k = &m->mark;
    char saved[WORDS_TIME_MAX];

    words_time(k->saved_ms, saved);
    return json_pack(
        "{s:s, s:I, s:I, s:s, s:s, s:I, s:I, s:I, s:I, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
        "s:b}",
        "job", job, "step", (json_int_t)e->step, "epoch", (json_int_t)k->epoch, "saved", saved,
        "version", m->version, "run", (json_int_t)k->run, "generation", (json_int_t)k->generation,
        "samples", (json_int_t)k->samples, "offset", (json_int_t)k->offset, "seed", number(k->seed),
        "data", (json_int_t)k->data_n, "batch", (json_int_t)k->batch, "slices",
        (json_int_t)k->slices, "bytes", (json_int_t)m->bytes, "disk_bytes", (json_int_t)e->bytes,
        "shards", (json_int_t)m->shards_n, "chunks", (json_int_t)m->chunks_n, "zstd", m->zstd);
}

json_t *ckpt_json_damaged(const char *job, const struct ckpt_entry *e, const char *why)
{
    json_t *text = json_string(why);

    return json_pack("{s:s, s:I, s:I, s:o}", "job", job, "step", (json_int_t)e->step, "disk_bytes",
                     (json_int_t)e->bytes, "damaged",
                     text != NULL ? text : json_true()); /* A path need not be UTF-8. */
}

const char *ckpt_json_name(const char *name, char copy[MU_NAME_MAX])
{
    json_t *text = json_string(name);

    json_decref(text);
    if (text != NULL) {
        return name;
    }
    snprintf(copy, MU_NAME_MAX, "%s", name);
    for (char *at = copy; *at != '\0'; at++) {
        *at = (uint8_t)*at < 0x80 ? *at : '?';
    }
    return copy;
}

json_t *ckpt_json_parts(const struct ckpt_manifest *m)
{
    json_t *list = json_array();
    char copy[MU_NAME_MAX];

    for (uint32_t i = 0; list != NULL && i < m->parts_n; i++) {
        json_t *part = json_pack("{s:s, s:I}", "name", ckpt_json_name(m->parts[i].name, copy),
                                 "bytes", (json_int_t)m->parts[i].bytes);

        if (part == NULL || json_array_append_new(list, part) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

int ckpt_json_print(json_t *object)
{
    if (object == NULL) {
        return ckpt_cmd_say(EXIT_FAILURE, "out of memory");
    }
    json_dumpf(object, stdout, JSON_COMPACT);
    putchar('\n'); /* main() tells if the output could not be written. */
    json_decref(object);
    return EXIT_SUCCESS;
}
