/* The commands of a script that make things happen. */
#include "sim/script.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define GRACE_US (UINT64_C(2) * 1000 * US_PER_MS) /* A young orchestrator gives nobody up. */
#define FORM_BOUND_US (UINT64_C(12) * 1000 * US_PER_MS)

bool script_fail(struct script *s, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(s->error, sizeof(s->error), fmt, args);
    va_end(args);
    return false;
}

/* ---- words ---- */

bool script_number(const char *word, uint64_t *out)
{
    char *end;

    *out = strtoull(word, &end, 10);
    return isdigit((unsigned char)word[0]) && *end == '\0';
}

bool script_node(struct script *s, const char *word, uint32_t *m_out)
{
    if (word[0] < 'a' || word[0] >= 'a' + NODES_N || word[1] != '\0') {
        return script_fail(s, "'%s' is not a node", word);
    }
    *m_out = (uint32_t)(word[0] - 'a');
    return true;
}

bool script_worker(struct script *s, const char *word, uint32_t *worker_out)
{
    if (word[0] < 'a' || word[0] >= 'a' + NODES_N || word[1] != '.' || word[2] < '0' ||
        word[2] >= '0' + SLOTS_N || word[3] != '\0') {
        return script_fail(s, "'%s' is not a worker", word);
    }
    *worker_out = (uint32_t)(word[0] - 'a') * SLOTS_N + (uint32_t)(word[2] - '0');
    return true;
}

/* "500ms", "3s", "1.5s" */
static bool duration(struct script *s, const char *word, uint64_t *us_out)
{
    char *end;
    double n = strtod(word, &end);
    bool ms = strcmp(end, "ms") == 0;

    if (end == word || n < 0 || n > 3600e3 || (!ms && strcmp(end, "s") != 0)) {
        return script_fail(s, "'%s' is not a time such as 500ms or 3s", word);
    }
    *us_out = (uint64_t)(n * (ms ? 1e3 : 1e6));
    return true;
}

/* ---- time ---- */

/* The orchestrator has handed out the record that it is to die on. */
static void orch_dies(struct script *s)
{
    struct world *w = s->w;

    story_say(&s->story, w, "orchestrator", "dies; its record is %s",
              s->keep_record ? "durable, and nobody was told" : "not durable, and lost");
    if (s->keep_record) {
        store_memory_sync(journal_store(w->orch.journal), SIZE_MAX);
    }
    orch_crash(w);
}

bool script_advance(struct script *s, uint64_t until_us, const struct question *q)
{
    struct world *w = s->w;

    while (world_next_us(w) <= until_us && !w->failed) {
        if (q != NULL && q->yes(s, q)) {
            return true;
        }
        world_next(w);
        story_watch(&s->story, w);
        if (w->orch.alive && w->orch.stopped_until_us == FOREVER_US) {
            orch_dies(s);
        }
    }
    if (w->failed) {
        return script_fail(s, "%s", w->why);
    }
    world_run_until(w, until_us);
    return q == NULL || q->yes(s, q) || script_fail(s, "that has not happened");
}

static bool command_run(struct script *s, char **words, int n)
{
    uint64_t us = 0;

    return n == 2 && duration(s, words[1], &us) && script_advance(s, s->w->now_us + us, NULL);
}

/* ---- a cluster ---- */

static bool cluster_option(struct script *s, char *word)
{
    struct sim_config *k = &s->w->config;
    char *value = strchr(word, '=');
    uint64_t number = 0, us = 0;
    unsigned min, max;

    if (value == NULL) {
        return script_fail(s, "'%s' is not an option", word);
    }
    *value++ = '\0';
    script_number(value, &number);
    if (strcmp(word, "nodes") == 0) {
        k->nodes_n = (uint32_t)MIN(number, NODES_N);
    } else if (strcmp(word, "slots") == 0) {
        k->slots = (uint32_t)MIN(MAX(number, 1), SLOTS_N);
    } else if (strcmp(word, "steps") == 0) {
        k->steps_n = MIN(number, STEPS_N);
    } else if (strcmp(word, "checkpoint") == 0) {
        k->checkpoint_every = (uint32_t)number;
    } else if (strcmp(word, "digest") == 0) {
        k->digest_every = (uint32_t)number;
    } else if (strcmp(word, "check") == 0) {
        k->check_every = (uint32_t)number;
    } else if (strcmp(word, "heal") == 0) {
        k->heal = number != 0;
    } else if (strcmp(word, "nnodes") == 0 && sscanf(value, "%u:%u", &min, &max) == 2) {
        k->min = min;
        k->max = max;
    } else if (strcmp(word, "slice") == 0 && duration(s, value, &us)) {
        s->w->fortune.slice_min_us = s->w->fortune.slice_max_us = us;
    } else {
        return script_fail(s, "'%s' is not an option of cluster", word);
    }
    return true;
}

