#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Jobs that need each other: files, failures, what is done again, and what is asked while a graph runs.
load helpers

graph() { run --separate-stderr limited "$MUSTER" graph -q -g cpu:2 "$@"; }
graph_on_gpus() {
    export MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=$1 MUSTER_SYSFS=/nowhere
    run --separate-stderr limited "$MUSTER" graph -q -g all g.yaml
}

# The lines of a file that jobs append to, in order, on one line.
effects() { sort "${1:-effects}" | tr '\n' ' '; }

# Two stages of three jobs, with what they leave.
two_stages() {
    cat >g.yaml <<'END'
vars: {n: [1, 2, 3]}
defaults: {shell: true}
jobs:
  make:
    for: [n]
    run: 'echo make{n} >>effects; echo {n} >made{n}; [ ! -e fail{n} ]'
    out: made{n}
  use:
    for: [n]
    run: 'echo use{n} >>effects; tr 123 abc <made{n} >used{n}'
    needs: make
    out: used{n}
END
}

@test "jobs run when what they need is done, and once" {
    two_stages
    graph g.yaml
    ended_with 0
    [ "$(effects)" = "make1 make2 make3 use1 use2 use3 " ]
    [ "$(cat used1 used2 used3 | tr -d '\n')" = abc ]
    graph g.yaml
    ended_with 0
    [ "$(effects)" = "make1 make2 make3 use1 use2 use3 " ]
}

@test "a failure holds up its followers alone, and the same command goes on" {
    two_stages
    touch fail2
    graph g.yaml
    ended_with 1
    [[ $stderr == *"make/"*2" failed for good: status 1"* ]]
    [ "$(effects)" = "make1 make2 make3 use1 use3 " ]
    run "$MUSTER" status
    says "make 2/3 (1 failed)" "use 2/3 (1 blocked)"
    rm fail2
    graph g.yaml
    ended_with 0
    [ "$(effects)" = "make1 make2 make2 make3 use1 use2 use3 " ]
}

@test "status 0 without the files is a failure, and a file of before does not count" {
    cat >g.yaml <<'END'
jobs:
  lies: {run: "true", out: left}
END
    graph g.yaml
    ended_with 1
    [[ $stderr == *"lies failed for good: it ended with status 0, but it did not leave left"* ]]
    cat >h.yaml <<'END'
jobs:
  again: {run: [sh, -c, "[ -e kept ] || echo x >kept"], out: kept}
END
    graph h.yaml
    ended_with 0
    sleep 0.1 # more than clocks of files may be behind
    graph h.yaml --redo again
    ended_with 1
    [[ $stderr == *"it did not write kept, which is as it was before"* ]]
}

@test "proofs: members of JSON, lines, entries of a folder" {
    cat >g.yaml <<'END'
jobs:
  json: {run: [sh, -c, "echo '{{\"n\": 1}}' >r.json"], out: {path: r.json, json-has: num_examples}}
  lines: {run: [sh, -c, "seq 3 >l"], out: {path: l, count: 4}}
  folder: {run: [sh, -c, "mkdir -p d; touch d/a.x d/b.y"], out: {path: d/, count: 1, pattern: "*.x"}}
END
    graph g.yaml
    ended_with 1
    [[ $stderr == *'r.json has no member "num_examples"'* ]]
    [[ $stderr == *"l has 3 lines, and was to have 4"* ]]
    run "$MUSTER" why folder
    says "folder: done"
}

@test "what changed is done again, and muster says why" {
    two_stages
    run --separate-stderr limited "$MUSTER" graph -g cpu:2 g.yaml
    ended_with 0
    : >effects
    rm used2
    echo other >made3
    run --separate-stderr limited "$MUSTER" graph -g cpu:2 g.yaml
    ended_with 0
    [[ $stderr == *"runs again: $PWD/used2, which it left, is gone"* ]]
    [[ $stderr == *"runs again: $PWD/made3, which it left, changed"* ]]
    [[ $stderr == *"runs again: it needs make/"*", which runs again"* ]]
    [ "$(effects)" = "make3 use2 use3 " ]
    : >effects
    sed -i 's/tr 123 abc/tr 123 xyz/' g.yaml
    run --separate-stderr limited "$MUSTER" graph -g cpu:2 g.yaml
    ended_with 0
    [[ $stderr == *"its command changed"* ]]
    [ "$(effects)" = "use1 use2 use3 " ]
    [ "$(cat used1 used2 used3 | tr -d '\n')" = xyz ]
    : >effects
    touch made1
    graph g.yaml
    ended_with 0
    [ ! -s effects ]
}

