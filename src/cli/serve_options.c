#include "cli/ask.h"
#include "cli/serve.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The room between the end of all leases of a lost generation and its takeover. */
#define TAKEOVER_SPARE_MS 15000

#define HTTP_PORT 5580

static int read_http(const char *text, void *to, char *error)
{
    struct web_config *web = to;
    int rc = endpoint_parse(text, HTTP_PORT, &web->listen, error);

    web->wanted = rc == MU_OK;
    return rc;
}

/* A list with commas, added to what is there. */
static int read_hosts(const char *text, void *to, char *error)
{
    struct serve_hosts *hosts = to;

    for (;;) {
        const size_t n = strcspn(text, ",");

        if (n == 0 || n >= HOST_MAX_LEN) {
            return MU_EINVAL;
        }
        if (hosts->n == SERVE_HOSTS_MAX) {
            snprintf(error, OPTS_ERROR_MAX, "--http-host: more than %d names", SERVE_HOSTS_MAX);
            return MU_ELIMIT;
        }
        snprintf(hosts->text[hosts->n], HOST_MAX_LEN, "%.*s", (int)n, text);
        hosts->n++;
        if (text[n] == '\0') {
            return MU_OK;
        }
        text += n + 1;
    }
}

/* "500M", "50G": 1024 each. */
static int read_size(const char *text, void *to, char *error)
{
    static const char units[] = "KMGTP";
    const size_t n = strspn(text, "0123456789");
    const char *unit = text[n] != '\0' ? strchr(units, text[n]) : NULL;
    const unsigned shift = unit != NULL ? 10 * (unsigned)(unit - units + 1) : 0;
    uint64_t bytes;

    if (!text_number(text, n, 1, UINT64_MAX >> shift, &bytes) ||
        (unit != NULL ? text[n + 1] : text[n]) != '\0') {
        return MU_EINVAL;
    }
    *(uint64_t *)to = bytes << shift;
    return MU_OK;
}

#define AT(field) .at = offsetof(struct serve_options, field)

static const struct opt table[] = {
    {OPT_GROUP, .help = "Network"},
    {OPT_READ, .name = "listen", .value = "ADDR:PORT", .help = "where agents and commands connect",
     AT(config.listen), .preset = CLI_ENDPOINT, .read = opts_endpoint},
    {OPT_READ, .name = "http", .value = "ADDR:PORT",
     .help =
         "serve HTTP here: health, metrics, jobs, events, settings; port 5580 if none is given. "
         "`muster help http` lists what there is (default: no HTTP)",
     AT(config.web), .read = read_http},
    {OPT_STRING, .name = "http-cert", .value = "FILE",
     .help = "certificate chain, as PEM: HTTP becomes HTTPS, and may then listen on any address",
     AT(config.web.cert_file)},
    {OPT_STRING, .name = "http-key", .value = "FILE", .help = "the certificate's key, as PEM",
     AT(config.web.key_file)},
    {OPT_READ, .name = "http-host", .value = "NAME,…",
     .help = "names that clients reach it by, besides localhost and IP addresses; may be repeated",
     AT(hosts), .wants = "names of this machine, separated by commas", .read = read_hosts},
    {OPT_GROUP, .help = "State and trust"},
    {OPT_STRING, .name = "data", .value = "DIR",
     .help = "of the journal and the token; made if missing (default: $XDG_STATE_HOME/muster or "
             "~/.local/state/muster)",
     AT(data_arg)},
    {OPT_STRING, .name = "token-file", .value = "FILE",
     .help = "holds the secret that agents and commands must know; must be yours alone (default: "
             "DIR/token, made on the first start)",
     AT(token_arg)},
    {OPT_FLAG, .name = "adopt",
     .help = "take in agents of another data directory, as newcomers, instead of refusing them",
     AT(config.cluster.adopt)},
    {OPT_READ, .name = "ckpt-quota", .value = "SIZE",
     .help =
         "bytes of checkpoints that it keeps for jobs (--ckpt-dir orchestrator:), all together: "
         "500M, 50G (default: as many as leave 1G of the disk free, or a twentieth of it if that "
         "is "
         "more)",
     AT(config.ckpt_quota), .wants = "a size like 500M or 50G", .read = read_size},
    {OPT_GROUP, .help = "Times"},
    {OPT_SECONDS, .name = "lease", .help = "a node or worker that is silent for longer is lost",
     AT(config.cluster.lease_ms), .min = 100, .max = 3600000, .shown = true},
    {OPT_SECONDS, .name = "reconnect", .help = "how long a closed connection has to come back",
     AT(config.cluster.reconnect_ms), .max = 3600000, .shown = true},
    {OPT_SECONDS, .name = "join-window",
     .help = "the first generation waits this long after a newcomer for the next",
     AT(config.cluster.join_window_ms), .max = 3600000, .shown = true},
    {OPT_SECONDS, .name = "orphan",
     .help = "how long workers train on while the orchestrator is out of reach, before they pause",
     AT(config.cluster.orphan_ms), .min = 1, .max = 1000000000, .shown = true},
    {OPT_SECONDS, .name = "takeover",
     .help = "start a job over from its checkpoint when none of its members has been heard for "
             "this long; must be more than --orphan and --lease together (default: 15 more)",
     AT(config.cluster.takeover_ms), .min = 1, .max = 2000000000},
    {OPT_SECONDS, .name = "linger",
     .help = "nodes that come so soon after a job is done, and did not see that, are told; later "
             "ones run it again",
     AT(config.cluster.linger_ms), .max = 86400000, .shown = true},
    {OPT_GROUP, .help = "Limits"},
    {OPT_U32, .name = "jobs-max", .help = "jobs at a time", AT(config.cluster.jobs_max), .min = 1,
     .max = 4096, .shown = true},
    {OPT_U32, .name = "nodes-max", .help = "nodes of all jobs", AT(config.cluster.nodes_max),
     .min = 1, .max = MEMBERS_MAX, .shown = true},
    {OPT_U32, .name = "workers-max", .help = "workers of all nodes", AT(config.cluster.workers_max),
     .min = 1, .max = MEMBERS_MAX, .shown = true},
    {.type = OPT_END},
};

