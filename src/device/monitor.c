/* SPDX-License-Identifier: Apache-2.0
 *
 * Watches devices while a run lasts. One epoll descriptor holds the helper's pipe and a timer. The
 * timer notices a helper that has gone silent. Simulated devices have only the timer.
 */
#include <errno.h>
#include <limits.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/idlist.h"
#include "base/xalloc.h"
#include "device/helper.h"
#include "device/probe_gpu.h"
#include "device/simulated.h"
#include "device/wire.h"

enum {
    UNREAPED_MAX = 16,
    /*
     * Lost devices are queried again after this many deadlines (a minute), and later at doubled
     * intervals.
     */
    REASK_DEADLINES = 12,
    REASKS_MAX = 8, /* each may leave a process that hangs in the driver */
};

struct monitor {
    struct device_list devices; /* copies: uuids, kinds and scripts are used */
    char *self_path;
    uint64_t period_ms, deadline_ms;
    uint64_t begin_ms;
    uint64_t look_ms;    /* the timer's period */
    uint64_t looked_ms;  /* when monitor_read was last called */
    uint64_t heard_ms;   /* when the helper last sent bytes; see forgive() */
    uint64_t started_ms; /* when the helper was last started */
    bool is_round_begun; /* simulated: samples of this tick are still to be returned */
    size_t next;         /* simulated: the next device to sample */
    uint64_t tick_ms;    /* simulated: the time of this round's samples */
    int epoll_fd, timer_fd;
    struct helper helper;
    bool *is_gone, *is_told; /* per device: it is lost; the caller has been told */
    int crashed_number;      /* the device queried when the helper last died by itself; -1: none */
    uint64_t reask_ms;       /* when lost devices are queried again; UINT64_MAX: never */
    uint32_t n_reasks;
    pid_t unreaped[UNREAPED_MAX];
    size_t n_unreaped;
};

static bool is_simulated(const struct monitor *monitor)
{
    return monitor->devices.at[0].kind == DEVICE_SIM;
}

static int epoll_add(int epoll_fd, int fd, struct err *err)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        return fail_errno(err, "watch a descriptor");
    return 0;
}

static bool timer_set(struct monitor *monitor, bool is_due)
{
    uint64_t every_ms = monitor->look_ms;
    struct timespec every = {.tv_sec = (time_t)(every_ms / 1000),
                             .tv_nsec = (long)(every_ms % 1000) * 1000000};
    struct itimerspec when = {.it_interval = every,
                              .it_value = is_due ? (struct timespec){.tv_nsec = 1} : every};
    return timerfd_settime(monitor->timer_fd, 0, &when, NULL) == 0;
}

static int timer_start(struct monitor *monitor, struct err *err)
{
    monitor->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    /* the first simulated round is due at once */
    if (monitor->timer_fd < 0 || !timer_set(monitor, is_simulated(monitor)))
        return fail_errno(err, "make a timer");
    return epoll_add(monitor->epoll_fd, monitor->timer_fd, err);
}

static char *gone_arg(const struct monitor *monitor)
{
    struct buf text = BUF_INIT;
    buf_add_text(&text, "gone=");
    for (size_t i = 0; i < monitor->devices.len; i++)
        if (monitor->is_gone[i])
            buf_addf(&text, text.at[text.len - 1] == '=' ? "%zu" : ",%zu", i);
    if (text.at[text.len - 1] != '=')
        return buf_steal(&text);
    buf_release(&text);
    return NULL;
}

static int start_helper(struct monitor *monitor, struct err *err)
{
    char period[24], watch[] = "watch";
    cleanup_free char *gone = gone_arg(monitor);
    cleanup_free char **args = xcalloc(monitor->devices.len + 4, sizeof(char *));
    size_t n_args = 0;
    snprintf(period, sizeof(period), "%lu", (unsigned long)monitor->period_ms);
    args[n_args++] = watch;
    args[n_args++] = period;
    if (gone)
        args[n_args++] = gone;
    for (size_t i = 0; i < monitor->devices.len; i++) {
        const struct device *device = &monitor->devices.at[i];
        args[n_args + i] = xasprintf("%s:%s", device_kind_name(device->kind), device->uuid);
    }
    monitor->started_ms = monitor->heard_ms = clock_now_ms();
    int rc = helper_start(&monitor->helper, monitor->self_path, args, err);
    for (size_t i = 0; i < monitor->devices.len; i++)
        free(args[n_args + i]);
    if (rc == 0)
        rc = epoll_add(monitor->epoll_fd, monitor->helper.out_fd, err);
    return rc;
}

