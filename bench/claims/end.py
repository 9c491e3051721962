# SPDX-License-Identifier: Apache-2.0
"""From the last result to the output in place, with workers that need a second to end."""
import os

from harness import Row, spread, verdict

BAR_MS = 50
WORKER = """import os, sys, time
for line in sys.stdin.buffer:
    sys.stdout.buffer.write(line)
sys.stdout.buffer.flush()
with open("last-%d" % os.getpid(), "w") as file:
    file.write(repr(time.time()))
time.sleep(1)
"""


def rest_s(bench):
    """The output's inode changes last when it gets its name."""
    sample = bench.map("-g", "cpu:2", "items", "--", "python3", "-c", WORKER)
    lasts = [name for name in os.listdir(bench.dir) if name.startswith("last-")]
    times = []
    for name in lasts:
        with open(bench.path(name), encoding="ascii") as file:
            times.append(float(file.read()))
    bench.remove(*lasts)
    return sample._replace(wall=os.stat(bench.path("out")).st_ctime - max(times))


def rows(bench):
    n = bench.size(1_000_000, 1_000)
    with open(bench.path("items"), "w", encoding="ascii") as file:
        file.writelines("%d\n" % i for i in range(n))
    rounds = bench.size(5, 1)
    rest = spread(s.wall for s in bench.in_turn({"rest": lambda: rest_s(bench)}, rounds)["rest"])
    bench.remove("items", "out", "run")
    return [Row("last result to output in place, %d results, filters in Python that need 1 s to end" % n, "<= %d ms" % BAR_MS,
                rest.text(1e3, 1) + " ms", "", verdict(rest.median * 1e3 <= BAR_MS), bench.runs(rounds))]
