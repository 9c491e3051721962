#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants bugs into copies of the feeder, one at a time, and sees whether the simulator finds each.

    tests/sim/mutants.py SOURCE_ROOT BUILD_ROOT CC [FLAG...]

A mutant is a file of src/core, a text that occurs in it once, and another in its place. The copy is compiled
and linked before the real core, so that it takes the place of that one object. Each must be caught within
SEEDS seeds; the status is 1 if one is not, or if a text no longer occurs (then mend the table below).
"""
import pathlib
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

SEEDS = 1000

# what it breaks: (file, text, replacement)
MUTANTS = {
    "a late copy is committed as well": (
        "feed_life.c", "emit(f, ACT_DROP, worker, item, 1, 0);", "emit(f, ACT_COMMIT, worker, item, 1, 0);"),
    "an item that waits for its retry wakes nobody": (
        "feed.c", "return MIN(f->wake_ms, looks_next_ms(f));", "return looks_next_ms(f);"),
    "one try too many": (
        "feed_items.c", "slot->failures > f->config.retries)", "slot->failures > f->config.retries + 1)"),
    "one try too few": (
        "feed_items.c", "slot->failures > f->config.retries)", "slot->failures >= f->config.retries)"),
    "what a dead worker had in hand is forgotten": (
        "feed_death.c", "    if (start_failure || !blamed)\n        runs_to_pool(f, runs, n_runs);\n",
        "    if (start_failure || !blamed)\n        return;\n"),
    "a benched device gets workers again": (
        "feed_death.c", "bool is_benched = f->devices[w->device].is_benched;", "bool is_benched = false;"),
    "a device that was lost and comes back gets workers": (
        "feed.c", "    f->workers[ev->worker].memory_is_back = true;\n",
        "    f->workers[ev->worker].memory_is_back = true;\n"
        "    f->devices[f->workers[ev->worker].device].is_benched = false;\n"),
    "a second device that nobody benches": (
        "feed.c", "        f->n_sets += first == d;\n", "        f->n_sets++;\n"),
    "a lost second device is charged to items": (
        "feed.c", "device_bench(f, f->devices[ev->worker].first, CAUSE_LOST);",
        "device_bench(f, ev->worker, CAUSE_LOST);"),
    "who was told to end is still believed": (
        "feed.c", "(w->ended_for == CAUSE_NONE || ev->kind == EV_EXIT)", "true"),
    "one that has ended well meets a limit while its file is looked at": (
        "feed_life.c", "!worker_is_running(w) || w->has_ended || ", "!worker_is_running(w) || "),
    "credits are never used up": (
        "feed_send.c", "    w->credits -= MIN(w->credits, (uint64_t)range.count);\n", ""),
    "the window has no end": (
        "feed_items.c", "    uint64_t end = MIN(f->known, window_end(f));\n", "    uint64_t end = f->known;\n"),
    "of several commits at once one is not counted": (
        "feed_items.c", "    f->settled += count;\n", "    f->settled += count > 2 ? count - 1 : count;\n"),
    "what an earlier session did is done again": (
        "feed_items.c", "            items_skip(f, f->next, reach);\n",
        "            for (uint64_t at = f->next; at < reach; at++)\n"
        "                pool_add(f, (struct sent_range){at, 1}, f->now_ms, NONE);\n"),
    "a block is used again before the frontier has left it": (
        "feed_window.c", "return f->frontier - offset_of(f, f->frontier) + f->spread;", "return f->frontier + f->spread;"),
    "an unfolded block has forgotten its answers": (
        "feed_window.c", ".flags = offset < block->n_answered ? ANSWERED_FIRST : 0", ".flags = 0"),
    "an unfolded block is lost to its owner's list": (
        "feed_window.c", "    link_after(f, w, around.prev, ring);\n", ""),
    "workers are started after a stop": (
        "feed_life.c", "    if (f->is_stopping || f->is_complete)\n        return;\n    cooling_end(f);\n",
        "    cooling_end(f);\n"),
    "a device that ran out of memory gets as much again": (
        "feed_send.c", "        limit = MIN(limit, (uint64_t)batch);\n", "        limit = MAX(limit, (uint64_t)batch);\n"),
    "one worker too many loads": (
        "feed_life.c", "f->n_loading >= f->config.loading_max", "f->n_loading > f->config.loading_max"),
    "a failed line of a filter is counted twice": (
        "feed_life.c", "        w->in_flight -= is_named;\n", "        w->in_flight--;\n"),
    "a worker starts too soon after another": (
        "feed_life.c", "f->now_ms < f->start_at_ms", "f->now_ms + 1 < f->start_at_ms"),
    "nobody looks whether a worker hangs": (
        "feed_send.c", "    limits_arm(f, worker);\n", ""),
    "batches of one run are mixed": (
        "feed_items.c", "    run = MIN(run, batch_left(f, f->next));\n", ""),
    "revoked answers are forgotten altogether": (
        "feed_items.c", "    owned_return(f, worker, true);\n", ""),
    "a copy goes to a third worker": (
        "feed_window.c", "slot.owner[1] == 0 && !(slot.flags & ANSWERED_FIRST)", "!(slot.flags & ANSWERED_FIRST)"),
    "a filter is not drained before the end": (
        "feed_life.c", "    return w->provisional > ring_share || is_time;\n", "    return is_time && false;\n"),
    "the lives of a filter that buffers have no end": (
        "feed_buffered.c", "    ms = MAX(ms, (double)LIFE_MIN_MS);\n", "    ms = 1e9;\n"),
    "a group that nobody takes is dropped": (
        "feed_groups.c", "        group_wait(f, index); /* what was not sent yet, for the next worker */\n",
        "        group_free(f, index);\n"),
}


def build(folder, name, root, build_root, compiler, flags):
    file, text, replacement = MUTANTS[name]
    source = (root / "src/core" / file).read_text(encoding="utf-8")
    if source.count(text) != 1:
        return None, f"its text occurs {source.count(text)} times in src/core/{file}"
    mutant = folder / file
    mutant.write_text(source.replace(text, replacement), encoding="utf-8")
    program = folder / "mutant"
    archives = [build_root / path for path in ("tests/sim/libadversary.a", "src/core/libcore.a", "src/sim/libsim.a",
                                               "src/base/libbase.a")]
    run = subprocess.run([*compiler.split(), *flags, "-O1", "-w", "-std=gnu17", "-D_GNU_SOURCE", f"-I{root}/src",
                          f"-I{root}/tests", str(mutant), str(root / "tests/sim/sim_feed.c"), "-Wl,--start-group", *map(str, archives), "-Wl,--end-group", "-lm", "-o",
                          str(program)], capture_output=True, text=True)
    return (program, None) if run.returncode == 0 else (None, "does not compile: " + run.stderr[-400:])


def judge(name, root, build_root, compiler, flags):
    """(is caught, what to say)"""
    with tempfile.TemporaryDirectory() as folder:
        program, trouble = build(pathlib.Path(folder), name, root, build_root, compiler, flags)
        if trouble:
            return False, trouble
        try:
            run = subprocess.run([str(program), "--seeds", str(SEEDS)], capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            return False, "the simulator did not come to an end"
        if run.returncode == 0:
            return False, f"not found within {SEEDS} seeds"
        found = re.search(r"FAIL seed=(\d+) commit=\S+ ([^\n]*)", run.stdout)
        return bool(found), f"seed {found.group(1)}: {found.group(2)}" if found else run.stdout + run.stderr


def main():
    root, build_root, compiler, flags = (pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3],
                                         sys.argv[4:])
    print(f"1..{len(MUTANTS)}")
    all_caught = True
    with ThreadPoolExecutor(2) as pool:
        verdicts = pool.map(lambda name: judge(name, root, build_root, compiler, flags), MUTANTS)
        for number, (name, (caught, words)) in enumerate(zip(MUTANTS, verdicts), 1):
            print(f"{'ok' if caught else 'not ok'} {number} - {name}: {words}".replace("\n", " "))
            all_caught = all_caught and caught
    return 0 if all_caught else 1


if __name__ == "__main__":
    sys.exit(main())
