/* SPDX-License-Identifier: Apache-2.0
 *
 * Several nodes as one: a worker is started on the node of its seat's host.
 */
#pragma once

#include "node/node.h"

/* Takes over this machine's node, on which the transports of other nodes run. */
struct node *group_open(struct node *first);
/* Takes another node over, into the group. Returns its position: the `host` of its seats. */
uint32_t group_add(struct node *node, struct node *another);
