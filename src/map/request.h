/* SPDX-License-Identifier: Apache-2.0
 *
 * What the user asked of `muster map`. It is made from the options; zero means the default.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "base/texts.h"
#include "data/file_merge/score.h"
#include "data/result_merge.h"
#include "data/source.h"
#include "node/allocation.h"
#include "node/environment.h"
#include "rule/merge_options.h"

/* For programs that take a range of the items (shard/shard.h). */
struct shard_request {
    uint64_t n_items;    /* 0: the input's records are counted */
    uint64_t n_shards;   /* 0: one for each worker */
    const char *collect; /* NULL: {output} */
    bool any_count;      /* the file for -o need not hold one record for each item */
    struct texts also;   /* GLOB=FILE: further files that each shard leaves, and where they go */
    struct texts also_counted; /* the same, with one record for each item */
    uint64_t part, n_parts;    /* only this part of the shards, from 0; n_parts 0: all of them */
    const char *take;          /* the folder of runs of such parts; NULL: none */
};

/* How items are given to workers. */
struct schedule {
    uint64_t batch, retries, loading_max, seed;
    bool fixed_batches, no_reissue, longest_first;
    const char *weight_field;
    uint64_t failures_max;
    uint32_t failures_percent;
    uint64_t stagger_ms; /* shortest time from one worker's start to the next */
    uint64_t item_limit_ms, start_limit_ms, silence_limit_ms;
};

struct run_options {
    const char *const *words; /* the command line that makes this request; NULL in a resume */
    const char *run_dir;      /* NULL: muster-runs/<stamp>-map */
    const char *runs_dir;     /* NULL: muster-runs */
    const char *on_finish;
    const char *go_on; /* the command that goes on with the run; NULL: muster resume */
    uint64_t limit_ms, grace_ms;
    bool fresh, detach, dry_run, explain, keep_parts, json;
    uint64_t log_cap_bytes;
    uint64_t line_max_bytes; /* longest line or message of a worker; never 0 */
    enum log_level log_level;
};

struct map_request {
    /* what */
    const struct work *work; /* the kind of its items (map/work.h) */
    const char *const *inputs;
    size_t n_inputs;
    const char *const *command; /* NULL-terminated */
    const char *out_path;
    enum record_format format;
    enum out_format format_out;
    bool is_raw, overwrite, join, any_order;
    uint64_t limit;
    const char *key_field;
    struct score_opts score; /* figures to compute of the finished output */

    struct shard_request shards;
    struct merge_options merge; /* how to merge the shards' files */

    /* where */
    struct allocation_wish allocation;
    struct environment_wish environment; /* of the workers */
    bool channel_path;

    struct schedule schedule;
    struct run_options run;

    /* resume */
    const char *resume_dir; /* the run folder to go on with */
    bool is_typed_again;    /* found by run_again_find(), not named */
    bool retry_failed;
    bool has_new_command; /* it differs from the run's */
    bool
        goes_on_failed; /* also a run of the same work that set items aside; these are tried again */
    bool retakes;       /* --collect or --also was given: shards' files that exist now are taken */
    /* the folder in which `muster resume NAME` looks by default; NULL: not known yet */
    const char *usual_root;
};

/* Sets the defaults that are not zero, of a struct map_request that is all zeros. */
void map_request_defaults(void *request);

/* The process around it. */
struct map_caller {
    struct log *log;
    const char *self_path; /* muster's */
    bool is_quiet, has_color;
    int front_fd; /* of the front that the process has already (proc/front.h); -1: none was begun */
};

/* Returns an exit status, or a negative err_code with err filled. Closes front_fd. */
int map_run(const struct map_caller *caller, const struct map_request *request, struct err *err);

/*
 * For a run that begins later, without a user: makes the checks of map_run() up to the search for devices, and
 * changes nothing. *again: the folder of the earlier run that the same command would go on with, a new string; NULL:
 * none.
 */
MUST_CHECK int map_check(const struct map_request *request, bool quiet, char **again,
                         struct err *err);
/* Checks all that can be refused before anything is changed. ERR_USAGE, or ERR_UNAVAILABLE for the program. */
MUST_CHECK int request_check(const struct map_request *request, struct err *err);
/* The output as the manifest names it: its absolute path, or "-". A new string. */
char *output_name_new(const char *out_path);
/* Adds a JSON object of all that the results depend on, besides inputs, command and seed. */
void request_work(const struct map_request *request, struct buf *json_out);