/* Starts everything and waits until it trains. How it forms is told by one line. */
static bool command_cluster(struct script *s, char **words, int n)
{
    struct question formed = {.yes = generation_is_active, .number = 1};
    struct world *w = s->w;
    char members[128];
    bool ok = true;

    world_reset(w, 1);
    w->quiet = w->traced = true;
    w->config = (struct sim_config){.nodes_n = 3,
                                    .slots = 1,
                                    .min = 1,
                                    .max = 4,
                                    .steps_n = 60,
                                    .chunks_n = 1,
                                    .mode = MODE_INPROCESS};
    w->fortune = (struct fortune){.delay_min_us = 500,
                                  .delay_max_us = 500,
                                  .sync_min_us = 1000,
                                  .sync_max_us = 1000,
                                  .slice_min_us = 5000,
                                  .slice_max_us = 5000};
    for (int i = 1; i < n && ok; i++) {
        ok = cluster_option(s, words[i]);
    }
    if (!ok) {
        return false;
    }
    model_init(&w->model, 1, w->config.steps_n);
    s->story.muted = true;
    orch_start(w);
    world_run_until(w, GRACE_US);
    for (uint32_t m = 0; m < w->config.nodes_n; m++) {
        machine_start(w, m);
    }
    ok = script_advance(s, FORM_BOUND_US, &formed);
    s->story.muted = false;
    s->story.told_us = w->now_us;
    members_text(s, 1, members, sizeof(members));
    story_say(&s->story, w, "orchestrator", "generation 1 is active: %s", members);
    return ok;
}

/* ---- faults ---- */

static bool kill_orchestrator(struct script *s, char **words, int n)
{
    if (n == 2) {
        s->story.muted = true;
        orch_crash(s->w);
        s->story.muted = false;
        return true;
    }
    if (n != 6 || strcmp(words[3], "next") != 0 || strcmp(words[5], "record") != 0) {
        return script_fail(s, "kill orchestrator [at|after next generation|active|heal record]");
    }
    s->keep_record = strcmp(words[2], "after") == 0;
    s->w->orch.crash_on = strcmp(words[4], "active") == 0 ? RECORD_ACTIVE
                          : strcmp(words[4], "heal") == 0 ? RECORD_HEAL
                                                          : RECORD_GENERATION;
    return true;
}

static bool command_kill(struct script *s, char **words, int n)
{
    uint32_t i = 0;

    if (n >= 2 && strcmp(words[1], "orchestrator") == 0) {
        return kill_orchestrator(s, words, n);
    }
    for (int k = 2; k < n; k++) {
        if (strcmp(words[1], "worker") == 0 && script_worker(s, words[k], &i)) {
            trainer_kill(s->w, i, 137);
        } else if (strcmp(words[1], "node") == 0 && script_node(s, words[k], &i)) {
            s->story.muted = true;
            machine_crash(s->w, i);
            s->story.muted = false;
        } else {
            return false;
        }
    }
    return n > 2;
}

static bool command_start(struct script *s, char **words, int n)
{
    uint32_t m = 0;

    if (n == 2 && strcmp(words[1], "orchestrator") == 0) {
        orch_start(s->w);
        return true;
    }
    for (int k = 2; k < n; k++) {
        if (strcmp(words[1], "node") != 0 || !script_node(s, words[k], &m)) {
            return false;
        }
        s->story.muted = true;
        machine_start(s->w, m);
        s->story.muted = false;
    }
    return n > 2;
}

