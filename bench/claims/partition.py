# SPDX-License-Identifier: Apache-2.0
"""Device maps of a model with very many tensors: optimal ones, and Accelerate's algorithm beside them."""
import subprocess

from harness import Row, spread, verdict

BAR_MS = 50
KINDS = ["auto", "sequential", "memory", "stage", "latency"]


def rows(bench):
    n_tensors = bench.size(100_000, 5_000)
    measured = {kind: [] for kind in KINDS}

    def round_of():
        text = subprocess.run([bench.tool("bench_partition"), str(n_tensors), "16", "1"], check=True,
                              encoding="ascii", stdout=subprocess.PIPE).stdout
        for kind, ms in zip(KINDS, text.split()):
            measured[kind].append(float(ms))

    bench.in_turn({"all": round_of})
    ms = {kind: spread(figures) for kind, figures in measured.items()}
    beside = "the maps of Accelerate: auto %s ms, sequential %s ms" % (
        ms["auto"].text(digits=1), ms["sequential"].text(digits=1))
    return [Row("optimal device map of %d tensors over 16 devices, processor time: least %s" % (n_tensors, kind),
                "<= %d ms" % BAR_MS, "%s ms" % ms[kind].text(digits=1), beside if kind == "memory" else "",
                verdict(ms[kind].median <= BAR_MS), bench.runs()) for kind in KINDS[2:]]
