/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/xalloc.h"

char *path_join(const char *folder, const char *name)
{
    size_t len = strlen(folder);
    if (name[0] == '/' || len == 0)
        return xstrdup(name);
    return xasprintf(folder[len - 1] == '/' ? "%s%s" : "%s/%s", folder, name);
}

/* Into an array of ours, because getcwd() fails without memory for one of its own. */
char *path_cwd(void)
{
    char at[PATH_MAX];
    return getcwd(at, sizeof(at)) ? xstrdup(at) : getcwd(NULL, 0);
}

bool cwd_is_deleted(void)
{
    char at[PATH_MAX];
    return !getcwd(at, sizeof(at)) && errno == ENOENT;
}

char *path_absolute(const char *path)
{
    while (path[0] == '.' && path[1] == '/')
        path += strspn(path + 1, "/") + 1;
    cleanup_free char *cwd = path[0] == '/' ? NULL : path_cwd();
    return cwd ? path_join(cwd, path) : xstrdup(path);
}

char *path_dirname(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return xstrdup(".");
    return slash == path ? xstrdup("/") : xstrndup(path, (size_t)(slash - path));
}

const char *path_basename(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

const char *path_extension(const char *path)
{
    const char *base = path_basename(path);
    const char *dot = strrchr(base, '.');
    return dot && dot != base ? dot : "";
}

bool path_exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

int mkdir_parents(const char *path, mode_t mode, struct err *err)
{
    return folders_make(path, mode, NULL, err);
}

/* ERR_USAGE for errors that another name, or other permissions, would cure. */
static int name_code(int sys)
{
    bool is_of_name = sys == ENOENT || sys == ENOTDIR || sys == EACCES || sys == EPERM ||
                      sys == EROFS || sys == ENAMETOOLONG || sys == ELOOP;
    return is_of_name ? ERR_USAGE : ERR_SYS;
}

int folders_make(const char *path, mode_t mode, struct buf *made, struct err *err)
{
    cleanup_free char *copy = xstrdup(path);
    for (char *at = copy + 1;; at++) {
        if (*at != '/' && *at != '\0')
            continue;
        char end = *at;
        *at = '\0';
        bool is_made = mkdir(copy, mode) == 0;
        if (!is_made && errno != EEXIST)
            return fail_errno_as(err, name_code(errno), "create folder %s", copy);
        if (is_made && made)
            buf_add(made, copy, strlen(copy) + 1);
        *at = end;
        if (end == '\0')
            break;
    }
    struct stat st;
    if (stat(path, &st) != 0)
        return fail_errno_as(err, name_code(errno), "look at folder %s", path);
    return S_ISDIR(st.st_mode) ? 0 : fail(err, ERR_USAGE, "%s is there and is not a folder", path);
}

void folders_unmake(const struct buf *made)
{
    for (size_t end = made->len; end > 0;) {
        size_t begin = end - 1;
        while (begin > 0 && made->at[begin - 1] != '\0')
            begin--;
        rmdir(made->at + begin);
        end = begin;
    }
}

bool disk_is_full(const char *path)
{
    enum {
        FULL_BYTES = 64 * 1024 /* less is no room */
    };
    struct statvfs room;
    if (statvfs(path, &room) != 0 || room.f_blocks == 0) /* not known */
        return false;
    return room.f_bavail * room.f_frsize < FULL_BYTES || (room.f_files > 0 && room.f_favail == 0);
}

int file_read(const char *path, size_t max_bytes, struct buf *out, struct err *err)
{
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno_as(err, ERR_USAGE, "open %s", path);
    return file_read_fd(fd, path, max_bytes, out, err);
}

int file_read_fd(int fd, const char *path, size_t max_bytes, struct buf *out, struct err *err)
{
    size_t begin = out->len;
    for (;;) {
        buf_reserve(out, 65536);
        ssize_t got = read(fd, out->at + out->len, 65536);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno_as(err, ERR_USAGE, "read %s", path);
        if (got == 0)
            break;
        buf_extend(out, (size_t)got);
        if (out->len - begin > max_bytes)
            return fail(err, ERR_USAGE, "%s is larger than %zu bytes", path, max_bytes);
    }
    return 0;
}

int write_all(int fd, const void *at, size_t len, struct err *err)
{
    for (const char *from = at; len > 0;) {
        ssize_t put = write(fd, from, len);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && errno == EAGAIN) { /* the descriptor was inherited as non-blocking */
            (void)poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
            continue;
        }
        if (put < 0)
            return fail_errno(err, "write");
        from += put;
        len -= (size_t)put;
    }
    return 0;
}

/* A pipe that is ready takes PIPE_BUF bytes without waiting. */
int write_patiently(int fd, const void *at, size_t len, int patience_ms, struct err *err)
{
    struct pollfd end = {.fd = fd, .events = POLLOUT};
    for (const char *from = at; len > 0;) {
        size_t piece = MIN(len, (size_t)PIPE_BUF);
        if (TEMP_FAILURE_RETRY(poll(&end, 1, patience_ms)) == 0)
            return 0;
        int rc = write_all(fd, from, piece, err);
        if (rc)
            return rc;
        from += piece;
        len -= piece;
    }
    return 1;
}

int pwrite_all(int fd, const void *at, size_t len, off_t offset, struct err *err)
{
    for (const char *from = at; len > 0;) {
        ssize_t put = pwrite(fd, from, len, offset);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return fail_errno(err, "write");
        from += put;
        offset += put;
        len -= (size_t)put;
    }
    return 0;
}

