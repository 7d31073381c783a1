/* What people read, word by word. */
#include "orchestrator/words.h"
#include "unit/unit.h"
#include "wire/table.h"

#include <string.h>

static struct msg_event event(enum note_kind kind)
{
    struct msg_event e = {.kind = (uint8_t)kind, .job = "default", .node = "a"};

    return e;
}

static void expect(const struct msg_event *e, const char *text)
{
    char line[WORDS_LINE_MAX];

    words_event(e, line, sizeof(line));
    assert_string_equal(line, text);
}

static void an_event_is_a_sentence(void **state)
{
    struct msg_event e = event(NOTE_JOINED);

    (void)state;
    e.value = 3;
    expect(&e, "job 'default': node 'a' joined as n3");
    e = event(NOTE_LOST);
    strcpy(e.reason, "its lease lapsed");
    expect(&e, "job 'default': node 'a' lost: its lease lapsed");
    e.worker = wid_make(3, 0, 2);
    strcpy(e.reason, "it exited");
    e.value = 137;
    expect(&e, "job 'default': worker n3.0#2 of node 'a' lost: it exited (killed by signal 9)");
    e.value = 1;
    expect(&e, "job 'default': worker n3.0#2 of node 'a' lost: it exited (code 1)");
    e = event(NOTE_GENERATION);
    e.generation = 7;
    e.value = 1;
    strcpy(e.reason, "failure");
    expect(&e, "job 'default': generation 7 (failure) has 1 member");
    e = event(NOTE_REFUSED);
    e.job[0] = '\0';
    strcpy(e.reason, "no");
    expect(&e, "refused: no");
}

static void every_kind_has_a_word_and_a_sentence(void **state)
{
    char line[WORDS_LINE_MAX];

    (void)state;
    for (unsigned kind = 0; kind < NOTE_N; kind++) {
        struct msg_event e = event(kind);

        words_event(&e, line, sizeof(line));
        assert_null(strstr(line, "no words"));
        assert_string_not_equal(words_kind(kind), "unknown");
        for (unsigned other = 0; other < kind; other++) {
            assert_string_not_equal(words_kind(kind), words_kind(other));
        }
    }
    assert_string_equal(words_kind(NOTE_N), "unknown");
}

static void the_longest_event_fits_its_line(void **state)
{
    struct msg_event e = event(NOTE_LOST);
    char line[WORDS_LINE_MAX];

    (void)state;
    memset(e.job, 'j', sizeof(e.job) - 1);
    memset(e.node, 'n', sizeof(e.node) - 1);
    memset(e.reason, 'r', sizeof(e.reason) - 1);
    e.worker = UINT64_MAX;
    e.value = UINT64_MAX;
    words_event(&e, line, sizeof(line));
    assert_string_equal(line + strlen(line) - 1, ")");
}

static void a_slot_is_called_by_what_stops_it_from_training(void **state)
{
    struct slot_look s = {.phase = PHASE_NONE};
    struct node_look n = {.slots = 1, .slot = &s};

    (void)state;
    assert_string_equal(words_slot(&n, &s), "registered");
    s.phase = PHASE_WARMING;
    assert_string_equal(words_slot(&n, &s), "warming");
    s.phase = PHASE_WARM;
    assert_string_equal(words_slot(&n, &s), "warm");
    s.member = 1;
    assert_string_equal(words_slot(&n, &s), "member");
    assert_string_equal(words_node(&n), "member");
    n.draining = true;
    assert_string_equal(words_slot(&n, &s), "leaving");
    n.lapsed = true;
    assert_string_equal(words_slot(&n, &s), "gone");
}

static void a_node_is_as_far_as_its_last_slot(void **state)
{
    struct slot_look s[2] = {{.phase = PHASE_WARM}, {.phase = PHASE_WARMING}};
    struct node_look n = {.slots = 2, .slot = s};

    (void)state;
    assert_string_equal(words_node(&n), "warming");
    s[1].phase = PHASE_WARM;
    assert_string_equal(words_node(&n), "warm");
}

static void a_job_that_runs_says_what_people_want(void **state)
{
    struct job_look j = {.view = {.name = "j", .members_n = 3, .active = 7}, .survivors_n = 3};
    char why[TEXT_MAX_LEN];

    (void)state;
    j.want_size = 1;
    assert_string_equal(words_job(&j, why, sizeof(why)), "running");
    assert_string_equal(why, "1 node is wanted");
    j.want_size = 2;
    j.scheduled = true;
    words_job(&j, why, sizeof(why));
    assert_string_equal(why, "2 nodes are wanted by its schedule");
    j.listed = true;
    words_job(&j, why, sizeof(why));
    assert_string_equal(why, "only nodes that the setting `members` names are wanted");
    j.paused = true;
    assert_string_equal(words_job(&j, why, sizeof(why)), "running");
    assert_string_equal(why, "it is to pause at the next boundary");
}

static void a_job_that_does_not_run_says_why(void **state)
{
    struct job_look j = {.view = {.name = "j", .available_n = 1}, .min = 3, .max = 4, .why = ""};
    char why[TEXT_MAX_LEN];

    (void)state;
    assert_string_equal(words_job(&j, why, sizeof(why)), "forming");
    assert_string_equal(why, "1 of at least 3 nodes are ready");
    j.view.members_n = 3;
    j.view.active = 7;
    assert_string_equal(words_job(&j, why, sizeof(why)), "holding");
    assert_non_null(strstr(why, "muster takeover j"));
    j.survivors_n = 3;
    assert_string_equal(words_job(&j, why, sizeof(why)), "running");
    assert_string_equal(why, "");
    j.view.flags = GENERATION_HOLD;
    assert_string_equal(words_job(&j, why, sizeof(why)), "holding");
    assert_string_equal(why, "1 of at least 3 nodes are ready");
    j.listed = true;
    assert_string_equal(words_job(&j, why, sizeof(why)), "holding");
    assert_string_equal(why, "1 nodes are ready; at least 3 of those that the setting `members` "
                             "names are needed");
    j.paused = true;
    assert_string_equal(words_job(&j, why, sizeof(why)), "holding");
    assert_string_equal(why, "it is paused; to go on: muster config rm paused --job j");
    j.view.finished = true;
    assert_string_equal(words_job(&j, why, sizeof(why)), "ending");
    j.view.ended = true;
    assert_string_equal(words_job(&j, why, sizeof(why)), "done");
    j.failed = true;
    j.why = "too few nodes are left";
    assert_string_equal(words_job(&j, why, sizeof(why)), "failed");
    assert_string_equal(why, "too few nodes are left");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_is_a_sentence),
        cmocka_unit_test(every_kind_has_a_word_and_a_sentence),
        cmocka_unit_test(the_longest_event_fits_its_line),
        cmocka_unit_test(a_slot_is_called_by_what_stops_it_from_training),
        cmocka_unit_test(a_node_is_as_far_as_its_last_slot),
        cmocka_unit_test(a_job_that_runs_says_what_people_want),
        cmocka_unit_test(a_job_that_does_not_run_says_why),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
