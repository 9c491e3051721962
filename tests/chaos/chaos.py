#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills muster, its guards and its workers at random moments, again and again.

Each run gets a data set, a kind of worker and some SIGKILLs from its seed, and is resumed, with other
numbers of workers, until it is complete. Then its output must be, byte for byte, that of a run that
nobody disturbed; no process of it may be left, and no file but the ones that belong there.

    chaos.py MUSTER [--runs 40] [--seed 1] [--jobs 2] [--hosts] [--relay RELAY] [--down-ms 4000]

With --hosts the workers are on one to three hosts, whose agents run on this machine. Then agents and the
commands that reach them are killed too, or stopped for a while, as a link is that is down. With --relay
(tests/fixtures/link/relay.c) half of these runs have a network in between, which delays bytes or is down for
up to --down-ms, again and again. An agent behind it outlives its head until it hears of the end.

prints TAP, one line a run; a failing run is repeated by --seed N --runs 1. What a seed decides is fixed;
the moment a signal arrives depends on the machine as well.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

SESSION_LIMIT_S = 60.0
LINK_LIMIT_S = 480.0  # over a link that is down for most of the time, at least, on a machine that has other work
LINK_DOWNS = 120  # of the longest that may come
SESSIONS_MAX = 25


class Broken(AssertionError):
    """A promise was not kept; the text says which."""


# ------------------------------------------------------------------------------------------------
# Kinds of work: the worker, its items, and what an item's result is
# ------------------------------------------------------------------------------------------------

SHELL_FILTER = r"""#!/bin/sh
while read -r n; do echo "r$n"; done
"""

AWK_FILTER = r"""#!/bin/sh
exec awk '{print "r" $1}'
"""

KEYED_FILTER = r"""#!{python} -S
import sys, json
for line in sys.stdin:
    item = json.loads(line)
    print(json.dumps({{"id": item["id"], "double": 2 * item["id"]}}), flush=True)
"""

CHANNEL = r"""#!{python}
import muster, time
for item in muster.items():
    time.sleep(0.00005)
    item.done(id=item.index, seed=item.seed, data=item.data, metrics={{"seen": 1}})
"""

BATCHES = r"""#!{python}
import muster
for batch in muster.batches(8):
    for item in reversed(batch):
        item.done({{"i": item.index}})
"""

# A family of processes, so that there is somebody to leave behind.
FAMILY = r"""#!/bin/bash
sleep 1000 &
setsid sleep 1000 >/dev/null 2>&1 &
disown -a
while read -r n; do echo "r$n"; done
"""


class Kind(NamedTuple):
    program: str
    suffix: str  # of the input and the output
    item: Callable[[int], str]
    options: Sequence[str] = ()
    out_suffix: str = ".txt"


def _number(i: int) -> str:
    return str(i)


def _record(i: int) -> str:
    return json.dumps({"id": i, "text": "x" * (i % 50)})


KINDS: Dict[str, Kind] = {
    "filter": Kind(SHELL_FILTER, ".txt", _number),
    "buffering filter": Kind(AWK_FILTER, ".txt", _number),
    "keyed filter": Kind(KEYED_FILTER, ".jsonl", _record, ("--key", "id"), ".jsonl"),
    "channel": Kind(CHANNEL, ".txt", _number, (), ".jsonl"),
    "fixed batches": Kind(BATCHES, ".txt", _number, ("--batch", "8", "--fixed-batches"), ".jsonl"),
    "family": Kind(FAMILY, ".txt", _number),
}

# ------------------------------------------------------------------------------------------------
# One run
# ------------------------------------------------------------------------------------------------


def marked(mark: str) -> List[int]:
    """Living processes with this run's mark in their environment, without the network."""
    found = []
    needle = ("CHAOS_MARK=" + mark).encode()
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                is_marked = needle in file.read().split(b"\0")
            with open(f"/proc/{name}/cmdline", "rb") as file:
                if is_marked and b"--serve" not in file.read().split(b"\0"):
                    found.append(int(name))
        except OSError:
            pass
    return found


def session_of(pid: int) -> Optional[int]:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def comm(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def wait_until(holds: Callable[[], bool], limit_s: float) -> bool:
    end_s = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.01)
    return True


