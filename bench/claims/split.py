# SPDX-License-Identifier: Apache-2.0
"""A large file into parts, every row looked at, against copying it."""
import os

from harness import Row, spread, verdict

BAR = 1.5
CSV = b'1,"a field with a\nnewline, a comma and ""quotes""",plain text of a row\n2,short,"another, quoted"\n'
JSONL = b'{"id":17,"text":"a sentence of some length in an object, to be read by a model, or two, or three"}\n'


def file_write(path, head, row, size):
    block = row * ((1 << 20) // len(row))
    with open(path, "wb") as file:
        file.write(head)
        for _ in range(size // len(block)):
            file.write(block)


def rows(bench):
    out = []
    size = bench.size(1_000_000_000, 20_000_000)
    for what, name, head, row, is_claim in (("CSV with quoted newlines", "in.csv", b"a,b,c\n", CSV, True),
                                            ("JSONL", "in.jsonl", b"", JSONL, False)):
        file_write(bench.path(name), head, row, size)
        samples = bench.in_turn({
            "cat": lambda: bench.timed(["sh", "-c", "cat %s >copy; sync copy" % name]),
            "muster": lambda: bench.muster("split", "-q", "-n", "8", name),
            "split": lambda: bench.timed(["sh", "-c", "split -n l/8 %s part.; sync part.*" % name]),
        }, before=lambda: (bench.remove("copy", *(f for f in os.listdir(bench.dir) if ".part_" in f or f[:5] == "part.")),
                           bench.settle()))
        bench.remove(*os.listdir(bench.dir))
        ratio = spread(m.wall / c.wall for m, c in zip(samples["muster"], samples["cat"]))
        speed = spread(size / 1e9 / s.wall for s in samples["muster"])
        cat = spread(size / 1e9 / s.wall for s in samples["cat"])
        peer = spread(size / 1e9 / s.wall for s in samples["split"])
        peak = max(s.peak_kib for s in samples["muster"]) / 1024
        out.append(Row("split of %.1f GB into 8 parts, on disk: %s" % (size / 1e9, what),
                       "<= %.1f x cat" % BAR if is_claim else "",
                       "%s x; %s GB/s, CPU %.2f s, peak %.0f MiB" % (
                           ratio.text(), speed.text(), spread(s.cpu for s in samples["muster"]).median, peak),
                       "`cat in > copy; sync copy`: %s GB/s, CPU %.2f s; `split -n l/8` (cuts quoted newlines apart): "
                       "%s GB/s" % (cat.text(), spread(s.cpu for s in samples["cat"]).median, peer.text()),
                       verdict(ratio.median <= BAR) if is_claim else "", bench.runs()))
    return out
