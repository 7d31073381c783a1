/* What takes the loop long is made once for many who ask; the rest is made anew each time. */
#include "orchestrator/web_state.h"
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- in place of the server and the clock ---- */

static uint64_t now_ms;
static char answer[64];
static unsigned made_n, burn_ms;

uint64_t __wrap_net_now_ms(void);
void __wrap_http_answer(struct http_request *q, unsigned status, const char *type, char *body,
                        size_t n);

uint64_t __wrap_net_now_ms(void)
{
    return now_ms;
}

void __wrap_http_answer(struct http_request *q, unsigned status, const char *type, char *body,
                        size_t n)
{
    assert_int_equal(status, 200);
    assert_string_equal(type, "text/x");
    snprintf(answer, sizeof(answer), "%.*s", (int)n, body);
    free(body);
}

static uint64_t cpu_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static int make(struct orchestrator *o, const char *job, char **text_out, size_t *n_out)
{
    const uint64_t end_ms = cpu_ms() + burn_ms;

    while (burn_ms > 0 && cpu_ms() < end_ms) {
    }
    *n_out = (size_t)asprintf(text_out, "%s %u", job, ++made_n);
    return MU_OK;
}

/* ---- */

static struct orchestrator orchestrator;
static struct web web;

static int setup(void **state)
{
    memset(&web, 0, sizeof(web));
    web.o = &orchestrator;
    now_ms = orchestrator.now_ms = 1000;
    made_n = burn_ms = 0;
    return 0;
}

static int teardown(void **state)
{
    web_cache_close(&web);
    return 0;
}

static void ask(const char *kind, const char *job, const char *want)
{
    web_answer_made(&web, NULL, kind, job, "text/x", make);
    assert_string_equal(answer, want);
}

static void what_is_cheap_is_made_each_time(void **state)
{
    ask("job", "a", "a 1");
    ask("job", "a", "a 2");
}

static void what_is_dear_is_given_again_for_ten_times_as_long_as_it_took(void **state)
{
    burn_ms = 20;
    ask("job", "a", "a 1");
    now_ms += 150;
    ask("job", "a", "a 1");
    ask("job", "b", "b 2");
    ask("members", "a", "a 3");
    ask("job", "a", "a 1");
    now_ms += 100000;
    ask("job", "a", "a 4");
}

static void there_is_room_for_few(void **state)
{
    char job[8], want[16];

    burn_ms = 20;
    for (unsigned i = 0; i < 3 * WEB_CACHED_N; i++) {
        snprintf(job, sizeof(job), "j%u", i);
        snprintf(want, sizeof(want), "j%u %u", i, i + 1);
        ask("job", job, want);
        now_ms++;
    }
    ask("job", job, want);
    assert_int_equal(made_n, 3 * WEB_CACHED_N);
    ask("job", "j0", "j0 13");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_cheap_is_made_each_time, setup, teardown),
        cmocka_unit_test_setup_teardown(
            what_is_dear_is_given_again_for_ten_times_as_long_as_it_took, setup, teardown),
        cmocka_unit_test_setup_teardown(there_is_room_for_few, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
