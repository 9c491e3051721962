/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ranks_print.h"

#include "base/cleanup.h"
#include "base/console_text.h"
#include "base/json.h"
#include "base/xalloc.h"
#include "cli/doctor_print.h"

enum {
    GRID_MAX = 12, /* most rows and columns */
    PLACES_MAX = 64,
    WORST_MAX = 10
};

/* ---- a grid of ranks, or of hosts ---- */

struct cell {
    double mib_s, round_trip_us; /* 0: not measured */
    bool is_closed;
};

struct grid {
    uint32_t n;
    struct cell *cells; /* [n * n]: from the row to the column */
};

static uint32_t row_of(const struct told *told, bool by_host, uint32_t rank)
{
    return by_host ? told->ranks[rank].machine.group : rank;
}

static double worse(double a, double b, bool is_more_worse)
{
    if (a <= 0 || b <= 0)
        return MAX(a, b);
    return is_more_worse ? MAX(a, b) : MIN(a, b);
}

/* If several ways share a cell, it has their worst figures. */
static void grid_make(const struct told *told, bool by_host, uint32_t n, struct grid *out)
{
    *out = (struct grid){.n = n, .cells = xcalloc((size_t)n * n + 1, sizeof(struct cell))};
    for (size_t i = 0; i < told->n_pairs; i++) {
        const struct pair_told *pair = &told->pairs[i];
        uint32_t from = row_of(told, by_host, pair->from), to = row_of(told, by_host, pair->to);
        if (from >= n || to >= n)
            continue;
        struct cell *there = &out->cells[from * n + to], *back = &out->cells[to * n + from];
        double us = (double)pair->result.round_trip_ns / 1000;
        there->is_closed = there->is_closed || pair->result.out != LINK_FINE;
        back->mib_s = worse(back->mib_s, way_mib_s(pair), false);
        there->round_trip_us = worse(there->round_trip_us, us, true);
        if (there != back)
            back->round_trip_us = worse(back->round_trip_us, us, true);
    }
}

/* Adds a figure with three digits. */
static void figure_add(struct buf *out, double figure, bool is_closed, int width)
{
    if (is_closed)
        buf_addf(out, "%*s", width, "closed");
    else if (figure <= 0)
        buf_addf(out, "%*s", width, "-");
    else
        buf_addf(out, "%*.*f", width, figure < 9.995 ? 2 : figure < 99.95 ? 1 : 0, figure);
}

/* Returns "node01" of user@node01.example.org:2222, and an address as a whole. */
static struct str short_name(const char *name)
{
    const char *at = strrchr(name, '@');
    struct str whole = str_of(at ? at + 1 : name);
    size_t len = strcspn(whole.at, ".:");
    bool is_address = whole.len == 0 || strspn(whole.at, "0123456789") == len || whole.at[0] == '[';
    return is_address ? whole : (struct str){whole.at, len};
}

/* Adds the label of a row. A long name is cut at its beginning, because its end tells more. */
static void row_label_add(struct buf *out, const struct mesh_hosts *hosts, bool by_host,
                          uint32_t row, int width)
{
    char label[24];
    struct str name = by_host && row < hosts->n ? short_name(hosts->names[row]) : STR("");
    size_t len = MIN(name.len, (size_t)width - 1);
    if (len > 0)
        snprintf(label, sizeof(label), "%.*s", (int)len, name.at + name.len - len);
    else
        snprintf(label, sizeof(label), "%u", row);
    cleanup_free char *shown = console_visible_new(label);
    buf_addf(out, "%*s", width, shown);
}

