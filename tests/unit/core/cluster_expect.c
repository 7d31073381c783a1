/* What the cluster's tests expect, and the kit's beginning and end. */
#include "unit/core/cluster_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void forget(void)
{
    f.log_n = 0;
}

uint32_t said(const char *fmt, ...)
{
    char line[TEXT_MAX];
    uint32_t n = 0;
    va_list args;

    va_start(args, fmt);
    vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    for (uint32_t i = 0; i < f.log_n; i++) {
        n += strcmp(f.log[i], line) == 0;
    }
    return n;
}

uint32_t said_like(const char *start)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < f.log_n; i++) {
        n += strncmp(f.log[i], start, strlen(start)) == 0;
    }
    return n;
}

static uint32_t line_of(const char *start)
{
    for (uint32_t i = 0; i < f.log_n; i++) {
        if (strncmp(f.log[i], start, strlen(start)) == 0) {
            return i;
        }
    }
    fail_msg("nobody said '%s'", start);
    return 0;
}

void expect_order(const char *first, const char *second)
{
    assert_true(line_of(first) < line_of(second));
}

void expect_log(const char *lines)
{
    static char all[1 << 16];
    size_t n = 0;

    all[0] = '\0';
    for (uint32_t i = 0; i < f.log_n; i++) {
        if (strstr(f.log[i], ": ack ") == NULL && strncmp(f.log[i], "note ", 5) != 0) {
            n += (size_t)snprintf(all + n, sizeof(all) - n, "%s\n", f.log[i]);
            assert_true(n < sizeof(all));
        }
    }
    assert_string_equal(all, lines);
}

struct job_view job(void)
{
    struct job_view v;

    assert_int_equal(cluster_job(f.c, f.job, &v), MU_OK);
    return v;
}

void expect_generation(const char *kind, const char *members)
{
    char expected[TEXT_MAX], text[TEXT_MAX];
    struct generation g;

    snprintf(expected, sizeof(expected), "%s %s", kind, members);
    if (cluster_generation(f.c, f.job, &g) != MU_OK) {
        fail_msg("there is no generation; expected: %s", expected);
    }
    generation_text(&g, text, sizeof(text));
    assert_string_equal(text, expected);
}

void expect_active(const char *kind, const char *members)
{
    expect_generation(kind, members);
    assert_int_equal(job().active, job().generation);
}

bool member(const char *name)
{
    struct generation g;

    if (cluster_generation(f.c, f.job, &g) != MU_OK) {
        return false;
    }
    for (uint32_t i = 0; i < g.members_n; i++) {
        if (wid_node(g.members[i].worker) == at(name)->node) {
            return true;
        }
    }
    return false;
}

static void clear(void)
{
    mind_close(&f.mind);
    while (f.journal_n > 0) {
        record_free(&f.journal[--f.journal_n]);
    }
    f.synced_n = f.log_n = f.stubs_n = 0;
    f.hold = f.replay_differs = false;
    f.c = NULL;
}

void kit_open(void)
{
    clear();
    assert_int_equal(mind_open(&f.mind, &f.config, &f.fx), MU_OK);
    f.c = f.mind.cluster;
    cluster_start(f.c, f.now_ms, f.now_ms + WALL_MS, &f.fx);
    forget();
}

int kit_setup(void **state)
{
    f.config = cluster_defaults();
    f.config.jobs_max = 4;
    f.config.nodes_max = 64;
    f.config.workers_max = 128;
    f.config.store = 0x5707e;
    f.now_ms = 1000000;
    f.min = 1;
    f.max = 16;
    f.slots = 1;
    f.max_restarts = 3;
    f.mode = MODE_INPROCESS;
    f.job = "job";
    f.conns_n = f.keys_n = 0;
    kit_effects(&f.fx);
    kit_open();
    return 0;
}

int kit_teardown(void **state)
{
    if (!f.replay_differs) {
        expect_replays();
    }
    clear();
    free(f.journal);
    free(f.log);
    f.journal = NULL;
    f.log = NULL;
    f.journal_cap = f.log_cap = 0;
    return 0;
}
