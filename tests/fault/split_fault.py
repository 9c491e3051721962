#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`muster split`, of records and of arrays, and `muster merge` of arrays while the n-th system call of a kind
fails, for every n: a sentence and a status, and no file is left; or all of them, and right.

    split_fault.py MUSTER LIBFAULT [PARTS [STEP [SCENE]]]     SCENE: csv, there, npz, merge
"""
import errno
import mmap
import os
import struct
import subprocess
import sys
import tempfile
import zipfile

MUSTER, LIBFAULT = map(os.path.abspath, sys.argv[1:3])
N_PARTS = int(sys.argv[3]) if len(sys.argv) > 3 else 3
STEP = int(sys.argv[4]) if len(sys.argv) > 4 else 1
FULL = {"write", "pwrite"}
KINDS = ["write", "sync", "rename", "create", "open", "mkdir", "stat", "read"]
SCENE = sys.argv[5] if len(sys.argv) > 5 else "csv"
TEXT = "a,b\n" + "".join(f'{i},"x\n{i}"\n' for i in range(500))
FAULTS_MAX = 2000


HEAD_BYTES = 128  # of an array in a file


def npz(path, rows, method):
    head = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({len(rows)}, 50), }}"
    data = b"".join(struct.pack("<50q", *[row] * 50) for row in rows)
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("x.npy", b"\x93NUMPY\1\0\x76\0" + head.ljust(HEAD_BYTES - 11).encode() + b"\n" + data)


class Csv:
    """Rows of a file, in parts."""
    kinds = KINDS
    command, n_files, whole = ["split", "-q", "-n", str(N_PARTS), "-o", "parts/", "in.csv"], N_PARTS, TEXT

    def make(self, folder):
        with open(os.path.join(folder, "in.csv"), "w", encoding="ascii") as file:
            file.write(TEXT)

    def join(self, paths):
        texts = []
        for path in paths:
            with open(path, newline="", encoding="ascii") as file:
                texts.append(file.read())
        return "".join([text[len("a,b\n"):] if i else text for i, text in enumerate(texts)])


class There(Csv):
    """The same, into a folder that is there."""
    kinds = [kind for kind in KINDS if kind != "mkdir"] + ["unlink"]

    def make(self, folder):
        super().make(folder)
        os.mkdir(os.path.join(folder, "parts"))


class Npz:
    """Rows of an array that is packed, in parts that are not."""
    kinds = KINDS
    command, n_files = ["split", "-q", "-n", str(N_PARTS), "-o", "parts/", "in.npz"], N_PARTS
    whole = b"".join(struct.pack("<50q", *[row] * 50) for row in range(500))

    def make(self, folder):
        npz(os.path.join(folder, "in.npz"), range(500), zipfile.ZIP_DEFLATED)

    def join(self, paths):
        data = []
        for path in paths:
            with zipfile.ZipFile(path) as file:
                data.append(file.read("x.npy")[HEAD_BYTES:])
        return b"".join(data)


class Merge(Npz):
    """The same array of two files, one of them packed, in one, in a folder that is there."""
    kinds = [kind for kind in KINDS if kind != "mkdir"]
    command, n_files = ["merge", "-q", "a.npz", "b.npz", "-o", "parts/all.npz"], 1

    def make(self, folder):
        npz(os.path.join(folder, "a.npz"), range(300), zipfile.ZIP_STORED)
        npz(os.path.join(folder, "b.npz"), range(300, 500), zipfile.ZIP_DEFLATED)
        os.mkdir(os.path.join(folder, "parts"))


scene = {"csv": Csv, "there": There, "npz": Npz, "merge": Merge}[SCENE]()


class Try:
    def __init__(self, kind, number):
        self.kind, self.number = kind, number
        with tempfile.TemporaryDirectory(prefix="muster-split-fault-") as folder:
            self.run(folder)

    def run(self, folder):
        scene.make(folder)
        counts = os.path.join(folder, "counts")
        with open(counts, "wb") as file:
            file.write(bytes(mmap.PAGESIZE))
        what = errno.ENOSPC if self.kind in FULL else errno.EIO
        env = dict(os.environ, LD_PRELOAD=LIBFAULT, FAULT=f"{self.kind}:{self.number}:{what}",
                   FAULT_PROGRAM="muster", FAULT_COUNTS=counts)
        self.done = subprocess.run([MUSTER, *scene.command], cwd=folder,
                                   env=env, capture_output=True, encoding="utf-8", timeout=60)
        with open(counts, "rb") as file:
            is_armed, self.calls, self.failed = struct.unpack("<3Q", file.read(24))
        assert is_armed, "the library of faults was not loaded"
        parts = os.path.join(folder, "parts")
        self.left = sorted(os.listdir(parts)) if os.path.isdir(parts) else []
        paths = [os.path.join(parts, name) for name in self.left if not name.endswith(".naming")]
        try:
            self.is_right = len(paths) == scene.n_files and scene.join(paths) == scene.whole
        except (zipfile.BadZipFile, ValueError, KeyError):
            self.is_right = False

    def flaw(self):
        status, said = self.done.returncode, self.done.stderr
        if status == 0:
            return None if self.is_right else "status 0, and not all parts"
        if status not in (1, 2, 65, 75):
            return f"status {status}"
        if not said.startswith("muster: ") or said.count("\n") != 1:
            return "no sentence"
        # Where the folder itself cannot be synced, or a leftover not be removed, the failure comes too late.
        if "the parts are in place" in said and self.is_right:
            return None
        if scene.n_files == 1 and "sync folder" in said and self.is_right:
            return None
        return f"left: {self.left[:5]}" if self.left else None


def main():
    bad = n_tries = 0
    print(f"1..{len(scene.kinds)}")
    for point, kind in enumerate(scene.kinds, 1):
        flaws = []
        for number in range(1, FAULTS_MAX, STEP):
            one = Try(kind, number)
            if not one.failed:
                break
            n_tries += 1
            flaw = one.flaw()
            if flaw:
                flaws.append(f"# {kind} {number}: {flaw}: {one.done.stderr.strip()}")
        if number == 1:  # and a kind that is never called proves nothing
            flaws.append("# no call failed")
        bad += bool(flaws)
        print(f"{'not ok' if flaws else 'ok'} {point} - {kind}: {number - 1} calls", *flaws, sep="\n", flush=True)
    print(f"# {n_tries} faults")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
