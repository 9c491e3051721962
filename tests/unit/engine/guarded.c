/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/engine/guarded.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "base/attr.h"
#include "base/xalloc.h"

enum {
    PENDING_MAX = 4096,
    DESCRIPTOR_BYTES = 256,
    PAGE = 4096
};

/* Addresses, of which only what is used takes memory. */
static const size_t arena_bytes = (size_t)1 << 32;

struct region {
    void *at;
    size_t bytes;
    struct region *next;
};

struct guarded {
    struct num_backend inner;
    struct guarded_opts opts;
    pthread_mutex_t lock;
    char *arena; /* regions lie in it one behind the other, anew once all are released */
    size_t arena_used;
    struct region *regions;
    uint64_t used_bytes;
};

/* A call that waits for its turn. */
struct pending {
    void (*run)(const struct num_backend *inner, const void *op);
    char op[DESCRIPTOR_BYTES];
};

static _Thread_local struct {
    struct pending calls[PENDING_MAX];
    size_t n;
} queue;

static struct guarded *guarded_of(const struct num_backend *be)
{
    return be->library;
}

static bool is_on_device(const struct guarded *guarded, const void *at)
{
    return (const char *)at >= guarded->arena && (const char *)at < guarded->arena + arena_bytes;
}

static void arena_protect(const struct guarded *guarded, int protection)
{
    if (guarded->arena_used > 0)
        ASSERT(mprotect(guarded->arena, guarded->arena_used, protection) == 0);
}

/* What the calling thread has asked for. */
static void flush(struct guarded *guarded)
{
    pthread_mutex_lock(&guarded->lock);
    arena_protect(guarded, PROT_READ | PROT_WRITE);
    for (size_t i = 0; i < queue.n; i++)
        queue.calls[i].run(&guarded->inner, queue.calls[i].op);
    queue.n = 0;
    arena_protect(guarded, PROT_NONE);
    pthread_mutex_unlock(&guarded->lock);
}

static void put_off(const struct num_backend *be,
                    void (*run)(const struct num_backend *inner, const void *op), const void *op,
                    size_t bytes)
{
    if (queue.n == PENDING_MAX)
        flush(guarded_of(be));
    ASSERT(bytes <= DESCRIPTOR_BYTES);
    queue.calls[queue.n].run = run;
    memcpy(queue.calls[queue.n++].op, op, bytes);
}

/* Every operation, and the pointers in its descriptor. */
#define AT(name, member) offsetof(struct num_##name, member)
#define OPERATIONS(X)                                                                             \
    X(gemm, AT(gemm, a), AT(gemm, b), AT(gemm, c))                                                \
    X(rows, AT(rows, from), AT(rows, from_ids), AT(rows, to), AT(rows, to_ids), AT(rows, factor)) \
    X(dots, AT(dots, a), AT(dots, b), AT(dots, a_ids), AT(dots, b_ids), AT(dots, out))            \
    X(drop, AT(drop, x))                                                                          \
    X(multiply, AT(multiply, a), AT(multiply, b), AT(multiply, y))                                \
    X(logistic, AT(logistic, score), AT(logistic, loss), AT(logistic, slope))                     \
    X(bce, AT(bce, begins), AT(bce, positives), AT(bce, score), AT(bce, slope), AT(bce, loss))    \
    X(adam, AT(adam, g), AT(adam, m), AT(adam, v), AT(adam, w))                                   \
    X(conv, AT(conv, x), AT(conv, weight), AT(conv, bias), AT(conv, scale), AT(conv, shift),      \
      AT(conv, y))                                                                                \
    X(conv_back, AT(conv_back, x), AT(conv_back, weight), AT(conv_back, scale), AT(conv_back, y), \
      AT(conv_back, dy), AT(conv_back, y_rows), AT(conv_back, d_weight), AT(conv_back, d_sum),    \
      AT(conv_back, dx))                                                                          \
    X(norm, AT(norm, x), AT(norm, mean), AT(norm, inv_std), AT(norm, weight), AT(norm, bias),     \
      AT(norm, y))                                                                                \
    X(norm_stats, AT(norm_stats, x), AT(norm_stats, mean), AT(norm_stats, var))                   \
    X(norm_merge, AT(norm_merge, counts), AT(norm_merge, means), AT(norm_merge, vars),            \
      AT(norm_merge, mean), AT(norm_merge, var), AT(norm_merge, inv_std))                         \
    X(norm_back, AT(norm_back, x), AT(norm_back, mean), AT(norm_back, inv_std),                   \
      AT(norm_back, weight), AT(norm_back, y), AT(norm_back, dy), AT(norm_back, mean_dz),         \
      AT(norm_back, mean_dz_xh), AT(norm_back, d_weight), AT(norm_back, d_bias),                  \
      AT(norm_back, dx))                                                                          \
    X(norm_back_merge, AT(norm_back_merge, sums_dz), AT(norm_back_merge, sums_dz_xh),             \
      AT(norm_back_merge, d_bias), AT(norm_back_merge, d_weight), AT(norm_back_merge, mean_dz),   \
      AT(norm_back_merge, mean_dz_xh))                                                            \
    X(conv_norm, AT(conv_norm, d_weight_sum), AT(conv_norm, d_sum), AT(conv_norm, weight),        \
      AT(conv_norm, bias), AT(conv_norm, mean), AT(conv_norm, inv_std),                           \
      AT(conv_norm, norm_weight), AT(conv_norm, d_weight), AT(conv_norm, d_bias),                 \
      AT(conv_norm, d_norm_weight), AT(conv_norm, d_norm_bias))                                   \
    X(add_where, AT(add_where, a), AT(add_where, b), AT(add_where, row_ids),                      \
      AT(add_where, col_ids), AT(add_where, y))                                                   \
    X(best, AT(best, x), AT(best, ids), AT(best, best), AT(best, best_ids))                       \
    X(round, AT(round, x))

