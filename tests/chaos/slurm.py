#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills muster, its agents, guards and workers, the steps and jobs they run in, and Slurm's own daemons.

As chaos.py, in allocations of a Slurm of four nodes on this machine (tests/slurm/cluster). Whatever dies, the run is
resumed in a new allocation until it is complete, byte for byte as a run that nobody disturbed, and nothing of it is left.

    slurm.py MUSTER CLUSTER [--runs 5] [--seed 1] [--keep]

prints TAP, one line a run; status 77 where there is no Slurm, or no root.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import Dict, List, Optional, Sequence, Tuple

sys.dont_write_bytecode = True
from chaos import SESSION_LIMIT_S, Broken, Kind, Network, Run, comm, marked, outcome_of, wait_until  # noqa: E402

NODES = 4
# What a session may end with when its head, all its hosts or its whole job were killed; 130 and 143 are salloc's.
DISTURBED = (1, 69, 75, 124, 128 + signal.SIGINT, 128 + signal.SIGKILL, 128 + signal.SIGTERM, -signal.SIGKILL)


# Ten milliseconds an item, so that there is something to disturb.
KINDS = {
    "filter": Kind("#!/bin/sh\nwhile read -r n; do sleep 0.01; echo r$n; done\n", ".txt", str),
    "buffering filter": Kind("#!/bin/sh\nexec awk '{system(\"sleep 0.01\"); print \"r\" $1}'\n", ".txt", str),
    "channel": Kind("#!{python}\nimport muster, time\nfor item in muster.items():\n    time.sleep(0.01)\n"
                    "    item.done(id=item.index, seed=item.seed, data=item.data)\n", ".txt", str, (), ".jsonl"),  # fmt: skip
}


class Cluster:
    """A Slurm, whose daemons die and are started again."""

    def __init__(self, script: str, folder: str) -> None:
        self.script, self.folder = script, folder
        self.env = {"PATH": os.environ["PATH"] + ":/usr/sbin", "SLURM_CONF": os.path.join(folder, "slurm.conf")}

    def up(self) -> int:
        return subprocess.run([self.script, "up", self.folder], stdout=subprocess.DEVNULL, check=False).returncode

    def down(self) -> None:
        subprocess.run([self.script, "down", self.folder], check=False)

    def daemon_kill(self, name: str) -> None:
        """`name`: slurmctld, or slurmd.n1 and so on."""
        try:
            with open(os.path.join(self.folder, name + ".pid"), encoding="ascii") as file:
                os.kill(int(file.read()), signal.SIGKILL)
        except (OSError, ValueError):
            pass  # it is dead

    def daemon_start(self, name: str) -> None:
        words = ["slurmctld"] if name == "slurmctld" else ["slurmd", "-N", name.split(".")[1]]
        subprocess.run(words, env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)

    def ask(self, *words: str) -> str:
        return subprocess.run(words, env=self.env, capture_output=True, text=True, check=False).stdout

    def is_idle(self) -> bool:
        return self.ask("sinfo", "-h", "-N", "-o", "%T").split() == ["idle"] * NODES and not self.ask("squeue", "-h")


