/* SPDX-License-Identifier: Apache-2.0
 *
 * One measured run of a user's command on devices that this process holds: its time, the peak of a device's memory,
 * energy, its output, and the cause of its death. There is no run folder. The verbs (fit, bench) decide which run
 * comes next and what the end of a run means.
 */
#pragma once

#include "core/verdict.h"
#include "shell/device_watch.h"
#include "shell/shell.h"
#include "trial/input.h"
#include "trial/output.h"

enum {
    TRIAL_SAMPLE_EVERY_MS = 100, /* often, because a peak may be short */
    TRIAL_PATTERNS_MAX = 3
};

/* What all runs of a session share; borrowed. Each seat of the allocation has one device. */
struct trial_setting {
    struct shell *shell;
    struct allocation *allocation;
    struct device_watch *watch;
};

struct trial_request {
    const char *const *argv, *const *envp; /* borrowed until trial_start returns */
    uint32_t n_seats;                      /* the run has the first n_seats seats */
    const char *stdin_path;                /* NULL: no standard input */
    uint64_t grace_ms;
    uint64_t limit_ms;                                         /* 0: none */
    const struct output_pattern *patterns[TRIAL_PATTERNS_MAX]; /* borrowed; NULL: none */
};

/* How a run ended. It is known when the process and all its descendants have gone. */
struct trial_end {
    const struct worker_exit *exit;
    enum death death;
    bool was_late; /* the run was ended because of its limit */
    uint64_t took_us;
    /*
     * On GPUs: the peak of the device that used most, without the memory that was in use before. Without GPUs: the
     * peak of the largest process. 0: not known.
     */
    uint64_t peak_bytes;
    double joules; /* energy of its devices, from samples of their power; negative: not known */
};

/* A device of the run. */
struct trial_device {
    uint32_t chosen; /* its position among the chosen devices */
    uint64_t before_bytes, peak_bytes;
    uint64_t sampled_us;
    double joules; /* negative: no sample has had a power yet */
    double power_w;
};

struct trial_run {
    struct trial_setting setting;
    void (*ended)(void *context, const struct trial_end *end); /* must not start a run */
    void *context;

    struct node_worker *process; /* NULL: no process runs */
    uint64_t begin_us, limit_ms;
    struct seat seat;
    struct trial_device devices[SEAT_DEVICES_MAX];
    bool awaits_memory[SEAT_DEVICES_MAX]; /* the seat waits for memory of the last run */
    struct trial_input input;
    struct output out, errors;
    struct output_match matches[TRIAL_PATTERNS_MAX]; /* one for each pattern of the request */
    bool is_late;
};

/* Starts the process; `ended` is called later. The last run must be over, and trial_is_ready() true. */
MUST_CHECK int trial_start(struct trial_run *run, const struct trial_request *request,
                           struct err *err);
/* The caller calls it ten times a second. */
void trial_tick(struct trial_run *run);
void trial_stop(struct trial_run *run, enum worker_end how);
/* True if no process runs and the devices have their memory back. */
bool trial_is_ready(const struct trial_run *run);
/* Does the present run, or else the last one, have this device? */
bool trial_has(const struct trial_run *run, uint32_t chosen);
void trial_release(struct trial_run *run);

/* For the handlers of the device watch. */
void trial_sampled(struct trial_run *run, const struct device_sample *sample);
void trial_memory_back(struct trial_run *run, uint32_t seat);

/* Adds the devices of the first n_seats seats to an environment, as a run gets them. */
void trial_devices_add(const struct trial_setting *setting, uint32_t n_seats, struct env_list *env);

/* Writes "status 7: last line", at most cap bytes, without control characters. */
void trial_end_format(const struct trial_run *run, const struct trial_end *end, char *out,
                      size_t cap);
/* Prints the last lines of the run's stderr, or of its stdout if stderr is empty. */
void trial_last_lines_say(const struct trial_run *run);

/*
 * Makes a new SPEC for n devices of the SPEC `gpus` (0: all of them): its first n devices, or any n free ones if it
 * asks for free devices. If the machine has no GPUs and `gpus` names none, the new SPEC has CPU slots.
 */
MUST_CHECK int trial_spec_new(const char *self_path, const char *gpus, uint32_t n, char **out,
                              struct err *err);
