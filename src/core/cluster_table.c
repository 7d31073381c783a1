/* Pools and look-ups of the cluster: jobs, nodes with their slots, and three hash chains
 * (by name, by number, by connection). Nothing here knows what a generation is. */
#include "core/cluster_state.h"

#include <string.h>

static uint64_t hash_u64(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint64_t hash_name(uint32_t job, const char *name)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325) ^ job;

    for (; *name != '\0'; name++) {
        h = (h ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
    }
    return hash_u64(h);
}

uint64_t job_hash(const char *name)
{
    return hash_name(NONE, name);
}

bool nodes_full(const struct cluster *c)
{
    return c->free_node == NONE;
}

struct job *job_find(struct cluster *c, const char *name)
{
    for (uint32_t i = 0; i < c->config.jobs_max; i++) {
        if (c->jobs[i].used && strcmp(c->jobs[i].name, name) == 0) {
            return &c->jobs[i];
        }
    }
    return NULL;
}

struct job *job_make(struct cluster *c, const char *name)
{
    for (uint32_t i = 0; i < c->config.jobs_max; i++) {
        struct job *j = &c->jobs[i];
        bool void_one = j->run == 0 && !j->creating && j->coming_n == 0; /* Never written. */

        if (!j->used || void_one) {
            bool touched = j->touched; /* It stays in that list. */
            uint32_t next = j->next_touched;

            memset(j, 0, sizeof(*j));
            j->touched = touched;
            j->next_touched = next;
            strcpy(j->name, name);
            j->used = true;
            j->due_ms = NEVER;
            j->seniors = j->others = (struct list){NONE, NONE};
            c->filled_job = NONE;
            return j;
        }
    }
    return NULL;
}

uint32_t job_index(const struct cluster *c, const struct job *j)
{
    return (uint32_t)(j - c->jobs);
}

uint32_t node_index(const struct cluster *c, const struct node *n)
{
    return (uint32_t)(n - c->nodes);
}

/* ---- chains ---- */

#define CHAIN_FIND(c, head, link, match)                               \
    for (uint32_t i_ = (head); i_ != NONE; i_ = (c)->nodes[i_].link) { \
        struct node *n = &(c)->nodes[i_];                              \
        if (match) {                                                   \
            return n;                                                  \
        }                                                              \
    }                                                                  \
    return NULL

static uint32_t *name_head(struct cluster *c, uint32_t job, const char *name)
{
    return &c->by_name[hash_name(job, name) & (c->buckets - 1)];
}

static uint32_t *number_head(struct cluster *c, uint32_t number)
{
    return &c->by_number[hash_u64(number) & (c->buckets - 1)];
}

static uint32_t *conn_head(struct cluster *c, uint32_t conn)
{
    return &c->by_conn[hash_u64(conn) & (c->buckets - 1)];
}

struct node *node_by_name(struct cluster *c, uint32_t job, const char *name)
{
    CHAIN_FIND(c, *name_head(c, job, name), chain_name,
               n->job == job && strcmp(n->name, name) == 0);
}

struct node *node_by_name_durable(struct cluster *c, uint32_t job, const char *name)
{
    CHAIN_FIND(c, *name_head(c, job, name), chain_name,
               n->job == job && n->state != NODE_JOINING && strcmp(n->name, name) == 0);
}

struct node *node_joining(struct cluster *c, const char *job, const char *name,
                          uint64_t incarnation)
{
    const struct job *j = job_find(c, job);

    if (j == NULL) {
        return NULL;
    }
    CHAIN_FIND(c, *name_head(c, job_index(c, j), name), chain_name,
               n->job == job_index(c, j) && n->state == NODE_JOINING &&
                   n->incarnation == incarnation && strcmp(n->name, name) == 0);
}

struct node *node_by_number(struct cluster *c, uint32_t number)
{
    CHAIN_FIND(c, *number_head(c, number), chain_number, n->number == number);
}

struct node *node_by_conn(struct cluster *c, uint32_t conn)
{
    CHAIN_FIND(c, *conn_head(c, conn), chain_conn, n->conn == conn);
}

