/* SPDX-License-Identifier: Apache-2.0
 *
 * How good the dag is where nothing goes wrong: how near its schedules of experiments come to
 * max(critical path, work / devices), beside one that waits for each round to end; how densely it
 * packs by memory, beside the best packing there is; and how long it takes for very many jobs.
 * Prints a table; fails where a bar is missed.
 *
 *   sim_dag_bars [--jobs N]
 *
 * With --jobs, 3 N edges are played, and the time and memory that this takes are judged as well.
 */
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/rng.h"
#include "base/xalloc.h"
#include "sim/dag_play.h"
#include "sim/dist.h"

#define GIB           (1ull << 30)
#define MAKESPAN_BAR  1.05
#define PACKING_BAR   0.95
#define LARGE_SECONDS 5.0
#define LARGE_BYTES   GIB
#define LARGE_JOBS    1000000u
#define SIZES_SEED    77u

enum {
    DEVICES = 8,
    GRAPHS = 50,
    JOBS_MAX = 4096,
    SMALL_CASES = 200,
    SMALL_JOBS = 12,
    PACKED_JOBS = 200,
    WAVE_MS = 1000
};

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), compare);
    return values[n / 2];
}

static struct dag *dag_of(uint32_t n_devices, uint64_t mem_bytes)
{
    struct dag_device devices[64];
    const uint32_t cpus = 64;
    ASSERT(n_devices <= countof(devices));
    for (uint32_t i = 0; i < n_devices; i++)
        devices[i] = (struct dag_device){.host = 0, .mem_bytes = mem_bytes, .is_up = true};
    struct dag *dag = dag_new(&(struct dag_config){.devices = devices,
                                                   .n_devices = n_devices,
                                                   .host_cpus = &cpus,
                                                   .n_hosts = 1,
                                                   .keeps_going = true});
    ASSERT(dag);
    return dag;
}

/* Jobs that take times known beforehand. */
struct timed {
    uint64_t *run_ms;
};

static struct dag_play_end timed_draw(void *context, uint32_t job,
                                      const struct dag_placement *placement)
{
    const struct timed *timed = context;
    (void)placement;
    return (struct dag_play_end){.run_ms = timed->run_ms[job], .end = DEND_WELL};
}

static uint64_t timed_play(struct dag *dag, uint64_t *run_ms)
{
    struct timed timed = {run_ms};
    uint64_t end_ms =
        dag_play(&(struct dag_play){.dag = dag, .context = &timed, .draw = timed_draw});
    ASSERT(dag_view(dag).n_of[DAG_DONE] == dag_view(dag).n_jobs);
    return end_ms;
}

/*
 * ---- experiments: rollouts, a training, four evaluations, and the next round of the same lineage
 * ----
 */

enum {
    LINEAGES_MAX = 75,
    ROUNDS_MAX = 4,
    EVALUATIONS = 4
};

/*
 * Up to five families of models, five data sets, three algorithms; at least as many lineages as
 * devices.
 */
static uint32_t lineages_draw(struct rng *rng)
{
    uint32_t n = 0;
    while (n < DEVICES)
        n = (uint32_t)((1 + rng_below(rng, 5)) * (1 + rng_below(rng, 5)) * (1 + rng_below(rng, 3)));
    return n;
}

static const struct dist rollouts = {DIST_LOG_NORMAL, 40 * 60e3, 0.6, 0, NULL, 0};
static const struct dist training = {DIST_LOG_NORMAL, 90 * 60e3, 0.6, 0, NULL, 0};
static const struct dist evaluation = {DIST_LOG_NORMAL, 15 * 60e3, 0.6, 0, NULL, 0};

struct experiments {
    struct dag *dag;
    uint64_t seed;
    uint64_t run_ms[JOBS_MAX], path_ms[JOBS_MAX];
    uint64_t work_ms, critical_ms;
};

static uint32_t stage_add(struct experiments *x, const struct dist *dist, const uint32_t *needs,
                          uint32_t n_needs)
{
    uint32_t job = dag_add(x->dag, &(struct dag_job){.want = {1, 1, 0, 0, 0, 0},
                                                     .expected_ms = (uint64_t)dist->mean_ms,
                                                     .needs = needs,
                                                     .n_needs = n_needs});
    uint64_t before_ms = 0, run_ms = dist_us(dist, x->seed, job) / 1000;
    for (uint32_t i = 0; i < n_needs; i++)
        before_ms = MAX(before_ms, x->path_ms[needs[i]]);
    x->run_ms[job] = run_ms;
    x->path_ms[job] = before_ms + run_ms;
    x->work_ms += run_ms;
    x->critical_ms = MAX(x->critical_ms, x->path_ms[job]);
    return job;
}

