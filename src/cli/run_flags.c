#include "cli/run_flags.h"

#include "cli/cli.h"
#include "core/text.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int read_nnodes(const char *text, void *to, char *error)
{
    struct run_nnodes *out = to;
    const char *colon = strchr(text, ':');
    size_t min_n = colon != NULL ? (size_t)(colon - text) : strlen(text);
    uint64_t min, max;

    if (!text_number(text, min_n, 1, MEMBERS_MAX, &min)) {
        return MU_EINVAL;
    }
    max = min;
    if (colon != NULL && !text_number(colon + 1, strlen(colon + 1), 1, MEMBERS_MAX, &max)) {
        return MU_EINVAL;
    }
    if (max < min) {
        snprintf(error, OPTS_ERROR_MAX, "the least number of nodes comes first, as in %u:%u",
                 (unsigned)max, (unsigned)min);
        return MU_EINVAL;
    }
    *out = (struct run_nnodes){.min = (uint32_t)min, .max = (uint32_t)max, .given = true};
    return MU_OK;
}

static uint32_t cores(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) != 0) {
        return 1;
    }
    return MAX((uint32_t)CPU_COUNT(&set), 1);
}

static int read_nproc(const char *text, void *to, char *error)
{
    struct run_flags *f = to;
    uint64_t n;

    if (strcmp(text, "auto") == 0 || strcmp(text, "cpu") == 0) {
        n = cores();
        f->slots_cut = n > SLOTS_MAX;
        f->node.slots = (uint32_t)MIN(n, SLOTS_MAX);
        return MU_OK;
    }
    if (strcmp(text, "gpu") == 0 || strcmp(text, "xpu") == 0) {
        snprintf(error, OPTS_ERROR_MAX,
                 "muster does not count devices; say how many workers there are to be, "
                 "as in --nproc-per-node 8");
        return MU_EINVAL;
    }
    if (!text_number(text, strlen(text), 1, SLOTS_MAX, &n)) {
        return MU_EINVAL;
    }
    f->slots_cut = false;
    f->node.slots = (uint32_t)n;
    return MU_OK;
}

static int read_where(const char *text, void *to, char *error)
{
    struct run_where *out = to;
    int rc = opts_endpoints(text, &out->endpoints, error);

    out->given |= rc == MU_OK;
    return rc;
}

static int read_name(const char *text, void *to, char *error)
{
    if (!text_is_name(text, strlen(text))) {
        snprintf(error, OPTS_ERROR_MAX,
                 "%s is no name: 1 to %d letters, digits, '.', '_' or '-' make one",
                 text_quote(text, strlen(text)).text, NAME_MAX_LEN - 1);
        return MU_EINVAL;
    }
    *(const char **)to = text;
    return MU_OK;
}

static int read_role(const char *text, void *to, char *error)
{
    static const char *const names[ROLE_N] = {"worker", "chief", "ps", "evaluator"};
    struct node_config *node = to;

    node->role = ROLE_WORKER;
    node->role_name = text;
    for (uint8_t i = 0; i < ROLE_N; i++) {
        if (strcmp(text, names[i]) == 0) {
            node->role = i;
        }
    }
    return MU_OK;
}

/* "3", or "0:1,1:2" for some slots; the others are left as they are by default. */
static int read_streams(const char *text, void *to, char *error)
{
    struct run_streams out = {.given = true};
    uint64_t slot, std;

    if (strchr(text, ':') == NULL) {
        if (!text_number(text, strlen(text), 0, 3, &std)) {
            return MU_EINVAL;
        }
        memset(out.std, (int)std, sizeof(out.std));
        *(struct run_streams *)to = out;
        return MU_OK;
    }
    for (const char *at = text;;) {
        size_t n = strcspn(at, ",");
        size_t slot_n = strcspn(at, ":,");

        if (slot_n >= n || !text_number(at, slot_n, 0, SLOTS_MAX - 1, &slot) ||
            !text_number(at + slot_n + 1, n - slot_n - 1, 0, 3, &std)) {
            return MU_EINVAL;
        }
        out.std[slot] = (uint8_t)std;
        if (at[n] == '\0') {
            break;
        }
        at += n + 1;
    }
    *(struct run_streams *)to = out;
    return MU_OK;
}

