#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes one system call of a run fail, for every call there is, and looks at what becomes of the run.

libfault.so, preloaded, counts the calls of a kind (write, sync, open, malloc …) that muster makes and lets
the n-th of them fail. For each scene and each fault, n goes up to the last call there is. Each time
the run must end by itself, with a status that the manual has and a sentence unless all went well; nothing
may be running afterwards, and no temporary file be left; what was committed must not run again; and the
same command, or `muster resume`, must bring the output that a run without a fault has, byte for byte.

    fault.py MUSTER LIBFAULT [--scene NAME] [--fault NAME] [--at N] [--cases 24] [--jobs 2]

prints TAP, one line for a scene and a fault; --cases 0 tries every n, --at one only, and shows it.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import errno
import json
import os
import re
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from scenes import SCENES, Scene, wait_until

SESSION_LIMIT_S = 60.0  # SQLite waits ten seconds for a lock, at each of three commits
LEFT_LIMIT_S = 15.0
FOR_EVER = BEYOND = 1 << 40
STAND_IN = "../fixtures/nvml/libfake_nvml.so"
STATUSES = {0, 1, 2, 65, 69, 75, 124}
COUNTS = struct.Struct("QQQQ256s")

# glibc 2.36 uses the table of name services without a look whether there was memory for it (global_state_allocate), and
# asserts that there was memory to read it.
CRASHES_OF_LIBC = ("nss_database.c",)

RUN_FILES = {"lock", "logs", "manifest.json", "orchestrator.log", "run.db", "run.db-shm", "run.db-wal",
             "status.json", "output.id", "output-1.id", "parts", "input", "run.db-journal", "shard-input", "shard-output", "jobs.json", "open_jobs.jsonl"}  # fmt: skip


class Fault(NamedTuple):
    kind: str
    what: str  # the name of an errno, or "short"
    times: int = 1

    @property
    def name(self) -> str:
        return f"{self.kind} {self.what}" + (" for ever" if self.times > 1 else "")

    def setting(self, n: int) -> str:
        return f"{self.kind}:{n}:{0 if self.what == 'short' else getattr(errno, self.what)}:{self.times}"

    @property
    def is_full_disk(self) -> bool:
        return self.what == "ENOSPC"

    @property
    def is_harmless(self) -> bool:
        """Nothing is lost by it: the call is to be made again."""
        return self.what in ("short", "EINTR")


FAULTS = [
    Fault("write", "EIO"), Fault("write", "ENOSPC", FOR_EVER), Fault("write", "short"), Fault("write", "EINTR"),
    Fault("pwrite", "EIO"), Fault("pwrite", "ENOSPC", FOR_EVER), Fault("pwrite", "short"), Fault("pwrite", "EINTR"),
    Fault("sync", "EIO"), Fault("sync", "ENOSPC", FOR_EVER), Fault("rename", "EIO"), Fault("mkdir", "ENOSPC", FOR_EVER),
    Fault("open", "EMFILE"), Fault("open", "EMFILE", FOR_EVER), Fault("create", "ENOSPC", FOR_EVER), Fault("spawn", "EAGAIN"), Fault("spawn", "EAGAIN", FOR_EVER),
    Fault("malloc", "ENOMEM"), Fault("pipe", "EMFILE"), Fault("watch", "ENOSPC"), Fault("read", "EIO"), Fault("read", "short"),
    Fault("read", "EINTR"), Fault("send", "EINTR"), Fault("send", "short"), Fault("send", "EPIPE"),
    Fault("recv", "EINTR"), Fault("recv", "short"), Fault("recv", "ECONNRESET"), Fault("unlink", "EIO"),
    Fault("truncate", "EIO"), Fault("lock", "ENOLCK"), Fault("mmap", "ENOMEM"), Fault("stat", "EIO"),
]  # fmt: skip


class Broken(AssertionError):
    """A promise was not kept; the text says which."""


class Marked:
    """Who lives and has this mark in its environment. Whoever was found without it is not looked at again."""

    def __init__(self, mark: str) -> None:
        self.needle = b"FAULT_MARK=" + mark.encode()
        self.others: Set[str] = set()

    def pids(self) -> List[int]:
        found = []
        names = {name for name in os.listdir("/proc") if name.isdigit()}
        self.others &= names
        for name in names - self.others:
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    text = file.read()
            except OSError:
                continue
            if self.needle in text.split(b"\0"):
                found.append(int(name))
            elif text:
                self.others.add(name)
        return found

    def kill(self) -> None:
        for pid in self.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def tree(folder: str) -> List[str]:
    return [os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names]


