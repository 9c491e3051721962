/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL, as far as lib/dist asks it. Sums go from the last rank to the first, since the order is NCCL's.
 */
#include "played_gpu.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "dist/half.h"

enum {
    OK = 0,
    INVALID_ARGUMENT = 4,
    INVALID_USAGE = 5,
    REMOTE_ERROR = 6,
    IN_PROGRESS = 7,
    RANKS_MOST = 8,
    SLOT_BYTES = 1 << 16,
    START_MS = 3, /* until the first collective is on its stream */
    TYPES_END = 10
};
static const size_t widths[TYPES_END] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

struct id {
    char text[128]; /* the path of the file, in the process of rank 0 */
};

/* The file. */
struct world {
    atomic_ulong n_arrived, n_failed;
    struct id uuids[RANKS_MOST];
    char slots[RANKS_MOST][SLOT_BYTES];
};

struct comm {
    struct world *world;
    int rank, size;
    struct id id;
    unsigned char uuid[16];
    atomic_int state, is_aborted;
    atomic_int n_tasks; /* on streams */
    unsigned long n_met;
    int n_collectives;
    double scalar; /* of the one reduction that may have one */
    bool has_scalar;
    pthread_t beginner, starter;
    bool has_starter;
    struct played_stream *stream;
};

static char last_error[200];

int ncclGetVersion(int *version)
{
    *version = (int)played_number("PLAYED_NCCL_VERSION", 22703);
    return OK;
}

const char *ncclGetErrorString(int error)
{
    return error == INVALID_USAGE  ? "invalid usage"
           : error == REMOTE_ERROR ? "remote process exited or there was a network error"
                                   : "played error";
}

const char *ncclGetLastError(struct comm *comm)
{
    (void)comm;
    return last_error;
}

/* The file has no name: it is found through the process, which keeps it open. */
int ncclGetUniqueId(struct id *id)
{
    int fd = memfd_create("played-nccl", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, sizeof(struct world)) != 0)
        return INVALID_USAGE;
    memset(id, 0, sizeof(*id));
    snprintf(id->text, sizeof(id->text), "/proc/%d/fd/%d", (int)getpid(), fd);
    return OK;
}

/* ---- meeting ---- */

