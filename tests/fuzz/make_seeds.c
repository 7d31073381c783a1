/* Writes the fuzzers' first inputs: samples of every type in the table.
 *
 * usage: make_seeds FOLDER          makes FOLDER/<fuzzer>/<seed> */
#include "ckpt/ckpt.h"
#include "comm/tcp.h"
#include "lib/asks.h"
#include "lib/wire_sample.h"
#include "lib/wire_types.h"
#include "link/hello.h"
#include "link/helper_head.h"
#include "wire/bytes.h"
#include "wire/wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PER_TYPE 4

static struct asks_frame asks;
static uint64_t memory[1u << 16];
static uint8_t buffer[1u << 18];

static void fail(const char *path)
{
    fprintf(stderr, "make_seeds: %s: %s\n", path, strerror(errno));
    exit(1);
}

static void make_folder(const char *path)
{
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        fail(path);
    }
}

static void write_seed(const char *folder, const char *fuzzer, const char *name,
                       const uint8_t *bytes, size_t n)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/%s", folder, fuzzer);
    make_folder(path);
    snprintf(path, sizeof(path), "%s/%s/%s", folder, fuzzer, name);
    FILE *file = fopen(path, "wb");

    if (file == NULL || fwrite(bytes, 1, n, file) != n || fclose(file) != 0) {
        fail(path);
    }
}

/* A sample at buffer + at; its length. */
static size_t sample(enum wire_type type, struct prng *p, uint32_t list_max, size_t at)
{
    struct wire_scratch scratch = {(uint8_t *)memory, sizeof(memory), 0};
    union wire_any msg;
    size_t n = 0;
    int rc = wire_sample(type, p, list_max, &msg, &scratch);

    if (rc == MU_OK && wire_is_message(type)) {
        rc = wire_encode(type, &msg, prng_below(p, 10), prng_below(p, 10), buffer + at,
                         sizeof(buffer) - at, &n);
    } else if (rc == MU_OK) {
        rc = wire_record_encode(type, &msg, buffer + at, sizeof(buffer) - at, &n);
    }
    mu_assert(rc == MU_OK);
    return n;
}

static void make_singles(const char *folder, struct prng *p)
{
    for (uint32_t i = 0; i < wire_types_n * PER_TYPE; i++) {
        const enum wire_type type = (enum wire_type)wire_types[i / PER_TYPE];
        size_t n = 1 + sample(type, p, i % PER_TYPE, 1);
        char name[64];

        buffer[0] = 1;
        snprintf(name, sizeof(name), "%s-%u", wire_name(type), i % PER_TYPE);
        write_seed(folder, wire_is_message(type) ? "wire_frame" : "wire_record", name, buffer, n);
    }
}

static void make_streams(const char *folder, struct prng *p)
{
    for (int k = 0; k < 24; k++) {
        size_t n = 1;
        char name[64];

        buffer[0] = (uint8_t)(k % 2);
        for (uint64_t left = prng_between(p, 1, 6); left > 0; left--) {
            enum wire_type type;

            do {
                type = (enum wire_type)wire_types[prng_below(p, wire_types_n)];
            } while (!wire_is_message(type));
            n += sample(type, p, 3, n);
        }
        snprintf(name, sizeof(name), "stream-%d", k);
        write_seed(folder, "wire_stream", name, buffer, n);
        buffer[0] |= k % 4 == 3 ? 2 : 0;
        write_seed(folder, "net_frames", name, buffer, n);
        write_seed(folder, "run_reader", name, buffer, n);
    }
}

static void write_texts(const char *folder, const char *fuzzer, const char *const *texts, size_t n)
{
    char name[64];

    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "text-%zu", i);
        write_seed(folder, fuzzer, name, (const uint8_t *)texts[i], strlen(texts[i]));
    }
}

