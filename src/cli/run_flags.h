/* What `muster run` was asked for, from its flags and PET_* variables. */
#ifndef CLI_RUN_FLAGS_H
#define CLI_RUN_FLAGS_H

#include "agent/node.h"
#include "cli/opts.h"

/* What torchrun knows and muster has no use for; NULL: not given. */
struct run_ignored {
    const char *rdzv_backend;
    const char *rdzv_conf;
    const char *start_method;
    const char *node_rank;
    const char *local_ranks_filter;
    const char *event_log_handler;
    const char *logs_specs;
    const char *signals_to_handle;
    const char *numa_binding;
    bool use_env;
    bool virtual_local_rank;
};

struct run_nnodes {
    uint32_t min, max;
    bool given;
};

/* By slot, in torchrun's numbers: 0 nothing, 1 stdout, 2 stderr, 3 both. */
struct run_streams {
    uint8_t std[SLOTS_MAX];
    bool given;
};

struct run_where {
    struct endpoints endpoints;
    bool given;
};

#define RUN_CKPT_EVERY_WANTS "steps, like 200, or a time, like 90s, 10m or 1h (at most 30 days)"

/* What is below it must still be a path: JOB/.step-….TAG/shard-….sums */
#define RUN_CKPT_DIR_MAX 3072

struct run_flags {
    struct node_config node; /* argv and token are the caller's to fill in */
    struct run_nnodes nnodes;
    struct run_where where;
    struct run_streams redirects, tee;
    char ckpt_dir[RUN_CKPT_DIR_MAX]; /* node.ckpt.dir as an absolute path, once it is settled */
    const char *local_addr;
    const char *token_file;
    uint32_t master_port;
    bool module, no_python, run_path;
    bool slots_cut; /* there are more cores than a node may have workers */
    struct run_ignored ignored;
    char **words; /* the script and its arguments: argv's own, NULL-terminated */
    uint32_t words_n;
};

extern const struct opts run_opts;

/* ---- run_ckpt.c: the flags for checkpoints ---- */

int run_ckpt_read_dir(const char *text, void *to, char *error);   /* opt_read, const char * */
int run_ckpt_read_every(const char *text, void *to, char *error); /* checked, and kept as text */

/* What follows from them together. MU_EINVAL: error (OPTS_ERROR_MAX) says what is wrong. */
int run_ckpt_settle(struct run_flags *f, char *error);

/* Makes the folder if it is not there, so that what is wrong with it is known before the first
 * checkpoint. MU_EIO: error (OPTS_ERROR_MAX) says why. */
int run_ckpt_prepare(const struct run_flags *f, char *error);

/* True: *flags_out is filled in; its strings point into argv, the environment and itself. False: it
 * has said what was to be said, and the command ends with *status_out. */
bool run_flags_parse(int argc, char **argv, struct run_flags *flags_out, int *status_out);

#define RUN_NOTE_MAX 256

/* One sentence each about flags that are ignored or need a word; returns how many `note` got. */
uint32_t run_flags_notes(const struct run_flags *f, void (*note)(void *data, const char *text),
                         void *data);

/* The command of a worker, as to exec: python3 for a .py script, an executable as it is. On
 * success *argv_out is the caller's, to be freed with free(); its strings are borrowed.
 * MU_ENOENT, MU_EINVAL: error (OPTS_ERROR_MAX) says what to do. */
int run_command(const struct run_flags *f, char ***argv_out, char *error);

#endif
