/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits of the machine and of this session: shared memory, open files, locked memory, the clock.
 */
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/this_host.h"
#include "base/xalloc.h"
#include "doctor/checks.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)

enum {
    MEMINFO_MAX_BYTES = 1 << 16,
    OPEN_FILES_MIN = 1024, /* muster with 64 workers needs some 700 */
    OPEN_FILES_FEW = 4096,
    FILE_SIZE_TINY_BYTES = 1 << 20,
};

/* ---- gathering ---- */

static uint64_t limit_read(int which, bool hard)
{
    struct rlimit limit;
    if (getrlimit(which, &limit) != 0)
        return UINT64_MAX;
    rlim_t value = hard ? limit.rlim_max : limit.rlim_cur;
    return value == RLIM_INFINITY ? UINT64_MAX : value;
}

/* "MemTotal:       24684084 kB" */
static uint64_t meminfo_bytes(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at ? strtoull(at + strlen(name), NULL, 10) * 1024 : 0;
}

static void shm_read(const char *root, struct host_facts *out)
{
    struct statvfs fs;
    cleanup_free char *path = xasprintf("%s/dev/shm", root);
    out->has_shm = statvfs(path, &fs) == 0 && access(path, W_OK) == 0;
    if (!out->has_shm)
        return;
    out->shm_bytes = (uint64_t)fs.f_blocks * fs.f_frsize;
    out->shm_free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
}

void host_gather(const char *root, struct host_facts *out)
{
    cleanup_free char *meminfo = xasprintf("%s/proc/meminfo", root);
    cleanup_free char *infiniband = xasprintf("%s/sys/class/infiniband", root);
    cleanup_buf struct buf text = BUF_INIT;
    if (file_read(meminfo, MEMINFO_MAX_BYTES, &text, NULL) == 0) {
        out->mem_total_bytes = meminfo_bytes(buf_text(&text), "MemTotal:");
        out->mem_available_bytes = meminfo_bytes(buf_text(&text), "MemAvailable:");
    }
    shm_read(root, out);
    out->open_files = limit_read(RLIMIT_NOFILE, false);
    out->open_files_hard = limit_read(RLIMIT_NOFILE, true);
    out->memlock_bytes = limit_read(RLIMIT_MEMLOCK, false);
    out->address_space_bytes = limit_read(RLIMIT_AS, false);
    out->file_size_bytes = limit_read(RLIMIT_FSIZE, false);
    out->has_infiniband = folder_exists(infiniband) && !folder_is_empty(infiniband);
    out->cpus_online = (unsigned)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1L);
    out->cpus_allowed = processors_allowed();
    out->wall_ms = clock_wall_ms();
}

/* ---- shared memory ---- */

static const struct trouble
    no_shm = {FINDING_FAIL,
              "PyTorch's data loaders, NCCL and multiprocessing pass their data through it.",
              "mount -t tmpfs tmpfs /dev/shm, mode 1777"},
    tiny_shm = {FINDING_FAIL,
                "PyTorch's data loaders and NCCL die of it with a bus error or \"No space left on "
                "device\"; 64 MiB is Docker's default.",
                "Start the container with --shm-size=16g or --ipc=host; in Kubernetes mount an "
                "emptyDir of medium Memory there; else mount -o remount,size=16G /dev/shm"},
    small_shm = {FINDING_WARN,
                 "Enough for one data loader; several workers may overflow it (bus error).",
                 "As a rule a gigabyte a worker: --shm-size in Docker, else mount -o "
                 "remount,size=16G /dev/shm"},
    full_shm = {FINDING_WARN,
                "The next run may fail with a bus error; often it is what a killed run left.",
                "ls -l /dev/shm, and remove what belongs to no process (fuser -v FILE)"};

void shm_judge(const struct facts *facts, struct findings *out)
{
    const struct host_facts *host = &facts->host;
    char size[16], left[16];
    size_format(size, host->shm_bytes);
    size_format(left, host->shm_free_bytes);
    if (!host->has_shm)
        found(out, &no_shm, "/dev/shm", "not there, or not writable");
    else if (host->shm_bytes <= 64 * MIB)
        found(out, &tiny_shm, "/dev/shm", "%s", size);
    else if (host->shm_bytes < GIB)
        found(out, &small_shm, "/dev/shm", "%s", size);
    else if (host->shm_free_bytes < host->shm_bytes / 10)
        found(out, &full_shm, "/dev/shm", "%s of %s left", left, size);
    else
        found_ok(out, "/dev/shm: %s of %s free", left, size);
}

/* ---- limits ---- */

