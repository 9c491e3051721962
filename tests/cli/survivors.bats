#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Whatever is killed: nothing that a run started is left, and nothing else is touched.
load helpers

# A worker with a child, a grandchild and one that left the session; all of them deaf to HUP and INT.
family() {
    worker family <<'END'
#!/bin/bash
trap '' HUP INT
sleep 1000 &
(sleep 1000 & exec sleep 1000) &
setsid sleep 1000 &
setsid sh -c 'sleep 1000 & exec sleep 1000' &
disown -a
echo $$ >>pids
while read -r n; do
    echo "$n" >>seen
    sleep 0.05
    echo "$n"
done
END
    seq 100000 >in.txt
}

family_begin() {
    family
    map_begin -g cpu:2 --grace 300ms in.txt -o out.txt -- ./family
    wait_for has_lines seen 4
}

# The guard of a worker: the parent of the process that wrote its pid.
guard_of() { ps -o ppid= -p "$(sed -n "$1p" pids)" | tr -d ' '; }

@test "KILL to muster leaves nobody" {
    family_begin
    kill -KILL "$PID"
    wait_for nobody_is_left
}

@test "TERM to muster leaves nobody" {
    family_begin
    kill -TERM "$PID"
    map_end
    ended_with 143
    nobody_is_left
}

@test "INT to muster leaves nobody" {
    family_begin
    kill -INT "$PID"
    map_end
    ended_with 130
    nobody_is_left
}

@test "HUP to muster leaves nobody" {
    family_begin
    kill -HUP "$PID"
    map_end
    ended_with 129
    nobody_is_left
}

@test "KILL to the guards: their workers are replaced, and nobody of the old families is left" {
    family_begin
    local old guards
    guards="$(guard_of 1) $(guard_of 2)"
    old=$(for pid in $(marked); do [ "$pid" = "$PID" ] || holds "/proc/$pid/comm" run-keeper || echo "$pid"; done)
    kill -KILL $guards
    all_old_gone() { local pid; for pid in $old; do ! kill -0 "$pid" 2>/dev/null || return 1; done; }
    wait_for all_old_gone
    wait_for has_lines pids 3
    kill -TERM "$PID"
    map_end
    ended_with 143
    nobody_is_left
}

@test "KILL to a guard and to muster at once: the worker goes by the parent-death signal" {
    worker lonely <<'END'
#!/bin/bash
trap '' HUP INT TERM
echo $$ >>pids
while read -r n; do echo "$n" >>seen; read -rt 0.05 <> <(:); echo "$n"; done
END
    seq 100000 >in.txt
    map_begin -g cpu:2 --grace 300ms in.txt -o out.txt -- ./lonely
    wait_for has_lines seen 4
    kill -KILL "$(guard_of 1)" "$PID"
    wait_for nobody_is_left
}

@test "KILL to a guard and to muster at once: a resume ends who is left, and goes on" {
    family
    seq 30 >in.txt
    map_begin -g cpu:2 --grace 300ms in.txt -o out.txt -- ./family
    wait_for has_lines seen 4
    kill -KILL "$(guard_of 1)" "$PID"
    map_end
    run limited "$MUSTER" resume
    ended_with 0
    same out.txt in.txt
    wait_for nobody_is_left # the first muster's keeper may look once more
}

@test "KILL to muster and all guards in one moment leaves nobody, without a resume" {
    family_begin
    wait_for has_lines pids 2
    kill -KILL "$PID" "$(guard_of 1)" "$(guard_of 2)"
    wait_for nobody_is_left
}

@test "KILL to everything that is called muster leaves nobody" {
    family_begin
    wait_for has_lines pids 2
    local victims
    victims=$(for pid in $(marked); do grep -l '^muster' "/proc/$pid/comm" 2>/dev/null; done | tr -dc '0-9\n')
    [ "$(wc -w <<<"$victims")" -eq 3 ]
    # shellcheck disable=SC2086
    kill -KILL $victims
    wait_for nobody_is_left
}

@test "a run that ends by itself has no process left a moment later" {
    seq 6 >in.txt
    map -q -g cpu:2 in.txt -o out.txt -- cat
    ended_with 0
    nobody_is_left
}

@test "KILL to a worker: its own children go with it" {
    family_begin
    local first
    first=$(sed -n 1p pids)
    kill -KILL "$first"
    wait_for has_lines pids 3
    kill -TERM "$PID"
    map_end
    nobody_is_left
}

@test "a run that ends by itself leaves nobody either" {
    family
    seq 6 >in.txt
    map -g cpu:2 --grace 300ms in.txt -o out.txt -- ./family
    ended_with 0
    nobody_is_left
}

@test "a child that was there before muster is not touched" {
    seq 10 >in.txt
    bash -c 'sleep 1000 & echo $! >before; exec "$MUSTER" map -q -g cpu:2 in.txt -o out.txt -- cat' 3>&- 4>&-
    kill -0 "$(cat before)"
    kill "$(cat before)"
    same out.txt in.txt
}

@test "a child that was there before muster survives the INT that ends muster" {
    family
    bash -c 'sleep 1000 & echo $! >before; exec "$MUSTER" map -g cpu:1 --grace 300ms in.txt -o out.txt -- ./family' >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for has_lines seen 2
    kill -INT "$PID"
    map_end
    ended_with 130
    kill -0 "$(cat before)"
    kill "$(cat before)"
}

