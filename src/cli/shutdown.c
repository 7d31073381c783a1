/* `muster shutdown`: ends a job. */
#include "cli/ask.h"

static const struct opts spec = {
    .command = "shutdown",
    .usage = "[OPTIONS] JOB",
    .about = "Ends the present run of a job: every agent stops its workers and exits. The "
             "orchestrator goes on; the next `muster run` of the job starts its next run.",
    .examples = "  muster shutdown default\n",
    .table = ask_job_table,
    .words_min = 1,
    .words_max = 1,
};

int shutdown_main(int argc, char **argv)
{
    return ask_job_main(&spec, ASK_SHUTDOWN, "ends", argc, argv);
}
