/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder for runs: does it exist, and is it local, large and fast enough? This runs in a child process, because
 * every call below may block for ever on a dead network file system.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/rng.h"
#include "base/xalloc.h"
#include "doctor/checks.h"

#define GIB (1ull << 30)

enum {
    WRITE_MAX_BYTES = 64 << 20,
    WRITE_MAX_MS = 300,
    CHUNK_FIRST_BYTES =
        256 << 10, /* doubled each time, so that a slow disk is not asked for much */
    CHUNK_MAX_BYTES = 8 << 20,
};

/* ---- gathering ---- */

static char *existing_new(const char *path)
{
    char *at = path_absolute(path);
    while (!path_exists(at) && strcmp(at, "/") != 0) {
        char *parent = path_dirname(at);
        free(at);
        at = parent;
    }
    return at;
}

static void failed(struct folder_facts *out, const char *what)
{
    out->sys = errno;
    snprintf(out->failed, sizeof(out->failed), "%s", what);
}

/* A file without a name, so that it disappears however this process ends. */
static int nameless_open(const char *folder)
{
    int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL && errno != ENOENT))
        return fd;
    cleanup_free char *path = path_join(folder, ".muster-doctor-XXXXXX");
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

/* Fills in random bytes, which a file system cannot compress. */
static void noise_fill(char *at, size_t n_bytes)
{
    struct rng rng = {n_bytes};
    for (size_t i = 0; i + sizeof(uint64_t) <= n_bytes; i += sizeof(uint64_t)) {
        uint64_t word = rng_next(&rng);
        memcpy(at + i, &word, sizeof(word));
    }
}

/*
 * Each chunk is synced, so that the disk itself is measured, and the last sync does not take long.
 */
static bool write_measure(int fd, struct folder_facts *out)
{
    cleanup_free char *chunk = xmalloc(CHUNK_MAX_BYTES);
    size_t chunk_bytes = CHUNK_FIRST_BYTES;
    noise_fill(chunk, CHUNK_MAX_BYTES);
    uint64_t begin_ns = clock_now_ns();
    do {
        struct err err = {0};
        if (write_all(fd, chunk, chunk_bytes, &err) != 0) {
            errno = err.sys;
            return false;
        }
        if (fdatasync(fd) != 0)
            return false;
        out->written_bytes += chunk_bytes;
        out->took_ns = clock_now_ns() - begin_ns;
        chunk_bytes = MIN(chunk_bytes * 2, (size_t)CHUNK_MAX_BYTES);
    } while (out->written_bytes + chunk_bytes <= WRITE_MAX_BYTES &&
             out->took_ns < WRITE_MAX_MS * 1000000ull);
    return true;
}

