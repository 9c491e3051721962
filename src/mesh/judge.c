/* SPDX-License-Identifier: Apache-2.0 */
#include "mesh/judge.h"

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/xalloc.h"

enum {
    FINDINGS_MAX = 8, /* of one sort are named; the others are only counted */
    NAMED_MAX = 3     /* hosts that one finding names */
};

/* clang-format off */
static const struct trouble
    absent = {FINDING_FAIL, "The ranks of a training would wait for it, until a time limit of minutes ends them all.",
              "Open the port between the machines, or name a place that all reach: --master-addr, --master-port"},
    refused = {FINDING_FAIL, "A program listens there, and its machine refuses: a firewall that rejects, or an address of another machine.",
               "Open the ports between the machines (nft list ruleset, iptables -L), or choose another interface: GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME"},
    unreachable = {FINDING_FAIL, "One machine knows no way to the address of the other.",
                   "Compare ip route get ADDRESS on both; choose an interface that both share: GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME"},
    silent = {FINDING_FAIL, "Packets are dropped on the way; a training would hang, not fail.",
              "Open the ports between the machines: a firewall (nft list ruleset), or a rule of the cloud's network"},
    mute = {FINDING_FAIL, "The connection is accepted and carries nothing: a proxy, or a firewall that looks into connections.",
            "Take what is between the two machines out of the way"},
    stranger = {FINDING_FAIL, "The address leads to another machine or program; several machines may have it, as that of a bridge for containers.",
                "Choose the interface that leads to the others: GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME"},
    broken = {FINDING_FAIL, "A connection that carries data breaks.",
              "Look at the interface's errors (ip -s link) and at dmesg on both machines"},
    large_lost = {FINDING_FAIL, "Small messages pass and full packets do not: somewhere on the way the MTU is smaller, and nobody says so.",
                  "Compare ip link on both machines and the MTU of the network between (tunnels, jumbo frames); try ping -M do -s 1472"},
    corrupted = {FINDING_FAIL, "TCP's checksum did not see it: memory, an interface's offloading, or a proxy changes data.",
                 "Take this machine out of the training; turn offloading off (ethtool -K IFACE rx off tx off) and test again"},
    slow = {FINDING_WARN, "Every all-reduce goes at the speed of the slowest link.",
            "ethtool IFACE (speed negotiated, errors); another interface: GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME; what else uses the link?"},
    late = {FINDING_WARN, "Each step of a collective waits so long.",
            "Are the machines in one place, and is the link busy? ping shows it as well"},
    lossy = {FINDING_WARN, "Packets are lost on the way, and are sent again.",
             "Look at the interface's errors (ip -s link, ethtool -S), at the cable and at the switch"},
    unequal = {FINDING_WARN, "Packets may be too large for one side, and the slower interface decides.",
               "Give the interfaces one MTU (ip link set IFACE mtu N); is the right interface used? GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME"},
    loopback_name = {FINDING_WARN, "gloo listens at the address that this name has, where other hosts do not reach it.",
                     "Name the interface: GLOO_SOCKET_IFNAME (muster launch --env); or give the name another address in /etc/hosts"},
    unreached = {FINDING_WARN, "Libraries choose an interface by themselves, and this one leads nowhere.",
                 "Name the interface by which the ranks have met: NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME (muster launch --env)"},
    not_measured = {FINDING_WARN, "Nothing is known about these links.",
                    "Mend the links that are named above, and test again"},
    no_sum = {FINDING_FAIL, "A training would hang, or fail, in its first step.",
              "Mend the links that are named above; if none is, test again, and report the failure to the authors of muster"},
    wrong_sum = {FINDING_FAIL, "The ranks of a training would compute with wrong gradients.",
                 "Find the machine by testing fewer of them (--hosts); test its memory"};
/* clang-format on */

static const struct trouble *const troubles[] = {[LINK_FINE] = NULL,
                                                 [LINK_REFUSED] = &refused,
                                                 [LINK_UNREACHABLE] = &unreachable,
                                                 [LINK_SILENT] = &silent,
                                                 [LINK_MUTE] = &mute,
                                                 [LINK_STRANGER] = &stranger,
                                                 [LINK_BROKEN] = &broken,
                                                 [LINK_LARGE_LOST] = &large_lost,
                                                 [LINK_CORRUPTED] = &corrupted};