int monitor_open(struct monitor **out, const struct probe_opts *opts,
                 const struct device_list *devices, uint64_t period_ms, struct err *err)
{
    struct monitor *monitor = xcalloc(1, sizeof(*monitor));
    *out = monitor;
    monitor->epoll_fd = monitor->timer_fd = monitor->crashed_number = -1;
    monitor->reask_ms = UINT64_MAX;
    monitor->helper = (struct helper)HELPER_INIT;
    if (devices->len == 0 || devices->at[0].kind == DEVICE_CPU)
        return 0;
    monitor->devices =
        (struct device_list){xcalloc(devices->len, sizeof(struct device)), devices->len};
    memcpy(monitor->devices.at, devices->at, devices->len * sizeof(struct device));
    monitor->is_gone = xcalloc(devices->len, sizeof(bool));
    monitor->is_told = xcalloc(devices->len, sizeof(bool));
    monitor->self_path = opts->self_path ? xstrdup(opts->self_path) : NULL;
    monitor->period_ms = MIN(MAX(period_ms, (uint64_t)1), (uint64_t)INT_MAX);
    monitor->deadline_ms = opts->deadline_ms ? opts->deadline_ms : PROBE_DEADLINE_MS;
    monitor->begin_ms = clock_now_ms();
    monitor->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int rc = monitor->epoll_fd < 0 ? fail_errno(err, "epoll") : 0;
    monitor->looked_ms = monitor->begin_ms;
    monitor->look_ms = is_simulated(monitor) ? monitor->period_ms : monitor->deadline_ms / 4 + 1;
    if (rc == 0)
        rc = timer_start(monitor, err);
    if (rc == 0 && !is_simulated(monitor))
        rc = start_helper(monitor, err);
    if (rc) {
        monitor_close(monitor);
        *out = NULL;
        return wrap(err, rc, "watch the devices");
    }
    return 0;
}

int monitor_fd(const struct monitor *monitor)
{
    return monitor->epoll_fd;
}

pid_t monitor_pid(const struct monitor *monitor)
{
    return monitor->helper.pid > 0 ? monitor->helper.pid : -1;
}

static size_t read_simulated(struct monitor *monitor, struct device_sample *out, size_t cap)
{
    uint64_t ticks;
    size_t n_out = 0;
    if (!monitor->is_round_begun) {
        if (read(monitor->timer_fd, &ticks, sizeof(ticks)) != sizeof(ticks))
            return 0;
        monitor->is_round_begun = true;
        monitor->next = 0;
        monitor->tick_ms = clock_now_ms() - monitor->begin_ms;
    }
    for (; monitor->next < monitor->devices.len && n_out < cap; monitor->next++) {
        if (!sim_sample(&monitor->devices.at[monitor->next], monitor->tick_ms, &out[n_out]))
            continue;
        out[n_out++].device = monitor->next;
    }
    monitor->is_round_begun = monitor->next < monitor->devices.len;
    return n_out;
}

/* Reaps helpers that were killed but not waited for. All of them together get wait_ms. */
static void reap(struct monitor *monitor, uint64_t wait_ms)
{
    uint64_t end_ms = clock_now_ms() + wait_ms;
    size_t n_left = 0;
    for (size_t i = 0; i < monitor->n_unreaped; i++) {
        uint64_t now_ms = clock_now_ms();
        if (!helper_reap(monitor->unreaped[i], end_ms - MIN(now_ms, end_ms)))
            monitor->unreaped[n_left++] = monitor->unreaped[i];
    }
    monitor->n_unreaped = n_left;
}

static void stop_helper(struct monitor *monitor, uint64_t wait_ms)
{
    pid_t left = helper_stop(&monitor->helper, wait_ms);
    if (left > 0 && monitor->n_unreaped < UNREAPED_MAX)
        monitor->unreaped[monitor->n_unreaped++] = left;
}

/* Notes that the device is lost: the helper does not query it again. */
static void gone_note(struct monitor *monitor, size_t position)
{
    uint64_t wait_ms = REASK_DEADLINES * monitor->deadline_ms;
    monitor->is_gone[position] = true;
    if (monitor->reask_ms == UINT64_MAX && monitor->n_reasks < REASKS_MAX)
        monitor->reask_ms = clock_now_ms() + (wait_ms << monitor->n_reasks);
}

/*
 * A new helper opens the driver anew, so a device that was reset, or a driver that hung, may
 * answer.
 */
static bool reask_lost(struct monitor *monitor, uint64_t now_ms)
{
    if (now_ms < monitor->reask_ms)
        return false;
    monitor->reask_ms = UINT64_MAX;
    monitor->n_reasks++;
    for (size_t i = 0; i < monitor->devices.len; i++)
        monitor->is_gone[i] = monitor->is_told[i] = false;
    return true;
}

/*
 * Takes the device that a helper was querying when it went silent for lost. A helper that died may
 * have been killed by any process, so its device is lost only if two helpers in a row die while
 * they query it.
 */
static void bench_asked(struct monitor *monitor)
{
    const struct helper *helper = &monitor->helper;
    if (helper->query_number < 0 || (size_t)helper->query_number >= monitor->devices.len)
        return;
    if (helper->is_eof && monitor->crashed_number != helper->query_number) {
        monitor->crashed_number = helper->query_number;
        return;
    }
    size_t position = (size_t)helper->query_number;
    gone_note(monitor, position);
    snprintf(monitor->devices.at[position].ill, sizeof(monitor->devices.at[position].ill),
             helper->is_eof ? "%s crashed" : "%s does not answer", helper->query);
}

