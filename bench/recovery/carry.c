/* How fast the transport carries bytes from one worker to another, from and into ordinary memory.
 *
 * usage: carry FILE BYTES REPEATS
 *
 * Two workers of a job (muster run --nproc-per-node 2). Rank 1 writes to FILE a line for each
 * repeat: bytes a second. */
#include <muster.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Both begin at the same moment; the one that receives knows when it is all there. */
static int carry(mu_run *run, int rank, uint8_t *buffer, size_t bytes, double *took_out)
{
    double start_s;
    int rc = mu_meet(run, MU_FOREVER);

    if (rc != MU_OK) {
        return rc;
    }
    start_s = now_s();
    rc = rank == 0 ? mu_send(run, buffer, bytes, MU_U8, 1, 0, MU_FOREVER)
                   : mu_recv(run, buffer, bytes, MU_U8, 0, 0, MU_FOREVER);
    *took_out = now_s() - start_s;
    return rc;
}

static int repeat(mu_run *run, FILE *out, size_t bytes, int repeats)
{
    uint8_t *buffer = malloc(bytes);
    mu_group_info group;
    double took_s;
    int rc = buffer != NULL ? mu_regroup(run, MU_FOREVER) : MU_ENOMEM;

    if (rc == MU_OK) {
        rc = mu_group(run, &group);
    }
    if (rc != MU_OK) {
        free(buffer);
        return rc;
    }
    memset(buffer, 1, bytes);
    for (int i = 0; rc == MU_OK && i <= repeats; i++) { /* The first one warms up. */
        rc = carry(run, group.rank, buffer, bytes, &took_s);
        if (rc == MU_OK && group.rank == 1 && i > 0) {
            fprintf(out, "%.0f\n", (double)bytes / took_s);
        }
    }
    free(buffer);
    return rc;
}

int main(int argc, char **argv)
{
    FILE *out = argc == 4 ? fopen(argv[1], "a") : NULL;
    mu_run *run;
    int rc;

    if (out == NULL) {
        fprintf(stderr, "usage: carry FILE BYTES REPEATS\n");
        return 2;
    }
    rc = mu_join(NULL, &run);
    if (rc == MU_OK) {
        rc = repeat(run, out, strtoull(argv[2], NULL, 10), atoi(argv[3]));
    }
    if (rc != MU_OK) {
        fprintf(stderr, "carry: %s\n", mu_error());
        return 1;
    }
    mu_leave(run);
    return fclose(out) == 0 ? 0 : 1;
}
