# SPDX-License-Identifier: Apache-2.0
"""muster bench against the truth: programs whose speed-ups follow from what they sleep."""
import heapq
import json
import subprocess

from harness import Row, spread, verdict

BAR = 0.02
SLOTS = (1, 2, 4)
# Milliseconds: of an item, what can be done side by side and what cannot; of a worker, its loading.
MS, SERIAL_MS, LOAD_MS = 60, 40, 1000


def schedule_s(items, slots):
    """The next item to the slot that is free first; the serial part one after the other. When the last one ends."""
    free, serial = [0.0] * slots, 0.0
    for _ in range(items):
        serial = max(heapq.heappop(free) + MS / 1e3, serial) + SERIAL_MS / 1e3
        heapq.heappush(free, serial)
    return max(free)


def objects(bench, rounds, *args):
    argv = [bench.build + "/muster", "bench", "-q", "--json", "-g", "cpu:4", "--full", "--rounds", str(rounds), *args]
    out = subprocess.run(argv, cwd=bench.dir, check=True, capture_output=True, text=True).stdout
    rows = [json.loads(line) for line in out.splitlines()]
    return [row for row in rows if "devices" in row]


def row_of(bench, what, reported, truth, rounds):
    """`reported`: a spread for each number of slots, as JSON has it."""
    error = max(abs(r["median"] / t - 1) for r, t in zip(reported, truth))
    return Row(what, "within 2 % of the truth",
               ", ".join("%.3f (%.3f-%.3f)" % (r["median"], r["min"], r["max"]) for r in reported[1:]),
               "the truth: " + ", ".join("%.3f" % t for t in truth[1:]), verdict(error <= BAR), bench.runs(rounds))


def of_map(bench, rounds, items):
    with open(bench.path("in"), "w", encoding="ascii") as file:
        file.writelines("item %d\n" % i for i in range(items))
    worker = [bench.tool("bench_worker"), "share", str(MS), str(SERIAL_MS), str(LOAD_MS)]
    return objects(bench, rounds, "-i", "in", "--devices", ",".join(map(str, SLOTS)), "--", *worker)


def of_command(bench, rounds, serial_s, shared_s):
    line = "sleep %g; echo ready; sleep $(echo '%g / {devices}' | bc -l)" % (serial_s, shared_s)
    return objects(bench, rounds, "--items", "100", "--ready-pattern", "ready",
                   "--devices", ",".join(map(str, SLOTS)), "--method", "amdahl=" + line)


def rows(bench):
    rounds, items = bench.rounds, bench.size(200, 8)
    serial_s, shared_s, load_s = bench.size(2.0, 0.2), bench.size(8.0, 0.4), LOAD_MS / 1e3
    found = bench.in_turn({"map": lambda: of_map(bench, rounds, items),
                           "command": lambda: of_command(bench, rounds, serial_s, shared_s)}, rounds=1)
    of_items, of_line = found["map"][0], found["command"][0]
    seconds = [schedule_s(items, n) for n in SLOTS]
    what = "muster bench -i, %d items of %d ms and %d ms that are serial: " % (items, MS, SERIAL_MS)
    command = "muster bench of a command, %g s that are serial and %g s that are shared: " % (serial_s, shared_s)
    return [
        row_of(bench, what + "loaded speed-up of 2 and 4 slots", [r["loaded_speedup"] for r in of_items],
               [seconds[0] / s for s in seconds], rounds),
        row_of(bench, "the same with %g s of loading: speed-up" % load_s, [r["speedup"] for r in of_items],
               [(seconds[0] + load_s) / (s + load_s) for s in seconds], rounds),
        row_of(bench, command + "speed-up of 2 and 4", [r["speedup"] for r in of_line],
               [(serial_s + shared_s) / (serial_s + shared_s / n) for n in SLOTS], rounds),
        row_of(bench, "the same, loaded speed-up", [r["loaded_speedup"] for r in of_line], [float(n) for n in SLOTS],
               rounds),
    ]
