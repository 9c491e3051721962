#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# AMD's GPUs, played by trees of files (tests/fixtures/amd/trees.py says which machines there are).
load helpers

setup() {
    common_setup
    : "${AMD_TREES:?the machines}"
}

# machine NAME: this test's own copy of it.
machine() {
    rm -rf machine
    cp -a "$AMD_TREES/$1" machine
    export MUSTER_SYSFS=$PWD/machine/sys
}

device() { echo "machine/sys/bus/pci/devices/$1"; }

# Every worker waits until all of $1 are there, then each answer says what it sees.
crowd() {
    worker crowd <<END
#!/bin/sh
touch "here.\$MUSTER_WORKER"
until [ "\$(ls here.* | wc -l)" -ge $1 ]; do sleep 0.02; done
sees="\${HIP_VISIBLE_DEVICES-unset}|\${ROCR_VISIBLE_DEVICES-unset}|\${CUDA_VISIBLE_DEVICES-unset}|\${GPU_DEVICE_ORDINAL-unset}|\$MUSTER_DEVICE_KIND|\$MUSTER_DEVICE_INDEX"
while read -r n; do echo "\$sees"; sleep 0.01; done
END
    rm -f here.*
    seq $((10 * $1)) >in.txt
}

@test "muster gpus lists AMD's GPUs in ROCm's order" {
    machine mi300x
    run "$MUSTER" gpus
    ended_with 0
    [ "$(grep -c '^gpu ' <<<"$output")" -eq 8 ]
    says "AMD Instinct MI300X OAM" "297 MiB / 192 GiB" "46 °C" "138 W" "ok"
    run --separate-stderr "$MUSTER" gpus --json
    ended_with 0
    [ "$(jq -r 'select(.index == 5) | [.kind, .uuid, .pci, .numa_node] | @csv' <<<"$output")" = \
        '"rocm","GPU-7a3bc1d2e4f50605","0000:a6:00.0",1' ]
}

@test "muster gpus says who computes, and what is wrong" {
    machine mi300x-busy
    run "$MUSTER" gpus
    ended_with 0
    grep '^gpu 0 .*4000001 99.0 GiB' <<<"$output"
    grep '^gpu 2 .*4000001' <<<"$output"
    [ "$(grep -c 4000001 <<<"$output")" -eq 2 ]
    machine broken
    run "$MUSTER" gpus
    ended_with 0
    grep '^gpu 3 .*LOST: the AMD driver does not describe it' <<<"$output"
    grep '^gpu 4 .*LOST: it is not on the PCI bus' <<<"$output"
    grep '^gpu 5 .*ILL: a bad page of its memory could not be retired' <<<"$output"
    grep '^gpu 6 .*3 uncorrected ECC errors' <<<"$output"
}

@test "one worker on each GPU, shown by exactly one variable" {
    machine mi300x
    crowd 8
    GPU_DEVICE_ORDINAL=0 map in.txt -o out.txt -- ./crowd
    ended_with 0
    sort -u out.txt >found.txt
    for i in 0 1 2 3 4 5 6 7; do echo "$i|unset|unset|unset|rocm|$i"; done >want.txt
    same found.txt want.txt
}

@test "the lists of both layers are the universe, and a worker has none of them twice" {
    machine mi300x
    crowd 2
    ROCR_VISIBLE_DEVICES=7,5,3,1 HIP_VISIBLE_DEVICES=2,0 CUDA_VISIBLE_DEVICES=6 map in.txt -o out.txt -- ./crowd
    ended_with 0
    sort -u out.txt >found.txt
    printf '%s|unset|unset|unset|rocm|%s\n' 3 3 7 7 >want.txt
    same found.txt want.txt
    ROCR_VISIBLE_DEVICES=7,5,3,1 HIP_VISIBLE_DEVICES=2,0 map -g 2 in.txt -o out2.txt -- ./crowd
    ended_with 69
    says "0,1"
}

@test "a uuid, a prefix of one, a PCI address, and visible by uuid" {
    machine mi210
    crowd 1
    local spec
    for spec in GPU-91f2a3b4c5d60002 0000:63:00.0 2; do
        map --force -g $spec in.txt -o out.txt -- ./crowd
        ended_with 0
        [ "$(cut -d'|' -f1 out.txt | sort -u)" = 2 ]
    done
    map --force -g GPU-91f2 in.txt -o out.txt -- ./crowd
    ended_with 2
    map --force -g 2 --visible uuid in.txt -o out.txt -- ./crowd
    ended_with 0
    [ "$(cut -d'|' -f1 out.txt | sort -u)" = GPU-91f2a3b4c5d60002 ]
}

@test "free, free:SIZE and any:N go by memory and owners" {
    machine mi300x-busy
    crowd 1
    map --dry-run in.txt -o out.txt -- ./crowd
    ended_with 0
    says "gpu_1" "gpu_3" "gpu_7"
    says_not "gpu_0" "gpu_2"
    map -g any:7 in.txt -o out.txt -- ./crowd
    ended_with 69
    says "7 free GPUs wanted, 6 found" "4000001"
    map -g free:192GiB in.txt -o out.txt -- ./crowd
    ended_with 69
}

@test "--gpus-per-worker follows the links" {
    machine mi210
    crowd 2
    map --gpus-per-worker 2 in.txt -o out.txt -- ./crowd
    ended_with 0
    [ "$(cut -d'|' -f1 out.txt | sort -u | tr '\n' ' ')" = "0,2 1,3 " ]
}

