# SPDX-License-Identifier: Apache-2.0
"""muster plan reads the headers of a model, whatever its size: here 140 GB in 30 files, which are holes."""
import os
import statistics
import sys

from harness import Row, spread, verdict

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "cli"))
import plan_models  # noqa: E402

BAR_MS, BAR_MIB = 20, 16


def rows(bench):
    folder = bench.path("model")
    os.mkdir(folder)
    plan_models.large(folder)
    files = [os.path.join(folder, name) for name in os.listdir(folder)]
    size = sum(os.path.getsize(path) for path in files)
    samples = bench.in_turn({
        "plan": lambda: bench.muster("plan", folder, "--devices", "4x80GiB", "--json"),
        "version": lambda: bench.muster("--version"),
    })
    wall = spread(sample.wall * 1000 for sample in samples["plan"])
    bare = spread(sample.wall * 1000 for sample in samples["version"])
    cpu = statistics.median(sample.cpu for sample in samples["plan"])
    peak = max(sample.peak_kib for sample in samples["plan"]) / 1024
    return [Row("`muster plan` of a model of %.0f GB in %d files, from exec" % (size / 1e9, len(files) - 2),
                "<= %d ms, <= %d MiB" % (BAR_MS, BAR_MIB),
                "%s ms, CPU %.1f ms, peak %.1f MiB" % (wall.text(digits=1), cpu * 1000, peak),
                "`muster --version` %s ms" % bare.text(digits=1),
                verdict(wall.median <= BAR_MS and peak <= BAR_MIB), bench.runs())]
