# SPDX-License-Identifier: Apache-2.0
"""multiprocessing.Pool.imap as a user would write it: each line to a process, results in order.

    peer_pool.py INPUT OUTPUT ITEMS PROCESSES
"""
import itertools
import multiprocessing
import os
import sys


def work(line):
    return line


def main():
    source, target, n_items, n_processes = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    with multiprocessing.Pool(n_processes) as pool, open(source, "rb") as lines, open(target, "wb") as out:
        for result in pool.imap(work, itertools.islice(lines, n_items), chunksize=1):
            out.write(result)
        out.flush()
        os.fsync(out.fileno())


if __name__ == "__main__":
    main()
