#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# libmuster's ranks from Python: the example by ctypes, and muster.check_replicas for models of PyTorch.
load helpers

setup() {
    common_setup
    : "${LIBMUSTER:?the shared library to test}"
    export MUSTER_NVML=/nowhere MUSTER_SYSFS=/nowhere OMP_NUM_THREADS=1 PYTHON_EXEC=$PYTHON
    EXAMPLE=$BATS_TEST_DIRNAME/../../examples/ddp-c/train.py
    export PYTHONPATH=$BATS_TEST_DIRNAME/../../python
}

ranks() {
    local n=$1
    shift
    run --separate-stderr limited "$MUSTER" launch -q --nproc-per-node "$n" "$@"
}

@test "the example by ctypes has the same weights, to the last bit, on any number of ranks" {
    [ -n "${DEAD_FS:-}" ] || skip "Python cannot load a library with a sanitizer"
    local n
    ranks 1 "$EXAMPLE" 12
    ended_with 0
    local alone=$output
    [[ $alone == "error "*" weights "* ]]
    for n in 2 3 8; do
        ranks $n "$EXAMPLE" 12
        ended_with 0
        [ "$output" = "$alone" ]
    done
    ranks 16 "$EXAMPLE" 12
    [ "$status" -ne 0 ]
    [[ $stderr == *"8 shards: a power of two is expected, and at least 16"* ]]
}

@test "check_replicas names the first parameter that differs, and the ranks" {
    "$PYTHON" -c 'import torch.distributed' 2>/dev/null || skip "torch is not installed"
    getent hosts localhost >/dev/null || skip "localhost has no name here, which torch asks for"
    cat >check.py <<'END'
import sys
import torch
import muster

torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
torch.manual_seed(7)
model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 1))
muster.check_replicas(model)
with torch.no_grad():
    if sys.argv[1] == "bit" and rank == 2:
        model[2].weight[0, 1] = -model[2].weight[0, 1]
    if sys.argv[1] == "nan":
        model[0].bias[0] = float("nan")
    if sys.argv[1] == "zero" and rank == 0:
        model[1].running_mean[0] = -0.0
try:
    muster.check_replicas(model)
    print("equal")
except RuntimeError as error:
    print(error)
pair = torch.distributed.new_group([0, 2])
if rank in (0, 2):
    try:
        muster.check_replicas(model, pair)
        print("pair equal")
    except RuntimeError as error:
        print("pair", str(error).split(" is ")[0])
torch.distributed.barrier()
torch.distributed.destroy_process_group()
END
    ranks 3 check.py nan
    ended_with 0
    [ "$(sort -u <<<"$output" | tr '\n' ';')" = "equal;pair equal;" ]
    ranks 3 check.py bit
    ended_with 0
    [ "$(grep -c "replicas differ: '2.weight' on rank 2 is not what it is on the other ranks" <<<"$output")" -eq 3 ]
    [ "$(grep -c "pair replicas differ: '2.weight' on rank [02]" <<<"$output")" -eq 2 ]
    ranks 3 check.py zero
    ended_with 0
    [ "$(grep -c "replicas differ: '1.running_mean' on rank 0" <<<"$output")" -ge 3 ]
}
