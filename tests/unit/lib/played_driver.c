/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA's driver, as far as lib/dist asks it.
 */
#include "played_gpu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    OK = 0,
    INVALID = 1,
    OUT_OF_MEMORY = 2,
    NO_CONTEXT = 201,
    NOT_READY = 600,
    N_DEVICES = 2,
    CONTEXTS_MAX = 8 /* pushed by a thread */
};

long played_number(const char *variable, long otherwise)
{
    const char *text = getenv(variable);
    return text ? atol(text) : otherwise;
}

/* ---- contexts: one a device, which is its primary one ---- */

struct context {
    int ordinal;
};
static struct context contexts[N_DEVICES] = {{0}, {1}};
static _Thread_local struct context *pushed[CONTEXTS_MAX];
static _Thread_local int n_pushed;

bool played_has_context(void)
{
    return n_pushed > 0;
}

int cuInit(unsigned flags)
{
    return flags == 0 ? OK : INVALID;
}

int cuGetErrorString(int status, const char **text)
{
    *text = status == NO_CONTEXT ? "no context" : "played error";
    return OK;
}

int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return ordinal >= 0 && ordinal < N_DEVICES ? OK : INVALID;
}

int cuDeviceGetUuid_v2(unsigned char uuid[16], int device)
{
    memset(uuid, 0, 16);
    uuid[0] = (unsigned char)device;
    long rank = played_number("RANK", played_number("OMPI_COMM_WORLD_RANK", 0));
    uuid[15] = (unsigned char)played_number("PLAYED_UUID", rank);
    return OK;
}

int cuDevicePrimaryCtxRetain(struct context **context, int device)
{
    *context = &contexts[device];
    return OK;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    return device < N_DEVICES ? OK : INVALID;
}

int cuCtxPushCurrent_v2(struct context *context)
{
    if (n_pushed == CONTEXTS_MAX)
        return INVALID;
    pushed[n_pushed++] = context;
    return OK;
}

int cuCtxPopCurrent_v2(struct context **context)
{
    if (n_pushed == 0)
        return NO_CONTEXT;
    *context = pushed[--n_pushed];
    return OK;
}

/* ---- memory: mapped twice, and the address that is given cannot be touched ---- */

struct block {
    struct block *next;
    char *device, *host;
    size_t bytes;
    int ordinal;
};
static struct block *blocks;
static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;

/* With the lock. */
static struct block *block_find(const void *at)
{
    for (struct block *block = blocks; block; block = block->next)
        if ((const char *)at >= block->device && (const char *)at < block->device + block->bytes)
            return block;
    return NULL;
}

void *played_reach(const void *at)
{
    pthread_mutex_lock(&blocks_lock);
    const struct block *block = block_find(at);
    void *reached = (void *)(uintptr_t)at;
    if (block)
        reached = block->host + ((const char *)at - block->device);
    pthread_mutex_unlock(&blocks_lock);
    return reached;
}

int cuMemAlloc_v2(uint64_t *at, size_t bytes)
{
    struct block *block = calloc(1, sizeof(*block));
    int fd = memfd_create("played-device", MFD_CLOEXEC);
    if (!block || fd < 0 || n_pushed == 0 || ftruncate(fd, (off_t)bytes) != 0)
        abort();
    block->device = mmap(NULL, bytes, PROT_NONE, MAP_SHARED, fd, 0);
    block->host = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (block->device == MAP_FAILED || block->host == MAP_FAILED)
        return OUT_OF_MEMORY;
    block->bytes = bytes;
    block->ordinal = pushed[n_pushed - 1]->ordinal;
    pthread_mutex_lock(&blocks_lock);
    block->next = blocks;
    blocks = block;
    pthread_mutex_unlock(&blocks_lock);
    *at = (uintptr_t)block->device;
    return OK;
}

