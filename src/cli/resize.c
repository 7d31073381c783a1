/* `muster resize`: how many nodes a job is to have. It is the setting `size`. */
#include "cli/ask.h"
#include "core/config.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct resize_options {
    struct ask_where where;
    const char *job;
};

static const struct opt table[] = {
    {OPT_STRING, .name = "job", .value = "JOB", .help = "which job (default: default)",
     .at = offsetof(struct resize_options, job)},
    ASK_OPTIONS(struct resize_options, where),
    {.type = OPT_END},
};

static const struct opts spec = {
    .command = "resize",
    .usage = "[OPTIONS] N|auto",
    .about = "Sets how many nodes a job is to have: those that are too many leave at the next "
             "boundary, and wait; those that are missing are taken in as they come. \"auto\" is as "
             "many as there are, up to the job's max. The command returns once the wish is kept.\n"
             "It is the setting \"size\"; `muster config` has it and others.",
    .examples = "  muster resize 3\n"
                "  muster resize auto --job big\n",
    .table = table,
    .words_min = 1,
    .words_max = 1,
};

static struct msg_ask question(enum ask_kind kind, const char *job, const char *key)
{
    struct msg_ask m = {.kind = (uint16_t)kind, .at = CONFIG_ANY};

    strcpy(m.job, job);
    strcpy(m.topic, key);
    return m;
}

static bool is_set(struct ask *a, const char *job, const char *key)
{
    const struct msg_ask m = question(ASK_SETTING_GET, job, key);
    const struct msg_says *says;

    return ask_say(a, &m, NULL) == EXIT_SUCCESS && ask_next(a, a->wait_ms, &says) == EXIT_SUCCESS &&
           says->status == MU_OK;
}

static int change(struct ask *a, const char *job, const struct body_setting *to)
{
    const struct msg_ask m = question(ASK_SETTING_CHANGE, job, "size");
    const struct msg_says *says;

    return ask_call(a, &m, to, &says);
}

static int set(struct ask *a, const char *job, const char *size)
{
    const struct body_setting to = {.value = (uint8_t *)(uintptr_t)size,
                                    .value_n = (uint32_t)strlen(size)};

    return change(a, job, &to);
}

/* There may be nothing to remove. */
static int set_auto(struct ask *a, const char *job)
{
    const struct msg_ask m = question(ASK_SETTING_LIST, job, "size");
    const struct body_setting none = {.deleted = true};
    const struct msg_says *says;
    int status = ask_call(a, &m, NULL, &says); /* Is there such a job? */

    if (status != EXIT_SUCCESS || !is_set(a, job, "size")) {
        return status;
    }
    return change(a, job, &none);
}

static void say_done(struct ask *a, const char *job, const char *size)
{
    if (strcmp(size, "auto") == 0) {
        printf("job %s is to have as many nodes as there are, up to its max\n", job);
    } else {
        printf("job %s is to have %s node%s\n", job, size, strcmp(size, "1") == 0 ? "" : "s");
    }
    if (is_set(a, job, "members")) {
        ask_failed(spec.command, EXIT_SUCCESS,
                   "but the setting `members` names the nodes that stay, and the size counts only "
                   "once that is gone: muster config rm members --job %s",
                   job);
    } else if (strcmp(size, "auto") == 0 && is_set(a, job, "schedule")) {
        ask_failed(
            spec.command, EXIT_SUCCESS,
            "but there is a schedule, which rules now: `muster config get schedule --job %s` "
            "shows it, `… rm schedule` removes it",
            job);
    }
}

int resize_main(int argc, char **argv)
{
    struct resize_options o = {.job = "default"};
    char job[NAME_MAX_LEN];
    struct opts_words words;
    struct ask a = {0};
    const char *size;
    uint64_t ignored;
    bool is_auto;
    int status;

    if (!opts_parse(&spec, argc, argv, &o, &words, &status)) {
        return status;
    }
    size = words.words[0];
    is_auto = strcmp(size, "auto") == 0;
    if (!is_auto && !text_number(size, strlen(size), 1, MEMBERS_MAX, &ignored)) {
        return opts_usage_error(&spec, "'%.40s' is no number of nodes: 1 or more, or auto", size);
    }
    status = ask_name(&spec, "job", o.job, job);
    if (status == EXIT_SUCCESS) {
        status = ask_open(spec.command, &o.where, &a);
    }
    if (status == EXIT_SUCCESS) {
        status = is_auto ? set_auto(&a, job) : set(&a, job, size);
    }
    if (status == EXIT_SUCCESS) {
        say_done(&a, job, size);
    }
    ask_close(&a);
    return status;
}