#define AT(field) .at = offsetof(struct run_flags, field)

/* clang-format off */
static const struct opt table[] = {
    {OPT_GROUP, .help = "The job"},
    {OPT_READ, .name = "nnodes", .value = "MIN[:MAX]", AT(nnodes), .read = read_nnodes,
     .env = "PET_NNODES", .wants = "MIN or MIN:MAX, like 2 or 1:4",
     .help = "nodes that the job starts with at least, and has at most (default: 1:1)"},
    {OPT_READ, .name = "nproc-per-node", .value = "N|auto|cpu", .read = read_nproc,
     .env = "PET_NPROC_PER_NODE", .wants = "a number from 1 to 64, or auto",
     .help = "workers on this node; auto and cpu: one for each core (default: 1)"},
    {OPT_READ, .name = "job", .aliases = "rdzv-id", .value = "NAME", AT(node.job),
     .read = read_name, .env = "PET_RDZV_ID",
     .help = "which job to be part of (default: default)"},
    {OPT_READ, .name = "role", .value = "NAME", AT(node), .read = read_role, .env = "PET_ROLE",
     .help = "worker, chief, ps or evaluator; any other name is a worker that sees it as ROLE_NAME "
             "(default: default)"},
    {OPT_U32, .name = "max-restarts", AT(node.max_restarts), .shown = true,
     .env = "PET_MAX_RESTARTS",
     .help = "how often a worker of this node may fail by itself (exit 1 to 127) and be started "
             "again. Membership changes and kills do not count"},
    {OPT_CHOICE, .name = "mode", AT(node.mode), .choices = "auto|restart|inprocess", .shown = true,
     .help = "restart: scripts are started again for each change of members. inprocess: they use "
             "libmuster and live through it. auto: the first worker that joins makes it inprocess"},
    {OPT_SECONDS, .name = "silence", AT(node.silent_ms), .min = 1, .max = 86400000, .shown = true,
     .help = "auto: how long a script that has not joined is let alone before it is started again "
             "because others come or go as planned"},
    {OPT_FLAG, .name = "rerun", AT(node.rerun),
     .help = "if the job is done, run it again. A node that saw it end does so anyhow when it is "
             "started again; any other is told that it is done, for a while (\"muster serve "
             "--linger\")"},

    {OPT_GROUP, .help = "The orchestrator"},
    {OPT_READ, .name = "rdzv-endpoint", .aliases = "endpoint", .value = "HOST:PORT[,…]", AT(where),
     .read = read_where, .env = "MUSTER_ENDPOINT PET_RDZV_ENDPOINT",
     .help = "where it is; several are tried in turn (default: 127.0.0.1:5556)"},
    {OPT_STRING, .name = "token-file", .value = "FILE", AT(token_file), .env = "MUSTER_TOKEN_FILE",
     .help = "its secret. Without this it is taken from $MUSTER_TOKEN, or found where \"muster "
             "serve\" of the same user on this machine left it"},
    {OPT_FLAG, .name = "standalone", AT(node.standalone), .env = "PET_STANDALONE",
     .help = "no orchestrator: one inside, for this node alone"},

    {OPT_GROUP, .help = "This node"},
    {OPT_READ, .name = "node-name", .value = "NAME", AT(node.name), .read = read_name,
     .help = "(default: the host's name; a second agent on it is HOST-2, and so on)"},
    {OPT_STRING, .name = "address", .value = "HOST[:PORT]", AT(node.address),
     .help = "how other nodes reach this one. Slot i has PORT + i; without a port, each start gets "
             "a free one (default: the address that the orchestrator is reached from)"},
    {OPT_STRING, .name = "local-addr", .value = "HOST", AT(local_addr), .env = "PET_LOCAL_ADDR",
     .help = "the same without a port, by torchrun's name"},
    {OPT_STRING, .name = "master-addr", .value = "HOST", AT(node.master_addr),
     .env = "PET_MASTER_ADDR", .help = "MASTER_ADDR, instead of rank 0's address"},
    {OPT_U32, .name = "master-port", .value = "PORT", AT(master_port), .max = 65535,
     .env = "PET_MASTER_PORT",
     .help = "MASTER_PORT, instead of one that is free for each generation"},
    {OPT_SECONDS, .name = "monitor-interval", AT(node.monitor_ms), .min = 10, .max = 3600000,
     .shown = true, .env = "PET_MONITOR_INTERVAL", .help = "renew the lease at least this often"},
    {OPT_SECONDS, .name = "grace", AT(node.grace_ms), .max = 86400000, .shown = true,
     .help = "from SIGTERM to SIGKILL, when a worker is stopped. One that has left its generation "
             "because this node leaves has as long before that, to end by itself"},
    {OPT_SECONDS, .name = "exit-timeout", AT(node.exit_timeout_ms), .min = 1, .max = 86400000,
     .shown = true,
     .help = "once a worker of the job has succeeded, the others have this long to end"},
    {OPT_SECONDS, .name = "step-timeout", AT(node.step_timeout_ms), .min = 1, .max = 86400000,
     .help = "a worker that does nothing for this long, while others wait for it, hangs: they go on "
             "without it (default: they wait)"},
    {OPT_CHOICE, .name = "hung", AT(node.hung), .choices = "replace|keep", .shown = true,
     .help = "with --step-timeout, what becomes of a worker of this node that hangs: another takes "
             "its place, or it stays as it is, to be looked at"},
    {OPT_CHOICE, .name = "numerics", AT(node.numerics), .choices = "strict|warn", .shown = true,
     .env = "MUSTER_NUMERICS",
     .help = "a worker whose results may differ in their last bits from the others' (another CPU, "
             "BLAS or libc) is refused, or only warned"},

    {OPT_GROUP, .help = "Checkpoints, of workers that use libmuster"},
    {OPT_READ, .name = "ckpt-dir", .value = "DIR", AT(node.ckpt.dir), .read = run_ckpt_read_dir,
     .env = "MUSTER_CKPT_DIR", .wants = "a folder, or orchestrator:",
     .help = "save the state of the run there, and go on from the newest that is there; "
             "\"orchestrator:\" is for the orchestrator to keep"},
    {OPT_READ, .name = "ckpt-every", .value = "N|TIME", AT(node.ckpt.every),
     .read = run_ckpt_read_every, .env = "MUSTER_CKPT_EVERY", .wants = RUN_CKPT_EVERY_WANTS,
     .help = "how often: in steps, or a time like 90s, 10m or 1h (default: 10m)"},
    {OPT_U32, .name = "ckpt-keep", .value = "K", AT(node.ckpt.keep), .min = 1,
     .env = "MUSTER_CKPT_KEEP", .help = "how many to keep, the newest (default: 3)"},
    {OPT_U32, .name = "ckpt-keep-every", .value = "M", AT(node.ckpt.keep_every),
     .env = "MUSTER_CKPT_KEEP_EVERY",
     .help = "keep those too whose step is a multiple of M (default: 0, none)"},
    {OPT_FLAG, .name = "ckpt-shared", AT(node.ckpt.shared), .env = "MUSTER_CKPT_SHARED",
     .help = "all nodes see the same DIR: their workers write one checkpoint together, not one on "
             "each host"},
    {OPT_FLAG, .name = "ckpt-zstd", AT(node.ckpt.zstd), .env = "MUSTER_CKPT_ZSTD",
     .help = "compress what is saved"},
    {OPT_FLAG, .name = "heal", AT(node.heal), .env = "MUSTER_HEAL",
     .help = "when the states of the workers differ, and more than half of them are alike, go back "
             "to the last checkpoint whose state all of them had, instead of ending the job. Say "
             "it on every node"},
    {OPT_FLAG, .name = "keep-in-memory", AT(node.ckpt.memory),
     .help = "keep the newest state in this host's memory, too: if all workers die and the host "
             "lives, one step is done again at most. Needs no --ckpt-dir, and room for two states"},

    {OPT_GROUP, .help = "The script"},
    {OPT_FLAG, .letter = 'm', .name = "module", AT(module), .env = "PET_MODULE",
     .help = "SCRIPT is a Python module, run as python3 -m"},
    {OPT_FLAG, .name = "no-python", AT(no_python), .env = "PET_NO_PYTHON",
     .help = "run SCRIPT as it is, even if it is named .py"},
    {OPT_FLAG, .name = "run-path", AT(run_path), .env = "PET_RUN_PATH",
     .help = "run SCRIPT with Python's runpy.run_path, whatever its name"},

    {OPT_GROUP, .help = "Output"},
    {OPT_STRING, .name = "log-dir", .value = "DIR", AT(node.log_dir), .env = "PET_LOG_DIR",
     .help = "keep the workers' output in files there; without -r or -t, as -t 3"},
    {OPT_READ, .letter = 'r', .name = "redirects", .value = "STD", AT(redirects),
     .read = read_streams, .env = "PET_REDIRECTS", .wants = "0 to 3, or a list like 0:1,1:3",
     .help = "to files and not to the console: 0 nothing, 1 stdout, 2 stderr, 3 both; or by slot, "
             "0:1,1:3"},
    {OPT_READ, .letter = 't', .name = "tee", .value = "STD", AT(tee), .read = read_streams,
     .env = "PET_TEE", .wants = "0 to 3, or a list like 0:1,1:3",
     .help = "to files and to the console; as -r"},
    {OPT_FLAG, .name = "prefix", AT(node.prefix),
     .help = "begin lines on the console with [RANK]; --no-prefix: do not (default: on)"},

    {OPT_STRING, .hidden = true, .name = "rdzv-backend", AT(ignored.rdzv_backend),
     .env = "PET_RDZV_BACKEND"},
    {OPT_STRING, .hidden = true, .name = "rdzv-conf", AT(ignored.rdzv_conf),
     .env = "PET_RDZV_CONF"},
    {OPT_STRING, .hidden = true, .name = "start-method", AT(ignored.start_method),
     .env = "PET_START_METHOD"},
    {OPT_STRING, .hidden = true, .name = "node-rank", AT(ignored.node_rank),
     .env = "PET_NODE_RANK"},
    {OPT_STRING, .hidden = true, .name = "local-ranks-filter", AT(ignored.local_ranks_filter),
     .env = "PET_LOCAL_RANKS_FILTER"},
    {OPT_STRING, .hidden = true, .name = "event-log-handler", AT(ignored.event_log_handler),
     .env = "PET_EVENT_LOG_HANDLER"},
    {OPT_STRING, .hidden = true, .name = "logs-specs", AT(ignored.logs_specs),
     .env = "PET_LOGS_SPECS"},
    {OPT_STRING, .hidden = true, .name = "signals-to-handle", AT(ignored.signals_to_handle),
     .env = "PET_SIGNALS_TO_HANDLE"},
    {OPT_STRING, .hidden = true, .name = "numa-binding", AT(ignored.numa_binding),
     .env = "PET_NUMA_BINDING"},
    {OPT_FLAG, .hidden = true, .name = "use-env", AT(ignored.use_env), .env = "PET_USE_ENV"},
    {OPT_FLAG, .hidden = true, .name = "virtual-local-rank", AT(ignored.virtual_local_rank),
     .env = "PET_VIRTUAL_LOCAL_RANK"},
    {OPT_END, .name = NULL},
};
/* clang-format on */

