/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/xalloc.h"
#include "num/backend_impl.h"

static const struct {
    const char *name;
    int (*open)(struct num_backend *be, struct err *err);
} backends[] = {
#define X(name) {#name, num_open_##name},
    NUM_BACKENDS(X)
#undef X
};

int num_open_any(struct num_backend *be, const char *name, struct err *err)
{
    int rc = fail(err, ERR_USAGE, "there is no backend '%s': blas, ref, cuda", name ? name : "");
    for (size_t i = 0; i < countof(backends); i++) {
        if (name && strcmp(name, backends[i].name) != 0)
            continue;
        rc = backends[i].open(be, err);
        if (rc == 0 || name)
            return rc == 0 ? 0 : wrap(err, rc, "backend %s", name);
    }
    return rc;
}

int num_open(struct num_backend *be, const char *name, struct err *err)
{
    if (name && strcmp(name, "cuda") == 0)
        return fail(err, ERR_USAGE,
                    "backend cuda trains and computes influences, and ranks nothing: blas or ref");
    return num_open_any(be, name, err);
}

void num_describe(struct buf *out)
{
    for (size_t i = 0; i < countof(backends); i++) {
        struct num_backend be;
        struct err err = {0};
        int rc = backends[i].open(&be, &err);
        buf_addf(out, "%s: %s%s\n", backends[i].name,
                 rc == 0 ? be.description : "not here: ", rc == 0 ? "" : err.text);
        if (rc == 0)
            num_close(&be);
    }
}

void num_close(struct num_backend *be)
{
    if (be->close)
        be->close(be);
    /* Libraries stay loaded, because some cannot unload their threads and tables. */
    free(be->library);
    *be = (struct num_backend){0};
}

/* ---- the host's memory ---- */

static int host_allocate(const struct num_backend *be, size_t bytes, void **out, struct err *err)
{
    (void)be;
    (void)err;
    *out = xmalloc(MAX(bytes, (size_t)1));
    return 0;
}

static void host_release(const struct num_backend *be, void *at)
{
    (void)be;
    free(at);
}

static void host_copy(const struct num_backend *be, void *to, const void *from, size_t bytes)
{
    (void)be;
    memcpy(to, from, bytes);
}

static void host_fill_zero(const struct num_backend *be, void *at, size_t bytes)
{
    (void)be;
    memset(at, 0, bytes);
}

static int host_download(const struct num_backend *be, void *to, const void *from, size_t bytes,
                         struct err *err)
{
    (void)be;
    (void)err;
    memcpy(to, from, bytes);
    return 0;
}

static int host_wait(const struct num_backend *be, struct err *err)
{
    (void)be;
    (void)err;
    return 0;
}

void num_host_memory(struct num_backend *be)
{
    be->allocate = host_allocate;
    be->release = host_release;
    be->upload = host_copy;
    be->copy = host_copy;
    be->fill_zero = host_fill_zero;
    be->download = host_download;
    be->wait = host_wait;
}
