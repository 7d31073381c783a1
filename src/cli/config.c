/* `muster config`: reads, changes and watches the settings of a job. */
#include "cli/config_watch.h"
#include "cli/setting_text.h"
#include "cli/suggest.h"
#include "core/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct config_options {
    struct ask_where where;
    const char *job;
    uint64_t expect;
    bool create;
    bool json;
    bool raw;
};

static int read_version(const char *text, void *to, char *error)
{
    (void)error;
    return text_number(text, strlen(text), 1, UINT64_MAX - 1, to) ? MU_OK : MU_EINVAL;
}

static const struct opt table[] = {
    {OPT_STRING, .name = "job", .value = "JOB", .help = "whose settings (default: default)",
     .at = offsetof(struct config_options, job)},
    {OPT_READ, .name = "if-version", .value = "N",
     .help = "put, rm: only if the key is at this version still",
     .at = offsetof(struct config_options, expect), .wants = "the version of a key, from 1",
     .read = read_version},
    {OPT_FLAG, .name = "create", .help = "put: only if there is no such key yet",
     .at = offsetof(struct config_options, create)},
    {OPT_FLAG, .name = "json", .help = "one JSON object per line and setting",
     .at = offsetof(struct config_options, json)},
    {OPT_FLAG, .name = "raw", .help = "get: the bytes of the value and nothing else",
     .at = offsetof(struct config_options, raw)},
    ASK_OPTIONS(struct config_options, where),
    {.type = OPT_END},
};

static const struct opts spec = {
    .command = "config",
    .usage = "[OPTIONS] get KEY | list [PREFIX] | put KEY VALUE | rm KEY | watch [KEY]",
    .about =
        "Settings are keys with values that people, programs and the workers of a job share. They "
        "are kept when processes end. Each change gives the key a new version; --if-version and "
        "--create make a change only if nobody else was first.\n"
        "A VALUE of \"-\" is read from stdin; \"--\" goes before one that begins with '-'. watch "
        "shows the settings as they are, then each change, until it is interrupted; a KEY that "
        "ends with '/' stands for all below it.\n"
        "Some keys mean something to muster: size (how many nodes are wanted), members (names of "
        "the nodes that stay, with commas), min, max, schedule (\"2:100,4:100,1\": 2 nodes for 100 "
        "steps, then 4, then 1), paused (true or false).",
    .examples = "  muster config put lr 0.1\n"
                "  muster config put --if-version 3 lr 0.05\n"
                "  muster config get lr\n"
                "  muster config put paused true --job big\n"
                "  muster config watch --json\n",
    .table = table,
    .words_min = 1,
    .words_max = 3,
};

/* ---- one function per verb ---- */

struct call {
    const struct config_options *o;
    struct ask ask;
    struct msg_ask m;
    struct body_setting body; /* of a change */
    const struct msg_says *answer;
    uint8_t value[CONFIG_VALUE_MAX + 1];
};

static int print_json(const struct call *c, const struct rec_config *r)
{
    json_t *json = setting_object(c->m.job, r);
    int rc = json == NULL ? -1 : json_dumpf(json, stdout, JSON_COMPACT);

    json_decref(json);
    return rc != 0 || putchar('\n') == EOF ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int get(struct call *c)
{
    int status = ask_call(&c->ask, &c->m, NULL, &c->answer);
    struct rec_config r;

    if (status != EXIT_SUCCESS) {
        return status;
    }
    r = setting_of(&c->ask, c->answer);
    if (c->o->json) {
        return print_json(c, &r);
    }
    fwrite(r.value, 1, r.value_n, stdout);
    if (!c->o->raw) {
        putchar('\n');
    }
    return EXIT_SUCCESS;
}

static int list(struct call *c)
{
    char line[CONFIG_KEY_MAX + 1024];
    int status = ask_call(&c->ask, &c->m, NULL, &c->answer);
    uint32_t n = 0;

    for (; status == EXIT_SUCCESS && c->answer->more; n++) {
        const struct rec_config r = setting_of(&c->ask, c->answer);

        if (c->o->json) {
            status = print_json(c, &r);
        } else {
            setting_line(&r, 0, line, sizeof(line));
            puts(line);
        }
        if (status == EXIT_SUCCESS) {
            status = ask_next(&c->ask, c->ask.wait_ms, &c->answer);
        }
        if (status == EXIT_UNREACHABLE) {
            return ask_lost(&c->ask);
        }
    }
    if (status == EXIT_SUCCESS && n == 0 && !c->o->json) {
        printf("job %s has no settings%s%s\n", c->m.job,
               c->m.topic[0] != '\0' ? " that begin with " : "", c->m.topic);
    }
    return status;
}

static int read_stdin(struct call *c)
{
    size_t n = fread(c->value, 1, sizeof(c->value), stdin);

    if (ferror(stdin) || n > CONFIG_VALUE_MAX) {
        return ask_failed(spec.command, EXIT_USAGE,
                          ferror(stdin) ? "stdin can't be read"
                                        : "the value on stdin is longer than 64 KiB");
    }
    c->body.value = c->value;
    c->body.value_n = (uint32_t)n;
    return EXIT_SUCCESS;
}

static int change(struct call *c)
{
    int status = ask_call(&c->ask, &c->m, &c->body, &c->answer);

    if (status != EXIT_SUCCESS) {
        return status;
    }
    if (c->o->json) {
        struct rec_config r = {.version = c->answer->at,
                               .deleted = c->body.deleted,
                               .value = c->body.value,
                               .value_n = c->body.value_n};

        strcpy(r.key, c->m.topic);
        return print_json(c, &r);
    }
    printf(c->body.deleted ? "%s is removed (version %" PRIu64 ")\n"
                           : "%s is at version %" PRIu64 "\n",
           c->answer->topic, c->answer->at);
    return EXIT_SUCCESS;
}

static int watch(struct call *c)
{
    struct config_watch w = {
        .where = &c->o->where, .job = c->m.job, .key = c->m.topic, .json = c->o->json};

    return config_watch(&c->ask, &w);
}

/* ---- the command ---- */

static const struct verb {
    const char *name;
    uint32_t words_min, words_max; /* itself included */
    enum ask_kind kind;
    bool removes;
    int (*run)(struct call *c);
} verbs[] = {
    {"get", 2, 2, ASK_SETTING_GET, false, get},
    {"list", 1, 2, ASK_SETTING_LIST, false, list},
    {"put", 3, 3, ASK_SETTING_CHANGE, false, change},
    {"rm", 2, 2, ASK_SETTING_CHANGE, true, change},
    {"watch", 1, 2, ASK_SETTING_WATCH, false, watch},
};

static const struct verb *find_verb(const char *name, struct suggestion *s)
{
    suggest_begin(s, name);
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
        if (strcmp(verbs[i].name, name) == 0) {
            return &verbs[i];
        }
        suggest_offer(s, verbs[i].name);
    }
    return NULL;
}

