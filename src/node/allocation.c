/* SPDX-License-Identifier: Apache-2.0 */
#include "node/allocation.h"

#include <ctype.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/shell.h"
#include "base/talk.h"
#include "base/xalloc.h"
#include "device/spec.h"
#include "node/environment.h"

enum {
    LEFT_WAIT_MS = 60000,
    LEFT_LOOK_MS = 200,
    WAIT_LOOK_MS = 2000,
    HOST_TIMEOUT_MIN_MS = 1000, /* of an agent as well (agent.c) */
    SEATS_SPARE = 1024          /* that may come later */
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
 * True if the devices are held only by guards of a killed muster, which end its workers in a moment: then muster
 * waits without --wait. If a live muster has locked one of the chosen devices, waiting does not help.
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

int host_timeout_check(const char *value, struct err *err)
{
    uint64_t ms;
    int rc = duration_parse(str_of(value), &ms, err);
    return rc || ms >= HOST_TIMEOUT_MIN_MS
               ? rc
               : fail(err, ERR_USAGE, "expected a second at least, found '%s'", value);
}

int allocation_wish_check(const struct allocation_wish *wish, struct err *err)
{
    struct device_spec spec;
    int rc = spec_parse(wish->gpus, &spec, err);
    if (rc == 0)
        rc = seats_possible(&spec, (uint32_t)wish->gpus_per_worker, err);
    if (rc == 0 && wish->grows && spec.kind != SPEC_FREE)
        rc = fail(err, ERR_USAGE,
                  "--grow takes devices that become free: leave -g out, or give -g free");
    return rc;
}

static uint64_t limit_left_ms(const struct allocation_holder *holder)
{
    uint64_t age_ms = clock_now_ms() - holder->limit_from_ms;
    return holder->limit_ms > 0 ? holder->limit_ms - MIN(age_ms, holder->limit_ms) : UINT64_MAX;
}

/* `err` says what was waited for. */
static int limit_reached(const struct allocation_holder *holder, struct err *err)
{
    const struct err why = *err;
    char limit[24];
    duration_format(limit, holder->limit_ms);
    return fail(err, ERR_TIMEOUT, "the limit of %s on the whole run was reached: %s", limit,
                why.text);
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
        if (!said || rc == 0) /* only at the first and the last try */
            lines_log(holder->log, &notes);
        if (rc != ERR_UNAVAILABLE || waited_ms >= wait_ms)
            return rc;
        uint64_t left_ms = limit_left_ms(holder);
        if (left_ms == 0)
            return limit_reached(holder, err);
        if (!said)
            log_add(holder->log, LOG_WARN, "device", "waiting: %s", err->text);
        said = true;
        uint64_t pause_ms = MIN((uint64_t)(is_left ? LEFT_LOOK_MS : WAIT_LOOK_MS), left_ms);
        nanosleep(&(struct timespec){.tv_sec = (time_t)(pause_ms / 1000),
                                     .tv_nsec = (long)(pause_ms % 1000) * 1000000},
                  NULL);
        rc = 0;
    }
    return rc;
}

void allocation_begin(struct allocation *a, const struct allocation_wish *wish,
                      const char *self_path)
{
    a->hosts = xcalloc(1, sizeof(*a->hosts));
    a->n_hosts = 1;
    a->visible = wish->visible;
    a->python_dir = python_dir_new(self_path);
}

static uint32_t position_from(const struct allocation *a, uint32_t position, size_t device)
{
    while (a->chosen[position] != device)
        position++;
    return position;
}

uint32_t allocation_position(const struct allocation *a, size_t device)
{
    return position_from(a, 0, device);
}

/* device_of and first_of of the seats from `first_seat` on; their devices are chosen from `first_chosen` on. */
static void positions_make(struct allocation *a, uint32_t first_seat, uint32_t first_chosen)
{
    a->device_of = xrealloc(a->device_of, (a->n_seats + 1) * sizeof(*a->device_of));
    a->first_of = xrealloc(a->first_of, (a->n_chosen + 1) * sizeof(*a->first_of));
    for (size_t i = first_seat; i < a->n_seats; i++) {
        const struct seat *seat = &a->seats[i];
        a->device_of[i] =
            seat->n_devices > 0 ? position_from(a, first_chosen, seat->devices[0]) : 0;
        for (size_t d = 0; d < seat->n_devices; d++)
            a->first_of[position_from(a, first_chosen, seat->devices[d])] = a->device_of[i];
    }
}

int allocation_no_seat(struct err *err)
{
    return fail(err, ERR_USAGE, "-g none leaves no place for a worker; cpu:N gives N CPU slots");
}

/* A seat without devices, for a worker that only looks at the machine. */
static void bare_seat_make(struct allocation *a)
{
    a->seats = xcalloc(1, sizeof(*a->seats));
    snprintf(a->seats[0].label, sizeof(a->seats[0].label), "%s", WISH_NO_DEVICES);
    a->n_seats = 1;
    positions_make(a, 0, 0);
}

