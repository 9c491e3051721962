/* SPDX-License-Identifier: Apache-2.0 */
#include "base/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"

enum {
    PENDING_BYTES = 64 * 1024,
    DIRECT_BYTES = 32 * 1024, /* fewer are copied into the buffer */
    BLOCK_BYTES = 4096, /* a write that ends within a page makes the kernel fill the rest of it */
    WRITEBACK_BYTES = 32 << 20,
    BESIDE_TRIES = 1000,
    LINKS_MAX = 40 /* as many as the kernel follows */
};

/* Makes the file under a name that must be new: 0, or -1 with errno. */
typedef int name_fn(struct outfile *file, const char *name);

static int name_create(struct outfile *file, const char *name)
{
    file->fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return file->fd < 0 ? -1 : 0;
}

/*
 * Finds a free name beside the file's own. A file that has such a name already belongs to the user
 * or to another muster, and may be one of the inputs. 0, or -1 with errno.
 */
static int beside_name(struct outfile *file, name_fn *make)
{
    cleanup_free char *name = xasprintf("%s.new", file->path);
    cleanup_free char *folder = path_dirname(file->path);
    bool is_short = false;
    for (unsigned n = 1; make(file, name) != 0; n++) {
        bool is_long = errno == ENAMETOOLONG && !is_short;
        if ((errno != EEXIST && !is_long) || n > BESIDE_TRIES)
            return -1;
        is_short = is_short || is_long;
        free(name);
        name = is_short ? xasprintf("%s/.muster-%d-%u.new", folder, (int)getpid(), n)
                        : xasprintf("%s.%d-%u.new", file->path, (int)getpid(), n);
    }
    file->beside = steal_ptr(&name);
    return 0;
}

static int beside_open(struct outfile *file, struct err *err)
{
    cleanup_free char *folder = path_dirname(file->path);
    file->fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    if (file->fd >= 0)
        return 0;
    if (errno == ENOENT)
        return fail(err, ERR_USAGE, "%s: there is no folder %s; mkdir -p makes it", file->name,
                    folder);
    if (errno == EACCES || errno == EROFS)
        return fail_errno_as(err, ERR_USAGE, "%s: write in folder %s", file->name, folder);
    /* NFS and others have no nameless files. */
    if (beside_name(file, name_create) != 0)
        return fail_errno_as(err, ERR_USAGE, "%s: create a file beside it", file->name);
    return 0;
}

char *output_base_new(const char *out_path)
{
    size_t len = strlen(out_path);
    while (len > 1 && out_path[len - 1] == '/')
        len--;
    return xstrndup(out_path, len);
}

bool output_is_direct(const char *path)
{
    struct stat st;
    return strcmp(path, "-") == 0 ||
           (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode));
}

