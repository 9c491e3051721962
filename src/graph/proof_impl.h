/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the proof share.
 */
#pragma once

#include "graph/proof.h"

/* Fills all but the path. `reads` false: the hash stays 0. */
MUST_CHECK int mark_take(const char *path, bool reads, struct file_mark *mark, struct err *err);
