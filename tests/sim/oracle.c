/* SPDX-License-Identifier: Apache-2.0
 *
 * What must hold whatever happens, judged from outside: from the events that the feeder was told and the
 * actions that it answered with. What it believes itself is checked by feed_check.
 */
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "commit.h"
#include "sim/adversary.h"
#include "sim/feed_names.h"

/* ---- saying so ---- */

void failure_print(const struct world *w, const char *kind, const char *what)
{
    printf("FAIL seed=%lu commit=%s %s: %s, in session %u at step %lu\n"
           "replay: tools/sim --seed %lu --trace\n",
           w->seed, SIM_COMMIT, kind, what, w->session, w->steps, w->seed);
    fflush(stdout);
}

void unsafe(const struct world *w, const char *fmt, ...)
{
    char what[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof(what), fmt, args);
    va_end(args);
    failure_print(w, "safety", what);
    _exit(RUN_UNSAFE);
}

static const struct world *watched;

static void on_abort(int number)
{
    signal(number, SIG_DFL);
    failure_print(watched, "safety", "a broken invariant (above)");
    _exit(RUN_UNSAFE);
}

void failure_watch(const struct world *w)
{
    watched = w;
    signal(SIGABRT, on_abort);
}

/* session, step, time, > event or < action, whom, what: docs/guides/testing.md explains them */
void trace_event(const struct world *w, const struct feed_event *ev)
{
    printf("%u %6lu %9lu > %-10s %3u %6lu+%-5lu %s%d\n", w->session, w->steps, w->now_ms,
           event_names[ev->kind], ev->worker, ev->item, ev->count, ev->flag ? "flag " : "",
           (int)ev->death);
}

void trace_action(const struct world *w, const struct feed_action *a)
{
    printf("%u %6lu %9lu <   %-9s %2d %6lu+%-5lu %u\n", w->session, w->steps, w->now_ms,
           action_names[a->kind], (int)a->worker, a->item, a->count, a->detail);
}

/* ---- who has what ---- */

static bool held_drop(struct world *w, uint32_t worker, uint64_t item)
{
    struct item *it = &w->items[MIN(item, w->n_items)]; /* one beyond: nobody's */
    for (int i = 0; i < 2; i++) {
        if (it->holders[i] != worker + 1)
            continue;
        it->holders[i] = it->holders[1];
        it->holders[1] = 0;
        w->actors[worker].n_held--;
        return true;
    }
    return false;
}

static void held_drop_all(struct world *w, uint32_t worker)
{
    for (uint64_t i = 0; w->actors[worker].n_held > 0 && i < w->n_items; i++)
        held_drop(w, worker, i);
}

/* Does the worker stand on one of these devices? */
static bool is_on_any(const struct world *w, uint32_t worker, const bool *devices)
{
    for (uint32_t d = 0; d < w->n_devices; d++)
        if (devices[d] && w->first_of[d] == w->device_of[worker])
            return true;
    return false;
}

/*
 * What a dead worker had may be settled for it in the step that tells of its death, and then no more. Who
 * stands on a lost device is given nothing more: what it cannot do there is not its items' fault.
 */
void oracle_step_over(struct world *w)
{
    if (w->must_halt)
        unsafe(w, "it goes on, though more items were set aside than --max-failures allows");
    for (uint32_t worker = 0; worker < w->n_workers && !w->is_over; worker++)
        if (w->actors[worker].may_get && is_on_any(w, worker, w->device_is_lost))
            unsafe(w, "worker %u goes on, though a device of its set is lost", worker);
    for (uint32_t worker = 0; worker < WORKERS_MAX; worker++)
        if (w->actors[worker].is_gone)
            held_drop_all(w, worker);
}

/*
 * A worker of another host that is not slower than this one, as far as the feeder knows; of a worker whose only answer came
 * second it knows nothing.
 */
