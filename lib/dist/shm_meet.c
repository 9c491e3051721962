/* SPDX-License-Identifier: Apache-2.0
 *
 * How the ranks of one machine get the file that they share. Rank 0 makes it and listens at a name
 * in the abstract space of sockets, which vanishes with its process; the others connect, introduce
 * themselves, and get the file's descriptor. The name is made of the user, the job and the attempt
 * (md_place.key), so that ranks of another job, or of an earlier attempt, do not connect.
 * Connections stay open until all ranks have come, so that a rank that ends early is noticed.
 */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "shm.h"

enum {
    HELLO_MAGIC = 0x6d647331, /* with the version of the file's layout */
    RETRY_NS = 10000000,
    POLL_MS = 100
};

struct hello {
    uint32_t magic, rank, size, pid;
};

/* Comes with the descriptor of the file, if the text is empty. */
struct answer {
    char text[MD_TEXT_BYTES];
};

/* Rank 0's side. */
struct host {
    struct muster_dist *dist;
    struct pollfd
        *polls; /* the socket that listens, then a connection for each rank, then pending ones */
    uint32_t n_here;
};

enum {
    PENDING_MAX = 16 /* connections that have not said who they are */
};

static socklen_t address_make(const struct muster_dist *dist, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int len = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "muster-dist-%s",
                       dist->place.key);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

static bool is_late(const struct md_shm *shm)
{
    return md_now_ns() > shm->deadline_ns;
}

static bool is_of_this_user(int fd)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && peer.uid == getuid();
}

static const char *reason(void)
{
    const char *why = strerrordesc_np(errno);
    return why ? why : "unknown error";
}

static int late_tell(struct muster_dist *dist)
{
    const struct md_shm *shm = dist->impl;
    char names[120];
    md_shm_missing(shm, 0, names, sizeof(names));
    return md_fail(dist, MUSTER_DIST_ETIMEOUT, "%s of %u did not come within %.1f s (%s)", names,
                   shm->size, (double)dist->timeout_ms / 1e3, dist->place.launcher);
}

/* ---- rank 0 ---- */

/*
 * Listens at the name. An attempt that is just ending may still have the name, so this is tried for
 * a while.
 */
static int host_listen(struct muster_dist *dist, int *out)
{
    struct sockaddr_un address;
    socklen_t len = address_make(dist, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return md_fail(dist, MUSTER_DIST_EIO, "rank 0: socket: %s", reason());
    while (bind(fd, (const struct sockaddr *)&address, len) != 0) {
        if (errno != EADDRINUSE || is_late(dist->impl)) {
            int rc =
                md_fail(dist, MUSTER_DIST_EIO,
                        "rank 0: name for the ranks to meet: %s (is another rank 0 of this job "
                        "running?)",
                        reason());
            close(fd);
            return rc;
        }
        nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
    }
    if (listen(fd, 128) != 0) {
        int rc = md_fail(dist, MUSTER_DIST_EIO, "rank 0: listen: %s", reason());
        close(fd);
        return rc;
    }
    *out = fd;
    return 0;
}

static void answer_send(int fd, const char *text, int file)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct answer answer = {0};
    struct iovec piece = {&answer, sizeof(answer)};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    snprintf(answer.text, sizeof(answer.text), "%s", text);
    if (file >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof(control.bytes);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &file, sizeof(int));
    }
    sendmsg(fd, &message, MSG_NOSIGNAL);
}

static int hello_judge(struct host *host, const struct hello *hello, int fd)
{
    struct muster_dist *dist = host->dist;
    const struct md_shm *shm = dist->impl;
    char text[MD_TEXT_BYTES];
    if (hello->magic != HELLO_MAGIC)
        snprintf(text, sizeof(text), "pid %u comes with another version of libmuster", hello->pid);
    else if (hello->size != shm->size)
        snprintf(text, sizeof(text),
                 "ranks disagree: rank %u says that there are %u, and rank 0 %u", hello->rank,
                 hello->size, shm->size);
    else if (hello->rank == 0 || hello->rank >= shm->size)
        snprintf(text, sizeof(text), "pid %u says that it is rank %u as well", hello->pid,
                 hello->rank);
    else if (host->polls[hello->rank].fd >= 0)
        snprintf(text, sizeof(text), "rank %u has come twice: pid %u is the second", hello->rank,
                 hello->pid);
    else
        return 0;
    answer_send(fd, text, -1);
    return md_fail(dist, MUSTER_DIST_EENV, "%s", text);
}

