/* SPDX-License-Identifier: Apache-2.0
 *
 * The file that the ranks share, and the buffers in this rank's arena. Every page is reserved
 * before it is used, with an error message if there is no memory for it: a write to a missing page
 * would kill the process.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shm.h"

enum {
    PAGE_BYTES = 65536 /* a multiple of the page of every architecture */
};
static const uint64_t arenas_bytes_max = 1ull << 44; /* a process can map 2⁴⁷ */

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static const char *reason(void)
{
    const char *why = strerrordesc_np(errno);
    return why ? why : "unknown error";
}

/* ---- how much memory there is ---- */

/*
 * Returns the number after a name in a file of the kernel's; UINT64_MAX: it is missing, or "max".
 */
static uint64_t number_in(const char *path, const char *name)
{
    char line[256];
    uint64_t found = UINT64_MAX;
    FILE *file = fopen(path, "re");
    while (file && found == UINT64_MAX && fgets(line, sizeof(line), file)) {
        char *digits = line + strlen(name), *end;
        if (strncmp(line, name, strlen(name)) != 0)
            continue;
        unsigned long long value = strtoull(digits, &end, 10);
        found = end > digits ? value : UINT64_MAX;
    }
    if (file)
        fclose(file);
    return found;
}

/* The names of files and members in each version of control groups. */
static const struct group_files {
    const char *controller, *mount, *max, *used, *caches[2];
} versions[] = {
    {"", "", "memory.max", "memory.current", {"inactive_file ", "active_file "}},
    {"memory",
     "/memory",
     "memory.limit_in_bytes",
     "memory.usage_in_bytes",
     {"total_inactive_file ", "total_active_file "}},
};

static uint64_t group_number(const char *folder, const char *name, const char *line)
{
    char path[4400];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return number_in(path, line);
}

static uint64_t group_room_bytes(const char *folder, const struct group_files *files)
{
    uint64_t max = group_number(folder, files->max, "");
    uint64_t used = group_number(folder, files->used, "");
    if (max == UINT64_MAX || used == UINT64_MAX)
        return UINT64_MAX;
    for (size_t i = 0; i < 2; i++) { /* the kernel gives caches of files back */
        uint64_t cache = group_number(folder, "memory.stat", files->caches[i]);
        used -= cache < used ? cache : 0;
    }
    return used < max ? max - used : 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/*
 * The limits of the groups above hold as well, up to the mount. Groups that cannot be seen are
 * passed over: in a container the path may be that of the machine.
 */
static uint64_t groups_room_bytes(const char *root, const char *path,
                                  const struct group_files *files)
{
    char folder[4300];
    uint64_t room = UINT64_MAX;
    size_t len = (size_t)snprintf(folder, sizeof(folder), "%s%s", root, files->mount);
    snprintf(folder + len, sizeof(folder) - len, "%s", path);
    for (;;) {
        room = least(room, group_room_bytes(folder, files));
        char *slash = strrchr(folder + len, '/');
        if (!slash)
            return room;
        *slash = '\0';
    }
}

/* "0::/user.slice" and "4:memory:/job/step" are lines of /proc/self/cgroup. */
static uint64_t line_room_bytes(const char *root, char *line)
{
    uint64_t room = UINT64_MAX;
    line[strcspn(line, "\n")] = '\0';
    strsep(&line, ":");
    char *names = strsep(&line, ":"), *name;
    while (line && (name = strsep(&names, ",")))
        for (size_t v = 0; v < sizeof(versions) / sizeof(*versions); v++)
            if (strcmp(name, versions[v].controller) == 0)
                room = least(room, groups_room_bytes(root, line, &versions[v]));
    return room;
}

uint64_t md_room_bytes(const char *proc, const char *groups)
{
    char text[4096];
    snprintf(text, sizeof(text), "%s/meminfo", proc);
    uint64_t room = number_in(text, "MemAvailable:");
    room = room > UINT64_MAX / 1024 ? UINT64_MAX : room * 1024;
    snprintf(text, sizeof(text), "%s/self/cgroup", proc);
    FILE *file = fopen(text, "re");
    while (file && fgets(text, sizeof(text), file))
        room = least(room, line_room_bytes(groups, text));
    if (file)
        fclose(file);
    return room;
}

int md_room_check(struct muster_dist *dist, uint64_t bytes, uint64_t room, const char *what)
{
    if (bytes <= room)
        return 0;
    return md_fail(dist, MUSTER_DIST_ENOMEM,
                   "rank %u: no memory for %s: %.1f MiB are needed, and %.1f MiB available",
                   dist->place.rank, what, (double)bytes / 1048576, (double)room / 1048576);
}

int md_shm_reserve(struct muster_dist *dist, uint64_t at, uint64_t bytes, const char *what)
{
    struct md_shm *shm = dist->impl;
    int rc = md_room_check(dist, bytes, md_room_bytes("/proc", "/sys/fs/cgroup"), what);
    if (rc != 0)
        return rc;
    do
        rc = fallocate(shm->fd, 0, (off_t)at, (off_t)bytes);
    while (rc != 0 && errno == EINTR);
    if (rc != 0)
        return md_fail(dist, MUSTER_DIST_ENOMEM, "rank %u: no memory for %s (%.1f MiB): %s",
                       dist->place.rank, what, (double)bytes / 1048576, reason());
    return 0;
}

/* ---- the file ---- */

static int file_map(struct muster_dist *dist, uint64_t bytes)
{
    struct md_shm *shm = dist->impl;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, shm->fd, 0);
    if (base == MAP_FAILED)
        return md_fail(dist, MUSTER_DIST_ENOMEM,
                       "rank %u: %.1f MiB of addresses for shared memory cannot be had (ulimit -v "
                       "limits them): %s",
                       dist->place.rank, (double)bytes / 1048576, reason());
    madvise(base, bytes, MADV_DONTDUMP);
    shm->base = base;
    shm->bytes = bytes;
    shm->world = base;
    return 0;
}

