#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Ranks on several machines: the same command on each. The machines are processes here, and network namespaces.
load helpers
load launch_nodes_helpers

@test "static: every rank of three machines with unequal counts has torchrun's environment" {
    node one $(static 3 1) --nproc-per-node 2 --rdzv-id j shows.py LOCAL_RANK,WORLD_SIZE,LOCAL_WORLD_SIZE,GROUP_RANK,GROUP_WORLD_SIZE,ROLE_RANK,ROLE_WORLD_SIZE,MASTER_ADDR,TORCHELASTIC_RUN_ID
    node two $(static 3 2) --nproc-per-node 1 --rdzv-id j shows.py LOCAL_RANK,WORLD_SIZE,LOCAL_WORLD_SIZE,GROUP_RANK,GROUP_WORLD_SIZE,ROLE_RANK,ROLE_WORLD_SIZE,MASTER_ADDR,TORCHELASTIC_RUN_ID
    launch $(static 3 0) --nproc-per-node 3 --rdzv-id j shows.py LOCAL_RANK,WORLD_SIZE,LOCAL_WORLD_SIZE,GROUP_RANK,GROUP_WORLD_SIZE,ROLE_RANK,ROLE_WORLD_SIZE,MASTER_ADDR,TORCHELASTIC_RUN_ID
    ended_with 0
    node_ended_with one 0
    node_ended_with two 0
    [ "$(sort <<<"$output")" = $'0 0 6 3 0 3 0 6 127.0.0.1 j\n1 1 6 3 0 3 1 6 127.0.0.1 j\n2 2 6 3 0 3 2 6 127.0.0.1 j' ]
    [ "$(sort one.out)" = $'3 0 6 2 1 3 3 6 127.0.0.1 j\n4 1 6 2 1 3 4 6 127.0.0.1 j' ]
    [ "$(cat two.out)" = "5 0 6 1 2 3 5 6 127.0.0.1 j" ]
}

@test "all ranks of a generation have one MASTER_PORT, which is not the port at which the machines meet" {
    node one $(static 2 1) shows.py MASTER_PORT
    launch $(static 2 0) shows.py MASTER_PORT
    ended_with 0
    node_ended_with one 0
    [ "${output#0 }" = "$(sed 's/^1 //' one.out)" ]
    [ "${output#0 }" != "$PORT" ]
}

@test "c10d: the same command everywhere; the one that has the address leads" {
    node one --nnodes 2 --rdzv-backend c10d --rdzv-endpoint "localhost:$PORT" --rdzv-id j shows.py WORLD_SIZE
    launch --nnodes 2 --rdzv-backend c10d --rdzv-endpoint "localhost:$PORT" --rdzv-id j shows.py WORLD_SIZE
    ended_with 0
    node_ended_with one 0
    [ "$( (echo "$output"; cat one.out) | sort)" = $'0 2\n1 2' ]
}

@test "localhost is this machine, also where /etc/hosts is empty and no name server answers" {
    needs_mounts
    local empty="mount --bind /dev/null /etc/hosts && mount --bind /dev/null /etc/resolv.conf && exec"
    node one --nnodes 2 --rdzv-backend c10d --rdzv-endpoint "localhost:$PORT" --no-python true
    run limited unshare -m sh -c "$empty \"\$@\"" x "$MUSTER" launch --nnodes 2 --rdzv-backend c10d --rdzv-endpoint "localhost:$PORT" --no-python true
    ended_with 0
    node_ended_with one 0
}

@test "a rank fails on another machine: every machine ends with its status, and says which rank it was, and where" {
    node one $(static 2 1) --nproc-per-node 2 --no-python sh part.sh 3
    launch $(static 2 0) --nproc-per-node 2 --no-python sh part.sh 3
    ended_with 3
    node_ended_with one 3
    err_says "rank 3 (pid " " on $(hostname)) failed first: status 3" "| rank 3 is ill" "3 other ranks ended after it"
    grep -q "rank 3 (pid .*) failed first: status 3" one.err
}

