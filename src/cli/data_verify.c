/* `muster data verify`: every byte is read, and every damaged place told of. */
#include "cli/data_cmd.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct verify {
    const struct data_call *c;
    struct data_bar bar;
    json_t *damages; /* of this file */
    uint64_t n;
};

static void add(struct verify *v, uint64_t at)
{
    v->n++;
    if (v->c->json) {
        json_array_append_new(v->damages,
                              json_pack("{s:I, s:o}", "offset", (json_int_t)at, "error",
                                        data_text_value(mu_error(), strlen(mu_error()))));
        return;
    }
    data_bar_end(&v->bar);
    printf("%s\n", mu_error());
}

static void on_damage(void *arg, const struct shard *s, uint64_t at)
{
    add(arg, at);
}

static void on_progress(void *arg, const struct shard *s, uint64_t at)
{
    struct verify *v = arg;

    if (v->bar.total > 0) {
        v->bar.total = MAX(s->source.size, (uint64_t)1);
        data_bar_show(&v->bar, at);
    }
}

static int verify_one(struct verify *v, const struct found *file)
{
    const struct watch watch = {on_damage, on_progress, v};
    mu_reader *reader = NULL;
    uint64_t records = 0;
    int rc;

    v->n = 0;
    v->damages = v->c->json ? json_array() : NULL;
    data_bar_begin(&v->bar, file->path, 1);
    rc = reader_open_found(file, 1, &watch, &reader);
    data_bar_end(&v->bar);
    if (rc == MU_ECORRUPT) { /* Nothing of it can be read. */
        add(v, shard_damaged_at());
    } else if (rc != MU_OK) {
        json_decref(v->damages);
        return data_cmd_failed(rc);
    }
    records = reader != NULL ? mu_reader_records(reader) : 0;
    mu_reader_close(reader);
    if (v->c->json) {
        return data_text_print(json_pack("{s:o, s:b, s:I, s:o}", "file",
                                         data_text_value(file->path, strlen(file->path)), "intact",
                                         v->n == 0, "records", (json_int_t)records, "damages",
                                         v->damages)) != EXIT_SUCCESS ||
                       v->n > 0
                   ? EXIT_FAILURE
                   : EXIT_SUCCESS;
    }
    if (v->n == 0) {
        printf("%s is intact: %" PRIu64 " record%s\n", file->path, records,
               records == 1 ? "" : "s");
    } else {
        printf("%s is damaged at %" PRIu64 " place%s; %" PRIu64 " record%s can be read\n",
               file->path, v->n, v->n == 1 ? "" : "s", records, records == 1 ? "" : "s");
    }
    return v->n == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int data_cmd_verify(const struct data_call *c)
{
    struct verify v = {.c = c};
    struct found_list found;
    int status = data_cmd_find(c, true, &found), first = EXIT_SUCCESS;

    if (status != EXIT_SUCCESS) {
        return status;
    }
    for (size_t i = 0; i < found.n; i++) {
        status = verify_one(&v, &found.files[i]);
        first = first != EXIT_SUCCESS ? first : status;
    }
    find_free(&found);
    return first;
}
