# SPDX-License-Identifier: Apache-2.0
"""TracIn over a graph as large as WordNet's, against the same factors written with PyTorch (../peer_kge.py)."""
import os
import subprocess

from harness import Row, spread, verdict

BAR, LOOP_BAR, GEMM_BAR, MEMORY_MIB, PAIRS = 1.25, 20000, 0.8, 1024, 20
PYTHON = "/usr/bin/python3"  # Debian's: python3-torch
PEER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "peer_kge.py")


def core():
    """What this processor is to an OpenBLAS that may not know it: the peer gets the kernels that the engine asks for."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags = set(next((line for line in file if line.startswith("flags")), "").split())
    if {"avx512f", "avx512vl", "avx512bw", "avx512dq"} <= flags:
        return {"OPENBLAS_CORETYPE": "SkylakeX"}
    return {"OPENBLAS_CORETYPE": "Haswell"} if {"avx2", "fma"} <= flags else {}


def lines(path):
    with open(path, encoding="utf-8") as file:
        return [line.rstrip("\n").split("\t") for line in file]


def rows(bench):
    why = subprocess.run([PYTHON, "-c", "import torch, numpy"], capture_output=True, text=True, check=False).stderr
    if why:
        return [Row("TracIn", ">= %.2f x PyTorch" % BAR, "skipped", why.strip().splitlines()[-1], "", "")]
    entities, n_train, n_tests = bench.size((40943, 62489, 100), (2000, 1500, 10))
    subprocess.run([PYTHON, PEER, "make", bench.dir, *map(str, (entities, n_train, n_tests))], check=True)
    files = [bench.path(name) for name in ("model.pt", "train", "tests")]
    printed = {"muster": [], "peer": [], "gemm": [], "loop": []}
    env = {**os.environ, **core(), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

    def case(name, argv):
        def run():
            with open(bench.path("printed"), "w", encoding="utf-8") as out:
                sample = bench.timed(argv, stdout=out, env=env)
            printed[name].append(lines(bench.path("printed")))
            return sample
        return run

    samples = bench.in_turn({
        "muster": case("muster", [bench.tool("bench_kge"), *files, "1"]),
        "peer": case("peer", [PYTHON, PEER, "run", bench.dir, "1"]),
        "loop": case("loop", [PYTHON, PEER, "loop", bench.dir, "1", str(PAIRS)]),
        "gemm": case("gemm", [bench.tool("bench_kge"), *files, "1", "gemm"]),
    })
    for ours, theirs in zip(printed["muster"], printed["peer"]):
        assert abs(float(ours[0][3]) / float(theirs[0][3]) - 1) < 1e-4, (ours, theirs)
    ours, theirs = (spread(float(run[0][2]) for run in printed[name]) for name in ("muster", "peer"))
    ratio = spread(float(b[0][2]) / float(a[0][2]) for a, b in zip(printed["muster"], printed["peer"]))
    loop = spread(float(run[0][2]) for run in printed["loop"])
    times = spread(float(b[0][2]) / (float(a[0][2]) / n_train / n_tests) for a, b in zip(printed["muster"], printed["loop"]))
    gemm = spread(float(run[-1][2]) / float(run[-1][1]) for run in printed["gemm"])
    peak = max(sample.peak_kib for sample in samples["muster"]) / 1024
    runs = bench.runs()
    what = "TracIn, all parameters: %d entities, %d training x %d test triples, one thread" % (entities, n_train, n_tests)
    return [
        Row(what, ">= %.2f x PyTorch" % BAR, "%s x; %s s of processor time" % (ratio.text(), ours.text()),
            "the same factors in PyTorch: %s s" % theirs.text(), verdict(ratio.median >= BAR), runs),
        Row("the same", ">= %d x TiePin's loop" % LOOP_BAR, "%s x" % times.text(1, 0),
            "gradients by autograd, a pair at a time: %s ms a pair, of %d" % (loop.text(1000, 1), PAIRS),
            verdict(times.median >= LOOP_BAR), runs),
        Row("its matrix products", ">= %.0f %% of OpenBLAS alone" % (100 * GEMM_BAR), "%s %%" % gemm.text(100, 0),
            "cblas_sgemm on the same shapes", verdict(gemm.median >= GEMM_BAR), runs),
        Row("its memory", "<= 1 GiB", "%.0f MiB" % peak, "model: %.0f MiB" % (os.path.getsize(files[0]) / 2**20),
            verdict(peak <= MEMORY_MIB), runs),
    ]
