#include "cli/ask.h"

#include "core/text.h"
#include "net/token.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_MAX ((size_t)256 << 20) /* A hundred thousand workers need a tenth of it. */

int ask_failed(const char *command, int status, const char *fmt, ...)
{
    va_list ap;

    fprintf(stderr, "muster %s: ", command);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    return status;
}

int ask_name(const struct opts *spec, const char *what, const char *text, char name[NAME_MAX_LEN])
{
    if (!text_is_name(text, strlen(text))) {
        return opts_usage_error(spec,
                                "'%.80s' can't be the name of a %s: up to %d letters, digits and "
                                "any of '.', '_', '-'",
                                text, what, NAME_MAX_LEN - 1);
    }
    strcpy(name, text);
    return EXIT_SUCCESS;
}

int ask_exit_of(int status)
{
    switch (status) {
    case MU_EREFUSED:
        return EXIT_DENIED;
    case MU_EPROTO:
    case MU_EVERSION:
    case MU_ENOMEM:
        return EXIT_FAILURE;
    default:
        return EXIT_UNREACHABLE;
    }
}

int ask_dial(const struct ask_where *where, struct client **client_out, char *error)
{
    struct token token;
    int rc = token_find(where->token_file, &token, error);

    if (rc != MU_OK) {
        return MU_EREFUSED;
    }
    rc = client_open(&where->endpoints, &token, where->wait_ms, client_out, error);
    memset(&token, 0, sizeof(token));
    return rc;
}

int ask_open(const char *command, const struct ask_where *where, struct ask *a)
{
    char error[NET_ERROR_MAX] = "";
    struct client *client;
    int rc = ask_dial(where, &client, error);

    if (rc != MU_OK && ask_exit_of(rc) == EXIT_UNREACHABLE) {
        return ask_failed(command, EXIT_UNREACHABLE,
                          "%s\n(Start one with \"muster serve\", or say where it is with "
                          "--endpoint HOST:PORT.)",
                          error);
    }
    if (rc != MU_OK) {
        return ask_failed(command, ask_exit_of(rc), "%s", error);
    }
    *a = (struct ask){.command = command, .wait_ms = where->wait_ms, .client = client};
    return EXIT_SUCCESS;
}

int ask_again(struct ask *a, const struct ask_where *where)
{
    char error[NET_ERROR_MAX] = "";
    int rc;

    ask_close(a);
    rc = ask_dial(where, &a->client, error);
    if (rc == MU_OK || ask_exit_of(rc) == EXIT_UNREACHABLE) {
        return rc == MU_OK ? EXIT_SUCCESS : EXIT_UNREACHABLE;
    }
    return ask_failed(a->command, ask_exit_of(rc), "%s", error);
}

void ask_close(struct ask *a)
{
    client_close(a->client);
    a->client = NULL;
}

int ask_say(struct ask *a, enum wire_type type, const void *msg)
{
    char error[NET_ERROR_MAX] = "";
    int rc = client_say(a->client, type, msg, 1, error);

    return rc == MU_OK ? EXIT_SUCCESS : ask_failed(a->command, ask_exit_of(rc), "%s", error);
}

int ask_refused_with(struct ask *a, int status, const char *text)
{
    int code = EXIT_FAILURE;

    if (status == MU_ENOENT) {
        code = EXIT_NOT_FOUND;
    } else if (status == MU_ECONFLICT || status == MU_EEXIST) {
        code = EXIT_CONFLICT;
    } else if (status == MU_EINVAL) {
        code = EXIT_USAGE;
    }
    return ask_failed(a->command, code, "%s", text[0] != '\0' ? text : mu_strerror(status));
}

int ask_refused(struct ask *a, const struct msg_answer *m)
{
    return ask_failed(a->command, m->status == MU_ENOENT ? EXIT_NOT_FOUND : EXIT_FAILURE, "%s",
                      m->text[0] != '\0' ? m->text : mu_strerror(m->status));
}

