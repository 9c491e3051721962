#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Hosts that join a run and leave it while it lasts. The hosts are agents on this machine: ./reach HOST refuses a host
# until there is a file up.HOST, and notes its own pid, whose child is the agent.
load helpers

setup() {
    common_setup
    worker reach <<'END'
#!/bin/sh
host=$1
shift
[ -e "up.$host" ] || { echo "no route to $host" >&2; exit 255; }
echo $$ >pid.$host
"$@"
END
    slow_filter
    until_go_filter
}

lists() { "$MUSTER" hosts | tr -s ' ' | grep -q "^$1"; }

@test "a host that was refused at the start is asked again, and joins with seats behind the present ones" {
    seq 1 300 >in.txt
    touch up.one
    map_begin --hosts one=cpu:1,two=cpu:2 --via './reach {host}' -o out.txt in.txt -- \
        sh -c 'echo "worker $MUSTER_WORKER of $MUSTER_WORKERS" >>seats; exec ./slow'
    wait_for has_logged "one_cpu_0: attempt"
    touch up.two
    map_end
    ended_with 0
    same in.txt out.txt
    says "two: cannot be had: ./reach ended with status 255: no route to two" "two: it joins the run: 2 more workers"
    [ "$(sort seats)" = "worker 0 of 1
worker 1 of 3
worker 2 of 3" ]
    [ "$(query "select count(*) from attempts where items_done > 0")" = 3 ]
}

@test "a host that is added and cannot be had is named with its launcher's words, once, and joins when it can" {
    seq 1 200 >in.txt
    map_begin -g cpu:1 --via './reach {host}' -o out.txt in.txt -- ./until_go
    wait_for has_logged "cpu_0: attempt"
    "$MUSTER" hosts --add two=cpu:1 >/dev/null
    wait_for has_logged "two: cannot be had: ./reach ended with status 255: no route to two"
    sleep 1.5 # the second try
    touch up.two
    wait_for has_logged "two: it joins the run: 1 more worker"
    touch go
    map_end
    ended_with 0
    same in.txt out.txt
    [ "$(grep -c "two: cannot be had" said)" = 1 ]
}

@test "an order at which the run has not looked in time is taken back" {
    seq 1 100 >in.txt
    map_begin -g cpu:1 -o out.txt in.txt -- ./slow
    wait_for has_logged "cpu_0: attempt"
    kill -STOP "$PID"
    run limited "$MUSTER" hosts --add one --drop local
    kill -CONT "$PID"
    ended_with 124
    says "has not looked at the order within 15 s; it was taken back"
    map_end
    ended_with 0
    same in.txt out.txt
}

@test "hosts are listed with their state and their share; one that is dropped finishes its items first" {
    seq 1 400 >in.txt
    touch up.one up.two
    map_begin --hosts one=cpu:2,two=cpu:1 --via './reach {host}' -o out.txt in.txt -- ./slow
    wait_for has_logged "two_cpu_0: attempt"
    sleep 0.5
    run limited "$MUSTER" hosts --drop two
    ended_with 0
    wait_for has_logged "two: it has left the run"
    wait_for lists 'two left'
    run limited "$MUSTER" hosts
    ended_with 0
    [[ $output =~ one\ +up\ +2\ +2 ]]
    [[ $output =~ two\ +left\ +0\ +0\ .*\ [1-9][0-9]* ]]
    run limited "$MUSTER" hosts --json
    [ "$(jq -r '.name + " " + .state' <<<"$output" | tr '\n' ';')" = "one up;two left;" ]
    map_end
    ended_with 0
    same in.txt out.txt
    says "two: it is given back when its workers have finished"
    says_not "lost" "died" "retries, 1"
    [ "$(query "select count(*) from attempts where label = 'two_cpu_0' and ended_by = 'status 0'")" = 1 ]
}

@test "a host is added to a run that began on this machine alone, and one replaces another" {
    seq 1 500 >in.txt
    touch up.one up.two
    map_begin -g cpu:1 --via './reach {host}' -o out.txt in.txt -- ./slow
    wait_for has_logged "cpu_0: attempt"
    run limited "$MUSTER" hosts --add one=cpu:1
    ended_with 0
    wait_for has_logged "one_cpu_0: attempt"
    run limited "$MUSTER" hosts --add one
    ended_with 69
    says "one is a host of the run already"
    touch up.me@one
    run limited "$MUSTER" hosts --add me@one=cpu:1 # another host to muster, with logs of its own
    ended_with 0
    wait_for has_logged "one-2_cpu_0: attempt"
    run limited "$MUSTER" hosts --drop one-2 --now
    ended_with 0
    run limited "$MUSTER" hosts --add two=cpu:1 --drop one --now
    ended_with 0
    wait_for has_logged "two_cpu_0: attempt"
    wait_for has_logged "one: it has left the run"
    run limited "$MUSTER" hosts --add one=cpu:1 # again
    ended_with 0
    wait_for has_logged "one: it joins the run"
    map_end
    ended_with 0
    same in.txt out.txt
    says_not "died"
}

@test "this machine leaves a run, whose devices other runs can have then, and comes back as a host like others" {
    export MUSTER_SYSFS=/nowhere MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=1
    seq 1 800 >in.txt
    echo 1 >one.txt
    touch up.one
    map_begin -o out.txt --via './reach {host}' in.txt -- ./until_go
    wait_for has_logged "gpu_0: attempt"
    run limited "$MUSTER" hosts --add one=cpu:1 --drop local
    ended_with 0
    wait_for has_logged "local: it has left the run"
    wait_for has_logged "one_cpu_0: attempt"
    wait_for lists 'local left 0 0'
    run limited "$MUSTER" map --runs-dir others -g 0 -o other.txt one.txt -- cat
    ended_with 0
    run limited "$MUSTER" hosts --drop local
    ended_with 69
    says "'local' is no host of the run"
    run limited "$MUSTER" hosts --add local=0
    ended_with 0
    wait_for has_logged "local_gpu_0: attempt"
    run limited "$MUSTER" map --runs-dir others -g 0 -o other2.txt one.txt -- cat
    ended_with 69
    says "gpu 0 is taken by pid"
    run limited "$MUSTER" hosts --drop one --now
    ended_with 0
    wait_for has_logged "one: it has left the run"
    touch go
    map_end
    ended_with 0
    same in.txt out.txt
    says_not "died" "lost"
}

@test "this machine, dropped at once, ends the run if it is the last host" {
    seq 1 300 >in.txt
    map_begin -g cpu:1 -o out.txt in.txt -- ./slow
    wait_for has_logged "cpu_0: attempt"
    run limited "$MUSTER" hosts --drop local --now
    ended_with 0
    map_end
    ended_with 75
    says "all hosts were given back; go on with: muster resume"
    run limited "$MUSTER" resume latest -g cpu:1
    ended_with 0
    same in.txt out.txt
}

@test "the last host is dropped only --now, which stops the run, unless another one comes" {
    seq 1 300 >in.txt
    touch up.one
    map_begin --hosts one=cpu:1 --via './reach {host}' -o out.txt in.txt -- ./slow
    wait_for has_logged "one_cpu_0: attempt"
    run limited "$MUSTER" hosts --drop one
    ended_with 69
    says "one is the run's last host; add another one first"
    run limited "$MUSTER" hosts --drop nobody
    ended_with 69
    says "'nobody' is no host of the run"
    run limited "$MUSTER" hosts --add three=cpu:1 --drop nobody
    ended_with 69
    says "'add three=cpu:1' was carried out, but then: 'nobody' is no host of the run"
    run limited "$MUSTER" hosts --drop three --now
    ended_with 0
    echo "two=cpu:1" >more
    run limited "$MUSTER" hosts --add @more --drop one
    ended_with 0
    wait_for has_logged "one: it has left the run"
    touch up.two
    wait_for has_logged "two_cpu_0: attempt"
    run limited "$MUSTER" hosts --drop two --now
    ended_with 0
    map_end
    ended_with 75
    says "all hosts were given back; go on with: muster resume"
    wait_for nobody_is_left
    run limited "$MUSTER" resume latest --hosts two=cpu:1 --via './reach {host}'
    ended_with 0
    same in.txt out.txt
}

@test "orders are taken from the run's owner alone, and say what is wrong with them" {
    seq 1 300 >in.txt
    map_begin -g cpu:1 -o out.txt in.txt -- ./slow
    wait_for has_logged "cpu_0: attempt"
    run limited "$MUSTER" hosts
    ended_with 0
    says "uses one machine alone"
    run limited "$MUSTER" hosts --add 'a b'
    ended_with 69
    says "'a b' is no name of a host"
    run limited "$MUSTER" hosts --add local
    ended_with 69
    says "local is a host of the run already"
    run limited "$MUSTER" hosts --drop local
    ended_with 69
    says "local is the run's last host"
    run limited "$MUSTER" hosts --now
    ended_with 2
    mkdir muster-runs/latest/order- # it cannot be removed as a file is
    printf 'add one\n' >muster-runs/latest/order-0
    chmod 666 muster-runs/latest/order-0
    wait_for has_logged "an order is not carried out"
    mkfifo never
    printf 'add one,  @%s\n' "$PWD/never" >muster-runs/latest/order-00
    wait_for has_logged "an order names hosts, and not the file that lists them"
    printf 'sing a song\n' >muster-runs/latest/order-1
    wait_for has_logged "an order that cannot be understood"
    ln -s /etc/passwd muster-runs/latest/order-2
    wait_for test ! -L muster-runs/latest/order-2
    [ ! -e muster-runs/latest/order-1 ]
    [ "$(grep -c "remove .*/order-: " muster-runs/latest/orchestrator.log)" = 1 ]
    map_end
    ended_with 0
    run limited "$MUSTER" hosts --add one
    ended_with 69
    says "is not going on"
}

# A run that holds the GPUs of a machine until there is a file go.
holder() {
    holding_worker
    "$MUSTER" map -g "$1" -o held.txt one.txt -- ./hold >held 2>&1 3>&- 4>&- &
    HOLDER=$!
    wait_for test -e holding
}

@test "--grow takes a GPU of this machine that becomes free, as a further seat" {
    export MUSTER_SYSFS=/nowhere MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=3
    seq 1 1000 >in.txt
    echo 1 >one.txt
    holder 1,2
    MUSTER_WATCH=1 map_begin --grow -o out.txt in.txt -- sh -c 'echo "$CUDA_VISIBLE_DEVICES $MUSTER_WORKER" >>seats; exec ./slow'
    wait_for has_logged "gpu_0: attempt"
    touch go
    wait $HOLDER
    wait_for has_logged "gpu_1: attempt"
    wait_for has_logged "gpu_2: attempt"
    run limited "$MUSTER" map -g 1 -o out2.txt one.txt -- cat
    ended_with 69
    says "gpu 1 is taken by pid"
    map_end
    ended_with 0
    same in.txt out.txt
    [ "$(cut -d " " -f 1 seats | sort | tr "\n" " ")" = "0 1 2 " ] || { cat seats muster-runs/latest/orchestrator.log; false; }
    [ "$(cut -d ' ' -f 2 seats | sort | tr '\n' ' ')" = "0 1 2 " ]
    map --grow -g 0 -o out3.txt one.txt -- cat
    ended_with 2
    says "--grow takes devices that become free"
}

@test "--grow takes a GPU that becomes free on another host, and a host that is back with more joins with all" {
    export MUSTER_SYSFS=/nowhere MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=2
    seq 1 1200 >in.txt
    echo 1 >one.txt
    touch up.one
    holder 1
    map_begin --grow --hosts one --via './reach {host}' -o out.txt in.txt -- sh -c 'echo "$CUDA_VISIBLE_DEVICES $MUSTER_WORKER" >>seats; exec ./slow'
    wait_for has_logged "one_gpu_0: attempt"
    touch go
    wait $HOLDER
    wait_for has_logged "one_gpu_1: attempt"
    wait_for lists 'one up 2 2'
    kill -KILL "$(agent_of one)"
    wait_for has_logged "one: it is back with other devices"
    map_end
    ended_with 0
    same in.txt out.txt
    says_not "died"
    [ "$(sort seats | tr '\n' ';')" = "0 0;0 2;1 1;1 3;" ]
}

@test "--grow takes nothing on a machine whose entry in the list names devices" {
    export MUSTER_SYSFS=/nowhere MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=3
    local begin_s=$SECONDS
    seq 1 700 >in.txt
    touch up.one
    map --grow --hosts local=0,one=1 --via './reach {host}' -o out.txt in.txt -- \
        sh -c 'echo "$CUDA_VISIBLE_DEVICES" >>seats; exec ./slow'
    ended_with 0
    same in.txt out.txt
    [ "$(sort seats | tr '\n' ' ')" = "0 1 " ]
    [ $((SECONDS - begin_s)) -ge 6 ] # it has looked, five seconds after the start
}
