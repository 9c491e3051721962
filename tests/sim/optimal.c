/* SPDX-License-Identifier: Apache-2.0
 *
 * How near the feeder comes to the best there is, where nothing goes wrong: against a list schedule of the
 * same service times that costs nothing (sizes unknown), against max(sum / devices, longest) (sizes known,
 * longest first), and with devices that are slow. Prints a table; fails where a bar is missed by any seed.
 *
 *   sim_optimal [--seeds N]
 */
#include <string.h>
#include <time.h>

#include "base/xalloc.h"
#include "sim/ideal.h"
#include "sim/world.h"

enum {
    ITEMS_EACH = 100,
    ITEMS_MIN = 1000,
    STRAGGLER_SEEDS = 20
};

#define HOSTS_COST_MAX 1.02

struct cell {
    const char *name;
    struct dist service;
    bool sizes_are_known;
    double bar;
};

struct figures {
    double *ratio, *split; /* of each seed: of the feeder, of an even split beforehand */
    uint32_t n_seeds;
    uint64_t steps;
    double seconds;
};

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static struct sim_result simulate(const struct sim_config *config)
{
    struct sim_result result = {.end = SIM_NO_MEMORY};
    struct sim *sim = sim_new(config);
    if (sim)
        sim_run(sim, &result);
    sim_free(sim);
    return result;
}

static void seed_measure(const struct cell *cell, uint32_t n_devices, uint64_t seed,
                         struct figures *out)
{
    struct sim_config config = {
        .n_devices = n_devices,
        .n_items = MAX((uint64_t)ITEMS_EACH * n_devices, (uint64_t)ITEMS_MIN),
        .seed = seed,
        .service = cell->service,
        .sizes_are_known = cell->sizes_are_known,
        .turnaround_us = 500,
    };
    struct ideal ideal = {
        .service = &config.service, .seed = seed, .n_items = config.n_items, .n_slots = n_devices};
    double begin = cpu_seconds();
    struct sim_result r = simulate(&config);
    out->seconds += cpu_seconds() - begin;
    out->steps += r.steps;
    double best_us =
        (double)(cell->sizes_are_known ? ideal_bound_us(&ideal) : ideal_list_us(&ideal));
    bool is_done = r.end == SIM_DONE && r.done == config.n_items;
    out->ratio[out->n_seeds] = is_done ? (double)r.makespan_us / best_us : 99;
    out->split[out->n_seeds++] = (double)ideal_static_us(&ideal) / best_us;
}

static int compare(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* One line of the table; false if its bar was missed. */
static bool cell_measure(const struct cell *cell, uint32_t n_devices, uint32_t n_seeds)
{
    struct figures f = {.ratio = xcalloc(n_seeds, sizeof(double)),
                        .split = xcalloc(n_seeds, sizeof(double))};
    for (uint64_t seed = 1; seed <= n_seeds; seed++)
        seed_measure(cell, n_devices, seed, &f);
    qsort(f.ratio, n_seeds, sizeof(double), compare);
    qsort(f.split, n_seeds, sizeof(double), compare);
    double median = f.ratio[n_seeds / 2], worst = f.ratio[n_seeds - 1];
    bool is_met = worst <= cell->bar;
    printf("| %u | %s | <= %.2f | %.4f | %.4f | %.2f | %u | %.1f M | %s |\n", n_devices, cell->name,
           cell->bar, median, worst, f.split[n_seeds / 2], n_seeds,
           (double)f.steps / f.seconds / 1e6, is_met ? "yes" : "**no**");
    fflush(stdout);
    free(f.ratio);
    free(f.split);
    return is_met;
}

/*
 * A device that is slow, not only an item: copies must save what it would hold up, and nearly as much if they are to be
 * on another one of two hosts.
 */
static bool stragglers_measure(double slow, uint32_t n_slow)
{
    static const uint32_t host_of[8] = {0, 0, 0, 0, 1, 1, 1, 1};
    double slowness[8] = {1, 1, 1, 1, 1, 1, 1, 1}, with = 0, hosts = 0, without = 0, split = 0;
    uint64_t copies = 0;
    for (uint32_t d = 0; d < n_slow; d++)
        slowness[d] = slow;
    for (uint64_t seed = 1; seed <= STRAGGLER_SEEDS; seed++) {
        struct sim_config config = {
            .n_devices = 8,
            .n_items = 200,
            .seed = seed,
            .slowness = slowness,
            .service = {.kind = DIST_UNIFORM, .mean_ms = 10000, .spread = 0.5},
            .turnaround_us = 500,
        };
        struct ideal ideal = {.service = &config.service,
                              .seed = seed,
                              .n_items = config.n_items,
                              .n_slots = 8,
                              .slowness = slowness};
        double best_us = (double)ideal_bound_us(&ideal) * STRAGGLER_SEEDS;
        struct sim_result result = simulate(&config);
        with += (double)result.makespan_us / best_us;
        copies += result.reissued;
        config.feed.host_of = host_of;
        hosts += (double)simulate(&config).makespan_us / best_us;
        config.feed.no_reissue = true;
        without += (double)simulate(&config).makespan_us / best_us;
        split += (double)ideal_static_us(&ideal) / best_us;
    }
    bool is_won = with < without && hosts < without && hosts < with * HOSTS_COST_MAX;
    printf("| 8, of which %u take %.0f times as long | %.3f | %.3f | %.3f | %.2f | %.1f | %s |\n",
           n_slow, slow, with, hosts, without, split, (double)copies / STRAGGLER_SEEDS,
           is_won ? "yes" : "**no**");
    return is_won;
}

int main(int argc, char **argv)
{
    static const struct cell cells[] = {
        {"log-normal, unknown", {.kind = DIST_LOG_NORMAL, .spread = 1}, false, 1.02},
        {"Pareto 1.5, unknown", {.kind = DIST_PARETO, .spread = 1.5}, false, 1.02},
        {"log-normal, known", {.kind = DIST_LOG_NORMAL, .spread = 1}, true, 1.03},
        {"Pareto 1.5, known", {.kind = DIST_PARETO, .spread = 1.5}, true, 1.03},
    };
    static const uint32_t devices[] = {1, 2, 8, 64, 1024, 10000};
    uint32_t seeds =
        argc > 2 && !strcmp(argv[1], "--seeds") ? (uint32_t)strtoull(argv[2], NULL, 10) : 20;
    bool all_met = true;
    printf(
        "| devices | times of items, sizes | bar | median | worst | even split | seeds | steps/s "
        "| met |\n|---|---|---|---|---|---|---|---|---|\n");
    for (size_t c = 0; c < countof(cells); c++)
        for (size_t d = 0; d < countof(devices); d++) {
            struct cell cell = cells[c];
            cell.service.mean_ms = 10000;
            /* Large worlds are averages by themselves. */
            uint32_t n_seeds = devices[d] < 1000 ? seeds : MAX(seeds * 100 / devices[d], 1u);
            all_met = cell_measure(&cell, devices[d], n_seeds) && all_met;
        }
    printf("\n| devices | with copies | two hosts | without | even split | copies | won |\n"
           "|---|---|---|---|---|---|---|\n");
    all_met = stragglers_measure(5, 1) && all_met;
    all_met = stragglers_measure(10, 1) && all_met;
    all_met = stragglers_measure(10, 2) && all_met;
    return all_met ? 0 : 1;
}
