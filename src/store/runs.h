/* SPDX-License-Identifier: Apache-2.0
 *
 * Where runs live and what state they are in.
 *
 *     muster-runs/20260131_090807-map/    one folder a run
 *     muster-runs/latest                  link to the newest
 *
 * Stopping: `muster stop` puts a file `stop` holding "drain" or "now" into the run's folder and,
 * when the muster that runs it is on this host, sends SIGUSR1, which means "look now". The shells
 * watch for the file once a second, so that a stop works over a shared file system too, and for the
 * signal.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "store/lock.h"

/* id, name */
#define RUN_STATES(X)                                                                              \
    X(RUNNING, "running")         /* a muster holds its lock */                                    \
    X(FINISHED, "finished")       /* all done */                                                   \
    X(FAILED, "failed")           /* ended by itself, with something missing */                    \
    X(STOPPED, "stopped")         /* by `muster stop`, a signal, or a full disk; can be resumed */ \
    X(INTERRUPTED, "interrupted") /* its muster died; can be resumed */

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
/* Point <parent of dir>/latest at dir, atomically. A failure is worth a warning, never the run. */
MUST_CHECK int run_mark_latest(const char *dir, struct err *err);

/*
 * May this muster write in the folder, and believe what stands there? Only if the folder and all that a run
 * keeps in it are ours (base/ours.h); else whose they are, or what they are, as an error. A folder that
 * is not there, or empty, is fine.
 */
MUST_CHECK int run_check_ours(const char *dir, struct err *err);

/* A file outside of the folder that the run names, an output or a shard's: ERR_DATA if it is no regular
 * file. What another user's run names must be his as well (ERR_USAGE), or he could have ours read. */
MUST_CHECK int run_check_named(const char *dir, const char *path, struct err *err);

/*
 * The folder of the run that `text` means: a path, a name, the beginning of one name only, or
 * "latest" (also for NULL). ERR_USAGE with the nearest name and the recent runs. *dir_out:
 * absolute, new.
 */
MUST_CHECK int run_find(const char *root, const char *text, char **dir_out, struct err *err);

/*
 * What the user has to type to mean this run, without --runs-dir: its name where `root`, the usual
 * runs_root(NULL), is the folder it is in, else its path; quoted as a shell wants it.
 * free() it.
 */
char *run_typed_new(const char *dir, const char *root);

struct run_names {
    char **at;
    size_t len;
};
/* Newest first; an absent root is an empty list. */
MUST_CHECK int runs_list(const char *root, struct run_names *out, struct err *err);
void run_names_release(struct run_names *names);

/* A run as `muster ls` and `muster status` show it. Strings are owned; NULL: unknown. */
struct run_summary {
    char *dir;
    const char *name; /* of the folder; borrowed from dir */
    enum run_state state;
    struct run_holder holder; /* while running */
    char *verb, *output, *host, *message;
    char *
        go_on; /* the command that goes on with it, of which the run is a part; NULL: muster resume */
    char *oddity; /* what in the folder is no file of a run's and was not read; NULL: nothing */
    int64_t started_wall_ms, updated_wall_ms;
    uint64_t items_total; /* 0 with !is_total_known */
    bool is_total_known;
    uint64_t items_done, items_failed;
};

/*
 * Reads manifest.json, the lock and run.db; whatever of it is missing or unreadable leaves its
 * fields empty. ERR_USAGE if the folder holds no run. Facts used: "state" (the name of a run_state,
 * written when a run ends), "items" (their number, once known), "go_on", "message".
 */
MUST_CHECK int run_inspect(const char *dir, struct run_summary *out, struct err *err);
void run_summary_release(struct run_summary *summary);

/* Ask the muster of this run to end: write the file `stop`, and signal if it is on this host.
 * Nothing is written when the run is not going on; *was_running tells. */
enum stop_how {
    STOP_DRAIN, /* what is in flight is finished */
    STOP_NOW,   /* workers are ended */
};
MUST_CHECK int run_stop(const char *dir, enum stop_how how, bool *was_running, struct err *err);
/* For the shells, when SIGUSR1 arrived or a second has passed: true if a stop was asked for. */
bool run_stop_asked(const char *dir, enum stop_how *how);
