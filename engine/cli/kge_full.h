/* SPDX-License-Identifier: Apache-2.0
 *
 * What to do after a full disk: muster(1) promises that the last message says it.
 */
#pragma once

#include "base/err.h"

/*
 * If rc is due to a full disk, adds to the text what is to be done "once there is room". Returns
 * rc.
 */
MUST_CHECK int kge_full_say(int rc, const char *cure, struct err *err);

#define KGE_FULL_AGAIN "give the same command again"
/* For commands that may have put one of several files in place already. */
#define KGE_FULL_FORCE "give the same command with --force"
