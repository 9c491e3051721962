/* SPDX-License-Identifier: Apache-2.0
 *
 * Which devices belong together: by the distance matrix of the list (NVLink, XGMI and PCIe)
 * where there is one, else by NUMA node and position. Pure.
 */
#pragma once

#include "device/device.h"

/*
 * The chosen positions, rearranged so that every `group` of them in a row are near each other and of
 * one kind; each group ascending, groups in the order of their first device, what is left over last.
 * n_chosen entries, free() it; the first *n_grouped of them are in whole groups.
 */
size_t *near_groups(const struct device_list *devices, const size_t *chosen, size_t n_chosen,
                    size_t group, size_t *n_grouped);
