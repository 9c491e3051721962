#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Ranks that stand still while others wait for them.
load helpers

setup() {
    common_setup
    export MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=4 MUSTER_SYSFS=/nowhere TMPDIR=$PWD/tmp PATH=$PWD/bin:/usr/bin:/bin
    unset PYTHON_EXEC ${!PET_@}
    mkdir tmp bin
    mkfifo never
    # Ranks wait in read(), and rank 1 does what the test wants.
    worker rank <<'END_RANK'
#!/bin/sh
[ "$RANK" = 1 ] && eval "$1"
eval "${2:-exec cat never}"
END_RANK
}

launch() { run --separate-stderr limited "$MUSTER" launch "$@"; }

@test "a rank that is not where the others are is named, with its place, and so is the end of the silence" {
    "$MUSTER" launch --nproc 4 --hang-after 1s --no-python ./rank 'sleep 0.1; exec sleep 1000' 'exec cat never' >out 2>said 3>&- 4>&- &
    PID=$!
    wait_for holds said "all stand still; rank 1 is not where the others are"
    wait_for holds said "rank 0 (pid "
    grep -E '^  rank 1 \(pid [0-9]+\): sleeps' said
    grep -E '^  rank 0 \(pid [0-9]+\), one of the others: sleeps' said
    grep -E '^  \| pid [0-9]+: sleep sleeps' said
    exec 9<>never
    echo on >&9
    wait_for holds said "the ranks go on"
    kill -TERM "$PID"
    map_end
    ended_with 143
}

@test "--on-hang end: the rank that stands still while others spin is a failure, of which there may be restarts" {
    launch --nproc 3 --hang-after 2s --on-hang end --max-restarts 1 --restart-pause 10ms --no-python ./rank '[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exec sleep 1000' '[ $TORCHELASTIC_RESTART_COUNT = 1 ] || while :; do :; done'
    ended_with 0
    [[ $stderr == *"rank 1 stands still, and 2 others compute, or spin to wait"*"muster: rank 1 (pid "*") stood still, and was ended with the others"*"(restart 1 of 1)"* ]]
    launch --nproc 3 --hang-after 1s --on-hang end --exit-code torchrun --no-python ./rank 'exec sleep 1000'
    ended_with 1
}

# Begins a launch that is ended when it has said what it must.
watched() {
    "$MUSTER" launch --nproc 3 --hang-after 1s --on-hang end --shutdown-timeout 0.1s --no-python ./rank "$1" >out 2>said 3>&- 4>&- &
    PID=$!
}

@test "a rank that works while others wait is named, and never ended; neither is one that is stopped" {
    watched 'while :; do :; done'
    wait_for holds said "rank 1 computes, and 2 others wait"
    wait_for grep -qE '^  rank 1 \(pid [0-9]+\): ' said
    kill -TERM "$PID"
    map_end
    ended_with 143
    watched 'kill -STOP $$$$'
    wait_for holds said ", and rank 1 is paused"
    wait_for grep -qE '^  rank 1 \(pid [0-9]+\): stopped by a signal; SIGCONT lets it go on' said
    kill -TERM "$PID"
    map_end
    ended_with 143
}

@test "one that prints is waited for, and with 0 nobody is looked at" {
    launch --nproc 2 --hang-after 0.8s --on-hang end --no-python ./rank 'for i in 1 2 3 4 5 6; do sleep 0.2; echo $i; done; exit 0' 'sleep 1.2; exit 0'
    ended_with 0
    [ "$stderr" = "" ]
    launch --nproc 2 --hang-after 0 --on-hang end --time-limit 0.5s --no-python ./rank 'exec sleep 1000'
    ended_with 124
    [[ $stderr != *"stand still"* ]]
    launch --on-hang restart --no-python true
    ended_with 2
    [[ $stderr == *"expected report or end, found 'restart'"* ]]
}