static int seats_take(struct allocation *a, const struct allocation_wish *wish, struct err *err)
{
    const struct seat_opts opts = {(uint32_t)wish->gpus_per_worker,
                                   (uint32_t)wish->workers_per_gpu};
    size_t n_seats = 0;
    if (a->n_chosen == 0 && !wish->without_devices)
        return allocation_no_seat(err);
    if (a->n_chosen == 0) {
        bare_seat_make(a);
        return 0;
    }
    int rc = seats_make(&a->devices, a->chosen, a->n_chosen, &opts, &a->seats, &n_seats, err);
    if (rc)
        return rc;
    a->n_seats = (uint32_t)n_seats;
    a->n_own_devices = a->devices.len;
    positions_make(a, 0, 0);
    return 0;
}

static uint32_t sets_count(const struct allocation *a, const struct allocation_host *host)
{
    uint32_t n_sets = 0;
    for (uint32_t i = host->first_chosen; i < host->first_chosen + host->n_chosen; i++)
        n_sets += a->first_of[i] == i;
    return n_sets;
}

static uint8_t *chosen_distance_new(const struct allocation *a)
{
    struct device_list chosen = device_list_pick(&a->devices, a->chosen, a->n_chosen);
    uint8_t *distance = steal_ptr(&chosen.distance);
    device_list_release(&chosen);
    return distance;
}

int allocation_take(struct allocation *a, const struct allocation_wish *wish,
                    const struct allocation_holder *holder, struct err *err)
{
    int rc = devices_take(a, wish, holder, err);
    if (rc == 0)
        rc = seats_take(a, wish, err);
    if (rc)
        return rc;
    allocation_begin(a, wish, holder->self_path);
    a->hosts[0].n_chosen = (uint32_t)a->n_chosen;
    a->hosts[0].n_seats = a->n_seats;
    a->hosts[0].n_sets_left = sets_count(a, &a->hosts[0]);
    a->hosts[0].distance = chosen_distance_new(a);
    return 0;
}

/* ---- other hosts ---- */

/*
 * The label of another host's seat: "node1_gpu_0". It names log files, so all characters that come from the host are
 * made safe.
 */
static void label_prefix(struct seat *seat, const char *host)
{
    cleanup_free char *label = xasprintf("%s%s%s", host, host[0] ? "_" : "", seat->label);
    for (char *c = label; *c; c++)
        *c = isalnum((unsigned char)*c) || strchr("_+-.", *c) ? *c : '-';
    snprintf(seat->label, sizeof(seat->label), "%.*s", (int)sizeof(seat->label) - 1, label);
}

static void devices_append(struct allocation *a, const struct device_list *devices)
{
    size_t n_all = a->devices.len + devices->len;
    free(a->devices.distance); /* needed only to make seats */
    a->devices.distance = NULL;
    a->devices.at = xrealloc(a->devices.at, (n_all + 1) * sizeof(*a->devices.at));
    a->chosen = xrealloc(a->chosen, (a->n_chosen + devices->len + 1) * sizeof(*a->chosen));
    for (size_t i = 0; i < devices->len; i++) {
        a->chosen[a->n_chosen++] = a->devices.len;
        a->devices.at[a->devices.len++] = devices->at[i];
    }
}

void allocation_spare(struct allocation *a)
{
    a->n_seats_max = a->n_seats + MAX(a->n_seats, (uint32_t)SEATS_SPARE);
    a->n_devices_max =
        (uint32_t)a->devices.len + MAX((uint32_t)a->devices.len, (uint32_t)SEATS_SPARE);
}

bool allocation_has_room(const struct allocation *a, size_t n_devices, size_t n_seats)
{
    return a->n_seats + n_seats <= a->n_seats_max && a->devices.len + n_devices <= a->n_devices_max;
}

static void part_seats_add(struct allocation *a, const struct allocation_part *part,
                           size_t n_devices_before)
{
    a->seats = xrealloc(a->seats, (a->n_seats + part->n_seats + 1) * sizeof(*a->seats));
    for (size_t i = 0; i < part->n_seats; i++) {
        struct seat *seat = &a->seats[a->n_seats++];
        *seat = part->seats[i];
        seat->host = part->node;
        seat->number = part->first_number + (uint32_t)i;
        for (size_t d = 0; d < seat->n_devices; d++)
            seat->devices[d] += n_devices_before;
        label_prefix(seat, part->name);
    }
}

