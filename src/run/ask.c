/* What is asked of the orchestrator, through the agent: values by tag, and settings. Whoever asks
 * waits for the answer; the control thread takes it. */
#include "run/run.h"

#include <string.h>

/* The agent or the orchestrator answers what is late, and says more; so much later it is said here.
 */
enum { LATE_MS = 2000 };

void ask_answer(struct ask *a, int status, const char *text)
{
    const size_t n = strnlen(text, sizeof(a->text) - 1);

    a->done = true;
    a->status = status;
    memcpy(a->text, text, n);
    a->text[n] = '\0';
    if (status != MU_OK) {
        a->clear(a);
    }
}

struct ask *ask_find(struct mu_run *run, enum wire_type answer, uint64_t request)
{
    for (struct ask *a = run->asks; a != NULL; a = a->next) {
        if (a->type == answer && a->request == request) {
            return a->done ? NULL : a;
        }
    }
    return NULL;
}

int ask_wait(struct mu_run *run, struct ask *a, const char *late)
{
    const uint64_t late_ms = a->due_ms == UINT64_MAX ? UINT64_MAX : a->due_ms + LATE_MS;
    struct ask **link = &run->asks;

    a->done = false;
    a->next = run->asks;
    run->asks = a;
    while (!a->done) {
        if (!call_wait(run, late_ms) && !a->done) {
            ask_answer(a, MU_ETIMEDOUT, late);
        }
    }
    while (*link != a) {
        link = &(*link)->next;
    }
    *link = a->next;
    return a->status == MU_OK ? MU_OK : call_state(run);
}

int ask_check(const struct mu_run *run, const char *what, const void *data, size_t n)
{
    if (n > MU_VALUE_MAX) {
        return run_fail(MU_ELIMIT, "'%s': a value of %zu bytes; it may have %u", what, n,
                        MU_VALUE_MAX);
    }
    if (data == NULL && n > 0) {
        return run_fail(MU_EINVAL, "'%s': %zu bytes at NULL", what, n);
    }
    return call_state(run);
}
