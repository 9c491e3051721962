/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a run, for the files of this folder.
 */
#pragma once

#include "proc/keeper.h"
#include "shell/shell.h"

enum {
    ANSWERS_KEPT = 16
};

/* The answer to an order. */
struct given_answer {
    char order[ORDER_NAME_MAX];
    bool is_refused;
    struct err why;
    char *told; /* NULL: nothing */
};

/* Whether a signal came to this process, or to its front (proc/front.h). */
enum signal_source {
    SIGNAL_DIRECT,
    SIGNAL_FORWARDED,
    SIGNAL_SOURCES
};

struct shell_signals {
    uv_signal_t handles[8];
    size_t n_handles;
    sigset_t more; /* handled as well; all zero: none */
    int front_fd;  /* the front's signals come from it; -1: no front */
    uv_poll_t front_poll;
    unsigned n_ends[SIGNAL_SOURCES];
};

/* What to undo if the run cannot begin. */
struct folder_traces {
    bool is_made;          /* the folder was made by this process, so no other can use it */
    char *stays;           /* the nearest folder that existed before */
    bool was_empty;        /* with --run-dir: the folder was empty or did not exist */
    int64_t order_wall_ms; /* of a new run, if the clock was set back since others began; else 0 */
};

struct console;
struct progress;
struct shell_display {
    bool is_quiet, has_color, is_tty;
    bool is_lost;              /* the reader of the output has gone */
    struct console *console;   /* lines of workers */
    struct progress *progress; /* NULL when quiet */
};

struct shell {
    const struct shell_verb *verb;
    void *context;
    struct log *log;
    const char *self_path;
    struct shell_display display;

    char *run_dir, *run_id; /* NULL: the run has no folder */
    struct folder_traces folder;
    struct store *store;
    const struct output_claim *claim;

    uv_loop_t loop;
    struct {
        bool has_loop, has_begun;
        bool is_reaped;    /* by shell_reap */
        bool is_verb_away; /* the loop turns for the hosts alone: the verb is not called */
    } phase;
    uv_timer_t tick_timer;
    uv_prepare_t prepare;
    struct shell_signals signals;
    uint64_t now_ms, begin_ms;
    struct {
        uint64_t ms, from_ms;
    } limit; /* for the whole run, with its wait for devices; 0: none */
    struct shell_end end;
    struct stop merge_stop; /* requests to stop while the output is made */
    bool is_settled; /* the output is in place, so signals and limits no longer end the run */

    char *guard_path;
    struct str scratch; /* of the node; borrowed, or own_scratch */
    char *own_scratch;
    struct node *node; /* all machines */
    struct {
        struct node *local;         /* this machine */
        struct hosts *hosts;        /* NULL: this machine alone */
        struct device_watch *watch; /* NULL: none */
        uint64_t sample_every_ms;   /* of the devices; 0: a second */
    } machines;
    struct reaper *reaper;
    struct keeper keeper;
    struct {
        struct given_answer answers[ANSWERS_KEPT]; /* to the last orders, in a ring */
        size_t n_answers;
        char left[ORDER_NAME_MAX]; /* the newest order that could not be removed; it was logged */
    } orders;
    struct {
        const char *command; /* of --on-finish; NULL: none */
        struct buf input;    /* the summary as JSON */
    } hook;
};
