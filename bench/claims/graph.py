# SPDX-License-Identifier: Apache-2.0
"""
Jobs that need each other: no-op jobs a second beside make, GNU parallel and task-spooler, the first job of a file of a
million, and how good the dag is by itself (tests/sim/dag_bars.c). Peers where they are in PATH.
"""
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time

from harness import Row, spread, verdict

# 2,000 jobs a second on a machine on which make reaches 3,540: machines differ, so the bar is the ratio.
BAR_OF_MAKE = 2000 / 3540
BAR_FIRST_S = 1
# Every job asks for the one before it in each direction, and for the one of the stage before.
STAGES = 4
FIRST = '[ -e began ] || date +%s.%N >began.new; [ -e began ] || mv began.new began; exec sleep 1000'
# A queue of task-spooler is told of each job by a process of its own, and looks through all its jobs: fewer of them.
SPOOLED = 'i=0; while [ $i -lt "$1" ]; do tsp -n true $i; i=$((i + 1)); done >/dev/null; tsp -S 1; tsp -n true; tsp -w; tsp -K'


def files_make(bench, n):
    """The same command for each program: `true` with an argument takes a quarter longer than without (it sets its locale)."""
    with open(bench.path("args"), "w", encoding="ascii") as file:
        file.writelines("%d\n" % i for i in range(n))
    with open(bench.path("makefile"), "w", encoding="ascii") as file:
        targets = " ".join("j%d" % i for i in range(n))
        file.write(".PHONY: all %s\nall: %s\n%s:\n\t@true $@\n" % (targets, targets, targets))


def spooler(bench, n):
    env = {**os.environ, "TS_SOCKET": bench.path("spooler"), "TS_MAXFINISHED": "10", "TMPDIR": bench.dir}
    subprocess.run(["tsp", "-S", "2"], env=env, check=True)
    return bench.timed(["sh", "-c", SPOOLED, "sh", str(n)], env=env)


def no_ops(bench):
    n, n_parallel, n_spooled = bench.size(10000, 300), bench.size(2000, 100), bench.size(1000, 50)
    files_make(bench, n)
    names = {"muster": n, "make -j2": n, "parallel -j2, %d jobs" % n_parallel: n_parallel,
             "task-spooler, %d jobs" % n_spooled: n_spooled}

    def muster():
        bench.remove("run")
        return bench.muster("graph", "-q", "-g", "cpu:2", "--run-dir", "run", "--", "true", "::::", "args")

    def parallel():
        with open(bench.path("args"), "rb") as file:
            few = b"".join(file.readlines()[:n_parallel])
        with tempfile.TemporaryFile() as stdin:
            stdin.write(few)
            stdin.seek(0)
            return bench.timed(["parallel", "-j2", "true"], stdin=stdin)

    programs = {"make": lambda: bench.timed(["make", "-s", "-j2", "-f", "makefile"]), "parallel": parallel,
                "tsp": lambda: spooler(bench, n_spooled)}
    cases = {"muster": muster}
    cases.update((name, run) for name, (program, run) in zip(list(names)[1:], programs.items()) if shutil.which(program))
    samples = bench.in_turn(cases, before=bench.settle)
    rate = {name: spread(names[name] / s.wall for s in list_) for name, list_ in samples.items()}
    cpu = {name: statistics.median(s.cpu for s in list_) / names[name] * 1e3 for name, list_ in samples.items()}
    beside = "; ".join("%s %s, %.2f ms CPU" % (name, rate[name].text(digits=0), cpu[name]) for name in cases if name != "muster")
    share, holds = "", ""
    if "make -j2" in samples:
        of_make = spread(m.wall / s.wall for s, m in zip(samples["muster"], samples["make -j2"]))
        share, holds = "%s x make: " % of_make.text(), verdict(of_make.median >= BAR_OF_MAKE)
    return Row("%d jobs that do nothing, 2 slots, durable" % n, ">= %.2f x make -j2" % BAR_OF_MAKE,
               "%s%s jobs/s, %.2f ms CPU a job" % (share, rate["muster"].text(digits=0), cpu["muster"]), beside, holds,
               bench.runs())


def million_make(bench, n):
    """n jobs in a few stages; the number of needs, from what `--print` would list."""
    side = int((n // STAGES) ** 0.5)
    text = "vars: {a: 1..%d, b: 1..%d}\ndefaults: {for: [a, b], gpus: 0}\njobs:\n" % (side, side)
    for stage in range(STAGES):
        needs = ", needs: [s%d, {s%d: {a: -1}}, {s%d: {b: -1}}]" % ((stage - 1,) * 3) if stage else ""
        text += "  s%d: {run: [sh, -c, '%s']%s}\n" % (stage, FIRST, needs)
    with open(bench.path("large.yaml"), "w", encoding="ascii") as file:
        file.write(text)
    return STAGES * side * side, (STAGES - 1) * (3 * side * side - 2 * side)


def first_second(bench):
    """From exec until the first job writes the time; then the run is ended."""
    bench.remove("run", "began")
    begin = time.time()
    muster = subprocess.Popen([os.path.join(bench.build, "muster"), "graph", "-q", "-g", "cpu:2", "--run-dir", "run", "--grace", "0s",
                               "large.yaml"], cwd=bench.dir, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not os.path.exists(bench.path("began")):
        if muster.poll() is not None:
            raise SystemExit("bench: muster graph ended with %d before its first job" % muster.returncode)
        time.sleep(0.01)
    with open(f"/proc/{muster.pid}/status", encoding="ascii") as file:
        peak = int(re.search(r"VmHWM:\s*(\d+)", file.read()).group(1)) / 1024
    muster.terminate()
    muster.wait()
    with open(bench.path("began"), encoding="ascii") as file:
        return float(file.read()) - begin, peak


def million(bench):
    n, n_needs = million_make(bench, bench.size(1000000, 10000))
    samples = bench.in_turn({"muster": lambda: first_second(bench)})["muster"]
    seconds = spread(s for s, _ in samples)
    return Row("the first of %d jobs with %d needs begins, from exec" % (n, n_needs), "<= %d s" % BAR_FIRST_S,
               "%s s; peak %.0f MiB" % (seconds.text(), max(peak for _, peak in samples)), "",
               verdict(seconds.median <= BAR_FIRST_S), bench.runs())


def of_the_dag(bench):
    """What sim_dag_bars judges: each line has a figure and its bar."""
    done = subprocess.run([os.path.join(bench.build, "tests/sim/sim_dag_bars"), "--jobs", str(bench.size(1000000, 10000))],
                          stdout=subprocess.PIPE, text=True, check=False)
    for line in done.stdout.splitlines():
        is_met = verdict(not line.endswith("MISSED"))
        line = line.replace("   MISSED", "")
        if line[0].isdigit():
            what, figures = line.split(": ")
            yield Row("the dag alone in the simulator, %s" % what, "<= 5 s, <= 1 GiB", figures, "", is_met, "1")
        else:
            figures, bar = line[35:].rsplit("   bar ", 1)
            sign = "<=" if line.startswith("makespan") else ">="
            yield Row("the dag: " + line[:34].strip(), "%s %s" % (sign, bar), figures.strip(), "", is_met, "1")


def rows(bench):
    return [no_ops(bench), million(bench), *of_the_dag(bench)]
