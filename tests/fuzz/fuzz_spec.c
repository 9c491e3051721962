/* SPDX-License-Identifier: Apache-2.0
 *
 * What people write about devices: SPEC with its simulated faults, lists of ids and of cores,
 * visible devices. What is accepted reads back the same, and a simulated machine obeys it.
 */
#include "base/cleanup.h"
#include "base/idlist.h"
#include "base/xalloc.h"
#include "device/simulated.h"
#include "device/topology.h"
#include "device/vendor.h"
#include "fuzz.h"

static void check_simulated(const struct device_spec *spec)
{
    struct device_list devices;
    struct device_sample sample;
    sim_devices(spec, &devices);
    ASSERT(devices.len == spec->count);
    for (size_t i = 0; i < MIN(devices.len, (size_t)3); i++)
        for (uint64_t at_ms = 0; at_ms < 100000; at_ms = at_ms * 7 + 1)
            if (sim_sample(&devices.at[i], at_ms, &sample))
                ASSERT(sample.mem_used_bytes <= sample.mem_total_bytes);
    device_list_release(&devices);
}

static void check_spec(const char *text)
{
    static struct device_spec spec, again;
    cleanup_buf struct buf first = BUF_INIT, second = BUF_INIT;
    struct err err = {0};
    if (spec_parse(text, &spec, &err) != 0) {
        ASSERT(err.code == ERR_USAGE && err.text[0]);
        return;
    }
    spec_format(&spec, &first);
    if (spec_parse(buf_text(&first), &again, &err) != 0)
        BUG("'%s' became '%s', which is refused: %s", text, buf_text(&first), err.text);
    spec_format(&again, &second);
    if (!str_equal(buf_str(&first), buf_str(&second)) || spec.n_entries != again.n_entries ||
        spec.kind != again.kind || spec.count != again.count ||
        spec.mem_free_min_bytes != again.mem_free_min_bytes)
        BUG("'%s' became '%s', then '%s'", text, buf_text(&first), buf_text(&second));
    if (spec.kind == SPEC_SIM)
        check_simulated(&spec);
}

static void check_idlist(struct str text)
{
    uint32_t ids[64], again[64];
    size_t n_ids, n_again;
    cleanup_buf struct buf list = BUF_INIT;
    if (idlist_parse(text, 5000, ids, countof(ids), &n_ids, NULL) != 0)
        return;
    idlist_format(&list, ids, n_ids);
    ASSERT(idlist_parse(buf_str(&list), 5000, again, countof(again), &n_again, NULL) == 0);
    ASSERT(n_again == n_ids && memcmp(ids, again, n_ids * sizeof(*ids)) == 0);
}

static void check_cpulist(struct str text)
{
    cpu_set_t cpus, again;
    cleanup_buf struct buf list = BUF_INIT;
    if (!cpulist_parse(text, &cpus))
        return;
    cpulist_format(&list, &cpus);
    ASSERT(cpulist_parse(buf_str(&list), &again) && CPU_EQUAL(&cpus, &again));
}

static void check_visible(const struct visible_rule *rule, const char *text)
{
    struct device_list devices = {xcalloc(3, sizeof(*devices.at)), 3};
    cleanup_buf struct buf notes = BUF_INIT;
    for (int i = 0; i < 3; i++) {
        devices.at[i] = (struct device){.physical = i, .index = i};
        snprintf(devices.at[i].uuid, sizeof(devices.at[i].uuid), "GPU-%d", i / 2 * 10 + i % 2);
    }
    visible_apply(rule, "LIST", text, &devices, &notes);
    ASSERT(devices.len <= 3);
    for (size_t i = 0; i < devices.len; i++)
        for (size_t j = 0; j < i; j++)
            ASSERT(devices.at[i].physical != devices.at[j].physical);
    device_list_release(&devices);
}

int fuzz_target(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    cleanup_free char *string = xstrndup(size ? text.at : "", size);
    check_spec(string);
    check_idlist(text);
    check_cpulist(text);
    for (size_t v = 0; v < n_vendors; v++)
        for (size_t r = 0; r < VISIBLE_RULES_MAX; r++)
            check_visible(&vendors[v].rules[r], string);
    return 0;
}