static bool any_waits_elsewhere(const struct world *w, uint32_t worker)
{
    struct feed_worker_view own, other;
    bool any = false;
    feed_worker(w->feed, worker, &own);
    for (uint32_t i = 0; i < w->n_workers; i++) {
        const struct actor *a = &w->actors[i];
        feed_worker(w->feed, i, &other);
        bool is_idle = a->alive && a->has_answered && a->n_held == 0 &&
                       (a->kind != A_CHANNEL || a->credits > 0);
        any = any || (is_idle && host_of_worker(w, i) != host_of_worker(w, worker) &&
                      other.mean_ms > 0 && other.mean_ms <= own.mean_ms);
    }
    return any;
}

/* Only while nobody else waits for work may a host get both copies of an item. */
static void frost_note(struct world *w, const struct item *item)
{
    if (item->holders[1] == 0)
        return;
    uint32_t host = w->frost.host, first = item->holders[0] - 1u, second = item->holders[1] - 1u;
    bool are_both = host_of_worker(w, first) == host && host_of_worker(w, second) == host;
    if (are_both && !any_waits_elsewhere(w, second))
        w->frost.is_judged = false;
}

static void held_add(struct world *w, uint32_t worker, uint64_t item)
{
    struct item *it = &w->items[item];
    bool may_be_copied = !w->config.no_reissue && !w->config.fixed_batches;
    for (int i = 1; i >= 0; i--)
        if (it->holders[i] != 0 && w->actors[it->holders[i] - 1].is_gone)
            held_drop(w, it->holders[i] - 1u, item);
    if (it->holders[0] == worker + 1 || it->holders[1] == worker + 1)
        unsafe(w, "item %lu was sent to worker %u, which has it", item, worker);
    if (it->holders[0] != 0 && (it->holders[1] != 0 || !may_be_copied))
        unsafe(w, "item %lu is in flight in too many places", item);
    it->holders[it->holders[0] != 0] = (uint8_t)(worker + 1);
    w->actors[worker].n_held++;
    frost_note(w, it);
}

/* ---- what the feeder is told ---- */

/* What a process says that is older than its set's return is no news. */
static void loss_note(struct world *w, const struct feed_event *ev)
{
    if (ev->kind == EV_DEVICE_LOST) {
        w->device_is_lost[ev->worker] = true;
        uint32_t set = w->first_of[ev->worker];
        w->set_is_awaited[set] = ev->flag && !w->set_is_drained[set];
        w->well_since_ms[set] = UINT64_MAX;
    } else if (ev->kind == EV_DEVICE_BACK) {
        w->well_since_ms[ev->worker] = MIN(w->well_since_ms[ev->worker], ev->now_ms);
    } else if (ev->kind == EV_EXIT && ev->death == GONE_DEVICE_LOST) {
        uint32_t set = w->device_of[ev->worker];
        bool is_news = w->actors[ev->worker].spawned_ms >= w->returned_ms[set];
        w->device_is_lost[set] |= is_news;
        if (is_news && !w->device_is_benched[set])
            w->well_since_ms[set] = UINT64_MAX;
    }
}

static void drain_note(struct world *w, const struct feed_event *ev)
{
    if (ev->kind == EV_AWAIT)
        w->seats_are_awaited = ev->flag;
    if (ev->kind != EV_SET_DRAIN)
        return;
    w->set_is_drained[ev->worker] = true;
    w->set_is_awaited[ev->worker] = w->set_is_lost[ev->worker] = false;
    w->set_may_be_ended[ev->worker] |= ev->flag;
}

void oracle_event(struct world *w, const struct feed_event *ev)
{
    struct actor *a = ev->worker < WORKERS_MAX ? &w->actors[ev->worker] : NULL;
    if (ev->kind == EV_EXIT) {
        a->has_process = false;
        w->n_loading -= a->is_loading;
        a->may_get = a->is_loading = false;
        a->is_gone = true;
    } else if (ev->kind == EV_READY || ev->kind == EV_OOM || ev->kind == EV_DONE ||
               ev->kind == EV_ANSWERS || ev->kind == EV_FAIL || ev->kind == EV_LOADED) {
        w->n_loading -= a->is_loading;
        a->is_loading = false;
        a->credits += ev->kind == EV_READY ? ev->count : 0;
        if (ev->kind == EV_READY && !a->has_asked) /* it is no filter, and has taken nothing yet */
            held_drop_all(w, ev->worker);
        a->has_asked = a->has_asked || ev->kind == EV_READY;
    }
    if (ev->kind == EV_ENDED)
        a->may_get = false;
    if (ev->kind == EV_FAIL && held_drop(w, ev->worker, ev->item) && !ev->flag)
        w->items[ev->item].no_retry = true;
    if (ev->kind == EV_UNFIT) {
        held_drop(w, ev->worker, ev->item);
        a->credits++; /* it was not given what it had asked for */
    }
    loss_note(w, ev);
    drain_note(w, ev);
    w->input_is_final |= ev->kind == EV_INPUT && ev->flag;
    if (ev->kind == EV_INPUT)
        w->known = MAX(w->known, ev->count);
}

