/* SPDX-License-Identifier: Apache-2.0 */
#include "scratch.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/xalloc.h"

static char folder[64];
static char *paths[4096];
static size_t n_paths;

const char *scratch_dir(void)
{
    if (!folder[0]) {
        snprintf(folder, sizeof(folder), "/tmp/muster-data-XXXXXX");
        ASSERT(mkdtemp(folder));
    }
    return folder;
}

const char *scratch_path(const char *name)
{
    char *path = path_join(scratch_dir(), name);
    for (size_t i = 0; i < n_paths; i++) {
        if (strcmp(paths[i], path) == 0) {
            free(path);
            return paths[i];
        }
    }
    ASSERT(n_paths < countof(paths));
    return paths[n_paths++] = path;
}

const char *scratch_file(const char *name, struct str content)
{
    const char *path = scratch_path(name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    struct err err = {0};
    ASSERT(fd >= 0 && write_all(fd, content.at, content.len, &err) == 0);
    close(fd);
    return path;
}

void scratch_remove(void)
{
    struct err err = {0};
    if (folder[0] && remove_tree(folder, &err))
        fprintf(stderr, "%s\n", err.text);
    for (size_t i = 0; i < n_paths; i++)
        free(paths[i]);
}
