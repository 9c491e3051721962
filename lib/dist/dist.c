/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and closing, the choice of a backend, and the error that all ranks share.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "device.h"
#include "reduce.h"
#include "tcp.h"

#if !defined(MADV_WIPEONFORK)
#define MADV_WIPEONFORK 18 /* Linux 4.14; headers may be older */
#endif

static const uint64_t timeout_default_ms = 600000;
static const uint64_t timeout_max_ms = 3000000000000; /* a century; as nanoseconds it fits */

uint64_t md_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- errors ---- */

/* Keeps the first error. Called with fail_lock. */
static int error_keep(struct muster_dist *dist, int code, const char *text)
{
    if (atomic_load(&dist->code) == 0) {
        snprintf(dist->error, sizeof(dist->error), "%s", text);
        atomic_store(&dist->code, code);
    }
    return atomic_load(&dist->code);
}

int md_adopt(struct muster_dist *dist, int code, const char *text)
{
    pthread_mutex_lock(&dist->fail_lock);
    int rc = error_keep(dist, code, text);
    pthread_mutex_unlock(&dist->fail_lock);
    return rc;
}

int md_fail(struct muster_dist *dist, int code, const char *fmt, ...)
{
    char text[MD_TEXT_BYTES] = {0}; /* the whole array goes to the other ranks */
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    pthread_mutex_lock(&dist->fail_lock);
    if (atomic_load(&dist->code) == 0 && dist->backend && dist->backend->fail && dist->impl)
        dist->backend->fail(dist, &code, text);
    int rc = error_keep(dist, code, text);
    pthread_mutex_unlock(&dist->fail_lock);
    return rc;
}

bool md_is_ours(const struct muster_dist *dist)
{
    return dist->page ? *dist->page != 0 : dist->pid == getpid();
}

int md_check(const struct muster_dist *dist)
{
    if (!dist)
        return MUSTER_DIST_ENOMEM;
    if (!md_is_ours(dist))
        return MUSTER_DIST_EUSE;
    return atomic_load(&dist->code);
}

int muster_dist_fail(struct muster_dist *dist, int code, const char *text)
{
    int rc = md_check(dist);
    if (rc != 0)
        return rc;
    return md_fail(dist, code < 0 ? code : MUSTER_DIST_EFAIL, "rank %u: %s", dist->place.rank,
                   text ? text : "it gives no reason");
}

int muster_dist_code(const struct muster_dist *dist)
{
    return md_check(dist);
}

const char *muster_dist_error(const struct muster_dist *dist)
{
    if (!dist)
        return "no memory for a handle of muster_dist";
    if (!md_is_ours(dist))
        return "this process was forked from a rank, whose handle it must not use";
    return atomic_load(&dist->code) != 0 ? dist->error : "";
}

/* ---- a world of one ---- */

static int self_open(struct muster_dist *dist)
{
    (void)dist;
    return 0;
}

static void self_close(struct muster_dist *dist)
{
    (void)dist;
}

/*
 * Copies the values, because the mean, the least and the greatest of one value are that value;
 * unless the value has a weight.
 */
static int self_run(struct muster_dist *dist, const struct md_call *call)
{
    const struct muster_dist_call *what = &call->what;
    if (call->memory == MD_HOST && call->weights)
        md_reduce(call, what->out, &what->in, 1, what->count);
    else if (call->memory == MD_HOST && what->in != what->out && what->count > 0)
        memcpy(what->out, what->in, md_out_bytes(dist, what));
    return 0;
}

const struct md_backend_ops md_self_ops = {
    .name = "self",
    .open = self_open,
    .close = self_close,
    .run = self_run,
};

/* ---- open ---- */

/* Parses a number of seconds, or a number with ms, s, m or h after it. */
static bool timeout_parse(const char *text, uint64_t *ms)
{
    static const struct {
        const char *unit;
        uint64_t ms;
    } units[] = {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || errno != 0 || value == 0 || value > 1000000000)
        return false;
    for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
        if (strcmp(end, units[i].unit) == 0) {
            *ms = value * units[i].ms;
            return true;
        }
    return false;
}

