/* SPDX-License-Identifier: Apache-2.0
 *
 * What follows from the death of a worker: for its items (which one is charged, which are halved as suspects), for
 * its device (smaller batches, benching) and for its seat.
 */
#include "core/feed_impl.h"

enum {
    RESTARTS_MAX = 5,      /* processes without a result, after which a device is benched */
    KNOWN_TO_FAIL_MAX = 8, /* deaths before a first result that items may have caused */
    FEW_LEFT_MAX = 8
};

/* Takes from the worker the unanswered items that no other worker has, as ranges. */
static uint64_t unanswered_collect(struct feed *f, uint32_t worker, struct sent_range *runs,
                                   size_t cap, size_t *n_runs)
{
    struct feed_worker *w = &f->workers[worker];
    struct owned at = owned_begin(f, worker);
    uint64_t total = 0;
    *n_runs = 0;
    for (uint64_t item; (item = owned_next(f, worker, &at)) != UINT64_MAX;) {
        if (!item_disown(f, worker, item))
            continue;
        struct sent_range *last = *n_runs > 0 ? &runs[*n_runs - 1] : NULL;
        total++;
        if (last && last->first + last->count == item)
            last->count++;
        else if (*n_runs < cap)
            runs[(*n_runs)++] = (struct sent_range){item, 1};
        else
            pool_add(f, (struct sent_range){item, 1}, w->time.again_ms, NONE);
    }
    f->counts.in_flight -= w->items.in_flight;
    w->items.in_flight = w->items.losers = 0;
    w->items.fifo_len = 0;
    return total;
}

static void runs_to_pool(struct feed *f, const struct sent_range *runs, size_t n_runs,
                         uint64_t not_before_ms)
{
    for (size_t i = 0; i < n_runs; i++)
        pool_add(f, runs[i], not_before_ms, NONE);
}

void device_limit(struct feed *f, uint32_t device, uint64_t batch_max)
{
    struct feed_device *d = &f->devices[device];
    uint32_t limit = (uint32_t)MIN(MAX(batch_max, (uint64_t)1), (uint64_t)UINT32_MAX);
    d->batch = d->batch == 0 ? limit : MIN(d->batch, limit);
    for (uint32_t i = d->first_worker; i != NONE; i = f->workers[i].next_on_device) {
        struct feed_worker *w = &f->workers[i];
        if (!feed_worker_is_running(w))
            continue;
        w->window = MIN(w->window, 2ull * d->batch);
        if (w->mode == MODE_CHANNEL)
            emit(f, ACT_BATCH, i, 0, d->batch, 0);
    }
}

/*
 * Spares an item once. A worker that dies before its device gave a result suggests that the command cannot work
 * there, and says nothing about its item. The second time, with another device to try, the item is as likely the
 * reason. (With one device, the run ends then. Without retries, a broken command would set aside items that it never
 * had a chance to do.)
 */
static bool item_spare(struct feed *f, const struct feed_worker *w, uint64_t item)
{
    struct slot *slot = slot_of(f, item);
    if (w->state != WORKER_LIVE && !w->buffering.has_read) /* it has not read the item */
        return true;
    bool is_spared = !(slot->flags & SPARED) || f->seats.n_sets < 2 || f->config.retries == 0;
    slot->flags |= SPARED;
    return is_spared;
}

/*
 * The worker of a fixed batch died: the first time, the whole batch is tried once more, so that an accident changes
 * no batch. The second time, one of its items is as likely the reason, and that item is searched for.
 */
static bool batch_is_kept(struct feed *f, const struct sent_range *runs, size_t n_runs)
{
    bool is_kept = false;
    for (size_t i = 0; f->config.fixed_batches && i < n_runs; i++)
        for (uint32_t k = 0; k < runs[i].count; k++) {
            struct slot *slot = slot_of(f, runs[i].first + k);
            is_kept = is_kept || !(slot->flags & WHOLE_AGAIN);
            slot->flags |= WHOLE_AGAIN;
        }
    return is_kept;
}

