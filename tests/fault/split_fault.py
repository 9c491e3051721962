#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`muster split` while the n-th system call of a kind fails, for every n: a sentence and a status, and no part
is left; or all of them, and right.

    split_fault.py MUSTER LIBFAULT [PARTS [STEP]]
"""
import errno
import mmap
import os
import struct
import subprocess
import sys
import tempfile

MUSTER, LIBFAULT = map(os.path.abspath, sys.argv[1:3])
N_PARTS = int(sys.argv[3]) if len(sys.argv) > 3 else 3
STEP = int(sys.argv[4]) if len(sys.argv) > 4 else 1
FULL = {"write", "pwrite"}
KINDS = ["write", "sync", "rename", "create", "open", "mkdir", "unlink", "stat", "read"]
TEXT = "a,b\n" + "".join(f'{i},"x\n{i}"\n' for i in range(500))
FAULTS_MAX = 2000


class Try:
    def __init__(self, kind, number):
        self.kind, self.number = kind, number
        with tempfile.TemporaryDirectory(prefix="muster-split-fault-") as folder:
            self.run(folder)

    def run(self, folder):
        with open(os.path.join(folder, "in.csv"), "w", encoding="ascii") as file:
            file.write(TEXT)
        counts = os.path.join(folder, "counts")
        with open(counts, "wb") as file:
            file.write(bytes(mmap.PAGESIZE))
        what = errno.ENOSPC if self.kind in FULL else errno.EIO
        env = dict(os.environ, LD_PRELOAD=LIBFAULT, FAULT=f"{self.kind}:{self.number}:{what}",
                   FAULT_PROGRAM="muster", FAULT_COUNTS=counts)
        self.done = subprocess.run([MUSTER, "split", "-q", "-n", str(N_PARTS), "-o", "parts/", "in.csv"], cwd=folder,
                                   env=env, capture_output=True, encoding="utf-8", timeout=60)
        with open(counts, "rb") as file:
            is_armed, self.calls, self.failed = struct.unpack("<3Q", file.read(24))
        assert is_armed, "the library of faults was not loaded"
        parts = os.path.join(folder, "parts")
        self.left = sorted(os.listdir(parts)) if os.path.isdir(parts) else []
        self.joined = ""
        for name in self.left:
            with open(os.path.join(parts, name), newline="", encoding="ascii") as file:
                text = file.read()
            self.joined += text[len("a,b\n"):] if self.joined else text

    def flaw(self):
        status, said = self.done.returncode, self.done.stderr
        if status == 0:
            return None if len(self.left) == N_PARTS and self.joined == TEXT else "status 0, and not all parts"
        if status not in (1, 2, 65, 75):
            return f"status {status}"
        if not said.startswith("muster: ") or said.count("\n") != 1:
            return "no sentence"
        # Where the folder itself cannot be synced, or a leftover not be removed, the failure comes too late.
        return f"left: {self.left[:5]}" if self.left else None


def main():
    bad = n_tries = 0
    print(f"1..{len(KINDS)}")
    for point, kind in enumerate(KINDS, 1):
        flaws = []
        for number in range(1, FAULTS_MAX, STEP):
            one = Try(kind, number)
            if not one.failed:
                break
            n_tries += 1
            flaw = one.flaw()
            if flaw:
                flaws.append(f"# {kind} {number}: {flaw}: {one.done.stderr.strip()}")
        bad += bool(flaws)
        print(f"{'not ok' if flaws else 'ok'} {point} - {kind}: {number - 1} calls", *flaws, sep="\n", flush=True)
    print(f"# {n_tries} faults")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
