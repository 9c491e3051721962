/* SPDX-License-Identifier: Apache-2.0 */
#include "device/wire.h"

#include <assert.h>
#include <math.h>

#include "base/json.h"
#include "device/cpulist.h"

/* One row per member: the same table writes and reads it. */
enum form {
    TEXT,
    BOOL,
    U64,
    SIZE,
    INT,
    LONG,
    DOUBLE
};

struct member {
    const char *name;
    enum form form;
    size_t offset, size;
};

#define NAMED(name, type, field, form)                                \
    {                                                                 \
        name, form, offsetof(type, field), sizeof(((type *)0)->field) \
    }
#define MEMBER(type, field, form) NAMED(#field, type, field, form)
#define DETAIL(field, form)       NAMED(#field, struct device, details.field, form)
#define D(field, form)            MEMBER(struct device, field, form)
#define S(field, form)            MEMBER(struct device_sample, field, form)
#define P(field, form)            MEMBER(struct device_process, field, form)
#define U(field, form)            MEMBER(struct device_use, field, form)

static const struct member device_members[] = {
    D(index, INT),
    D(physical, INT),
    D(uuid, TEXT),
    D(name, TEXT),
    D(pci, TEXT),
    D(parent_uuid, TEXT),
    D(is_unnamed, BOOL),
    D(is_integrated, BOOL),
    D(mem_total_bytes, U64),
    D(mem_free_bytes, U64),
    D(busy_percent, INT),
    D(temperature_c, INT),
    D(power_w, DOUBLE),
    D(ill, TEXT),
    D(is_lost, BOOL),
    D(ecc_uncorrected_count, LONG),
    D(row_remap_pending, BOOL),
    D(row_remap_failed, BOOL),
    DETAIL(driver, TEXT),
    DETAIL(is_persistence_off, BOOL),
    DETAIL(compute_mode, INT),
    DETAIL(pcie_gen, INT),
    DETAIL(pcie_gen_max, INT),
    DETAIL(pcie_width, INT),
    DETAIL(pcie_width_max, INT),
    DETAIL(nvlinks_up, INT),
    DETAIL(slowdown_c, INT),
    DETAIL(clock_reasons, LONG),
    D(numa_node, INT),
};

static const struct member sample_members[] = {
    S(device, SIZE),       S(mem_used_bytes, U64), S(mem_total_bytes, U64), S(busy_percent, INT),
    S(temperature_c, INT), S(power_w, DOUBLE),     S(is_lost, BOOL),        S(ill, TEXT),
};

static const struct member process_members[] = {
    P(pid, INT),
    P(uid, INT),
    P(mem_bytes, U64),
    P(name, TEXT),
};

static const struct member use_members[] = {
    U(guard_pid, INT),
    U(mem_bytes, U64),
};

/* An array of objects: *n of them are used, `max` fit, each has `size` bytes. */
struct objects {
    const struct member *members;
    size_t n_members;
    char *at;
    size_t size, max, *n;
};

static void value_format(const struct member *member, const void *at, struct buf *out)
{
    switch (member->form) {
    case TEXT:
        buf_add_json(out, (struct str){at, strnlen(at, member->size)});
        return;
    case BOOL:
        buf_add_text(out, *(const bool *)at ? "true" : "false");
        return;
    case U64:
        buf_addf(out, "%lu", (unsigned long)*(const uint64_t *)at);
        return;
    case SIZE:
        buf_addf(out, "%zu", *(const size_t *)at);
        return;
    case INT:
        buf_addf(out, "%d", *(const int *)at);
        return;
    case LONG:
        buf_addf(out, "%ld", *(const long *)at);
        return;
    case DOUBLE:
        buf_addf(out, "%.3f", *(const double *)at);
        return;
    }
    BUG("form %d", (int)member->form);
}

/*
 * Replaces control characters, which a terminal would interpret: any user may choose the name of a
 * process that computes on a GPU.
 */
static void make_harmless(char *text)
{
    for (unsigned char *c = (unsigned char *)text; *c; c++) {
        bool is_c1 = c[0] == 0xc2 && c[1] >= 0x80 && c[1] <= 0x9f;
        if (is_c1)
            c[1] = '?';
        if (is_c1 || *c < 0x20 || *c == 0x7f)
            *c = '?';
    }
}

static bool text_store(const struct member *member, struct str value, char *at)
{
    struct buf text = BUF_INIT;
    bool is_text = json_to_text(value, &text);
    if (is_text) {
        snprintf(at, member->size, "%s", buf_text(&text));
        make_harmless(at);
    }
    buf_release(&text);
    return is_text;
}

