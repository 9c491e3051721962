#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The ranks of one program on several hosts, started from one terminal. The hosts are agents on this machine, reached by
# `--via`, as in hosts.bats; where the network matters, each is in a network namespace of its own.
load helpers

setup() {
    common_setup
    export MUSTER_SYSFS=/nowhere TMPDIR=$PWD/tmp
    unset PYTHON_EXEC ${!PET_@} RANK WORLD_SIZE MASTER_ADDR MASTER_PORT
    mkdir tmp
    reach_worker
    # Says that it runs, in a file, and stays in the first generation.
    worker stays <<'END'
#!/bin/sh
echo "$RANK in $TORCHELASTIC_RESTART_COUNT of $WORLD_SIZE" >>runs
[ "$TORCHELASTIC_RESTART_COUNT" != 0 ] || exec sleep 1000
END
    # All ranks meet where they were told to.
    pyworker meets <<'END'
import os, socket, time
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == 0:
    family = socket.AF_INET6 if ":" in place[0] else socket.AF_INET
    with socket.create_server(("", place[1]), family=family, dualstack_ipv6=family == socket.AF_INET6) as server:
        seen = sorted(int(server.accept()[0].makefile().readline()) for _ in range(world - 1))
    print("met at", place[0], seen)
else:
    for _ in range(200):
        try:
            with socket.create_connection(place, timeout=5) as conn:
                conn.sendall(b"%d\n" % rank)
            break
        except OSError:
            time.sleep(0.05)
    else:
        raise SystemExit("nobody is at %s port %s" % place)
END
}

teardown() {
    local name
    for name in ${SPACES:-}; do ip netns del "$name" || true; done
    common_teardown
}

launch() { run --separate-stderr limited "$MUSTER" launch "$@"; }
launch_begin() {
    "$MUSTER" launch "$@" >said 2>&1 3>&- 4>&- &
    PID=$!
}