/* Takes node `index` out of the chain that starts at `head` and goes on by `link`. */
#define CHAIN_CUT(c, head, link, index)           \
    do {                                          \
        uint32_t *at_ = (head);                   \
        while (*at_ != NONE && *at_ != (index)) { \
            at_ = &(c)->nodes[*at_].link;         \
        }                                         \
        if (*at_ != NONE) {                       \
            *at_ = (c)->nodes[index].link;        \
        }                                         \
    } while (0)

void node_forget_name(struct cluster *c, struct node *n)
{
    CHAIN_CUT(c, name_head(c, n->job, n->name), chain_name, node_index(c, n));
}

static void node_remember_name(struct cluster *c, struct node *n)
{
    uint32_t *head = name_head(c, n->job, n->name);

    n->chain_name = *head;
    *head = node_index(c, n);
}

void node_number(struct cluster *c, struct node *n, uint32_t number)
{
    uint32_t *head = number_head(c, number);

    mu_assert(n->number == 0);
    n->number = number;
    n->chain_number = *head;
    *head = node_index(c, n);
}

void conn_drop(struct cluster *c, struct node *n)
{
    if (n->conn != 0) {
        CHAIN_CUT(c, conn_head(c, n->conn), chain_conn, node_index(c, n));
        n->conn = 0;
    }
}

void conn_bind(struct cluster *c, struct node *n, uint32_t conn)
{
    uint32_t *head = conn_head(c, conn);

    conn_drop(c, n);
    n->conn = conn;
    n->chain_conn = *head;
    *head = node_index(c, n);
    n->closed_ms = NEVER;
    n->sent = 0;
}

/* ---- nodes and their slots ---- */

/* Freed runs of equal length are reused first; new ones come off the end of the pool. */
static uint32_t slots_take(struct cluster *c, uint32_t n)
{
    uint32_t first = c->free_slots[n];

    if (first != NONE) {
        c->free_slots[n] = c->workers[first].spent;
    } else if (c->config.workers_max - c->workers_used >= n) {
        first = c->workers_used;
        c->workers_used += n;
    } else {
        return NONE;
    }
    memset(&c->workers[first], 0, n * sizeof(struct worker));
    return first;
}

struct node *node_make(struct cluster *c, uint32_t job, const char *name, uint32_t slots)
{
    uint32_t index = c->free_node;
    uint32_t workers;
    bool timed, timed_close;
    struct node *n;

    if (index == NONE) {
        return NULL;
    }
    workers = slots_take(c, slots);
    if (workers == NONE) {
        return NULL;
    }
    n = &c->nodes[index];
    c->free_node = n->next;
    timed = n->timed; /* entries of its last life may still be in the heap */
    timed_close = n->timed_close;
    memset(n, 0, sizeof(*n));
    n->timed = timed;
    n->timed_close = timed_close;
    strcpy(n->name, name);
    n->job = job;
    n->workers = workers;
    n->slots = slots;
    n->state = NODE_JOINING;
    n->closed_ms = NEVER;
    n->prev = n->next = NONE;
    node_remember_name(c, n);
    return n;
}

/* The node must be in no list any more. A heap entry that is left finds it free or reused
 * and looks again. */
void node_free(struct cluster *c, struct node *n)
{
    uint32_t index = node_index(c, n);

    mu_assert(n->prev == NONE && n->next == NONE);
    conn_drop(c, n);
    node_forget_name(c, n);
    CHAIN_CUT(c, number_head(c, n->number), chain_number, index);
    c->workers[n->workers].spent = c->free_slots[n->slots];
    c->free_slots[n->slots] = n->workers;
    n->number = 0;
    n->state = NODE_FREE;
    n->next = c->free_node;
    c->free_node = index;
}

void list_push(struct cluster *c, struct list *l, struct node *n)
{
    n->prev = l->last;
    n->next = NONE;
    if (l->last == NONE) {
        l->first = node_index(c, n);
    } else {
        c->nodes[l->last].next = node_index(c, n);
    }
    l->last = node_index(c, n);
}

void list_remove(struct cluster *c, struct list *l, struct node *n)
{
    if (n->prev == NONE) {
        l->first = n->next;
    } else {
        c->nodes[n->prev].next = n->next;
    }
    if (n->next == NONE) {
        l->last = n->prev;
    } else {
        c->nodes[n->next].prev = n->prev;
    }
    n->prev = n->next = NONE;
}
