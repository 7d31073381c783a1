#include "cli/config_ask.h"

#include <stdlib.h>
#include <string.h>

/* Each has a number of its own: what comes late is told from what was asked for. */
static uint64_t last_request;

int config_say(struct ask *a, const struct msg_config *m)
{
    struct msg_config numbered = *m;
    char error[NET_ERROR_MAX] = "";
    int rc;

    numbered.request = ++last_request;
    rc = client_say(a->client, WIRE_CONFIG, &numbered, numbered.request, error);
    if (rc == MU_OK || ask_exit_of(rc) == EXIT_UNREACHABLE) {
        return rc == MU_OK ? EXIT_SUCCESS : EXIT_UNREACHABLE;
    }
    return ask_failed(a->command, ask_exit_of(rc), "%s", error);
}

int config_next(struct ask *a, uint32_t wait_ms, const struct msg_setting **m_out)
{
    const union wire_any *msg;
    struct wire_header h;
    char error[NET_ERROR_MAX] = "";
    int rc;

    do {
        rc = client_next(a->client, wait_ms, &h, &msg, error);
    } while (rc == MU_OK && (h.type != WIRE_SETTING || h.request != last_request));
    if (rc == MU_OK) {
        *m_out = &msg->setting;
        return EXIT_SUCCESS;
    }
    if (ask_exit_of(rc) == EXIT_UNREACHABLE) {
        return EXIT_UNREACHABLE;
    }
    return ask_failed(a->command, ask_exit_of(rc), "%s", error);
}

int config_lost(const struct ask *a)
{
    return ask_failed(a->command, EXIT_UNREACHABLE,
                      "the orchestrator did not answer in time, or went away; what was to be "
                      "changed may or may not be: look again");
}

int config_ask(struct ask *a, const struct msg_config *m, const struct msg_setting **m_out)
{
    const struct msg_setting *s;
    int status = config_say(a, m);

    if (status == EXIT_SUCCESS) {
        status = config_next(a, a->wait_ms, &s);
    }
    if (status == EXIT_UNREACHABLE) {
        return config_lost(a);
    }
    if (status == EXIT_SUCCESS && s->status != MU_OK) {
        return ask_refused_with(a, s->status, s->text);
    }
    if (status == EXIT_SUCCESS) {
        *m_out = s;
    }
    return status;
}
