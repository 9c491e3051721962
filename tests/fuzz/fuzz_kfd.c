/* SPDX-License-Identifier: Apache-2.0
 *
 * What a file of AMD's driver may hold: properties of nodes, links and memory, numbers, error counts,
 * bad pages, and libdrm's table of names. What is believed was written there.
 */
#include "base/cleanup.h"
#include "device/amd_kfd.h"
#include "fuzz.h"

static bool is_inside(struct str part, struct str whole)
{
    return part.len == 0 || (part.at >= whole.at && part.at + part.len <= whole.at + whole.len);
}

/* A node is believed as it would be written. */
static void check_node(struct str text)
{
    struct kfd_node node, again;
    cleanup_buf struct buf written = BUF_INIT;
    if (!kfd_node_parse(text, &node))
        return;
    ASSERT(node.simd_count > 0 || node.cpu_cores_count > 0);
    buf_addf(&written, "cpu_cores_count %lu\nsimd_count %lu\ngfx_target_version %lu\n",
             (unsigned long)node.cpu_cores_count, (unsigned long)node.simd_count,
             (unsigned long)node.gfx_target_version);
    buf_addf(&written, "vendor_id %lu\ndevice_id %lu\nlocation_id %lu\ndomain %lu\nunique_id %lu\n",
             (unsigned long)node.vendor_id, (unsigned long)node.device_id,
             (unsigned long)node.location_id, (unsigned long)node.domain,
             (unsigned long)node.unique_id);
    ASSERT(kfd_node_parse(buf_str(&written), &again));
    ASSERT(memcmp(&node, &again, sizeof(node)) == 0);
}

static void check_hex(struct str text)
{
    uint64_t number, again;
    char written[24];
    if (!amd_hex_parse(text, &number))
        return;
    snprintf(written, sizeof(written), "%lx\n", (unsigned long)number);
    ASSERT(amd_hex_parse(str_of(written), &again) && again == number);
}

static void check_name(struct str text)
{
    struct str name = {0};
    for (uint64_t device = 0; device < 3; device++)
        if (amd_name_find(text, device * 0x744c, device * 0xc8, &name))
            ASSERT(name.len > 0 && is_inside(name, text));
}

int fuzz_target(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    struct kfd_link link;
    struct kfd_bank bank;
    char gfx[16];
    check_node(text);
    check_hex(text);
    check_name(text);
    if (kfd_link_parse(text, &link))
        ASSERT(link.type > 0);
    if (kfd_bank_parse(text, &bank))
        ASSERT(bank.heap_type > 0);
    ASSERT(amd_errors_parse(text) >= -1);
    if (amd_bad_page_is_in_use(text))
        ASSERT(size >= 3 && memchr(data, 'F', size));
    uint64_t version = 0;
    memcpy(&version, data, MIN(size, sizeof(version)));
    amd_gfx_format(version, gfx);
    ASSERT(str_starts_with(str_of(gfx), STR("gfx")));
    return 0;
}