class Run:
    def __init__(self, muster: str, seed: int, folder: str, network: "Network") -> None:
        self.muster, self.seed, self.folder, self.network = muster, seed, folder, network
        self.on_hosts = network.on_hosts
        self.rng = random.Random(seed)
        self.mark = f"{os.getpid()}-{seed}"
        self.kind_name = self.rng.choice(sorted(KINDS))
        self.kind = KINDS[self.kind_name]
        self.n_items = self.rng.choice([1, 30, 400, 4000, 20000])
        self.input, self.output = "in" + self.kind.suffix, "out" + self.kind.out_suffix
        self.kills: List[str] = []
        self.link: Optional[subprocess.Popen[bytes]] = None
        self.limit_s = SESSION_LIMIT_S
        # What a session may end with. 1: every worker was killed before its first result. -9: muster was. 69: all agents
        # were, before they had answered.
        self.disturbed: Tuple[int, ...] = (-signal.SIGKILL, 1, *((69,) if network.on_hosts else ()))
        self.via = "sh -c '\"$@\"' x"
        self.env = dict(os.environ, CHAOS_MARK=self.mark, MUSTER_LOCK_DIR=os.path.join(folder, ".locks"))
        self.env.pop("MUSTER_RUNS_DIR", None)

    def prepare(self) -> None:
        with open(os.path.join(self.folder, self.input), "w", encoding="utf-8") as file:
            for i in range(self.n_items):
                file.write(self.kind.item(i) + "\n")
        worker = os.path.join(self.folder, "worker")
        with open(worker, "w", encoding="utf-8") as file:
            text = self.kind.program
            file.write(text.format(python=sys.executable) if "{python}" in text else text)
        os.chmod(worker, 0o755)

    def link_begin(self) -> None:
        """In half of the runs on hosts: a network that is slow, or down now and then."""
        if not self.network.relay or self.rng.random() < 0.5:
            return
        options = ["--delay-ms", str(self.rng.choice([0, 1, 5, 20]))]
        if self.rng.random() < 0.7:
            options += ["--cuts", f"{self.seed},{self.rng.choice([1000, 3000, 8000])},{self.network.down_ms}"]
        with open(os.path.join(self.folder, "said"), "ab") as said:
            self.link = subprocess.Popen([self.network.relay, *options, "--serve", "link"], cwd=self.folder,
                                         env=self.env, stdin=subprocess.DEVNULL, stdout=said, stderr=said)  # fmt: skip
        wait_until(lambda: os.path.exists(os.path.join(self.folder, "link")), 10)
        self.via = f"{self.network.relay} --to {self.folder}/link"
        self.kills.append("link with " + " ".join(options))

    def link_end(self) -> None:
        if self.link:
            self.link.kill()
            self.link.wait()
            os.unlink(os.path.join(self.folder, "link"))

    def devices(self) -> List[str]:
        if not self.on_hosts:
            return ["-g", f"cpu:{self.rng.randint(1, 5)}"]
        hosts = [f"h{i}=cpu:{self.rng.randint(1, 3)}" for i in range(self.rng.randint(1, 3))]
        hosts += ["local=cpu:1"] if self.rng.random() < 0.3 else []
        return ["--hosts", ",".join(hosts), "--via", self.via, "--host-timeout", "2s"]

    def command(self, *options: str) -> List[str]:
        return [self.muster, "map", *self.devices(), "--retries", "50", "--grace", "2s",
                *self.kind.options, *options, self.input, "-o", self.output, "--", "./worker"]  # fmt: skip

    def begin(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        said = open(os.path.join(self.folder, "said"), "ab")  # pylint: disable=consider-using-with
        with said:
            said.write(("$ " + " ".join(argv) + "\n").encode())
            said.flush()
            return subprocess.Popen(argv, cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, stdout=said, stderr=said)

    def undisturbed(self) -> bytes:
        child = self.begin(self.command())
        if child.wait(self.limit_s) != 0:
            raise Broken(f"the undisturbed run ended with {child.returncode}")
        with open(os.path.join(self.folder, self.output), "rb") as file:
            result = file.read()
        os.unlink(os.path.join(self.folder, self.output))
        shutil.rmtree(os.path.join(self.folder, "muster-runs"))
        return result

    def victim(self, muster_pid: int) -> Tuple[str, Optional[int]]:
        who = self.rng.choice(["muster", "muster", "worker", "guard"])
        if who == "muster":
            return who, muster_pid
        # Whom muster starts has a session of its own. Who shares muster's is a task of its sanitizer, which
        # looks for leaks at the end: muster would wait for it for ever.
        others = [pid for pid in marked(self.mark) if session_of(pid) not in (None, session_of(muster_pid))]
        guards = [pid for pid in others if comm(pid) == "muster-guard"]
        pids = sorted(guards if who == "guard" else [pid for pid in others if pid not in guards])
        return who, self.rng.choice(pids) if pids else None

    def moments(self, child: subprocess.Popen[bytes], whole_s: float) -> Iterator[float]:
        """Waits one to three times, until the child ends; the pause each time. Together they may take that long."""
        n_moments = self.rng.randint(1, 3)
        for _ in range(n_moments):
            pause_s = self.rng.uniform(0, whole_s / n_moments)
            try:
                child.wait(pause_s)
                return
            except subprocess.TimeoutExpired:
                yield pause_s

    def disturb(self, child: subprocess.Popen[bytes], mean_s: float) -> None:
        for pause_s in self.moments(child, 1.2 * mean_s):
            who, pid = self.victim(child.pid)
            if pid is None:
                continue
            try:
                if self.on_hosts and who == "worker" and self.rng.random() < 0.4:
                    self.stop(pid)
                else:
                    os.kill(pid, signal.SIGKILL)
                self.kills.append(f"{who} at {pause_s * 1000:.0f} ms")
            except ProcessLookupError:
                pass

    def stop(self, pid: int) -> None:
        """Stops a process for a while, perhaps for longer than the time after which a host is given up."""
        os.kill(pid, signal.SIGSTOP)

        def resume() -> None:
            if pid in marked(self.mark):
                os.kill(pid, signal.SIGCONT)

        threading.Timer(self.rng.uniform(0.2, 5), resume).start()

    def again(self) -> List[str]:
        """Half of the time by `muster resume`, half by typing the same command."""
        if self.rng.random() < 0.5 and os.path.exists(os.path.join(self.folder, "muster-runs/latest/manifest.json")):
            return [self.muster, "resume", "latest", *self.devices()]
        return self.command()

    def session(self, argv: Sequence[str], mean_s: float, disturbed: bool) -> int:
        child = self.begin(argv)
        limit_s = max(LINK_LIMIT_S, LINK_DOWNS * self.network.down_ms / 1000) if self.link else self.limit_s
        try:
            if disturbed:
                self.disturb(child, mean_s)
            return child.wait(limit_s)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            raise Broken(f"no end after {limit_s:.0f} s: {' '.join(argv)}") from None

    def is_finished(self) -> bool:
        answer = subprocess.run([self.muster, "status", "--json"], cwd=self.folder, env=self.env, capture_output=True, check=False)
        return answer.returncode == 0 and json.loads(answer.stdout).get("state") == "finished"

    def until_complete(self, mean_s: float) -> int:
        n_disturbed = self.rng.randint(2, 5)
        for number in range(SESSIONS_MAX):
            argv = self.command() if number == 0 else self.again()
            status = self.session(argv, mean_s, number < n_disturbed)
            if status == 0 and os.path.exists(os.path.join(self.folder, self.output)):
                return number + 1
            if status == -signal.SIGKILL and self.is_finished():  # killed at its last breath
                if self.session([self.muster, "resume", "latest"], mean_s, False) != 0:
                    raise Broken("a finished run was not resumed to nothing")
                return number + 1
            if status not in self.disturbed or number >= n_disturbed + 3:
                raise Broken(f"session {number + 1} ended with {status}: {' '.join(argv)}")
        raise Broken(f"not complete after {SESSIONS_MAX} sessions")

    def check_nobody_is_left(self) -> None:
        if not wait_until(lambda: not marked(self.mark), 15):
            left = ", ".join(f"{pid} ({comm(pid)})" for pid in marked(self.mark))
            raise Broken(f"left running: {left}")

    def check_files(self) -> None:
        expected = {self.input, self.output, "worker", "said", "muster-runs", ".locks"}
        extra = sorted(set(os.listdir(self.folder)) - expected)
        if extra:
            raise Broken(f"files left beside the output: {', '.join(extra)}")
        runs = os.path.join(self.folder, "muster-runs")
        last = os.path.join(runs, os.readlink(os.path.join(runs, "latest")))
        known = {"lock", "logs", "manifest.json", "orchestrator.log", "run.db", "run.db-shm", "run.db-wal", "status.json", "output.id"}
        extra = sorted(set(os.listdir(last)) - known)
        extra += [name for name in os.listdir(runs) if name.startswith("latest.")]
        if extra:
            raise Broken(f"files left in the run's folder: {', '.join(extra)}")

    def go(self) -> str:
        self.prepare()
        began_s = time.monotonic()
        wanted = self.undisturbed()
        self.link_begin()
        mean_s = time.monotonic() - began_s
        n_sessions = self.until_complete(mean_s)
        with open(os.path.join(self.folder, self.output), "rb") as file:
            found = file.read()
        if found != wanted:
            raise Broken(f"the output differs: {len(found)} bytes, {found.count(b'%c' % 10)} lines, "
                         f"expected {len(wanted)} bytes, {wanted.count(b'%c' % 10)} lines")  # fmt: skip
        self.check_nobody_is_left()
        return f"{self.kind_name}, {self.n_items} items, {n_sessions} sessions; {', '.join(self.kills) or 'no kill arrived'}"


class Network(NamedTuple):
    on_hosts: bool
    relay: Optional[str]
    down_ms: int


def outcome_of(run: Run, keep: bool) -> Tuple[bool, int, str]:
    """(was every promise kept, how many kills arrived, what to say)"""
    folder = run.folder
    try:
        text = run.go()
        run.link_end()
        run.check_files()
    except Broken as error:
        run.link_end()
        for pid in marked(run.mark):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        with open(os.path.join(folder, "said"), encoding="utf-8", errors="replace") as file:
            tail = "".join("# " + line for line in file.readlines()[-40:])
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
        where = f", kept in {folder}" if keep else ""
        return False, len(run.kills), f"{run.kind_name}, {run.n_items} items: {error} (kills: {', '.join(run.kills)}{where})\n{tail.rstrip()}"
    shutil.rmtree(folder, ignore_errors=True)
    return True, len(run.kills), text


def one(muster: str, seed: int, keep: bool, network: Network) -> Tuple[bool, int, str]:
    return outcome_of(Run(muster, seed, tempfile.mkdtemp(prefix=f"chaos-{seed}-"), network), keep)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("muster")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="keep the folder of a run that failed")
    parser.add_argument("--hosts", action="store_true", help="workers on other hosts, played on this machine")
    parser.add_argument("--relay", help="the program that plays a network between them")
    parser.add_argument("--down-ms", type=int, default=4000, help="how long that network is down at most")
    args = parser.parse_args()
    muster = os.path.abspath(args.muster)
    network = Network(args.hosts, os.path.abspath(args.relay) if args.relay else None, args.down_ms)
    seeds = range(args.seed, args.seed + args.runs)
    print(f"1..{args.runs}", flush=True)
    n_failed = n_kills = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        outcomes = pool.map(lambda seed: one(muster, seed, args.keep, network), seeds)
        for number, (seed, (passed, n, text)) in enumerate(zip(seeds, outcomes), 1):
            n_failed += not passed
            n_kills += n
            print(f"{'ok' if passed else 'not ok'} {number} - seed {seed}: {text}", flush=True)
    print(f"# {n_kills} kills in {args.runs} runs, seeds {args.seed} to {args.seed + args.runs - 1}")
    if n_failed:
        print(f"# {n_failed} of {args.runs} runs broke a promise; again: chaos.py {args.muster}{' --hosts' if args.hosts else ''} --seed N --runs 1 --keep")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