/* ---- who is who ---- */

static uint32_t group_of(const struct told *told, uint32_t rank)
{
    return told->ranks[rank].machine.group;
}

const char *mesh_host_name(const struct mesh_hosts *hosts, const struct told *told, uint32_t rank)
{
    uint32_t group = group_of(told, rank);
    return group < hosts->n ? hosts->names[group] : told->ranks[rank].machine.name;
}

static bool is_within(const struct told *told, const struct pair_told *pair)
{
    return group_of(told, pair->from) == group_of(told, pair->to);
}

static uint32_t hosts_count_of(const struct told *told)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < told->n_ranks; i++)
        n = MAX(n, group_of(told, i) + 1);
    return n;
}

struct scene {
    const struct told *told;
    const struct mesh_hosts *hosts;
    bool has_hosts; /* there is more than one host */
    struct findings *out;
};

/* Adds "rank 3 on node1"; without the host if there is only one host. */
static void rank_add(const struct scene *scene, uint32_t rank, struct buf *out)
{
    buf_addf(out, "rank %u", rank);
    if (scene->has_hosts)
        buf_addf(out, " on %s", mesh_host_name(scene->hosts, scene->told, rank));
}

static void way_name_add(const struct scene *scene, uint32_t from, uint32_t to, struct buf *out)
{
    rank_add(scene, from, out);
    buf_add_text(out, " to ");
    rank_add(scene, to, out);
}

/* ---- did they meet ---- */

static void meeting_judge(const struct scene *scene)
{
    const struct told *told = scene->told;
    const struct rank_machine *hub = &told->ranks[0].machine;
    size_t n_before = scene->out->len, n_more = 0;
    scene->out->check = "meeting";
    for (uint32_t i = 0; i < told->n_ranks; i++) {
        const struct rank_told *rank = &told->ranks[i];
        cleanup_buf struct buf name = BUF_INIT;
        if (rank->has_machine && !rank->why_absent)
            continue;
        rank_add(scene, i, &name);
        if (scene->out->len - n_before >= FINDINGS_MAX)
            n_more++;
        else
            found(scene->out, &absent, buf_text(&name), "%s",
                  rank->why_absent ? rank->why_absent : "the rank printed nothing");
    }
    if (n_more > 0)
        found(scene->out, &absent, "", "%zu more ranks did not come", n_more);
    if (scene->out->len == n_before)
        found_ok(scene->out, "%u rank%s on %u host%s met at %s%s%s%s", told->n_ranks,
                 plural(told->n_ranks), hosts_count_of(told), plural(hosts_count_of(told)),
                 hub->address, hub->interface[0] ? " (" : "", hub->interface,
                 hub->interface[0] ? ")" : "");
}

/* ---- ways with a flaw ---- */

struct flaw {
    uint32_t from, to; /* the way */
    enum link_state state;
    double badness; /* of several flaws, the worst one is named */
    const struct pair_told *by;
};

struct flaws {
    struct flaw *at;
    size_t len;
};

static void flaw_add(struct flaws *flaws, struct flaw flaw)
{
    if (flaws->len % 64 == 0)
        flaws->at = xrealloc(flaws->at, (flaws->len + 64) * sizeof(*flaws->at));
    flaws->at[flaws->len++] = flaw;
}

static bool is_alike(const struct told *told, const struct flaw *a, const struct flaw *b)
{
    return a->state == b->state && group_of(told, a->from) == group_of(told, b->from) &&
           group_of(told, a->to) == group_of(told, b->to);
}

static int by_badness(const void *a_, const void *b_)
{
    const struct flaw *a = a_, *b = b_;
    if (a->badness != b->badness)
        return a->badness > b->badness ? -1 : 1;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    return a->to < b->to ? -1 : a->to > b->to;
}

/* Adds a sentence about the flaw of a way. */
typedef void flaw_text(const struct scene *scene, const struct flaw *flaw, struct buf *out);

