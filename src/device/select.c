/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses among the devices of the universe. A device that the user named is chosen, with a warning
 * if need be; a device that muster picks by itself must be healthy and free.
 */
#include <pwd.h>
#include <strings.h>

#include "base/idlist.h"
#include "base/parse.h"
#include "device/lock.h"
#include "device/spec.h"

static bool pci_parse(const char *text, unsigned out[4])
{
    char rest;
    out[0] = out[3] = 0;
    if (sscanf(text, "%x:%x:%x.%x%c", &out[0], &out[1], &out[2], &out[3], &rest) == 4)
        return true;
    out[0] = out[3] = 0;
    return sscanf(text, "%x:%x.%x%c", &out[1], &out[2], &out[3], &rest) == 3;
}

static bool matches(const struct spec_entry *entry, const struct device *device)
{
    unsigned wanted[4], found[4];
    bool is_instance = device->parent_uuid[0] != '\0';
    if (entry->is_id && entry->is_physical)
        return device->physical == (int)entry->id && !is_instance;
    if (entry->is_id)
        return device->index == (int)entry->id;
    if (strncasecmp(device->uuid, entry->text, strlen(entry->text)) == 0)
        return true;
    return !is_instance && pci_parse(entry->text, wanted) && pci_parse(device->pci, found) &&
           memcmp(wanted, found, sizeof(wanted)) == 0;
}

/* Adds "this machine has 0-1", in the kind of number that the user typed. */
static void add_choices(struct buf *out, const struct device_list *universe, bool physical)
{
    uint32_t ids[DEVICES_MAX];
    size_t n_ids = 0;
    for (size_t i = 0; i < universe->len && n_ids < DEVICES_MAX; i++) {
        int id = physical ? universe->at[i].physical : universe->at[i].index;
        if (id >= 0 && (n_ids == 0 || ids[n_ids - 1] != (uint32_t)id))
            ids[n_ids++] = (uint32_t)id;
    }
    buf_add_text(out, n_ids > 0 ? "this machine has " : "this machine has no GPU");
    idlist_format(out, ids, n_ids);
}

static int absent(const struct spec_entry *entry, const struct device_list *universe,
                  struct err *err)
{
    cleanup_buf struct buf choices = BUF_INIT;
    add_choices(&choices, universe, entry->is_physical);
    if (entry->is_id)
        return fail(err, ERR_UNAVAILABLE, "GPU %u is not available: %s%s", entry->id,
                    buf_text(&choices), entry->is_physical ? " (physical numbers)" : "");
    for (size_t i = 0; i < universe->len; i++)
        buf_addf(&choices, "%s%.12s…", i ? ", " : ": ", universe->at[i].uuid);
    return fail(err, ERR_UNAVAILABLE, "GPU %s is not available: %s", entry->text,
                buf_text(&choices));
}

static int entry_find(const struct spec_entry *entry, const struct device_list *universe,
                      size_t *position, struct err *err)
{
    size_t n_found = 0;
    for (size_t i = 0; i < universe->len; i++) {
        if (!matches(entry, &universe->at[i]))
            continue;
        if (n_found++ > 0 && entry->is_id)
            return fail(err, ERR_USAGE, "phys:%u is %s and %s: give its id", entry->id,
                        universe->at[*position].uuid, universe->at[i].uuid);
        if (n_found > 1)
            return fail(err, ERR_USAGE, "'%s' fits %s and %s: give more of it", entry->text,
                        universe->at[*position].uuid, universe->at[i].uuid);
        *position = i;
    }
    return n_found ? 0 : absent(entry, universe, err);
}

static void add_process(struct buf *out, const struct device_process *process)
{
    const struct passwd *user = getpwuid(process->uid);
    buf_addf(out, "%s (pid %d", process->name[0] ? process->name : "a process", (int)process->pid);
    if (user)
        buf_addf(out, ", %s", user->pw_name);
    if (process->mem_bytes > 0) {
        char size[16];
        size_format(size, process->mem_bytes);
        buf_addf(out, ", %s", size);
    }
    buf_add_char(out, ')');
}

/* Adds why `free` and `any` leave this device out; adds nothing if the device is free. */
static void add_obstacle(struct buf *out, const struct device *device, uint64_t mem_free_min_bytes)
{
    size_t begin = out->len;
    char size[16];
    if (device->kind == DEVICE_CPU)
        return;
    if (device->is_lost) {
        buf_addf(out, "%s", device->ill[0] ? device->ill : "lost, it fell off the bus");
        return;
    }
    if (device->ill[0]) {
        buf_add_text(out, device->ill);
        return;
    }
    for (size_t i = 0; i < MIN(device->n_processes, (size_t)3); i++) {
        buf_add_text(out, i ? ", " : "");
        add_process(out, &device->processes[i]);
    }
    if (device->n_processes > 3)
        buf_addf(out, " and %zu more", device->n_processes - 3);
    struct buf holder = BUF_INIT;
    if (out->len == begin && device_is_locked(device, &holder))
        buf_addf(out, "taken by %s", buf_text(&holder));
    buf_release(&holder);
    size_format(size, device->mem_total_bytes - device->mem_free_bytes);
    if (out->len == begin && device_is_held_unseen(device))
        buf_addf(out, "%s held by processes that cannot be seen from here", size);
    size_format(size, device->mem_free_bytes);
    if (out->len == begin && device->mem_free_bytes < mem_free_min_bytes)
        buf_addf(out, "only %s free", size);
}

