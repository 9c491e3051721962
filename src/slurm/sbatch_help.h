/* SPDX-License-Identifier: Apache-2.0
 *
 * The options that sbatch has here, by its own words: those of newer versions, and those of a site's plugins.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

enum sbatch_value_kind {
    SBATCH_NO_VALUE,
    SBATCH_VALUE,
    SBATCH_MAYBE_VALUE /* only in the same word: "--nice=5", "-koff" */
};

/* Adds the text of `sbatch --help`. False: it cannot be had. */
bool sbatch_help_ask(struct buf *out);
/* Looks for "--name" in that text. False: it has none of this name. */
bool sbatch_help_find(struct str help, struct str name, enum sbatch_value_kind *out);
