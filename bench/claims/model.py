# SPDX-License-Identifier: Apache-2.0
"""A slow model: the gap that muster leaves between items of 20 ms."""
import statistics

from harness import Row, spread, verdict

BAR = 0.99
MS = 20


def rows(bench):
    n = bench.size(2_000, 20)
    with open(bench.path("in"), "w", encoding="ascii") as file:
        file.writelines("item %d\n" % i for i in range(n))
    worker = [bench.tool("bench_worker"), "model", str(MS)]

    def alone():
        with open(bench.path("in"), "rb") as lines:
            return bench.timed(worker, stdin=lines)

    samples = bench.in_turn({
        "muster": lambda: bench.map("-g", "cpu:1", "in", "--", *worker),
        "alone": alone,
        "bare": lambda: bench.timed([bench.tool("bench_bare"), str(MS), str(n)]),
    })
    share = spread(a.wall / m.wall for a, m in zip(samples["alone"], samples["muster"]))
    gap_us = spread((m.wall - a.wall) / n * 1e6 for a, m in zip(samples["alone"], samples["muster"]))
    bare_us = spread((b.wall - a.wall) / n * 1e6 for a, b in zip(samples["alone"], samples["bare"]))
    cpu = statistics.median(m.cpu - a.cpu for a, m in zip(samples["alone"], samples["muster"]))
    return [Row("one worker computing %d ms an item, %d items, channel" % (MS, n), ">= 99 % of the loop alone",
                "%s %%; %s us more an item, all in; %.2f s more CPU" % (share.text(100), gap_us.text(digits=0), cpu),
                "the same loop without muster: %s s; with a bare echo process over a socket pair: %s us more an item" % (
                    spread(s.wall for s in samples["alone"]).text(), bare_us.text(digits=0)),
                verdict(share.median >= BAR), bench.runs())]
