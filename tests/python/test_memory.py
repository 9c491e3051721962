#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The memory of `muster map` with filters does not grow with the number of records.

    test_memory.py MUSTER BENCH_TIMED

SLACK_KIB is what the figures themselves may be off by. The kernel keeps a process's count in pieces of 32 pages
for each core and kind of page, and maps pages of programs by 16 at a time, as they happen to be in its cache. One
byte a record would be 4.7 MiB.
"""
import os, statistics, subprocess, sys
from checks import Skip, check, run_checks

MUSTER, TIMED = map(os.path.abspath, sys.argv[1:3])
ROUNDS, SLACK_KIB, PEAK_KIB = 5, 256, 64 * 1024
FEW = 50_000


def file_write(name, n, form):
    with open(name, "w", encoding="ascii") as file:
        for first in range(0, n, 100_000):
            file.write("".join(map(form, range(first, min(first + 100_000, n)))))


def peak_kib(name):
    """Of muster alone: what starts it is smaller than anything that muster could be."""
    run = [MUSTER, "map", "-q", "--run-dir", "run", "--force", "-g", "cpu:2", name, "-o", "out-" + name, "--", "cat"]
    status = subprocess.run([TIMED, "times", *run], check=False, stdin=subprocess.DEVNULL).returncode
    assert status == 0, status
    with open("times", encoding="ascii") as file:
        peak = int(file.read().split()[3])
    subprocess.run(["rm", "-r", "times", "run"], check=True)
    return peak


def peaks_compare(few, many):
    peaks = {few: [], many: []}
    for _ in range(ROUNDS):
        for name, list_ in peaks.items():
            list_.append(peak_kib(name))
    for name in peaks:
        assert subprocess.run(["cmp", name, "out-" + name], check=False).returncode == 0, name
    print("# KiB: " + ", ".join(f"{name} {statistics.median(list_)} ({min(list_)}-{max(list_)})" for name, list_ in peaks.items()))
    assert max(peaks[many]) <= PEAK_KIB, peaks
    assert statistics.median(peaks[many]) <= statistics.median(peaks[few]) + SLACK_KIB, peaks


def grown_file_compare(ending, many, form):
    if os.environ.get("IS_SANITIZED"):
        raise Skip("a sanitizer's memory is measured instead")
    file_write("few" + ending, FEW, form)
    file_write("many" + ending, many, form)
    peaks_compare("few" + ending, "many" + ending)


@check
def five_million_records_of_ten_bytes_take_no_more_memory_than_fifty_thousand():
    grown_file_compare(".txt", 5_000_000, "{:09}\n".format)


@check
def a_million_objects_of_jsonl_take_no_more_memory_than_fifty_thousand():
    grown_file_compare(".jsonl", 1_000_000, '{{"id": {}}}\n'.format)


os.environ.pop("MALLOC_PERTURB_", None)  # meson's: it writes into all that is allocated, touched or not
sys.exit(run_checks())
