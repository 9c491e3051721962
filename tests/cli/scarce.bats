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
    says "muster resume" "ulimit -f"
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

@test "too few files that may be open are named before anything is made, and a soft limit is raised" {
    seq 5 >in.txt
    pyworker limits <<'END'
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
os.execv(os.environ["MUSTER"], ["muster", "map", "-g", "cpu:1", "in.txt", "-o", "out.txt", "--", "cat"])
END
    local most
    for most in 6 7 8 10 14 18 24 28 32 63; do
        run limited ./limits "$most" "$most"
        ended_with 69
        says "only $most files may be open at a time, and a run needs 64; raise the limit (ulimit -n 64"
        [ ! -e muster-runs ]
    done
    run limited ./limits 64 64
    ended_with 0
    rm out.txt
    run limited ./limits 6 200
    ended_with 0
    same out.txt in.txt
}

# Answers as fast as it can, each chunk backwards, with metrics: a row for each.
backwards() {
    pyworker backwards <<'END'
import os, re, socket
channel = socket.socket(fileno=int(os.environ["MUSTER_CHANNEL"]))
channel.sendall(b'{"ready":20000}\n')
rest = b""
while True:
    got = channel.recv(1 << 20)
    if not got:
        break
    whole, _, rest = (rest + got).rpartition(b"\n")
    items = re.findall(rb'"item":(\d+)', whole)
    answers = b"".join(b'{"done":%s,"result":%s,"metrics":{"seen":1}}\n' % (i, i) for i in reversed(items))
    if items:
        channel.sendall(answers + b'{"ready":%d}\n' % len(items))
    if b'"stop"' in whole:
        break
END
}

done_so_far() { jq '.done + .answered' stalled-disk/latest/status.json; }

@test "a disk that stalls: answers wait in their pipes, memory does not grow, and no limit runs" {
    [ -n "${DEAD_FS:-}" ] || skip "nothing can be preloaded into this build"
    backwards
    seq 0 149999 >in.txt
    LD_PRELOAD=$DEAD_FS map_begin -q -g cpu:1 --timeout 5s --runs-dir stalled-disk in.txt -o out.txt -- ./backwards
    wait_for holds stalled-disk/latest/orchestrator.log "the disk does not keep up"
    local before
    sleep 1
    before=$(done_so_far)
    [ "$before" -lt 150000 ]
    sleep 5.5
    [ "$(done_so_far)" -eq "$before" ]
    [ "$(awk '/^VmRSS/ { print $2 }' "/proc/$PID/status")" -lt 250000 ]
    touch moves
    map_end
    ended_with 0
    holds stalled-disk/latest/orchestrator.log "answers are read again"
    same out.txt in.txt
    [ "$(sqlite3 stalled-disk/latest/run.db "SELECT count(*) FROM attempts")" -eq 1 ]
}

@test "a named pipe that nobody reads: TERM ends the run, which has its results" {
    echo_worker
    seq 0 19 >in.txt
    mkfifo pipe
    map_begin -q -g cpu:2 in.txt -o pipe -- ./echo_worker
    wait_for is_merging
    kill -TERM "$PID"
    map_end
    ended_with 143
    says "every result is safe" "muster resume"
    rm ran
    cat pipe >got &
    run limited "$MUSTER" resume
    ended_with 0
    wait
    same got <(seq 0 19 | sed s/^/r/)
    [ ! -e ran ]
}

@test "a named pipe that nobody reads, for figures or a picture: TERM ends what is done, and the output stands" {
    mkfifo pipe.json picture
    printf '{"a":1,"b":1}\n' >in.jsonl
    map_begin -g cpu:1 in.jsonl -o out.jsonl --score a=b --score-out pipe.json -- cat
    wait_for holds said "out.jsonl: 1 result"
    sleep 0.2
    kill -TERM "$PID"
    map_end
    ended_with 143
    same in.jsonl out.jsonl
    "$MUSTER" bench -g cpu:1 --rounds 1 --plot picture -- true >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for holds said "1 device"
    sleep 0.5
    kill -TERM "$PID"
    map_end
    ended_with 143
}

