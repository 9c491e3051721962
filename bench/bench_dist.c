/* SPDX-License-Identifier: Apache-2.0
 *
 * How long an all-reduce of float32 sums takes: forked ranks over libmuster, in ordinary memory and in
 * the library's, beside a copy of as many bytes by each rank (memory's own speed), and the share of
 * communication that a backward pass hides.
 *
 *     bench_dist [RANKS [ROUNDS]]      default 2 and 5
 *     MUSTER_DIST_BACKEND=tcp MUSTER_DIST_PORT=PORT bench_dist …
 *
 * A line a size: bytes, ranks, and microseconds in ordinary memory, in the library's, of the copy; the
 * median of the rounds, in each of which all sizes take part. Then two lines for gradients of 64 MiB and
 * a backward pass of 50 ms, which sleeps, as one on a GPU ("device"), or computes ("cpu"): "overlap", the
 * pass, ranks, milliseconds of the exchange alone, of the pass alone, of the step, and the share of the
 * exchange that was hidden, by these three and by the times of the buckets. A line for each bucket of
 * the last step has its bytes, and milliseconds from the begin of the step until it was ready, and its
 * exchange began and ended. Peers: peer_mpi.c, peer_gloo.py.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "muster/ddp.h"

enum {
    RANKS_MAX = 64,
    ROUNDS_MAX = 100,
    N_SIZES = 4,
    BYTES_MAX = 64 << 20
};
static const size_t sizes[N_SIZES] = {4096, 262144, 4 << 20, BYTES_MAX};

struct figures {
    double ordinary_us, library_us, copy_us;
};

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void must(struct muster_dist *dist, int rc)
{
    if (rc == 0)
        return;
    fprintf(stderr, "bench_dist: %s\n", muster_dist_error(dist));
    exit(1);
}

/* Enough repetitions for 50 ms or so. */
static int repetitions(size_t bytes)
{
    return bytes < 65536 ? 1000 : bytes < 1 << 20 ? 300 : bytes < 32 << 20 ? 30 : 3;
}

/* Each rank writes its values before, as a backward pass does: they are in its cache, not in others'. */
static double reduce_us(struct muster_dist *dist, float *data, size_t bytes)
{
    int n = repetitions(bytes);
    double sum = 0;
    for (int i = 0; i < n; i++) {
        memset(data, i, bytes);
        must(dist, muster_dist_barrier(dist));
        double begin = now_us();
        must(dist, muster_dist_all_reduce(dist, data, bytes / 4, MUSTER_FLOAT32, MUSTER_SUM));
        sum += now_us() - begin;
    }
    return sum / n;
}

/* All ranks copy at once. */
static double copy_us(struct muster_dist *dist, char *to, const char *from, size_t bytes)
{
    int n = repetitions(bytes);
    must(dist, muster_dist_barrier(dist));
    double begin = now_us();
    for (int i = 0; i < n; i++) {
        memcpy(to, from, bytes);
        __asm__ volatile("" : : "r"(to) : "memory");
    }
    must(dist, muster_dist_barrier(dist));
    return (now_us() - begin) / n;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const struct figures *rounds, int n, size_t offset)
{
    double values[ROUNDS_MAX];
    for (int i = 0; i < n; i++)
        memcpy(&values[i], (const char *)(rounds + (size_t)i * N_SIZES) + offset, sizeof(double));
    qsort(values, (size_t)n, sizeof(*values), compare_doubles);
    return values[n / 2];
}

enum {
    N_LAYERS = 16,
    LAYER_COUNT = BYTES_MAX / 4 / N_LAYERS,
    BACKWARD_US = 50000
};

static void layer_sleep(double layer_us)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)(layer_us * 1000)}, NULL);
}

/* Arithmetic within the cache of a CPU. */
static double multiplies_an_us;

static void multiply(double n)
{
    float values[256];
    for (size_t i = 0; i < 256; i++)
        values[i] = (float)i;
    for (double done = 0; done < n; done++) {
        for (size_t i = 0; i < 256; i++)
            values[i] = values[i] * 0.999f + 1;
        __asm__ volatile("" : : "r"(values) : "memory");
    }
}

static void layer_compute(double layer_us)
{
    multiply(layer_us * multiplies_an_us);
}