@test "an input that changed makes its job run again" {
    echo 1 >in
    cat >g.yaml <<'END'
jobs:
  reads: {run: [sh, -c, "cat in >out"], in: in, out: out}
END
    graph g.yaml
    ended_with 0
    echo 2 >in
    graph g.yaml
    ended_with 0
    [[ $stderr == *"reads runs again: $PWD/in, which it reads, changed"* ]] || [ -z "$stderr" ]
    [ "$(cat out)" = 2 ]
}

@test "files of others at the places of outputs are refused, adopted or written over" {
    two_stages
    echo mine >made1
    graph g.yaml
    ended_with 2
    [[ $stderr == *"made1 is there, and no run of this graph has made it; --adopt"* ]]
    [ "$(cat made1)" = mine ]
    [ -z "$(ls -d muster-runs/2* 2>/dev/null)" ]
    graph --adopt g.yaml
    ended_with 0
    [ "$(cat made1)" = mine ]
    [ "$(effects)" = "make2 make3 use1 use2 use3 " ]
    mkdir other && cp g.yaml other && cd other
    echo mine >made1
    graph --overwrite g.yaml
    ended_with 0
    [ "$(cat made1)" = 1 ]
}

@test "what an earlier run of the graph has made is no file of others: --fresh, a stage renamed, --fresh interrupted" {
    two_stages
    graph g.yaml
    ended_with 0
    graph --fresh g.yaml
    ended_with 0
    [ "$(effects)" = "make1 make1 make2 make2 make3 make3 use1 use1 use2 use2 use3 use3 " ]
    sed -i 's/^  use:/  apply:/' g.yaml
    graph g.yaml
    ended_with 0
    [ "$(grep -c use effects)" -eq 9 ]
    cat >g.yaml <<'END'
jobs:
  one: {run: [sh, -c, 'touch made begun; until [ -e go ]; do sleep 0.02; done'], out: made}
  two: {run: touch late, out: late, needs: one}
END
    touch go
    graph --fresh g.yaml
    ended_with 0
    rm go begun
    "$MUSTER" graph -q -g cpu:2 --fresh --overwrite g.yaml 3>&- 4>&- &
    PID=$!
    wait_for test -e begun
    kill -INT $PID
    wait $PID || true
    touch go
    graph g.yaml
    ended_with 0
    touch strange
    sed -i 's/out: late/out: strange/' g.yaml
    graph --fresh g.yaml
    ended_with 2
    [[ $stderr == *"two: strange is there, and no run of this graph has made it"* ]]
}

@test "kill -9 at any moment: what was done stays done, and nobody is left" {
    cat >g.yaml <<'END'
vars: {n: 1..12}
defaults: {shell: true}
jobs:
  a: {for: [n], run: "sleep 0.05; echo a{n} >>effects; echo a >a{n}", out: "a{n}"}
  b: {for: [n], run: "cat a{n} >b{n}; echo b{n} >>effects", needs: a, out: "b{n}"}
END
    for pause in 0.15 0.3 0.2; do
        "$MUSTER" graph -q -g cpu:3 g.yaml 3>&- 4>&- &
        PID=$!
        sleep $pause
        kill -KILL $PID 2>/dev/null || true
        wait $PID 2>/dev/null || true
        wait_for nobody_is_left
    done
    graph -g cpu:3 g.yaml
    ended_with 0
    [ "$(ls a? a?? b? b?? | wc -l)" -eq 24 ]
    # A job whose end was not recorded is run again: at most as many as ran when muster was killed.
    [ "$(sort -u effects | wc -l)" -eq 24 ]
    [ "$(wc -l <effects)" -le $((24 + 3 * 3)) ]
    : >effects
    graph -g cpu:3 g.yaml
    ended_with 0
    [ ! -s effects ]
}

@test "retries, timeouts, and a command that cannot be executed" {
    cat >g.yaml <<'END'
jobs:
  third: {run: [sh, -c, "echo x >>tries; [ $(wc -l <tries) -ge 3 ]"], retries: 2}
  long: {run: "sleep 1000", timeout: 300ms, retries: 1}
  none: {run: "./nosuch", retries: 5}
END
    graph g.yaml
    ended_with 1
    [ "$(wc -l <tries)" -eq 3 ]
    [[ $stderr == *"long failed for good: it took longer than its timeout"* ]]
    [[ $stderr == *"none failed for good: ./nosuch could not be executed: No such file or directory"* ]]
    run "$MUSTER" why third long none
    says "third: done" "long: failed 2 of 2" "none: failed 1 of 1"
}

