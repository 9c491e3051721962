/* SPDX-License-Identifier: Apache-2.0
 *
 * What every run has, whatever its workers do: an event loop, signals, orders to stop, limits, a folder with its
 * lock and store, the console, and a node with workers. The kind of work is a value, struct shell_verb.
 *
 *   loop.c     time, the loop, limits          signals.c  signals
 *   folder.c   the run's folder                claim.c    one muster for an output
 *   hook.c     --on-finish                     orders.c   orders to a run that goes on
 *   detach.c   --detach                        files.c    the limit on open files
 *   workers.c  the node, the reaper, the keeper display.c  the terminal
 *   state.c    what the shell knows            shell_impl.h  its state, for this folder alone
 *   device_watch.h  samples and losses of devices  hosts.h  other machines
 *   host_ask.h  a look at other machines       local_ask.h  a command here that is asked something
 */
#pragma once

#include <signal.h>
#include <uv.h>

#include "base/log.h"
#include "base/stop.h"
#include "node/allocation.h"
#include "node/node.h"
#include "shell/claim.h"
#include "store/manifest.h"
#include "store/orders.h"
#include "store/store.h"

/* Which workers are ended. In each case nothing new begins. */
enum shell_stop {
    STOP_NEW,     /* none: they finish their items */
    STOP_WORKERS, /* the workers, politely */
    STOP_KILL     /* the workers at once, after a second signal */
};

/* The context is the verb's own. All are called on the loop's thread. */
struct shell_verb {
    const char *name; /* "map": in the folder's name, the log and messages */
    void (*stop)(void *context, enum shell_stop how);
    bool says_why_it_ends; /* `stop` tells the user why the run ends; the shell does not */
    /* NULL: not called. */
    bool (*ends_by)(void *context, int signal); /* besides INT, TERM and HUP */
    void (*tick)(void *context);                /* ten times a second */
    void (*each_second)(void *context);         /* after the tick */
    void (*say_alive)(void *context);           /* to other machines, while the loop cannot turn */
    void (*before_sleep)(void *context);        /* flush what was collected in this turn */
    bool takes_seats;                           /* seats may come and go while it runs */
    /* When Slurm ends a host's job, its workers finish their items; else the workers are told to end. */
    bool finishes_items;
    bool takes_hosts; /* hosts of the list may come late, with seats; hosts_view() shows them */
    /*
     * How long the workers on the seats of hosts[host] may need for the items that they have, by their times so far.
     * Not NULL with takes_seats.
     */
    uint64_t (*finish_ms)(void *context, uint32_t host);
    /* Carries out a line of an order (store/orders.h) that is not about hosts; `told`: its answer. */
    int (*order)(void *context, struct str line, struct buf *told, struct err *err);
};

/* Why the run ends before its work is done. */
struct shell_end {
    int signal;      /* such as INT: the status is 128 + n */
    int status;      /* 75 or 124, if the reason has an exit status; else 0 */
    struct err err;  /* the first reason */
    bool is_stopped; /* by muster stop, or because its Slurm job ends */
    bool is_at_once; /* by muster stop --now */
};

/* All pointers are borrowed until shell_free(). */
struct shell_setup {
    const struct shell_verb *verb;
    void *context;
    struct log *log;
    const char *self_path;
    const struct output_claim *claim; /* NULL: none */
    const char *on_finish;            /* NULL: no command */
    sigset_t more_signals;            /* handled as well; all zero: none */
    uint64_t limit_ms;                /* for the whole run; 0: none */
    uint64_t sample_every_ms;         /* of the devices; 0: a second */
    bool is_quiet, has_color;
    struct str scratch; /* for one read at a time; empty: the shell makes its own */
};

struct shell;

/* ---- state.c: what the shell knows, for its verb ---- */

struct shell *shell_new(const struct shell_setup *setup);
/* After shell_close. NULL: nothing happens. */
void shell_free(struct shell *shell);
const char *shell_verb_name(const struct shell *shell);
struct log *shell_log(const struct shell *shell);
const char *shell_self_path(const struct shell *shell);
/* NULL before the folder is known, and for a run that has none. */
const char *shell_run_dir(const struct shell *shell);
/*
 * What has happened to the run's folder if it is no longer in its place, and how to go on if it was moved; a new
 * string. NULL: it is in its place. For the end of a run whose store is open.
 */