@test "a rank with a process that is blocked in the kernel is the one that others wait for" {
    cat >blocked.py <<'END'
import ctypes, os, subprocess, time
if os.environ["RANK"] == "0":
    # The parent of a vfork() is in state D until its child executes something.
    if ctypes.PyDLL(None).vfork() == 0:
        time.sleep(1000)
subprocess.run(["cat", "never"]) if os.environ["RANK"] == "2" else time.sleep(1000)
END
    launch --nproc 3 --hang-after 2s --on-hang end --shutdown-timeout 0.5s blocked.py
    ended_with 124
    [[ $stderr == *"rank 0 is not where the others are"*"rank 0 (pid "*"): blocked in "*", which is in the kernel, where signals may not end it"* ]]
}

@test "of ranks that all wait for a lock, the one that waits elsewhere in its program is named" {
    cat >locks.py <<'END'
import os, threading
lock = threading.Lock()
lock.acquire()
if os.environ["RANK"] == "2":
    max([1], key=lambda _: lock.acquire())
lock.acquire()
END
    launch --nproc 4 --hang-after 2s --on-hang end locks.py
    ended_with 124
    [[ $stderr == *"rank 2 is not where the others are"*"rank 2 (pid "*"): sleeps in futex"*"rank 0 (pid "*"), one of the others: sleeps in futex"* ]]
}

@test "py-spy says where a rank stands, if it is there, and why not" {
    worker bin/py-spy <<'END_SPY'
#!/bin/sh
[ "$1 $2" = "dump --pid" ] || exit 2
grep -q sleep "/proc/$3/comm" || { echo "Permission denied: $3" >&2; exit 1; }
printf 'Thread %s (idle): "MainThread"\n    load (data.py:7)\033[31m\n' "$3"
END_SPY
    launch --nproc 3 --hang-after 1s --on-hang end --no-python ./rank 'exec sleep 1000'
    ended_with 124
    [[ $stderr == *"rank 1 (pid "*"): sleeps"*$'\n  | Thread '*' (idle): "MainThread"\n'*$'  |     load (data.py:7)\n'* ]] || [[ $stderr == *$'  |     load (data.py:7)\n'* ]]
    [[ $stderr == *"one of the others: sleeps"*"  | py-spy: Permission denied: "*"  | pid "*": cat sleeps"* ]]
    [[ $stderr != *$'\033'* ]]
}

@test "ranks on hosts are looked at where they are" {
    launch --hosts node1=cpu:2,node2=cpu:1 --via env --hang-after 1s --on-hang end --no-python ./rank 'exec sleep 1000'
    ended_with 124
    [[ $stderr == *"rank 1 is not where the others are"*"rank 1 (pid "*" on node1): sleeps"*"  | pid "*": sleep sleeps"*"rank 0 (pid "*" on node1), one of the others: sleeps"*"  | pid "*": cat sleeps"*"rank 1 (pid "*" on node1) stood still"* ]]
}

@test "with a muster on each machine, the one that leads judges, and every one ends with 124" {
    local both="--nnodes 2 --rdzv-backend c10d --rdzv-endpoint localhost:29483 --rdzv-id hang --hang-after 1s --on-hang end --no-python ./rank"
    "$MUSTER" launch --nproc-per-node 1 $both 'exec sleep 1000' >out.0 2>said 3>&- 4>&- &
    PID=$!
    launch --nproc-per-node 2 $both 'exec sleep 1000'
    ended_with 124
    [[ $stderr == *"rank 1 (pid "*") stood still"* ]]
    map_end
    ended_with 124
    cat said - <<<"$stderr" | grep -E '^  rank 1 \(pid [0-9]+ on .*\): sleeps' -A 1 | grep '^  | pid .*: sleep sleeps'
}

@test "a rank whose device is at work does not stand still, here and on other hosts" {
    MUSTER_FAKE_NVML=gpus=4,full=0,full=2 launch --hosts node1=0,node2=1,local=2,node3=3 --via env --hang-after 3s --on-hang end --no-python cat never
    ended_with 124
    [[ $stderr == *"ranks 1,3 stand still, and 2 others compute"*"rank 1 (pid "*" on node2) stood still"* ]]
}
