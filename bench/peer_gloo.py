#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What bench_dist measures, with torch's gloo: peer_gloo.py RANKS [ROUNDS]. A line a size: bytes, ranks, microseconds."""
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

SIZES = (4096, 262144, 4 << 20, 64 << 20)


def reduce_us(data, number):
    total = 0.0
    for i in range(number):
        data.fill_(i)
        dist.barrier()
        begin = time.perf_counter()
        dist.all_reduce(data)
        total += time.perf_counter() - begin
    return total / number * 1e6


def rank_run(rank, n_ranks, n_rounds):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29731")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=n_ranks)
    figures = {size: [] for size in SIZES}
    for _ in range(n_rounds):
        for size in SIZES:
            number = 300 if size < 65536 else 100 if size < 1 << 20 else 10 if size < 32 << 20 else 3
            figures[size].append(reduce_us(torch.zeros(size // 4), number))
    if rank == 0:
        for size in SIZES:
            print(f"{size}\t{n_ranks}\t{statistics.median(figures[size]):.1f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    ranks = int(sys.argv[1])
    mp.spawn(rank_run, args=(ranks, int(sys.argv[2]) if len(sys.argv) > 2 else 5), nprocs=ranks)
