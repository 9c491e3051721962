#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Every line of lines.json, run by muster launch: its ranks get what torchrun, or accelerate, gives them (recorded.json, made by
record.py), but for the differences below; what torchrun refuses, muster refuses with status 2. TAP.

    run_lines.py MUSTER [NAME]...

With LAUNCH_LINES_LIVE=1 the torchrun in PATH is run as well, and must give what was recorded.
"""
import os
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

import launcher
import record

REFUSED_STATUS = 2


def option_of(line, name):
    """The value of an option of the rendezvous."""
    words = launcher.words_split(line["line"])[2]
    for i, word in enumerate(words):
        option, _, value = word.partition("=")
        if option.startswith("--rdzv") and name.startswith(option.replace("_", "-")):
            return value or words[i + 1]
    return None


def stream_of_muster(_line, kind):
    return "pipe" if kind == "file" else kind


def error_file_of_muster(line, path):
    path = id_of_muster(line, path)
    return path if path.startswith("{") else "{work}/" + path


def is_without_port(line):
    """accelerate's ranks meet at port 29500 then; muster's as torchrun's with nothing said."""
    return "accelerate" in launcher.words_split(line["line"])[1] and "main_process_port" not in line["line"]


def port_of_muster(line, port):
    return "free port" if line.get("machines", 1) > 1 or is_without_port(line) else port


def address_of_muster(line, address):
    endpoint = option_of(line, "--rdzv-endpoint")
    is_c10d = option_of(line, "--rdzv-backend") == "c10d"
    if is_without_port(line):
        return "this machine"
    return endpoint.split(":")[0].replace("localhost", "this machine") if is_c10d and endpoint else address


def run_id_of_muster(line, text):
    return "uuid" if is_without_port(line) else id_of_muster(line, text)


def id_of_muster(line, text):
    return text.replace("uuid", option_of(line, "--rdzv-id") or "uuid") if text else text


# What is meant to differ: of which value, muster's for the line and torchrun's (None: not there), why.
DIFFERENCES = [
    (
        "environment.TORCHELASTIC_USE_AGENT_STORE",
        lambda _line, _theirs: "False",
        "the store is made by torch in rank 0; muster does not speak the protocol of torch's TCPStore",
    ),
    (
        "environment.MASTER_PORT",
        port_of_muster,
        "with several machines the named port is that at which the musters meet; rank 0 has another one; without a port "
        "accelerate has 29500, muster a free one",
    ),
    (
        "environment.MASTER_ADDR",
        address_of_muster,
        "with c10d torchrun gives the name that machine 0 has for itself; muster the endpoint's, by which all have come; "
        "without a port accelerate's is 127.0.0.1, muster's localhost",
    ),
    (
        "environment.TORCHELASTIC_ERROR_FILE",
        error_file_of_muster,
        "a path that is relative for torchrun is absolute, for scripts that change their folder",
    ),
    (
        "environment.TORCHELASTIC_RUN_ID",
        run_id_of_muster,
        "torchrun passes over --rdzv-id where it makes the rendezvous itself; muster uses it; accelerate's runs have no id",
    ),
    (
        "environment.MUSTER_GUARD",
        lambda _line, _theirs: "pid.pid",
        "what a rank starts carries the name of its guard, which ends all that does",
    ),
    (
        "streams.stdout",
        stream_of_muster,
        "with --tee and --redirects torchrun's ranks write into the files; muster's into pipes, and muster into the files",
    ),
    ("streams.stderr", stream_of_muster, "as stdout"),
    (
        "is_unbuffered",
        lambda line, is_unbuffered: is_unbuffered or "--run-path" in line["line"],
        "with --run-path torchrun's ranks are not started with -u, as others are; muster's are",
    ),
]


def flat(rank):
    """{"environment.RANK": "0", "streams.stdout": "pipe", "arguments": [...], ...}"""
    pairs = {}
    for key, value in rank.items():
        if isinstance(value, dict):
            pairs.update({f"{key}.{name}": part for name, part in value.items()})
        else:
            pairs[key] = value
    return pairs


def expected(line, theirs, used):
    """torchrun's values, as muster's are meant to be."""
    pairs = dict(theirs)
    for key, of_muster, _why in DIFFERENCES:
        pairs[key] = of_muster(line, theirs.get(key))
        if pairs[key] != theirs.get(key):
            used.add(key)
    return pairs


