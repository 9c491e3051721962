/* SPDX-License-Identifier: Apache-2.0
 *
 * What bench_dist measures, with MPI_Allreduce: mpirun -n RANKS peer_mpi [ROUNDS]. A line a size:
 * bytes, ranks, microseconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>

enum {
    ROUNDS_MAX = 100,
    N_SIZES = 4,
    BYTES_MAX = 64 << 20
};
static const size_t sizes[N_SIZES] = {4096, 262144, 4 << 20, BYTES_MAX};

static double reduce_us(float *data, size_t bytes)
{
    int n = bytes < 65536 ? 1000 : bytes < 1 << 20 ? 300 : bytes < 32 << 20 ? 30 : 3;
    double sum = 0;
    for (int i = 0; i < n; i++) {
        memset(data, i, bytes);
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        MPI_Allreduce(MPI_IN_PLACE, data, (int)(bytes / 4), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        sum += MPI_Wtime() - begin;
    }
    return sum / n * 1e6;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    int rank, n_ranks;
    long n_rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 5;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    static double figures[N_SIZES][ROUNDS_MAX];
    float *data = calloc(1, BYTES_MAX);
    for (long i = 0; i < n_rounds && i < ROUNDS_MAX; i++)
        for (int s = 0; s < N_SIZES; s++)
            figures[s][i] = reduce_us(data, sizes[s]);
    for (int s = 0; rank == 0 && s < N_SIZES; s++) {
        qsort(figures[s], (size_t)n_rounds, sizeof(double), compare_doubles);
        printf("%zu\t%d\t%.1f\n", sizes[s], n_ranks, figures[s][n_rounds / 2]);
    }
    free(data);
    MPI_Finalize();
    return 0;
}