/* Answers to a worker's questions about settings: two items and the end, or one that fails. */
static void make_settings(const char *folder)
{
    for (uint64_t request = 0; request < 8; request++) {
        static uint8_t value[300];
        struct said items[] = {
            {.more = 1, .version = 3, .key = "size", .value_n = 1, .value = value},
            {.more = 1, .version = 4, .key = "a/b", .deleted = request % 2},
            {.more = request > 5, .version = 5, .value_n = 0},
            {.version = 6, .key = "size", .value_n = sizeof(value), .value = value},
            {.status = MU_EAGAIN, .text = "try again"},
        };
        char name[64];
        size_t n = 1;

        buffer[0] = 1;
        for (size_t i = 0; i < ARRAY_LEN(items); i++) {
            size_t one = 0;

            items[i].request = i < 3 ? request : request + i;
            asks_said(&asks, &items[i]);
            mu_assert(wire_encode(WIRE_SAYS, &asks.says, 0, 0, buffer + n, sizeof(buffer) - n,
                                  &one) == MU_OK);
            n += one;
        }
        snprintf(name, sizeof(name), "settings-%u", (unsigned)request);
        write_seed(folder, "run_reader", name, buffer, n);
    }
}

static void make_schedules(const char *folder)
{
    static const char *const schedules[] = {
        "1",
        "1:10,2:10,3:20,4:10,1",
        "131072:281474976710656, 1",
        "4:1, 3:1,  2:1,1:1",
        "0:1,-1",
        "1:10,,2",
        "1:,2",
        "2,1:5",
    };

    write_texts(folder, "core_schedule", schedules, ARRAY_LEN(schedules));
}

/* See fuzz_core_tasks.c: any bytes are operations, most of them on small numbers. */
static void make_tasks(const char *folder)
{
    struct prng p;

    prng_init(&p, 5);
    for (uint32_t i = 0; i < 40; i++) {
        char name[64];
        size_t n = 20 + prng_below(&p, 600);

        for (size_t k = 0; k < n; k++) {
            buffer[k] = (uint8_t)prng_below(&p, prng_below(&p, 2) == 0 ? 20 : 256);
        }
        snprintf(name, sizeof(name), "operations-%u", i);
        write_seed(folder, "core_tasks", name, buffer, n);
    }
}

/* See fuzz_core_config.c. Each seed is a few requests, from one on. */
static void make_configs(const char *folder)
{
    static const struct {
        uint8_t op, key, expect;
        const char *value;
    } requests[] = {
        {0, 0, 255, "7"},       {0, 1, 0, "3"},       {0, 2, 255, "12"}, {0, 1, 2, "8"},
        {0, 3, 255, "n1,n2,n"}, {0, 4, 255, "1:5,2"}, {0, 5, 0, "true"}, {0, 6, 255, "x"},
        {1, 6, 255, ""},        {2, 7, 255, "y"},     {4, 8, 3, "z"},    {8, 0, 255, "w"},
    };

    for (size_t from = 0; from < ARRAY_LEN(requests); from++) {
        char name[64];
        size_t n = 0;

        for (size_t i = from; i < MIN(from + 4, ARRAY_LEN(requests)); i++) {
            const size_t value_n = strlen(requests[i].value);

            buffer[n++] = requests[i].op;
            buffer[n++] = requests[i].key;
            buffer[n++] = requests[i].expect;
            buffer[n++] = (uint8_t)value_n;
            memcpy(buffer + n, requests[i].value, value_n);
            n += value_n;
        }
        snprintf(name, sizeof(name), "requests-%zu", from);
        write_seed(folder, "core_config", name, buffer, n);
    }
}

/* An item of fuzz_core_cluster.c and fuzz_core_agent.c around n bytes at buffer + at + 3. */
static size_t item(size_t at, uint8_t what, size_t n)
{
    buffer[at] = what;
    buffer[at + 1] = (uint8_t)(n >> 8);
    buffer[at + 2] = (uint8_t)n;
    return 3 + n;
}

static size_t frame_item(size_t at, uint8_t what, enum wire_type type, const void *msg)
{
    size_t n = 0;

    mu_assert(wire_encode(type, msg, 0, 0, buffer + at + 3, sizeof(buffer) - at - 3, &n) == MU_OK);
    return item(at, what, n);
}

