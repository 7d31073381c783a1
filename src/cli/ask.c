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

/* ---- questions ---- */

static int say_body(struct ask *a, struct msg_ask *m, const void *body, char *error)
{
    const enum wire_type type = ask_rule(m->kind)->request;
    const size_t size = wire_body_size(type, body);
    size_t n = 0;
    int rc = MU_ENOMEM;

    m->body = malloc(size);
    if (m->body != NULL) {
        rc = wire_body_encode(type, body, m->body, size, &n);
        m->body_n = (uint32_t)n;
    }
    if (rc == MU_OK) {
        rc = client_say(a->client, WIRE_ASK, m, 0, error);
    } else {
        snprintf(error, NET_ERROR_MAX, "%s", mu_strerror(rc));
    }
    free(m->body);
    return rc;
}

/* One that is gone may be worth another try. */
static int came_to(struct ask *a, int rc)
{
    if (rc == MU_OK || ask_exit_of(rc) == EXIT_UNREACHABLE) {
        return rc == MU_OK ? EXIT_SUCCESS : EXIT_UNREACHABLE;
    }
    return ask_failed(a->command, ask_exit_of(rc), "%s", a->error);
}

int ask_say(struct ask *a, const struct msg_ask *asked, const void *body)
{
    struct msg_ask m = *asked;

    m.request = ++a->request;
    a->kind = m.kind;
    return came_to(a, body != NULL ? say_body(a, &m, body, a->error)
                                   : client_say(a->client, WIRE_ASK, &m, 0, a->error));
}

static int decode(struct ask *a, const struct msg_says *m)
{
    const enum wire_type type = ask_rule(a->kind)->answer;
    struct wire_scratch scratch = {.mem = (uint8_t *)a->room, .cap = sizeof(a->room)};
    struct wire_fault fault = {0};
    int rc = MU_OK;

    if (m->body_n > 0 && type != 0) {
        rc = wire_body_decode(type, m->body, m->body_n, &a->body, &scratch, &fault);
        snprintf(a->error, sizeof(a->error), "%s", fault.text);
    }
    return rc;
}

int ask_next(struct ask *a, uint32_t wait_ms, const struct msg_says **m_out)
{
    const union wire_any *msg;
    struct wire_header h;
    int rc;

    do {
        rc = client_next(a->client, wait_ms, &h, &msg, a->error);
    } while (rc == MU_OK && (h.type != WIRE_SAYS || msg->says.request != a->request));
    if (rc == MU_OK) {
        rc = decode(a, &msg->says);
        *m_out = &msg->says;
    }
    return came_to(a, rc);
}

int ask_lost(const struct ask *a)
{
    if (ask_rule(a->kind)->policy == ASK_ONCE) {
        return ask_failed(a->command, EXIT_UNREACHABLE,
                          "the orchestrator did not answer in time, or went away; what was to be "
                          "changed may or may not be: look again");
    }
    return ask_failed(a->command, EXIT_UNREACHABLE, "%s", a->error);
}

int ask_refused(const struct ask *a, const struct msg_says *m)
{
    const bool is_setting = ask_rule(a->kind)->workers; /* What programs ask, too, is told apart. */
    int code = EXIT_FAILURE;

    if (m->status == MU_ENOENT) {
        code = EXIT_NOT_FOUND;
    } else if (is_setting && (m->status == MU_ECONFLICT || m->status == MU_EEXIST)) {
        code = EXIT_CONFLICT;
    } else if (is_setting && m->status == MU_EINVAL) {
        code = EXIT_USAGE;
    }
    return ask_failed(a->command, code, "%s",
                      m->text[0] != '\0' ? m->text : mu_strerror(m->status));
}

int ask_call(struct ask *a, const struct msg_ask *m, const void *body,
             const struct msg_says **m_out)
{
    int status = ask_say(a, m, body);

    if (status == EXIT_SUCCESS) {
        status = ask_next(a, a->wait_ms, m_out);
    }
    if (status == EXIT_UNREACHABLE) {
        return ask_lost(a);
    }
    if (status == EXIT_SUCCESS && (*m_out)->status != MU_OK) {
        return ask_refused(a, *m_out);
    }
    return status;
}

/* ---- an answer in pieces ---- */

struct pieces {
    char *text;
    size_t n;
};

static int take_piece(struct ask *a, const struct body_text *piece, struct pieces *p)
{
    char *text =
        p->n + piece->data_n <= ANSWER_MAX ? realloc(p->text, p->n + piece->data_n + 1) : NULL;

    if (text == NULL) {
        return ask_failed(a->command, EXIT_FAILURE, "the answer is too long");
    }
    memcpy(text + p->n, piece->data, piece->data_n);
    p->text = text;
    p->n += piece->data_n;
    return EXIT_SUCCESS;
}

static int take_all(struct ask *a, const struct msg_says *m, struct pieces *p)
{
    int status = m->body_n > 0 ? take_piece(a, &a->body.text, p) : EXIT_SUCCESS;

    while (status == EXIT_SUCCESS && m->more) {
        status = ask_next(a, a->wait_ms, &m);
        if (status == EXIT_UNREACHABLE) {
            return ask_lost(a);
        }
        if (status == EXIT_SUCCESS && m->status != MU_OK) {
            return ask_refused(a, m);
        }
        if (status == EXIT_SUCCESS && m->body_n > 0) {
            status = take_piece(a, &a->body.text, p);
        }
    }
    return status;
}

int ask_status(struct ask *a, const char *job, json_t **json_out)
{
    struct msg_ask m = {.kind = ASK_STATUS};
    const struct msg_says *says;
    struct pieces p = {0};
    json_error_t why;
    int status;

    strcpy(m.job, job);
    status = ask_call(a, &m, NULL, &says);
    if (status == EXIT_SUCCESS) {
        status = take_all(a, says, &p);
    }
    if (status == EXIT_SUCCESS) {
        *json_out = json_loadb(p.text != NULL ? p.text : "", p.n, 0, &why);
        if (*json_out == NULL) {
            status = ask_failed(a->command, EXIT_FAILURE,
                                "the answer is not JSON (%s). Is the orchestrator of another "
                                "version?",
                                why.text);
        }
    }
    free(p.text);
    return status;
}

int ask_admin(const char *command, const struct ask_where *where, const struct msg_ask *m)
{
    const struct msg_says *says;
    struct ask a = {0};
    int status = ask_open(command, where, &a);

    if (status == EXIT_SUCCESS) {
        status = ask_call(&a, m, NULL, &says);
    }
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

int ask_job_main(const struct opts *spec, enum ask_kind kind, const char *done, int argc,
                 char **argv)
{
    struct job_options o = {0};
    struct msg_ask msg = {.kind = (uint16_t)kind};
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
