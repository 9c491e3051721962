/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files about a verb's options (cmd.h).
 */
#pragma once

#include "opt/cmd.h"

/* What stands between "muster " and the verb where it is typed: "kge" and " ", or twice "". */
const char *cmd_family(const struct cmd *cmd);
const char *cmd_family_space(const struct cmd *cmd);
/* Muster itself gives it, to a muster that it starts. */
bool opt_is_hidden(const struct opt *opt);
