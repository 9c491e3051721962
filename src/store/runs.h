/* SPDX-License-Identifier: Apache-2.0
 *
 * The folders of runs, and the states of runs.
 *
 *     muster-runs/20260131_090807-map/    one folder per run
 *     muster-runs/latest                  link to the newest
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "store/lock.h"

/* id, name */
#define RUN_STATES(X)                                                                           \
    X(RUNNING, "running")   /* a muster holds its lock */                                       \
    X(FINISHED, "finished") /* all done */                                                      \
    X(FAILED, "failed")     /* ended by itself, with something missing */                       \
    X(STOPPED, "stopped")   /* with work left: by `muster stop`, a signal, given up; resumed */ \
    X(INTERRUPTED, "interrupted") /* its muster died; can be resumed */                         \
    X(QUEUED, "queued")           /* its Slurm job waits (submit/look.h); not of run_inspect() */

enum run_state {
#define X(id, name) RUN_##id,
    RUN_STATES(X)
#undef X
};
const char *run_state_name(enum run_state state);

/* The folder for runs: `given` (--runs-dir), else MUSTER_RUNS_DIR, else muster-runs. Absolute,
 * new. */
char *runs_root(const char *given);

/*
 * Make <root>/<YYYYmmdd_HHMMSS>-<verb>, or …-2, …-3 when the name is taken; *dir_out is a new
 * string. No two musters get the same one.
 */
MUST_CHECK int run_create(const char *root, const char *verb, int64_t wall_ms, char **dir_out,
                          struct err *err);
/* Points <parent of dir>/latest at dir, atomically. The caller should warn of a failure, but not
 * end the run for it. */
MUST_CHECK int run_mark_latest(const char *dir, struct err *err);

/*
 * Checks that this process may write in the folder and trust its content: the folder and all that a
 * run keeps in it must be ours (base/ours.h). Otherwise the error says whose they are, or what they
 * are. No error if the folder does not exist or is empty.
 */
MUST_CHECK int run_check_ours(const char *dir, struct err *err);

/* Checks a file outside of the folder that the run names, such as an output: ERR_DATA if it is not
 * a regular file. ERR_USAGE if the run belongs to another user and the file does not belong to that
 * user, who could otherwise make us read a file of ours. No error if the file does not exist. */
MUST_CHECK int run_check_named(const char *dir, const char *path, struct err *err);

/*
 * The folder of the run that `text` means: a path, a name, the beginning of exactly one name, or
 * "latest" (also for NULL). If there is none: ERR_USAGE, with the nearest name and the recent runs.
 * *dir_out: absolute, new.
 */
MUST_CHECK int run_find(const char *root, const char *text, char **dir_out, struct err *err);

/*
 * What the user has to type for this run, without --runs-dir: its name if it is in `root`, the usual runs_root(NULL),
 * else its path; quoted so that it can be typed as a console shows it. free() it.
 */
char *run_typed_new(const char *dir, const char *root);

struct run_names {
    char **at;
    size_t len;
};
/* Newest first; an absent root is an empty list. */
MUST_CHECK int runs_list(const char *root, struct run_names *out, struct err *err);
void run_names_release(struct run_names *names);
/* When the newest run of runs_list() began; later than now if the clock was set back since; 0: there is no run. */
int64_t runs_newest_wall_ms(const char *root);

/* A run as `muster ls` and `muster status` show it. Strings are owned; NULL: unknown. */
struct run_summary {
    char *dir;
    const char *name; /* of the folder; borrowed from dir */
    enum run_state state;
    struct run_holder holder; /* while running */
    char *verb, *output, *host, *message;
    /* The command that goes on with the run, if it is part of a larger command; NULL: muster resume. */
    char *go_on;
    /* Why something in the folder was not read: it is damaged, missing, or no regular file. NULL: all was read. */
    char *oddity;
    int64_t started_wall_ms;
    int64_t updated_wall_ms; /* when the run last wrote status.json */
    uint64_t items_total;    /* 0 with !is_total_known */
    bool is_total_known;
    bool is_input_changed; /* the input changed while the run read it: a resume is refused */
    uint64_t items_done, items_failed;
    uint64_t
        items_malformed; /* failed items, of a run that came to its end, which no retry can help */
};

/*
 * Reads manifest.json, the lock and run.db (or status.json, where one of them cannot be read); the
 * fields of a file that is missing or unreadable stay empty. ERR_USAGE if there is no such folder.
 * Facts used: "state" (the name of a run_state, written when a run ends), "items" (their number,
 * once known), "malformed", "input_changed", "go_on", "message".
 */
MUST_CHECK int run_inspect(const char *dir, struct run_summary *out, struct err *err);
void run_summary_release(struct run_summary *summary);
/* Are the run's items the jobs of a graph? */
bool run_is_graph(const struct run_summary *run);