uint32_t allocation_add_host(struct allocation *a, const struct allocation_part *part)
{
    size_t n_devices_before = a->devices.len;
    a->hosts = xrealloc(a->hosts, (a->n_hosts + 1) * sizeof(*a->hosts));
    struct allocation_host *host = &a->hosts[a->n_hosts];
    *host = (struct allocation_host){
        .node = part->node,
        .first_chosen = (uint32_t)a->n_chosen,
        .n_chosen = (uint32_t)part->devices->len,
        .first_seat = a->n_seats,
        .n_seats = (uint32_t)part->n_seats,
        .round_trip_ms = part->round_trip_ms,
        .distance = distance_copy_new(part->devices->distance, part->devices->len)};
    snprintf(host->name, sizeof(host->name), "%s", part->name);
    devices_append(a, part->devices);
    part_seats_add(a, part, n_devices_before);
    positions_make(a, host->first_seat, host->first_chosen);
    host->n_sets_left = sets_count(a, host);
    return (uint32_t)a->n_hosts++;
}

static void positions_fill(size_t *positions, size_t n)
{
    for (size_t i = 0; i < n; i++)
        positions[i] = i;
}

/* Makes whole seats on these devices, chooses all of them, and takes their locks. */
static int part_take(struct allocation *a, const struct device_list *devices,
                     const struct seat_opts *opts, const char *run_id, uint32_t *position,
                     struct err *err)
{
    cleanup_free struct seat *seats = NULL;
    struct device_locks locks = {0};
    struct allocation_host own = a->hosts[0]; /* the array is about to move */
    size_t all[DEVICES_MAX], n_seats = 0, n_before = a->devices.len;
    positions_fill(all, devices->len);
    int rc = seats_make(devices, all, devices->len, opts, &seats, &n_seats, err);
    if (rc == 0 && !allocation_has_room(a, devices->len, n_seats))
        rc = fail(err, ERR_UNAVAILABLE, "this run has as many seats as it can have");
    if (rc == 0)
        rc = device_locks_take(&locks, devices, all, devices->len, run_id, err);
    if (rc)
        return rc;
    *position = allocation_add_host(a, &(struct allocation_part){.name = own.name,
                                                                 .devices = devices,
                                                                 .seats = seats,
                                                                 .n_seats = n_seats,
                                                                 .first_number = a->n_seats});
    device_locks_join(&a->locks, &locks, n_before);
    return 0;
}

int allocation_grow(struct allocation *a, const struct device_list *devices,
                    const struct allocation_wish *wish, const char *run_id, uint32_t *position,
                    struct err *err)
{
    const struct seat_opts opts = {(uint32_t)wish->gpus_per_worker,
                                   (uint32_t)wish->workers_per_gpu};
    size_t chosen[DEVICES_MAX], n_chosen = MIN(devices->len, (size_t)DEVICES_MAX);
    cleanup_buf struct buf notes = BUF_INIT;
    positions_fill(chosen, n_chosen);
    int rc = seats_fit(devices, chosen, &n_chosen, opts.devices_per_worker, &notes, err);
    if (rc)
        return rc;
    struct device_list fit = device_list_pick(devices, chosen, n_chosen);
    rc = part_take(a, &fit, &opts, run_id, position, err);
    device_list_release(&fit);
    return rc;
}

uint32_t allocation_seat_of(const struct allocation *a, uint32_t first)
{
    uint32_t p = 0;
    while (a->device_of[p] != first)
        p++;
    return p;
}

uint32_t allocation_host_of(const struct allocation *a, uint32_t chosen)
{
    uint32_t h = 0;
    while (chosen < a->hosts[h].first_chosen ||
           chosen >= a->hosts[h].first_chosen + a->hosts[h].n_chosen) {
        h++;
        ASSERT(h < a->n_hosts);
    }
    return h;
}

void allocation_label_add(const struct allocation *a, uint32_t chosen, struct buf *out)
{
    char label[24];
    device_label(&a->devices.at[a->chosen[chosen]], label);
    uint32_t host = allocation_host_of(a, chosen);
    buf_addf(out, "%s%s%s", a->hosts[host].name, a->hosts[host].name[0] ? " " : "", label);
}

void allocation_release(struct allocation *a)
{
    device_locks_release(&a->locks);
    device_list_release(&a->devices);
    free(a->chosen);
    free(a->seats);
    free(a->device_of);
    free(a->first_of);
    for (size_t i = 0; i < a->n_hosts; i++)
        free(a->hosts[i].distance);
    free(a->hosts);
    free(a->python_dir);
    *a = (struct allocation){0};
}

void seats_print(const struct allocation *a, const char *const *command)
{
    for (uint32_t i = 0; i < a->n_seats; i++) {
        const struct seat *seat = &a->seats[i];
        cleanup_buf struct buf line = BUF_INIT;
        buf_addf(&line, "worker %u: %s", i, seat->label);
        for (size_t d = 0; d < seat->n_devices; d++)
            buf_addf(&line, " %s", a->devices.at[seat->devices[d]].uuid);
        buf_addf(&line, ", %u threads%s", seat->threads, command ? ":" : "");
        for (const char *const *word = command; word && *word; word++) {
            buf_add_char(&line, ' ');
            buf_add_shell_word(&line, *word);
        }
        print_line("%s", buf_text(&line));
    }
}