@test "a job that is preempted runs again, and is not charged with it" {
    cat >g.yaml <<'END'
jobs:
  by-signal: {run: [sh, -c, 'echo x >>signal; [ $(wc -l <signal) -gt 2 ] || kill -TERM $$'], out: signal}
  by-status: {run: [sh, -c, 'echo x >>status; [ $(wc -l <status) -gt 1 ] || exit 143'], out: status}
  own: {run: [sh, -c, 'exit 75']}
  says-so: {run: [sh, -c, "trap 'exit 143' TERM; echo x >>trapped; [ $(wc -l <trapped) -gt 1 ] || kill -TERM $$"], out: trapped}
  by-kill: {run: [sh, -c, 'kill -KILL $$']}
END
    graph -g cpu:2 g.yaml
    ended_with 1
    [ "$(cat signal status trapped | wc -l)" = 7 ]
    [[ $stderr == *"by-kill failed for good: SIGKILL"* ]]
    [ "$(query "select count(*) from events where kind = 'died' and json like '%as of a job that is preempted%'")" = 4 ]
    run "$MUSTER" why own
    says "own: failed 1 of 1, status 75"
    run "$MUSTER" why by-signal by-status says-so
    says "by-signal: done" "attempt 3" "by-status: done" "says-so: done"
}

@test "a job that ran out of device memory is tried alone, and then with smaller batches" {
    cat >g.yaml <<'END'
jobs:
  fits:
    run: [sh, -c, "echo $MUSTER_BATCH >>batches; [ {batch} -le 8 ] || {{ echo 'torch.OutOfMemoryError: CUDA out of memory.' >&2; exit 1; }}"]
    batch: 32
    gpus: {memory: 1GiB}
END
    graph_on_gpus 2
    ended_with 0
    [ "$(tr '\n' ' ' <batches)" = "32 32 16 8 " ]
}

@test "what the first job of a stage took decides in the same run how the others share a device" {
    cat >job <<'END'
echo b >>log; echo 8 >used; sleep 2; echo e >>log; echo 0 >used
END
    printf 'jobs:\n  train: {for: {n: 1..5}, run: "sh job", gpus: {memory: auto}}\n' >g.yaml
    echo 0 >used
    export MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=1,memfile=0:$PWD/used MUSTER_SYSFS=/nowhere
    run --separate-stderr limited "$MUSTER" graph -q -g all g.yaml
    ended_with 0
    [[ $(tr '\n' ' ' <log) == "b e b b "* ]]
    run "$MUSTER" status
    says "5 of 5"
}

@test "the peak of a job that shares a device is the memory of its own processes" {
    cat >job <<'END'
echo "$$ $1" >>procs
sh -c 'echo "$$ 1" >>procs; sleep 3'
END
    printf 'jobs:\n  large: {run: "sh job 8", gpus: {share: 0.5}}\n  small: {run: "sh job 3", gpus: {share: 0.5}}\n' >g.yaml
    : >procs
    export MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=1,procfile=0:$PWD/procs MUSTER_SYSFS=/nowhere
    for hosts in "" "--hosts one --via env"; do
        rm -rf muster-runs
        run --separate-stderr limited "$MUSTER" graph -q -g all $hosts g.yaml
        ended_with 0
        run sqlite3 muster-runs/latest/run.db 'SELECT mem_peak_bytes >> 30 FROM jobs ORDER BY name'
        [ "${lines[*]}" = "9 4" ]
    done
}

@test "batch: auto is what muster fit has found for the same command" {
    worker train <<'END'
#!/bin/sh
echo "$1 $MUSTER_BATCH" >>batches
[ "$1" -le 12 ] || { echo 'torch.OutOfMemoryError: CUDA out of memory.' >&2; exit 1; }
END
    printf 'jobs:\n  fitted: {run: "./train {batch}", batch: auto}\n' >g.yaml
    run --separate-stderr limited "$MUSTER" graph -q -g sim:1xFake:64GiB g.yaml
    ended_with 1
    [[ $stderr == *"fitted failed for good: no batch size is remembered for this command on a device such as Fake"* ]]
    run --separate-stderr limited "$MUSTER" fit -q -g sim:1xFake:64GiB -- ./train {batch}
    ended_with 0
    local best
    best=$(sed -n 's/^best batch size: \([0-9]*\) .*/\1/p' <<<"$output")
    : >batches
    run --separate-stderr limited "$MUSTER" graph -q -g sim:1xFake:64GiB g.yaml
    ended_with 0
    [ "$(cat batches)" = "$best $best" ]
}

