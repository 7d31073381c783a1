/* `muster status`: who is in which job, and how it stands. */
#include "base/env.h"
#include "cli/ask.h"
#include "cli/status_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct status_options {
    struct ask_where where;
    bool orchestrator;
    bool json;
};

static const struct opt table[] = {
    {OPT_FLAG, .name = "json", .help = "as JSON, one object per line and job",
     .at = offsetof(struct status_options, json)},
    {OPT_FLAG, .name = "orchestrator",
     .help = "the orchestrator itself instead: journal, connections, those it refused",
     .at = offsetof(struct status_options, orchestrator)},
    ASK_OPTIONS(struct status_options, where),
    {.type = OPT_END},
};

static const struct opts spec = {
    .command = "status",
    .usage = "[OPTIONS] [JOB]",
    .about = "Shows a job, or all of them: the generation, its members by rank, and the workers "
             "that wait to be members.",
    .examples = "  muster status\n"
                "  muster status default --json | jq '.members | length'\n"
                "  muster status --endpoint head:5556 --token-file muster.token\n",
    .table = table,
    .words_max = 1,
};

static bool wants_colours(void)
{
    const char *term = getenv("TERM");

    return isatty(STDOUT_FILENO) && env_text("NO_COLOR") == NULL &&
           (term == NULL || strcmp(term, "dumb") != 0);
}

static void print_json(const json_t *object)
{
    json_dumpf(object, stdout, JSON_COMPACT);
    putchar('\n'); /* main() tells if the output could not be written. */
}

static void print_jobs(json_t *answer, bool json)
{
    json_t *jobs = status_jobs(answer);
    json_t *job;
    size_t i;

    if (json_array_size(jobs) == 0 && !json) {
        printf("no jobs yet: `muster run` starts one\n");
    }
    json_array_foreach(jobs, i, job)
    {
        if (json) {
            print_json(job);
            continue;
        }
        printf("%s", i > 0 ? "\n" : "");
        status_print(job, wants_colours());
    }
    json_decref(jobs);
}

static void print_answer(const struct status_options *o, json_t *answer)
{
    const json_t *self = json_object_get(answer, "orchestrator");

    if (!o->orchestrator) {
        print_jobs(answer, o->json);
    } else if (o->json) {
        print_json(self);
    } else {
        status_print_self(self);
    }
}

int status_main(int argc, char **argv)
{
    struct status_options o = {0};
    char job[NAME_MAX_LEN] = "";
    struct opts_words words;
    struct ask a = {0};
    json_t *answer = NULL;
    int status;

    if (!opts_parse(&spec, argc, argv, &o, &words, &status)) {
        return status;
    }
    if (words.n > 0 && o.orchestrator) {
        return opts_usage_error(&spec, "--orchestrator and JOB exclude each other");
    }
    if (words.n > 0) {
        status = ask_name(&spec, "job", words.words[0], job);
        if (status != EXIT_SUCCESS) {
            return status;
        }
    }
    status = ask_open(spec.command, &o.where, &a);
    if (status == EXIT_SUCCESS) {
        status = ask_status(&a, job, &answer);
    }
    ask_close(&a);
    if (status == EXIT_SUCCESS) {
        print_answer(&o, answer);
        json_decref(answer);
    }
    return status;
}
