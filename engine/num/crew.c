/* SPDX-License-Identifier: Apache-2.0 */
#include "num/crew.h"

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
 * Of addresses, beside a thread's stack: OpenBLAS 0.3.21 maps a buffer of 128 MiB for each thread
 * that computes, and where it gets none it tries for ever.
 */
#define THREAD_ROOM_BYTES ((size_t)132 << 20)

struct member {
    struct crew *crew;
    unsigned thread;
    pthread_t id;
    void *room; /* held from the opening to the first piece */
};

struct crew {
    struct member *members; /* the first is the caller of crew_run() */
    unsigned n_threads;
    pthread_mutex_t lock;
    pthread_cond_t called; /* there is work, or the crew is closed */
    pthread_cond_t turned; /* `turn`, `rc` or `n_at_work` changed */
    bool is_closed;
    uint64_t n_calls;
    const atomic_bool *is_told; /* to stop; NULL: by nobody */

    /* Of the work at hand. */
    const struct crew_work *work;
    unsigned n_at_work;
    size_t next_piece, turn; /* to be made, to be handed over */
    int rc;
    struct err *err;
};

unsigned crew_processors(void)
{
    cpu_set_t allowed;
    return sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? (unsigned)CPU_COUNT(&allowed) : 1;
}

/* With the lock held. */
static void hand_over(struct crew *crew, unsigned thread, size_t piece)
{
    while (crew->turn != piece && crew->rc == 0)
        pthread_cond_wait(&crew->turned, &crew->lock);
    if (crew->rc == 0 && crew->work->hand_over)
        crew->rc = crew->work->hand_over(crew->work->context, thread, piece, crew->err);
    crew->turn++;
    pthread_cond_broadcast(&crew->turned);
}

/* With the lock held. */
static bool piece_is_left(struct crew *crew)
{
    if (crew->rc != 0 || crew->next_piece == crew->work->n_pieces)
        return false;
    if (!crew->work->always_ends && crew_is_stopped(crew))
        crew->rc = fail(crew->err, ERR_STOPPED, "told to stop");
    return crew->rc == 0;
}

static void room_give(struct member *member)
{
    if (member->room)
        munmap(member->room, THREAD_ROOM_BYTES);
    member->room = NULL;
}

/* With the lock held, but while a piece is made. */
static void pieces_take(struct crew *crew, unsigned thread)
{
    crew->n_at_work++;
    while (piece_is_left(crew)) {
        size_t piece = crew->next_piece++;
        pthread_mutex_unlock(&crew->lock);
        room_give(&crew->members[thread]);
        crew->work->make(crew->work->context, thread, piece);
        pthread_mutex_lock(&crew->lock);
        hand_over(crew, thread, piece);
    }
    crew->n_at_work--;
    pthread_cond_broadcast(&crew->turned);
}

static void *member_run(void *context)
{
    struct member *member = context;
    struct crew *crew = member->crew;
    uint64_t n_answered = 0;
    pthread_mutex_lock(&crew->lock);
    while (!crew->is_closed) {
        if (crew->n_calls == n_answered) {
            pthread_cond_wait(&crew->called, &crew->lock);
            continue;
        }
        n_answered = crew->n_calls;
        if (crew->work)
            pieces_take(crew, member->thread);
    }
    pthread_mutex_unlock(&crew->lock);
    return NULL;
}

uint64_t crew_addresses_free(void)
{
    cleanup_buf struct buf text = BUF_INIT;
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        file_read("/proc/self/statm", 4096, &text, NULL) != 0)
        return UINT64_MAX;
    uint64_t used = strtoull(buf_text(&text), NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
    return limit.rlim_cur - MIN(used, (uint64_t)limit.rlim_cur);
}

/* Half of the addresses are left to what the threads work on. */
static unsigned threads_max(void)
{
    uint64_t fit = 1 + crew_addresses_free() / 2 / THREAD_ROOM_BYTES;
    return (unsigned)MIN(fit, (uint64_t)THREADS_MAX);
}

/* The room is taken before the thread, and held: what is allocated meanwhile must not take it. */
static bool member_start(struct crew *crew, struct member *member)
{
    *member = (struct member){.crew = crew, .thread = crew->n_threads};
    void *room = mmap(NULL, THREAD_ROOM_BYTES, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return false;
    member->room = room;
    if (pthread_create(&member->id, NULL, member_run, member) == 0)
        return true;
    room_give(member);
    return false;
}

struct crew *crew_open(unsigned n_threads)
{
    struct crew *crew = xcalloc(1, sizeof(*crew));
    n_threads = MIN(n_threads > 0 ? n_threads : crew_processors(), threads_max());
    crew->members = xcalloc(n_threads, sizeof(*crew->members));
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->called, NULL);
    pthread_cond_init(&crew->turned, NULL);
    crew->n_threads = 1;
    while (crew->n_threads < n_threads && member_start(crew, &crew->members[crew->n_threads]))
        crew->n_threads++;
    return crew;
}

unsigned crew_n_threads(const struct crew *crew)
{
    return crew->n_threads;
}

void crew_stop_when(struct crew *crew, const atomic_bool *is_told)
{
    crew->is_told = is_told;
}

bool crew_is_stopped(const struct crew *crew)
{
    return crew->is_told && atomic_load(crew->is_told);
}

int crew_run(struct crew *crew, const struct crew_work *work, struct err *err)
{
    pthread_mutex_lock(&crew->lock);
    crew->work = work;
    crew->next_piece = crew->turn = 0;
    crew->rc = 0;
    crew->err = err;
    crew->n_calls++;
    if (work->n_pieces > 1)
        pthread_cond_broadcast(&crew->called);
    pieces_take(crew, 0);
    while (crew->n_at_work > 0)
        pthread_cond_wait(&crew->turned, &crew->lock);
    crew->work = NULL;
    int rc = crew->rc;
    pthread_mutex_unlock(&crew->lock);
    return rc;
}

void crew_close(struct crew *crew)
{
    if (!crew)
        return;
    pthread_mutex_lock(&crew->lock);
    crew->is_closed = true;
    pthread_cond_broadcast(&crew->called);
    pthread_mutex_unlock(&crew->lock);
    for (unsigned i = 1; i < crew->n_threads; i++) {
        pthread_join(crew->members[i].id, NULL);
        room_give(&crew->members[i]);
    }
    pthread_cond_destroy(&crew->turned);
    pthread_cond_destroy(&crew->called);
    pthread_mutex_destroy(&crew->lock);
    free(crew->members);
    free(crew);
}
