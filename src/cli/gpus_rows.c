/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/gpus_rows.h"

#include <pwd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/console_text.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "device/lock.h"
#include "device/wire.h"

/* ---- a table of short texts: the widths come from what is in it ---- */

enum column {
    HOST,
    DEVICE,
    PCI,
    UUID,
    NAME,
    MEMORY,
    LOAD,
    TEMP,
    POWER,
    HEALTH,
    USERS,
    COLUMNS
};

enum {
    CELL_MAX = 160,
    LOCKED_BY_MAX = 512
};

struct table {
    char (*cells)[COLUMNS][CELL_MAX];
    size_t n_rows;
};

static char *cell(struct table *table, enum column column)
{
    return table->cells[table->n_rows][column];
}

/* Adds a text that may come from another user or another host. */
static void text_cell(struct table *table, enum column column, const char *text)
{
    cleanup_free char *visible = console_visible_new(text);
    size_t len = console_text_cut(str_of(visible), CELL_MAX - 1);
    snprintf(cell(table, column), CELL_MAX, "%.*s", (int)len, visible);
}

static int width(const char *text)
{
    return (int)console_text_width(str_of(text));
}

static void table_print(const struct table *table, struct buf *out)
{
    static const bool is_number[COLUMNS] = {
        [PCI] = true, [MEMORY] = true, [LOAD] = true, [TEMP] = true, [POWER] = true};
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

/* "GPU-4f2a9c31": the part of a UUID that identifies a device; -g accepts it. */
static void uuid_cell(struct table *table, const char *uuid)
{
    cleanup_free char *beginning = xstrndup(uuid, strlen(uuid) > 24 ? 12 : CELL_MAX - 1);
    text_cell(table, UUID, beginning);
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
    size_format(used,
                device->mem_total_bytes - MIN(device->mem_free_bytes, device->mem_total_bytes));
    size_format(total, device->mem_total_bytes);
    snprintf(out, CELL_MAX, "%s / %s", used, total);
}

static void health_cell(struct table *table, const struct device *device)
{
    cleanup_buf struct buf text = BUF_INIT;
    if (device->is_lost)
        buf_addf(&text, "LOST%s%s", device->ill[0] ? ": " : "", device->ill);
    else if (device->ill[0])
        buf_addf(&text, "ILL: %s", device->ill);
    else if (device->ecc_uncorrected_count > 0)
        buf_addf(&text, "%ld uncorrected ECC errors", device->ecc_uncorrected_count);
    else
        buf_add_text(&text, "ok");
    text_cell(table, HEALTH, buf_text(&text));
}

static void gpu_cells(struct table *table, const struct device *device)
{
    number_cell(cell(table, PCI), device->physical, "");
    uuid_cell(table, device->uuid);
    memory_cell(device, cell(table, MEMORY));
    number_cell(cell(table, LOAD), device->busy_percent, " %");
    number_cell(cell(table, TEMP), device->temperature_c, " °C");
    number_cell(cell(table, POWER), (int)MIN(MAX(device->power_w, -1.0), 1e6), " W");
    health_cell(table, device);
}

/* A CPU slot has no memory, load, heat or health of its own. */
static void slot_cells(struct table *table, const struct device *device)
{
    int n_threads = CPU_COUNT(&device->cpus);
    snprintf(cell(table, UUID), CELL_MAX, "%d thread%s", n_threads, n_threads == 1 ? "" : "s");
}

static void row_add(struct table *table, const struct gpus_row *row)
{
    char label[24];
    device_label(&row->device, label);
    text_cell(table, HOST, row->host ? row->host : "");
    text_cell(table, DEVICE, label);
    text_cell(table, NAME, row->device.name);
    text_cell(table, USERS, row->in_use_by);
    (row->device.kind == DEVICE_CPU ? slot_cells : gpu_cells)(table, &row->device);
    table->n_rows++;
}

/* A list of CPU slots needs no titles. */
static void titles_add(struct table *table, const struct gpus_rows *rows)
{
    static const char *const titles[COLUMNS] = {"HOST",  "DEVICE", "PCI#",     "UUID",
                                                "NAME",  "MEMORY", "LOAD",     "TEMP",
                                                "POWER", "HEALTH", "IN USE BY"};
    bool has_hosts = rows->at[0].host != NULL;
    if (rows->at[0].device.kind == DEVICE_CPU && !has_hosts)
        return;
    for (size_t c = has_hosts ? HOST : DEVICE; c < COLUMNS; c++)
        snprintf(cell(table, (enum column)c), CELL_MAX, "%s", titles[c]);
    table->n_rows++;
}

void gpus_rows_table(const struct gpus_rows *rows, struct buf *out)
{
    if (rows->len == 0)
        return;
    struct table table = {xcalloc(rows->len + 1, sizeof(*table.cells)), 0};
    titles_add(&table, rows);
    for (size_t i = 0; i < rows->len; i++)
        row_add(&table, &rows->at[i]);
    table_print(&table, out);
    free(table.cells);
}

/* ---- objects ---- */

static void object_add(const struct gpus_row *row, struct buf *out)
{
    cleanup_buf struct buf object = BUF_INIT, text = BUF_INIT;
    buf_add_text(&text, "{\"time\":");
    buf_add_json(&text, str_of(row->time));
    if (row->host) {
        buf_add_text(&text, ",\"host\":");
        buf_add_json(&text, str_of(row->host));
    }
    buf_add_text(&text, ",\"locked_by\":");
    if (row->locked_by)
        buf_add_json(&text, str_of(row->locked_by));
    else
        buf_add_text(&text, "null");
    buf_add_text(&text, ",\"in_use_by\":");
    buf_add_json(&text, str_of(row->in_use_by));
    device_format_json(&row->device, &object);
    buf_addf(&text, ",%s", buf_text(&object) + 1);
    console_visible_add(out, buf_str(&text));
    buf_add_char(out, '\n');
}

void gpus_rows_json(const struct gpus_rows *rows, struct buf *out)
{
    for (size_t i = 0; i < rows->len; i++)
        object_add(&rows->at[i], out);
}

/* ---- rows of this machine ---- */

/* Adds "python 4711 alice 3.2 GiB, …" and the holder of the lock. */
static void users_add(const struct device *device, const char *holder, struct buf *out)
{
    for (size_t i = 0; i < device->n_processes; i++) {
        const struct device_process *process = &device->processes[i];
        const struct passwd *user = getpwuid(process->uid);
        buf_addf(out, "%s%s %d", i ? ", " : "", process->name[0] ? process->name : "?",
                 (int)process->pid);
        buf_addf(out, user ? " %s" : "%s", user ? user->pw_name : "");
        char size[16];
        size_format(size, process->mem_bytes);
        buf_addf(out, process->mem_bytes ? " %s" : "%s", process->mem_bytes ? size : "");
    }
    if (holder)
        buf_addf(out, "%slocked by %s", out->len ? "; " : "", holder);
}

static struct gpus_row *row_new(struct gpus_rows *rows)
{
    rows->at = xrealloc(rows->at, (rows->len + 1) * sizeof(*rows->at));
    struct gpus_row *row = &rows->at[rows->len++];
    *row = (struct gpus_row){0};
    return row;
}

void gpus_rows_add(struct gpus_rows *rows, const struct device *device)
{
    struct gpus_row *row = row_new(rows);
    struct buf holder = BUF_INIT, users = BUF_INIT;
    row->device = *device;
    clock_rfc3339(row->time, clock_wall_ms());
    if (device_is_locked(device, &holder))
        row->locked_by = xstrdup(buf_text(&holder));
    users_add(device, row->locked_by, &users);
    row->in_use_by = xstrdup(buf_text(&users));
    buf_release(&holder);
    buf_release(&users);
}

/* ---- rows of another host ---- */

static bool row_parse(struct gpus_row *row, struct str line)
{
    cleanup_free char *time = json_text_new(line, "time", sizeof(row->time) - 1);
    row->locked_by = json_text_new(line, "locked_by", LOCKED_BY_MAX);
    row->in_use_by = json_text_new(line, "in_use_by", (size_t)DEVICE_PROCESSES_MAX * CELL_MAX);
    snprintf(row->time, sizeof(row->time), "%s", time ? time : "");
    return row->in_use_by && time && device_parse_json(line, &row->device);
}

static void rows_cut(struct gpus_rows *rows, size_t len)
{
    while (rows->len > len) {
        struct gpus_row *row = &rows->at[--rows->len];
        free(row->locked_by);
        free(row->in_use_by);
    }
}

int gpus_rows_parse(struct gpus_rows *rows, const char *host, struct str text, struct err *err)
{
    size_t n_before = rows->len;
    struct str line;
    while (text.len > 0 && str_next(&text, '\n', &line)) {
        size_t n_of_host = rows->len - n_before;
        struct gpus_row *row = row_new(rows);
        row->host = host;
        if (n_of_host < DEVICES_MAX && row_parse(row, line))
            continue;
        rows_cut(rows, n_before);
        return fail(err, ERR_DATA, "line %zu of its answer is no device", n_of_host + 1);
    }
    return 0;
}

void gpus_rows_release(struct gpus_rows *rows)
{
    rows_cut(rows, 0);
    free(rows->at);
    rows->at = NULL;
}
