#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What jobs of a graph ask for: CPUs, an order by priority, options of muster's own verbs, an environment, paths of their
# own.
load helpers

graph() { run limited "$MUSTER" graph -q -g cpu:2 "$@"; }
graph_begin() {
    "$MUSTER" graph -q -g cpu:2 "$@" 3>&- 4>&- 2>said &
    PID=$!
}
gate="  gate: {run: 'until [ -e go ]; do sleep 0.02; done'}"
jobs_are() { printf 'defaults: {shell: true}\njobs:\n%s\n' "$1" >g.yaml; }
graph_end() {
    touch go
    wait $PID
}
state_of() { query "SELECT state FROM jobs WHERE name = '$1'"; }

@test "priority: up to 1000 of both signs, and what is beyond is refused before a run begins" {
    printf 'vars: {round: 1..3}\ndefaults: {shell: true, gpus: 0, cpus: %s}\njobs:\n' "$(nproc)" >g.yaml
    # shellcheck disable=SC2016
    printf '  a: {for: round, run: "echo {round} >>order", priority: "%s"}\n' '500 * round - 500' >>g.yaml
    graph g.yaml
    ended_with 0
    [ "$(tr '\n' ' ' <order)" = "3 2 1 " ]
    rm -r muster-runs
    graph g.yaml vars.round=1..4
    ended_with 2
    says "the priority of 'a/r4' is 1500; it has to be within ±1000"
    [ ! -e muster-runs ]
    graph --priority 1001 -- true
    ended_with 2
    says "expected -1000 to 1000, low, normal or high"
}

@test "CPUs: a job has as many threads as it asks for, and why counts them" {
    local n
    n=$(nproc)
    # shellcheck disable=SC2016
    jobs_are "$gate"'
  threads: {run: "echo $OMP_NUM_THREADS >threads", gpus: 0, cpus: 2}
  usual: {run: "echo $OMP_NUM_THREADS >usual", gpus: 0}
  all: {run: "true", gpus: 0, cpus: '"$n"', needs: gate}
  none: {run: "true", gpus: 0, cpus: 5000}'
    sed -i "s/go ]; do sleep 0.02; done'/&, gpus: 0, cpus: $n/" g.yaml
    env -u OMP_NUM_THREADS "$MUSTER" graph -q -g cpu:2 g.yaml 3>&- 4>&- 2>said &
    PID=$!
    wait_for "$MUSTER" why gate
    run "$MUSTER" why usual
    says "ready; needs 1 CPU: 0 of $n CPUs free" "1 job is before it"
    run "$MUSTER" why none
    says "cannot run here: it needs 5000 CPUs; the run has $n CPUs"
    touch go
    wait $PID || true
    [ "$(cat threads)" = 2 ]
    [ "$(cat usual)" = 1 ]
    OMP_NUM_THREADS=7 "$MUSTER" graph -q -g cpu:2 --fresh --only usual g.yaml
    [ "$(cat usual)" = 7 ]
}

@test "CPUs are not counted for jobs with devices: more of them run at once than there are CPUs" {
    local n
    n=$(($(nproc) + 1))
    # shellcheck disable=SC2016
    printf 'defaults: {shell: true}\njobs: {j: {for: {x: 1..%s}, run: %s}}\n' "$n" \
        '"touch here{x}; until [ $(ls | grep -c here) = '$n' ]; do sleep 0.02; done", timeout: 20s' >g.yaml
    run limited "$MUSTER" graph -q -g "sim:${n}xH200:141GiB" g.yaml
    ended_with 0
}