int parent_open(const char *path, int *fd, struct err *err)
{
    cleanup_free char *folder = path_dirname(path);
    *fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *fd < 0 ? fail_errno(err, "open folder %s", folder) : 0;
}

int parent_sync(int fd, const char *path, struct err *err)
{
    /* Some network file systems refuse fsync on a folder; the rename itself is synchronous there. */
    if (fsync(fd) == 0 || errno == EINVAL || errno == EROFS)
        return 0;
    int rc = fail_errno(err, "sync folder");
    cleanup_free char *folder = path_dirname(path);
    return wrap(err, rc, "%s", folder);
}

int spool_open(int *fd, struct err *err)
{
    const char *named = getenv("TMPDIR"), *folder = named && *named ? named : "/tmp";
    *fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (*fd >= 0)
        return 0;
    bool is_unfit = errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == EROFS ||
                    errno == EOPNOTSUPP;
    return fail_errno_as(err, is_unfit ? ERR_USAGE : ERR_SYS, "make a spool in %s (TMPDIR)",
                         folder);
}

int fsync_parent(const char *path, struct err *err)
{
    cleanup_fd int fd = -1;
    int rc = parent_open(path, &fd, err);
    return rc ? rc : parent_sync(fd, path, err);
}

/* Always makes a new file. What has the name already (a file that a killed muster left, or a link
 * that somebody put there) is unlinked, never written to. */
static int beside_create(const char *beside)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    int fd = open(beside, flags, 0664);
    if (fd < 0 && errno == EEXIST && unlink(beside) == 0)
        fd = open(beside, flags, 0664);
    return fd;
}

static int replace(const char *path, struct str content, bool durable, struct err *err)
{
    cleanup_free char *beside = xasprintf("%s.new", path);
    cleanup_fd int fd = beside_create(beside);
    if (fd < 0)
        return fail_errno(err, "create %s", beside);
    int rc = write_all(fd, content.at, content.len, err);
    if (rc == 0 && durable && fsync(fd) != 0)
        rc = fail_errno(err, "sync");
    if (rc == 0 && close(steal_fd(&fd)) != 0)
        rc = fail_errno(err, "close");
    if (rc == 0 && rename(beside, path) != 0)
        rc = fail_errno(err, "rename to %s", path);
    if (rc) {
        unlink(beside);
        return wrap(err, rc, "write %s", path);
    }
    return durable ? fsync_parent(path, err) : 0;
}

int file_replace(const char *path, struct str content, struct err *err)
{
    return replace(path, content, true, err);
}

int file_replace_fast(const char *path, struct str content, struct err *err)
{
    return replace(path, content, false, err);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path) != 0 && errno != ENOENT;
}

int remove_tree(const char *path, struct err *err)
{
    /* nftw() decides whether path is there, because a path that stat() fails on may exist. Where
     * nftw() ran out of memory, a second try removes the rest, or it stays. */
    for (int tries_left = 2; tries_left > 0; tries_left--) {
        if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT ||
            errno == ENOTDIR)
            return 0;
        if (errno != ENOMEM)
            break;
    }
    return fail_errno(err, "remove %s", path);
}

bool is_network_fs(const char *path)
{
    static const long magics[] = {
        NFS_SUPER_MAGIC,
        SMB_SUPER_MAGIC,
        (long)0xff534d42 /* CIFS */,
        (long)0xfe534d42 /* SMB2 */,
        0x0bd00bd0 /* Lustre */,
        0x47504653 /* GPFS */,
        0x19830326 /* BeeGFS */,
        0x65735546 /* FUSE */,
        0x00c36400 /* Ceph */,
        0x01161970 /* GFS2 */,
        AFS_SUPER_MAGIC,
        V9FS_MAGIC,
    };
    struct statfs fs;
    if (statfs(path, &fs) != 0)
        return false;
    for (size_t i = 0; i < countof(magics); i++)
        if ((long)fs.f_type == magics[i])
            return true;
    return false;
}

uint64_t open_files_allow(uint64_t wanted)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return wanted;
    if (limit.rlim_cur >= wanted)
        return limit.rlim_cur;
    struct rlimit more = {.rlim_cur = MIN(wanted, limit.rlim_max), .rlim_max = limit.rlim_max};
    return setrlimit(RLIMIT_NOFILE, &more) == 0 ? more.rlim_cur : limit.rlim_cur;
}

bool folder_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool folder_is_empty(const char *path)
{
    DIR *folder = opendir(path);
    const struct dirent *entry;
    size_t n_entries = 0;
    if (!folder)
        return false;
    while (n_entries == 0 && (entry = readdir(folder)))
        n_entries += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(folder);
    return n_entries == 0;
}

static void space_read(const char *link, char out[64])
{
    ssize_t len = readlink(link, out, 63);
    out[MAX(len, 0)] = '\0';
}

void pid_space(char out[64])
{
    space_read("/proc/self/ns/pid", out);
}

void net_space(char out[64])
{
    space_read("/proc/self/ns/net", out);
}

void boot_id_read(char out[64])
{
    cleanup_buf struct buf text = BUF_INIT;
    struct err err = {0};
    out[0] = '\0';
    if (file_read("/proc/sys/kernel/random/boot_id", 64, &text, &err) == 0)
        snprintf(out, 64, "%s", buf_text(&text));
    out[strcspn(out, "\n")] = '\0';
}
