#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`muster graph --redo` of a graph that is done is killed at every call that gives or takes a name, or writes run.db.
If its words were noted, `muster resume` runs again what they named, and all that needs it. What muster status
and muster why say by then is of this session.

    graph_kill.py MUSTER LIBFAULT
"""
import json
import mmap
import os
import signal
import struct
import subprocess
import sys
import tempfile

MUSTER, LIBFAULT = map(os.path.abspath, sys.argv[1:3])
KINDS = ["rename", "unlink", "pwrite"]
CALLS_MAX = 400
GRAPH = """vars: {n: 1..1}
jobs:
  make: {run: [sh, -c, 'echo make >>effects; echo 1 >made'], out: made, gpus: 0}
  use: {run: [sh, -c, 'echo use >>effects; echo 1 >used'], out: used, needs: make, gpus: 0}
  apart: {for: [n], run: 'true', gpus: 0}
"""
ONLY = ["-q", "-g", "cpu:1", "--only", "use", "g.yaml"]


def of_number(n):
    """Each time another number of jobs, so that what an earlier session left is not what this one leaves."""
    return f"vars.n=1..{n + 1}"


class Folder:
    def __init__(self, path):
        self.path = path
        self.env = dict(os.environ, MUSTER_LOCK_DIR=self.at("locks"), XDG_CACHE_HOME=self.at("cache"))
        self.env.pop("MUSTER_RUNS_DIR", None)
        with open(self.at("g.yaml"), "w", encoding="ascii") as file:
            file.write(GRAPH)

    def at(self, name):
        return os.path.join(self.path, name)

    def muster(self, *args, kill=None):
        counts = self.at("counts")
        with open(counts, "wb") as file:
            file.write(bytes(mmap.PAGESIZE))
        env = dict(self.env)
        if kill:
            env.update(LD_PRELOAD=LIBFAULT, FAULT=f"{kill}:-9", FAULT_PROGRAM="muster", FAULT_COUNTS=counts)
        done = subprocess.run([MUSTER, *args], cwd=self.path, env=env, capture_output=True, encoding="utf-8", timeout=60)
        with open(counts, "rb") as file:
            is_armed = struct.unpack("<3Q", file.read(24))[0]
        assert bool(is_armed) == bool(kill), "the library of faults was not loaded"
        return done

    def effects(self):
        with open(self.at("effects"), encoding="ascii") as file:
            return file.read().split()

    def has_noted(self, word):
        with open(self.at("muster-runs/latest/manifest.json"), encoding="utf-8") as file:
            return word in json.load(file)["argv"]

    def state(self):
        return json.loads(self.muster("ls", "--json").stdout.splitlines()[0])["state"]


def flaw_after(folder, kill):
    """None: the kill did not come, for there are not so many calls. "": all was well."""
    before = folder.effects()
    n = int(kill.partition(":")[2])
    if folder.muster("graph", *ONLY, of_number(n), "--redo", "make", kill=kill).returncode != -signal.SIGKILL:
        return None
    state, is_noted = folder.state(), folder.has_noted(of_number(n))
    why, status = folder.muster("why", "apart"), folder.muster("status")
    if state == "finished" and "not among those of --only" not in why.stdout:
        return f"it has ended, and why says: {why.stdout}{why.stderr}"
    has_begun = is_noted and (state == "finished" or len(folder.effects()) > len(before))
    if has_begun and f"apart 0/{n + 1}" not in status.stdout:
        return f"it has begun, and status says: {status.stdout}"
    again = folder.muster("resume", "latest")
    new = folder.effects()[len(before):]
    if again.returncode != 0:
        return f"resume: {again.returncode}: {again.stderr}"
    if is_noted and ("make" not in new or new[-1] != "use"):
        return f"its words were noted, and with the resume this ran: {new}"
    return "" if not new or new[-1] == "use" else f"this ran: {new}"


def flaws_of(kind, path):
    folder = Folder(path)
    assert folder.muster("graph", *ONLY).returncode == 0
    flaws = []
    for n in range(1, CALLS_MAX):
        flaw = flaw_after(folder, f"{kind}:{n}")
        if flaw is None:
            return flaws, n - 1
        if flaw:
            flaws.append(f"killed at {kind} {n}: {flaw}")
    return flaws + [f"more than {CALLS_MAX} calls"], CALLS_MAX


def main():
    print(f"1..{len(KINDS)}", flush=True)
    n_bad = 0
    for number, kind in enumerate(KINDS, 1):
        with tempfile.TemporaryDirectory(prefix="graph-kill-") as path:
            flaws, n_kills = flaws_of(kind, path)
        is_good = not flaws and n_kills > 0
        n_bad += not is_good
        print(f"{'ok' if is_good else 'not ok'} {number} - killed at each of {n_kills} calls: {kind}", flush=True)
        for flaw in flaws:
            print(f"# {flaw.rstrip()}")
    return 1 if n_bad else 0


if __name__ == "__main__":
    sys.exit(main())
