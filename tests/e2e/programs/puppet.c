/* A worker that does what a test tells it: it connects to the unix socket $E2E_PUPPETS, says who it
 * is, and answers each line with one of its own. What fails is answered with the status and its
 * text.
 *
 *     join | leave | world | exit CODE
 *     wait GENERATION MS
 *     sync TAG MS VALUE        answered with "ok GENERATION ADDRESS=VALUE …", by rank
 *     barrier TAG MS */
#include <muster.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static mu_run *run;

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value != NULL ? value : "-";
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

static void do_sync(FILE *test, const char *tag, long wait_ms, const char *value)
{
    mu_values values;
    int rc = mu_sync(run, tag, value, strlen(value), wait_ms, &values);

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

static void obey(FILE *test, const char *line)
{
    char verb[16] = "", tag[MU_TAG_MAX] = "", value[256] = "";
    unsigned long long generation;
    long wait_ms;

    if (sscanf(line, "sync %127s %ld %255s", tag, &wait_ms, value) == 3) {
        do_sync(test, tag, wait_ms, value);
    } else if (sscanf(line, "barrier %127s %ld", tag, &wait_ms) == 2) {
        answer(test, mu_barrier(run, tag, wait_ms));
    } else if (sscanf(line, "wait %llu %ld", &generation, &wait_ms) == 2) {
        answer(test, mu_wait(run, generation, wait_ms));
    } else if (sscanf(line, "exit %ld", &wait_ms) == 1) {
        exit((int)wait_ms);
    } else if (sscanf(line, "%15s", verb) == 1 && strcmp(verb, "join") == 0) {
        answer(test, mu_join(NULL, &run));
    } else if (strcmp(verb, "leave") == 0) {
        answer(test, mu_leave(run));
    } else if (strcmp(verb, "world") == 0) {
        do_world(test);
    } else {
        fprintf(test, "error 0 no such order\n");
    }
}

int main(void)
{
    FILE *test = reach_test();
    char line[1024];

    fprintf(test, "%s %s %d %s %s\n", variable("MUSTER_NODE"), variable("MUSTER_SLOT"),
            (int)getpid(), variable("RANK"), variable("MUSTER_GENERATION"));
    fflush(test);
    while (fgets(line, sizeof(line), test) != NULL) {
        obey(test, line);
        fflush(test);
    }
    return 0; /* The test is gone. */
}