@test "standard output that is not read on: INT ends the run, also in a muster that was given children" {
    local lead
    seq 0 99999 >in.txt
    mkfifo pipe
    exec 7<>pipe
    for lead in "" "sleep 1000 >sleeps & echo \$! >before;"; do
        bash -c "$lead"' exec "$MUSTER" map -q -g cpu:2 --fresh in.txt -o - -- cat' >pipe 2>said 3>&- 4>&- 7>&- &
        PID=$!
        wait_for is_merging
        kill -INT "$PID"
        map_end
        ended_with 130
        says "every result is safe"
        rm muster-runs/latest
        [ ! -e before ] || KEPT=$(cat before)
    done
    kill "$KEPT"
    exec 7>&-
}

@test "what takes bytes is an output by any name: process substitution, /dev/stdout, /dev/null" {
    seq 0 9 >in.txt
    map -q -g cpu:2 in.txt -o >(cat >got; touch got.whole) -- cat
    ended_with 0
    wait_for test -e got.whole
    same got in.txt
    "$MUSTER" map -q -g cpu:2 in.txt -o /dev/stdout -- cat | cat >got
    same got in.txt
    map -q -g cpu:2 in.txt -o /dev/null -- cat
    ended_with 0
}

@test "a socket is no output, which is said before anything is run" {
    echo_worker
    seq 0 9 >in.txt
    "$PYTHON" -c 'import socket; socket.socket(socket.AF_UNIX).bind("here.sock")'
    map -q -g cpu:2 in.txt -o here.sock -- ./echo_worker
    ended_with 2
    says "here.sock is a socket; name a file, a pipe, or - for standard output"
    [ ! -e ran ]
}

# A pipe, open as descriptor 7, that takes no byte more.
full_pipe() {
    mkfifo pipe
    exec 7<>pipe
    "$PYTHON" -c 'import os; os.set_blocking(7, False)
while True: os.write(7, b"\n" * 512)' 2>failed || grep -q BlockingIOError failed
    "$PYTHON" -c 'import os; os.set_blocking(7, True)'
}

@test "standard error that nobody reads holds nothing up, and TERM ends what waits for its reader" {
    seq 30 >in.txt
    full_pipe
    "$MUSTER" map -g cpu:2 in.txt -o out.txt -- cat 2>pipe 3>&- 4>&- 7>&- &
    PID=$!
    wait_for test -e out.txt
    same out.txt in.txt
    wait_for holds muster-runs/latest/orchestrator.log efficiency
    kill -TERM "$PID"
    wait_for is_gone "$PID"
    status=0
    wait "$PID" || status=$?
    ended_with 143
}

@test "what was left out while nobody read standard error is said when it is read again" {
    holding_worker
    seq 30 >in.txt
    full_pipe
    "$MUSTER" map -g cpu:1 in.txt -o out.txt -- sh -c 'echo word >&2; exec ./hold' 2>pipe 3>&- 4>&- 7>&- &
    PID=$!
    wait_for test -e holding
    sleep 1.5 # muster waits a second for a reader
    touch go
    wait_for test -e out.txt
    cat pipe >said 7>&- &
    wait_for test -s said # it has the pipe open: now it may be the only reader
    exec 7>&-
    wait
    holds said efficiency
    holds said "bytes are missing here, nobody read them"
}

@test "memory that is too little for a run is status 75, and said" {
    [ -n "${DEAD_FS:-}" ] || skip "a sanitizer takes more memory than the limit"
    seq 5 >in.txt
    run limited bash -c 'ulimit -v 40000; exec "$MUSTER" map -q -g cpu:1 in.txt -o out.txt -- cat'
    ended_with 75
    says "out of memory"
}