static void flaw_tell(const struct scene *scene, const struct trouble *trouble,
                      const struct flaw *flaw, size_t n_alike, flaw_text *text)
{
    cleanup_buf struct buf name = BUF_INIT;
    cleanup_buf struct buf said = BUF_INIT;
    way_name_add(scene, flaw->from, flaw->to, &name);
    text(scene, flaw, &said);
    if (n_alike > 0)
        buf_addf(&said, "; %zu more way%s%s likewise", n_alike, plural(n_alike),
                 scene->has_hosts ? " between these hosts" : "");
    found(scene->out, trouble, buf_text(&name), "%s", buf_text(&said));
}

/*
 * Makes one finding for all ways from one host to another that have the same flaw. `trouble` NULL: the state of the
 * link decides which trouble it is.
 */
static void flaws_tell(const struct scene *scene, struct flaws *flaws,
                       const struct trouble *trouble, flaw_text *text)
{
    size_t n_told = 0, n_more = 0;
    if (flaws->len > 0)
        qsort(flaws->at, flaws->len, sizeof(*flaws->at), by_badness);
    for (size_t i = 0; i < flaws->len; i++) {
        const struct flaw *flaw = &flaws->at[i];
        size_t n_alike = 0, k = 0;
        while (k < i && !is_alike(scene->told, &flaws->at[k], flaw))
            k++;
        if (k < i)
            continue;
        for (k = i + 1; k < flaws->len; k++)
            n_alike += is_alike(scene->told, &flaws->at[k], flaw);
        if (n_told++ < FINDINGS_MAX)
            flaw_tell(scene, trouble ? trouble : troubles[flaw->state], flaw, n_alike, text);
        else
            n_more++;
    }
    if (n_more > 0)
        found(scene->out, trouble ? trouble : troubles[flaws->at[0].state], "",
              "%zu more pairs of hosts have the same flaw", n_more);
    free(flaws->at);
    *flaws = (struct flaws){0};
}

/* ---- closed links and lost bytes ---- */

const struct pair_told *told_find(const struct told *told, uint32_t from, uint32_t to)
{
    for (size_t i = 0; i < told->n_pairs; i++)
        if (told->pairs[i].from == from && told->pairs[i].to == to)
            return &told->pairs[i];
    return NULL;
}

/* True if the other end's report of the same fault is better, so that only that one becomes a finding. */
static bool is_told_better(const struct pair_told *pair, const struct pair_told *other)
{
    if (!other || other->result.bytes == LINK_FINE)
        return false;
    bool is_more = other->result.bytes > pair->result.bytes;
    bool is_same = other->result.bytes == pair->result.bytes && other->from < pair->from;
    return is_more || is_same;
}

/* True if the stream was only slow: some bytes came in time. That is no flaw here, because the way has a speed. */
static bool is_only_slow(const struct pair_told *pair, const struct pair_told *other)
{
    bool any = pair->result.n_bytes > 0 || (other && other->result.n_bytes > 0);
    return any && (pair->result.bytes == LINK_SILENT || pair->result.bytes == LINK_BROKEN);
}

/*
 * True if the connection was not made: the rank that tried it reports this. Else bytes were lost: their receiver
 * reports that.
 */
static bool is_closed(const struct flaw *flaw)
{
    return flaw->by->from == flaw->from;
}

static void bytes_flaw_find(const struct told *told, const struct pair_told *pair,
                            struct flaws *out)
{
    const struct pair_result *result = &pair->result;
    if (result->bytes == LINK_FINE || (result->out != LINK_FINE && !result->has_in))
        return;
    const struct pair_told *other = told_find(told, pair->to, pair->from);
    if (!is_only_slow(pair, other) && !is_told_better(pair, other))
        flaw_add(out, (struct flaw){
                          .from = pair->to, .to = pair->from, .state = result->bytes, .by = pair});
}

static void link_text(const struct scene *scene, const struct flaw *flaw, struct buf *out)
{
    (void)scene;
    if (is_closed(flaw))
        buf_addf(out, "%s port %u: ", flaw->by->address, flaw->by->port);
    buf_add_text(out, link_state_text(flaw->state));
    if (flaw->state == LINK_CORRUPTED)
        buf_addf(out, ", the first after %lu bytes", (unsigned long)flaw->by->result.bad_at);
}

