/* A worker that does what a test tells it: it connects to the unix socket $E2E_PUPPETS, says who it
 * is, and answers each line with one of its own. What fails is answered with the status and its
 * text.
 *
 *     join | leave | world | exit CODE
 *     stay                     SIGTERM does not end it any more: it has time to answer
 *     wait GENERATION MS
 *     sync TAG MS VALUE        answered with "ok GENERATION ADDRESS=VALUE …", by rank
 *     barrier TAG MS
 *     agree TAG MS VALUE       "ok 1" or "ok 0"
 *     progress STEP
 *     get KEY MS               "ok VERSION VALUE"
 *     put KEY EXPECT MS VALUE  "ok VERSION"; EXPECT: a version, or "any"
 *     remove KEY EXPECT MS
 *     list PREFIX MS           "ok VERSION KEY@VERSION=VALUE …"; PREFIX, KEY: "*" for ""
 *     watch KEY AFTER MS       the same; "KEY@VERSION!" for one that was removed */
#include <muster.h>

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LINE_MAX_BYTES (MU_VALUE_MAX + 1024)

static mu_run *run;
static char line[LINE_MAX_BYTES], value[LINE_MAX_BYTES];

static const char *variable(const char *name)
{
    const char *found = getenv(name);

    return found != NULL ? found : "-";
}

static FILE *reach_test(void)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(to.sun_path, sizeof(to.sun_path), "%s", variable("E2E_PUPPETS"));
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0) {
        perror(to.sun_path);
        exit(1);
    }
    return fdopen(fd, "r+");
}

static void answer(FILE *test, int status)
{
    if (status == MU_OK) {
        fprintf(test, "ok\n");
    } else {
        fprintf(test, "error %d %s\n", status, mu_error());
    }
}

static void do_world(FILE *test)
{
    mu_world_info world;
    int rc = mu_world(run, &world);

    if (rc != MU_OK) {
        answer(test, rc);
        return;
    }
    fprintf(test, "ok %llu %d %d %d %d %d %d %s %s", (unsigned long long)world.generation,
            world.rank, world.size, world.local_rank, world.local_size, world.ended, world.failed,
            world.job, world.node);
    for (int i = 0; i < world.size; i++) {
        fprintf(test, " %s", world.addresses[i]);
    }
    fprintf(test, "\n");
    mu_world_free(&world);
}

static void do_sync(FILE *test, const char *tag, long wait_ms, const char *mine)
{
    mu_values values;
    int rc = mu_sync(run, tag, mine, strlen(mine), wait_ms, &values);

    if (rc != MU_OK) {
        answer(test, rc);
        return;
    }
    fprintf(test, "ok %llu", (unsigned long long)values.generation);
    for (size_t i = 0; i < values.n; i++) {
        fprintf(test, " %s=%.*s", values.items[i].address, (int)values.items[i].data_n,
                (const char *)values.items[i].data);
    }
    fprintf(test, "\n");
    mu_values_free(&values);
}

static void do_agree(FILE *test, const char *tag, long wait_ms, const char *mine)
{
    int same, rc = mu_agree(run, tag, mine, strlen(mine), wait_ms, &same);

    if (rc != MU_OK) {
        answer(test, rc);
        return;
    }
    fprintf(test, "ok %d\n", same);
}

/* ---- settings ---- */

static uint64_t expected(const char *word)
{
    return strcmp(word, "any") == 0 ? MU_ANY : strtoull(word, NULL, 10);
}

static const char *any_key(const char *word)
{
    return strcmp(word, "*") == 0 ? "" : word;
}

static void do_get(FILE *test, const char *key, long wait_ms)
{
    mu_setting found;
    int rc = mu_config_get(run, key, wait_ms, &found);

    if (rc != MU_OK) {
        answer(test, rc);
        return;
    }
    fprintf(test, "ok %llu %s\n", (unsigned long long)found.version, (const char *)found.value);
    mu_setting_free(&found);
}

static void do_put(FILE *test, const char *key, const char *expect, long wait_ms)
{
    uint64_t version;
    int rc = mu_config_put(run, key, value, strlen(value), expected(expect), wait_ms, &version);

    if (rc != MU_OK) {
        answer(test, rc);
        return;
    }
    fprintf(test, "ok %llu\n", (unsigned long long)version);
}

