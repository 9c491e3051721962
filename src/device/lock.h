/* SPDX-License-Identifier: Apache-2.0
 *
 * Two musters on one machine never take the same device: one lock file per uuid in a sticky
 * directory under /tmp, whatever the user, held by flock and so released by the kernel. CPU slots
 * and simulated devices are not locked. MUSTER_LOCK_DIR names another directory (tests).
 */
#pragma once

#include "device/device.h"

struct device_locks {
    int *fds;
    size_t len;
};

/*
 * Lock every chosen device or none. ERR_UNAVAILABLE names the device and who holds it (pid, user,
 * run id, which the holder wrote into the file). `held_by` is written into ours.
 */
MUST_CHECK int device_locks_take(struct device_locks *locks, const struct device_list *devices,
                                 const size_t *chosen, size_t n_chosen, const char *held_by,
                                 struct err *err);
/* True if another process holds this device's lock now; for `free` and for `muster gpus`. */
bool device_is_locked(const struct device *device, struct buf *holder);
void device_locks_release(struct device_locks *locks);
