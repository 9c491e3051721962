/* SPDX-License-Identifier: Apache-2.0
 *
 * Probing and watching through a real helper process, with a deadline that tests can afford.
 */
#pragma once

#include <poll.h>

#include "base/clock.h"
#include "base/fs.h"
#include "device/probe_gpu.h"
#include "devices.h"

enum {
    DEADLINE_MS = 300
};

static inline struct probe_opts options(void)
{
    return (struct probe_opts){.self_path = getenv("MUSTER"), .deadline_ms = DEADLINE_MS};
}

/* The universe for `-g text`, which must be found. */
static inline struct device_list probe(const char *text, struct buf *notes)
{
    struct device_list list;
    struct err err = {0};
    struct probe_opts opts = options();
    struct device_spec *spec = xcalloc(1, sizeof(*spec));
    assert_int_equal(spec_parse(text, spec, NULL), 0);
    if (probe_universe(&opts, spec, &list, notes, &err) != 0)
        fail_msg("probe: %s", err.text);
    free(spec);
    return list;
}

/* Read until that device has been seen lost and another is seen well after that. */
static inline bool wait_lost(struct monitor *monitor, size_t lost, struct device_sample *out)
{
    struct device_sample samples[64];
    uint64_t end_ms = clock_now_ms() + 20000;
    bool is_found = false;
    while (clock_now_ms() < end_ms) {
        struct pollfd poll_fd = {.fd = monitor_fd(monitor), .events = POLLIN};
        if (poll(&poll_fd, 1, 1000) <= 0)
            continue;
        size_t n_samples = monitor_read(monitor, samples, 64);
        for (size_t i = 0; i < n_samples; i++) {
            if (samples[i].device != lost && is_found && !samples[i].is_lost)
                return true;
            if (samples[i].device == lost && samples[i].is_lost) {
                assert_false(is_found); /* told once */
                is_found = true;
                *out = samples[i];
            }
        }
    }
    return false;
}

static inline struct monitor *watch_every(uint64_t period_ms, const struct device_list *list)
{
    struct monitor *monitor;
    struct probe_opts opts = options();
    struct err err = {0};
    if (monitor_open(&monitor, &opts, list, period_ms, &err) != 0)
        fail_msg("monitor: %s", err.text);
    return monitor;
}

static inline struct monitor *watch(const struct device_list *list)
{
    return watch_every(20, list);
}

static inline size_t wait_round(struct monitor *monitor, struct device_sample *out, size_t cap)
{
    size_t n_out = 0;
    for (uint64_t end_ms = clock_now_ms() + 20000; n_out < cap && clock_now_ms() < end_ms;) {
        struct pollfd poll_fd = {.fd = monitor_fd(monitor), .events = POLLIN};
        if (poll(&poll_fd, 1, 1000) > 0)
            n_out += monitor_read(monitor, out + n_out, cap - n_out);
    }
    return n_out;
}