/* ---- what it answers with ---- */

/* Have more items been set aside than --max-failures allows, so that no other can be wanted? `has_rate`: it may be so. */
static bool is_over_limit(const struct world *w, bool *has_rate)
{
    uint64_t n_aside = 0, n_settled = 0, percent = w->config.failures_percent;
    for (uint64_t i = 0; i < w->n_items; i++) {
        n_aside += w->items[i].outcome == 2;
        n_settled += w->items[i].outcome != 0;
    }
    *has_rate = percent > 0 && n_settled >= 100;
    return (w->config.failures_max > 0 && n_aside >= w->config.failures_max) ||
           (percent > 0 && w->input_is_final && n_aside * 100 > w->known * percent);
}

static void check_send(struct world *w, const struct feed_action *action)
{
    struct actor *a = &w->actors[action->worker];
    if (!a->may_get)
        unsafe(w, "items were sent to worker %u, which is not there or was told to end",
               action->worker);
    if (action->item + action->count > w->known)
        unsafe(w, "item %lu was sent before it was known", action->item + action->count - 1);
    if (w->is_complete || w->is_halted)
        unsafe(w, "item %lu was sent after the end", action->item);
    if (action->detail > w->config.retries + 1)
        unsafe(w, "item %lu is tried for the %uth time", action->item, action->detail);
    for (; w->frontier < w->n_items && w->items[w->frontier].outcome != 0; w->frontier++)
        ;
    if (!w->order && action->item + action->count > w->frontier + (1ull << w->config.spread_log2))
        unsafe(w, "item %lu is beyond the window from %lu", action->item, w->frontier);
    uint64_t most = a->has_asked ? a->credits : MAX(w->config.batch, 1u);
    if (a->kind == A_CHANNEL && action->count > most)
        unsafe(w, "worker %u got more than it had asked for", action->worker);
    a->credits -= MIN(a->credits, action->count);
    for (uint64_t i = action->item; i < action->item + action->count; i++) {
        if (w->items[i].is_durable)
            unsafe(w, "item %lu was sent again, though an earlier session settled it", i);
        if (w->items[i].outcome != 0)
            unsafe(w, "item %lu was sent after it was settled", i);
        held_add(w, action->worker, i);
    }
    if (a->kind == A_CHANNEL && !w->config.fixed_batches && a->batch > 0 && a->n_held > a->batch)
        unsafe(w, "worker %u got more at once than it was told", action->worker);
    uint64_t batch = w->config.fixed_batches ? w->config.batch : UINT64_MAX;
    if (a->kind == A_CHANNEL && action->item / batch != (action->item + action->count - 1) / batch)
        unsafe(w, "items %lu+%lu of two batches were sent together", action->item, action->count);
}

static void check_settled(struct world *w, uint64_t item, uint8_t how)
{
    if (item >= w->known)
        unsafe(w, "item %lu was settled, which is not known", item);
    if (w->items[item].outcome != 0)
        unsafe(w, "item %lu was settled twice", item);
    w->items[item].outcome = how;
}

