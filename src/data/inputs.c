/* SPDX-License-Identifier: Apache-2.0 */
#include "data/inputs.h"

#include <string.h>
#include <sys/stat.h>

#include "base/xalloc.h"
#include "data/format.h"

struct stamp {
    const char *path;
    struct stat st;
    bool is_watched, is_packed;
};

struct inputs {
    size_t n, next;
    struct stamp at[];
};

struct inputs *inputs_new(const char *const *paths, size_t n_paths)
{
    struct inputs *inputs = xcalloc(1, sizeof(*inputs) + n_paths * sizeof(inputs->at[0]));
    inputs->n = n_paths;
    for (size_t i = 0; i < n_paths; i++) {
        struct stamp *stamp = &inputs->at[i];
        stamp->path = paths[i];
        stamp->is_watched = strcmp(paths[i], "-") != 0 && stat(paths[i], &stamp->st) == 0 &&
                            S_ISREG(stamp->st.st_mode);
        stamp->is_packed = packing_of_path(paths[i]) != PACK_NONE;
    }
    return inputs;
}

void inputs_free(struct inputs *inputs)
{
    free(inputs);
}

static int stamp_check(const struct stamp *stamp, struct err *err)
{
    const struct stat *then = &stamp->st;
    struct stat now;
    if (!stamp->is_watched || stat(stamp->path, &now) != 0 || now.st_dev != then->st_dev ||
        now.st_ino != then->st_ino)
        return 0;
    if (now.st_size == then->st_size && now.st_mtim.tv_sec == then->st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == then->st_mtim.tv_nsec)
        return 0;
    return fail(
        err, ERR_DATA,
        "%s was written to while it was read (%ld bytes then, %ld now), so what was read may be "
        "of two contents; start over with a file that stays as it is, or a copy",
        stamp->path, (long)then->st_size, (long)now.st_size);
}

int inputs_check(const struct inputs *inputs, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < inputs->n; i++)
        rc = stamp_check(&inputs->at[i], err);
    return rc;
}

int inputs_check_next(struct inputs *inputs, struct err *err)
{
    return inputs->n > 0 ? stamp_check(&inputs->at[inputs->next++ % inputs->n], err) : 0;
}

int inputs_copied(struct inputs *inputs, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < inputs->n; i++) {
        struct stamp *stamp = &inputs->at[i];
        if (!stamp->is_packed)
            continue;
        rc = stamp_check(stamp, err);
        stamp->is_watched = false;
    }
    return rc;
}
