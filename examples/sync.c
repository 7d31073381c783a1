/* Everyone learns everyone's process id, then all go through a barrier.
 *
 *     cc -o sync examples/sync.c $(pkg-config --cflags --libs muster)
 *
 *     ./sync                                            alone: a job of one
 *     muster run --standalone --nproc-per-node 3 ./sync */
#include <muster.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, mu_error());
    return 1;
}

int main(void)
{
    mu_world_info world;
    mu_values values;
    mu_run *run;
    char name[64];

    /* Attach to the agent, and wait until this worker is in a generation. */
    if (mu_join(NULL, &run) != MU_OK || mu_wait(run, 0, MU_FOREVER) != MU_OK ||
        mu_world(run, &world) != MU_OK) {
        return fail("join");
    }
    printf("rank %d of %d on node %s, generation %llu\n", world.rank, world.size, world.node,
           (unsigned long long)world.generation);

    snprintf(name, sizeof(name), "process %d", (int)getpid());
    if (mu_sync(run, "names", name, strlen(name), 30000, &values) != MU_OK) {
        return fail("sync"); /* It names who is missing. */
    }
    for (size_t i = 0; i < values.n && world.rank == 0; i++) {
        printf("  %zu: %.*s\n", i, (int)values.items[i].data_n, (const char *)values.items[i].data);
    }
    mu_values_free(&values);

    if (mu_barrier(run, "before the end", 30000) != MU_OK) {
        return fail("barrier");
    }
    mu_world_free(&world);
    return mu_leave(run) == MU_OK ? 0 : fail("leave");
}