static const struct opts spec = {
    .command = "serve",
    .usage = "[OPTIONS]",
    .about = "Runs an orchestrator: it decides who is in each generation of each job, and keeps "
             "that in a journal. It is needed only to change membership: while it is down, "
             "training goes on, and after a restart it knows what it knew.\n"
             "SIGTERM or SIGINT end it; agents wait for the next one.",
    .examples = "  muster serve\n"
                "  muster serve --listen 0.0.0.0:5556 --data /var/lib/muster\n"
                "  muster serve --http 127.0.0.1:5580\n",
    .table = table,
};

static int check_times(struct serve_options *o)
{
    struct cluster_config *k = &o->config.cluster;
    uint64_t least_ms = (uint64_t)k->orphan_ms + k->lease_ms;

    if (k->takeover_ms == 0) {
        k->takeover_ms = (uint32_t)(least_ms + TAKEOVER_SPARE_MS);
    }
    if (k->takeover_ms <= least_ms) {
        return opts_usage_error(&spec,
                                "--takeover must be more than --orphan and --lease together: more "
                                "than %g seconds, or members that were given up might still train",
                                (double)least_ms / 1000.0);
    }
    return EXIT_SUCCESS;
}

static int check_http(struct serve_options *o)
{
    struct web_config *web = &o->config.web;

    if (!web->wanted && (web->cert_file != NULL || web->key_file != NULL || o->hosts.n > 0)) {
        return opts_usage_error(&spec, "--http-cert, --http-key and --http-host need --http");
    }
    if ((web->cert_file == NULL) != (web->key_file == NULL)) {
        return opts_usage_error(&spec, "--http-cert and --http-key go together");
    }
    for (uint32_t i = 0; i < o->hosts.n; i++) {
        o->hosts.at[i] = o->hosts.text[i];
    }
    web->hosts = o->hosts.at;
    web->hosts_n = o->hosts.n;
    return EXIT_SUCCESS;
}

/* The data directory and the token's place in it. */
static int find_data(struct serve_options *o, char *error)
{
    int rc = MU_OK;

    if (o->data_arg == NULL) {
        rc = data_dir_default(o->data, error);
    } else if (strlen(o->data_arg) + sizeof("/token") > sizeof(o->data)) {
        snprintf(error, NET_ERROR_MAX, "--data: the path is too long");
        rc = MU_ELIMIT;
    } else {
        strcpy(o->data, o->data_arg);
    }
    return rc == MU_OK ? data_dir_make(o->data, error) : rc;
}

static int find_token(struct serve_options *o, char *error)
{
    int n;

    if (o->token_arg != NULL) {
        n = snprintf(o->token_path, sizeof(o->token_path), "%s", o->token_arg);
    } else {
        n = snprintf(o->token_path, sizeof(o->token_path), "%s/token", o->data);
    }
    if (n >= (int)sizeof(o->token_path)) {
        snprintf(error, NET_ERROR_MAX, "the path of the token file is too long");
        return MU_ELIMIT;
    }
    return token_file(o->token_path, o->token_arg == NULL, &o->config.token, error);
}

bool serve_options(int argc, char **argv, struct serve_options *o, int *status_out)
{
    struct opts_words words;
    char error[NET_ERROR_MAX] = "";

    memset(o, 0, sizeof(*o));
    o->config.cluster = cluster_defaults();
    o->config.cluster.takeover_ms = 0;
    if (!opts_parse(&spec, argc, argv, o, &words, status_out)) {
        return false;
    }
    *status_out = check_times(o);
    if (*status_out == EXIT_SUCCESS) {
        *status_out = check_http(o);
    }
    if (*status_out != EXIT_SUCCESS) {
        return false;
    }
    if (find_data(o, error) != MU_OK || find_token(o, error) != MU_OK) {
        *status_out = ask_failed(spec.command, EXIT_FAILURE, "%s", error);
        return false;
    }
    o->config.data_dir = o->data;
    return true;
}
