/* SPDX-License-Identifier: Apache-2.0
 *
 * The last steps of a run, at one of which muster is killed: the output is synced and noted, gets its name, the end is
 * recorded, the parts are removed. Time does not pass in between, so a kill at a moment never comes there.
 */
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/outfile.h"
#include "sim/shell/world.h"
#include "store/store.h"

static uint32_t n_steps; /* of this session's end; 0: it has not come */

void end_steps_begin(void)
{
    n_steps = 0;
}

/* Before the step is done. */
static void step(const char *what)
{
    if (n_steps == 0 || world.place || world.session >= END_CRASHES)
        return;
    if (n_steps++ != world.scene.end_crashes[world.session])
        return;
    trace("muster is killed before this: %s", what);
    muster_kill();
}

int __real_outfile_sync(struct outfile *file, struct err *err);
int __wrap_outfile_sync(struct outfile *file, struct err *err);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __real_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
int __real_linkat(int from_fd, const char *from, int to_fd, const char *to, int flags);
int __wrap_linkat(int from_fd, const char *from, int to_fd, const char *to, int flags);
int __real_store_set(struct store *store, const char *key, const char *value, struct err *err);
int __wrap_store_set(struct store *store, const char *key, const char *value, struct err *err);
int __real_store_commit_held(struct store *store, bool durable, struct err *err);
int __wrap_store_commit_held(struct store *store, bool durable, struct err *err);
int __real_remove_tree(const char *path, struct err *err);
int __wrap_remove_tree(const char *path, struct err *err);

int __wrap_outfile_sync(struct outfile *file, struct err *err)
{
    n_steps += n_steps == 0;
    step("sync of the output");
    return __real_outfile_sync(file, err);
}

int __wrap_fsync(int fd)
{
    step("sync");
    return __real_fsync(fd);
}

int __wrap_rename(const char *from, const char *to)
{
    step("rename");
    return __real_rename(from, to);
}

int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    step("renameat2");
    return __real_renameat2(from_fd, from, to_fd, to, flags);
}

int __wrap_linkat(int from_fd, const char *from, int to_fd, const char *to, int flags)
{
    step("linkat");
    return __real_linkat(from_fd, from, to_fd, to, flags);
}

int __wrap_store_set(struct store *store, const char *key, const char *value, struct err *err)
{
    step("a note in the store");
    return __real_store_set(store, key, value, err);
}

int __wrap_store_commit_held(struct store *store, bool durable, struct err *err)
{
    step("the last commit");
    return __real_store_commit_held(store, durable, err);
}

int __wrap_remove_tree(const char *path, struct err *err)
{
    step("removal of the parts");
    return __real_remove_tree(path, err);
}
