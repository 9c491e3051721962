#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Hosts that come, go and are dropped in moments that are awkward, and hosts that are asked for twice. They are agents on this
# machine, as in hosts.bats.
load helpers

setup() {
    common_setup
    reach_worker
    until_go_filter
    worker but_four <<'END'
#!/bin/sh
[ "$1" != four ] || exit 255
exec ./reach "$@"
END
}

lists() { "$MUSTER" hosts | tr -s ' ' | grep -q "^$1"; }

@test "a host is dropped while its workers start, while its devices are locked, and while it is being connected" {
    export MUSTER_SYSFS=/nowhere MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=1
    seq 1 400 >in.txt
    "$MUSTER" each -g 0 -- sh -c 'touch holding; until [ -e go ]; do sleep 0.05; done' >held 2>&1 3>&- 4>&- &
    local holder=$!
    wait_for test -e holding
    map_begin --hosts one=cpu:1 --wait 1m --via './but_four {host}' -r 0 -o out.txt in.txt -- \
        sh -c '[ "$MUSTER_WORKER" = 0 ] || { echo >>started; sleep 1000; }; exec ./until_go'
    wait_for has_logged "one_cpu_0: attempt"
    run limited "$MUSTER" hosts --add two=cpu:2
    ended_with 0
    wait_for has_lines started 2
    run limited "$MUSTER" hosts --drop two --now
    ended_with 0
    wait_for has_logged "two: it has left the run"
    run limited "$MUSTER" hosts --add three=0
    ended_with 0
    wait_for has_logged "three: gpu 0: taken by pid"
    local agent
    agent=$(agent_of three)
    run limited "$MUSTER" hosts --drop three
    ended_with 0
    wait_for is_gone "$agent"
    wait_for lists 'three left 0 0'
    run limited "$MUSTER" hosts --add four=cpu:1 # which is not there
    ended_with 0
    wait_for lists 'four missing'
    run limited "$MUSTER" hosts --drop four
    ended_with 0
    wait_for lists 'four left'
    touch go
    map_end
    ended_with 0
    same in.txt out.txt
    wait $holder
}

@test "the way to a dropped host ends while the run goes on, whatever it does" {
    seq 1 800 >in.txt
    worker stays <<'END'
#!/bin/sh
./reach "$@"
[ "$1" != two ] || { trap "" TERM; echo $$ >stays.two; sleep 1000; }
END
    map_begin --hosts one=cpu:1,two=cpu:1 --via './stays {host}' -o out.txt in.txt -- ./until_go
    wait_for has_logged "two_cpu_0: attempt"
    run limited "$MUSTER" hosts --drop two
    ended_with 0
    wait_for test -s stays.two
    wait_for is_gone "$(cat stays.two)"
    kill -0 "$PID"
    touch go
    map_end
    ended_with 0
    same in.txt out.txt
}

@test "a host tells of its devices, and is lost, before the run has begun: it is asked again" {
    local reach
    export MUSTER_SYSFS=/nowhere MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=1
    worker late <<'END'
#!/bin/sh
[ "$1" != slow ] || until [ -e slow.go ]; do sleep 0.05; done
exec ./reach "$@"
END
    seq 1 800 >in.txt
    map_begin --hosts one,slow=cpu:1 --via './late {host}' -o out.txt in.txt -- ./until_go
    wait_for sh -c 'grep -qs "pid " "$MUSTER_LOCK_DIR"/*.lock'
    sleep 1.5 # samples come once a second
    reach=$(cat pid.one)
    kill -KILL "$(agent_of one)"
    wait_for is_gone "$reach" # muster knows
    touch slow.go
    wait_for has_logged "slow_cpu_0: attempt"
    wait_for has_logged "one_gpu_0: attempt"
    touch go
    map_end
    ended_with 0
    same in.txt out.txt
    says "one: cannot be had: ./late ended with status 137" "one: it joins the run: 1 more worker"
    says_not "lost"
}

@test "two spellings of one machine are two hosts, which do not share a GPU" {
    export MUSTER_SYSFS=/nowhere MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=2
    seq 1 50 >in.txt
    map --hosts one,me@one --via './reach {host}' -o out.txt in.txt -- sh -c 'echo $CUDA_VISIBLE_DEVICES >>seats
        until [ "$(wc -l <seats)" -ge 2 ]; do sleep 0.02; done; exec cat'
    ended_with 0
    same in.txt out.txt
    [ "$(sort seats)" = $'0\n1' ]
    says "one: cannot be had: "
    map --hosts one,one --via './reach {host}' -o out2.txt in.txt -- cat
    ended_with 2
    says "'one' is named twice"
}

@test "two runs that ask for the devices of two hosts in opposite order do not wait for each other without end" {
    export MUSTER_SYSFS=/nowhere MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=1
    worker crossed <<'END'
#!/bin/sh
export MUSTER_LOCK_DIR=$PWD/locks.$3
[ "$1" = "$3" ] || until grep -qs "pid " "locks.$3"/*.lock; do sleep 0.05; done
shift 3
exec "$@"
END
    seq 1 10 >in.txt
    SECONDS=0
    "$MUSTER" map --runs-dir other --hosts b,a --hosts-min 2 --wait 2s -g 0 --via './crossed b -- {host}' -o out2.txt in.txt -- cat >other.said 2>&1 3>&- 4>&- &
    local other=$! status2=0
    map --hosts a,b --hosts-min 2 --wait 2s -g 0 --via './crossed a -- {host}' -o out.txt in.txt -- cat
    wait $other || status2=$?
    [ $SECONDS -lt 15 ]
    # The first one to give up leaves its device to the other.
    case "$status $status2" in "69 69" | "69 0" | "0 69") ;; *) false ;; esac
    grep -h "1 of 2 hosts can be had; [ab]: gpu 0 is taken by pid" other.said - <<<"$output"
    wait_for nobody_is_left
}