def ranks_compare(line, theirs, ours, used):
    """The differences, as sentences."""
    found = []
    for name in sorted({*theirs, *ours}):
        if name not in theirs or name not in ours:
            found.append(f"rank {name} is there only by {'muster' if name in ours else 'torchrun'}")
            continue
        want, got = expected(line, flat(theirs[name]), used), flat(ours[name])
        for key in sorted({*want, *got}):
            if want.get(key) != got.get(key):
                found.append(f"rank {name}: {key} is {got.get(key)!r}, with torchrun {want.get(key)!r}")
    return found


def line_check(line, theirs, ours, used):
    if theirs is None:
        return ["it is not recorded; record.py does"]
    if line.get("is_refused"):
        found = [] if theirs["status"] != 0 else ["torchrun does not refuse it"]
        if ours["status"] != REFUSED_STATUS:
            found.append(f"status {ours['status']}, expected {REFUSED_STATUS}")
        return found
    found = [f"status {ours['status']}, with torchrun {theirs['status']}"] if ours["status"] != theirs["status"] else []
    return found + ranks_compare(line, theirs["ranks"], ours["ranks"], used)


def lines_run(by, lines):
    def run(line):
        try:
            return launcher.line_run(by, line)
        except launcher.Busy as busy:
            return busy

    with ThreadPoolExecutor(by.n_at_once) as pool:
        yield from pool.map(run, lines)


class Tap:
    def __init__(self):
        self.n, self.has_failed = 0, False

    def point(self, name, found, said=""):
        self.n += 1
        self.has_failed |= bool(found)
        print(f"{'not ok' if found else 'ok'} {self.n} - {name}")
        for text in [*found, *(said.splitlines() if found else [])]:
            print(f"# {text}")
        sys.stdout.flush()

    def skip(self, name, why):
        self.n += 1
        print(f"ok {self.n} - {name} # SKIP {why}", flush=True)

    def end(self):
        print(f"1..{self.n}")
        return 1 if self.has_failed else 0


def title(line):
    by = "accelerate" if "accelerate" in launcher.words_split(line["line"])[1] else "torchrun"
    return f"{line['name']}: {'refused' if line.get('is_refused') else 'the ranks get what {by} gives them'}"


def recorded_run(tap, muster, lines, table):
    used = set()
    for line, ours in zip(lines, lines_run(muster, lines)):
        if isinstance(ours, launcher.Busy):
            tap.skip(title(line), ours)
            continue
        tap.point(title(line), line_check(line, table["lines"].get(line["name"]), ours, used), ours["said"])
    return used


def live_run(tap, torchrun, lines, table):
    """What was recorded is still what torchrun does: its values, without muster."""
    version = record.version_of(torchrun)
    if not record.accelerate_version(torchrun):
        lines = [line for line in lines if "accelerate" not in launcher.words_split(line["line"])[1]]
    for line, live in zip(lines, lines_run(torchrun, lines)):
        name = f"{line['name']}: torchrun {version} does what was recorded with {table['torch']}"
        if isinstance(live, launcher.Busy):
            tap.skip(name, live)
            continue
        told = table["lines"][line["name"]]
        keys = [key for key in ("status", "ranks") if live[key] != told[key]]
        found = [f"{key} differs: {live[key]}, recorded {told[key]}" for key in keys]
        tap.point(name, found, live["said"])


def main():
    program, names = os.path.abspath(sys.argv[1]), sys.argv[2:]
    lines = [line for line in launcher.lines_read() if not names or line["name"] in names]
    if len(os.sched_getaffinity(0)) < launcher.N_PROCESSORS:
        lines = [line for line in lines if not re.search(r"[= ](auto|cpu)\b", line["line"])]
    table = record.table_read()
    tap = Tap()
    print("TAP version 13")
    used = recorded_run(tap, launcher.Muster(program), lines, table)
    if not names:
        stale = [f"{key} is always the same: {why}" for key, _of_muster, why in DIFFERENCES if key not in used]
        tap.point("every difference that is meant is seen", stale)
    torchrun = shutil.which("torchrun")
    if os.environ.get("LAUNCH_LINES_LIVE") == "1" and torchrun:
        live_run(tap, launcher.Torchrun(torchrun), lines, table)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
