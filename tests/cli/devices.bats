#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# GPUs, played by a stand-in for NVML (tests/fixtures/nvml/script.h says what can befall them).
load helpers

setup() {
    common_setup
    export MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=8 MUSTER_SYSFS=/nowhere
}

gpu() { echo "GPU-a${1}000000-1111-4222-8333-444444444444"; }

# A filter whose every answer says what it sees.
seer() {
    worker seer <<'END'
#!/bin/sh
sees="$CUDA_VISIBLE_DEVICES|$CUDA_DEVICE_ORDER|$MUSTER_DEVICE_INDEX|$MUSTER_DEVICE|$MUSTER_DEVICE_KIND"
while read -r n; do
    echo "$sees"
    sleep 0.01
done
END
    seq "${1:-80}" >in.txt
}

# Every worker waits until all of $1 are there.
crowd() {
    worker crowd <<END
#!/bin/sh
touch "here.\$MUSTER_WORKER"
until [ "\$(ls here.* | wc -l)" -ge $1 ]; do sleep 0.02; done
sees="\$CUDA_VISIBLE_DEVICES|\$MUSTER_DEVICE_INDEX|\$MUSTER_WORKER"
while read -r n; do echo "\$sees"; sleep 0.01; done
END
    seq 80 >in.txt
}

@test "muster gpus lists what is there" {
    run "$MUSTER" gpus
    ended_with 0
    [ "$(grep -c '^gpu ' <<<"$output")" -eq 8 ]
    says "Stand-in H200" "141 GiB" "ok"
    run --separate-stderr "$MUSTER" gpus --json
    ended_with 0
    [ "$(jq -r .uuid <<<"$output" | sed -n 4p)" = "$(gpu 3)" ]
    [ "$(jq -r 'select(.index == 2) | .mem_total_bytes' <<<"$output")" = $((141 << 30)) ]
}

@test "muster gpus shows a lost GPU as lost, whatever is asked for" {
    run "$MUSTER" gpus -g sim:3xH200,lost@1
    ended_with 0
    [ "$(grep -c '^gpu ' <<<"$output")" -eq 3 ]
    grep '^gpu 1 .*LOST' <<<"$output"
    run "$MUSTER" gpus -g sim:2xH200,lost@0,hang@1
    ended_with 0
    [ "$(grep -c LOST <<<"$output")" -eq 2 ]
    export MUSTER_FAKE_NVML=gpus=3,lost=2
    local spec
    for spec in all 2 0-2; do
        run "$MUSTER" gpus -g $spec
        ended_with 0
        grep '^gpu 2 .*LOST' <<<"$output"
    done
    run "$MUSTER" gpus -g free
    ended_with 0
    says_not "LOST"
}

@test "muster gpus shows only what is visible, counted from 0" {
    CUDA_VISIBLE_DEVICES=5,3 run --separate-stderr "$MUSTER" gpus --json
    ended_with 0
    [ "$(jq -c '[.index,.physical]' <<<"$output" | tr '\n' ' ')" = "[0,5] [1,3] " ]
}

@test "muster gpus without a GPU shows CPU slots" {
    unset MUSTER_FAKE_NVML
    MUSTER_NVML=/nowhere/libnvidia-ml.so.1 run "$MUSTER" gpus
    ended_with 0
    says "cpu 0"
}

@test "one worker on each GPU sees that GPU and no other" {
    crowd 8
    map in.txt -o out.txt -- ./crowd
    ended_with 0
    sort -u out.txt >found.txt
    for i in 0 1 2 3 4 5 6 7; do echo "$i|$i|$i"; done >want.txt
    same found.txt want.txt
}

@test "a run on GPUs ends at once, and leaves no helper" {
    seer 8
    local begin=$EPOCHREALTIME
    map in.txt -o out.txt -- ./seer
    ended_with 0
    says_not "could not be ended"
    [ $(((${EPOCHREALTIME/./} - ${begin/./}) / 1000)) -lt 4000 ]
    nobody_is_left
}