/* Hears a pending connection introduce itself, or end. */
static int pending_hear(struct host *host, struct pollfd *poll)
{
    struct hello hello = {0};
    const struct md_shm *shm = host->dist->impl;
    ssize_t got = recv(poll->fd, &hello, sizeof(hello), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    int fd = poll->fd, rc = 0;
    poll->fd = -1;
    if (got == sizeof(hello)) {
        rc = hello_judge(host, &hello, fd);
        if (rc == 0) {
            host->polls[hello.rank].fd = fd;
            answer_send(fd, "", shm->fd);
            return 0;
        }
    }
    close(fd);
    return rc;
}

/* Hears a rank confirm by one byte that it has the file, or its connection end. */
static int rank_hear(struct host *host, uint32_t rank)
{
    struct shm_rank *other = &((struct md_shm *)host->dist->impl)->world->ranks[rank];
    char byte;
    ssize_t got = recv(host->polls[rank].fd, &byte, 1, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (got == 1) {
        atomic_store(&other->state, SHM_HERE);
        host->n_here++;
        return 0;
    }
    int rc = md_shm_told(host->dist);
    return rc ? rc
              : md_fail(host->dist, MUSTER_DIST_ELOST,
                        "the process of rank %u ended before all ranks had come", rank);
}

static void host_accept(struct host *host, struct pollfd *pending)
{
    for (int i = 0; i < PENDING_MAX; i++) {
        if (pending[i].fd >= 0)
            continue;
        int fd = accept4(host->polls[0].fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        if (is_of_this_user(fd))
            pending[i].fd = fd;
        else
            close(fd);
    }
}

static int host_round(struct host *host)
{
    struct md_shm *shm = host->dist->impl;
    struct pollfd *pending = host->polls + shm->size;
    poll(host->polls, shm->size + PENDING_MAX, POLL_MS);
    int rc = md_shm_told(host->dist);
    for (int i = 0; rc == 0 && i < PENDING_MAX; i++)
        if (pending[i].fd >= 0 && pending[i].revents)
            rc = pending_hear(host, &pending[i]);
    for (uint32_t r = 1; rc == 0 && r < shm->size; r++)
        if (host->polls[r].fd >= 0 && host->polls[r].revents)
            rc = rank_hear(host, r);
    if (rc == 0)
        host_accept(host, pending);
    return rc == 0 && host->n_here < shm->size && is_late(shm) ? late_tell(host->dist) : rc;
}

static int host_meet(struct muster_dist *dist)
{
    struct md_shm *shm = dist->impl;
    struct host host = {.dist = dist, .n_here = 1};
    size_t n = shm->size + PENDING_MAX;
    int rc = md_shm_create(dist);
    if (rc != 0)
        return rc;
    host.polls = calloc(n, sizeof(*host.polls));
    if (!host.polls)
        return md_fail(dist, MUSTER_DIST_ENOMEM, "rank 0: no memory");
    for (size_t i = 0; i < n; i++)
        host.polls[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    atomic_store(&shm->world->ranks[0].state, SHM_HERE);
    rc = host_listen(dist, &host.polls[0].fd);
    rc = rc ? rc : md_shm_reserve(dist, shm->world->stages_at, 2ull * MD_STAGE_BYTES, "a stage");
    while (rc == 0 && host.n_here < shm->size)
        rc = host_round(&host);
    if (rc == 0)
        atomic_store(&shm->world->is_open, 1);
    for (size_t i = 0; i < n; i++)
        if (host.polls[i].fd >= 0)
            close(host.polls[i].fd);
    free(host.polls);
    return rc;
}

/* ---- the others ---- */

/* Waits for rank 0, which may not have begun. */
static int guest_connect(struct muster_dist *dist, int *out)
{
    struct sockaddr_un address;
    socklen_t len = address_make(dist, &address);
    for (;;) {
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
            return md_fail(dist, MUSTER_DIST_EIO, "rank %u: socket: %s", dist->place.rank,
                           reason());
        if (connect(fd, (const struct sockaddr *)&address, len) == 0 && is_of_this_user(fd)) {
            *out = fd;
            return 0;
        }
        close(fd);
        if (is_late(dist->impl))
            return md_fail(dist, MUSTER_DIST_ETIMEOUT,
                           "rank 0 of %u did not come within %.1f s: rank %u met nobody under the "
                           "job's name on this machine (%s)",
                           dist->place.size, (double)dist->timeout_ms / 1e3, dist->place.rank,
                           dist->place.launcher);
        nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
    }
}

/* Returns -1 if no answer came, so that the connection is useless. */
static int answer_receive(const struct md_shm *shm, int fd, struct answer *answer, int *file)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec piece = {answer, sizeof(*answer)};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    ssize_t got;
    do
        poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, POLL_MS);
    while ((got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC)) < 0 &&
           (errno == EAGAIN || errno == EINTR) && !is_late(shm));
    if (got != sizeof(*answer))
        return -1;
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *file = -1;
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
        memcpy(file, CMSG_DATA(header), sizeof(int));
    answer->text[sizeof(answer->text) - 1] = '\0';
    return 0;
}

/* Waits until rank 0 has opened the world, or has ended: both close the connection. */
static int guest_wait(struct muster_dist *dist, int fd)
{
    struct md_shm *shm = dist->impl;
    char byte;
    while (!atomic_load(&shm->world->is_open)) {
        poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, POLL_MS);
        int rc = md_shm_told(dist);
        if (rc != 0)
            return rc;
        bool is_closed = recv(fd, &byte, 1, 0) == 0;
        if (atomic_load(&shm->world->is_open))
            break;
        rc = md_shm_told(dist);
        if (rc != 0)
            return rc;
        if (is_closed)
            return md_fail(dist, MUSTER_DIST_ELOST,
                           "the process of rank 0 ended before all ranks had come");
        if (is_late(shm))
            return late_tell(dist);
    }
    return 0;
}

