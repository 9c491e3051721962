#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# muster doctor --ranks: ranks that meet and measure the links between them. Hosts are agents on this machine, reached by
# `--via`; where links are bad, each is in a network namespace of its own.
load helpers

setup() {
    common_setup
    export MUSTER_SYSFS=/nowhere TMPDIR=$PWD/tmp
    unset PYTHON_EXEC ${!PET_@} RANK WORLD_SIZE MASTER_ADDR MASTER_PORT
    mkdir tmp
}

teardown() {
    local name
    for name in ${SPACES:-}; do ip netns del "$name" || true; done
    common_teardown
}

ranks() { run --separate-stderr limited "$MUSTER" doctor --ranks "$@"; }

# switched NAME…: network namespaces of this test on one switch, with the addresses 10.78.0.1 and so on at wire0.
switched() {
    local name switch="s$$" number=0
    space_add "$switch" || skip "no network namespaces here"
    SPACES=$switch
    ip -n "$switch" link add bridge0 type bridge || skip "no bridges here"
    ip -n "$switch" link set bridge0 up
    for name; do
        number=$((number + 1))
        ip netns add "$name"
        SPACES="$SPACES $name"
        ip -n "$name" link set lo up
        ip -n "$name" link add wire0 type veth peer name "$name" netns "$switch"
        ip -n "$name" addr add 10.78.0.$number/24 dev wire0
        ip -n "$name" link set wire0 up
        ip -n "$switch" link set "$name" master bridge0 up
    done
}

# Packets of a host to an address go to nobody.
lose() { ip -n "$1" neigh replace "$2" lladdr 02:00:00:00:00:99 dev wire0 nud permanent; }

@test "ranks of one machine meet, every pair is measured both ways, and the sum is right on each" {
    ranks 4
    ended_with 0
    grep -qE '^ok    meeting   4 ranks on 1 host met at (127.0.0.1|::1) \(lo\)$' <<<"$output" # what localhost is first
    says "6 of 6 pairs: both ways open, every byte right" \
        "1 MiB summed over 4 ranks in " "right on every rank"
    [ "$(grep -cE '^ *[0-3]  (127.0.0.1|::1) .* lo .* 65536  ' <<<"$output")" = 4 ]
    [ "$(grep -cE '^ +[0-3]( +-| +[0-9.]+){4}$' <<<"$output")" = 8 ]
    ranks 1 -q
    ended_with 0
    [ -z "$output$stderr" ]
    [ -z "$(ls -A tmp)" ]
    ranks 2 -q --hosts local
    ended_with 0
}

@test "ranks of several hosts, one of them this machine; as objects, each rank and each way once" {
    ranks 1 --json --hosts one,local,two --via env
    ended_with 0
    echo "$output" >objects
    "$PYTHON" - <<'END'
import json
objects = [json.loads(line) for line in open("objects")]
ranks = [o for o in objects if "rank" in o]
assert [(o["rank"], o["host"]) for o in ranks] == [(0, "one"), (1, "local"), (2, "two")], ranks
ways = {(o["from"], o["to"]): o for o in objects if "connection" in o}
assert len(ways) == 6, ways
for way in ways.values():
    assert (way["connection"], way["bytes"]) == ("fine", "fine") and way["mib_s"] > 0 and way["round_trip_us"] > 0, way
assert ways[0, 1]["from_host"] == "one" and ways[0, 1]["to_host"] == "local"
checks = {o["check"]: o["level"] for o in objects if "check" in o}
assert checks["meeting"] == checks["links"] == checks["allreduce"] == "ok", checks
END
    [ -z "$(ls -A tmp)" ]
}

@test "slow and closed links, and a place that a rank does not reach, are named with host, interface and port; the others go on" {
    local a="a$$" b="b$$" c="c$$" d="d$$" slow=
    switched "$a" "$b" "$c" "$d"
    command -v tc >/dev/null && ip netns exec "$a" tc qdisc add dev wire0 root tbf rate 8mbit burst 32k latency 100ms && slow=1
    lose "$b" 10.78.0.3
    lose "$d" 10.78.0.1
    "$MUSTER" doctor --ranks 1 --master-addr 10.78.0.1 --master-port 29533 --hosts "$a,$d" --via 'ip netns exec {host}' >unreached 2>&1 3>&- 4>&- &
    PID=$!
    ranks 1 --hosts "$a,$b,$c" --via 'ip netns exec {host}'
    ended_with 1
    says "3 ranks on 3 hosts met at 10.78.0.1 (wire0)" \
        "fail  links     rank 1 on $b to rank 2 on $c: 10.78.0.3 port " \
        "fail  links     rank 2 on $c to rank 1 on $b: 10.78.0.2 port " ": no answer came" \
        "fail  allreduce the all-reduce was not tried, because a link that it needs is bad"
    if [ -n "$slow" ]; then
        says "warn  speed     rank 0 on $a to rank 1 on $b: 0." "warn  speed     rank 0 on $a to rank 2 on $c: 0." \
            "from wire0 to wire0" "of the interfaces' speed of 1192 MiB/s"
    fi
    wait $PID && status=0 || status=$?
    ended_with 1
    output=$(cat unreached)
    says "fail  meeting   rank 1 on $d: rank 0 is not reached at 10.78.0.1 port 29533: no answer came" \
        "fail  allreduce 1 of 2 ranks made the sum"
    wait_for nobody_is_left
}

