/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "num/backend_impl.h"

static const struct {
    const char *name;
    int (*open)(struct num_backend *be, struct err *err);
} backends[] = {
#define X(name) {#name, num_open_##name},
    NUM_BACKENDS(X)
#undef X
};

int num_open(struct num_backend *be, const char *name, struct err *err)
{
    int rc = fail(err, ERR_USAGE, "there is no backend '%s': blas, ref", name ? name : "");
    for (size_t i = 0; i < countof(backends); i++) {
        if (name && strcmp(name, backends[i].name) != 0)
            continue;
        rc = backends[i].open(be, err);
        if (rc == 0 || name)
            return rc;
    }
    return rc;
}

void num_close(struct num_backend *be)
{
    /* Libraries stay loaded: their threads and tables do not like to go. */
    free(be->library);
    *be = (struct num_backend){0};
}