class SlurmRun(Run):
    """One run, each of whose sessions is in an allocation of its own."""

    def __init__(self, muster: str, seed: int, folder: str, cluster: Cluster) -> None:
        super().__init__(muster, seed, folder, Network(False, None, 0))
        self.cluster = cluster
        self.kind_name = self.rng.choice(sorted(KINDS))
        self.kind = KINDS[self.kind_name]
        self.n_items = self.rng.choice([300, 900, 1500])
        self.input, self.output = "in" + self.kind.suffix, "out" + self.kind.out_suffix
        self.limit_s = 3 * SESSION_LIMIT_S
        self.disturbed = DISTURBED
        self.env.update(SLURM_CONF=cluster.env["SLURM_CONF"], XDG_CACHE_HOME=os.path.join(folder, ".locks"))

    def devices(self) -> List[str]:
        return ["--hosts", "slurm", "-g", f"cpu:{self.rng.randint(1, 3)}", "--host-timeout", "2s"]

    def allocation(self) -> List[str]:
        return ["salloc", "-Q", "--kill-command=TERM", f"-N{self.rng.randint(1, 3)}"]

    def command(self, *options: str) -> List[str]:
        return self.allocation() + super().command(*options)

    def again(self) -> List[str]:
        words = super().again()
        return words if words[0] == "salloc" else self.allocation() + words

    def session(self, argv: Sequence[str], mean_s: float, disturbed: bool) -> int:
        if not wait_until(self.cluster.is_idle, 5):  # a controller that was dead when salloc gave its job back
            self.cluster.ask("scancel", "-u", "root")
        if not wait_until(self.cluster.is_idle, 60):
            raise Broken("Slurm is not well: " + self.cluster.ask("squeue") + self.cluster.ask("sinfo", "-N"))
        status = super().session(argv, mean_s, disturbed)
        # salloc ends well if its command was killed.
        is_killed = status == 0 and not os.path.exists(os.path.join(self.folder, self.output))
        return -signal.SIGKILL if is_killed else status

    def victims(self) -> Dict[str, List[int]]:
        """By what they are."""
        found: Dict[str, List[int]] = {"head": [], "srun": [], "guard": [], "worker": []}
        of_comm = {"muster": "head", "srun": "srun", "muster-guard": "guard", "salloc": "", "muster-devices": ""}
        for pid in sorted(marked(self.mark)):
            kind = of_comm.get(comm(pid), "worker")
            if kind:
                found[kind].append(pid)  # agents are heads here: their names are the same
        return found

    def disturb(self, child: subprocess.Popen[bytes], mean_s: float) -> None:
        for pause_s in self.moments(child, 0.9 * mean_s):
            what = self.rng.choice(["head", "srun", "guard", "worker", "job", "slurmctld", "slurmd", "both"])
            self.kills.append(f"{what} at {pause_s * 1000:.0f} ms")
            self.fault(what)

    def fault(self, what: str) -> None:
        if what == "job":
            self.cluster.ask("scancel", "-u", "root")
        elif what in ("slurmctld", "slurmd", "both"):
            node = f"slurmd.n{self.rng.randint(1, NODES)}"
            daemons = {"slurmctld": ["slurmctld"], "slurmd": [node], "both": ["slurmctld", node]}[what]
            for daemon in daemons:
                self.cluster.daemon_kill(daemon)
            time.sleep(self.rng.uniform(0, 3))
            for daemon in daemons:
                self.cluster.daemon_start(daemon)
        else:
            pids = self.victims()[what]
            if pids:
                try:
                    os.kill(self.rng.choice(pids), signal.SIGKILL)
                except ProcessLookupError:
                    pass


def one(muster: str, seed: int, keep: bool, cluster: Cluster) -> Tuple[bool, int, str]:
    folder = tempfile.mkdtemp(prefix=f"chaos-slurm-{seed}-")
    return outcome_of(SlurmRun(muster, seed, folder, cluster), keep)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("muster")
    parser.add_argument("cluster")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep the folder of a run that failed")
    args = parser.parse_args()
    if os.getuid() != 0:
        return 77
    folder = tempfile.mkdtemp(prefix="chaos-cluster-")
    cluster = Cluster(os.path.abspath(args.cluster), folder)
    status = cluster.up()
    if status != 0:
        shutil.rmtree(folder, ignore_errors=True)
        return status
    n_failed = n_kills = 0
    print(f"1..{args.runs}", flush=True)
    try:
        for number, seed in enumerate(range(args.seed, args.seed + args.runs), 1):
            passed, n, text = one(os.path.abspath(args.muster), seed, args.keep, cluster)
            n_failed += not passed
            n_kills += n
            print(f"{'ok' if passed else 'not ok'} {number} - seed {seed}: {text}", flush=True)
    finally:
        cluster.down()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"# {n_kills} faults in {args.runs} runs, seeds {args.seed} to {args.seed + args.runs - 1}")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