const struct opts run_opts = {
    .command = "run",
    .usage = "[OPTIONS] SCRIPT [ARGUMENTS]",
    .about =
        "Makes this machine a node of a job: joins it at the orchestrator (see \"muster serve\"), "
        "starts SCRIPT with RANK, WORLD_SIZE, MASTER_ADDR, TF_CONFIG and so on in its environment, "
        "and starts it again whenever nodes come, go or fail.\n"
        "\n"
        "Flags are torchrun's and TensorFlow Elastic's, with - or _ between words, and come before "
        "SCRIPT; everything after it, or after --, is the script's. A script named .py runs under "
        "python3 (or $PYTHON_EXEC), any other as it is. What else torchrun takes (--rdzv-backend, "
        "--rdzv-conf, --node-rank, …) is accepted and ignored with a note.\n"
        "\n"
        "SIGTERM, SIGINT, SIGHUP and SIGUSR1 drain the node: it leaves the job cleanly and exits. "
        "A second SIGTERM or SIGINT stops it at once.\n"
        "\n"
        "Exit status: 0 the job is done, or the node was drained; 1 the node was refused, or the "
        "job failed; the script's own when that has failed too often; 2 the command line is wrong; "
        "128 + n stopped at once by signal n.",
    .examples =
        "  muster run --nnodes=1:4 train.py --lr 0.1\n"
        "  muster run --nnodes=2 --nproc-per-node=8 --rdzv-endpoint=head:5556 -m pkg.train\n"
        "  muster run --standalone --nproc-per-node=2 -- ./trainer --steps 100\n"
        "  muster run --job night --log-dir logs --redirects 3 train.py\n"
        "  muster run --ckpt-dir /data/ckpt --ckpt-every 500 train.py\n",
    .table = table,
    .stop_at_word = true,
    .words_min = 1,
    .words_max = UINT32_MAX,
};

