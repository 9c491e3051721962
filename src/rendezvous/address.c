/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/if_addr.h>
#include <net/if.h>
#include <netdb.h>
#include <stdatomic.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/hex.h"
#include "base/thread.h"
#include "base/xalloc.h"

enum {
    TABLE_BYTES_MAX = 1 << 20
};

static struct address address_of(const struct sockaddr *from)
{
    struct address address = {0};
    bool is_v6 = from->sa_family == AF_INET6;
    memcpy(&address, from, is_v6 ? sizeof(address.v6) : sizeof(address.v4));
    return address;
}

static bool is_internet(const struct sockaddr *address)
{
    return address && (address->sa_family == AF_INET || address->sa_family == AF_INET6);
}

bool address_is_same(const struct address *a, const struct address *b)
{
    if (a->any.sa_family != b->any.sa_family)
        return false;
    if (a->any.sa_family == AF_INET)
        return a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
    return memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof(a->v6.sin6_addr)) == 0 &&
           a->v6.sin6_scope_id == b->v6.sin6_scope_id;
}

static void list_add(struct address_list *list, const struct sockaddr *from)
{
    struct address address = address_of(from);
    for (size_t i = 0; i < list->len; i++)
        if (address_is_same(&list->at[i], &address))
            return;
    if (list->len < ADDRESSES_MAX)
        list->at[list->len++] = address;
}

static void addresses_take(struct address_list *list, const struct addrinfo *found)
{
    list->len = 0;
    for (; found; found = found->ai_next)
        if (is_internet(found->ai_addr))
            list_add(list, found->ai_addr);
}

/* 0, or an error of getaddrinfo(3). */
static int look_up(const char *name, uint16_t port, int flags, struct address_list *list)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char service[8];
    snprintf(service, sizeof(service), "%u", port);
    int flaw = getaddrinfo(name, service, &hints, &found);
    addresses_take(list, flaw ? NULL : found);
    if (found)
        freeaddrinfo(found);
    return flaw;
}

bool address_parse(const char *text, uint16_t port, struct address_list *list)
{
    return look_up(text, port, AI_NUMERICHOST, list) == 0;
}

int addresses_resolve(const char *name, uint16_t port, struct address_list *list, struct err *err)
{
    int flaw = look_up(name, port, 0, list);
    /* A machine without /etc/hosts has its loopback addresses all the same (RFC 6761, 6.3). */
    if (flaw && strcasecmp(name, "localhost") == 0)
        flaw = look_up(NULL, port, 0, list);
    if (flaw)
        return fail(err, ERR_UNAVAILABLE, "the name %s is not known: %s", name, gai_strerror(flaw));
    return 0;
}

/* ---- without waiting ---- */

struct lookup {
    char *name;
    uint16_t port;
    int flaw;
    struct err err;
    struct address_list list;
    atomic_bool is_done;
    atomic_int n_users; /* the thread and its caller */
};

void lookup_forget(struct lookup *lookup)
{
    if (!lookup || atomic_fetch_sub(&lookup->n_users, 1) > 1)
        return;
    free(lookup->name);
    free(lookup);
}

static void *lookup_run(void *context)
{
    struct lookup *lookup = context;
    lookup->flaw = addresses_resolve(lookup->name, lookup->port, &lookup->list, &lookup->err);
    atomic_store(&lookup->is_done, true);
    lookup_forget(lookup);
    return NULL;
}

struct lookup *lookup_begin(const char *name, uint16_t port)
{
    struct lookup *lookup = xcalloc(1, sizeof(*lookup));
    pthread_t thread;
    lookup->name = xstrdup(name);
    lookup->port = port;
    atomic_store(&lookup->n_users, 2);
    if (thread_start(&thread, lookup_run, lookup)) {
        pthread_detach(thread);
        return lookup;
    }
    atomic_store(&lookup->n_users, 1);
    lookup_forget(lookup);
    return NULL;
}

bool lookup_is_done(struct lookup *lookup)
{
    return atomic_load(&lookup->is_done);
}

int lookup_result(const struct lookup *lookup, struct address_list *list, struct err *err)
{
    *list = lookup->list;
    *err = lookup->err;
    return lookup->flaw;
}

/* ---- of this machine ---- */

/* Adds the addresses of this interface, or of all that are up (NULL). Adds "10.0.0.1 (eth0)" and so on to `said`. */
static void interfaces_look(const char *wanted, struct address_list *list, struct buf *said)
{
    struct ifaddrs *all = NULL;
    char text[ADDRESS_TEXT_MAX];
    if (getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        if (!is_internet(i->ifa_addr) || (wanted && strcmp(i->ifa_name, wanted) != 0))
            continue;
        struct address address = address_of(i->ifa_addr);
        list_add(list, i->ifa_addr);
        address_text(&address, text);
        if (said)
            buf_addf(said, "%s%s (%s)", said->len > 0 ? ", " : "", text, i->ifa_name);
    }
    freeifaddrs(all);
}

