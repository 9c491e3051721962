# SPDX-License-Identifier: Apache-2.0
"""Ranks: from exec to the end, and from the death of one until all others are gone. torchrun where it is in PATH."""
import os
import shutil
import signal
import subprocess
import time

from harness import Row, spread, verdict

BAR_MS = 20
BAR_GONE_MS = 100
BAR_MANY_S = 3
BAR_MANY_MIB = 256
RANKS_OF_A_HOST = 16
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


def descendants(pid):
    """(pid, its program) of a process and all below it"""
    parents = {}
    for name in os.listdir("/proc"):
        try:
            with open("/proc/%s/stat" % name, encoding="utf-8", errors="replace") as file:
                parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue  # no process, or it has ended
    below = {pid}
    while more := {child for child, parent in parents.items() if parent in below} - below:
        below |= more
    for each in below:
        yield each, os.path.basename(os.readlink("/proc/%d/exe" % each))


def pss_mib(pid):
    with open("/proc/%d/smaps_rollup" % pid, encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pss:")) / 1024


def memory_of(argv, n_ranks, folder):
    """MiB of each of muster's programs while so many ranks sleep: {"muster": of the command and its agents}"""
    process = subprocess.Popen([*argv, "sh", "-c", "echo; exec sleep 1000"], cwd=folder, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if sum(1 for _ in zip(range(n_ranks), process.stdout)) < n_ranks:
        raise SystemExit("bench: not all of %d ranks began: %s" % (n_ranks, " ".join(argv)))
    sums = {}
    for pid, program in descendants(process.pid):
        if program.startswith("muster"):
            sums[program] = sums.get(program, 0) + pss_mib(pid)
    process.send_signal(signal.SIGTERM)
    process.communicate()
    return sums


def many(bench):
    n_hosts = bench.size(64, 4)
    n_ranks = n_hosts * RANKS_OF_A_HOST
    argv = [os.path.join(bench.build, "muster"), "launch", "--hosts", ",".join("h%d=cpu:1" % i for i in range(n_hosts)),
            "--via", "env", "--nproc-per-node", str(RANKS_OF_A_HOST), "--no-python"]
    samples = bench.in_turn({"muster": lambda: bench.timed([*argv, "true"])}, bench.size(5, 1))
    seconds = spread(s.wall for s in samples["muster"])
    mib = memory_of(argv, n_ranks, bench.dir)
    return Row("%s ranks that do nothing, on %d hosts (agents on this machine, `--via env`)" % (format(n_ranks, ","), n_hosts),
               "<= %d s, <= %d MiB of muster and its agents (PSS)" % (BAR_MANY_S, BAR_MANY_MIB),
               "%s s, %.0f MiB" % (seconds.text(), mib["muster"]), "their %d guards %.0f MiB" % (n_ranks + n_hosts, mib["muster-guard"]),
               verdict(seconds.median <= BAR_MANY_S and mib["muster"] <= BAR_MANY_MIB), bench.runs(bench.size(5, 1)))


def rows(bench):
    return [eight(bench), gone(bench), many(bench)]
