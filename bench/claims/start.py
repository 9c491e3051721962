# SPDX-License-Identifier: Apache-2.0
"""From exec to eight trivial workers done."""
import itertools
import shutil
import statistics

from harness import Row, spread, verdict

BAR_MS = 30


def rows(bench):
    with open(bench.path("eight"), "w", encoding="ascii") as file:
        file.writelines("%d\n" % i for i in range(8))
    worker = bench.tool("bench_worker")
    folders = itertools.count()

    def eight(*command):
        """Folders are kept until the end: see Bench.settle."""
        n = next(folders)
        return bench.muster("map", "-q", "-g", "cpu:8", "--run-dir", "run-%d" % n, "-o", "out-%d" % n, "eight", "--",
                            *command)

    cases = {
        "filter": lambda: eight("cat"),
        "channel": lambda: eight(worker, "echo"),
        "xargs -P8 cat": lambda: bench.timed(["xargs", "-a", "eight", "-P8", "-n1", "sh", "-c", "cat </dev/null"]),
        "parallel -j8 cat": lambda: bench.timed(["parallel", "-j8", "-a", "eight", "--pipepart", "--block", "2", "cat"]),
    }
    for mpi in ("mpirun.openmpi", "mpirun.mpich"):
        if shutil.which(mpi):
            more = ["--allow-run-as-root", "--oversubscribe"] if mpi.endswith("openmpi") else []
            cases[mpi] = lambda argv=(mpi, *more, "-n", "8", "true"): bench.timed(list(argv))
    rounds = bench.size(11, 2)
    samples = bench.in_turn(cases, rounds, before=bench.settle)
    bench.remove(*("%s-%d" % (what, n) for what in ("run", "out") for n in range(next(folders))))
    ms = {name: spread(s.wall for s in list_) for name, list_ in samples.items()}
    elsewhere = "" if len(cases) > 4 else "; measured elsewhere: mpirun.openmpi -n 8 true 39.3 ms, torchrun 0.93 s"
    beside = "; ".join("%s %s ms" % (name, ms[name].text(1e3, 1)) for name in cases if name not in ("filter", "channel")) + elsewhere
    out = []
    for name, what in (("filter", "`cat`"), ("channel", "a C channel worker")):
        cpu = statistics.median(s.cpu for s in samples[name])
        out.append(Row("exec to eight workers done, %s, `-g cpu:8`, one item each" % what, "<= %d ms" % BAR_MS,
                       "%s ms, CPU %.1f ms" % (ms[name].text(1e3, 1), cpu * 1e3), beside,
                       verdict(ms[name].median * 1e3 <= BAR_MS), bench.runs(rounds)))
        beside = "as above"
    return out