/* See fuzz_core_cluster.c: ITEM_… of it. Two nodes come, with such names; a generation forms, is
 * active, a node leaves. */
static void make_cluster_life(const char *folder, const char *name, const char *job)
{
    enum { FRAME = 0, CLOSE = 2, TICK = 3, WRITTEN = 4, FAILED = 5 };
    struct report report = {.incarnation = 1, .phase = PHASE_WARM, .addr = "127.0.0.1:1"};
    struct msg_hello hello = {.incarnation = 1,
                              .min = 1,
                              .max = 2,
                              .slots = 1,
                              .mode = MODE_INPROCESS,
                              .reports_n = 1,
                              .reports = &report};
    struct msg_reports reports = {.seq = 2, .reports_n = 1, .reports = &report};
    struct msg_renew renew = {.seq = 1, .held = 1};
    static uint8_t value[] = {'1'};
    struct asked config = {.verb = ASKED_PUT, .key = "size", .value_n = 1, .value = value};
    size_t n = 0;

    snprintf(hello.job, sizeof(hello.job), "%s", job);
    snprintf(config.job, sizeof(config.job), "%s", job);
    for (uint8_t conn = 0; conn < 2; conn++) {
        snprintf(hello.name, sizeof(hello.name), "n%u", conn);
        n += frame_item(n, (uint8_t)(FRAME | conn << 3), WIRE_HELLO, &hello);
    }
    for (int i = 0; i < 4; i++) {
        n += item(n, WRITTEN, 0);
    }
    n += frame_item(n, FRAME, WIRE_REPORTS, &reports);
    n += frame_item(n, FRAME | 1 << 3, WIRE_REPORTS, &reports);
    n += item(n, TICK | 11 << 3, 0); /* 2^11 ms */
    n += item(n, WRITTEN, 0);
    report.entered = 1;
    report.phase = PHASE_IN;
    reports.seq = 3;
    n += frame_item(n, FRAME, WIRE_REPORTS, &reports);
    n += frame_item(n, FRAME | 1 << 3, WIRE_REPORTS, &reports);
    n += frame_item(n, FRAME, WIRE_RENEW, &renew);
    n += item(n, WRITTEN, 0);
    asks_ask(&asks, &config);
    n += frame_item(n, FRAME, WIRE_ASK, &asks.ask);
    n += item(n, FAILED, 0);
    asks_ask(&asks, &config);
    n += frame_item(n, FRAME, WIRE_ASK, &asks.ask);
    n += item(n, WRITTEN, 0);
    n += item(n, CLOSE, 0);
    for (int i = 0; i < 4; i++) {
        n += item(n, TICK | 11 << 3, 0);
        n += item(n, WRITTEN, 0);
    }
    write_seed(folder, "core_cluster", name, buffer, n);
}

/* What a journal may hold that was written before names were checked, and a damaged one. */
static void make_cluster_pasts(const char *folder, struct prng *p)
{
    static const char *const jobs[] = {"a b", "x/y", "\xc3\xbc"};
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_LEN(jobs); i++) {
        struct rec_job job = {.run = 1, .min = 1, .max = 1};
        size_t one = 0;

        snprintf(job.job, sizeof(job.job), "%s", jobs[i]);
        mu_assert(wire_record_encode(WIRE_REC_JOB, &job, buffer + n + 3, sizeof(buffer) - n - 3,
                                     &one) == MU_OK);
        n += item(n, 1, one);
    }
    n += item(n, 3, 0);
    write_seed(folder, "core_cluster", "odd-names", buffer, n);
    for (int k = 0; k < 8; k++) {
        char name[64];

        n = 0;
        for (uint32_t i = 0; i < wire_types_n; i++) {
            if (wire_is_record(wire_types[i])) {
                n += item(n, 1, sample((enum wire_type)wire_types[i], p, 3, n + 3));
            }
        }
        snprintf(name, sizeof(name), "records-%d", k);
        write_seed(folder, "core_cluster", name, buffer, n);
    }
}

