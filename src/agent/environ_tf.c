#include "agent/environ_tf.h"

#include "agent/environ.h"
#include "base/address.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum tf_type { TF_CHIEF, TF_WORKER, TF_PS, TF_EVALUATOR, TF_TYPES };

static const char *const type_names[TF_TYPES] = {
    [TF_CHIEF] = "chief",
    [TF_WORKER] = "worker",
    [TF_PS] = "ps",
    [TF_EVALUATOR] = "evaluator",
};

void environ_host(const struct member *m, char host[ADDR_MAX_LEN])
{
    const char *from;
    size_t n;

    (void)address_split(m->addr, strlen(m->addr), &from, &n);
    if (n == 0) {
        from = "127.0.0.1";
        n = strlen(from);
    }
    snprintf(host, ADDR_MAX_LEN, "%.*s", (int)n, from);
}

/* The port of its own address; 0 if that has none. */
static uint32_t addr_port(const struct member *m)
{
    const char *from, *port;
    size_t n;

    port = address_split(m->addr, strlen(m->addr), &from, &n);
    return port == NULL ? 0 : (uint32_t)strtoul(port, NULL, 10);
}

uint32_t environ_port(const struct member *m)
{
    return m->port != 0 ? m->port : addr_port(m);
}

/* TensorFlow knows one chief; the next ones are workers. */
static enum tf_type type_of(const struct member *m, bool chief_taken)
{
    switch (m->role) {
    case ROLE_CHIEF:
        return chief_taken ? TF_WORKER : TF_CHIEF;
    case ROLE_PS:
        return TF_PS;
    case ROLE_EVALUATOR:
        return TF_EVALUATOR;
    default:
        return TF_WORKER;
    }
}

static json_t *address(const struct member *m)
{
    char host[ADDR_MAX_LEN];

    environ_host(m, host);
    return json_sprintf(strchr(host, ':') != NULL ? "[%s]:%u" : "%s:%u", host,
                        (unsigned)(addr_port(m) != 0 ? addr_port(m) : m->port));
}

/* Sorts the members into lists by type; says where `worker` came. */
static int fill(const struct generation *g, wid worker, json_t *lists[TF_TYPES],
                enum tf_type *type_out, size_t *index_out)
{
    bool found = false, chief_taken = false;

    for (uint32_t i = 0; i < g->members_n; i++) {
        const struct member *m = &g->members[i];
        enum tf_type type = type_of(m, chief_taken);

        chief_taken = chief_taken || type == TF_CHIEF;
        if (m->worker == worker) {
            *type_out = type;
            *index_out = json_array_size(lists[type]);
            found = true;
        }
        if (json_array_append_new(lists[type], address(m)) != 0) {
            return MU_ENOMEM;
        }
    }
    return found ? MU_OK : MU_EINVAL;
}

static json_t *config(json_t *lists[TF_TYPES], enum tf_type type, size_t index)
{
    json_t *cluster = json_object();
    json_t *task = json_pack("{s:s, s:I}", "type", type_names[type], "index", (json_int_t)index);

    for (unsigned t = 0; t < TF_TYPES; t++) {
        if (t != TF_EVALUATOR && json_array_size(lists[t]) > 0 &&
            json_object_set(cluster, type_names[t], lists[t]) != 0) {
            json_decref(cluster);
            json_decref(task);
            return NULL;
        }
    }
    return json_pack("{s:o, s:o}", "cluster", cluster, "task", task);
}

int environ_tf_config(const struct generation *g, wid worker, char **text_out)
{
    json_t *lists[TF_TYPES], *whole;
    enum tf_type type = TF_WORKER;
    size_t index = 0;
    char *text = NULL;
    int rc;

    for (unsigned t = 0; t < TF_TYPES; t++) {
        lists[t] = json_array();
    }
    rc = fill(g, worker, lists, &type, &index);
    if (rc == MU_OK) {
        whole = config(lists, type, index);
        text = json_dumps(whole, JSON_COMPACT);
        json_decref(whole);
        rc = text != NULL ? MU_OK : MU_ENOMEM;
    }
    for (unsigned t = 0; t < TF_TYPES; t++) {
        json_decref(lists[t]);
    }
    if (rc == MU_OK) {
        *text_out = text;
    }
    return rc;
}