static bool value_parse(const struct member *member, struct str value, void *at)
{
    double number = 0;
    switch (member->form) {
    case TEXT:
        return text_store(member, value, at);
    case BOOL:
        return json_to_bool(value, at);
    case U64:
    case SIZE:
        return json_to_u64(value, at);
    case INT:
    case LONG:
    case DOUBLE:
        break;
    }
    if (!json_to_double(value, &number))
        return false;
    /* whole numbers up to 2^53 keep their value as a double */
    double limit = member->form == DOUBLE ? HUGE_VAL : member->form == LONG ? 0x1p53 : 0x1p32;
    if (fabs(number) > limit)
        return false;
    if (member->form == DOUBLE)
        *(double *)at = number;
    else if (member->form == LONG)
        *(long *)at = (long)number;
    else
        *(int *)at = (int)(long)number; /* a uid above 2^31 wraps, and wraps back */
    return true;
}

static_assert(sizeof(size_t) == sizeof(uint64_t), "SIZE is read as U64");

static void members_format(const struct member *members, size_t n_members, const void *from,
                           struct buf *out)
{
    for (size_t i = 0; i < n_members; i++) {
        buf_addf(out, "%s\"%s\":", i > 0 ? "," : "{", members[i].name);
        value_format(&members[i], (const char *)from + members[i].offset, out);
    }
}

static bool members_parse(const struct member *members, size_t n_members, struct str object,
                          void *into)
{
    struct str value;
    for (size_t i = 0; i < n_members; i++)
        if (json_get(object, members[i].name, &value) &&
            !value_parse(&members[i], value, (char *)into + members[i].offset))
            return false;
    return json_is_object(object);
}

static void objects_format(const struct objects *of, const char *name, struct buf *out)
{
    buf_addf(out, ",\"%s\":[", name);
    for (size_t i = 0; i < *of->n; i++) {
        buf_add_text(out, i > 0 ? "," : "");
        members_format(of->members, of->n_members, of->at + i * of->size, out);
        buf_add_char(out, '}');
    }
    buf_add_char(out, ']');
}

static bool objects_parse(const struct objects *of, struct str array)
{
    struct str rest = {array.at + 1, array.len - 1};
    while (*of->n < of->max) {
        size_t begin = 0, len = json_value(rest, &begin), end = begin + len;
        if (len == 0)
            return true;
        if (!members_parse(of->members, of->n_members, (struct str){rest.at + begin, len},
                           of->at + *of->n * of->size))
            return false;
        ++*of->n;
        while (end < rest.len && rest.at[end] != ',')
            end++;
        end = MIN(end + 1, rest.len);
        rest = (struct str){rest.at + end, rest.len - end};
    }
    return true;
}

static struct objects processes_of(const struct device *device)
{
    struct device *at = (struct device *)(uintptr_t)device;
    return (struct objects){process_members,        countof(process_members), (char *)at->processes,
                            sizeof(*at->processes), countof(at->processes),   &at->n_processes};
}

static struct objects uses_of(const struct device_sample *sample)
{
    struct device_sample *at = (struct device_sample *)(uintptr_t)sample;
    return (struct objects){use_members,       countof(use_members), (char *)at->uses,
                            sizeof(*at->uses), countof(at->uses),    &at->n_uses};
}

static bool kind_parse(struct str value, enum device_kind *out)
{
    for (int kind = DEVICE_CPU; kind <= DEVICE_SIM; kind++) {
        const char *name = device_kind_name((enum device_kind)kind);
        if (value.len == strlen(name) + 2 && memcmp(value.at + 1, name, value.len - 2) == 0) {
            *out = (enum device_kind)kind;
            return true;
        }
    }
    return false;
}

void device_format_json(const struct device *device, struct buf *out)
{
    members_format(device_members, countof(device_members), device, out);
    buf_addf(out, ",\"kind\":\"%s\",\"cpus\":\"", device_kind_name(device->kind));
    cpulist_format(out, &device->cpus);
    buf_add_char(out, '"');
    const struct objects processes = processes_of(device);
    objects_format(&processes, "processes", out);
    buf_add_char(out, '}');
}

bool device_parse_json(struct str line, struct device *out)
{
    struct str value;
    if (!members_parse(device_members, countof(device_members), line, out) ||
        !json_get(line, "kind", &value) || !kind_parse(value, &out->kind))
        return false;
    if (json_get(line, "cpus", &value) && value.len > 2 &&
        !cpulist_parse((struct str){value.at + 1, value.len - 2}, &out->cpus))
        return false;
    const struct objects processes = processes_of(out);
    return !json_get(line, "processes", &value) || objects_parse(&processes, value);
}

void sample_format_json(const struct device_sample *sample, struct buf *out)
{
    members_format(sample_members, countof(sample_members), sample, out);
    const struct objects uses = uses_of(sample);
    objects_format(&uses, "uses", out);
    buf_add_char(out, '}');
}

bool sample_parse_json(struct str line, struct device_sample *out)
{
    const struct objects uses = uses_of(out);
    struct str value;
    return members_parse(sample_members, countof(sample_members), line, out) &&
           (!json_get(line, "uses", &value) || objects_parse(&uses, value));
}
