#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# muster doctor, on machines that a stand-in for NVML plays (tests/fixtures/nvml/script.h). Tests name the
# checks they look at: what else is true of the machine they run on is none of their business.
load helpers

setup() {
    common_setup
    export MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=8
    export TMPDIR=$BATS_TEST_TMPDIR/tmp
    mkdir "$TMPDIR"
    unset CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER NVIDIA_VISIBLE_DEVICES SLURM_JOB_ID
}

doctor() { run --separate-stderr limited "$MUSTER" doctor "$@"; }

# The findings of the last --json of this level, as "check subject" lines.
level() { jq -r "select(.level == \"$1\") | .check + \" \" + .subject" <<<"$output"; }

# took_less MS COMMAND…
took_less() {
    local begin=$EPOCHREALTIME limit_ms=$1 took_ms
    shift
    "$@"
    took_ms=$(((${EPOCHREALTIME/./} - ${begin/./}) / 1000))
    [ $took_ms -lt "$limit_ms" ] && return
    echo "took $took_ms ms, limit $limit_ms"
    return 1
}

@test "eight GPUs that are well" {
    doctor driver alike health modes links processes visible
    ended_with 0
    says "NVIDIA 550.54.15 answers, 8 GPUs" "8 x Stand-in H200" "4 of 28 pairs by NVLink" "fit, 7 ok"
    says_not "warn" "fail" $'\e'
    doctor -q driver health
    ended_with 0
    [ -z "$output" ]
}

@test "all checks together are JSON, a finding a line, and the status says whether one fails" {
    took_less 5000 doctor --json
    [ "$(jq -c 'keys' <<<"$output" | sort -u)" = '["check","cure","found","level","means","subject","time"]' ]
    [ "$(jq -r .check <<<"$output" | sort -u | wc -l)" -ge 15 ]
    jq -es 'all(.[]; .level == "ok" or (.level == "warn" or .level == "fail") and .means != "" and .cure != "")' <<<"$output"
    if [ -n "$(level fail)" ]; then ended_with 1; else ended_with 0; fi
    [ -z "$(ls -A "$TMPDIR")" ]
    [ ! -e muster-runs ]
}

@test "each trouble of a GPU is a finding of its own" {
    export MUSTER_FAKE_NVML=gpus=8,remap=0,ecc=1:3,hot=2,narrow=3,links=4:2,mode=5:2,nopersist=6,nopersist=7,lost=7:1
    doctor --json health modes links
    ended_with 1
    [ "$(level fail | sort | tr '\n' ';')" = "health gpu 0;health gpu 7;modes gpu 5;" ]
    [ "$(level warn | sort | tr '\n' ';')" = "health gpu 1;health gpu 2;links gpu 3;links gpu 4;modes gpu 6;" ]
    [[ $(jq -r 'select(.subject == "gpu 1") | .found' <<<"$output") == "3 uncorrected"* ]]
}

@test "the worst stands first in the summary, with what it means and its cure above" {
    export MUSTER_FAKE_NVML=gpus=4,hot=0,remap=2
    doctor health
    ended_with 1
    says "not fit, 1 failure, 1 warning; first of all health: gpu 2: row remapping pending" "means  " "cure   "
}

@test "GPUs unlike one another, and some cut by MIG" {
    export MUSTER_FAKE_NVML=gpus=4,mixed,mig=2:2
    doctor alike visible
    ended_with 0
    says "1 x Stand-in H200, 2 x Stand-in A100" "3 whole GPUs and 2 MIG instances" "CUDA_DEVICE_ORDER: not set"
    export CUDA_DEVICE_ORDER=PCI_BUS_ID
    doctor visible
    says_not "warn"
}

@test "foreign processes are told with their owner" {
    export MUSTER_FAKE_NVML=gpus=4,full=1
    doctor processes
    ended_with 0
    says "gpu 1: in use by" "of root (100 GiB)" "--wait"
}

@test "warnings fail only with --strict" {
    export MUSTER_FAKE_NVML=gpus=2,nopersist=1
    doctor modes
    ended_with 0
    says "fit, with warnings, 1 warning; first of all modes: gpu 1: persistence mode is off"
    doctor --strict modes
    ended_with 1
}