/*
 * Returns an equal share of the machine's memory, or less if the user's limits are lower: a file
 * that grows above the limit on file sizes would kill the process.
 */
static uint64_t arena_choose(uint64_t fixed, uint32_t size)
{
    uint64_t bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    struct rlimit file, space;
    bytes = bytes < arenas_bytes_max ? bytes : arenas_bytes_max;
    if (getrlimit(RLIMIT_FSIZE, &file) == 0 && file.rlim_cur != RLIM_INFINITY)
        bytes = file.rlim_cur < fixed           ? 0
                : file.rlim_cur - fixed < bytes ? file.rlim_cur - fixed
                                                : bytes;
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
        bytes = space.rlim_cur / 4 < bytes ? space.rlim_cur / 4 : bytes;
    return bytes / size / PAGE_BYTES * PAGE_BYTES;
}

/* Takes the lock by which other ranks see that this one lives. */
static int life_begin(struct muster_dist *dist)
{
    struct md_shm *shm = dist->impl;
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = dist->place.rank, .l_len = 1};
    if (fcntl(shm->fd, F_SETLK, &lock) != 0)
        return md_fail(dist, MUSTER_DIST_EIO, "rank %u: lock in shared memory: %s",
                       dist->place.rank, reason());
    struct shm_rank *own = &shm->world->ranks[dist->place.rank];
    atomic_store(&own->pid, (uint32_t)getpid());
    atomic_store(&own->at_ns, md_now_ns());
    return 0;
}

int md_shm_create(struct muster_dist *dist)
{
    struct md_shm *shm = dist->impl;
    uint32_t size = dist->place.size;
    uint64_t stages_at = round_up(sizeof(struct shm_world) + size * sizeof(struct shm_rank));
    uint64_t results_at = stages_at + 2ull * MD_STAGE_BYTES * size;
    uint64_t arenas_at = results_at + 2ull * MD_STAGE_BYTES;
    uint64_t arena_bytes = arena_choose(arenas_at, size);
    uint64_t bytes = arenas_at + arena_bytes * size;
    shm->fd = (int)syscall(SYS_memfd_create, "muster-dist", 1 /* MFD_CLOEXEC */);
    if (shm->fd < 0)
        return md_fail(dist, MUSTER_DIST_EIO, "rank 0: memfd_create: %s", reason());
    struct rlimit file;
    if (getrlimit(RLIMIT_FSIZE, &file) == 0 && file.rlim_cur < bytes)
        return md_fail(
            dist, MUSTER_DIST_ENOMEM,
            "rank 0: the limit on the size of files (ulimit -f) is below the %.1f MiB of "
            "shared memory for %u ranks",
            (double)bytes / 1048576, size);
    if (ftruncate(shm->fd, (off_t)bytes) != 0)
        return md_fail(dist, MUSTER_DIST_EIO, "rank 0: size of shared memory: %s", reason());
    int rc = md_shm_reserve(dist, 0, stages_at, "the ranks' shared memory");
    rc = rc ? rc : md_shm_reserve(dist, results_at, arenas_at - results_at, "results");
    rc = rc ? rc : file_map(dist, bytes);
    if (rc != 0)
        return rc;
    shm->world->size = size;
    shm->world->stages_at = stages_at;
    shm->world->results_at = results_at;
    shm->world->arenas_at = arenas_at;
    shm->world->arena_bytes = arena_bytes;
    return life_begin(dist);
}