/* CUDA's waits for all that uses the memory; here it stays until the process ends. */
int cuMemFree_v2(uint64_t at)
{
    pthread_mutex_lock(&blocks_lock);
    bool is_known = block_find((void *)(uintptr_t)at);
    pthread_mutex_unlock(&blocks_lock);
    return is_known ? OK : INVALID;
}

/* The attributes of CUDA's: 1 context, 2 kind of memory, 9 ordinal. What is not known is zero. */
int cuPointerGetAttributes(unsigned n, int *attributes, void **values, uint64_t at)
{
    pthread_mutex_lock(&blocks_lock);
    const struct block *block = block_find((void *)(uintptr_t)at);
    int ordinal = block ? block->ordinal : 0;
    pthread_mutex_unlock(&blocks_lock);
    for (unsigned i = 0; i < n; i++) {
        if (attributes[i] == 1)
            *(struct context **)values[i] = block ? &contexts[ordinal] : NULL;
        else if (attributes[i] == 2)
            *(unsigned *)values[i] = block ? 2 : 0;
        else if (attributes[i] == 9)
            *(int *)values[i] = block ? ordinal : -2;
        else
            return INVALID;
    }
    return OK;
}

/* ---- streams ---- */

struct task {
    struct task *next;
    played_task *run;
    void *arg;
};
struct played_stream {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct task *first, **last;
    bool is_ending;
    pthread_t thread;
};

static void *stream_work(void *arg)
{
    struct played_stream *stream = arg;
    pthread_mutex_lock(&stream->lock);
    for (;;) {
        struct task *task = stream->first;
        if (!task && stream->is_ending)
            break;
        if (!task) {
            pthread_cond_wait(&stream->changed, &stream->lock);
            continue;
        }
        stream->first = task->next;
        if (!stream->first)
            stream->last = &stream->first;
        pthread_mutex_unlock(&stream->lock);
        task->run(task->arg);
        free(task->arg);
        free(task);
        pthread_mutex_lock(&stream->lock);
    }
    pthread_mutex_unlock(&stream->lock);
    return NULL;
}

static struct played_stream *stream_new(void)
{
    struct played_stream *stream = calloc(1, sizeof(*stream));
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->changed, NULL);
    stream->last = &stream->first;
    if (pthread_create(&stream->thread, NULL, stream_work, stream) != 0)
        abort();
    return stream;
}

/* Made when it is first used: threads do not survive fork. */
static struct played_stream *default_stream;
static pthread_mutex_t default_lock = PTHREAD_MUTEX_INITIALIZER;

