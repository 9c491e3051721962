# SPDX-License-Identifier: Apache-2.0
"""
Slow programs that were not written for muster, as filters: awk, sed, jq. Their runs are killed at random
moments, muster first and then what is left, and what they had finished is compared with what was kept. Each
filter writes the number of an item to a file when it has done it.
"""
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from harness import Row, spread, verdict

KEPT, SPEED = 0.85, 0.95
AT_ONCE = 6  # runs: their filters sleep


class Filter(NamedTuple):
    name: str
    command: str  # of a shell; {s}: seconds an item
    is_json: bool = False


AWK = """ '{{ system("sleep {s}; echo " $1 " >>done"); print "r" $1 }}'"""
SED = r""" 's/.*/sleep {s}; echo & >>done; echo r&/e'"""
# jq knows no pause: it computes. Its stderr is the list of what it has done.
JQ = """jq -c{flag} '(reduce range({n}) as $i (0; . + $i)) as $x | .n | tostring | stderr | {{r: .}}' 2>>done"""

FILTERS = [
    Filter("mawk", "exec mawk" + AWK),
    Filter("gawk", "exec gawk" + AWK),
    Filter("sed", "exec sed" + SED),
    Filter("sed -u", "exec sed -u" + SED),
    Filter("jq", "exec " + JQ.replace("{flag}", ""), True),
    Filter("jq --unbuffered", "exec " + JQ.replace("{flag}", " --unbuffered"), True),
]


def jq_loops_per_s():
    n = 400_000
    begin = time.monotonic()
    subprocess.run(["jq", "-n", "reduce range(%d) as $i (0; . + $i)" % n], stdout=subprocess.DEVNULL, check=True)
    return n / (time.monotonic() - begin)


def command_of(filter_, item_s, loops_per_s):
    return filter_.command.format(s=item_s, n=max(1, int(item_s * loops_per_s)))


def input_write(path, n, is_json):
    with open(path, "w", encoding="ascii") as file:
        for i in range(1, n + 1):
            file.write('{"n":%d}\n' % i if is_json else "%d\n" % i)


def numbers(path):
    if not os.path.exists(path):
        return set()
    with open(path, encoding="ascii") as file:
        return set(re.findall("[0-9]+", file.read()))


def killed_run(bench, filter_, item_s, kill_after_s, loops_per_s):
    """(finished, kept), of a run that is killed after so many seconds."""
    folder = bench.path("killed-%d" % random.randrange(1 << 60))
    suffix = ".jsonl" if filter_.is_json else ".txt"
    os.mkdir(folder)
    input_write(os.path.join(folder, "in" + suffix), 100_000, filter_.is_json)
    muster = os.path.join(bench.build, "muster")
    with open(os.path.join(folder, "said"), "wb") as said:
        child = subprocess.Popen(
            [muster, "map", "-q", "-g", "cpu:2", "--run-dir", "run", "in" + suffix, "-o", "out" + suffix, "--", "sh", "-c",
             command_of(filter_, item_s, loops_per_s)], cwd=folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        time.sleep(kill_after_s)
        child.send_signal(signal.SIGKILL)
        child.wait()
    finished = numbers(os.path.join(folder, "done"))
    answer = subprocess.run([muster, "status", "--json", "run"], cwd=folder, stdout=subprocess.PIPE, check=False)
    kept = json.loads(answer.stdout)["done"] if answer.returncode == 0 else 0
    shutil.rmtree(folder, ignore_errors=True)  # its guards may still be about
    return len(finished), kept


def kept(bench):
    n_runs = bench.size(102, len(FILTERS))
    loops_per_s = jq_loops_per_s()
    chosen = random.Random(1)
    runs = [(FILTERS[i % len(FILTERS)], round(chosen.uniform(0.02, 0.1), 3), chosen.uniform(5, bench.size(60, 8)))
            for i in range(n_runs)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        counts = list(pool.map(lambda run: killed_run(bench, *run, loops_per_s), runs))
    shares = [n_kept / max(1, n_finished) for n_finished, n_kept in counts]
    by_name = {f.name: [share for run, share in zip(runs, shares) if run[0] is f] for f in FILTERS}
    beside = ", ".join("%s %.0f %%" % (name, 100 * statistics.median(list_)) for name, list_ in by_name.items())
    got = spread(shares)
    return Row("awk, sed and jq, 20 to 100 ms an item, kill -9 after 5 to 60 s: kept of what was finished", ">= 85 %, median",
               got.text(100, 0) + " %", beside, verdict(got.median >= KEPT), "%d" % n_runs)


def speed(bench, filter_, item_s):
    """The same command alone over the items, by the number of workers."""
    n, suffix = bench.size(1200, 100), ".jsonl" if filter_.is_json else ".txt"
    command = command_of(filter_, item_s, jq_loops_per_s() if filter_.is_json else 1)
    workers = 1 if filter_.is_json else 2  # it needs a core for itself
    input_write(bench.path("in" + suffix), n, filter_.is_json)
    samples = bench.in_turn({
        "muster": lambda: bench.map("-g", "cpu:%d" % workers, "in" + suffix, "--", "sh", "-c", command, out="out" + suffix),
        "alone": lambda: bench.timed(["sh", "-c", "(%s) <in%s >alone" % (command, suffix)]),
    }, rounds=bench.size(3, 1))
    same = bench.timed(["cmp", "alone", "out" + suffix], expect=None).status == 0
    share = spread(a.wall / workers / m.wall for m, a in zip(samples["muster"], samples["alone"]))
    bench.remove("in" + suffix, "out" + suffix, "alone", "done", "run")
    what = "%s x %d, %d items of %.0f ms" % (filter_.name, workers, n, 1000 * item_s)
    return Row(what + (", output the same" if same else ", **OUTPUT DIFFERS**"), ">= 95 % of its speed", share.text(100, 1) + " %",
               "alone: %s s" % spread(a.wall for a in samples["alone"]).text(1, 1), verdict(share.median >= SPEED and same),
               bench.runs(bench.size(3, 1)))


def rows(bench):
    return [kept(bench)] + [speed(bench, filter_, 0.05) for filter_ in FILTERS]
