/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the devices of this machine, and watches them while a run lasts. A driver may hang in the
 * kernel, so it is queried by a helper process (the program muster-devices) that is given a
 * deadline; muster itself never loads NVML and never opens a CUDA context.
 */
#pragma once

#include "device/device.h"
#include "device/spec.h"

struct probe_opts {
    const char *self_path;  /* the muster executable, beside which the helper is */
    uint64_t deadline_ms;   /* for one answer of the helper; 0 = 5000 */
    uint64_t until_ms;      /* end of all answers, on the monotonic clock; 0 = no end */
    bool ignore_visibility; /* look at the whole machine (muster gpus --all) */
    bool wants_details;     /* a dozen queries more for each GPU: driver, link, modes, throttling */
    bool wants_reasons;     /* note why a vendor has none, or fails, even if another has some */
    bool is_for_looking;    /* muster gpus: graphics of a processor are shown, not CPU slots */
};

/*
 * Fill `out` with the universe for this spec: simulated devices for `sim:`, CPU slots for `cpu:N`,
 * GPUs otherwise (possibly none; `notes` then says why in a sentence: no driver, NVML does not
 * answer, list hides everything). If the user gave no spec and there is no GPU, or only graphics of
 * the processor, `out` has the CPU slots, and a note says so. Every note is a line. Costs nothing
 * for cpu and sim specs, and next to nothing on a machine without a driver.
 *
 * returns  0, also with no device; ERR_UNAVAILABLE if a driver is there and did not answer: then
 *          `out` is empty, or with wants_reasons has the devices of the other drivers.
 */
MUST_CHECK int probe_universe(const struct probe_opts *opts, const struct device_spec *spec,
                              struct device_list *out, struct buf *notes, struct err *err);

/*
 * The universe: the devices of the whole machine that the lists in the environment leave visible,
 * with new indices. Each fault of a list is a line of `notes`.
 */
void probe_visible(const struct device_list *machine, struct device_list *out, struct buf *notes);

/* A sample of one device during a run. */
enum {
    SAMPLE_USES_MAX = 32
};

/* The memory of a device that the processes below one guard (proc/guard.h) hold. */
struct device_use {
    pid_t guard_pid;
    uint64_t mem_bytes; /* 0: the memory of one of the processes is unknown */
};

struct device_sample {
    size_t device; /* position in the list that the monitor was given */
    uint64_t mem_used_bytes, mem_total_bytes;
    int busy_percent, temperature_c;
    double power_w;
    bool is_lost;
    char ill[128];
    size_t n_uses;
    struct device_use uses[SAMPLE_USES_MAX];
};

/*
 * Watches a set of devices through the helper. Costs nothing for CPU slots. Never blocks: poll
 * monitor_fd(), and call monitor_read() when it is readable.
 */
struct monitor;
MUST_CHECK int monitor_open(struct monitor **out, const struct probe_opts *opts,
                            const struct device_list *devices, uint64_t period_ms, struct err *err);
/* -1 if there is nothing to watch. */
int monitor_fd(const struct monitor *monitor);
/* The pid of the helper process, which only monitor_close() may reap; -1: there is none. */
pid_t monitor_pid(const struct monitor *monitor);
/*
 * Takes at most `cap` of the samples that are available. A helper that died or hangs is started
 * again, at most once a deadline, unless all devices are lost. While the helper is silent no
 * samples come, which does not mean that the devices are lost.
 */
size_t monitor_read(struct monitor *monitor, struct device_sample *out, size_t cap);
/* Asks for samples now, before the period is over. */
void monitor_hurry(struct monitor *monitor);
void monitor_close(struct monitor *monitor);
