/* SPDX-License-Identifier: Apache-2.0
 *
 * GNU parallel's replacement strings: a command is taken apart once, and filled in for each job.
 *
 *     {}  {.}  {/}  {//}  {/.}     all arguments: whole, without extension, base name, folder, base
 *                                  name without extension; several arguments are several words
 *     {2} {2.} … {-1} …            the argument of the second source, of the last
 *     {lr} {lr.} …                 that of the source with this name
 *     {#} {0#} {##}                the job's number from 1, the same with leading zeros, how many
 *     {%} {slot}                   for the run: {slot} in the template
 *     {gpu} {gpus} {gpu_uuid} {batch} {seed} {attempt} {job} {run_dir}   for the run, as they are
 *
 * A source may have the name of one of the last line, and then hides it. Names behind a `$` are the
 * shell's. Every other text in braces is a text in braces.
 */
#pragma once

#include "graph/list/list.h"

enum arg_form {
    ARG_WHOLE,
    ARG_STEM,
    ARG_BASE,
    ARG_FOLDER,
    ARG_BASE_STEM
};

enum piece_kind {
    PIECE_TEXT,
    PIECE_RUN, /* a template for the run, in its braces */
    PIECE_ARG,
    PIECE_SEQ
};

#define SOURCES_ALL SIZE_MAX

struct replace_piece {
    enum piece_kind kind;
    enum arg_form form; /* PIECE_ARG */
    size_t source;      /* PIECE_ARG: from 0, or SOURCES_ALL */
    int width;          /* PIECE_SEQ: digits, with leading zeros */
    struct str text;    /* PIECE_TEXT and PIECE_RUN; borrowed from the command */
};

struct replace_word {
    size_t begin, end;  /* of its pieces */
    const char *filled; /* if it is the same for all jobs, once the first one has it */
};

struct replacer {
    const struct graph_list *list;
    struct replace_piece *pieces;
    size_t n_pieces;
    struct replace_word *words;
    size_t n_words;
    bool is_shell; /* the words are one text for `sh -c` */
    bool is_whole; /* the arguments are that text */
    char total[24];
    struct str *arguments; /* of the job that is being filled in */
    struct buf text, plain, quoted;
    const char **argv; /* room for the longest */
    size_t argv_len;
    size_t job_bytes;
    uint64_t bytes; /* of the plan's memory that was filled in */
};

/* Does the command have {name}, or one of its forms as {name.}? */
bool command_has_name(const char *const *words, size_t n_words, struct str name);

/* ERR_USAGE for the position of a source that is not there. The list has to stay where it is. */
MUST_CHECK int replacer_open(struct replacer *replacer, const struct graph_list *list,
                             bool is_shell, struct err *err);
void replacer_close(struct replacer *replacer);
/* The command of a job, counted from 0, in the plan's memory; all of one plan. ERR_USAGE if a word
 * is too long for the system. */
MUST_CHECK int replacer_fill(struct replacer *replacer, size_t job, struct plan *plan,
                             const char *const **argv, struct err *err);
