/* SPDX-License-Identifier: Apache-2.0
 *
 * One run of a user's command on devices that this process holds, measured: how long it took, the
 * peak of a device's memory, energy, what was printed, and what it died of. There is no run folder.
 * Which run comes next, and what its end means, is for the verbs (fit, bench) to say.
 */
#pragma once

#include "core/verdict.h"
#include "shell/device_watch.h"
#include "shell/shell.h"
#include "trial/input.h"
#include "trial/output.h"

enum {
    TRIAL_SAMPLE_EVERY_MS = 100, /* of the devices: a peak may be short */
    TRIAL_PATTERNS_MAX = 3
};

/* Where all runs of a search are; borrowed. Each seat of the allocation is one device. */
struct trial_setting {
    struct shell *shell;
    struct allocation *allocation;
    struct device_watch *watch;
};

struct trial_request {
    const char *const *argv, *const *envp; /* borrowed until trial_start returns */
    uint32_t n_seats;                      /* it has the first so many seats of the allocation */
    const char *stdin_path;                /* NULL: it has none */
    uint64_t grace_ms;
    uint64_t limit_ms;                                         /* 0: none */
    const struct output_pattern *patterns[TRIAL_PATTERNS_MAX]; /* borrowed; NULL: none */
};

/* The end of a run, known when it and all its descendants are gone. */
struct trial_end {
    const struct worker_exit *exit;
    enum death death;
    bool was_late; /* it was ended because of its limit */
    uint64_t took_us;
    /* On GPUs: of the device that had most, less what was in use before; else of the largest
     * process. 0: not known. */
    uint64_t peak_bytes;
    double joules; /* of its devices, by samples of their power; negative: not known */
};

/* A device of the run. */
struct trial_device {
    uint32_t chosen; /* its position among those chosen */
    uint64_t before_bytes, peak_bytes;
    uint64_t sampled_us;
    double joules; /* negative: no sample yet had a power */
    double power_w;
};

struct trial_run {
    struct trial_setting setting;
    void (*ended)(void *context, const struct trial_end *end); /* in which it may not start */
    void *context;

    struct node_worker *process; /* NULL: none */
    uint64_t begin_us, limit_ms;
    struct seat seat;
    struct trial_device devices[SEAT_DEVICES_MAX];
    bool awaits_memory[SEAT_DEVICES_MAX]; /* of the last run: on the seat of this number */
    struct trial_input input;
    struct output out, errors;
    struct output_match matches[TRIAL_PATTERNS_MAX]; /* of the request's patterns */
    bool is_late;
};

/* The process; `ended` follows. The last run must be over and trial_is_ready(). */
MUST_CHECK int trial_start(struct trial_run *run, const struct trial_request *request,
                           struct err *err);
/* To be called ten times a second. */
void trial_tick(struct trial_run *run);
void trial_stop(struct trial_run *run, enum worker_end how);
/* True if no process runs, and its devices have their memory back. */
bool trial_is_ready(const struct trial_run *run);
/* Does the run that goes on, or was the last, have this device? */
bool trial_has(const struct trial_run *run, uint32_t chosen);
void trial_release(struct trial_run *run);

/* For the handlers of the device watch. */
void trial_sampled(struct trial_run *run, const struct device_sample *sample);
void trial_memory_back(struct trial_run *run, uint32_t seat);

/* What the run has begun with: the devices of its seats in its environment. */
void trial_devices_add(const struct trial_setting *setting, uint32_t n_seats, struct env_list *env);

/* "status 7: last line", at most cap bytes; the line is made harmless for a terminal. */
void trial_end_format(const struct trial_run *run, const struct trial_end *end, char *out,
                      size_t cap);
/* Prints the last lines of its stderr, else of its stdout. */
void trial_last_lines_say(const struct trial_run *run);

/*
 * Which devices of a SPEC are used if n are wanted (0: all of them): the first ones, and of free
 * ones any. A new SPEC; without GPUs, and if none was named, of CPU slots.
 */
MUST_CHECK int trial_spec_new(const char *self_path, const char *gpus, uint32_t n, char **out,
                              struct err *err);