@test "all machines start their ranks again after a failure" {
    cat >again.sh <<'END'
[ "$RANK$TORCHELASTIC_RESTART_COUNT" != 10 ] || exit 4
echo "$RANK $TORCHELASTIC_RESTART_COUNT $TORCHELASTIC_MAX_RESTARTS"
END
    node one $(static 2 1) --max-restarts 2 --no-python sh again.sh
    launch $(static 2 0) --max-restarts 2 --no-python sh again.sh
    ended_with 0
    node_ended_with one 0
    err_says "rank 1 (pid " "failed first: status 4" "start again"
    [ "$(tail -1 <<<"$output")" = "0 1 2" ]
    [ "$(cat one.out)" = "1 1 2" ]
    grep -q "all ranks start again" one.err
}

# A rank on each of the machines `zero` and `one`, which works until it is ended.
two_work() {
    node one $(static 2 1) "$@" --no-python sh part.sh 9
    node zero $(static 2 0) --no-python sh part.sh 9
    wait_for ranks_are 2
}
ranks_are() { [ "$(marked | xargs -rn1 -I{} cat /proc/{}/comm 2>/dev/null | grep -c '^sleep')" -ge "$1" ]; }

@test "a machine is lost: the others end with status 69 and the reason, and nothing is left" {
    two_work
    kill -KILL "${PIDS[one]}"
    node_ended_with zero 69
    holds zero.err "machine 1 ($(hostname)) was lost with rank 1 and those after it: "
    wait_for nobody_is_left
}

@test "while ranks take long to end, those that are waited for are named, and none of a machine that is lost" {
    local name number=0
    for name in zero one two; do
        node $name $(static 3 $number) --shutdown-timeout 3s --no-python sh -c 'trap "" TERM; touch there.$RANK; while :; do sleep 0.1; done'
        number=$((number + 1))
    done
    wait_for test -e there.0 -a -e there.1 -a -e there.2
    kill -KILL "${PIDS[one]}"
    node_ended_with zero 69
    [[ $(cat zero.err) == *"the machine of rank 1 was lost; waiting for rank 0 (pid "*") and rank 2 (pid "*") to end; SIGKILL"* ]]
    wait_for nobody_is_left
}

@test "a pager that reads nothing for longer than machines are silent costs no machine, whichever it is at" {
    local paged other script='[ "$GROUP_RANK" != "$0" ] || yes "a line of this rank" | head -c 4000000; sleep 1'
    for paged in 0 1; do
        other=$((1 - paged))
        node other $(static 2 $other) --rdzv-conf keep_alive_interval=1 --no-python sh -c "$script" $paged
        { status=0; limited "$MUSTER" launch $(static 2 $paged) --rdzv-conf keep_alive_interval=1 --no-python sh -c "$script" $paged 2>err || status=$?; echo "$status" >status; } | { sleep 6; wc -c >count; }
        [ "$(cat status)" = 0 ]
        [ "$(cat count)" = 4000000 ]
        node_ended_with other 0
    done
}

@test "the leader is lost: the others end their ranks, ask for it again, and end with status 69" {
    two_work --rdzv-conf join_timeout=2
    kill -KILL "${PIDS[zero]}"
    node_ended_with one 69
    holds one.err "the leader is lost: "
    holds one.err "could not be had within 2.0 s"
    wait_for nobody_is_left
}

@test "a leader that is started again is not told how ranks of the run before ended" {
    cat >deaf.sh <<'END'
[ ! -e again ] || exit 0
trap "" TERM
touch "there.$RANK"
while :; do sleep 0.1; done
END
    node zero $(static 2 0) --shutdown-timeout 1s --no-python sh deaf.sh
    node one $(static 2 1) --shutdown-timeout 1s --no-python sh deaf.sh
    wait_for test -e there.0 -a -e there.1
    kill -KILL "${PIDS[zero]}"
    touch again
    node anew $(static 2 0) --no-python sh deaf.sh
    node_ended_with anew 0
    node_ended_with one 0
}

