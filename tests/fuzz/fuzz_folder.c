/* SPDX-License-Identifier: Apache-2.0
 *
 * Parsers that open paths themselves get real files, in memory where the machine has /dev/shm.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "fuzz.h"

static char *folder_path(void)
{
    static char path[64];
    return path;
}

static void folder_remove(void)
{
    struct err err = {0};
    if (remove_tree(folder_path(), &err))
        fprintf(stderr, "%s\n", err.text);
}

const char *fuzz_folder(void)
{
    char *path = folder_path();
    if (path[0])
        return path;
    snprintf(path, 64, "%s/muster-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(path) || atexit(folder_remove) != 0)
        BUG("no folder %s: %s", path, errno_text(errno));
    return path;
}

const char *fuzz_file(const char *name, struct str content)
{
    static char path[128];
    snprintf(path, sizeof(path), "%s/%s", fuzz_folder(), name);
    struct err err = {0};
    cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write_all(fd, content.at, content.len, &err))
        BUG("write %s: %s", path, errno_text(errno));
    return path;
}