@test "each job sees its own devices alone, and no two jobs have one" {
    cat >g.yaml <<'END'
vars: {n: 1..8}
jobs:
  one: {for: [n], run: [sh, -c, "mkdir lock$CUDA_VISIBLE_DEVICES && sleep 0.05 && rmdir lock$CUDA_VISIBLE_DEVICES"]}
  two: {run: [sh, -c, "echo $CUDA_VISIBLE_DEVICES $MUSTER_DEVICE_INDEX {gpus} {gpu} >two"], gpus: 2, needs: one}
  none: {run: [sh, -c, "echo \"$CUDA_VISIBLE_DEVICES\" $MUSTER_DEVICE_KIND >none"], gpus: 0}
END
    graph_on_gpus 4
    ended_with 0
    read -r visible index gpus gpu <two
    [[ $visible == [0-3],[0-3] && $index == "$visible" && $gpus == "$visible" && $gpu == "${visible%,*}" ]]
    [[ $(cat none) != *[0-3]* && $(cat none) == *cpu ]] || [ "$(cat none)" = "-1 cpu" ]
}

@test "muster's own verbs as jobs have the devices of their job" {
    seq 20 >in.txt
    cat >g.yaml <<'END'
jobs:
  map: {map: {worker: cat, input: in.txt}, gpus: 2, out: out.txt}
  ranks: {launch: {no-python: true, command: [sh, -c, 'echo $RANK of $WORLD_SIZE >>ranks']}, gpus: 2, needs: map}
END
    graph_on_gpus 4
    ended_with 0
    same in.txt out.txt
    [ "$(effects ranks)" = "0 of 2 1 of 2 " ]
}

@test "maps and merges: their folders are made, they are done again, and their runs are not the newest" {
    seq 3 >in.txt
    cat >g.yaml <<'END'
vars: {n: [1, 2]}
jobs:
  map: {for: [n], map: {worker: "sed s/$/.{n}/", input: in.txt}, out: "new/maps/{n}.txt"}
  all: {merge: {}, needs: map, out: new/all/all.txt}
END
    graph g.yaml
    ended_with 0
    [ "$(tr '\n' ' ' <new/all/all.txt)" = "1.1 2.1 3.1 1.2 2.2 3.2 " ]
    run "$MUSTER" status
    says "map 2/2" "all 1/1"
    sed -i 's/sed s/sed -e s/' g.yaml
    seq 2 >in.txt
    graph g.yaml
    ended_with 0
    [ "$(tr '\n' ' ' <new/all/all.txt)" = "1.1 2.1 1.2 2.2 " ]
    graph --redo all g.yaml
    ended_with 0
    [ "$(ls muster-runs)" = "$(basename "$(readlink muster-runs/latest)")"$'\nlatest' ]
}

@test "a map that was killed goes on, but not with results of another checkpoint" {
    seq 4 >in.txt
    cat >worker.py <<'END'
import os, time, muster
for item in muster.items():
    print(item.data, file=open("begun", "a"))
    item.done(f"{item.data} {open('model').read().strip()}")
    while item.data == "3" and not os.path.exists("go"):
        time.sleep(0.05)
END
    cat >g.yaml <<END
jobs:
  model: {run: cp from model, in: from, out: model}
  map: {map: {worker: "$PYTHON worker.py", input: in.txt}, needs: model, out: out.txt}
END
    # Has the n-th folder of the map's runs results that count?
    has_committed() {
        [ "$(for db in muster-runs/latest/runs/map-*/latest/run.db; do
            sqlite3 "$db" 'SELECT count(*) > 0 FROM ranges' 2>/dev/null
        done | grep -c 1)" -eq "$1" ]
    }
    for n in 1 2; do
        [ $n = 1 ] && echo old >from || echo new >from
        rm -f begun
        "$MUSTER" graph -q -g cpu:1 g.yaml 3>&- 4>&- &
        PID=$!
        wait_for grep -qs 3 begun
        wait_for has_committed $n
        kill -KILL $PID
        wait $PID || true
        wait_for nobody_is_left
    done
    rm begun
    touch go
    graph g.yaml
    ended_with 0
    [ "$(tr '\n' ' ' <out.txt)" = '"1 new" "2 new" "3 new" "4 new" ' ]
    # What was committed when muster was killed is not asked for again.
    [ "$(head -1 begun)" -gt 1 ]
}

