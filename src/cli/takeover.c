/* `muster takeover`: the operator's word that the members that are out of touch are dead. */
#include "cli/ask.h"

#include <stdio.h>
#include <stdlib.h>

struct takeover_options {
    struct ask_where where;
};

static const struct opt table[] = {
    ASK_OPTIONS(struct takeover_options, where),
    {.type = OPT_END},
};

static const struct opts spec = {
    .command = "takeover",
    .usage = "[OPTIONS] JOB",
    .about = "Starts the job over from its newest checkpoint (or from the beginning, if there is "
             "none), without waiting any longer for members that are out of touch.\n"
             "This is your word that those members are dead. If one of them still trains, its "
             "work is lost. Members that live and are in touch are never taken over.",
    .examples = "  muster takeover default\n",
    .table = table,
    .words_min = 1,
    .words_max = 1,
};

int takeover_main(int argc, char **argv)
{
    struct takeover_options o = {0};
    struct msg_admin msg = {.verb = ADMIN_TAKEOVER};
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
        printf("job %s no longer waits for members that are out of touch\n", msg.job);
    }
    return status;
}
