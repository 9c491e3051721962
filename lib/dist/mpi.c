/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks on several machines, through the MPI library that is installed there: loaded when it is
 * needed, so that nothing else depends on it. MPI only carries bytes. Values are combined in the
 * same order as in shared memory, so results have the same bits, and types that MPI does not know
 * can be used.
 *
 * Before an operation, each rank sends every other a signature of its call, which shows
 * disagreement and missing ranks. An error is a separate message, for which each rank looks while
 * it waits.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mpi_library.h"
#include "reduce.h"

enum {
    PIECE_BYTES = 1 << 20, /* of each rank's part in an exchange */
    TAG_SIGNATURE = 1,
    TAG_ERROR = 2,
    TAG_ASK = 3, /* asks whether a rank is there; has the asking rank's number */
    TAG_HERE = 4,
    THREAD_SERIALIZED = 2, /* calls from several threads, one at a time */
    ANY_SOURCE = -1,
    YIELD_NS = 1000000, /* how long to yield the CPU before sleeping */
    NAP_NS = 50000,
    FAREWELL_NS = 200000000,
    ROLL_CALL_NS = 1000000000
};

struct signature {
    struct muster_dist_call what; /* without addresses */
    uint64_t seq;
    uint64_t memory; /* enum md_memory; without padding behind it: bytes are compared */
};

struct told {
    int code;
    char text[MD_TEXT_BYTES];
};

struct mpi {
    struct mpi_functions call;
    mpi_handle comm, byte;
    pthread_mutex_t lock; /* one call at a time */
    bool was_begun_here, has_failed;
    uint64_t deadline_ns;
    struct signature *signatures; /* the newest signature of each rank, and room for the next
                                   * ones */
    /* Five for each rank: to receive, to send, to send an error, to ask, to answer. */
    mpi_handle *requests;
    char *send, *receive; /* PIECE_BYTES for each rank */
    const void **sources;
    struct told told; /* the error that is being sent */
    uint32_t rank;
};

/* ---- waiting ---- */

/* Returns true if an error of another rank has come. Called with the lock. */
static bool told_receive(struct mpi *mpi, struct told *told)
{
    int has_come = 0;
    mpi->call.Iprobe(ANY_SOURCE, TAG_ERROR, mpi->comm, &has_come, NULL);
    if (!has_come)
        return false;
    mpi->call.Recv(told, sizeof(*told), mpi->byte, ANY_SOURCE, TAG_ERROR, mpi->comm, NULL);
    told->text[sizeof(told->text) - 1] = '\0';
    mpi->has_failed = true;
    return true;
}

/* Returns true if a rank has asked or answered; *from is its number. Called with the lock. */
static bool word_receive(struct mpi *mpi, int tag, uint32_t *from)
{
    int has_come = 0;
    mpi->call.Iprobe(ANY_SOURCE, tag, mpi->comm, &has_come, NULL);
    if (has_come)
        mpi->call.Recv(from, sizeof(*from), mpi->byte, ANY_SOURCE, tag, mpi->comm, NULL);
    return has_come;
}

/* Called with the lock. */
static void word_send(struct mpi *mpi, uint32_t to, int tag, mpi_handle *request)
{
    mpi->call.Isend(&mpi->rank, sizeof(mpi->rank), mpi->byte, (int)to, tag, mpi->comm, request);
}

/* Answers the ranks that have asked. Called with the lock. */
static void asked_answer(struct muster_dist *dist)
{
    struct mpi *mpi = dist->impl;
    uint32_t from;
    if (word_receive(mpi, TAG_ASK, &from) && from < dist->place.size)
        word_send(mpi, from, TAG_HERE, &mpi->requests[4 * (size_t)dist->place.size + from]);
}

/* Returns 0, or the error that another rank has told. */
static int told_look(struct muster_dist *dist)
{
    struct mpi *mpi = dist->impl;
    struct told told;
    pthread_mutex_lock(&mpi->lock);
    bool is_told = told_receive(mpi, &told);
    if (!is_told)
        asked_answer(dist);
    pthread_mutex_unlock(&mpi->lock);
    return is_told ? md_adopt(dist, told.code < 0 ? told.code : MUSTER_DIST_EFAIL, told.text) : 0;
}