void played_put(struct played_stream *stream, played_task *run, void *arg)
{
    struct task *task = calloc(1, sizeof(*task));
    task->run = run;
    task->arg = arg;
    if (!stream) {
        pthread_mutex_lock(&default_lock);
        default_stream = default_stream ? default_stream : stream_new();
        stream = default_stream;
        pthread_mutex_unlock(&default_lock);
    }
    pthread_mutex_lock(&stream->lock);
    *stream->last = task;
    stream->last = &task->next;
    pthread_cond_signal(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
}

/* 1: does not wait for the default stream, which is what is asked for here. */
int cuStreamCreate(struct played_stream **stream, unsigned flags)
{
    if (flags != 1 || n_pushed == 0)
        return n_pushed == 0 ? NO_CONTEXT : INVALID;
    *stream = stream_new();
    return OK;
}

int cuStreamDestroy_v2(struct played_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->is_ending = true;
    pthread_cond_signal(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    pthread_join(stream->thread, NULL);
    free(stream);
    return OK;
}

struct copying {
    uint64_t to, from;
    size_t bytes;
};

static void copy_do(void *arg)
{
    const struct copying *copying = arg;
    memcpy(played_reach((void *)(uintptr_t)copying->to),
           played_reach((void *)(uintptr_t)copying->from), copying->bytes);
}

int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, struct played_stream *stream)
{
    struct copying *copying = malloc(sizeof(*copying));
    if (n_pushed == 0)
        return NO_CONTEXT;
    *copying = (struct copying){to, from, bytes};
    played_put(stream, copy_do, copying);
    return OK;
}

static void zero_do(void *arg)
{
    const struct copying *copying = arg;
    memset(played_reach((void *)(uintptr_t)copying->to), 0, copying->bytes);
}

int cuMemsetD8Async(uint64_t at, unsigned char byte, size_t bytes, struct played_stream *stream)
{
    struct copying *copying = malloc(sizeof(*copying));
    if (n_pushed == 0 || byte != 0)
        return n_pushed == 0 ? NO_CONTEXT : INVALID;
    *copying = (struct copying){.to = at, .bytes = bytes};
    played_put(stream, zero_do, copying);
    return OK;
}

/* ---- events: counts of how often they were recorded, and reached ---- */

struct event {
    atomic_int n_users;
    atomic_ulong n_recorded, n_reached;
};
struct marking {
    struct event *event;
    unsigned long number;
};

static void event_leave(struct event *event)
{
    if (atomic_fetch_sub(&event->n_users, 1) == 1)
        free(event);
}

static void event_reach(void *arg)
{
    const struct marking *marking = arg;
    atomic_store(&marking->event->n_reached, marking->number);
    event_leave(marking->event);
}

static void event_await(void *arg)
{
    const struct marking *marking = arg;
    while (atomic_load(&marking->event->n_reached) < marking->number)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    event_leave(marking->event);
}

static struct marking *mark(struct event *event, unsigned long number)
{
    struct marking *marking = malloc(sizeof(*marking));
    atomic_fetch_add(&event->n_users, 1);
    *marking = (struct marking){event, number};
    return marking;
}

int cuEventCreate(struct event **event, unsigned flags)
{
    if (n_pushed == 0 || flags != 2)
        return n_pushed == 0 ? NO_CONTEXT : INVALID;
    *event = calloc(1, sizeof(**event));
    atomic_store(&(*event)->n_users, 1);
    return OK;
}

int cuEventDestroy_v2(struct event *event)
{
    event_leave(event);
    return OK;
}

int cuEventRecord(struct event *event, struct played_stream *stream)
{
    unsigned long number = atomic_fetch_add(&event->n_recorded, 1) + 1;
    if (n_pushed == 0)
        return NO_CONTEXT;
    played_put(stream, event_reach, mark(event, number));
    return OK;
}

int cuEventQuery(struct event *event)
{
    return atomic_load(&event->n_reached) < atomic_load(&event->n_recorded) ? NOT_READY : OK;
}

int cuStreamWaitEvent(struct played_stream *stream, struct event *event, unsigned flags)
{
    if (flags != 0)
        return INVALID;
    played_put(stream, event_await, mark(event, atomic_load(&event->n_recorded)));
    return OK;
}

int cuStreamSynchronize(struct played_stream *stream)
{
    struct event *event;
    int status = cuEventCreate(&event, 2);
    if (status != OK)
        return status;
    cuEventRecord(event, stream);
    while (cuEventQuery(event) == NOT_READY)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    return cuEventDestroy_v2(event);
}

/* ---- beyond CUDA ---- */

void played_use(void)
{
    Dl_info info;
    if (dladdr((void *)(uintptr_t)played_use, &info) == 0)
        abort();
    setenv("MUSTER_DIST_CUDA", info.dli_fname, 1);
    setenv("MUSTER_DIST_NCCL", info.dli_fname, 1);
}

static void sleep_do(void *arg)
{
    const int *ms = arg;
    nanosleep(&(struct timespec){*ms / 1000, *ms % 1000 * 1000000L}, NULL);
}

int played_kernel(struct played_stream *stream, int ms)
{
    int *arg = malloc(sizeof(*arg));
    *arg = ms;
    played_put(stream, sleep_do, arg);
    return OK;
}
