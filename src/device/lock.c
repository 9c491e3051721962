/* SPDX-License-Identifier: Apache-2.0
 *
 * What locks a device, and against whom:
 *
 *   a name      in the kernel's table of sockets (unix(7), abstract). Nobody can delete it while a
 *               process holds it. All processes in the same network namespace see it: those of all
 *               users of the machine, and of containers with the host's network.
 *   a file      under flock in the lock folder, for containers that share this folder but have a
 *               network of their own. A cleaner of /tmp or the folder's owner may delete the file.
 *               So muster checks that the name still leads to the file that it has locked, once
 *               when it takes the lock and then every second, and makes a deleted file anew. Within
 *               that second, such a container can take the device: a muster that finds the new file
 *               locked by another process gives the device up.
 *   the folder  under a shared flock: systemd-tmpfiles leaves locked folders alone.
 *
 * The name and the file's lock belong to open file descriptions, which muster shares with the
 * guards of the workers on that device and with the run's keeper. They end when the last of these
 * processes has ended, not when muster ends.
 */
#include "device/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/xalloc.h"

enum {
    HOLDER_MAX = 300,
    UNKNOWN_WAIT_MS = 2000, /* a live holder makes a deleted file anew within a second */
    REPLACED_MAX = 100      /* times that the file was deleted while it was being locked */
};

static const char *lock_folder(void)
{
    const char *folder = getenv("MUSTER_LOCK_DIR");
    return folder && *folder ? folder : "/tmp/muster-locks";
}

/*
 * Opens the lock folder. Without the sticky bit, another user who owns the folder, or may write in
 * it, could replace our files. A symbolic link could lead anywhere.
 */
static int folder_open(struct err *err)
{
    const char *folder = lock_folder();
    bool is_new = mkdir(folder, 0700) == 0;
    if (!is_new && errno != EEXIST)
        return fail_errno(err, "create lock folder %s", folder);
    cleanup_fd int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(err, "lock folder %s", folder);
    /* mkdir's mode is cut by the umask, and mkdir ignores the sticky bit on some systems */
    if (is_new && fchmod(fd, 01777) != 0)
        return fail_errno(err, "open lock folder %s to all users", folder);
    struct stat st;
    if (fstat(fd, &st) != 0)
        return fail_errno(err, "lock folder %s", folder);
    bool is_others = st.st_uid != geteuid() && st.st_uid != 0;
    bool is_writable = (st.st_mode & (S_IWGRP | S_IWOTH)) != 0;
    if (!(st.st_mode & S_ISVTX) && (is_others || is_writable))
        return fail(err, ERR_UNAVAILABLE,
                    "lock folder %s is not sticky (chmod 1777 it, or remove it)", folder);
    return steal_fd(&fd);
}

static void file_name(const struct device *device, char out[LOCK_FILE_MAX])
{
    snprintf(out, LOCK_FILE_MAX, "%s.lock", device->uuid);
    for (char *at = out; *at; at++)
        if (*at == '/')
            *at = '_';
}

/*
 * Tries without O_CREAT first: with fs.protected_regular set, O_CREAT on another user's file in a
 * sticky folder is refused. A hard link would let ftruncate() change a file of ours elsewhere.
 */
static int file_open(int folder, const char *name, bool create)
{
    int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    cleanup_fd int fd = openat(folder, name, O_RDWR | flags);
    if (fd < 0 && errno == ENOENT && create) {
        fd = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | flags, 0666);
        if (fd >= 0)
            (void)!fchmod(fd, 0666); /* past the umask, for the other users */
        else if (errno == EEXIST)
            fd = openat(folder, name, O_RDWR | flags);
    }
    if (fd < 0 && errno == EACCES)
        fd = openat(folder, name, O_RDONLY | flags);
    struct stat st;
    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_nlink > 1)) {
        errno = EPERM;
        return -1;
    }
    return steal_fd(&fd);
}

enum holder {
    HOLDER_UNKNOWN, /* the file has no text: it was deleted */
    HOLDER_THERE,   /* it runs, or is in another pid namespace, out of sight */
    HOLDER_GONE
};

/*
 * Reads the holder's text. Any process may have written it, so only plain characters are passed on.
 */