static void defaults(struct run_flags *f)
{
    memset(f, 0, sizeof(*f));
    f->nnodes.min = f->nnodes.max = 1;
    strcpy(f->where.endpoints.at[0].host, "127.0.0.1");
    f->where.endpoints.at[0].port = CLI_PORT;
    f->where.endpoints.n = 1;
    f->node = (struct node_config){.job = "default",
                                   .slots = 1,
                                   .role = ROLE_WORKER,
                                   .role_name = "default",
                                   .mode = MODE_AUTO,
                                   .silent_ms = 60000,
                                   .max_restarts = 3,
                                   .monitor_ms = 2000,
                                   .grace_ms = 30000,
                                   .exit_timeout_ms = 300000,
                                   .prefix = true};
}

static void streams_set(const struct run_streams *s, uint8_t to[SLOTS_MAX][2])
{
    for (uint32_t i = 0; i < SLOTS_MAX; i++) {
        to[i][0] = s->std[i] & 1;
        to[i][1] = s->std[i] >> 1 & 1;
    }
}

/* What follows from several flags together. */
static bool settle(struct run_flags *f, int *status_out)
{
    char error[OPTS_ERROR_MAX];

    if (f->module && f->no_python) {
        *status_out = opts_usage_error(&run_opts, "--module and --no-python exclude each other");
        return false;
    }
    if (f->node.standalone && f->nnodes.min > 1) {
        *status_out = opts_usage_error(
            &run_opts,
            "--standalone is a job of one node, and --nnodes wants %u: start \"muster "
            "serve\" and leave --standalone out",
            f->nnodes.min);
        return false;
    }
    if (run_ckpt_settle(f, error) != MU_OK) {
        *status_out = opts_usage_error(&run_opts, "%s", error);
        return false;
    }
    f->node.min = f->nnodes.min;
    f->node.max = f->node.standalone ? 1 : f->nnodes.max;
    f->node.endpoints = f->where.endpoints;
    f->node.master_port = (uint16_t)f->master_port;
    if (f->node.address == NULL) {
        f->node.address = f->local_addr;
    }
    if (f->node.log_dir != NULL && !f->redirects.given && !f->tee.given) {
        memset(f->tee.std, 3, sizeof(f->tee.std));
    }
    streams_set(&f->redirects, f->node.redirects);
    streams_set(&f->tee, f->node.tee);
    return true;
}

bool run_flags_parse(int argc, char **argv, struct run_flags *flags_out, int *status_out)
{
    struct opts_words words;

    defaults(flags_out);
    if (!opts_parse(&run_opts, argc, argv, flags_out, &words, status_out)) {
        return false;
    }
    flags_out->words = words.words;
    flags_out->words_n = words.n;
    return settle(flags_out, status_out);
}
