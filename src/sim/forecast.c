/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/forecast.h"

#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "sim/ideal.h"

static int by_size(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static uint64_t quantile_of(const uint64_t *sorted, uint32_t n, double share)
{
    return sorted[(uint32_t)(share * (n - 1) + 0.5)];
}

/* One run of the world; false: out of memory. */
static bool world_run(const struct sim_config *config, struct sim_result *out)
{
    struct sim *sim = sim_new(config);
    if (!sim)
        return false;
    sim_run(sim, out);
    sim_free(sim);
    return out->end != SIM_NO_MEMORY;
}

static uint32_t slots_of(const struct sim_config *config)
{
    uint32_t each = MAX(config->workers_per_device, 1u) * sim_concurrency(config);
    return config->n_devices * each;
}

/* How long the same items take if each slot gets one even share of them in advance. */
static uint64_t static_us(const struct sim_config *config, const double *slot_slowness)
{
    const struct ideal ideal = {.service = &config->service,
                                .seed = config->seed,
                                .n_items = config->n_items,
                                .n_slots = slots_of(config),
                                .slowness = slot_slowness};
    return ideal_static_us(&ideal) + dist_us(&config->load, config->seed, 0);
}

static double work_us(const struct sim_config *config)
{
    double sum_us = 0;
    for (uint64_t i = 0; i < config->n_items; i++)
        sum_us += (double)dist_us(&config->service, config->seed, i);
    return sum_us;
}

static void run_count(struct forecast_row *row, const struct sim_config *config,
                      const struct sim_result *result)
{
    double slots_us = (double)result->makespan_us * slots_of(config);
    double part = 1.0 / row->n_runs;
    row->efficiency += slots_us > 0 ? part * (double)result->busy_us / slots_us : part;
    row->device_hours += part * (double)result->makespan_us / 3.6e9 * config->n_devices;
    row->aside += part * (double)result->aside;
    row->retries += part * (double)result->retries;
    row->crashes += part * (double)result->crashes;
    row->devices_lost += part * (double)result->devices_lost;
    if (result->end > row->worst_end) {
        row->worst_end = result->end;
        row->halt = result->halt;
    }
}

/* The memory and the results of the runs of one row. */
struct runs {
    struct sim_config config;
    double *slowness, *slot_slowness; /* NULL where all are alike */
    uint64_t *walls_us, *statics_us;
    double speedup;
};

static void runs_free(struct runs *runs)
{
    free(runs->slowness);
    free(runs->slot_slowness);
    free(runs->walls_us);
    free(runs->statics_us);
}

static bool runs_init(struct runs *runs, const struct forecast_opts *opts, uint32_t n_devices)
{
    *runs = (struct runs){.config = opts->config};
    runs->config.n_devices = n_devices;
    runs->walls_us = malloc(opts->n_runs * sizeof(*runs->walls_us));
    runs->statics_us = malloc(opts->n_runs * sizeof(*runs->statics_us));
    if (!runs->walls_us || !runs->statics_us)
        return false;
    if (opts->slow.n_devices == 0)
        return true;
    uint32_t n_slots = slots_of(&runs->config), each = n_slots / n_devices;
    runs->slowness = malloc(n_devices * sizeof(*runs->slowness));
    runs->slot_slowness = malloc(n_slots * sizeof(*runs->slot_slowness));
    if (!runs->slowness || !runs->slot_slowness)
        return false;
    for (uint32_t d = 0; d < n_devices; d++) /* the slow ones stand at the end */
        runs->slowness[d] = d + opts->slow.n_devices >= n_devices ? opts->slow.factor : 1;
    for (uint32_t s = 0; s < n_slots; s++)
        runs->slot_slowness[s] = runs->slowness[s / each];
    runs->config.slowness = runs->slowness;
    return true;
}

static bool runs_make(struct runs *runs, const struct forecast_opts *opts, struct forecast_row *row)
{
    struct sim_result result;
    for (uint32_t i = 0; i < opts->n_runs; i++) {
        runs->config.seed = opts->config.seed + i;
        if (!world_run(&runs->config, &result))
            return false;
        runs->walls_us[i] = result.makespan_us;
        runs->statics_us[i] = static_us(&runs->config, runs->slot_slowness);
        run_count(row, &runs->config, &result);
        if (result.end == SIM_DONE && result.makespan_us > 0)
            row->speedup += work_us(&runs->config) / (double)result.makespan_us / opts->n_runs;
    }
    return true;
}

int forecast_run(const struct forecast_opts *opts, uint32_t n_devices, struct forecast_row *out)
{
    struct runs runs;
    *out = (struct forecast_row){.n_devices = n_devices, .n_runs = opts->n_runs};
    bool ok = runs_init(&runs, opts, n_devices) && runs_make(&runs, opts, out);
    if (ok) {
        qsort(runs.walls_us, opts->n_runs, sizeof(*runs.walls_us), by_size);
        qsort(runs.statics_us, opts->n_runs, sizeof(*runs.statics_us), by_size);
        out->wall_low_us = quantile_of(runs.walls_us, opts->n_runs, 0.1);
        out->wall_us = quantile_of(runs.walls_us, opts->n_runs, 0.5);
        out->wall_high_us = quantile_of(runs.walls_us, opts->n_runs, 0.9);
        out->static_us = quantile_of(runs.statics_us, opts->n_runs, 0.5);
    }
    runs_free(&runs);
    return ok ? 0 : -1;
}

/*
 * A crash rate with enough deaths to measure the cost of one, and too few for them to affect each
 * other.
 */
static double deaths_share(uint64_t n_items)
{
    double items = (double)MAX(n_items, (uint64_t)4);
    return MAX(2 / items, MIN(0.01, 1000 / items));
}

double forecast_death_us(const struct forecast_opts *opts, uint32_t n_devices)
{
    struct sim_config config = opts->config;
    struct sim_result calm, hit;
    double extra_us = 0, deaths = 0;
    config.n_devices = n_devices;
    config.slowness = NULL;
    for (uint32_t i = 0; i < opts->n_runs; i++) {
        config.seed = opts->config.seed + i;
        config.faults = (struct sim_faults){0};
        if (!world_run(&config, &calm))
            return -1;
        config.faults.crash = deaths_share(config.n_items);
        if (!world_run(&config, &hit))
            return -1;
        extra_us += (double)(hit.lost_us + hit.loading_us);
        extra_us -= (double)(calm.lost_us + calm.loading_us);
        deaths += (double)hit.crashes;
    }
    double wait_us = (double)config.mem_back_ms * 1e3;
    return deaths > 0 ? MAX(extra_us / deaths, 0.0) + wait_us : 0;
}

static size_t deadline_best(const struct forecast_row *rows, size_t n_rows, uint64_t deadline_us)
{
    size_t best = n_rows;
    for (size_t i = 0; i < n_rows; i++)
        if (rows[i].worst_end == SIM_DONE && rows[i].wall_high_us <= deadline_us &&
            (best == n_rows || rows[i].n_devices < rows[best].n_devices))
            best = i;
    return best;
}

size_t forecast_best(const struct forecast_row *rows, size_t n_rows, double least,
                     uint64_t deadline_us)
{
    size_t most = n_rows, used_best = n_rows;
    if (deadline_us > 0)
        return deadline_best(rows, n_rows, deadline_us);
    for (size_t i = 0; i < n_rows; i++) {
        if (rows[i].worst_end != SIM_DONE)
            continue;
        if (rows[i].efficiency >= least &&
            (most == n_rows || rows[i].n_devices > rows[most].n_devices))
            most = i;
        if (used_best == n_rows || rows[i].efficiency > rows[used_best].efficiency)
            used_best = i;
    }
    return most < n_rows ? most : used_best;
}
