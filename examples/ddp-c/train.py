# SPDX-License-Identifier: Apache-2.0
"""Data-parallel training in Python, with libmuster and nothing else: a line through points, whose weights are the same
bits on 1, 2, 4 or 8 ranks. What libmuster does is called through ctypes.

    muster launch --nproc-per-node 2 examples/ddp-c/train.py 200

LIBMUSTER names the library where the system does not find it.
"""
import ctypes
import os
import sys

N_WEIGHTS, N_SHARDS, SHARD_SIZE = 8, 8, 8
FLOAT64, SUM = 1, 0  # enum muster_type, enum muster_op

lib = ctypes.CDLL(os.environ.get("LIBMUSTER") or "libmuster.so.0")
lib.muster_dist_open.restype = lib.muster_ddp_new.restype = ctypes.c_void_p
lib.muster_dist_error.restype = ctypes.c_char_p
lib.muster_ddp_shards.restype = None


class Param(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("type", ctypes.c_int), ("count", ctypes.c_size_t),
                ("value", ctypes.c_void_p), ("gradient", ctypes.c_void_p)]


class Opts(ctypes.Structure):
    _fields_ = [("bucket_bytes", ctypes.c_size_t), ("wire", ctypes.c_int), ("gradients_are_sums", ctypes.c_bool),
                ("allows_nonfinite", ctypes.c_bool), ("n_shards", ctypes.c_uint32)]


def noise(number):
    """From -1 to 1, from the number alone: the same on every rank."""
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    number = (number ^ number >> 27) * 0x94D049BB133111EB % 2**64
    return (number >> 32) / 2**31 - 1


def learn(weights, gradient, sample):
    """Adds the gradient of one sample's squared error; returns the error."""
    x = [noise(sample * N_WEIGHTS + i) for i in range(N_WEIGHTS)]
    error = sum((w - i) * v for i, (w, v) in enumerate(zip(weights, x)))  # the line has the slopes 0, 1, 2 ...
    for i, v in enumerate(x):
        gradient[i] += 2 * error * v
    return error * error


weights, gradient, errors = (ctypes.c_double * N_WEIGHTS)(), (ctypes.c_double * N_WEIGHTS)(), ctypes.c_double()
first, end = ctypes.c_uint32(), ctypes.c_uint32()
dist = ctypes.c_void_p(lib.muster_dist_open(None))
param = Param(b"weights", FLOAT64, N_WEIGHTS, ctypes.addressof(weights), ctypes.addressof(gradient))
opts = Opts(gradients_are_sums=True, n_shards=N_SHARDS)
ddp = ctypes.c_void_p(lib.muster_ddp_new(dist, ctypes.byref(param), 1, ctypes.byref(opts)))
lib.muster_ddp_shards(ddp, ctypes.byref(first), ctypes.byref(end))
for step in range(int(sys.argv[1])):
    errors.value = 0
    for shard in range(first.value, end.value):
        begin = (step * N_SHARDS + shard) * SHARD_SIZE
        errors.value += sum(learn(weights, gradient, sample) for sample in range(begin, begin + SHARD_SIZE))
        lib.muster_ddp_shard(ddp, ctypes.c_uint64(SHARD_SIZE))
    if lib.muster_ddp_finish(ddp) != 0:
        break
    for i in range(N_WEIGHTS):
        weights[i], gradient[i] = weights[i] - 0.3 * gradient[i], 0
lib.muster_dist_all_reduce(dist, ctypes.byref(errors), ctypes.c_size_t(1), FLOAT64, SUM)
if lib.muster_dist_code(dist) != 0:
    sys.exit(lib.muster_dist_error(dist).decode())
if lib.muster_dist_rank(dist) == 0:
    print(f"error {errors.value:.3g}, weights {' '.join(w.hex() for w in weights)}")
lib.muster_ddp_free(ddp)
sys.exit(lib.muster_dist_close(dist) != 0)