def shard_items(n_items: int, n_shards: int, shard: int) -> range:
    """Those of one shard: the remainder goes to the first ones, one each."""
    size, more = divmod(n_items, n_shards)
    first = shard * size + min(shard, more)
    return range(first, first + size + (shard < more))


def jobs_done(database: sqlite3.Connection) -> List[Tuple[int, int]]:
    """Of a graph: the numbers at the ends of their names."""
    if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'jobs'").fetchall():
        return []
    names = [name for (name,) in database.execute("SELECT name FROM jobs WHERE state = 'done'")]
    return [(6 if name == "join" else int(name[-1]), 1) for name in names]


@contextlib.contextmanager
def ledger(run_dir: str) -> Iterator[Optional[sqlite3.Connection]]:
    """A copy, so that opening it changes nothing; None: there is none."""
    with tempfile.TemporaryDirectory(prefix="ledger-") as copy:
        for name in ("run.db", "run.db-wal"):
            if os.path.exists(os.path.join(run_dir, name)):
                shutil.copy(os.path.join(run_dir, name), copy)
        if not os.path.exists(os.path.join(copy, "run.db")):
            yield None
            return
        database = sqlite3.connect(os.path.join(copy, "run.db"))
        try:
            yield database
        finally:
            database.close()


def committed_items(run_dir: str) -> Set[int]:
    """What an unfinished run's ledger has."""
    with ledger(run_dir) as database:
        if not database:
            return set()
        try:
            facts = dict(database.execute("SELECT key, value FROM facts").fetchall())
            if facts.get("state") == "finished":
                return set()
            rows = database.execute("SELECT first, count FROM ranges").fetchall()
            rows += jobs_done(database)
        except sqlite3.DatabaseError:  # made, and not yet filled
            return set()
    done = {item for first, count in rows for item in range(first, first + count)}
    if "shards" not in facts:
        return done
    n_items, n_shards = int(facts["shard_items"]), int(facts["shards"])
    return {item for shard in done for item in shard_items(n_items, n_shards, shard)}


def n_jobs_done(run_dir: str) -> int:
    with ledger(run_dir) as database:
        return len(jobs_done(database)) if database else 0