/* Decides which of its unanswered items are charged or suspected. */
static void unanswered_judge(struct feed *f, uint32_t worker, enum feed_death death,
                             bool start_failure)
{
    struct feed_worker *w = &f->workers[worker];
    struct sent_range runs[1024];
    size_t n_runs;
    uint64_t in_hand = w->items.in_flight;
    uint32_t limit = batch_now(f, w);
    uint64_t total = unanswered_collect(f, worker, runs, countof(runs), &n_runs);
    if (total == 0)
        return;
    bool blamed = death == GONE_CRASH || death == GONE_CLEAN ||
                  (death == GONE_OOM && in_hand <= 1 && !w->has_shrunk) ||
                  (death == GONE_OOM && f->config.fixed_batches);
    enum feed_cause cause = death == GONE_OOM ? CAUSE_OOM : CAUSE_CRASH;
    if (w->ended_for == CAUSE_PROTOCOL)
        cause = CAUSE_PROTOCOL;
    if (death == GONE_OOM && !f->config.fixed_batches && in_hand > 1)
        device_limit(f, w->device, (limit > 0 ? MIN((uint64_t)limit, in_hand) : in_hand) / 2);
    bool is_spared = start_failure && (total > 1 || item_spare(f, w, runs[0].first));
    if (is_spared || !blamed || (total > 1 && batch_is_kept(f, runs, n_runs)))
        runs_to_pool(f, runs, n_runs, w->time.again_ms);
    else if (total == 1)
        item_charge(f, worker, runs[0].first, cause, true);
    else
        suspects_add(f, runs, n_runs, NONE, f->now_ms);
}

/* Charges the item that was over its time limit or broke the rule, and not its neighbours. */
static void blamed_charge(struct feed *f, uint32_t worker)
{
    struct feed_worker *w = &f->workers[worker];
    /* Another worker may have answered the item meanwhile, and its slot may be another item's. */
    bool is_open = w->blame != UINT64_MAX && is_in_window(f, w->blame);
    if (!is_open || !item_disown(f, worker, w->blame))
        return;
    bool is_breach = w->ended_for == CAUSE_PROTOCOL;
    item_charge(f, worker, w->blame, is_breach ? CAUSE_PROTOCOL : CAUSE_TIMEOUT, true);
}

/*
 * When an interrupted run goes on, its first items without a result are those that kill workers, if there are any,
 * since the others there were done. So a device is tried again, with another item.
 */
static void start_failed(struct feed *f, struct feed_worker *w, enum feed_death death,
                         bool had_items)
{
    struct feed_device *device = &f->devices[w->device];
    uint32_t tries = f->seats.n_sets > 1 || death == GONE_NOT_STARTED ? 1 : 2;
    bool may_be_items =
        f->config.had_results && had_items && ++f->counts.deaths_known_to_fail < KNOWN_TO_FAIL_MAX;
    device->start_failures++;
    device->is_hopeless = device->start_failures >= tries && !may_be_items;
    bool hope = f->counts.results > 0;
    for (uint32_t d = 0; d < f->config.n_devices; d++) {
        const struct feed_device *set = &f->devices[f->devices[d].first];
        bool is_out = set->is_hopeless || set->is_benched || set->is_drained;
        hope = hope || !is_out || set->is_awaited;
    }
    if (!hope)
        halt(f, HALT_NO_RESULT);
}

static void seat_cool(struct feed *f, uint32_t worker, bool was_suspect_work)
{
    struct feed_worker *w = &f->workers[worker];
    uint32_t deaths = w->deaths_in_row;
    bool is_benched = f->devices[w->device].is_benched;
    if (f->devices[w->device].is_drained) {
        feed_worker_state_set(f, w, WORKER_GONE);
        set_vacate(f, w->device);
        return;
    }
    feed_worker_state_set(f, w, is_benched ? WORKER_BENCHED : WORKER_COOLING);
    if (!is_benched)
        cooling_add(f, worker);
    w->memory_is_back = false;
    w->time.not_before_ms = f->now_ms;
    if (deaths > 1 && !was_suspect_work)
        w->time.not_before_ms += MIN(1000ull << MIN(deaths - 2, 5u), (uint64_t)BACKOFF_MAX_MS);
    if (deaths > RESTARTS_MAX)
        device_bench(f, w->device, CAUSE_RESTARTS);
}

/* Judges whether a filter's answers are in step with the items sent. */
static void filter_judge(struct feed *f, uint32_t worker, enum feed_death death)
{
    struct feed_worker *w = &f->workers[worker];
    if (w->mode != MODE_FILTER) {
        /* Provisional answers of a fixed batch: the whole batch is computed again. */
        if (w->items.provisional > 0)
            provisional_doubt(f, worker);
        return;
    }
    bool all_answered = w->items.in_flight == 0 && w->items.provisional > 0;
    /* The answers of a worker that was ended because it lingered still count. */
    bool lingered = death == GONE_ENDED && w->ended_for == CAUSE_NONE;
    bool ended_well = death == GONE_CLEAN || (w->input_closed && (death == GONE_CRASH || lingered));
    if (all_answered && ended_well)
        provisional_confirm(f, worker);
    else if (all_answered && (death == GONE_CRASH || death == GONE_OOM))
        provisional_doubt(f, worker); /* otherwise this could happen again and again */
    else
        provisional_revoke(f, worker);
    if (death == GONE_CLEAN && w->items.in_flight > 0 && ++f->counts.mismatches >= MISMATCHES_MAX)
        halt(f, HALT_MISMATCH);
}

