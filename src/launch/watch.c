/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that stand still: core/hang.h judges; this file looks at ranks, and reports. While any rank prints, no rank
 * is looked at. Looks begin when no rank has printed for half of --hang-after. At a verdict, the ranks that it names
 * and one more are asked where their threads stand; the report follows when they have answered. It is repeated each
 * time the silence has doubled, and when the verdict gets worse.
 */
#include <xxhash.h>

#include "base/cleanup.h"
#include "base/console_text.h"
#include "base/idlist.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "core/hang.h"
#include "launch/launch_impl.h"
#include "shell/device_watch.h"

enum {
    ANSWER_MS = NODE_WHERE_MS + 1000,
    SHOWN_MAX = 4,  /* ranks with details */
    NAMED_MAX = 16, /* numbers in a sentence */
    LINES_MAX = 40, /* of a rank's stacks */
    HANG_STATUS = 124,
    DEPTH_STEP = 64,
};

struct watch {
    struct hang *hang; /* of the present generation; NULL: there was none yet */
    uint64_t judge_ms; /* when to judge next */
    bool asks;         /* ranks are being looked at */
    struct {
        enum hang_kind kind; /* HANG_NONE: nothing was said in this silence */
        uint64_t next_ms;    /* the silence at which to say more */
    } said;
    struct {
        bool is_made; /* a report is made, and waits for answers */
        struct hang_verdict verdict;
        uint64_t until_ms;
    } report;
    uint64_t given_up_ms; /* the silence at that time */
};

static uint32_t index_of(const struct rank *rank)
{
    return (uint32_t)(rank - rank->launch->ranks);
}

/* ---- begin and end ---- */

void watch_open(struct launch *launch)
{
    if (launch->request->hang.after_ms > 0)
        launch->watch = xcalloc(1, sizeof(*launch->watch));
}

void watch_close(struct launch *launch)
{
    struct watch *watch = launch->watch;
    if (!watch)
        return;
    hang_free(watch->hang);
    free(watch);
    launch->watch = NULL;
}

void watch_begin(struct launch *launch)
{
    struct watch *watch = launch->watch;
    if (!watch || launch->n_ranks == 0)
        return;
    hang_free(watch->hang);
    watch->hang = xalloc_checked(
        hang_new(launch->n_ranks, launch->request->hang.after_ms, shell_now(launch->shell)),
        launch->n_ranks);
    watch->asks = watch->report.is_made = false;
    watch->said.kind = HANG_NONE;
    watch->said.next_ms = 0;
}

/* ---- facts ---- */

void watch_spoke(const struct rank *rank, uint64_t silent_ms)
{
    struct launch *launch = rank->launch;
    uint64_t now_ms = shell_now(launch->shell);
    if (launch->watch && launch->watch->hang)
        hang_spoke(launch->watch->hang, index_of(rank), now_ms - MIN(silent_ms, now_ms));
}

void watch_ended(const struct rank *rank)
{
    struct launch *launch = rank->launch;
    if (launch->watch && launch->watch->hang)
        hang_ended(launch->watch->hang, index_of(rank), shell_now(launch->shell));
}

/* Use of the rank's own device, if each rank has one. */
static int busy_percent(const struct rank *rank)
{
    const struct machine *machine = rank->machine;
    const struct device_watch *devices = rank->launch->devices.watch;
    if (!machine)
        return rank->busy_percent;
    bool has_own = devices && machine_seat(machine)->n_devices == machine->n_ranks &&
                   rank->local_rank < machine->n_ranks;
    return has_own ? device_watch_sample(devices, machine_seat(machine)->devices[rank->local_rank])
                         ->busy_percent
                   : -1;
}

/* Depths are rounded, since the beginning of a stack is aligned. */
static uint64_t place_hash(const struct proc_stand *stand)
{
    return XXH3_64bits_withSeed(stand->place, strlen(stand->place),
                                (stand->depth + DEPTH_STEP / 2) / DEPTH_STEP);
}

static bool is_paused(const struct proc_stand *stand)
{
    return stand->state == 'T' || stand->state == 't' || stand->tracer > 0;
}

