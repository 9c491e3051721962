/* SPDX-License-Identifier: Apache-2.0
 *
 * Which devices belong together: by the distance matrix of the list (NVLink, XGMI and PCIe)
 * where there is one, else by NUMA node and position. Pure.
 */
#pragma once

#include "device/device.h"

/*
 * Rearranges the chosen positions so that every `group` of them in a row are near each other and of
 * one kind. Each group is ascending, the groups are in the order of their first devices, and
 * positions that fill no group come last. Returns a new array of n_chosen, which the caller frees;
 * the first *n_grouped entries are in whole groups.
 */
size_t *near_groups(const struct device_list *devices, const size_t *chosen, size_t n_chosen,
                    size_t group, size_t *n_grouped);