/* See fuzz_core_agent.c: welcomed, started, in a generation, its worker ends. */
static void make_agents(const char *folder)
{
    enum { FRAME = 0, CONNECT = 1, TICK = 3, WORKER = 4, EXIT = 5 };

    for (uint8_t mode = 0; mode < MODE_N; mode++) {
        struct msg_welcome welcome = {
            .store = 1, .node = 1, .run = 1, .lease_ms = 1000, .orphan_ms = 10000, .mode = mode};
        struct member member = {.worker = wid_make(1, 0, 1), .addr = "127.0.0.1:1"};
        struct generation g = {
            .job = "job", .run = 1, .number = 1, .members_n = 1, .members = &member};
        struct report report = {.incarnation = 1, .phase = PHASE_IN, .entered = 1};
        struct msg_active active = {.generation = 1};
        struct msg_ended ended = {.run = 1};
        char name[64];
        size_t n = 1;

        buffer[0] = mode;
        n += item(n, CONNECT, 0);
        n += frame_item(n, FRAME, WIRE_WELCOME, &welcome);
        n += item(n, TICK | 9 << 3, 0);
        n += frame_item(n, FRAME, WIRE_GENERATION, &g);
        buffer[n + 3] = 1;
        n += item(n, WORKER, 1);
        n += frame_item(n, WORKER, WIRE_REPORT, &report);
        n += frame_item(n, FRAME, WIRE_ACTIVE, &active);
        buffer[n + 3] = 1;
        n += item(n, EXIT, 1);
        n += item(n, TICK | 9 << 3, 0);
        n += frame_item(n, FRAME, WIRE_ENDED, &ended);
        n += item(n, TICK | 12 << 3, 0);
        snprintf(name, sizeof(name), "life-%u", mode);
        write_seed(folder, "core_agent", name, buffer, n);
    }
}

#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"
#define ONES "1111111111111111111111111111111111111111111111111111111111111111"
#define AT " HTTP/1.1\r\nHost: localhost\r\n"

/* See fuzz_http_parse.c, where the first byte says what the text is, and fuzz_http_server.c. */
static void make_http(const char *folder)
{
    static const char *const texts[] = {
        "0/v1/jobs/a%20b/config/x/y",
        "0/v1/jobs/%2e%2e",
        "0/a/b/c%2Fd/%C3%BC",
        "1a=1&b=x%3D%26y+z&&c&=d&e==&",
        "2caf%C3%A9+%25",
        "3Node-1.Example:9",
        "3[fe80::1]:80",
        "3localhost.:5556",
        ("4Bearer " ZEROS),
        "5\"6\" , W/\"x\",\"7\"",
        "5*",
    };
    static const char *const requests[] = {
        "GET /" AT "\r\nHEAD /?x=%41&y" AT "\r\n",
        "PUT /o/%41" AT "Authorization: Bearer " ONES "\r\nContent-Length: 3\r\n\r\nabc",
        "POST /v/a/b" AT "Authorization: Bearer " ZEROS
        "\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "GET /e/x" AT "If-None-Match: W/\"1\", \"2\"\r\n\r\n",
        "GET /s/t" AT "Authorization: Bearer " ZEROS "\r\nLast-Event-ID: 1\r\n\r\n",
        "DELETE /" AT "Origin: http://evil\r\nExpect: 100-continue\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "PUT /o/x" AT "Content-Length: 99999999\r\n\r\n",
    };

    write_texts(folder, "http_parse", texts, ARRAY_LEN(texts));
    write_texts(folder, "http_server", requests, ARRAY_LEN(requests));
}

