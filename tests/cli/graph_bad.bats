#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What goes wrong around a graph: two that begin at once, a run's folder that is not as it was, orders that are cut or
# make no sense, a signal while files are read, kills between jobs, a full disk.
load helpers

graph() { run --separate-stderr limited "$MUSTER" graph -q -g cpu:2 "$@"; }
graph_begin() {
    "$MUSTER" graph -q -g cpu:2 "$@" 3>&- 4>&- 2>said &
    PID=$!
}
gate="  gate: {run: 'until [ -e go ]; do sleep 0.02; done'}"
jobs_are() { printf 'defaults: {shell: true}\njobs:\n%s\n' "$1" >g.yaml; }

@test "of two that begin the same graph at once, one runs" {
    jobs_are "  a: {run: 'sleep 0.3; echo a >>effects; echo a >a', out: a}"
    for _ in 1 2 3; do
        rm -rf muster-runs a effects
        "$MUSTER" graph -q -g cpu:2 g.yaml 3>&- 4>&- 2>said.1 &
        local one=$! rc=0 other=0
        "$MUSTER" graph -q -g cpu:2 g.yaml 2>said.2 || other=$?
        wait $one || rc=$?
        [ $((rc + other)) -eq 69 ]
        # Which of the two is seen first, the run or its claim to the output, is a matter of milliseconds.
        grep -qE "this graph is going on as run|is at work on the output a; wait for it" said.1 said.2
        [ "$(cat effects)" = a ]
        [ "$(find muster-runs -mindepth 1 -type d -name '*-graph*' | wc -l)" -eq 1 ]
    done
}

@test "a kill right after a job has begun leaves files that are known as its own" {
    # shellcheck disable=SC2016
    jobs_are '  a: {run: "echo half >a; kill -KILL $(sed -n \"s/^pid //p\" $MUSTER_RUN_DIR/lock); sleep 60", out: a}'
    graph g.yaml
    ended_with 137
    wait_for nobody_is_left
    [ "$(query "SELECT name FROM jobs")" = a ]
    # --adopt is about files of others, not about half of our own.
    jobs_are "  a: {run: 'echo whole >a', out: a}"
    graph --adopt g.yaml
    ended_with 0
    [ "$(cat a)" = whole ]
}

@test "a run whose folder is not as it was is told of, and nothing is done again" {
    jobs_are "  a: {run: 'echo a >>effects'}"
    graph g.yaml
    ended_with 0
    local dir
    dir=$(run_dir)
    rm -rf "$dir/logs"
    ln -s /tmp "$dir/logs"
    graph g.yaml
    ended_with 65
    [[ $stderr == *"the last run of this graph, ${dir##*/} (--fresh begins a new one)"*"logs is a symbolic link"* ]]
    rm "$dir/logs"
    mkfifo "$dir/added.jsonl"
    graph g.yaml
    ended_with 65
    [[ $stderr == *"added.jsonl is a FIFO"* ]]
    [ "$(wc -l <effects)" -eq 1 ]
    graph --fresh g.yaml
    ended_with 0
    [ "$(wc -l <effects)" -eq 2 ]
}

@test "a second signal does not wait until large files are read" {
    jobs_are "  a: {run: 'truncate -s 400G large', out: large}"
    graph_begin g.yaml
    wait_for test -s large
    sleep 0.5
    kill -INT $PID
    sleep 0.5
    kill -INT $PID
    wait_for is_gone $PID
    local rc=0
    wait $PID || rc=$?
    [ $rc -eq 130 ]
    [ "$(query "SELECT count(*) FROM jobs WHERE state = 'done'")" -eq 0 ]
}

@test "a signal ends a run that reads files before its first job, or waits for its reader" {
    truncate -s 400G large
    jobs_are "  a: {run: 'true', out: large}"
    graph_begin --adopt g.yaml
    wait_for test -e muster-runs/latest/run.db-wal
    sleep 0.5
    kill -INT $PID
    wait_for is_gone $PID
    local rc=0
    wait $PID || rc=$?
    [ $rc -eq 130 ]
    rm -r muster-runs
    mkfifo unread
    sleep 60 <unread 3>&- 4>&- &
    local reader=$!
    graph_begin -- sh -c 'seq 100000; touch printed' ::: 1 >unread
    wait_for test -e printed
    sleep 0.5
    kill -TERM $PID
    wait_for is_gone $PID
    wait $PID || rc=$?
    kill $reader
    [ $rc -eq 143 ]
    [ "$(query "SELECT state FROM jobs")" = "done" ]
}

