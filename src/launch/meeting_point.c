/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/meeting_point.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <string.h>

#include "base/parse.h"

enum {
    NAMED_MAX = 4 /* hosts, in a message */
};

/* ---- the host of rank 0 ---- */

static bool address_add(const struct ifaddrs *interface, int family, struct buf *out)
{
    char text[INET6_ADDRSTRLEN];
    const struct sockaddr *at = interface->ifa_addr;
    if (!at || at->sa_family != family || !(interface->ifa_flags & IFF_UP) ||
        (interface->ifa_flags & IFF_LOOPBACK))
        return false;
    const struct sockaddr_in *v4 = (const void *)at;
    const struct sockaddr_in6 *v6 = (const void *)at;
    const void *bytes = family == AF_INET ? (const void *)&v4->sin_addr : &v6->sin6_addr;
    if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) /* valid on one link only */
        return false;
    if (!inet_ntop(family, bytes, text, sizeof(text)))
        return false;
    buf_addf(out, " %s", text);
    return true;
}

void meeting_addresses_add(const struct ifaddrs *interfaces, struct buf *out)
{
    static const int families[] = {AF_INET, AF_INET6};
    size_t n = 0;
    for (size_t f = 0; f < countof(families); f++)
        for (const struct ifaddrs *at = interfaces; at && n + 1 < MEETING_ADDRESSES_MAX;
             at = at->ifa_next)
            n += address_add(at, families[f], out);
    buf_add_text(out, " 127.0.0.1");
}

static bool address_take(struct meeting_point *point, struct str word)
{
    unsigned char parsed[sizeof(struct in6_addr)];
    if (point->n_addresses == MEETING_ADDRESSES_MAX || word.len >= INET6_ADDRSTRLEN)
        return false;
    char *address = point->addresses[point->n_addresses++];
    snprintf(address, INET6_ADDRSTRLEN, "%.*s", (int)word.len, word.at);
    return inet_pton(strchr(address, ':') ? AF_INET6 : AF_INET, address, parsed) == 1;
}

bool meeting_point_read(struct str line, struct meeting_point *out)
{
    struct str word;
    uint64_t port = 0;
    *out = (struct meeting_point){0};
    if (!str_next(&line, ' ', &word) || u64_parse(word, 1, UINT16_MAX, &port, NULL) != 0 ||
        !str_next(&line, ' ', &word) || word.len != MEETING_TOKEN_BYTES - 1)
        return false;
    out->port = (uint16_t)port;
    memcpy(out->token, word.at, word.len);
    bool is_well = line.len > 0;
    while (is_well && line.len > 0 && str_next(&line, ' ', &word))
        is_well = address_take(out, word);
    return is_well;
}

/* ---- the others ---- */

static bool reaches(const struct meeting_answer *answer, const char *address)
{
    struct str rest = str_trim(answer->reached), word;
    bool does = false;
    while (rest.len > 0 && !does && str_next(&rest, ' ', &word))
        does = str_equal(word, str_of(address));
    return does;
}

const char *meeting_point_choose(const struct meeting_point *point,
                                 const struct meeting_answer *answers, size_t n)
{
    for (size_t a = 0; a < point->n_addresses; a++) {
        bool is_reached = true;
        for (size_t i = 0; i < n; i++)
            is_reached = is_reached && reaches(&answers[i], point->addresses[a]);
        if (is_reached)
            return point->addresses[a];
    }
    return NULL;
}

static size_t reached_count(const struct meeting_point *point, const struct meeting_answer *answer)
{
    size_t n = 0;
    for (size_t a = 0; a < point->n_addresses; a++)
        n += reaches(answer, point->addresses[a]);
    return n;
}

void meeting_point_unreached_add(const struct meeting_point *point,
                                 const struct meeting_answer *answers, size_t n, struct buf *out)
{
    size_t n_named = 0;
    for (size_t i = 0; i < n; i++) {
        size_t n_reached = reached_count(point, &answers[i]);
        if (n_reached == point->n_addresses || ++n_named > NAMED_MAX)
            continue;
        buf_addf(out, "%s%s reaches%s", n_named > 1 ? "; " : "", answers[i].host,
                 n_reached > 0 ? "" : " none");
        for (size_t a = 0; a < point->n_addresses; a++)
            if (reaches(&answers[i], point->addresses[a]))
                buf_addf(out, " %s", point->addresses[a]);
    }
    if (n_named > NAMED_MAX)
        buf_addf(out, "; and so on for %zu more", n_named - NAMED_MAX);
}
