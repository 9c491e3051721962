/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the benchmark share.
 */
#pragma once

#include "bench/bench.h"
#include "core/contest.h"
#include "trial/session.h"

/* A command, in words or as a line for sh. */
struct bench_method {
    char *name;
    const char *line;                /* NULL: words */
    const char *const *words;        /* with is_map, those of the worker */
    bool is_map;                     /* muster map is made of it (-i) */
    const struct bench_counts *wish; /* of devices; that of all methods, or its own */
    struct bench_counts own;
};

struct bench_way {
    uint32_t method, n_devices;
    uint64_t batch;      /* 0: none */
    char end[200];       /* why it is out; "": it is in */
    uint64_t peak_bytes; /* over all runs; 0: not known */
    uint64_t n_items;    /* that a run did; 0: not known */
};

struct benching {
    struct trial_session session;
    const struct bench_request *request;
    const struct bench_caller *caller;
    struct bench_method *methods;
    size_t n_methods;
    struct bench_way *ways;
    uint32_t n_ways;
    struct output_pattern items, rate, ready;
    struct contest *contest;
    enum contest_end ended;
    uint32_t way;        /* of the run that goes on, or was the last */
    char *scratch;       /* a folder for files of a run, which is emptied before the next */
    uint64_t begin_us;   /* of the first run; 0: none began */
    bool is_out_of_time; /* the last run was ended because of the limit for all of them */
    uint32_t n_runs;
    struct buf runs_json; /* an object for each run that has ended */
    struct buf picture;   /* for --plot; empty: none */
};

/* ---- methods.c ---- */

/* The methods of the request; release them with methods_release, also after a failure. */
MUST_CHECK int methods_make(struct benching *b, struct err *err);
void methods_release(struct benching *b);
/* The most devices that a way wants; 0: as many as there are. */
uint32_t methods_devices_max(const struct benching *b);
/* Makes the ways for n_devices. ERR_USAGE if they are too many. */
MUST_CHECK int ways_make(struct benching *b, uint32_t n_devices, struct err *err);
/* "accelerate, 4 devices, batch 8": what tells it from the other ways. */
void way_name_add(const struct benching *b, uint32_t way, struct buf *out);
bool has_batches(const struct benching *b);
/* What a run works through, in the plural: "items", or "runs" where nothing says how many. */
const char *unit_of(const struct benching *b);

/* ---- command.c ---- */

/* The words of a run; the list owns them. */
void way_words(const struct benching *b, uint32_t way, struct env_list *out);
void way_environment(const struct benching *b, uint32_t way, struct env_list *out);
/* The file in which a muster map of the run leaves its summary; a new string. */
char *summary_path_new(const struct benching *b);

/* ---- judge.c ---- */

/* What the run of b->way showed; if it did not end well, why, in way->end. */
void run_judge(struct benching *b, const struct trial_end *end, struct contest_run *out);

/* ---- report.c, report_json.c, plot.c ---- */

/* Tells how a run ended. */
void run_say(const struct benching *b, const struct contest_run *run);
void bench_report_add(const struct benching *b, struct buf *out);
void bench_plan_add(const struct benching *b, struct buf *out);
/* The run of b->way has ended. */
void run_json_note(struct benching *b, const struct contest_run *run);
void bench_json_add(const struct benching *b, struct buf *out);
void bench_plot_add(const struct benching *b, struct buf *out);
/*
 * How well the devices of a way are used: its ratio to the way of the same method and batch size
 * with the fewest devices, by that of their numbers. 0: not known.
 */
double way_efficiency(const struct benching *b, uint32_t way);
/* "2.98", "12.3", "1230" */
void bench_number_format(char out[24], double value);
