/* SPDX-License-Identifier: Apache-2.0 */
#include "device/simulated.h"

#include "base/parse.h"
#include "base/suggest.h"
#include "base/xalloc.h"

static const char *const fault_names[SIM_FAULTS] = {
    [SIM_LOST] = "lost", [SIM_ILL] = "ill",   [SIM_BUSY] = "busy",
    [SIM_HANG] = "hang", [SIM_FULL] = "full",
};

struct fault {
    enum sim_fault kind;
    uint64_t device;
    uint64_t from_ms, to_ms; /* half-open */
};

static bool cut(struct str *rest, char separator, struct str *piece)
{
    const char *at = memchr(rest->at, separator, rest->len);
    *piece = (struct str){rest->at, at ? (size_t)(at - rest->at) : rest->len};
    size_t used = piece->len + (at != NULL);
    *rest = (struct str){rest->at + used, rest->len - used};
    return at != NULL;
}

static int kind_parse(struct str word, enum sim_fault *out, struct err *err)
{
    for (size_t i = 0; i < countof(fault_names); i++) {
        if (str_equal(word, str_of(fault_names[i]))) {
            *out = (enum sim_fault)i;
            return 0;
        }
    }
    char text[48];
    snprintf(text, sizeof(text), "%.*s", (int)word.len, word.at);
    const char *near = suggest(text, fault_names, countof(fault_names));
    if (near)
        return fail(err, ERR_USAGE, "unknown fault '%s' (did you mean '%s'?)", text, near);
    return fail(err, ERR_USAGE, "unknown fault '%s' (known: lost, ill, busy, hang, full)", text);
}

static int fault_parse(struct str text, uint32_t n_devices, struct fault *out, struct err *err)
{
    struct str rest = text, word, device, from;
    *out = (struct fault){.to_ms = UINT64_MAX};
    if (!cut(&rest, '@', &word))
        return fail(err, ERR_USAGE, "fault '%.*s' has no device (such as lost@1:30s)",
                    (int)text.len, text.at);
    int rc = kind_parse(word, &out->kind, err);
    bool is_timed = cut(&rest, ':', &device);
    if (rc == 0)
        rc = u64_parse(device, 0, n_devices - 1, &out->device, err);
    if (rc || !is_timed)
        return rc;
    bool has_end = cut(&rest, '-', &from);
    rc = duration_parse(from, &out->from_ms, err);
    if (rc == 0 && has_end)
        rc = duration_parse(rest, &out->to_ms, err);
    if (rc == 0 && out->to_ms <= out->from_ms)
        rc = fail(err, ERR_USAGE, "fault '%.*s' ends before it begins", (int)text.len, text.at);
    return rc;
}

int sim_faults_check(struct str script, uint32_t n_devices, struct err *err)
{
    struct str rest = script, word;
    while (script.len > 0 && str_next(&rest, ',', &word)) {
        struct fault fault;
        int rc = fault_parse(str_trim(word), n_devices, &fault, err);
        if (rc)
            return wrap(err, rc, "simulated devices");
    }
    return 0;
}

/*
 * Does the fault `kind` hold for the device at this moment? The script was checked when it was
 * parsed.
 */
static bool holds(const struct device *device, enum sim_fault kind, uint64_t at_ms)
{
    struct str rest = str_of(device->script), word;
    while (device->script[0] != '\0' && str_next(&rest, ',', &word)) {
        struct fault fault;
        if (fault_parse(str_trim(word), DEVICES_MAX, &fault, NULL) != 0)
            BUG("unchecked script '%s'", device->script);
        if (fault.kind == kind && fault.device == (uint64_t)device->physical &&
            at_ms >= fault.from_ms && at_ms < fault.to_ms)
            return true;
    }
    return false;
}

bool sim_sample(const struct device *device, uint64_t at_ms, struct device_sample *out)
{
    *out = (struct device_sample){.temperature_c = 40, .power_w = 75};
    if (holds(device, SIM_HANG, at_ms))
        return false;
    bool is_full = holds(device, SIM_FULL, at_ms);
    out->mem_total_bytes = device->mem_total_bytes;
    out->mem_used_bytes = is_full ? device->mem_total_bytes : 0;
    out->busy_percent = holds(device, SIM_BUSY, at_ms) ? 100 : 0;
    out->is_lost = holds(device, SIM_LOST, at_ms);
    if (holds(device, SIM_ILL, at_ms))
        snprintf(out->ill, sizeof(out->ill), "simulated fault");
    return true;
}

/* Each half of the devices has a NUMA node of its own, as on most boards with eight GPUs. */
static void sim_device(const struct device_spec *spec, uint32_t i, struct device *device)
{
    *device = (struct device){.kind = DEVICE_SIM, .index = (int)i, .physical = (int)i};
    snprintf(device->uuid, sizeof(device->uuid), "SIM-%u", i);
    snprintf(device->name, sizeof(device->name), "%s", spec->sim_name);
    snprintf(device->pci, sizeof(device->pci), "0000:%02x:00.0", i + 1);
    snprintf(device->script, sizeof(device->script), "%s", spec->sim_faults);
    device->numa_node = spec->count > 1 && i >= (spec->count + 1) / 2 ? 1 : 0;
    device->mem_total_bytes = spec->sim_mem_bytes;
    device->ecc_uncorrected_count = -1;
    struct device_sample now;
    if (!sim_sample(device, 0, &now))
        now = (struct device_sample){
            .busy_percent = -1, .temperature_c = -1, .power_w = -1, .is_lost = true};
    device->mem_free_bytes = spec->sim_mem_bytes - now.mem_used_bytes;
    device->busy_percent = now.busy_percent;
    device->temperature_c = now.temperature_c;
    device->power_w = now.power_w;
    device->is_lost = now.is_lost;
    memcpy(device->ill, now.ill, sizeof(device->ill));
    if (holds(device, SIM_BUSY, 0)) {
        device->n_processes = 1;
        device->processes[0] =
            (struct device_process){.pid = 4242, .uid = (uid_t)-1, .name = "somebody"};
    }
}

void sim_devices(const struct device_spec *spec, struct device_list *out)
{
    *out = (struct device_list){xcalloc(spec->count, sizeof(*out->at)), spec->count};
    for (uint32_t i = 0; i < spec->count; i++)
        sim_device(spec, i, &out->at[i]);
}
