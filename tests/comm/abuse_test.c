/* Strangers, liars and the silent, against a group that is at work: each is refused or timed out,
 * and counted; the group's results stay right, and nothing of it is left. */
#include "base/prng.h"
#include "comm/ranks.h"
#include "comm/reference.h"
#include "lib/move.h"
#include "link/hello.h"
#include "unit/unit.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define RANKS 3
#define COUNT 3000
#define STRANGER wid_make(77, 0, 1)

struct site {
    _Atomic uint32_t stop;
    struct {
        _Atomic uint64_t rounds_n, refused_n, timed_out_n, generation;
    } rank[RANKS_MAX];
};

enum { SAYS_STALE = 1 };

/* The clock of all of them, which can be put forward. */
static _Atomic uint64_t *ahead_ns;
uint64_t __real_clock_ns(void);
uint64_t __wrap_clock_ns(void);

uint64_t __wrap_clock_ns(void)
{
    return __real_clock_ns() + atomic_load(ahead_ns);
}

/* ---- the group ---- */

static void tell_stats(struct rank *r, struct site *site)
{
    struct comm_stats stats;

    comm_stats(r->comm, &stats);
    /* What was let in by the run's key, and is thrown out later, is a link that is lost. */
    atomic_store(&site->rank[r->index].refused_n, stats.refused_n + stats.lost_n);
    atomic_store(&site->rank[r->index].timed_out_n, stats.timed_out_n);
    atomic_store(&site->rank[r->index].generation, comm_generation(r->comm));
    atomic_fetch_add(&site->rank[r->index].rounds_n, 1);
}

/* All-reduces until the test says that it is enough; the last element is the vote to stop. */
static void work(struct rank *r)
{
    struct site *site = (struct site *)(void *)r->shared;
    float *all[RANKS_MAX], *want = malloc(4 * COUNT), *out = malloc(4 * COUNT);
    const uint32_t n = comm_size(r->comm), me = comm_rank(r->comm);
    const void *leaves[RANKS_MAX];
    bool over = false;

    for (uint32_t i = 0; i < n; i++) {
        leaves[i] = all[i] = malloc(4 * COUNT);
        reference_fill(DTYPE_F32, 1, i + 1, all[i], COUNT);
        all[i][COUNT - 1] = 0;
    }
    reference_fold(DTYPE_F32, REDUCE_SUM, 1, want, leaves, n, 0, COUNT);
    while (!over) {
        struct comm_call call = {.op = COMM_ALLREDUCE,
                                 .in = all[me],
                                 .out = out,
                                 .count = COUNT,
                                 .dtype = DTYPE_F32,
                                 .timeout_ms = RANKS_LIMIT_MS / 2};
        struct comm_result result;
        int rc;

        all[me][COUNT - 1] = (float)atomic_load(&site->stop);
        rc = comm_run(r->comm, &call, &result);
        rank_check(r, rc == MU_OK, "%s: %s", mu_strerror(rc), result.error);
        rank_check(r, memcmp(out, want, 4 * (COUNT - 1)) == 0, "a result is wrong");
        over = out[COUNT - 1] > 0;
        tell_stats(r, site);
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
    for (uint32_t i = 0; i < n; i++) {
        free(all[i]);
    }
    free(want);
    free(out);
}

static void busy_body(struct rank *r)
{
    rank_enter(r, 0);
    work(r);
}

/* ---- who comes ---- */

static int dial_tcp(struct ranks *s, uint32_t who)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    char host[ADDR_MAX_LEN];
    char *colon;
    int fd;

    memcpy(host, s->rank[who].address, sizeof(host));
    colon = strrchr(host, ':');
    mu_assert(colon != NULL);
    *colon = '\0';
    inet_pton(AF_INET, host, &to.sin_addr);
    to.sin_port = htons((uint16_t)atoi(colon + 1));
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0) {
        ranks_fail(s, "connecting to %s: %s", s->rank[who].address, strerror(errno));
    }
    return fd;
}

