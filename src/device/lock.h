/* SPDX-License-Identifier: Apache-2.0
 *
 * Two musters on one machine never take the same device, whatever the user: each has a name in the kernel
 * and a file in a sticky directory under /tmp (lock.c says what each is good for). Both are let go when the
 * last process is gone that has their descriptors: muster, the guards of the device's workers, the run's
 * keeper. CPU slots and simulated devices are not locked. MUSTER_LOCK_DIR names another directory (tests).
 */
#pragma once

#include "device/device.h"
#include "device/seat.h"

enum {
    LOCK_FILE_MAX = 112,
    LOCK_FDS_MAX = 2 * SEAT_DEVICES_MAX + 1
};

struct device_lock {
    size_t device; /* position in the list */
    char file[LOCK_FILE_MAX];
    int file_fd, name_fd; /* -1: no such names are allowed here */
    bool is_lost;         /* its file was deleted, and somebody else has the new one */
};

struct device_locks {
    struct device_lock *at;
    size_t len;
    int folder_fd;
};

/*
 * Lock every chosen device or none. ERR_UNAVAILABLE names the device and who holds it (pid, user,
 * run id, which the holder wrote into the file). `run` is written into ours, NULL: not known yet.
 */
MUST_CHECK int device_locks_take(struct device_locks *locks, const struct device_list *devices,
                                 const size_t *chosen, size_t n_chosen, const char *run,
                                 struct err *err);
void device_locks_sign(const struct device_locks *locks, const char *run);
/* What a process must hold open to hold these devices' locks: two descriptors each, and one. */
size_t device_locks_fds(const struct device_locks *locks, const size_t *devices, size_t n_devices,
                        int *out);
/*
 * To be called every second: files that were deleted are made anew. The lock of a device that somebody
 * else has taken by then, once, with what `holder` wrote; NULL: none.
 */
struct device_lock *device_locks_renew(struct device_locks *locks, const char *run,
                                       struct buf *holder);
/* True if another process holds this device's lock now; for `free` and for `muster gpus`. */
bool device_is_locked(const struct device *device, struct buf *holder);
/*
 * The same, but that muster has ended, and what it left behind is being ended. So it may be too where the file was
 * deleted, as far as the caller has waited less than two seconds: a holder that lives makes it anew within one.
 */
bool device_is_left(const struct device *device, uint64_t waited_ms);
void device_locks_release(struct device_locks *locks);
