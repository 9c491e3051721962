# SPDX-License-Identifier: Apache-2.0
"""From exec to eight trivial workers done."""
import shutil
import statistics

from harness import Row, spread, verdict

BAR_MS = 30


def rows(bench):
    with open(bench.path("eight"), "w", encoding="ascii") as file:
        file.writelines("%d\n" % i for i in range(8))
    worker = bench.tool("bench_worker")
    cases = {
        "filter": lambda: bench.map("-g", "cpu:8", "eight", "--", "cat"),
        "channel": lambda: bench.map("-g", "cpu:8", "eight", "--", worker, "echo"),
        "xargs -P8 cat": lambda: bench.timed(["xargs", "-a", "eight", "-P8", "-n1", "sh", "-c", "cat </dev/null"]),
        "parallel -j8 cat": lambda: bench.timed(["parallel", "-j8", "-a", "eight", "--pipepart", "--block", "2", "cat"]),
    }
    for mpi in ("mpirun.openmpi", "mpirun.mpich"):
        if shutil.which(mpi):
            more = ["--allow-run-as-root", "--oversubscribe"] if mpi.endswith("openmpi") else []
            cases[mpi] = lambda argv=(mpi, *more, "-n", "8", "true"): bench.timed(list(argv))
    rounds = bench.size(25, 2)
    samples = bench.in_turn(cases, rounds)
    ms = {name: spread(s.wall for s in list_) for name, list_ in samples.items()}
    beside = "; ".join("%s %s ms" % (name, ms[name].text(1e3, 1)) for name in cases if name not in ("filter", "channel"))
    out = []
    for name, what in (("filter", "`cat`"), ("channel", "a C channel worker")):
        cpu = statistics.median(s.cpu for s in samples[name])
        out.append(Row("exec to eight workers done, %s, `-g cpu:8`, one item each" % what, "<= %d ms" % BAR_MS,
                       "%s ms, CPU %.1f ms" % (ms[name].text(1e3, 1), cpu * 1e3), beside,
                       verdict(ms[name].median * 1e3 <= BAR_MS), bench.runs(rounds)))
        beside = "as above"
    return out
