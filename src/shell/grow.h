/* SPDX-License-Identifier: Apache-2.0
 *
 * --grow: takes devices of this machine that become free while a run lasts. Which are free is asked of a process of its
 * own (`muster gpus`), since a driver may take seconds to answer; a device is ours when its lock is.
 */
#pragma once

#include "node/allocation.h"

struct shell;
struct grow;

/* NULL if the wish names devices, so that none can become free for it. `wish` is borrowed. */
struct grow *grow_new(struct shell *shell, struct allocation *allocation,
                      const struct allocation_wish *wish);
/* Looks, if nobody does at the moment. The devices that were taken are told to the shell's device_watch. */
void grow_look(struct grow *grow);
/* Ends a look that is going on; the loop must still turn. */
void grow_end(struct grow *grow);
void grow_free(struct grow *grow);
