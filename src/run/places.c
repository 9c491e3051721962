/* SPDX-License-Identifier: Apache-2.0
 *
 * Which devices there are for a run, and a place for each worker on them; and how many files all this
 * keeps open.
 */
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "run/prepare.h"
#include "run/session.h"
#include "run/watch.h"

/* One line, one entry. */
static void lines_log(struct session *s, const struct buf *lines)
{
    struct str rest = buf_str(lines), line;
    while (rest.len > 0 && str_next(&rest, '\n', &line))
        log_add(s->log, LOG_WARN, "device", "%.*s", (int)line.len, line.at);
}

/* What is to be said of the devices is added to `notes`. */
static int devices_choose(struct session *s, const struct device_spec *spec, struct buf *notes,
                          struct err *err)
{
    size_t chosen[DEVICES_MAX];
    device_list_release(&s->devices);
    int rc = probe_universe(&(struct probe_opts){.self_path = s->self_path}, spec, &s->devices,
                            notes, err);
    if (rc == 0)
        rc = spec_select(spec, &s->devices, chosen, countof(chosen), &s->n_chosen, notes, err);
    if (rc == 0 && s->n_chosen > 0)
        rc = seats_fit(&s->devices, chosen, &s->n_chosen, (uint32_t)s->request->gpus_per_worker,
                       notes, err);
    if (rc)
        return rc;
    free(s->chosen);
    s->chosen = xcalloc(s->n_chosen + 1, sizeof(*s->chosen));
    memcpy(s->chosen, chosen, s->n_chosen * sizeof(*chosen));
    return device_locks_take(&s->locks, &s->devices, s->chosen, s->n_chosen, s->run_id, err);
}

/* A muster that was killed leaves its guards a moment to end the workers; nobody need ask for that wait. */
static bool some_are_left(const struct device_list *devices, uint64_t waited_ms)
{
    bool is_left = false;
    for (size_t i = 0; i < devices->len && !is_left; i++)
        is_left = device_is_left(&devices->at[i], waited_ms);
    return is_left;
}

enum {
    LEFT_WAIT_MS = 60000,
    LEFT_LOOK_MS = 200,
    WAIT_LOOK_MS = 2000
};

/* With --wait, ask again every two seconds until the devices are free or patience ends. */
static int devices_take(struct session *s, struct err *err)
{
    struct device_spec spec;
    uint64_t begin_ms = clock_now_ms();
    bool said = false;
    int rc = spec_parse(s->request->gpus, &spec, err);
    while (rc == 0) {
        cleanup_buf struct buf notes = BUF_INIT;
        rc = devices_choose(s, &spec, &notes, err);
        uint64_t waited_ms = clock_now_ms() - begin_ms;
        bool is_left = rc == ERR_UNAVAILABLE && some_are_left(&s->devices, waited_ms);
        uint64_t wait_ms = MAX(s->request->wait_ms, (uint64_t)(is_left ? LEFT_WAIT_MS : 0));
        if (!said || rc == 0) /* not at each look in between */
            lines_log(s, &notes);
        if (rc != ERR_UNAVAILABLE || waited_ms >= wait_ms)
            return rc;
        if (!said)
            log_add(s->log, LOG_WARN, "device", "waiting: %s", err->text);
        said = true;
        uint64_t pause_ms = is_left ? LEFT_LOOK_MS : WAIT_LOOK_MS;
        nanosleep(&(struct timespec){.tv_sec = (time_t)(pause_ms / 1000),
                                     .tv_nsec = (long)(pause_ms % 1000) * 1000000},
                  NULL);
        rc = 0;
    }
    return rc;
}

/* What a run with one worker needs, and some to spare. */
enum {
    FILES_LEAST = 64
};

int session_files_check(struct err *err)
{
    uint64_t allowed = open_files_allow(FILES_LEAST);
    if (allowed >= FILES_LEAST)
        return 0;
    return fail(err, ERR_UNAVAILABLE,
                "only %lu files may be open at a time, and a run needs %d; raise the limit (ulimit "
                "-n %d, in a shell whose ulimit -Hn allows that)",
                allowed, FILES_LEAST, FILES_LEAST);
}

/*
 * Each worker costs a dozen descriptors here. The usual limit of 1024 is raised as far as they need it
 * and not to what may be had, because some programs close each descriptor that they might have.
 */
static void files_allow(struct session *s)
{
    enum {
        FILES_OF_A_WORKER = 12,
        FILES_OF_OURS = 128
    };
    uint64_t wanted = FILES_OF_OURS + FILES_OF_A_WORKER * (uint64_t)s->n_places;
    uint64_t allowed = open_files_allow(wanted);
    if (allowed < wanted)
        log_add(
            s->log, LOG_WARN, "map",
            "%u workers need about %lu open files, and %lu are allowed; some may not be started "
            "(ulimit -Hn)",
            s->n_places, wanted, allowed);
}

static uint32_t chosen_position(const struct session *s, size_t device)
{
    uint32_t d = 0;
    while (s->chosen[d] != device)
        d++;
    return d;
}

static int seats_take(struct session *s, struct err *err)
{
    struct seat_opts opts = {.devices_per_worker = (uint32_t)s->request->gpus_per_worker,
                             .workers_per_device = (uint32_t)s->request->workers_per_gpu};
    struct seat *seats = NULL;
    size_t n_seats = 0;
    if (s->n_chosen == 0)
        return fail(err, ERR_USAGE,
                    "-g none leaves no place for a worker; cpu:N gives N CPU slots");
    int rc = seats_make(&s->devices, s->chosen, s->n_chosen, &opts, &seats, &n_seats, err);
    if (rc)
        return rc;
    s->n_places = (uint32_t)n_seats;
    s->places = xcalloc(n_seats, sizeof(*s->places));
    s->device_of = xcalloc(n_seats, sizeof(*s->device_of));
    s->first_of = xcalloc(s->n_chosen, sizeof(*s->first_of));
    for (size_t i = 0; i < n_seats; i++) {
        const struct seat *seat = &s->places[i].seat;
        s->places[i].seat = seats[i];
        s->device_of[i] = chosen_position(s, seat->devices[0]);
        for (size_t d = 0; d < seat->n_devices; d++)
            s->first_of[chosen_position(s, seat->devices[d])] = s->device_of[i];
    }
    free(seats);
    files_allow(s);
    watched_begin(s);
    return 0;
}

int places_take(struct session *s, struct err *err)
{
    int rc = devices_take(s, err);
    return rc ? rc : seats_take(s, err);
}
