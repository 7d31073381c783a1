/* One case, from start to end, beside what one worker by itself has. */
#include "run/sweep.h"

#include "unit/unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

uint64_t sweep_limit_ms = 60000;

const char *sweep_layout_name(enum sweep_layout layout)
{
    return (const char *[]){"shm", "tcp", "mixed"}[layout];
}

const char *sweep_story_name(enum sweep_story story)
{
    return (const char *[]){"whole", "stepping", "joining"}[story];
}

const char *sweep_name(const struct sweep_case *c, char text[64])
{
    snprintf(text, 64, "%s %s %u %lu", sweep_layout_name(c->layout), sweep_story_name(c->story),
             c->victim, c->k);
    return text;
}

static struct sweep_shared *share(void)
{
    void *memory = mmap(NULL, sizeof(struct sweep_shared), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(memory, MAP_FAILED);
    return memory;
}

/* What one worker has, without an agent; made once. */
static const float *alone(void)
{
    static const struct sweep_case c = {.story = SWEEP_WHOLE, .victim = SWEEP_NOBODY};
    static struct sweep_shared *kept;
    int status = 0;
    pid_t pid;

    if (kept != NULL) {
        return kept->worker[0].weights;
    }
    kept = share();
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        sweep_worker(&c, 0, "", kept);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(atomic_load(&kept->worker[0].steps), SWEEP_STEPS);
    return kept->worker[0].weights;
}

static bool is_over(const struct sweep_agent *a)
{
    for (uint32_t i = 0; i < SWEEP_MAX; i++) {
        if (a->seats[i].pid > 0 || (i < SWEEP_FIRST && a->seats[i].pid == 0)) {
            return false;
        }
    }
    return true;
}

/* The newcomer may find that all is done. */
static bool came_too_late(const struct sweep_agent *a, uint32_t index)
{
    return index >= SWEEP_FIRST && atomic_load(&a->shared->worker[index].steps) == 0 &&
           a->last_active.members_n < SWEEP_MAX;
}

/* Everyone but the victim ended as it should. */
static void judge(const struct sweep_agent *a, const struct sweep_case *c,
                  struct sweep_result *result)
{
    for (uint32_t i = 0; i < SWEEP_MAX && result->why[0] == '\0'; i++) {
        const struct sweep_seat *s = &a->seats[i];
        bool killed = WIFSIGNALED(s->status) && WTERMSIG(s->status) == SIGKILL;

        if (s->pid == 0) {
            continue;
        }
        if (i == c->victim && killed) {
            result->died = true;
        } else if (s->status != 0) {
            snprintf(result->why, sizeof(result->why), "worker %u ended with status %x", i,
                     (unsigned)s->status);
        } else if (came_too_late(a, i)) {
            continue;
        } else if (atomic_load(&a->shared->worker[i].steps) != SWEEP_STEPS) {
            snprintf(result->why, sizeof(result->why), "worker %u ended after step %llu", i,
                     (unsigned long long)atomic_load(&a->shared->worker[i].steps));
        } else if (memcmp(a->shared->worker[i].weights, alone(),
                          2 * SWEEP_WEIGHTS * sizeof(float)) != 0) {
            snprintf(result->why, sizeof(result->why), "worker %u has other weights than one alone",
                     i);
        }
    }
}

static void show_log(int fd)
{
    char text[4096];
    ssize_t n;

    for (off_t at = 0; (n = pread(fd, text, sizeof(text), at)) > 0; at += n) {
        fwrite(text, 1, (size_t)n, stderr);
    }
}

void sweep_run(const struct sweep_case *c, bool show, struct sweep_result *result_out)
{
    struct sweep_agent *a = malloc(sizeof(*a));
    int log_fd = show ? -1 : memfd_create("sweep", MFD_CLOEXEC);
    struct sweep_shared *shared;
    uint64_t due_ms = sweep_now_ms() + sweep_limit_ms;

    assert_non_null(a);
    (void)alone();
    shared = share();
    *result_out = (struct sweep_result){0};
    sweep_open(a, c, shared, log_fd);
    for (uint32_t i = 0; i < SWEEP_FIRST; i++) {
        sweep_start(a, i);
    }
    while (!is_over(a) && result_out->why[0] == '\0') {
        sweep_turn(a);
        if (sweep_now_ms() > due_ms) {
            snprintf(result_out->why, sizeof(result_out->why),
                     "training stands still in generation %llu (active: %llu)",
                     (unsigned long long)a->newest.number,
                     (unsigned long long)a->last_active.number);
        }
    }
    if (result_out->why[0] == '\0') {
        judge(a, c, result_out);
    }
    result_out->well = result_out->why[0] == '\0';
    if (c->victim < SWEEP_MAX) {
        result_out->points = atomic_load(&shared->worker[c->victim].points);
        result_out->failed_n = atomic_load(&shared->worker[c->victim].failed_n);
    }
    result_out->generations = a->newest.number;
    result_out->suspicions = a->suspicions_n;
    sweep_close(a);
    if (log_fd >= 0 && !result_out->well) {
        show_log(log_fd);
    }
    if (log_fd >= 0) {
        close(log_fd);
    }
    free(a);
    munmap(shared, sizeof(*shared));
}
