#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The CPUs and threads of ranks. The machine is hwloc's: two NUMA nodes with a core each, which are CPU 0 and CPU 1 of this one.
load helpers

setup() {
    common_setup
    export MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=2 MUSTER_SYSFS=$PWD/sys TMPDIR=$PWD/tmp
    export HWLOC_SYNTHETIC="pack:2 numa:1 core:1 pu:1"
    unset PYTHON_EXEC ${!PET_@} OMP_NUM_THREADS
    mkdir tmp
    [[ $(taskset -pc $$) == *": 0-"* || $(taskset -pc $$) == *": 0,1"* ]] || skip "CPUs 0 and 1 are needed"
    gpu_near 0000:10:00.0 1
    gpu_near 0000:20:00.0 0
    worker shows <<'END'
#!/bin/sh
cpus=$(taskset -pc $$)
echo "$RANK on ${cpus##*: } with ${OMP_NUM_THREADS-none}"
END
}

gpu_near() {
    mkdir -p "sys/bus/pci/devices/$1"
    echo "$2" >"sys/bus/pci/devices/$1/numa_node"
}

launch() { run --separate-stderr limited "$MUSTER" launch --no-python "$@"; }
ranks_are() { [ "$(sort <<<"$output")" = "$1" ]; }

@test "--numa-binding: each rank runs where its GPU is near, of those that it sees or that were taken" {
    local how
    for how in node socket exclusive core-complex; do
        launch --nproc 2 --numa-binding $how ./shows
        ended_with 0
        ranks_are $'0 on 1 with 1\n1 on 0 with 1'
    done
    launch -g 1,0 --numa_binding=node ./shows
    ranks_are $'0 on 0 with 1\n1 on 1 with 1'
    launch -g 0 --numa-binding node ./shows
    ranks_are "0 on 1 with none"
    CUDA_VISIBLE_DEVICES=1 launch --numa-binding node ./shows
    ranks_are "0 on 0 with none"
    PET_NUMA_BINDING=node launch -g sim:2 ./shows
    ranks_are $'0 on 0 with 1\n1 on 1 with 1'
}

@test "--numa-binding without GPUs: ranks are spread over the nodes" {
    MUSTER_FAKE_NVML=gpus=0 launch --nproc 4 --numa-binding node ./shows
    ended_with 0
    ranks_are $'0 on 0 with 1\n1 on 0 with 1\n2 on 1 with 1\n3 on 1 with 1'
    launch -g cpu:2 --numa-binding exclusive ./shows
    ranks_are $'0 on 0 with 1\n1 on 1 with 1'
}

@test "--threads: a number, or a share of the cores that the ranks may use" {
    launch --nproc 2 --threads 7 ./shows
    ended_with 0
    [ "$(sed 's/.* with //' <<<"$output")" = $'7\n7' ]
    HWLOC_SYNTHETIC="pack:1 numa:1 core:6 pu:2" OMP_NUM_THREADS=3 launch --nproc 2 --threads share ./shows
    [ "$(sed 's/.* with //' <<<"$output")" = $'3\n3' ]
    HWLOC_SYNTHETIC="pack:1 numa:1 core:6 pu:2" launch --nproc 4 --threads share ./shows
    [ "$(sed 's/.* with //' <<<"$output")" = $'1\n1\n1\n1' ]
    HWLOC_SYNTHETIC="pack:2 numa:1 core:8 pu:1" launch --nproc 2 --numa-binding node --threads share ./shows
    [ "$(sed 's/.* with //' <<<"$output")" = $'8\n8' ]
    launch --threads 2 ./shows
    [[ $output == *"with 2" ]]
}

@test "on several hosts each binds its own ranks, and shares out its own cores" {
    local hosts=(--hosts "one=cpu:2,two=sim:2" --via env)
    launch "${hosts[@]}" --numa-binding node --threads share ./shows
    ended_with 0
    ranks_are $'0 on 0 with 1\n1 on 1 with 1\n2 on 0 with 1\n3 on 1 with 1'
    launch "${hosts[@]}" --threads 5 ./shows
    [ "$(sed 's/.* with //' <<<"$output")" = $'5\n5\n5\n5' ]
    HWLOC_SYNTHETIC="pack:1 numa:1 core:6 pu:2" launch "${hosts[@]}" --threads share ./shows
    [ "$(sed 's/.* with //' <<<"$output")" = $'3\n3\n3\n3' ]
    launch --hosts "local=cpu:1,two=cpu:2" --via env --numa-binding exclusive ./shows
    ranks_are $'0 on 0 with none\n1 on 0 with 1\n2 on 1 with 1'
}

@test "tasks of a launcher find the place of the one rank that each of them is" {
    command -v mpirun >/dev/null || skip "mpirun is not installed"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 MUSTER_FAKE_NVML=gpus=0
    run --separate-stderr limited env -u HWLOC_SYNTHETIC mpirun --oversubscribe --bind-to none -x "HWLOC_SYNTHETIC=$HWLOC_SYNTHETIC" \
        -n 2 "$MUSTER" launch --no-python --numa-binding exclusive ./shows
    ended_with 0
    ranks_are $'0 on 0 with 1\n1 on 1 with 1'
}

@test "what cannot be is said before any rank starts" {
    local said
    while IFS='|' read -r status words said; do
        launch $words ./shows
        ended_with "$status"
        [ "$output" = "" ]
        [[ $stderr == *"$said"* ]]
    done <<'END'
2|--numa-binding near|--numa-binding: expected node, socket, exclusive or core-complex, found 'near'
2|--threads 0|--threads: expected a number from 1 to 65536, or share, found '0'
2|--threads many|found 'many'
2|--nproc 3 --numa-binding node|--numa-binding: 3 ranks need a GPU each, and there are 2 here
2|-g cpu:4 --numa-binding exclusive|exclusive: NUMA node 0 has 1 core for 2 ranks, which need one each
69|--hosts one=cpu:4 --via env --numa-binding exclusive|rank 0: --numa-binding: exclusive: NUMA node 0 has 1 core for 2 ranks
END
    gpu_near 0000:20:00.0 -1
    launch --nproc 2 --numa-binding node ./shows
    ended_with 69
    [[ $stderr == *"the system does not say which NUMA node GPU 1 is near"* ]]
    gpu_near 0000:20:00.0 5
    launch --nproc 2 --numa-binding node ./shows
    ended_with 69
    [[ $stderr == *"GPU 1 is near NUMA node 5, where this process may not run"* ]]
    OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2 \
        MASTER_ADDR=localhost MASTER_PORT=29499 launch --threads share ./shows
    ended_with 2
    [[ $stderr == *"--threads share divides the cores among ranks that muster starts, and a launcher has started the 2 tasks on this machine; use --threads N"* ]]
}
