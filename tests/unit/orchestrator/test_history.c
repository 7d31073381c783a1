/* The generations that are kept: which, with what, and how many. */
#include "orchestrator/history.h"
#include "unit/unit.h"

#include <stdio.h>
#include <string.h>

struct past {
    struct cluster *c;
    struct history *h;
};

static void apply(struct past *p, const struct record *r, uint64_t wall_ms)
{
    assert_int_equal(cluster_apply(p->c, r, NULL), MU_OK);
    history_record(p->h, p->c, r, wall_ms);
}

/* A job with the nodes "node-1" and "node-2", of two slots each. */
static void begin(struct past *p, const struct history_limits *limits)
{
    struct cluster_config config = cluster_defaults();
    struct record r = {
        .kind = RECORD_JOB,
        .u.job = {.job = "job", .run = 1, .min = 1, .max = 2, .mode = MODE_INPROCESS}};

    config.jobs_max = 2;
    config.nodes_max = config.workers_max = 16;
    assert_int_equal(cluster_init(&config, NULL, &p->c), MU_OK);
    assert_int_equal(history_open(limits, &p->h), MU_OK);
    apply(p, &r, 0);
    for (uint32_t i = 1; i <= 2; i++) {
        r = (struct record){.kind = RECORD_NODE,
                            .u.node = {.job = "job", .node = i, .incarnation = i, .slots = 2}};
        snprintf(r.u.node.name, sizeof(r.u.node.name), "node-%u", i);
        apply(p, &r, 0);
    }
}

static void end(struct past *p)
{
    history_close(p->h);
    cluster_close(p->c);
}

static void generation(struct past *p, uint64_t number, uint32_t members_n, uint64_t wall_ms)
{
    struct member m[4] = {{.worker = wid_make(1, 0, 1)},
                          {.worker = wid_make(1, 1, 1)},
                          {.worker = wid_make(2, 0, 1)},
                          {.worker = wid_make(2, 1, 1)}};
    struct record r = {.kind = RECORD_GENERATION,
                       .u.generation = {.job = "job", .run = 1, .number = number, .members = m}};

    r.u.generation.members_n = members_n;
    apply(p, &r, wall_ms);
}

static json_int_t number_at(const json_t *list, size_t i, const char *name)
{
    return json_integer_value(json_object_get(json_array_get(list, i), name));
}

static void members_are_by_rank_with_their_nodes_names(void **state)
{
    static const char *const nodes[] = {"node-1", "node-1", "node-2", "node-2"};
    static const char *const workers[] = {"n1.0#1", "n1.1#1", "n2.0#1", "n2.1#1"};
    struct past p;
    json_t *list, *members;

    begin(&p, &(struct history_limits){2, 8, 1 << 20});
    generation(&p, 1, 4, 0);
    list = history_json(p.h, "job", 0);
    members = json_object_get(json_array_get(list, 0), "members");
    assert_int_equal(json_array_size(members), 4);
    for (size_t i = 0; i < 4; i++) {
        const json_t *m = json_array_get(members, i);

        assert_int_equal(json_integer_value(json_object_get(m, "rank")), i);
        assert_string_equal(json_string_value(json_object_get(m, "node")), nodes[i]);
        assert_string_equal(json_string_value(json_object_get(m, "worker")), workers[i]);
    }
    json_decref(list);
    list = history_json(p.h, "other", 0);
    assert_int_equal(json_array_size(list), 0);
    json_decref(list);
    end(&p);
}

static void only_the_last_are_kept(void **state)
{
    struct past p;
    json_t *list;

    begin(&p, &(struct history_limits){2, 8, 1 << 20});
    for (uint64_t i = 1; i <= 20; i++) {
        generation(&p, i, 4, 0);
    }
    list = history_json(p.h, "job", 0);
    assert_int_equal(json_array_size(list), 8);
    assert_int_equal(number_at(list, 0, "number"), 13);
    assert_int_equal(number_at(list, 7, "number"), 20);
    json_decref(list);
    list = history_json(p.h, "job", 18);
    assert_int_equal(json_array_size(list), 2);
    json_decref(list);
    end(&p);
}

static void their_bytes_are_bounded_but_the_newest_is_kept(void **state)
{
    struct past p;
    json_t *list;

    begin(&p, &(struct history_limits){2, 1000, 1});
    for (uint64_t i = 1; i <= 20; i++) {
        generation(&p, i, 4, 0);
    }
    list = history_json(p.h, "job", 0);
    assert_int_equal(json_array_size(list), 1);
    assert_int_equal(number_at(list, 0, "number"), 20);
    assert_int_equal(number_at(list, 0, "size"), 4);
    json_decref(list);
    end(&p);
}

/* A reason is of the generation that comes after it, and of no other. */
static void the_reason_is_what_happened_last(void **state)
{
    struct msg_event e = {.kind = NOTE_LOST, .job = "job", .node = "node-2", .reason = "silent"};
    struct past p;
    json_t *list;

    begin(&p, &(struct history_limits){2, 8, 1 << 20});
    generation(&p, 1, 4, 1000);
    history_note(p.h, &e);
    e.kind = NOTE_REFUSED; /* changes nothing about who is there */
    history_note(p.h, &e);
    generation(&p, 2, 2, 2000);
    generation(&p, 3, 2, 3000);
    list = history_json(p.h, "job", 0);
    assert_true(json_is_null(json_object_get(json_array_get(list, 0), "reason")));
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 1), "reason")),
                        "node 'node-2' lost: silent");
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 1), "time")),
                        "1970-01-01T00:00:02.000Z");
    assert_true(json_is_null(json_object_get(json_array_get(list, 2), "reason")));
    json_decref(list);
    end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_by_rank_with_their_nodes_names),
        cmocka_unit_test(only_the_last_are_kept),
        cmocka_unit_test(their_bytes_are_bounded_but_the_newest_is_kept),
        cmocka_unit_test(the_reason_is_what_happened_last),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