char *shell_folder_lost_new(const struct shell *shell, const char *usual_root, bool *is_removed);
const char *shell_run_id(const struct shell *shell);
/* For a run whose folder another process has. */
void shell_run_id_set(struct shell *shell, const char *run_id);
/* NULL: not opened, or closed. */
struct store *shell_store(const struct shell *shell);
struct node *shell_node(const struct shell *shell);   /* all machines */
struct hosts *shell_hosts(const struct shell *shell); /* NULL: this machine alone */
struct reaper *shell_reaper(const struct shell *shell);
uv_loop_t *shell_uv_loop(struct shell *shell);
struct console *shell_console(const struct shell *shell);   /* lines of workers */
struct progress *shell_progress(const struct shell *shell); /* NULL when quiet */
bool shell_is_quiet(const struct shell *shell);
/* From now on nothing is shown on the terminal. */
void shell_hush(struct shell *shell);
uint64_t shell_begin_ms(const struct shell *shell);
/* What shell_now() returned last. */
uint64_t shell_last_now(const struct shell *shell);
const struct shell_end *shell_end(const struct shell *shell);
/* Notes why the run ends; the verb ends its workers. */
void shell_end_by_signal(struct shell *shell, int signal);
/* The first error counts. */
void shell_end_by_error(struct shell *shell, const struct err *why);
/* Output cannot be printed: its reader has gone, which ends the run as SIGPIPE would, or the file's disk is full. */
void shell_output_lost(struct shell *shell, const struct err *why);
bool shell_is_mute(const struct shell *shell); /* after shell_output_lost */
/* The exit status of a run that ends for a reason of the verb's own. */
void shell_end_with(struct shell *shell, int status);
/* Between begin and end the output is made; that work asks `stop` whether to stop. */
void shell_merge_begin(struct shell *shell, struct stop stop);
struct stop shell_merge_stop(const struct shell *shell);
void shell_merge_end(struct shell *shell);
/* The output is in place: signals and limits no longer end the run. */
void shell_settle(struct shell *shell);
bool shell_is_settled(const struct shell *shell);
/* While the verb is away the loop turns for the hosts alone, and the verb is not called. */
void shell_verb_leave(struct shell *shell);
void shell_verb_return(struct shell *shell);
bool shell_verb_is_away(const struct shell *shell);
/* From now on there is no limit for the whole run. */
void shell_limit_drop(struct shell *shell);

/* ---- loop.c ---- */

/* Monotonic, and never smaller than before. */
uint64_t shell_now(struct shell *shell);
MUST_CHECK int shell_loop_open(struct shell *shell, struct err *err);
/* In the process that does the work: this one, or a fork of it (proc/front.h). */
MUST_CHECK int shell_front_begin(struct shell *shell, struct err *err);
/* Call it before shell_front_begin(), with the front that the process has already; -1: none. The shell closes it. */
void shell_front_take(struct shell *shell, int front_fd);
/* Prepares a process that has no devices yet: guard, front, loop and node, in this order. */
MUST_CHECK int shell_begin_bare(struct shell *shell, struct err *err);
/* Handles signals, and calls tick, from now on. */
MUST_CHECK int shell_loop_begin(struct shell *shell, struct err *err);
/* One turn of the loop: waits for events, and handles them. */
void shell_turn(struct shell *shell);
/*
 * Call it several times a second while the loop cannot turn, so that this machine and the others do not give each
 * other up.
 */
void shell_say_alive(struct shell *shell);
/* Closes all handles of the loop. */
void shell_loop_close(struct shell *shell);
/* Tells the verb to stop; harmless before the run has begun. */
void shell_stop(struct shell *shell, enum shell_stop how);
/* Gives the run up because muster itself cannot go on (disk full, input gone). */
void shell_abort(struct shell *shell, const struct err *why);
/*
 * What the verb returns: 128 + the signal that ended the run, or the run's error, which is copied into err; 0:
 * neither.
 */
MUST_CHECK int shell_outcome(const struct shell *shell, struct err *err);
/* True if a signal, an order to stop at once, a limit or an error ends the run. */
bool shell_is_to_end(const struct shell *shell);

/* ---- workers.c ---- */

/* ERR_UNAVAILABLE if muster's own programs cannot be found. */
MUST_CHECK int shell_guard_find(struct shell *shell, struct err *err);
/* Makes the node. */
MUST_CHECK int shell_node_open(struct shell *shell, struct err *err);
/* Prepares a run, except for its folder: guard, front, loop, devices and node. */
MUST_CHECK int shell_begin(struct shell *shell, const struct allocation_wish *wish,
                           struct allocation *allocation, struct err *err);
/*
 * Waits until the workers of the run's last session have ended, since two sessions must not share a device. If muster
 * was killed, their guards end them. ERR_UNAVAILABLE if a process does not end.
 */