static void links_judge(const struct scene *scene)
{
    const struct told *told = scene->told;
    struct flaws flaws = {0};
    scene->out->check = "links";
    for (size_t i = 0; i < told->n_pairs; i++) {
        const struct pair_told *pair = &told->pairs[i];
        if (pair->result.out != LINK_FINE)
            flaw_add(&flaws, (struct flaw){.from = pair->from,
                                           .to = pair->to,
                                           .state = pair->result.out,
                                           .by = pair});
        bytes_flaw_find(told, pair, &flaws);
    }
    bool is_fine = flaws.len == 0 && told->n_planned > 0;
    flaws_tell(scene, &flaws, NULL, link_text);
    if (told->n_left_out > 0)
        found(scene->out, &not_measured, "", "%lu pairs were not measured",
              (unsigned long)told->n_left_out);
    else if (is_fine)
        found_ok(scene->out, "%lu of %lu pairs: both ways open, every byte right",
                 (unsigned long)told->n_planned, (unsigned long)told->n_possible);
}

/* ---- speed ---- */

double way_mib_s(const struct pair_told *of_receiver)
{
    const struct pair_result *result = &of_receiver->result;
    if (result->n_bytes == 0 || result->took_ns == 0)
        return 0;
    return (double)result->n_bytes / (1 << 20) / ((double)result->took_ns / 1e9);
}

static int by_value(const void *a_, const void *b_)
{
    double a = *(const double *)a_, b = *(const double *)b_;
    return a < b ? -1 : a > b;
}

/* The shortest round trip. On a busy machine most round trips take longer than the link itself needs. */
static double least_trip_us(const struct pair_told *pair)
{
    return (double)pair->result.least_ns / 1000;
}

/* Statistics of one figure, over all ways within hosts or all ways between hosts that have this figure. */
struct figures {
    size_t n;
    double least, median, most; /* median 0: there are fewer than JUDGE_LEAST */
};

static struct figures figures_of(const struct told *told, bool within,
                                 double (*figure)(const struct pair_told *pair))
{
    cleanup_free double *all = xcalloc(told->n_pairs + 1, sizeof(*all));
    size_t n = 0;
    for (size_t i = 0; i < told->n_pairs; i++)
        if (is_within(told, &told->pairs[i]) == within && figure(&told->pairs[i]) > 0)
            all[n++] = figure(&told->pairs[i]);
    qsort(all, n, sizeof(*all), by_value);
    return (struct figures){.n = n,
                            .least = all[0],
                            .median = n >= JUDGE_LEAST ? all[n / 2] : 0,
                            .most = all[n > 0 ? n - 1 : 0]};
}

static uint64_t mbit_of(const struct rank_machine *machine)
{
    uint64_t mbit = machine->speed_mbit > 0 ? machine->speed_mbit : JUDGE_MBIT_UNKNOWN;
    return MIN(mbit, (uint64_t)JUDGE_MBIT_MAX);
}

/* The speed that the interfaces of both ends allow; 0 within a host. */
static double allowed_mib_s(const struct told *told, const struct pair_told *pair)
{
    uint64_t one = mbit_of(&told->ranks[pair->from].machine);
    uint64_t two = mbit_of(&told->ranks[pair->to].machine);
    return is_within(told, pair) ? 0 : (double)MIN(one, two) * 1e6 / 8 / (1 << 20);
}

/* A speed below so many percent of the usual one is slow. */
static int slow_percent(const struct told *told, const struct pair_told *pair)
{
    return is_within(told, pair) ? JUDGE_SLOW_WITHIN_PERCENT : JUDGE_SLOW_PERCENT;
}

static void share_add(struct buf *out, double speed, double whole, int limit_percent,
                      const char *of)
{
    double percent = 100 * speed / whole;
    if (percent < limit_percent)
        buf_addf(out,
                 percent < 1 ? ", %.2f %% of %s of %.0f MiB/s" : ", %.0f %% of %s of %.0f MiB/s",
                 percent, of, whole);
}

