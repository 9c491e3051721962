/* SPDX-License-Identifier: Apache-2.0 */
#include "device/amd_kfd.h"

#include <ctype.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>

#include "base/parse.h"

struct property {
    const char *name;
    size_t offset; /* offset of a uint64_t */
};

#define NODE(field)                              \
    {                                            \
#field, offsetof(struct kfd_node, field) \
    }
#define LINK(field)                              \
    {                                            \
#field, offsetof(struct kfd_link, field) \
    }
#define BANK(field)                              \
    {                                            \
#field, offsetof(struct kfd_bank, field) \
    }

static const struct property node_properties[] = {
    NODE(simd_count), NODE(cpu_cores_count), NODE(gfx_target_version), NODE(vendor_id),
    NODE(device_id),  NODE(domain),          NODE(location_id),        NODE(unique_id),
};
static const struct property link_properties[] = {LINK(type), LINK(node_to), LINK(weight)};
static const struct property bank_properties[] = {BANK(heap_type), BANK(size_in_bytes)};

static void property_take(const struct property *properties, size_t n_properties, struct str line,
                          void *out)
{
    struct str rest = str_trim(line), name;
    uint64_t value = 0;
    if (!str_next(&rest, ' ', &name) || !amd_number_parse(rest, &value))
        return;
    for (size_t i = 0; i < n_properties; i++)
        if (str_equal(name, str_of(properties[i].name)))
            *(uint64_t *)((char *)out + properties[i].offset) = value;
}

static void properties_take(const struct property *properties, size_t n_properties, struct str text,
                            void *out)
{
    struct str line;
    while (str_next(&text, '\n', &line))
        property_take(properties, n_properties, line, out);
}

bool kfd_node_parse(struct str text, struct kfd_node *out)
{
    *out = (struct kfd_node){0};
    properties_take(node_properties, countof(node_properties), text, out);
    return out->simd_count > 0 || out->cpu_cores_count > 0;
}

bool kfd_link_parse(struct str text, struct kfd_link *out)
{
    *out = (struct kfd_link){0};
    properties_take(link_properties, countof(link_properties), text, out);
    return out->type > 0;
}

bool kfd_bank_parse(struct str text, struct kfd_bank *out)
{
    *out = (struct kfd_bank){0};
    properties_take(bank_properties, countof(bank_properties), text, out);
    return out->heap_type > 0;
}

bool amd_number_parse(struct str text, uint64_t *out)
{
    return u64_parse(str_trim(text), 0, UINT64_MAX, out, NULL) == 0;
}

bool amd_hex_parse(struct str text, uint64_t *out)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t value = 0;
    text = str_trim(text);
    if (str_starts_with(text, STR("0x")))
        text = (struct str){text.at + 2, text.len - 2};
    if (text.len == 0 || text.len > 16)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        const char *digit = strchr(digits, tolower((unsigned char)text.at[i]));
        if (!digit || !*digit)
            return false;
        value = value << 4 | (uint64_t)(digit - digits);
    }
    *out = value;
    return true;
}

long amd_errors_parse(struct str text)
{
    struct str line;
    while (str_next(&text, '\n', &line)) {
        uint64_t count = 0;
        struct str rest = str_trim(line), name;
        if (str_next(&rest, ':', &name) && str_equal(name, STR("ue")) &&
            amd_number_parse(rest, &count))
            return (long)MIN(count, (uint64_t)LONG_MAX);
    }
    return -1;
}

/* The text has lines such as "0x00000001 : 0x00001000 : R". */
bool amd_bad_page_is_in_use(struct str text)
{
    struct str line;
    while (str_next(&text, '\n', &line))
        if (str_ends_with(str_trim(line), STR(": F")))
            return true;
    return false;
}

void amd_gfx_format(uint64_t gfx_target_version, char out[16])
{
    unsigned version = (unsigned)MIN(gfx_target_version, (uint64_t)UINT_MAX);
    snprintf(out, 16, "gfx%u%x%x", version / 10000 % 1000, version / 100 % 100, version % 100);
}

bool amd_name_find(struct str ids, uint64_t device_id, uint64_t revision, struct str *out)
{
    struct str line;
    while (str_next(&ids, '\n', &line)) {
        struct str rest = line, device, revised;
        uint64_t found_device, found_revision;
        if (!str_next(&rest, ',', &device) || !str_next(&rest, ',', &revised) ||
            !amd_hex_parse(device, &found_device) || !amd_hex_parse(revised, &found_revision))
            continue;
        *out = str_trim(rest);
        if (found_device == device_id && found_revision == revision && out->len > 0)
            return true;
    }
    return false;
}
