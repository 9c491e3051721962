#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Signals to muster launch reach the ranks as torchrun hands them on.
load helpers

setup() {
    common_setup
    export MUSTER_SYSFS=/nowhere TMPDIR=$PWD/tmp
    unset PYTHON_EXEC ${!PET_@} ${!TORCH@} ${!SLURM_@} ${!OMPI_@} ${!PMI@} RANK MASTER_ADDR MASTER_PORT
    mkdir tmp
    # Says which signal has come, and ends well.
    worker hears <<'END'
#!/bin/bash
for signal in INT TERM HUP QUIT USR1 USR2; do trap "echo $signal >>got; exit 0" $signal; done
echo "$RANK" >>here
while :; do sleep 0.05; done
END
}

# begin RANKS ARGUMENT...: until so many ranks hear.
begin() {
    local n=$1
    shift
    rm -f here got
    "$MUSTER" launch "$@" --no-python ./hears >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for has_lines here "$n"
}

# hands_on SIGNAL GOT STATUS
hands_on() {
    kill -"$1" "$PID"
    map_end
    ended_with "$3"
    [ "$(sort -u got)" = "$2" ] || { echo "SIG$1: the ranks got $(cat got)"; return 1; }
}

@test "the ranks get the signal that came; one that is not listed is TERM" {
    begin 2 --nproc 2
    hands_on INT INT 130
    says "muster: SIGINT: ending the workers; once more ends them at once"
    [ "$(wc -l <got)" = 2 ]
    begin 2 --nproc 2
    hands_on TERM TERM 143
    begin 2 --nproc 2
    hands_on HUP HUP 129
    begin 2 --nproc 2
    hands_on QUIT QUIT 131
    [ -z "$(ls -A tmp)" ]
    begin 2 --nproc 2 --signals-to-handle SIGUSR1,SIGUSR2
    hands_on USR1 USR1 138
    begin 1 --signals_to_handle SIGUSR1,SIGUSR2
    hands_on USR2 USR2 140
    begin 1 --signals-to-handle SIGTERM
    hands_on INT TERM 130
    TORCHELASTIC_SIGNALS_TO_HANDLE=SIGUSR2 begin 1
    hands_on USR2 USR2 140
}

@test "USR1 and USR2 that are not listed end nothing; names that are none are said" {
    begin 1 --signals-to-handle 'SIGTERM, SIGINT,SIGSTOP'
    kill -USR1 "$PID"
    kill -USR2 "$PID"
    wait_for holds said "SIGUSR2 has no effect: --signals-to-handle does not name it"
    hands_on INT INT 130
    says "--signals-to-handle: 'SIGSTOP' is passed over; there are SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2"
}

@test "signals reach muster through the process that its caller knows, where a shell gave it children" {
    rm -f here got
    bash -c 'sleep 1000 & echo $! >child; exec "$@"' - "$MUSTER" launch --signals-to-handle SIGUSR2,SIGQUIT --no-python ./hears >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for has_lines here 1
    KEPT="$KEPT $(cat child)"
    hands_on USR2 USR2 140
    kill "$(cat child)"
}

@test "what outlives a rank and ignores INT is asked by TERM, and is not killed" {
    worker keeps <<'END'
#!/bin/bash
bash -c 'trap "" INT; trap "sleep 0.2; echo TERM >>got; exit" TERM; echo >>here; while :; do sleep 0.05; done' &
while [ ! -e here ]; do sleep 0.05; done
exec ./hears
END
    "$MUSTER" launch --no-python ./keeps >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for has_lines here 2
    kill -INT "$PID"
    map_end
    ended_with 130
    [ "$(cat got)" = $'INT\nTERM' ]
}

@test "a second signal does not wait, whichever it is" {
    worker deaf <<'END'
#!/bin/bash
trap "echo INT >>got" INT
trap "echo QUIT >>got" QUIT
echo >>here
while :; do sleep 0.05; done
END
    "$MUSTER" launch --nproc 2 --no-python ./deaf >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for has_lines here 2
    kill -INT "$PID"
    wait_for has_lines got 2
    kill -QUIT "$PID"
    map_end
    ended_with 130
    [ "$(sort -u got)" = INT ]
}