@test "why, hold, release, cancel, retry and add, while it runs" {
    cat >g.yaml <<'END'
jobs:
  gate: {run: [sh, -c, "until [ -e go ]; do sleep 0.05; done"]}
  fails: {run: [sh, -c, "[ -e mended ]"]}
  after: {run: "touch after", needs: gate}
  late: {run: "touch late", needs: gate}
  never: {run: "touch never", needs: gate}
  some: {for: {n: 1..2}, run: "true", needs: gate}
  waits: {run: "touch waited", needs: fails}
END
    "$MUSTER" graph -g cpu:2 g.yaml 3>&- 4>&- 2>said &
    PID=$!
    wait_for holds said "fails failed for good"
    run "$MUSTER" why after
    says "after: waits for gate (it runs)"
    run "$MUSTER" why waits
    says "waits: waits for fails: failed 1 of 1, status 1" "muster retry fails"
    run "$MUSTER" hold late
    ended_with 0
    says "1 job held"
    run "$MUSTER" hold after some
    [ "$output" = "1 job held; 2 jobs held" ]
    run "$MUSTER" release after some
    [ "$output" = "1 job released; 2 jobs released" ]
    run "$MUSTER" cancel never
    says "1 job cancelled"
    run "$MUSTER" cancel nevr
    ended_with 2
    says "there is no job 'nevr'; did you mean 'never'?"
    run "$MUSTER" add --needs after --name extra --out made -- touch made
    ended_with 0
    [ "$output" = extra ]
    run "$MUSTER" graph g.yaml
    ended_with 69
    says "this graph is going on as run"
    touch mended
    run "$MUSTER" retry fails
    says "1 job tried again"
    wait_for test -e waited
    run "$MUSTER" release late
    ended_with 0
    touch go
    wait $PID || true
    [ -e after ] && [ -e late ] && [ -e made ] && [ ! -e never ]
    run "$MUSTER" why never extra
    says "never: cancelled" "extra: done"
    # What was cancelled stays so, and what was added belongs to the run.
    rm made
    graph g.yaml
    ended_with 1
    [ -e made ] && [ ! -e never ]
}

@test "a stop lets jobs finish, a signal ends them, and both go on" {
    cat >g.yaml <<'END'
vars: {n: 1..4}
jobs:
  job: {for: [n], run: [sh, -c, "touch begun{n}; until [ -e go ]; do sleep 0.02; done; echo {n} >>finished"]}
END
    "$MUSTER" graph -q -g cpu:2 g.yaml 3>&- 4>&- &
    PID=$!
    wait_for test -e begun2
    "$MUSTER" stop --no-wait
    sleep 1.2
    touch go
    local rc=0
    wait $PID || rc=$?
    [ $rc -eq 75 ]
    [ "$(wc -l <finished)" -eq 2 ]
    rm go
    "$MUSTER" graph -q -g cpu:2 g.yaml 3>&- 4>&- &
    PID=$!
    wait_for test -e begun4
    kill -TERM $PID
    rc=0
    wait $PID || rc=$?
    [ $rc -eq 143 ]
    wait_for nobody_is_left
    touch go
    graph g.yaml
    ended_with 0
    [ "$(effects finished)" = "1 2 3 4 " ]
}

@test "when a job began is the start of what did it, or its first start; one that never began has none" {
    cat >g.yaml <<'END'
jobs:
  again: {run: [sh, -c, "echo x >>tries; sleep 0.05; [ $(wc -l <tries) -ge 2 ]"], retries: 1}
  bad: {run: [sh, -c, "sleep 0.05; false"], retries: 1}
  never: {run: "true", needs: bad}
END
    graph -g cpu:2 g.yaml
    ended_with 1
    "$MUSTER" cancel never
    # From this a later run learns how long a job takes.
    [ "$(query "SELECT j.name, a.attempt FROM jobs j JOIN job_attempts a
        ON a.name = j.name AND a.started_ms = j.started_ms ORDER BY j.name" | tr '\n' ' ')" = "again|2 bad|1 " ]
    [ "$(query "SELECT state, typeof(started_ms), typeof(ended_ms) FROM jobs WHERE name = 'never'")" = "cancelled|null|null" ]
    "$MUSTER" why never
}

