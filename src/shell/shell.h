/* SPDX-License-Identifier: Apache-2.0
 *
 * What every run has, whatever its workers do: an event loop, signals, orders to stop, limits, a folder with its
 * lock and store, the console, and a node with workers. The kind of work is a value, struct shell_verb.
 *
 *   loop.c     time, the loop, limits          signals.c  signals and orders to stop
 *   folder.c   the run's folder                claim.c    one muster for an output
 *   hook.c     --on-finish                     background.c  work beside the loop
 *   detach.c   without the terminal            files.c    the limit on open files
 *   workers.c  the node, and what ends with it display.c  the terminal
 *   device_watch.h  devices while the run lasts
 */
#pragma once

#include <signal.h>
#include <uv.h>

#include "base/log.h"
#include "base/stop.h"
#include "node/allocation.h"
#include "node/node.h"
#include "proc/keeper.h"
#include "shell/claim.h"
#include "store/store.h"

/* The context is the verb's own. All are called on the loop's thread. */
struct shell_verb {
    const char *name; /* "map": in the folder's name, the log and messages */
    /* Begin nothing new; `now`: end what is at work as well. */
    void (*stop)(void *context, bool now);
    void (*kill)(void *context); /* a second signal: all workers, at once */
    /* NULL: not called. */
    void (*tick)(void *context);         /* ten times a second */
    void (*each_second)(void *context);  /* behind the tick */
    void (*before_sleep)(void *context); /* whatever was collected goes out */
};

/* To this process; or to its front (proc/front.h). */
enum signal_way {
    SIGNAL_DIRECT,
    SIGNAL_HANDED_ON,
    SIGNAL_WAYS
};

struct shell_signals {
    uv_signal_t handles[8];
    size_t n_handles;
    int front_fd; /* signals that the front hands on; -1: there is none */
    uv_poll_t front_poll;
    unsigned n_ends[SIGNAL_WAYS];
};

/* Why the run ends before its work is done. */
struct shell_end {
    int signal;      /* INT, TERM, HUP: the status is 128 + n */
    int status;      /* 75, 124: the reason has one */
    struct err err;  /* the first reason */
    bool is_stopped; /* by muster stop */
    bool is_at_once; /* --now */
};

/* What to undo where a run could not begin. */
struct folder_traces {
    bool is_made;   /* the folder is new, and nobody else can be in it */
    char *stays;    /* what was there before it: that, or a folder above */
    bool was_empty; /* --run-dir: or not there */
};

struct console;
struct progress;
struct shell_display {
    bool is_quiet, has_color, is_tty;
    struct console *console;   /* lines of workers */
    struct progress *progress; /* NULL when quiet */
};

struct shell {
    const struct shell_verb *verb;
    void *context;
    struct log *log;
    const char *self_path;
    char **argv;
    int argc;
    struct shell_display display;

    char *run_dir, *run_id; /* NULL: a run without a folder */
    struct folder_traces folder;
    struct store *store;
    const struct output_claim *claim;

    uv_loop_t loop;
    bool has_loop;
    uv_timer_t tick_timer;
    uv_prepare_t prepare;
    struct shell_signals signals;
    uint64_t now_ms, begin_ms, limit_ms; /* 0: none, on the whole run */
    struct shell_end end;
    struct stop merge_stop; /* what is asked while the output is made */
    bool is_settled; /* the output is in place: nothing ends the run before its end any more */

    char *guard_path;
    struct node *node;
    struct reaper *reaper;
    struct keeper keeper;
    struct buf hook_input; /* the summary as JSON, for --on-finish */
};

/* ---- loop.c ---- */

/* Monotonic, and never smaller than before. */
uint64_t shell_now(struct shell *shell);
MUST_CHECK int shell_loop_open(struct shell *shell, struct err *err);
/* Signals are taken, and time passes, from now on. */
MUST_CHECK int shell_loop_begin(struct shell *shell, struct err *err);
/* Wait for something to happen, and let it. */
void shell_turn(struct shell *shell);
/* Everything that is still watched is let go. */
void shell_loop_close(struct shell *shell);
/* Give the run up because muster itself cannot go on (disk full, input gone). */
void shell_abort(struct shell *shell, const struct err *why);
/* Has a signal, an order to stop at once, a limit or an error ended it? */
bool shell_is_to_end(const struct shell *shell);

/* ---- workers.c ---- */

/* ERR_UNAVAILABLE if muster's own programs cannot be found. */
MUST_CHECK int shell_guard_find(struct shell *shell, struct err *err);
/* shell->node; `scratch` is for one read at a time and stays until shell_close. */
MUST_CHECK int shell_node_open(struct shell *shell, struct str scratch, struct err *err);
/* All of it for a run that has no folder: devices, node and loop. */
MUST_CHECK int shell_begin(struct shell *shell, const struct allocation_wish *wish,
                           struct allocation *allocation, struct str scratch, struct err *err);
/*
 * A muster that was killed leaves its guards a moment to end the workers; two sessions of one run must not share a
 * device. ERR_UNAVAILABLE if one does not end.
 */
MUST_CHECK int shell_orphans_await(struct shell *shell, struct err *err);
/* For when muster and a guard are killed together. A run without a keeper is a run with one net less. */
void shell_keeper_start(struct shell *shell, struct allocation *allocation, uint64_t grace_ms);
/* The workers have ended: so has everything that they started. */
void shell_reap(struct shell *shell);
/* All but the names of the run's folder; harmless on what was never opened. */
void shell_close(struct shell *shell);

/* ---- display.c ---- */

/* shell->display.console and, unless quiet, shell->display.progress. */
void shell_display_open(struct shell *shell);
/* The progress is gone before the last words are said. */
void shell_progress_end(struct shell *shell);
void shell_display_close(struct shell *shell);

/* ---- files.c ---- */

/* Before anything is opened: libraries abort where no file can be. ERR_UNAVAILABLE, with the cure. */
MUST_CHECK int shell_files_check(struct err *err);
/* Raise the limit on open files as far as so many workers need it, or say that it is too low. */
void shell_files_allow(struct shell *shell, uint32_t n_workers);

/* ---- detach.c ---- */

/* Returns in a child of a session of its own; the process itself waits until the child calls shell_detach_end. */
MUST_CHECK int shell_detach(int *ready_fd, struct err *err);
/* The run has begun: from here on its log is the only place for words. */
void shell_detach_end(struct shell *shell, int ready_fd, bool keeps_stdin);

/* ---- signals.c ---- */

MUST_CHECK int shell_signals_begin(struct shell *shell, struct err *err);
/*
 * A signal to end does so at once, with a sentence: who writes into a pipe may wait for its reader for ever, and
 * nothing turns the loop meanwhile. All must be committed.
 */
enum {
    END_SIGNALS = 3
};
void shell_signals_end(struct shell *shell, struct sigaction before[END_SIGNALS]);
void shell_signals_restore(struct shell *shell, const struct sigaction before[END_SIGNALS]);
/* Has `muster stop` been typed? */
void shell_stop_check(struct shell *shell);

/* ---- folder.c ---- */

/* Which folder: one that is there already, one that the user named, or a new one below `runs_dir`. */
struct folder_wish {
    const char *resume_dir, *run_dir,
        *runs_dir; /* the first that is not NULL; runs_dir NULL: the usual one */
};
/* shell->run_dir and run_id, the folder made. */
MUST_CHECK int shell_folder_take(struct shell *shell, const struct folder_wish *wish,
                                 struct err *err);
/* As if the run had never been begun. The folder's store is closed. */
void shell_folder_unmake(const char *run_dir, const struct folder_traces *traces);