static int guest_attach(struct muster_dist *dist, int fd, int file)
{
    struct md_shm *shm = dist->impl;
    int rc = md_shm_attach(dist, file);
    if (rc != 0)
        return rc;
    uint64_t stage_at = shm->world->stages_at + 2ull * MD_STAGE_BYTES * shm->rank;
    rc = md_shm_reserve(dist, stage_at, 2ull * MD_STAGE_BYTES, "a stage");
    if (rc == 0 && send(fd, "", 1, MSG_NOSIGNAL) < 0 && errno != EPIPE)
        rc = md_fail(dist, MUSTER_DIST_EIO, "rank %u: answer to rank 0: %s", shm->rank, reason());
    return rc ? rc : guest_wait(dist, fd);
}

static int guest_meet(struct muster_dist *dist)
{
    const struct md_shm *shm = dist->impl;
    const struct hello hello = {HELLO_MAGIC, shm->rank, shm->size, (uint32_t)getpid()};
    struct answer answer = {0};
    int fd = -1, file = -1, rc;
    for (;;) {
        rc = guest_connect(dist, &fd);
        if (rc != 0)
            return rc;
        if (send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) == sizeof(hello) &&
            answer_receive(shm, fd, &answer, &file) == 0)
            break;
        close(fd); /* rank 0 of an attempt that was ending */
        if (is_late(shm))
            return md_fail(dist, MUSTER_DIST_ETIMEOUT,
                           "rank 0 of %u did not answer rank %u within %.1f s (%s)", shm->size,
                           shm->rank, (double)dist->timeout_ms / 1e3, dist->place.launcher);
        nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
    }
    if (answer.text[0] != '\0')
        rc = md_fail(dist, MUSTER_DIST_EENV, "%s", answer.text);
    else if (file < 0)
        rc = md_fail(dist, MUSTER_DIST_EIO, "rank %u: rank 0 sent no shared memory", shm->rank);
    else
        rc = guest_attach(dist, fd, file);
    close(fd);
    return rc;
}

int md_shm_meet(struct muster_dist *dist)
{
    return dist->place.rank == 0 ? host_meet(dist) : guest_meet(dist);
}