@test "visible by index in PCI order, or by uuid" {
    seer 8
    map -g 3 in.txt -o out.txt -- ./seer
    ended_with 0
    [ "$(sort -u out.txt)" = "3|PCI_BUS_ID|3|$(gpu 3)|cuda" ]
    map -g 3 --visible uuid in.txt -o out2.txt -- ./seer
    ended_with 0
    [ "$(sort -u out2.txt)" = "$(gpu 3)|PCI_BUS_ID|3|$(gpu 3)|cuda" ]
}

@test "CUDA_VISIBLE_DEVICES is the universe that ids count in" {
    seer 8
    CUDA_VISIBLE_DEVICES=6,4,2 map -g 1 in.txt -o out.txt -- ./seer
    ended_with 0
    [ "$(cut -d'|' -f1,3,4 out.txt | sort -u)" = "4|4|$(gpu 4)" ]
    CUDA_VISIBLE_DEVICES=6,4,2 map -g 3 in.txt -o out2.txt -- ./seer
    ended_with 69
    says "0-2"
}

@test "a uuid, a prefix of one, and a PCI address" {
    seer 4
    local spec
    for spec in "$(gpu 5)" GPU-a5 0000:60:00.0; do
        map --force -g "$spec" in.txt -o out.txt -- ./seer
        ended_with 0
        [ "$(cut -d'|' -f3 out.txt | sort -u)" = 5 ]
    done
    map --force -g GPU-a in.txt -o out.txt -- ./seer
    ended_with 2
    says "fits"
}

@test "free skips the GPUs that others use" {
    export MUSTER_FAKE_NVML=gpus=4,full=0,full=2
    crowd 2
    map in.txt -o out.txt -- ./crowd
    ended_with 0
    [ "$(cut -d'|' -f1 out.txt | sort -u | tr '\n' ' ')" = "1 3 " ]
}

@test "when no GPU is free it says who is on them, and the ways out" {
    export MUSTER_FAKE_NVML=gpus=2,full=0,full=1
    seer 4
    map in.txt -o out.txt -- ./seer
    ended_with 69
    says "-g all" "--wait"
    map -g all in.txt -o out.txt -- ./seer
    ended_with 0
}

@test "free:SIZE and any:N" {
    export MUSTER_FAKE_NVML=gpus=4,full=0,full=1
    crowd 1
    map -g free:20GiB --dry-run in.txt -o out.txt -- ./crowd
    ended_with 0
    says "gpu_2" "gpu_3"
    says_not "gpu_0" "gpu_1"
    map -g any:1 in.txt -o out.txt -- ./crowd
    ended_with 0
    [ "$(cut -d'|' -f1 out.txt | sort -u)" = 2 ]
    map -g any:3 in.txt -o out2.txt -- ./crowd
    ended_with 69
}

@test "a GPU that wants a reset or row remapping is not used unasked" {
    export MUSTER_FAKE_NVML=gpus=3,reset=0,remap=1
    crowd 1
    map --dry-run in.txt -o out.txt -- ./crowd
    ended_with 0
    says_not "gpu_0"
    says "gpu_2"
}

@test "--gpus-per-worker gives neighbours" {
    crowd 4
    map --gpus-per-worker 2 in.txt -o out.txt -- ./crowd
    ended_with 0
    # NVLink connects i and i+4.
    [ "$(cut -d'|' -f1 out.txt | sort -u | tr '\n' ' ')" = "0,4 1,5 2,6 3,7 " ]
    [ -f muster-runs/latest/logs/gpu_0+4_stdout.log ]
}

@test "--gpus-per-worker: a command that fails on every set of GPUs ends the run" {
    export MUSTER_FAKE_NVML=gpus=4
    seq 8 >in.txt
    map --gpus-per-worker 2 in.txt -o out.txt -- false
    ended_with 1
    says "status 1"
}

@test "named GPUs that cannot be shared out: 2, before any is looked for" {
    seer 4
    map -g 0-2 --gpus-per-worker 2 in.txt -o out.txt -- ./seer
    ended_with 2
    says "the 3 devices of -g cannot be shared out among workers of 2: name 2 or 4"
    map -g cpu:1 --gpus-per-worker 2 in.txt -o out.txt -- ./seer
    ended_with 2
}