static int dial_unix(struct ranks *s, uint32_t who)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd, n;

    n = snprintf(to.sun_path + 1, sizeof(to.sun_path) - 1, "muster-data-%s",
                 strrchr(s->rank[who].address, ':') + 1);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 ||
        connect(fd, (struct sockaddr *)&to,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) != 0) {
        ranks_fail(s, "connecting to %s: %s", to.sun_path + 1, strerror(errno));
    }
    return fd;
}

static int dial(struct ranks *s, uint32_t who, bool local)
{
    return local ? dial_unix(s, who) : dial_tcp(s, who);
}

static void say(int fd, const void *bytes, size_t n)
{
    if (send(fd, bytes, n, MSG_NOSIGNAL) < 0) {
        mu_assert(errno == EPIPE || errno == ECONNRESET); /* It has had enough already. */
    }
}

/* Whatever it says first, it closes the connection. */
static void expect_closed(struct ranks *s, int fd, const char *what)
{
    const uint64_t end_ns = ranks_now_ns() + RANKS_LIMIT_MS * UINT64_C(1000000);
    uint8_t bytes[4096];
    ssize_t n;

    do {
        struct pollfd p = {.fd = fd, .events = POLLIN};

        if (ranks_now_ns() > end_ns || poll(&p, 1, RANKS_LIMIT_MS) != 1) {
            ranks_fail(s, "%s: the connection was not closed", what);
        }
        n = recv(fd, bytes, sizeof(bytes), 0);
    } while (n > 0);
    close(fd);
}

/* … or says nothing for so long. */
static bool is_closed(int fd, int for_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    uint8_t bytes[4096];

    while (poll(&p, 1, for_ms) == 1) {
        if (recv(fd, bytes, sizeof(bytes), 0) <= 0) {
            return true;
        }
    }
    return false;
}

static struct hello_config stranger_config(const struct ranks *s)
{
    struct hello_config c = {.job = "test", .run = 1, .self = STRANGER};

    for (size_t i = 0; i < sizeof(c.run_key); i++) {
        c.run_key[i] = (uint8_t)prng_mix(s->key_seed + i);
    }
    return c;
}

/* Shakes hands as this config says; false: it was refused on the way. */
static bool shake(struct ranks *s, int fd, const struct hello_config *config, wid to,
                  struct hello_session *session_out)
{
    uint8_t nonce[HELLO_NONCE_BYTES], out[HELLO_BYTES], in[HELLO_BYTES];
    struct hello h;
    size_t out_n;

    mu_assert(getrandom(nonce, sizeof(nonce), 0) == (ssize_t)sizeof(nonce));
    hello_dial(&h, config, LINK_GROUP, to, nonce, out);
    say(fd, out, sizeof(out));
    while (h.state == HELLO_TALKS) {
        ssize_t n = recv(fd, in, sizeof(in) - h.in_n, 0);

        if (n <= 0) {
            return false;
        }
        hello_take(&h, in, (size_t)n, out, &out_n);
        say(fd, out, out_n);
    }
    if (session_out != NULL) {
        *session_out = h.session;
    }
    return h.state == HELLO_DONE;
}

/* ---- each kind ---- */

static void random_bytes(struct ranks *s, uint32_t who, bool local)
{
    uint8_t bytes[5000];
    int fd = dial(s, who, local);

    mu_assert(getrandom(bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes));
    say(fd, bytes, 1 + bytes[0] * 19u);
    shutdown(fd, SHUT_WR);
    expect_closed(s, fd, "random bytes");
}

static void wrong_key(struct ranks *s, uint32_t who, bool local)
{
    struct hello_config config = stranger_config(s);
    uint8_t nonce[HELLO_NONCE_BYTES] = {1}, out[HELLO_BYTES], in[HELLO_BYTES];
    struct hello h;
    int fd = dial(s, who, local);
    size_t at = 0;

    config.run_key[5] ^= 1;
    hello_dial(&h, &config, LINK_GROUP, ranks_wid(who), nonce, out);
    say(fd, out, sizeof(out));
    while (at < sizeof(in)) {
        ssize_t n = recv(fd, in + at, sizeof(in) - at, 0);

        if (n <= 0) {
            break;
        }
        at += (size_t)n;
    }
    in[5]++; /* an answer's form is nearly that of a proof, but its hash is not */
    say(fd, in, sizeof(in));
    expect_closed(s, fd, "a wrong key");
}

