# SPDX-License-Identifier: Apache-2.0
"""muster merge of Counters of torch.save: every sum is right, and twice the files take twice the time."""
import os
import subprocess

from claims.tensors import TORCH, peak_mib, torch_python
from harness import Row, spread, verdict

GROWTH = 2.2
RULE = ["--rule", "counts=sum-by-key"]


def merged(bench, n_files, out):
    bench.remove(out)
    return bench.muster("merge", "-q", *("part_%d.pt" % i for i in range(n_files)), "-o", out, *RULE)


def n_wrong(bench, python, out, *shape):
    told = subprocess.run([python, TORCH, "sums-wrong", out, *map(str, shape)], cwd=bench.dir, check=True, capture_output=True, text=True)
    return int(told.stdout)


def written(bench, python, *shape):
    bench.timed([python, TORCH, "counters", "part_", *map(str, shape)])


def removed(bench, n_files, *outs):
    bench.remove(*("part_%d.pt" % i for i in range(n_files)), *outs)


def growth_row(bench, python):
    n_files, n_keys = bench.size(40, 4), bench.size(1_300_000, 2_000)
    step = n_keys // 10
    written(bench, python, n_files, n_keys, step)
    rounds = bench.size(3, 1)
    samples = bench.in_turn({str(n): lambda n=n: merged(bench, n, "sums_%d.pt" % n) for n in (n_files // 2, n_files)}, rounds)
    half, whole = samples.values()
    wrong = [n_wrong(bench, python, "sums_%d.pt" % n, n, n_keys, step) for n in (n_files // 2, n_files)]
    removed(bench, n_files, "sums_%d.pt" % (n_files // 2), "sums_%d.pt" % n_files)
    ratio = spread(w.cpu / h.cpu for h, w in zip(half, whole))
    return Row("merge of %d Counters of %d keys, processor time against %d of them" % (n_files, n_keys, n_files // 2),
               "<= %.1f x, no sum wrong" % GROWTH,
               "%s x: %s s, peak %.0f MiB; %d and %d sums wrong" % (ratio.text(), spread(s.cpu for s in whole).text(), peak_mib(whole), *wrong),
               "%d files: %s s" % (n_files // 2, spread(s.cpu for s in half).text()), verdict(ratio.median <= GROWTH and not any(wrong)), bench.runs(rounds))


def large_row(bench, python):
    shape = (n_files, n_keys, _) = bench.size(10, 2), bench.size(5_400_000, 2_000), 0
    written(bench, python, *shape)
    sample = merged(bench, n_files, "sums.pt")
    wrong = n_wrong(bench, python, "sums.pt", *shape)
    size = sum(os.path.getsize(bench.path("part_%d.pt" % i)) for i in range(n_files))
    removed(bench, n_files, "sums.pt")
    return Row("merge of %d Counters of %d keys, %.1f GB" % (n_files, n_keys, size / 1e9), "no sum wrong",
               "%.1f s of processor time, peak %.0f MiB; %d sums wrong" % (sample.cpu, peak_mib([sample]), wrong), "", verdict(not wrong), "1")


def rows(bench):
    python = torch_python()
    if not python:
        bench.note("counters: left out, no Python here has torch and numpy (TORCH_PYTHON names one)")
        return []
    return [growth_row(bench, python), large_row(bench, python)]