/* The fastest of some: the others were not alone. */
static void multiplies_count(void)
{
    const double n = 100000;
    for (int i = 0; i < 20; i++) {
        double begin = now_us();
        multiply(n);
        double speed = n / (now_us() - begin);
        multiplies_an_us = speed > multiplies_an_us ? speed : multiplies_an_us;
    }
}

static const struct pass {
    const char *name;
    void (*layer)(double layer_us);
} passes[] = {{"device", layer_sleep}, {"cpu", layer_compute}};

/* The pass by itself: sleeps last longer than they should. */
static double backward_ms(struct muster_dist *dist, const struct pass *pass)
{
    must(dist, muster_dist_barrier(dist));
    double begin = now_us();
    for (size_t i = 0; i < N_LAYERS; i++)
        pass->layer((double)BACKWARD_US / N_LAYERS);
    must(dist, muster_dist_barrier(dist));
    return (now_us() - begin) / 1e3;
}

struct overlap {
    double exchange_ms, backward_ms, step_ms, hidden;
};

/* How much of the exchanges was over when the last gradient was ready. */
static double hidden_by_buckets(struct muster_ddp *ddp, double ready_us)
{
    double all = 0, hidden = 0;
    for (size_t b = 0; b < muster_ddp_n_buckets(ddp); b++) {
        struct muster_ddp_bucket times;
        muster_ddp_bucket(ddp, b, &times);
        double begin = (double)times.begin_ns / 1e3, end = (double)times.end_ns / 1e3;
        all += end - begin;
        hidden += end < ready_us ? end - begin : begin < ready_us ? ready_us - begin : 0;
    }
    return hidden / all;
}

/* No pass: NULL. */
static double step_ms(struct muster_dist *dist, struct muster_ddp *ddp, const struct pass *pass,
                      double *begin_us, double *hidden)
{
    must(dist, muster_dist_barrier(dist));
    double begin = *begin_us = now_us();
    must(dist, muster_ddp_begin(ddp, 1));
    for (size_t i = N_LAYERS; i-- > 0;) {
        if (pass)
            pass->layer((double)BACKWARD_US / N_LAYERS);
        must(dist, muster_ddp_ready(ddp, i));
    }
    double ready = now_us();
    must(dist, muster_ddp_finish(ddp));
    double end = now_us();
    *hidden = hidden_by_buckets(ddp, ready);
    return (end - begin) / 1e3;
}

static void buckets_print(struct muster_ddp *ddp, double begin_us)
{
    for (size_t b = 0; b < muster_ddp_n_buckets(ddp); b++) {
        struct muster_ddp_bucket times;
        muster_ddp_bucket(ddp, b, &times);
        printf("bucket\t%zu\t%zu\t%.1f\t%.1f\t%.1f\n", b, times.bytes,
               ((double)times.ready_ns / 1e3 - begin_us) / 1e3,
               ((double)times.begin_ns / 1e3 - begin_us) / 1e3,
               ((double)times.end_ns / 1e3 - begin_us) / 1e3);
    }
}

static double overlap_median(const struct overlap *rounds, int n, size_t offset)
{
    double values[ROUNDS_MAX];
    for (int i = 0; i < n; i++)
        memcpy(&values[i], (const char *)(rounds + i) + offset, sizeof(double));
    qsort(values, (size_t)n, sizeof(*values), compare_doubles);
    return values[n / 2];
}

static void overlap_run(struct muster_dist *dist, struct muster_ddp *ddp, const struct pass *pass,
                        int n_rounds)
{
    struct overlap rounds[ROUNDS_MAX];
    double begin_us = 0, unused;
    step_ms(dist, ddp, NULL, &begin_us, &unused);
    for (int i = 0; i < n_rounds; i++) {
        rounds[i].exchange_ms = step_ms(dist, ddp, NULL, &begin_us, &unused);
        rounds[i].backward_ms = backward_ms(dist, pass);
        rounds[i].step_ms = step_ms(dist, ddp, pass, &begin_us, &rounds[i].hidden);
    }
    double exchange = overlap_median(rounds, n_rounds, offsetof(struct overlap, exchange_ms));
    double backward = overlap_median(rounds, n_rounds, offsetof(struct overlap, backward_ms));
    double step = overlap_median(rounds, n_rounds, offsetof(struct overlap, step_ms));
    if (muster_dist_rank(dist) != 0)
        return;
    printf("overlap\t%s\t%u\t%.1f\t%.1f\t%.1f\t%.2f\t%.2f\n", pass->name, muster_dist_size(dist),
           exchange, backward, step, 1 - (step - backward) / exchange,
           overlap_median(rounds, n_rounds, offsetof(struct overlap, hidden)));
    buckets_print(ddp, begin_us);
}

