/* SPDX-License-Identifier: Apache-2.0
 *
 * A list of commands as a plan: `muster graph -- train {1} {2} ::: a b ::: 1 2`, with the sources
 * of arguments and the replacement strings of GNU parallel (replace.h), or one whole command on
 * each line. Several sources make the product, in which the last source varies fastest; `:::+` and
 * `::::+` link a source to the one before it, and the shortest of those decides how long they are.
 *
 * It differs from GNU parallel where that would guess: a position beyond the last source and an
 * empty source beside others are errors, and a command of several words is run as these words,
 * without a shell.
 */
#pragma once

#include "base/buf.h"
#include "base/env_list.h"
#include "base/err.h"
#include "graph/plan.h"

enum {
    LIST_SOURCES_MAX = 1000,
    LIST_LINE_BYTES_MAX = 1 << 20,
    LIST_INPUT_BYTES_MAX = 256 << 20, /* of all files of arguments */
    LIST_TEXT_BYTES_MAX = 1 << 30,    /* of all commands of the plan */
    /* What execve(2) takes: a word (MAX_ARG_STRLEN), and all of them (3/4 of _STK_LIM). */
    LIST_WORD_BYTES_MAX = 131071,
    LIST_COMMAND_BYTES_MAX = 6 << 20
};

struct graph_list_wish {
    /* What stands behind `--`: the command, and `:::` with what follows. Borrowed by the list. */
    const char *const *words;
    size_t n_words;
    int input_fd; /* what `:::: -` reads, and takes_input */
    /* If no word is `:::` or its like, the lines of input_fd are arguments, or whole commands if
     * there are no words. */
    bool takes_input;
    bool is_shell;         /* sh runs the command even if it has several words */
    bool has_header;       /* the first argument of each source is its name */
    const char *separator; /* of columns, each of which becomes a source; NULL: lines are whole */
    /* The same for each job, as in struct plan_job. */
    struct plan_devices devices;
    uint32_t n_cpus;
    int32_t priority;
    uint32_t n_retries;
    uint64_t timeout_ms;
    const char *cwd;
};

struct list_source {
    struct str name; /* of `name=a,b`, or from a header; empty: it has a number only */
    struct str *at;
    size_t len, cap;
    bool is_linked; /* to the source before it */
};

/* The sources, from which the arguments of each job are computed. */
struct graph_list {
    struct list_source *sources;
    size_t n_sources;
    const char *const *command; /* borrowed; n_command 0: the arguments are whole commands */
    size_t n_command;
    size_t n_jobs;
    struct env_list texts; /* what was read from files, text_bytes in all */
    struct str input;      /* of those, what was read from the input */
    size_t text_bytes;
};

/*
 * Reads the words and the files that they name. ERR_USAGE for words that make no sense and files
 * that cannot be read; ERR_DATA, with the number of the line, for a line that is no text. Without
 * arguments in its only source, the list has no jobs.
 */
MUST_CHECK int graph_list_open(struct graph_list *list, const struct graph_list_wish *wish,
                               struct err *err);
void graph_list_release(struct graph_list *list);
/*
 * Makes the plan: one stage `job`, with jobs `job/1`, `job/2` …; where sources have names, a job
 * has that of its arguments, `job/a=1,b=x`, if these can be part of a file's name and no job before
 * it has that name. In argv, {slot} stands for {%}, beside the names that plan.h tells.
 */
MUST_CHECK int graph_list_plan(const struct graph_list *list, const struct graph_list_wish *wish,
                               struct plan *out, struct err *err);
/* Both, for who needs no folders of results. */
MUST_CHECK int graph_list_read(const struct graph_list_wish *wish, struct plan *out,
                               struct err *err);

/* Do the words make it read input_fd? */
bool graph_list_reads_input(const struct graph_list_wish *wish);

/* Writes the arguments of a job, counted from 0, to out, which has room for n_sources. */
void graph_list_arguments(const struct graph_list *list, size_t job, struct str *out);

/*
 * The folder of a job's stdout, stderr and seq, as GNU parallel's --results lays them out:
 * ROOT/1/a/2/x, with the names of sources instead of their numbers where they have some. `\`, `/`
 * and TAB in arguments stand as `\\`, `\_` and `\t`. Other than there, an argument is one folder
 * below that of its source whatever it is: `\e` if it is empty, `\.` and `\..` for those names, and
 * cut with a hash of the whole behind it if it has more than 255 bytes. A new string.
 */
char *results_dir_new(const struct graph_list *list, const char *root, size_t job);
/* ERR_USAGE if two jobs would share a folder, because they have the same arguments. */
MUST_CHECK int results_check(const struct graph_list *list, struct err *err);
/* Makes the folder of a job, counted from 0, and its file `seq` with the job's number from 1. */
MUST_CHECK int results_dir_make(const char *dir, size_t job, struct err *err);
