# SPDX-License-Identifier: Apache-2.0
"""muster merge and --inspect of files of torch.save, against loading, joining and saving them in Python."""
import os
import shutil
import subprocess
import sys

from harness import Row, spread, verdict

N_FILES = 4
TORCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "peer_torch.py")


def torch_python():
    """The interpreter that has torch, from TORCH_PYTHON, /usr/bin or PATH; None where there is none."""
    for python in (os.environ.get("TORCH_PYTHON"), "/usr/bin/python3", sys.executable, shutil.which("python3")):
        if python and os.path.exists(python) and subprocess.run([python, "-c", "import torch, numpy"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return python
    return None


def peak_mib(samples):
    return max(s.peak_kib for s in samples) / 1024


def merge_rows(bench, python, what, names, rules, torch_times, cat_times, peak_max):
    """Each of these is a row: against torch, against cat where there is a bar for it."""
    samples = bench.in_turn({
        "muster": lambda: bench.muster("merge", "-q", *names, "-o", "merged.pt", *rules),
        "cat": lambda: bench.timed(["sh", "-c", "cat %s > cat-out; sync cat-out" % " ".join(names)]),
        "torch": lambda: bench.timed([python, TORCH, "one-by-one", "torch-out.pt", *names]),
    }, before=lambda: bench.remove("merged.pt", "cat-out", "torch-out.pt"))
    runs = bench.runs()
    took, cpu = spread(s.wall for s in samples["muster"]), spread(s.cpu for s in samples["muster"])
    peak = peak_mib(samples["muster"])
    of_torch = spread(t.wall / m.wall for t, m in zip(samples["torch"], samples["muster"]))
    of_torch_cpu = spread(t.cpu / m.cpu for t, m in zip(samples["torch"], samples["muster"]))
    of_cat = spread(m.wall / c.wall for m, c in zip(samples["muster"], samples["cat"]))
    torch, cat = (spread(s.wall for s in samples[name]) for name in ("torch", "cat"))
    out = [Row(what + ", against torch", ">= %d x, <= %d MiB" % (torch_times, peak_max),
               "%s x, %s x in CPU; %s s, %s s CPU, peak %.1f MiB" % (of_torch.text(digits=1), of_torch_cpu.text(digits=1), took.text(), cpu.text(), peak),
               "load, join, save: %s s, peak %.0f MiB" % (torch.text(), peak_mib(samples["torch"])),
               verdict(of_torch.median >= torch_times and peak <= peak_max), runs)]
    out.append(Row(what + ", against cat", "<= %.1f x" % cat_times if cat_times else "", of_cat.text() + " x",
                   "`cat FILES > out; sync out`: %s s" % cat.text(), verdict(of_cat.median <= cat_times) if cat_times else "", runs))
    bench.remove("cat-out", "torch-out.pt")
    return out


def inspect_row(bench, what, bar_ms):
    size = os.path.getsize(bench.path("merged.pt"))
    samples = bench.in_turn({"muster": lambda: bench.muster("merge", "--inspect", "merged.pt")})
    took = spread(s.wall for s in samples["muster"])
    return Row("--inspect of %.2f GB, %s" % (size / 1e9, what), "<= %d ms" % bar_ms,
               "%s ms, peak %.0f MiB" % (took.text(1e3, 0), peak_mib(samples["muster"])), "", verdict(took.median * 1e3 <= bar_ms), bench.runs())


def case(bench, python, kind, sizes, merge_args, inspect_args):
    bench.timed([python, TORCH, kind, "part_", str(N_FILES), *map(str, sizes)])
    names = ["part_%d.pt" % i for i in range(N_FILES)]
    n_bytes = sum(os.path.getsize(bench.path(name)) for name in names) // N_FILES
    subprocess.run(["sync", *names], cwd=bench.dir, check=True)
    what, *rest = merge_args
    out = merge_rows(bench, python, "merge of %d x %d MB %s" % (N_FILES, n_bytes // 10**6, what), names, *rest)
    if inspect_args:
        out.append(inspect_row(bench, *inspect_args))
    bench.remove(*names, "merged.pt")
    return out


def rows(bench):
    python = torch_python()
    if not python:
        bench.note("tensors: left out, no Python here has torch and numpy (TORCH_PYTHON names one)")
        return []
    n_tensors, n_questions, n_records = bench.size(256, 4), bench.size(320, 2), bench.size(1000000, 2000)
    return case(bench, python, "tensors", (n_tensors, 1 << 20), ("of tensors, cat0", ["--rule", "num_files=sum"], 3, 1.5, 16), ("the tensors", 50)) + \
        case(bench, python, "records", (n_questions,), ("in LatentMAS's schema", [], 10, None, 256), ("LatentMAS's schema", 300)) + \
        case(bench, python, "plain", (n_records,), ("of plain records in the pickle", [], 20, None, 512), None)
