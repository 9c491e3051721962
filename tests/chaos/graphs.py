#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills `muster graph`, its guards and its jobs at random moments, and goes on until all jobs are done.

Each run gets a random graph of shell jobs from its seed: some leave files, some folders, some nothing, some a
process that does not want to end. A job notes when it begins. It writes half of its output, waits, and writes
the whole, which is made of what the jobs left that it needs. In the end the output of every job must be right;
no job that run.db called done may have begun again; none may have begun more often than it could have been
interrupted; no process may be left; and the same command once more must start nothing.

    graphs.py MUSTER [--runs 40] [--seed 1] [--jobs 2] [--keep]

prints TAP, one line a run; a failing run is repeated by --seed N --runs 1.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from typing import Dict, List, NamedTuple, Set, Tuple

sys.dont_write_bytecode = True
from chaos import Broken, comm, marked, session_of, wait_until  # noqa: E402

SESSION_LIMIT_S = 60.0
SESSIONS_MAX = 25

# NAME KIND SECONDS [OUTPUT OF A NEED ...]
JOB = r"""#!/bin/sh
name=$1 kind=$2 seconds=$3; shift 3
echo begun >>"effects/$name"
case $kind in *family) sleep 1000 & setsid sleep 1000 >/dev/null 2>&1 & esac
out="out.$name"
case $kind in folder*) mkdir -p "$out"; out="$out/lines" ;; nothing*) out="effects/.$name" ;; esac
echo half >"$out"
sleep "$seconds"
# Each of its processes may be killed, and a shell goes on.
{ echo "$name" && cat /dev/null "$@"; } >"effects/.$name.$$" || exit 1
sort -u "effects/.$name.$$" >"$out" || exit 1
echo "$name says what it did"
"""


class Job(NamedTuple):
    name: str
    kind: str
    seconds: float
    needs: Tuple["Job", ...]

    def out(self) -> str:
        return f"out.{self.name}" + ("/lines" if self.kind.startswith("folder") else "")

    def has_out(self) -> bool:
        return not self.kind.startswith("nothing")

    def lines(self) -> Set[str]:
        """What its output is made of: names, its own and those of the jobs that it needs, as far as they leave something."""
        return {self.name}.union(*(need.lines() for need in self.needs if need.has_out()))


def draw(rng: random.Random) -> List[Job]:
    jobs: List[Job] = []
    n_jobs = rng.choice([1, 4, 12, 40])
    slowest_s = rng.choice([0, 0.02, 0.1])
    for i in range(n_jobs):
        needs = tuple(rng.sample(jobs, min(len(jobs), rng.choice([0, 0, 1, 1, 2, 3]))))
        kind = rng.choice(["file", "file", "folder", "nothing"]) + rng.choice(["", "", "", " family"])
        jobs.append(Job(f"j{i}", kind, round(rng.uniform(0, slowest_s), 3), needs))
    return jobs


def as_yaml(jobs: List[Job]) -> str:
    text = "defaults: {retries: 30}\njobs:\n"
    for job in jobs:
        argv = ["./job", job.name, job.kind.replace(" ", "-"), str(job.seconds)]
        argv += [need.out() for need in job.needs if need.has_out()]
        text += f"  {job.name}:\n    run: [{', '.join(argv)}]\n"
        if job.needs:
            text += f"    needs: [{', '.join(need.name for need in job.needs)}]\n"
        if job.has_out():
            text += f"    out: out.{job.name}{'/' if job.kind.startswith('folder') else ''}\n"
    return text


