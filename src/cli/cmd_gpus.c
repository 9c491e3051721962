/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <pwd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/console_text.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "device/lock.h"
#include "device/probe.h"
#include "device/wire.h"
#include "opt/cmd.h"

struct gpus_request {
    const char *gpus;
    bool json, watch, all;
};

static const struct opt gpus_opts[] = {
    {OPT_TEXT, 'g', "gpus", "SPEC",
     "only these devices (0,2,5-7, any:N, free, a UUID, cpu:N, sim:…)",
     offsetof(struct gpus_request, gpus)},
    {OPT_FLAG, 'a', "all", NULL,
     "the whole machine, whatever CUDA_VISIBLE_DEVICES and its like say",
     offsetof(struct gpus_request, all)},
    {OPT_FLAG, 'w', "watch", NULL,
     "print the list again every PERIOD (default 2s), until interrupted",
     offsetof(struct gpus_request, watch)},
    {OPT_FLAG, 0, "json", NULL,
     "print one JSON object per device and line, with everything that is known",
     offsetof(struct gpus_request, json)},
    {OPT_END},
};

static const char *const gpus_examples[] = {
    "muster gpus",
    "the devices that a run could use",
    "muster gpus --watch 5s -g 0-3",
    "the first four, every five seconds",
    "muster gpus --json | jq -r 'select(.ill != \"\") | .uuid'",
    "the devices that are not fit",
    NULL,
};

/* ---- a table of short texts: the widths come from what is in it ---- */

enum {
    COLUMNS = 10,
    CELL_MAX = 160
};

struct table {
    char (*cells)[COLUMNS][CELL_MAX];
    size_t n_rows;
};

static char *cell(struct table *table, size_t column)
{
    return table->cells[table->n_rows][column];
}

