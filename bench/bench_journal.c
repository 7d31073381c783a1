/* A real orchestrator that journals 10,000 records a second, as it would with a queue in it, while
 * a node renews its lease: how long that takes, how much is on disk, and how soon the next
 * orchestrator has it all after kill -9.
 *
 * usage: bench_journal [FOLDER [SECONDS]]: the journal is made in FOLDER; 600 s by default. */
#include "bench.h"
#include "net/client.h"
#include "orchestrator/driver.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RATE 10000 /* records a second */
#define JOBS 500   /* … in so many jobs: one change of each is on its way at a time */
#define KEYS 20    /* of each job */
#define VALUE_BYTES 64
#define RENEW_US 5000
#define TIMES_MAX (1u << 20)

/* Between the process that serves and the one that looks. */
struct shared {
    uint64_t done;
    uint16_t port;
};

struct load {
    struct orchestrator *o;
    struct shared *shared;
    uv_timer_t timer;
    uint32_t jobs_n, next, waiting;
    double start;
    uint64_t queued;
};

static void exit_on(bool bad, const char *what)
{
    if (bad) {
        fprintf(stderr, "bench_journal: %s\n", what);
        exit(1);
    }
}

/* ---- the one that serves ---- */

static void on_done(void *arg, int status, const struct record *r)
{
    struct load *l = arg;

    exit_on(status != MU_OK, "a record could not be written");
    l->waiting--;
    l->shared->done += r->kind == RECORD_CONFIG;
}

static void append(struct load *l, const struct record *r)
{
    l->waiting++;
    journal_append(l->o->journal, r, (struct journal_done){on_done, l});
}

static bool change(struct load *l)
{
    static const char value[VALUE_BYTES] = "a value";
    struct config_request q = {
        .key = "k", .value = value, .value_n = sizeof(value), .expect = CONFIG_ANY};
    struct record r;
    char job[NAME_MAX_LEN], key[16];

    snprintf(job, sizeof(job), "bench-%u", l->next % JOBS);
    snprintf(key, sizeof(key), "key-%u", l->next / JOBS % KEYS);
    q.key = key;
    if (cluster_wish(l->o->cluster, job, &q, &r, NULL, 0) != MU_OK) {
        return false;
    }
    l->next++;
    l->queued++;
    append(l, &r);
    return true;
}

static void on_load(uv_timer_t *t)
{
    struct load *l = t->data;

    if (l->jobs_n < JOBS) {
        struct record r = {.kind = RECORD_JOB, .u.job = {.run = 1, .min = 1, .max = 2}};

        snprintf(r.u.job.job, sizeof(r.u.job.job), "bench-%u", l->jobs_n++);
        append(l, &r);
        l->start = bench_now();
        return;
    }
    while ((double)l->queued < (bench_now() - l->start) * RATE && change(l)) {
    }
}

static struct orchestrator_config config_of(const char *dir, const struct token *token)
{
    struct orchestrator_config config = {.listen = {.host = "127.0.0.1"},
                                         .data_dir = dir,
                                         .token = *token,
                                         .cluster = cluster_defaults(),
                                         .quiet = true};

    config.cluster.jobs_max = JOBS + 1;
    return config;
}

static void serve(const char *dir, const struct token *token, struct shared *shared)
{
    struct orchestrator_config config = config_of(dir, token);
    struct load l = {.shared = shared};
    char error[STORE_ERROR_MAX] = "";
    uv_loop_t loop;

    uv_loop_init(&loop);
    exit_on(orchestrator_open(&loop, &config, &l.o, error) != MU_OK, error);
    uv_timer_init(&loop, &l.timer);
    l.timer.data = &l;
    uv_timer_start(&l.timer, on_load, 1, 1);
    __atomic_store_n(&shared->port, orchestrator_port(l.o), __ATOMIC_SEQ_CST);
    uv_run(&loop, UV_RUN_DEFAULT);
}

/* ---- the one that looks ---- */

static struct client *join(uint16_t port, const struct token *token)
{
    struct endpoints to = {.n = 1, .at = {{.host = "127.0.0.1", .port = port}}};
    struct msg_hello hello = {.job = "renews",
                              .name = "node",
                              .incarnation = 1,
                              .host = 1,
                              .min = 2,
                              .max = 2,
                              .slots = 1,
                              .mode = MODE_INPROCESS};
    char error[NET_ERROR_MAX] = "";
    const union wire_any *msg;
    struct wire_header h = {0};
    struct client *cl;