/*
 * True if a channel worker sent a message that names no item: its items are run again in groups, as after a
 * crash. If it had items, its model was loaded, so this is not a failure to start.
 */
static bool has_babbled(const struct feed_worker *w)
{
    return w->ended_for == CAUSE_PROTOCOL && w->mode == MODE_CHANNEL && w->blame == UINT64_MAX;
}

/*
 * True if a death without a result may be the device's fault, and not that of the items in hand. An unreadable
 * message is an item's fault if workers have given results; if they have given none, it is as likely the command's.
 */
static bool is_devices_death(const struct feed *f, const struct feed_worker *w, bool babbled,
                             bool had_items, bool was_suspect_work)
{
    bool is_blamed = w->ended_for == CAUSE_PROTOCOL && w->blame != UINT64_MAX;
    if (babbled || is_blamed)
        return !had_items || f->devices[w->device].results == 0;
    return !was_suspect_work;
}

/*
 * A run that was interrupted shortly before its end may have nothing left but items that kill workers. It could never
 * end if these deaths were charged to the command; with so few items, charging the items costs little. At least as
 * many items must be done as are left; otherwise the command, which may have broken since, is the likelier cause.
 */
static bool are_few_left(const struct feed *f)
{
    struct feed_counts counts;
    feed_counts(f, &counts);
    return f->config.had_results && counts.input_is_final &&
           counts.known - counts.done - counts.aside <= MIN(counts.done, (uint64_t)FEW_LEFT_MAX);
}

/*
 * The command has given results in earlier sessions, but none for the items that are left: a death says more about
 * the item in hand than about the device. If more items are left, eight deaths without a result say that the command
 * does not work any more.
 */
static bool is_known_to_fail(const struct feed *f, const struct feed_worker *w)
{
    return w->items.in_flight > 0 &&
           (are_few_left(f) ||
            (f->config.only_failed_left && f->counts.deaths_known_to_fail < KNOWN_TO_FAIL_MAX));
}

void feed_worker_exited(struct feed *f, uint32_t worker, enum feed_death death)
{
    struct feed_worker *w = &f->workers[worker];
    if (!feed_worker_is_running(w))
        return;
    bool babbled = has_babbled(w);
    if (w->ended_for != CAUSE_NONE && death != GONE_DEVICE_LOST)
        death = babbled ? GONE_CRASH : GONE_ENDED;
    bool was_suspect_work = w->group != NONE;
    bool gave_nothing = w->answered_in_life == 0, had_items = w->items.in_flight > 0;
    bool is_normal = w->input_closed && w->ended_for == CAUSE_NONE && w->items.in_flight == 0;
    /* The limit can be halved only so often, which bounds this. */
    bool shrank = death == GONE_OOM && w->has_shrunk;
    bool fewer_may_help = death == GONE_OOM && (w->items.in_flight > 1 || shrank);
    bool is_with_host = death == GONE_DEVICE_LOST && f->devices[w->device].is_awaited;
    bool is_items = is_known_to_fail(f, w);
    f->counts.deaths_known_to_fail += is_items && gave_nothing;
    bool start_failure = gave_nothing && f->devices[w->device].results == 0 && !fewer_may_help &&
                         !is_items && !is_with_host && !(babbled && w->items.in_flight > 0) &&
                         (death != GONE_ENDED || w->ended_for == CAUSE_START);
    f->counts.crashes += death == GONE_CRASH;
    f->counts.ooms += death == GONE_OOM && !shrank;
    if (is_normal && death == GONE_CLEAN)
        buffered_learn(f, worker);
    w->buffering.gone_ms = f->now_ms;
    filter_judge(f, worker, death);
    if (is_with_host && w->ended_for == CAUSE_TIMEOUT) /* items on a silent host seem to hang */
        w->blame = UINT64_MAX;
    blamed_charge(f, worker);
    unanswered_judge(f, worker, death, start_failure);
    suspects_release(f, worker);
    if (f->suspects.quarantine == worker)
        f->suspects.quarantine = NONE;
    if (death == GONE_DEVICE_LOST)
        device_lost(f, w->device, w->time.started_ms);
    w->deaths_in_row += gave_nothing && !is_normal && !shrank && !is_items &&
                        is_devices_death(f, w, babbled, had_items, was_suspect_work);
    bool is_drained = f->devices[w->device].is_drained; /* that tells nothing about other devices */
    if (start_failure && !is_drained && !f->end.is_complete && !f->end.is_stopping)
        start_failed(f, w, death, had_items);
    seat_cool(f, worker, was_suspect_work);
}