int md_shm_attach(struct muster_dist *dist, int fd)
{
    struct md_shm *shm = dist->impl;
    off_t bytes = lseek(fd, 0, SEEK_END);
    shm->fd = fd;
    if (bytes <= 0)
        return md_fail(dist, MUSTER_DIST_EIO, "rank %u: shared memory without a size",
                       dist->place.rank);
    int rc = file_map(dist, (uint64_t)bytes);
    return rc ? rc : life_begin(dist);
}

/* ---- buffers ---- */

static uint64_t arena_at(const struct md_shm *shm)
{
    return shm->world->arenas_at + shm->world->arena_bytes * shm->rank;
}

uint64_t md_shm_offset(const struct md_shm *shm, const void *at, size_t bytes)
{
    uintptr_t begin = (uintptr_t)shm->base + arena_at(shm), from = (uintptr_t)at;
    uint64_t len = shm->world->arena_bytes;
    bool is_inside = from >= begin && from - begin < len && bytes <= len - (from - begin);
    return is_inside ? from - (uintptr_t)shm->base : 0;
}

/* Finds the first gap that is large enough. Returns the link behind which the block belongs. */
static struct shm_block **gap_find(struct md_shm *shm, uint64_t bytes, uint64_t *at)
{
    struct shm_block **link = &shm->blocks;
    *at = arena_at(shm);
    while (*link && (*link)->at - *at < bytes) {
        *at = (*link)->at + (*link)->bytes;
        link = &(*link)->next;
    }
    return link;
}

static void block_release(struct md_shm *shm, struct shm_block *block)
{
    while (fallocate(shm->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)block->at,
                     (off_t)block->bytes) != 0 &&
           errno == EINTR)
        continue;
    free(block);
}

/* Returns NULL if there is no room. Called with the lock. */
static struct shm_block *block_new(struct muster_dist *dist, uint64_t bytes)
{
    struct md_shm *shm = dist->impl;
    uint64_t at, end = arena_at(shm) + shm->world->arena_bytes;
    struct shm_block **link = gap_find(shm, bytes, &at);
    if (at > end || bytes > end - at) {
        md_fail(
            dist, MUSTER_DIST_ENOMEM,
            "rank %u: no room for a buffer of %.1f MiB: a rank's share of this machine's memory is "
            "%.1f MiB",
            shm->rank, (double)bytes / 1048576, (double)shm->world->arena_bytes / 1048576);
        return NULL;
    }
    if (md_shm_reserve(dist, at, bytes, "a buffer") != 0)
        return NULL;
    struct shm_block *block = malloc(sizeof(*block));
    if (!block) {
        md_fail(dist, MUSTER_DIST_ENOMEM, "rank %u: no memory", shm->rank);
        return NULL;
    }
    *block = (struct shm_block){*link, at, bytes};
    *link = block;
    return block;
}

void *md_shm_buffer_new(struct muster_dist *dist, size_t bytes)
{
    struct md_shm *shm = dist->impl;
    uint64_t room = bytes < SIZE_MAX - PAGE_BYTES ? round_up(bytes) : bytes;
    pthread_mutex_lock(&shm->lock);
    struct shm_block *block = block_new(dist, room);
    void *at = block ? shm->base + block->at : NULL;
    pthread_mutex_unlock(&shm->lock);
    return at;
}

void md_shm_buffer_free(struct muster_dist *dist, void *at)
{
    struct md_shm *shm = dist->impl;
    uint64_t offset = md_shm_offset(shm, at, 1);
    pthread_mutex_lock(&shm->lock);
    for (struct shm_block **link = &shm->blocks; *link; link = &(*link)->next)
        if ((*link)->at == offset) {
            struct shm_block *block = *link;
            *link = block->next;
            block_release(shm, block);
            break;
        }
    pthread_mutex_unlock(&shm->lock);
}