/* The makespan, over the least that it could be without barriers. */
static double experiments_measure(uint64_t seed, bool has_barrier)
{
    static struct experiments x;
    static uint32_t barrier[JOBS_MAX];
    uint32_t trained[LINEAGES_MAX], n_barrier = 0, n_before = 0;
    struct rng rng = {.state = seed};
    uint32_t n_lineages = lineages_draw(&rng);
    uint32_t n_rounds = 2 + (uint32_t)rng_below(&rng, ROUNDS_MAX - 1);
    x = (struct experiments){.dag = dag_of(DEVICES, 0), .seed = seed};
    for (uint32_t round = 0; round < n_rounds; round++) {
        n_before = n_barrier;
        for (uint32_t i = 0; i < n_lineages; i++) {
            const uint32_t *needs = has_barrier ? barrier : &trained[i];
            uint32_t first = stage_add(&x, &rollouts, needs,
                                       round == 0    ? 0
                                       : has_barrier ? n_before
                                                     : 1);
            trained[i] = stage_add(&x, &training, &first, 1);
            for (uint32_t e = 0; e < EVALUATIONS; e++)
                barrier[n_barrier++] = stage_add(&x, &evaluation, &trained[i], 1);
        }
    }
    double made_ms = (double)timed_play(x.dag, x.run_ms);
    dag_free(x.dag);
    return made_ms / (double)MAX(x.critical_ms, x.work_ms / DEVICES);
}

static bool makespan_judge(void)
{
    double free_ratio[GRAPHS], barrier_ratio[GRAPHS];
    for (uint64_t seed = 0; seed < GRAPHS; seed++) {
        free_ratio[seed] = experiments_measure(seed + 1, false);
        barrier_ratio[seed] = experiments_measure(seed + 1, true);
    }
    double found = median(free_ratio, GRAPHS), barrier = median(barrier_ratio, GRAPHS);
    bool is_good = found <= MAKESPAN_BAR;
    printf("%-34s %.3f (largest %.3f; with barriers %.3f)   bar %.2f%s\n",
           "makespan of experiments, median", found, free_ratio[GRAPHS - 1], barrier, MAKESPAN_BAR,
           is_good ? "" : "   MISSED");
    return is_good;
}

/* ---- packing: jobs of equal length, so that the number of waves counts ---- */

static uint64_t size_draw(struct rng *rng, uint64_t device_bytes)
{
    uint64_t least = device_bytes / 20;
    return least + rng_below(rng, device_bytes * 7 / 10);
}

static uint32_t waves_of_dag(const uint64_t *sizes, uint32_t n, uint32_t n_devices,
                             uint64_t device_bytes)
{
    static uint64_t run_ms[PACKED_JOBS];
    struct dag *dag = dag_of(n_devices, device_bytes);
    for (uint32_t i = 0; i < n; i++) {
        run_ms[i] = WAVE_MS;
        dag_add(dag, &(struct dag_job){.want = {1, 1, 0, sizes[i], 0, 0}, .expected_ms = WAVE_MS});
    }
    uint64_t end_ms = timed_play(dag, run_ms);
    dag_free(dag);
    return (uint32_t)(end_ms / WAVE_MS);
}

/* Whether the sizes from `i` on, in falling order, fit into bins of which some is left. */
static bool bins_suffice(const uint64_t *sizes, uint32_t i, uint32_t n, uint64_t *left,
                         uint32_t n_bins)
{
    if (i == n)
        return true;
    for (uint32_t b = 0; b < n_bins; b++) {
        bool is_tried = false; /* another bin with as much left */
        for (uint32_t c = 0; c < b; c++)
            is_tried |= left[c] == left[b];
        if (is_tried || left[b] < sizes[i])
            continue;
        left[b] -= sizes[i];
        bool suffice = bins_suffice(sizes, i + 1, n, left, n_bins);
        left[b] += sizes[i];
        if (suffice)
            return true;
    }
    return false;
}

