/* SPDX-License-Identifier: Apache-2.0
 *
 * Collects the helper's answer to `list`: one line per device, then the distances between them, and
 * a last line which says that the list is complete, or why there is none. If a helper hangs,
 * another one is started and the devices are listed again.
 */
#pragma once

#include "device/device.h"
#include "device/helper.h"

enum {
    /* each costs up to two deadlines; if more GPUs hang, the listing is given up */
    LISTING_HUNG_MAX = 8,
    LISTING_SIDE = 128 /* distances are kept for physical numbers below this */
};

struct hung_gpu {
    uint32_t number;
    int n_times; /* 1: only its identity is queried; 2: nothing is queried */
    char why[128];
};

struct listing {
    struct device_list devices;
    struct hung_gpu hung[LISTING_HUNG_MAX];
    size_t n_hung;
    uint8_t *distance; /* by physical number, LISTING_SIDE squared */
    bool is_complete;
    bool is_none; /* the helper said why there is no device */
    char said[256];
};

/*
 * Takes a line of the helper. A line that is not understood, from a newer helper or from the
 * driver, is skipped.
 */
void listing_take(struct listing *listing, struct str line);
/*
 * Records which GPU the helper was asking when it went silent. The next helper asks that GPU only
 * for its identity, and for nothing if is_hurried or at the second time. False if the helper was
 * asking no GPU, if that GPU hung too often, or if too many GPUs hung.
 */
bool listing_note_hung(struct listing *listing, const struct helper *helper, uint64_t waited_ms,
                       bool is_hurried);
/* Fills in devices.distance from the distances that the helper reported. */
void listing_distances(struct listing *listing);
void listing_release(struct listing *listing);
