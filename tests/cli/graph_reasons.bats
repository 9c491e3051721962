#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What a graph says of a job that failed or cannot run: the reason, whole, and what to type.
load helpers

graph() { run limited "$MUSTER" graph -q -g cpu:2 "$@"; }
why() { run "$MUSTER" why "$@"; }
gate_runs() { "$MUSTER" why gate 2>/dev/null | grep -q runs; }

@test "a second try of what a map set aside says again which items failed, and with which words" {
    seq 1 12 >in
    worker w.sh <<'END'
#!/bin/sh
while read -r x; do
    case $x in
    3 | 5 | 7 | 9)
        [ -e "mended$x" ] || { echo "no such number as $x, $(seq -s ' ' 100 200)" >&2; exit 4; } ;;
    esac
    echo "r$x"
done
END
    cat >g.yaml <<'END'
jobs:
  items: {map: {worker: ./w.sh, input: in, output: out, retries: 0}, retries: 1, gpus: 1}
END
    touch mended9
    graph g.yaml
    ended_with 1
    why items
    says "failed 2 of 2, status 1: 3 items failed, with reasons in out.failed.jsonl, such as in line 3: killed its worker (status 4) on cpu_0: no such number as 3, 100 101"
    [[ $output =~ \ 1[0-9][0-9]\ \.\.\.($'\n'|$) ]] # cut behind a word
    [[ $output != *"single result"* ]]
    [ "$(wc -l <out)" -eq 9 ]
    touch mended7
    rm mended9 # it has its result already
    graph g.yaml
    ended_with 1
    why items
    says "2 items failed"
    [ "$(tr '\n' ' ' <out)" = "r1 r2 r4 r6 r7 r8 r9 r10 r11 r12 " ]
}

@test "why names the jobs at which the chains before a job stand, and says when it can begin" {
    cat >g.yaml <<'END'
defaults: {shell: true, gpus: 0}
jobs:
  gate: {run: 'touch begun; until [ -e go ]; do sleep 0.02; done'}
  a: {run: 'true', needs: gate}
  b: {run: 'true', needs: a}
  c: {run: 'true', needs: [a, gate]}
  d: {run: 'true', needs: [b, c]}
END
    touch go
    graph g.yaml
    ended_with 0
    query "update jobs set started_ms = ended_ms - 1000 * case name when 'gate' then 7200 when 'b' then 3600 else 60 end"
    rm go begun
    "$MUSTER" graph -q g.yaml --redo gate 3>&- 4>&- 2>said &
    PID=$!
    wait_for gate_runs
    why a b c d
    says "a: waits for gate (it runs); begins in about 1 h 59 m at the earliest" \
        "b: waits for a; first for gate (it runs); begins in about 2 h 00 m at the earliest" \
        "c: waits for gate (it runs), a; begins in about 2 h 00 m at the earliest" \
        "d: waits for b, c; first for gate (it runs); begins in about 3 h 00 m at the earliest"
    "$MUSTER" hold a
    why b d
    says "b: waits for a (it is held); first for gate (it runs)" "d: waits for b, c; first for gate (it runs), a (it is held)"
    says_not "begins in"
    touch go
    wait $PID || true
}

@test "why names the needed job that was cancelled, is held or cannot run, and what lets it run" {
    cat >g.yaml <<'END'
defaults: {shell: true, gpus: 0}
jobs:
  gate: {run: 'until [ -e go ]; do sleep 0.02; done'}
  a: {run: 'true', needs: gate}
  b: {run: 'true', needs: a}
  c: {run: 'true', needs: b}
  large: {run: 'true', cpus: 5000}
  d: {run: 'true', needs: large}
  h: {run: 'true', needs: gate}
  e: {run: 'true', needs: h}
END
    "$MUSTER" graph -q g.yaml 3>&- 4>&- 2>said &
    PID=$!
    wait_for gate_runs
    "$MUSTER" cancel a
    "$MUSTER" hold h
    why c d e
    says "c: waits for a: cancelled; muster retry a lets it run" "e: waits for h (it is held)" \
        "d: waits for large: cannot run here: it needs 5000 CPUs; the run has "
    touch go
    wait $PID || true
    why c
    says "c: waits for a: cancelled; muster retry a, then the same command, lets it run"
    "$MUSTER" retry a
    "$MUSTER" cancel h
    why b e
    says "b: waits for a: it runs when the graph goes on" \
        "e: waits for h: cancelled; muster retry h, then the same command, lets it run"
    graph g.yaml
    ended_with 1
    why c h
    says "c: done" "h: cancelled; muster retry h"
}

@test "a graph has jobs that failed, and no items that were set aside" {
    printf '%s\n' 'jobs:' '  a: {for: [k], run: "test {k} != 2"}' 'vars: {k: 1..4}' >g.yaml
    graph g.yaml
    ended_with 1
    run "$MUSTER" status
    says "progress  3 of 4 jobs (75.0 %), 1 failed"
    [ "$("$MUSTER" status --watch)" = "$(basename "$(run_dir)") failed: 3 of 4 jobs (75.0 %), 1 failed" ]
    run "$MUSTER" ls
    says " 3/4 (1 failed) "
}