/* A frame of a link over TCP at buffer + at; its length. */
static size_t frame(size_t at, uint8_t kind, uint64_t generation, size_t bytes, uint32_t word)
{
    const struct note note = {.generation = generation,
                              .call = at,
                              .count = bytes,
                              .bytes = bytes,
                              .kind = kind,
                              .op = kind < NOTE_MAIL ? COMM_ALLREDUCE : COMM_NONE};

    note_encode(&note, buffer + at);
    memset(buffer + at + NOTE_BYTES, (int)generation, bytes);
    put_u32(buffer + at + NOTE_BYTES + bytes, word);
    return NOTE_BYTES + bytes + TCP_WORD_BYTES;
}

/* See fuzz_comm_note.c and fuzz_comm_tcp.c. */
static void make_notes(const char *folder)
{
    char name[64];

    for (uint8_t kind = 0; kind < NOTE_KIND_N; kind++) {
        const size_t bytes = kind == NOTE_MOVE ? HELLO_PROOF_BYTES : 40u * kind;

        buffer[0] = 1;
        frame(1, kind, 1, bytes, TCP_COUNTS);
        snprintf(name, sizeof(name), "kind-%u", kind);
        write_seed(folder, "comm_note", name, buffer, 1 + NOTE_BYTES);
        for (uint8_t options = 1; options < 16; options += 4) {
            size_t n = 1;

            buffer[0] = options;
            n += frame(n, NOTE_MOVE, 1, HELLO_PROOF_BYTES, TCP_COUNTS);
            n += frame(n, kind, 1, bytes, TCP_COUNTS);
            n += frame(n, NOTE_HERE, 1, 0, TCP_VOID);
            n += frame(n, NOTE_DATA, 1, 100, TCP_VOID);
            n += frame(n, NOTE_MOVE, 2, HELLO_PROOF_BYTES, TCP_COUNTS);
            n += frame(n, kind, 2, bytes, TCP_COUNTS);
            snprintf(name, sizeof(name), "kind-%u-%u", kind, options);
            write_seed(folder, "comm_tcp", name, buffer, n);
        }
    }
}

/* See fuzz_link_hello.c: what those say who have the key. */
static void make_hellos(const char *folder)
{
    static const struct hello_config dialer = {.job = "fuzz", .run = 3, .run_key = {1}, .self = 71};
    static const struct hello_config listener = {
        .job = "fuzz", .run = 3, .run_key = {1}, .self = 9, .classes = 3};
    static const uint8_t nonces[2][HELLO_NONCE_BYTES] = {{1}, {2}};
    struct hello d, l;
    uint8_t answer[HELLO_BYTES];
    size_t n;

    for (unsigned class = 0; class < LINK_CLASSES; class ++) {
        buffer[0] = (uint8_t)(1 + 2 * class);
        hello_dial(&d, &dialer, (enum link_class) class, listener.self, nonces[0], buffer + 1);
        hello_listen(&l, &listener, nonces[1]);
        hello_take(&l, buffer + 1, HELLO_BYTES, answer, &n);
        hello_take(&d, answer, HELLO_BYTES, buffer + 1 + HELLO_BYTES, &n);
        write_seed(folder, "link_hello", class == LINK_GROUP ? "group" : "helper", buffer,
                   1 + 2 * HELLO_BYTES);
        buffer[0] = (uint8_t)(2 * class);
        memcpy(buffer + 1, answer, HELLO_BYTES);
        write_seed(folder, "link_hello", class == LINK_GROUP ? "group-answer" : "helper-answer",
                   buffer, 1 + HELLO_BYTES);
    }
}

static size_t helper_frame(size_t at, struct helper_head head)
{
    helper_head_encode(&head, buffer + at);
    memset(buffer + at + HELPER_HEAD_BYTES, 'x', head.bytes);
    return at + HELPER_HEAD_BYTES + head.bytes;
}

/* See fuzz_link_helper.c: requests of both sizes and one that is given up, and answers to its call.
 */
