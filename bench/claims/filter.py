# SPDX-License-Identifier: Apache-2.0
"""Two `cat` as warm filters over many small records: order kept, results durable."""
import os
import statistics
import sys

from claims.channel import lines_write
from harness import Row, spread, verdict

RATE, POOL_TIMES, CAT_TIMES, PEAK_MIB = 2_500_000, 20, 4, 64
PEER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "peer_pool.py")


def speed(bench):
    n = bench.size(5_000_000, 50_000)
    n_pool, n_xargs = bench.size(100_000, 5_000), bench.size(2_000, 100)
    lines_write(bench.path("in"), n, 100)
    lines_write(bench.path("in-xargs"), n_xargs, 100)
    samples = bench.in_turn({
        "muster": lambda: bench.map("-g", "cpu:2", "in", "--", "cat"),
        "cat": lambda: bench.timed(["sh", "-c", "rm -f cat-out; cat in | cat > cat-out; sync cat-out"]),
        "pool": lambda: bench.timed([sys.executable, PEER, "in", "pool-out", str(n_pool), "2"]),
        "parallel": lambda: bench.timed(["sh", "-c", "rm -f par-out; parallel --pipe -j2 -k --block 10M cat "
                                                     "<in >par-out; sync par-out"]),
        "xargs": lambda: bench.timed(["sh", "-c", "xargs -a in-xargs -d '\\n' -n1 -P2 echo >x-out; sync x-out"]),
    })
    same = bench.timed(["cmp", "in", "out"], expect=None).status == 0
    bench.remove("in", "in-xargs", "out", "run", "cat-out", "pool-out", "par-out", "x-out")
    rate = spread(n / s.wall for s in samples["muster"])
    pool = spread(n_pool / s.wall for s in samples["pool"])
    cat = spread(s.wall for s in samples["cat"])
    times_pool = spread(n / m.wall / (n_pool / p.wall) for m, p in zip(samples["muster"], samples["pool"]))
    times_cat = spread(m.wall / c.wall for m, c in zip(samples["muster"], samples["cat"]))
    cpu = {name: statistics.median(s.cpu for s in list_) for name, list_ in samples.items()}
    peak = max(s.peak_kib for s in samples["muster"]) / 1024
    what = "filters `cat` x 2, %d records of 100 bytes, " % n
    beside = "parallel --pipe -k: %s items/s; xargs -n1 -P2 echo, %d items: %s" % (
        spread(n / s.wall for s in samples["parallel"]).text(digits=0), n_xargs,
        spread(n_xargs / s.wall for s in samples["xargs"]).text(digits=0))
    runs = bench.runs()
    return [
        Row(what + ("output the same as the input" if same else "**OUTPUT DIFFERS**"), ">= 2,500,000 items/s",
            "%s items/s, %.2f s CPU, peak %.1f MiB" % (rate.text(digits=0), cpu["muster"], peak), beside,
            verdict(rate.median >= RATE and same), runs),
        Row(what + "against multiprocessing", ">= %d x" % POOL_TIMES, times_pool.text(digits=1) + " x",
            "Pool(2).imap, chunksize 1, %d items: %s items/s" % (n_pool, pool.text(digits=0)),
            verdict(times_pool.median >= POOL_TIMES), runs),
        Row(what + "against cat", "<= %d x" % CAT_TIMES, times_cat.text() + " x",
            "`cat in | cat > out; sync out`: %s s, %.2f s CPU" % (cat.text(), cpu["cat"]),
            verdict(times_cat.median <= CAT_TIMES), runs),
    ]


def peaks(bench, n_large, n_small, n_bytes):
    """
    What grows with the number of records shows as a difference of the peaks. Those of the small one
    differ from run to run by the pages of programs that happen to be mapped: no more is no more than these.
    """
    lines_write(bench.path("large"), n_large, n_bytes)
    lines_write(bench.path("small"), n_small, n_bytes)
    samples = bench.in_turn({
        "large": lambda: bench.map("-g", "cpu:2", "large", "--", "cat"),
        "small": lambda: bench.map("-g", "cpu:2", "small", "--", "cat"),
    })
    bench.remove("large", "small", "out", "run")
    peak = {name: spread(s.peak_kib / 1024 for s in list_) for name, list_ in samples.items()}
    holds = peak["large"].max <= PEAK_MIB and peak["large"].median <= peak["small"].max
    return Row("peak memory, %d records of %d bytes against %d" % (n_large, n_bytes, n_small),
               "<= 64 MiB, and no more", peak["large"].text(digits=2) + " MiB",
               "the small one: %s MiB" % peak["small"].text(digits=2), verdict(holds), bench.runs())


def memory(bench):
    small = bench.size(50_000, 2_000)
    return [peaks(bench, bench.size(50_000_000, 200_000), small, 10), peaks(bench, bench.size(5_000_000, 20_000), small, 100)]


def rows(bench):
    return speed(bench) + memory(bench)