static void wrong_run(struct ranks *s, uint32_t who, bool local)
{
    struct hello_config config = stranger_config(s);
    int fd = dial(s, who, local);

    config.run = 2;
    if (shake(s, fd, &config, ranks_wid(who), NULL)) {
        ranks_fail(s, "another run was let in");
    }
    expect_closed(s, fd, "another run");
}

static void wrong_name(struct ranks *s, uint32_t who, bool local)
{
    struct hello_config config = stranger_config(s);
    int fd = dial(s, who, local);

    if (shake(s, fd, &config, ranks_wid((who + 1) % RANKS), NULL)) {
        ranks_fail(s, "a hello to another worker was answered");
    }
    expect_closed(s, fd, "a hello to another");
}

/* It has the run's key, so it may knock; but it is in no generation. */
static void unproved_note(struct ranks *s, uint32_t who, bool local)
{
    struct hello_config config = stranger_config(s);
    struct note note = {.generation = 1,
                        .call = 1,
                        .count = 10,
                        .kind = NOTE_DATA,
                        .op = COMM_BROADCAST,
                        .bytes = 40};
    uint8_t head[NOTE_BYTES], bytes[64] = {0};
    int fd = dial(s, who, false);

    if (!shake(s, fd, &config, ranks_wid(who), NULL)) {
        ranks_fail(s, "a worker of the run was not let in");
    }
    note_encode(&note, head);
    say(fd, head, sizeof(head));
    say(fd, bytes, 44);
    expect_closed(s, fd, "a note without a proof");
}

static void oversize_note(struct ranks *s, uint32_t who, bool local)
{
    struct hello_config config = stranger_config(s);
    struct note note = {.generation = 1,
                        .call = 1,
                        .count = UINT64_C(1) << 40,
                        .kind = NOTE_DATA,
                        .op = COMM_BROADCAST,
                        .bytes = UINT64_C(1) << 40};
    uint8_t head[NOTE_BYTES];
    int fd = dial(s, who, false);

    if (!shake(s, fd, &config, ranks_wid(who), NULL)) {
        ranks_fail(s, "a worker of the run was not let in");
    }
    note_encode(&note, head);
    say(fd, head, sizeof(head));
    expect_closed(s, fd, "an oversize note");
}

/* Says that it is in that generation, with a proof of a key that it has made up. */
static void claim(struct ranks *s, uint32_t who, uint64_t generation, const char *what)
{
    struct hello_config config = stranger_config(s);
    struct hello_session session;
    struct note note = {.generation = generation, .kind = NOTE_MOVE, .bytes = HELLO_PROOF_BYTES};
    uint8_t head[NOTE_BYTES], proof[HELLO_PROOF_BYTES], key[KEY_BYTES] = {9};
    static const uint32_t COUNTS = UINT32_C(0x74636e75);
    int fd = dial(s, who, false);

    if (!shake(s, fd, &config, ranks_wid(who), &session)) {
        ranks_fail(s, "a worker of the run was not let in");
    }
    hello_proof(&config, &session, generation, key, STRANGER, 1, ranks_wid(who), who, proof);
    note_encode(&note, head);
    say(fd, head, sizeof(head));
    say(fd, proof, sizeof(proof));
    say(fd, &COUNTS, sizeof(COUNTS));
    note = (struct note){.generation = generation,
                         .call = 1,
                         .count = 10,
                         .kind = NOTE_DATA,
                         .op = COMM_BROADCAST,
                         .bytes = 40};
    note_encode(&note, head);
    say(fd, head, sizeof(head));
    expect_closed(s, fd, what);
}

static void false_proof(struct ranks *s, uint32_t who, bool local)
{
    claim(s, who, s->generation, "a false proof");
}