@test "a query that hangs costs its deadline and no more" {
    export MUSTER_FAKE_NVML=gpus=8,hang=3
    took_less 8000 doctor --json
    ended_with 1
    [ "$(jq -r 'select(.check == "health") | .subject' <<<"$output")" = "gpu 3" ]
    says "nvmlDeviceGetMemoryInfo did not answer within"
    # all of them: no answer may take what is left for the others
    export MUSTER_FAKE_NVML=gpus=8,hangid=0,hangid=1,hangid=2,hangid=3,hangid=4,hangid=5
    took_less 8000 doctor --json driver health
    ended_with 1
    [ "$(level fail | grep -c health)" -ge 6 ]
    export MUSTER_FAKE_NVML=gpus=2,hangid=1
    took_less 8000 doctor --patience 600ms driver health
    ended_with 1
    says "gpu 1: lost: nvmlDeviceGetUUID did not answer within "
}

@test "a driver that does not come up, or is of another version, is told with its cure" {
    export MUSTER_FAKE_NVML=hanginit
    took_less 8000 doctor driver
    ended_with 1
    says "did not answer nvmlInit_v2" "--patience"
    export MUSTER_FAKE_NVML=init=18
    doctor driver
    ended_with 1
    says "Driver/library version mismatch" "Reboot"
    export MUSTER_NVML=/nowhere/libnvidia-ml.so.1
    doctor driver
    ended_with 1
    says "cannot open shared object file"
}

@test "variables that hide devices" {
    CUDA_VISIBLE_DEVICES=0,9,1 doctor visible
    ended_with 0
    says "'9' is not on this machine, which hides it and all after it"
    CUDA_VISIBLE_DEVICES= doctor visible
    ended_with 1
    says "hides every GPU"
    ROCR_VISIBLE_DEVICES=3 HIP_VISIBLE_DEVICES=3 doctor visible
    ended_with 0
    says "HIP_VISIBLE_DEVICES=3"
}

@test "what others chose does not speak to the terminal" {
    CUDA_VISIBLE_DEVICES=$'0,\e[2J' doctor visible
    ended_with 0
    says "'' is neither"
    says_not $'\e'
    CUDA_VISIBLE_DEVICES=$'0,\e[2J' doctor --json visible
    [[ $(jq -r .found <<<"$output") == *$'\e[2J'* ]]
}

@test "AMD's GPUs" {
    unset MUSTER_NVML
    cp -a "${AMD_TREES:?the machines}/broken" machine
    export MUSTER_SYSFS=$PWD/machine/sys
    doctor driver --json
    ended_with 0
    says "AMD answers"
    doctor --json health visible
    ended_with 1
    [ "$(level fail | tr '\n' ';')" = "health gpu 3;health gpu 4;health gpu 5;" ]
    [ "$(level warn | tr '\n' ';')" = "health gpu 6;" ]
    ROCR_VISIBLE_DEVICES=1,2 HIP_VISIBLE_DEVICES=2 doctor visible
    ended_with 1
    says "HIP_VISIBLE_DEVICES: '2' is not on this machine"
    rm machine/dev/kfd
    doctor driver
    ended_with 1
    says "this container was not given it" "--device /dev/kfd"
    cp -a "$AMD_TREES/mi300x" whole
    MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=init=18 MUSTER_SYSFS=$PWD/whole/sys doctor driver alike
    ended_with 1
    says "the NVIDIA driver says: Driver/library version mismatch" "AMD answers, 8 GPUs" "8 x AMD"
    MUSTER_SYSFS=$PWD/whole/sys doctor --smoke --json clock
    ended_with 0
    [ "$(level ok | grep -c smoke)" -eq 8 ]
}

@test "ranks, threads and jobs that the environment tells of" {
    RANK=0 WORLD_SIZE=8 OMP_NUM_THREADS=100000 doctor ranks threads
    ended_with 0
    says "RANK=0 WORLD_SIZE=8" "OMP_NUM_THREADS: =100000 for 8 workers"
    SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=8 doctor slurm
    says "one of 8 tasks of job 7"
}

@test "limits of the session" {
    run bash -c "ulimit -n 512; exec '$MUSTER' doctor limits"
    ended_with 1
    says "open files: at most 512" "ulimit -n"
    run bash -c "ulimit -f 1000; exec '$MUSTER' doctor limits folder"
    says "fail" "file size: at most" "is local and writable"
    run bash -c "ulimit -f 100; exec '$MUSTER' doctor disk" # less than is written first
    ended_with 0
    says "not measured: the size of files is limited"
}

