/* SPDX-License-Identifier: Apache-2.0
 *
 * What the helper answers to `list`: a device a line, how far two of them are apart, and at last that this
 * is all or why there is nothing. It is read as it comes, over several helpers where one of them hung.
 */
#pragma once

#include "device/device.h"
#include "device/helper.h"

enum {
    /* each costs a deadline; a machine with more GPUs hung at once has other troubles */
    LISTING_HUNG_MAX = 8,
    LISTING_SIDE = 128 /* distances are known between so many */
};

struct hung_gpu {
    uint32_t number;
    int n_times; /* 1: ask only its identity; 2: ask nothing */
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

/* A line that is not understood, of a newer helper or of the driver, is passed over. */
void listing_take(struct listing *listing, struct str line);
/* Note which GPU the helper was asking when it went silent, and when hurried ask it nothing more,
 * not even its identity. False: none, or too often already. */
bool listing_note_hung(struct listing *listing, const struct helper *helper, uint64_t waited_ms,
                       bool is_hurried);
/* Give the devices the distances that were told, by their places in the list. */
void listing_distances(struct listing *listing);
void listing_release(struct listing *listing);