static int compare_down(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

/* In a wave each device is a bin. */
static uint32_t waves_at_best(uint64_t *sizes, uint32_t n, uint32_t n_devices,
                              uint64_t device_bytes)
{
    uint64_t left[SMALL_JOBS * DEVICES];
    qsort(sizes, n, sizeof(*sizes), compare_down);
    for (uint32_t waves = 1;; waves++) {
        for (uint32_t i = 0; i < waves * n_devices; i++)
            left[i] = device_bytes;
        if (bins_suffice(sizes, 0, n, left, waves * n_devices))
            return waves;
    }
}

static bool packing_judge(void)
{
    struct rng rng = {.state = SIZES_SEED};
    double best = 0, found = 0, worst = 1;
    for (uint32_t i = 0; i < SMALL_CASES; i++) {
        uint64_t sizes[SMALL_JOBS];
        uint32_t n_devices = 1 + (uint32_t)rng_below(&rng, 3);
        for (uint32_t k = 0; k < SMALL_JOBS; k++)
            sizes[k] = size_draw(&rng, 80 * GIB);
        uint32_t waves = waves_of_dag(sizes, SMALL_JOBS, n_devices, 80 * GIB);
        uint32_t least = waves_at_best(sizes, SMALL_JOBS, n_devices, 80 * GIB);
        best += least;
        found += waves;
        worst = MIN(worst, (double)least / waves);
    }
    bool is_good = best / found >= PACKING_BAR;
    printf("%-34s %.3f (least %.3f)   bar %.2f%s\n", "packing, of the best there is", best / found,
           worst, PACKING_BAR, is_good ? "" : "   MISSED");
    return is_good;
}

/* No wave can hold more than all devices have, and no two jobs above a half share one. */
static bool packing_large_judge(void)
{
    struct rng rng = {.state = SIZES_SEED};
    uint64_t sizes[PACKED_JOBS], sum = 0, n_large = 0;
    for (uint32_t i = 0; i < PACKED_JOBS; i++) {
        sizes[i] = size_draw(&rng, 80 * GIB);
        sum += sizes[i];
        n_large += sizes[i] > 40 * GIB;
    }
    uint64_t bins = MAX((sum + 80 * GIB - 1) / (80 * GIB), n_large);
    double least = (double)((bins + DEVICES - 1) / DEVICES);
    double waves = waves_of_dag(sizes, PACKED_JOBS, DEVICES, 80 * GIB);
    bool is_good = least / waves >= PACKING_BAR;
    printf("%-34s %.3f (%g waves, at least %g)   bar %.2f%s\n", "packing of 200 jobs, of a bound",
           least / waves, waves, least, PACKING_BAR, is_good ? "" : "   MISSED");
    return is_good;
}

/* ---- very many ---- */

static struct dag *large_new(uint32_t n, uint64_t *run_ms)
{
    static const struct dag_want wants[] = {
        {1, 1, 0, 0, 1, 0}, {1, 1, 0, 20 * GIB, 1, 0}, {1, 1, 250, 0, 2, 0},
        {2, 2, 0, 0, 4, 0}, {0, 0, 0, 0, 1, 0},
    };
    const struct dist dist = {DIST_LOG_NORMAL, 60e3, 1, 0, NULL, 0};
    struct rng rng = {.state = 1};
    struct dag *dag = dag_of(DEVICES, 80 * GIB);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t needs[3];
        for (uint32_t k = 0; k < 3; k++)
            needs[k] = i > 0 ? (uint32_t)rng_below(&rng, i) : 0;
        run_ms[i] = dist_us(&dist, 1, i) / 1000;
        uint32_t job =
            dag_add(dag, &(struct dag_job){.want = wants[rng_below(&rng, countof(wants))],
                                           .expected_ms = run_ms[i],
                                           .needs = needs,
                                           .n_needs = i > 0 ? 3 : 0});
        ASSERT(job == i);
    }
    return dag;
}

static uint64_t peak_bytes(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_maxrss * 1024;
}

static bool large_judge(uint32_t n)
{
    uint64_t *run_ms = xcalloc(n, sizeof(*run_ms)), before = peak_bytes();
    double begin = cpu_seconds();
    struct dag *dag = large_new(n, run_ms);
    double added = cpu_seconds() - begin;
    timed_play(dag, run_ms);
    double seconds = cpu_seconds() - begin;
    uint64_t bytes = peak_bytes() - before;
    bool is_good = n > LARGE_JOBS || (seconds <= LARGE_SECONDS && bytes <= LARGE_BYTES);
    printf("%u jobs, %u edges: added in %.2f s, played in %.2f s, %lu MiB (%.0f bytes a job)%s\n",
           n, 3 * n, added, seconds - added, bytes >> 20, (double)bytes / n,
           is_good ? "" : "   MISSED");
    dag_free(dag);
    free(run_ms);
    return is_good;
}

int main(int argc, char **argv)
{
    uint32_t n_jobs = 0;
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], "--jobs"))
            n_jobs = (uint32_t)strtoul(argv[i + 1], NULL, 10);
    bool is_good = n_jobs == 0 || large_judge(n_jobs); /* first: the peak is that of all */
    is_good &= makespan_judge();
    is_good &= packing_judge();
    is_good &= packing_large_judge();
    return is_good ? EXIT_SUCCESS : EXIT_FAILURE;
}