/* The number of characters, not bytes, of a UTF-8 text. */
static int width(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static void table_print(const struct table *table, const bool *is_number, struct buf *out)
{
    int widths[COLUMNS] = {0};
    for (size_t r = 0; r < table->n_rows; r++)
        for (size_t c = 0; c < COLUMNS; c++)
            widths[c] = MAX(widths[c], width(table->cells[r][c]));
    for (size_t r = 0; r < table->n_rows; r++) {
        for (size_t c = 0; c < COLUMNS; c++) {
            const char *text = table->cells[r][c];
            int pad = widths[c] - width(text);
            if (widths[c] == 0)
                continue;
            buf_addf(out, "%*s%s%*s", is_number[c] ? pad : 0, "", text, is_number[c] ? 2 : pad + 2,
                     "");
        }
        while (out->len > 0 && out->at[out->len - 1] == ' ')
            out->len--;
        buf_add_char(out, '\n');
    }
}

/* ---- one device as a row ---- */

/* "GPU-4f2a9c31": as much of a UUID as identifies a device; -g accepts it. */
static void short_uuid(const char *uuid, char out[CELL_MAX])
{
    bool is_long = strlen(uuid) > 24;
    snprintf(out, CELL_MAX, "%.*s", is_long ? 12 : CELL_MAX - 1, uuid);
}

static void number_cell(char *out, int value, const char *unit)
{
    if (value >= 0)
        snprintf(out, CELL_MAX, "%d%s", value, unit);
    else
        snprintf(out, CELL_MAX, "-");
}

static void memory_cell(const struct device *device, char *out)
{
    char used[16], total[16];
    if (device->mem_total_bytes == 0) {
        snprintf(out, CELL_MAX, "-");
        return;
    }
    size_format(used, device->mem_total_bytes - device->mem_free_bytes);
    size_format(total, device->mem_total_bytes);
    snprintf(out, CELL_MAX, "%s / %s", used, total);
}

static void health_cell(const struct device *device, char *out)
{
    if (device->is_lost)
        snprintf(out, CELL_MAX, "LOST%s%s", device->ill[0] ? ": " : "", device->ill);
    else if (device->ill[0])
        snprintf(out, CELL_MAX, "ILL: %s", device->ill);
    else if (device->ecc_uncorrected_count > 0)
        snprintf(out, CELL_MAX, "%ld uncorrected ECC errors", device->ecc_uncorrected_count);
    else
        snprintf(out, CELL_MAX, "ok");
}

/* "python 4711 alice 3.2 GiB, …" and the holder of the lock. */
static void users_text(const struct device *device, struct buf *out)
{
    struct buf holder = BUF_INIT;
    for (size_t i = 0; i < device->n_processes; i++) {
        const struct device_process *process = &device->processes[i];
        const struct passwd *user = getpwuid(process->uid);
        cleanup_free char *name = console_visible_new(process->name[0] ? process->name : "?");
        buf_addf(out, "%s%s %d", i ? ", " : "", name, (int)process->pid);
        buf_addf(out, user ? " %s" : "%s", user ? user->pw_name : "");
        char size[16];
        size_format(size, process->mem_bytes);
        buf_addf(out, process->mem_bytes ? " %s" : "%s", process->mem_bytes ? size : "");
    }
    if (device_is_locked(device, &holder)) {
        buf_add_text(out, out->len ? "; locked by " : "locked by ");
        console_visible_add(out, buf_str(&holder));
    }
    buf_release(&holder);
}

static void add_row(struct table *table, const struct device *device)
{
    char label[24];
    struct buf users = BUF_INIT;
    device_label(device, label);
    users_text(device, &users);
    snprintf(cell(table, 0), CELL_MAX, "%s", label);
    number_cell(cell(table, 1), device->physical, "");
    short_uuid(device->uuid, cell(table, 2));
    snprintf(cell(table, 3), CELL_MAX, "%s", device->name);
    memory_cell(device, cell(table, 4));
    number_cell(cell(table, 5), device->busy_percent, " %");
    number_cell(cell(table, 6), device->temperature_c, " °C");
    number_cell(cell(table, 7), (int)device->power_w, " W");
    health_cell(device, cell(table, 8));
    snprintf(cell(table, 9), CELL_MAX, "%s", buf_text(&users));
    table->n_rows++;
    buf_release(&users);
}

/* A CPU slot has no memory, load, heat or health of its own. */
static void add_slot(struct table *table, const struct device *device)
{
    char label[24];
    device_label(device, label);
    snprintf(cell(table, 0), CELL_MAX, "%s", label);
    snprintf(cell(table, 3), CELL_MAX, "%s", device->name);
    snprintf(cell(table, 2), CELL_MAX, "%d thread%s", CPU_COUNT(&device->cpus),
             CPU_COUNT(&device->cpus) == 1 ? "" : "s");
    table->n_rows++;
}

static void print_table(const struct device_list *list, const size_t *shown, size_t n_shown,
                        struct buf *out)
{
    static const char *const titles[COLUMNS] = {"DEVICE", "PCI#", "UUID",  "NAME",   "MEMORY",
                                                "LOAD",   "TEMP", "POWER", "HEALTH", "IN USE BY"};
    static const bool is_number[COLUMNS] = {
        [1] = true, [4] = true, [5] = true, [6] = true, [7] = true};
    struct table table = {xcalloc(n_shown + 1, sizeof(*table.cells)), 0};
    bool is_cpu = n_shown > 0 && list->at[shown[0]].kind == DEVICE_CPU;
    for (size_t c = 0; c < COLUMNS && !is_cpu; c++)
        snprintf(cell(&table, c), CELL_MAX, "%s", titles[c]);
    table.n_rows = is_cpu ? 0 : 1;
    for (size_t i = 0; i < n_shown; i++)
        (is_cpu ? add_slot : add_row)(&table, &list->at[shown[i]]);
    if (n_shown > 0)
        table_print(&table, is_number, out);
    free(table.cells);
}

/* Prints the device's object, with the time and the lock holder first. */
static void print_json(const struct device_list *list, const size_t *shown, size_t n_shown,
                       struct buf *out)
{
    char time[40];
    clock_rfc3339(time, clock_wall_ms());
    for (size_t i = 0; i < n_shown; i++) {
        const struct device *device = &list->at[shown[i]];
        struct buf object = BUF_INIT, holder = BUF_INIT;
        device_format_json(device, &object);
        buf_addf(out, "{\"time\":\"%s\",\"locked_by\":", time);
        if (device_is_locked(device, &holder))
            buf_add_json(out, buf_str(&holder));
        else
            buf_add_text(out, "null");
        buf_add_char(out, ',');
        console_visible_add(out, str_of(buf_text(&object) + 1));
        buf_add_char(out, '\n');
        buf_release(&object);
        buf_release(&holder);
    }
}

/* ---- the verb ---- */

/* Without -g all devices, also those that a run would not use: the user may be looking for these. */
static int choose(const struct gpus_request *request, const struct device_spec *spec,
                  const struct device_list *list, size_t *shown, size_t *n_shown, struct err *err)
{
    if (request->gpus && (spec->kind == SPEC_FREE || spec->kind == SPEC_ANY))
        return spec_select(spec, list, shown, DEVICES_MAX, n_shown, NULL, err);
    if (request->gpus) {
        /* devices that no run would use are shown as well */
        struct device_list copy = {xcalloc(list->len + 1, sizeof(*copy.at)), list->len};
        for (size_t i = 0; i < list->len; i++) {
            copy.at[i] = list->at[i];
            copy.at[i].is_lost = copy.at[i].is_integrated = false;
        }
        int rc = spec_select(spec, &copy, shown, DEVICES_MAX, n_shown, NULL, err);
        device_list_release(&copy);
        return rc;
    }
    for (*n_shown = 0; *n_shown < list->len; (*n_shown)++)
        shown[*n_shown] = *n_shown;
    return 0;
}

static int show(struct app *app, const struct gpus_request *request, const struct device_spec *spec,
                bool is_first, struct err *err)
{
    size_t shown[DEVICES_MAX], n_shown = 0;
    struct device_list list;
    cleanup_buf struct buf notes = BUF_INIT;
    cleanup_buf struct buf out = BUF_INIT;
    struct probe_opts opts = {.self_path = app->self_path,
                              .ignore_visibility = request->all,
                              .is_for_looking = true,
                              .wants_details = request->json};
    int rc = probe_universe(&opts, spec, &list, &notes, err);
    if (rc)
        return rc;
    if (is_first && notes.len > 0 && !app->quiet)
        fprintf(stderr, "%s", buf_text(&notes));
    rc = choose(request, spec, &list, shown, &n_shown, err);
    if (rc == 0 && request->watch && !request->json && isatty(STDOUT_FILENO))
        buf_add_text(&out, "\033[H\033[J");
    if (rc == 0)
        (request->json ? print_json : print_table)(&list, shown, n_shown, &out);
    if (rc == 0 && out.len > 0)
        rc = write_all(STDOUT_FILENO, out.at, out.len, err);
    device_list_release(&list);
    return rc;
}

/* Wait a period, or until nobody reads any more. */
static bool wait_period(uint64_t period_ms)
{
    struct pollfd reader = {.fd = STDOUT_FILENO};
    int n_ready = poll(&reader, 1, (int)MIN(period_ms, (uint64_t)3600000));
    return n_ready == 0;
}

static int gpus_run(struct app *app, void *request_, int argc, char **argv, char **command,
                    struct err *err)
{
    (void)command;
    const struct gpus_request *request = request_;
    cleanup_free struct device_spec *spec = xcalloc(1, sizeof(*spec));
    uint64_t period_ms = 2000;
    if (argc > (request->watch ? 1 : 0))
        return fail(err, ERR_USAGE, "unexpected '%s'", argv[request->watch ? 1 : 0]);
    int rc = spec_parse(request->gpus, spec, err);
    if (rc == 0 && argc > 0)
        rc = duration_parse(str_of(argv[0]), &period_ms, err);
    if (rc == 0 && period_ms < 100)
        rc = fail(err, ERR_USAGE, "period '%s' is too short (at least 100ms)", argv[0]);
    if (rc == 0)
        rc = show(app, request, spec, true, err);
    while (rc == 0 && request->watch && wait_period(period_ms))
        rc = show(app, request, spec, false, err);
    return rc;
}

const struct cmd cmd_gpus = {
    .name = "gpus",
    .args = "[OPTION]... [PERIOD]",
    .summary = "list the devices: identity, memory, load, health, and the processes on them",
    .details =
        "Lists the devices that a run could use: the GPUs of this machine, or those that a list "
        "such as CUDA_VISIBLE_DEVICES leaves visible, or, on a machine without a GPU, the CPU slots. The "
        "number after the name is what -g takes; PCI# is the device's number on the machine.",
    .opts = gpus_opts,
    .examples = gpus_examples,
    .request_size = sizeof(struct gpus_request),
    .run = gpus_run,
};