@test "added jobs: kept by their names, behind a line that was cut, or refused" {
    jobs_are "$gate"
    graph_begin g.yaml
    wait_for "$MUSTER" why gate
    "$MUSTER" add -- sh -c 'echo 1 >>added'
    printf '{"argv":["to' >>muster-runs/latest/added.jsonl
    "$MUSTER" add --share 50 -- sh -c 'echo 2 >>added'
    run "$MUSTER" add --name $'two\nlines' -- true
    ended_with 2
    says "a name has 1 to 200 bytes, and no control characters"
    run "$MUSTER" add --needs nobody -- true
    ended_with 2
    says "there is no job 'nobody'"
    run "$MUSTER" add --name gate -- true
    ended_with 69
    says "there is a job gate already"
    run "$MUSTER" release gate
    ended_with 69
    says "gate: it is not held"
    mv muster-runs/latest/added.jsonl kept
    mkdir muster-runs/latest/added.jsonl
    run "$MUSTER" add -- sh -c 'echo 3 >>added'
    ended_with 69
    says "added.jsonl is a folder"
    rmdir muster-runs/latest/added.jsonl
    mv kept muster-runs/latest/added.jsonl
    wait_for has_lines added 2
    run "$MUSTER" status
    says "of 3 jobs"
    touch go
    wait $PID
    graph g.yaml
    ended_with 0
    has_logged 'a job that was added once is left out: {"argv":["to'
    [ "$(sort added | tr -d '\n')" = 12 ]
    [ "$(query "SELECT count(*) FROM jobs")" -eq 3 ]
}

# The file of added jobs is larger than run.db, so that only what is added meets the limit.
@test "an added job of which only a part could be written is in no later session" {
    local long size
    long=$(printf 'x%.0s' {1..60000})
    jobs_are "$gate"
    graph_begin g.yaml
    wait_for "$MUSTER" why gate
    for _ in {1..8}; do
        "$MUSTER" add -- sh -c 'echo 1 >>added' "$long"
    done
    wait_for has_lines added 8
    size=$(stat -c %s muster-runs/latest/added.jsonl)
    [ "$size" -gt "$(stat -c %s muster-runs/latest/run.db)" ]
    prlimit --pid $PID --fsize=$((size + 1000)):
    run "$MUSTER" add -- sh -c 'echo 2 >>added' "$long"
    ended_with 69
    says "keep the job in"
    [ "$(stat -c %s muster-runs/latest/added.jsonl)" -eq "$size" ]
    prlimit --pid $PID --fsize=unlimited:
    "$MUSTER" add -- sh -c 'echo 3 >>added'
    touch go
    wait $PID
    [ "$(sort -u added | tr -d '\n')" = 13 ]
    graph g.yaml
    ended_with 0
    ! has_logged 'a job that was added once is left out'
}

nothing_ordered() { ! ls "$1"/order-* >/dev/null 2>&1; }

@test "orders that make no sense, and many at once" {
    jobs_are "$gate"
    graph_begin g.yaml
    wait_for "$MUSTER" why gate
    local dir order n=0
    dir=$(run_dir)
    for order in 'add' 'add {' 'add []' 'add {"argv":[]}' 'add {"argv":["true"],"gpus":99999999999}' 'add {"argv":["x"],"name":""}' \
        'add {"argv":["x"],"share":1001}' 'add {"argv":["x"],"priority":1001}' 'add {"argv":["x"],"priority":-4294967295}' \
        'why' 'hold [' 'fly gate' $'\377\376 \001' "$(head -c 60000 /dev/zero | tr '\0' x)"; do
        printf '%s\n' "$order" >"$dir/order-0000-$((++n))"
    done
    for n in $(seq 40); do printf 'why gate\n' >"$dir/order-0001-$n"; done
    wait_for nothing_ordered "$dir"
    run "$MUSTER" why gate
    says "gate: runs since"
    touch go
    wait $PID
    [ "$(query "SELECT count(*) FROM jobs")" -eq 1 ]
}

@test "a job that failed need not write again what it had written" {
    jobs_are "  a: {run: '[ -e one ] || echo 1 >one; [ ! -e good ] || echo 2 >two', out: [one, two]}"
    graph g.yaml
    ended_with 1
    [[ $stderr == *"it did not leave two"* ]]
    touch good
    sleep 0.1 # longer than clocks of file systems are behind
    graph g.yaml
    ended_with 0
    graph --redo a g.yaml
    ended_with 1
    [[ $stderr == *"it did not write one, which is as it was before"* ]]
}

@test "what a job of a command line prints is printed whole, however much it is" {
    graph --log-cap 64KiB -- sh -c 'seq 200000; seq 200000 >&2' ::: 1
    ended_with 0
    [ "$output" = "$(seq 200000)" ]
    [ "$stderr" = "$(seq 200000)" ]
}