@test "hold, release, cancel and retry of a run that has ended hold for the next one" {
    printf 'jobs:\n  one: {run: sleep 1}\n  two: {run: "touch two", needs: one}\n  three: {run: "touch three", needs: one}\n' >g.yaml
    "$MUSTER" graph -g cpu:2 g.yaml 3>&- 4>&- 2>said &
    PID=$!
    wait_for "$MUSTER" hold two three
    local rc=0
    wait $PID || rc=$?
    [ $rc -eq 75 ]
    holds said "2 not run, 2 of them held" "two: muster release two lets it run"
    run "$MUSTER" why two
    says "two: held; muster release two, then the same command, lets it run"
    run "$MUSTER" hold tow
    ended_with 2
    says "there is no job 'tow'; did you mean 'two'?"
    run "$MUSTER" retry two
    ended_with 69
    says "two: it is neither failed nor cancelled"
    run "$MUSTER" release 'tw*' two three
    ended_with 0
    [ "$output" = "1 job released, when the run goes on; 1 job released, when the run goes on" ]
    run "$MUSTER" cancel three
    says "1 job cancelled, when the run goes on"
    run "$MUSTER" why three
    says "three: cancelled; muster retry three, then the same command, lets it run"
    run "$MUSTER" status
    says "one 1/1  two 0/1  three 0/1 (1 cancelled)"
    graph g.yaml
    ended_with 1
    [ -e two ] && [ ! -e three ]
    run "$MUSTER" retry three
    says "1 job tried again, when the run goes on"
    graph g.yaml
    ended_with 0
    [ -e three ]
    run "$MUSTER" hold three
    ended_with 69
    seq 3 >in
    "$MUSTER" map -q -g cpu:1 --run-dir other -o out in -- cat
    run "$MUSTER" hold --run ./other three
    ended_with 2
    says "run other is no graph"
    run "$MUSTER" why --run ./other three
    ended_with 2
    says "run other is no graph, and has no jobs"
    [ "$(query "SELECT group_concat(kind, ' ') FROM events WHERE kind IN ('hold', 'release', 'cancel', 'retry')")" = "hold hold release release cancel retry" ]
}

@test "a cancel lasts: of a job that had failed, and of an added one, which the run then does not miss" {
    printf "jobs:\n  one: {run: [sh, -c, 'until [ -e go ]; do sleep 0.02; done']}\n" >g.yaml
    for go in no yes; do
        "$MUSTER" graph -q -g cpu:2 g.yaml 3>&- 4>&- 2>said &
        PID=$!
        wait_for "$MUSTER" why one
        [ $go = yes ] || "$MUSTER" add -- sh -c 'echo ran >>added; false'
        wait_for holds said "added/1 failed for good"
        [ $go = no ] || "$MUSTER" cancel added/1
        "$MUSTER" stop --now
        wait $PID || true
    done
    [ "$(wc -l <added)" -eq 2 ]
    touch go
    graph g.yaml
    ended_with 0
    [ "$(wc -l <added)" -eq 2 ]
    graph g.yaml
    ended_with 0
    run "$MUSTER" retry added/1
    ended_with 0
    graph g.yaml
    ended_with 1
    [ "$(wc -l <added)" -eq 3 ]
}

@test "why muster's own verbs failed is what they say of the cause; a map goes on with what it set aside" {
    cat >t.py <<'END'
import os, time
if os.environ["RANK"] == "1":
    raise ValueError("bad loss")
time.sleep(30)
END
    seq 5 >in
    worker w.sh <<'END'
#!/bin/sh
while read -r x; do
    echo "$x" >>seen
    [ "$x" = 3 ] && [ ! -e mended ] && { echo "no three" >&2; exit 4; }
    echo "r$x"
done
END
    cat >g.yaml <<'END'
jobs:
  ranks: {launch: {script: t.py, nproc-per-node: 2}, gpus: 2}
  items: {map: {worker: ./w.sh, input: in, output: out}}
END
    PYTHON_EXEC=$PYTHON graph g.yaml --only items
    ended_with 1
    run "$MUSTER" why items
    says "status 1: 1 item failed, with reasons in out.failed.jsonl: in line 3: killed its worker (status 4) on cpu_0: no three"
    holds muster-runs/latest/logs/items_stderr.log "muster resume $(run_dir)/runs/"
    [ "$(cat out | tr '\n' ' ')" = "r1 r2 r4 r5 " ]
    touch mended
    : >seen
    PYTHON_EXEC=$PYTHON graph g.yaml --only items
    ended_with 0
    [ "$(cat seen)" = 3 ]
    [ "$(cat out | tr '\n' ' ')" = "r1 r2 r3 r4 r5 " ]
    PYTHON_EXEC=$PYTHON graph g.yaml
    ended_with 1
    run "$MUSTER" why ranks
    says "failed first: status 1: ValueError: bad loss"
}

