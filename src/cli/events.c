/* `muster events`: what has happened, and what happens. */
#include "cli/ask.h"
#include "cli/event_text.h"
#include "orchestrator/event_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct events_options {
    struct ask_where where;
    const char *job;
    uint64_t since;
    bool follow;
    bool json;
};

static int read_since(const char *text, void *to, char *error)
{
    char *end;

    if (*text == '\0' || strspn(text, "0123456789") != strlen(text)) {
        return MU_EINVAL;
    }
    *(uint64_t *)to = strtoull(text, &end, 10);
    return MU_OK;
}

static const struct opt table[] = {
    {OPT_FLAG, .letter = 'f', .name = "follow", .help = "go on with those that come, until Ctrl-C",
     .at = offsetof(struct events_options, follow)},
    {OPT_STRING, .name = "job", .value = "JOB", .help = "only this job's",
     .at = offsetof(struct events_options, job)},
    {OPT_READ, .name = "since", .value = "NUMBER",
     .help = "only those after this one; numbers begin at 1 when the orchestrator starts",
     .at = offsetof(struct events_options, since), .wants = "the number of an event",
     .read = read_since},
    {OPT_FLAG, .name = "json", .help = "one JSON object per line",
     .at = offsetof(struct events_options, json)},
    ASK_OPTIONS(struct events_options, where),
    {.type = OPT_END},
};

static const struct opts spec = {
    .command = "events",
    .usage = "[OPTIONS]",
    .about = "Shows what the orchestrator has seen: nodes that joined or were lost, generations, "
             "ends of runs. It keeps the newest of them, since its own start.",
    .examples = "  muster events --follow\n"
                "  muster events --job default --json | jq 'select(.event == \"lost\")'\n",
    .table = table,
};

static int print_event(const struct events_options *o, const struct msg_event *e)
{
    char line[1024];
    json_t *json;
    int rc;

    if (!o->json) {
        event_line(e, line, sizeof(line));
        return puts(line) == EOF ? EXIT_FAILURE : EXIT_SUCCESS;
    }
    json = event_json(e, NULL);
    rc = json == NULL ? -1 : json_dumpf(json, stdout, JSON_COMPACT);
    json_decref(json);
    return rc != 0 || putchar('\n') == EOF ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Events come until the answer's end; none ends them when they are followed. */
static int listen_to(struct ask *a, const struct events_options *o)
{
    const struct msg_says *m;
    int status = EXIT_SUCCESS;

    do {
        status = ask_next(a, o->follow ? 0 : a->wait_ms, &m);
        if (status == EXIT_UNREACHABLE) {
            return ask_lost(a);
        }
        if (status == EXIT_SUCCESS && m->status != MU_OK) {
            return ask_refused(a, m);
        }
        if (status == EXIT_SUCCESS && m->body_n > 0) {
            status = print_event(o, &a->body.event);
        } else if (status == EXIT_SUCCESS && m->text[0] != '\0') {
            ask_failed(a->command, status, "%s", m->text); /* Some are no longer kept. */
        }
        /* Whoever reads a pipe of ours wants each event as it comes. */
        if (o->follow && fflush(stdout) != 0) {
            return EXIT_FAILURE;
        }
    } while (status == EXIT_SUCCESS && m->more);
    return status;
}

int events_main(int argc, char **argv)
{
    struct events_options o = {0};
    struct msg_ask msg = {0};
    struct opts_words words;
    struct ask a = {0};
    int status;

    if (!opts_parse(&spec, argc, argv, &o, &words, &status)) {
        return status;
    }
    if (o.job != NULL) {
        status = ask_name(&spec, "job", o.job, msg.job);
        if (status != EXIT_SUCCESS) {
            return status;
        }
    }
    msg.kind = o.follow ? ASK_FOLLOW : ASK_EVENTS;
    msg.wait_ms = UINT32_MAX;
    msg.at = o.since;
    status = ask_open(spec.command, &o.where, &a);
    if (status == EXIT_SUCCESS) {
        status = ask_say(&a, &msg, NULL);
        status = status == EXIT_UNREACHABLE ? ask_lost(&a) : status;
    }
    if (status == EXIT_SUCCESS) {
        status = listen_to(&a, &o);
    }
    ask_close(&a);
    return status;
}
