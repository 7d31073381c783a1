/* What `muster bench` is asked for. */
#include "bench/allreduce/allreduce.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int read_ranks(const char *text, void *to, char *error);
static int read_bytes(const char *text, void *to, char *error);
static int read_transports(const char *text, void *to, char *error);

static const struct opt table[] = {
    {OPT_READ, .name = "ranks", .value = "LIST", .preset = "2,4", .read = read_ranks,
     .wants = "numbers of ranks from 2 to 64, with commas", .at = 0,
     .help = "how many processes take part"},
    {OPT_READ, .name = "bytes", .value = "LIST", .preset = "4K,64K,1M,16M,100M", .read = read_bytes,
     .wants = "sizes like 4K,1M with commas, from 8 bytes to 8G", .at = 0,
     .help = "how large the buffers are; K, M and G are powers of 1024"},
    {OPT_READ, .name = "transport", .value = "LIST", .preset = "shm,tcp", .read = read_transports,
     .wants = "shm, tcp or both, with a comma", .at = 0, .help = "which path is used between them"},
    {OPT_CHOICE, .name = "dtype", .choices = "f32|f64|bf16|f16|i32|i64|u8", .value = "TYPE",
     .help = "what the buffers hold (default: f32)", .at = offsetof(struct bench_options, dtype)},
    {OPT_FLAG, .name = "plain-buffers",
     .help = "ordinary memory, and a result in ordinary memory, instead of memory that is shared",
     .at = offsetof(struct bench_options, plain_buffers)},
    {OPT_FLAG, .name = "agree", .help = "each all-reduce succeeds for all or for none (MU_AGREE)",
     .at = offsetof(struct bench_options, agree)},
    {OPT_SECONDS, .name = "seconds", .min = 1, .max = 60000, .preset = "0.2",
     .help = "how long each repeat takes, about", .at = offsetof(struct bench_options, seconds_ms)},
    {OPT_U32, .name = "rounds", .value = "N", .min = 1, .max = 1u << 30,
     .help = "all-reduces in each repeat, instead of --seconds",
     .at = offsetof(struct bench_options, rounds)},
    {OPT_U32, .name = "repeats", .value = "N", .min = 1, .max = BENCH_REPEATS_MAX, .preset = "5",
     .help = "how often each is measured; the median counts",
     .at = offsetof(struct bench_options, repeats)},
    {OPT_FLAG, .name = "limits", .preset = "true",
     .help = "also what the machine can do at most (default: yes; --no-limits)",
     .at = offsetof(struct bench_options, limits)},
    {OPT_FLAG, .name = "json", .help = "print JSON", .at = offsetof(struct bench_options, json)},
    {.type = OPT_END},
};

const struct opts bench_opts = {
    .command = "bench",
    .usage = "[OPTIONS] allreduce",
    .about =
        "Measures all-reduces (sums) between processes on this machine. It starts the processes "
        "itself; no orchestrator is needed. The first result of each size is checked bit for bit.\n"
        "GB/s are the bytes of a buffer by the time of a call. The limits are what the machine can "
        "do at most: for shm, the same processes add the same buffers, all mapped, without a word "
        "to each other; for tcp, they pass on as many bytes as an all-reduce must, by plain "
        "send and recv.\n"
        "MUSTER_TCP_CONGESTION names the congestion control of TCP, \"cubic\" say.",
    .examples = "  muster bench allreduce\n"
                "  muster bench allreduce --ranks 2 --bytes 1M --transport shm --agree\n"
                "  muster bench allreduce --plain-buffers --json\n",
    .table = table,
    .words_min = 1,
    .words_max = 1,
};

/* ---- lists ---- */

/* The next word of a list, in `word`: false at its end. An empty one is there too. */
static bool next_word(const char **at, char word[16])
{
    size_t n;

    if (*at == NULL) {
        return false;
    }
    n = strcspn(*at, ",");
    snprintf(word, 16, "%.*s", (int)MIN(n, 15), *at);
    *at = (*at)[n] == ',' ? *at + n + 1 : NULL;
    return true;
}

static bool number(const char *text, uint64_t *out, const char **end_out)
{
    char *end;

    if (*text < '0' || *text > '9') {
        return false;
    }
    *out = strtoull(text, &end, 10);
    *end_out = end;
    return true;
}

static int read_ranks(const char *text, void *to, char *error)
{
    struct bench_options *o = to;
    uint32_t n = 0;
    char word[16];
    const char *end;

    while (next_word(&text, word)) {
        uint64_t value;

        if (n == BENCH_LIST_MAX || !number(word, &value, &end) || *end != '\0' || value < 2 ||
            value > BENCH_RANKS_MAX) {
            return MU_EINVAL;
        }
        o->ranks[n++] = (uint32_t)value;
    }
    o->ranks_n = n;
    return MU_OK;
}

static int read_bytes(const char *text, void *to, char *error)
{
    static const char UNITS[] = "KMG";
    struct bench_options *o = to;
    uint32_t n = 0;
    char word[16];
    const char *end;

    while (next_word(&text, word)) {
        const char *unit;
        uint64_t value;
        unsigned shift = 0;

        if (n == BENCH_LIST_MAX || !number(word, &value, &end)) {
            return MU_EINVAL;
        }
        unit = *end != '\0' ? strchr(UNITS, *end & ~0x20) : NULL;
        if (unit != NULL) {
            shift = 10 * (unsigned)(unit - UNITS + 1);
            end++;
        }
        if (*end != '\0' || value > BENCH_BYTES_MAX >> shift || value << shift < 8) {
            return MU_EINVAL;
        }
        o->bytes[n++] = value << shift;
    }
    o->bytes_n = n;
    return MU_OK;
}

const char *const bench_transports[BENCH_TRANSPORT_N] = {"shm", "tcp"};

static int read_transports(const char *text, void *to, char *error)
{
    struct bench_options *o = to;
    uint32_t n = 0;
    char word[16];

    while (next_word(&text, word)) {
        uint8_t t = 0;

        while (t < BENCH_TRANSPORT_N && strcmp(word, bench_transports[t]) != 0) {
            t++;
        }
        if (n == BENCH_LIST_MAX || t == BENCH_TRANSPORT_N) {
            return MU_EINVAL;
        }
        o->transports[n++] = t;
    }
    o->transports_n = n;
    return MU_OK;
}
