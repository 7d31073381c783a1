/* `muster ckpt show`: what one checkpoint holds, and where the run stood. */
#include "base/clock.h"
#include "cli/ckpt_cmd.h"
#include "cli/ckpt_text.h"
#include "cli/table.h"
#include "core/text.h"

#include <inttypes.h>
#include <stdlib.h>

static const struct table_column columns[] = {
    {.title = "PART"},
    {.title = "BYTES", .right = true},
    {.title = "SIZE", .right = true},
};

/* ", 3 hours ago"; a clock may stand before it. */
static void print_age(uint64_t saved_ms)
{
    char age[CKPT_TEXT_MAX];
    const uint64_t now_ms = clock_wall_ms();

    if (now_ms >= saved_ms) {
        ckpt_text_age(now_ms - saved_ms, age);
        printf(", %s ago", age);
    }
}

static void print_head(const struct ckpt_entry *e, const struct ckpt_manifest *m)
{
    const struct ckpt_mark *k = &m->mark;
    char text[CKPT_TEXT_MAX], disk[CKPT_TEXT_MAX];

    printf("job %s  step %" PRIu64 "  epoch %" PRIu64 "\n", k->job, k->step, k->epoch);
    ckpt_text_time(k->saved_ms, text);
    printf("  saved: %s", text);
    print_age(k->saved_ms);
    printf(", by muster %s\n", m->version);
    printf("  run: %" PRIu64 ", generation %" PRIu64 "\n", k->run, k->generation);
    printf("  trained: %" PRIu64 " samples, in %" PRIu32 " slices a step\n", k->samples, k->slices);
    if (k->batch != 0) {
        printf("  data: %" PRIu64 " samples, %" PRIu64 " a step, seed %" PRIu64 "\n", k->data_n,
               k->batch, k->seed);
    } else if (k->offset != 0) {
        printf("  data: mu_shard() at element %" PRIu64 "\n", k->offset);
    }
    text_bytes(m->bytes, text);
    text_bytes(e->bytes, disk);
    printf("  state: %s (%" PRIu64 " bytes) in %" PRIu32 " chunk%s, %" PRIu32 " shard%s\n", text,
           m->bytes, m->chunks_n, m->chunks_n == 1 ? "" : "s", m->shards_n,
           m->shards_n == 1 ? "" : "s");
    printf("  on the disk: %s%s\n", disk, m->zstd ? ", compressed" : "");
}

static int print_parts(const struct ckpt_manifest *m)
{
    struct table t = {.columns = columns, .columns_n = ARRAY_LEN(columns), .indent = 2};
    char size[TEXT_BYTES_MAX], copy[MU_NAME_MAX];

    for (uint32_t i = 0; i < m->parts_n; i++) {
        text_bytes(m->parts[i].bytes, size);
        table_cell(&t, "%s", ckpt_json_name(m->parts[i].name, copy));
        table_cell(&t, "%" PRIu64, m->parts[i].bytes);
        table_cell(&t, "%s", size);
    }
    return table_end(&t, stdout) == MU_OK ? EXIT_SUCCESS
                                          : ckpt_cmd_say(EXIT_FAILURE, "out of memory");
}

static int print_json(const struct ckpt_call *c, const struct ckpt_entry *e,
                      const struct ckpt_manifest *m)
{
    json_t *object = ckpt_json(c->job, e, m);

    if (object != NULL && json_object_set_new(object, "parts", ckpt_json_parts(m)) != 0) {
        json_decref(object);
        object = NULL;
    }
    return ckpt_json_print(object);
}

int ckpt_cmd_show(const struct ckpt_call *c)
{
    struct ckpt_found f;
    struct ckpt *open;
    uint32_t at;
    int status = ckpt_cmd_find(c, &f);

    if (status != EXIT_SUCCESS) {
        return status;
    }
    status = ckpt_cmd_choose(c, &f, &at);
    if (status == EXIT_SUCCESS) {
        status = ckpt_cmd_open(c, &f, at, &open);
    }
    if (status == EXIT_SUCCESS) {
        if (c->json) {
            status = print_json(c, &f.entries[at], ckpt_manifest(open));
        } else {
            print_head(&f.entries[at], ckpt_manifest(open));
            status = print_parts(ckpt_manifest(open));
        }
        ckpt_close(open);
    }
    free(f.entries);
    return status;
}