@test "what a job of a command line prints is not lost without a word" {
    export -f limited
    run --separate-stderr bash -c 'limited "$MUSTER" graph -q -g cpu:2 -- echo {} ::: a b >/dev/full'
    ended_with 75
    [[ $stderr == *"stdout, which was to have $(run_dir)/logs/"*"_stdout.log: write: No space left on device"* ]]
    mkdir -p out/1/a/stdout
    graph --results out -- sh -c 'echo {}' ::: a b
    ended_with 1
    [ "$output" = b ]
    [[ $stderr == *"job/1 failed for good: what job/1 printed could not be kept: "*"stdout is a folder"* ]]
    local rc=0
    (ulimit -f 1500 && limited "$MUSTER" graph -q -g cpu:2 -- seq {} ::: 300000 >printed 2>said) || rc=$?
    [ $rc -eq 75 ]
    holds said "what job/1 printed could not be kept: write: the limit on the size of files is reached (ulimit -f)"
    limited "$MUSTER" graph -q -g cpu:2 -- seq {} ::: 300000 >printed # the same run goes on
    seq 300000 | cmp - printed
}

@test "a reader that stops holds up nothing but what is printed, and then gets all of it, job by job" {
    mkfifo out
    { until [ -e go ]; do sleep 0.1; done; cat; } <out >read 3>&- 4>&- &
    local reader=$!
    graph_begin -g cpu:2 -- sh -c 'seq 30000; echo {} >>ran' ::: 1 2 3 4 5 6 >out
    wait_for has_lines ran 6
    kill -0 $PID
    touch go
    wait $PID
    wait $reader
    [ "$(cat read)" = "$(for job in 1 2 3 4 5 6; do seq 30000; done)" ]
}

@test "--on-finish gets the summary, however the run ended" {
    jobs_are "  a: {run: 'sleep 60'}
  b: {run: 'true', needs: a}"
    graph --time-limit 300ms --on-finish 'cat >summary' g.yaml
    ended_with 124
    holds summary '"status":124,"jobs":2,"done":0,"failed":0,"blocked":0,"cancelled":0,"not_run":2,"wall_ms":'
    jobs_are "  a: {run: 'true'}"
    graph --on-finish 'cat >summary' g.yaml
    ended_with 0
    holds summary '"status":0,"jobs":1,"done":1,'
    [ "$("$PYTHON" -c 'import json; print(json.load(open("summary"))["run"])')" = "$(run_dir)" ]
}

answers_why() {
    run "$MUSTER" why '*'
    [ "$status" -eq 0 ] && [[ $output == *"gate: runs"* ]]
}

@test "why of thousands of jobs is cut, and why after a kill is not of an earlier session" {
    cat >g.yaml <<'END'
defaults: {shell: true}
vars: {n: 1..8000}
jobs:
  gate: {run: '[ -e good ] && until [ -e go ]; do sleep 0.02; done'}
  long: {for: [n], run: 'true', needs: gate}
END
    graph g.yaml
    ended_with 1
    touch good
    graph_begin g.yaml
    wait_for answers_why
    says "and more"
    kill -KILL $PID
    wait $PID || true
    wait_for nobody_is_left
    run "$MUSTER" why long/1
    says_not "waits for gate"
}

@test "what needs a job without files runs again after it, also if that was interrupted" {
    jobs_are "  a: {run: 'echo a >>effects'}
  b: {run: '[ ! -e hangs ] || {{ touch hung; exec sleep 60; }}; echo b >>effects', needs: a}"
    graph g.yaml
    ended_with 0
    touch hangs
    graph_begin g.yaml --from a
    wait_for test -e hung
    kill -KILL $PID
    wait $PID || true
    wait_for nobody_is_left
    rm hangs
    graph g.yaml
    ended_with 0
    [ "$(tr -d '\n' <effects)" = abab ]
}

@test "a full disk: a sentence, 75, and the same command when there is room" {
    needs_mounts
    cat >g.yaml <<'END'
defaults: {shell: true}
vars: {n: 1..120}
jobs:
  job: {for: [n], run: 'echo {n} >>effects; echo {n} >out{n}; echo printed', out: "out{n}"}
END
    cat >in_space <<'END'
mkdir r && mount -t tmpfs -o size=180k small r || exit 9
"$MUSTER" graph -q -g cpu:2 --runs-dir r g.yaml
echo "first $?"
mount -o remount,size=64m r
"$MUSTER" graph -q -g cpu:2 --runs-dir r g.yaml
echo "then $?"
END
    run limited unshare -m sh in_space
    says "no space is left on this disk; free some" "first 75" "then 0"
    [ "$(sort -u effects | wc -l)" -eq 120 ]
    # A job runs again if its row could not be kept: no more than two ran at that time, and two began.
    [ "$(wc -l <effects)" -le 124 ]
}

@test "a graph whose folder is moved while it goes on says where that is" {
    printf 'defaults: {shell: true}\njobs: {a: {run: "touch begun; until [ -e go ]; do sleep 0.02; done"}}\n' >g.yaml
    graph_begin g.yaml
    wait_for test -e begun
    mv muster-runs elsewhere
    touch go
    wait $PID || true
    output=$(cat said)
    at=$PWD/elsewhere/$(basename "$(readlink elsewhere/latest)")
    says "the run's folder was moved to $at while it went on; go on with: muster resume $at"
    run limited "$MUSTER" resume -q "$at"
    ended_with 0
}