@test "why says of a job that was cut off that it had begun, whether muster was killed or interrupted" {
    local signal
    cat >g.yaml <<'END'
jobs:
  a: {for: [k], run: [sh, -c, 'touch begun; [ -e go ] || sleep 1000'], gpus: 1}
vars: {k: 1..2}
END
    has_row() { [ "$(query "SELECT count(*) FROM jobs" 2>/dev/null)" = 1 ]; }
    for signal in KILL INT; do
        rm -rf begun muster-runs
        "$MUSTER" graph -q -g cpu:1 g.yaml 3>&- 4>&- 2>said &
        PID=$!
        wait_for test -e begun
        wait_for has_row
        kill -$signal $PID
        wait $PID || true
        wait_for nobody_is_left
        why a/k1
        ended_with 0
        if [ $signal = KILL ]; then
            says "a/k1: begun, attempt 1, and not done when the run was interrupted; it runs again when the graph goes on"
            why a/k2
            ended_with 2
            says "it did not begin, or there is none"
        else
            says "a/k1: ended with the run while it ran; it runs again when the graph goes on"
            why a/k2
            says "a/k2: ready; it runs when the graph goes on"
        fi
    done
    touch go
    graph g.yaml
    ended_with 0
    [ "$(query "SELECT group_concat(state) FROM jobs")" = done,done ]
}

@test "of a graph whose muster was killed, status says what failed, and not what was ready" {
    cat >g.yaml <<'END'
jobs:
  bad: {run: 'false', gpus: 0}
  long: {for: [k], run: [sh, -c, 'touch begun; sleep 1000'], gpus: 1}
vars: {k: 1..3}
END
    "$MUSTER" graph -q -g cpu:1 g.yaml 3>&- 4>&- 2>said &
    PID=$!
    tells_of_all() { "$MUSTER" status 2>/dev/null | grep -q "bad: failed" && "$MUSTER" status | grep -q "long/k2: ready; needs 1 device"; }
    wait_for tells_of_all
    kill -KILL $PID
    wait $PID || true
    wait_for nobody_is_left
    run "$MUSTER" status
    says "state     interrupted" "bad: failed 1 of 1, status 1" "long 0/3"
    [[ $output != *ready* && $output != *"about"* ]]
    [ "$(jq -c '[.waiting[].state] | unique' muster-runs/latest/jobs.json)" = '["failed","ready"]' ]
}

@test "what a job reads and makes itself, or what a job leaves that it does not need" {
    mkdir pool
    cat >g.yaml <<'END'
defaults: {shell: true, gpus: 0}
jobs:
  state: {run: 'echo more >>state', in: state, out: state}
  early: {run: 'touch ran', in: late}
  late: {run: 'sleep 0.5; echo >late', out: late}
  above: {run: 'until [ -e late ]; do sleep 0.02; done; cat pool/x', in: pool, needs: fills}
  fills: {run: 'echo x >pool/x', out: pool/x}
END
    graph -j 4 g.yaml
    ended_with 1
    why early above
    says "early: failed 1 of 1, it reads late, which is not there: late leaves it and is not done; name that under \`needs\`"
    says "above: done"
    [[ $output != *"log:"* ]] # it has none
    [ ! -e ran ]
    graph g.yaml
    ended_with 0
    [ -e ran ]
    [ "$(cat state)" = more ]
    echo other >>state
    run limited "$MUSTER" graph -g cpu:2 g.yaml
    ended_with 0
    says "state runs again: $PWD/state, which it left, changed"
}

@test "a dry run of a graph that is going on ends as the real one would" {
    printf 'jobs: {gate: {run: [sh, -c, "until [ -e go ]; do sleep 0.02; done"]}}\n' >g.yaml
    "$MUSTER" graph -q -g cpu:2 g.yaml 3>&- 4>&- 2>said &
    PID=$!
    wait_for gate_runs
    run "$MUSTER" resume --dry-run
    ended_with 69
    says "this graph is going on as run"
    graph --dry-run g.yaml
    ended_with 69
    says "this graph is going on as run"
    graph --fresh --dry-run g.yaml # another run
    ended_with 0
    touch go
    wait $PID
}