static void tell_settings(FILE *test, int rc, mu_settings *found)
{
    if (rc != MU_OK) {
        answer(test, rc);
        return;
    }
    fprintf(test, "ok %llu", (unsigned long long)found->version);
    for (size_t i = 0; i < found->n; i++) {
        const mu_setting *one = &found->items[i];

        fprintf(test, " %s@%llu", one->key, (unsigned long long)one->version);
        if (one->value == NULL) {
            fprintf(test, "!");
        } else {
            fprintf(test, "=%s", (const char *)one->value);
        }
    }
    fprintf(test, "\n");
    mu_settings_free(found);
}

static bool obey_settings(FILE *test)
{
    char key[MU_KEY_MAX + 16] = "", expect[32] = "";
    unsigned long long after;
    mu_settings found;
    long wait_ms;

    if (sscanf(line, "get %143s %ld", key, &wait_ms) == 2) {
        do_get(test, key, wait_ms);
    } else if (sscanf(line, "put %143s %31s %ld %[^\n]", key, expect, &wait_ms, value) == 4) {
        do_put(test, key, expect, wait_ms);
    } else if (sscanf(line, "remove %143s %31s %ld", key, expect, &wait_ms) == 3) {
        answer(test, mu_config_remove(run, key, expected(expect), wait_ms));
    } else if (sscanf(line, "list %143s %ld", key, &wait_ms) == 2) {
        tell_settings(test, mu_config_list(run, any_key(key), wait_ms, &found), &found);
    } else if (sscanf(line, "watch %143s %llu %ld", key, &after, &wait_ms) == 3) {
        tell_settings(test, mu_config_watch(run, any_key(key), after, wait_ms, &found), &found);
    } else {
        return false;
    }
    return true;
}

/* ---- orders ---- */

/* Joins, and is ready for the others from then on, whatever it is told to do first. */
static int come(mu_run **run_out)
{
    int rc = mu_join(NULL, run_out);

    if (rc == MU_OK) {
        (void)mu_wait(*run_out, 0, 0);
    }
    return rc;
}

static void obey(FILE *test)
{
    char verb[16] = "", tag[MU_TAG_MAX] = "";
    unsigned long long generation;
    long wait_ms;

    if (obey_settings(test)) {
        return;
    }
    if (sscanf(line, "sync %127s %ld %255s", tag, &wait_ms, value) == 3) {
        do_sync(test, tag, wait_ms, value);
    } else if (sscanf(line, "agree %127s %ld %255s", tag, &wait_ms, value) == 3) {
        do_agree(test, tag, wait_ms, value);
    } else if (sscanf(line, "progress %llu", &generation) == 1) {
        answer(test, mu_progress(run, generation));
    } else if (sscanf(line, "barrier %127s %ld", tag, &wait_ms) == 2) {
        answer(test, mu_barrier(run, tag, wait_ms));
    } else if (sscanf(line, "wait %llu %ld", &generation, &wait_ms) == 2) {
        answer(test, mu_wait(run, generation, wait_ms));
    } else if (sscanf(line, "exit %ld", &wait_ms) == 1) {
        exit((int)wait_ms);
    } else if (sscanf(line, "%15s", verb) == 1 && strcmp(verb, "join") == 0) {
        answer(test, come(&run));
    } else if (strcmp(verb, "leave") == 0) {
        answer(test, mu_leave(run));
    } else if (strcmp(verb, "world") == 0) {
        do_world(test);
    } else if (strcmp(verb, "stay") == 0) {
        answer(test, signal(SIGTERM, SIG_IGN) == SIG_ERR ? MU_EINVAL : MU_OK);
    } else {
        fprintf(test, "error 0 no such order\n");
    }
}

int main(void)
{
    FILE *test = reach_test();

    fprintf(test, "%s %s %d %s %s\n", variable("MUSTER_NODE"), variable("MUSTER_SLOT"),
            (int)getpid(), variable("RANK"), variable("MUSTER_GENERATION"));
    fflush(test);
    while (fgets(line, sizeof(line), test) != NULL) {
        obey(test);
        fflush(test);
    }
    return 0; /* The test is gone. */
}
