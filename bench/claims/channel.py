# SPDX-License-Identifier: Apache-2.0
"""Trivial work through the channel, one worker."""
import os
import statistics
import sys

from harness import Row, spread, verdict

BAR = 100_000


def lines_write(path, n, width):
    block = b"".join((b"%0*d\n" % (width - 1, i)) for i in range(min(n, 10_000)))
    with open(path, "wb") as file:
        for _ in range(n // 10_000):
            file.write(block)
        file.write(block[:n % 10_000 * width])


def rows(bench):
    n = bench.size(1_000_000, 20_000)
    n_peer = bench.size(100_000, 5_000)
    lines_write(bench.path("in"), n, 100)
    peer = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "peer_pool.py")
    worker = bench.tool("bench_worker")

    def pool():
        return bench.timed([sys.executable, peer, "in", "pool-out", str(n_peer), "1"])

    samples = bench.in_turn({"muster": lambda: bench.map("-g", "cpu:1", "in", "--", worker, "echo"), "pool": pool})
    rate = spread(n / s.wall for s in samples["muster"])
    peer_rate = spread(n_peer / s.wall for s in samples["pool"])
    cpu_us = statistics.median(s.cpu for s in samples["muster"]) / n * 1e6
    bench.remove("in", "out", "run", "pool-out")
    return [Row("channel worker in C, trivial work, one device, %d items of 100 bytes" % n, ">= 100,000 items/s",
                "%s items/s, %.2f us CPU an item" % (rate.text(digits=0), cpu_us),
                "multiprocessing imap, 1 process, %d items: %s" % (n_peer, peer_rate.text(digits=0)),
                verdict(rate.median >= BAR), bench.runs())]
