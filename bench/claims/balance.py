# SPDX-License-Identifier: Apache-2.0
"""Uneven items over many slots, against a list schedule that costs nothing."""
import heapq
import json
import math
import random

from harness import Row, spread, verdict

MEDIAN_MS, SIGMA = 60, 1.0


def list_schedule(times, slots):
    """The next item, in order, to the slot that is free first. Returns when the last one ends."""
    free = [0.0] * slots
    for time in times:
        heapq.heapreplace(free, free[0] + time)
    return max(free)


def times_write(path, n):
    rng = random.Random(7)
    times = [round(rng.lognormvariate(math.log(MEDIAN_MS), SIGMA), 3) for _ in range(n)]
    with open(path, "w", encoding="ascii") as file:
        file.writelines(json.dumps({"ms": ms}) + "\n" for ms in times)
    return [ms / 1e3 for ms in times]


def rows(bench):
    slots = bench.size(64, 8)
    times = times_write(bench.path("in.jsonl"), bench.size(10_000, 40))
    worker = [bench.tool("bench_worker"), "sleep"]
    devices = ("-g", "cpu:%d" % slots)
    samples = bench.in_turn({
        "unknown": lambda: bench.map(*devices, "in.jsonl", "--", *worker),
        "known": lambda: bench.map(*devices, "--weight", "ms", "in.jsonl", "--", *worker),
    })
    ideal = list_schedule(times, slots)
    least = max(sum(times) / slots, max(times))
    out = []
    for name, bar, against, what in (
            ("unknown", 1.02, ideal, "ideal list schedule %.3f s" % ideal),
            ("known", 1.03, least, "max(sum/slots, longest) %.3f s" % least)):
        ratio = spread(s.wall / against for s in samples[name])
        cpu = spread(s.cpu for s in samples[name])
        out.append(Row("%d slots, %d log-normal items, sizes %s" % (slots, len(times), name), "<= %.2f x" % bar,
                       "%s x; CPU %s s" % (ratio.text(digits=4), cpu.text()), what,
                       verdict(ratio.median <= bar), bench.runs()))
    return out
