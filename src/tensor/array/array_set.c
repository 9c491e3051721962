/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "tensor/array/array_impl.h"
#include "tensor/safetensors_index.h"

enum {
    FILES_OF_OURS = 128
};

/* Refuses a file that is in the set already: its rows would be merged twice. */
static int twice_refuse(const struct array_set *set, const struct array_file *file, struct err *err)
{
    for (size_t i = 0; i < set->n_files; i++)
        if (set->files[i].ino == file->ino && set->files[i].dev == file->dev)
            return fail(err, ERR_USAGE, "%s and %s are the same file", set->files[i].path,
                        file->path);
    return 0;
}

int array_set_add(struct array_set *set, const char *path, struct err *err)
{
    struct array_file file;
    char *own_path = xstrdup(path);
    (void)open_files_allow(2 * set->n_files + FILES_OF_OURS); /* each may have a spool */
    int rc = array_file_open(&file, set->kind, own_path, err);
    file.own_path = own_path;
    if (rc == 0)
        rc = twice_refuse(set, &file, err);
    if (rc) {
        array_file_release(&file);
        return rc;
    }
    set->files = xrealloc(set->files, (set->n_files + 1) * sizeof(*set->files));
    set->files[set->n_files++] = file;
    return 0;
}

int array_set_open(struct array_set *set, enum tensor_kind kind, const char *const *paths,
                   size_t n_paths, struct err *err)
{
    int rc = 0;
    *set = (struct array_set){.kind = kind};
    for (size_t i = 0; i < n_paths && rc == 0; i++)
        rc = (safetensors_index_is_one(paths[i]) ? array_index_add : array_set_add)(set, paths[i],
                                                                                    err);
    return rc;
}

void array_set_release(struct array_set *set)
{
    for (size_t i = 0; i < set->n_files; i++)
        array_file_release(&set->files[i]);
    free(steal_ptr(&set->files));
    set->n_files = 0;
}

const char *array_set_has(const struct array_set *set, const struct stat *st)
{
    for (size_t i = 0; i < set->n_files; i++)
        if (set->files[i].ino == st->st_ino && set->files[i].dev == st->st_dev)
            return set->files[i].path;
    return NULL;
}