static enum holder read_holder(int fd, struct buf *out)
{
    char text[HOLDER_MAX], space[64], ours[80];
    ssize_t got = fd < 0 ? 0 : pread(fd, text, sizeof(text), 0);
    struct str rest = {text, (size_t)MAX(got, 0)}, line = {0};
    uint64_t pid = 0;
    bool is_said = str_next(&rest, '\n', &line);
    for (size_t i = 0; is_said && i < line.len; i++)
        buf_add_char(out, line.at[i] >= ' ' && line.at[i] <= '~' ? line.at[i] : '?');
    if (out->len == 0) {
        buf_add_text(out, "another muster");
        return HOLDER_UNKNOWN;
    }
    pid_space(space);
    snprintf(ours, sizeof(ours), "pidspace %s\n", space);
    const char *comma = is_said ? memchr(line.at, ',', line.len) : NULL;
    bool has_pid = comma && str_starts_with(line, STR("pid ")) && str_equal(rest, str_of(ours)) &&
                   u64_parse((struct str){line.at + 4, (size_t)(comma - line.at) - 4}, 1, INT32_MAX,
                             &pid, NULL) == 0;
    return has_pid && kill((pid_t)pid, 0) != 0 && errno == ESRCH ? HOLDER_GONE : HOLDER_THERE;
}

static void write_holder(int fd, const char *run)
{
    char text[HOLDER_MAX], space[64];
    const struct passwd *user = getpwuid(geteuid());
    pid_space(space);
    int len = snprintf(text, sizeof(text), "pid %d, user %.40s, run %.100s\npidspace %s\n",
                       (int)getpid(), user ? user->pw_name : "?", run ? run : "?", space);
    /*
     * The text is only information: the kernel keeps the lock, so a failure here loses no more than
     * a name.
     */
    if (ftruncate(fd, 0) == 0)
        (void)!pwrite(fd, text, (size_t)len, 0);
}

/* ---- the name ---- */

/*
 * FNV-1a over the folder and the device, so that each lock folder (tests use their own) has names
 * of its own.
 */
static uint64_t name_hash(const char *folder, const char *uuid)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char *text = folder;; text = uuid) {
        for (const char *at = text; *at; at++)
            hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
        hash *= 0x100000001b3u;
        if (text == uuid)
            return hash;
    }
}

struct kernel_name {
    struct sockaddr_un address;
    socklen_t len;
};

static struct kernel_name name_make(const char *fmt, ...) PRINTF(1, 2);
static struct kernel_name name_make(const char *fmt, ...)
{
    struct kernel_name name = {.address.sun_family = AF_UNIX};
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(name.address.sun_path + 1, sizeof(name.address.sun_path) - 1, fmt, args);
    va_end(args);
    len = MIN(len, (int)sizeof(name.address.sun_path) - 2);
    name.len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
    return name;
}

static struct kernel_name name_of_device(const char *file)
{
    return name_make("muster-device/%016lx/%.70s", name_hash(lock_folder(), file), file);
}

static struct kernel_name name_of_presence(const char *presence)
{
    return name_make("muster-presence/%.80s", presence);
}

/*
 * Returns a descriptor that holds the name, or -1 with errno; EADDRINUSE: another process holds the
 * name.
 */
static int name_take(const struct kernel_name *name)
{
    cleanup_fd int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&name->address, name->len) != 0)
        return -1;
    return steal_fd(&fd);
}

/* 0: a process holds the name; ECONNREFUSED: none does; any other errno: it is not known. */
static int name_look(const struct kernel_name *name)
{
    cleanup_fd int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool is_held = fd >= 0 && connect(fd, (const struct sockaddr *)&name->address, name->len) == 0;
    return is_held ? 0 : errno;
}

/* ---- the file ---- */

/*
 * A process that only tests the lock (device_is_locked) holds a shared lock for some microseconds,
 * so a refusal is believed only after several attempts.
 */