@test "the folder for runs" {
    doctor --runs-dir "$PWD/not/yet" folder disk
    says "$PWD is local and writable" "written and synced at"
    [ -z "$(ls -A "$TMPDIR")" ] && [ ! -e not ]
    echo 1 >file
    local path
    for path in file file/below; do
        doctor --runs-dir $path folder disk
        ended_with 1
        says "fail  folder    $PWD/file: it is there and is not a folder" "--runs-dir"
    done
    MUSTER_RUNS_DIR=/proc/self doctor folder
    ended_with 1
    says "/proc/self: make a file in it"
}

@test "a file server that is down costs the patience, and is told" {
    [ -n "${DEAD_FS:-}" ] || skip "not with a sanitizer"
    mkdir dead-server
    LD_PRELOAD=$DEAD_FS took_less 8000 doctor --json --runs-dir dead-server/runs
    ended_with 1
    [[ $(jq -r 'select(.check == "folder") | .subject' <<<"$output") == "$PWD/dead-server/runs" ]]
    says "no answer within 4200 ms"
    LD_PRELOAD=$DEAD_FS doctor --patience 300ms --runs-dir dead-server folder disk shm
    ended_with 1
    says "no answer within 300 ms"
    nobody_is_left
}

@test "a check of what is not there says so" {
    doctor -g cpu:2 links
    ended_with 0
    says "there is nothing of that on this machine"
    run env PATH=/nowhere "$MUSTER" doctor slurm
    ended_with 0
    says "no Slurm here"
}

@test "only the devices of -g" {
    export MUSTER_FAKE_NVML=gpus=4,remap=3
    doctor -g 0-2 health alike
    ended_with 0
    says "3 x Stand-in H200"
    doctor -g 3 health
    ended_with 1
    doctor -g sim:2xH200,lost@1 health
    ended_with 1
    says "gpu 1: lost"
    doctor -g cpu:3 driver
    ended_with 0
    doctor -g none driver access
    ended_with 0
    says "not asked" "fit, 1 ok"
    doctor -g 9 health
    ended_with 69
    [[ $stderr == *"0-3"* ]]
}

@test "-g narrows what is said of devices, and not what is said of the machine" {
    local i
    for i in 0 1 2 3; do
        mkdir -p machine/sys/bus/pci/devices/0000:${i}0:00.0
        echo 0x030200 >machine/sys/bus/pci/devices/0000:${i}0:00.0/class
        echo 0x10de >machine/sys/bus/pci/devices/0000:${i}0:00.0/vendor
    done
    export MUSTER_FAKE_NVML=gpus=4,links=2:1 MUSTER_SYSFS=$PWD/machine/sys
    doctor -g 0-2 driver visible
    ended_with 0
    says "4 GPUs" "no variable hides a device"
    says_not "on the PCI bus" warn
    # ids count in what the list leaves; what the list names is on the machine
    CUDA_VISIBLE_DEVICES=3,2 doctor -g 1 driver visible processes
    ended_with 0
    says "4 GPUs" "=3,2 leaves 2 of 4 devices" "nobody computes on the GPU"
    # the other three of its model have more, though one alone is looked at
    doctor -g 2 links
    says "1 NVLinks are up, 4 on others of its model"
    doctor -g 0,1,3 links
    says "of 3 pairs by NVLink"
    CUDA_VISIBLE_DEVICES=3,2 doctor -g 2 health
    ended_with 69
    [[ $stderr == *"0,1"* ]]
    # a job's GPUs are those that it is shown
    CUDA_VISIBLE_DEVICES=1,2 SLURM_JOB_ID=7 SLURM_GPUS_ON_NODE=2 SLURM_STEP_ID=0 doctor -g 0 slurm
    says_not SLURM_GPUS_ON_NODE
}

@test "wrong usage is 2, with the way out" {
    doctor shn
    ended_with 2
    [[ $stderr == *"did you mean 'shm'"* ]]
    doctor --smok
    ended_with 2
    doctor -g 1,1
    ended_with 2
    doctor --patience 99ms
    ended_with 2
    [[ $stderr == *"--patience is too short"*"at least 100ms"* ]]
    doctor --patience 25h
    ended_with 2
    doctor --patience 100ms clock
    ended_with 0
    doctor --list
    ended_with 0
    says "shm "
    doctor --list --json
    ended_with 0
    [ "$(jq -r 'select(.check == "shm") | has("time"), (.purpose | length > 0)' <<<"$output" | tr '\n' ' ')" = "true true " ]
    [ "$(jq -rs 'map(.check) | join(" ")' <<<"$output")" = "$("$MUSTER" doctor --list | awk '{ printf "%s%s", s, $1; s = " " }')" ]
}

