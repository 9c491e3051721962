#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`muster kge train` while the n-th system call of a kind fails, for every n: a sentence and a status, and the same
command then goes on to the same bytes as if nothing had been.

    train_fault.py MUSTER_KGE LIBFAULT GRAPH.py [STEP]
"""
import errno
import mmap
import os
import shutil
import struct
import subprocess
import sys
import tempfile

MUSTER_KGE, LIBFAULT, GRAPH = map(os.path.abspath, sys.argv[1:4])
STEP = int(sys.argv[4]) if len(sys.argv) > 4 else 1
KINDS = {"write": errno.ENOSPC, "sync": errno.EIO, "rename": errno.EIO, "create": errno.EIO, "open": errno.EIO, "mkdir": errno.EIO, "read": errno.EIO,
         "stat": errno.EIO}
COMMAND = ["train", "--train", "train.txt", "--valid", "valid.txt", "-o", "model", "--epochs", "3", "--embedding-dim", "16", "--embedding-height", "4",
           "--output-channels", "4", "--batch-size", "32", "--checkpoint-every", "2", "--state-every", "1ms", "--threads", "1"]
FAULTS_MAX = 2000


def train(folder, **env):
    return subprocess.run([MUSTER_KGE, *COMMAND], cwd=folder, env={**os.environ, **env}, capture_output=True, encoding="utf-8", timeout=60)


def models(folder):
    """What training is for; its state holds a moment, and its history times."""
    found = {}
    for name in os.listdir(os.path.join(folder, "model")):
        if name.endswith(".safetensors"):
            with open(os.path.join(folder, "model", name), "rb") as file:
                found[name] = file.read()
    return found


def flaw_of(folder, kind, number, right):
    """What is wrong, and whether a call failed at all."""
    counts = os.path.join(folder, "counts")
    shutil.rmtree(os.path.join(folder, "model"), ignore_errors=True)
    with open(counts, "wb") as file:
        file.write(bytes(mmap.PAGESIZE))
    done = train(folder, LD_PRELOAD=LIBFAULT, FAULT=f"{kind}:{number}:{KINDS[kind]}", FAULT_PROGRAM="muster-kge", FAULT_COUNTS=counts)
    with open(counts, "rb") as file:
        is_armed, _, n_failed = struct.unpack("<3Q", file.read(24))
    assert is_armed, "the library of faults was not loaded"
    said = done.stderr.strip().split("\n")[-1]
    if not n_failed:
        return None, False
    if done.returncode == 0:
        return (None if models(folder) == right else "status 0, and other models"), True
    if done.returncode not in (1, 2, 65, 75) or not said.startswith("muster kge"):
        return f"status {done.returncode}: {done.stderr[-300:]}", True
    again = train(folder)
    if again.returncode != 0:
        return f"it does not go on: {said}; {again.stderr[-300:]}", True
    return (None if models(folder) == right else f"it went on to other models: {said}"), True


def main():
    bad = n_tries = 0
    print(f"1..{len(KINDS)}")
    with tempfile.TemporaryDirectory(prefix="muster-train-fault-") as folder:
        subprocess.run([sys.executable, GRAPH, folder], check=True)
        assert train(folder).returncode == 0
        right = models(folder)
        assert {"final_model.safetensors", "best_model.safetensors", "training_state.safetensors", "checkpoint_epoch_2.safetensors"} == set(right)
        for point, kind in enumerate(KINDS, 1):
            flaws, number = [], 1
            for number in range(1, FAULTS_MAX, STEP):
                flaw, has_failed = flaw_of(folder, kind, number, right)
                if not has_failed:
                    break
                n_tries += 1
                if flaw:
                    flaws.append(f"# {kind} {number}: {flaw}")
            if number == 1:  # and a kind that is never called proves nothing
                flaws.append("# no call failed")
            bad += bool(flaws)
            print(f"{'not ok' if flaws else 'ok'} {point} - {kind}: {number - 1} calls", *flaws, sep="\n", flush=True)
    print(f"# {n_tries} faults")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
