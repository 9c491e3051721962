# SPDX-License-Identifier: Apache-2.0
"""Record ends in a CSV file with quoted newlines, against reading the same file."""
import os
import subprocess

from harness import Row, spread, verdict

BAR = 0.6


def rows(bench):
    mib = bench.size(954, 32)  # 1 GB
    measured = {}

    def round_of():
        """All cases once: cat and scan of a case lie next to each other."""
        text = subprocess.run([bench.tool("bench_boundaries"), str(mib), "1"], check=True, encoding="ascii",
                              stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": bench.dir}).stdout
        for line in text.splitlines():
            name, *figures = line.split("\t")
            measured.setdefault(name, []).append(list(map(float, figures)))

    bench.in_turn({"all": round_of})
    out = []
    for name, figures in measured.items():
        cat, read, scan = (spread(f[i] for f in figures) for i in range(3))
        share = spread(f[2] / f[0] for f in figures)
        is_claim = name.startswith("csv")
        out.append(Row("record ends of %.1f GB: %s, %d records" % (mib * 2**20 / 1e9, name, figures[0][4]),
                       ">= 60 % of cat" if is_claim else "",
                       "%s %%, %s GB/s" % (share.text(100, 0), scan.text(digits=1)),
                       "`cat FILE >/dev/null`: %s GB/s; read() in the same process: %s GB/s" % (
                           cat.text(digits=1), read.text(digits=1)),
                       verdict(share.median >= BAR) if is_claim else "", bench.runs()))
    return out
