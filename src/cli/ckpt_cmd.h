/* What the verbs of `muster ckpt` share. Functions that return int give an exit status; if it is
 * not EXIT_SUCCESS they have said why on stderr. */
#ifndef CLI_CKPT_CMD_H
#define CLI_CKPT_CMD_H

#include "ckpt/ckpt.h"
#include "cli/ask.h"
#include "core/message.h"
#include "depot/depot.h"

#include <jansson.h>

/* What it was asked for. Strings are argv's own. */
struct ckpt_call {
    const char *dir;
    struct depot *depot; /* in place of the folder; NULL: it is one */
    const char *job;     /* NULL: all of them (ls) */
    char **steps;        /* as they were written; each is one */
    uint32_t steps_n;
    const char *to;
    bool raw, f32;
    bool all;
    bool force;
    bool json;
    struct ask_where where; /* of the depot */
};

int ckpt_cmd_ls(const struct ckpt_call *c);
int ckpt_cmd_show(const struct ckpt_call *c);
int ckpt_cmd_verify(const struct ckpt_call *c);
int ckpt_cmd_rm(const struct ckpt_call *c);
int ckpt_cmd_export(const struct ckpt_call *c);

/* ---- ckpt_place.c: statuses, as those of ckpt/ckpt.h ---- */

struct ckpt_found {
    struct ckpt_entry *entries; /* the newest first */
    uint32_t n;
};

/* Whether it names the orchestrator, not a folder. */
bool ckpt_place_is_depot(const char *dir);
int ckpt_place_list(const struct ckpt_call *c, const char *job, struct ckpt_found *found_out,
                    struct ckpt_why *why);
int ckpt_place_jobs(const struct ckpt_call *c, char **names_out, struct ckpt_why *why);
int ckpt_place_open(const struct ckpt_call *c, const char *job, uint64_t step,
                    struct ckpt **open_out, struct ckpt_why *why);
int ckpt_place_remove(const struct ckpt_call *c, uint64_t step, struct ckpt_why *why);

/* ---- ckpt_find.c ---- */

/* If it is to be a folder: it is there, and is one. */
int ckpt_cmd_folder(const struct ckpt_call *c);

/* "; it is the folder of a job: say …" if it is, or "". */
void ckpt_cmd_hint(const struct ckpt_call *c, char *text, size_t cap);

/* The checkpoints of the job, one at least. On success entries are the caller's: free(). */
int ckpt_cmd_find(const struct ckpt_call *c, struct ckpt_found *found_out);

/* The place of a step among them. */
int ckpt_cmd_place(const struct ckpt_call *c, const struct ckpt_found *f, uint64_t step,
                   uint32_t *at_out);

/* The entry of the step that was named, or of the newest. */
int ckpt_cmd_choose(const struct ckpt_call *c, const struct ckpt_found *f, uint32_t *at_out);

/* Opens one of them. On success *open_out is the caller's: ckpt_close(). */
int ckpt_cmd_open(const struct ckpt_call *c, const struct ckpt_found *f, uint32_t at,
                  struct ckpt **open_out);

/* Says what is wrong with one of them, and which one is before it. */
int ckpt_cmd_failed(const struct ckpt_call *c, const struct ckpt_found *f, uint32_t at, int rc,
                    const struct ckpt_why *why);

/* "muster ckpt: …" on stderr; gives `status`. */
int ckpt_cmd_say(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* What why says; the words of the status if it is empty. */
const char *ckpt_cmd_why(int rc, const struct ckpt_why *why);

/* ---- ckpt_json.c ---- */

/* NULL: out of memory. */
json_t *ckpt_json(const char *job, const struct ckpt_entry *e, const struct ckpt_manifest *m);
/* The same of a checkpoint that is damaged. */
json_t *ckpt_json_damaged(const char *job, const struct ckpt_entry *e, const char *why);
/* Its parts, by name. */
json_t *ckpt_json_parts(const struct ckpt_manifest *m);
/* As it is if it is UTF-8, with '?' for whatever is not ASCII otherwise. */
const char *ckpt_json_name(const char *name, char copy[MU_NAME_MAX]);
/* One object on a line of its own; it is taken. */
int ckpt_json_print(json_t *object);

#endif
