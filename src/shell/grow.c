/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/grow.h"

#include "base/cleanup.h"
#include "base/json.h"
#include "base/xalloc.h"
#include "device/spec.h"
#include "shell/device_watch.h"
#include "shell/host_ask.h"
#include "shell/local_ask.h"
#include "shell/shell_impl.h"

struct grow {
    struct shell *shell;
    struct allocation *allocation;
    const struct allocation_wish *wish;
    struct local_ask look;
};

static void answer_use(void *context, struct str rest);

struct grow *grow_new(struct shell *shell, struct allocation *allocation,
                      const struct allocation_wish *wish)
{
    struct device_spec spec;
    struct err err = {0};
    if (spec_parse(wish->gpus, &spec, &err) != 0 || spec.kind != SPEC_FREE)
        return NULL;
    struct grow *grow = xcalloc(1, sizeof(*grow));
    *grow = (struct grow){
        .shell = shell,
        .allocation = allocation,
        .wish = wish,
        .look = {.shell = shell, .name = "--grow", .answered = answer_use, .context = grow}};
    return grow;
}

/* ---- what is free ---- */

static bool is_ours(const struct allocation *a, const char *uuid)
{
    bool is = false;
    for (size_t i = 0; i < a->n_chosen; i++)
        is = is || strcmp(a->devices.at[a->chosen[i]].uuid, uuid) == 0;
    return is;
}

/* The device of this machine that a line of the answer is about; SIZE_MAX: none that could be taken. */
static size_t line_device(const struct allocation *a, struct str line)
{
    cleanup_buf struct buf uuid = BUF_INIT;
    struct str value;
    if (!json_get(line, "uuid", &value) || !json_to_text(value, &uuid) ||
        is_ours(a, buf_text(&uuid)))
        return SIZE_MAX;
    for (size_t i = 0; i < a->n_own_devices; i++)
        if (strcmp(a->devices.at[i].uuid, buf_text(&uuid)) == 0)
            return i;
    return SIZE_MAX;
}

/* The device's free memory now, by which workers are judged. When the run started, others may have held some of it. */
static uint64_t line_free_bytes(struct str line, const struct device *device)
{
    struct str value;
    uint64_t bytes = 0;
    bool is_known = json_get(line, "mem_free_bytes", &value) && json_to_u64(value, &bytes);
    return is_known ? MIN(bytes, device->mem_total_bytes) : device->mem_total_bytes;
}

static void answer_use(void *context, struct str rest)
{
    struct grow *grow = context;
    struct allocation *a = grow->allocation;
    struct str line;
    size_t free_ones[DEVICES_MAX], n_free = 0;
    uint64_t free_bytes[DEVICES_MAX];
    struct err err = {0};
    uint32_t part = 0;
    while (n_free < DEVICES_MAX && rest.len > 0 && str_next(&rest, '\n', &line)) {
        size_t device = line_device(a, line);
        if (device == SIZE_MAX)
            continue;
        free_bytes[n_free] = line_free_bytes(line, &a->devices.at[device]);
        free_ones[n_free++] = device;
    }
    if (n_free == 0 || !grow->shell->machines.watch)
        return;
    struct device_list devices = device_list_pick(&a->devices, free_ones, n_free);
    for (size_t i = 0; i < n_free; i++)
        devices.at[i].mem_free_bytes = free_bytes[i];
    int rc = allocation_grow(a, &devices, grow->wish, grow->shell->run_id, &part, &err);
    device_list_release(&devices);
    if (rc) { /* another run was faster, or the devices make no whole seat */
        log_add(grow->shell->log, LOG_DEBUG, "device", "--grow: %s", err.text);
        return;
    }
    shell_keeper_renew(grow->shell, a);
    device_watch_came(grow->shell->machines.watch, part);
}

/* ---- the process that looks ---- */

void grow_look(struct grow *grow)
{
    /* Variables of options that muster gpus must not take from here. */
    static const char *const variables[] = {
        "MUSTER_ALL", "MUSTER_WATCH",      "MUSTER_HOSTS",
        "MUSTER_VIA", "MUSTER_AGENT_PATH", "MUSTER_HOST_TIMEOUT",
        NULL};
    struct env_list env = {0};
    const char *spec = grow->wish->gpus ? grow->wish->gpus : "free";
    const char *argv[] = {grow->shell->self_path, "gpus", "--json", "-g", spec, NULL};
    if (local_ask_is_busy(&grow->look) || grow->allocation->n_own_devices == 0)
        return;
    look_environment(variables, &env);
    local_ask_begin(&grow->look, argv, (const char *const *)env.at);
    env_list_release(&env);
}

void grow_end(struct grow *grow)
{
    if (grow)
        local_ask_end(&grow->look);
}

void grow_free(struct grow *grow)
{
    if (!grow)
        return;
    local_ask_release(&grow->look);
    free(grow);
}
