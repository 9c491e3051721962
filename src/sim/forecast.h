/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the simulated machine many times to answer: how long does this work take on 1, 2, 4, …
 * devices, how certain is that, and how long would it take if each slot got one even share in
 * advance? Pure.
 */
#pragma once

#include "sim/world.h"

struct forecast_row {
    uint32_t n_devices, n_runs;
    uint64_t wall_low_us, wall_us, wall_high_us; /* 10 %, 50 %, 90 % of the runs take no longer */
    double efficiency;                           /* share of the devices' time spent on results */
    double speedup;                              /* over doing the items one after the other */
    double device_hours;
    uint64_t static_us; /* with an even share for each slot, without any faults */
    double aside, retries, crashes, devices_lost; /* means over the runs */
    enum sim_end worst_end;
    enum feed_halt halt;
};

struct forecast_slow {
    uint32_t n_devices; /* the number of slow devices, the last ones; 0: none */
    double factor;      /* an item takes this many times as long on them */
};

struct forecast_opts {
    struct sim_config config; /* n_devices and seed are set for each run */
    struct forecast_slow slow;
    uint32_t n_runs; /* with the seeds config.seed, + 1, … */
};

/* Negative: out of memory. */
int forecast_run(const struct forecast_opts *opts, uint32_t n_devices, struct forecast_row *out);
/*
 * What the death of one worker costs, in microseconds of device time: loading again, and the work
 * that is lost. The difference of runs with and without deaths. Negative: out of memory.
 */
double forecast_death_us(const struct forecast_opts *opts, uint32_t n_devices);

/*
 * The row to recommend: the one with the most devices whose efficiency is at least `least` (0.8),
 * else the one with the highest efficiency. With a deadline (not 0): the row with the fewest
 * devices that meets the deadline in nine runs of ten; n_rows if no row does.
 */
size_t forecast_best(const struct forecast_row *rows, size_t n_rows, double least,
                     uint64_t deadline_us);
