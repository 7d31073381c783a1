/* First what is to be set or removed, as a list; then one piece of memory with that list and what
 * the agent was started with. */
#include "agent/environ.h"

#include "agent/environ_tf.h"
#include "base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARS_MAX 48
#define VALUE_MAX (128u << 10) /* the longest "NAME=value" that exec takes: MAX_ARG_STRLEN */
#define MASTER_PORT_DEFAULT 29500

struct var {
    const char *name;
    const char *value; /* NULL: removed */
    char number[24];
};

struct vars {
    uint32_t n;
    struct var list[VARS_MAX];
};

static struct var *add(struct vars *v, const char *name)
{
    mu_assert(v->n < VARS_MAX);
    v->list[v->n] = (struct var){.name = name};
    return &v->list[v->n++];
}

static void set(struct vars *v, const char *name, const char *value)
{
    add(v, name)->value = value;
}

static void set_number(struct vars *v, const char *name, uint64_t value)
{
    struct var *var = add(v, name);

    snprintf(var->number, sizeof(var->number), "%" PRIu64, value);
    var->value = var->number;
}

static void set_hex(struct vars *v, const char *name, uint64_t value)
{
    struct var *var = add(v, name);

    snprintf(var->number, sizeof(var->number), "%016" PRIx64, value);
    var->value = var->number;
}

const char *environ_get(char *const *env, const char *name)
{
    size_t n = strlen(name);

    for (; env != NULL && *env != NULL; env++) {
        if (strncmp(*env, name, n) == 0 && (*env)[n] == '=') {
            return *env + n + 1;
        }
    }
    return NULL;
}

/* ---- the rank and its like ---- */

/* Where a worker stands in its generation. Ranks count those who train; the others have none. */
struct standing {
    bool trains;
    uint32_t rank, world_n;
    uint32_t local_rank, local_n;
    uint32_t group_rank, group_n;
    uint32_t role_rank, role_n;
};

/* One pass: members of a node are neighbours, so a change of node begins the next group. */
static bool stand(const struct generation *g, wid worker, struct standing *s_out)
{
    struct standing s = {0};
    const struct member *me = NULL;

    for (uint32_t i = 0; i < g->members_n && me == NULL; i++) {
        me = g->members[i].worker == worker ? &g->members[i] : NULL;
    }
    if (me == NULL) {
        return false;
    }
    s.trains = member_is_ranked(me);
    for (uint32_t i = 0; i < g->members_n; i++) {
        const struct member *m = &g->members[i];
        bool before = m < me;

        if (member_is_ranked(m)) {
            s.world_n++;
            s.rank += before;
        }

        if (i == 0 || wid_node(m->worker) != wid_node(m[-1].worker)) {
            s.group_n++;
        }
        if (m == me) {
            s.group_rank = s.group_n - 1;
        }
        if (wid_node(m->worker) == wid_node(worker)) {
            s.local_n++;
            s.local_rank += before;
        }
        if (m->role == me->role) {
            s.role_n++;
            s.role_rank += before;
        }
    }
    *s_out = s;
    return true;
}

/* Where the others meet; the very first if nobody trains. */
static const struct member *first_trainer(const struct generation *g)
{
    for (uint32_t i = 0; i < g->members_n; i++) {
        if (member_is_ranked(&g->members[i])) {
            return &g->members[i];
        }
    }
    return &g->members[0];
}

/* Holds what the list points to. */
struct room {
    char master[ADDR_MAX_LEN];
    char *tf_config;
};

static void set_master(struct vars *v, const struct environ_config *c, struct room *room)
{
    const struct member *first = first_trainer(c->generation);
    uint32_t port = c->master_port != 0 ? c->master_port : environ_port(first);

    environ_host(first, room->master);
    set(v, "MASTER_ADDR", c->master_addr != NULL ? c->master_addr : room->master);
    set_number(v, "MASTER_PORT", port != 0 ? port : MASTER_PORT_DEFAULT);
}

static int set_tf_config(struct vars *v, const struct environ_config *c, struct room *room)
{
    int rc = environ_tf_config(c->generation, c->worker, &room->tf_config);

    if (rc != MU_OK) {
        return rc;
    }
    if (strlen(room->tf_config) + sizeof("TF_CONFIG=") > VALUE_MAX) {
        log_warn("environ",
                 "TF_CONFIG is left out: with %u members it is longer than the 128 KiB that a "
                 "variable can have",
                 c->generation->members_n);
        set(v, "TF_CONFIG", NULL);
        return MU_OK;
    }
    set(v, "TF_CONFIG", room->tf_config);
    return MU_OK;
}

static int set_ranks(struct vars *v, const struct environ_config *c, struct room *room)
{
    struct standing s;

    if (!stand(c->generation, c->worker, &s)) {
        return MU_EINVAL;
    }
    if (s.trains) {
        set_number(v, "RANK", s.rank);
    } else {
        set(v, "RANK", NULL);
    }
    set_number(v, "WORLD_SIZE", s.world_n);
    set_number(v, "LOCAL_RANK", s.local_rank);
    set_number(v, "LOCAL_WORLD_SIZE", s.local_n);
    set_number(v, "GROUP_RANK", s.group_rank);
    set_number(v, "GROUP_WORLD_SIZE", s.group_n);
    set_number(v, "ROLE_RANK", s.role_rank);
    set_number(v, "ROLE_WORLD_SIZE", s.role_n);
    set_master(v, c, room);
    return set_tf_config(v, c, room);
}

