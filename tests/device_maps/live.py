#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Records device maps anew, if DEVICE_MAPS_LIVE is set, and compares muster's with them.

    live.py TEST_PROGRAM
"""
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TREES = 2000


def main(program):
    if not os.environ.get("DEVICE_MAPS_LIVE"):
        print("1..0 # SKIP DEVICE_MAPS_LIVE is not set")
        return 0
    python = os.environ.get("DEVICE_MAPS_PYTHON", sys.executable)
    record = [python, os.path.join(HERE, "record.py")]
    seed = str(int(time.time()))
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*record, folder], check=True, stdout=sys.stderr)
        drawn = os.path.join(folder, "drawn-anew.txt")
        subprocess.run([*record, "--seed", seed, drawn, str(TREES)], check=True, stdout=sys.stderr)
        print(f"# {TREES} trees of seed {seed}", flush=True)
        return subprocess.run([program, folder], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
