#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What a run needs and does not get: room, a place of its own, its input. See also tests/fault.
load helpers

echo_worker() {
    worker echo_worker <<'END'
#!/bin/sh
while read -r n; do echo "$n" >>ran; echo "r$n"; done
END
}

@test "a limit on the size of files ends a run like a full disk, and it can be resumed" {
    worker wide <<'END'
#!/bin/sh
exec awk '{ printf "%s", $1; for (i = 0; i < 40; i++) printf " word"; print ""; fflush() }'
END
    seq 0 4999 >in.txt
    run limited bash -c 'ulimit -f 512; exec "$@"' - "$MUSTER" map -q -g cpu:2 in.txt -o out.txt -- ./wide
    ended_with 75
    says "muster resume" "File too large"
    [ ! -e out.txt ]
    run limited "$MUSTER" resume -q
    ended_with 0
    same out.txt <(./wide <in.txt)
}

@test "muster resume leaves a run alone that still reads its input" {
    echo_worker
    mkfifo pipe
    exec 7<>pipe
    "$MUSTER" map -q -g cpu:2 - -o out.txt -- ./echo_worker <pipe >said 2>&1 3>&- 4>&- 7>&- &
    PID=$!
    seq 0 9 >&7
    wait_for holds muster-runs/latest/input/input-0.part 9
    run limited "$MUSTER" resume
    ended_with 69
    says "is going on"
    seq 10 19 >&7
    exec 7>&-
    map_end
    ended_with 0
    same out.txt <(seq 0 19 | sed s/^/r/)
}

@test "the same command into standard output goes on with its unfinished run" {
    echo_worker
    seq 0 19 >in.txt
    "$MUSTER" map -q -g cpu:2 in.txt -o - -- ./echo_worker >/dev/full 2>said || status=$?
    [ "$status" -eq 75 ]
    rm ran
    "$MUSTER" map -g cpu:2 in.txt -o - -- ./echo_worker >out.txt 2>said
    same out.txt <(seq 0 19 | sed s/^/r/)
    holds said "going on with"
    [ ! -e ran ]
}

@test "a command that could not begin leaves no run behind" {
    echo_worker
    run limited bash -c 'seq 0 9 | "$@"' - "$MUSTER" map -g cpu:2 --key id - -o out.txt -- ./echo_worker
    ended_with 2
    says "--key needs items with fields"
    [ -z "$(ls -A muster-runs)" ]
}

@test "a run that was killed before it began does not stand in the way of the same command" {
    echo_worker
    seq 0 9 >in.txt
    mkdir -p muster-runs/20200101_000000-map/parts
    : >muster-runs/20200101_000000-map/run.db
    map -q -g cpu:2 in.txt -o out.txt -- ./echo_worker
    ended_with 0
    same out.txt <(seq 0 9 | sed s/^/r/)
}

@test "a folder in which a run was killed before it began can be used again" {
    echo_worker
    seq 0 9 >in.txt
    mkdir -p here/parts here/logs
    : >here/run.db
    map -q -g cpu:2 --run-dir here in.txt -o out.txt -- ./echo_worker
    ended_with 0
    same out.txt <(seq 0 9 | sed s/^/r/)
    rm out.txt
    map -q -g cpu:2 --run-dir here in.txt -o out.txt -- ./echo_worker
    ended_with 2
    says "holds a run already"
}
