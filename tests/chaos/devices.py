#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills muster on two GPUs again and again, and starts it again at once: never may two workers share a GPU.

The GPUs are played by a stand-in for NVML. The workers ignore TERM and the end of their input, so each lives on for
--grace after its muster; each takes a lock of its own for its GPU, and reports a collision if it is not alone there.
Some rounds kill a guard as well, delete the lock files, or start a second muster beside the first.

    devices.py MUSTER FAKE_NVML [--kills 200] [--seed 1]

prints TAP. Whatever was killed, the last session must end well, with every result, and leave nobody behind.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import Dict, Optional

sys.dont_write_bytecode = True
from chaos import comm, marked  # noqa: E402

GPUS = 2
ITEMS = 400
GRACE_MS = 300
LIMIT_S = 120.0

WORKER = r"""#!/bin/sh
trap '' TERM
exec 9>"on.$MUSTER_DEVICE_INDEX"
flock -n 9 || echo "a second worker on GPU $MUSTER_DEVICE_INDEX: $$" >>collisions
echo $$ >>started
while read -r n; do echo "$n"; sleep 0.01 9>&-; done
until [ -e calm ]; do sleep 0.02 9>&-; done
"""


def is_guard(pid: int) -> bool:
    return comm(pid) == "muster-guard"


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Siege:
    def __init__(self, muster: str, nvml: str, seed: int, folder: str) -> None:
        self.muster, self.folder, self.rng = muster, folder, random.Random(seed)
        self.locks = os.path.join(folder, "locks")
        self.mark = f"{os.getpid()}-{seed}"
        self.env: Dict[str, str] = dict(os.environ, CHAOS_MARK=self.mark, MUSTER_LOCK_DIR=self.locks, MUSTER_NVML=nvml,
                                        MUSTER_FAKE_NVML=f"gpus={GPUS}", MUSTER_SYSFS="/nowhere")  # fmt: skip
        self.env.pop("MUSTER_RUNS_DIR", None)
        self.env.pop("CUDA_VISIBLE_DEVICES", None)
        self.n_kills = self.n_outputs = 0
        with open(self.at("in.txt"), "w", encoding="utf-8") as file:
            file.writelines(f"{i}\n" for i in range(ITEMS))
        with open(self.at("worker"), "w", encoding="utf-8") as file:
            file.write(WORKER)
        os.chmod(self.at("worker"), 0o755)

    def at(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def begin(self, *options: str, output: str = "out.txt") -> subprocess.Popen[bytes]:
        argv = [self.muster, "map", *options, "--grace", f"{GRACE_MS}ms", "in.txt", "-o", output, "--", "./worker"]
        with open(self.at("said"), "ab") as said:
            said.write(("$ " + " ".join(argv) + "\n").encode())
            said.flush()
            return subprocess.Popen(argv, cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, stdout=said, stderr=said)

    def n_started(self) -> int:
        try:
            with open(self.at("started"), encoding="utf-8") as file:
                return len(file.readlines())
        except OSError:
            return 0

    def collisions(self) -> str:
        try:
            with open(self.at("collisions"), encoding="utf-8") as file:
                return file.read()
        except OSError:
            return ""

    def locks_delete(self) -> None:
        if self.rng.random() < 0.3:
            shutil.rmtree(self.locks, ignore_errors=True)
            return
        for name in os.listdir(self.locks) if os.path.isdir(self.locks) else []:
            os.unlink(os.path.join(self.locks, name))

    def round(self) -> None:
        """One muster, killed at some moment: as it starts, with workers there, or while it waits for the last one's."""
        spec = self.rng.choice([[], ["-g", "all"], ["-g", "0-1"], ["-g", str(self.rng.randrange(GPUS))]])
        self.n_outputs += self.rng.random() < 0.5  # else the run before goes on
        muster = self.begin(*spec, output=f"out{self.n_outputs}.txt")
        beside: Optional[subprocess.Popen[bytes]] = None
        before, end_s = self.n_started(), time.monotonic() + self.rng.choice([0.05, 0.3, 10])
        while time.monotonic() < end_s and self.n_started() == before and muster.poll() is None:
            time.sleep(0.005)
        time.sleep(self.rng.uniform(0, 0.1))
        if self.rng.random() < 0.3:
            self.locks_delete()
        if self.rng.random() < 0.3:
            beside = self.begin("-g", "all", output="beside.txt")
            time.sleep(self.rng.uniform(0, 0.3))
        guards = sorted(pid for pid in marked(self.mark) if is_guard(pid))
        if guards and self.rng.random() < 0.2:
            kill(self.rng.choice(guards))
        for child in [muster] + ([beside] if beside else []):
            kill(child.pid)
            self.n_kills += child.wait() == -signal.SIGKILL

    def calm(self) -> Optional[str]:
        """What is wrong with a last session that nobody disturbs, None: nothing."""
        with open(self.at("calm"), "w", encoding="utf-8"):
            pass
        muster = self.begin("-g", "all", output="last.txt")
        try:
            if muster.wait(LIMIT_S) != 0:
                return f"the undisturbed session ended with {muster.returncode}"
        except subprocess.TimeoutExpired:
            kill(muster.pid)
            return "the undisturbed session did not end"
        with open(self.at("last.txt"), encoding="utf-8") as found, open(self.at("in.txt"), encoding="utf-8") as wanted:
            if found.read() != wanted.read():
                return "its output is not complete"
        end_s = time.monotonic() + 30
        while marked(self.mark) and time.monotonic() < end_s:
            time.sleep(0.05)
        return f"left running: {marked(self.mark)}" if marked(self.mark) else None


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("muster")
    parser.add_argument("nvml")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix=f"siege-{args.seed}-")
    siege = Siege(os.path.abspath(args.muster), os.path.abspath(args.nvml), args.seed, folder)
    trouble: Optional[str] = None
    print("1..1", flush=True)
    try:
        while siege.n_kills < args.kills and not siege.collisions():
            siege.round()
        trouble = siege.calm()
        trouble = siege.collisions().strip().replace("\n", "; ") or trouble
        n_started = siege.n_started()
    finally:
        for pid in marked(siege.mark):
            kill(pid)
    if trouble:
        with open(siege.at("said"), encoding="utf-8", errors="replace") as file:
            print("".join("# " + line for line in file.readlines()[-40:]), end="")
    shutil.rmtree(folder, ignore_errors=True)
    words = f"{siege.n_kills} kills, {n_started} workers on {GPUS} GPUs, seed {args.seed}"
    print(f"not ok 1 - {words}: {trouble}" if trouble else f"ok 1 - {words}: never two on one")
    return 1 if trouble else 0


if __name__ == "__main__":
    sys.exit(main())