static void slow_text(const struct scene *scene, const struct flaw *flaw, struct buf *out)
{
    const struct told *told = scene->told;
    double speed = way_mib_s(flaw->by), allowed = allowed_mib_s(told, flaw->by);
    int percent = slow_percent(told, flaw->by);
    const struct rank_machine *from = &told->ranks[flaw->from].machine,
                              *to = &told->ranks[flaw->to].machine;
    struct figures figures = figures_of(told, is_within(told, flaw->by), way_mib_s);
    buf_addf(out, speed < 10 ? "%.2f MiB/s" : "%.0f MiB/s", speed);
    if (scene->has_hosts && from->interface[0] && to->interface[0])
        buf_addf(out, " from %s to %s", from->interface, to->interface);
    if (figures.median > 0)
        share_add(out, speed, figures.median, percent, "the median");
    if (allowed > 0)
        share_add(out, speed, allowed, percent, "the interfaces' speed");
}

static void speeds_judge(const struct scene *scene)
{
    const struct told *told = scene->told;
    const struct figures kinds[] = {figures_of(told, false, way_mib_s),
                                    figures_of(told, true, way_mib_s)};
    struct flaws flaws = {0};
    scene->out->check = "speed";
    for (size_t i = 0; i < told->n_pairs; i++) {
        const struct pair_told *pair = &told->pairs[i];
        double speed = way_mib_s(pair);
        double wanted = MAX(kinds[is_within(told, pair)].median, allowed_mib_s(told, pair));
        if (speed > 0 && speed * 100 < wanted * slow_percent(told, pair))
            flaw_add(&flaws,
                     (struct flaw){
                         .from = pair->to, .to = pair->from, .badness = 1 / speed, .by = pair});
    }
    for (size_t within = 0; within < countof(kinds) && flaws.len == 0; within++)
        if (kinds[within].n > 0)
            found_ok_on(scene->out, within ? "within a host" : "between hosts",
                        "%.0f to %.0f MiB/s", kinds[within].least, kinds[within].most);
    flaws_tell(scene, &flaws, &slow, slow_text);
}

/* ---- round trips, lost packets ---- */

static void late_text(const struct scene *scene, const struct flaw *flaw, struct buf *out)
{
    (void)scene;
    buf_addf(out, "a round trip of %.1f ms at least", least_trip_us(flaw->by) / 1000);
}

static void round_trips_judge(const struct scene *scene)
{
    const struct told *told = scene->told;
    const struct figures kinds[] = {figures_of(told, false, least_trip_us),
                                    figures_of(told, true, least_trip_us)};
    struct flaws flaws = {0};
    scene->out->check = "latency";
    for (size_t i = 0; i < told->n_pairs; i++) {
        const struct pair_told *pair = &told->pairs[i];
        double us = least_trip_us(pair), median = kinds[0].median;
        bool is_much = median > 0 && us > median * JUDGE_LATE_TIMES && us > JUDGE_LATE_LEAST_US;
        if (!is_within(told, pair) && (is_much || us > JUDGE_LATE_US))
            flaw_add(&flaws,
                     (struct flaw){.from = pair->from, .to = pair->to, .badness = us, .by = pair});
    }
    for (size_t within = 0; within < countof(kinds) && flaws.len == 0; within++)
        if (kinds[within].n > 0)
            found_ok_on(scene->out, within ? "within a host" : "between hosts",
                        "round trips of %.0f to %.0f us", kinds[within].least, kinds[within].most);
    flaws_tell(scene, &flaws, &late, late_text);
}

static void loss_text(const struct scene *scene, const struct flaw *flaw, struct buf *out)
{
    (void)scene;
    buf_addf(out, "%lu of %lu packets were sent again",
             (unsigned long)flaw->by->result.n_resent_segments,
             (unsigned long)flaw->by->result.n_sent_segments);
}

static void losses_judge(const struct scene *scene)
{
    struct flaws flaws = {0};
    scene->out->check = "losses";
    for (size_t i = 0; i < scene->told->n_pairs; i++) {
        const struct pair_told *pair = &scene->told->pairs[i];
        uint64_t n_sent = pair->result.n_sent_segments, n_again = pair->result.n_resent_segments;
        if (n_again >= JUDGE_RESENT_LEAST && n_again * 100 > n_sent * JUDGE_RESENT_PERCENT)
            flaw_add(&flaws, (struct flaw){.from = pair->from,
                                           .to = pair->to,
                                           .badness = (double)n_again / (double)n_sent,
                                           .by = pair});
    }
    flaws_tell(scene, &flaws, &lossy, loss_text);
}

