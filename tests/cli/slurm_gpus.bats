#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# All GPUs of a Slurm of four nodes with eight each, on this machine (tests/slurm/cluster). What NVML says is played.
load helpers
load slurm_helpers

setup_file() { cluster_up; }
teardown_file() { cluster_down; }
setup() {
    cluster_setup
    # The nodes are one machine, so each needs locks of its own.
    worker there <<END
#!/bin/sh
MUSTER_LOCK_DIR=$PWD/locks.\$SLURMD_NODENAME MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=8 exec "$MUSTER" "\$@"
END
    # A cat that notes where it is, once it has an item.
    worker seat <<'END'
#!/bin/sh
read -r first
echo "$SLURMD_NODENAME $CUDA_VISIBLE_DEVICES" >>seats
echo "$first"
while read -r item; do
    sleep 0.01
    echo "$item"
done
END
    seq 1 4000 >in.txt
}

@test "gpus and doctor show the nodes of an allocation, with the GPUs that the job has there" {
    run --separate-stderr limited salloc -Q -N2 --gpus-per-node=3 "$MUSTER" gpus --json --hosts slurm --agent-path "$PWD/there"
    ended_with 0
    [ "$(jq -r '[.host, .index, .locked_by // "free"] | join(" ")' <<<"$output")" = $'n1 0 free\nn1 1 free\nn1 2 free\nn2 0 free\nn2 1 free\nn2 2 free' ]
    run limited salloc -Q -N2 --gpus-per-node=3 "$MUSTER" gpus --hosts slurm -g 1 --agent-path "$PWD/there"
    ended_with 0
    [ "$(grep -c 'Stand-in H200' <<<"$output")" = 2 ]
    run --separate-stderr limited salloc -Q -N2 --gpus-per-node=3 "$MUSTER" doctor --hosts slurm --agent-path "$PWD/there"
    ended_with 0
    says "n1, n2:" "8 x Stand-in H200" "CUDA_VISIBLE_DEVICES: =0,1,2 leaves 3 of 8 devices" "inside job" "between the hosts:" "fit, "
    run limited "$MUSTER" doctor --hosts slurm
    ended_with 69
    says "takes the nodes of a Slurm job, and this is none"
}

@test "a run over all nodes has all 32 GPUs, each seat one: the bytes of a run here" {
    worker job <<END
#!/bin/sh
#SBATCH -N4 --gpus-per-node=8
exec "$MUSTER" map --hosts slurm --agent-path "$PWD/there" -g all -o out.txt in.txt -- ./seat
END
    sbatch -Q -o said ./job
    wait_for test -e out.txt
    same in.txt out.txt
    [ "$(sort seats)" = "$(for n in 1 2 3 4; do for g in 0 1 2 3 4 5 6 7; do echo "n$n $g"; done; done)" ]
}

@test "of GPUs that a job has altogether, each node has its own" {
    run --separate-stderr limited salloc -Q -N4 --gpus=16 "$MUSTER" each --hosts slurm --agent-path "$PWD/there" -g all -- sh -c 'echo "$SLURMD_NODENAME $CUDA_VISIBLE_DEVICES"'
    ended_with 0
    [ "$(sed 's/.*: n/n/' <<<"$output" | sort | uniq -c | wc -l)" = 16 ]
    [ "$(sed 's/.*: \(n.\) .*/\1/' <<<"$output" | sort | uniq -c | tr -s ' ' | tr '\n' ';')" = " 8 n1; 6 n2; 1 n3; 1 n4;" ]
}

@test "slurm:4 with GPUs from outside: it begins on the two nodes that are free, and the others join" {
    sbatch -Q -o /dev/null --exclusive -w n1,n2 --wrap 'sleep 600' >/dev/null
    wait_for eval '[ "$(sinfo -h -N -n n1,n2 -o %T | sort -u)" = allocated ]'
    map_begin --hosts slurm:4 --slurm-args '--exclusive --gpus-per-node=8' --agent-path "$PWD/there" -g all -o out.txt in.txt -- ./seat
    wait_for has_lines seats 16
    scancel -u root -n wrap
    wait_for has_lines seats 32
    map_end
    ended_with 0
    same in.txt out.txt
    [ "$(sort seats)" = "$(for n in 1 2 3 4; do for g in 0 1 2 3 4 5 6 7; do echo "n$n $g"; done; done)" ]
}