static bool lock_now(int fd)
{
    for (int attempt = 0; attempt < 5; attempt++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return true;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    return false;
}

static bool stands_there(int folder, const char *name, int fd)
{
    struct stat named, open;
    return fstat(fd, &open) == 0 && fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

/*
 * Locks the file, and makes sure that the file still has that name. -1 with errno; EWOULDBLOCK:
 * another process has the lock.
 */
static int file_take(int folder, const char *name, struct buf *holder, enum holder *who)
{
    for (int times = 0; times < REPLACED_MAX; times++) {
        cleanup_fd int fd = file_open(folder, name, true);
        if (fd < 0)
            return -1;
        if (!lock_now(fd)) {
            int sys = errno;
            *who = read_holder(fd, holder);
            errno = sys;
            return -1;
        }
        if (stands_there(folder, name, fd))
            return steal_fd(&fd);
    }
    errno = EBUSY;
    return -1;
}

/* ---- both ---- */

static int taken(const char *label, const struct buf *holder, enum holder who, struct err *err)
{
    return fail(err, ERR_UNAVAILABLE, "%s is taken by %s%s", label, buf_text(holder),
                who == HOLDER_GONE ? ", which has ended: its workers are being ended" : "");
}

static int name_lock(struct device_lock *lock, int folder, const char *label, struct err *err)
{
    const struct kernel_name name = name_of_device(lock->file);
    lock->name_fd = name_take(&name);
    if (lock->name_fd >= 0)
        return 0;
    if (errno == EADDRINUSE) {
        cleanup_buf struct buf holder = BUF_INIT;
        cleanup_fd int fd = file_open(folder, lock->file, false);
        enum holder who = read_holder(fd, &holder);
        return taken(label, &holder, who, err);
    }
    /* Some sandboxes do not allow abstract names; there the file is the only lock. */
    return errno == EACCES || errno == EPERM ? 0 : fail_errno(err, "lock %s", label);
}

static int lock_one(struct device_lock *lock, int folder, const struct device *device,
                    struct err *err)
{
    char label[24];
    enum holder who = HOLDER_UNKNOWN;
    cleanup_buf struct buf holder = BUF_INIT;
    device_label(device, label);
    file_name(device, lock->file);
    int rc = name_lock(lock, folder, label, err);
    if (rc)
        return rc;
    lock->file_fd = file_take(folder, lock->file, &holder, &who);
    if (lock->file_fd >= 0)
        return 0;
    if (errno == EWOULDBLOCK)
        return taken(label, &holder, who, err);
    return fail_errno(err, "lock %s: %s/%s", label, lock_folder(), lock->file);
}

/*
 * True if this muster was started by another one, for a job of a graph or a run of a benchmark, and
 * that one holds the lock of the device for it.
 */
static bool is_handed_down(const struct device *device)
{
    struct str rest = str_of(getenv(LOCK_HANDED_DOWN)), uuid;
    bool is = false;
    while (rest.len > 0 && !is && str_next(&rest, ',', &uuid))
        is = str_equal(uuid, str_of(device->uuid));
    return is;
}

static bool needs_lock(const struct device *device)
{
    return device->kind != DEVICE_CPU && device->kind != DEVICE_SIM && !is_handed_down(device);
}

int device_locks_take(struct device_locks *locks, const struct device_list *devices,
                      const size_t *chosen, size_t n_chosen, const char *run, struct err *err)
{
    *locks = (struct device_locks){
        .at = xcalloc(n_chosen + 1, sizeof(*locks->at)), .folder_fd = -1, .presence_fd = -1};
    for (size_t i = 0; i < n_chosen; i++) {
        const struct device *device = &devices->at[chosen[i]];
        if (!needs_lock(device))
            continue;
        if (locks->folder_fd < 0)
            locks->folder_fd = folder_open(err);
        struct device_lock *lock = &locks->at[locks->len];
        *lock = (struct device_lock){.device = chosen[i], .file_fd = -1, .name_fd = -1};
        int rc = locks->folder_fd;
        if (rc >= 0) {
            locks->len++;
            rc = lock_one(lock, locks->folder_fd, device, err);
        }
        if (rc < 0) {
            device_locks_release(locks);
            return rc;
        }
    }
    if (locks->folder_fd >= 0)
        flock(locks->folder_fd, LOCK_SH | LOCK_NB);
    device_locks_sign(locks, run);
    return 0;
}

void device_locks_sign(const struct device_locks *locks, const char *run)
{
    for (size_t i = 0; i < locks->len; i++)
        write_holder(locks->at[i].file_fd, run);
}

bool device_locks_be_present(struct device_locks *locks, const char *presence)
{
    const struct kernel_name name = name_of_presence(presence);
    locks->presence_fd = name_take(&name);
    return locks->presence_fd >= 0;
}

bool presence_is_held(const char *presence)
{
    const struct kernel_name name = name_of_presence(presence);
    return name_look(&name) != ECONNREFUSED; /* a sandbox may hide processes from each other */
}

static bool is_among(size_t device, const size_t *devices, size_t n_devices)
{
    bool is = false;
    for (size_t i = 0; i < n_devices; i++)
        is = is || devices[i] == device;
    return is;
}

size_t device_locks_fds(const struct device_locks *locks, const size_t *devices, size_t n_devices,
                        int *out)
{
    size_t n = 0;
    for (size_t i = 0; i < locks->len; i++) {
        const struct device_lock *lock = &locks->at[i];
        if (!is_among(lock->device, devices, n_devices))
            continue;
        out[n++] = lock->file_fd;
        if (lock->name_fd >= 0)
            out[n++] = lock->name_fd;
    }
    if (n > 0)
        out[n++] = locks->folder_fd;
    if (locks->at && locks->presence_fd >= 0)
        out[n++] = locks->presence_fd;
    return n;
}

struct device_lock *device_locks_renew(struct device_locks *locks, const char *run,
                                       struct buf *holder)
{
    cleanup_fd int folder = locks->len > 0 ? folder_open(NULL) : -1;
    for (size_t i = 0; i < locks->len && folder >= 0; i++) {
        struct device_lock *lock = &locks->at[i];
        enum holder who;
        if (lock->is_lost || stands_there(folder, lock->file, lock->file_fd))
            continue;
        int fd = file_take(folder, lock->file, holder, &who);
        if (fd >= 0) {
            fd_close(&lock->file_fd);
            lock->file_fd = fd;
            write_holder(fd, run);
        } else if (errno == EWOULDBLOCK) {
            lock->is_lost = true;
            return lock;
        }
    }
    return NULL;
}

/* True if another process holds the device's lock now. */
static bool look(const struct device *device, struct buf *holder, enum holder *who)
{
    char name[LOCK_FILE_MAX];
    if (!needs_lock(device))
        return false;
    file_name(device, name);
    cleanup_fd int folder = open(lock_folder(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    cleanup_fd int fd = folder < 0 ? -1 : file_open(folder, name, false);
    const struct kernel_name in_kernel = name_of_device(name);
    bool is_locked = name_look(&in_kernel) == 0 ||
                     (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK);
    if (is_locked)
        *who = read_holder(fd, holder);
    return is_locked;
}

bool device_is_locked(const struct device *device, struct buf *holder)
{
    cleanup_buf struct buf unwanted = BUF_INIT;
    enum holder who;
    return look(device, holder ? holder : &unwanted, &who);
}

bool device_is_left(const struct device *device, uint64_t waited_ms)
{
    cleanup_buf struct buf unwanted = BUF_INIT;
    enum holder who = HOLDER_THERE;
    if (!look(device, &unwanted, &who))
        return false;
    return who == HOLDER_GONE || (who == HOLDER_UNKNOWN && waited_ms < UNKNOWN_WAIT_MS);
}

void device_locks_join(struct device_locks *locks, struct device_locks *more, size_t first_device)
{
    bool has_folder = locks->at && locks->folder_fd >= 0;
    if (!locks->at)
        locks->presence_fd = -1;
    locks->at = xrealloc(locks->at, (locks->len + more->len + 1) * sizeof(*locks->at));
    for (size_t i = 0; i < more->len; i++) {
        locks->at[locks->len] = more->at[i];
        locks->at[locks->len++].device += first_device;
    }
    if (has_folder)
        fd_close(&more->folder_fd);
    else
        locks->folder_fd = more->folder_fd;
    free(more->at);
    *more = (struct device_locks){0};
}

void device_locks_release(struct device_locks *locks)
{
    for (size_t i = 0; i < locks->len; i++) {
        fd_close(&locks->at[i].file_fd);
        fd_close(&locks->at[i].name_fd);
    }
    if (locks->at) {
        fd_close(&locks->folder_fd);
        fd_close(&locks->presence_fd);
    }
    free(locks->at);
    *locks = (struct device_locks){0};
}
