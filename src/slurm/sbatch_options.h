/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the options before a verb on a command line: which words are options of sbatch, which are options of the
 * caller, and where the verb is.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/env_list.h"
#include "base/err.h"

/* An option of the caller. If sbatch has an option of the same name or letter, the caller's is meant. */
struct sbatch_own {
    const char *name;
    char letter; /* 0: none */
    bool takes_value;
};

/* Which options there may be besides those in muster's table of sbatch's options. */
struct sbatch_beside {
    const struct sbatch_own *own;
    size_t n_own;
    bool (*help)(struct buf *out); /* sbatch_help_ask(); NULL: sbatch is not asked for others */
};

struct sbatch_words {
    struct env_list options; /* of sbatch, each as one word: "--partition=gpu" */
    struct env_list own;     /* of the caller, in the same form */
    int n_read;              /* how many words of argv come before the verb */
};

/*
 * Reads the words of argv up to the first operand as getopt_long(3) does: "--name=value", "--name value", the
 * beginning of a name if only one name begins so, several letters in one word, and "--" as the end. An option that
 * only sbatch knows must have its whole name. ERR_USAGE, with "did you mean". `beside` NULL: no further options.
 */
MUST_CHECK int sbatch_words_read(const struct sbatch_beside *beside, int argc, char **argv,
                                 struct sbatch_words *out, struct err *err);
/*
 * Adds options from variables such as SBATCH_PARTITION, unless the command line has the same option. For sbatch, such
 * a variable is stronger than an #SBATCH line, but an option that a user types is meant to be stronger than the
 * variable. `environment`: "NAME=value", up to a NULL.
 */
void sbatch_variables_read(const char *const *environment, struct env_list *list);
void sbatch_words_release(struct sbatch_words *words);
/* The value of the last option of that name; "": the option has no value; NULL: the option is not there. Borrowed. */
const char *sbatch_value(const struct env_list *list, const char *name);