@test "of free GPUs as many whole sets are taken as there are, and the rest is left to others" {
    export MUSTER_FAKE_NVML=gpus=8,full=0
    crowd 3
    map --gpus-per-worker 2 in.txt -o out.txt -- ./crowd
    ended_with 0
    # NVLink connects i and i+4: the partner of 4 is taken.
    says "gpu 4 is left over: a worker takes 2 devices"
    [ "$(cut -d'|' -f1 out.txt | sort -u | tr '\n' ' ')" = "1,5 2,6 3,7 " ]
    map --gpus-per-worker 9 in.txt -o out2.txt -- ./crowd
    ended_with 69
    says "a worker takes 9 devices (--gpus-per-worker), and 7 can be had"
}

@test "--workers-per-gpu puts several on one" {
    export MUSTER_FAKE_NVML=gpus=2
    crowd 6
    map --workers-per-gpu 3 in.txt -o out.txt -- ./crowd
    ended_with 0
    [ "$(cut -d'|' -f1,3 out.txt | sort -u | cut -d'|' -f1 | tr '\n' ' ')" = "0 0 0 1 1 1 " ]
    [ -f muster-runs/latest/logs/gpu_0_w1_stdout.log ]
}

@test "MIG instances are devices, always by uuid" {
    export MUSTER_FAKE_NVML=gpus=2,mig=0:2
    crowd 3
    map in.txt -o out.txt -- ./crowd
    ended_with 0
    cut -d'|' -f1 out.txt | sort -u >found.txt
    printf '1\nMIG-b0000000-1111-4222-8333-444444444444\nMIG-b0100000-1111-4222-8333-444444444444\n' >want.txt
    same found.txt want.txt
}

@test "a driver that hangs does not hang muster" {
    export MUSTER_FAKE_NVML=gpus=4,hang=1
    crowd 3
    map in.txt -o out.txt -- ./crowd
    ended_with 0
    cut -d'|' -f1 out.txt | sort -u | tr '\n' ' ' >found
    [ "$(cat found)" = "0 2 3 " ]
}

