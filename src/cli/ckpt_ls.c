/* `muster ckpt ls`: what there is. Manifests are read, chunks are not: verify does that. */
#include "cli/ckpt_cmd.h"
#include "cli/ckpt_text.h"
#include "cli/table.h"
#include "core/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct table_column columns[] = {
    {.title = "JOB"},   {.title = "STEP", .right = true}, {.title = "EPOCH", .right = true},
    {.title = "SAVED"}, {.title = "SIZE", .right = true}, {.title = ""},
};

struct ls {
    const struct ckpt_call *c;
    struct table table;
};

static void add_row(struct ls *ls, const char *job, const struct ckpt_entry *e,
                    const struct ckpt_manifest *m, const char *damaged)
{
    struct table *t = &ls->table;
    char size[TEXT_BYTES_MAX], saved[CKPT_TEXT_MAX] = "";

    text_bytes(e->bytes, size);
    table_cell(t, "%s", ls->c->job == NULL ? job : "");
    table_cell(t, "%" PRIu64, e->step);
    if (m != NULL) {
        ckpt_text_time(m->mark.saved_ms, saved);
        table_cell(t, "%" PRIu64, m->mark.epoch);
    } else {
        table_cell(t, "%s", "");
    }
    table_cell(t, "%s", saved);
    table_cell(t, "%s", size);
    table_cell(t, "%s", damaged);
}

/* Without the folder that it begins with: the line says which checkpoint it is. */
static const char *shorten(const struct ls *ls, const char *job, uint64_t step, const char *text)
{
    char folder[CKPT_PATH_MAX];
    int n = snprintf(folder, sizeof(folder), "%s/%s/step-%012" PRIu64 "/", ls->c->dir, job, step);

    return n > 0 && (size_t)n < sizeof(folder) && strncmp(text, folder, (size_t)n) == 0 ? text + n
                                                                                        : text;
}

static int list_one(struct ls *ls, const char *job, const struct ckpt_entry *e)
{
    struct ckpt_why why = {.text = ""};
    const struct ckpt_manifest *m;
    struct ckpt *open = NULL;
    char note[sizeof(why.text) + 32] = "";
    int rc = ckpt_place_open(ls->c, job, e->step, &open, &why);
    int status = EXIT_SUCCESS;

    if (rc == MU_ENOENT) {
        return EXIT_SUCCESS; /* It was removed meanwhile. */
    }
    m = rc == MU_OK ? ckpt_manifest(open) : NULL;
    if (rc != MU_OK) {
        snprintf(note, sizeof(note), "%s%s", rc == MU_ECORRUPT ? "damaged: " : "",
                 shorten(ls, job, e->step, ckpt_cmd_why(rc, &why)));
    }
    if (ls->c->json) {
        status = ckpt_json_print(m != NULL ? ckpt_json(job, e, m)
                                           : ckpt_json_damaged(job, e, ckpt_cmd_why(rc, &why)));
    } else {
        add_row(ls, job, e, m, note);
    }
    ckpt_close(open);
    return status;
}

static int list_found(struct ls *ls, const char *job, const struct ckpt_found *f)
{
    int status = EXIT_SUCCESS;

    for (uint32_t i = 0; i < f->n && status == EXIT_SUCCESS; i++) {
        status = list_one(ls, job, &f->entries[i]);
    }
    return status;
}

static int list_all(struct ls *ls)
{
    struct ckpt_why why = {.text = ""};
    struct ckpt_found f;
    char hint[CKPT_PATH_MAX];
    char *names = NULL;
    int rc, status = ckpt_cmd_folder(ls->c);

    if (status != EXIT_SUCCESS) {
        return status;
    }
    rc = ckpt_place_jobs(ls->c, &names, &why);
    if (rc != MU_OK) {
        return ckpt_cmd_say(EXIT_FAILURE, "%s", ckpt_cmd_why(rc, &why));
    }
    for (const char *job = names; *job != '\0' && status == EXIT_SUCCESS; job += strlen(job) + 1) {
        rc = ckpt_place_list(ls->c, job, &f, &why);
        if (rc != MU_OK) {
            status = ckpt_cmd_say(EXIT_FAILURE, "%s", ckpt_cmd_why(rc, &why));
            break;
        }
        status = list_found(ls, job, &f);
        free(f.entries);
    }
    free(names);
    if (status == EXIT_SUCCESS && ls->table.cells_n == 0 && !ls->c->json) {
        ckpt_cmd_hint(ls->c, hint, sizeof(hint));
        printf("no checkpoints in %s%s\n", ls->c->dir, hint);
    }
    return status;
}

int ckpt_cmd_ls(const struct ckpt_call *c)
{
    struct ls ls = {.c = c, .table = {.columns = columns, .columns_n = ARRAY_LEN(columns)}};
    struct ckpt_found f;
    int status;

    if (c->job == NULL) {
        status = list_all(&ls);
    } else {
        status = ckpt_cmd_find(c, &f);
        if (status == EXIT_SUCCESS) {
            status = list_found(&ls, c->job, &f);
            free(f.entries);
        }
    }
    if (table_end(&ls.table, stdout) != MU_OK) {
        status = ckpt_cmd_say(EXIT_FAILURE, "out of memory");
    }
    return status;
}