@test "who waits says for whom, and which mistake is likely, on the machine that leads and on the others" {
    local port2 port3
    port2=$(free_port) port3=$(free_port)
    node forgot --nnodes 2 --master-addr 192.0.2.1 --master-port "$PORT" --no-python true
    node alone --nnodes 2 --master-port "$port2" --no-python true
    node first --nnodes 2 --node-rank 1 --master-port "$port3" --no-python true
    node second --nnodes 2 --node-rank 1 --master-port "$port3" --no-python true
    node c10d --nnodes 2 --rdzv-backend c10d --rdzv-endpoint "[::1]:1" --rdzv-conf is_host=0 --no-python true
    node zero --nnodes 3 --node-rank 0 --master-port "$((port3 + 1))" --no-python true
    node one --nnodes 3 --node-rank 1 --master-port "$((port3 + 1))" --no-python true
    wait_for holds forgot.err "waiting: 1 of 2 machines are here (missing: 1); this one is machine 0, but 192.0.2.1 is no address of it: was --node-rank forgotten here?"
    wait_for holds alone.err "(missing: 1); the other one needs --node-rank 1, and an address of this machine as --master-addr"
    wait_for holds first.err "waiting for the machine that leads, at 127.0.0.1, port $port3: the one with --node-rank 0; this is machine 1"
    wait_for holds second.err "the one with --node-rank 0"
    wait_for holds c10d.err "waiting for the machine that leads, at ::1, port 1: it must have this address, and the same command"
    wait_for holds one.err "waiting: the machine that leads, 127.0.0.1, has not started the ranks"
    wait_for holds zero.err "waiting: 2 of 3 machines are here (missing: 2)"
    ! grep -q "node-rank" zero.err
    kill -TERM "${PIDS[@]}"
    local name
    for name in forgot alone first second c10d zero one; do node_ended_with $name 143 || node_ended_with $name 69; done
}

@test "a machine that comes back takes part in the next start" {
    node zero $(static 2 0) --max-restarts 1 --shutdown-timeout 1s --no-python sh part.sh 9
    node one $(static 2 1) --shutdown-timeout 1s --no-python sh part.sh 9
    wait_for ranks_are 2
    kill -KILL "${PIDS[one]}"
    wait_for holds zero.err "all ranks start again"
    node again $(static 2 1) --no-python sh -c 'echo "$RANK of $WORLD_SIZE, $TORCHELASTIC_RESTART_COUNT"; exit 7'
    node_ended_with again 7
    node_ended_with zero 7
    [ "$(cat again.out)" = "1 of 2, 1" ]
}

@test "--nnodes 1:2 goes on with one machine, and takes another one at the next start" {
    cat >elastic.sh <<'END'
echo "$RANK of $WORLD_SIZE, $TORCHELASTIC_RESTART_COUNT"
case $WORLD_SIZE$TORCHELASTIC_RESTART_COUNT in
1*) until [ -e go ]; do sleep 0.02; done; exit 5 ;;
esac
END
    node zero --nnodes 1:2 --max-restarts 3 --rdzv-backend c10d --rdzv-endpoint "127.0.0.1:$PORT" --rdzv-conf last_call_timeout=1,is_host=true --no-python sh elastic.sh
    wait_for holds zero.out "0 of 1, 0"
    node one --nnodes 1:2 --max-restarts 3 --rdzv-backend c10d --rdzv-endpoint "127.0.0.1:$PORT" --no-python sh elastic.sh
    sleep 0.5
    touch go
    node_ended_with zero 0
    node_ended_with one 0
    [ "$(tail -1 zero.out)" = "0 of 2, 1" ]
    [ "$(cat one.out)" = "1 of 2, 1" ]
}

@test "machines that do not come are named while the others wait, and the wait ends with status 69" {
    node zero $(static 4 0) --rdzv-conf join_timeout=6 --no-python true
    node two $(static 4 2) --rdzv-conf join_timeout=6 --no-python true
    node_ended_with zero 69
    node_ended_with two 69
    holds zero.err "waiting: 2 of 4 machines are here (missing: 1, 3)"
    holds zero.err "2 of 4 machines are here (missing: 1, 3), and no more came in time"
    grep -q "2 of 4 machines are here" two.err
}