@test "a GPU that falls off the bus in the middle is benched, and the others finish" {
    export MUSTER_FAKE_NVML=gpus=3,lostfile=1:$PWD/lost
    worker feel <<'END'
#!/bin/sh
while read -r n; do
    if [ -e lost ] && [ "$MUSTER_DEVICE_INDEX" = 1 ]; then sleep 1000; fi
    [ "$n" -ne 30 ] || touch lost
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

@test "a GPU that is back is used again" {
    worker feel <<'END'
#!/bin/sh
while read -r n; do
    if [ "$n" = 150 ]; then
        until grep -qs 'gets work again' muster-runs/latest/orchestrator.log; do sleep 0.05; done
    fi
    echo "$n"
    sleep 0.01
done
END
    seq 1000 >in.txt
    map -g sim:2xH200:141GiB,lost@1:1s-2s --grace 1s in.txt -o out.txt -- ./feel
    ended_with 0
    says "gpu 1 gets no more work: the device is gone"
    says "gpu 1 answers again and gets work again"
    [ "$(grep -c 'gpu_1: attempt' muster-runs/latest/orchestrator.log)" -eq 2 ]
    same out.txt in.txt
}

@test "a worker of two GPUs that loses the second is benched, and charges no item" {
    export MUSTER_FAKE_NVML=gpus=4,lostfile=1:$PWD/lost
    worker feel <<'END'
#!/bin/sh
while read -r n; do
    if [ -e lost ] && [ "$MUSTER_DEVICE_INDEX" = 0,1 ]; then
        until grep -qs 'gets no more work' muster-runs/latest/orchestrator.log; do sleep 0.05; done
        exit 1
    fi
    [ "$n" -ne 30 ] || touch lost
    echo "$n"
    sleep 0.01
done
END
    seq 300 >in.txt
    map --gpus-per-worker 2 --retries 0 --grace 5s in.txt -o out.txt -- ./feel
    ended_with 0
    says "gpu 0+1 gets no more work: the device is gone (gpu 1)"
    says_not "set aside"
    same out.txt in.txt
}

# ./mortal: whoever gets item 1 dies once, when the file `die` is there; the other items wait until its place
# is taken again. What all hold of GPU 0, in GiB, is in `memory`.
mortal() {
    worker mortal <<'END'
#!/bin/sh
[ ! -e died ] || touch again
while read -r n; do
    if [ "$n" = 1 ] && [ ! -e died ]; then
        until [ -e die ]; do sleep 0.05; done
        touch died
        exit 1
    fi
    until [ -e again ]; do sleep 0.05; done
    echo "$n"
done
END
    seq 20 >in.txt
    export MUSTER_FAKE_NVML=gpus=1,memfile=0:$PWD/memory
    echo "$1" >memory
}

is_sampled() { [ "$(query 'select count(*) from samples' 2>/dev/null)" -ge "$1" ] 2>/dev/null; }

# The peaks of all workers, in GiB, of their devices' memory.
peaks() { query 'SELECT mem_peak_bytes >> 30 FROM attempts ORDER BY mem_peak_bytes' | tr '\n' ' '; }

# two_more: two samples came after this call of sampled_now.
sampled_now() { n_samples=$(query 'select count(*) from samples'); }
two_more() { is_sampled $((n_samples + 2)); }

@test "a worker's memory is not what others hold of its GPU" {
    holding_worker
    echo 40 >memory
    export MUSTER_FAKE_NVML=gpus=1,memfile=0:$PWD/memory
    seq 5 >in.txt
    map_begin -g all in.txt -o out.txt -- ./hold
    wait_for is_sampled 2
    run "$MUSTER" status
    says "gpu 0"
    says_not "40 GiB" "40.0 GiB"
    echo 57 >memory
    shows_17() { "$MUSTER" status | grep -q "^gpu 0 .* 17.0 GiB"; }
    wait_for shows_17
    touch go
    map_end
    ended_with 0
    [ "$(peaks)" = "17 " ]
}

@test "workers that share a GPU have the memory of their own processes, as the driver tells it" {
    worker share <<'END'
#!/bin/sh
mkdir one 2>/dev/null && gib=8 || gib=3
echo "$$ $gib" >>procs
until [ -e go ]; do sleep 0.02; done
exec cat
END
    : >procs
    echo 57 >memory
    export MUSTER_FAKE_NVML=gpus=1,memfile=0:$PWD/memory,procfile=0:$PWD/procs
    seq 5 >in.txt
    map_begin -g all --workers-per-gpu 2 in.txt -o out.txt -- ./share
    both_are_there() { [ "$(wc -l <procs)" = 2 ]; }
    wait_for both_are_there
    wait_for is_sampled 1
    sampled_now
    wait_for two_more
    touch go
    map_end
    ended_with 0
    [ "$(peaks)" = "3 8 " ]
}

@test "what others held of a GPU before the first worker is not waited for when that dies" {
    mortal 40
    map_begin -g all --retries 3 in.txt -o out.txt -- ./mortal
    wait_for is_sampled 1
    touch die
    map_end
    ended_with 0
    says_not "the dead worker's device memory was not freed"
    same out.txt in.txt
}

@test "a worker's death waits for no memory that its neighbour took meanwhile" {
    mortal 0
    map_begin -g all --workers-per-gpu 2 --retries 3 in.txt -o out.txt -- ./mortal
    wait_for is_sampled 1
    echo 60 >memory
    wait_for is_sampled 3
    touch die
    map_end
    ended_with 0
    says_not "the dead worker's device memory was not freed"
    same out.txt in.txt
}

@test "memory that a dead worker has not given back yet is waited for" {
    mortal 1
    map_begin -g all --retries 3 in.txt -o out.txt -- ./mortal
    wait_for is_sampled 1
    echo 60 >memory
    wait_for is_sampled 3
    touch die
    wait_for holds said "died (status 1)"
    local seen
    seen=$(query 'select count(*) from samples')
    wait_for is_sampled $((seen + 2))
    [ "$(query 'select count(*) from attempts')" = 1 ]
    echo 1 >memory
    map_end
    ended_with 0
    same out.txt in.txt
}

@test "all GPUs lost: the run ends with what it has, and can be resumed elsewhere" {
    export MUSTER_FAKE_NVML=gpus=1,lostfile=0:$PWD/lost
    pyworker feel <<'END'
import muster, time
for item in muster.items():
    if item.index == 30:
        open("lost", "w").close()
        time.sleep(1000)
    time.sleep(0.002)
    item.done(item.index)
END
    seq 0 99 >in.txt
    map --grace 1s in.txt -o out.jsonl -- ./feel
    [ "$status" -ne 0 ]
    says "gpu 0 gets no more work" "muster resume"
    sed -i 's/item.index == 30/False/' feel
    run limited "$MUSTER" resume -g cpu:2
    ended_with 0
    seq 0 99 >want.jsonl
    same out.jsonl want.jsonl
}

@test "a GPU that was lost and comes back is left alone by this run, and taken by its resume" {
    export MUSTER MUSTER_FAKE_NVML=gpus=2,lostfile=1:$PWD/lost
    pyworker feel <<'END'
import muster, os, subprocess, time
mine = os.environ["MUSTER_DEVICE_INDEX"]
is_first = not os.path.exists("resumed")
for number, item in enumerate(muster.items()):
    if is_first and mine == "1":
        open("lost", "w").close()
        time.sleep(1000)
    if is_first and number == 0:
        while "gets no more work" not in open("muster-runs/latest/orchestrator.log").read():
            time.sleep(0.05)
        os.unlink("lost")
        time.sleep(2.5)  # two looks at the devices
    if is_first and number == 50:
        subprocess.Popen([os.environ["MUSTER"], "stop"])
    time.sleep(0.01)
    item.done(item.index)
END
    seq 0 399 >in.txt
    map -g all --grace 1s in.txt -o out.jsonl -- ./feel
    ended_with 75
    [ "$(query "select count(*) from attempts where seat = 1")" = 1 ]
    touch resumed
    run limited "$MUSTER" resume
    ended_with 0
    [ "$(query "select count(*) from attempts where seat = 1 and items_done > 0")" = 1 ]
    same out.jsonl in.txt
}

@test "a helper that crashes is started again, and the run goes on" {
    export MUSTER_FAKE_NVML=gpus=2,crashonce=0:$PWD/crash
    worker slow <<'END'
#!/bin/sh
while read -r n; do
    [ "$n" -ne 5 ] || touch crash
    [ "$n" -ne 50 ] || while [ -e crash ]; do sleep 0.05; done
    echo "$n"
    sleep 0.01
done
END
    seq 100 >in.txt
    map --grace 1s in.txt -o out.txt -- ./slow
    ended_with 0
    same out.txt in.txt
    says_not "could not be ended"
}

@test "simulated devices run real workers" {
    crowd 4
    map -g sim:4xH200:141GiB in.txt -o out.txt -- ./crowd
    ended_with 0
    [ "$(cut -d'|' -f2 out.txt | sort -u | tr '\n' ' ')" = "0 1 2 3 " ]
}

@test "-g none is refused with the way to CPU slots" {
    seer 2
    map -g none in.txt -o out.txt -- ./seer
    ended_with 2
    says "none" "cpu:N"
}

@test "CPU workers see no GPU" {
    seer 2
    map -g cpu:2 in.txt -o out.txt -- ./seer
    ended_with 0
    [ -z "$(cut -d'|' -f1 out.txt | sort -u)" ]
}

@test "a driver that fails is opened once a round, however many devices it has" {
    export MUSTER_NVML=/nowhere/libnvidia-ml.so.1
    run bash -c "sleep 2 | '$(dirname "$MUSTER")/muster-devices' watch 50 cuda:a cuda:b cuda:c"
    [ "$(grep -c '^-' <<<"$output")" -eq 1 ]
}
