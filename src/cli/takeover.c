/* `muster takeover`: the operator's word that the members that are out of touch are dead. */
#include "cli/ask.h"

static const struct opts spec = {
    .command = "takeover",
    .usage = "[OPTIONS] JOB",
    .about = "Starts the job over from its newest checkpoint (or from the beginning, if there is "
             "none), without waiting any longer for members that are out of touch.\n"
             "This is your word that those members are dead. If one of them still trains, its "
             "work is lost. Members that live and are in touch are never taken over.",
    .examples = "  muster takeover default\n",
    .table = ask_job_table,
    .words_min = 1,
    .words_max = 1,
};

int takeover_main(int argc, char **argv)
{
    return ask_job_main(&spec, ASK_TAKEOVER, "no longer waits for members that are out of touch",
                        argc, argv);
}