static void old_generation(struct ranks *s, uint32_t who, bool local)
{
    claim(s, who, s->generation - 1, "an old generation");
}

/* ---- the tests ---- */

static uint32_t open_fds(const struct ranks *s, uint32_t who)
{
    char path[64];
    uint32_t n = 0;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)s->rank[who].pid);
    dir = opendir(path);
    while (dir != NULL && readdir(dir) != NULL) {
        n++;
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return n;
}

static void open_group(struct ranks *s, const char *what)
{
    static const struct ranks_config CONFIG = {
        .n = RANKS, .body = busy_body, .shared_bytes = sizeof(struct site), .hosts = {1, 1, 2}};

    ranks_open(s, &CONFIG);
    snprintf(s->what, sizeof(s->what), "%s", what);
    s->generation = 6; /* so that there are older ones */
    ranks_publish_all(s);
}

static void await_site(struct ranks *s, const _Atomic uint64_t *what, uint64_t least,
                       const char *text)
{
    const uint64_t end_ns = ranks_now_ns() + RANKS_LIMIT_MS * UINT64_C(1000000);
    struct ranks_event e;

    while (atomic_load(what) < least) {
        if (ranks_next(s, 5, &e) && e.kind == RANKS_DIED && e.status != 0) {
            ranks_fail(s, "rank %u ended with status %x", e.who, (unsigned)e.status);
        }
        if (ranks_now_ns() > end_ns) {
            ranks_fail(s, "%s: %llu, not %llu", text, (unsigned long long)atomic_load(what),
                       (unsigned long long)least);
        }
    }
}

static void end_group(struct ranks *s)
{
    struct site *site = (struct site *)(void *)s->shared;

    for (uint32_t i = 0; i < RANKS; i++) { /* It still works. */
        await_site(s, &site->rank[i].rounds_n, atomic_load(&site->rank[i].rounds_n) + 20,
                   "rounds since");
    }
    atomic_store(&site->stop, 1);
    ranks_finish(s);
}

typedef void attack(struct ranks *s, uint32_t who, bool local);

/* refused: each counts as refused at once. */
static void run_attack(attack *a, const char *what, bool also_local, unsigned times)
{
    struct ranks s;
    struct site *site;

    open_group(&s, what);
    site = (struct site *)(void *)s.shared;
    for (uint32_t i = 0; i < RANKS; i++) {
        await_site(&s, &site->rank[i].rounds_n, 5, "rounds");
    }
    for (uint32_t who = 0; who < RANKS; who++) {
        for (int local = 0; local <= (also_local ? 1 : 0); local++) {
            const uint32_t fds = open_fds(&s, who);
            const uint64_t before = atomic_load(&site->rank[who].refused_n);

            for (unsigned i = 0; i < times; i++) {
                a(&s, who, local != 0);
            }
            await_site(&s, &site->rank[who].refused_n, before + times, "refused");
            for (int i = 0; open_fds(&s, who) > fds; i++) {
                if (i == 1000) {
                    ranks_fail(&s, "%u descriptors more than before", open_fds(&s, who) - fds);
                }
                nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
            }
        }
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        if (atomic_load(&site->rank[i].generation) != s.generation) {
            ranks_fail(&s, "rank %u is in another generation", i);
        }
    }
    end_group(&s);
}

static void random_bytes_are_refused(void **state)
{
    run_attack(random_bytes, "random bytes", true, ranks_full() ? 200 : 10);
}

static void a_wrong_key_is_refused(void **state)
{
    run_attack(wrong_key, "a wrong key", true, ranks_full() ? 50 : 5);
}

static void another_run_or_name_is_refused(void **state)
{
    run_attack(wrong_run, "another run", true, 3);
    run_attack(wrong_name, "another name", true, 3);
}

static void a_note_before_any_proof_is_refused(void **state)
{
    run_attack(unproved_note, "a note without a proof", false, 3);
    run_attack(oversize_note, "an oversize note", false, 3);
}