@test "a map of a graph begins anew if its input was mended" {
    printf '1\nx\n' >in
    worker w.sh <<'END'
#!/bin/sh
while read -r x; do echo "$x" >>seen; [ "$x" = x ] && exit 4; echo "r$x"; done
END
    echo 'jobs: {items: {map: {worker: ./w.sh, input: in, output: out}}}' >g.yaml
    graph g.yaml
    ended_with 1
    printf '1\n2\n' >in
    : >seen
    graph g.yaml
    ended_with 0
    [ "$(cat out seen | tr '\n' ' ')" = "r1 r2 1 2 " ]
}

@test "a job that is being cancelled: why says so, and retry is taken at once" {
    cat >g.yaml <<'END'
jobs:
  slow: {run: [sh, -c, 'trap "" TERM; echo begun >>begun; [ ! -e go ] && sleep 2; exit 0'], out: done/}
END
    sed -i 's/exit 0/mkdir -p done/' g.yaml
    "$MUSTER" graph -q -g cpu:2 --grace 700ms g.yaml 3>&- 4>&- 2>said &
    PID=$!
    wait_for has_lines begun 1
    run "$MUSTER" cancel slow
    says "1 job cancelled"
    run "$MUSTER" why slow
    says "slow: runs since" "attempt 1; cancelled, and it is being ended"
    touch go
    run "$MUSTER" retry slow
    ended_with 0
    says "1 job tried again"
    run "$MUSTER" why slow
    says "attempt 1; it is being ended"
    wait $PID
    [ "$(wc -l <begun)" -eq 2 ]
}

# The words of the newest run's manifest, one a line, without the program.
manifest_words() { python3 -c 'import json; print("\n".join(json.load(open("muster-runs/latest/manifest.json"))["argv"][1:]))'; }

@test "resume goes on as it was typed: variables, options, MUSTER_ variables, the folder; from any folder" {
    mkdir 'a b'
    cd 'a b'
    cat >'g one.yaml' <<'END'
vars: {n: 1..9, text: x}
jobs:
  job: {for: [n], run: [sh, -c, 'echo "{n} {text} $MORE" >>done; [ -e go ]'], gpus: 0}
END
    MUSTER_JOBS=1 graph --env MORE='m o' --halt 'g one.yaml' vars.n=1..3 'vars.text=it'"'"'s'
    ended_with 1
    [[ $stderr != *"muster graph"* ]]
    [ "$(cat done)" = "1 it's m o" ]
    [ "$(manifest_words | tr '\n' ,)" = "graph,--gpus=cpu:2,--jobs=1,--env=MORE=m o,--halt,--quiet,g one.yaml,vars.n=1..3,vars.text=it's," ]
    run "$MUSTER" status
    says "go on     muster resume $(basename "$(run_dir)")"
    local dir
    dir=$(run_dir)
    touch go
    cd ..
    run limited "$MUSTER" resume "$dir" --env MORE=other --on-finish 'cat >summary'
    ended_with 0
    [ "$(sort 'a b/done' | tr '\n' ,)" = "1 it's m o,1 it's other,2 it's other,3 it's other," ]
    [ -s 'a b/summary' ] && [ ! -e muster-runs ]
    [ "$(grep -c it "$dir/manifest.json")" -gt 0 ]
    run "$MUSTER" resume "$dir"
    ended_with 0
    says "is complete"
    run "$MUSTER" resume "$dir" --collect x
    ended_with 2
}

@test "resume of commands of a line and of standard input" {
    graph --retries 0 --priority high -- sh -c 'echo "$1" >>done; [ -e go ]' sh {} ::: "it's" '$x'
    ended_with 1
    run limited "$MUSTER" resume -- other
    ended_with 2
    says "whose commands are those of its jobs"
    run limited "$MUSTER" resume --retry-failed
    ended_with 2
    touch go
    run limited "$MUSTER" resume
    ended_with 0
    [ "$(sort done | tr '\n' ,)" = "\$x,\$x,it's,it's," ]
    rm go done
    graph -- sh -c 'echo {} >>done; [ -e go ]' < <(printf 'a\nb c\n')
    ended_with 1
    touch go
    run limited "$MUSTER" resume </dev/null
    ended_with 0
    [ "$(sort done | tr '\n' ,)" = "a,a,b c,b c," ]
    rm go
    printf 'x\n' >list
    graph -- sh -c 'echo {} >>done; [ -e go ]' :::: list
    ended_with 1
    printf 'y\n' >list
    run limited "$MUSTER" resume
    ended_with 2
    says "the commands of run" "are others now"
}

