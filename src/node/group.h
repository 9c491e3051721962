/* SPDX-License-Identifier: Apache-2.0
 *
 * Several nodes as one: a worker is started on the node of its seat's host.
 */
#pragma once

#include "node/node.h"

/* Takes nodes[n_nodes] over: node i is that of the seats whose host is i. NULL: a host without seats. */
struct node *group_open(struct node *const *nodes, size_t n_nodes);
