/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks up options in the help text of sbatch on this machine. Newer versions of sbatch and plugins of a site have
 * options that muster's own table lacks.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

enum sbatch_value_kind {
    SBATCH_NO_VALUE,
    SBATCH_VALUE,
    SBATCH_MAYBE_VALUE /* the value, if any, is in the same word: "--nice=5", "-koff" */
};

/* Adds the text of `sbatch --help`. Returns false if sbatch cannot be run. */
bool sbatch_help_ask(struct buf *out);
/* Looks for "--name" in that text. Returns false if the text has no such option. */
bool sbatch_help_find(struct str help, struct str name, enum sbatch_value_kind *out);
