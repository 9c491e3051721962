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

teardown() {
    local name
    for name in ${SPACES:-}; do ip netns del "$name" || true; done
    common_teardown
}

# machines NAME NAME: network namespaces with a wire between them, wire0 in both.
machines() {
    space_add "$1" || skip "no network namespaces here"
    SPACES="$1 $2"
    ip netns add "$2"
    ip -n "$1" link add wire0 type veth peer name wire0 netns "$2"
    ip -n "$1" addr add 10.79.0.1/24 dev wire0
    ip -n "$2" addr add 10.79.0.2/24 dev wire0
    for name; do ip -n "$name" link set wire0 up; ip -n "$name" link set lo up; done
}

ranks() {
    local n=$1
    shift
    run --separate-stderr limited "$MUSTER" launch -q --nproc-per-node "$n" "$@"
}

# By ctypes.
needs_plain_library() { [ -n "${DEAD_FS:-}" ] || skip "Python cannot load a library with a sanitizer"; }

@test "the example by ctypes has the same weights, to the last bit, on any number of ranks" {
    needs_plain_library
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

torch_or_skip() {
    "$PYTHON" -c 'import torch.distributed' 2>/dev/null || skip "torch is not installed"
    getent hosts localhost >/dev/null || skip "localhost has no name here, which torch asks for"
}

@test "check_replicas names the first parameter that differs, and the ranks" {
    torch_or_skip
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

@test "check_replicas takes every kind of tensor, and concerns the members of a group alone" {
    torch_or_skip
    cat >kinds.py <<'END'
import torch
import muster

torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
torch.manual_seed(7)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
model[1].weight = model[0].weight  # tied
model.scale = torch.nn.Parameter(torch.tensor(2.0))
model.turned = torch.nn.Parameter(torch.randn(3, 5).t())
spectrum = torch.randn(3, dtype=torch.complex64)
kinds = {
    "every": torch.arange(12)[::3], "halves": torch.randn(3).bfloat16(), "mask": torch.tensor(True), "none": torch.empty(0, 3),
    "conjugate": spectrum.conj(), "negative": spectrum.conj().imag, "graph": torch.eye(3).to_sparse(), "same": torch.ones(1).expand(4),
}
for name, value in kinds.items():
    model.register_buffer(name, value)


def tell(group=None):
    try:
        muster.check_replicas(model, group)
        return "equal"
    except RuntimeError as error:
        return str(error).split(" is ")[0]


said = [tell()]
turned = model.turned.data.clone()
if rank == 1:
    model.turned.data[4, 2] += 1
said.append(tell())
said.append(tell(torch.distributed.new_group([0, 2])))
model.turned.data[:] = turned
for name in ("scale", "mask", "conjugate", "negative", "graph"):
    kept = getattr(model, name).data
    if rank == 2:
        getattr(model, name).data = ~kept if kept.dtype == torch.bool else kept * 2
    said.append(tell())
    getattr(model, name).data = kept
if rank == 0:
    model[1].weight = torch.nn.Parameter(model[1].weight.clone())  # tied no more
said.append(tell())
print("; ".join(said))
torch.distributed.barrier()
torch.distributed.destroy_process_group()
END
    ranks 3 kinds.py
    ended_with 0
    local differ='replicas differ: '
    [ "$(sort -u <<<"$output")" = "equal; ${differ}'turned' on rank 1; equal; ${differ}'scale' on rank 2; ${differ}'mask' on rank 2; \
${differ}'conjugate' on rank 2; ${differ}'negative' on rank 2; ${differ}'graph' on rank 2; ${differ}'1.weight' on rank 0" ]
}

@test "ranks of several hosts exchange over TCP, and have the same weights, to the last bit" {
    needs_plain_library
    ranks 1 "$EXAMPLE" 12
    ended_with 0
    local alone=$output
    run --separate-stderr limited "$MUSTER" launch -q --hosts one=cpu:2,two=cpu:1 --via env "$EXAMPLE" 12
    ended_with 0
    [ "$output" = "$alone" ]
    machines "ra$$" "rb$$"
    run --separate-stderr limited "$MUSTER" launch -q --hosts "ra$$=cpu:1,rb$$=cpu:2" --via 'ip netns exec {host}' "$EXAMPLE" 12
    ended_with 0
    [ "$output" = "$alone" ]
}

@test "a rank whose machine cannot be reached any more is named" {
    needs_plain_library
    machines "rc$$" "rd$$"
    cat >endless.py <<'END'
import ctypes, os, sys
lib = ctypes.CDLL(os.environ["LIBMUSTER"])
lib.muster_dist_open.restype = ctypes.c_void_p
lib.muster_dist_error.restype = ctypes.c_char_p
dist = ctypes.c_void_p(lib.muster_dist_open(None))
n = 0
while lib.muster_dist_barrier(dist) == 0:
    n += 1
    if n == 100:
        print("begun", flush=True)
sys.exit(lib.muster_dist_error(dist).decode())
END
    export MUSTER_DIST_TIMEOUT=2s
    "$MUSTER" launch -q --hosts "rc$$=cpu:1,rd$$=cpu:1" --via 'ip netns exec {host}' endless.py >said 2>&1 3>&- 4>&- &
    local pid=$!
    begun() { [ "$(grep -c begun said)" -eq 2 ]; }
    wait_for begun
    ip -n "rc$$" link set wire0 down
    ! wait "$pid"
    grep -qE 'rank [01] has not come to barrier #[0-9]+ within 2.0 s; the last that rank [01] came to was barrier' said
}