/* Returns the state of one request: 1 done, 0 not yet, negative: an error. */
static int request_look(struct muster_dist *dist, mpi_handle *request)
{
    struct mpi *mpi = dist->impl;
    int is_done = 0;
    pthread_mutex_lock(&mpi->lock);
    mpi->call.Test(request, &is_done, NULL);
    pthread_mutex_unlock(&mpi->lock);
    return is_done ? 1 : told_look(dist);
}

/*
 * Returns 0, an error that a rank has told, or 1 if the time is over. MPI makes progress only when
 * it is called.
 */
static int request_wait(struct muster_dist *dist, mpi_handle *request)
{
    const struct mpi *mpi = dist->impl;
    uint64_t begin_ns = md_now_ns();
    int rc;
    while ((rc = request_look(dist, request)) == 0) {
        uint64_t now_ns = md_now_ns();
        if (now_ns > mpi->deadline_ns)
            return 1;
        if (now_ns - begin_ns < YIELD_NS)
            sched_yield();
        else
            nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
    return rc < 0 ? rc : 0;
}

/* ---- what ranks came for ---- */

static void signature_format(const struct signature *signature, char *out, size_t cap)
{
    const struct md_call call = {.what = signature->what,
                                 .seq = signature->seq,
                                 .memory = (enum md_memory)signature->memory};
    if (signature->seq == 0)
        snprintf(out, cap, "none");
    else
        md_call_format(&call, out, cap);
}

/*
 * Called when the time is over. Asks all ranks, and a rank that waits like this one answers. It may
 * wait for another rank in the operation before, and will soon have an error of its own. *missing:
 * the first rank that does not answer, if there is one. An error that another rank tells meanwhile
 * counts for all.
 */
static int roll_call(struct muster_dist *dist, uint32_t *missing)
{
    struct mpi *mpi = dist->impl;
    uint32_t size = dist->place.size, n_here = 1, from;
    uint64_t end_ns = md_now_ns() + ROLL_CALL_NS;
    bool is_here[MD_RANKS_MAX] = {false}, is_told = false;
    struct told told;
    is_here[mpi->rank] = true;
    pthread_mutex_lock(&mpi->lock);
    for (uint32_t r = 0; r < size; r++)
        if (r != mpi->rank)
            word_send(mpi, r, TAG_ASK, &mpi->requests[3 * (size_t)size + r]);
    while (!is_told && n_here < size && md_now_ns() < end_ns) {
        if (word_receive(mpi, TAG_HERE, &from) && from < size && !is_here[from]) {
            is_here[from] = true;
            n_here++;
        }
        asked_answer(dist);
        is_told = told_receive(mpi, &told);
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
    pthread_mutex_unlock(&mpi->lock);
    if (is_told)
        return md_adopt(dist, told.code < 0 ? told.code : MUSTER_DIST_EFAIL, told.text);
    for (uint32_t r = size; r-- > 0;)
        *missing = is_here[r] ? *missing : r;
    return 0;
}

static int late_tell(struct muster_dist *dist, uint32_t rank, const struct md_call *call)
{
    const struct mpi *mpi = dist->impl;
    char own[120], last[120];
    int rc = roll_call(dist, &rank);
    if (rc != 0)
        return rc;
    md_call_format(call, own, sizeof(own));
    signature_format(&mpi->signatures[rank], last, sizeof(last));
    return md_fail(dist, MUSTER_DIST_ETIMEOUT,
                   "rank %u has not come to %s within %.1f s; the last that it came to was %s",
                   rank, own, (double)dist->timeout_ms / 1e3, last);
}

static int signatures_compare(struct muster_dist *dist)
{
    const struct mpi *mpi = dist->impl;
    const struct signature *first = &mpi->signatures[0];
    char a[120], b[120];
    for (uint32_t r = 1; r < dist->place.size; r++) {
        if (memcmp(first, &mpi->signatures[r], sizeof(*first)) == 0)
            continue;
        signature_format(first, a, sizeof(a));
        signature_format(&mpi->signatures[r], b, sizeof(b));
        return md_fail(dist, MUSTER_DIST_EMISMATCH,
                       "ranks disagree: rank 0 came to %s, rank %u to %s", a, r, b);
    }
    return 0;
}

/*
 * Sends this rank's signature to every other rank. When it returns, the signatures of all ranks
 * have come.
 */
static int signatures_exchange(struct muster_dist *dist, const struct md_call *call)
{
    struct mpi *mpi = dist->impl;
    uint32_t size = dist->place.size, rank = dist->place.rank;
    struct signature *own = &mpi->signatures[rank], *coming = mpi->signatures + size;
    int rc = 0;
    memset(own, 0, sizeof(*own)); /* padding too, since it is compared */
    own->what.kind = call->what.kind;
    own->what.type = call->what.type;
    own->what.op = call->what.op;
    own->what.root = call->what.root;
    own->what.count = call->what.count;
    own->seq = call->seq;
    own->memory = call->memory;
    pthread_mutex_lock(&mpi->lock);
    for (uint32_t r = 0; r < size; r++) {
        if (r == rank)
            continue;
        mpi->call.Irecv(&coming[r], sizeof(*own), mpi->byte, (int)r, TAG_SIGNATURE, mpi->comm,
                        &mpi->requests[r]);
        mpi->call.Isend(own, sizeof(*own), mpi->byte, (int)r, TAG_SIGNATURE, mpi->comm,
                        &mpi->requests[size + r]);
    }
    pthread_mutex_unlock(&mpi->lock);
    for (uint32_t r = 0; rc == 0 && r < size; r++) {
        if (r == rank)
            continue;
        rc = request_wait(dist, &mpi->requests[r]);
        rc = rc == 1 ? late_tell(dist, r, call) : rc;
        if (rc == 0)
            mpi->signatures[r] = coming[r];
    }
    for (uint32_t r = 0; rc == 0 && r < size; r++)
        if (r != rank && (rc = request_wait(dist, &mpi->requests[size + r])) == 1)
            rc = late_tell(dist, r, call);
    return rc ? rc : signatures_compare(dist);
}

/* ---- exchanges ---- */

enum exchange {
    TO_ALL,  /* `send` of each rank to all, in their order */
    PART_OF, /* part r of `send` to rank r */
    FROM_ROOT
};

/* For an operation that does not end although all ranks have come: says which rank is stuck. */
static int stuck_tell(struct muster_dist *dist, const struct md_call *call)
{
    char own[120];
    uint32_t none = dist->place.size, missing = none;
    int rc = roll_call(dist, &missing);
    if (rc != 0)
        return rc;
    md_call_format(call, own, sizeof(own));
    if (missing != none)
        return md_fail(dist, MUSTER_DIST_ETIMEOUT,
                       "rank %u does not answer in %s, to which it came: the operation did not end "
                       "within %.1f s",
                       missing, own, (double)dist->timeout_ms / 1e3);
    return md_fail(dist, MUSTER_DIST_ETIMEOUT,
                   "rank %u: %s did not end within %.1f s, though all ranks have come to it",
                   dist->place.rank, own, (double)dist->timeout_ms / 1e3);
}

static int exchange_do(struct muster_dist *dist, const struct md_call *call, enum exchange kind,
                       void *at, size_t bytes)
{
    struct mpi *mpi = dist->impl;
    mpi_handle request;
    int n = (int)bytes;
    pthread_mutex_lock(&mpi->lock);
    if (kind == TO_ALL)
        mpi->call.Iallgather(at, n, mpi->byte, mpi->receive, n, mpi->byte, mpi->comm, &request);
    else if (kind == PART_OF)
        mpi->call.Ialltoall(at, n, mpi->byte, mpi->receive, n, mpi->byte, mpi->comm, &request);
    else
        mpi->call.Ibcast(at, n, mpi->byte, (int)call->what.root, mpi->comm, &request);
    pthread_mutex_unlock(&mpi->lock);
    int rc = request_wait(dist, &request);
    return rc == 1 ? stuck_tell(dist, call) : rc;
}

/* Combines the received parts, `stride` bytes for each rank. */
static void parts_reduce(struct muster_dist *dist, const struct md_call *call, void *out,
                         size_t stride, size_t count)
{
    struct mpi *mpi = dist->impl;
    for (uint32_t r = 0; r < dist->place.size; r++)
        mpi->sources[r] = mpi->receive + r * stride;
    md_reduce(call, out, mpi->sources, dist->place.size, count);
}

static int all_reduce(struct muster_dist *dist, const struct md_call *call)
{
    struct mpi *mpi = dist->impl;
    size_t width = muster_type_bytes(call->what.type), size = dist->place.size;
    size_t most = PIECE_BYTES / width * size;
    int rc = 0;
    for (size_t begin = 0; rc == 0 && begin < call->what.count; begin += most) {
        size_t left = call->what.count - begin, count = left < most ? left : most;
        size_t each = (count + size - 1) / size, bytes = each * width;
        memset(mpi->send + count * width, 0, (each * size - count) * width);
        memcpy(mpi->send, (const char *)call->what.in + begin * width, count * width);
        rc = exchange_do(dist, call, PART_OF, mpi->send, bytes);
        if (rc == 0) {
            parts_reduce(dist, call, mpi->send, bytes, each);
            rc = exchange_do(dist, call, TO_ALL, mpi->send, bytes);
        }
        if (rc == 0)
            memcpy((char *)call->what.out + begin * width, mpi->receive, count * width);
    }
    return rc;
}

static int reduce_scatter(struct muster_dist *dist, const struct md_call *call)
{
    struct mpi *mpi = dist->impl;
    size_t width = muster_type_bytes(call->what.type), most = PIECE_BYTES / width;
    int rc = 0;
    for (size_t begin = 0; rc == 0 && begin < call->what.count; begin += most) {
        size_t left = call->what.count - begin, count = left < most ? left : most;
        for (size_t r = 0; r < dist->place.size; r++)
            memcpy(mpi->send + r * count * width,
                   (const char *)call->what.in + (r * call->what.count + begin) * width,
                   count * width);
        rc = exchange_do(dist, call, PART_OF, mpi->send, count * width);
        if (rc == 0)
            parts_reduce(dist, call, (char *)call->what.out + begin * width, count * width, count);
    }
    return rc;
}

static int all_gather(struct muster_dist *dist, const struct md_call *call)
{
    struct mpi *mpi = dist->impl;
    size_t bytes = call->what.count * muster_type_bytes(call->what.type);
    int rc = 0;
    for (size_t begin = 0; rc == 0 && begin < bytes; begin += PIECE_BYTES) {
        size_t n = bytes - begin < PIECE_BYTES ? bytes - begin : PIECE_BYTES;
        memcpy(mpi->send, (const char *)call->what.in + begin, n);
        rc = exchange_do(dist, call, TO_ALL, mpi->send, n);
        for (size_t r = 0; rc == 0 && r < dist->place.size; r++)
            memcpy((char *)call->what.out + r * bytes + begin, mpi->receive + r * n, n);
    }
    return rc;
}

static int broadcast(struct muster_dist *dist, const struct md_call *call)
{
    size_t bytes = call->what.count * muster_type_bytes(call->what.type);
    size_t most = (size_t)PIECE_BYTES * 16;
    int rc = 0;
    if (dist->place.rank == call->what.root && call->what.in != call->what.out)
        memcpy(call->what.out, call->what.in, bytes);
    for (size_t begin = 0; rc == 0 && begin < bytes; begin += most)
        rc = exchange_do(dist, call, FROM_ROOT, (char *)call->what.out + begin,
                         bytes - begin < most ? bytes - begin : most);
    return rc;
}

static int mpi_run(struct muster_dist *dist, const struct md_call *call)
{
    static int (*const runs[])(struct muster_dist *,
                               const struct md_call *) = {[MUSTER_ALL_REDUCE] = all_reduce,
                                                          [MUSTER_BROADCAST] = broadcast,
                                                          [MUSTER_REDUCE_SCATTER] = reduce_scatter,
                                                          [MUSTER_ALL_GATHER] = all_gather};
    struct mpi *mpi = dist->impl;
    mpi->deadline_ns = md_now_ns() + dist->timeout_ms * 1000000;
    int rc = signatures_exchange(dist, call);
    if (rc != 0 || call->what.kind == MUSTER_BARRIER || call->memory != MD_HOST)
        return rc;
    return runs[call->what.kind](dist, call);
}

/* mpirun notices a rank that is gone, and ends the others. */
static int mpi_look(struct muster_dist *dist, const struct md_call *call)
{
    (void)call;
    return told_look(dist);
}

/*
 * Tells all ranks of an error. The messages may never be received; they get a while to leave,
 * because the process may end next.
 */
static void mpi_fail(struct muster_dist *dist, int *code, char *text)
{
    struct mpi *mpi = dist->impl;
    uint32_t size = dist->place.size;
    mpi_handle *requests = mpi->requests + 2 * (size_t)size;
    if (!mpi->comm || mpi->has_failed)
        return;
    mpi->told.code = *code;
    memcpy(mpi->told.text, text, sizeof(mpi->told.text));
    pthread_mutex_lock(&mpi->lock);
    mpi->has_failed = true;
    for (uint32_t r = 0; r < size; r++)
        if (r != dist->place.rank)
            mpi->call.Isend(&mpi->told, sizeof(mpi->told), mpi->byte, (int)r, TAG_ERROR, mpi->comm,
                            &requests[r]);
    uint64_t end_ns = md_now_ns() + FAREWELL_NS;
    for (uint32_t r = 0; r < size; r++)
        for (int is_sent = r == dist->place.rank; !is_sent && md_now_ns() < end_ns;)
            mpi->call.Test(&requests[r], &is_sent, NULL);
    pthread_mutex_unlock(&mpi->lock);
}

/* ---- begin and end ---- */

static int mpi_begin(struct muster_dist *dist, mpi_handle world)
{
    struct mpi *mpi = dist->impl;
    int is_begun = 0, is_over = 0, level = 0, rank = 0, size = 1;
    mpi->call.Initialized(&is_begun);
    mpi->call.Finalized(&is_over);
    if (is_over)
        return md_fail(dist, MUSTER_DIST_EUSE,
                       "rank %u: MPI has been ended in this process, and cannot begin again",
                       dist->place.rank);
    if (is_begun) {
        mpi->call.Query_thread(&level);
    } else {
        mpi->was_begun_here = true;
        mpi->call.Init_thread(NULL, NULL, THREAD_SERIALIZED, &level);
    }
    mpi->call.Comm_rank(world, &rank);
    mpi->call.Comm_size(world, &size);
    if ((uint32_t)size != dist->place.size || (uint32_t)rank != dist->place.rank)
        return md_fail(dist, MUSTER_DIST_EENV,
                       "rank %u of %u is rank %d of %d for MPI: start the ranks with Open MPI's "
                       "mpirun, or with srun --mpi=pmix",
                       dist->place.rank, dist->place.size, rank, size);
    if (level < THREAD_SERIALIZED)
        return md_fail(dist, MUSTER_DIST_EENV,
                       "rank %u: MPI was begun for one thread: MPI_THREAD_SERIALIZED is needed",
                       dist->place.rank);
    mpi->call.Comm_dup(world, &mpi->comm);
    return 0;
}

static int mpi_open(struct muster_dist *dist)
{
    struct mpi *mpi = calloc(1, sizeof(*mpi));
    uint32_t size = dist->place.size;
    if (!mpi)
        return md_fail(dist, MUSTER_DIST_ENOMEM, "rank %u: no memory", dist->place.rank);
    pthread_mutex_init(&mpi->lock, NULL);
    dist->impl = mpi;
    mpi->rank = dist->place.rank;
    mpi->signatures = calloc(2 * (size_t)size, sizeof(*mpi->signatures));
    mpi->requests = calloc(5 * (size_t)size, sizeof(mpi_handle));
    mpi->sources = calloc(size, sizeof(*mpi->sources));
    mpi->send = malloc((size_t)PIECE_BYTES * size);
    mpi->receive = malloc((size_t)PIECE_BYTES * size);
    if (!mpi->signatures || !mpi->requests || !mpi->sources || !mpi->send || !mpi->receive)
        return md_fail(dist, MUSTER_DIST_ENOMEM, "rank %u: no memory for %u ranks",
                       dist->place.rank, size);
    mpi_handle world;
    int rc = md_mpi_load(dist, &mpi->call, &world, &mpi->byte);
    return rc ? rc : mpi_begin(dist, world);
}

/*
 * The library stays loaded, since it has threads and handlers. After an error MPI is not finalised,
 * since that would wait for the other ranks, and memory that MPI may still use is not freed.
 */
static void mpi_close(struct muster_dist *dist)
{
    struct mpi *mpi = dist->impl;
    if (!mpi || !md_is_ours(dist) || atomic_load(&dist->code) != 0)
        return;
    if (mpi->was_begun_here)
        mpi->call.Finalize();
    pthread_mutex_destroy(&mpi->lock);
    free(mpi->signatures);
    free(mpi->requests);
    free(mpi->sources);
    free(mpi->send);
    free(mpi->receive);
    free(mpi);
    dist->impl = NULL;
}

const struct md_backend_ops md_mpi_ops = {
    .name = "mpi",
    .open = mpi_open,
    .close = mpi_close,
    .run = mpi_run,
    .look = mpi_look,
    .fail = mpi_fail,
};