/* ---- interfaces ---- */

static void unlike_judge(const struct scene *scene, const char *what, size_t offset)
{
    const struct told *told = scene->told;
    uint32_t least = 0, most = 0;
#define FIGURE(rank) (*(const uint64_t *)((const char *)&told->ranks[rank].machine + offset))
    for (uint32_t i = 0; i < told->n_ranks; i++) {
        if (!told->ranks[i].has_machine || FIGURE(i) == 0)
            continue;
        least = FIGURE(least) == 0 || FIGURE(i) < FIGURE(least) ? i : least;
        most = FIGURE(i) > FIGURE(most) ? i : most;
    }
    if (FIGURE(least) != FIGURE(most))
        found(scene->out, &unequal, what, "%lu of %s on %s, %lu of %s on %s",
              (unsigned long)FIGURE(least), told->ranks[least].machine.interface,
              mesh_host_name(scene->hosts, told, least), (unsigned long)FIGURE(most),
              told->ranks[most].machine.interface, mesh_host_name(scene->hosts, told, most));
#undef FIGURE
}

static bool is_name_bad(const struct told *told, uint32_t rank)
{
    const char *by_name = told->ranks[rank].machine.by_name;
    bool is_first = rank == 0 || group_of(told, rank) != group_of(told, rank - 1);
    return told->ranks[rank].has_machine && is_first &&
           (by_name[0] == '\0' || strncmp(by_name, "127.", 4) == 0 || strcmp(by_name, "::1") == 0);
}

/* Judges the name of each host, as the host itself looks it up. */
static void names_judge(const struct scene *scene)
{
    const struct rank_machine *first = NULL;
    size_t n_bad = 0;
    for (uint32_t i = 0; i < scene->told->n_ranks; i++) {
        if (!is_name_bad(scene->told, i))
            continue;
        first = first ? first : &scene->told->ranks[i].machine;
        n_bad++;
    }
    if (!first)
        return;
    cleanup_buf struct buf text = BUF_INIT;
    buf_addf(&text, "its own name, %s, %s%s there", first->name,
             first->by_name[0] ? "is " : "has no address", first->by_name);
    if (n_bad > 1)
        buf_addf(&text, "; the same on %zu more host%s", n_bad - 1, plural(n_bad - 1));
    found(scene->out, &loopback_name, mesh_host_name(scene->hosts, scene->told, first->rank), "%s",
          buf_text(&text));
}

static bool is_same_target(const struct told *told, const struct address_told *a,
                           const struct address_told *b)
{
    return group_of(told, a->to) == group_of(told, b->to) && strcmp(a->address, b->address) == 0;
}

/* Adds the hosts that do not reach an address. Returns how many hosts reach it. */
static size_t unreached_add(const struct scene *scene, const struct address_told *target,
                            struct buf *out)
{
    const struct told *told = scene->told;
    size_t n_reached = 0, n_not = 0;
    for (size_t i = 0; i < told->n_addresses; i++) {
        const struct address_told *one = &told->addresses[i];
        if (!is_same_target(told, one, target))
            continue;
        n_reached += one->state == LINK_FINE;
        if (one->state == LINK_FINE || n_not++ >= NAMED_MAX)
            continue;
        buf_addf(out, "%s%s (%s)", n_not > 1 ? ", " : "",
                 mesh_host_name(scene->hosts, told, one->from), link_state_text(one->state));
    }
    if (n_not > NAMED_MAX)
        buf_addf(out, " and %zu more hosts", n_not - NAMED_MAX);
    return n_reached;
}

static void address_judge(const struct scene *scene, const struct address_told *target)
{
    cleanup_buf struct buf from = BUF_INIT;
    cleanup_buf struct buf name = BUF_INIT;
    size_t n_reached = unreached_add(scene, target, &from);
    buf_addf(&name, "%s of %s", target->interface,
             mesh_host_name(scene->hosts, scene->told, target->to));
    if (from.len == 0)
        found_ok_on(scene->out, buf_text(&name), "%s is reached too, by %zu other host%s",
                    target->address, n_reached, plural(n_reached));
    else
        found(scene->out, &unreached, buf_text(&name), "%s is not reached from %s", target->address,
              buf_text(&from));
}