/* stop worker b.0 for 3s; stop node b for 3s */
static bool command_stop(struct script *s, char **words, int n)
{
    uint64_t us = 0;
    uint32_t i = 0;

    if (n != 5 || strcmp(words[3], "for") != 0 || !duration(s, words[4], &us)) {
        return false;
    }
    if (strcmp(words[1], "worker") == 0 && script_worker(s, words[2], &i)) {
        trainer_at(s->w, i)->stopped_until_us = s->w->now_us + us;
    } else if (strcmp(words[1], "node") == 0 && script_node(s, words[2], &i)) {
        s->w->machines[i].stopped_until_us = s->w->now_us + us;
    } else {
        return false;
    }
    story_watch(&s->story, s->w);
    return true;
}

/* cut a b; cut a -> b; cut a orchestrator */
static bool command_cut(struct script *s, char **words, int n)
{
    bool one_way = n == 4 && strcmp(words[2], "->") == 0;
    const char *to = n > 2 ? words[n - 1] : "";
    uint32_t a = 0, b = 0;

    if ((n != 3 && !one_way) || !script_node(s, words[1], &a)) {
        return false;
    }
    if (strcmp(to, "orchestrator") == 0) {
        s->w->cut_up[a] = true;
        s->w->cut_down[a] = !one_way;
        return true;
    }
    if (!script_node(s, to, &b)) {
        return false;
    }
    s->w->cut[a][b] = true;
    s->w->cut[b][a] |= !one_way;
    return true;
}

/* break a b; break node a: they come back by themselves */
static bool command_break(struct script *s, char **words, int n)
{
    uint32_t a = 0, b = 0;

    if (n != 3 || !script_node(s, words[2], &b)) {
        return false;
    }
    if (strcmp(words[1], "node") == 0) {
        links_break_machine(s->w, b);
        return true;
    }
    if (!script_node(s, words[1], &a) || a == b) {
        return false;
    }
    for (uint32_t i = 0; i < SLOTS_N * SLOTS_N; i++) {
        links_break(s->w, a * SLOTS_N + i / SLOTS_N, b * SLOTS_N + i % SLOTS_N);
    }
    return true;
}

/* lose READY from a to b */
static bool command_lose(struct script *s, char **words, int n)
{
    struct world *w = s->w;
    uint32_t a = 0, b = 0;

    if (n != 6 || !script_node(s, words[3], &a) || !script_node(s, words[5], &b)) {
        return false;
    }
    for (uint32_t i = 0; links_names[i] != NULL; i++) {
        if (strcmp(links_names[i], words[1]) == 0 && w->vanish_n < ARRAY_LEN(w->vanish)) {
            w->vanish[w->vanish_n].name = links_names[i];
            w->vanish[w->vanish_n].from = a;
            w->vanish[w->vanish_n++].to = b;
            return true;
        }
    }
    return script_fail(s, "there is no message '%s'", words[1]);
}

/* odd digest|gradient of b.0; odd state of b.0 2 times */
static bool command_odd(struct script *s, char **words, int n)
{
    struct sim_config *k = &s->w->config;

    uint64_t times = 1;

    if ((n != 4 && (n != 6 || !script_number(words[4], &times))) ||
        !script_worker(s, words[3], &k->odd_worker)) {
        return false;
    }
    k->odd = strcmp(words[1], "digest") == 0  ? ODD_DIGEST
             : strcmp(words[1], "state") == 0 ? ODD_STATE
                                              : ODD_CHECK;
    k->odd_times = (uint32_t)times;
    k->odd_from = s->w->check.head + 1;
    return true;
}

static bool command_heal(struct script *s, char **words, int n)
{
    (void)words;
    memset(s->w->cut_up, 0, sizeof(s->w->cut_up));
    memset(s->w->cut_down, 0, sizeof(s->w->cut_down));
    memset(s->w->cut, 0, sizeof(s->w->cut));
    s->w->vanish_n = 0;
    return n == 1;
}

/* ---- people ---- */