/* A newcomer must not take the ranks of whoever started its agent for its own. */
static void remove_ranks(struct vars *v)
{
    static const char *const names[] = {
        "RANK",        "WORLD_SIZE",  "LOCAL_RANK",       "LOCAL_WORLD_SIZE",
        "GROUP_RANK",  "TF_CONFIG",   "ROLE_RANK",        "ROLE_WORLD_SIZE",
        "MASTER_ADDR", "MASTER_PORT", "GROUP_WORLD_SIZE",
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        set(v, names[i], NULL);
    }
}

/* One word of ours about checkpoints, and all of them are ours. */
static void set_ckpt(struct vars *v, const struct environ_ckpt *c)
{
    if (c->memory_dir != NULL) {
        set(v, "MUSTER_CKPT_MEMORY", c->memory_dir);
    }
    if (c->dir == NULL) {
        return;
    }
    set(v, "MUSTER_CKPT_DIR", c->dir);
    set(v, "MUSTER_CKPT_EVERY", c->every != NULL ? c->every : ENVIRON_CKPT_EVERY);
    set_number(v, "MUSTER_CKPT_KEEP", c->keep != 0 ? c->keep : ENVIRON_CKPT_KEEP);
    set_number(v, "MUSTER_CKPT_KEEP_EVERY", c->keep_every);
    set(v, "MUSTER_CKPT_SHARED", c->shared ? "1" : NULL);
    set(v, "MUSTER_CKPT_ZSTD", c->zstd ? "1" : NULL);
}

static int set_all(struct vars *v, const struct environ_config *c, struct room *room)
{
    int rc = MU_OK;

    set(v, "MUSTER_JOB", c->job);
    set(v, "MUSTER_NODE", c->node);
    set_number(v, "MUSTER_SLOT", wid_slot(c->worker));
    set_number(v, "MUSTER_RUN", c->generation != NULL ? c->generation->run : 0);
    set_number(v, "MUSTER_GENERATION", c->generation != NULL ? c->generation->number : 0);
    set(v, "MUSTER_SOCKET", c->socket);
    set_hex(v, "MUSTER_COOKIE", c->cookie);
    set(v, "MUSTER_TOKEN", NULL);
    if (c->heal) {
        set_number(v, "MUSTER_HEAL", 1);
    }
    if (c->step_timeout_ms != 0) {
        set_number(v, "MUSTER_STEP_TIMEOUT_MS", c->step_timeout_ms);
    }
    if (c->numerics != NULL) {
        set(v, "MUSTER_NUMERICS", c->numerics);
    }
    set_ckpt(v, &c->ckpt);
    set(v, "ROLE_NAME", c->role_name != NULL ? c->role_name : "default");
    set_number(v, "TORCHELASTIC_RESTART_COUNT", c->restarts);
    set_number(v, "TORCHELASTIC_MAX_RESTARTS", c->max_restarts);
    set(v, "TORCHELASTIC_RUN_ID", c->job);
    set(v, "TORCHELASTIC_USE_AGENT_STORE", "False");
    if (c->slots > 1 && environ_get(c->base, "OMP_NUM_THREADS") == NULL) {
        set(v, "OMP_NUM_THREADS", "1");
    }
    if (c->generation != NULL) {
        rc = set_ranks(v, c, room);
    } else {
        remove_ranks(v);
    }
    return rc;
}

/* ---- one piece of memory ---- */

static bool is_listed(const struct vars *v, const char *entry)
{
    for (uint32_t i = 0; i < v->n; i++) {
        size_t n = strlen(v->list[i].name);

        if (strncmp(entry, v->list[i].name, n) == 0 && entry[n] == '=') {
            return true;
        }
    }
    return false;
}

static char **join(const struct vars *v, char *const *base)
{
    size_t size = 0, n = 0;
    char **env, *at;

    for (uint32_t i = 0; i < v->n; i++) {
        if (v->list[i].value != NULL) {
            size += strlen(v->list[i].name) + strlen(v->list[i].value) + 2;
            n++;
        }
    }
    for (char *const *e = base; e != NULL && *e != NULL; e++) {
        if (!is_listed(v, *e)) {
            size += strlen(*e) + 1;
            n++;
        }
    }
    env = malloc((n + 1) * sizeof(*env) + size);
    if (env == NULL) {
        return NULL;
    }
    at = (char *)(env + n + 1);
    n = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        if (v->list[i].value != NULL) {
            env[n++] = at;
            at = stpcpy(stpcpy(stpcpy(at, v->list[i].name), "="), v->list[i].value) + 1;
        }
    }
    for (char *const *e = base; e != NULL && *e != NULL; e++) {
        if (!is_listed(v, *e)) {
            env[n++] = at;
            at = stpcpy(at, *e) + 1;
        }
    }
    env[n] = NULL;
    return env;
}

int environ_make(const struct environ_config *config, char ***env_out)
{
    struct vars vars = {0};
    struct room room = {.tf_config = NULL};
    int rc = set_all(&vars, config, &room);
    char **env = NULL;

    if (rc == MU_OK) {
        env = join(&vars, config->base);
        rc = env != NULL ? MU_OK : MU_ENOMEM;
    }
    free(room.tf_config);
    if (rc == MU_OK) {
        *env_out = env;
    }
    return rc;
}
