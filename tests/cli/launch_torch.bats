#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# A data-parallel training with torch (gloo) under muster launch and under torchrun: the same losses, to the last bit.
load helpers

setup() {
    common_setup
    "$PYTHON" -c 'import torch.distributed.run' 2>/dev/null || skip "torch is not installed"
    export PYTHON_EXEC=$PYTHON TMPDIR=$PWD/tmp OMP_NUM_THREADS=1 MUSTER_NVML=/nowhere MUSTER_SYSFS=/nowhere
    unset ${!PET_@} ${!SLURM_@} MASTER_ADDR MASTER_PORT GLOO_SOCKET_IFNAME
    EXAMPLE=$BATS_TEST_DIRNAME/../../examples/ddp.py
    mkdir tmp
}

teardown() {
    local name
    for name in ${SPACES:-}; do ip netns del "$name" || true; done
    common_teardown
}

# torch 1.13 for Python 3.11 fails without -r and -t; no rank has the number 9.
torchrun() { limited "$PYTHON" -m torch.distributed.run -r 9:1 -t 9:1 --monitor_interval 0.1 "$@"; }

losses_are() {
    [ "$(wc -l <"$1")" -eq 3 ]
    same "$1" "$2"
}

# together FILE A B OPTION...: on two machines, whose commands are behind the words of A and B; the output of both into FILE.
together() {
    local file=$1 a=$2 b=$3 pid
    shift 3
    limited $b "$MUSTER" launch --nnodes 2 --rdzv-backend c10d "$@" "$EXAMPLE" >second.out 2>second.err 3>&- 4>&- &
    pid=$!
    limited $a "$MUSTER" launch --nnodes 2 --rdzv-backend c10d "$@" "$EXAMPLE" >"$file" 2>first.err || { cat first.err; return 1; }
    wait "$pid" || { cat second.err; return 1; }
    cat second.out >>"$file"
}

# Sets A and B, what runs a command on one of two machines, and PLACE, where they meet.
machines_make() {
    local end
    A= B= PLACE="localhost:$(free_port)"
    space_add "torch$$a" || return 0
    SPACES="torch$$a torch$$b"
    ip netns add "torch$$b"
    ip -n "torch$$a" link add wire0 type veth peer name wire0 netns "torch$$b"
    ip -n "torch$$a" addr add 10.78.0.1/24 dev wire0
    ip -n "torch$$b" addr add 10.78.0.2/24 dev wire0
    for end in a b; do ip -n "torch$$$end" link set wire0 up; ip -n "torch$$$end" link set lo up; done
    export GLOO_SOCKET_IFNAME=wire0
    A="ip netns exec torch$$a" B="ip netns exec torch$$b" PLACE=10.78.0.1:29400
}

@test "a data-parallel training has the same losses, to the last bit, as under torchrun, on one machine and on two" {
    local n
    for n in 2 4; do
        torchrun --nproc_per_node $n "$EXAMPLE" >theirs.$n 2>said || { cat said; return 1; }
        run --separate-stderr limited "$MUSTER" launch --nproc_per_node $n "$EXAMPLE"
        ended_with 0
        losses_are theirs.$n <(echo "$output")
    done
    machines_make # network namespaces, if they may be made
    for n in 2 4; do
        together ours "$A" "$B" --rdzv-endpoint "$PLACE" --nproc_per_node $((n / 2))
        losses_are theirs.$n ours
    done
}
