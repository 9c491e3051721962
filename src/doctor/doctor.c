/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/doctor.h"

#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/suggest.h"
#include "base/xalloc.h"
#include "device/probe.h"
#include "device/sysfs.h"
#include "device/vendor.h"
#include "doctor/checks.h"
#include "doctor/task.h"

enum {
    /* A driver may take six answers' time to come up (HELPER_START_DEADLINES); with a sixth of the
     * deadline for one answer, that fits into the deadline. */
    ANSWERS_OF_A_DEADLINE = 6
};

static const struct check {
    const char *name, *purpose;
    void (*judge)(const struct facts *facts, struct findings *out);
} checks[] = {
#define X(name, purpose) {#name, purpose, name##_judge},
    DOCTOR_CHECKS(X)
#undef X
};

size_t checks_count(void)
{
    return countof(checks);
}

const char *check_name(size_t check)
{
    return checks[check].name;
}

const char *check_purpose(size_t check)
{
    return checks[check].purpose;
}

int check_find(const char *name, size_t *out, struct err *err)
{
    const char *names[countof(checks)];
    for (size_t i = 0; i < countof(checks); i++) {
        names[i] = checks[i].name;
        *out = i;
        if (strcmp(names[i], name) == 0)
            return 0;
    }
    const char *near = suggest(name, names, countof(checks));
    if (near)
        return fail(err, ERR_USAGE, "no check '%s' (did you mean '%s'?)", name, near);
    return fail(err, ERR_USAGE, "no check '%s'; see muster doctor --list", name);
}

void doctor_judge(const struct facts *facts, const bool *chosen, struct findings *out)
{
    for (size_t i = 0; i < countof(checks); i++) {
        out->check = checks[i].name;
        if (!chosen || chosen[i])
            checks[i].judge(facts, out);
    }
}

/* ---- gathering ---- */

static void folder_task(const void *path, void *facts)
{
    folder_gather(path, facts);
}

static void holders_task(const void *self, void *facts)
{
    holders_gather("", *(const pid_t *)self, facts);
}

static void slurm_task(const void *path_list, void *facts)
{
    slurm_gather(path_list, facts);
}

static void python_task(const void *program, void *facts)
{
    python_gather(program, facts);
}

/*
 * The devices that the spec names. Lost devices are allowed. spec_select() gets no processes,
 * because it would ask for users' names, which may come from a server; the check of processes
 * reports them.
 */
static int devices_named(const struct device_spec *spec, const struct device_list *universe,
                         struct device_list *out, struct err *err)
{
    cleanup_free size_t *chosen = xcalloc(DEVICES_MAX, sizeof(*chosen));
    struct device_list plain = device_list_copy(universe);
    size_t n_chosen = 0;
    for (size_t i = 0; i < plain.len; i++) {
        plain.at[i].is_lost = false;
        plain.at[i].n_processes = 0;
    }
    int rc = spec_select(spec, &plain, chosen, DEVICES_MAX, &n_chosen, NULL, err);
    if (rc == 0)
        *out = device_list_pick(universe, chosen, n_chosen);
    device_list_release(&plain);
    return rc;
}

/* Lists every device of the machine, and keeps what the drivers reported. */
static void machine_gather(const struct doctor_opts *opts, uint64_t until_ms, struct facts *out)
{
    static const char prefix[] = "devices: "; /* added by the probe; not wanted in a finding */
    struct driver_facts *driver = &out->driver;
    struct probe_opts probe = {.self_path = opts->self_path,
                               .deadline_ms = MAX(opts->deadline_ms / ANSWERS_OF_A_DEADLINE, 1ul),
                               .until_ms = until_ms,
                               .ignore_visibility = true,
                               .wants_details = true,
                               .wants_reasons = true};
    cleanup_buf struct buf notes = BUF_INIT;
    struct err why = {0};
    uint64_t begin_ms = clock_now_ms();
    driver->is_asked = opts->spec->kind != SPEC_CPU && opts->spec->kind != SPEC_SIM &&
                       opts->spec->kind != SPEC_NONE;
    driver->is_there = nvml_is_there();
    driver->is_amd_there = amd_is_there();
    if (probe_universe(&probe, opts->spec, &out->machine, &notes, &why) != 0)
        snprintf(driver->said, sizeof(driver->said), "%s",
                 why.text + (strncmp(why.text, prefix, strlen(prefix)) == 0 ? strlen(prefix) : 0));
    driver->took_ms = clock_now_ms() - begin_ms;
    snprintf(driver->notes, sizeof(driver->notes), "%s", buf_text(&notes));
}

/* If a driver failed, the ids of a list may mean other devices: then all devices are examined. */
static int devices_gather(const struct doctor_opts *opts, uint64_t until_ms, struct facts *out,
                          struct err *err)
{
    cleanup_buf struct buf notes = BUF_INIT; /* unused: the check `visible` reports more */
    machine_gather(opts, until_ms, out);
    probe_visible(&out->machine, &out->visible, &notes);
    if (opts->spec->kind == SPEC_LIST && !out->driver.said[0])
        return devices_named(opts->spec, &out->visible, &out->devices, err);
    out->devices = device_list_copy(&out->machine);
    return 0;
}

int doctor_gather(const struct doctor_opts *opts, struct facts *out, struct err *err)
{
    const char *path = getenv("PATH"), *path_list = path ? path : "";
    const pid_t self = getpid();
    struct task folder, holders, slurm, python;
    uint64_t until_ms = clock_now_ms() + opts->deadline_ms;
    char machine_root[SYSFS_PATH_MAX];
    sysfs_beside(machine_root, "");
    *out = (struct facts){.deadline_ms = opts->deadline_ms};
    snprintf(out->folder.path, sizeof(out->folder.path), "%s", opts->runs_dir);
    task_begin(&folder, folder_task, opts->runs_dir, &out->folder, sizeof(out->folder));
    task_begin(&holders, holders_task, &self, &out->holders, sizeof(out->holders));
    task_begin(&slurm, slurm_task, path_list, &out->slurm, sizeof(out->slurm));
    if (opts->python)
        task_begin(&python, python_task, opts->python, &out->python, sizeof(out->python));
    int rc = devices_gather(opts, until_ms, out, err);
    env_gather(&out->env);
    driver_gather(machine_root, &out->driver);
    host_gather("", &out->host);
    cgroup_gather("/proc/self/cgroup", "/sys/fs/cgroup", &out->cgroup);
    out->has_holders = task_end(&holders, until_ms);
    out->has_slurm = task_end(&slurm, until_ms);
    out->has_folder = task_end(&folder, until_ms);
    out->has_python = opts->python && task_end(&python, until_ms);
    return rc;
}

void facts_release(struct facts *facts)
{
    device_list_release(&facts->machine);
    device_list_release(&facts->visible);
    device_list_release(&facts->devices);
}