static void make_helpers(const char *folder)
{
    size_t n = 1;

    buffer[0] = 0;
    for (uint16_t i = 0; i < 3; i++) {
        n = helper_frame(n, (struct helper_head){.what = HELPER_REQUEST,
                                                 .kind = i,
                                                 .slot = i,
                                                 .number = i + 1u,
                                                 .value = 1000,
                                                 .total = i == 0 ? 8 : 20000,
                                                 .bytes = i == 0 ? 8 : 1000});
    }
    n = helper_frame(
        n, (struct helper_head){.what = HELPER_MORE, .slot = 1, .number = 2, .bytes = 19000});
    n = helper_frame(n, (struct helper_head){.what = HELPER_CUT, .slot = 2, .number = 3});
    n = helper_frame(n, (struct helper_head){.what = HELPER_END, .slot = 1, .number = 2});
    write_seed(folder, "link_helper", "requests", buffer, n);
    for (uint16_t i = 0; i < 2; i++) {
        buffer[0] = (uint8_t)(1 + 100 * i);
        n = helper_frame(1, (struct helper_head){.what = i == 0 ? HELPER_ANSWER : HELPER_CUT,
                                                 .number = 1,
                                                 .value = i == 0 ? MU_OK : MU_ELIMIT,
                                                 .total = i == 0 ? 4000 : 0,
                                                 .bytes = i == 0 ? 1000 : 0});
        if (i == 0) {
            n = helper_frame(n,
                             (struct helper_head){.what = HELPER_MORE, .number = 1, .bytes = 3000});
        }
        write_seed(folder, "link_helper", i == 0 ? "answer" : "cut", buffer, n);
    }
}

/* See fuzz_ckpt_manifest.c. */
static void make_manifests(const char *folder)
{
    for (uint32_t k = 0; k < 6; k++) {
        struct ckpt_part parts[3] = {{"bias", 7}, {"model/weights", k * CKPT_CHUNK}, {"..", k}};
        struct ckpt_chunk chunks[8] = {{0}};
        struct ckpt_manifest m = {.version = "0.1.0",
                                  .mark = {.job = "mnist", .step = 1 + k, .slices = 8},
                                  .zstd = k % 2 == 1,
                                  .parts = parts,
                                  .parts_n = 3,
                                  .bytes = 7 + k * CKPT_CHUNK + k,
                                  .shards_n = 1 + k / 2,
                                  .chunks = chunks};
        char name[64], *text;
        size_t n;

        m.chunks_n = ckpt_chunks(m.bytes);
        for (uint32_t shard = 0; shard < m.shards_n; shard++) {
            uint32_t first, end;
            uint64_t at = 0;

            ckpt_shard_chunks(m.chunks_n, m.shards_n, shard, &first, &end);
            for (uint32_t i = first; i < end; at += chunks[i++].stored) {
                chunks[i].shard = shard;
                chunks[i].at = at;
                chunks[i].stored = (uint32_t)ckpt_chunk_bytes(m.bytes, i) - (m.zstd ? 1 : 0);
            }
        }
        mu_assert(ckpt_manifest_write(&m, &text, &n) == MU_OK && n < sizeof(buffer));
        buffer[0] = 1;
        memcpy(buffer + 1, text, n);
        free(text);
        snprintf(name, sizeof(name), "manifest-%u", k);
        write_seed(folder, "ckpt_manifest", name, buffer, 1 + n);
    }
}

/* An answer as fuzz_depot_says.c takes it, at buffer + at; its length. */
static size_t depot_says(size_t at, int8_t status, uint32_t item, uint64_t from, uint64_t total,
                         bool more, const void *data, size_t n)
{
    uint8_t *p = buffer + at;

    memset(p, 0, 30);
    p[1] = (uint8_t)status;
    put_u32(p + 2, item);
    put_u64(p + 6, from);
    put_u64(p + 14, total);
    p[22] = more;
    put_u32(p + 26, (uint32_t)n);
    if (n > 0) {
        memcpy(p + 30, data, n);
    }
    return 30 + n;
}

