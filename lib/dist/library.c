/* SPDX-License-Identifier: Apache-2.0 */
#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int md_library_find(struct muster_dist *dist, void *handle, const char *library,
                    const char *const *names, size_t n, void *out)
{
    char name[64], *member = out;
    for (size_t i = 0; i < n; i++) {
        size_t len = (size_t)snprintf(name, sizeof(name), "%s", names[i]);
        bool may_be_missing = name[len - 1] == '?';
        name[len - may_be_missing] = '\0';
        void *function = dlsym(handle, name);
        if (!function && !may_be_missing)
            return md_fail(dist, MUSTER_DIST_EENV, "rank %u: %s has no %s", dist->place.rank,
                           library, name);
        memcpy(member + i * sizeof(function), &function, sizeof(function));
    }
    return 0;
}
