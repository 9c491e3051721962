# SPDX-License-Identifier: Apache-2.0
"""From exec to eight trivial workers done."""
import itertools
import os
import shutil
import statistics

from harness import Row, spread, verdict

BAR_MS = 25
BAR_VERSION_MS = 0.5
PORTABLE = "build-portable/x86_64"  # what `make portable` leaves, in the folder of the sources


def portable(bench):
    """The portable program in turn with the one that is linked dynamically: no slower, and there at once."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", PORTABLE, "muster")
    what = "the portable program beside the dynamic one: eight no-op workers, `-g cpu:8`"
    if not os.path.exists(program):
        return [Row(what, "<= 1.00 x", "", "not measured: `make portable` was not run", "", "0")]
    names = {"portable": program, "dynamic": os.path.join(bench.build, "muster")}
    folders = itertools.count()

    def eight(name):
        n = next(folders)
        return bench.timed([names[name], "map", "-q", "-g", "cpu:8", "--run-dir", "run-%d" % n, "-o", "out-%d" % n,
                            "eight", "--", "cat"])

    rounds = bench.size(21, 2)
    samples = bench.in_turn({name: lambda name=name: eight(name) for name in names}, rounds, before=bench.settle)
    bench.remove(*("%s-%d" % (kind, n) for kind in ("run", "out") for n in range(next(folders))))
    ratio = spread(p.wall / d.wall for p, d in zip(samples["portable"], samples["dynamic"]))
    ms = {name: spread(s.wall for s in list_) for name, list_ in samples.items()}
    versions = bench.in_turn({name: lambda name=name: bench.timed([names[name], "--version"]) for name in names},
                             bench.size(51, 2))
    version_ms = {name: spread(s.wall for s in list_) for name, list_ in versions.items()}
    return [
        Row(what, "<= 1.00 x", "%s x: %s ms" % (ratio.text(), ms["portable"].text(1e3, 1)),
            "dynamic %s ms" % ms["dynamic"].text(1e3, 1), verdict(ratio.median <= 1), bench.runs(rounds)),
        Row("the portable program's `muster --version`", "<= %.1f ms" % BAR_VERSION_MS,
            "%s ms" % version_ms["portable"].text(1e3), "dynamic %s ms" % version_ms["dynamic"].text(1e3),
            verdict(version_ms["portable"].median * 1e3 <= BAR_VERSION_MS), bench.runs(bench.size(51, 2))),
    ]


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
    return out + portable(bench)
