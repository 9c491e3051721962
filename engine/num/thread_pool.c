/* SPDX-License-Identifier: Apache-2.0 */
#include "num/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/xalloc.h"

enum {
    THREADS_MAX = 512 /* OpenBLAS 0.3.21 has no more than 640 buffers */
};

/*
 * Address space that a thread needs beside its stack: OpenBLAS 0.3.21 maps a buffer of 128 MiB for
 * each thread that computes, and where the mapping fails it tries again for ever.
 */
#define THREAD_ROOM_BYTES ((size_t)132 << 20)

struct pool_thread {
    struct thread_pool *pool;
    unsigned thread;
    pthread_t id;
    void *room; /* address space, reserved until the thread's first piece */
};

struct thread_pool {
    struct pool_thread *threads; /* the first is the caller of thread_pool_run() */
    unsigned n_threads;
    pthread_mutex_t lock;
    pthread_cond_t work_came; /* there is work, or the pool is closed */
    pthread_cond_t changed;   /* `next_handed_over`, `rc` or `n_at_work` changed */
    bool is_closed;
    uint64_t n_works;           /* works so far */
    const atomic_bool *is_told; /* set when the pool is told to stop; may be NULL */

    /* The current work. */
    const struct thread_pool_work *work;
    unsigned n_at_work;
    size_t next_piece, next_handed_over; /* numbers of pieces */
    int rc;
    struct err *err;
};

unsigned thread_pool_processors(void)
{
    cpu_set_t allowed;
    return sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? (unsigned)CPU_COUNT(&allowed) : 1;
}

/* The caller holds the lock. */
static void hand_over(struct thread_pool *pool, unsigned thread, size_t piece)
{
    while (pool->next_handed_over != piece && pool->rc == 0)
        pthread_cond_wait(&pool->changed, &pool->lock);
    if (pool->rc == 0 && pool->work->hand_over)
        pool->rc = pool->work->hand_over(pool->work->context, thread, piece, pool->err);
    pool->next_handed_over++;
    pthread_cond_broadcast(&pool->changed);
}

/* The caller holds the lock. */
static bool piece_is_left(struct thread_pool *pool)
{
    if (pool->rc != 0 || pool->next_piece == pool->work->n_pieces)
        return false;
    if (!pool->work->always_ends && thread_pool_is_stopped(pool))
        pool->rc = fail(pool->err, ERR_STOPPED, "told to stop");
    return pool->rc == 0;
}

static void room_release(struct pool_thread *self)
{
    if (self->room)
        munmap(self->room, THREAD_ROOM_BYTES);
    self->room = NULL;
}

/* The caller holds the lock; it is released while a piece is made. */
static void pieces_take(struct thread_pool *pool, unsigned thread)
{
    pool->n_at_work++;
    while (piece_is_left(pool)) {
        size_t piece = pool->next_piece++;
        pthread_mutex_unlock(&pool->lock);
        room_release(&pool->threads[thread]);
        pool->work->make(pool->work->context, thread, piece);
        pthread_mutex_lock(&pool->lock);
        hand_over(pool, thread, piece);
    }
    pool->n_at_work--;
    pthread_cond_broadcast(&pool->changed);
}

static void *pool_thread_run(void *context)
{
    struct pool_thread *self = context;
    struct thread_pool *pool = self->pool;
    uint64_t n_seen = 0;
    pthread_mutex_lock(&pool->lock);
    while (!pool->is_closed) {
        if (pool->n_works == n_seen) {
            pthread_cond_wait(&pool->work_came, &pool->lock);
            continue;
        }
        n_seen = pool->n_works;
        if (pool->work)
            pieces_take(pool, self->thread);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

uint64_t thread_pool_addresses_free(void)
{
    cleanup_buf struct buf text = BUF_INIT;
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        file_read("/proc/self/statm", 4096, &text, NULL) != 0)
        return UINT64_MAX;
    uint64_t used = strtoull(buf_text(&text), NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
    return limit.rlim_cur - MIN(used, (uint64_t)limit.rlim_cur);
}

/*
 * Returns how many threads the free address space allows. Half of it is left to the data that the
 * threads work on.
 */
static unsigned threads_max(void)
{
    uint64_t fit = 1 + thread_pool_addresses_free() / 2 / THREAD_ROOM_BYTES;
    return (unsigned)MIN(fit, (uint64_t)THREADS_MAX);
}

/* The room is reserved before the thread starts, so that no later allocation takes it. */
static bool pool_thread_start(struct thread_pool *pool, struct pool_thread *self)
{
    *self = (struct pool_thread){.pool = pool, .thread = pool->n_threads};
    void *room = mmap(NULL, THREAD_ROOM_BYTES, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return false;
    self->room = room;
    if (pthread_create(&self->id, NULL, pool_thread_run, self) == 0)
        return true;
    room_release(self);
    return false;
}

struct thread_pool *thread_pool_open(unsigned n_threads)
{
    struct thread_pool *pool = xcalloc(1, sizeof(*pool));
    n_threads = MIN(n_threads > 0 ? n_threads : thread_pool_processors(), threads_max());
    pool->threads = xcalloc(n_threads, sizeof(*pool->threads));
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work_came, NULL);
    pthread_cond_init(&pool->changed, NULL);
    pool->n_threads = 1;
    while (pool->n_threads < n_threads && pool_thread_start(pool, &pool->threads[pool->n_threads]))
        pool->n_threads++;
    return pool;
}

unsigned thread_pool_n_threads(const struct thread_pool *pool)
{
    return pool->n_threads;
}

void thread_pool_stop_when(struct thread_pool *pool, const atomic_bool *is_told)
{
    pool->is_told = is_told;
}

bool thread_pool_is_stopped(const struct thread_pool *pool)
{
    return pool->is_told && atomic_load(pool->is_told);
}

int thread_pool_run(struct thread_pool *pool, const struct thread_pool_work *work, struct err *err)
{
    pthread_mutex_lock(&pool->lock);
    pool->work = work;
    pool->next_piece = pool->next_handed_over = 0;
    pool->rc = 0;
    pool->err = err;
    pool->n_works++;
    if (work->n_pieces > 1)
        pthread_cond_broadcast(&pool->work_came);
    pieces_take(pool, 0);
    while (pool->n_at_work > 0)
        pthread_cond_wait(&pool->changed, &pool->lock);
    pool->work = NULL;
    int rc = pool->rc;
    pthread_mutex_unlock(&pool->lock);
    return rc;
}

void thread_pool_close(struct thread_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->is_closed = true;
    pthread_cond_broadcast(&pool->work_came);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 1; i < pool->n_threads; i++) {
        pthread_join(pool->threads[i].id, NULL);
        room_release(&pool->threads[i]);
    }
    pthread_cond_destroy(&pool->changed);
    pthread_cond_destroy(&pool->work_came);
    pthread_mutex_destroy(&pool->lock);
    free(pool->threads);
    free(pool);
}