static bool is_loopback(const struct address *address)
{
    return address->any.sa_family == AF_INET ? ntohl(address->v4.sin_addr.s_addr) >> 24 == 127
                                             : IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
}

bool address_is_own(const struct address *address)
{
    struct ifaddrs *all = NULL;
    bool is_own = is_loopback(address);
    if (is_own || getifaddrs(&all) != 0)
        return is_own;
    for (const struct ifaddrs *i = all; i && !is_own; i = i->ifa_next) {
        struct address own =
            is_internet(i->ifa_addr) ? address_of(i->ifa_addr) : (struct address){0};
        is_own = address_is_same(&own, address);
    }
    freeifaddrs(all);
    return is_own;
}

/* "fe800000000000000000000000000001 02 40 20 c0 eth0": the address, interface, prefix, scope and flags, in hexadecimal. */
static bool line_is_tentative(struct str line, const struct address *address)
{
    const struct in6_addr *v6 = &address->v6.sin6_addr;
    cleanup_free char *text = xstrndup(line.at, line.len);
    cleanup_buf struct buf wanted = BUF_INIT;
    unsigned index, flags;
    buf_add_hex(&wanted, (struct str){(const char *)v6, sizeof(*v6)});
    if (strncmp(text, buf_text(&wanted), wanted.len) != 0 ||
        sscanf(text + wanted.len, "%x %*x %*x %x", &index, &flags) != 2)
        return false;
    bool is_here = address->v6.sin6_scope_id == 0 || address->v6.sin6_scope_id == index;
    return is_here && (flags & IFA_F_TENTATIVE) != 0 &&
           (flags & (IFA_F_DADFAILED | IFA_F_OPTIMISTIC)) == 0;
}

bool address_is_tentative(const struct address *address)
{
    cleanup_buf struct buf text = BUF_INIT;
    struct str line, rest;
    bool is_it = false;
    if (address->any.sa_family != AF_INET6 ||
        file_read("/proc/net/if_inet6", TABLE_BYTES_MAX, &text, NULL) != 0)
        return false;
    for (rest = buf_str(&text); rest.len > 0 && !is_it && str_next(&rest, '\n', &line);)
        is_it = line_is_tentative(line, address);
    return is_it;
}

static void port_set(struct address *address, uint16_t port)
{
    if (address->any.sa_family == AF_INET)
        address->v4.sin_port = htons(port);
    else
        address->v6.sin6_port = htons(port);
}

int addresses_own(const char *text, uint16_t port, struct address_list *list, struct err *err)
{
    cleanup_buf struct buf said = BUF_INIT;
    struct address_list all = {0}, named = {0};
    *list = (struct address_list){0};
    interfaces_look(text, list, NULL);
    for (size_t i = 0; i < list->len; i++)
        port_set(&list->at[i], port);
    int rc = list->len > 0 ? 0 : addresses_resolve(text, port, &named, err);
    for (size_t i = 0; i < named.len; i++)
        if (address_is_own(&named.at[i]))
            list_add(list, &named.at[i].any);
    if (list->len > 0)
        return 0;
    interfaces_look(NULL, &all, &said);
    if (rc)
        return wrap(err, rc, "no interface of this machine has this name, which has %s",
                    buf_text(&said));
    return fail(err, ERR_UNAVAILABLE, "'%s' is no address of this machine, which has %s", text,
                buf_text(&said));
}

static bool is_link_local(const struct address *address)
{
    return address->any.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&address->v6.sin6_addr);
}

const struct address *address_source(const struct address_list *own, const struct address *target)
{
    for (size_t i = 0; i < own->len; i++)
        if (own->at[i].any.sa_family == target->any.sa_family &&
            is_link_local(&own->at[i]) == is_link_local(target))
            return &own->at[i];
    return NULL;
}

uint16_t address_port(const struct address *address)
{
    return ntohs(address->any.sa_family == AF_INET ? address->v4.sin_port : address->v6.sin6_port);
}

void address_text(const struct address *address, char out[ADDRESS_TEXT_MAX])
{
    const struct in6_addr *v6 = &address->v6.sin6_addr;
    const char *text = NULL;
    if (address->any.sa_family == AF_INET)
        text = inet_ntop(AF_INET, &address->v4.sin_addr, out, ADDRESS_TEXT_MAX);
    else if (IN6_IS_ADDR_V4MAPPED(v6))
        text = inet_ntop(AF_INET, &v6->s6_addr[12], out, ADDRESS_TEXT_MAX);
    else
        text = inet_ntop(AF_INET6, v6, out, ADDRESS_TEXT_MAX);
    if (!text)
        snprintf(out, ADDRESS_TEXT_MAX, "an unknown address");
}