@test "a machine without the token, or with another one, is refused; with it, it takes part" {
    head -c 32 /dev/urandom | base64 >token
    head -c 32 /dev/urandom | base64 >other
    chmod 600 token other
    node zero $(static 2 0) --rdzv-token-file token --no-python true
    launch $(static 2 1) --rdzv-token-file other --no-python true
    ended_with 69
    err_says "token"
    launch $(static 2 1) --no-python true
    ended_with 69
    err_says "token"
    launch $(static 2 1) --rdzv-token-file token --no-python true
    ended_with 0
    node_ended_with zero 0
    chmod 644 token
    launch $(static 2 1) --rdzv-token-file token --no-python true
    ended_with 2
    err_says "others can read it; chmod 600 keeps it secret"
    echo short >token && chmod 600 token
    launch $(static 2 1) --rdzv-token-file token --no-python true
    ended_with 2
    err_says "16 bytes or more"
    launch $(static 2 1) --rdzv-token-file nowhere --no-python true
    ended_with 69
}

@test "two machines with one number, another run, more machines than there are places: the late one is refused" {
    node zero $(static 3 0) --rdzv-id a --no-python true
    node one $(static 3 1) --rdzv-id a --rdzv-conf join_timeout=30 --no-python true
    wait_for is_connected
    sleep 0.3 # for the handshake
    launch $(static 3 1) --rdzv-id b --no-python true
    ended_with 2
    err_says "'b'" "'a'"
    launch $(static 4 3) --rdzv-id a --no-python true
    ended_with 2
    err_says "3"
    launch $(static 3 1) --rdzv-id a --rdzv-conf join_timeout=2 --no-python true
    ended_with 69
    err_says "is taken by $(hostname)"
    launch $(static 3 2) --rdzv-id a --no-python true
    ended_with 0
    node_ended_with zero 0
    node_ended_with one 0
}

