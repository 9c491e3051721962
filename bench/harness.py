# SPDX-License-Identifier: Apache-2.0
"""What every claim of the benchmarks needs: commands timed in turn, spreads, rows of the table."""
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Callable, NamedTuple


class Sample(NamedTuple):
    """One run of a command."""
    wall: float
    user: float
    system: float
    peak_kib: int
    status: int
    begin: float

    @property
    def cpu(self):
        return self.user + self.system


class Spread(NamedTuple):
    """Of several runs. Text is `median (min-max)`."""
    median: float
    min: float
    max: float

    def text(self, scale=1.0, digits=2):
        return "{:,.{d}f} ({:,.{d}f}-{:,.{d}f})".format(
            self.median * scale, self.min * scale, self.max * scale, d=digits)


def spread(values):
    values = list(values)
    return Spread(statistics.median(values), min(values), max(values))


class Row(NamedTuple):
    claim: str
    bar: str
    muster: str
    beside: str
    holds: str  # "yes", "NO", or "" where there is no bar
    runs: str


def verdict(is_met):
    return "yes" if is_met else "**no**"


class Bench:
    """Where the build is, how large the cases are, and a folder that goes away at the end."""

    def __init__(self, build, quick, rounds=None):
        self.build = os.path.abspath(build)
        self.quick = quick
        self.rounds = rounds or (1 if quick else 5)
        self.dir = tempfile.mkdtemp(prefix="muster-bench-", dir=os.environ.get("TMPDIR", "/tmp"))
        self.others = 0.0

    def close(self):
        shutil.rmtree(self.dir, ignore_errors=True)

    def size(self, full, quick):
        return quick if self.quick else full

    def path(self, name):
        return os.path.join(self.dir, name)

    def tool(self, name):
        return os.path.join(self.build, "bench", name)

    def note(self, text):
        print("# " + text, file=sys.stderr, flush=True)

    def remove(self, *names):
        for name in names:
            path = self.path(name)
            if os.path.isdir(path):
                shutil.rmtree(path)
            elif os.path.exists(path):
                os.unlink(path)

    def timed(self, argv, expect=0, **streams):
        """Run one command in the bench's folder; its stderr is shown when its status is not `expect`."""
        times = self.path("times")
        self.remove("times")
        with tempfile.TemporaryFile() as errors:
            streams.setdefault("stdin", subprocess.DEVNULL)
            streams.setdefault("stdout", subprocess.DEVNULL)
            streams.setdefault("stderr", errors)
            subprocess.run([self.tool("bench_timed"), times, *argv], cwd=self.dir, check=False, **streams)
            with open(times, encoding="ascii") as file:
                words = file.read().split()
            sample = Sample(*map(float, words[:3]), int(words[3]), int(words[4]), float(words[5]))
            if expect is not None and sample.status != expect:
                errors.seek(0)
                sys.stderr.write(errors.read().decode(errors="replace"))
                raise SystemExit("bench: status {} from {}".format(sample.status, " ".join(argv)))
        return sample

    def muster(self, *args, **streams):
        return self.timed([os.path.join(self.build, "muster"), *args], **streams)

    def map(self, *args, out="out", **streams):
        """A `muster map -q` into a new file and a new folder, both gone before it starts."""
        self.remove(out, "run")
        return self.muster("map", "-q", "--run-dir", "run", "-o", out, *args, **streams)

    def settle(self):
        """
        ext4 without a journal passes over every inode that was deleted in the last five seconds when
        it makes a file: after many deletions that is half of the cost of a short run.
        """
        if not self.quick:
            time.sleep(6)

    def in_turn(self, cases: dict[str, Callable[[], Sample]], rounds=None, before=None):
        """A B C, A B C …: what disturbs the machine for a while disturbs all alike."""
        samples = {name: [] for name in cases}
        cpu_0, busy_0, all_0 = own_ticks(), *machine_ticks()
        for _ in range(rounds or self.rounds):
            if before:
                before()
            for name, case in cases.items():
                samples[name].append(case())
        busy_1, all_1 = machine_ticks()
        own = own_ticks() - cpu_0
        self.others = max(0.0, (busy_1 - busy_0 - own) / max(1.0, all_1 - all_0))
        return samples

    def runs(self, rounds=None):
        """For the table's last column: how many rounds, and what others took of the machine meanwhile."""
        return "{}, {:.0f} %".format(rounds or self.rounds, 100 * self.others)


def machine_ticks():
    """Ticks of all cores so far: busy, and all."""
    with open("/proc/stat", encoding="ascii") as file:
        ticks = list(map(int, file.readline().split()[1:9]))
    idle = ticks[3] + ticks[4]
    return sum(ticks) - idle, sum(ticks)


def own_ticks():
    total = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        total += usage.ru_utime + usage.ru_stime
    return total * os.sysconf("SC_CLK_TCK")


def table(rows):
    """Markdown, its columns aligned."""
    head = Row("claim", "bar", "muster", "beside it, same run", "met", "runs, others' load")
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    line = lambda cells: "| " + " | ".join(cell.ljust(w) for cell, w in zip(cells, widths)) + " |"
    return "\n".join([line(head), "|" + "|".join("-" * (w + 2) for w in widths) + "|", *map(line, rows)])