static void check_commit(struct world *w, const struct feed_action *action)
{
    const struct actor *a = &w->actors[action->worker];
    uint64_t kept_after_ms = w->shows_rest ? KEPT_AFTER_MS : KEPT_BLINDLY_MS;
    if (a->is_written_off && a->kind >= A_KEYED) /* a filter's answers may have been awaiting it */
        unsafe(w, "item %lu was committed by worker %u, which was to be ended", action->item,
               action->worker);
    for (uint64_t i = action->item; i < action->item + action->count; i++) {
        check_settled(w, i, 1);
        if (w->items[i].is_unfit)
            unsafe(w, "item %lu was committed, whose record nobody got", i);
        if (w->is_steady && w->now_ms - w->items[i].worked_ms > kept_after_ms)
            unsafe(w, "item %lu was computed by worker %u %lu ms before it was committed", i,
                   action->worker, w->now_ms - w->items[i].worked_ms);
        /* A stray line may stand for an answer, if it is followed by silence long enough. */
        if (w->strays == 0 && !(w->items[i].worked & 1u << action->worker))
            unsafe(w, "item %lu was committed before worker %u had computed it", i, action->worker);
        if (!held_drop(w, action->worker, i))
            unsafe(w, "item %lu was committed by worker %u, which did not have it", i,
                   action->worker);
        for (uint32_t other = 0; other < WORKERS_MAX; other++)
            held_drop(w, other, i);
    }
}

static void check_spawn(struct world *w, const struct feed_action *action)
{
    struct actor *a = &w->actors[action->worker];
    if (action->worker >= w->n_workers || a->alive || a->may_get || a->has_process)
        unsafe(w, "worker %u was started on a seat that is taken", action->worker);
    if (w->is_complete || w->is_halted)
        unsafe(w, "worker %u was started after the end", action->worker);
    if (is_on_any(w, action->worker, w->device_is_benched))
        unsafe(w, "worker %u was started on a device that is benched", action->worker);
    if (w->set_is_drained[w->device_of[action->worker]])
        unsafe(w, "worker %u was started on a set that was given back", action->worker);
    if (w->config.loading_max > 0 && w->n_loading >= w->config.loading_max)
        unsafe(w, "worker %u is one too many that load at once", action->worker);
    if (w->now_ms < w->next_start_ms)
        unsafe(w, "worker %u was started %lu ms too soon after another", action->worker,
               w->next_start_ms - w->now_ms);
    w->next_start_ms = w->now_ms + w->config.stagger_ms;
    w->n_loading++;
    a->spawned_ms = w->now_ms;
    a->has_process = true;
}

static void check_return(struct world *w, uint32_t set)
{
    if (!w->device_is_benched[set] || w->set_is_drained[set])
        unsafe(w, "set %u is used again, and was not benched", set);
    uint64_t least_ms = w->set_is_awaited[set] ? 0 : RETURN_LEAST_MS;
    if (w->well_since_ms[set] > w->now_ms || w->now_ms - w->well_since_ms[set] < least_ms)
        unsafe(w, "set %u is used again, and was not well for long enough", set);
    w->set_is_awaited[set] = false;
    w->device_is_benched[set] = w->set_is_lost[set] = false;
    w->returned_ms[set] = w->now_ms;
    for (uint32_t d = 0; d < w->n_devices; d++)
        w->device_is_lost[d] = w->device_is_lost[d] && w->first_of[d] != set;
}

static void check_halt(struct world *w, enum feed_halt why)
{
    bool is_for_lack = why == HALT_NO_DEVICES || why == HALT_DRAINED, has_rate;
    if (why == HALT_FAILURES && !is_over_limit(w, &has_rate) && !has_rate)
        unsafe(w, "given up for failures, and there are not so many");
    for (uint32_t set = 0; set < w->n_devices && is_for_lack; set++)
        if (w->set_is_awaited[set] && w->set_is_lost[set])
            unsafe(w, "given up for lack of devices, and set %u may be back with its host", set);
    if (is_for_lack && w->seats_are_awaited)
        unsafe(w, "given up for lack of devices, and others may come");
    for (uint32_t worker = 0; worker < w->n_workers && is_for_lack; worker++)
        if (w->actors[worker].has_process && w->set_is_drained[w->device_of[worker]])
            unsafe(w, "given up for lack of devices, and worker %u finishes its items", worker);
}

/* Who finishes what it has, because its set was given back, is left alone unless there is another reason. */
static void check_terminate(const struct world *w, const struct feed_action *action)
{
    uint32_t set = w->device_of[action->worker];
    bool is_for_stop = action->detail == CAUSE_STOP && !w->is_halted && !w->is_complete;
    if (is_for_stop && !w->set_may_be_ended[set] &&
        !is_on_any(w, action->worker, w->device_is_lost))
        unsafe(w, "worker %u was ended, and is to finish its items", action->worker);
}

