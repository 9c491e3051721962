# SPDX-License-Identifier: Apache-2.0
"""The runs that fault.py disturbs: a worker, its input, the command, and how it ends when nothing fails."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, AbstractSet, Callable, Mapping, NamedTuple, Sequence

if TYPE_CHECKING:
    from fault import Bench

N_ITEMS = 40

# Each notes which item it runs, so that what runs twice is seen.
FILTER = r"""#!/bin/sh
while read -r n; do echo "$n" >>ran; echo "r$n"; done
"""

# It has to be told to end.
STAYING = FILTER + "exec sleep 1000\n"

RECORDS = r"""#!/bin/sh
while read -r line; do
    n=${line#*\"id\":}; n=${n#\"}; n=${n%%[!0-9]*}
    echo "$n" >>ran; echo "{\"id\":$n,\"twice\":$((2 * n))}"
done
"""

# From item WAIT_FROM on, where that is set, it waits until it is ended.
CHANNEL = r"""#!/bin/sh
echo '{"ready":4}' >&3
while read -r line <&3; do
    case $line in *'"stop"'*) exit 0 ;; *'"item"'*) ;; *) continue ;; esac
    n=${line#*\"item\":}; n=${n%%,*}
    while [ "$n" -ge "${WAIT_FROM:-1000}" ]; do sleep 0.01; done
    echo "$n" >>ran
    echo "{\"done\":$n,\"result\":{\"id\":$n},\"metrics\":{\"seen\":1}}" >&3
    echo '{"ready":1}' >&3
done
"""

# One file in, one file out.
SHARD = r"""#!/bin/sh
while read -r n; do echo "$n" >>ran; echo "r$n"; done <"$1" >"$2"
"""

# The same, and another file beside it.
SHARD_TWO = r"""#!/bin/sh
mkdir -p side
while read -r n; do echo "$n" >>ran; echo "r$n"; echo "s$n" >&3; done <"$1" >"$2" 3>"side/$3"
"""

# Item 7 fails whatever is tried.
REFUSAL = r"""
    if [ "$n" = 7 ]; then
        echo '{"fail":7,"error":"no","retry":false}' >&3
        echo '{"ready":1}' >&3
        continue
    fi
"""
FAILING = CHANNEL.replace("n=${n%%,*}\n", "n=${n%%,*}" + REFUSAL)

PYTHON = f"""#!{sys.executable} -S
import muster
for item in muster.items():
    with open("ran", "a") as ran:
        ran.write(f"{{item.index}}\\n")
    item.done(id=item.index)
"""


# Items are jobs, whose names end with their numbers: six that leave a file or a folder each, and one that joins those.
GRAPH = """vars: {n: [0, 1, 2, 3, 4, 5]}
jobs:
  file:
    for: {n: [0, 1, 2]}
    run: [sh, -c, "echo {n} >>ran; echo printed; sed -n {n}p in.txt >part{n}; echo r{n} >>part{n}"]
    out: {path: "part{n}", count: 1}
    in: in.txt
  folder:
    for: {n: [3, 4, 5]}
    run: [sh, -c, "echo {n} >>ran; mkdir -p part{n}; echo r{n} >part{n}/it"]
    out: part{n}/
  join:
    run: [sh, -c, "echo 6 >>ran; cat part[0-2] part[3-5]/it >joined; mv joined out.txt"]
    needs: [file, folder]
    out: out.txt
"""


def wait_until(holds: Callable[[], bool], limit_s: float) -> bool:
    end_s = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.005)
    return True


def number(i: int) -> str:
    return f"{i}\n"


def record(i: int) -> str:
    return f'{{"id":{i},"text":"word {i}"}}\n'


def row(i: int) -> str:
    return ("id,text\n" if i == 0 else "") + f'{i},"word, {i}"\n'


class Scene(NamedTuple):
    name: str
    argv: Sequence[str]
    worker: str = FILTER
    item: Callable[[int], str] = number
    data: str = "in.txt"
    out: str = "out.txt"
    verb: Sequence[str] = ("map",)
    status: int = 0
    stdin: str = ""
    detaches: bool = False
    any_order: bool = False  # lines may come in any
    run_dir: str = ""  # where the command wants its run
    is_interrupted: bool = False  # the scene begins where a first session was ended
    program: str = "muster"
    has_gpus: bool = False  # two, one of them in use, played by the stand-in for NVML
    kinds: AbstractSet[str] = frozenset()  # none: all
    files: AbstractSet[str] = frozenset()  # that it makes, beside the output
    also: str = ""  # another output, which is in place before that one
    texts: Mapping[str, str] = {}  # further files, by their names
    n_jobs: int = 0  # of a graph

    def prepare(self, bench: Bench) -> None:
        text = "".join(map(self.item, range(N_ITEMS))).encode()
        with open(bench.path(self.data), "wb") as file:
            file.write(pack(self.data, text))
        with open(bench.path("worker"), "w", encoding="utf-8") as file:
            file.write(self.worker)
        os.chmod(bench.path("worker"), 0o755)
        for name, more in self.texts.items():
            with open(bench.path(name), "w", encoding="utf-8") as file:
                file.write(more)
        if self.is_interrupted:
            self.interrupt(bench)

    def interrupt(self, bench: Bench) -> None:
        """Half of the items are done, then the run is ended."""
        env = dict(bench.env, WAIT_FROM=str(N_ITEMS // 2))
        child = subprocess.Popen([bench.muster, "map", *map_argv(self.data, self.out)], cwd=bench.folder, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: len(bench.items_run()) >= N_ITEMS // 2, 20)
        child.send_signal(signal.SIGTERM)
        child.wait(20)
        os.unlink(bench.path("ran"))


def pack(name: str, text: bytes) -> bytes:
    if name.endswith(".gz"):
        return gzip.compress(text)
    if name.endswith(".zst"):
        return subprocess.run(["zstd", "-qc"], input=text, capture_output=True, check=True).stdout
    return text


def map_argv(source: str, out: str, *options: str, devices: str = "cpu:2") -> Sequence[str]:
    return ["-q", "-g", devices, "--grace", "1s", *options, source, "-o", out, "--", "./worker"]


def scene(name: str, *options: str, data: str = "in.txt", out: str = "out.txt", **more: object) -> Scene:
    source = "-" if more.get("stdin") else data
    devices = "all" if more.get("has_gpus") else "cpu:2"
    argv = map_argv(source, out, *options, devices=devices)
    return Scene(name, argv, data=data, out=out, **more)  # type: ignore[arg-type]


GUARD_KINDS = {"open", "spawn", "malloc", "pipe", "read", "send", "recv"}
HELPER_KINDS = {"open", "malloc", "send", "read", "stat"}

SCENES = [
    scene("filter"),
    scene("channel", worker=CHANNEL, out="out.jsonl"),
    Scene("resume", ["-q", "-g", "cpu:3"], worker=CHANNEL, out="out.jsonl", verb=("resume",), is_interrupted=True),
    scene("again", worker=CHANNEL, out="out.jsonl", is_interrupted=True),
    scene("stdin", stdin="in.txt"),
    scene("to stdout", out="-"),
    scene("gzip", data="in.txt.gz"),
    scene("zstd", data="in.txt.zst"),
    scene("csv to json", worker=RECORDS, item=row, data="in.csv", out="out.json"),
    scene("join", "--join", worker=RECORDS, item=record, data="in.jsonl", out="out.csv"),
    scene("key", "--key", "id", worker=RECORDS, item=record, data="in.jsonl", out="out.jsonl"),
    scene("any order", "--order", "any", any_order=True),
    scene("longest first", "--longest-first", "--on-finish", "cat >finished", files={"finished"}),
    scene("set aside", worker=FAILING, out="out.jsonl", status=1),
    scene("socket", "--channel-path", worker=PYTHON, out="out.jsonl", kinds={"pipe", "send", "recv", "unlink"}),
    Scene("one worker", map_argv("in.txt", "out.jsonl", devices="cpu:1"), worker=CHANNEL, out="out.jsonl", kinds={"watch"}),
    Scene("staying filter", map_argv("in.txt", "out.txt", devices="cpu:1"), worker=STAYING, kinds={"send"}),
    scene("run-dir", "--run-dir", "muster-runs/here", run_dir="muster-runs/here"),
    Scene("shards", [*map_argv("in.txt", "out.txt", "--shards", "8"), "{input}", "{output}"], worker=SHARD),
    Scene("shards of two files", [*map_argv("in.txt", "out.txt", "--shards", "4", "--also", "side/{shard}=also.txt"), "{input}", "{output}", "{shard}"],
          worker=SHARD_TWO, also="also.txt", files={"also.txt", "side"}),
    scene("detach", "--detach", detaches=True),
    Scene("graph", ["-q", "-g", "cpu:2", "--grace", "1s", "g.yaml"], verb=("graph",), texts={"g.yaml": GRAPH}, n_jobs=7, files={"joined"}.union(f"part{n}" for n in range(6))),
    scene("guard", program="muster-guard", kinds=GUARD_KINDS),
    scene("gpus", has_gpus=True, kinds={"pipe", "spawn", "recv", "lock"}),
    scene("device helper", has_gpus=True, program="muster-devices", kinds=HELPER_KINDS),
]