static const struct trouble
    few_files = {FINDING_FAIL, "A run with many workers ends with \"Too many open files\".",
                 "ulimit -n 65536 (as far as the hard limit goes), or nofile in "
                 "/etc/security/limits.conf; LimitNOFILE= for a service"},
    some_files = {FINDING_WARN,
                  "Enough for muster; data loaders that pass tensors by descriptor, and programs "
                  "with thousands of shards open, run out of it.",
                  "ulimit -n 65536 before the run"},
    little_memlock = {FINDING_WARN,
                      "NCCL and MPI register memory with the InfiniBand adapter and fail, or fall "
                      "back to sockets.",
                      "ulimit -l unlimited: memlock in /etc/security/limits.conf; docker run "
                      "--ulimit memlock=-1; LimitMEMLOCK=infinity for slurmd"},
    address_space = {FINDING_WARN,
                     "CUDA reserves address space for all memory of GPUs and host, and fails with "
                     "\"out of memory\" below a limit.",
                     "ulimit -v unlimited"},
    file_size = {FINDING_WARN, "Results beyond it end a run (75, to be resumed).",
                 "ulimit -f unlimited"},
    tiny_files = {FINDING_FAIL, "The database of a run alone is larger: none comes to its end.",
                  "ulimit -f unlimited"};

/* "65536 open files, 8.0 MiB of locked memory" */
static void fit_limits_tell(const struct host_facts *host, struct findings *out)
{
    char files[32] = "any number of", locked[16] = "any amount";
    if (host->open_files != UINT64_MAX)
        snprintf(files, sizeof(files), "%lu", (unsigned long)host->open_files);
    if (host->memlock_bytes != UINT64_MAX)
        size_format(locked, host->memlock_bytes);
    found_ok(out, "%s open files, %s of locked memory", files, locked);
}

void limits_judge(const struct facts *facts, struct findings *out)
{
    const struct host_facts *host = &facts->host;
    size_t n_before = out->len;
    char size[16];
    unsigned long files = (unsigned long)host->open_files;
    unsigned long hard = (unsigned long)MIN(host->open_files_hard, (uint64_t)INT64_MAX);
    if (host->open_files < OPEN_FILES_MIN)
        found(out, &few_files, "open files", "at most %lu (hard limit %lu)", files, hard);
    else if (host->open_files < OPEN_FILES_FEW)
        found(out, &some_files, "open files", "at most %lu (hard limit %lu)", files, hard);
    size_format(size, host->memlock_bytes);
    if (host->has_infiniband && host->memlock_bytes != UINT64_MAX)
        found(out, &little_memlock, "locked memory", "at most %s", size);
    size_format(size, host->address_space_bytes);
    if (host->address_space_bytes != UINT64_MAX)
        found(out, &address_space, "address space", "at most %s", size);
    size_format(size, host->file_size_bytes);
    if (host->file_size_bytes != UINT64_MAX)
        found(out, host->file_size_bytes < FILE_SIZE_TINY_BYTES ? &tiny_files : &file_size,
              "file size", "at most %s", size);
    if (out->len == n_before)
        fit_limits_tell(host, out);
}

/* ---- clock ---- */

enum {
    SKEW_MS = 2000
};
/* 2024 and 2100 */
#define WALL_FIRST_MS 1704067200000
#define WALL_LAST_MS  4102444800000

static const struct trouble
    wrong_clock = {FINDING_FAIL,
                   "Certificates, file times and the names of run folders are wrong by it.",
                   "timedatectl set-ntp true, or set it by hand: date -s"},
    skewed = {FINDING_WARN,
              "The clocks of this machine and of its file server differ: make, rsync and whatever "
              "compares times go wrong.",
              "Let both take the time from one server (chrony, timedatectl set-ntp true)"};

void clock_judge(const struct facts *facts, struct findings *out)
{
    int64_t wall_ms = facts->host.wall_ms;
    int64_t skew_ms = facts->has_folder && facts->folder.sys == 0 ? facts->folder.skew_ms : 0;
    char time[40];
    clock_rfc3339(time, wall_ms);
    if (wall_ms < WALL_FIRST_MS || wall_ms > WALL_LAST_MS)
        found(out, &wrong_clock, "", "it is said to be %s", time);
    else if (skew_ms > SKEW_MS || skew_ms < -SKEW_MS)
        found(out, &skewed, "", "the file system of the run folder is %.1f s %s",
              (double)(skew_ms < 0 ? -skew_ms : skew_ms) / 1000, skew_ms > 0 ? "ahead" : "behind");
    else
        found_ok(out, "%s", time);
}