@test "what --from named runs again on resume as well, and once" {
    cat >g.yaml <<'END'
vars: {n: 1..3}
jobs:
  job: {for: [n], run: [sh, -c, 'echo {n} >>done; [ ! -e halt ]'], gpus: 0}
END
    graph -j 1 g.yaml
    ended_with 0
    touch halt
    graph -j 1 --halt g.yaml --from job
    ended_with 1
    [ "$(wc -l <done)" = 4 ]
    rm halt
    run limited "$MUSTER" resume
    ended_with 0
    [ "$(wc -l <done)" = 7 ]
    run limited "$MUSTER" resume
    says "is complete"
    [ "$(wc -l <done)" = 7 ]
}

@test "--only and --from" {
    two_stages
    graph g.yaml --only make
    ended_with 0
    [ "$(effects)" = "make1 make2 make3 " ]
    graph g.yaml --only 'use/*1'
    ended_with 0
    [ "$(effects)" = "make1 make2 make3 use1 " ]
    graph g.yaml
    : >effects
    graph g.yaml --from 'make/*2'
    ended_with 0
    [ "$(effects)" = "make2 use2 " ]
    graph g.yaml --only nosuch
    ended_with 2
    [[ $stderr == *"--only 'nosuch' matches no job"* ]]
}

@test "commands of a line, of files and of standard input" {
    run --separate-stderr limited "$MUSTER" graph -q -g cpu:1 -- echo {1}-{2} ::: a b ::: x y
    ended_with 0
    [ "$output" = $'a-x\na-y\nb-x\nb-y' ]
    printf 'echo one\n\n# no\necho two; echo three >&2\n' >commands
    run --separate-stderr limited "$MUSTER" graph -q -g cpu:1 <commands
    ended_with 0
    [ "$output" = $'one\ntwo' ]
    [ "$stderr" = three ]
    run --separate-stderr limited "$MUSTER" graph -q -g cpu:2 --joblog log --results out -- sh -c 'echo {}; exit {}' ::: 0 3
    ended_with 1
    [ "$(cut -f7 log | sort | tr '\n' ' ')" = "0 3 Exitval " ]
    [ "$(cut -f6 log | tr '\n' ' ')" = "Receive 2 2 " ]
    [ "$(cat out/1/3/stdout)" = 3 ]
    # What is done is not done again by the same command.
    run --separate-stderr limited "$MUSTER" graph -q -g cpu:1 -- sh -c 'echo {}; exit {}' ::: 0 3
    [ "$output" = 3 ]
}

@test "arguments and commands are read from standard input, but for a terminal, where nobody would know" {
    run --separate-stderr limited "$MUSTER" graph -q -g cpu:1 -- echo x{} <<<$'1\n2'
    ended_with 0
    [ "$output" = $'x1\nx2' ]
    on_terminal() {
        "$PYTHON" -c 'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))' \
            timeout 10 "$MUSTER" graph -g cpu:1 "$@" </dev/null
    }
    on_terminal -- echo hi >said && return 1
    holds said "the command has no arguments: write them behind :::"
    on_terminal >said && return 1
    holds said "nothing to run"
}

@test "malformed files are refused with line and column, and leave nothing" {
    printf 'jobs:\n  a: {run: x, nedes: b}\n' >g.yaml
    graph g.yaml
    ended_with 2
    [[ $stderr == *"g.yaml:2:"*"did you mean"* ]]
    printf 'jobs:\n  a: {run: x, needs: b}\n  b: {run: x, needs: a}\n' >g.yaml
    graph g.yaml
    ended_with 2
    graph nosuch.yaml
    ended_with 2
    [ ! -e muster-runs ]
}

@test "a job that is called as the log of a Slurm job is a job of the graph: all its lines are shown" {
    cat >plan.json <<'END'
{"jobs": {"a": {"run": "echo one"}, "job_5": {"run": "echo '[a] two'"}}}
END
    graph -g cpu:2 plan.json
    ended_with 0
    run "$MUSTER" logs
    says "[a] one" "[job 5] [a] two"
}

@test "logs of a graph: a job by its name, all jobs of a stage by that of the stage" {
    two_stages
    sed -i 's/echo make{n} >>effects/echo make{n}/' g.yaml
    graph g.yaml
    ended_with 0
    run "$MUSTER" logs latest make/n=2
    ended_with 0
    says "make2"
    [[ $output != *make1* ]]
    run "$MUSTER" logs make
    ended_with 0
    says "make1" "make2" "make3"
    run "$MUSTER" logs latest make/n=4
    ended_with 2
    says "has no logs of a worker 'make/n=4'; there are make+n=1, make+n=2, make+n=3"
}
