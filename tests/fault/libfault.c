/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded into one program, makes the n-th call of a kind fail:
 *
 *   FAULT=KIND:N:WHAT[:TIMES]  WHAT is an errno, or 0: a short read or write, or -9: the program is killed
 *                              instead. TIMES: how many calls in a row fail (1); a disk that stays full is a
 *                              large number
 *   FAULT_PROGRAM=NAME         the program that is meant; all others are left alone
 *   FAULT_COUNTS=FILE          gets how many calls there were, how many failed, and where the first
 *                              of them was made: a file of zeros as long as `struct counts`
 *
 * What the program starts knows nothing of all this, except the moment between clone and exec.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* Writes and reads are of files; what goes through pipes and sockets fails in other ways. */
/* clang-format off */
#define KINDS(X)                                                                                  \
    X(write) X(pwrite) X(sync) X(rename) X(create) X(open) X(mkdir) X(unlink) X(truncate) X(lock) \
    X(mmap) X(stat) X(read) X(send) X(recv) X(pipe) X(watch) X(spawn) X(malloc)
/* clang-format on */

enum kind {
#define X(name) KIND_##name,
    KINDS(X)
#undef X
    KINDS_END
};

static const char *const kind_names[] = {
#define X(name) #name,
    KINDS(X)
#undef X
};

struct counts {
    uint64_t is_armed; /* so that nobody counts the faults of a library that was not loaded */
    uint64_t calls, failed;
    uint64_t where; /* the first call's return address, from the beginning of its object */
    char object[256];
};

static struct {
    enum kind kind;
    uint64_t first, end; /* calls first … end-1 fail, counted from 1 */
    int sys;
    struct counts *counts;
    uintptr_t program_begin, program_end;
} fault = {.kind = KINDS_END};