static void make_depot_lists(const char *folder)
{
    static const char names[] = "a\0b.2\0mnist";
    uint8_t entries[64];
    size_t n = 1;

    for (uint64_t i = 0; i < 4; i++) {
        put_u64(entries + 16 * i, 400 - i);
        put_u64(entries + 16 * i + 8, 4096);
    }
    n += depot_says(n, MU_OK, 0, 0, 0, true, entries, 32);
    n += depot_says(n, MU_OK, 0, 0, 0, false, entries + 32, 32);
    n += depot_says(n, MU_OK, 0, 0, 0, true, names, 2);
    n += depot_says(n, MU_OK, 0, 0, 0, false, names + 2, sizeof(names) - 2);
    buffer[0] = 4;
    write_seed(folder, "depot_says", "lists", buffer, n);
    buffer[0] = 4 | 8;
    write_seed(folder, "depot_says", "lists-broken", buffer, n);
}

/* A state of 300 bytes that is read, and one that is put. */
static void make_depot_trips(const char *folder)
{
    static const uint8_t state[300];
    struct ckpt_part part = {"w", sizeof(state)};
    struct ckpt_chunk chunk = {0};
    struct ckpt_manifest m = {.version = "0.1.0",
                              .mark = {.job = "mnist", .step = 40, .slices = 8},
                              .zstd = true,
                              .parts = &part,
                              .parts_n = 1,
                              .bytes = sizeof(state),
                              .shards_n = 1,
                              .chunks = &chunk,
                              .chunks_n = 1};
    struct ckpt_packer *packer = NULL;
    const uint8_t *stored;
    size_t text_n, n = 1;
    char *text;

    mu_assert(ckpt_pack(&packer, state, sizeof(state), true, &stored, &chunk.stored, chunk.sum) ==
              MU_OK);
    mu_assert(ckpt_manifest_write(&m, &text, &text_n) == MU_OK);
    n += depot_says(n, MU_OK, UINT32_MAX, 0, text_n, false, text, text_n);
    n += depot_says(n, MU_OK, 0, 0, chunk.stored, false, stored, 1);
    n += depot_says(n, MU_OK, 0, 0, chunk.stored, false, stored, chunk.stored);
    free(text);
    ckpt_pack_free(packer);
    buffer[0] = 1 | 4;
    write_seed(folder, "depot_says", "read", buffer, n);
    buffer[0] = 1 | 4 | 8;
    write_seed(folder, "depot_says", "read-broken", buffer, n);
    n = 1;
    for (int i = 0; i < 9; i++) {
        n += depot_says(n, i == 1 ? MU_EAGAIN : MU_OK, 0, 0, 0, false, NULL, 0);
    }
    buffer[0] = 2 | 4;
    write_seed(folder, "depot_says", "put", buffer, n);
    buffer[0] = 2 | 4 | 8;
    write_seed(folder, "depot_says", "put-broken", buffer, n);
    buffer[0] = 3;
    write_seed(folder, "depot_says", "remove", buffer, 1 + 30);
}

/* ---- data ---- */

static size_t put_le(size_t at, uint64_t v, int width)
{
    for (int i = 0; i < width; i++) {
        buffer[at + (size_t)i] = (uint8_t)(v >> 8 * i);
    }
    return at + (size_t)width;
}

/* Two chunks; the fuzzer makes their sums right. */
static void make_chunks(const char *folder, const char *name, bool b, uint32_t compressor,
                        const void *payload, size_t payload_n, uint32_t records)
{
    size_t at = 1;

    buffer[0] = b ? 3 : 1;
    for (int i = 0; i < 2; i++) {
        at = put_le(at, 0x01020304, 4);
        at = put_le(at, b ? records : 0, 4);
        at = put_le(at, b ? 0 : compressor, 4);
        at = put_le(at, b ? compressor + 1 : payload_n, 4);
        at = put_le(at, b ? payload_n : records, 4);
        memcpy(buffer + at, payload, payload_n);
        at += payload_n;
    }
    write_seed(folder, "data_recordio", name, buffer, at);
}

