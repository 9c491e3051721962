# SPDX-License-Identifier: Apache-2.0
"""Ranks: from exec to the end, and from the death of one until all others are gone. torchrun where it is in PATH."""
import os
import shutil
import time

from harness import Row, spread, verdict

BAR_MS = 20
BAR_GONE_MS = 100
# One rank dies after a while; the time is noted just before.
DIES = 'if [ "$RANK" = 3 ]; then sleep 0.3; date +%s.%N >died; exit 1; fi; exec sleep 1000'


def launchers(bench):
    """(name, how it starts n ranks of a program)"""
    own = os.path.join(bench.build, "muster")
    yield "muster", lambda n, *command: [own, "launch", "--nproc-per-node", str(n), "--no-python", *command]
    if shutil.which("torchrun"):
        # Debian's torch 1.13 fails on Python 3.11 without a choice of streams, here of a rank that is not there, and looks
        # at its ranks every 5 s by default.
        options = ["-r", "9:1", "-t", "9:1", "--monitor_interval", "0.1", "--no_python"]
        yield "torchrun", lambda n, *command: ["torchrun", "--nproc_per_node", str(n), *options, *command]


def text_of(ms, bar_names=("muster",)):
    return "; ".join("%s %s ms" % (name, ms[name].text(1e3, 1)) for name in ms if name not in bar_names)


def eight(bench):
    cases = {name: lambda argv=start(8, "true"): bench.timed(argv) for name, start in launchers(bench)}
    for mpi in ("mpirun.openmpi", "mpirun.mpich"):
        if shutil.which(mpi):
            more = ["--allow-run-as-root", "--oversubscribe"] if mpi.endswith("openmpi") else []
            cases[mpi] = lambda argv=(mpi, *more, "-n", "8", "true"): bench.timed(list(argv))
    rounds = bench.size(11, 2)
    samples = bench.in_turn(cases, rounds, before=lambda: time.sleep(0.2))
    ms = {name: spread(s.wall for s in list_) for name, list_ in samples.items()}
    return Row("eight ranks that do nothing, from exec to the end", "<= %d ms" % BAR_MS, "%s ms" % ms["muster"].text(1e3, 1),
               text_of(ms), verdict(ms["muster"].median * 1e3 <= BAR_MS), bench.runs(rounds))


def gone(bench):
    def after_death(argv):
        bench.timed(argv, expect=1)
        ended = time.time()
        with open(bench.path("died"), encoding="ascii") as file:
            return ended - float(file.read())

    cases = {name: lambda argv=start(9, "sh", "-c", DIES): after_death(argv) for name, start in launchers(bench)}
    rounds = bench.size(7, 1)
    samples = bench.in_turn(cases, rounds)
    ms = {name: spread(list_) for name, list_ in samples.items()}
    return Row("one of nine ranks dies: until the other eight are gone and the launcher has ended", "<= %d ms" % BAR_GONE_MS,
               "%s ms" % ms["muster"].text(1e3, 0), text_of(ms), verdict(ms["muster"].median * 1e3 <= BAR_GONE_MS), bench.runs(rounds))


def rows(bench):
    return [eight(bench), gone(bench)]