@test "of a job that is tried again, what its last attempt printed is printed, and a line says that it begins" {
    worker job <<'END'
#!/bin/sh
echo "begins $1"
echo "words $1" >&2
[ -e "whole$1" ] || { touch "whole$1"; kill -TERM $$; }
echo "ends $1"
[ "$1" != bad ] || exit 3
END
    run --separate-stderr limited "$MUSTER" graph -g cpu:1 --results res -- ./job ::: a bad
    ended_with 1
    [ "$output" = "$(printf '%s\n' 'begins a' 'ends a' 'begins bad' 'ends bad')" ] ||
        [ "$output" = "$(printf '%s\n' 'begins bad' 'ends bad' 'begins a' 'ends a')" ]
    [[ $stderr == *"job/1: attempt 2 starts on cpu 0; the one before ended: SIGTERM, as of a job that is preempted: words a"* ]]
    [ "$(cat res/1/a/stdout)" = "$(printf 'begins a\nends a')" ]
    [ "$(cat res/1/a/stderr)" = "words a" ]
    limited "$MUSTER" graph -q -g cpu:1 --results quiet -- true ::: a
    [ -f quiet/1/a/stdout ] && [ -f quiet/1/a/stderr ]
    rm whole*
    run --separate-stderr limited "$MUSTER" graph -q -g cpu:1 -- ./job ::: a
    ended_with 0
    [ "$output" = "$(printf 'begins a\nends a')" ]
    [ "$(grep -c "begins a" muster-runs/latest/logs/job+1_stdout.log)" = 2 ]
    holds muster-runs/latest/logs/job+1_stdout.log "attempt 2 of job/1 <=="
    rm whole*
    printf 'jobs: {x: {run: ./job f, gpus: 1}}\n' >g.yaml
    run limited "$MUSTER" graph -g cpu:1 g.yaml
    ended_with 0
    says "x: attempt 2 starts on cpu 0; the one before ended: SIGTERM"
}

@test "options of jobs of a command line are refused for a file, with what is written instead" {
    printf 'jobs: {one: {run: "true"}}\n' >g.yaml
    graph --results res g.yaml
    ended_with 2
    says "--results is for jobs of a command line, and a file has none"
    graph --retries 2 g.yaml
    ended_with 2
    says "--retries is for jobs of a command line; for those of a file: defaults.retries=N"
    graph --shell g.yaml
    ended_with 2
    [ ! -e muster-runs ]
    MUSTER_RETRIES=2 MUSTER_RESULTS=res graph g.yaml defaults.retries=3 # a variable is for all graphs
    ended_with 0
    [ ! -e res ]
    run "$MUSTER" resume --dry-run
    ended_with 0
}

@test "why of a job that --adopt took, and of one whose hosts the run has not" {
    touch there
    printf 'jobs:\n  a: {run: "touch there", out: there}\n  b: {run: "true", gpus: 0, hosts: elsewhere}\n' >g.yaml
    graph --adopt g.yaml
    ended_with 1
    why a b
    says "a: done by files that were there, which --adopt took" \
        "b: cannot run here: it needs 1 CPU on a host of elsewhere; the run has local"
}

@test "why names -j, and a dry run knows added, held and cancelled jobs" {
    cat >g.yaml <<'END'
jobs:
  gate: {run: [sh, -c, "until [ -e go ]; do sleep 0.02; done"]}
  a: {run: "true", needs: gate}
  b: {run: "true"}
END
    "$MUSTER" graph -q -g cpu:2 -j 1 g.yaml 3>&- 4>&- 2>said &
    PID=$!
    wait_for gate_runs
    "$MUSTER" cancel b
    "$MUSTER" add --name more -- '{absent}'
    why more
    says "more: ready; needs 1 device: cpu 0 has 1 job, cpu 1 is free; 1 job runs, and -j allows no more"
    [[ $output != *"next in"* ]]
    "$MUSTER" stop --no-wait
    touch go
    wait $PID || true
    run "$MUSTER" resume --dry-run
    ended_with 0
    says " more" "2 of 4 jobs would run, in " "; 1 is held or cancelled"
    graph g.yaml
    ended_with 1
    why more b
    says "more: failed 1 of 1, {absent} could not be executed: No such file or directory" "b: cancelled"
}

@test "why of a run that has ended takes stages and patterns, as during the run" {
    cat >g.yaml <<'END'
defaults: {shell: true, gpus: 0}
vars: {n: 1..3}
jobs:
  a: {for: [n], run: '[ {n} -ne 2 ] || exit 7'}
  b: {run: 'true', needs: a}
  c: {run: 'true'}
END
    graph g.yaml
    ended_with 1
    why a
    ended_with 0
    [ "$(grep -c 'a/' <<<"$output")" -ge 3 ]
    says "a/n2: failed 1 of 1, status 7" "a/n1: done, in " "a/n3: done, in "
    says_not "b: " "c: "
    why 'a/*'
    ended_with 0
    says "a/n2: failed" "a/n1: done" "a/n3: done"
    why '*'
    ended_with 0
    says "a/n2: failed" "a/n1: done" "b: waits for a/n2" "c: done"
    [[ $output == "a/n2: failed"* ]] # what is not done is first
    why c b
    [[ $output == "c: done"*"b: waits for a/n2"* ]]
    why nosuch
    ended_with 2
    says "there is no job 'nosuch'"
    why 'nosuch*' c
    ended_with 2
    why ''
    ended_with 2
    says "'' names no job"
}

@test "a job that needs fewer jobs than before says so when it runs again" {
    printf 'vars: {r: 1..2}\njobs: {a: {for: r, run: "true"}, b: {run: "true", needs: a}}\n' >g.yaml
    run limited "$MUSTER" graph -q -g cpu:1 g.yaml
    ended_with 0
    run limited "$MUSTER" graph -g cpu:1 g.yaml vars.r=1
    ended_with 0
    says "b runs again: it needs other jobs than it did, or one of them ran again"
    says_not "a/r1 runs again"
}
