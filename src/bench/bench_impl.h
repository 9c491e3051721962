/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the benchmark share.
 */
#pragma once

#include "bench/bench.h"
#include "core/contest.h"
#include "trial/session.h"

/* A method: its command, as words or as a line for sh. */
struct bench_method {
    char *name;
    const char *line;                /* NULL: `words` has the command */
    const char *const *words;        /* with is_map, the words of the worker */
    bool is_map;                     /* -i: the command becomes the worker of a muster map */
    const struct bench_counts *wish; /* numbers of devices, for all methods or this one only */
    struct bench_counts own;
};

struct bench_variant {
    uint32_t method, n_devices;
    uint64_t batch;      /* 0: none */
    char end[200];       /* why the variant is no longer run; "": it still is */
    uint64_t peak_bytes; /* over all runs; 0: not known */
    uint64_t n_items;    /* items of one run; 0: not known */
};

struct benching {
    struct trial_session session;
    const struct bench_request *request;
    const struct bench_caller *caller;
    struct bench_method *methods;
    size_t n_methods;
    struct bench_variant *variants;
    uint32_t n_variants;
    struct output_pattern items, rate, ready;
    struct contest *contest;
    enum contest_end ended;
    uint32_t variant;    /* of the present run, or else the last one */
    char *scratch;       /* a folder for files of a run; emptied before the next run */
    uint64_t begin_us;   /* when the first run began; 0: none has */
    bool is_out_of_time; /* the time limit of all runs has ended the last run */
    uint32_t n_runs;
    struct buf runs_json; /* an object for each run that has ended */
    struct buf picture;   /* for --plot; empty: none */
};

/* ---- methods.c ---- */

/* Makes the methods of the request. Release them with methods_release(), also after a failure. */
MUST_CHECK int methods_make(struct benching *b, struct err *err);
void methods_release(struct benching *b);
/* The largest number of devices that a variant wants; 0: all devices. */
uint32_t methods_devices_max(const struct benching *b);
/* Makes the variants for n_devices. ERR_USAGE if they are too many. */
MUST_CHECK int variants_make(struct benching *b, uint32_t n_devices, struct err *err);
/* Adds a name that no other variant has: "accelerate, 4 devices, batch 8". */
void variant_name_add(const struct benching *b, uint32_t variant, struct buf *out);
bool has_batches(const struct benching *b);
/* The unit of the work, in the plural: "items", or "runs" if the number of items is not known. */
const char *unit_of(const struct benching *b);

/* ---- command.c ---- */

/* Adds the words of the command of a run; the list owns them. */
void variant_words(const struct benching *b, uint32_t variant, struct env_list *out);
void variant_environment(const struct benching *b, uint32_t variant, struct env_list *out);
/* The file in which a muster map inside the run leaves its summary; a new string. */
char *summary_path_new(const struct benching *b);

/* ---- judge.c ---- */

/*
 * Makes *out from the end of the run of b->variant. If the run failed, variant->end gets the cause.
 */
void run_judge(struct benching *b, const struct trial_end *end, struct contest_run *out);

/* ---- report.c, report_json.c, plot.c ---- */

/* Prints how a run ended. */
void run_say(const struct benching *b, const struct contest_run *run);
void bench_report_add(const struct benching *b, struct buf *out);
void bench_plan_add(const struct benching *b, struct buf *out);
/* Adds a JSON object for the run of b->variant, which has ended. */
void run_json_note(struct benching *b, const struct contest_run *run);
void bench_json_add(const struct benching *b, struct buf *out);
void bench_plot_add(const struct benching *b, struct buf *out);
/*
 * How well a variant uses its devices. It is compared with the variant of the same method and batch
 * size that has the fewest devices: the ratio of the rates, divided by the ratio of the numbers of
 * devices. 0: not known.
 */
double variant_efficiency(const struct benching *b, uint32_t variant);
/* "2.98", "12.3", "1230" */
void bench_number_format(char out[24], double value);