@test "an option that a verb does not have is refused with its place" {
    printf 'jobs:\n  a: {map: {input: in, output: out, worker: cat, worker-per-gpu: 3}}\n' >g.yaml
    graph g.yaml
    ended_with 2
    says "g.yaml:2:50: unknown option '--worker-per-gpu' (did you mean '--workers-per-gpu'?)"
    [ ! -e muster-runs ]
    printf 'jobs:\n  a: {map: {input: in, output: out, worker: cat, detach: true}}\n' >g.yaml
    graph g.yaml
    ended_with 2
    says "g.yaml:2:50: option '--detach' cannot be given to a job: its command would end without the work being done; remove it"
    printf 'jobs:\n  a: {merge: {inputs: in, output: out, dry-run: true}}\n' >g.yaml
    graph g.yaml
    ended_with 2
    says "g.yaml:2:40: option '--dry-run' cannot be given to a job"
    printf 'jobs:\n  a: {launch: {script: [train.py], max-restart: 3}}\n' >g.yaml
    graph --dry-run g.yaml # torchrun's beginnings of names
    ended_with 0
}

@test "what is missing before a job starts is named: what it reads, its folder, devices" {
    seq 3 >here
    jobs_are '
  reads: {run: "touch ran", in: [here, nothing], retries: 2}
  makes: {run: "seq 3 >made"}
  made: {run: "cat made", in: made, needs: makes}
  folder: {run: pwd, shell: false, cwd: nodir}
  devices: {run: "true", gpus: 3}'
    graph --dry-run g.yaml
    says "devices cannot run here: it needs 3 devices; the run has 2 devices" "1 cannot run on these devices"
    graph g.yaml
    ended_with 1
    [ ! -e ran ]
    run "$MUSTER" why reads folder devices
    says "reads: failed 1 of 1, it reads nothing, which is not there, and no job leaves it (a file that the job itself makes belongs in its \`out\`)"
    says "folder: failed 1 of 1, its folder $PWD/nodir: No such file or directory"
    says "devices: cannot run here: it needs 3 devices; the run has 2 devices"
    [ "$(state_of made)" = "done" ]
}

@test "a command that is wrong wherever it runs is not tried again" {
    seq 3 >in
    printf 'defaults: {retries: 3}\njobs:\n  wrong: {map: {input: in, output: out, worker: cat, workers-per-gpu: none}}\n' >g.yaml
    # shellcheck disable=SC2016
    printf '  closed: {run: "exit 126", shell: true}\n  usual: {run: "exit 2", shell: true, retries: 1}\n' >>g.yaml
    graph g.yaml
    ended_with 1
    [ "$(query "SELECT count(*) FROM job_attempts WHERE name = 'wrong'")" -eq 1 ]
    [ "$(query "SELECT count(*) FROM job_attempts WHERE name = 'closed'")" -eq 1 ]
    [ "$(query "SELECT count(*) FROM job_attempts WHERE name = 'usual'")" -eq 2 ]
    run "$MUSTER" why closed
    says "again: the same command"
}

@test "--env and --setup are a part of what a job is" {
    # shellcheck disable=SC2016
    jobs_are '  a: {run: "echo $WORD >>effects"}'
    graph g.yaml
    graph --env WORD=one g.yaml
    ended_with 0
    has_logged "a runs again: its environment changed"
    graph --env WORD=one g.yaml
    WORD=two graph --env WORD g.yaml
    WORD=two graph --env WORD g.yaml
    graph --env WORD=one --setup 'WORD=three' g.yaml
    [ "$(tr '\n' , <effects)" = ",one,two,three," ]
}