static void check_vacated(struct world *w, uint32_t set)
{
    if (!w->set_is_drained[set] || w->set_is_vacated[set])
        unsafe(w, "set %u is vacated twice, or was not given back", set);
    w->set_is_vacated[set] = true;
    for (uint32_t worker = 0; worker < w->n_workers; worker++)
        if (w->device_of[worker] == set && w->actors[worker].has_process)
            unsafe(w, "set %u is vacated, and worker %u is there", set, worker);
}

static void check_over(const struct world *w)
{
    for (uint32_t set = 0; set < w->n_devices; set++)
        if (w->set_is_drained[set] && !w->set_is_vacated[set])
            unsafe(w, "over, and nobody heard that set %u is vacated", set);
}

static void check_aside(struct world *w, const struct feed_action *action)
{
    check_settled(w, action->item, 2);
    bool is_unfit = action->detail == CAUSE_UNFIT;
    if (is_unfit && !w->items[action->item].is_unfit)
        unsafe(w, "item %lu was set aside for cause %u", action->item, action->detail);
    bool is_early = action->count < w->config.retries + 1 && !w->items[action->item].no_retry;
    if (!is_unfit && (is_early || action->count > w->config.retries + 1))
        unsafe(w, "item %lu was set aside after %lu failures", action->item, action->count);
    for (uint32_t worker = 0; worker < WORKERS_MAX; worker++)
        held_drop(w, worker, action->item);
    bool has_rate;
    w->must_halt = !w->is_halted && !w->is_complete && is_over_limit(w, &has_rate);
}

void oracle_action(struct world *w, const struct feed_action *action)
{
    struct actor *a = action->worker < WORKERS_MAX ? &w->actors[action->worker] : NULL;
    if (w->is_over)
        unsafe(w, "%s after it was over", action_names[action->kind]);
    switch (action->kind) {
    case ACT_SEND:
        check_send(w, action);
        break;
    case ACT_SPAWN:
        check_spawn(w, action);
        break;
    case ACT_COMMIT:
        check_commit(w, action);
        break;
    case ACT_SET_ASIDE:
        check_aside(w, action);
        break;
    case ACT_END:
    case ACT_TERMINATE:
        if (!a->may_get && action->kind == ACT_END)
            unsafe(w, "worker %u was told to end twice, or is not there", action->worker);
        if (action->kind == ACT_TERMINATE)
            check_terminate(w, action);
        w->n_loading -= a->is_loading;
        a->may_get = a->is_loading = false;
        a->is_written_off = action->kind == ACT_TERMINATE;
        break;
    case ACT_BATCH:
        a->batch = action->count;
        break;
    case ACT_REVOKE: /* they wait again; which of them, only the feeder knows */
        held_drop_all(w, action->worker);
        break;
    case ACT_BENCH:
        if (w->set_is_drained[action->worker])
            unsafe(w, "set %u is benched, and was given back", action->worker);
        w->device_is_benched[action->worker] = true;
        w->set_is_lost[action->worker] = action->detail == CAUSE_LOST;
        break;
    case ACT_RETURN:
        check_return(w, action->worker);
        break;
    case ACT_COMPLETE:
        for (uint64_t i = 0; i < w->n_items; i++)
            if (w->items[i].outcome == 0)
                unsafe(w, "complete, and item %lu is open", i);
        break;
    case ACT_HALT:
        w->must_halt = false;
        check_halt(w, action->detail);
        break;
    case ACT_VACATED:
        check_vacated(w, action->worker);
        break;
    case ACT_OVER:
        check_over(w);
        break;
    case ACT_DROP:
    case ACT_NOTE:
        break;
    }
}

void oracle_durable(struct world *w, uint64_t first, uint64_t count)
{
    for (uint64_t i = first; i < first + count; i++) {
        if (w->items[i].is_durable)
            unsafe(w, "item %lu is durable twice", i);
        w->items[i].is_durable = true;
    }
}
