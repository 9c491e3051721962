/* SPDX-License-Identifier: Apache-2.0
 *
 * `-g, --gpus SPEC`: which devices the user wants. Integers are ids, never a count.
 *
 *   0,2,5-7   any:4   all   free   free:20GiB   none   GPU-<uuid or unique prefix>   MIG-…
 *   0000:3b:00.0 or PCI-0000:3b:00.0 (PCI address)   cpu:N   cpu   phys:0,2
 *   sim:8xH200:141GiB[,FAULT]…
 *
 * Parsing is pure; spec_select() chooses among the devices that are there. Wrong syntax, duplicates
 * and empty lists are ERR_USAGE; a device that is not there is ERR_UNAVAILABLE.
 */
#pragma once

#include "device/device.h"

enum spec_kind {
    SPEC_FREE,
    SPEC_ALL,
    SPEC_ANY,
    SPEC_LIST,
    SPEC_CPU,
    SPEC_SIM,
    SPEC_NONE
};

enum {
    SPEC_ENTRIES_MAX = 256
};

struct spec_entry {
    bool is_id, is_physical;
    uint32_t id;
    char text[96]; /* UUID prefix or PCI address when not is_id */
};

struct device_spec {
    enum spec_kind kind;
    bool is_default;             /* the user gave no spec: CPU slots may be chosen instead */
    uint32_t count;              /* any:N, cpu:N (0 = one per core), sim:N */
    uint64_t mem_free_min_bytes; /* free:SIZE, any:N:SIZE */
    uint64_t sim_mem_bytes;
    char sim_name[32];
    char sim_faults[256]; /* the text behind the comma, see simulated.h */
    size_t n_entries;
    struct spec_entry entries[SPEC_ENTRIES_MAX];
};

/* text NULL: the default spec, `free`. */
MUST_CHECK int spec_parse(const char *text, struct device_spec *out, struct err *err);
/* As spec_parse(), for the error only. */
MUST_CHECK int spec_check(const char *text, struct err *err);
void spec_format(const struct device_spec *spec, struct buf *out);

/*
 * Chooses from the universe; `chosen` gets positions in it, in the order wanted. `free` and `any`
 * leave out devices that are ill, in use by another process or short of free memory, and graphics
 * of a processor. If there are devices but too few qualify: ERR_UNAVAILABLE, which says who uses
 * them and offers `-g all` and `--wait`. A listed device that is ill or busy is chosen all the
 * same, with a line in `warnings`; one that is lost is ERR_UNAVAILABLE.
 */
MUST_CHECK int spec_select(const struct device_spec *spec, const struct device_list *universe,
                           size_t *chosen, size_t cap, size_t *n_chosen, struct buf *warnings,
                           struct err *err);
