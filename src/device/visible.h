/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA_VISIBLE_DEVICES as CUDA itself reads it, so that muster's universe is what a program started
 * by hand would see. Pure.
 */
#pragma once

#include "device/device.h"

/*
 * Keep what the list names, in its order; renumber. Entries: indices in PCI order, UUIDs or unique
 * prefixes, MIG UUIDs. The first invalid or repeated one hides itself and everything after it,
 * which `notes` then says. An empty list hides everything.
 */
void visible_apply(const char *list, struct device_list *devices, struct buf *notes);