static struct {
    int (*clone)(int (*)(void *), void *, int, void *, ...);
    int (*pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    pid_t (*fork)(void);
    int (*posix_spawn)(pid_t *, const char *, const posix_spawn_file_actions_t *,
                       const posix_spawnattr_t *, char *const *, char *const *);
    FILE *(*fopen)(const char *, const char *);
    DIR *(*opendir)(const char *);
} real;

/* ---- the countdown ---- */

static void note_where(uintptr_t caller)
{
    Dl_info info;
    if (!dladdr((void *)caller, &info))
        return;
    fault.counts->where = caller - (uintptr_t)info.dli_fbase;
    strncpy(fault.counts->object, info.dli_fname, sizeof(fault.counts->object) - 1);
}

static bool fails(enum kind kind, const void *caller)
{
    if (kind != fault.kind)
        return false;
    uint64_t number = __atomic_add_fetch(&fault.counts->calls, 1, __ATOMIC_RELAXED);
    if (number < fault.first || number >= fault.end)
        return false;
    if (__atomic_add_fetch(&fault.counts->failed, 1, __ATOMIC_RELAXED) == 1)
        note_where((uintptr_t)caller);
    if (fault.sys < 0)
        raise(-fault.sys);
    errno = fault.sys;
    return true;
}

#define FAILS(kind) fails(KIND_##kind, __builtin_return_address(0))

/* libuv takes the want of a descriptor for a bug, and says so; what counts is how the program bears it. */
static bool is_own(const void *caller)
{
    return (uintptr_t)caller >= fault.program_begin && (uintptr_t)caller < fault.program_end;
}
#define OWN_FAILS(kind) \
    (is_own(__builtin_return_address(0)) && fails(KIND_##kind, __builtin_return_address(0)))

/*
 * Of a read or write, which kind it is. libuv wakes its own loop through pipes that cannot fail, so of
 * pipes and sockets only the program's own calls count.
 */
static enum kind kind_of(int fd, enum kind on_file, enum kind on_stream, const void *caller)
{
    struct stat st;
    if (fault.kind != on_file && fault.kind != on_stream)
        return KINDS_END;
    if (syscall(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH) != 0)
        return KINDS_END;
    if (S_ISREG(st.st_mode))
        return on_file;
    return (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)) && is_own(caller) ? on_stream : KINDS_END;
}

/* 0: not at all; -1: the call fails; 1: it does half of what it was asked. */
static int fails_or_halves(enum kind kind, size_t *len, const void *caller)
{
    if (kind == KINDS_END || !fails(kind, caller))
        return 0;
    if (fault.sys != 0)
        return -1;
    *len = *len > 1 ? *len / 2 : *len;
    return 1;
}

/* ---- files ---- */

#define EXPORT(type) __attribute__((visibility("default"))) type

EXPORT(ssize_t) write(int fd, const void *at, size_t len)
{
    const void *caller = __builtin_return_address(0);
    if (fails_or_halves(kind_of(fd, KIND_write, KIND_send, caller), &len, caller) < 0)
        return -1;
    return syscall(SYS_write, fd, at, len);
}

EXPORT(ssize_t) send(int fd, const void *at, size_t len, int flags)
{
    const void *caller = __builtin_return_address(0);
    if (fails_or_halves(kind_of(fd, KINDS_END, KIND_send, caller), &len, caller) < 0)
        return -1;
    return syscall(SYS_sendto, fd, at, len, flags, NULL, 0);
}

EXPORT(ssize_t) read(int fd, void *at, size_t len)
{
    const void *caller = __builtin_return_address(0);
    if (fails_or_halves(kind_of(fd, KIND_read, KIND_recv, caller), &len, caller) < 0)
        return -1;
    return syscall(SYS_read, fd, at, len);
}

EXPORT(ssize_t) recv(int fd, void *at, size_t len, int flags)
{
    const void *caller = __builtin_return_address(0);
    if (fails_or_halves(kind_of(fd, KINDS_END, KIND_recv, caller), &len, caller) < 0)
        return -1;
    return syscall(SYS_recvfrom, fd, at, len, flags, NULL, NULL);
}

EXPORT(ssize_t) pwrite64(int fd, const void *at, size_t len, off64_t offset)
{
    if (fails_or_halves(KIND_pwrite, &len, __builtin_return_address(0)) < 0)
        return -1;
    return syscall(SYS_pwrite64, fd, at, len, offset);
}

EXPORT(ssize_t) pread64(int fd, void *at, size_t len, off64_t offset)
{
    if (fails_or_halves(KIND_read, &len, __builtin_return_address(0)) < 0)
        return -1;
    return syscall(SYS_pread64, fd, at, len, offset);
}

static int open_mode(int dir, const char *path, int flags, va_list args)
{
    mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(args, mode_t) : 0;
    return (int)syscall(SYS_openat, dir, path, flags, mode);
}

#define OPEN(name)                                                                        \
    EXPORT(int) name(const char *path, int flags, ...)                                    \
    {                                                                                     \
        va_list args;                                                                     \
        if (flags & (O_CREAT | __O_TMPFILE) ? FAILS(create) || FAILS(open) : FAILS(open)) \
            return -1;                                                                    \
        va_start(args, flags);                                                            \
        int fd = open_mode(AT_FDCWD, path, flags, args);                                  \
        va_end(args);                                                                     \
        return fd;                                                                        \
    }

#define OPENAT(name)                                                                      \
    EXPORT(int) name(int dir, const char *path, int flags, ...)                           \
    {                                                                                     \
        va_list args;                                                                     \
        if (flags & (O_CREAT | __O_TMPFILE) ? FAILS(create) || FAILS(open) : FAILS(open)) \
            return -1;                                                                    \
        va_start(args, flags);                                                            \
        int fd = open_mode(dir, path, flags, args);                                       \
        va_end(args);                                                                     \
        return fd;                                                                        \
    }

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

/* One line each: what fails, and what it is otherwise. */
/* clang-format off */
#define WRAP(kind, type, failure, name, params, otherwise) \
    EXPORT(type) name params { return FAILS(kind) ? (failure) : (otherwise); }
#define WRAP_OWN(kind, type, failure, name, params, otherwise) \
    EXPORT(type) name params { return OWN_FAILS(kind) ? (failure) : (otherwise); }

WRAP(open, FILE *, NULL, fopen, (const char *path, const char *mode), real.fopen(path, mode))
WRAP(open, FILE *, NULL, fopen64, (const char *path, const char *mode), real.fopen(path, mode))
WRAP(open, DIR *, NULL, opendir, (const char *path), real.opendir(path))
WRAP(sync, int, -1, fsync, (int fd), (int)syscall(SYS_fsync, fd))
WRAP(sync, int, -1, fdatasync, (int fd), (int)syscall(SYS_fdatasync, fd))
WRAP(rename, int, -1, rename, (const char *from, const char *to), (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0))
WRAP(rename, int, -1, renameat2, (int from_dir, const char *from, int to_dir, const char *to, unsigned flags), (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags))
WRAP(rename, int, -1, linkat, (int from_dir, const char *from, int to_dir, const char *to, int flags), (int)syscall(SYS_linkat, from_dir, from, to_dir, to, flags))
WRAP(rename, int, -1, symlink, (const char *target, const char *path), (int)syscall(SYS_symlinkat, target, AT_FDCWD, path))
WRAP(unlink, int, -1, unlink, (const char *path), (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0))
WRAP(unlink, int, -1, rmdir, (const char *path), (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR))
WRAP(truncate, int, -1, ftruncate64, (int fd, off64_t len), (int)syscall(SYS_ftruncate, fd, len))
WRAP(stat, int, -1, stat64, (const char *restrict path, struct stat64 *restrict st), (int)syscall(SYS_newfstatat, AT_FDCWD, path, st, 0))
WRAP(stat, int, -1, lstat64, (const char *restrict path, struct stat64 *restrict st), (int)syscall(SYS_newfstatat, AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW))
WRAP(stat, int, -1, fstat64, (int fd, struct stat64 *st), (int)syscall(SYS_newfstatat, fd, "", st, AT_EMPTY_PATH))
WRAP(mmap, void *, MAP_FAILED, mmap64, (void *at, size_t len, int prot, int flags, int fd, off64_t offset), (void *)syscall(SYS_mmap, at, len, prot, flags, fd, offset))
WRAP(lock, int, -1, flock, (int fd, int how), (int)syscall(SYS_flock, fd, how))

/* ---- processes and descriptors ---- */

WRAP(spawn, pid_t, -1, fork, (void), real.fork())
WRAP(spawn, int, -1, execve, (const char *path, char *const *argv, char *const *envp), (int)syscall(SYS_execve, path, argv, envp))
WRAP(spawn, int, fault.sys, posix_spawn, (pid_t *restrict pid, const char *restrict path, const posix_spawn_file_actions_t *restrict actions, const posix_spawnattr_t *restrict attr, char *const *restrict argv, char *const *restrict envp), real.posix_spawn(pid, path, actions, attr, argv, envp))
WRAP_OWN(pipe, int, -1, pipe, (int ends[2]), (int)syscall(SYS_pipe2, ends, 0))
WRAP_OWN(pipe, int, -1, pipe2, (int ends[2], int flags), (int)syscall(SYS_pipe2, ends, flags))
WRAP_OWN(pipe, int, -1, socketpair, (int domain, int type, int protocol, int ends[2]), (int)syscall(SYS_socketpair, domain, type, protocol, ends))
WRAP_OWN(pipe, int, -1, socket, (int domain, int type, int protocol), (int)syscall(SYS_socket, domain, type, protocol))
WRAP_OWN(pipe, int, -1, dup, (int fd), (int)syscall(SYS_dup, fd))
WRAP_OWN(pipe, int, -1, dup3, (int fd, int to, int flags), (int)syscall(SYS_dup3, fd, to, flags))
WRAP_OWN(pipe, int, -1, epoll_create1, (int flags), (int)syscall(SYS_epoll_create1, flags))
WRAP_OWN(pipe, int, -1, eventfd, (unsigned count, int flags), (int)syscall(SYS_eventfd2, count, flags))
WRAP_OWN(pipe, int, -1, signalfd, (int fd, const sigset_t *mask, int flags), (int)syscall(SYS_signalfd4, fd, mask, 8, flags))
WRAP_OWN(pipe, int, -1, timerfd_create, (int clock, int flags), (int)syscall(SYS_timerfd_create, clock, flags))

/* ---- memory ---- */

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);

WRAP(malloc, void *, NULL, malloc, (size_t size), __libc_malloc(size))
WRAP(malloc, void *, NULL, calloc, (size_t count, size_t size), __libc_calloc(count, size))
WRAP(malloc, void *, NULL, realloc, (void *at, size_t size), __libc_realloc(at, size))
/* clang-format on */

/* That a folder is there already is found before anything else. */
EXPORT(int) mkdir(const char *path, mode_t mode)
{
    bool is_there = syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
    return !is_there && FAILS(mkdir) ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

EXPORT(int) fcntl64(int fd, int command, ...)
{
    va_list args;
    va_start(args, command);
    long arg = va_arg(args, long);
    va_end(args);
    bool locks = command == F_SETLK || command == F_OFD_SETLK || command == F_GETLK;
    bool copies = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
    if ((locks && FAILS(lock)) || (copies && OWN_FAILS(pipe)))
        return -1;
    return (int)syscall(SYS_fcntl, fd, command, arg);
}

/* libuv asks whether a descriptor can be watched before it does so for good, where a refusal ends the program. */
EXPORT(int) epoll_ctl(int epoll, int command, int fd, struct epoll_event *event)
{
    bool is_asked = command == EPOLL_CTL_ADD && event->data.fd == -1;
    return is_asked && FAILS(watch) ? -1 : (int)syscall(SYS_epoll_ctl, epoll, command, fd, event);
}

EXPORT(int) clone(int (*run)(void *), void *stack, int flags, void *arg, ...)
{
    va_list args;
    va_start(args, arg);
    pid_t *pid = va_arg(args, pid_t *);
    va_end(args);
    return FAILS(spawn) ? -1 : real.clone(run, stack, flags, arg, pid);
}

EXPORT(int)
pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    return FAILS(spawn) ? errno : real.pthread_create(thread, attr, run, arg);
}

/* ---- the beginning ---- */

static int program_note(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size, (void)context;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *piece = &info->dlpi_phdr[i];
        if (piece->p_type != PT_LOAD || !(piece->p_flags & PF_X))
            continue;
        fault.program_begin = info->dlpi_addr + piece->p_vaddr;
        fault.program_end = fault.program_begin + piece->p_memsz;
    }
    return 1; /* the program itself comes first */
}

