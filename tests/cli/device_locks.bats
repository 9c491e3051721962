#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Who may take a GPU that another run is on, or was on until it was killed. The GPUs are a stand-in's.
load helpers

setup() {
    common_setup
    export MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=8 MUSTER_SYSFS=/nowhere
}

gpu() { echo "GPU-a${1}000000-1111-4222-8333-444444444444"; }

@test "two musters never take the same GPU" {
    holding_worker
    seq 8 >in.txt
    export MUSTER_FAKE_NVML=gpus=2
    map_begin -g 0 in.txt -o first.txt -- ./hold
    wait_for test -e holding
    map -g 0 in.txt -o second.txt -- cat
    ended_with 69
    says "$PID"
    map in.txt -o third.txt --on-finish 'jq .workers >workers' -- cat
    ended_with 0
    [ "$(cat workers)" = 1 ]
    touch go
    map_end
    ended_with 0
    map -g 0 in.txt -o fourth.txt -- cat
    ended_with 0
}

@test "a GPU's lock goes with a muster that is killed" {
    seq 8 >in.txt
    map_begin -g 0 --grace 1s in.txt -o first.txt -- sh -c 'touch holding; exec sleep 1000'
    wait_for test -e holding
    kill -KILL "$PID"
    map_end
    wait_for nobody_is_left
    map -g 0 in.txt -o second.txt -- cat
    ended_with 0
}

# ./stubborn: no signal but KILL ends it, and it is alone on its GPU, or says so in the file `collision`.
stubborn() {
    worker stubborn <<'END'
#!/bin/sh
trap '' TERM
exec 9>"on.$MUSTER_DEVICE_INDEX"
flock -n 9 || echo "two on $MUSTER_DEVICE_INDEX" >>collision
touch holding
while read -r n && [ ! -e hold ]; do echo "$n"; done
while [ -e hold ]; do sleep 0.05; done
END
    seq 8 >in.txt
    touch hold
}

@test "a GPU is not taken while the worker of a muster that was killed is still on it" {
    stubborn
    map_begin -g 0 --grace 2s in.txt -o first.txt -- ./stubborn
    wait_for test -e holding
    kill -KILL "$PID"
    map_end
    "$MUSTER" map -g 0 in.txt -o second.txt -- ./stubborn >second 2>&1 3>&- &
    PID=$!
    wait_for holds second "waiting: gpu 0 is taken by pid "
    holds second "which has ended: its workers are being ended"
    rm hold
    wait "$PID"
    same second.txt in.txt
    [ ! -e collision ]
}

# The pids of this test's processes that have this name.
named() {
    local pid
    for pid in $(marked); do
        [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != "$1" ] || echo "$pid"
    done
}

@test "a GPU that a run has grown by is not taken either while something of its worker lives" {
    export MUSTER_FAKE_NVML=gpus=2
    seq 1 1000 >in.txt
    echo 1 >one.txt
    holding_worker
    "$MUSTER" map -g 1 -o held.txt one.txt -- ./hold >held 2>&1 3>&- 4>&- &
    local holder=$!
    wait_for test -e holding
    map_begin --grow in.txt -o first.txt -- sh -c 'sleep 1000 & echo $! >on.$MUSTER_DEVICE_INDEX; while read -r n; do sleep 0.1; echo $n; done'
    wait_for test -s on.0
    touch go
    wait $holder
    wait_for test -s on.1
    kill -STOP $(named run-keeper)
    kill -KILL "$PID" $(named muster-guard) # nobody but the keeper could end what the workers started
    map_end
    "$MUSTER" map -g 1 -o second.txt one.txt -- sh -c '! grep -q sleep /proc/$(cat on.1)/cmdline || touch collision; cat' >second 2>&1 3>&- 4>&- &
    PID=$!
    wait_for holds second "waiting: gpu 1 is taken by pid "
    sleep 1 # it looks five times a second
    kill -CONT $(named run-keeper)
    wait "$PID"
    [ ! -e collision ]
}

@test "a GPU that a dead run leaves is not waited for where somebody alive has another" {
    seq 8 >in.txt
    stubborn
    map_begin -g 0 --grace 20s in.txt -o dead.txt -- ./stubborn
    wait_for test -e holding
    kill -KILL "$PID"
    map_end
    map_begin -g 1 in.txt -o alive.txt -- sh -c 'touch alive; cat >/dev/null; sleep 1000'
    wait_for test -e alive
    local order
    for order in 0,1 1,0; do
        SECONDS=0
        map -g $order in.txt -o both.txt -- cat
        ended_with 69
        [ $SECONDS -le 5 ]
    done
    rm hold
    kill -KILL "$PID"
    wait "$PID" || true
}

@test "a run goes on as soon as the workers of its last session have left the GPUs" {
    stubborn
    map_begin --grace 2s in.txt -o out.txt -- ./stubborn
    wait_for test -e holding
    kill -KILL "$PID"
    map_end
    rm holding
    map_begin --grace 2s in.txt -o out.txt -- ./stubborn
    wait_for holds said "waiting for the last session"
    rm hold
    map_end
    ended_with 0
    same out.txt in.txt
    [ ! -e collision ]
}

@test "a lock file that is deleted lets nobody in" {
    holding_worker
    seq 8 >in.txt
    export MUSTER_FAKE_NVML=gpus=1
    map_begin -g 0 in.txt -o first.txt -- ./hold
    wait_for test -e holding
    rm "$MUSTER_LOCK_DIR"/*.lock
    map -g 0 in.txt -o second.txt -- cat
    ended_with 69
    says "gpu 0 is taken by"
    map in.txt -o second.txt -- cat
    ended_with 69
    wait_for test -e "$MUSTER_LOCK_DIR/$(gpu 0).lock"
    rm -r "$MUSTER_LOCK_DIR"
    wait_for holds "$MUSTER_LOCK_DIR/$(gpu 0).lock" "pid "
    map -g 0 in.txt -o second.txt -- cat
    ended_with 69
    touch go
    map_end
    ended_with 0
}

@test "the time for which a GPU is waited for counts for --time-limit" {
    holding_worker
    seq 8 >in.txt
    map_begin -g 0 in.txt -o first.txt -- ./hold
    wait_for test -e holding
    local words
    for words in "map in.txt -o second.txt -g 0 -- cat" "each -g 0 -- true" "launch -g 0 --no-python true" \
        "graph -g 0 -- true" "fit -g 0 -- echo {batch}"; do
        # shellcheck disable=SC2086
        run limited "$MUSTER" ${words%% *} --wait 1h --time-limit 1s ${words#* }
        ended_with 124
        says "the limit of 1.0 s on the whole run was reached: gpu 0 is taken by pid "
    done
    touch go
    map_end
    ended_with 0
}

@test "--wait takes a GPU as soon as it is free" {
    holding_worker
    seq 8 >in.txt
    map_begin -g 0 in.txt -o first.txt -- ./hold
    wait_for test -e holding
    "$MUSTER" map -g 0 --wait 20s in.txt -o second.txt -- cat >waiter 2>&1 3>&- &
    local waiter=$!
    wait_for holds waiter waiting
    touch go
    map_end
    ended_with 0
    wait "$waiter"
    same second.txt in.txt
}
