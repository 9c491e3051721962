/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads lists such as CUDA_VISIBLE_DEVICES as the vendor's own library does, so that muster's
 * universe is what a program started by hand would see. Pure but for the environment.
 */
#pragma once

#include "device/device.h"

enum {
    VISIBLE_VARIABLES_MAX = 2
};

struct visible_rule {
    const char *variables[VISIBLE_VARIABLES_MAX]; /* the first that is set is the list */
    bool is_unset_if_empty;   /* an empty list counts as not set; else it hides everything */
    bool counts_what_is_left; /* indices count what an earlier rule left; else all devices */
    bool skips_repeats;       /* else a repeated entry hides itself and all entries behind it */
    bool may_sort_by_speed;   /* CUDA may count the fastest device first, if the devices differ */
};

/*
 * Keeps the devices that the list names, in its order, and renumbers them. Entries are indices,
 * UUIDs or unique prefixes, and MIG UUIDs. The first invalid entry hides itself and all entries
 * behind it; `notes` then says so.
 */
void visible_apply(const struct visible_rule *rule, const char *variable, const char *list,
                   struct device_list *devices, struct buf *notes);
/* Applies each rule in turn, if one of its variables is set. */
void visible_apply_rules(const struct visible_rule *rules, size_t n_rules,
                         struct device_list *devices, struct buf *notes);