/* Graphics of a processor serve the screen, and compute only if the user names them. */
static const char screen_text[] = "graphics of the processor (taken if named by its id)";

static bool is_all_integrated(const struct device_list *universe)
{
    for (size_t i = 0; i < universe->len; i++)
        if (!universe->at[i].is_integrated)
            return false;
    return true;
}

static int choose_free(const struct device_spec *spec, const struct device_list *universe,
                       size_t *chosen, size_t cap, size_t *n_chosen, struct err *err)
{
    cleanup_buf struct buf why = BUF_INIT;
    size_t wanted = spec->kind == SPEC_ANY ? spec->count : universe->len;
    for (size_t i = 0; i < universe->len && *n_chosen < MIN(wanted, cap); i++) {
        cleanup_buf struct buf obstacle = BUF_INIT;
        char label[24];
        device_label(&universe->at[i], label);
        if (universe->at[i].is_integrated)
            buf_add_text(&obstacle, screen_text);
        else
            add_obstacle(&obstacle, &universe->at[i], spec->mem_free_min_bytes);
        if (obstacle.len == 0)
            chosen[(*n_chosen)++] = i;
        else
            buf_addf(&why, "%s%s: %s", why.len ? "; " : "", label, buf_text(&obstacle));
    }
    if (universe->len == 0)
        return fail(err, ERR_UNAVAILABLE, "this machine has no GPU (cpu:N uses CPU slots)");
    if (*n_chosen >= (spec->kind == SPEC_ANY ? wanted : 1))
        return 0;
    if (spec->kind == SPEC_ANY && universe->len < wanted)
        return fail(err, ERR_UNAVAILABLE, "%zu GPUs wanted, this machine has %zu", wanted,
                    universe->len);
    if (spec->kind == SPEC_ANY)
        return fail(err, ERR_UNAVAILABLE,
                    "%zu free GPUs wanted, %zu found (-g all takes them anyway, --wait waits): %s",
                    wanted, *n_chosen, buf_text(&why));
    return fail(err, ERR_UNAVAILABLE, "no GPU is free (-g all takes them anyway, --wait waits): %s",
                buf_text(&why));
}

static void warn_of(const struct device *device, const char *text, struct buf *warnings)
{
    char label[24];
    device_label(device, label);
    if (warnings && *text)
        buf_addf(warnings, "%s: %s\n", label, text);
}

static void warn(const struct device *device, struct buf *warnings)
{
    cleanup_buf struct buf obstacle = BUF_INIT;
    add_obstacle(&obstacle, device, 0);
    warn_of(device, buf_text(&obstacle), warnings);
}

/* `all` leaves out lost devices, which cannot compute, and graphics of a processor if there is any
 * other device. */
static int choose_all(const struct device_list *universe, size_t *chosen, size_t cap,
                      size_t *n_chosen, struct buf *warnings, struct err *err)
{
    bool with_integrated = is_all_integrated(universe);
    for (size_t i = 0; i < universe->len && *n_chosen < cap; i++) {
        if (universe->at[i].is_integrated && !with_integrated) {
            warn_of(&universe->at[i], screen_text, warnings);
            continue;
        }
        warn(&universe->at[i], warnings);
        if (!universe->at[i].is_lost)
            chosen[(*n_chosen)++] = i;
    }
    if (universe->len == 0)
        return fail(err, ERR_UNAVAILABLE, "this machine has no GPU (cpu:N uses CPU slots)");
    if (*n_chosen == 0)
        return fail(err, ERR_UNAVAILABLE, "every GPU is lost (see muster gpus)");
    return 0;
}

static int choose_listed(const struct device_spec *spec, const struct device_list *universe,
                         size_t *chosen, size_t cap, size_t *n_chosen, struct buf *warnings,
                         struct err *err)
{
    for (size_t e = 0; e < spec->n_entries && e < cap; e++) {
        size_t position = 0;
        int rc = entry_find(&spec->entries[e], universe, &position, err);
        if (rc)
            return rc;
        char label[24];
        const struct device *device = &universe->at[position];
        device_label(device, label);
        for (size_t i = 0; i < *n_chosen; i++)
            if (chosen[i] == position)
                return fail(err, ERR_USAGE, "%s is listed twice (%s)", label, device->uuid);
        if (device->is_lost)
            return fail(err, ERR_UNAVAILABLE, "%s is lost: %s", label,
                        device->ill[0] ? device->ill : "it fell off the bus");
        warn(device, warnings);
        chosen[(*n_chosen)++] = position;
    }
    return 0;
}

int spec_select(const struct device_spec *spec, const struct device_list *universe, size_t *chosen,
                size_t cap, size_t *n_chosen, struct buf *warnings, struct err *err)
{
    *n_chosen = 0;
    switch (spec->kind) {
    case SPEC_NONE:
        return 0;
    case SPEC_FREE:
    case SPEC_ANY:
        return choose_free(spec, universe, chosen, cap, n_chosen, err);
    case SPEC_ALL:
    case SPEC_CPU:
    case SPEC_SIM:
        return choose_all(universe, chosen, cap, n_chosen, warnings, err);
    case SPEC_LIST:
        return choose_listed(spec, universe, chosen, cap, n_chosen, warnings, err);
    }
    BUG("spec kind %d", (int)spec->kind);
}