static void grid_add(struct buf *out, const struct grid *grid, const struct mesh_hosts *hosts,
                     bool by_host, bool is_speed)
{
    int width = by_host ? 12 : 8;
    buf_addf(out, "%s\n%*s", is_speed ? "MiB/s, from the row to the column" : "round trip, us",
             width, "");
    for (uint32_t column = 0; column < grid->n; column++)
        row_label_add(out, hosts, by_host, column, width);
    buf_add_char(out, '\n');
    for (uint32_t row = 0; row < grid->n; row++) {
        row_label_add(out, hosts, by_host, row, width);
        for (uint32_t column = 0; column < grid->n; column++) {
            const struct cell *cell = &grid->cells[row * grid->n + column];
            figure_add(out, is_speed ? cell->mib_s : cell->round_trip_us, cell->is_closed, width);
        }
        buf_add_char(out, '\n');
    }
    buf_add_char(out, '\n');
}

/* ---- the worst of many hosts ---- */

static int by_speed(const void *a_, const void *b_)
{
    double a = way_mib_s(*(const struct pair_told *const *)a_);
    double b = way_mib_s(*(const struct pair_told *const *)b_);
    return a < b ? -1 : a > b;
}

static void worst_add(struct buf *out, const struct told *told, const struct mesh_hosts *hosts)
{
    cleanup_free const struct pair_told **ways = xcalloc(told->n_pairs + 1, sizeof(*ways));
    size_t n = 0;
    for (size_t i = 0; i < told->n_pairs; i++)
        if (way_mib_s(&told->pairs[i]) > 0)
            ways[n++] = &told->pairs[i];
    qsort(ways, n, sizeof(*ways), by_speed);
    buf_addf(out, "the slowest ways\n");
    for (size_t i = 0; i < MIN(n, (size_t)WORST_MAX); i++) {
        figure_add(out, way_mib_s(ways[i]), false, 8);
        cleanup_free char *from = console_visible_new(mesh_host_name(hosts, told, ways[i]->to));
        cleanup_free char *to = console_visible_new(mesh_host_name(hosts, told, ways[i]->from));
        buf_addf(out, " MiB/s  rank %u on %s to rank %u on %s\n", ways[i]->to, from, ways[i]->from,
                 to);
    }
    buf_add_char(out, '\n');
}

/* ---- where they are ---- */

static void machine_add(struct buf *out, const struct rank_machine *machine, const char *host)
{
    cleanup_free char *name = console_visible_new(host);
    cleanup_free char *interface = console_visible_new(machine->interface);
    cleanup_free char *address = console_visible_new(machine->address);
    buf_addf(out, "%6u  %-24s  %-10s", machine->rank, address, interface);
    if (machine->speed_mbit > 0)
        buf_addf(out, "  %7lu", (unsigned long)machine->speed_mbit);
    else
        buf_addf(out, "  %7s", "-");
    buf_addf(out, "  %6lu  %s\n", (unsigned long)machine->mtu, name);
}

/* Adds where the ranks are. If there are many, only the first rank of each host is shown. */
static void places_add(struct buf *out, const struct told *told, const struct mesh_hosts *hosts)
{
    uint32_t n_shown = 0, n_left = 0;
    buf_addf(out, "%6s  %-24s  %-10s  %7s  %6s  %s\n", "rank", "address", "interface", "Mbit/s",
             "MTU", "host");
    for (uint32_t i = 0; i < told->n_ranks; i++) {
        const struct rank_machine *machine = &told->ranks[i].machine;
        bool is_first = i == 0 || told->ranks[i - 1].machine.group != machine->group;
        if (!told->ranks[i].has_machine || (told->n_ranks > GRID_MAX && !is_first))
            continue;
        if (n_shown++ < PLACES_MAX)
            machine_add(out, machine, mesh_host_name(hosts, told, i));
        else
            n_left++;
    }
    if (n_left > 0)
        buf_addf(out, "%6s  %u more\n", "", n_left);
    buf_add_char(out, '\n');
}

void ranks_tables_add(struct buf *out, const struct told *told, const struct mesh_hosts *hosts)
{
    struct grid grid;
    bool by_host = told->n_ranks > GRID_MAX;
    uint32_t n = by_host ? (uint32_t)hosts->n : told->n_ranks;
    if (told->n_ranks == 0)
        return;
    places_add(out, told, hosts);
    if (told->n_pairs == 0)
        return;
    if (n > GRID_MAX || n < MIN(told->n_ranks, 2u)) {
        worst_add(out, told, hosts);
        return;
    }
    grid_make(told, by_host, n, &grid);
    for (int is_speed = 0; is_speed < 2; is_speed++)
        grid_add(out, &grid, hosts, by_host, is_speed);
    free(grid.cells);
}

