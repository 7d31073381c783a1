/* `muster shutdown`: ends a job. */
#include "cli/ask.h"

#include <stdio.h>
#include <stdlib.h>

struct shutdown_options {
    struct ask_where where;
};

static const struct opt table[] = {
    ASK_OPTIONS(struct shutdown_options, where),
    {.type = OPT_END},
};

static const struct opts spec = {
    .command = "shutdown",
    .usage = "[OPTIONS] JOB",
    .about = "Ends the present run of a job: every agent stops its workers and exits. The "
             "orchestrator goes on; the next `muster run` of the job starts its next run.",
    .examples = "  muster shutdown default\n",
    .table = table,
    .words_min = 1,
    .words_max = 1,
};

int shutdown_main(int argc, char **argv)
{
    struct shutdown_options o = {0};
    struct msg_admin msg = {.verb = ADMIN_SHUTDOWN};
    struct opts_words words;
    int status;

    if (!opts_parse(&spec, argc, argv, &o, &words, &status)) {
        return status;
    }
    status = ask_name(&spec, "job", words.words[0], msg.job);
    if (status == EXIT_SUCCESS) {
        status = ask_admin(spec.command, &o.where, &msg);
    }
    if (status == EXIT_SUCCESS) {
        printf("job %s ends\n", msg.job);
    }
    return status;
}
