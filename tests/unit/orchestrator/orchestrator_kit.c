#include "unit/orchestrator/orchestrator_kit.h"

#include "base/log.h"
#include "lib/memory_store.h"
#include "orchestrator/driver.h"
#include "unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_LEAKED 87

int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

void kit_init(struct kit *k)
{
    *k = (struct kit){.cluster = cluster_defaults(), .pid = -1};
    k->cluster.jobs_max = 8;
    k->cluster.nodes_max = 512;
    k->cluster.workers_max = 512;
    k->cluster.lease_ms = 60000;
    k->cluster.reconnect_ms = 60000;
    k->cluster.orphan_ms = 60000;
    k->cluster.takeover_ms = 200000;
    k->cluster.join_window_ms = 50;
    snprintf(k->root, sizeof(k->root), "%s/muster-orchestrator-XXXXXX", unit_fast_dir());
    assert_non_null(mkdtemp(k->root));
    snprintf(k->data, sizeof(k->data), "%s/data", k->root);
    snprintf(k->log, sizeof(k->log), "%s/log", k->root);
    random_bytes(k->token.secret, sizeof(k->token.secret));
}

/* ---- the process ---- */

static void on_term(uv_signal_t *sig, int signum)
{
    (void)signum;
    orchestrator_close(sig->data);
    uv_close((uv_handle_t *)sig, NULL);
}

/* Its store is in memory, and somebody else's from the first record on. */
struct loser {
    struct store_disk *disk;
    char url[STORE_MEMORY_URL];
    struct store *st;
    uv_timer_t timer;
};

static void lose(uv_timer_t *t)
{
    store_memory_sync(((struct loser *)t->data)->st, SIZE_MAX);
}

static void loser_begin(struct loser *l, uv_loop_t *loop, struct orchestrator *o)
{
    l->st = journal_store(o->journal);
    l->timer.data = l;
    store_memory_fence(l->st);
    uv_timer_init(loop, &l->timer);
    uv_timer_start(&l->timer, lose, 1, 1);
}

/* Never returns. Says its ports, or 0 and why not in the log. */
static void serve(const struct kit *k, int to)
{
    struct orchestrator_config config = {.listen = {.host = "127.0.0.1"},
                                         .data_dir = k->data,
                                         .token = k->token,
                                         .cluster = k->cluster,
                                         .ckpt_quota = k->ckpt_quota,
                                         .web = {.wanted = k->web, .listen.host = "127.0.0.1"}};
    struct loser loser = {0};
    struct orchestrator *o;
    char error[STORE_ERROR_MAX];
    uv_loop_t loop;
    uv_signal_t sig;
    uint16_t ports[2] = {0};
    int log = open(k->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    dup2(log, STDERR_FILENO);
    log_set_level(LOG_DEBUG);
    uv_loop_init(&loop);
    if (k->fenced) {
        loser.disk = store_disk_new((const unsigned char *)"0123456789abcdef");
        store_memory_url(loser.disk, loser.url);
        config.store = loser.url;
    }
    if (orchestrator_open(&loop, &config, &o, error) != MU_OK) {
        log_error("kit", "%s", error);
        uv_run(&loop, UV_RUN_DEFAULT);
        uv_loop_close(&loop);
        _exit(write(to, ports, sizeof(ports)) == sizeof(ports) ? 1 : 2);
    }
    if (k->fenced) {
        loser_begin(&loser, &loop, o);
    }
    uv_signal_init(&loop, &sig);
    sig.data = o;
    uv_signal_start(&sig, on_term, SIGTERM);
    ports[0] = orchestrator_port(o);
    ports[1] = orchestrator_http_port(o);
    if (write(to, ports, sizeof(ports)) != sizeof(ports)) {
        _exit(2);
    }
    close(to);
    uv_run(&loop, UV_RUN_DEFAULT);
    mu_assert(uv_loop_close(&loop) == 0);
    if (__lsan_do_recoverable_leak_check != NULL && __lsan_do_recoverable_leak_check() != 0) {
        _exit(EXIT_LEAKED);
    }
    _exit(0);
}

static void show_log(const struct kit *k)
{
    char line[1024];
    FILE *f = fopen(k->log, "r");

    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        print_error("# %s", line);
    }
    if (f != NULL) {
        fclose(f);
    }
}

