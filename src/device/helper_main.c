/* SPDX-License-Identifier: Apache-2.0
 *
 * muster-devices, the helper process; driver_probe.h describes its arguments and its output.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/idlist.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "device/driver_probe.h"
#include "device/helper.h"
#include "device/sysfs.h"
#include "device/wire.h"

/* The kinds of devices that the helper can query. */
static const struct {
    enum device_kind kind;
    const struct driver_probe_ops *ops;
} drivers[] = {
    {DEVICE_CUDA, &nvml_probe_ops},
    {DEVICE_ROCM, &amd_probe_ops},
};

struct number_set {
    uint32_t at[DEVICES_MAX];
    size_t len;
};

/* ---- speaking ---- */

void say_line(struct buf *line)
{
    buf_add_char(line, '\n');
    if (write_all(STDOUT_FILENO, line->at, line->len, NULL) != 0)
        _exit(1);
    buf_release(line);
}

void say_text(const char *text)
{
    struct buf line = BUF_INIT;
    buf_add_text(&line, text);
    say_line(&line);
}

void say_device(const struct device *device)
{
    struct buf line = BUF_INIT;
    device_format_json(device, &line);
    say_line(&line);
}

void announce(const struct driver_probe *probe, const char *query)
{
    struct buf line = BUF_INIT;
    buf_addf(&line, "?%s %d", query, probe->number);
    say_line(&line);
}

void say_gone(enum device_kind kind, unsigned physical, const char *why)
{
    cleanup_free struct device *device = xmalloc(sizeof(*device));
    device_reset(device, kind, (int)physical);
    snprintf(device->uuid, sizeof(device->uuid), "GPU-unknown-%u", physical);
    snprintf(device->name, sizeof(device->name), "unknown");
    snprintf(device->ill, sizeof(device->ill), "%s", why);
    device->is_lost = true;
    say_device(device);
}

/* ---- devices ---- */

void device_process_add(struct device *device, pid_t pid, uint64_t mem_bytes, bool is_ours)
{
    char path[64];
    struct stat st;
    if (device->n_processes == DEVICE_PROCESSES_MAX)
        return;
    struct device_process *process = &device->processes[device->n_processes++];
    *process = (struct device_process){.pid = pid, .uid = (uid_t)-1, .mem_bytes = mem_bytes};
    if (!is_ours)
        return;
    snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    if (stat(path, &st) == 0)
        process->uid = st.st_uid;
    cleanup_buf struct buf name = BUF_INIT;
    snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
    if (small_file(path, &name))
        snprintf(process->name, sizeof(process->name), "%.*s", (int)str_trim(buf_str(&name)).len,
                 str_trim(buf_str(&name)).at);
}

/* ---- the two modes ---- */

static bool has(const struct number_set *set, uint32_t number)
{
    for (size_t i = 0; i < set->len; i++)
        if (set->at[i] == number)
            return true;
    return false;
}

static bool take_set(const char *arg, const char *name, struct number_set *set)
{
    size_t len = strlen(name);
    return strncmp(arg, name, len) == 0 && idlist_parse(str_of(arg + len), DEVICES_MAX - 1, set->at,
                                                        countof(set->at), &set->len, NULL) == 0;
}

static bool driver_probe_open(struct driver_probe *probe)
{
    probe->number = -1;
    probe->is_open = probe->is_open || probe->ops->open(probe);
    return probe->is_open;
}

static void list_all(struct driver_probe *probe, enum device_kind kind,
                     const struct number_set *brief, const struct number_set *gone)
{
    unsigned count = MIN(probe->ops->count(probe), (unsigned)DEVICES_MAX);
    for (unsigned i = 0; i < count; i++) {
        probe->number = (int)i;
        if (has(gone, i))
            say_gone(kind, i, "it does not answer");
        else
            probe->ops->list(probe, i, has(brief, i));
    }
    for (unsigned a = 0; a < count; a++) {
        for (unsigned b = a + 1; b < count; b++) {
            probe->number = (int)b;
            if (!has(brief, a) && !has(gone, a) && !has(brief, b) && !has(gone, b))
                probe->ops->say_distance(probe, a, b);
        }
    }
    say_text(".");
}

struct watched {
    struct driver_probe *probe;
    const char *uuid;
    bool is_gone;
};

static void watch_one(struct watched *watched, size_t position)
{
    struct driver_probe *probe = watched->probe;
    cleanup_free struct device *device = xmalloc(sizeof(*device));
    device_reset(device, DEVICE_CPU, -1);
    probe->number = (int)position;
    bool is_there = probe->ops->sample(probe, watched->uuid, device) && !device->is_lost;
    struct device_sample sample = {
        .device = position,
        .mem_used_bytes = device->mem_total_bytes - device->mem_free_bytes,
        .mem_total_bytes = device->mem_total_bytes,
        .busy_percent = device->busy_percent,
        .temperature_c = device->temperature_c,
        .power_w = device->power_w,
        .is_lost = !is_there,
    };
    memcpy(sample.ill, device->ill, sizeof(sample.ill));
    device_uses_find(device, &sample);
    struct buf line = BUF_INIT;
    sample_format_json(&sample, &line);
    say_line(&line);
    /* this helper never asks a lost device again, because the query could hang */
    watched->is_gone = !is_there;
}

