/* SPDX-License-Identifier: Apache-2.0
 *
 * Two musters on one machine never take the same device, whichever users run them: each device has
 * a name in the kernel and a file in a sticky directory under /tmp (lock.c says what each is good
 * for). Both are released when the last process that has their descriptors ends: muster, the guards
 * of the device's workers, the run's keeper. CPU slots and simulated devices are not locked.
 * MUSTER_LOCK_DIR names another directory (tests).
 */
#pragma once

#include "device/device.h"
#include "device/seat.h"

/*
 * The variable with the uuids of devices, separated by commas, that the muster which started this
 * one has locked for it.
 */
#define LOCK_HANDED_DOWN "MUSTER_HELD_DEVICES"

enum {
    LOCK_FILE_MAX = 112,
    LOCK_FDS_MAX = 2 * SEAT_DEVICES_MAX + 2
};

struct device_lock {
    size_t device; /* position in the list */
    char file[LOCK_FILE_MAX];
    int file_fd, name_fd; /* name_fd -1: the sandbox does not allow names */
    bool is_lost;         /* its file was deleted, and another process has the new one */
};

struct device_locks {
    struct device_lock *at;
    size_t len;
    int folder_fd;
    int presence_fd; /* -1: none */
};

/*
 * Locks every chosen device or none. ERR_UNAVAILABLE names the device and its holder (pid, user,
 * run id, which the holder wrote into the file). `run` is written into our files; NULL: not known
 * yet.
 */
MUST_CHECK int device_locks_take(struct device_locks *locks, const struct device_list *devices,
                                 const size_t *chosen, size_t n_chosen, const char *run,
                                 struct err *err);
void device_locks_sign(const struct device_locks *locks, const char *run);
/*
 * Takes a name in the kernel that is held as the locks are, also without a device: as long as it is
 * held, processes of this muster may live. False: another process holds it, or the sandbox does
 * not allow names.
 */
bool device_locks_be_present(struct device_locks *locks, const char *presence);
/*
 * False only if no process holds this name for certain. Names of another machine or network
 * namespace are not seen.
 */
bool presence_is_held(const char *presence);
/*
 * The descriptors that a process must keep open to hold these devices' locks: up to two per device,
 * that of the folder, and that of the presence. Returns their number.
 */
size_t device_locks_fds(const struct device_locks *locks, const size_t *devices, size_t n_devices,
                        int *out);
/*
 * To be called every second: makes deleted files anew. If another process has locked the new file
 * of a device by then, returns the lock of that device, once per device, and adds the text of that
 * process to `holder`; otherwise NULL.
 */
struct device_lock *device_locks_renew(struct device_locks *locks, const char *run,
                                       struct buf *holder);
/* True if another process holds this device's lock now; for `free` and for `muster gpus`. */
bool device_is_locked(const struct device *device, struct buf *holder);
/*
 * True if another process holds this device's lock and the muster that took it has ended: its
 * workers are then about to end. Also true if the file was deleted, so that the holder is unknown,
 * and the caller has waited less than two seconds: a live holder makes the file anew within one
 * second.
 */
bool device_is_left(const struct device *device, uint64_t waited_ms);
/*
 * Moves the locks of `more` into `locks`. Their positions are counted from `first_device` on in
 * `locks`.
 */
void device_locks_join(struct device_locks *locks, struct device_locks *more, size_t first_device);
void device_locks_release(struct device_locks *locks);
