#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`muster split` is killed at every call that gives, takes or secures a name. Into a folder that was not there:
all parts are there afterwards, or no folder. Into one that others use too: the same command again, without
--force, makes all parts, or says that they are there, and they are.

    split_kill.py MUSTER LIBFAULT
"""
import mmap
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile

MUSTER, LIBFAULT = map(os.path.abspath, sys.argv[1:3])
KINDS = ["rename", "unlink", "sync", "mkdir"]
N_PARTS, N_LINES, CALLS_MAX = 5, 23, 200
FEW_FILES = ["bash", "-c", 'ulimit -n 20; exec "$@"', "-"]


class Folder:
    """What is in a folder, and a split that is killed, or not, in it."""

    def __init__(self, path):
        self.path = path
        with open(self.at("in.txt"), "w", encoding="ascii") as file:
            file.writelines(f"{i}\n" for i in range(N_LINES))

    def at(self, name):
        return os.path.join(self.path, name)

    def split(self, args, fault=None, before=()):
        counts = self.at("counts")
        with open(counts, "wb") as file:
            file.write(bytes(mmap.PAGESIZE))
        env = dict(os.environ)
        if fault:
            env.update(LD_PRELOAD=LIBFAULT, FAULT=f"{fault}:-9", FAULT_PROGRAM="muster", FAULT_COUNTS=counts)
        done = subprocess.run([*before, MUSTER, "split", *args, "in.txt"], cwd=self.path, env=env,
                              capture_output=True, encoding="utf-8", timeout=60)
        with open(counts, "rb") as file:
            is_armed = struct.unpack("<3Q", file.read(24))[0]
        assert bool(is_armed) == bool(fault), "the library of faults was not loaded"
        os.unlink(counts)
        return done

    def names(self, name="."):
        return sorted(os.listdir(self.at(name))) if os.path.isdir(self.at(name)) else []

    def parts(self, name="."):
        return [part for part in self.names(name) if re.fullmatch(r"in\.part_\d+\.txt", part)]

    def is_whole(self, name="."):
        texts, parts = [], self.parts(name)
        for part in parts:
            with open(os.path.join(self.at(name), part), encoding="ascii") as file:
                texts.append(file.read())
        lines = "".join(texts).split()
        return len(parts) == N_PARTS and lines == [str(i) for i in range(N_LINES)]


def flaw_of_new(folder, kill, before):
    """One reader who lists the folder sees all or nothing."""
    args = ["-n", str(N_PARTS), "-o", "deep/parts/"]
    done = folder.split(args, kill, before)
    if done.returncode != -signal.SIGKILL:
        return None
    left = folder.names("deep/parts")
    if left and not folder.is_whole("deep/parts"):
        return f"left: {left}"
    if left:
        return None
    again = folder.split(args, None, before)
    return None if again.returncode == 0 and folder.is_whole("deep/parts") else f"again: {again.stderr}"


def flaw_of_shared(folder, kill, before, earlier=None):
    """`earlier`: another cut was there, and --force replaces it."""
    force = ["--force"] if earlier else []
    if earlier:
        assert folder.split(["-n", str(earlier)]).returncode == 0
    args = ["-n", str(N_PARTS)]
    if folder.split([*args, *force], kill, before).returncode != -signal.SIGKILL:
        return None
    n_left = 0 if earlier else len(folder.parts())
    again = folder.split([*args, *force], None, before)
    if 0 < n_left < N_PARTS and f"{n_left} part" not in again.stderr:
        return f"not said: {again.stderr}"
    if again.returncode != 0 and not (again.returncode == 2 and " exists; --force" in again.stderr):
        return f"again: {again.returncode} {again.stderr.strip()}"
    # Files that had names beside their own stay, and are said (tests/cli/split.bats).
    left = {name for name in folder.names() if not name.endswith(".new")}
    left -= {"in.txt", *(f"in.part_{i:02}.txt" for i in range(N_PARTS))}
    if again.returncode == 2:  # killed when all were in place
        left.discard("in.part_.txt.naming")
    return None if folder.is_whole() and not left else f"left: {folder.names()}"


SCENES = {
    "a folder that was not there": lambda folder, kill: flaw_of_new(folder, kill, ()),
    "a folder that was not there, more parts than files": lambda folder, kill: flaw_of_new(folder, kill, FEW_FILES),
    "a folder of others too": lambda folder, kill: flaw_of_shared(folder, kill, ()),
    "a folder of others too, more parts than files": lambda folder, kill: flaw_of_shared(folder, kill, FEW_FILES),
    "over an earlier cut into more": lambda folder, kill: flaw_of_shared(folder, kill, (), N_PARTS + 3),
}


def main():
    bad = 0
    print(f"1..{len(SCENES)}")
    for point, (name, scene) in enumerate(SCENES.items(), 1):
        flaws, n_killed = [], 0
        for kind in KINDS:
            for number in range(1, CALLS_MAX):
                with tempfile.TemporaryDirectory(prefix="muster-split-kill-") as path:
                    folder = Folder(path)
                    probe = Probe(folder)
                    flaw = scene(probe, f"{kind}:{number}")
                    if not probe.was_killed:
                        break
                    n_killed += 1
                    if flaw:
                        flaws.append(f"# {kind} {number}: {flaw}")
        if n_killed < N_PARTS:
            flaws.append("# hardly ever killed")
        bad += bool(flaws)
        print(f"{'not ok' if flaws else 'ok'} {point} - {name}: killed {n_killed} times", *flaws, sep="\n", flush=True)
    return 1 if bad else 0


class Probe:
    """A folder that remembers whether anything was killed in it."""

    def __init__(self, folder):
        self.folder, self.was_killed = folder, False

    def __getattr__(self, name):
        return getattr(self.folder, name)

    def split(self, *args):
        done = self.folder.split(*args)
        self.was_killed |= done.returncode == -signal.SIGKILL
        return done


if __name__ == "__main__":
    sys.exit(main())