@test "a worker runs near its GPU, as far as it may" {
    machine mi300x
    worker where <<'END'
#!/bin/sh
cores=$(awk '/^Cpus_allowed_list/ { print $2 }' /proc/self/status)
while read -r n; do echo "$cores"; done
END
    echo 1 >in.txt
    local allowed last
    allowed=$(awk '/^Cpus_allowed_list/ { print $2 }' /proc/self/status)
    last=${allowed##*[,-]}
    echo "$last" >"$(device 0000:05:00.0)/local_cpulist"
    echo $((last + 1))-1000 >"$(device 0000:26:00.0)/local_cpulist"
    map -g 0 in.txt -o near.txt -- ./where
    ended_with 0
    [ "$(cat near.txt)" = "$last" ]
    # none of its near cores is this process's: as if there were none
    map -g 1 in.txt -o far.txt -- ./where
    ended_with 0
    [ "$(cat far.txt)" = "$allowed" ]
}

@test "graphics of the processor compute only when asked to" {
    machine desktop
    crowd 1
    map in.txt -o out.txt -- ./crowd
    ended_with 0
    [ "$(cut -d'|' -f1 out.txt | sort -u)" = 0 ]
    map -g all in.txt -o out2.txt -- ./crowd
    ended_with 0
    says "gpu 1: graphics of the processor"
    [ "$(cut -d'|' -f1 out2.txt | sort -u)" = 0 ]
    local spec
    for spec in 1 PCI-0000:10:00.0 10:00.0; do
        map --force -g $spec in.txt -o out3.txt -- ./crowd
        ended_with 0
        [ "$(cut -d'|' -f1 out3.txt | sort -u)" = 1 ]
    done
}

@test "a machine with nothing but graphics of the processor has CPU slots" {
    machine laptop
    crowd 1
    run "$MUSTER" gpus
    ended_with 0
    says "AMD gfx1036 (integrated)"
    map in.txt -o out.txt -- ./crowd
    ended_with 0
    says "no GPU but graphics of the processor (-g all uses them)"
    [ "$(cut -d'|' -f5 out.txt | sort -u)" = cpu ]
    map -g all --force in.txt -o out.txt -- ./crowd
    ended_with 0
    [ "$(cut -d'|' -f1,5 out.txt | sort -u)" = "0|rocm" ]
}

@test "two musters never take the same AMD GPU" {
    machine mi210
    holding_worker
    seq 8 >in.txt
    map_begin -g 1 in.txt -o first.txt -- ./hold
    wait_for test -e holding
    map -g 1 in.txt -o second.txt -- cat
    ended_with 69
    says "$PID"
    touch go
    map_end
    ended_with 0
}

@test "a GPU whose files hang costs muster one deadline, and no worker" {
    machine mi210
    local file
    file=$(device 0000:43:00.0)/gpu_busy_percent
    rm "$file"
    mkfifo "$file"
    crowd 3
    map in.txt -o out.txt -- ./crowd
    ended_with 0
    [ "$(cut -d'|' -f1 out.txt | sort -u | tr '\n' ' ')" = "0 2 3 " ]
    run limited "$MUSTER" gpus
    ended_with 0
    grep '^gpu 1 .*LOST: gpu_busy_percent did not answer' <<<"$output"
}

@test "an AMD GPU that falls off the bus in the middle is benched, and the others finish" {
    machine mi210
    worker feel <<'END'
#!/bin/sh
while read -r n; do
    if [ -e lost ] && [ "$MUSTER_DEVICE_INDEX" = 1 ]; then sleep 1000; fi
    if [ "$n" -eq 30 ]; then rm machine/sys/bus/pci/devices/0000:43:00.0; touch lost; fi
    echo "$n"
    sleep 0.01
done
END
    seq 300 >in.txt
    map --grace 1s in.txt -o out.txt -- ./feel
    ended_with 0
    says "gpu 1 gets no more work: the device is gone"
    same out.txt in.txt
}

@test "NVIDIA's and AMD's GPUs on one machine have ids that count through" {
    machine mi210
    export MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=2
    run --separate-stderr "$MUSTER" gpus --json
    ended_with 0
    [ "$(jq -c '[.index,.kind,.physical]' <<<"$output" | tr '\n' ' ')" = \
        '[0,"cuda",0] [1,"cuda",1] [2,"rocm",0] [3,"rocm",1] [4,"rocm",2] [5,"rocm",3] ' ]
    crowd 6
    map in.txt -o out.txt -- ./crowd
    ended_with 0
    cut -d'|' -f1,3,5,6 out.txt | sort -u >found.txt
    { printf '%s|unset|rocm|%s\n' 0 0 1 1 2 2 3 3; printf 'unset|%s|cuda|%s\n' 0 0 1 1; } >want.txt
    same found.txt want.txt
    map -g 1,2 --dry-run in.txt -o out2.txt -- ./crowd
    ended_with 0
    says "gpu_1" "gpu_2"
}

@test "a CPU worker sees no AMD GPU" {
    machine mi210
    crowd 1
    map -g cpu:1 in.txt -o out.txt -- ./crowd
    ended_with 0
    [ "$(cut -d'|' -f1 out.txt | sort -u)" = -1 ]
}

@test "without /dev/kfd there is no AMD GPU, and muster says why" {
    machine mi210
    rm machine/dev/kfd
    run "$MUSTER" gpus
    ended_with 0
    says "no /dev/kfd" "cpu 0"
}