/* The links of /proc lead to files that are open, whatever has become of their names. */
static bool is_in_proc(const char *path)
{
    cleanup_free char *folder = path_dirname(path);
    struct statfs fs;
    return statfs(folder, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

static bool is_stdout(const char *path)
{
    struct stat st, out;
    return stat(path, &st) == 0 && fstat(STDOUT_FILENO, &out) == 0 && st.st_dev == out.st_dev &&
           st.st_ino == out.st_ino;
}

int output_follow(const char *path, char **out, struct err *err)
{
    cleanup_free char *at = xstrdup(path);
    char target[PATH_MAX + 1];
    ssize_t len;
    *out = NULL;
    for (unsigned n = 0; (len = readlink(at, target, sizeof(target) - 1)) >= 0; n++) {
        target[len] = '\0';
        if (is_in_proc(at))
            return fail(err, ERR_USAGE,
                        "%s leads to %s, a file that this process has open, and is not replaced; "
                        "name that file itself%s",
                        path, target, is_stdout(at) ? ", or write - for standard output" : "");
        if (n == LINKS_MAX) {
            errno = ELOOP;
            return fail_errno_as(err, ERR_USAGE, "the output %s", path);
        }
        cleanup_free char *folder = path_dirname(at);
        free(at);
        at = target[0] == '/' ? xstrdup(target) : path_join(folder, target);
    }
    if (errno == ENAMETOOLONG) /* else it would be found at the end of the work */
        return fail_errno_as(err, ERR_USAGE, "the output %s", path);
    *out = steal_ptr(&at);
    return 0;
}

int output_check_free(const char *path, bool overwrite, struct err *err)
{
    cleanup_free char *place = NULL;
    if (output_is_direct(path))
        return 0;
    int rc = output_follow(path, &place, err);
    if (rc == 0 && !overwrite && path_exists(path))
        rc = fail(err, ERR_USAGE, "%s exists; --force replaces it", path);
    return rc;
}

static int exists(const struct outfile *file, struct err *err)
{
    return fail(err, ERR_USAGE, "%s exists; --force replaces it", file->name);
}

/* stdout, /dev/null, a pipe */
static int direct_open(struct outfile *file, const char *path, struct err *err)
{
    file->is_direct = true;
    file->fd = open(path, O_WRONLY | O_CLOEXEC);
    return file->fd < 0 ? fail_errno_as(err, ERR_USAGE, "open %s", path) : 0;
}

int outfile_open(struct outfile *file, const char *path, bool overwrite, struct err *err)
{
    *file = (struct outfile){.fd = -1, .overwrite = overwrite};
    file->name = file->own_name = xstrdup(path);
    if (strcmp(path, "-") == 0) {
        file->name = "stdout";
        file->is_direct = true;
        file->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
        return file->fd < 0 ? fail_errno(err, "stdout") : 0;
    }
    struct stat st;
    bool is_there = stat(path, &st) == 0;
    if (is_there && S_ISDIR(st.st_mode))
        return fail(err, ERR_USAGE, "%s is a folder", path);
    if (is_there && !S_ISREG(st.st_mode))
        return direct_open(file, path, err);
    int rc = output_check_free(path, overwrite, err);
    if (rc == 0)
        rc = output_follow(path, &file->path, err);
    return rc ? rc : beside_open(file, err);
}

int outfile_open_nameless(struct outfile *file, struct err *err)
{
    *file = (struct outfile){.fd = -1, .name = "a spool"};
    return spool_open(&file->fd, err);
}

/* The kernel writes to the disk while more is added, so that the sync at the end is short. */
static void writeback_begin(struct outfile *file, uint64_t bytes_min)
{
    if (file->is_direct || file->bytes - file->sent_bytes < bytes_min)
        return;
    /* Only a hint: nothing is lost where the file system does not support it. */
    sync_file_range(file->fd, (off_t)file->sent_bytes, (off_t)(file->bytes - file->sent_bytes),
                    SYNC_FILE_RANGE_WRITE);
    file->sent_bytes = file->bytes;
}

static int bytes_write(struct outfile *file, struct str bytes, struct err *err)
{
    int rc = write_all(file->fd, bytes.at, bytes.len, err);
    if (rc)
        return wrap(err, rc, "%s", file->name);
    file->bytes += bytes.len;
    writeback_begin(file, WRITEBACK_BYTES);
    return 0;
}

static int flush(struct outfile *file, struct err *err)
{
    int rc = bytes_write(file, buf_str(&file->pending), err);
    if (rc == 0)
        buf_reset(&file->pending);
    return rc;
}

int outfile_write(struct outfile *file, struct str bytes, struct err *err)
{
    if (bytes.len < DIRECT_BYTES) {
        buf_add_str(&file->pending, bytes);
        return outfile_pump(file, err);
    }
    int rc = flush(file, err);
    return rc ? rc : bytes_write(file, bytes, err);
}

/* Writes up to the last block boundary. */
int outfile_pump(struct outfile *file, struct err *err)
{
    if (file->pending.len < PENDING_BYTES)
        return 0;
    size_t n_rest = (size_t)((file->bytes + file->pending.len) % BLOCK_BYTES);
    struct str whole = {file->pending.at, file->pending.len - n_rest};
    int rc = bytes_write(file, whole, err);
    if (rc == 0)
        buf_consume(&file->pending, whole.len);
    return rc;
}

/* Adds bytes of another file by reading and writing them. */
static int bytes_copy(struct outfile *file, int fd, uint64_t offset, size_t len, struct err *err)
{
    buf_reserve(&file->pending, len);
    struct buf *pending = &file->pending;
    for (size_t done = 0; done < len;) {
        ssize_t got = TEMP_FAILURE_RETRY(
            pread(fd, pending->at + pending->len, len - done, (off_t)(offset + done)));
        if (got <= 0)
            return got < 0 ? fail_errno(err, "%s: read what goes into it", file->name)
                           : fail(err, ERR_DATA, "%s: an input has become shorter", file->name);
        buf_extend(pending, (size_t)got);
        done += (size_t)got;
    }
    return 0;
}

int outfile_share(struct outfile *file, int fd, uint64_t offset, uint64_t len, bool *is_shared,
                  struct err *err)
{
    uint64_t to = file->bytes + file->pending.len;
    size_t n_head = (size_t)(-to % BLOCK_BYTES), n_tail = (size_t)((to + len) % BLOCK_BYTES);
    *is_shared = false;
    if (file->is_direct || (to - offset) % BLOCK_BYTES != 0 || len < n_head + n_tail + BLOCK_BYTES)
        return 0;
    size_t before = file->pending.len;
    struct file_clone_range range = {.src_fd = fd,
                                     .src_offset = offset + n_head,
                                     .src_length = len - n_head - n_tail,
                                     .dest_offset = to + n_head};
    int rc = bytes_copy(file, fd, offset, n_head, err);
    if (rc == 0 && ioctl(file->fd, FICLONERANGE, &range) != 0) {
        file->pending.len = before; /* not the same file system, or one without shared blocks */
        return 0;
    }
    if (rc == 0)
        rc = flush(file, err);
    if (rc)
        return rc;
    file->bytes += range.src_length;
    if (lseek(file->fd, (off_t)file->bytes, SEEK_SET) < 0)
        return fail_errno(err, "%s: seek", file->name);
    *is_shared = true;
    return bytes_copy(file, fd, offset + len - n_tail, n_tail, err);
}

int outfile_extend(struct outfile *file, uint64_t bytes, struct err *err)
{
    ASSERT(!file->is_direct);
    int rc = flush(file, err);
    if (rc)
        return rc;
    if (ftruncate(file->fd, (off_t)(file->bytes + bytes)) != 0 || lseek(file->fd, 0, SEEK_END) < 0)
        return fail_errno(err, "%s: %lu bytes more", file->name, (unsigned long)bytes);
    file->bytes += bytes;
    return 0;
}

int outfile_patch(struct outfile *file, uint64_t offset, struct str bytes, struct err *err)
{
    ASSERT(!file->is_direct && offset + bytes.len <= file->bytes + file->pending.len);
    if (offset >= file->bytes) {
        memcpy(file->pending.at + (offset - file->bytes), bytes.at, bytes.len);
        return 0;
    }
    int rc = offset + bytes.len > file->bytes ? flush(file, err) : 0;
    if (rc)
        return rc;
    rc = pwrite_all(file->fd, bytes.at, bytes.len, (off_t)offset, err);
    return rc ? wrap(err, rc, "%s", file->name) : 0;
}

static int name_link(struct outfile *file, const char *name)
{
    char self[64];
    snprintf(self, sizeof(self), "/proc/self/fd/%d", file->fd);
    return linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW);
}

/* Give the nameless file a name beside its own, for the rename. */
static int beside_give(struct outfile *file, struct err *err)
{
    if (beside_name(file, name_link) != 0)
        return wrap(err, fail_errno(err, "give it its name"), "%s", file->name);
    return 0;
}

/* Gives the nameless file its final name, or one beside it if that is to be replaced. Who is killed between that and the
 * rename leaves the name beside. */
static int name_give(struct outfile *file, struct err *err)
{
    if (name_link(file, file->path) == 0)
        return 0;
    if (errno == EEXIST)
        return file->overwrite ? beside_give(file, err) : exists(file, err);
    return wrap(err, fail_errno(err, "give it its name"), "%s", file->name);
}

/* Renames the file to its final name. Where RENAME_NOREPLACE is not supported, link() fails just as
 * well if the name is taken. */
static int beside_put(const struct outfile *file)
{
    if (file->overwrite)
        return rename(file->beside, file->path);
    int put = renameat2(AT_FDCWD, file->beside, AT_FDCWD, file->path, RENAME_NOREPLACE);
    if (put == 0 || errno != EINVAL)
        return put;
    put = link(file->beside, file->path);
    if (put == 0)
        (void)unlink(file->beside); /* in place even if this fails */
    else if (errno == EPERM || errno == EOPNOTSUPP)
        put = rename(file->beside, file->path); /* no links either; the name was free at open */
    return put;
}

int outfile_finish(struct outfile *file, bool is_parked, struct err *err)
{
    int rc = flush(file, err);
    buf_release(&file->pending);
    if (rc || file->is_direct)
        return rc;
    writeback_begin(file, 1);
    if (is_parked && !file->beside)
        rc = beside_give(file, err);
    if (rc == 0 && is_parked)
        fd_close(&file->fd);
    return rc;
}

int outfile_sync(struct outfile *file, struct err *err)
{
    bool is_parked = file->fd < 0;
    if (is_parked)
        file->fd = open(file->beside, O_WRONLY | O_CLOEXEC);
    if (file->fd < 0)
        return wrap(err, fail_errno(err, "open %s again", file->beside), "%s", file->name);
    int rc = flush(file, err);
    if (rc == 0 && !file->is_direct && fsync(file->fd) != 0)
        rc = wrap(err, fail_errno(err, "sync"), "%s", file->name);
    file->is_synced = rc == 0;
    if (is_parked)
        fd_close(&file->fd);
    return rc;
}

int outfile_place(struct outfile *file, struct err *err)
{
    int rc = file->is_synced ? 0 : outfile_sync(file, err);
    if (rc || file->is_direct)
        return rc;
    if (!file->beside)
        rc = name_give(file, err);
    if (rc)
        return rc;
    if (file->beside && beside_put(file) != 0)
        return errno == EEXIST && !file->overwrite
                   ? exists(file, err)
                   : wrap(err, fail_errno(err, "rename %s", file->beside), "%s", file->name);
    free(steal_ptr(&file->beside));
    return 0;
}

int outfile_commit(struct outfile *file, struct err *err)
{
    cleanup_fd int folder = -1;
    int rc = file->is_direct ? 0 : parent_open(file->path, &folder, err);
    if (rc == 0)
        rc = outfile_place(file, err);
    return rc || file->is_direct ? rc : parent_sync(folder, file->path, err);
}

void outfile_close(struct outfile *file)
{
    fd_close(&file->fd);
    if (file->beside)
        unlink(file->beside);
    free(steal_ptr(&file->beside));
    free(steal_ptr(&file->path));
    free(steal_ptr(&file->own_name));
    buf_release(&file->pending);
}

int outfile_put(const char *path, struct str content, struct err *err)
{
    struct outfile file;
    int rc = outfile_open(&file, path, true, err);
    if (rc == 0)
        rc = outfile_write(&file, content, err);
    if (rc == 0)
        rc = outfile_commit(&file, err);
    outfile_close(&file);
    return rc;
}