/* Tells the leader, which judges. */
static void stand_tell(const struct rank *rank)
{
    const struct launch *launch = rank->launch;
    const struct rendezvous_stand stand = {
        .generation = launch->own.part.generation,
        .local_rank = index_of(rank),
        .pid = (uint32_t)rank->pid,
        .busy_percent = MIN(busy_percent(rank), 100),
        .silent_ms =
            hang_silent_ms(launch->watch->hang, index_of(rank), shell_last_now(launch->shell)),
        .stand = rank->stand};
    rendezvous_tell_stand(launch->rendezvous, &stand);
}

/* Takes a look. A waiting thread that wakes now and then may be seen running: its place is where it waited before. */
static void stand_take(struct rank *rank, const struct proc_stand *stand)
{
    struct proc_stand before = rank->stand;
    rank->stand = *stand;
    if (stand->state != 'R' || !before.state)
        return;
    memcpy(rank->stand.place, before.place, sizeof(before.place));
    rank->stand.depth = before.depth;
}

void watch_stands(struct rank *rank, const struct proc_stand *stand)
{
    struct watch *watch = rank->launch->watch;
    if (!watch || !watch->hang || watch->report.is_made) /* py-spy stops the rank */
        return;
    stand_take(rank, stand);
    const struct hang_look look = {.cpu_ms = stand->cpu_ms,
                                   .io_bytes = stand->io_bytes,
                                   .family = stand->family,
                                   .place = place_hash(&rank->stand),
                                   .is_blocked = stand->is_blocked,
                                   .is_paused = is_paused(stand),
                                   .busy_percent = busy_percent(rank)};
    if (rank->launch->gang)
        hang_looked(watch->hang, index_of(rank), &look, shell_now(rank->launch->shell));
    else
        stand_tell(rank);
}

void watch_where(struct rank *rank, struct str text)
{
    const struct launch *launch = rank->launch;
    free(rank->where);
    rank->where = xstrndup(text.at, text.len);
    if (!launch->gang)
        rendezvous_tell_where(launch->rendezvous,
                              &(struct rendezvous_where){.generation = launch->own.part.generation,
                                                         .local_rank = index_of(rank),
                                                         .text = text});
}

/* ---- looks ---- */

static void looks_ask(struct launch *launch, bool are_asked)
{
    struct watch *watch = launch->watch;
    if (are_asked == watch->asks)
        return;
    watch->asks = are_asked;
    if (are_asked) /* devices are watched only in case of doubt */
        rank_devices_watch(launch);
    for (uint32_t i = 0; i < launch->n_ranks; i++)
        if (launch->ranks[i].process)
            node_ask_stand(launch->ranks[i].process, are_asked ? hang_every_ms(watch->hang) : 0);
}

/* ---- what is said ---- */

/* "rank 3", "ranks 0-2,5", "ranks 0,2,… and 12 others": the ranks that the verdict names, or those with this motion. */
static void ranks_add(const struct launch *launch, struct buf *out, enum hang_motion motion,
                      bool are_named)
{
    const struct hang *hang = launch->watch->hang;
    uint32_t at[NAMED_MAX], n = 0;
    for (uint32_t i = 0; i < launch->n_ranks; i++) {
        if (are_named ? !hang_is_named(hang, i) : hang_motion_of(hang, i) != motion)
            continue;
        if (n < NAMED_MAX)
            at[n] = i;
        n++;
    }
    buf_addf(out, "rank%s ", plural(n));
    idlist_format(out, at, MIN(n, (uint32_t)NAMED_MAX));
    if (n > NAMED_MAX)
        buf_addf(out, " and %u other%s", n - NAMED_MAX, plural(n - NAMED_MAX));
}