static void a_false_proof_is_refused(void **state)
{
    run_attack(false_proof, "a false proof", false, 3);
}

static void an_old_generation_is_refused(void **state)
{
    run_attack(old_generation, "an old generation", false, 3);
}

static void the_silent_are_timed_out(void **state)
{
    enum { SILENT = 40 };
    int fds[RANKS][2][SILENT];
    struct site *site;
    struct ranks s;

    open_group(&s, "the silent");
    site = (struct site *)(void *)s.shared;
    for (uint32_t i = 0; i < RANKS; i++) {
        await_site(&s, &site->rank[i].rounds_n, 5, "rounds");
        for (uint32_t k = 0; k < 2 * SILENT; k++) {
            fds[i][k % 2][k / 2] = dial(&s, i, k % 2 != 0);
            if (k % 4 == 0) {
                say(fds[i][0][k / 2], "muh1", 4); /* It has said something, but not enough. */
            }
        }
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        for (uint32_t k = 0; k < 2 * SILENT; k++) {
            while (!is_closed(fds[i][k % 2][k / 2],
                              k == 0 ? 100 : 1000)) { /* or not let in before: once more */
                atomic_fetch_add(ahead_ns, HELLO_TIMEOUT_MS * UINT64_C(1000000));
                close(dial(&s, i, false)); /* It has it look at its clock. */
            }
            close(fds[i][k % 2][k / 2]);
        }
        await_site(&s, &site->rank[i].timed_out_n, 2 * SILENT, "timed out");
    }
    end_group(&s);
    atomic_store(ahead_ns, 0);
}

/* ---- a member of the past ---- */

/* All are in generation 1; the last of them stays there, and tries again. */
static void stale_body(struct rank *r)
{
    const struct generation *g = rank_enter(r, 0);
    wid missing = 0;
    int rc;

    if (r->index + 1 < r->config->n) {
        rank_say(r, SAYS_STALE, 0, 0);
        rank_enter(r, 1);
        work(r);
        return;
    }
    rank_say(r, SAYS_STALE, 0, 0);
    rank_word(r);
    rc = move_to(r->comm, g, 0, 500, &missing);
    rank_check(r, rc == MU_ETIMEDOUT || rc == MU_EPEER || rc == MU_ESTALE,
               "moving to an old generation: %s", mu_strerror(rc));
    rank_say(r, SAYS_STALE, 1, 0);
}

static void a_member_of_the_past_gets_nowhere(void **state)
{
    static const struct ranks_config CONFIG = {.n = RANKS + 1,
                                               .body = stale_body,
                                               .shared_bytes = sizeof(struct site),
                                               .hosts = {1, 1, 2, 2}};
    static const uint32_t REST[] = {0, 1, 2};
    struct site *site;
    struct ranks s;

    ranks_open(&s, &CONFIG);
    snprintf(s.what, sizeof(s.what), "a member of the past");
    site = (struct site *)(void *)s.shared;
    ranks_publish_all(&s);
    for (uint32_t i = 0; i <= RANKS; i++) {
        ranks_await(&s, i, SAYS_STALE, NULL);
    }
    ranks_publish(&s, GENERATION_BOUNDARY, REST, RANKS);
    for (uint32_t i = 0; i < RANKS; i++) {
        await_site(&s, &site->rank[i].rounds_n, 5, "rounds");
    }
    ranks_word(&s, RANKS, 1);
    ranks_await(&s, RANKS, SAYS_STALE, NULL);
    end_group(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_bytes_are_refused),
        cmocka_unit_test(a_wrong_key_is_refused),
        cmocka_unit_test(another_run_or_name_is_refused),
        cmocka_unit_test(a_note_before_any_proof_is_refused),
        cmocka_unit_test(a_false_proof_is_refused),
        cmocka_unit_test(an_old_generation_is_refused),
        cmocka_unit_test(the_silent_are_timed_out),
        cmocka_unit_test(a_member_of_the_past_gets_nowhere),
    };

    ahead_ns =
        mmap(NULL, sizeof(*ahead_ns), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return ahead_ns == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