static int timeout_choose(struct muster_dist *dist, const struct muster_dist_opts *opts)
{
    const char *text = getenv("MUSTER_DIST_TIMEOUT");
    dist->timeout_ms = timeout_default_ms;
    if (opts && opts->timeout_ms > 0)
        dist->timeout_ms = opts->timeout_ms;
    else if (text && *text != '\0' && !timeout_parse(text, &dist->timeout_ms))
        return md_fail(dist, MUSTER_DIST_EENV,
                       "MUSTER_DIST_TIMEOUT: '%.40s' is not a time (as 90, 90s, 5m or 2h)", text);
    if (dist->timeout_ms > timeout_max_ms)
        dist->timeout_ms = timeout_max_ms;
    return 0;
}

/* The names of backends. `nccl` alone: values in host memory go by whatever reaches all ranks. */
struct backend_choice {
    const char *name;
    const struct md_backend_ops *backend; /* NULL: the backend that reaches all ranks */
    enum md_device_transport transport;
};

static const struct backend_choice *choice_find(const char *name)
{
    static const struct backend_choice choices[] = {
        {"auto", NULL, MD_BY_SIZE},
        {"shm", &md_shm_ops, MD_BY_HOST},
        {"tcp", &md_tcp_ops, MD_BY_HOST},
        {"mpi", &md_mpi_ops, MD_BY_HOST},
        {"nccl", NULL, MD_BY_NCCL},
        {"shm+nccl", &md_shm_ops, MD_BY_NCCL},
        {"tcp+nccl", &md_tcp_ops, MD_BY_NCCL},
        {"mpi+nccl", &md_mpi_ops, MD_BY_NCCL},
    };
    for (size_t i = 0; i < sizeof(choices) / sizeof(*choices); i++)
        if (strcmp(name, choices[i].name) == 0)
            return &choices[i];
    return NULL;
}

/*
 * Chooses the named backend; by default shared memory, if all ranks are known to be on this
 * machine.
 */
static int backend_choose(struct muster_dist *dist, const struct muster_dist_opts *opts,
                          enum md_device_transport *transport)
{
    const char *variable = getenv("MUSTER_DIST_BACKEND");
    const char *name = opts && opts->backend ? opts->backend : variable ? variable : "";
    const struct md_place *place = &dist->place;
    bool is_here = place->local_size == 0 || place->local_size == place->size;
    const struct backend_choice *choice = choice_find(*name != '\0' ? name : "auto");
    if (!choice)
        return md_fail(
            dist, MUSTER_DIST_EENV,
            "there is no backend '%.20s' (shm, tcp, mpi, nccl, shm+nccl, tcp+nccl, mpi+nccl, auto)",
            name);
    if (choice->backend == &md_shm_ops && !is_here)
        return md_fail(dist, MUSTER_DIST_EENV,
                       "%u of the %u ranks are on this machine, and shared memory does not reach "
                       "the others: unset MUSTER_DIST_BACKEND, or start all ranks on one machine",
                       place->local_size, place->size);
    dist->backend = place->size == 1    ? &md_self_ops
                    : choice->backend   ? choice->backend
                    : is_here           ? &md_shm_ops
                    : md_tcp_can(place) ? &md_tcp_ops
                                        : &md_mpi_ops;
    *transport = choice->transport;
    return 0;
}

/*
 * The driver is asked about addresses only if the user said that there is device memory: a question
 * costs 0.1 µs.
 */
static int device_choose(struct muster_dist *dist, const struct muster_dist_opts *opts,
                         enum md_device_transport transport)
{
    bool is_asked = transport == MD_BY_NCCL || (opts && opts->has_device_memory);
    if (transport == MD_BY_SIZE)
        transport = dist->place.size > 1 ? MD_BY_NCCL : MD_BY_HOST;
    snprintf(dist->backend_name, sizeof(dist->backend_name), "%s%s", dist->backend->name,
             is_asked && transport == MD_BY_NCCL ? "+nccl" : "");
    return is_asked ? md_device_open(dist, transport, opts ? opts->stream : NULL) : 0;
}