@test "an added job may not leave what another leaves, or what is there" {
    jobs_are "$gate"'
  a: {run: "mkdir -p d; echo a >d/a", out: d/a}'
    echo mine >foreign
    graph_begin g.yaml
    wait_for "$MUSTER" why gate
    run "$MUSTER" add --out foreign -- sh -c 'echo 1 >foreign'
    ended_with 69
    says "foreign is there, and no run of this graph has made it"
    run "$MUSTER" add --name b --out "$PWD/x/../d/./a" -- sh -c 'echo 1 >d/a'
    ended_with 69
    says "'a' leaves 'd/a' and 'b' leaves '$PWD/x/../d/./a' (line 4), which is the same file"
    ln -s d linked
    run "$MUSTER" add --name b --out linked/a -- sh -c 'echo 1 >d/a'
    ended_with 69
    says "'a' leaves 'd/a' and 'b' leaves 'linked/a' (line 4), which is the same file"
    run "$MUSTER" add --name b --out d/ -- true
    ended_with 69
    says "'a' leaves 'd/a', which is in 'd/', and that is left by 'b'"
    "$MUSTER" add --name c --out e -- sh -c 'echo 1 >e'
    run "$MUSTER" add --name f --out e/g -- true
    ended_with 69
    says "'f' leaves 'e/g', which is in 'e', and that is left by 'c'"
    "$MUSTER" add --name h --out linked/h -- touch linked/h
    run "$MUSTER" add --name i --out d/h -- true
    ended_with 69
    says "'h' leaves 'linked/h' and 'i' leaves 'd/h', which is the same file"
    graph_end
    [ "$(cat foreign)" = mine ]
    [ "$(cat e)" = 1 ]
    [ "$(query "SELECT count(*) FROM jobs WHERE state = 'done'")" -eq 4 ]
}

@test "two jobs may not leave one file by the link of a folder, and an input may have such another name" {
    mkdir -p a/sub far
    ln -s a b
    ln -s "$PWD/far" a/out
    ln -s loop loop
    ln -s nowhere dangling
    refused() {
        jobs_are "  x: {run: 'true', out: $1}
  y: {run: 'true', out: $2}"
        graph g.yaml
        ended_with 2
        says "'x' leaves '$1' and 'y' leaves '$2' (lines 3 and 4), which is the same file"
    }
    refused a/x b/x
    refused a/x "$PWD/b/./x"
    refused a/sub/new/x b/sub/new/x
    refused far/x b/out/x
    refused x b/out/../x
    refused a/x no/../b/x
    refused a/sub/ b/sub/
    refused b/sub/x a/sub/x
    refused a/ b/
    for folder in a/sub/ b/sub/; do
        jobs_are "  x: {run: 'true', out: $folder}
  y: {run: 'true', out: b/sub/x}"
        graph g.yaml
        ended_with 2
        says "'y' leaves 'b/sub/x', which is in '$folder', and that is left by 'x'"
    done
    jobs_are "  x: {run: 'true', out: b/}
  y: {run: 'true', out: b/x}"
    graph g.yaml
    ended_with 2
    says "'y' leaves 'b/x', which is in 'b/', and that is left by 'x'"
    jobs_are "  x: {run: 'echo 1 >a/x', out: a/x}
  loops: {run: 'true', out: loop/x}
  y: {run: 'cat b/x', in: b/x, needs: x}
  z: {run: 'cat b/late', in: b/late}
  late: {run: 'until [ -e muster-runs/latest/nothing ]; do sleep 0.02; done; echo 1 >a/late', out: a/late}"
    graph --dry-run g.yaml
    ended_with 0
    says_not "is not there"
    "$MUSTER" graph -q -g cpu:2 g.yaml >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for eval '"$MUSTER" why z 2>/dev/null | grep -q failed'
    wait_for eval '"$MUSTER" why y 2>/dev/null | grep -q done'
    run "$MUSTER" why z y
    says "it reads b/late, which is not there: late leaves it and is not done; name that under \`needs\`" "y: done"
    "$MUSTER" stop --now
    wait $PID || true
}

@test "words that are wrong leave a run as it was: resume does not repeat them" {
    jobs_are '  a: {run: "[ -e ok ]"}
  b: {run: "true", needs: a}'
    graph g.yaml
    ended_with 1
    graph --only nothing g.yaml
    ended_with 2
    run "$MUSTER" status
    says "state     failed"
    run "$MUSTER" why b
    says "waits for a: failed 1 of 1"
    touch ok
    run limited "$MUSTER" resume -q
    ended_with 0
    graph --only nothing g.yaml
    ended_with 2
    run "$MUSTER" status
    says "state     finished"
}