class Run:
    def __init__(self, muster: str, seed: int, folder: str) -> None:
        self.muster, self.folder, self.rng = muster, folder, random.Random(seed)
        self.mark = f"{os.getpid()}-graph-{seed}"
        self.jobs = draw(self.rng)
        self.kills: List[str] = []
        self.n_interruptions = 0  # each kill may interrupt every job once
        self.env = dict(os.environ, CHAOS_MARK=self.mark, MUSTER_LOCK_DIR=os.path.join(folder, ".locks"))
        self.env.pop("MUSTER_RUNS_DIR", None)

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def prepare(self) -> None:
        os.mkdir(self.path("effects"))
        with open(self.path("g.yaml"), "w", encoding="utf-8") as file:
            file.write(as_yaml(self.jobs))
        with open(self.path("job"), "w", encoding="utf-8") as file:
            file.write(JOB)
        os.chmod(self.path("job"), 0o755)

    def begun(self) -> Dict[str, int]:
        """How often each job has begun."""
        found = {}
        for job in self.jobs:
            try:
                with open(self.path("effects/" + job.name), encoding="ascii") as file:
                    found[job.name] = len(file.readlines())
            except FileNotFoundError:
                found[job.name] = 0
        return found

    def done(self) -> Set[str]:
        """The jobs that run.db calls done, read from a copy, so that the run's own is not changed."""
        run_dir = self.path("muster-runs/latest")
        with tempfile.TemporaryDirectory(prefix="rows-") as copy:
            for name in ("run.db", "run.db-wal"):
                if os.path.exists(os.path.join(run_dir, name)):
                    shutil.copy(os.path.join(run_dir, name), copy)
            if not os.path.exists(os.path.join(copy, "run.db")):
                return set()
            database = sqlite3.connect(os.path.join(copy, "run.db"))
            try:
                return {name for (name,) in database.execute("SELECT name FROM jobs WHERE state = 'done'")}
            except sqlite3.DatabaseError:  # made, and not yet filled
                return set()
            finally:
                database.close()

    def disturb(self, child: subprocess.Popen[bytes], length_s: float) -> None:
        n_kills = self.rng.randint(1, 3)
        for _ in range(n_kills):
            pause_s = self.rng.uniform(0, length_s / n_kills)
            try:
                child.wait(pause_s)
                return
            except subprocess.TimeoutExpired:
                pass
            who, pid = self.rng.choice(["muster", "muster", "guard", "job"]), child.pid
            if who != "muster":
                others = [one for one in marked(self.mark) if session_of(one) not in (None, session_of(child.pid))]
                some = [one for one in others if (comm(one) == "muster-guard") == (who == "guard")]
                if not some:
                    continue
                pid = self.rng.choice(sorted(some))
            try:
                os.kill(pid, signal.SIGKILL)
                self.n_interruptions += 1
                self.kills.append(f"{who} at {pause_s * 1000:.0f} ms")
            except ProcessLookupError:
                pass

    def session(self, disturbed: bool) -> int:
        argv = [self.muster, "graph", "-g", f"cpu:{self.rng.randint(1, 5)}", "--grace", "1s", "g.yaml"]
        before, done = self.begun(), self.done()
        with open(self.path("said"), "ab") as said:
            child = subprocess.Popen(argv, cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        try:
            if disturbed:
                self.disturb(child, 0.1 + sum(job.seconds + 0.01 for job in self.jobs) / 2)
            status = child.wait(SESSION_LIMIT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            raise Broken(f"no end after {SESSION_LIMIT_S:.0f} s") from None
        again = sorted(name for name, n in self.begun().items() if name in done and n > before[name])
        if again:
            raise Broken(f"done, and run again: {', '.join(again)}")
        return status

    def until_done(self) -> int:
        n_disturbed = self.rng.randint(2, 5)
        for number in range(SESSIONS_MAX):
            status = self.session(number < n_disturbed)
            if status == 0:
                return number + 1
            if status != -signal.SIGKILL:
                raise Broken(f"session {number + 1} ended with {status}")
        raise Broken(f"not done after {SESSIONS_MAX} sessions")

    def check_outs(self) -> None:
        for job in self.jobs:
            if not job.has_out():
                continue
            with open(self.path(job.out()), encoding="ascii") as file:
                found = file.read()
            if found != "".join(line + "\n" for line in sorted(job.lines())):
                raise Broken(f"{job.out()} is wrong: {found!r}")

    def check_effects(self) -> None:
        begun = self.begun()
        wrong = [name for name, n in begun.items() if not 1 <= n <= 1 + self.n_interruptions]
        if wrong:
            raise Broken(f"begun {', '.join(f'{name} {begun[name]} times' for name in wrong)}, with {self.n_interruptions} kills")
        if self.session(False) != 0 or self.begun() != begun:
            raise Broken("the same command, when all was done, started jobs")

    def check_nobody_is_left(self) -> None:
        if not wait_until(lambda: not marked(self.mark), 15):
            left = ", ".join(f"{pid} ({comm(pid)})" for pid in marked(self.mark))
            raise Broken(f"left running: {left}")

    def check_files(self) -> None:
        runs = [name for name in os.listdir(self.path("muster-runs")) if name != "latest"]
        if len(runs) != 1 and any(self.kills):  # killed before it was one
            runs = [name for name in runs if os.path.exists(self.path(f"muster-runs/{name}/manifest.json"))]
        if len(runs) != 1:
            raise Broken(f"not one run, but {len(runs)}")

    def go(self) -> str:
        self.prepare()
        n_sessions = self.until_done()
        self.check_nobody_is_left()
        self.check_outs()
        self.check_effects()
        self.check_files()
        return f"{len(self.jobs)} jobs, {n_sessions} sessions; {', '.join(self.kills) or 'no kill arrived'}"


def one(muster: str, seed: int, keep: bool) -> Tuple[bool, int, str]:
    folder = tempfile.mkdtemp(prefix=f"chaos-graph-{seed}-")
    run = Run(muster, seed, folder)
    try:
        text = run.go()
    except Broken as error:
        for pid in marked(run.mark):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        with open(run.path("said"), encoding="utf-8", errors="replace") as file:
            tail = "".join("# " + line for line in file.readlines()[-20:])
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
        where = f", kept in {folder}" if keep else ""
        return False, len(run.kills), f"{len(run.jobs)} jobs: {error} (kills: {', '.join(run.kills)}{where})\n{tail.rstrip()}"
    shutil.rmtree(folder, ignore_errors=True)
    return True, len(run.kills), text


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("muster")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="keep the folder of a run that failed")
    args = parser.parse_args()
    muster = os.path.abspath(args.muster)
    seeds = range(args.seed, args.seed + args.runs)
    print(f"1..{args.runs}", flush=True)
    n_failed = n_kills = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        outcomes = pool.map(lambda seed: one(muster, seed, args.keep), seeds)
        for number, (seed, (passed, n, text)) in enumerate(zip(seeds, outcomes), 1):
            n_failed += not passed
            n_kills += n
            print(f"{'ok' if passed else 'not ok'} {number} - seed {seed}: {text}", flush=True)
    print(f"# {n_kills} kills in {args.runs} runs, seeds {args.seed} to {args.seed + args.runs - 1}")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