/* ---- objects ---- */

static void member_add(struct buf *out, const char *name, const char *text)
{
    buf_addf(out, ",\"%s\":", name);
    buf_add_json(out, str_of(text));
}

static void number_add(struct buf *out, const char *name, double number)
{
    if (number > 0)
        buf_addf(out, ",\"%s\":%.3f", name, number);
    else
        buf_addf(out, ",\"%s\":null", name);
}

static void machine_object_add(struct buf *out, const struct rank_machine *machine,
                               const char *host)
{
    buf_addf(out, "{\"rank\":%u", machine->rank);
    member_add(out, "host", host);
    member_add(out, "name", machine->name);
    member_add(out, "address", machine->address);
    member_add(out, "interface", machine->interface);
    buf_addf(out, ",\"speed_mbit\":%lu,\"mtu\":%lu}", (unsigned long)machine->speed_mbit,
             (unsigned long)machine->mtu);
}

/* Adds an object for a way: its sender knows whether it is open, its receiver how fast it is. */
static void way_object_add(struct buf *out, const struct told *told, const struct mesh_hosts *hosts,
                           const struct pair_told *of_sender)
{
    const struct pair_told *of_receiver = told_find(told, of_sender->to, of_sender->from);
    const struct pair_result *result = &of_sender->result;
    buf_addf(out, "{\"from\":%u,\"to\":%u", of_sender->from, of_sender->to);
    member_add(out, "from_host", mesh_host_name(hosts, told, of_sender->from));
    member_add(out, "to_host", mesh_host_name(hosts, told, of_sender->to));
    member_add(out, "address", of_sender->address);
    buf_addf(out, ",\"port\":%u", of_sender->port);
    member_add(out, "connection", link_state_word(result->out));
    member_add(out, "bytes",
               link_state_word(of_receiver ? of_receiver->result.bytes : LINK_SILENT));
    number_add(out, "mib_s", of_receiver ? way_mib_s(of_receiver) : 0);
    number_add(out, "round_trip_us",
               (double)(result->round_trip_ns > 0 ? result->round_trip_ns
                        : of_receiver             ? of_receiver->result.round_trip_ns
                                                  : 0) /
                   1000);
    buf_add_char(out, '}');
}

static void address_object_add(struct buf *out, const struct told *told,
                               const struct mesh_hosts *hosts, const struct address_told *address)
{
    buf_add_text(out, "{\"tried\":");
    buf_add_json(out, str_of(address->address));
    member_add(out, "from_host", mesh_host_name(hosts, told, address->from));
    member_add(out, "to_host", mesh_host_name(hosts, told, address->to));
    member_add(out, "interface", address->interface);
    member_add(out, "connection", link_state_word(address->state));
    buf_add_char(out, '}');
}

/* Adds the object to the output, and empties it. */
static void object_end(struct buf *out, struct buf *object)
{
    object_line_add(out, object, NULL);
    buf_reset(object);
}

void ranks_objects_add(struct buf *out, const struct told *told, const struct mesh_hosts *hosts)
{
    cleanup_buf struct buf object = BUF_INIT;
    for (uint32_t i = 0; i < told->n_ranks; i++) {
        if (!told->ranks[i].has_machine)
            continue;
        machine_object_add(&object, &told->ranks[i].machine, mesh_host_name(hosts, told, i));
        object_end(out, &object);
    }
    for (size_t i = 0; i < told->n_pairs; i++) {
        way_object_add(&object, told, hosts, &told->pairs[i]);
        object_end(out, &object);
    }
    for (size_t i = 0; i < told->n_addresses; i++) {
        address_object_add(&object, told, hosts, &told->addresses[i]);
        object_end(out, &object);
    }
}
