#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How often muster looks at processes while a filter computes: by the files that it opens (libfault.so counts them).

    silence.py MUSTER LIBFAULT

A hundred other processes live beside it, none of which is of interest.
"""
import mmap
import os
import struct
import subprocess
import sys
import tempfile

MUSTER, LIBFAULT = map(os.path.abspath, sys.argv[1:3])
N_OTHERS = 100
SILENCE_S = 3
OPENED_MAX = 600
NEVER = 1 << 40
FILTER = """#!/bin/sh
while read -r n; do sleep "$1"; echo "$n"; done
"""


def n_opened(folder, seconds):
    counts = os.path.join(folder, "counts")
    with open(counts, "wb") as file:
        file.write(bytes(mmap.PAGESIZE))
    env = {**os.environ, "LD_PRELOAD": LIBFAULT, "FAULT": f"open:{NEVER}:5", "FAULT_PROGRAM": "muster", "FAULT_COUNTS": counts,
           "MUSTER_LOCK_DIR": os.path.join(folder, "locks")}
    command = [MUSTER, "map", "-q", "-g", "cpu:1", "--fresh", "in.txt", "-o", f"out-{seconds}.txt", "--", "./filter", str(seconds)]
    subprocess.run(command, cwd=folder, env=env, check=True, timeout=60)
    with open(counts, "rb") as file:
        is_armed, n_calls = struct.unpack("<2Q", file.read(16))
    assert is_armed, "the library that counts was not loaded"
    return n_calls


def main():
    with tempfile.TemporaryDirectory(prefix="silence-") as folder:
        with open(os.path.join(folder, "in.txt"), "w", encoding="ascii") as file:
            file.write("1\n")
        with open(os.path.join(folder, "filter"), "w", encoding="ascii") as file:
            file.write(FILTER)
        os.chmod(os.path.join(folder, "filter"), 0o755)
        others = [subprocess.Popen(["sleep", "1000"]) for _ in range(N_OTHERS)]
        try:
            more = n_opened(folder, SILENCE_S) - n_opened(folder, 0)
        finally:
            for other in others:
                other.kill()
                other.wait()
    print("1..1")
    if not os.path.exists("/proc/thread-self/children"):
        print("ok 1 - a filter that computes # SKIP this kernel does not list the children of a process")
        return 0
    is_right = more <= OPENED_MAX
    print(f"{'ok' if is_right else 'not ok'} 1 - a filter that computes for {SILENCE_S} s costs {more} files opened, at most {OPENED_MAX}")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