    exit_on(client_open(&to, token, 30000, &cl, error) != MU_OK, error);
    exit_on(client_say(cl, WIRE_HELLO, &hello, 0, error) != MU_OK, error);
    while (h.type != WIRE_WELCOME) {
        exit_on(client_next(cl, 30000, &h, &msg, error) != MU_OK, error);
    }
    return cl;
}

static double renew_ms(struct client *cl, uint64_t seq)
{
    struct msg_renew m = {.seq = seq};
    char error[NET_ERROR_MAX] = "";
    const union wire_any *msg;
    struct wire_header h;
    double start = bench_now();

    exit_on(client_say(cl, WIRE_RENEW, &m, 0, error) != MU_OK, error);
    do {
        exit_on(client_next(cl, 30000, &h, &msg, error) != MU_OK, error);
    } while (h.type != WIRE_ACK || msg->ack.seq != seq);
    return (bench_now() - start) * 1e3;
}

static double on_disk_mib(const char *dir)
{
    static const char *const NAMES[] = {"", "-wal", "-head"};
    char path[512];
    struct stat st;
    double sum = 0;

    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        snprintf(path, sizeof(path), "%s/journal.db%s", dir, NAMES[i]);
        sum += stat(path, &st) == 0 ? (double)st.st_size : 0;
    }
    return sum / (1 << 20);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void look(struct client *cl, const char *dir, double seconds, struct shared *shared)
{
    static double times[TIMES_MAX];
    double start = bench_now(), most_mib = 0, spent;
    uint64_t first = shared->done;
    uint32_t n = 0;

    while ((spent = bench_now() - start) < seconds && n < TIMES_MAX) {
        times[n] = renew_ms(cl, n + 1);
        n++;
        most_mib = n % 16 == 0 ? MAX(most_mib, on_disk_mib(dir)) : most_mib;
        usleep(RENEW_US);
    }
    bench_result("journaled", (double)(shared->done - first) / spent, "records/s");
    qsort(times, n, sizeof(times[0]), by_size);
    bench_result("renewal, median", times[n / 2], "ms");
    bench_result("renewal, p99", times[(uint64_t)n * 99 / 100], "ms");
    bench_result("renewal, longest", times[n - 1], "ms");
    bench_result("on disk, most", most_mib, "MiB");
}

static void restart(const char *dir, const struct token *token)
{
    struct orchestrator_config config = config_of(dir, token);
    char error[STORE_ERROR_MAX] = "";
    struct orchestrator *o;
    double start = bench_now();
    clock_t cpu = clock();
    uv_loop_t loop;

    uv_loop_init(&loop);
    exit_on(orchestrator_open(&loop, &config, &o, error) != MU_OK, error);
    bench_result("restart after kill -9", bench_now() - start, "s");
    bench_result("restart, processor time", (double)(clock() - cpu) / CLOCKS_PER_SEC, "s");
    orchestrator_close(o);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
}

int main(int argc, char **argv)
{
    double seconds = argc > 2 ? atof(argv[2]) : 600;
    struct shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct token token = {.secret = {1, 2, 3}};
    char dir[256], command[300];
    struct client *cl;
    pid_t pid;

    log_set_level(LOG_WARN);
    exit_on(shared == MAP_FAILED, "no memory");
    snprintf(dir, sizeof(dir), "%s/bench-journal-%d", argc > 1 ? argv[1] : ".", (int)getpid());
    pid = fork();
    if (pid == 0) {
        serve(dir, &token, shared);
        _exit(1);
    }
    while (__atomic_load_n(&shared->port, __ATOMIC_SEQ_CST) == 0) {
        exit_on(waitpid(pid, NULL, WNOHANG) != 0, "the orchestrator did not start");
        usleep(1000);
    }
    cl = join(shared->port, &token);
    bench_begin("journal");
    look(cl, dir, seconds, shared);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    client_close(cl);
    restart(dir, &token);
    bench_end();
    snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    return system(command) == 0 ? 0 : 1;
}