# Started by a shell that has a child already. $PID is the process that the shell became.
map_begin_after_sleep() {
    setsid bash -c 'sleep 1000 & echo $! >before; echo $$ >front; exec "$MUSTER" map "$@"' - "$@" >said 2>&1 3>&- 4>&- &
    wait_for has_lines front 1
    PID=$(cat front)
}

before_lives() { kill -0 "$(cat before)"; }

# A worker whose grandchild has neither its environment nor its session; it notes that it was asked to end.
secretive() {
    worker secretive <<'END'
#!/bin/bash
trap 'echo asked >>asked; sleep 0.5; echo tidy >>tidied; exit 0' TERM
echo $$ >>pids
env -i setsid sh -c 'echo $$ >>unmarked; exec sleep 1000' &
while read -r n; do echo "$n" >>seen; read -rt 0.05 <> <(:); echo "$n"; done
END
    seq 100000 >in.txt
}

unmarked_gone() {
    local pid
    # shellcheck disable=SC2013
    for pid in $(head -2 unmarked); do ! kill -0 "$pid" 2>/dev/null || return 1; done
}

@test "a child was there before muster: KILL to the guards leaves nothing of their workers" {
    secretive
    map_begin_after_sleep -g cpu:2 in.txt -o out.txt -- ./secretive
    wait_for has_lines unmarked 2
    KEPT=$(cat unmarked)
    kill -KILL "$(guard_of 1)" "$(guard_of 2)"
    wait_for unmarked_gone
    before_lives
    wait_for has_lines pids 3
    kill -TERM "$PID"
    wait_for is_gone "$PID"
    nobody_is_left_but_before
}

nobody_is_left_but_before() {
    [ "$(marked)" = "$(cat before)" ] && kill "$(cat before)"
}

@test "KILL to all guards of each and launch, which end by it, leaves nobody" {
    worker kin <<'END'
#!/bin/sh
env -i setsid sh -c 'echo $$ >>unmarked; exec sleep 1000' &
setsid sleep 1000 &
echo $$ >>pids
exec sleep 1000
END
    local words
    for words in "each -g cpu:2 --" "launch -g cpu:2 --no-python"; do
        rm -f unmarked pids
        # shellcheck disable=SC2086
        "$MUSTER" $words ./kin >said 2>&1 3>&- 4>&- &
        PID=$!
        wait_for has_lines unmarked 2
        wait_for has_lines pids 2
        KEPT="$KEPT $(tr '\n' ' ' <unmarked)"
        kill -KILL $(guard_of 1) $(guard_of 2)
        map_end
        [ "$status" -ne 0 ]
        nobody_is_left
        wait_for unmarked_gone
    done
}

@test "a child was there before muster: KILL to muster leaves nothing but that child" {
    secretive
    map_begin_after_sleep -g cpu:2 --grace 300ms in.txt -o out.txt -- ./secretive
    wait_for has_lines unmarked 2
    KEPT=$(cat unmarked)
    kill -KILL "$PID"
    wait_for unmarked_gone
    before_lives
    wait_for nobody_is_left_but_before
}

@test "a child was there before muster: TERM to the whole process group is one order to end, not two" {
    secretive
    map_begin_after_sleep -g cpu:1 in.txt -o out.txt -- ./secretive
    wait_for has_lines seen 2
    kill -TERM -- "-$PID"
    wait_for is_gone "$PID"
    holds said "SIGTERM: ending the workers"
    has_lines tidied 1
    wait_for nobody_is_left
}

@test "a child was there before muster: TERM twice ends its workers at once" {
    secretive
    map_begin_after_sleep -g cpu:1 --grace 100s in.txt -o out.txt -- ./secretive
    sed -i s/0.5/1000/ secretive
    wait_for has_lines seen 2
    kill -TERM "$PID"
    wait_for has_lines asked 1
    kill -TERM "$PID"
    wait_for is_gone "$PID"
    wait_for nobody_is_left_but_before
}

@test "a child was there before muster: its end tells how the run ended" {
    seq 10 >in.txt
    run limited bash -c 'sleep 1000 >sleeps 2>&1 & echo $! >before; exec "$MUSTER" map -q -g cpu:2 in.txt -o out.txt -- false' 3>&- 4>&-
    ended_with 1
    kill "$(cat before)"
    run limited bash -c 'sleep 1000 >sleeps 2>&1 & echo $! >before; exec "$MUSTER" map -q -g cpu:2 in.txt -o - -- cat' 3>&- 4>&-
    ended_with 0
    [ "$output" = "$(cat in.txt)" ]
    kill "$(cat before)"
}

@test "an ordinary end does not read all of /proc: guards that have ended their workers are waited for" {
    [ -n "$(command -v strace)" ] || skip "no strace"
    local i n_ends=0
    for i in 1 2 3 4 5 6 7 8; do
        strace -o calls -e trace=openat "$MUSTER" each -q -g cpu:8 -- true || skip "nothing may be traced"
        grep -q '"/proc"' calls || n_ends=$((n_ends + 1))
    done
    [ "$n_ends" -ge 7 ]
}