@test "hosts have unequal numbers of ranks, in the order of the list, and each rank has torchrun's environment" {
    export SECRET=1 RANK=0 TORCHELASTIC_RUN_ID=run-7 # which are sent although they are the same here
    launch --hosts one=cpu:2,local=cpu:1,two=cpu:1 --via 'env -u RANK -u TORCHELASTIC_RUN_ID -u SECRET HERE={host}' --rdzv-id run-7 --no-python \
        sh -c 'echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK $GROUP_WORLD_SIZE $ROLE_RANK ${HERE-here} ${SECRET-none} $TORCHELASTIC_RUN_ID ${MUSTER_WORKER-none} ${OMP_NUM_THREADS-none}'
    ended_with 0
    [ "$(sort <<<"$output")" = "0 0 4 2 0 3 0 one none run-7 none 1
1 1 4 2 0 3 1 one none run-7 none 1
2 0 4 1 1 3 2 here 1 run-7 none none
3 0 4 1 2 3 3 two none run-7 none none" ]
    launch --hosts one=cpu:2,two=cpu:1 --via env --no-python sh -c 'echo $MASTER_PORT $MASTER_ADDR $TORCHELASTIC_USE_AGENT_STORE ${TORCHELASTIC_ERROR_FILE:+named}'
    ended_with 0
    [ "$(sort -u <<<"$output" | wc -l)" = 1 ]
    [[ $output == *" False named"* ]]
    launch --hosts one,two --via env --nproc-per-node 2 --env RANK=x --env GIVEN=y --no-python sh -c 'echo $RANK$GIVEN ${local_rank}'
    ended_with 0
    [ "$(sort <<<"$output")" = $'xy 0\nxy 0\nxy 1\nxy 1' ]
}

@test "the word that ranks of libmuster must all know is sent to hosts, and shown nowhere" {
    export MUSTER_DIST_TOKEN=hidden
    launch --hosts one=cpu:1,local=cpu:1 --via 'env -u MUSTER_DIST_TOKEN' --no-python sh -c 'echo ${#MUSTER_DIST_TOKEN}'
    ended_with 0
    [ "$output" = $'6\n6' ]
    launch --dry-run --hosts one=cpu:1 --via env --no-python true
    says_not hidden
    unset MUSTER_DIST_TOKEN
    launch --hosts one=cpu:1 --via env --no-python sh -c 'echo ${MUSTER_DIST_TOKEN-none}'
    [ "$output" = none ]
}

@test "a list of hosts may have this machine alone" {
    launch --hosts local=cpu:2 --no-python sh -c 'echo $RANK $WORLD_SIZE $GROUP_RANK $GROUP_WORLD_SIZE'
    ended_with 0
    [ "$(sort <<<"$output")" = $'0 2 0 1\n1 2 0 1' ]
    launch --hosts local=cpu:2 --max-restarts 1 --no-python sh -c 'exit $((1 - TORCHELASTIC_RESTART_COUNT))'
    ended_with 0
}

@test "a rank for each GPU that was taken on its host, and it sees them all; other runs do not" {
    export MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=4
    worker via <<'END'
#!/bin/sh
export MUSTER_LOCK_DIR=$PWD/locks.$1
[ "$1" != bare ] || export MUSTER_FAKE_NVML=gpus=0
shift
exec "$@"
END
    local words='echo $RANK $LOCAL_RANK $CUDA_VISIBLE_DEVICES ${MUSTER_DEVICE_INDEX-none}'
    launch --hosts one=1-3,two=0 --via './via {host}' --no-python sh -c "$words"
    ended_with 0
    [ "$(sort <<<"$output")" = "0 0 1,2,3 1,2,3
1 1 1,2,3 1,2,3
2 2 1,2,3 1,2,3
3 0 0 0" ]
    launch --hosts one,bare --via './via {host}' --no-python sh -c 'echo $GROUP_RANK'
    ended_with 0
    [ "$(sort <<<"$output" | tr -d '\n')" = 00001 ]
    launch -g 2 --hosts one,two --nproc-per-node gpu --via './via {host}' --no-python sh -c 'echo $CUDA_VISIBLE_DEVICES'
    ended_with 0
    [ "$output" = $'2\n2' ]
    launch --hosts one,bare --nproc-per-node gpu --via './via {host}' --no-python true
    ended_with 69
    [[ $stderr == *"there is no GPU on bare"* ]]
    launch --hosts bare=cpu:1 --nproc-per-node cpu --via './via {host}' --no-python sh -c 'echo $RANK'
    ended_with 0
    [ "$(wc -l <<<"$output")" = "$(nproc)" ]
    launch -g none --hosts one --nproc-per-node 2 --via './via {host}' --no-python sh -c 'echo ${CUDA_VISIBLE_DEVICES-all}'
    ended_with 0
    [ "$output" = $'all\nall' ]
    launch_begin -g 3 --hosts one --via './via {host}' --no-python sh -c 'touch there; while [ ! -e go ]; do sleep 0.05; done'
    wait_for test -e there
    launch -g 3 --hosts two,one --via './via {host}' --no-python true
    ended_with 69
    [[ $stderr == *"one: gpu 3 is taken by pid"* ]]
    touch go
    map_end
    ended_with 0
}

@test "output: shown, copied with the number among all ranks, redirected by local rank, into folders of that number" {
    launch --hosts one=cpu:2,two=cpu:1 --via env --log-dir logs -t 3 --no-python sh -c 'echo out $RANK; echo err $RANK >&2'
    ended_with 0
    [ "$(sort <<<"$output")" = $'[default0]:out 0\n[default1]:out 1\n[default2]:out 2' ]
    [ "$(sort <<<"$stderr")" = $'[default0]:err 0\n[default1]:err 1\n[default2]:err 2' ]
    [ "$(cat logs/*/attempt_0/2/stdout.log logs/*/attempt_0/2/stderr.log)" = $'out 2\nerr 2' ]
    launch --hosts one=cpu:2,two=cpu:1 --via env --log-dir logs2 -r 0:3 --no-python sh -c 'echo out $RANK'
    [ "$output" = "out 1" ]
    launch --hosts one=cpu:2,two=cpu:1 --via env --local-ranks-filter 0 --no-python sh -c 'echo out $RANK'
    [ "$(sort <<<"$output")" = $'out 0\nout 2' ]
    [ -z "$(ls -A tmp)" ]
}

@test "a rank that fails on one host ends all: which, where, with what status, its last words" {
    launch --hosts one=cpu:2,two=cpu:2 --via env -r 3 --log-dir logs --no-python sh -c '[ $RANK = 3 ] || exec sleep 1000; echo "the reason" >&2; exit 7'
    ended_with 7
    [[ $stderr == *"rank 3 (pid "*" on two) failed first: status 7"*"| the reason"*"3 other ranks ended after it"* ]]
    launch --exit-code torchrun --hosts one=cpu:1,two=cpu:1 --via env --no-python sh -c '[ $RANK = 1 ] || exec sleep 1000; kill -SEGV $$$$'
    ended_with 1
    [[ $stderr == *"rank 1 (pid "*" on two) failed first: signal 11"* ]]
    launch --hosts one=cpu:1,two=cpu:1 --via env --wait-after-first 0.3s --no-python sh -c '[ $RANK = 1 ] || exec sleep 1000'
    ended_with 1
    [[ $stderr == *"rank 0 had not ended"* ]]
    launch --hosts one=cpu:1,two=cpu:1 --via env --time-limit 0.7s --no-python sleep 1000
    ended_with 124
    launch --hosts one=cpu:1,two=cpu:1 --via env --no-python ./nosuch
    ended_with 69
    [[ $stderr == *"0 of 2 hosts can be had; one: the worker's program ./nosuch"* ]]
    wait_for nobody_is_left
}

@test "the exception that a rank on another host recorded is the cause, as it would be here, and is kept in the log tree" {
    cat >bad.py <<'END'
import json, os, sys, time
rank = int(os.environ["RANK"])
message = "x" * 300000 if rank == 3 else f"ValueError: rank {rank}\x1b[31m"
error = {"message": {"message": message, "extraInfo": {"timestamp": str(100 - rank)}}}
with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as out:
    json.dump(error, out)
print(f"last words of {rank}", file=sys.stderr)
open(f"spoke.{rank}", "w").close()
while rank or not all(os.path.exists(f"spoke.{other}") for other in range(4)):
    time.sleep(0.01)
sys.exit(10)
END
    launch --hosts one=cpu:2,two=cpu:2 --via env --log-dir logs -t 3 bad.py
    ended_with 10
    [[ $stderr == *"muster: rank 2 (pid "*" on two) failed first: ValueError: rank 2\\u001b[31m; rank 0 ended first: status 10"*"  | last words of 2"* ]]
    grep -q '"ValueError: rank 2' logs/*/attempt_0/2/error.json
    [ "$(ls logs/*/attempt_0/*/error.json | wc -l)" = 3 ] # that of rank 3 is too long
    launch --hosts one=cpu:1,local=cpu:1 --via env --env HERE=1 --no-python sh -c '[ $RANK = 1 ] || exit 3; mkfifo "$TORCHELASTIC_ERROR_FILE"; sleep 100'
    ended_with 3
    launch --max-restarts 1 --hosts one=cpu:1 --via env --no-python sh -c '[ ! -e "$TORCHELASTIC_ERROR_FILE" ] || exit 9; echo "{\"message\": \"it is $TORCHELASTIC_RESTART_COUNT\"}" >"$TORCHELASTIC_ERROR_FILE"; exit 4'
    ended_with 4
    [[ $stderr == *"failed first: status 4: it is 0"*"failed first: status 4: it is 1"* ]]
    [ -z "$(ls -A tmp)" ]
}

@test "ranks that fail start again, on all hosts, at the same port" {
    launch --max-restarts 2 --hosts one=cpu:2,two=cpu:1 --via env --no-python sh -c 'echo $MASTER_PORT; [ $TORCHELASTIC_RESTART_COUNT = 2 ] || [ $RANK != 2 ]'
    ended_with 0
    [ "$(sort -u <<<"$output" | wc -l)" = 1 ]
    [[ $stderr == *"restart 2 of 2"* ]]
    launch --max-restarts 1 --hosts one=cpu:1,two=cpu:1 --via env --no-python sh -c '[ $RANK != 1 ] || exit 5'
    ended_with 5
}

@test "a host that is lost ends the run, and is named, not a rank; with restarts all start again when it is back" {
    local host
    launch_begin --hosts one=cpu:2,two=cpu:2 --via './reach {host}' --no-python ./stays
    wait_for has_lines runs 4
    kill -KILL "$(agent_of two)"
    map_end
    ended_with 69
    says "two: lost: ./reach ended" "host two was lost with rank 2 and those after it: ./reach ended with status 137"
    says_not "failed first" "runs elsewhere"
    wait_for nobody_is_left
    for host in one two; do
        rm runs
        launch_begin --max-restarts 1 --host-timeout 1s --shutdown-timeout 1s --hosts one=cpu:2,two=cpu:2 --via './reach {host}' --no-python ./stays
        wait_for has_lines runs 4
        kill -KILL "$(agent_of $host)"
        map_end
        ended_with 0
        says "host $host was lost" "all ranks start again in " "s, when those of the lost host must have ended (restart 1 of 1)" "$host: it is connected again"
        [ "$(grep -c "in 1 of 4" runs)" = 4 ]
    done
}

@test "a host that is back is not waited for any longer when its new agent sees that the old ranks have ended" {
    worker stays <<'END'
#!/bin/sh
[ "$TORCHELASTIC_RESTART_COUNT" = 0 ] || { [ "$RANK" = 0 ] || { ps -o stat= -p $(cat old.1) | grep -v Z >lives; echo "$TORCHELASTIC_RESTART_COUNT" >>again; }; exit 0; }
[ "$RANK" = 1 ] && echo $$ >old.1 && trap 'sleep 2; exit 143' TERM
while :; do sleep 0.1; done
END
    launch_begin --max-restarts 1 --host-timeout 100s --shutdown-timeout 100s --hosts one=cpu:1,two=cpu:1 --via './reach {host}' --no-python ./stays
    wait_for test -s old.1
    kill -KILL "$(agent_of two)"
    wait_for test -s again # long before 200 seconds have passed
    map_end
    ended_with 0
    [ ! -s lives ]
    says "all ranks start again in " "when those of the lost host must have ended (restart 1 of 1)" "two: it is connected again" "two: its old ranks have ended"
}

@test "a host that is lost while no ranks are there comes back without a word about old ones" {
    launch_begin --max-restarts 1 --restart-pause 5s --hosts one=cpu:1,two=cpu:1 --via './reach {host}' --no-python sh -c '[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit 3'
    wait_for holds said "all ranks start again in 5.0 s"
    kill -KILL "$(agent_of two)"
    map_end
    ended_with 0
    says "two: it is connected again"
    says_not "its old ranks"
}

@test "an agent in another network namespace cannot say that the old ranks have ended" {
    unshare -n true 2>/dev/null || skip "no network namespaces here"
    link_serve # a host that outlives its transport, as a real one does
    worker via <<'END'
#!/bin/sh
host=$1
shift
[ "$host" = two ] || exec "$@"
[ ! -e old.1 ] || exec "$LINK_RELAY" --to link unshare -n "$@"
exec "$LINK_RELAY" --to link sh -c 'echo $$ >agent; exec "$@"' sh "$@"
END
    worker deaf <<'END'
#!/bin/sh
[ "$TORCHELASTIC_RESTART_COUNT" = 0 ] || { [ ! -e /proc/$(cat old.1) ] || touch lives; exit 0; }
[ "$RANK" = 0 ] || { trap '' TERM; echo $$ >old.1; }
while :; do sleep 0.1; done
END
    launch_begin --max-restarts 1 --host-timeout 2s --shutdown-timeout 4s --hosts one=cpu:1,two=cpu:1 --via './via {host}' --no-python ./deaf
    wait_for test -s old.1
    kill -KILL "$(cat agent)"
    map_end
    ended_with 0
    [ ! -e lives ]
    says "two: it is connected again"
    says_not "its old ranks have ended"
}

@test "with --hosts-min the ranks start, and start again, on the hosts that are there" {
    worker via <<'END'
#!/bin/sh
[ ! -e "gone.$1" ] || { echo "it is switched off" >&2; exit 255; }
exec ./reach "$@"
END
    touch gone.three
    launch --hosts one=cpu:1,two=cpu:1,three=cpu:1 --via './via {host}' --no-python true
    ended_with 69
    [[ $stderr == *"2 of 3 hosts can be had; three: ./via ended with status 255: it is switched off"* ]]
    launch_begin --host-timeout 1s --shutdown-timeout 1s --hosts-min 1 --rdzv-conf last_call_timeout=1 --max-restarts 1 --hosts three=cpu:1,one=cpu:1,two=cpu:1 --via './via {host}' --no-python ./stays
    wait_for has_lines runs 2
    [ "$(sort runs)" = $'0 in 0 of 2\n1 in 0 of 2' ]
    touch gone.one
    kill -KILL "$(agent_of one)"
    map_end
    ended_with 0
    says "host one was lost with rank 0" "three: cannot be had"
    [ "$(tail -n +3 runs)" = "0 in 1 of 1" ]
    launch_begin --host-timeout 1s --shutdown-timeout 1s --rdzv-conf join_timeout=2 --max-restarts 1 --hosts two=cpu:1,four=cpu:1 --via './via {host}' --no-python ./stays
    wait_for has_lines runs 5
    touch gone.four
    kill -KILL "$(agent_of four)"
    map_end
    ended_with 69
    says "1 of 2 hosts are here (missing: four), and no more came in time"
}

@test "a host that was absent at the start is asked again, and has ranks from the next start on" {
    worker via <<'END'
#!/bin/sh
[ ! -e "gone.$1" ] || exit 255
[ "$1" != late ] || export MUSTER_FAKE_NVML=gpus=0
shift
exec "$@"
END
    worker fails <<'END'
#!/bin/sh
echo "$RANK of $WORLD_SIZE, host $GROUP_RANK" >>runs.$TORCHELASTIC_RESTART_COUNT
[ "$TORCHELASTIC_RESTART_COUNT" = 0 ] || exit 0
until [ -e fail ]; do sleep 0.05; done
exit 3
END
    touch gone.late gone.never
    launch_begin --hosts-min 1 --max-restarts 1 --hosts late=cpu:2,one=cpu:1,never=cpu:1 --via './via {host}' --no-python ./fails
    wait_for has_lines runs.0 1
    rm gone.late
    wait_for holds said "late: it is here, from the next start on"
    touch fail
    map_end
    ended_with 0
    [ "$(cat runs.0)" = "0 of 1, host 0" ]
    [ "$(sort runs.1)" = $'0 of 3, host 0\n1 of 3, host 0\n2 of 3, host 1' ]
    says "never: cannot be had"
    says_not "waiting"
    rm fail gone.never
    touch gone.late fail
    launch --hosts-min 1 --hosts late=cpu:1,one=cpu:1 --via './via {host}' --no-python ./fails
    ended_with 3
    [[ $stderr != *"late"*"late"* ]]
    touch gone.late
    rm fail runs.*
    MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=1 launch_begin --nproc-per-node gpu --hosts-min 1 --max-restarts 1 --hosts late,one --via './via {host}' --no-python ./fails
    wait_for has_lines runs.0 1
    rm gone.late
    wait_for holds said "late is not used: --nproc-per-node gpu: there is no GPU on late"
    touch fail
    map_end
    ended_with 0
    [ "$(cat runs.1)" = "0 of 1, host 0" ]
}

@test "nothing is left on any host, whoever is killed: the head, a guard, a rank" {
    launch_begin --shutdown-timeout 1s --hosts one=cpu:2,local=cpu:1,two=cpu:1 --via './reach {host}' --no-python sh -c 'trap "" TERM; touch there.$RANK; while :; do sleep 1; done'
    wait_for test -e there.0 -a -e there.1 -a -e there.2 -a -e there.3
    kill -KILL "$PID"
    wait_for nobody_is_left
    wait "$PID" || true
    local whom
    for whom in '$$$$' '$PPID'; do
        launch --hosts one=cpu:2,two=cpu:1 --via env --no-python sh -c "[ \$RANK = 2 ] || exec sleep 1000; kill -KILL $whom; sleep 1000"
        ended_with 137
        [[ $stderr == *"rank 2 ("*"on two) failed first: signal 9"* ]] # its pid may not be known yet
        wait_for nobody_is_left
    done
}

@test "an agent that hangs is a host that is lost, and ends its ranks when it goes on; one that is back with other devices is given up" {
    launch_begin --host-timeout 1s --hosts one=cpu:1,two=cpu:1 --via './reach {host}' --no-python ./stays
    wait_for has_lines runs 2
    local agent
    agent=$(agent_of two)
    kill -STOP "$agent"
    map_end
    ended_with 69
    says "host two was lost with rank 1" "nothing was heard for 1.0 s"
    kill -CONT "$agent" || true
    wait_for nobody_is_left
    export MUSTER_NVML=$FAKE_NVML
    worker via <<'END'
#!/bin/sh
export MUSTER_LOCK_DIR=$PWD/locks.$1 MUSTER_FAKE_NVML=gpus=$(cat "gpus.$1")
exec ./reach "$@"
END
    echo 1 >gpus.one
    echo 2 >gpus.two
    launch_begin --max-restarts 1 --hosts one,two --via './via {host}' --no-python ./stays
    wait_for has_lines runs 5
    echo 1 >gpus.two
    kill -KILL "$(agent_of two)"
    map_end
    ended_with 69
    says "host two was lost with rank 1" "two: given up: it is back with other devices" "1 of 2 hosts can still be had"
}

@test "while the link to a host is down for longer than --host-timeout, both ends end what they started" {
    local server link rank
    link_serve
    worker beats <<'END'
#!/bin/sh
echo $$ >"rank.$RANK"
exec sleep 1000
END
    launch_begin --host-timeout 1s --shutdown-timeout 0.5s --hosts one=cpu:1,two=cpu:1 \
        --via "sh -c '[ \$0 = one ] && exec env \"\$@\"; exec $LINK_RELAY --to link \"\$@\"' {host}" --no-python ./beats
    wait_for test -s rank.0
    wait_for test -s rank.1
    rank=$(cat rank.1)
    link=$(pgrep -P "$server")
    kill -STOP "$link"
    map_end
    ended_with 69
    says "host two was lost with rank 1" "nothing was heard for 1.0 s"
    is_gone "$(cat rank.0)"
    wait_for is_gone "$rank" # the link is still down
    kill -KILL "$server" "$link"
    wait_for nobody_is_left
}

@test "ranks start again only when those on a host that was lost have ended, also if it is back at once" {
    local server
    linked_via
    # The first of its rank does not end when it is asked to.
    worker stays <<'END'
#!/bin/sh
echo $$ >"rank.$RANK.$TORCHELASTIC_RESTART_COUNT"
[ "$RANK" = 0 ] && exec sleep 1000
trap 'touch asked' TERM
until [ -e go ]; do sleep 0.05; done
END
    launch_begin --max-restarts 1 --host-timeout 2s --shutdown-timeout 2s --hosts one=cpu:1,two=cpu:1 --via './via {host}' --no-python ./stays
    wait_for test -s rank.0.0
    wait_for test -s rank.1.0
    kill -STOP "$(pgrep -P "$server")" # nothing arrives there any more
    kill -KILL "$(cat way)"
    wait_for holds said "two: it is connected again"
    kill -0 "$(cat rank.1.0)"
    wait_for test -s rank.1.1
    is_gone "$(cat rank.1.0)"
    [ -e asked ]
    kill -TERM "$PID"
    map_end
    ended_with 143
    says "host two was lost with rank 1" "all ranks start again in " "s, when those of the lost host must have ended (restart 1 of 1)"
    kill -KILL "$server" $(pgrep -P "$server")
    wait_for nobody_is_left
}

@test "a pager that reads nothing for longer than --host-timeout costs no host" {
    local script='[ $RANK = 1 ] || yes "a line of the first rank" | head -c 4000000; sleep 1'
    { status=0; limited "$MUSTER" launch --host-timeout 1s --hosts one=cpu:1,two=cpu:1 --via env --no-python sh -c "$script" 2>err || status=$?; echo "$status" >status; } | { sleep 4; wc -c >count; }
    [ "$(cat status)" = 0 ]
    [ "$(cat count)" = 4000000 ]
    [ ! -s err ]
    { status=0; limited "$MUSTER" each --host-timeout 1s --hosts one=cpu:1,two=cpu:1 --via env -- sh -c "RANK=\$MUSTER_WORKER; $script" 2>err || status=$?; echo "$status" >status; } | { sleep 4; grep -c 'one_cpu_0: a line' >count; }
    [ "$(cat status)" = 0 ]
    [ "$(cat count)" = 160000 ]
}

@test "a terminal that is not read for longer than --host-timeout costs no host" {
    "$PYTHON" - "$MUSTER" <<'END'
import os, pty, subprocess, sys, time
end, terminal = pty.openpty()
script = '[ $RANK = 1 ] || yes "a line of the first rank" | head -c 1000000; sleep 1'
with open("err", "w") as err:
    launch = subprocess.Popen(["timeout", "60", sys.argv[1], "launch", "--host-timeout", "1s", "--hosts", "one=cpu:1,two=cpu:1",
                               "--via", "env", "--no-python", "sh", "-c", script],
                              stdin=subprocess.DEVNULL, stdout=terminal, stderr=err)
os.close(terminal)
time.sleep(4)
n_lines = 0
try:
    while piece := os.read(end, 65536):
        n_lines += piece.count(b"\n")
except OSError:  # nobody has the terminal open any more
    pass
assert (launch.wait(), n_lines) == (0, 40000), (launch.returncode, n_lines)
END
    [ ! -s err ]
}

@test "a signal ends the ranks of all hosts, and hosts that are being connected" {
    launch_begin --hosts one=cpu:1,two=cpu:1 --via './reach {host}' --no-python sh -c 'trap "echo ended >>ends; exit 1" TERM; echo >>runs; while :; do sleep 0.05; done'
    wait_for has_lines runs 2
    kill -TERM "$PID"
    map_end
    ended_with 143
    [ "$(wc -l <ends)" = 2 ]
    launch_begin --hosts one --via "sh -c 'touch asked; exec sleep 1000'" --no-python true
    wait_for test -e asked
    kill -INT "$PID"
    map_end
    ended_with 130
    wait_for nobody_is_left
}

@test "ranks meet at a port that is free on the host of rank 0, or where they are told to" {
    launch --hosts one=cpu:2,two=cpu:1 --via env --no-python ./meets
    ended_with 0
    [[ $output == "met at "*" [1, 2]" ]]
    launch --hosts one=cpu:2 --via env --no-python ./meets
    ended_with 0
    [ "$output" = "met at 127.0.0.1 [1]" ]
    local port=$((20000 + RANDOM % 10000))
    launch --master-addr 127.0.0.2 --master-port $port --hosts one=cpu:1,two=cpu:1 --via env --no-python sh -c 'echo $MASTER_ADDR $MASTER_PORT; exec ./meets'
    ended_with 0
    [ "$(sort -u <<<"$output")" = $"127.0.0.2 $port
met at 127.0.0.2 [1]" ]
    launch_begin --master-port $port --no-python sh -c 'touch there; while [ ! -e go ]; do sleep 0.05; done'
    wait_for test -e there
    launch --master-port $port --hosts two=cpu:1,one=cpu:1 --via env --no-python true
    ended_with 69
    [[ $stderr == *"two: port $port, which another muster holds"* ]]
    touch go
    map_end
    local option
    for option in "--nnodes 2" "--node-rank 0" --standalone "--rdzv-endpoint a:1"; do
        launch $option --hosts one --via env --no-python true
        ended_with 2
        [[ $stderr == *"--hosts and ${option%% *} exclude each other"* ]]
    done
    SLURM_JOB_ID=1 SLURM_NTASKS=2 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 SLURM_STEP_NUM_NODES=2 SLURM_NODEID=1 \
        launch --hosts one=cpu:1 --via env --no-python sh -c 'echo $RANK'
    ended_with 0
    [ "$output" = 0 ]
}

@test "an address counts as reached where somebody answers with the token, and nobody is waited for long" {
    cat >others.py <<'END'
import socket, sys, time
token = sys.argv[1].encode()
servers = [socket.create_server(("127.0.0.2", 0))]
port = servers[0].getsockname()[1]
servers += [socket.create_server((f"127.0.0.{i}", port)) for i in (3, 4, 5)]
print(port, flush=True)
others = [server.accept()[0] for server in servers]
others[0].sendall(token[:20])
others[1].sendall(token[::-1])
others[2].sendall(token[:31])
others[2].close()
time.sleep(0.2)
others[0].sendall(token[20:])
sys.stdin.read() # 127.0.0.5 says nothing
END
    local port token=0123456789abcdef0123456789abcdef
    mkfifo go
    "$PYTHON" others.py $token <go >port 3>&- 4>&- &
    exec 7>go
    wait_for has_lines port 1
    port=$(cat port)
    run limited "$MUSTER" meet --port="$port" --token=$token --reach=127.0.0.6,127.0.0.5,127.0.0.4,127.0.0.3,127.0.0.2,example.org
    exec 7>&-
    ended_with 0
    [ "$output" = 127.0.0.2 ]
}

# spaces NAME…: network namespaces of this test, whose names are in SPACES.
spaces() {
    local name
    for name; do
        space_add "$name" || skip "no network namespaces here"
        SPACES="${SPACES:-} $name"
        ip -n "$name" link set lo up
        # As every machine with containers has it: the same address, which leads nowhere else.
        ip -n "$name" link add bridge0 type veth peer name bridge1
        ip -n "$name" addr add 172.17.0.1/16 dev bridge0
        ip -n "$name" link set bridge0 up
        ip -n "$name" link set bridge1 up
    done
}

@test "of the addresses of rank 0's host, one is taken that the others reach, whatever their names are" {
    local a="a$$" b="b$$"
    spaces "$a" "$b"
    ip -n "$a" link add wire0 type veth peer name wire0 netns "$b"
    ip -n "$a" addr add 10.77.0.1/24 dev wire0
    ip -n "$b" addr add 10.77.0.2/24 dev wire0
    ip -n "$a" link set wire0 up
    ip -n "$b" link set wire0 up
    launch --hosts "$a=cpu:1,$b=cpu:2" --via 'ip netns exec {host}' --no-python ./meets
    ended_with 0
    [ "$output" = "met at 10.77.0.1 [1, 2]" ]
    # One that comes later has its say, too: alone, the first met at 127.0.0.1.
    worker via <<'END'
#!/bin/sh
[ ! -e "gone.$1" ] || exit 255
exec ip netns exec "$@"
END
    touch "gone.$b"
    launch_begin --hosts-min 1 --max-restarts 1 --hosts "$a=cpu:1,$b=cpu:2" --via './via {host}' --no-python \
        sh -c '[ $WORLD_SIZE = 1 ] || exec ./meets; touch alone; until [ -e fail ]; do sleep 0.05; done; exit 3'
    wait_for test -e alone
    rm "gone.$b"
    wait_for holds said "it is here, from the next start on"
    touch fail
    map_end
    ended_with 0
    says "met at 10.77.0.1 [1, 2]"
    ip -n "$a" addr del 10.77.0.1/24 dev wire0
    ip -n "$a" addr add fd77::1/64 dev wire0 nodad
    ip -n "$b" addr add fd77::2/64 dev wire0 nodad
    launch --hosts "$a=cpu:1,$b=cpu:2" --via 'ip netns exec {host}' --no-python ./meets
    ended_with 0
    [ "$output" = "met at fd77::1 [1, 2]" ]
}

@test "if no address is reached by all, who does not reach whom is said, with the cure" {
    local a="c$$" b="d$$" c="e$$"
    spaces "$a" "$b" "$c"
    launch --hosts "$a=cpu:1,$b=cpu:1,$c=cpu:1" --via 'ip netns exec {host}' --no-python ./meets
    ended_with 69
    [[ $stderr == *"no address of $a, the host of rank 0, is reached from all other hosts at port "*"(172.17.0.1 127.0.0.1): $b reaches none; $c reaches none; a firewall"*"--master-addr"* ]]
    wait_for nobody_is_left
}

@test "eight hosts with sixteen ranks each" {
    launch --hosts "$(seq -s, -f 'h%g=cpu:1' 1 8)" --nproc-per-node 16 --via env --no-python sh -c 'echo $RANK'
    ended_with 0
    [ "$(sort -n <<<"$output" | md5sum)" = "$(seq 0 127 | md5sum)" ]
}
