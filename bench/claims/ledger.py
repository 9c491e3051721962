# SPDX-License-Identifier: Apache-2.0
"""A run of which 1,000,000 ranges but every 97th are done, taken up again."""
import shutil
import statistics

from harness import Row, spread, verdict

BAR_S, BAR_MIB = 2.0, 128


def run_begin(bench, n_ranges):
    """The folder of a run whose worker never started, then filled through the store."""
    with open(bench.path("in"), "wb") as file:
        file.write(b"x\n" * (n_ranges * 10))
    bench.remove("begun", "out")
    bench.muster("map", "-q", "-g", "cpu:1", "--run-dir", "begun", "-o", "out", "in", "--", "false", expect=1)
    bench.timed([bench.tool("bench_ledger"), "--fill", "begun", str(n_ranges)])


def rows(bench):
    n_ranges = bench.size(1_000_000, 10_000)
    run_begin(bench, n_ranges)
    work = [bench.tool("bench_worker"), "stamp"]
    until_first = []

    def resume():
        """The manifest names the command, not the folder: a copy is as good as the original."""
        bench.remove("run", "out")
        shutil.copytree(bench.path("begun"), bench.path("run"))
        sample = bench.muster("resume", "run", "-q", "--", *work)
        with open(bench.path("out"), "rb") as out:
            until_first.append(float(out.readline()) - sample.begin)
        return sample

    samples = bench.in_turn({"resume": resume})["resume"]
    bench.remove("begun", "run", "out", "in")
    first, wall = spread(until_first), spread(s.wall for s in samples)
    peak = spread(s.peak_kib / 1024 for s in samples)
    cpu = statistics.median(s.cpu for s in samples)
    return [Row("%d items in %d ranges, 1 in 97 missing, resumed: exec to the first item in a worker" % (n_ranges * 10, n_ranges),
                "<= %.0f s, <= %d MiB" % (BAR_S, BAR_MIB),
                "%s s; peak of the whole resume %s MiB" % (first.text(), peak.text(digits=1)),
                "to its end, those done and all merged: %s s, %.2f s CPU" % (wall.text(), cpu),
                verdict(first.median <= BAR_S and peak.median <= BAR_MIB), bench.runs())]