static int world_open(struct muster_dist *dist, const struct muster_dist_opts *opts)
{
    char error[MD_TEXT_BYTES];
    struct md_place place;
    enum md_device_transport transport = MD_BY_SIZE;
    int rc = md_place_read(&place, error, sizeof(error));
    if (rc != 0)
        return md_fail(dist, rc, "%s", error);
    dist->place = place;
    rc = timeout_choose(dist, opts);
    rc = rc ? rc : backend_choose(dist, opts, &transport);
    rc = rc ? rc : dist->backend->open(dist);
    return rc ? rc : device_choose(dist, opts, transport);
}

static void page_make(struct muster_dist *dist)
{
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    char *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    dist->pid = getpid();
    if (page == MAP_FAILED)
        return;
    if (madvise(page, bytes, MADV_WIPEONFORK) != 0) {
        munmap(page, bytes);
        return;
    }
    *page = 1;
    dist->page = page;
}

static void page_release(struct muster_dist *dist)
{
    if (dist->page)
        munmap((void *)(uintptr_t)dist->page, (size_t)sysconf(_SC_PAGESIZE));
}

struct muster_dist *muster_dist_open(const struct muster_dist_opts *opts)
{
    struct muster_dist *dist = calloc(1, sizeof(*dist));
    if (!dist)
        return NULL;
    dist->place = (struct md_place){.size = 1};
    page_make(dist);
    pthread_mutex_init(&dist->fail_lock, NULL);
    if (!md_calls_init(dist)) {
        page_release(dist);
        pthread_mutex_destroy(&dist->fail_lock);
        free(dist);
        return NULL;
    }
    world_open(dist, opts);
    return dist;
}

int muster_dist_close(struct muster_dist *dist)
{
    if (!dist)
        return MUSTER_DIST_ENOMEM;
    bool is_ours = md_is_ours(dist);
    if (is_ours)
        md_calls_end(dist);
    md_device_close(dist);
    if (dist->backend)
        dist->backend->close(dist);
    int rc = is_ours ? atomic_load(&dist->code) : MUSTER_DIST_EUSE;
    /* A forked process may have inherited locked locks, so it destroys nothing. */
    if (is_ours)
        md_calls_release(dist);
    page_release(dist);
    free(dist->calls);
    free(dist->times);
    free(dist);
    return rc;
}

uint32_t muster_dist_rank(const struct muster_dist *dist)
{
    return dist ? dist->place.rank : 0;
}

uint32_t muster_dist_size(const struct muster_dist *dist)
{
    return dist ? dist->place.size : 1;
}

uint32_t muster_dist_local_rank(const struct muster_dist *dist)
{
    return dist ? dist->place.local_rank : 0;
}

const char *muster_dist_backend(const struct muster_dist *dist)
{
    return dist ? dist->backend_name : "";
}

/* ---- memory ---- */

static void *ordinary_new(struct muster_dist *dist, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *at = NULL;
    if (bytes > SIZE_MAX - page || posix_memalign(&at, page, (bytes + page - 1) & ~(page - 1))) {
        md_fail(dist, MUSTER_DIST_ENOMEM, "rank %u: no memory for a buffer of %zu bytes",
                dist->place.rank, bytes);
        return NULL;
    }
    memset(at, 0, bytes);
    return at;
}

void *muster_dist_buffer_new(struct muster_dist *dist, size_t bytes)
{
    if (md_check(dist) != 0)
        return NULL;
    bytes = bytes > 0 ? bytes : 1;
    return dist->backend->buffer_new ? dist->backend->buffer_new(dist, bytes)
                                     : ordinary_new(dist, bytes);
}

void muster_dist_buffer_free(struct muster_dist *dist, void *at)
{
    if (!at || !dist || !md_is_ours(dist) || !dist->backend)
        return;
    if (dist->backend->buffer_free)
        dist->backend->buffer_free(dist, at);
    else
        free(at);
}
