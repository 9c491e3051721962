/* SPDX-License-Identifier: Apache-2.0
 *
 * --grow: takes devices of this machine that become free while a run lasts. A separate process (`muster gpus`) looks
 * which are free, since a driver may take seconds to answer. A device is ours once we have its lock.
 */
#pragma once

#include "node/allocation.h"

struct shell;
struct grow;

/* NULL if the wish names devices: then no other device is taken. `wish` is borrowed. */
struct grow *grow_new(struct shell *shell, struct allocation *allocation,
                      const struct allocation_wish *wish);
/* Begins a look, unless one is going on. Devices that it takes are told to the shell's device_watch. */
void grow_look(struct grow *grow);
/* Ends a look that is going on; the loop must still turn. */
void grow_end(struct grow *grow);
void grow_free(struct grow *grow);