@test "under nohup a hang-up ends nothing" {
    bash -c 'trap "" HUP; exec "$@"' - "$MUSTER" launch --no-python ./hears >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for has_lines here 1
    kill -HUP "$PID"
    sleep 0.3
    [ ! -e got ]
    hands_on INT INT 130
}

@test "ranks of other hosts get the signal that came, and so do those of machines that follow" {
    begin 3 --hosts one=cpu:2,local=cpu:1 --via env
    hands_on INT INT 130
    [ "$(wc -l <got)" = 3 ]
    begin 2 --hosts one=cpu:2 --via env --signals-to-handle SIGUSR2
    hands_on USR2 USR2 140
    local port follower
    port=$(free_port)
    rm -f here got
    "$MUSTER" launch --nnodes 2 --node-rank 1 --master-port "$port" --nproc 2 --no-python ./hears >followed 2>&1 3>&- 4>&- &
    follower=$!
    "$MUSTER" launch --nnodes 2 --node-rank 0 --master-port "$port" --no-python ./hears >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for has_lines here 3
    hands_on INT INT 130
    [ "$(wc -l <got)" = 3 ]
    status=0
    wait "$follower" || status=$?
    ended_with 130
}

@test "workers of map and each are ended by TERM, whichever signal comes" {
    local verb
    seq 2 >in.txt
    for verb in "map -g cpu:1 in.txt -o out.txt" "each -g cpu:1"; do
        rm -f here got
        "$MUSTER" $verb -- ./hears >said 2>&1 3>&- 4>&- &
        PID=$!
        wait_for has_lines here 1
        hands_on INT TERM 130
    done
}

# ends_within SECONDS ARGUMENT...: a rank that nothing but KILL ends, of which another one has failed.
ends_within() {
    local begin=$SECONDS limit=$1
    shift
    run --separate-stderr limited "$MUSTER" launch --nproc 2 "$@" --no-python sh -c 'trap "" TERM; [ $RANK = 0 ] && { while [ ! -e ready ]; do sleep 0.02; done; exit 5; }; touch ready; while :; do sleep 0.1; done'
    ended_with 5
    [ $((SECONDS - begin)) -le "$limit" ]
    rm ready
}

@test "the time between a signal and KILL: as typed, as torchrun's variable says, and none" {
    TORCH_ELASTIC_SHUTDOWN_TIMEOUT=1 ends_within 8
    TORCH_ELASTIC_SHUTDOWN_TIMEOUT=1000 ends_within 8 --shutdown-timeout 0.2s
    TORCH_ELASTIC_SHUTDOWN_TIMEOUT=0 ends_within 8
    ends_within 8 --shutdown-timeout 0
    TORCH_ELASTIC_SHUTDOWN_TIMEOUT=soon run --separate-stderr limited "$MUSTER" launch --no-python true
    ended_with 2
    [[ $stderr == *"TORCH_ELASTIC_SHUTDOWN_TIMEOUT: expected seconds, as 30, found 'soon'" ]]
}

@test "ranks that are deaf, and what they have started and put elsewhere, are gone after any signal" {
    worker family <<'END'
#!/bin/bash
trap '' HUP INT QUIT TERM
sleep 1000 &
setsid sh -c 'sleep 1000 & exec sleep 1000' &
disown -a
echo >>here
while :; do sleep 0.05; done
END
    local pair
    for pair in HUP:129 QUIT:131 INT:130; do
        rm -f here
        "$MUSTER" launch --nproc 2 --shutdown-timeout 0.3s --no-python ./family >said 2>&1 3>&- 4>&- &
        PID=$!
        wait_for has_lines here 2
        kill "-${pair%:*}" "$PID"
        map_end
        ended_with "${pair#*:}"
        nobody_is_left
    done
}