static void sentence_add(const struct launch *launch, struct buf *out)
{
    const struct hang_verdict *v = &launch->watch->report.verdict;
    uint32_t n_busy = v->n_of[HANG_COMPUTES], n_still = v->n_of[HANG_STILL];
    bool is_one = v->n_named == 1;
    char silence[24];
    duration_format(silence, v->silent_ms);
    buf_addf(out, "no rank has printed anything for %s", silence);
    switch (v->kind) {
    case HANG_IS_PAUSED:
        buf_add_text(out, ", and ");
        ranks_add(launch, out, 0, true);
        buf_add_text(out, is_one ? " is paused" : " are paused");
        break;
    case HANG_WAITS_FOR_WORK:
        buf_add_text(out, "; ");
        ranks_add(launch, out, 0, true);
        buf_addf(out, " compute%s, and %u other%s wait%s", is_one ? "s" : "", n_still,
                 plural(n_still), n_still == 1 ? "s" : "");
        break;
    case HANG_OF_SOME:
        buf_add_text(out, "; ");
        ranks_add(launch, out, 0, true);
        buf_addf(out, " stand%s still, and %u other%s compute%s, or spin%s to wait",
                 is_one ? "s" : "", n_busy, plural(n_busy), n_busy == 1 ? "s" : "",
                 n_busy == 1 ? "s" : "");
        break;
    case HANG_OF_ALL:
        buf_add_text(out, n_still == 1 ? ", and it stands still" : ", and all stand still");
        if (v->n_named > 0) {
            buf_add_text(out, "; ");
            ranks_add(launch, out, 0, true);
            buf_addf(out, " %s not where the others are", is_one ? "is" : "are");
        }
        break;
    case HANG_NONE:
        break;
    }
}

static void stand_add(struct buf *out, const struct proc_stand *stand)
{
    if (stand->tracer > 0)
        buf_addf(out, "a debugger has stopped it, or looks at it (pid %d)", (int)stand->tracer);
    else if (is_paused(stand))
        buf_add_text(out, "stopped by a signal; SIGCONT lets it go on");
    else
        console_visible_add(out, str_of(stand->place));
    if (stand->is_blocked)
        buf_addf(out, ", %s in the kernel, where signals may not end it",
                 stand->state == 'D' ? "which is" : "and one of its processes is blocked");
}

static void rank_add(struct buf *out, const struct rank *rank, const char *what)
{
    buf_add_text(out, "\n  ");
    rank_name_add(out, rank);
    buf_addf(out, "%s: ", what);
    stand_add(out, &rank->stand);
    if (rank->where)
        quote_add(out, str_of(rank->where), LINES_MAX, false);
}

/* The ranks that are shown: up to SHOWN_MAX of those that are named, or of those that stand still if none is; and one of the
 * others. */
static bool is_chosen(const struct launch *launch, uint32_t i, uint32_t *n_named,
                      uint32_t *n_others)
{
    const struct hang *hang = launch->watch->hang;
    const struct hang_verdict *v = &launch->watch->report.verdict;
    enum hang_motion motion = hang_motion_of(hang, i);
    if (motion == HANG_GONE)
        return false;
    bool is_named = hang_is_named(hang, i) || v->n_named == 0;
    return is_named ? (*n_named)++ < SHOWN_MAX : (*n_others)++ < 1;
}

static void ranks_show(const struct launch *launch, struct buf *out)
{
    const struct rank *other = NULL;
    uint32_t n_named = 0, n_others = 0;
    for (uint32_t i = 0; i < launch->n_ranks; i++) {
        uint32_t n_before = n_others;
        if (!is_chosen(launch, i, &n_named, &n_others))
            continue;
        if (n_others > n_before)
            other = &launch->ranks[i];
        else
            rank_add(out, &launch->ranks[i], "");
    }
    if (other)
        rank_add(out, other, ", one of the others");
}

static bool is_hang(const struct hang_verdict *v)
{
    return v->kind == HANG_OF_SOME || v->kind == HANG_OF_ALL;
}

/* ---- the report ---- */

/* Asks the rank's process, or the muster that has started it, where the rank's threads stand. */
static void where_ask(struct launch *launch, const struct rank *rank)
{
    uint32_t node, local_rank;
    if (rank->process) {
        node_ask_where(rank->process);
    } else if (launch->rendezvous) {
        gang_place(launch->gang, rank->number, &node, &local_rank);
        rendezvous_ask_where(launch->rendezvous, node, local_rank);
    }
}

