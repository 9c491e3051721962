/* SPDX-License-Identifier: Apache-2.0
 *
 * `muster meet`, which the muster that leads starts on its hosts (meet.c). On the host of rank 0 it takes a port,
 * prints a line with the port, a token and the host's addresses, IPv4 first and loopback last, and holds the port
 * until its input ends. On other hosts it connects to addresses, and prints those that answer with the token. Without
 * the token, an address could be the connecting host's own, such as that of a bridge for containers.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct reach_request {
    uint64_t port; /* 0: a free one */
    bool listens;  /* answers with the token until a line comes; then prints a line */
    const char *token;
    const char *addresses; /* "10.0.0.1,fd00::1": to be tried; NULL: holds the port */
};

/* Returns when its input has ended, or all addresses were tried. ERR_UNAVAILABLE: the port is in use. */
MUST_CHECK int reach_run(const struct reach_request *request, struct err *err);
