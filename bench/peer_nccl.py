#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libmuster's operations on device memory beside torch.distributed's NCCL backend, in one process with the same NCCL.

    peer_nccl.py LIBMUSTER [ROUNDS]

World of one, where an all-reduce in place has nothing to move, and an all-gather is a copy. First that operations wait for the stream on which their values are made. Then a table: bandwidths by
nccl-tests' formulas (doc/PERFORMANCE.md there: algbw = bytes / time, busbw = algbw × 2(n-1)/n for an all-reduce and
(n-1)/n for an all-gather, so 0 for one rank). Both sides take turns; medians of the rounds, with their spread."""
import ctypes
import statistics
import sys
import time

import torch
import torch.distributed as dist

SIZES = (4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20, 256 << 20)
FLOAT32, SUM, ALL_REDUCE, ALL_GATHER = 0, 0, 1, 4
QUEUED = 20  # operations behind one another, as nccl-tests measures


class Opts(ctypes.Structure):
    _fields_ = [("timeout_ms", ctypes.c_uint64), ("backend", ctypes.c_char_p), ("has_device_memory", ctypes.c_bool),
                ("stream", ctypes.c_void_p)]


class Call(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("type", ctypes.c_int), ("op", ctypes.c_int), ("root", ctypes.c_uint32),
                ("at_in", ctypes.c_void_p), ("at_out", ctypes.c_void_p), ("count", ctypes.c_size_t)]


class Muster:
    """A handle."""

    def __init__(self, library, stream=None):
        self.library = library
        self.dist = library.muster_dist_open(ctypes.byref(Opts(60000, b"nccl", True, stream)))
        self.must(library.muster_dist_code(self.dist))

    def must(self, code):
        if code != 0:
            sys.exit("libmuster: " + self.library.muster_dist_error(self.dist).decode())

    def start(self, kind, data, out):
        out = data if kind == ALL_REDUCE else out  # as torch has it
        call = Call(kind, FLOAT32, SUM, 0, data.data_ptr(), out.data_ptr(), data.numel())
        ticket = ctypes.c_uint64()
        self.must(self.library.muster_dist_start(self.dist, ctypes.byref(call), ctypes.byref(ticket)))
        return ticket

    def wait(self, ticket):
        self.must(self.library.muster_dist_wait(self.dist, ticket))

    def run(self, kind, data, out):
        if kind == ALL_REDUCE:
            self.must(self.library.muster_dist_all_reduce(self.dist, ctypes.c_void_p(data.data_ptr()),
                                                          ctypes.c_size_t(data.numel()), FLOAT32, SUM))
        else:
            self.must(self.library.muster_dist_all_gather(self.dist, ctypes.c_void_p(data.data_ptr()),
                                                          ctypes.c_void_p(out.data_ptr()),
                                                          ctypes.c_size_t(data.numel()), FLOAT32))

    def close(self):
        self.must(self.library.muster_dist_close(self.dist))


def library_load(path):
    library = ctypes.CDLL(path)
    library.muster_dist_open.restype = ctypes.c_void_p
    library.muster_dist_error.restype = ctypes.c_char_p
    library.muster_dist_backend.restype = ctypes.c_char_p
    for name in ("code", "error", "backend", "close"):
        getattr(library, "muster_dist_" + name).argtypes = [ctypes.c_void_p]
    library.muster_dist_wait.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    library.muster_dist_start.argtypes = [ctypes.c_void_p] * 3
    for name in ("all_reduce", "all_gather"):
        getattr(library, "muster_dist_" + name).argtypes = None
    return library


def order_check(library, stream):
    """Values that a kernel has still to make when the operation is issued."""
    muster = Muster(library, stream.cuda_stream if stream else None)
    wrong = 0
    with torch.cuda.stream(stream or torch.cuda.default_stream()):
        for i in range(5):
            data, out = torch.zeros(1 << 20, device="cuda"), torch.zeros(1 << 20, device="cuda")
            torch.cuda._sleep(100_000_000)  # cycles: some 50 ms
            data.fill_(i + 1)
            muster.wait(muster.start(ALL_GATHER, data, out))
            wrong += int((out != i + 1).sum().item()) + int((data != i + 1).sum().item())
    muster.close()
    print(f"values that were late on {'a' if stream else 'the default'} stream: {wrong} wrong", flush=True)
    return wrong


def torch_run(kind, data, out):
    if kind == ALL_REDUCE:
        dist.all_reduce(data)
    else:
        dist.all_gather_into_tensor(out, data)


def timed_us(run, number):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    run(number)
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / number * 1e6


def sides(muster, kind, data, out):
    """What takes turns: one operation after the other, each waited for; then as many as are queued."""
    def ours_each(number):
        for _ in range(number):
            muster.run(kind, data, out)

    def torch_each(number):
        for _ in range(number):
            torch_run(kind, data, out)
            torch.cuda.synchronize()

    def ours_queued(number):
        for _ in range(number):
            ticket = muster.start(kind, data, out)
        muster.wait(ticket)

    def torch_queued(number):
        for _ in range(number):
            torch_run(kind, data, out)

    return (("libmuster", "each", ours_each), ("torch", "each", torch_each),
            ("libmuster", "queued", ours_queued), ("torch", "queued", torch_queued))


def measure(muster, n_rounds):
    n = dist.get_world_size()
    print("operation   bytes      side       calls   µs        least     most      algbw GB/s  busbw GB/s")
    for kind, name, factor in ((ALL_REDUCE, "all-reduce", 2 * (n - 1) / n), (ALL_GATHER, "all-gather", (n - 1) / n)):
        for size in SIZES:
            data, out = torch.ones(size // 4, device="cuda"), torch.empty(size // 4, device="cuda")
            figures = {}
            for side, calls, run in sides(muster, kind, data, out):
                run(3)
                figures[side, calls] = []
            for _ in range(n_rounds):
                for side, calls, run in sides(muster, kind, data, out):
                    figures[side, calls].append(timed_us(run, QUEUED))
            for (side, calls), us in figures.items():
                middle = statistics.median(us)
                algbw = size / middle / 1e3
                print(f"{name:11} {size:<10} {side:10} {calls:7} {middle:<9.1f} {min(us):<9.1f} {max(us):<9.1f} "
                      f"{algbw:<11.2f} {algbw * factor:.2f}", flush=True)


def main():
    library = library_load(sys.argv[1])
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    print(f"torch {torch.__version__}, NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}, "
          f"{torch.cuda.get_device_name()}", flush=True)
    wrong = order_check(library, None) + order_check(library, torch.cuda.Stream())
    muster = Muster(library)
    print(f"libmuster over {library.muster_dist_backend(muster.dist).decode()}")
    measure(muster, int(sys.argv[2]) if len(sys.argv) > 2 else 7)
    muster.close()
    dist.destroy_process_group()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