/* A pointer to the host's memory would be followed here, and on no device. */
static void pointers_check(const struct guarded *guarded, const void *op, const size_t *offsets,
                           size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *pointer;
        memcpy(&pointer, (const char *)op + offsets[i], sizeof(pointer));
        ASSERT(!pointer || is_on_device(guarded, pointer));
    }
}

#define X(name, ...)                                                                      \
    static void name##_run(const struct num_backend *inner, const void *op)               \
    {                                                                                     \
        inner->name(inner, (const struct num_##name *)op);                                \
    }                                                                                     \
    static void guarded_##name(const struct num_backend *be, const struct num_##name *op) \
    {                                                                                     \
        static const size_t offsets[] = {__VA_ARGS__};                                    \
        pointers_check(guarded_of(be), op, offsets, countof(offsets));                    \
        put_off(be, name##_run, op, sizeof(*op));                                         \
    }
OPERATIONS(X)
#undef X

/* ---- memory ---- */

static int guarded_allocate(const struct num_backend *be, size_t bytes, void **out, struct err *err)
{
    struct guarded *guarded = guarded_of(be);
    struct region *region = xmalloc(sizeof(*region));
    int rc = 0;
    pthread_mutex_lock(&guarded->lock);
    if (guarded->opts.limit_bytes && guarded->used_bytes + bytes > guarded->opts.limit_bytes)
        rc = fail(err, ERR_UNAVAILABLE, "the played device has no %zu bytes left", bytes);
    if (rc == 0) {
        *region = (struct region){NULL, MAX(bytes, (size_t)1), guarded->regions};
        region->at = guarded->arena + guarded->arena_used;
        guarded->arena_used += (region->bytes + PAGE - 1) / PAGE * PAGE;
        ASSERT(guarded->arena_used <= arena_bytes);
        guarded->regions = region;
        guarded->used_bytes += region->bytes;
        *out = region->at;
    } else {
        free(region);
    }
    pthread_mutex_unlock(&guarded->lock);
    return rc;
}

static void guarded_release(const struct num_backend *be, void *at)
{
    struct guarded *guarded = guarded_of(be);
    if (!at)
        return;
    flush(guarded);
    pthread_mutex_lock(&guarded->lock);
    struct region **link = &guarded->regions;
    while (*link && (*link)->at != at)
        link = &(*link)->next;
    struct region *region = *link;
    ASSERT(region);
    *link = region->next;
    guarded->used_bytes -= region->bytes;
    ASSERT(madvise(region->at, region->bytes, MADV_DONTNEED) == 0);
    free(region);
    if (!guarded->regions)
        guarded->arena_used = 0;
    pthread_mutex_unlock(&guarded->lock);
}

static uint64_t guarded_memory_free(const struct num_backend *be)
{
    const struct guarded *guarded = guarded_of(be);
    return guarded->opts.told_bytes ? guarded->opts.told_bytes : 1 << 30;
}

struct transfer {
    void *to;
    const void *from;
    size_t bytes;
};

static void copy_run(const struct num_backend *inner, const void *op)
{
    const struct transfer *transfer = op;
    inner->copy(inner, transfer->to, transfer->from, transfer->bytes);
}

static void zero_run(const struct num_backend *inner, const void *op)
{
    const struct transfer *transfer = op;
    inner->fill_zero(inner, transfer->to, transfer->bytes);
}

/* The host's numbers were copied when they were given. */
static void upload_run(const struct num_backend *inner, const void *op)
{
    const struct transfer *transfer = op;
    inner->copy(inner, transfer->to, transfer->from, transfer->bytes);
    free((void *)(uintptr_t)transfer->from);
}

static void put_off_copy(const struct num_backend *be, void *to, const void *from, size_t bytes)
{
    const struct transfer transfer = {to, from, bytes};
    put_off(be, copy_run, &transfer, sizeof(transfer));
}

static void guarded_copy(const struct num_backend *be, void *to, const void *from, size_t bytes)
{
    ASSERT(is_on_device(guarded_of(be), to) && is_on_device(guarded_of(be), from));
    put_off_copy(be, to, from, bytes);
}

static void guarded_fill_zero(const struct num_backend *be, void *at, size_t bytes)
{
    const struct transfer transfer = {at, NULL, bytes};
    ASSERT(is_on_device(guarded_of(be), at));
    put_off(be, zero_run, &transfer, sizeof(transfer));
}

static void guarded_upload(const struct num_backend *be, void *to, const void *from, size_t bytes)
{
    const struct transfer transfer = {to, xmalloc(MAX(bytes, (size_t)1)), bytes};
    ASSERT(is_on_device(guarded_of(be), to) && !is_on_device(guarded_of(be), from));
    memcpy((void *)(uintptr_t)transfer.from, from, bytes);
    put_off(be, upload_run, &transfer, sizeof(transfer));
}

static int guarded_wait(const struct num_backend *be, struct err *err)
{
    (void)err;
    flush(guarded_of(be));
    return 0;
}

static int guarded_download(const struct num_backend *be, void *to, const void *from, size_t bytes,
                            struct err *err)
{
    (void)err;
    ASSERT(!is_on_device(guarded_of(be), to) && is_on_device(guarded_of(be), from));
    put_off_copy(be, to, from, bytes);
    flush(guarded_of(be));
    return 0;
}

static void guarded_close(struct num_backend *be)
{
    struct guarded *guarded = guarded_of(be);
    if (guarded->regions)
        BUG("%zu bytes of a device were not released", (size_t)guarded->used_bytes);
    num_close(&guarded->inner);
    ASSERT(munmap(guarded->arena, arena_bytes) == 0);
    pthread_mutex_destroy(&guarded->lock);
}

void guarded_open(struct num_backend *be, const struct num_backend *inner,
                  const struct guarded_opts *opts)
{
    struct guarded *guarded = xcalloc(1, sizeof(*guarded));
    guarded->inner = *inner;
    guarded->opts = *opts;
    pthread_mutex_init(&guarded->lock, NULL);
    guarded->arena =
        mmap(NULL, arena_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT(guarded->arena != MAP_FAILED);
    *be = (struct num_backend){.name = "guarded",
                               .description = "memory that only operations see",
                               .library = guarded,
                               .close = guarded_close,
                               .is_device = true,
                               .allocate = guarded_allocate,
                               .release = guarded_release,
                               .memory_free = guarded_memory_free,
                               .upload = guarded_upload,
                               .copy = guarded_copy,
                               .fill_zero = guarded_fill_zero,
                               .download = guarded_download,
                               .wait = guarded_wait,
#define X(name, ...) .name = guarded_##name,
                               OPERATIONS(X)
#undef X
    };
}