@test "a link that loses large packets is told from a closed one; so are addresses that lead nowhere" {
    local a="a$$" b="b$$"
    switched "$a" "$b"
    # Without segments of 64 KiB, which the switch would let pass.
    ip -n "$a" link set wire0 gso_max_segs 1
    ip -n "$b" link set wire0 gso_max_segs 1
    ip -n "s$$" link set "$b" mtu 1000
    ip -n "$b" addr add 10.78.1.2/24 dev wire0
    ip -n "$b" addr add 10.78.2.2/24 dev wire0
    ip -n "$a" route add 10.78.2.0/24 dev wire0
    ranks 1 --hosts "$a,$b" --via 'ip netns exec {host}'
    ended_with 1
    says "fail  links     rank 0 on $a to rank 1 on $b: small packets pass, large ones do not" \
        "warn  interface wire0 of $b: 10.78.1.2 is not reached from $a (there is no route)" \
        "ok    interface wire0 of $b: 10.78.2.2 is reached too, by 1 other host"
    says_not " port "
}

@test "ranks that cannot start: a host that is not there, a port in use" {
    local port=$((20000 + RANDOM % 10000))
    ranks 2 --hosts one,two --via "sh -c 'echo it is switched off >&2; exit 255'"
    ended_with 1
    says "fail  meeting   0 of 2 hosts can be had; one: sh ended with status 255: it is switched off"
    "$MUSTER" launch --master-port $port --no-python sh -c 'touch there; while [ ! -e go ]; do sleep 0.05; done' 3>&- 4>&- &
    wait_for test -e there
    ranks 2 --master-port $port
    ended_with 1
    says "fail  meeting " "port $port, which another muster holds"
    touch go
    wait
}

@test "a rank that is killed is told as what it is, and no link is blamed" {
    "$MUSTER" doctor --ranks 16 >said 2>errors 3>&- 4>&- &
    PID=$!
    wait_for holds errors "pairs of 16 ranks are measured"
    local rank
    for rank in $(marked); do
        if tr '\0' '\n' <"/proc/$rank/environ" | grep -qx RANK=7 && [ "$(readlink "/proc/$rank/exe")" = "$(readlink -f "$MUSTER")" ]; then
            kill -KILL "$rank"
        fi
    done
    wait $PID && status=0 || status=$?
    output=$(cat said errors)
    ended_with 1
    says "fail  meeting   a rank ended with status 137" "rank 7 (pid " "failed first: signal 9"
    says_not "links "
    wait_for nobody_is_left
}

@test "whoever connects to the place where ranks meet without the token is no rank" {
    local port=$((20000 + RANDOM % 10000))
    rank() {
        env RANK=$1 LOCAL_RANK=$1 GROUP_RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port TORCHELASTIC_RUN_ID=$2 \
            "$MUSTER" rank-check 3>&- 4>&-
    }
    rank 0 token >zero &
    wait_for bash -c "exec 5<>/dev/tcp/127.0.0.1/$port && printf 'GET / HTTP/1.1\r\n\r\n' >&5" 2>/dev/null
    rank 1 another >one &
    wait_for holds one '"address":"127.0.0.1"'
    rank 1 token >right
    wait
    holds one '"absent":"the connection to rank 0 ended early'
    holds right '"sum":"fine"'
    holds zero '"sum":"fine"'
}

@test "usage: what does not go with ranks; a signal ends them all" {
    local words
    for words in shm --smoke --traits "--master-addr="; do
        ranks 2 $words
        ended_with 2
        [[ $stderr == *"--ranks looks at the links between ranks alone"* || $stderr == *"--master-addr '': expected a name"* ]]
    done
    ranks 0
    ended_with 2
    # What launch takes from the environment does not keep the doctor from its checks.
    MUSTER_MASTER_PORT=29500 MUSTER_MASTER_ADDR=node1 run --separate-stderr "$MUSTER" doctor clock
    ended_with 0
    run --separate-stderr "$MUSTER" rank-check
    ended_with 2
    "$MUSTER" doctor --ranks 16 >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for holds said "pairs of 16 ranks are measured"
    kill -INT $PID
    wait $PID && status=0 || status=$?
    ended_with 130
    wait_for nobody_is_left
    [ -z "$(ls -A tmp)" ]
}
