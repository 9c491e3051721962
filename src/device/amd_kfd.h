/* SPDX-License-Identifier: Apache-2.0
 *
 * Parsers for the small files of amdgpu and amdkfd under /sys. Pure. A member that is missing in a
 * file, or is not a number there, is 0.
 *
 * KFD ("kernel fusion driver") is the part of amdgpu for computing. Its topology is a list of
 * nodes, numbered from 0: processors first, then GPUs; ROCm counts the GPUs in that order.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"

/* topology/nodes/N/properties: lines of a name and a number each. */
struct kfd_node {
    uint64_t simd_count; /* 0: a processor */
    uint64_t cpu_cores_count;
    uint64_t gfx_target_version; /* 90402: gfx942 */
    uint64_t vendor_id, device_id;
    uint64_t domain, location_id; /* PCI address; bits 28-31, or 0-2: the partition */
    uint64_t unique_id;           /* 0: the GPU has none, or the kernel is older than 5.10 */
};

enum {
    KFD_LINK_PCIE = 2,
    KFD_LINK_XGMI = 11
};

/* topology/nodes/N/io_links/M/properties */
struct kfd_link {
    uint64_t type, node_to;
    uint64_t weight; /* 15 per hop of XGMI */
};

enum {
    KFD_HEAP_PUBLIC = 1, /* GPU memory that the processor can access */
    KFD_HEAP_PRIVATE = 2
};

/* topology/nodes/N/mem_banks/M/properties */
struct kfd_bank {
    uint64_t heap_type, size_in_bytes;
};

/* False if the text does not describe a node, a link or a bank. */
MUST_CHECK bool kfd_node_parse(struct str text, struct kfd_node *out);
MUST_CHECK bool kfd_link_parse(struct str text, struct kfd_link *out);
MUST_CHECK bool kfd_bank_parse(struct str text, struct kfd_bank *out);

/*
 * Parse a file with one number and a newline; amd_hex_parse() takes hexadecimal, with or without
 * 0x.
 */
MUST_CHECK bool amd_number_parse(struct str text, uint64_t *out);
MUST_CHECK bool amd_hex_parse(struct str text, uint64_t *out);
/*
 * The uncorrectable errors in ras/umc_err_count ("ue: 3", "ce: 0"); -1 if the text has no such
 * line.
 */
long amd_errors_parse(struct str text);
/*
 * Parses ras/gpu_vram_bad_pages: true if a page has flag F, which means that it could not be
 * retired.
 */
bool amd_bad_page_is_in_use(struct str text);

/* Writes the compiler's name of the chip: "gfx942", "gfx90a", "gfx1100". */
void amd_gfx_format(uint64_t gfx_target_version, char out[16]);
/*
 * The name of a device in libdrm's amdgpu.ids. That file has lines of device, revision and name,
 * separated by commas, both numbers in hexadecimal. False if the file does not list the device.
 */
MUST_CHECK bool amd_name_find(struct str ids, uint64_t device_id, uint64_t revision,
                              struct str *out);
