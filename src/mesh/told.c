/* SPDX-License-Identifier: Apache-2.0 */
#include "mesh/told.h"

#include "base/cleanup.h"
#include "base/json.h"
#include "base/xalloc.h"

enum {
    WHY_MAX_BYTES = 1000
};

static const char *const depths[] = {[PLAN_ALL_PAIRS] = "all",
                                     [PLAN_EACH_RANK] = "each rank",
                                     [PLAN_EACH_HOST] = "each host",
                                     [PLAN_SOME_HOSTS] = "some hosts"};

/* ---- out ---- */

static void text_add(struct buf *out, const char *name, const char *text)
{
    buf_addf(out, ",\"%s\":", name);
    buf_add_json(out, str_of(text));
}

static void number_add(struct buf *out, const char *name, uint64_t number)
{
    buf_addf(out, ",\"%s\":%lu", name, (unsigned long)number);
}

static void end_add(struct buf *out)
{
    buf_add_text(out, "}\n");
}

void rank_machine_format(const struct rank_machine *machine, struct buf *out)
{
    buf_addf(out, "{\"rank\":%u,\"group\":%u", machine->rank, machine->group);
    text_add(out, "name", machine->name);
    text_add(out, "address", machine->address);
    text_add(out, "interface", machine->interface);
    text_add(out, "by_name", machine->by_name);
    number_add(out, "speed_mbit", machine->speed_mbit);
    number_add(out, "mtu", machine->mtu);
    end_add(out);
}

void absence_format(uint32_t rank, uint32_t group, const char *why, struct buf *out)
{
    buf_addf(out, "{\"rank\":%u,\"group\":%u", rank, group);
    text_add(out, "absent", why);
    end_add(out);
}

void pair_plan_format(const struct pair_plan *plan, size_t n_left_out, bool is_ring_broken,
                      struct buf *out)
{
    buf_addf(out, "{\"plan\":\"%s\"", depths[plan->depth]);
    number_add(out, "planned", plan->len);
    number_add(out, "possible", plan->n_possible);
    number_add(out, "left_out", n_left_out);
    number_add(out, "ring_broken", is_ring_broken);
    end_add(out);
}

/* The numbers of a pair, by name. */
#define PAIR_NUMBERS(X) \
    X(round_trip_ns)    \
    X(least_ns)         \
    X(n_bytes)          \
    X(took_ns)          \
    X(bad_at)           \
    X(n_sent_segments)  \
    X(n_resent_segments)

void pair_format(const struct pair_told *pair, struct buf *out)
{
    const struct pair_result *result = &pair->result;
    buf_addf(out, "{\"from\":%u,\"to\":%u", pair->from, pair->to);
    text_add(out, "address", pair->address);
    number_add(out, "port", pair->port);
    text_add(out, "out", link_state_word(result->out));
    text_add(out, "bytes", link_state_word(result->bytes));
    number_add(out, "has_in", result->has_in);
#define X(name) number_add(out, #name, result->name);
    PAIR_NUMBERS(X)
#undef X
    end_add(out);
}

void address_format(const struct address_told *told, struct buf *out)
{
    buf_addf(out, "{\"from\":%u,\"to\":%u", told->from, told->to);
    text_add(out, "tried", told->address);
    text_add(out, "interface", told->interface);
    text_add(out, "state", link_state_word(told->state));
    end_add(out);
}

void sum_format(const struct sum_told *sum, struct buf *out)
{
    buf_addf(out, "{\"rank\":%u,\"to\":%u,\"from\":%u", sum->rank, sum->to, sum->from);
    text_add(out, "sum", link_state_word(sum->result.state));
    number_add(out, "is_of_next", sum->result.is_of_next);
    number_add(out, "took_ns", sum->result.took_ns);
    number_add(out, "n_wrong", sum->result.n_wrong);
    end_add(out);
}

/* ---- in ---- */

static bool number_get(struct str line, const char *name, uint64_t *out)
{
    struct str value;
    return json_get(line, name, &value) && json_to_u64(value, out);
}

static bool u32_get(struct str line, const char *name, uint32_t *out)
{
    uint64_t number;
    bool is_there = number_get(line, name, &number) && number <= UINT32_MAX;
    *out = is_there ? (uint32_t)number : 0;
    return is_there;
}

static bool flag_get(struct str line, const char *name, bool *out)
{
    uint64_t number = 0;
    bool is_there = number_get(line, name, &number);
    *out = number > 0;
    return is_there;
}

static bool text_get(struct str line, const char *name, char *out, size_t size)
{
    cleanup_free char *text = json_text_new(line, name, size - 1);
    snprintf(out, size, "%s", text ? text : "");
    return text;
}

static bool state_get(struct str line, const char *name, enum link_state *out)
{
    cleanup_free char *word = json_text_new(line, name, WHY_MAX_BYTES);
    return word && link_state_find(str_of(word), out);
}

/* Reads the group of a rank. There are at most as many groups as ranks. */
static bool group_get(const struct told *told, struct str line, uint32_t *out)
{
    return u32_get(line, "group", out) && *out < told->n_ranks;
}

