/* SPDX-License-Identifier: Apache-2.0
 *
 * The TCP port at which the ranks meet. Rank 0 listens at it, as the store of torch.distributed. Until then muster
 * holds the port, so that no other program and no other muster gets it.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"

struct master_port {
    uint16_t port;
    int held_fd, claim_fd; /* -1: none */
};

#define MASTER_PORT_INIT               \
    {                                  \
        .held_fd = -1, .claim_fd = -1, \
    }

/* Takes this port, or a free one if it is 0. ERR_UNAVAILABLE: it is in use. */
MUST_CHECK int master_port_take(struct master_port *master_port, uint16_t port, struct err *err);
/* Listens at the port, as rank 0 will. *fd: close it. */
MUST_CHECK int master_port_listen(const struct master_port *master_port, int *fd, struct err *err);
void master_port_release(struct master_port *master_port);
