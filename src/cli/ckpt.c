/* `muster ckpt`: what is in a folder of checkpoints, or with the orchestrator. A folder needs no
 * orchestrator, and a run that saves there meanwhile is not disturbed. */
#include "cli/ask.h"
#include "cli/ckpt_cmd.h"
#include "cli/ckpt_text.h"
#include "cli/depot_line.h"
#include "cli/suggest.h"

#include <string.h>

#define AT(field) .at = offsetof(struct ckpt_call, field)

static const struct opt table[] = {
    {OPT_STRING, .name = "to", .value = "PATH", AT(to),
     .help = "export: the file to make, FILE.npz, or with --raw the folder"},
    {OPT_FLAG, .name = "raw", AT(raw), .help = "export: a file of bytes for each part"},
    {OPT_FLAG, .name = "f32", AT(f32),
     .help = "export: arrays of 4-byte floats, of parts whose length allows it, not of bytes"},
    {OPT_FLAG, .name = "all", AT(all), .help = "verify: all of the job's checkpoints"},
    {OPT_FLAG, .name = "force", AT(force),
     .help = "rm: also the last one that is left; export: replace a file that is there"},
    {OPT_FLAG, .name = "json", AT(json),
     .help = "ls, show, verify: one JSON object per line and checkpoint"},
    ASK_OPTIONS(struct ckpt_call, where),
    {.type = OPT_END},
};

static const struct opts spec = {
    .command = "ckpt",
    .usage = "[OPTIONS] ls|show|verify|rm|export DIR [JOB [STEP…]], or: save JOB",
    .about =
        "Lists, shows, verifies, removes and exports the checkpoints that runs save in a folder "
        "(\"muster run --ckpt-dir DIR\"), or leave with the orchestrator: say orchestrator: in "
        "place of DIR. STEP is the newest one unless it is given.\n"
        "ls reads what each checkpoint says of itself; verify reads all of it, and names the first "
        "chunk that is not what was written. rm never removes the last one of a job without "
        "--force. export makes a .npz file, which numpy.load() opens, or with --raw a folder with "
        "a file for each part.\n"
        "save asks the workers of a running job for one now; see \"muster ckpt save --help\".",
    .examples = "  muster ckpt save default\n"
                "  muster ckpt ls /data/ckpt\n"
                "  muster ckpt ls orchestrator: --endpoint head:5556\n"
                "  muster ckpt show /data/ckpt default\n"
                "  muster ckpt verify /data/ckpt default --all\n"
                "  muster ckpt rm /data/ckpt default 1000 1200\n"
                "  muster ckpt export /data/ckpt default --to model.npz --f32\n",
    .table = table,
    .words_min = 1,
    .words_max = UINT32_MAX,
};

static const struct verb {
    const char *name;
    const char *usage;
    uint32_t words_min, words_max; /* DIR, JOB and STEPs */
    int (*run)(const struct ckpt_call *c);
} verbs[] = {
    {"ls", "DIR [JOB]", 1, 2, ckpt_cmd_ls},
    {"show", "DIR JOB [STEP]", 2, 3, ckpt_cmd_show},
    {"verify", "DIR JOB [STEP | --all]", 2, 3, ckpt_cmd_verify},
    {"rm", "DIR JOB STEP…", 3, UINT32_MAX, ckpt_cmd_rm},
    {"export", "DIR JOB [STEP] --to PATH", 2, 3, ckpt_cmd_export},
};

static const struct verb *find_verb(const char *name, struct suggestion *s)
{
    suggest_begin(s, name);
    suggest_offer(s, "save");
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
        if (strcmp(verbs[i].name, name) == 0) {
            return &verbs[i];
        }
        suggest_offer(s, verbs[i].name);
    }
    return NULL;
}

