/* SPDX-License-Identifier: Apache-2.0
 *
 * One question asked of the simulated machine many times: how long does this work take on 1, 2, 4, …
 * devices, how sure is that, and what would one even piece for each device beforehand have taken? Pure.
 */
#pragma once

#include "sim/world.h"

struct forecast_row {
    uint32_t n_devices, n_runs;
    uint64_t wall_low_us, wall_us, wall_high_us; /* 10 %, half, 90 % of the runs are not longer */
    double efficiency;                           /* share of the devices' time spent on results */
    double speedup;                              /* against the items one after the other */
    double device_hours;
    uint64_t static_us;                           /* an even piece each, without any faults */
    double aside, retries, crashes, devices_lost; /* means over the runs */
    enum sim_end worst_end;
    enum feed_halt halt;
};

struct forecast_slow {
    uint32_t n_devices; /* so many of them, the last ones; 0: none */
    double factor;      /* take so many times as long */
};

struct forecast_opts {
    struct sim_config config; /* n_devices and seed are set for each run */
    struct forecast_slow slow;
    uint32_t n_runs; /* with the seeds config.seed, + 1, … */
};

/* Negative: out of memory. */
int forecast_run(const struct forecast_opts *opts, uint32_t n_devices, struct forecast_row *out);
/*
 * What the death of one worker costs, in microseconds of device time: the load that is done again and
 * the work that is lost. From runs with and without deaths. Negative: out of memory.
 */
double forecast_death_us(const struct forecast_opts *opts, uint32_t n_devices);

/*
 * The row to recommend: the most devices that are still used to at least `least` (0.8), else the one
 * used best. With a deadline: the fewest devices that meet it nine times in ten. n_rows: none does.
 */
size_t forecast_best(const struct forecast_row *rows, size_t n_rows, double least,
                     uint64_t deadline_us);
