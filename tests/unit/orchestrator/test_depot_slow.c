/* A disk that stands still: who waits for it waits, and nobody else does. */
#include "unit/orchestrator/putter_kit.h"
#include "unit/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static struct ckpt_kit state_kit;
static struct {
    _Atomic bool still; /* a shard that is being brought to the disk waits as long as this */
    _Atomic uint32_t waiting_n; /* so many have come to that */
    _Atomic uint32_t renewed_n;
    _Atomic bool stop;
} * shared;

int __real_fsync(int fd);
int __wrap_fsync(int fd);

int __wrap_fsync(int fd)
{
    char link[64], path[512];
    ssize_t n;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof(path) - 1);
    path[MAX(n, 0)] = '\0';
    if (strstr(path, "/ckpt/slow/") != NULL && strstr(path, "/shard-") != NULL) {
        shared->waiting_n += shared->still;
        while (shared->still) {
            usleep(1000);
        }
    }
    return __real_fsync(fd);
}

#define await(cond)                                           \
    do {                                                      \
        for (int await_ms = 0; !(cond); await_ms++) {         \
            if (await_ms > KIT_WAIT_MS) {                     \
                fail_msg("there was no time when %s", #cond); \
            }                                                 \
            usleep(1000);                                     \
        }                                                     \
    } while (0)

/* The disk stands still with it, until `still` is no more. */
static uint64_t say_commit(struct putter *p)
{
    const uint32_t before = shared->waiting_n;

    struct msg_depot m;
    char *text;
    size_t n;

    putter_put(p, putter_begin(p), ckpt_chunks(state_kit.bytes));
    m = putter_msg(p, DEPOT_COMMIT);
    ckpt_kit_manifest_of(&state_kit, p->job, p->step, &text, &n);
    m.total = n;
    m.data = (uint8_t *)text;
    m.data_n = (uint32_t)n;
    shared->still = true;
    putter_say(p, &m);
    free(text);
    await(shared->waiting_n > before);
    return p->request;
}

/* A node that lives until it is told; it fails if it is not renewed. */
static void be_node(const struct kit *k)
{
    struct puppet a;

    alarm(60);
    puppet_alone(&a, k, "job", "a");
    while (!shared->stop) {
        puppet_renew(&a);
        shared->renewed_n++;
        usleep(1000);
    }
    _exit(a.refused.status == MU_OK ? 0 : 1);
}

static void leases_and_other_jobs_do_not_wait(void **state)
{
    struct kit *k = *state;
    struct putter slow, other;
    uint32_t renewed_n;
    uint64_t request;
    pid_t node;
    int status;

    kit_start(k);
    putter_open(&slow, k, &state_kit, "slow", 1);
    putter_open(&other, k, &state_kit, "other", 1);
    fflush(NULL);
    node = fork();
    assert_true(node >= 0);
    if (node == 0) {
        be_node(k);
    }
    request = say_commit(&slow);
    renewed_n = shared->renewed_n;
    await(shared->renewed_n > renewed_n + 1); /* Of the first we don't know when it was asked. */
    putter_whole(&other, 1);
    assert_string_equal(putter_list(&other), "1");
    other.step = 2;
    memcpy(other.job, "slow", sizeof("slow"));
    assert_string_equal(putter_list(&other), ""); /* That one is not there yet. */
    shared->still = false;
    assert_int_equal(putter_hear(&slow, request).status, MU_OK);
    assert_string_equal(putter_list(&slow), "1");
    shared->stop = true;
    assert_int_equal(waitpid(node, &status, 0), node);
    assert_int_equal(status, 0);
    putter_close(&slow);
    putter_close(&other);
}

static void who_waits_for_the_disk_is_not_taken_for_dead(void **state)
{
    struct kit *k = *state;
    struct putter slow, idle;
    uint64_t request;

    k->cluster.lease_ms = 30;
    kit_start(k);
    putter_open(&slow, k, &state_kit, "slow", 1);
    request = say_commit(&slow);
    putter_open(&idle, k, &state_kit, "idle", 1);
    putter_begin(&idle); /* It begins, and is never heard of again: after 60 leases it goes. */
    kit_closes(idle.cl);
    shared->still = false;
    assert_int_equal(putter_hear(&slow, request).status, MU_OK);
    putter_close(&slow);
    putter_close(&idle);
}

static void *move_on(void *arg)
{
    usleep(100000); /* It has been told to stop by then, unless it is slow: that is as well. */
    shared->still = false;
    return NULL;
}

static void what_was_under_way_is_safe_though_its_asker_and_the_orchestrator_are_gone(void **state)
{
    struct kit *k = *state;
    struct putter p;
    pthread_t mover;

    kit_start(k);
    putter_open(&p, k, &state_kit, "slow", 5);
    say_commit(&p);
    putter_close(&p);
    assert_int_equal(pthread_create(&mover, NULL, move_on, NULL), 0);
    kit_stop(k); /* It waits for the disk. */
    pthread_join(mover, NULL);
    kit_start(k);
    putter_open(&p, k, &state_kit, "slow", 5);
    assert_string_equal(putter_list(&p), "5");
    putter_close(&p);
}

/* The next one begins while the first is still being brought to the disk. */
static void a_takeover_waits_for_what_is_under_way(void **state)
{
    struct kit *k = *state;
    struct putter a, b;
    struct msg_depot m;
    uint64_t request, begin;

    kit_start(k);
    putter_open(&a, k, &state_kit, "slow", 5);
    putter_open(&b, k, &state_kit, "slow", 6);
    request = say_commit(&a);
    m = putter_msg(&b, DEPOT_BEGIN);
    m.total = state_kit.bytes;
    begin = putter_say(&b, &m);
    usleep(20000); /* for it to come there first; if not, it has nothing to wait for */
    shared->still = false;
    assert_int_equal(putter_hear(&a, request).status, MU_OK);
    assert_int_equal(putter_hear(&b, begin).status, MU_OK);
    putter_whole(&b, 0);
    assert_string_equal(putter_list(&b), "6 5");
    putter_close(&a);
    putter_close(&b);
}

static void questions_beyond_the_bound_are_to_be_asked_again(void **state)
{
    struct kit *k = *state;
    struct putter slow, late, crowd[64];
    struct msg_depot m;
    struct msg_depot_says says;
    uint64_t request;

    kit_start(k);
    putter_open(&slow, k, &state_kit, "slow", 5);
    request = say_commit(&slow);
    for (uint32_t i = 0; i < ARRAY_LEN(crowd); i++) {
        putter_open(&crowd[i], k, &state_kit, "slow", 9);
        m = putter_msg(&crowd[i], DEPOT_REMOVE); /* Of one job one after another. */
        for (uint32_t n = i == 0 ? 1 : 0; n < 16; n++) {
            putter_say(&crowd[i], &m);
        }
    }
    putter_open(&late, k, &state_kit, "other", 1);
    m = putter_msg(&late, DEPOT_LIST);
    do { /* What the others have said may be on its way. */
        says = putter_ask(&late, &m);
    } while (says.status == MU_OK);
    assert_int_equal(says.status, MU_EAGAIN);
    assert_non_null(strstr(says.text, "try again"));
    shared->still = false;
    assert_int_equal(putter_hear(&slow, request).status, MU_OK);
    for (uint32_t i = 0; i < ARRAY_LEN(crowd); i++) {
        for (uint64_t n = 1; n <= crowd[i].request; n++) {
            assert_int_equal(putter_hear(&crowd[i], n).status, MU_ENOENT);
        }
        putter_close(&crowd[i]);
    }
    assert_string_equal(putter_list(&late), "");
    putter_close(&late);
    putter_close(&slow);
}

static int setup(void **state)
{
    shared->still = false;
    shared->stop = false;
    ckpt_kit_open(&state_kit, true);
    return kit_setup(state);
}

static int teardown(void **state)
{
    shared->still = false;
    ckpt_kit_close(&state_kit);
    return kit_teardown(state);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(leases_and_other_jobs_do_not_wait),
        CASE(who_waits_for_the_disk_is_not_taken_for_dead),
        CASE(what_was_under_way_is_safe_though_its_asker_and_the_orchestrator_are_gone),
        CASE(a_takeover_waits_for_what_is_under_way),
        CASE(questions_beyond_the_bound_are_to_be_asked_again),
    };

    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
