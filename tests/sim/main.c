/* The simulator's command line. */
#include "sim/sim.h"

#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FAILURES_N 8
#define PROGRESS_S 30.0

/* Shared by the processes that run seeds side by side. */
struct tally_all {
    uint64_t next;
    uint64_t seeds_n, events_n, sim_us, commits_n, takeovers_n, heals_n, generations_n;
    uint64_t failures_n;
    struct {
        uint64_t seed;
        char why[512];
    } failures[FAILURES_N];
};

static double wall_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

#define ADD(field, n) __atomic_fetch_add(&all->field, (n), __ATOMIC_RELAXED)

static void work(struct tally_all *all, uint64_t end, double until_s, uint64_t failures_max)
{
    struct world *w = world_open();

    while (wall_s() < until_s && all->failures_n < failures_max) {
        uint64_t seed = ADD(next, 1);

        if (seed >= end) {
            break;
        }
        if (!seed_run(w, seed, false)) {
            uint64_t i = ADD(failures_n, 1);

            if (i < FAILURES_N) {
                all->failures[i].seed = seed;
                memcpy(all->failures[i].why, w->why, sizeof(w->why));
            }
        }
        ADD(seeds_n, 1);
        ADD(events_n, w->events_n);
        ADD(sim_us, w->now_us);
        ADD(commits_n, w->check.commits_n);
        ADD(takeovers_n, w->check.takeovers_n);
        ADD(heals_n, w->check.heals_n);
        ADD(generations_n, w->check.newest);
    }
    world_close(w);
}

static void print_failures(const struct tally_all *all, const char *self, const char *mutation)
{
    for (uint64_t i = 0; i < MIN(all->failures_n, FAILURES_N); i++) {
        printf("seed %" PRIu64 " failed: %s\n    replay: %s%s%s --trace %" PRIu64 "\n",
               all->failures[i].seed, all->failures[i].why, self,
               mutation != NULL ? " --mutation " : "", mutation != NULL ? mutation : "",
               all->failures[i].seed);
    }
}

/* Says now and then how far it is. Ctrl-C ends the workers; what they have done still counts. */
static bool wait_for_all(long jobs, const struct tally_all *all, double start_s)
{
    double next_s = start_s + PROGRESS_S;
    bool crashed = false;

    signal(SIGINT, SIG_IGN);
    while (jobs > 0) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);

        if (pid > 0) {
            jobs--;
            crashed |= WIFSIGNALED(status) ? WTERMSIG(status) != SIGINT : WEXITSTATUS(status) != 0;
        } else {
            usleep(20000);
        }
        if (wall_s() >= next_s) {
            next_s += PROGRESS_S;
            fprintf(stderr, "%" PRIu64 " seeds in %.0f s, %" PRIu64 " failed", all->seeds_n,
                    wall_s() - start_s, all->failures_n);
            if (all->failures_n != 0) {
                fprintf(stderr, ", the first of them %" PRIu64, all->failures[0].seed);
            }
            fputc('\n', stderr);
        }
    }
    return crashed;
}

static int run_seeds(uint64_t first, uint64_t end, double seconds, uint64_t failures_max,
                     const char *self, const char *mutation)
{
    long jobs = sysconf(_SC_NPROCESSORS_ONLN);
    struct tally_all *all =
        mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    double start_s = wall_s(), took_s;
    bool crashed;

    mu_assert(all != MAP_FAILED);
    all->next = first;
    for (long i = 0; i < jobs; i++) {
        if (fork() == 0) {
            if (mutation != NULL && freopen("/dev/null", "w", stderr) == NULL) {
                _exit(3);
            }
            work(all, end, start_s + seconds, failures_max);
            _exit(0);
        }
    }
    crashed = wait_for_all(jobs, all, start_s);
    took_s = wall_s() - start_s;
    print_failures(all, self, mutation);
    printf("%" PRIu64 " seeds from %" PRIu64 ", %" PRIu64 " events, %" PRIu64 " commits, %" PRIu64
           " generations, %" PRIu64 " takeovers, %" PRIu64
           " heals; %.0f s simulated in %.1f s (%.0f x); %" PRIu64 " failed%s\n",
           all->seeds_n, first, all->events_n, all->commits_n, all->generations_n, all->takeovers_n,
           all->heals_n, (double)all->sim_us / 1e6, took_s, (double)all->sim_us / 1e6 / took_s,
           all->failures_n, crashed ? ", and the simulator itself crashed" : "");
    return all->failures_n != 0 || crashed;
}