/* The options that this verb has no use for would not do what they seem to. */
static int check_options(const struct verb *v, const struct config_options *o)
{
    const bool changes = v->kind == ASK_SETTING_CHANGE;

    if (o->expect != CONFIG_ANY && !changes) {
        return opts_usage_error(&spec, "--if-version is for put and rm");
    }
    if (o->create && (!changes || v->removes || o->expect != CONFIG_ANY)) {
        return opts_usage_error(&spec, "--create is for put, without --if-version");
    }
    if (o->raw && (v->kind != ASK_SETTING_GET || o->json)) {
        return opts_usage_error(&spec, "--raw is for get, without --json");
    }
    return EXIT_SUCCESS;
}

static int take_words(const struct verb *v, const struct opts_words *words, struct call *c)
{
    const char *key = words->n > 1 ? words->words[1] : "";
    char why[TEXT_MAX_LEN];

    c->m.kind = (uint16_t)v->kind;
    c->body.deleted = v->removes;
    if (words->n < v->words_min || words->n > v->words_max) {
        return opts_usage_error(&spec, "%s\nusage: muster config %s",
                                words->n < v->words_min ? "a word is missing" : "a word too many",
                                spec.usage);
    }
    if (strlen(key) >= CONFIG_KEY_MAX ||
        (v->words_min > 1 && !config_key_valid(key, why, sizeof(why)))) {
        return opts_usage_error(&spec, "%s",
                                strlen(key) < CONFIG_KEY_MAX ? why : "the key is too long");
    }
    strcpy(c->m.topic, key);
    if (v->words_min < 3) {
        return EXIT_SUCCESS;
    }
    if (strcmp(words->words[2], "-") == 0) {
        return read_stdin(c);
    }
    if (strlen(words->words[2]) > CONFIG_VALUE_MAX) {
        return opts_usage_error(&spec, "the value is longer than 64 KiB");
    }
    c->body.value = (uint8_t *)words->words[2];
    c->body.value_n = (uint32_t)strlen(words->words[2]);
    return EXIT_SUCCESS;
}

int config_main(int argc, char **argv)
{
    static struct call c; /* too large for a stack */
    struct config_options o = {.job = "default", .expect = CONFIG_ANY};
    struct opts_words words;
    struct suggestion near;
    const struct verb *v;
    int status;

    if (!opts_parse(&spec, argc, argv, &o, &words, &status)) {
        return status;
    }
    v = find_verb(words.words[0], &near);
    if (v == NULL) {
        return opts_usage_error(&spec, "there is no 'config %.40s'%s%s%s", words.words[0],
                                near.best != NULL ? ". Did you mean '" : "",
                                near.best != NULL ? near.best : "", near.best != NULL ? "'?" : "");
    }
    c.o = &o;
    status = ask_name(&spec, "job", o.job, c.m.job);
    if (status == EXIT_SUCCESS) {
        status = check_options(v, &o);
    }
    if (status == EXIT_SUCCESS) {
        status = take_words(v, &words, &c);
    }
    c.m.at = o.create ? 0 : o.expect;
    if (status == EXIT_SUCCESS) {
        status = ask_open(spec.command, &o.where, &c.ask);
    }
    if (status == EXIT_SUCCESS) {
        status = v->run(&c);
    }
    ask_close(&c.ask);
    return status;
}
