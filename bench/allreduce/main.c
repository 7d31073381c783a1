/* `muster bench`: how fast the data plane is on this machine. */
#include "bench/allreduce/allreduce.h"

#include "base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The median of the repeats, and how far the slowest is from the fastest. */
struct summary {
    double us, gbps, spread;
};

static struct summary summarize(const struct bench_options *o, const struct bench_cell *cell)
{
    double us[BENCH_REPEATS_MAX];
    struct summary s;

    memcpy(us, cell->us, sizeof(us));
    s.us = bench_median(us, o->repeats, &s.spread);
    s.gbps = (double)cell->bytes / s.us / 1e3;
    return s;
}

/* ---- what is printed ---- */

static const char *size_text(uint64_t bytes, char text[24])
{
    static const char *const UNITS[] = {"", " K", " M", " G"};
    unsigned unit = 0;

    while (unit < 3 && bytes >= 1024 && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, 24, "%" PRIu64 "%s", bytes, UNITS[unit]);
    return text;
}

static void print_head(const struct bench_options *o)
{
    if (o->json) {
        printf("{\"bench\": \"allreduce\", \"version\": \"%s\", \"results\": [", mu_version());
        return;
    }
    printf("sums of %s, %s buffers%s; the median of %u repeats\n\n", dtype_name(o->dtype),
           o->plain_buffers ? "plain" : "shared", o->agree ? ", agreed" : "", o->repeats);
    printf("path  ranks     bytes     rounds      us/call     GB/s  spread%s\n",
           o->limits ? "  limit GB/s  share" : "");
}

static void json_cell(const struct bench_group *g, const struct bench_cell *cell, bool limit,
                      bool *first)
{
    const struct bench_options *o = g->options;
    struct summary s = summarize(o, cell);

    printf("%s\n  {\"transport\": \"%s\", \"ranks\": %u, \"bytes\": %" PRIu64
           ", \"kind\": \"%s\", \"dtype\": \"%s\", \"buffers\": \"%s\", \"agree\": %s, \"rounds\": "
           "%" PRIu64 ", \"us_per_call\": %.5g, \"gb_per_s\": %.5g, \"spread_percent\": %.3g, "
           "\"us\": [",
           *first ? "" : ",", bench_transports[g->transport], g->ranks_n, cell->bytes,
           limit ? "limit" : "allreduce", dtype_name(o->dtype),
           o->plain_buffers ? "plain" : "shared", o->agree ? "true" : "false", cell->rounds, s.us,
           s.gbps, s.spread);
    for (uint32_t i = 0; i < o->repeats; i++) {
        printf("%s%.5g", i > 0 ? ", " : "", cell->us[i]);
    }
    printf("]}");
    *first = false;
}

static void table_cell(const struct bench_group *g, const struct bench_cell *cell,
                       const struct bench_cell *limit)
{
    struct summary s = summarize(g->options, cell);
    char size[24];

    printf("%-5s %5u %9s %10" PRIu64 " %12.2f %8.2f %6.1f%%", bench_transports[g->transport],
           g->ranks_n, size_text(cell->bytes, size), cell->rounds, s.us, s.gbps, s.spread);
    if (g->options->limits) {
        double most = summarize(g->options, limit).gbps;

        printf("  %10.2f %5.0f%%", most, s.gbps / most * 100);
    }
    printf("\n");
}

static void print_cells(const struct bench_group *g, const struct bench_cell *limits, bool *first)
{
    for (uint32_t i = 0; i < g->options->bytes_n; i++) {
        if (!g->options->json) {
            table_cell(g, &g->shared->cells[i], &limits[i]);
            continue;
        }
        json_cell(g, &g->shared->cells[i], false, first);
        if (g->options->limits) {
            json_cell(g, &limits[i], true, first);
        }
    }
    fflush(stdout);
}

/* ---- what is done ---- */

/* One transport and number of ranks. */
static int run_group(const struct bench_options *o, enum bench_transport transport,
                     uint32_t ranks_n, bool *first)
{
    struct bench_group g = {.options = o, .transport = transport, .ranks_n = ranks_n};
    struct bench_cell limits[BENCH_LIST_MAX];
    char error[BENCH_ERROR_MAX] = "out of memory";
    int rc = bench_group_open(&g);

    if (rc == MU_OK) {
        rc = o->limits ? bench_limit(&g, error) : MU_OK;
        memcpy(limits, g.shared->cells, sizeof(limits));
        rc = rc == MU_OK ? bench_ranks(&g, error) : rc;
        if (rc == MU_OK) {
            print_cells(&g, limits, first);
        }
        bench_group_close(&g);
    }
    if (rc != MU_OK) {
        fprintf(stderr, "muster bench: %u ranks over %s: %s\n", ranks_n,
                bench_transports[transport], error);
    }
    return rc;
}

static int run_all(const struct bench_options *o)
{
    bool first = true;

    print_head(o);
    for (uint32_t t = 0; t < o->transports_n; t++) {
        for (uint32_t r = 0; r < o->ranks_n; r++) {
            if (run_group(o, (enum bench_transport)o->transports[t], o->ranks[r], &first) !=
                MU_OK) {
                return EXIT_FAILURE;
            }
        }
    }
    if (o->json) {
        printf("\n]}\n");
    }
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    struct bench_options o = {0};
    struct opts_words words;
    int status;

    log_init();
    if (!opts_parse(&bench_opts, argc, argv, &o, &words, &status)) {
        return status;
    }
    if (strcmp(words.words[0], "allreduce") != 0) {
        return opts_usage_error(&bench_opts, "'%.40s' can't be measured; allreduce can",
                                words.words[0]);
    }
    for (uint32_t i = 0; i < o.bytes_n; i++) {
        if (o.bytes[i] % dtype_size((enum dtype)o.dtype) != 0) {
            return opts_usage_error(&bench_opts, "%" PRIu64 " bytes are no whole number of %s",
                                    o.bytes[i], dtype_name((enum dtype)o.dtype));
        }
    }
    if (getenv("MUSTER_LOG") == NULL) {
        log_set_level(LOG_WARN); /* Which links there are was asked for. */
    }
    status = run_all(&o);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "muster bench: could not write the output\n");
        return EXIT_FAILURE;
    }
    return status;
}
