# SPDX-License-Identifier: Apache-2.0
"""How long `muster doctor` takes, on eight stand-in GPUs that answer and on such that hang."""
import os
import statistics

from harness import Row, spread, verdict

ANSWER_S, HANG_S = 1.0, 5.0


def rows(bench):
    library = os.path.join(bench.build, "tests", "fixtures", "nvml", "libfake_nvml.so")

    def doctor(script, *args):
        """Whatever else is found on this machine: the status is not looked at."""
        env = dict(os.environ, MUSTER_NVML=library, MUSTER_FAKE_NVML=script)
        return bench.muster("doctor", "--json", *args, expect=None, env=env)

    cases = {
        "all eight GPUs answer": (lambda: doctor("gpus=8"), ANSWER_S),
        "a query of one of eight hangs": (lambda: doctor("gpus=8,hang=3"), HANG_S),
        "queries of two of eight hang": (lambda: doctor("gpus=8,hang=3,hang=5"), HANG_S),
        "nvmlInit hangs": (lambda: doctor("hanginit"), HANG_S),
        "two workers on each of eight as well (--smoke)": (lambda: doctor("gpus=8", "--smoke"), None),
    }
    if bench.quick:
        cases.pop("nvmlInit hangs")
    samples = bench.in_turn({name: case for name, (case, _) in cases.items()})
    out = []
    for name, (_, bar) in cases.items():
        wall = spread(s.wall for s in samples[name])
        cpu = statistics.median(s.cpu for s in samples[name])
        peak = max(s.peak_kib for s in samples[name]) / 1024
        out.append(Row("`muster doctor`, %s" % name, "<= %d s" % bar if bar else "",
                       "%s s, CPU %.2f s, peak %.0f MiB" % (wall.text(), cpu, peak),
                       "reported by others: nvidia-smi 1.5 s without persistence mode, 25 s with eight GPUs",
                       verdict(wall.median <= bar) if bar else "", bench.runs()))
    return out