static void skew_measure(int fd, struct folder_facts *out)
{
    struct stat st;
    if (futimens(fd, NULL) == 0 && fstat(fd, &st) == 0)
        out->skew_ms =
            (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000 - clock_wall_ms();
}

void folder_gather(const char *path, struct folder_facts *out)
{
    cleanup_free char *existing = existing_new(path);
    struct statvfs fs;
    struct stat st;
    snprintf(out->path, sizeof(out->path), "%s", path);
    snprintf(out->existing, sizeof(out->existing), "%s", existing);
    out->is_deleted = strcmp(existing, ".") == 0 && cwd_is_deleted();
    if (stat(path, &st) != 0 && errno == ENAMETOOLONG) {
        failed(out, "make folders up to it");
        return;
    }
    if (statvfs(existing, &fs) != 0) {
        failed(out, "look at it");
        return;
    }
    out->is_network = is_network_fs(existing);
    out->size_bytes = (uint64_t)fs.f_blocks * fs.f_frsize;
    out->free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    out->files = fs.f_files;
    out->files_free = fs.f_favail;
    if (!folder_exists(existing)) {
        errno = ENOTDIR;
        failed(out, "use it");
        return;
    }
    if (out->is_deleted) {
        errno = ENOENT;
        failed(out, "make a file in it");
        return;
    }
    cleanup_fd int fd = nameless_open(existing);
    if (fd < 0) {
        failed(out, "make a file in it");
        return;
    }
    if (!write_measure(fd, out))
        failed(out, "write into it");
    skew_measure(fd, out);
}

/* ---- the folder ---- */

static const struct trouble
    dead_folder =
        {FINDING_FAIL,
         "Its file system does not answer: most often a network file server that is down. A "
         "run there would hang as well.",
         "Have it mounted again (dmesg says: server not responding), or take another folder: "
         "--runs-dir, MUSTER_RUNS_DIR"},
    no_folder = {FINDING_FAIL, "No run can be started with it.",
                 "Take another folder (--runs-dir, MUSTER_RUNS_DIR), or correct its rights"},
    deleted = {FINDING_FAIL, "No run can be started there: no file can be made in it.",
               "Change to another folder (cd), also if one of this name is there again"},
    network = {
        FINDING_WARN,
        "muster's database runs there with a rollback journal and one writer, which is slower; "
        "a server that is away stops the run.",
        "Put runs on a local disk (--runs-dir), and the output where it belongs (-o)"};

void folder_judge(const struct facts *facts, struct findings *out)
{
    const struct folder_facts *folder = &facts->folder;
    if (!facts->has_folder)
        found(out, &dead_folder, folder->path, "no answer within %lu ms",
              (unsigned long)facts->deadline_ms);
    else if (folder->is_deleted)
        found(out, &deleted, folder->existing, "the current folder was deleted");
    else if (folder->sys == ENOTDIR)
        found(out, &no_folder, folder->existing, "it is there and is not a folder");
    else if (folder->sys != 0 && !errno_means_full(folder->sys))
        found(out, &no_folder, folder->existing, "%s: %s", folder->failed, errno_text(folder->sys));
    else if (folder->is_network)
        found(out, &network, folder->existing, "on a network file system, or FUSE");
    else
        found_ok(out, "%s is local and writable", folder->existing);
}

/* ---- the disk under it ---- */

static const struct trouble
    full_disk = {FINDING_FAIL, "A run is stopped by it (75, to be resumed).",
                 "Make room, or take a folder on another disk: --runs-dir, MUSTER_RUNS_DIR"},
    filling_disk = {FINDING_WARN,
                    "Results are there twice for a moment, in parts and merged; logs come to it.",
                    "Make room, or take a folder on another disk: --runs-dir, MUSTER_RUNS_DIR"},
    slow_disk = {FINDING_WARN,
                 "Results are synced before they count: many small ones wait for the disk.",
                 "Take a folder on a local SSD: --runs-dir, MUSTER_RUNS_DIR"};

enum {
    SLOW_BYTES_S = 20 << 20,
    FILES_FEW = 10000
};

static double bytes_a_second(const struct folder_facts *folder)
{
    return folder->took_ns > 0 ? (double)folder->written_bytes / (double)folder->took_ns * 1e9 : 0;
}

static void room_judge(const struct folder_facts *folder, struct findings *out)
{
    char left[16], size[16];
    size_format(left, folder->free_bytes);
    size_format(size, folder->size_bytes);
    if (folder->sys == EDQUOT)
        found(out, &full_disk, folder->existing, "the quota is used up, with %s of %s free", left,
              size);
    else if (folder->sys == ENOSPC || folder->free_bytes < GIB)
        found(out, &full_disk, folder->existing, "%s of %s free", left, size);
    else if (folder->free_bytes < 10 * GIB)
        found(out, &filling_disk, folder->existing, "%s of %s free", left, size);
    if (folder->files > 0 && folder->files_free < FILES_FEW)
        found(out, &full_disk, folder->existing, "%lu of %lu inodes free",
              (unsigned long)folder->files_free, (unsigned long)folder->files);
}

void disk_judge(const struct facts *facts, struct findings *out)
{
    const struct folder_facts *folder = &facts->folder;
    double speed = bytes_a_second(folder);
    size_t n_before = out->len;
    char left[16], rate[16];
    if (!facts->has_folder || folder->size_bytes == 0)
        return;
    size_format(left, folder->free_bytes);
    size_format(rate, (uint64_t)speed);
    room_judge(folder, out);
    /* EFBIG: what fits below the limit on files is too little, and only measures the time of a
     * sync. */
    if (folder->sys != EFBIG && speed > 0 && speed < SLOW_BYTES_S)
        found(out, &slow_disk, folder->existing, "written and synced at %s/s", rate);
    if (out->len == n_before && folder->sys == 0)
        found_ok(out, "%s free, written and synced at %s/s", left, rate);
    else if (out->len == n_before && folder->sys == EFBIG) /* the check `limits` reports it */
        found_ok(out, "%s free, not measured: the size of files is limited", left);
}
