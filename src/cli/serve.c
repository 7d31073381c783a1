/* `muster serve`: an orchestrator, until SIGTERM or SIGINT. */
#include "cli/serve.h"

#include "base/log.h"
#include "cli/ask.h"
#include "store/store.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AREA "serve"

/* One orchestrator on one loop, and the signals that end it. */
struct serve {
    uv_loop_t loop;
    uv_signal_t term, interrupt;
    struct orchestrator *orchestrator;
};

static void forget_signals(struct serve *s)
{
    uv_close((uv_handle_t *)&s->term, NULL);
    uv_close((uv_handle_t *)&s->interrupt, NULL);
}

static void stop(uv_signal_t *handle, int number)
{
    struct serve *s = handle->data;

    log_info(AREA, "%s: going. Training goes on without an orchestrator; agents wait for the next.",
             number == SIGTERM ? "SIGTERM" : "SIGINT");
    forget_signals(s);
    orchestrator_close(s->orchestrator);
    s->orchestrator = NULL;
}

/* Before it says that it listens: whoever waits for that may end it in the same moment. */
static void watch_signals(struct serve *s)
{
    mu_assert(uv_signal_init(&s->loop, &s->term) == 0);
    mu_assert(uv_signal_init(&s->loop, &s->interrupt) == 0);
    s->term.data = s->interrupt.data = s;
    mu_assert(uv_signal_start(&s->term, stop, SIGTERM) == 0);
    mu_assert(uv_signal_start(&s->interrupt, stop, SIGINT) == 0);
}

static bool is_loopback(const struct endpoint *at)
{
    struct sockaddr_storage found[8];
    socklen_t lens[ARRAY_LEN(found)];
    char error[NET_ERROR_MAX];
    uint32_t n = 0;

    if (endpoint_resolve(at, found, lens, ARRAY_LEN(found), &n, error) != MU_OK) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!address_is_loopback((const struct sockaddr *)&found[i])) {
            return false;
        }
    }
    return true;
}

/* What the orchestrator's own line about its start does not say. */
static void tell(const struct serve_options *o)
{
    if (!is_loopback(&o->config.listen)) {
        if (o->token_arg != NULL) {
            log_info(AREA, "other machines need the token in %s, as MUSTER_TOKEN or --token-file",
                     o->token_path);
        } else {
            log_info(AREA,
                     "other machines need the token in %s, as MUSTER_TOKEN or --token-file; "
                     "`muster token%s%s` prints it",
                     o->token_path, o->data_arg != NULL ? " --data " : "",
                     o->data_arg != NULL ? o->data : "");
        }
    }
}

static int serve(const struct serve_options *o)
{
    struct serve s = {0};
    char error[MAX(STORE_ERROR_MAX, NET_ERROR_MAX)] = "";
    int status = EXIT_SUCCESS;

    signal(SIGPIPE, SIG_IGN); /* Whoever read the log may go; that ends no orchestrator. */
    mu_assert(uv_loop_init(&s.loop) == 0);
    watch_signals(&s);
    if (orchestrator_open(&s.loop, &o->config, &s.orchestrator, error) == MU_OK) {
        tell(o);
    } else {
        forget_signals(&s);
        status = ask_failed("serve", EXIT_FAILURE, "%s", error);
    }
    uv_run(&s.loop, UV_RUN_DEFAULT);
    mu_assert(uv_loop_close(&s.loop) == 0);
    return status;
}

int serve_main(int argc, char **argv)
{
    static struct serve_options o;
    int status;

    if (!serve_options(argc, argv, &o, &status)) {
        return status;
    }
    status = serve(&o);
    memset(&o.config.token, 0, sizeof(o.config.token));
    return status;
}