/* The silence of the helper proves nothing if muster itself, or the whole machine, was stopped. */
static void forgive(struct monitor *monitor, uint64_t now_ms)
{
    uint64_t unseen_ms = now_ms - monitor->looked_ms;
    if (unseen_ms > 2 * monitor->look_ms)
        monitor->heard_ms = MIN(monitor->heard_ms + unseen_ms - monitor->look_ms, now_ms);
    monitor->looked_ms = now_ms;
}

static bool is_any_left(const struct monitor *monitor)
{
    for (size_t i = 0; i < monitor->devices.len; i++)
        if (!monitor->is_gone[i])
            return true;
    return false;
}

/*
 * Starts the helper again if it was silent beyond its deadline or has ended, at most once a
 * deadline and only while a device is left to ask. Between two rounds the helper may be silent for
 * a period.
 */
static void revive(struct monitor *monitor, uint64_t now_ms)
{
    uint64_t silence_ms = now_ms - monitor->heard_ms;
    uint64_t patience_ms =
        helper_patience_ms(&monitor->helper, monitor->deadline_ms) + monitor->period_ms;
    bool is_running = monitor->helper.pid > 0 && !monitor->helper.is_eof;
    bool is_well = is_running && silence_ms <= patience_ms;
    bool asks_lost = reask_lost(monitor, now_ms);
    if (is_well && !asks_lost)
        return;
    if (monitor->helper.pid > 0) {
        if (!is_well)
            bench_asked(monitor);
        stop_helper(monitor, 0);
    }
    if (is_any_left(monitor) && now_ms - monitor->started_ms >= monitor->deadline_ms) {
        struct err unwanted = {0};
        if (start_helper(monitor, &unwanted) != 0)
            stop_helper(monitor, 0);
    }
}

static size_t tell_gone(struct monitor *monitor, struct device_sample *out, size_t cap)
{
    size_t n_out = 0;
    for (size_t i = 0; i < monitor->devices.len && n_out < cap; i++) {
        if (!monitor->is_gone[i] || monitor->is_told[i])
            continue;
        monitor->is_told[i] = true;
        out[n_out] = (struct device_sample){
            .device = i, .busy_percent = -1, .temperature_c = -1, .power_w = -1, .is_lost = true};
        memcpy(out[n_out].ill, monitor->devices.at[i].ill, sizeof(out[n_out].ill));
        n_out++;
    }
    return n_out;
}

size_t monitor_read(struct monitor *monitor, struct device_sample *out, size_t cap)
{
    uint64_t ticks, now_ms = clock_now_ms();
    struct str line;
    if (monitor->epoll_fd < 0)
        return 0;
    if (is_simulated(monitor))
        return read_simulated(monitor, out, cap);
    (void)!read(monitor->timer_fd, &ticks, sizeof(ticks));
    reap(monitor, 0);
    forgive(monitor, now_ms);
    if (helper_read(&monitor->helper))
        monitor->heard_ms = now_ms;
    size_t n_out = tell_gone(monitor, out, cap);
    while (n_out < cap && helper_line(&monitor->helper, &line)) {
        if (line.at[0] == '.')
            monitor->helper.query_number = -1; /* the round is over: no device is being queried */
        struct device_sample sample = {.busy_percent = -1, .temperature_c = -1, .power_w = -1};
        if (line.at[0] != '{' || !sample_parse_json(line, &sample) ||
            sample.device >= monitor->devices.len)
            continue;
        /* a helper reports a lost device once and never asks it again; the helper that follows
         * reask_lost() does */
        if (sample.is_lost) {
            gone_note(monitor, sample.device);
            monitor->is_told[sample.device] = true;
        }
        out[n_out++] = sample;
    }
    if (n_out < cap) /* otherwise lines of the helper are still unread */
        revive(monitor, now_ms);
    return n_out + tell_gone(monitor, out + n_out, cap - n_out);
}

void monitor_hurry(struct monitor *monitor)
{
    if (monitor->epoll_fd >= 0 && is_simulated(monitor))
        (void)timer_set(monitor, true);
    else if (monitor->helper.pid > 0)
        kill(monitor->helper.pid, HELPER_HURRY);
}

void monitor_close(struct monitor *monitor)
{
    enum {
        WAIT_MS = 1000
    };
    if (!monitor)
        return;
    stop_helper(monitor, 0);
    reap(monitor, WAIT_MS);
    fd_close(&monitor->epoll_fd);
    fd_close(&monitor->timer_fd);
    device_list_release(&monitor->devices);
    free(monitor->self_path);
    free(monitor->is_gone);
    free(monitor->is_told);
    free(monitor);
}
