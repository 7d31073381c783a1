/* The swarm's command line: what it is to be comes in arguments, what it is to do in lines on its
 * standard input, what it saw goes out as lines of JSON. Times are of the monotonic clock, so those
 * of several swarms can be compared.
 *
 *   usage: swarm ENDPOINT TOKEN_FILE JOBS FIRST N PER_JOB AT_A_TIME RENEW_MS
 *
 *   go                 connect; answered once all are in an active generation
 *   count              what happened since it was last asked
 *   depth D            every node keeps D renewals under way (at most 15); 0: as they are due
 *   quit               as does the end of the input */
#include "swarm.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static struct swarm swarm;
static uv_pipe_t input;
static char line[256];
static size_t line_n;
static uint64_t begin_ns;

static double cpu_s(void)
{
    struct rusage used;

    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static void on_admitted(struct swarm *s)
{
    uint64_t welcomed_ns = 0, active_ns = 0;

    for (uint32_t i = 0; i < s->config.n; i++) {
        welcomed_ns = MAX(welcomed_ns, s->nodes[i].welcomed_ns);
        active_ns = MAX(active_ns, s->nodes[i].active_ns);
    }
    printf("{\"begin_ns\": %" PRIu64 ", \"welcomed_ns\": %" PRIu64 ", \"active_ns\": %" PRIu64
           ", \"cpu_s\": %.3f, \"closed\": %" PRIu64 "}\n",
           begin_ns, welcomed_ns, active_ns, cpu_s(), s->counts.closed);
}

static void count(struct swarm *s)
{
    const char *comma = "";

    printf("{\"now_ns\": %" PRIu64 ", \"cpu_s\": %.3f, \"welcomed_n\": %u, \"active_n\": %u, "
           "\"renewals\": %" PRIu64 ", \"acks\": %" PRIu64 ", \"generations\": %" PRIu64
           ", \"closed\": %" PRIu64 ", \"refused\": %" PRIu64 ", \"rtt_us\": {",
           swarm_now_ns(), cpu_s(), s->welcomed_n, s->active_n, s->counts.renewals, s->counts.acks,
           s->counts.generations, s->counts.closed, s->counts.refused);
    for (uint32_t i = 0; i < SWARM_BUCKETS; i++) {
        if (s->counts.rtt_us[i] > 0) {
            printf("%s\"%" PRIu64 "\": %" PRIu64, comma, swarm_bucket_us(i), s->counts.rtt_us[i]);
            comma = ", ";
        }
    }
    printf("}}\n");
    s->counts = (struct swarm_counts){0};
}

static void quit(struct swarm *s)
{
    for (uint32_t i = 0; i < s->config.n; i++) {
        swarm_node_close(&s->nodes[i]);
    }
    uv_close((uv_handle_t *)&input, NULL);
}

static void go(struct swarm *s)
{
    begin_ns = swarm_now_ns();
    swarm_connect(s);
}

static void obey(struct swarm *s, const char *command)
{
    if (strcmp(command, "go") == 0) {
        go(s);
    } else if (strcmp(command, "count") == 0) {
        count(s);
    } else if (strncmp(command, "depth ", 6) == 0) {
        s->depth = (uint32_t)MIN(strtoul(command + 6, NULL, 10), AGENT_RENEWALS - 1ul);
        for (uint32_t i = 0; i < s->config.n && s->depth > 0; i++) {
            swarm_node_flood(&s->nodes[i]);
        }
    } else {
        fprintf(stderr, "swarm: '%s' is no command; there are go, count, depth D and quit\n",
                command);
    }
}

static void give_line(uv_handle_t *handle, size_t wanted, uv_buf_t *buf)
{
    *buf = uv_buf_init(line + line_n, (unsigned)(sizeof(line) - line_n));
}

static void on_input(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    char *end;

    if (n < 0) {
        quit(&swarm);
        return;
    }
    line_n += (size_t)n;
    while ((end = memchr(line, '\n', line_n)) != NULL) {
        *end++ = '\0';
        if (strcmp(line, "quit") == 0) {
            quit(&swarm);
            return;
        }
        obey(&swarm, line);
        line_n -= (size_t)(end - line);
        memmove(line, end, line_n);
    }
}

static bool read_arguments(struct swarm_config *k, char **argv)
{
    char error[NET_ERROR_MAX];

    if (endpoints_parse(argv[0], 0, &k->to, error) != MU_OK ||
        token_file(argv[1], false, &k->token, error) != MU_OK) {
        fprintf(stderr, "swarm: %s\n", error);
        return false;
    }
    k->jobs = argv[2];
    k->first = (uint32_t)strtoul(argv[3], NULL, 10);
    k->n = (uint32_t)strtoul(argv[4], NULL, 10);
    k->per_job = (uint32_t)strtoul(argv[5], NULL, 10);
    k->at_a_time = (uint32_t)strtoul(argv[6], NULL, 10);
    k->renew_ms = (uint32_t)strtoul(argv[7], NULL, 10);
    return k->n > 0 && k->per_job > 0 && k->renew_ms > 0;
}

static bool begin(struct swarm *s)
{
    char error[NET_ERROR_MAX];
    struct rlimit files;

    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    mu_assert(uv_loop_init(&s->loop) == 0);
    prng_init(&s->prng, s->config.first + 1);
    if (tls_client_open(&s->config.token, &s->tls, error) != MU_OK) {
        fprintf(stderr, "swarm: %s\n", error);
        return false;
    }
    s->admitted = on_admitted;
    s->nodes = calloc(s->config.n, sizeof(*s->nodes));
    if (s->nodes == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < s->config.n; i++) {
        if (swarm_node_init(s, &s->nodes[i], s->config.first + i) != MU_OK) {
            fprintf(stderr, "swarm: no memory for node %u\n", i);
            return false;
        }
    }
    mu_assert(uv_pipe_init(&s->loop, &input, 0) == 0);
    mu_assert(uv_pipe_open(&input, 0) == 0);
    mu_assert(uv_read_start((uv_stream_t *)&input, give_line, on_input) == 0);
    return true;
}

int main(int argc, char **argv)
{
    if (argc != 9 || !read_arguments(&swarm.config, argv + 1)) {
        fprintf(stderr, "usage: swarm ENDPOINT TOKEN_FILE JOBS FIRST N PER_JOB AT_A_TIME "
                        "RENEW_MS\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!begin(&swarm)) {
        return 1;
    }
    printf("{\"ready\": true}\n");
    uv_run(&swarm.loop, UV_RUN_DEFAULT);
    mu_assert(uv_loop_close(&swarm.loop) == 0);
    tls_close(swarm.tls);
    free(swarm.nodes);
    return 0;
}