class Bench:
    """A folder of its own for one scene, in which it runs again and again."""

    def __init__(self, muster: str, lib: str, scene: Scene) -> None:
        self.scene, self.lib, self.muster = scene, lib, muster
        self.base = tempfile.mkdtemp(prefix="fault-")
        self.folder, self.start = os.path.join(self.base, "at"), os.path.join(self.base, "start")
        self.counts = os.path.join(self.base, "counts")
        mark = f"{os.getpid()}-{os.path.basename(self.base)}"
        self.marked = Marked(mark)
        self.said = self.first_said = ""
        self.env = dict(os.environ, FAULT_MARK=mark, MUSTER_LOCK_DIR=os.path.join(self.base, "locks"))
        for name in ("MUSTER_RUNS_DIR", "CUDA_VISIBLE_DEVICES"):
            self.env.pop(name, None)
        if scene.has_gpus:
            self.env.update(MUSTER_NVML=os.path.join(os.path.dirname(lib), STAND_IN), MUSTER_FAKE_NVML="gpus=2,full=1")
        if scene.program != "muster":
            self.muster = self.own_programs(muster)
        os.mkdir(self.folder)
        scene.prepare(self)
        self.done_before = {item for run_dir in self.run_dirs() for item in committed_items(run_dir)}
        shutil.copytree(self.folder, self.start, symlinks=True)
        status = self.session(self.first_argv())
        if status != scene.status:
            raise Broken(f"without a fault the scene ends with {status}: {self.said}")
        self.wanted = self.output()
        if self.wanted is None:
            raise Broken("without a fault there is no output")

    def own_programs(self, muster: str) -> str:
        """Nothing can be preloaded into the real guard, which is static: the same, linked otherwise, takes its place."""
        folder = os.path.join(self.base, "bin")
        os.mkdir(folder)
        shutil.copy(muster, folder)
        shutil.copy(os.path.join(os.path.dirname(muster), "muster-devices"), folder)
        shutil.copy(os.path.join(os.path.dirname(self.lib), "muster-guard"), folder)
        return os.path.join(folder, "muster")

    def close(self) -> None:
        self.marked.kill()
        shutil.rmtree(self.base, ignore_errors=True)

    # ---- one session ----

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def first_argv(self, *more: str) -> List[str]:
        return [self.muster, *self.scene.verb, *more, *self.scene.argv]

    def session(self, argv: Sequence[str], fault: str = "") -> int:
        env = dict(self.env)
        if fault:
            with open(self.counts, "wb") as file:
                file.write(bytes(COUNTS.size))
            env.update(FAULT=fault, FAULT_PROGRAM=self.scene.program, FAULT_COUNTS=self.counts, LD_PRELOAD=self.lib)
        stdin = open(self.path(self.scene.stdin), "rb") if self.scene.stdin else None
        try:
            done = subprocess.run(argv, cwd=self.folder, env=env, stdin=stdin or subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=SESSION_LIMIT_S, check=False)  # fmt: skip
            self.said = done.stderr.decode(errors="replace")
            if self.scene.detaches:
                self.nobody_is_left(SESSION_LIMIT_S)
            if self.scene.out == "-":
                with open(self.path("-"), "wb") as file:
                    file.write(done.stdout)
            return done.returncode
        except subprocess.TimeoutExpired as error:
            self.said = (error.stderr or b"").decode(errors="replace")
            raise Broken(f"no end after {SESSION_LIMIT_S:.0f} s: {' '.join(argv)}") from None
        finally:
            if stdin:
                stdin.close()

    def output(self) -> Optional[bytes]:
        """Of two outputs both."""
        try:
            with open(self.path(self.scene.out), "rb") as file:
                output = b"".join(sorted(file)) if self.scene.any_order else file.read()
        except FileNotFoundError:
            return None
        if not self.scene.also:
            return output
        try:
            with open(self.path(self.scene.also), "rb") as file:
                return output + b"\0" + file.read()
        except FileNotFoundError:
            raise Broken(f"{self.scene.out} is in place, and {self.scene.also} is not") from None

    def found(self) -> Tuple[int, int, str]:
        with open(self.counts, "rb") as file:
            is_armed, calls, failed, where, where_object = COUNTS.unpack(file.read(COUNTS.size))
        if not is_armed:
            raise Broken("libfault.so was not loaded")
        return calls, failed, f"{where_object.rstrip(bytes(1)).decode()} +{where:#x}" if failed else ""

    def reset(self) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(self.start, self.folder, symlinks=True)

    # ---- what must hold ----

    def nobody_is_left(self, limit_s: float = LEFT_LIMIT_S) -> None:
        if not wait_until(lambda: not self.marked.pids(), limit_s):
            raise Broken(f"left running: {self.marked.pids()}")

    def run_dirs(self) -> List[str]:
        runs = self.path("muster-runs")
        names = sorted(os.listdir(runs)) if os.path.exists(runs) else []
        return [os.path.join(runs, name) for name in names if name != "latest" and not name.startswith(".")]

    def check_files(self, is_over: bool) -> None:
        """No temporary file beside the output or in a run's folder."""
        extra = set(os.listdir(self.folder)) - set(os.listdir(self.start)) - self.scene.files
        extra -= {self.scene.out, self.scene.out + ".failed.jsonl", "muster-runs", "ran"}
        for run_dir in self.run_dirs():
            extra |= {os.path.basename(run_dir) + "/" + name for name in set(os.listdir(run_dir)) - RUN_FILES}
            extra |= {name for name in tree(run_dir) if name.endswith((".new", ".sock"))}
            began = os.path.exists(os.path.join(run_dir, "manifest.json")) or "out of memory" in self.first_said
            if not began and not self.scene.run_dir:
                extra.add(os.path.basename(run_dir))
            if is_over and run_dir == self.run_dirs()[-1]:
                extra |= set(os.listdir(run_dir)) & {"shard-input", "shard-output"}
            if is_over and os.path.exists(os.path.join(run_dir, "manifest.json")):
                extra |= {name for name in tree(run_dir) if name.startswith("input/") and name.endswith(".part")}
        runs = self.path("muster-runs")
        extra |= {name for name in (os.listdir(runs) if os.path.exists(runs) else []) if name.startswith(".")}
        # What could not be removed at the very end is said, and goes with the next run of the same command.
        extra -= {name for name in extra if name.endswith("/parts.gone") and "parts.gone" in self.first_said and not is_over}
        if extra:
            raise Broken(f"files left: {', '.join(sorted(extra))}")

    def check_end(self, fault: Fault, status: int) -> None:
        if status not in STATUSES:
            raise Broken(f"it ended with {status}")
        is_well = status == self.scene.status and self.output() == self.wanted
        if status != 0 and not is_well and not any(line.startswith("muster: ") for line in self.said.splitlines()):
            raise Broken(f"it ended with {status} and no sentence")
        if fault.is_harmless and status != self.scene.status:
            raise Broken(f"it ended with {status}, though nothing was wrong")
        if fault.is_full_disk and status not in (0, 75, self.scene.status):
            raise Broken(f"it ended with {status} where the disk is full")
        found = self.output()
        if self.scene.out != "-" and found is not None and found != self.wanted:
            raise Broken(f"an output of {len(found)} bytes is in place that is not the right one")
        if status == 0 and found != self.wanted and not self.scene.detaches:
            raise Broken("it says that all is well, and the output is another")
        if status == 0 and self.scene.n_jobs and n_jobs_done(self.run_dirs()[-1]) != self.scene.n_jobs:
            raise Broken("it says that all is well, and the ledger lacks a job")

    def check_items_run(self, committed: Set[int]) -> None:
        again = committed & self.items_run()
        if again:
            raise Broken(f"committed items ran again: {sorted(again)}")

    def resume_argv(self, n: int) -> List[str]:
        can_resume = any(os.path.exists(os.path.join(run_dir, "manifest.json")) for run_dir in self.run_dirs())
        if can_resume and self.scene.run_dir:
            return [self.muster, "resume", self.scene.run_dir]
        if can_resume and n % 2 and not self.scene.stdin and self.scene.verb != ("graph",):
            return [self.muster, "resume"]
        return self.first_argv()

    def check_resumed(self, n: int) -> None:
        committed = {item for run_dir in self.run_dirs() for item in committed_items(run_dir)}
        if os.path.exists(self.path("ran")):
            os.unlink(self.path("ran"))
        argv = self.resume_argv(n)
        status = self.session(argv)
        if status == 65 and self.scene.stdin and "--fresh" in self.said:
            status, committed = self.session(self.first_argv("--fresh")), set()
        if status == 2 and "--force" in self.said and self.output() == self.wanted:
            status = self.session([self.muster, "resume"])  # the run was complete, and its end could not be said
        self.nobody_is_left()
        if status != self.scene.status:
            raise Broken(f"{' '.join(argv[1:3])} afterwards ends with {status}: {self.said}")
        if self.output() != self.wanted:
            raise Broken(f"{' '.join(argv[1:3])} afterwards gives another output")
        self.check_items_run(committed)
        self.check_files(True)

    def items_run(self) -> Set[int]:
        try:
            with open(self.path("ran"), encoding="ascii") as file:
                return {int(line) for line in file if line.strip()}
        except FileNotFoundError:
            return set()

    def case(self, fault: Fault, n: int) -> Tuple[bool, int]:
        """True as long as there was an n-th call; and the status."""
        self.reset()
        status = self.session(self.first_argv(), fault.setting(n))
        self.first_said = self.said
        self.nobody_is_left()
        if self.found()[1] == 0:
            if status != self.scene.status or self.output() != self.wanted:
                raise Broken(f"no call failed, and it ended with {status}")
            return False, status
        self.check_end(fault, status)
        if fault.kind != "unlink":
            self.check_files(False)
        self.check_items_run(self.done_before)
        if status != self.scene.status or self.output() != self.wanted or self.scene.detaches:
            self.check_resumed(n)
        return True, status


