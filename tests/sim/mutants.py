#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants bugs into copies of what a simulator plays, one at a time, and sees whether it finds each.

    tests/sim/mutants.py SOURCE_ROOT BUILD_ROOT feed|gang|dag|fit|shell|hosts|protocol
    tests/sim/mutants.py SOURCE_ROOT --texts     only sees whether the texts occur

A mutant is a file, a text that occurs in it once, and another in its place. The copy is compiled as the build
folder compiles the file, and linked before the libraries, so that it takes the place of that one object. Each must
be caught within the simulator's number of seeds; the status is 1 if one is not, or if a text no longer occurs (then
mend the table below).
"""
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

# name: (target, its arguments, how it says what it found)
SIMULATORS = {
    "feed": ("tests/sim/sim_feed", ["--seeds", "3000"], r"FAIL (seed=\d+) commit=\S+ ([^\n]*)"),
    "gang": ("tests/sim/sim_gang", ["--seeds", "1000"], r"FAIL (seed=\d+) commit=\S+ ([^\n]*)"),
    "dag": ("tests/sim/sim_dag", ["--seeds", "16000"], r"FAIL (seed=\d+) commit=\S+ ([^\n]*)"),
    "fit": ("tests/unit/core/test_core_fit", [], r"not ok (\d+) - ([^\n]*)"),
    "shell": ("tests/sim/sim_shell", ["--seeds", "8000"], r"(seed \d+): ([^\n]*)"),
    "hosts": ("tests/sim/sim_shell", ["--hosts", "--seeds", "3000"], r"(seed \d+): ([^\n]*)"),
    "protocol": ("tests/sim/sim_protocol", [], r"((?:short|long) session, [^:]*): ([^\n]*)"),
}


# what it breaks: (file of src/core, text, replacement)
FEED = {
    "a share of failures is judged by what was tried alone": (
        "feed_items.c", "all * 100 > f->window.known * percent", "all * 100 > f->window.known * 100"),
    "a share of failures ends the run an item too soon": (
        "feed_items.c", "all * 100 > f->window.known * percent", "(all + 1) * 100 > f->window.known * percent"),
    "a late copy is committed as well": (
        "feed_worker.c", "emit(f, ACT_DROP, worker, item, 1, 0);", "emit(f, ACT_COMMIT, worker, item, 1, 0);"),
    "an item that waits for its retry wakes nobody": (
        "feed.c", "return MIN(f->wake_ms, looks_next_ms(f));", "return looks_next_ms(f);"),
    "one try too many": (
        "feed_items.c", "slot->failures > f->config.retries)", "slot->failures > f->config.retries + 1)"),
    "one try too few": (
        "feed_items.c", "slot->failures > f->config.retries)", "slot->failures >= f->config.retries)"),
    "what a dead worker had in hand is forgotten": (
        "feed_death.c", "batch_is_kept(f, runs, n_runs)))\n        runs_to_pool(f, runs, n_runs, w->time.again_ms);\n",
        "batch_is_kept(f, runs, n_runs)))\n        return;\n"),
    "a benched device gets workers again": (
        "feed_death.c", "bool is_benched = f->devices[w->device].is_benched;", "bool is_benched = false;"),
    "a device that is back is used at once": (
        "feed_bench.c", "(uint64_t)RETURN_AFTER_MS << d->n_returns", "0"),
    "the run ends although a lost host may be back": (
        "feed_bench.c", "f->seats.are_awaited || any_is_awaited(f)", "f->seats.are_awaited"),
    "the run ends although seats may come": (
        "feed_bench.c", "f->seats.are_awaited || any_is_awaited(f)", "any_is_awaited(f)"),
    "the run ends while workers of a set that was given back finish": (
        "feed_bench.c", "f->seats.n_sets_alive > 0 || f->seats.n_draining > 0", "f->seats.n_sets_alive > 0"),
    "a set that was given back gets workers again": (
        "feed_death.c", "    if (f->devices[w->device].is_drained) {\n", "    if (false) {\n"),
    "workers of a set that was given back are ended with what they have": (
        "feed_seats.c", "    else if (now)\n", "    else\n        feed_worker_terminate(f, worker, CAUSE_STOP);\n    if (now)\n"),
    "a set that was given back is waited for when its host is lost": (
        "feed_seats.c", "d->is_benched = d->is_lost = d->is_awaited = false;", "d->is_benched = d->is_lost = false;"),
    "seats that come are not used": (
        "feed_seats.c", "uint32_t worker = f->config.n_workers++;\n", "uint32_t worker = f->config.n_workers++;\n    f->config.n_workers--;\n"),
    "a run waits for a host that was given up": (
        "feed.c", "d->is_awaited = ev->flag && may_return;", "d->is_awaited |= ev->flag && may_return;"),
    "a device that is lost again in its pause is used": (
        "feed.c", "    d->return_at_ms = UINT64_MAX;\n", ""),
    "a device that was lost and comes back gets workers": (
        "feed.c", "    f->workers[ev->worker].memory_is_back = true;\n",
        "    f->workers[ev->worker].memory_is_back = true;\n"
        "    f->devices[f->workers[ev->worker].device].is_benched = false;\n"),
    "a second device that nobody benches": (
        "feed_seats.c", "    f->seats.n_sets_alive += first == device;\n", "    f->seats.n_sets_alive++;\n"),
    "a lost second device is charged to items": (
        "feed.c", "uint32_t set = f->devices[ev->worker].first;",
        "uint32_t set = ev->worker;"),
    "one that does not end by itself is waited for": (
        "feed_limits.c", "        emit(f, ACT_TERMINATE, worker, 0, 0, CAUSE_LINGERS);\n", ""),
    "who was told to end is still believed": (
        "feed.c", "(w->ended_for == CAUSE_NONE || ev->kind == EV_EXIT)", "true"),
    "one that has ended well meets a limit while its file is looked at": (
        "feed_worker.c", "!feed_worker_is_running(w) || w->has_ended || ", "!feed_worker_is_running(w) || "),
    "credits are never used up": (
        "feed_send.c", "    w->credits -= MIN(w->credits, (uint64_t)range.count);\n", ""),
    "the window has no end": (
        "feed_items.c", "    uint64_t end = MIN(f->window.known, window_end(f));\n", "    uint64_t end = f->window.known;\n"),
    "of several commits at once one is not counted": (
        "feed_items.c", "    f->counts.settled += count;\n", "    f->counts.settled += count > 2 ? count - 1 : count;\n"),
    "what an earlier session did is done again": (
        "feed_items.c", "            items_skip(f, f->window.next, reach);\n",
        "            for (uint64_t at = f->window.next; at < reach; at++)\n"
        "                pool_add(f, (struct sent_range){at, 1}, f->now_ms, NONE);\n"),
    "a block is used again before the frontier has left it": (
        "feed_window.c", "return f->window.frontier - offset_of(f, f->window.frontier) + f->window.spread;", "return f->window.frontier + f->window.spread;"),
    "an unfolded block has forgotten its answers": (
        "feed_window.c", ".flags = offset < block->n_answered ? ANSWERED_FIRST : 0", ".flags = 0"),
    "an unfolded block is lost to its owner's list": (
        "feed_window.c", "    link_after(f, w, around.prev, ring);\n", ""),
    "workers are started after a stop": (
        "feed_worker.c", "    if (f->end.is_stopping || f->end.is_complete)\n        return;\n    returns_check(f);\n",
        "    returns_check(f);\n"),
    "a device that ran out of memory gets as much again": (
        "feed_send.c", "        limit = MIN(limit, (uint64_t)batch);\n", "        limit = MAX(limit, (uint64_t)batch);\n"),
    "one worker too many loads": (
        "feed_worker.c", "f->seats.n_loading >= f->config.loading_max", "f->seats.n_loading > f->config.loading_max"),
    "a failed line of a filter is counted twice": (
        "feed_worker.c", "        w->items.in_flight -= is_named;\n", "        w->items.in_flight--;\n"),
    "a worker starts too soon after another": (
        "feed_worker.c", "f->now_ms < f->seats.start_at_ms", "f->now_ms + 1 < f->seats.start_at_ms"),
    "nobody looks whether a worker hangs": (
        "feed_send.c", "    limits_arm(f, worker);\n", ""),
    "batches of one run are mixed": (
        "feed_items.c", "    run = MIN(run, batch_left(f, f->window.next));\n", ""),
    "revoked answers are forgotten altogether": (
        "feed_items.c", "    owned_return(f, worker, true);\n", ""),
    "a copy goes to a third worker": (
        "feed_window.c", "slot.owner[1] == 0 && !slot.copy_failed", "!slot.copy_failed"),
    "an item that fails is copied to and fro": (
        "feed_window.c", "slot.owner[1] == 0 && !slot.copy_failed", "slot.owner[1] == 0"),
    "a copy goes to the host that hangs": (
        "feed_reissue.c", "    if (leave_to_another_host(", "    if (false && leave_to_another_host("),
    "a filter is not drained before the end": (
        "feed_worker.c", "    return w->items.provisional > ring_share || is_time;\n", "    return is_time && false;\n"),
    "the lives of a filter that buffers have no end": (
        "feed_buffered.c", "    ms = MAX(ms, (double)LIFE_MIN_MS);\n", "    ms = 1e9;\n"),
    "a group that nobody takes is dropped": (
        "feed_groups.c", "        group_wait(f, index); /* what was not sent yet, for the next worker */\n",
        "        group_free(f, index);\n"),
}


FIT = {
    "the margin is not kept": ("fit.c", "limit_bytes > 0 && peak_of(view, size) > limit_bytes", "false"),
    "a size above one that is out is tried": (
        "fit.c", "for (size_t i = 0; i < fit->n_sizes && !view.out; i++)", "for (size_t i = 0; i < fit->n_sizes; i++)"),
    "sizes are no multiples": ("fit.c", "return batch - batch % fit->wish.multiple;", "return batch;"),
    "the start is rounded down": (
        "fit.c", "(own->multiple - own->start % own->multiple) % own->multiple", "-(own->start % own->multiple)"),
    "the largest size that was asked for is passed": ("fit.c", "at > max / 2 ? max : 2 * at", "2 * at"),
    "a size that fails once stays good": ("fit.c", "if (size->n_runs == 0 || !is_good)", "if (size->n_runs == 0)"),
    "the largest size is the best, however slow": ("fit.c", "if (enough <= 0)", "if (enough >= 0)"),
    "the fastest size is the best, however large": (
        "fit.c", "(1 - view->fit->wish.near) * best_rate(view)", "best_rate(view)"),
    "a plateau is not seen": ("fit.c", "    return before > 0 &&", "    return before < 0 &&"),
    "one doubling without a gain ends the search": ("fit.c", "view->good->batch / 4 : 0", "view->good->batch / 2 : 0"),
    "a slow run is not repeated": (
        "fit.c", "        batch = unsure(&view);", "        batch = 0;"),
    "the slowest run counts": ("fit.c", "MAX(size->rate, trial->rate)", "size->rate > 0 ? MIN(size->rate, trial->rate) : trial->rate"),
    "the line has no fixed part": ("fit.c", "line.fixed_bytes = weighted_median(slopes, n);", "line.fixed_bytes = 0;"),
    "two sizes are enough to end the search": ("fit.c", "    LINE_SIZES = 3,", "    LINE_SIZES = 2,"),
    "a first size that does not fit ends the search": (
        "fit.c", "first->outcome == FIT_FAILED || first", "first->outcome != FIT_OK || first"),
    "what took too long is tried again and again": ("fit.c", " || view->out->outcome == FIT_TIMEOUT", ""),
    "a peak that falls is not told": ("fit.c", "(1 - fall_share) * (double)highest", "0 * (double)highest"),
    "nonsense is a rate": ("fit.c", "return rate > 1e-100 && rate < 1e100;", "return rate > 0;"),
}

GANG = {
    "an exit of an earlier generation counts": (
        "gang.c", "ev->generation != g->view.generation || ", ""),
    "a rank ends twice": (
        "gang.c", "    if (is_gone(m, local_rank))\n", "    if (false)\n"),
    "a rank that fails counts as one that ended well": (
        "gang.c", "    g->view.n_well += ev->status == 0;\n", "    g->view.n_well++;\n"),
    "what fails because it is ended is blamed": (
        "gang.c", "    } else if (g->view.state == GANG_WORKS) {\n        g->is_final", "    } else {\n        g->is_final"),
    "a node that is lost while ranks are ended is blamed": (
        "gang.c", "    if (g->view.state == GANG_WORKS)\n        fail(g, GANG_LOST", "    if (true)\n        fail(g, GANG_LOST"),
    "a node that is lost fails nothing": (
        "gang.c", "    if (g->view.state == GANG_WORKS)\n        fail(g, GANG_LOST", "    if (false)\n        fail(g, GANG_LOST"),
    "the ranks of a lost node are waited for": (
        "gang.c", "    g->view.n_alive -= m->n_left;\n    m->n_left = 0;\n    memset(m->gone, 0xff, sizeof(m->gone));\n", ""),
    "a rank that is said to stand still while ranks are ended is blamed": (
        "gang.c", "    if (g->view.state != GANG_WORKS || ev->generation", "    if (g->view.state == GANG_GATHERS || ev->generation"),
    "a rank that has ended stands still": (
        "gang.c", "    if (!is_gone(m, ev->rank - m->first_rank))\n", "    if (true)\n"),
    "a failure leaves the others alone": (
        "gang.c", "    everybody_end(g, ENDED_POLITELY);\n", "    g->view.state = GANG_ENDS;\n"),
    "a failure ends the others at once": (
        "gang.c", "    everybody_end(g, ENDED_POLITELY);\n", "    everybody_end(g, ENDED_AT_ONCE);\n"),
    "each stop is told again": (
        "gang.c", "    if (level <= g->level)\n", "    if (level < g->level)\n"),
    "a stop at once after a polite one is not told": (
        "gang.c", "    if (level <= g->level)\n", "    if (g->level != NOT_ENDED)\n"),
    "nodes without ranks are ended": (
        "gang.c", "        if (g->members[i].n_left > 0)\n", "        if (true)\n"),
    "all start again although somebody has stopped them": (
        "gang.c", "    else if (g->is_stopping)\n", "    else if (false)\n"),
    "ranks that all ended well were stopped": (
        "gang.c", "g->view.n_well == g->view.world_size ? GANG_WELL : GANG_STOPPED", "g->is_stopping ? GANG_STOPPED : GANG_WELL"),
    "a generation starts as failed": (
        "gang.c", "    g->has_failed = g->is_final = false;\n", "    g->is_final = false;\n"),
    "a generation has the number of the one before": (
        "gang.c", "    g->view.generation += g->view.world_size > 0;", "    g->view.generation += 0;"),
    "a failure that would come again is followed by another generation": (
        "gang.c", "!g->is_final && g->view.n_restarts_used", "g->view.n_restarts_used"),
    "one restart too many": (
        "gang.c", "g->view.n_restarts_used < g->config.n_restarts", "g->view.n_restarts_used <= g->config.n_restarts"),
    "one restart too few": (
        "gang.c", "g->view.n_restarts_used < g->config.n_restarts", "g->view.n_restarts_used + 1 < g->config.n_restarts"),
    "a healthy generation gives no restarts back": (
        "gang.c", "        g->view.n_restarts_used = 0;\n", "        g->view.n_restarts_used += 0;\n"),
    "every generation is healthy": (
        "gang.c", "g->config.healthy_ms > 0 && ", ""),
    "the first pause is doubled": (
        "gang.c", "MIN(g->view.n_restarts_used, DOUBLINGS_MAX)", "MIN(g->view.n_restarts_used + 1, DOUBLINGS_MAX)"),
    "the pause doubles once too often": (
        "gang.c", "    DOUBLINGS_MAX = 6,", "    DOUBLINGS_MAX = 7,"),
    "nodes start while ranks may live on one that is gone": (
        "gang.c", "    g->nodes[ev->node].gone_ms = MAX(g->nodes[ev->node].gone_ms, ev->gone_ms);\n", ""),
    "a node that is known to be empty is waited for": (
        "gang.c", "    g->nodes[ev->node].gone_ms = 0;\n", ""),
    "a node that is empty speaks for all": (
        "gang.c", "    g->nodes[ev->node].gone_ms = 0;\n", "    for (uint32_t i = 0; i < g->nodes_end; i++)\n        g->nodes[i].gone_ms = 0;\n"),
    "nodes start in the pause": (
        "gang.c", "MAX(MAX(at_ms, g->pause_end_ms), all_gone_ms(g))", "MAX(at_ms, all_gone_ms(g))"),
    "others are waited for anew when one comes": (
        "gang.c", "    if (g->enough_ms == NEVER && has_enough(g))\n", "    if (has_enough(g))\n"),
    "enough nodes of the gathering before are enough": (
        "gang.c", "    g->enough_ms = NEVER;\n", ""),
    "all nodes that may take part wait for more": (
        "gang.c", "    else if (g->view.n_nodes_up < awaited(g))\n", "    else\n"),
    "nodes that never came are waited for": (
        "gang.c", "MIN(MAX(g->config.n_nodes_awaited, g->n_ever), g->config.n_nodes_max)", "g->config.n_nodes_max"),
    "a node that came late is not waited for": (
        "gang.c", "MAX(g->config.n_nodes_awaited, g->n_ever)", "g->config.n_nodes_awaited"),
    "a node that comes back is one more": (
        "gang.c", "    g->n_ever += node->count == 0;\n", "    g->n_ever++;\n"),
    "too few nodes are given up although they may take any time": (
        "gang.c", "g->config.join_ms > 0 ? later(g->since_ms, g->config.join_ms) : NEVER", "later(g->since_ms, g->config.join_ms)"),
    "too few nodes are waited for without end": (
        "gang.c", "g->config.join_ms > 0 ? later(g->since_ms, g->config.join_ms) : NEVER", "NEVER"),
    "a node that is told twice is two": (
        "gang.c", "    g->view.n_nodes_up += !node->is_up;\n", "    g->view.n_nodes_up++;\n"),
    "nodes that are gone become members": (
        "gang.c", "        if (g->nodes[i].is_up)\n", "        if (g->nodes[i].count > 0)\n"),
    "ranks that linger are not noticed": (
        "gang.c", "    return is_limited ? later(", "    return false ? later("),
    "the last rank that ended well is the first": (
        "gang.c", "MIN(g->first_well_ms, g->now_ms)", "g->now_ms"),
    "the wrong rank lingers": (
        "gang.c", "    fail(g, GANG_LINGERS, first_left(m), 0);\n", "    fail(g, GANG_LINGERS, m->first_rank, 0);\n"),
    "ranks beyond the first word of bits share their bits": (
        "gang.c", "m->gone[local_rank / WORD_BITS] |=", "m->gone[0] |="),
    "a time that is over comes before what happened in it": (
        "gang.c", "    handlers[ev->kind](g, ev);\n",
        "    if (g->now_ms >= gang_wake_ms(g))\n        states[g->view.state].due(g);\n    handlers[ev->kind](g, ev);\n"),
}


DAG = {
    "what needs a blocked job is not blocked": (
        "dag_graph.c", "            dag->jobs.at[follower].next = list;\n            list = follower;\n", ""),
    "a job starts before the last that it needs is done": (
        "dag_graph.c", "j->n_left += need->state != DAG_DONE;", "j->n_left = need->state != DAG_DONE;"),
    "a retry frees nobody": (
        "dag.c", "        dag_bad_spread(dag, ev->job, false);\n", "        (void)0;\n"),
    "a retry frees what another failure blocks": (
        "dag_graph.c", "f->n_bad += is_bad ? 1 : UINT32_MAX;", "f->n_bad = is_bad ? f->n_bad + 1 : 0;"),
    "memory is not counted": (
        "dag_place.c", "mem_bytes > device->mem_bytes - load->mem_bytes", "false"),
    "memory is not given back": (
        "dag_place.c", "is_more ? mem_bytes : -mem_bytes", "is_more ? mem_bytes : 0"),
    "a device is shared beyond the whole": (
        "dag_place.c", "d->want.share + load->share <= DAG_SHARE_WHOLE", "d->want.share + load->share <= DAG_SHARE_WHOLE + 50"),
    "who wants a device for itself joins others": (
        "dag_place.c", "        return load->n_jobs == 0;\n", "        return load->n_alone == 0;\n"),
    "others join who wants a device for itself": (
        "dag_place.c", "load->n_alone > 0 || mem_bytes >", "mem_bytes >"),
    "memory is shared with one who reserves none": (
        "dag_place.c", "        return load->n_share_only == 0;\n", "        return true;\n"),
    "CPUs are not counted": (
        "dag_place.c", "n_wanted + look->now->cpus_used[host] <= n_cpus", "true"),
    "a device that is down is used": (
        "dag_place.c", "(d->is_up || look->reach == REACH_EVER)", "true"),
    "a host that is down is used": (
        "dag_place.c", "(look->reach == REACH_UP && !dag->hosts.at[host].is_up)", "false"),
    "a device that is denied is used": (
        "dag_place.c", "!device_is_denied(dag, look->demand->want.place, device) &&", ""),
    "a host that is not allowed is used": (
        "dag_place.c", "!host_is_allowed(dag, want->place, host) || ", ""),
    "a benched device is used": (
        "dag_place.c", "!d->is_benched && ", ""),
    "a job goes back to the device that is ill": (
        "dag_place.c", "demand.avoids_ill = j->has_ill;", "demand.avoids_ill = false;"),
    "a job that was ill everywhere never runs": (
        "dag_place.c", "narrow.avoids_ill && !(wide & 1)", "narrow.avoids_ill"),
    "a job gets fewer devices than it could": (
        "dag_place.c", "MIN(offer->n_fitting, want->n_devices_max)", "MIN(offer->n_fitting, MAX(want->n_devices_min, 1u))"),
    "one job strikes twice": (
        "dag_end.c", "d->is_benched || dag_is_ill(dag, device, job)", "d->is_benched"),
    "one try too many": (
        "dag_end.c", "j->n_failures > j->n_retries", "j->n_failures > j->n_retries + 1"),
    "a command that cannot work is tried again": (
        "dag_end.c", "is_fatal || j->n_failures", "j->n_failures"),
    "a job stays where its command is not": (
        "dag.c", "    want.place = place;\n", "    (void)place;\n"),
    "a job is lost without end": (
        "dag_end.c", "    if (j->n_lost == LOST_MAX) {\n", "    if (false) {\n"),
    "out of memory beside others, and never alone": (
        "dag_end.c", "    if (!was_alone) {\n", "    if (false) {\n"),
    "a larger device is as large": (
        "dag_place.c", "demand.mem_min += j->oom_step == OOM_STEP_LARGER;", "demand.mem_min += 0;"),
    "a smaller batch goes to a smaller device": (
        "dag_place.c", "if (j->oom_step >= OOM_STEP_LARGER)", "if (j->oom_step == OOM_STEP_LARGER)"),
    "a batch is halved once too often": (
        "dag_end.c", "j->n_halvings < j->n_batch_steps", "j->n_halvings <= j->n_batch_steps"),
    "a cancelled job that fails is tried again": (
        "dag_end.c", "    else if (dag->jobs.at[job].wish == WISH_CANCELLED)\n", "    else if (false)\n"),
    "a retry of a job that is being ended is forgotten": (
        "dag.c", "        j->wish = WISH_AGAIN;\n", "        (void)j;\n"),
    "a held job starts": (
        "dag.c", "    if (!j->is_held)\n", "    if (true)\n"),
    "a released job is forgotten": (
        "dag.c", "    if (j->state == DAG_READY && !is_held)\n", "    if (false)\n"),
    "something starts after a stop": (
        "dag_plan.c", "return !dag->is_stopped && ", "return "),
    "a failure halts nothing": (
        "dag_plan.c", "!dag->config.keeps_going && dag->n_of[DAG_FAILED] > 0", "false"),
    "one job too many runs": (
        "dag_plan.c", "running(dag) < dag->config.n_running_max", "running(dag) <= dag->config.n_running_max"),
    "that it is over is told again": (
        "dag.c", "    if (is_over && !dag->is_over)\n", "    if (is_over)\n"),
    "devices that may come are not awaited": (
        "dag.c", "!dag->is_awaiting && !dag_place", "!dag_place"),
    "a benched device could still run a job": (
        "dag_end.c", "    dag->shapes.is_all_due = true;\n    dag_emit(dag, DACT_BENCH", "    dag_emit(dag, DACT_BENCH"),
    "jobs that can never run wait": (
        "dag.c", "    dag->shapes.is_sweep_due |= s->is_unfit && !was_unfit;\n", ""),
    "the head gets later": (
        "dag_plan.c", "!dag->hold.is_there || ends_in_time(dag, job)", "true"),
    "a job starts that ends a little too late for the head": (
        "dag_plan.c", "dag->now_ms + expected_ms <= dag->hold.start_ms", "dag->now_ms + expected_ms <= dag->hold.start_ms + 50"),
    "what started after the head was found takes its devices": (
        "dag_plan.c", "    if (!is_free)\n        dag_take(", "    if (false)\n        dag_take("),
    "patience does not help": (
        "dag_plan.c", "if (hold->start_ms == NEVER && !is_patient(dag, job))", "if (hold->start_ms == NEVER)"),
    "nobody starts before a head that has no devices": (
        "dag_plan.c", "if (hold->start_ms == NEVER && !is_patient(dag, job))", "if (false)"),
    "a forecast forgets who ends first": (
        "dag_plan.c", "    if (x != y)\n        return x < y;\n", ""),
    "a path is not known anew": (
        "dag.c", "    dag->paths.is_due |= j->expected_ms != expected_ms;\n", ""),
    "a path ends at the first follower": (
        "dag_graph.c", "path_ms : MAX(path_ms, f->path_ms);", "path_ms : f->path_ms;"),
    "priority is nothing": (
        "dag_ready.c", "(int64_t)j->priority * (int64_t)dag->config.age_ms", "(int64_t)0"),
    "the heap of shapes is out of order": (
        "dag_ready.c", "    hot_rise(dag, dag->shapes.at[last].at_hot, last);\n", ""),
    "a heap forgets the last of an odd number": (
        "dag_ready.c", "        if (second != NONE)\n            dag->jobs.at[second].next = NONE;\n",
        "        if (second == NONE && pairs != NONE)\n            break;\n        if (second != NONE)\n            dag->jobs.at[second].next = NONE;\n"),
    "a job that was skipped is forgotten": (
        "dag_ready.c", "        dag->shapes.skipped_jobs = dag->jobs.at[job].next;\n        heap_add(dag, job);\n",
        "        dag->shapes.skipped_jobs = NONE;\n        heap_add(dag, job);\n"),
    "what takes longer is skipped with what takes less": (
        "dag_ready.c", "fits ? (uint16_t)(1u << lane_of(&dag->jobs.at[job])) : UINT16_MAX", "UINT16_MAX"),
}


# what it breaks: (file of src, text, replacement)
SHELL = {
    "filters that read in blocks keep nothing": (
        "core/feed_buffered.c", "    ms = MAX(ms, (double)LIFE_MIN_MS);\n", "    ms = 1e9;\n"),
    "a second device that nobody benches": (
        "core/feed_seats.c", "    f->seats.n_sets_alive += first == device;\n", "    f->seats.n_sets_alive++;\n"),
    "a device that comes back is not noticed": (
        "shell/device_watch.c", "        watch->handlers->back(watch->context, first);\n", "        (void)first;\n"),
    "the samples of a lost device show free memory": (
        "shell/device_watch.c", "    if (!sample->is_lost) /* a lost", "    if (true) /* a lost"),
    "one that closes its input and lives on is waited for": (
        "map/worker.c", "(struct feed_event){.kind = EV_CLOSED,", "(struct feed_event){.kind = EV_TICK,"),
    "one bad message ends the run": (
        "map/channel.c", "        on_flawed(worker, &m, line, item);\n",
        '        shell_abort(worker->session->shell, &(struct err){.code = ERR_DATA, .text = "bad"});\n'),
    "guards do not hold the devices' locks": (
        "map/worker.c", ".locks = &s->allocation.locks,", ".locks = NULL,"),
    "the memory of our own worker is taken for others'": (
        "core/memory.c", "    if (d->n_ours == 0)\n", ""),
    "a sample from before a death is believed": (
        "core/memory.c", "d->sampled_ms > m->seats[seat].since_ms;\n    if", "d->sampled_ms > 0;\n    if"),
    "a session does not know what the one before it did": (
        "map/prepare.c", ".n_done = s->earlier.n_done,", ".n_done = 0,"),
    "what did not fit into a pipe is dropped": (
        "map/worker.c", "        buf_consume(out, worker->n_put);\n", "        buf_reset(out);\n"),
    "a message that comes in pieces is cut": (
        "map/channel.c", "        buf_add_str(&worker->channel_in, piece);\n", "        (void)0;\n"),
    "what a channel worker did not read is no suspect any more": (
        "core/feed_items.c", "    if (f->workers[worker].group != NONE)\n        suspects_put_back", "    if (false)\n        suspects_put_back"),
    "an answer that comes in pieces is cut": (
        "map/filter.c", "    buf_add_str(&worker->filter.from_worker, bytes);\n", "    (void)0;\n"),
    "a worker that is to be ended is left alone": (
        "map/worker_end.c", "        node_end(worker->process, END_POLITELY);\n", "        (void)0;\n"),
    "a signal is taken for an order to finish": (
        "shell/signals.c", "ends them at once\", name);\n    shell_stop(shell, STOP_WORKERS);",
        "ends them at once\", name);\n    shell_stop(shell, STOP_NEW);"),
    "a limit on the whole run ends nothing": (
        "shell/loop.c", "    shell_stop(shell, STOP_WORKERS);\n}\n\nstatic void on_tick", "}\n\nstatic void on_tick"),
}


# The same, where every run has hosts.
HOSTS = {
    "a host that is back is not used": (
        "shell/host.c", "        devices_tell(h, HOST_BACK);\n", ""),
    "a host that was lost is not asked for again": (
        "shell/hosts.c", "if (h->state == HOST_AWAY && now_ms >= h->retry_at_ms && !remote_has_transport(h->node))", "if (false)"),
    "a host is asked for without an end": (
        "shell/host.c", "(++h->n_tries >= TRIES_MAX || ", "(++h->n_tries >= 1000 * TRIES_MAX || "),
    "a host that is given up is still waited for": (
        "shell/host.c", "given up: \", why);\n    devices_tell(h, HOST_GIVEN_UP);\n", "given up: \", why);\n"),
}


# Between a head and an agent; without seeds.
PROTOCOL = {
    "the ends of workers are told before the loss of their host": (
        "node/remote.c",
        "    remote->opts.handlers->lost(remote->opts.context, why);\n    remote_workers_disconnect(remote);\n",
        "    remote_workers_disconnect(remote);\n    remote->opts.handlers->lost(remote->opts.context, why);\n"),
    "a worker is gone before its output": (
        "agent/agent_worker.c", "    if (w->is_gone && !has_output(w))\n", "    if (w->is_gone)\n"),
    "a stream is closed before its output": (
        "agent/agent_worker.c", "at->has_closed && !at->is_told && at->output.len == 0", "at->has_closed && !at->is_told"),
    "the head grants no credit anew": (
        "node/remote_worker.c", "    send_number(w, FRAME_CREDIT, stream, at->used);\n", ""),
    "an agent grants no credit anew": (
        "agent/agent_worker.c", "    frame_send(w, FRAME_CREDIT, stream, buf_str(&out));\n", ""),
    "the end of an input overtakes the input": (
        "agent/agent_worker.c", "    if (at->must_finish && at->input.len == 0)\n", "    if (at->must_finish)\n"),
    "what came in a pause is told before what came earlier": (
        "node/remote_worker.c", "is_stopped(w, frame->stream) || at->held.len > 0", "is_stopped(w, frame->stream)"),
    "what is held when a worker ends is lost": (
        "node/remote_worker.c", "        held_tell(w, from_worker[i]);\n    for (unsigned", "        (void)i;\n    for (unsigned"),
    "a frame's checksum does not count": (
        "node/wire.c", "    if (get_u32(bytes.at) != checksum(bytes.at, body_len, reader->n_frames))\n", "    if (false)\n"),
}


def commands_of(build_root, target):
    """The words that link the simulator, and those that compile each source."""
    lines = subprocess.run(["ninja", "-C", str(build_root), "-t", "commands", target], capture_output=True, text=True,
                           check=True).stdout.splitlines()
    link = shlex.split(lines[-1])
    sources = {}
    for entry in json.loads((build_root / "compile_commands.json").read_text(encoding="utf-8")):
        sources.setdefault((pathlib.Path(entry["directory"]) / entry["file"]).resolve(), shlex.split(entry["command"]))
    return link, sources


def build(folder, source, text, replacement, build_root, commands):
    link, sources = commands
    original = source.read_text(encoding="utf-8")
    if original.count(text) != 1:
        return None, f"its text occurs {original.count(text)} times in {source}"
    mutant, program = folder / source.name, folder / "mutant"
    mutant.write_text(original.replace(text, replacement), encoding="utf-8")
    words = sources[source]
    compile_words = [*words[:words.index("-MD")], "-w", f"-I{source.parent}", "-c", str(mutant), "-o", f"{mutant}.o"]
    at = link.index("-o")
    link_words = [*link[:at], "-o", str(program), f"{mutant}.o", *link[at + 2:]]
    for command in (compile_words, link_words):
        run = subprocess.run(command, cwd=build_root, capture_output=True, text=True)
        if run.returncode:
            return None, "does not compile: " + run.stderr[-400:]
    return program, None


def judge(source, change, build_root, commands, simulator):
    """(is caught, what to say)"""
    _, arguments, finding = simulator
    with tempfile.TemporaryDirectory() as folder:
        program, trouble = build(pathlib.Path(folder), source, *change, build_root, commands)
        if trouble:
            return False, trouble
        try:
            run = subprocess.run([str(program), *arguments], capture_output=True, text=True, errors="replace", timeout=900)
        except subprocess.TimeoutExpired:
            return False, "the simulator did not come to an end"
        if run.returncode == 0:
            return False, f"not found by {' '.join(arguments) or 'any session'}"
        found = re.search(finding, run.stdout) or re.search(r"ERROR: (AddressSanitizer): ([^\n]*)", run.stderr)
        return bool(found), f"{found.group(1)}: {found.group(2)}" if found else run.stdout + run.stderr


SUITES = {"feed": (FEED, "src/core"), "gang": (GANG, "src/core"), "fit": (FIT, "src/core"), "dag": (DAG, "src/core"),
          "shell": (SHELL, "src"), "hosts": (HOSTS, "src"), "protocol": (PROTOCOL, "src")}


def texts_check(root):
    """A bug whose text is gone is planted nowhere; this is seen at once, also of those that are tried for minutes."""
    lost = [f"{what}: its text occurs {n} times in {source}"
            for mutants, below in SUITES.values() for what, (source, text, _) in mutants.items()
            if (n := (root / below / source).read_text(encoding="utf-8").count(text)) != 1]
    print("\n".join(lost))
    return 1 if lost else 0


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    if sys.argv[2] == "--texts":
        return texts_check(root)
    build_root, name = pathlib.Path(sys.argv[2]).resolve(), sys.argv[3]
    mutants, below = SUITES[name]
    commands = commands_of(build_root, SIMULATORS[name][0])
    print(f"1..{len(mutants)}")
    all_caught = True
    with ThreadPoolExecutor(2) as pool:
        verdicts = pool.map(lambda mutant: judge(root / below / mutant[0], mutant[1:], build_root, commands,
                                                 SIMULATORS[name]), mutants.values())
        for number, (what, (caught, words)) in enumerate(zip(mutants, verdicts), 1):
            print(f"{'ok' if caught else 'not ok'} {number} - {what}: {words}".replace("\n", " "), flush=True)
            all_caught = all_caught and caught
    return 0 if all_caught else 1


if __name__ == "__main__":
    sys.exit(main())