/* An answer in pieces. */
struct pieces {
    char *text;
    size_t n;
};

static int take_piece(struct ask *a, const struct msg_answer *m, struct pieces *p)
{
    char *text;

    if (m->status != MU_OK) {
        return ask_refused(a, m);
    }
    if (m->data_n == 0) {
        return EXIT_SUCCESS;
    }
    text = p->n + m->data_n <= ANSWER_MAX ? realloc(p->text, p->n + m->data_n) : NULL;
    if (text == NULL) {
        return ask_failed(a->command, EXIT_FAILURE, "the answer is too long");
    }
    memcpy(text + p->n, m->data, m->data_n);
    p->text = text;
    p->n += m->data_n;
    return EXIT_SUCCESS;
}

static int take_all(struct ask *a, struct pieces *p)
{
    const union wire_any *msg;
    struct wire_header h;
    char error[NET_ERROR_MAX] = "";
    int status = EXIT_SUCCESS;
    bool more = true;

    while (more && status == EXIT_SUCCESS) {
        int rc = client_next(a->client, a->wait_ms, &h, &msg, error);

        if (rc != MU_OK) {
            return ask_failed(a->command, ask_exit_of(rc), "%s", error);
        }
        if (h.type != WIRE_ANSWER) {
            continue; /* Nothing that was asked for. */
        }
        more = msg->answer.more;
        status = take_piece(a, &msg->answer, p);
    }
    return status;
}

int ask_answer(struct ask *a, json_t **json_out)
{
    struct pieces p = {0};
    json_t *json = NULL;
    int status = take_all(a, &p);

    if (status == EXIT_SUCCESS && p.n > 0) {
        json_error_t why;

        json = json_loadb(p.text, p.n, 0, &why);
        if (json == NULL) {
            status = ask_failed(a->command, EXIT_FAILURE,
                                "the answer is not JSON (%s). Is the orchestrator of another "
                                "version?",
                                why.text);
        }
    }
    free(p.text);
    if (status == EXIT_SUCCESS) {
        *json_out = json;
    }
    return status;
}

int ask_status(struct ask *a, const char *job, json_t **json_out)
{
    struct msg_ask msg = {.what = ASK_STATUS};
    json_t *json;
    int status;

    strcpy(msg.job, job);
    status = ask_say(a, WIRE_ASK, &msg);
    if (status == EXIT_SUCCESS) {
        status = ask_answer(a, &json);
    }
    if (status == EXIT_SUCCESS && json == NULL) {
        status = ask_failed(a->command, EXIT_FAILURE, "the answer is empty");
    }
    if (status == EXIT_SUCCESS) {
        *json_out = json;
    }
    return status;
}

int ask_admin(const char *command, const struct ask_where *where, const struct msg_admin *msg)
{
    struct ask a = {0};
    json_t *json = NULL;
    int status = ask_open(command, where, &a);

    if (status == EXIT_SUCCESS) {
        status = ask_say(&a, WIRE_ADMIN, msg);
    }
    if (status == EXIT_SUCCESS) {
        status = ask_answer(&a, &json);
    }
    json_decref(json);
    ask_close(&a);
    return status;
}

/* ---- one verb, one job ---- */

struct job_options {
    struct ask_where where;
};

const struct opt ask_job_table[] = {
    ASK_OPTIONS(struct job_options, where),
    {.type = OPT_END},
};

int ask_job_main(const struct opts *spec, enum admin_verb verb, const char *done, int argc,
                 char **argv)
{
    struct job_options o = {0};
    struct msg_admin msg = {.verb = verb};
    struct opts_words words;
    int status;

    if (!opts_parse(spec, argc, argv, &o, &words, &status)) {
        return status;
    }
    status = ask_name(spec, "job", words.words[0], msg.job);
    if (status == EXIT_SUCCESS) {
        status = ask_admin(spec->command, &o.where, &msg);
    }
    if (status == EXIT_SUCCESS) {
        printf("job %s %s\n", msg.job, done);
    }
    return status;
}
