/* SPDX-License-Identifier: Apache-2.0 */
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "mesh/mesh_impl.h"

static bool is_internet(const struct sockaddr *at)
{
    return at && (at->sa_family == AF_INET || at->sa_family == AF_INET6);
}

/* The plain IPv4 form of an address that a socket of both families gives as an IPv6 one. */
static struct address unmapped(const struct address *address)
{
    if (address->any.sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&address->v6.sin6_addr))
        return *address;
    struct address plain = {.v4 = {.sin_family = AF_INET, .sin_port = address->v6.sin6_port}};
    memcpy(&plain.v4.sin_addr, &address->v6.sin6_addr.s6_addr[12], sizeof(plain.v4.sin_addr));
    return plain;
}

static bool has_address(const struct ifaddrs *at, const struct address *address)
{
    struct address own = {0};
    if (!is_internet(at->ifa_addr))
        return false;
    memcpy(&own, at->ifa_addr,
           at->ifa_addr->sa_family == AF_INET6 ? sizeof(own.v6) : sizeof(own.v4));
    return address_is_same(&own, address);
}

/*
 * The number that a file of the kernel has for the interface; 0 if there is none, such as the speed of a link without
 * a speed.
 */
static uint64_t figure_read(const char *interface, const char *figure)
{
    cleanup_free char *path = xasprintf("/sys/class/net/%s/%s", interface, figure);
    cleanup_buf struct buf text = BUF_INIT;
    uint64_t number = 0;
    if (file_read(path, 64, &text, NULL) != 0 ||
        u64_parse(str_trim(buf_str(&text)), 0, UINT32_MAX, &number, NULL) != 0)
        return 0;
    return number;
}

void interface_look(const struct address *own, char name[INTERFACE_NAME_BYTES],
                    uint64_t *speed_mbit, uint64_t *mtu)
{
    struct address address = unmapped(own);
    struct ifaddrs *all = NULL;
    name[0] = '\0';
    *speed_mbit = *mtu = 0;
    if (getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *at = all; at && !name[0]; at = at->ifa_next)
        if (has_address(at, &address))
            snprintf(name, INTERFACE_NAME_BYTES, "%s", at->ifa_name);
    freeifaddrs(all);
    if (!name[0])
        return;
    *speed_mbit = figure_read(name, "speed");
    *mtu = figure_read(name, "mtu");
}