static enum kind kind_parse(const char *text, size_t len)
{
    for (enum kind kind = 0; kind < KINDS_END; kind++)
        if (strlen(kind_names[kind]) == len && strncmp(kind_names[kind], text, len) == 0)
            return kind;
    fprintf(stderr, "libfault: unknown kind in FAULT=%s\n", text);
    _exit(99);
}

static void arm(const char *text, const char *counts_path)
{
    char *at = strchr(text, ':');
    enum kind kind = kind_parse(text, at ? (size_t)(at - text) : strlen(text));
    fault.first = strtoull(at ? at + 1 : "", &at, 10);
    fault.sys = *at == ':' ? (int)strtol(at + 1, &at, 10) : EIO;
    fault.end = fault.first + (*at == ':' ? strtoull(at + 1, NULL, 10) : 1);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, counts_path, O_RDWR | O_CLOEXEC, 0);
    fault.counts = (void *)syscall(SYS_mmap, NULL, sizeof(*fault.counts), PROT_READ | PROT_WRITE,
                                   MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (fault.counts == MAP_FAILED)
        return;
    fault.counts->is_armed = 1;
    fault.kind = kind;
}

__attribute__((constructor)) static void begin(void)
{
    *(void **)&real.clone = dlsym(RTLD_NEXT, "clone");
    *(void **)&real.pthread_create = dlsym(RTLD_NEXT, "pthread_create");
    *(void **)&real.fork = dlsym(RTLD_NEXT, "fork");
    *(void **)&real.posix_spawn = dlsym(RTLD_NEXT, "posix_spawn");
    *(void **)&real.fopen = dlsym(RTLD_NEXT, "fopen");
    *(void **)&real.opendir = dlsym(RTLD_NEXT, "opendir");
    const char *program = getenv("FAULT_PROGRAM"), *text = getenv("FAULT");
    const char *counts_path = getenv("FAULT_COUNTS");
    if (!program || !text || !counts_path || strcmp(program, program_invocation_short_name) != 0)
        return;
    dl_iterate_phdr(program_note, NULL);
    unsetenv("LD_PRELOAD");
    unsetenv("FAULT_PROGRAM");
    arm(text, counts_path);
}
