#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`muster merge` of files of torch.save while the n-th system call of a kind fails, for every n: a sentence and a
status, and nothing is left; or the whole output, and right.

    merge_fault.py MUSTER LIBFAULT [STEP]
"""
import errno
import mmap
import os
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import torch_like as made  # noqa: E402

MUSTER, LIBFAULT = map(os.path.abspath, sys.argv[1:3])
STEP = int(sys.argv[3]) if len(sys.argv) > 3 else 1
FAULTS_MAX = 2000
FULL_DISK = {75}
# What fails, and the statuses that may come of it: those of the manual, and of a full disk that one.
FAULTS = [("write", errno.ENOSPC, FULL_DISK), ("write", errno.EIO, {1, 75}), ("write", 0, {0}), ("pwrite", errno.ENOSPC, FULL_DISK), ("pwrite", 0, {0}),
          ("sync", errno.EIO, {1, 75}), ("rename", errno.EIO, {1, 2, 75}), ("create", errno.ENOSPC, {2, 75}), ("open", errno.EMFILE, {1, 2, 75}),
          ("read", errno.EIO, {1, 65, 75}), ("read", 0, {0}), ("stat", errno.EIO, {1, 2, 75}), ("malloc", errno.ENOMEM, {75}),
          ("spawn", errno.EAGAIN, {0})]


def floats(n, first):
    return made.Storage(made.FloatStorage, struct.pack(f"<{n}f", *range(first, first + n)))


def part(k):
    weights = floats(30_000, k)
    return {"questions": [{"id": 10 * k + i, "hidden": made.Tensor(floats(50, i), (5, 10))} for i in range(10)], "num_questions": 10,
            "rows": made.Tensor(weights, (300, 100)), "turned": made.Tensor(weights, (100, 300), 0, (1, 100)), "model": "m"}


class Try:
    def __init__(self, fault, number, has_old):
        self.kind, self.what, self.statuses = fault
        self.number, self.has_old = number, has_old
        with tempfile.TemporaryDirectory(prefix="muster-merge-fault-") as folder:
            self.run(folder)

    def run(self, folder):
        names = []
        for k in range(2):
            names.append(f"part_{k}.pt")
            with open(os.path.join(folder, names[-1]), "wb") as file:
                file.write(PARTS[k])
        if self.has_old:
            with open(os.path.join(folder, "out.pt"), "wb") as file:
                file.write(b"the old one")
        counts = os.path.join(folder, "counts")
        with open(counts, "wb") as file:
            file.write(bytes(mmap.PAGESIZE))
        env = dict(os.environ, LD_PRELOAD=LIBFAULT, FAULT=f"{self.kind}:{self.number}:{self.what}", FAULT_PROGRAM="muster", FAULT_COUNTS=counts)
        options = ["-qf"] if self.has_old else ["-q"]
        self.done = subprocess.run([MUSTER, "merge", *options, *names, "-o", "out.pt"], cwd=folder, env=env, capture_output=True, encoding="utf-8", timeout=60)
        with open(counts, "rb") as file:
            is_armed, self.calls, self.failed = struct.unpack("<3Q", file.read(24))
        assert is_armed, "the library of faults was not loaded"
        self.left = set(os.listdir(folder)) - {*names, "counts"}
        self.out = None
        if "out.pt" in self.left:
            with open(os.path.join(folder, "out.pt"), "rb") as file:
                self.out = file.read()

    def flaw(self):
        status, said, old = self.done.returncode, self.done.stderr, b"the old one" if self.has_old else None
        extra = self.left - {"out.pt"}
        if status not in self.statuses and not (status == 0 and self.out == WANTED):
            return f"status {status}"
        if extra:
            return f"left: {extra}"
        if status == 0:
            return None if self.out == WANTED else "status 0, and not the output"
        if not said.startswith("muster: ") or said.count("\n") != 1:
            return "no sentence"
        # Where the folder itself cannot be synced, the failure comes when the output is in place.
        if self.out not in (old, WANTED) or (self.out == WANTED and self.kind not in ("sync", "rename")):
            return f"an output of {len(self.out or b'')} bytes"
        return None


def wanted():
    with tempfile.TemporaryDirectory(prefix="muster-merge-fault-") as folder:
        for k in range(2):
            with open(os.path.join(folder, f"part_{k}.pt"), "wb") as file:
                file.write(PARTS[k])
        subprocess.run([MUSTER, "merge", "-q", "part_0.pt", "part_1.pt", "-o", "out.pt"], cwd=folder, check=True, timeout=60)
        with open(os.path.join(folder, "out.pt"), "rb") as file:
            return file.read()


PARTS = [made.saved(part(k)) for k in range(2)]
WANTED = wanted()


def main():
    bad = n_tries = 0
    print(f"1..{len(FAULTS)}")
    for point, fault in enumerate(FAULTS, 1):
        flaws, number = [], 1
        for number in range(1, FAULTS_MAX, STEP):
            one = Try(fault, number, number % 2 == 0)
            if not one.failed:
                break
            n_tries += 1
            flaw = one.flaw()
            if flaw:
                flaws.append(f"# {number}: {flaw}: {one.done.stderr.strip()}")
        if number == 1:  # and a kind that is never called proves nothing
            flaws.append("# no call failed")
        bad += bool(flaws)
        what = errno.errorcode[fault[1]] if fault[1] else "short"
        print(f"{'not ok' if flaws else 'ok'} {point} - {fault[0]} {what}: {number - 1} calls", *flaws, sep="\n", flush=True)
    print(f"# {n_tries} faults")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