static void addresses_judge(const struct scene *scene)
{
    const struct told *told = scene->told;
    size_t n_told = 0;
    for (size_t i = 0; i < told->n_addresses && n_told < FINDINGS_MAX; i++) {
        size_t k = 0;
        while (k < i && !is_same_target(told, &told->addresses[k], &told->addresses[i]))
            k++;
        if (k < i)
            continue;
        address_judge(scene, &told->addresses[i]);
        n_told++;
    }
}

static void interfaces_judge(const struct scene *scene)
{
    scene->out->check = "interface";
    if (!scene->has_hosts)
        return;
    unlike_judge(scene, "MTU", offsetof(struct rank_machine, mtu));
    unlike_judge(scene, "Mbit/s", offsetof(struct rank_machine, speed_mbit));
    names_judge(scene);
    addresses_judge(scene);
}

/* ---- the all-reduce ---- */

/*
 * How much the report of a rank explains. LINK_BROKEN explains least, because a rank that gives up breaks the
 * connections of its neighbours.
 */
static int telling_of(const struct sum_told *sum)
{
    return sum->result.state == LINK_BROKEN ? 1 : sum->result.state == LINK_SILENT ? 2 : 3;
}

/* The report that explains best why there is no sum; NULL: no rank reports a failure. */
static const struct sum_told *sum_failure(const struct told *told)
{
    const struct sum_told *best = NULL;
    for (uint32_t i = 0; i < told->n_ranks; i++) {
        const struct sum_told *sum = &told->ranks[i].sum;
        bool is_flaw = told->ranks[i].has_sum && sum->result.state != LINK_FINE;
        if (is_flaw && (!best || telling_of(sum) > telling_of(best)))
            best = sum;
    }
    return best;
}

static void sum_failed_tell(const struct scene *scene, const struct sum_told *sum)
{
    cleanup_buf struct buf name = BUF_INIT;
    bool is_of_next = sum->result.is_of_next;
    if (sum->result.state == LINK_CORRUPTED) {
        rank_add(scene, sum->rank, &name);
        found(scene->out, &wrong_sum, buf_text(&name), "%lu of %zu numbers of the sum are wrong",
              (unsigned long)sum->result.n_wrong, RING_BYTES / sizeof(uint64_t));
        return;
    }
    way_name_add(scene, is_of_next ? sum->rank : sum->from, is_of_next ? sum->to : sum->rank,
                 &name);
    found(scene->out, &no_sum, buf_text(&name), "the sum was not made: %s",
          link_state_text(sum->result.state));
}

static void sums_judge(const struct scene *scene)
{
    const struct told *told = scene->told;
    const struct sum_told *failure = sum_failure(told);
    uint64_t longest_ns = 0;
    uint32_t n_done = 0;
    for (uint32_t i = 0; i < told->n_ranks; i++) {
        n_done += told->ranks[i].has_sum && told->ranks[i].sum.result.state == LINK_FINE;
        longest_ns = MAX(longest_ns, told->ranks[i].sum.result.took_ns);
    }
    scene->out->check = "allreduce";
    if (failure)
        sum_failed_tell(scene, failure);
    else if (told->is_ring_broken)
        found(scene->out, &no_sum, "",
              "the all-reduce was not tried, because a link that it needs is bad");
    else if (n_done < told->n_ranks)
        found(scene->out, &no_sum, "", "%u of %u ranks made the sum", n_done, told->n_ranks);
    else
        found_ok(scene->out, "1 MiB summed over %u rank%s in %.1f ms, right on every rank", n_done,
                 plural(n_done), (double)longest_ns / 1e6);
}

void mesh_judge(const struct told *told, const struct mesh_hosts *hosts, struct findings *out)
{
    const struct scene scene = {
        .told = told, .hosts = hosts, .has_hosts = hosts_count_of(told) > 1, .out = out};
    meeting_judge(&scene);
    interfaces_judge(&scene);
    links_judge(&scene);
    speeds_judge(&scene);
    round_trips_judge(&scene);
    losses_judge(&scene);
    sums_judge(&scene);
}