MUST_CHECK int shell_orphans_await(struct shell *shell, struct err *err);
/*
 * Starts the keeper, which ends workers if muster and a guard are killed together. If it cannot be started, the run
 * goes on without it. The keeper finds workers by `entry` in their environment.
 */
void shell_keeper_start(struct shell *shell, const struct allocation *allocation, const char *entry,
                        uint64_t grace_ms);
/* Devices of this machine were added or given back: gives the keeper their present locks to hold. */
void shell_keeper_renew(struct shell *shell, const struct allocation *allocation);
/* Call it when all workers have ended: ends all processes that they have left. */
void shell_reap(struct shell *shell);
/* Releases everything but what shell_free does; harmless if nothing was opened. */
void shell_close(struct shell *shell);

/* ---- display.c ---- */

/* Makes the console and, unless quiet, the progress display. */
void shell_display_open(struct shell *shell);
/* Clears the progress display, so that the summary can be printed. */
void shell_progress_end(struct shell *shell);
void shell_display_close(struct shell *shell);

/* ---- files.c ---- */

/* Call it before anything is opened: libraries abort if no file can be opened. ERR_UNAVAILABLE, with the cure. */
MUST_CHECK int shell_files_check(struct err *err);
/* Raises the limit on open files as far as n_workers need it, or logs that it is too low. */
void shell_files_allow(struct shell *shell, uint32_t n_workers);

/* ---- detach.c ---- */

/*
 * Returns in a child with a session of its own; the parent waits until the child calls shell_detach_end, and says which
 * process it is, unless messages are unwanted (-q).
 */
MUST_CHECK int shell_detach(const struct shell *shell, int *ready_fd, struct err *err);
/* The run has begun: from here on messages go only to its log. */
void shell_detach_end(struct shell *shell, int ready_fd, bool keeps_stdin);

/* ---- signals.c ---- */

MUST_CHECK int shell_signals_begin(struct shell *shell, struct err *err);
/*
 * Between these two calls, a signal ends the process at once, with a message: a write into a pipe may wait without
 * end for its reader, and the loop does not turn meanwhile. Everything must be committed before.
 */
enum {
    END_SIGNALS = 3
};
void shell_signals_end(struct shell *shell, struct sigaction before[END_SIGNALS]);
void shell_signals_restore(struct shell *shell, const struct sigaction before[END_SIGNALS]);
/* Ends the run as muster stop does: what is in flight is finished, or with `now` ended, and the status is 75. */
void shell_end_stopped(struct shell *shell, bool now);

/* ---- orders.c ---- */

/* Looks for orders (store/orders.h), carries them out, and answers them. */
void shell_orders_check(struct shell *shell);
void shell_orders_release(struct shell *shell);

/* ---- folder.c ---- */

/* Which folder: that of a resumed run, one that the user named, or a new one below `runs_dir`. */
struct folder_wish {
    const char *resume_dir, *run_dir,
        *runs_dir; /* the first that is not NULL counts; all NULL: below the default runs_dir */
};
/* Makes the folder, and sets run_dir and run_id. */
MUST_CHECK int shell_folder_take(struct shell *shell, const struct folder_wish *wish,
                                 struct err *err);
/* Writes manifest.json of the run's folder, with the devices and their driver as well. */
MUST_CHECK int shell_manifest_write(const struct shell *shell, const struct manifest *manifest,
                                    const struct allocation *allocation, struct err *err);
/* Sets run_dir, which the shell owns from now on, and run_id. The folder need not exist. */
void shell_folder_name(struct shell *shell, char *run_dir);
/* Takes the run's lock. Before that, no file in the folder may be changed. */
MUST_CHECK int shell_store_open(struct shell *shell, enum store_mode mode, struct err *err);
/* Instead: a store that somebody else opened, and closes; run_dir is its folder. */
void shell_store_borrow(struct shell *shell, struct store *store);
void shell_store_close(struct shell *shell);
/* Removes the traces of a run that could not begin, if this process made them. Its store must be closed. */
void shell_folder_unmake(const struct shell *shell);

/* ---- hook.c ---- */

/* The buffer for the summary as JSON; NULL: there is no command of --on-finish. */
struct buf *shell_hook_input(struct shell *shell);
/*
 * If there is a summary: runs the user's command of --on-finish by sh, with the summary on its standard input, and
 * waits for its end. Call it when the run has released its folder, its devices and its output, so that the command
 * may start another run or resume this one. Failures are reported on stderr, and change no status. A signal is handed
 * on to the command; a second one kills it.
 */
void shell_hook_run(struct shell *shell);