static void report_begin(struct launch *launch, const struct hang_verdict *verdict)
{
    struct watch *watch = launch->watch;
    uint32_t n_named = 0, n_others = 0;
    watch->report.is_made = true;
    watch->report.verdict = *verdict;
    watch->report.until_ms = shell_now(launch->shell) + (is_hang(verdict) ? ANSWER_MS : 0);
    watch->said.kind = verdict->kind;
    watch->said.next_ms = 2 * verdict->silent_ms;
    for (uint32_t i = 0; i < launch->n_ranks && is_hang(verdict); i++) {
        struct rank *rank = &launch->ranks[i];
        if (!is_chosen(launch, i, &n_named, &n_others))
            continue;
        free(steal_ptr(&rank->where));
        where_ask(launch, rank);
    }
}

static bool has_answers(const struct launch *launch)
{
    uint32_t n_named = 0, n_others = 0;
    bool are_there = true;
    for (uint32_t i = 0; i < launch->n_ranks; i++)
        if (is_chosen(launch, i, &n_named, &n_others))
            are_there = are_there && launch->ranks[i].where;
    return are_there;
}

static uint32_t blamed_find(const struct launch *launch, const struct hang_verdict *v)
{
    uint32_t i = v->first;
    while (v->n_named == 0 && i + 1 < launch->n_ranks &&
           hang_motion_of(launch->watch->hang, i) != HANG_STILL)
        i++;
    return i;
}

static void report_end(struct launch *launch)
{
    struct watch *watch = launch->watch;
    const struct hang_verdict *v = &watch->report.verdict;
    cleanup_buf struct buf text = BUF_INIT;
    watch->report.is_made = false;
    buf_add_text(&text, "muster: ");
    sentence_add(launch, &text);
    ranks_show(launch, &text);
    buf_add_char(&text, '\n');
    (void)!log_say(shell_log(launch->shell), buf_str(&text));
    if (!launch->request->hang.ends || !is_hang(v))
        return;
    watch->given_up_ms = v->silent_ms;
    lead_tell(launch, (struct gang_event){.kind = GEV_HANG,
                                          .rank = blamed_find(launch, v),
                                          .generation = gang_view(launch->gang).generation,
                                          .status = HANG_STATUS});
}

static void said_forget(struct launch *launch)
{
    struct watch *watch = launch->watch;
    if (watch->said.kind != HANG_NONE)
        log_add(shell_log(launch->shell), LOG_WARN, "launch", "the ranks go on");
    watch->said.kind = HANG_NONE;
    watch->said.next_ms = 0;
}

static void judge(struct launch *launch)
{
    struct watch *watch = launch->watch;
    struct hang_verdict verdict;
    hang_judge(watch->hang, shell_now(launch->shell), &verdict);
    if (verdict.silent_ms < watch->said.next_ms / 2) /* a rank on another machine has printed */
        said_forget(launch);
    bool is_worse = verdict.kind > watch->said.kind;
    if (verdict.kind != HANG_NONE && (is_worse || verdict.silent_ms >= watch->said.next_ms))
        report_begin(launch, &verdict);
}

/* A rank has printed: the silence is over. */
static void silence_end(struct launch *launch)
{
    said_forget(launch);
    launch->watch->report.is_made = false;
    looks_ask(launch, false);
}

/* Are all ranks started? Those of --hosts are not while the place where they meet is sought, and cannot be asked. */
static bool are_started(const struct launch *launch)
{
    return gang_view(launch->gang).state == GANG_WORKS &&
           !(launch->fleet && fleet_waits(launch->fleet));
}

void watch_tick(struct launch *launch)
{
    struct watch *watch = launch->watch;
    if (!watch || !watch->hang)
        return;
    uint64_t now_ms = shell_now(launch->shell);
    bool leads = launch->gang;
    bool is_at_work = leads ? are_started(launch) : !launch->is_over;
    if (!is_at_work || !hang_wants_looks(watch->hang, now_ms)) {
        if (is_at_work)
            silence_end(launch);
        else
            looks_ask(launch, false);
        return;
    }
    looks_ask(launch, true);
    if (!leads)
        return;
    if (watch->report.is_made && (now_ms >= watch->report.until_ms || has_answers(launch)))
        report_end(launch);
    else if (!watch->report.is_made && now_ms >= watch->judge_ms) {
        watch->judge_ms = now_ms + hang_every_ms(watch->hang);
        judge(launch);
    }
}

uint64_t watch_silent_ms(const struct launch *launch)
{
    return launch->watch->given_up_ms;
}