static bool command_drain(struct script *s, char **words, int n)
{
    uint32_t m = 0;

    for (int i = 1; i < n; i++) {
        if (!script_node(s, words[i], &m)) {
            return false;
        }
        orch_admin(s->w, ADMIN_DRAIN, m);
    }
    return n > 1;
}

/* SIGTERM: the machine is taken away soon. */
static bool command_terminate(struct script *s, char **words, int n)
{
    uint32_t m = 0;

    if (n != 2 || !script_node(s, words[1], &m)) {
        return false;
    }
    s->story.muted = true;
    machine_drain(s->w, m);
    s->story.muted = false;
    return true;
}

static bool command_want(struct script *s, char **words, int n)
{
    uint64_t size;

    if (n != 2 || !script_number(words[1], &size)) {
        return false;
    }
    orch_size(s->w, (uint32_t)size);
    return true;
}

static bool command_pause(struct script *s, char **words, int n)
{
    orch_setting(s->w, "paused", strcmp(words[0], "pause") == 0 ? "true" : "false");
    return n == 1 || (n == 2 && strcmp(words[1], "on") == 0);
}

/* train on a c */
static bool command_train(struct script *s, char **words, int n)
{
    uint32_t list[NODES_N], list_n = 0;

    for (int i = 2; i < n && list_n < NODES_N; i++) {
        if (!script_node(s, words[i], &list[list_n++])) {
            return false;
        }
    }
    orch_list(s->w, list, list_n);
    return n > 2;
}

static bool command_takeover(struct script *s, char **words, int n)
{
    int rc = orch_admin(s->w, ADMIN_TAKEOVER, 0);

    (void)words;
    if (rc != MU_OK) {
        story_say(&s->story, s->w, "orchestrator", "will not: a member of the lineage lives");
    }
    return n == 1;
}

/* ---- the table ---- */

static const struct {
    const char *name;
    bool (*run)(struct script *s, char **words, int n);
    const char *usage;
} commands[] = {
    {"cluster", command_cluster,
     "cluster [nodes=N] [slots=N] [nnodes=MIN:MAX] [steps=N] [checkpoint=N] [digest=N] "
     "[check=N] [heal=1] [slice=TIME]"},
    {"run", command_run, "run TIME"},
    {"until", command_until, "until step N | generation N [active] | WORKER … | finished | end"},
    {"kill", command_kill, "kill worker|node NAME… | orchestrator [at|after next … record]"},
    {"start", command_start, "start node NAME… | orchestrator"},
    {"stop", command_stop, "stop worker|node NAME for TIME"},
    {"cut", command_cut, "cut NODE [->] NODE|orchestrator"},
    {"break", command_break, "break NODE NODE | node NODE"},
    {"lose", command_lose, "lose MESSAGE from NODE to NODE"},
    {"odd", command_odd, "odd digest|gradient|state of WORKER [N times]"},
    {"heal", command_heal, "heal"},
    {"drain", command_drain, "drain NODE…"},
    {"terminate", command_terminate, "terminate NODE"},
    {"want", command_want, "want N"},
    {"pause", command_pause, "pause"},
    {"go", command_pause, "go on"},
    {"train", command_train, "train on NODE…"},
    {"takeover", command_takeover, "takeover"},
    {"expect", command_expect, "expect head N | members WORKER…"},
    {"compare", command_compare, "compare with one process"},
};

bool script_command(struct script *s, char *line)
{
    char *words[WORDS_MAX], *save = NULL;
    int n = 0;

    s->error[0] = '\0';
    for (char *word = strtok_r(line, " ", &save); word != NULL && n < WORDS_MAX;
         word = strtok_r(NULL, " ", &save)) {
        words[n++] = word;
    }
    for (size_t i = 0; n > 0 && i < ARRAY_LEN(commands); i++) {
        if (strcmp(commands[i].name, words[0]) == 0) {
            bool ok = commands[i].run(s, words, n);

            if (!ok && s->error[0] == '\0') {
                script_fail(s, "usage: %s", commands[i].usage);
            }
            story_flush(&s->story, s->w);
            return ok;
        }
    }
    return script_fail(s, "there is no command '%s'", n > 0 ? words[0] : "");
}