static int run_trace(uint64_t seed)
{
    struct world *w = world_open();
    bool ok = seed_run(w, seed, true);

    printf("seed %" PRIu64 ": %s\n", seed, ok ? "nothing was wrong" : w->why);
    world_close(w);
    return ok ? 0 : 1;
}

#ifdef MUSTER_MUTATIONS
static const char *const mutation_names[] = {"NONE",
#define X(name, text) #name,
                                             MUTATION_MAP(X)
#undef X
};

static const char *const mutation_texts[] = {"",
#define X(name, text) text,
                                             MUTATION_MAP(X)
#undef X
};

static int set_mutation(const char *name)
{
    for (int i = 1; i < (int)ARRAY_LEN(mutation_names); i++) {
        if (strcmp(mutation_names[i], name) == 0) {
            core_mutation = (enum mutation)i;
            return 0;
        }
    }
    fprintf(stderr, "sim: there is no rule '%s'; --mutations lists them\n", name);
    return 2;
}

static void list_mutations(void)
{
    for (int i = 1; i < (int)ARRAY_LEN(mutation_names); i++) {
        printf("%s\t%s\n", mutation_names[i], mutation_texts[i]);
    }
}
#else
static int set_mutation(const char *name)
{
    fprintf(stderr, "sim: this build keeps all rules ('%s' asked for); use sim-mutant\n", name);
    return 2;
}

static void list_mutations(void)
{
}
#endif

static void usage(void)
{
    puts("usage: sim [--seeds N] [--first SEED]   run seeds side by side (2000 from 1)\n"
         "       sim --soak SECONDS               fresh seeds until then\n"
         "       sim --trace SEED                 one seed, told as it happens\n"
         "       sim --script FILE [--rewrite]    a scenario; --rewrite takes what happens as "
         "right\n"
         "       sim --demo                       a scenario worth reading\n"
         "       sim-mutant --mutation RULE …     with one rule taken out; --mutations lists them");
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"seeds", 1, NULL, 'n'}, {"first", 1, NULL, 'f'},    {"soak", 1, NULL, 's'},
        {"trace", 1, NULL, 't'}, {"script", 1, NULL, 'c'},   {"rewrite", 0, NULL, 'r'},
        {"demo", 0, NULL, 'd'},  {"mutation", 1, NULL, 'm'}, {"mutations", 0, NULL, 'l'},
        {"help", 0, NULL, 'h'},  {"failures", 1, NULL, 'x'}, {NULL, 0, NULL, 0}};
    uint64_t seeds_n = 2000, first = 1, failures_max = FAILURES_N;
    const char *mutation = NULL, *script = NULL;
    enum script_mode mode = SCRIPT_CHECK;
    int opt;

    while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (opt) {
        case 'n':
            seeds_n = strtoull(optarg, NULL, 10);
            break;
        case 'f':
            first = strtoull(optarg, NULL, 10);
            break;
        case 'x':
            failures_max = strtoull(optarg, NULL, 10);
            break;
        case 's':
            first = (uint64_t)time(NULL) << 24;
            return run_seeds(first, UINT64_MAX, atof(optarg), FAILURES_N, argv[0], mutation);
        case 't':
            return run_trace(strtoull(optarg, NULL, 10));
        case 'c':
            script = optarg;
            break;
        case 'r':
            mode = SCRIPT_REWRITE;
            break;
        case 'm':
            mutation = optarg;
            if (set_mutation(optarg) != 0) {
                return 2;
            }
            break;
        case 'l':
            list_mutations();
            return 0;
        case 'd':
            script = SIM_DEMO_SCRIPT;
            mode = SCRIPT_TELL;
            break;
        default:
            usage();
            return opt == 'h' ? 0 : 2;
        }
    }
    if (script != NULL) {
        return script_main(script, mode);
    }
    return run_seeds(first, first + seeds_n, 1e9, failures_max, argv[0], mutation);
}
