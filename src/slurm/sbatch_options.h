/* SPDX-License-Identifier: Apache-2.0
 *
 * sbatch's options, as typed before a verb: which words are sbatch's, which are the caller's own, where the verb is.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/env_list.h"
#include "base/err.h"

/* An option of the caller. Its name and its letter come before sbatch's. */
struct sbatch_own {
    const char *name;
    char letter; /* 0: none */
    bool takes_value;
};

/* What there may be besides the options of sbatch that are known here. */
struct sbatch_beside {
    const struct sbatch_own *own;
    size_t n_own;
    bool (*help)(struct buf *out); /* sbatch_help_ask(); NULL: no others */
};

struct sbatch_words {
    struct env_list options; /* sbatch's, each one word and spelt out: "--partition=gpu" */
    struct env_list own;     /* the caller's, likewise */
    int n_read;              /* words of argv up to the verb */
};

/*
 * Reads the words of argv up to the first operand as getopt_long(3) does: "--name=value", "--name value", the
 * beginning of a name that is that of no other, letters in one word, "--" as the end. An option that is known to sbatch
 * alone is taken by its whole name. ERR_USAGE, with "did you mean". `beside`: NULL for nothing.
 */
MUST_CHECK int sbatch_words_read(const struct sbatch_beside *beside, int argc, char **argv,
                                 struct sbatch_words *out, struct err *err);
/*
 * Adds what variables such as SBATCH_PARTITION ask for and no word does. In a script they would come before its own lines,
 * which is not what somebody means who types an option. `environment`: "NAME=value", up to a NULL.
 */
void sbatch_variables_read(const char *const *environment, struct env_list *list);
void sbatch_words_release(struct sbatch_words *words);
/* The value among such options, of the last that has this name; "": it takes none; NULL: it is not there. Borrowed. */
const char *sbatch_value(const struct env_list *list, const char *name);