def numbers(n_calls: int, n_cases: int) -> List[int]:
    """The first half of the cases without a gap, the others spread over what is left."""
    if n_cases == 0 or n_calls <= n_cases:
        return list(range(1, n_calls + 2))
    dense = n_cases // 2
    rest = n_calls - dense
    spread = [dense + 1 + i * rest // (n_cases - dense) for i in range(n_cases - dense)]
    return [*range(1, dense + 1), *spread, n_calls + 1]


def place_of(where: str) -> str:
    """The line of code, where addr2line knows it."""
    where_object, _, at = where.partition(" +")
    try:
        answer = subprocess.run(["addr2line", "-fse", where_object, hex(int(at, 16) - 1)], capture_output=True, text=True,
                                check=True)  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return where
    return f"{os.path.basename(where_object)} {' '.join(answer.stdout.split())}"


class Outcome(NamedTuple):
    text: str
    broken: List[str]
    n_cases: int


def try_fault(bench: Bench, fault: Fault, n_cases: int, at: int, is_shown: bool) -> Outcome:
    statuses: Counter[int] = Counter()
    broken: List[str] = []
    bench.reset()
    bench.session(bench.first_argv(), fault.setting(BEYOND))
    n_calls = bench.found()[0]
    for n in [at] if at else numbers(n_calls, n_cases):
        status = None
        try:
            fired, status = bench.case(fault, n)
            if is_shown:
                where = place_of(bench.found()[2]) if fired else "not made"
                print(f"# {fault.name} {n} {where}: {status}: {bench.first_said.strip()}")
            if not fired:
                break
            statuses[status] += 1
        except Broken as error:
            where = bench.found()[2]
            place = place_of(where) if where else "no call failed"
            words = bench.said + bench.first_said
            is_of_libc = any(name in place or name in words for name in CRASHES_OF_LIBC)
            # With --detach muster outlives the process that crashed, and says so.
            has_crashed = re.search(r"ended with -(6|11)|was killed .*\(signal (6|11)\)", f"{error} {words}")
            if status is None and is_of_libc and has_crashed:
                statuses[-11] += 1
                bench.marked.kill()
                bench.nobody_is_left()
                continue
            said = "".join("\n#   " + line for line in bench.said.splitlines()[-4:])
            broken.append(f"call {n} ({place}): {error}{said}")
            bench.marked.kill()
            bench.nobody_is_left()
    ends = ", ".join(f"{status} × {count}" for status, count in sorted(statuses.items()))
    n_good = sum(statuses.values())
    text = f"{bench.scene.name}, {fault.name}: {n_good} of {n_calls} calls; status {ends or 'none'}"
    return Outcome(text, broken, n_good + len(broken))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("muster")
    parser.add_argument("lib")
    parser.add_argument("--scene", default="", help="this one only")
    parser.add_argument("--fault", default="", help="those whose name holds this")
    parser.add_argument("--skip", default="", help="those of this kind (SQLite waits ten seconds for a lock)")
    parser.add_argument("--at", type=int, default=0, help="the N-th call only")
    parser.add_argument("--cases", type=int, default=24, help="at most so many a scene and fault; 0: every call")
    parser.add_argument("--show", action="store_true", help="what each case said")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    muster, lib = os.path.abspath(args.muster), os.path.abspath(args.lib)
    scenes = [scene for scene in SCENES if args.scene in (scene.name, "")]
    work = [(scene, fault) for scene in scenes for fault in FAULTS
            if args.fault in fault.name and fault.kind != args.skip and (not scene.kinds or fault.kind in scene.kinds)]  # fmt: skip
    benches: Dict[Tuple[int, str], Bench] = {}
    lock = threading.Lock()

    def one(job: Tuple[Scene, Fault]) -> Outcome:
        scene, fault = job
        key = (threading.get_ident(), scene.name)
        try:
            if key not in benches:
                bench = Bench(muster, lib, scene)
                with lock:
                    benches[key] = bench
            return try_fault(benches[key], fault, args.cases, args.at, args.show)
        except Broken as error:
            return Outcome(f"{scene.name}, {fault.name}", [str(error)], 0)

    print(f"1..{len(work)}", flush=True)
    n_failed = n_cases = 0
    try:
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            for number, outcome in enumerate(pool.map(one, work), 1):
                n_failed += bool(outcome.broken)
                n_cases += outcome.n_cases
                print(f"{'not ok' if outcome.broken else 'ok'} {number} - {outcome.text}", flush=True)
                for text in outcome.broken:
                    print(f"# {text}", flush=True)
    finally:
        for bench in benches.values():
            bench.close()
    print(f"# {n_cases} faults; {n_failed} of {len(work)} lines are broken")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
