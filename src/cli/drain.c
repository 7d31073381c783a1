/* `muster drain`: a node leaves its job at the next boundary, cleanly. */
#include "cli/ask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct drain_options {
    struct ask_where where;
    const char *job;
};

static const struct opt table[] = {
    {OPT_STRING, .name = "job", .value = "JOB",
     .help = "the node's job; needed only if several jobs have a node of that name",
     .at = offsetof(struct drain_options, job)},
    ASK_OPTIONS(struct drain_options, where),
    {.type = OPT_END},
};

static const struct opts spec = {
    .command = "drain",
    .usage = "[OPTIONS] NODE",
    .about = "Asks a node to leave: at the next boundary its workers are out of the job, nothing "
             "is lost, and its agent exits. The command returns once the request is kept; `muster "
             "events --follow` shows when the node is gone.",
    .examples = "  muster drain node7\n"
                "  muster drain --job default node7\n",
    .table = table,
    .words_min = 1,
    .words_max = 1,
};

int drain_main(int argc, char **argv)
{
    struct drain_options o = {0};
    struct msg_ask msg = {.kind = ASK_DRAIN};
    char node[NAME_MAX_LEN];
    struct opts_words words;
    int status;

    if (!opts_parse(&spec, argc, argv, &o, &words, &status)) {
        return status;
    }
    status = ask_name(&spec, "node", words.words[0], node);
    if (status == EXIT_SUCCESS && o.job != NULL) {
        status = ask_name(&spec, "job", o.job, msg.job);
    }
    if (status == EXIT_SUCCESS) {
        strcpy(msg.topic, node);
        status = ask_admin(spec.command, &o.where, &msg);
    }
    if (status == EXIT_SUCCESS) {
        printf("node %s leaves its job at the next boundary\n", node);
    }
    return status;
}