/* The options that this verb has no use for would not do what they seem to. */
static int check_options(const struct verb *v, const struct ckpt_call *c)
{
    const struct {
        bool given;
        const char *flag, *verbs;
    } rules[] = {
        {c->to != NULL, "to", "export"},
        {c->raw, "raw", "export"},
        {c->f32, "f32", "export"},
        {c->all, "all", "verify"},
        {c->force, "force", "rm and export"},
        {c->json, "json", "ls, show and verify"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        if (rules[i].given && strstr(rules[i].verbs, v->name) == NULL) {
            return opts_usage_error(&spec, "--%s is for %s", rules[i].flag, rules[i].verbs);
        }
    }
    if (c->all && c->steps_n > 0) {
        return opts_usage_error(&spec, "--all and STEP exclude each other");
    }
    return EXIT_SUCCESS;
}

static int check_target(const struct ckpt_call *c)
{
    bool npz;

    if (c->to == NULL || *c->to == '\0') {
        return opts_usage_error(&spec, "export needs --to: FILE.npz, or --raw and a folder");
    }
    npz = ckpt_text_ends(c->to, ".npz");
    if (c->raw && (npz || c->f32)) {
        return opts_usage_error(&spec, npz ? "--raw makes a folder; leave it out for a .npz file"
                                           : "--f32 is for .npz files; raw bytes have no type");
    }
    if (c->raw && c->force) {
        return opts_usage_error(&spec, "--force replaces a .npz file, but no folder");
    }
    if (!c->raw && !npz) {
        return opts_usage_error(&spec,
                                "--to %.200s: name a file that ends in .npz, or say --raw for a "
                                "folder of files",
                                c->to);
    }
    return EXIT_SUCCESS;
}

static int take_words(const struct verb *v, const struct opts_words *words, struct ckpt_call *c)
{
    char job[NAME_MAX_LEN];
    uint64_t step;
    uint32_t n = words->n - 1;
    int status;

    if (n < v->words_min || n > v->words_max) {
        return opts_usage_error(&spec, "%s\nusage: muster ckpt %s %s",
                                n < v->words_min ? "a word is missing" : "a word too many", v->name,
                                v->usage);
    }
    c->dir = words->words[1];
    if (*c->dir == '\0') {
        return opts_usage_error(&spec, "the name of the folder is empty");
    }
    if (n == 1) {
        return EXIT_SUCCESS;
    }
    c->job = words->words[2];
    status = ask_name(&spec, "job", c->job, job);
    if (status != EXIT_SUCCESS) {
        return status;
    }
    if (c->job[0] == '.') {
        return opts_usage_error(&spec, "'%s' is no job with checkpoints: it begins with a dot",
                                c->job);
    }
    c->steps = words->words + 3;
    c->steps_n = n - 2;
    for (uint32_t i = 0; i < c->steps_n; i++) {
        if (!ckpt_text_step(c->steps[i], &step)) {
            return opts_usage_error(&spec, "'%.80s' is no step: it wants a number from 1",
                                    c->steps[i]);
        }
    }
    return EXIT_SUCCESS;
}

/* ---- the one that asks a running job ---- */

static const struct opts save_spec = {
    .command = "ckpt save",
    .usage = "[OPTIONS] JOB",
    .about = "Asks the workers of a job to save a checkpoint after their next step. They do so "
             "where \"muster run --ckpt-dir\" said; \"muster events\" tells when it is there.",
    .examples = "  muster ckpt save default\n",
    .table = ask_job_table,
    .words_min = 1,
    .words_max = 1,
};

static int save_main(int argc, char **argv)
{
    return ask_job_main(&save_spec, ASK_SAVE, "saves a checkpoint after its next step", argc, argv);
}

static int run_verb(const struct verb *v, struct ckpt_call *c)
{
    struct depot_call call;
    int status;

    if (!ckpt_place_is_depot(c->dir)) {
        return v->run(c);
    }
    status = depot_call_open(spec.command, &c->where, &call, &c->depot);
    if (status == EXIT_SUCCESS) {
        status = v->run(c);
        depot_close(c->depot);
    }
    return status;
}

int ckpt_main(int argc, char **argv)
{
    struct ckpt_call c = {0};
    struct opts_words words;
    struct suggestion near;
    const struct verb *v;
    int status;

    if (argc > 1 && strcmp(argv[1], "save") == 0) {
        return save_main(argc - 1, argv + 1);
    }
    if (!opts_parse(&spec, argc, argv, &c, &words, &status)) {
        return status;
    }
    v = find_verb(words.words[0], &near);
    if (v == NULL) {
        return opts_usage_error(&spec, "there is no 'ckpt %.40s'%s%s%s", words.words[0],
                                near.best != NULL ? ". Did you mean '" : "",
                                near.best != NULL ? near.best : "", near.best != NULL ? "'?" : "");
    }
    status = take_words(v, &words, &c);
    if (status == EXIT_SUCCESS) {
        status = check_options(v, &c);
    }
    if (status == EXIT_SUCCESS && v->run == ckpt_cmd_export) {
        status = check_target(&c);
    }
    return status == EXIT_SUCCESS ? run_verb(v, &c) : status;
}