static void machine_take(struct told *told, uint32_t rank, struct str line)
{
    struct rank_machine machine = {0};
    bool is_whole = u32_get(line, "rank", &machine.rank) && machine.rank == rank &&
                    group_get(told, line, &machine.group) &&
                    text_get(line, "name", machine.name, sizeof(machine.name)) &&
                    text_get(line, "address", machine.address, sizeof(machine.address)) &&
                    text_get(line, "interface", machine.interface, sizeof(machine.interface)) &&
                    text_get(line, "by_name", machine.by_name, sizeof(machine.by_name)) &&
                    number_get(line, "speed_mbit", &machine.speed_mbit) &&
                    number_get(line, "mtu", &machine.mtu);
    told->ranks[rank].has_machine = is_whole;
    if (is_whole)
        told->ranks[rank].machine = machine;
}

static void absence_take(struct told *told, uint32_t rank, struct str line)
{
    uint32_t group;
    free(told->ranks[rank].why_absent);
    told->ranks[rank].why_absent = json_text_new(line, "absent", WHY_MAX_BYTES);
    if (group_get(told, line, &group))
        told->ranks[rank].machine.group = group;
}

static void plan_take(struct told *told, struct str line)
{
    cleanup_free char *depth = json_text_new(line, "plan", WHY_MAX_BYTES);
    for (size_t i = 0; depth && i < countof(depths); i++)
        if (strcmp(depths[i], depth) == 0)
            told->depth = (enum plan_depth)i;
    told->has_plan = depth && number_get(line, "planned", &told->n_planned) &&
                     number_get(line, "possible", &told->n_possible) &&
                     number_get(line, "left_out", &told->n_left_out) &&
                     flag_get(line, "ring_broken", &told->is_ring_broken);
}

static void pair_take(struct told *told, uint32_t rank, struct str line)
{
    struct pair_told pair = {0};
    struct pair_result *result = &pair.result;
    uint64_t port;
    bool is_whole = u32_get(line, "from", &pair.from) && u32_get(line, "to", &pair.to) &&
                    text_get(line, "address", pair.address, sizeof(pair.address)) &&
                    number_get(line, "port", &port) && port <= UINT16_MAX &&
                    state_get(line, "out", &result->out) &&
                    state_get(line, "bytes", &result->bytes) &&
                    flag_get(line, "has_in", &result->has_in);
#define X(name) is_whole = is_whole && number_get(line, #name, &result->name);
    PAIR_NUMBERS(X)
#undef X
    if (!is_whole || pair.from != rank || pair.to >= told->n_ranks || pair.to == rank)
        return;
    pair.port = (uint16_t)port;
    if (told->n_pairs % 64 == 0)
        told->pairs = xrealloc(told->pairs, (told->n_pairs + 64) * sizeof(*told->pairs));
    told->pairs[told->n_pairs++] = pair;
}

static void address_take(struct told *told, uint32_t rank, struct str line)
{
    struct address_told address = {0};
    bool is_whole = u32_get(line, "from", &address.from) && u32_get(line, "to", &address.to) &&
                    text_get(line, "tried", address.address, sizeof(address.address)) &&
                    text_get(line, "interface", address.interface, sizeof(address.interface)) &&
                    state_get(line, "state", &address.state);
    if (!is_whole || address.from != rank || address.to >= told->n_ranks || address.to == rank)
        return;
    if (told->n_addresses % 64 == 0)
        told->addresses =
            xrealloc(told->addresses, (told->n_addresses + 64) * sizeof(*told->addresses));
    told->addresses[told->n_addresses++] = address;
}

static void sum_take(struct told *told, uint32_t rank, struct str line)
{
    struct sum_told sum = {0};
    struct ring_result *result = &sum.result;
    bool is_whole = u32_get(line, "rank", &sum.rank) && sum.rank == rank &&
                    u32_get(line, "to", &sum.to) && sum.to < told->n_ranks &&
                    u32_get(line, "from", &sum.from) && sum.from < told->n_ranks &&
                    state_get(line, "sum", &result->state) &&
                    flag_get(line, "is_of_next", &result->is_of_next) &&
                    number_get(line, "took_ns", &result->took_ns) &&
                    number_get(line, "n_wrong", &result->n_wrong);
    told->ranks[rank].has_sum = is_whole;
    if (is_whole)
        told->ranks[rank].sum = sum;
}

void told_init(struct told *told, uint32_t n_ranks)
{
    *told = (struct told){.n_ranks = n_ranks, .ranks = xcalloc(n_ranks + 1, sizeof(*told->ranks))};
}

void told_release(struct told *told)
{
    for (uint32_t i = 0; i < told->n_ranks; i++)
        free(told->ranks[i].why_absent);
    free(told->ranks);
    free(told->pairs);
    free(told->addresses);
    *told = (struct told){0};
}

void told_take(struct told *told, uint32_t rank, struct str lines)
{
    struct str line, value;
    while (lines.len > 0 && str_next(&lines, '\n', &line)) {
        if (json_get(line, "sum", &value))
            sum_take(told, rank, line);
        else if (json_get(line, "tried", &value))
            address_take(told, rank, line);
        else if (json_get(line, "from", &value))
            pair_take(told, rank, line);
        else if (json_get(line, "absent", &value))
            absence_take(told, rank, line);
        else if (json_get(line, "plan", &value))
            plan_take(told, line);
        else if (json_get(line, "address", &value))
            machine_take(told, rank, line);
    }
}
