#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Ranks on several machines, one of which is lost: the ranks start again only when its old ranks have ended.
load helpers
load launch_nodes_helpers

# Rank 1 ignores SIGTERM. The first generation is over at once on the machine that leads; what then becomes of rank 0 shows
# whether rank 1 lives.
deaf_begin() {
    local words="--nnodes 1:2 --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:$PORT --rdzv-conf last_call_timeout=1,keep_alive_interval=1,is_host"
    cat >deaf.sh <<'END'
case $WORLD_SIZE$RANK in
20) exec sleep 60 ;;
21) trap "" TERM; echo $$ >deaf.pid; while :; do sleep 0.1; done ;;
10) [ ! -e /proc/$(cat deaf.pid) ] || echo "rank 1 lives" ;;
esac
END
    node zero $words=1 --shutdown-timeout 1s --max-restarts 1 --no-python sh deaf.sh
    wait_for listens
    node one $words=0 --shutdown-timeout 3s --no-python sh deaf.sh
    wait_for test -s deaf.pid
}

# Two machines whose ranks are SCRIPT and have GRACE to end; FOLLOW is the command of the second: pair_begin SCRIPT GRACE
pair_begin() {
    local words=(--nnodes 2 --rdzv-backend c10d --rdzv-endpoint "127.0.0.1:$PORT" --rdzv-conf)
    local rest=(--shutdown-timeout "$2" --no-python sh "$1")
    FOLLOW=("${words[@]}" keep_alive_interval=1,is_host=0 "${rest[@]}")
    node zero --max-restarts 1 "${words[@]}" keep_alive_interval=1,is_host=1 "${rest[@]}"
    wait_for listens
    node one "${FOLLOW[@]}"
}

@test "ranks start again when those of a lost machine must have ended, though its muster is gone or silent" {
    local way
    for way in KILL STOP; do
        rm -f deaf.pid
        deaf_begin
        kill -$way "${PIDS[one]}"
        wait_for holds zero.err "machine 1 ($(hostname)) is gone: "
        kill -KILL "${PIDS[one]}" 2>/dev/null || true # one that stands still is ended at last
        node_ended_with zero 0
        cat zero.out
        [ ! -s zero.out ]
        grep -Eq "all ranks start again in $([ $way = KILL ] && echo '[34]' || echo '[67]')\.[0-9] s, when those of the lost machine must have ended \(restart 1 of 1\)" zero.err
    done
}

@test "a lost machine that is back, and says that its old ranks have ended, is not waited for any longer" {
    cat >back.sh <<'END'
[ $TORCHELASTIC_RESTART_COUNT = 0 ] || { [ ! -e /proc/$(cat back.pid) ] || echo "the old rank 1 lives"; exit 0; }
[ $RANK = 0 ] || echo $$ >back.pid
exec sleep 60
END
    pair_begin back.sh 90s
    wait_for test -s back.pid
    kill -STOP "${PIDS[one]}"
    wait_for holds zero.err "machine 1 ($(hostname)) is gone: nothing was heard"
    wait_for holds zero.err ", when those of the lost machine must have ended (restart 1 of 1)"
    kill -CONT "${PIDS[one]}"
    node_ended_with zero 0 # within the time of wait_for, which is shorter than 90 seconds
    node_ended_with one 0
    cat zero.out one.out
    [ ! -s zero.out ] && [ ! -s one.out ]
}

@test "a machine that is lost before it has ranks comes back without a word about old ones" {
    node zero $(static 3 0) --rdzv-conf keep_alive_interval=1 --no-python true
    node one $(static 3 1) --no-python true
    wait_for holds zero.err "2 of 3 machines are here (missing: 2)"
    kill -STOP "${PIDS[one]}"
    wait_for holds zero.err "machine 1 ($(hostname)) is gone: nothing was heard"
    kill -CONT "${PIDS[one]}"
    node two $(static 3 2) --no-python true
    node_ended_with zero 0
    node_ended_with one 0
    node_ended_with two 0
    ! grep "old ranks" zero.err
}

@test "ranks that are ended while they wait for those before them are not awaited" {
    cat >kept.sh <<'END'
[ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 3
[ $RANK = 0 ] || echo $PPID >guard.pid
exec sleep 60
END
    pair_begin kept.sh 1s
    wait_for test -s guard.pid
    kill -STOP "$(cat guard.pid)" "${PIDS[one]}" # the guard does not end the old rank 1
    wait_for holds zero.err "machine 1 ($(hostname)) is gone: nothing was heard"
    kill -CONT "${PIDS[one]}"
    node_ended_with zero 3
    kill -CONT "$(cat guard.pid)"
    node_ended_with one 3
}

@test "another muster at the place of a lost one cannot say that the old ranks have ended" {
    cat >deaf.sh <<'END'
[ $TORCHELASTIC_RESTART_COUNT = 0 ] || { [ ! -e /proc/$(cat deaf.pid) ] || echo "the old rank 1 lives"; exit 0; }
[ $RANK = 1 ] || exec sleep 60
trap "" TERM
echo $$ >deaf.pid
while :; do sleep 0.1; done
END
    pair_begin deaf.sh 3s
    wait_for test -s deaf.pid
    kill -KILL "${PIDS[one]}"
    node one "${FOLLOW[@]}"
    node_ended_with zero 0
    node_ended_with one 0
    cat zero.out one.out
    [ ! -s zero.out ] && [ ! -s one.out ]
}
