/* SPDX-License-Identifier: Apache-2.0 */
#include "op_times.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/attr.h"

/* clang-format off */
#define OPERATIONS(X)                                                                \
    X(gemm) X(rows) X(dots) X(drop) X(multiply) X(logistic) X(bce) X(adam) X(conv) X(conv_back) \
    X(conv_norm) X(add_where) X(norm) X(norm_stats) X(norm_merge) X(norm_back)          \
    X(norm_back_merge) X(best) X(round)
/* clang-format on */

enum timed {
#define X(name) TIMED_##name,
    OPERATIONS(X)
#undef X
    TIMED_UPLOAD,
    TIMED_DOWNLOAD,
    TIMED_COPY,
    N_TIMED
};

static const char *const names[] = {
#define X(name) #name,
    OPERATIONS(X)
#undef X
        "upload",
    "download", "copy, fill_zero"};

static struct {
    struct num_backend inner;
    bool is_on;
    double begun_s, seconds[N_TIMED];
    size_t n_calls[N_TIMED];
} times;

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void begin(void)
{
    times.begun_s = now_s();
}

/* The error is kept by the backend, for the next download. */
static void end(enum timed what)
{
    struct err err;
    if (!times.is_on || times.inner.wait(&times.inner, &err) != 0)
        return;
    times.seconds[what] += now_s() - times.begun_s;
    times.n_calls[what]++;
}

#define X(name)                                                                         \
    static void timed_##name(const struct num_backend *be, const struct num_##name *op) \
    {                                                                                   \
        (void)be;                                                                       \
        begin();                                                                        \
        times.inner.name(&times.inner, op);                                             \
        end(TIMED_##name);                                                              \
    }
OPERATIONS(X)
#undef X

static void timed_upload(const struct num_backend *be, void *to, const void *from, size_t bytes)
{
    (void)be;
    begin();
    times.inner.upload(&times.inner, to, from, bytes);
    end(TIMED_UPLOAD);
}

static int timed_download(const struct num_backend *be, void *to, const void *from, size_t bytes,
                          struct err *err)
{
    (void)be;
    begin();
    int rc = times.inner.download(&times.inner, to, from, bytes, err);
    end(TIMED_DOWNLOAD);
    return rc;
}

static void timed_copy(const struct num_backend *be, void *to, const void *from, size_t bytes)
{
    (void)be;
    begin();
    times.inner.copy(&times.inner, to, from, bytes);
    end(TIMED_COPY);
}

static void timed_fill_zero(const struct num_backend *be, void *at, size_t bytes)
{
    (void)be;
    begin();
    times.inner.fill_zero(&times.inner, at, bytes);
    end(TIMED_COPY);
}

void op_times_open(struct num_backend *be, const struct num_backend *inner)
{
    times.inner = *inner;
    *be = *inner;
#define X(name) be->name = timed_##name;
    OPERATIONS(X)
#undef X
    be->upload = timed_upload;
    be->download = timed_download;
    be->copy = timed_copy;
    be->fill_zero = timed_fill_zero;
}

void op_times_begin(void)
{
    memset(times.seconds, 0, sizeof(times.seconds));
    memset(times.n_calls, 0, sizeof(times.n_calls));
    times.is_on = true;
}

void op_times_end(double seconds, double n)
{
    double host_s = seconds;
    times.is_on = false;
    for (unsigned i = 0; i < N_TIMED; i++) {
        host_s -= times.seconds[i];
        if (times.n_calls[i] > 0)
            printf("| - %s | %.3f ms | %.1f calls |\n", names[i], times.seconds[i] * 1e3 / n,
                   (double)times.n_calls[i] / n);
    }
    printf("| - the host | %.3f ms | of %.3f ms, each operation waited for |\n", host_s * 1e3 / n,
           seconds * 1e3 / n);
    fflush(stdout);
}
