/* Ranks in network namespaces, which netns_test.py has made: the works of exact_test.c, between
 * "hosts" that reach each other by a cable of their own.
 *
 * usage: comm_netns ONE_HOST_ID NETNS ADDRESS [NETNS ADDRESS]…    a rank for each pair */
#include "comm/works.h"
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ranks_config config = {.shared_bytes = WORKS_SHARED_BYTES};
static bool one_id; /* they say that they are on one host, but can't share memory */

static void body(struct rank *r)
{
    struct comm_stats stats;
    uint32_t near = 0;
    struct prng p;

    rank_enter(r, 0);
    for (uint32_t i = 0; i < config.n; i++) {
        near += i != r->index && strcmp(config.netns[i], config.netns[r->index]) == 0;
    }
    comm_stats(r->comm, &stats);
    rank_check(r, stats.shm_links == near && stats.tcp_links == config.n - 1 - near,
               "%llu links by shm, %llu by tcp", (unsigned long long)stats.shm_links,
               (unsigned long long)stats.tcp_links);
    prng_init(&p, ranks_seed() + 5000);
    for (uint32_t i = 0, n = ranks_full() ? 300 : 40; i < n; i++) {
        struct comm_result result = {0};
        struct spec spec;
        struct work w;
        size_t room = 0;

        (i % 3 == 0 ? spec_draw_slices : spec_draw)(&p, config.n, 1 << 20, &spec);
        work_prepare(r, &spec, &room, &w);
        if (w.mine) {
            int rc = comm_run(r->comm, &w.call, &result);

            work_check(r, &w, rc, &result);
        }
        work_free(r, &w);
        works_meet(r);
    }
}

static void results_are_exact_between_hosts(void **state)
{
    struct ranks s;

    config.body = body;
    for (uint32_t i = 0; i < config.n; i++) {
        config.hosts[i] = one_id || strcmp(config.netns[i], config.netns[0]) == 0 ? 1 : 2;
    }
    ranks_open(&s, &config);
    snprintf(s.what, sizeof(s.what), "%u ranks in namespaces, %s", config.n,
             one_id ? "one host's id" : "an id for each");
    ranks_publish_all(&s);
    ranks_finish(&s);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(results_are_exact_between_hosts)};

    one_id = argc > 1 && atoi(argv[1]) != 0;
    for (int i = 2; i + 1 < argc && config.n < RANKS_MAX; i += 2) {
        config.netns[config.n] = argv[i];
        config.addresses[config.n++] = argv[i + 1];
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