static void overlaps_run(struct muster_dist *dist, int n_rounds)
{
    struct muster_param params[N_LAYERS];
    for (int i = 0; i < N_LAYERS; i++)
        params[i] = (struct muster_param){"layer", MUSTER_FLOAT32, LAYER_COUNT, NULL, NULL};
    struct muster_ddp *ddp =
        muster_ddp_new(dist, params, N_LAYERS, &(struct muster_ddp_opts){.bucket_bytes = 8 << 20});
    must(dist, muster_dist_code(dist));
    multiplies_count();
    for (size_t p = 0; p < sizeof(passes) / sizeof(*passes); p++)
        overlap_run(dist, ddp, &passes[p], n_rounds);
    muster_ddp_free(ddp);
}

static void rank_run(int n_rounds)
{
    struct muster_dist *dist = muster_dist_open(NULL);
    must(dist, muster_dist_code(dist));
    struct figures figures[ROUNDS_MAX][N_SIZES];
    float *ordinary = calloc(1, BYTES_MAX), *other = calloc(1, BYTES_MAX);
    float *library = muster_dist_buffer_new(dist, BYTES_MAX);
    must(dist, muster_dist_code(dist));
    memset(ordinary, 0, BYTES_MAX);
    memset(other, 0, BYTES_MAX);
    for (int i = 0; i < n_rounds; i++)
        for (int s = 0; s < N_SIZES; s++)
            figures[i][s] = (struct figures){
                .ordinary_us = reduce_us(dist, ordinary, sizes[s]),
                .library_us = reduce_us(dist, library, sizes[s]),
                .copy_us = copy_us(dist, (char *)other, (const char *)ordinary, sizes[s])};
    for (size_t s = 0; muster_dist_rank(dist) == 0 && s < N_SIZES; s++)
        printf("%zu\t%u\t%.1f\t%.1f\t%.1f\n", sizes[s], muster_dist_size(dist),
               median(&figures[0][s], n_rounds, offsetof(struct figures, ordinary_us)),
               median(&figures[0][s], n_rounds, offsetof(struct figures, library_us)),
               median(&figures[0][s], n_rounds, offsetof(struct figures, copy_us)));
    overlaps_run(dist, n_rounds);
    free(ordinary);
    free(other);
    must(dist, muster_dist_close(dist));
}

static void environment_set(int rank, int n_ranks, int job)
{
    const struct {
        const char *name;
        int value;
    } variables[] = {{"RANK", rank},
                     {"WORLD_SIZE", n_ranks},
                     {"LOCAL_RANK", rank},
                     {"LOCAL_WORLD_SIZE", n_ranks},
                     {"MASTER_PORT", job}};
    for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++) {
        char text[16];
        snprintf(text, sizeof(text), "%d", variables[i].value);
        setenv(variables[i].name, text, 1);
    }
    setenv("MASTER_ADDR", "127.0.0.1", 1);
}

int main(int argc, char **argv)
{
    long n_ranks = argc > 1 ? strtol(argv[1], NULL, 10) : 2;
    long n_rounds = argc > 2 ? strtol(argv[2], NULL, 10) : 5;
    int job = (int)getpid(), failed = 0;
    if (n_ranks < 1 || n_ranks > RANKS_MAX || n_rounds < 1 || n_rounds > ROUNDS_MAX) {
        fprintf(stderr, "bench_dist: 1 to %d ranks, 1 to %d rounds\n", RANKS_MAX, ROUNDS_MAX);
        return 2;
    }
    for (int r = 0; r < n_ranks; r++)
        if (fork() == 0) {
            environment_set(r, (int)n_ranks, job);
            rank_run((int)n_rounds);
            return 0;
        }
    for (int status; wait(&status) > 0;)
        failed |= status != 0;
    return failed;
}
