/* SPDX-License-Identifier: Apache-2.0 */
#include "node/allocation.h"

#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/xalloc.h"
#include "device/spec.h"

enum {
    LEFT_WAIT_MS = 60000,
    LEFT_LOOK_MS = 200,
    WAIT_LOOK_MS = 2000
};

/* Logs each line as an entry. */
static void lines_log(struct log *log, const struct buf *lines)
{
    struct str rest = buf_str(lines), line;
    while (rest.len > 0 && str_next(&rest, '\n', &line))
        log_add(log, LOG_WARN, "device", "%.*s", (int)line.len, line.at);
}

/* Messages for the user are added to `notes`. */
static int devices_choose(struct allocation *a, const struct allocation_wish *wish,
                          const struct allocation_holder *holder, const struct device_spec *spec,
                          struct buf *notes, struct err *err)
{
    size_t chosen[DEVICES_MAX];
    device_list_release(&a->devices);
    int rc = probe_universe(&(struct probe_opts){.self_path = holder->self_path}, spec, &a->devices,
                            notes, err);
    if (rc == 0)
        rc = spec_select(spec, &a->devices, chosen, countof(chosen), &a->n_chosen, notes, err);
    if (rc == 0 && a->n_chosen > 0)
        rc = seats_fit(&a->devices, chosen, &a->n_chosen, (uint32_t)wish->gpus_per_worker, notes,
                       err);
    if (rc) {
        a->n_chosen = 0;
        return rc;
    }
    free(a->chosen);
    a->chosen = xcalloc(a->n_chosen + 1, sizeof(*a->chosen));
    memcpy(a->chosen, chosen, a->n_chosen * sizeof(*chosen));
    return device_locks_take(&a->locks, &a->devices, a->chosen, a->n_chosen, holder->run_id, err);
}

/*
 * True if the devices are held only by guards of a muster that was killed, which end its workers in a moment: then
 * muster waits without being asked to. If one of the chosen devices is locked by a live muster, waiting does not help.
 */
static bool will_be_free(const struct allocation *a, uint64_t waited_ms)
{
    bool any_is_left = false;
    if (a->n_chosen == 0)
        for (size_t i = 0; i < a->devices.len && !any_is_left; i++)
            any_is_left = device_is_left(&a->devices.at[i], waited_ms);
    for (size_t i = 0; i < a->n_chosen; i++) {
        const struct device *device = &a->devices.at[a->chosen[i]];
        bool is_left = device_is_left(device, waited_ms);
        if (!is_left && device_is_locked(device, NULL))
            return false;
        any_is_left = any_is_left || is_left;
    }
    return any_is_left;
}

/* With a time to wait, tries again every two seconds until the devices are free or the time is over. */
static int devices_take(struct allocation *a, const struct allocation_wish *wish,
                        const struct allocation_holder *holder, struct err *err)
{
    struct device_spec spec;
    uint64_t begin_ms = clock_now_ms();
    bool said = false;
    int rc = spec_parse(wish->gpus, &spec, err);
    while (rc == 0) {
        cleanup_buf struct buf notes = BUF_INIT;
        rc = devices_choose(a, wish, holder, &spec, &notes, err);
        uint64_t waited_ms = clock_now_ms() - begin_ms;
        bool is_left = rc == ERR_UNAVAILABLE && will_be_free(a, waited_ms);
        uint64_t wait_ms = MAX(wish->wait_ms, (uint64_t)(is_left ? LEFT_WAIT_MS : 0));
        if (!said || rc == 0) /* not at each try in between */
            lines_log(holder->log, &notes);
        if (rc != ERR_UNAVAILABLE || waited_ms >= wait_ms)
            return rc;
        if (!said)
            log_add(holder->log, LOG_WARN, "device", "waiting: %s", err->text);
        said = true;
        uint64_t pause_ms = is_left ? LEFT_LOOK_MS : WAIT_LOOK_MS;
        nanosleep(&(struct timespec){.tv_sec = (time_t)(pause_ms / 1000),
                                     .tv_nsec = (long)(pause_ms % 1000) * 1000000},
                  NULL);
        rc = 0;
    }
    return rc;
}

uint32_t allocation_position(const struct allocation *a, size_t device)
{
    uint32_t position = 0;
    while (a->chosen[position] != device)
        position++;
    return position;
}

static int seats_take(struct allocation *a, const struct allocation_wish *wish, struct err *err)
{
    const struct seat_opts opts = {(uint32_t)wish->gpus_per_worker,
                                   (uint32_t)wish->workers_per_gpu};
    size_t n_seats = 0;
    if (a->n_chosen == 0)
        return fail(err, ERR_USAGE,
                    "-g none leaves no place for a worker; cpu:N gives N CPU slots");
    int rc = seats_make(&a->devices, a->chosen, a->n_chosen, &opts, &a->seats, &n_seats, err);
    if (rc)
        return rc;
    a->n_seats = (uint32_t)n_seats;
    a->device_of = xcalloc(n_seats, sizeof(*a->device_of));
    a->first_of = xcalloc(a->n_chosen, sizeof(*a->first_of));
    for (size_t i = 0; i < n_seats; i++) {
        const struct seat *seat = &a->seats[i];
        a->device_of[i] = allocation_position(a, seat->devices[0]);
        for (size_t d = 0; d < seat->n_devices; d++)
            a->first_of[allocation_position(a, seat->devices[d])] = a->device_of[i];
    }
    return 0;
}

int allocation_take(struct allocation *a, const struct allocation_wish *wish,
                    const struct allocation_holder *holder, struct err *err)
{
    int rc = devices_take(a, wish, holder, err);
    return rc ? rc : seats_take(a, wish, err);
}

void allocation_environment(const struct allocation *a, uint32_t seat, enum visible_mode visible,
                            struct env_list *env)
{
    struct env_list of_seat = {0};
    env_inherit(env);
    seat_environment(&a->seats[seat], &a->devices, visible, &of_seat);
    env_apply(env, &of_seat);
    env_set(env, xasprintf("MUSTER_WORKER=%u", seat));
    env_set(env, xasprintf("MUSTER_WORKERS=%u", a->n_seats));
}

void allocation_release(struct allocation *a)
{
    device_locks_release(&a->locks);
    device_list_release(&a->devices);
    free(a->chosen);
    free(a->seats);
    free(a->device_of);
    free(a->first_of);
    *a = (struct allocation){0};
}