@test "other programs at the port disturb nobody" {
    node zero $(static 2 0) --no-python true
    "$PYTHON" - "$PORT" <<'END'
import socket, sys, time
address = ("127.0.0.1", int(sys.argv[1]))
held = []
for words in [b"", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", bytes(100000), b"\n\001muster-wire-1\n" + bytes(range(256)) * 9] * 20:
    for _ in range(100):
        try:
            s = socket.create_connection(address)
            break
        except OSError:
            time.sleep(0.05)
    try:
        s.sendall(words)
    except OSError:
        pass
    held.append(s)
END
    launch $(static 2 1) --no-python true
    ended_with 0
    node_ended_with zero 0
}

@test "a signal ends the machine that gets it; the others end with it" {
    two_work
    kill -TERM "${PIDS[one]}"
    node_ended_with one 143
    node_ended_with zero 69
    holds zero.err "it left: Terminated"
    two_work --exit-code torchrun
    kill -INT "${PIDS[zero]}"
    node_ended_with zero 130
    node_ended_with one 130
    holds one.err "the machine that leads was ended by a signal: Interrupt"
    wait_for nobody_is_left
}

@test "bad numbers and endpoints are refused before anything is started" {
    launch --nnodes 2 --node-rank 2 --no-python touch made
    ended_with 2
    err_says "--node-rank 2: 2 machines have the numbers 0 to 1"
    launch --nnodes 0 --no-python touch made
    ended_with 2
    err_says "--nnodes '0': expected N, or MIN:MAX with MIN not above MAX, from 1 to 4096"
    launch --nnodes 3:2 --no-python touch made
    ended_with 2
    launch --nnodes 2 --rdzv-backend c10d --no-python touch made
    ended_with 2
    err_says "--rdzv-endpoint HOST:PORT is needed"
    launch --nnodes 2 --rdzv-backend c10d --rdzv-endpoint localhost:0 --no-python touch made
    ended_with 2
    launch --nnodes 2 --rdzv-backend etcd --no-python touch made
    ended_with 2
    launch --nnodes 2 --rdzv-conf join_timeout=soon --no-python touch made
    ended_with 2
    err_says "--rdzv-conf 'join_timeout=soon'"
    launch --nnodes 2 --rdzv-conf keep_alive_interval=0 --no-python touch made
    ended_with 2
    err_says "--rdzv-conf 'keep_alive_interval=0'"
    launch $(static 2 1) --rdzv-conf join_timeout=1 --master-addr no.such.host.invalid --no-python touch made
    ended_with 69
    err_says "no.such.host.invalid"
    launch $(static 2 0) --local-addr 192.0.2.1 --no-python touch made
    ended_with 69
    err_says "192.0.2.1"
    node zero $(static 2 0) --rdzv-conf join_timeout=3 --no-python true
    wait_for listens
    launch $(static 2 0) --no-python touch made
    ended_with 69
    err_says "port $PORT"
    [ ! -e made ]
}

@test "the tasks of mpirun are the ranks" {
    command -v mpirun >/dev/null || skip "mpirun is not installed"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    run --separate-stderr limited mpirun --oversubscribe -n 3 "$MUSTER" launch --no-python sh -c 'test "$OMPI_COMM_WORLD_RANK" = "$RANK" && echo "$RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE"'
    ended_with 0
    [ "$(sort <<<"$output")" = $'0 0 3 3\n1 1 3 3\n2 2 3 3' ]
    [[ $stderr == *"mpirun of Open MPI has started 3 tasks, each of which is a rank, which meet at 127.0.0.1 port "* ]]
    run --separate-stderr limited mpirun --oversubscribe -n 3 "$MUSTER" launch --max-restarts 1 --no-python sh -c '[ $RANK != 2 ] && exec sleep 60; exit 5'
    [ "$status" -eq 5 ]
    [ "$(grep -c 'rank 2 (pid .*) failed first: status 5' <<<"$stderr")" -eq 2 ] # once each time, not by each task
    [ "$(grep -c 'all ranks start again' <<<"$stderr")" -eq 1 ]
}

@test "several ranks of one muster do not inherit the one place that a launcher gave to it" {
    export PMI_FD=7 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1
    launch --nproc-per-node 2 --no-python sh -c 'env | grep -E "^(PMI|OMPI)"'
    ended_with 1
    [ -z "$output" ]
    launch --no-python sh -c 'env | grep -E "^(PMI|OMPI)" | sort | tr "\n" " "'
    [ "$output" = "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 " ]
}

@test "machines that are network namespaces meet by the address, name and interface of one of them" {
    space_add "mnode$$a" || skip "no network namespaces here"
    ip netns add "mnode$$b"
    ip link add "mv$$a" netns "mnode$$a" type veth peer name "mv$$b" netns "mnode$$b"
    ip -n "mnode$$a" addr add 10.77.0.1/24 dev "mv$$a"
    ip -n "mnode$$b" addr add 10.77.0.2/24 dev "mv$$b"
    for end in a b; do ip -n "mnode$$$end" link set "mv$$$end" up; ip -n "mnode$$$end" link set lo up; done
    ip netns exec "mnode$$b" "$MUSTER" launch --nnodes 2 --rdzv-backend c10d --rdzv-endpoint 10.77.0.1:29400 --local-addr "mv$$b" --nproc-per-node 2 shows.py WORLD_SIZE,MASTER_ADDR >one.out 2>one.err 3>&- 4>&- &
    PIDS[one]=$!
    run --separate-stderr limited ip netns exec "mnode$$a" "$MUSTER" launch --nnodes 2 --rdzv-backend c10d --rdzv-endpoint 10.77.0.1:29400 --local-addr 10.77.0.1 --nproc-per-node 2 shows.py WORLD_SIZE,MASTER_ADDR
    local kept=$status
    ip netns del "mnode$$a"
    ip netns del "mnode$$b"
    [ "$kept" = 0 ] || { echo "$output$stderr"; return 1; }
    node_ended_with one 0
    [ "$( (echo "$output"; cat one.out) | sort)" = $'0 4 10.77.0.1\n1 4 10.77.0.1\n2 4 10.77.0.1\n3 4 10.77.0.1' ]
}

# The kernel asks twice, a second each, whether another machine has the address.
@test "an address that is tentative is waited for, which is said" {
    space_add "mnode$$a" || skip "no network namespaces here"
    ip netns add "mnode$$b"
    ip link add "mv$$a" netns "mnode$$a" type veth peer name "mv$$b" netns "mnode$$b"
    for end in a b; do ip -n "mnode$$$end" link set "mv$$$end" up; ip -n "mnode$$$end" link set lo up; done
    for end in a b; do ip netns exec "mnode$$$end" sh -c "echo 2 >/proc/sys/net/ipv6/conf/mv$$$end/dad_transmits"; done
    ip -n "mnode$$a" addr add fd77::1/64 dev "mv$$a"
    ip -n "mnode$$b" addr add fd77::2/64 dev "mv$$b"
    local words="--nnodes 2 --rdzv-backend c10d --rdzv-endpoint [fd77::1]:29400 --rdzv-conf join_timeout=15" name end
    for name in addr interface; do
        ip netns exec "mnode$$a" "$MUSTER" launch $words --local-addr "$([ $name = addr ] && echo fd77::1 || echo "mv$$a")" shows.py WORLD_SIZE >$name.out 2>$name.err 3>&- 4>&- &
        PIDS[$name]=$!
        ip netns exec "mnode$$b" "$MUSTER" launch $words --local-addr fd77::2 shows.py WORLD_SIZE >one.out 2>one.err 3>&- 4>&- &
        PIDS[one]=$!
        wait_for is_gone "${PIDS[$name]}" || true
        wait_for is_gone "${PIDS[one]}" || true
        ip -n "mnode$$a" addr del fd77::1/64 dev "mv$$a"
        ip -n "mnode$$a" addr add fd77::1/64 dev "mv$$a"
    done
    ip netns del "mnode$$a"
    ip netns del "mnode$$b"
    for name in addr interface; do
        node_ended_with $name 0
        output=$(cat $name.err) says "waiting: the kernel checks whether another machine has this machine's address fd77::1 (tentative)"
    done
    node_ended_with one 0
}

@test "while the link between machines is down, both ends end their ranks, and say which machine was lost" {
    space_add "mnode$$a" || skip "no network namespaces here"
    ip netns add "mnode$$b"
    ip link add "mv$$a" netns "mnode$$a" type veth peer name "mv$$b" netns "mnode$$b"
    ip -n "mnode$$a" addr add 10.77.0.1/24 dev "mv$$a"
    ip -n "mnode$$b" addr add 10.77.0.2/24 dev "mv$$b"
    for end in a b; do ip -n "mnode$$$end" link set "mv$$$end" up; ip -n "mnode$$$end" link set lo up; done
    local words="--nnodes 2 --rdzv-backend c10d --rdzv-endpoint 10.77.0.1:29400 --rdzv-conf keep_alive_interval=1,join_timeout=4 --no-python sh -c" script='echo $$$$ >>ranks; exec sleep 1000'
    ip netns exec "mnode$$a" "$MUSTER" launch $words "$script" >lead.out 2>lead.err 3>&- 4>&- &
    PIDS[lead]=$!
    ip netns exec "mnode$$b" "$MUSTER" launch $words "$script" >one.out 2>one.err 3>&- 4>&- &
    PIDS[one]=$!
    wait_for has_lines ranks 2
    ip -n "mnode$$a" link set "mv$$a" down
    local left name
    for name in lead one; do wait_for is_gone "${PIDS[$name]}" || true; done
    left=$(marked) # the link is still down
    ip netns del "mnode$$a"
    ip netns del "mnode$$b"
    [ -z "$left" ]
    node_ended_with lead 69
    node_ended_with one 69
    output=$(cat lead.err) says "machine 1 (" "is gone: nothing was heard for 3.0 s"
    output=$(cat one.err) says "the leader is lost: nothing was heard for 3.0 s; asking again"
}

@test "machines that were told different numbers of machines do not begin together" {
    node one --nnodes 3 --node-rank 1 --master-port "$PORT" --no-python true
    node zero --nnodes 2 --node-rank 0 --master-port "$PORT" --rdzv-conf join_timeout=2 --no-python true
    node_ended_with one 2
    output=$(cat one.err) says "the leader expects 2 machines, the follower 3; give the same --nnodes on all machines"
    node_ended_with zero 69
}