/* Parses an argument such as "cuda:GPU-…". */
static bool watched_parse(const char *arg, struct driver_probe *probes, struct watched *out)
{
    for (size_t v = 0; v < countof(drivers); v++) {
        const char *name = device_kind_name(drivers[v].kind);
        size_t len = strlen(name);
        if (strncmp(arg, name, len) != 0 || arg[len] != ':')
            continue;
        probes[v].ops = drivers[v].ops;
        *out = (struct watched){&probes[v], arg + len + 1, false};
        return true;
    }
    return false;
}

/* Tries to open a driver once per round, not once per device: a failure may take long. */
static bool is_opened(struct driver_probe *probe, uint64_t round)
{
    if (!probe->is_open && probe->round != round)
        driver_probe_open(probe);
    probe->round = round;
    return probe->is_open;
}

static void on_hurry(int number)
{
    (void)number; /* the signal only ends the pause between two rounds */
}

/*
 * From now on HELPER_HURRY is delivered only while the returned mask is set, and never to the
 * driver's threads.
 */
static sigset_t hurry_hear(void)
{
    sigset_t hurry, pausing;
    sigemptyset(&hurry);
    sigaddset(&hurry, HELPER_HURRY);
    sigprocmask(SIG_BLOCK, &hurry, &pausing);
    sigdelset(&pausing, HELPER_HURRY);
    sigaction(HELPER_HURRY, &(struct sigaction){.sa_handler = on_hurry}, NULL);
    return pausing;
}

/*
 * A driver that could not be opened is tried again in every round; the devices of other drivers do
 * not wait for it.
 */
static int watch_all(uint64_t period_ms, struct watched *watched, size_t n_watched)
{
    const sigset_t pausing = hurry_hear();
    const struct timespec period = {.tv_sec = (time_t)(period_ms / 1000),
                                    .tv_nsec = (long)(period_ms % 1000) * 1000000};
    struct pollfd parent = {.fd = STDIN_FILENO};
    for (uint64_t round = 1;; round++) {
        bool any = false;
        for (size_t i = 0; i < n_watched; i++) {
            if (!watched[i].is_gone && is_opened(watched[i].probe, round))
                watch_one(&watched[i], i);
            any |= watched[i].probe->is_open;
        }
        if (!any && n_watched > 0)
            return 1;
        say_text(".");
        int n_ready = ppoll(&parent, 1, &period, &pausing);
        if (n_ready > 0 || (n_ready < 0 && errno != EINTR))
            return 0;
    }
}

/*
 * Ends this process when its parent ends, even in the middle of a query that never returns: when
 * the last writer of standard input is gone, the kernel sends SIGIO, whose default action is to
 * terminate. The parent-death signal would be wrong: it is sent as soon as the thread that started
 * this process ends.
 */
static void end_with_parent(void)
{
    int flags = fcntl(STDIN_FILENO, F_GETFL);
    fcntl(STDIN_FILENO, F_SETOWN, getpid());
    if (flags >= 0)
        fcntl(STDIN_FILENO, F_SETFL, flags | O_ASYNC);
    struct pollfd parent = {.fd = STDIN_FILENO};
    if (poll(&parent, 1, 0) > 0)
        _exit(0);
}

static int refuse(void)
{
    fprintf(stderr, "muster-devices: muster runs this itself (list, watch)\n");
    return 2;
}

static int list_main(int argc, char **argv)
{
    cleanup_free struct number_set *brief = xcalloc(1, sizeof(*brief));
    cleanup_free struct number_set *gone = xcalloc(1, sizeof(*gone));
    struct driver_probe probe = {0};
    enum device_kind kind = DEVICE_CPU;
    for (size_t v = 0; v < countof(drivers) && argc > 0; v++) {
        if (strcmp(argv[0], device_kind_name(drivers[v].kind)) == 0) {
            probe.ops = drivers[v].ops;
            kind = drivers[v].kind;
        }
    }
    if (!probe.ops)
        return refuse();
    for (int i = 1; i < argc; i++) {
        bool is_detail = strcmp(argv[i], "detail") == 0;
        probe.wants_details |= is_detail;
        if (!is_detail && !take_set(argv[i], "brief=", brief) && !take_set(argv[i], "gone=", gone))
            return refuse();
    }
    end_with_parent();
    bool is_open = driver_probe_open(&probe);
    if (is_open)
        list_all(&probe, kind, brief, gone);
    probe.ops->close(&probe);
    return is_open ? 0 : 1;
}

static int watch_main(int argc, char **argv)
{
    uint64_t period_ms = 0;
    size_t n_watched = 0;
    cleanup_free struct number_set *gone = xcalloc(1, sizeof(*gone));
    struct driver_probe probes[countof(drivers)] = {0};
    cleanup_free struct watched *watched = xcalloc((size_t)argc + 1, sizeof(*watched));
    if (argc < 1 || u64_parse(str_of(argv[0]), 1, INT_MAX, &period_ms, NULL) != 0)
        return refuse();
    for (int i = 1; i < argc; i++) {
        if (i == 1 && take_set(argv[i], "gone=", gone))
            continue;
        if (!watched_parse(argv[i], probes, &watched[n_watched]))
            return refuse();
        watched[n_watched].is_gone = has(gone, (uint32_t)n_watched);
        n_watched++;
    }
    end_with_parent();
    int status = watch_all(period_ms, watched, n_watched);
    for (size_t v = 0; v < countof(drivers); v++)
        drivers[v].ops->close(&probes[v]);
    return status;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "list") == 0)
        return list_main(argc - 2, argv + 2);
    if (argc > 1 && strcmp(argv[1], "watch") == 0)
        return watch_main(argc - 2, argv + 2);
    return refuse();
}