static void make_data(const char *folder)
{
    static const char *const csv[] = {"a,b\n1,\"x \"\"y\"\"\nz\"\n\n2,\n",
                                      "\xef\xbb\xbfn\r\n1e3\r\n-1\r\n", "a,b\n1\n1,2,3\n\"open"};
    static const char *const mds[] = {"{\"version\": 2, \"shards\": [{\"format\": \"mds\", "
                                      "\"version\": 2, \"samples\": 1, \"compression\": null, "
                                      "\"column_names\": [\"a\", \"b\"], \"column_encodings\": "
                                      "[\"int\", \"str\"], \"column_sizes\": [8, null], "
                                      "\"raw_data\": {\"basename\": \"s.mds\", \"bytes\": 40, "
                                      "\"hashes\": {\"sha1\": \"00\"}}, \"zip_data\": null}]}",
                                      "{\"shards\": []}", "[]"};
    static const uint8_t plain[] = "\x03\0\0\0one\0\0\0\0";
    static const uint8_t framed[] = "\xff\x06\0\0sNaPpY\x01\x0f\0\0\0\0\0\0\x03\0\0\0one\0\0\0\0";
    static const uint8_t block[] = "\x0b\x28\x03\0\0\0one\0\0\0\0";
    static const uint8_t idx[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6};
    size_t at;

    write_texts(folder, "data_csv", csv, sizeof(csv) / sizeof(csv[0]));
    write_texts(folder, "data_mds", mds, sizeof(mds) / sizeof(mds[0]));
    make_chunks(folder, "a-none", false, 0, plain, sizeof(plain) - 1, 2);
    make_chunks(folder, "a-snappy", false, 1, framed, sizeof(framed) - 1, 2);
    make_chunks(folder, "b-none", true, 0, plain, sizeof(plain) - 1, 2);
    make_chunks(folder, "b-snappy", true, 1, block, sizeof(block) - 1, 2);
    write_seed(folder, "data_idx", "u8", idx, sizeof(idx));
    buffer[0] = 1;
    at = put_le(1, 3, 8);
    at = put_le(at, 0, 4);
    memcpy(buffer + at, "one", 3);
    at = put_le(at + 3, 0, 4);
    at = put_le(at, 0, 8);
    at = put_le(at, 0, 8);
    write_seed(folder, "data_tfrecord", "two", buffer, at);
    memset(buffer, 0, 2048);
    for (size_t head = 0; head < 2048; head += 1024) {
        unsigned sum = 0;

        sprintf((char *)buffer + head, "a.%s", head == 0 ? "txt" : "cls");
        sprintf((char *)buffer + head + 124, "%011o", 3u);
        memset(buffer + head + 148, ' ', 8);
        buffer[head + 156] = '0';
        memcpy(buffer + head + 257, "ustar\00000", 8);
        for (size_t i = 0; i < 512; i++) {
            sum += buffer[head + i];
        }
        sprintf((char *)buffer + head + 148, "%06o", sum);
        memcpy(buffer + head + 512, "abc", 3);
    }
    write_seed(folder, "data_tar", "two", buffer, 2048);
}

int main(int argc, char **argv)
{
    struct prng p;

    if (argc != 2) {
        fprintf(stderr, "usage: make_seeds FOLDER\n");
        return 2;
    }
    prng_init(&p, 1);
    make_folder(argv[1]);
    make_singles(argv[1], &p);
    make_streams(argv[1], &p);
    make_settings(argv[1]);
    make_schedules(argv[1]);
    make_tasks(argv[1]);
    make_configs(argv[1]);
    make_cluster_life(argv[1], "life", "job");
    make_cluster_life(argv[1], "life-space", "a b");
    make_cluster_life(argv[1], "life-path", "x/y");
    make_cluster_life(argv[1], "life-umlaut", "\xc3\xbc");
    make_cluster_pasts(argv[1], &p);
    make_agents(argv[1]);
    make_http(argv[1]);
    make_notes(argv[1]);
    make_hellos(argv[1]);
    make_helpers(argv[1]);
    make_manifests(argv[1]);
    make_depot_lists(argv[1]);
    make_depot_trips(argv[1]);
    make_data(argv[1]);
    return 0;
}
