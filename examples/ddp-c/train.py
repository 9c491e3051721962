# SPDX-License-Identifier: Apache-2.0
"""Data-parallel training in Python, with libmuster by ctypes and nothing else: a line through points, whose weights
are the same bits on 1, 2, 4 or 8 ranks. LIBMUSTER names the library where the system does not find it.

    muster launch --nproc-per-node 2 examples/ddp-c/train.py 200
"""
import os
import random
import sys
from ctypes import CDLL, Structure, addressof, byref, c_bool, c_char_p, c_double, c_int, c_size_t, c_uint32, c_uint64, c_void_p

N_WEIGHTS, N_SHARDS, SHARD_SIZE = 8, 8, 8
FLOAT64, SUM = 1, 0  # enum muster_type, enum muster_op

lib = CDLL(os.environ.get("LIBMUSTER") or "libmuster.so.0")
lib.muster_dist_open.restype = lib.muster_ddp_new.restype = c_void_p
lib.muster_dist_error.restype = c_char_p


class Param(Structure):
    _fields_ = [("name", c_char_p), ("type", c_int), ("count", c_size_t), ("value", c_void_p), ("gradient", c_void_p)]


class Opts(Structure):
    _fields_ = [("bucket_bytes", c_size_t), ("wire", c_int), ("gradients_are_sums", c_bool), ("allows_nonfinite", c_bool),
                ("n_shards", c_uint32)]


def learn(weights, gradient):
    """Adds the gradient of the next sample's squared error; returns the error. The line has the slopes 0, 1, 2 ..."""
    x = [random.uniform(-1, 1) for _ in weights]
    error = sum((w - i) * v for i, (w, v) in enumerate(zip(weights, x)))
    for i, v in enumerate(x):
        gradient[i] += 2 * error * v
    return error * error


weights, gradient, errors = (c_double * N_WEIGHTS)(), (c_double * N_WEIGHTS)(), c_double()
first, end = c_uint32(), c_uint32()
dist = c_void_p(lib.muster_dist_open(None))
param = Param(b"weights", FLOAT64, N_WEIGHTS, addressof(weights), addressof(gradient))
ddp = c_void_p(lib.muster_ddp_new(dist, byref(param), 1, byref(Opts(gradients_are_sums=True, n_shards=N_SHARDS))))
lib.muster_ddp_shards(ddp, byref(first), byref(end))
for step in range(int(sys.argv[1])):
    errors.value = 0
    for shard in range(first.value, end.value):
        random.seed(step * N_SHARDS + shard)  # the same samples, whichever rank has the shard
        errors.value += sum(learn(weights, gradient) for _ in range(SHARD_SIZE))
        lib.muster_ddp_shard(ddp, c_uint64(SHARD_SIZE))
    if lib.muster_ddp_finish(ddp) != 0:
        break
    for i in range(N_WEIGHTS):
        weights[i], gradient[i] = weights[i] - 0.3 * gradient[i], 0
lib.muster_dist_all_reduce(dist, byref(errors), c_size_t(1), FLOAT64, SUM)
if lib.muster_dist_code(dist) != 0:
    sys.exit(lib.muster_dist_error(dist).decode())
if lib.muster_dist_rank(dist) == 0:
    print(f"error {errors.value:.3g}, weights {' '.join(w.hex() for w in weights)}")
lib.muster_ddp_free(ddp)
sys.exit(lib.muster_dist_close(dist) != 0)
