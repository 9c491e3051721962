/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/master_port.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"

enum {
    TRIES = 20
};

/* A socket bound to this port on all addresses, of both families where there is IPv6. -1: errno says why not. */
static int bound_socket(uint16_t port)
{
    const struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    const struct sockaddr_in at_v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    int on = 1, off = 0;
    cleanup_fd int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool has_v6 = fd >= 0 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) == 0 &&
                  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0;
    if (has_v6 && bind(fd, (const struct sockaddr *)&at, sizeof(at)) == 0)
        return steal_fd(&fd);
    if (has_v6 && errno == EADDRINUSE)
        return -1;
    cleanup_fd int fd_v4 = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_bound = fd_v4 >= 0 &&
                    setsockopt(fd_v4, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
                    bind(fd_v4, (const struct sockaddr *)&at_v4, sizeof(at_v4)) == 0;
    return is_bound ? steal_fd(&fd_v4) : -1;
}

static uint16_t port_of(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } at = {0};
    socklen_t len = sizeof(at);
    if (getsockname(fd, &at.any, &len) != 0)
        return 0;
    return ntohs(at.any.sa_family == AF_INET6 ? at.v6.sin6_port : at.v4.sin_port);
}

/*
 * Claims the port by an abstract socket name, which one process of a network namespace can have. The bound port alone
 * would not do: two sockets that do not listen may be bound to one port if both allow it, so rank 0 could take it,
 * and so could another muster.
 */
static int port_claim(uint16_t port)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int len = snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1, "muster/master-port/%u", port);
    cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
    bool is_had = fd >= 0 && bind(fd, (struct sockaddr *)&at, size) == 0;
    return is_had ? steal_fd(&fd) : -1;
}

static int take_once(struct master_port *master_port, uint16_t port, struct err *err)
{
    cleanup_fd int probe = bound_socket(port);
    uint16_t had = probe >= 0 ? port_of(probe) : 0;
    /*
     * This socket can listen only if no other one does. It is closed then: a socket that has listened does not share
     * the port.
     */
    if (had == 0 || listen(probe, 1) != 0)
        return fail_errno_as(err, ERR_UNAVAILABLE, "port %u", port);
    cleanup_fd int claim = port_claim(had);
    if (claim < 0)
        return fail_errno_as(err, ERR_UNAVAILABLE, "port %u, which another muster holds", had);
    fd_close(&probe);
    master_port->held_fd = bound_socket(had);
    if (master_port->held_fd < 0)
        return fail_errno_as(err, ERR_UNAVAILABLE, "port %u", had);
    master_port->claim_fd = steal_fd(&claim);
    master_port->port = had;
    return 0;
}

int master_port_take(struct master_port *master_port, uint16_t port, struct err *err)
{
    int rc = take_once(master_port, port, err);
    for (int i = 1; rc && port == 0 && i < TRIES; i++) /* others may get the port meanwhile */
        rc = take_once(master_port, port, err);
    return rc;
}

int master_port_listen(const struct master_port *master_port, int *fd, struct err *err)
{
    cleanup_fd int listening = bound_socket(master_port->port);
    if (listening < 0 || listen(listening, SOMAXCONN) != 0)
        return fail_errno_as(err, ERR_UNAVAILABLE, "port %u", master_port->port);
    *fd = steal_fd(&listening);
    return 0;
}

void master_port_release(struct master_port *master_port)
{
    fd_close(&master_port->held_fd);
    fd_close(&master_port->claim_fd);
}