void kit_start(struct kit *k)
{
    uint16_t ports[2];
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    fflush(NULL);
    k->pid = fork();
    assert_true(k->pid >= 0);
    if (k->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        serve(k, ends[1]);
    }
    close(ends[1]);
    if (read(ends[0], ports, sizeof(ports)) != sizeof(ports) || ports[0] == 0) {
        show_log(k);
        fail_msg("the orchestrator did not start");
    }
    close(ends[0]);
    k->port = ports[0];
    k->http_port = ports[1];
}

static int reap(struct kit *k, int sig)
{
    int status;

    assert_int_equal(kill(k->pid, sig), 0);
    assert_int_equal(waitpid(k->pid, &status, 0), k->pid);
    k->pid = -1;
    return status;
}

void kit_kill(struct kit *k)
{
    reap(k, SIGKILL);
}

void kit_stop(struct kit *k)
{
    int status = reap(k, SIGTERM);

    if (status != 0) {
        show_log(k);
    }
    assert_int_equal(status, 0);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

void kit_close(struct kit *k)
{
    if (k->pid > 0) {
        kit_stop(k);
    }
    nftw(k->root, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

int kit_setup(void **state)
{
    struct kit *k = malloc(sizeof(*k));

    assert_non_null(k);
    kit_init(k);
    *state = k;
    return 0;
}

int kit_setup_running(void **state)
{
    kit_setup(state);
    kit_start(*state);
    return 0;
}

int kit_teardown(void **state)
{
    kit_close(*state);
    free(*state);
    return 0;
}

static bool log_has(const struct kit *k, const char *text)
{
    char line[4096];
    FILE *f = fopen(k->log, "r");
    bool found = false;

    while (f != NULL && !found && fgets(line, sizeof(line), f) != NULL) {
        found = strstr(line, text) != NULL;
    }
    if (f != NULL) {
        fclose(f);
    }
    return found;
}

bool kit_logged(const struct kit *k, const char *text)
{
    for (int i = 0; i < KIT_WAIT_MS / 10; i++) {
        if (log_has(k, text)) {
            return true;
        }
        usleep(10000);
    }
    show_log(k);
    return false;
}

/* ---- frames ---- */

struct client *kit_connect(const struct kit *k)
{
    struct endpoints to = {.n = 1, .at = {{.host = "127.0.0.1", .port = k->port}}};
    char error[NET_ERROR_MAX];
    struct client *cl;

    if (client_open(&to, &k->token, KIT_WAIT_MS, &cl, error) != MU_OK) {
        show_log(k);
        fail_msg("%s", error);
    }
    return cl;
}

void kit_say(struct client *cl, enum wire_type type, const void *msg, uint64_t request)
{
    char error[NET_ERROR_MAX];

    if (client_say(cl, type, msg, request, error) != MU_OK) {
        fail_msg("%s: %s", wire_name(type), error);
    }
}

const union wire_any *kit_next(struct client *cl, enum wire_type type)
{
    const union wire_any *msg;
    struct wire_header h;
    char error[NET_ERROR_MAX];

    for (;;) {
        if (client_next(cl, KIT_WAIT_MS, &h, &msg, error) != MU_OK) {
            fail_msg("no '%s' frame came: %s", wire_name(type), error);
        }
        if (h.type == type) {
            return msg;
        }
    }
}

void kit_closes(struct client *cl)
{
    const union wire_any *msg;
    struct wire_header h;
    char error[NET_ERROR_MAX];
    int rc;

    do {
        rc = client_next(cl, KIT_WAIT_MS, &h, &msg, error);
    } while (rc == MU_OK);
    assert_int_not_equal(rc, MU_ETIMEDOUT);
}

/* ---- a node ---- */

void puppet_init(struct puppet *p, const char *job, const char *name, uint32_t min, uint32_t max)
{
    *p = (struct puppet){.hello = {.min = min,
                                   .max = max,
                                   .slots = 1,
                                   .mode = MODE_INPROCESS,
                                   .host = 1,
                                   .max_restarts = 3}};
    snprintf(p->hello.job, sizeof(p->hello.job), "%s", job);
    snprintf(p->hello.name, sizeof(p->hello.name), "%s", name);
    random_bytes(&p->hello.incarnation, sizeof(p->hello.incarnation));
    p->hello.incarnation |= 1;
    p->report = (struct report){.incarnation = 1, .phase = PHASE_WARMING};
    snprintf(p->report.addr, sizeof(p->report.addr), "127.0.0.1");
}

void puppet_connect(struct puppet *p, const struct kit *k)
{
    puppet_close(p);
    p->cl = kit_connect(k);
}

void puppet_close(struct puppet *p)
{
    client_close(p->cl);
    p->cl = NULL;
}

static void note_generation(struct puppet *p, const struct generation *g)
{
    static const uint8_t zero[KEY_BYTES];

    p->hello.held = g->number;
    p->has_key = memcmp(g->key, zero, sizeof(zero)) != 0;
    memcpy(p->key, g->key, sizeof(p->key));
    p->members_n = g->members_n;
    for (uint32_t i = 0; i < MIN(g->members_n, ARRAY_LEN(p->members)); i++) {
        p->members[i] = g->members[i].worker;
    }
}

static void note(struct puppet *p, unsigned type, const union wire_any *msg)
{
    if (type == WIRE_GENERATION) {
        note_generation(p, &msg->generation);
    } else if (type == WIRE_ACTIVE) {
        p->hello.active = msg->active.generation;
    } else if (type == WIRE_ACK) {
        p->ack = msg->ack;
    } else if (type == WIRE_REFUSED) {
        p->refused = msg->refused;
    } else if (type == WIRE_ENDED) {
        p->ended = msg->ended;
    } else if (type == WIRE_WELCOME) {
        p->hello.node = msg->welcome.node;
        p->hello.run = msg->welcome.run;
        p->hello.store = msg->welcome.store;
    }
}

const union wire_any *puppet_next(struct puppet *p, enum wire_type type)
{
    const union wire_any *msg;
    struct wire_header h;
    char error[NET_ERROR_MAX];

    do {
        if (client_next(p->cl, KIT_WAIT_MS, &h, &msg, error) != MU_OK) {
            fail_msg("%s: no '%s' frame came: %s (last refused: %s)", p->hello.name,
                     wire_name(type), error, p->refused.text);
        }
        note(p, h.type, msg);
    } while (h.type != type);
    return msg;
}

void puppet_holds(struct puppet *p, uint64_t generation)
{
    while (p->hello.held < generation) {
        puppet_next(p, WIRE_GENERATION);
    }
}

void puppet_active(struct puppet *p, uint64_t generation)
{
    while (p->hello.active < generation) {
        puppet_next(p, WIRE_ACTIVE);
    }
}

uint32_t puppet_join(struct puppet *p, const struct kit *k)
{
    if (p->cl == NULL) {
        puppet_connect(p, k);
    }
    kit_say(p->cl, WIRE_HELLO, &p->hello, 0);
    puppet_next(p, WIRE_WELCOME);
    return p->hello.node;
}

void puppet_alone(struct puppet *p, const struct kit *k, const char *job, const char *name)
{
    puppet_init(p, job, name, 1, 1);
    puppet_join(p, k);
    puppet_report(p, PHASE_WARM, 0);
    puppet_holds(p, 1);
    puppet_report(p, PHASE_IN, p->hello.held);
    puppet_active(p, p->hello.held);
}

void puppet_pair(struct puppet *a, struct puppet *b, const struct kit *k, uint32_t min)
{
    puppet_init(a, "job", "a", min, 2);
    puppet_init(b, "job", "b", min, 2);
    puppet_join(a, k);
    puppet_join(b, k);
    puppet_report(a, PHASE_WARM, 0);
    puppet_report(b, PHASE_WARM, 0);
    puppet_holds(a, 1);
    puppet_holds(b, 1);
    assert_int_equal(a->members_n, 2);
}

void puppet_report(struct puppet *p, enum phase phase, uint64_t entered)
{
    struct msg_reports m = {.seq = ++p->seq, .reports_n = 1, .reports = &p->report};

    p->report.phase = (uint8_t)phase;
    p->report.entered = entered;
    p->report.reached = MAX(entered, p->hello.held);
    p->hello.seq = p->seq;
    kit_say(p->cl, WIRE_REPORTS, &m, 0);
    do {
        puppet_next(p, WIRE_ACK);
    } while (p->ack.reports != p->seq);
}

void puppet_renew(struct puppet *p)
{
    struct msg_renew m = {.seq = ++p->renewals, .held = p->hello.held, .active = p->hello.active};

    kit_say(p->cl, WIRE_RENEW, &m, 0);
    do {
        puppet_next(p, WIRE_ACK);
    } while (p->ack.seq != p->renewals);
}

/* ---- people ---- */

void kit_ask(struct client *cl, const struct msg_ask *m, uint64_t request)
{
    struct msg_ask full = *m;

    full.request = request;
    kit_say(cl, WIRE_ASK, &full, 0);
}

void kit_answer(struct client *cl, uint64_t request, struct msg_says *m_out)
{
    *m_out = kit_next(cl, WIRE_SAYS)->says;
    assert_int_equal(m_out->request, request);
}

struct msg_event kit_event(struct client *cl)
{
    static struct metric room[METRICS_MAX];
    struct wire_scratch scratch = {.mem = (uint8_t *)room, .cap = sizeof(room)};
    union wire_any body;
    struct msg_says m;

    do {
        m = kit_next(cl, WIRE_SAYS)->says;
    } while (m.body_n == 0);
    assert_int_equal(wire_body_decode(WIRE_BODY_EVENT, m.body, m.body_n, &body, &scratch, NULL),
                     MU_OK);
    return body.event;
}

json_t *kit_status(const struct kit *k, const char *job)
{
    struct client *cl = kit_connect(k);
    struct msg_ask ask = {.kind = ASK_STATUS};
    struct wire_scratch none = {0};
    union wire_any body;
    struct msg_says m;
    char *text = NULL;
    size_t n = 0;
    json_t *json;
    json_error_t why;

    snprintf(ask.job, sizeof(ask.job), "%s", job);
    kit_ask(cl, &ask, 41);
    do {
        kit_answer(cl, 41, &m);
        assert_int_equal(m.status, MU_OK);
        assert_int_equal(wire_body_decode(WIRE_BODY_TEXT, m.body, m.body_n, &body, &none, NULL),
                         MU_OK);
        text = realloc(text, n + body.text.data_n);
        assert_non_null(text);
        memcpy(text + n, body.text.data, body.text.data_n);
        n += body.text.data_n;
    } while (m.more);
    json = json_loadb(text, n, 0, &why);
    if (json == NULL) {
        fail_msg("status is no JSON: %s", why.text);
    }
    free(text);
    client_close(cl);
    return json;
}

int kit_admin(const struct kit *k, enum ask_kind verb, const char *job, const char *node,
              char text[TEXT_MAX_LEN])
{
    struct client *cl = kit_connect(k);
    struct msg_ask m = {.kind = (uint16_t)verb};
    struct msg_says answer;

    snprintf(m.job, sizeof(m.job), "%s", job);
    snprintf(m.topic, sizeof(m.topic), "%s", node);
    kit_ask(cl, &m, 7);
    kit_answer(cl, 7, &answer);
    memcpy(text, answer.text, TEXT_MAX_LEN);
    client_close(cl);
    return answer.status;
}