/* Whether all have come; else this rank has given up. */
static bool meet(struct comm *comm)
{
    unsigned long all = ++comm->n_met * (unsigned long)comm->size;
    atomic_fetch_add(&comm->world->n_arrived, 1);
    while (atomic_load(&comm->world->n_arrived) < all) {
        if (atomic_load(&comm->is_aborted))
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
    return true;
}

static void *begin(void *arg)
{
    struct comm *comm = arg;
    struct world *world = comm->world;
    memcpy(world->uuids[comm->rank].text, comm->uuid, 16);
    if (!meet(comm))
        return NULL;
    for (int r = 0; r < comm->size; r++)
        if (r != comm->rank && memcmp(world->uuids[r].text, comm->uuid, 16) == 0) {
            snprintf(last_error, sizeof(last_error),
                     "Duplicate GPU detected : rank %d and rank %d both on CUDA device 1b000",
                     comm->rank, r);
            atomic_store(&comm->state, INVALID_USAGE);
            return NULL;
        }
    atomic_store(&comm->state, OK);
    return NULL;
}

/* As version 2.18 has it. */
struct config {
    size_t bytes;
    unsigned magic, version;
    int is_blocking, unset[3];
    const char *network;
    int unset_too;
};

int ncclCommInitRankConfig(struct comm **out, int size, struct id id, int rank,
                           const struct config *config)
{
    struct comm *comm = calloc(1, sizeof(*comm));
    int fd = open(id.text, O_RDWR | O_CLOEXEC);
    if (config->bytes != sizeof(*config) || config->magic != 0xcafebeef || config->is_blocking ||
        config->unset[0] != INT32_MIN || config->unset_too != INT32_MIN)
        return INVALID_ARGUMENT;
    if (!played_has_context() || fd < 0 || size > RANKS_MOST || rank >= size)
        return INVALID_USAGE;
    comm->world = mmap(NULL, sizeof(struct world), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (comm->world == MAP_FAILED)
        return INVALID_USAGE;
    comm->size = size;
    comm->rank = rank;
    cuDeviceGetUuid_v2(comm->uuid, 0);
    atomic_store(&comm->state, IN_PROGRESS);
    if (pthread_create(&comm->beginner, NULL, begin, comm) != 0)
        abort();
    *out = comm;
    return IN_PROGRESS;
}

int ncclCommGetAsyncError(struct comm *comm, int *error)
{
    *error = atomic_load(&comm->state);
    return OK;
}

int ncclCommAbort(struct comm *comm)
{
    atomic_store(&comm->is_aborted, 1);
    pthread_join(comm->beginner, NULL);
    if (comm->has_starter)
        pthread_join(comm->starter, NULL);
    while (atomic_load(&comm->n_tasks) > 0)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    munmap(comm->world, sizeof(struct world));
    free(comm);
    return OK;
}

/* ---- values ---- */

enum op {
    SUM = 0,
    MAX = 2,
    MIN = 3,
    MEAN = 4,
    SCALED = 5 /* the first that is not built in */
};

static double number_get(const char *at, int type)
{
    union {
        int8_t i8;
        uint8_t u8;
        int32_t i32;
        int64_t i64;
        uint16_t half;
        float f;
        double d;
    } value;
    memcpy(&value, at, widths[type]);
    switch (type) {
    case 0:
        return value.i8;
    case 1:
        return value.u8;
    case 2:
        return value.i32;
    case 4:
        return (double)value.i64;
    case 6:
        return (double)md_from_float16(value.half);
    case 7:
        return (double)value.f;
    case 9:
        return (double)md_from_bfloat16(value.half);
    default:
        return value.d;
    }
}

static void number_put(char *at, int type, double number)
{
    int64_t whole = type < 6 ? (int64_t)number : 0; /* little endian: the low bytes */
    float single = (float)number;
    uint16_t half = type == 6 ? md_to_float16(single) : md_to_bfloat16(single);
    const void *from = type < 6    ? (const void *)&whole
                       : type == 7 ? (const void *)&single
                       : type == 8 ? (const void *)&number
                                   : (const void *)&half;
    memcpy(at, from, widths[type]);
}

/* ---- collectives, on the thread of their stream ---- */

enum kind {
    ALL_REDUCE,
    BROADCAST,
    REDUCE_SCATTER,
    ALL_GATHER
};

struct work {
    struct comm *comm;
    enum kind kind;
    const char *in;
    char *out;
    size_t count;
    int type, op, root;
    double scalar;
    bool is_stuck;
};

static void combine(const struct work *work, char *out, size_t count)
{
    size_t width = widths[work->type];
    for (size_t i = 0; i < count; i++) {
        double sum =
            number_get(work->comm->world->slots[work->comm->size - 1] + i * width, work->type);
        for (int r = work->comm->size - 1; r-- > 0;) {
            double other = number_get(work->comm->world->slots[r] + i * width, work->type);
            if (work->op == MIN)
                sum = other < sum ? other : sum;
            else if (work->op == MAX)
                sum = other > sum ? other : sum;
            else
                sum += other;
        }
        number_put(out + i * width, work->type, work->op == MEAN ? sum / work->comm->size : sum);
    }
}

/* A piece of each rank's values into its slot, and from all slots. `part` is that of a scatter. */
static bool piece_move(const struct work *work, size_t begin, size_t count, int part)
{
    struct comm *comm = work->comm;
    size_t width = widths[work->type], bytes = count * width, each = work->count * width;
    size_t at = begin * width + (work->kind == REDUCE_SCATTER ? (size_t)part * each : 0);
    char *slot = comm->world->slots[comm->rank];
    memcpy(slot, (char *)played_reach(work->in) + at, bytes);
    for (size_t i = 0; work->op == SCALED && i < count; i++)
        number_put(slot + i * width, work->type,
                   number_get(slot + i * width, work->type) * work->scalar);
    if (!meet(comm))
        return false;
    char *out = (char *)played_reach(work->out) + begin * width;
    if (work->kind == BROADCAST)
        memcpy(out, comm->world->slots[work->root], bytes);
    else if (work->kind == ALL_REDUCE || (work->kind == REDUCE_SCATTER && part == comm->rank))
        combine(work, out, count);
    for (int r = 0; work->kind == ALL_GATHER && r < comm->size; r++)
        memcpy(out + (size_t)r * each, comm->world->slots[r], bytes);
    return meet(comm);
}

static void collective_do(void *arg)
{
    struct work *work = arg;
    int n_parts = work->kind == REDUCE_SCATTER ? work->comm->size : 1;
    size_t most = SLOT_BYTES / widths[work->type];
    while (work->is_stuck && !atomic_load(&work->comm->is_aborted))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    bool goes_on = !work->is_stuck;
    for (int i = 0; goes_on && i < n_parts; i++)
        for (size_t begin = 0; goes_on && begin < work->count; begin += most) {
            size_t left = work->count - begin;
            goes_on = piece_move(work, begin, left < most ? left : most, i);
        }
    atomic_fetch_sub(&work->comm->n_tasks, 1);
}

static void *start_late(void *arg)
{
    struct work *work = arg;
    struct comm *comm = work->comm;
    nanosleep(&(struct timespec){.tv_nsec = START_MS * 1000000L}, NULL);
    played_put(comm->stream, collective_do, work);
    atomic_store(&comm->state, OK);
    return NULL;
}

/* In place is the own part, says NCCL: of a reduce-scatter's in, and of an all-gather's out. */
static bool is_in_wrong_place(const struct work *work)
{
    size_t bytes = work->count * widths[work->type], rank = (size_t)work->comm->rank;
    size_t whole = bytes * (size_t)work->comm->size;
    if (work->kind == REDUCE_SCATTER)
        return work->out < work->in + whole && work->in < work->out + bytes &&
               work->out != work->in + rank * bytes;
    return work->kind == ALL_GATHER && work->in < work->out + whole &&
           work->out < work->in + bytes && work->in != work->out + rank * bytes;
}

/* The first one is put on its stream by a thread, and is only in progress until then. */
static int collective(struct work from, struct played_stream *stream)
{
    struct comm *comm = from.comm;
    if (!played_has_context() || atomic_load(&comm->state) != OK)
        return INVALID_USAGE;
    bool is_whole = from.type < 6;
    if ((unsigned)from.type >= TYPES_END || (is_whole && from.op >= MEAN) || from.op > SCALED ||
        (from.op == SCALED && !comm->has_scalar) || is_in_wrong_place(&from))
        return INVALID_ARGUMENT;
    struct work *work = malloc(sizeof(*work));
    int number = ++comm->n_collectives;
    long stuck_at = played_number("PLAYED_NCCL_STUCK", 0);
    *work = from;
    work->scalar = comm->scalar;
    work->is_stuck = stuck_at > 0 && number >= stuck_at;
    atomic_fetch_add(&comm->n_tasks, 1);
    comm->stream = stream;
    if (number == played_number("PLAYED_NCCL_FAILS", 0)) {
        work->is_stuck = true;
        snprintf(last_error, sizeof(last_error), "NET/IB : got completion with error 12\n");
        atomic_store(&comm->state, REMOTE_ERROR);
    }
    if (number > 1) {
        played_put(stream, collective_do, work);
        return OK;
    }
    atomic_store(&comm->state, IN_PROGRESS);
    if (pthread_create(&comm->starter, NULL, start_late, work) != 0)
        abort();
    comm->has_starter = true;
    return IN_PROGRESS;
}

int ncclRedOpCreatePreMulSum(int *op, void *scalar, int type, int residence, struct comm *comm)
{
    if (residence != 1 || comm->has_scalar)
        return INVALID_ARGUMENT;
    comm->scalar = number_get(scalar, type);
    comm->has_scalar = true;
    *op = SCALED;
    return OK;
}

int ncclRedOpDestroy(int op, struct comm *comm)
{
    comm->has_scalar = false;
    return op == SCALED ? OK : INVALID_ARGUMENT;
}

int ncclAllReduce(const void *in, void *out, size_t count, int type, int op, struct comm *comm,
                  struct played_stream *stream)
{
    return collective((struct work){.comm = comm,
                                    .kind = ALL_REDUCE,
                                    .in = in,
                                    .out = out,
                                    .count = count,
                                    .type = type,
                                    .op = op},
                      stream);
}

int ncclBroadcast(const void *in, void *out, size_t count, int type, int root, struct comm *comm,
                  struct played_stream *stream)
{
    return collective((struct work){.comm = comm,
                                    .kind = BROADCAST,
                                    .in = in,
                                    .out = out,
                                    .count = count,
                                    .type = type,
                                    .root = root},
                      stream);
}

int ncclReduceScatter(const void *in, void *out, size_t count, int type, int op, struct comm *comm,
                      struct played_stream *stream)
{
    return collective((struct work){.comm = comm,
                                    .kind = REDUCE_SCATTER,
                                    .in = in,
                                    .out = out,
                                    .count = count,
                                    .type = type,
                                    .op = op},
                      stream);
}

int ncclAllGather(const void *in, void *out, size_t count, int type, struct comm *comm,
                  struct played_stream *stream)
{
    return collective(
        (struct work){
            .comm = comm, .kind = ALL_GATHER, .in = in, .out = out, .count = count, .type = type},
        stream);
}
