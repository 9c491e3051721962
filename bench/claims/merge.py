# SPDX-License-Identifier: Apache-2.0
"""muster merge: parts of CSV against pandas and cat, JSONL with an id that must be there once."""
import os
import shutil
import subprocess
import sys

from harness import Row, spread, verdict

PANDAS_TIMES, CAT_TIMES, CSV_PEAK_MIB = 10, 1.5, 32
ID_MB_S, ID_PEAK_MIB = 300, 256
N_PARTS = 4
PANDAS = "import pandas as p, sys; p.concat([p.read_csv(x) for x in sys.argv[2:]]).to_csv(sys.argv[1], index=False)"
ROWS = ['%d,"a text with a comma, a ""quote""\nand a line, as models give it back to whoever asks",hate,normal,0.25,NA\n',
        "%d,a plain answer of about as many bytes as the others have so that it is alike,normal,normal,1.50,success\n"]


def csv_write(path, n_bytes, first):
    text, size = ["id,text,true_label,predicted_label,response_time,status\n"], 0
    with open(path, "w", newline="", encoding="ascii") as file:
        while size < n_bytes:
            text += [ROWS[i % 4 == 0] % i for i in range(first, first + 10_000)]
            first += 10_000
            size += file.write("".join(text))
            text = []


def jsonl_write(path, n):
    answer = "a plain answer of some length, " * 14
    with open(path, "w", encoding="ascii") as file:
        for first in range(0, n, 10_000):
            file.write("".join('{"id": "question_%d", "answer": "%s", "correct": true, "scores": [0.5, 1.0]}\n' % (i, answer)
                               for i in range(first, min(first + 10_000, n))))


def pandas_python():
    """The interpreter that has pandas, from PANDAS_PYTHON or PATH; None where there is none."""
    for python in (os.environ.get("PANDAS_PYTHON"), sys.executable, shutil.which("python3")):
        if python and subprocess.run([python, "-c", "import pandas"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return python
    return None


def parts(bench):
    names = ["part_%d.csv" % i for i in range(N_PARTS)]
    n_bytes = bench.size(262_000_000, 1_000_000)
    for i, name in enumerate(names):
        csv_write(bench.path(name), n_bytes, i * 10**8)
    python = pandas_python()
    cases = {
        "muster": lambda: bench.muster("merge", "-q", *names, "-o", "merged.csv"),
        "cat": lambda: bench.timed(["sh", "-c", "cat part_?.csv > cat-out; sync cat-out"]),
    }
    if python:
        cases["pandas"] = lambda: bench.timed([python, "-c", PANDAS, "pandas-out.csv", *names])
    samples = bench.in_turn(cases, before=lambda: bench.remove("merged.csv", "cat-out", "pandas-out.csv"))
    runs = bench.runs()
    bench.remove(*names, "merged.csv", "cat-out", "pandas-out.csv")
    took, cat = (spread(s.wall for s in samples[name]) for name in ("muster", "cat"))
    cpu = spread(s.cpu for s in samples["muster"])
    times_cat = spread(m.wall / c.wall for m, c in zip(samples["muster"], samples["cat"]))
    peak = max(s.peak_kib for s in samples["muster"]) / 1024
    what = "merge of %d x %d MB of CSV, rows and quotes checked" % (N_PARTS, n_bytes // 10**6)
    rows = [Row(what + ", against cat", "<= %.1f x, <= %d MiB" % (CAT_TIMES, CSV_PEAK_MIB),
                "%s x; %s s, %s s CPU, peak %.1f MiB" % (times_cat.text(), took.text(), cpu.text(), peak),
                "`cat FILES > out; sync out`: %s s" % cat.text(),
                verdict(times_cat.median <= CAT_TIMES and peak <= CSV_PEAK_MIB), runs)]
    if python:
        pandas = spread(s.wall for s in samples["pandas"])
        times = spread(p.wall / m.wall for m, p in zip(samples["muster"], samples["pandas"]))
        rows.append(Row(what + ", against pandas", ">= %d x" % PANDAS_TIMES, times.text(digits=1) + " x",
                        "read_csv, concat, to_csv (which rewrites cells): %s s, peak %.0f MiB" % (
                            pandas.text(), max(s.peak_kib for s in samples["pandas"]) / 1024),
                        verdict(times.median >= PANDAS_TIMES), runs))
    return rows


def ids(bench):
    n = bench.size(2_000_000, 20_000)
    jsonl_write(bench.path("ids.jsonl"), n)
    size = os.path.getsize(bench.path("ids.jsonl"))
    samples = bench.in_turn({
        "muster": lambda: bench.muster("merge", "-q", "ids.jsonl", "--id", "id", "-o", "merged.jsonl"),
        "cat": lambda: bench.timed(["sh", "-c", "cat ids.jsonl > cat-out; sync cat-out"]),
    }, before=lambda: bench.remove("merged.jsonl", "cat-out"))
    runs = bench.runs()
    bench.remove("ids.jsonl", "merged.jsonl", "cat-out")
    speed = spread(size / s.wall / 1e6 for s in samples["muster"])
    cpu = spread(s.cpu for s in samples["muster"])
    peak = max(s.peak_kib for s in samples["muster"]) / 1024
    return [Row("merge --id of %.2f GB of JSONL, %d records, each line checked" % (size / 1e9, n),
                ">= %d MB/s, <= %d MiB" % (ID_MB_S, ID_PEAK_MIB),
                "%s MB/s, %s s CPU, peak %.1f MiB" % (speed.text(digits=0), cpu.text(), peak),
                "`cat FILE > out; sync out`: %s s" % spread(s.wall for s in samples["cat"]).text(),
                verdict(speed.median >= ID_MB_S and peak <= ID_PEAK_MIB), runs)]


def rows(bench):
    return parts(bench) + ids(bench)