@test "a current folder that was deleted is told as that" {
    mkdir gone
    # shellcheck disable=SC2016
    run --separate-stderr bash -c 'cd gone && rmdir ../gone && exec "$MUSTER" doctor folder'
    ended_with 1
    says "the current folder was deleted" "Change to another folder"
    says_not "rights"
}

@test "smoke: two workers on each GPU and each slice, every byte looked at, nothing left" {
    export MUSTER_FAKE_NVML=gpus=3,mig=1:2
    export MUSTER_JOIN=1 MUSTER_RUNS_DIR=$PWD/runs
    doctor --smoke --json clock
    ended_with 0
    [ "$(jq -c 'select(.check == "smoke") | [.level, .subject]' <<<"$output" | tr '\n' ' ')" = \
        '["ok","gpu 0"] ["ok","gpu 1"] ["ok","gpu 2"] ["ok","gpu 3"] ' ]
    says "2 workers, 200 items, every byte right"
    [ -z "$(ls -A "$TMPDIR")" ] && [ ! -e runs ] && [ ! -e muster-runs ]
}

@test "smoke on CPU slots and on simulated devices" {
    doctor --smoke -g cpu:4 clock
    ended_with 0
    says "cpu:2: 2 workers, 200 items, every byte right"
    doctor --smoke -g sim:2xH200 clock
    ended_with 0
    says "simulated: 4 workers, 200 items, every byte right"
    unset MUSTER_FAKE_NVML
    MUSTER_NVML=/nowhere doctor --smoke clock
    ended_with 0
    says "cpu:2: 2 workers"
    [ -z "$(ls -A "$TMPDIR")" ]
}

@test "smoke on a machine whose driver fails is not well, though CPU slots are" {
    MUSTER_FAKE_NVML=init=18 doctor --smoke clock
    ended_with 1
    says "gpu: the NVIDIA driver says: Driver/library version mismatch" "cpu:2: 2 workers"
}

@test "smoke tries what is visible, and says what it could not try" {
    CUDA_VISIBLE_DEVICES=2,1 doctor --smoke --json clock
    [ "$(jq -r 'select(.check == "smoke") | .subject' <<<"$output" | tr '\n' ';')" = "gpu 1;gpu 2;" ]
    export MUSTER_FAKE_NVML=gpus=2,lost=1:1
    seq 8 >in.txt
    map_begin -g 0 --grace 1s in.txt -o first.txt -- sh -c 'touch holding; exec sleep 1000'
    wait_for test -e holding
    doctor --smoke clock
    ended_with 0
    says "gpu 0: " "$PID" "gpu 1: it is lost" "2 warnings"
    kill -TERM "$PID"
    map_end
}

@test "smoke finds what is wrong with a run" {
    mkdir bad
    export MUSTER_FAKE_NVML=gpus=1
    worker bad/sh <<'END'
#!/bin/bash
for folder; do [ -d "$folder" ] && touch "$folder/ready.$MUSTER_WORKER"; done
while read -r n; do echo "$n $((n * n)) GPU-of-somebody-else"; done
END
    PATH=$PWD/bad:$PATH doctor --smoke clock
    ended_with 1
    says "gpu 0: the result is not what 200 items make"
    worker bad/sh <<'END'
#!/bin/bash
echo "no such model" >&2
exit 7
END
    PATH=$PWD/bad:$PATH doctor --smoke clock
    ended_with 1
    says "gpu 0: status 1: "
    [ -z "$(ls -A "$TMPDIR")" ]
}

@test "smoke that cannot be made is a finding beside the others" {
    TMPDIR=/proc/nowhere doctor --smoke clock
    ended_with 1
    says "clock" "smoke     create folder /proc/nowhere/muster-doctor-"
}

@test "smoke that is interrupted ends its run and takes its folder with it" {
    mkdir bad
    export MUSTER_FAKE_NVML=gpus=2
    worker bad/sh <<END
#!/bin/bash
touch "$PWD/holding"
exec sleep 1000
END
    PATH=$PWD/bad:$PATH "$MUSTER" doctor --smoke clock >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for test -e holding
    kill -TERM "$PID"
    map_end
    ended_with 143
    nobody_is_left
    [ -z "$(ls -A "$TMPDIR")" ]
}
