/* MPI_Allreduce of f32 sums, as `muster bench allreduce` measures its own: rounds without a barrier
 * in between, so many that a batch takes the wanted time; the slowest rank's time counts.
 *
 * usage: mpirun … mpi_allreduce SECONDS BATCHES BYTES…
 *
 * Prints one JSON object a size: {"bytes": 4096, "rounds": 1000, "us": [2.4, …]}. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARM_ROUNDS 3
#define BATCHES_MAX 64

static float *in, *out;

static void round_of(int count)
{
    MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/* Of the slowest rank, in seconds. */
static double batch(int count, long rounds)
{
    double start, took, most;

    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (long i = 0; i < rounds; i++) {
        round_of(count);
    }
    took = MPI_Wtime() - start;
    MPI_Allreduce(&took, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

/* The first result: sums of small whole numbers are exact, so any order gives them. */
static void check(int count, int rank, int size)
{
    for (int i = 0; i < count; i++) {
        in[i] = (float)(i % 1000 + rank);
        out[i] = -1.0f;
    }
    round_of(count);
    for (int i = 0; i < count; i++) {
        if (out[i] != (float)(i % 1000 * size + size * (size - 1) / 2)) {
            fprintf(stderr, "mpi_allreduce: element %d is wrong\n", i);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

static void measure(size_t bytes, double seconds, int batches, int rank, int size)
{
    int count = (int)(bytes / sizeof(float));
    double us[BATCHES_MAX], each;
    long rounds = 1;

    check(count, rank, size);
    for (int i = 0; i < WARM_ROUNDS; i++) {
        round_of(count);
    }
    while ((each = batch(count, rounds)) < seconds / 4 && rounds < 1L << 30) {
        rounds *= 2;
    }
    rounds = (long)((double)rounds * seconds / each) + 1;
    MPI_Bcast(&rounds, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    for (int b = 0; b < batches; b++) {
        us[b] = batch(count, rounds) / (double)rounds * 1e6;
    }
    if (rank == 0) {
        printf("{\"bytes\": %zu, \"rounds\": %ld, \"us\": [", bytes, rounds);
        for (int b = 0; b < batches; b++) {
            printf("%s%.4f", b > 0 ? ", " : "", us[b]);
        }
        printf("]}\n");
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    size_t most = 0;
    int rank, size, batches;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 4 || (batches = atoi(argv[2])) < 1 || batches > BATCHES_MAX) {
        fprintf(stderr, "usage: mpirun … mpi_allreduce SECONDS BATCHES BYTES…\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
        return 2;
    }
    for (int i = 3; i < argc; i++) {
        size_t bytes = strtoull(argv[i], NULL, 10);

        most = bytes > most ? bytes : most;
    }
    in = aligned_alloc(4096, (most + 4095) / 4096 * 4096);
    out = aligned_alloc(4096, (most + 4095) / 4096 * 4096);
    if (in == NULL || out == NULL) {
        fprintf(stderr, "mpi_allreduce: out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
        return 1;
    }
    memset(in, 0, most);
    memset(out, 0, most);
    for (int i = 3; i < argc; i++) {
        measure(strtoull(argv[i], NULL, 10), atof(argv[1]), batches, rank, size);
    }
    free(in);
    free(out);
    MPI_Finalize();
    return 0;
}
