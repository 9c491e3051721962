#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What a graph promises holds also when its session ends in between, and the user goes on.
load helpers

graph() { run --separate-stderr limited "$MUSTER" graph -q -g cpu:2 "$@"; }
resume() { run limited "$MUSTER" resume; }

# In the background: its pid is PID, and map_end takes its end.
graph_begin() {
    rm -f begun
    touch hold
    "$MUSTER" graph -q -g cpu:2 "$@" >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for test -e begun
}

graph_kill() {
    kill -KILL $PID
    wait $PID || true
    rm -f hold
    wait_for nobody_is_left
}

effects() { sort effects | tr '\n' ' '; }

# "make" notes that it has begun, and waits while there is a file `hold`. It leaves the same each time.
make_and_use() {
    cat >g.yaml <<'END'
jobs:
  make: {run: [sh, -c, 'echo make >>effects; touch begun; while [ -e hold ]; do sleep 0.05; done; echo 1 >made'], out: made, gpus: 0}
  use: {run: [sh, -c, 'echo use >>effects; echo 1 >used'], out: used, needs: make, gpus: 0}
  other: {run: [sh, -c, 'echo other >>effects'], gpus: 0}
END
    graph g.yaml
    ended_with 0
}

@test "what needs a job that runs again does so also if a session ends between and the job left the same" {
    make_and_use
    sed -i 's/touch begun/true; touch begun/' g.yaml
    graph_begin g.yaml
    "$MUSTER" stop --no-wait latest
    wait_for holds muster-runs/latest/orchestrator.log "finishing what is in flight"
    rm hold
    map_end
    ended_with 75
    resume
    ended_with 0
    [ "$(effects)" = "make make other use use " ]
    rm made
    graph g.yaml --only make
    ended_with 0
    graph --dry-run g.yaml
    [[ $output == *use*"1 of 3 jobs would run"* ]]
    graph g.yaml
    ended_with 0
    [ "$(effects)" = "make make make other use use use " ]
    graph g.yaml
    [ "$(wc -l <effects)" = 7 ]
}

@test "what needs a job that --redo names runs again also when a session ends between the two" {
    make_and_use
    graph_begin g.yaml --redo make
    "$MUSTER" stop --no-wait latest
    wait_for holds muster-runs/latest/orchestrator.log "finishing what is in flight"
    rm hold
    map_end
    ended_with 75
    [ "$(effects)" = "make make other use " ]
    resume
    ended_with 0
    [ "$(effects)" = "make make other use use " ]
}

@test "an adopted job that --redo names is its own also when the session was killed before it began" {
    cat >g.yaml <<'END'
jobs:
  first: {run: [sh, -c, 'touch begun; while [ -e hold ]; do sleep 0.05; done; echo 1 >first'], out: first, gpus: 0}
  second: {run: [sh, -c, 'echo again >second'], out: second, needs: first, gpus: 0}
END
    touch first second
    graph g.yaml --adopt
    ended_with 0
    graph_begin g.yaml --redo first --redo second
    graph_kill
    resume
    ended_with 0
    [ "$(cat second)" = again ]
}

@test "an adopted job that was held before it ran again is not taken for a foreign file in the next session" {
    make_and_use
    rm -r muster-runs effects
    graph g.yaml --adopt
    ended_with 0
    rm made
    graph_begin g.yaml
    "$MUSTER" hold use
    graph_kill
    graph g.yaml
    ended_with 75
    "$MUSTER" release use
    graph g.yaml
    ended_with 0
    [ "$(effects)" = "make make other use " ]
}

@test "what a job left before its command changed proves nothing of the new one" {
    printf "jobs:\n  a: {run: [sh, -c, 'echo half >a; exit 1'], out: a, gpus: 0}\n" >g.yaml
    graph g.yaml
    ended_with 1
    sed -i 's/echo half >a; exit 1/true/' g.yaml
    graph g.yaml
    ended_with 1
    [[ $stderr == *"it did not write a, which is as it was before"* ]]
    sed -i 's/true/echo whole >a/' g.yaml
    graph g.yaml
    ended_with 0
}

@test "another order of jobs, of needs or of values makes nothing run again" {
    cat >g.yaml <<'END'
vars: {n: [1, 2]}
jobs:
  many: {for: [n], run: [sh, -c, 'echo many{n} >>effects'], gpus: 0}
  one: {run: [sh, -c, 'echo one >>effects'], gpus: 0}
  all: {run: [sh, -c, 'echo all >>effects'], needs: [many, one], gpus: 0}
END
    graph g.yaml
    ended_with 0
    sed -i -e 's/1, 2/2, 1/' -e 's/many, one/one, many/' g.yaml
    sed -i -n -e '1,2p;4p;3p;5p' g.yaml
    graph g.yaml
    ended_with 0
    [ "$(effects)" = "all many1 many2 one " ]
}

# A map that stands still at item 3 while there is no file `go`; its results name what is in `model`.
halted_map() {
    seq 4 >in.txt
    echo old >model
    cat >worker.py <<'END'
import os, time, muster
for item in muster.items():
    print(item.data, file=open("begun", "a"))
    item.done(f"{item.data} {open('model').read().strip()}")
    while item.data == "3" and not os.path.exists("go"):
        time.sleep(0.05)
END
    echo "jobs: {map: {map: {worker: \"$PYTHON worker.py\", input: in.txt}, in: model, out: out.txt}}" >g.yaml
    "$MUSTER" graph -q -g cpu:1 g.yaml >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for grep -qs 3 begun
    wait_for has_results
    graph_kill
    touch go
}
has_results() { [ "$(sqlite3 muster-runs/latest/runs/map-*/latest/run.db 'SELECT count(*) > 0 FROM ranges' 2>/dev/null)" = 1 ]; }

@test "a map that was killed does not go on with results of another file that it reads" {
    halted_map
    echo new >model
    resume
    ended_with 0
    [ "$(tr -d '"' <out.txt | tr '\n' ,)" = "1 new,2 new,3 new,4 new," ]
}

@test "a map that was killed goes on if what it reads was copied, and begins anew if its input changed" {
    halted_map
    cp model copy
    mv copy model
    resume
    ended_with 0
    [ "$(tr -d '"' <out.txt | tr '\n' ,)" = "1 old,2 old,3 old,4 old," ]
    [ "$(grep -c 1 begun)" -eq 1 ]
    rm -r muster-runs go begun out.txt
    halted_map
    seq 5 6 >in.txt
    resume
    ended_with 0
    [ "$(tr -d '"' <out.txt | tr '\n' ,)" = "5 old,6 old," ]
}

is_sampled() { [ "$(query 'SELECT count(*) FROM samples' 2>/dev/null)" -ge "$1" ] 2>/dev/null; }
is_done() { [ "$(query "SELECT state FROM jobs WHERE name = '$1'" 2>/dev/null)" = done ]; }

@test "a job that has ended well is done, though the memory of its device is awaited when it is cancelled" {
    echo 1 >memory
    export MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=1,memfile=0:$PWD/memory MUSTER_SYSFS=/nowhere
    cat >g.yaml <<'END'
jobs:
  first: {run: [sh, -c, 'echo first >>effects; while [ ! -e go ]; do sleep 0.05; done']}
  second: {run: [sh, -c, 'echo second >>effects'], needs: first}
END
    "$MUSTER" graph -q -g all g.yaml >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for is_sampled 1
    echo 60 >memory
    wait_for is_sampled 3
    touch go
    wait_for is_done first
    run "$MUSTER" cancel first
    ended_with 69
    says "done, or cancelled before"
    echo 1 >memory
    map_end
    ended_with 0
    run --separate-stderr limited "$MUSTER" graph -q -g all g.yaml
    ended_with 0
    [ "$(effects)" = "first second " ]
}

@test "muster add finds a name also when a job that was added before is left out" {
    cat >g.yaml <<'END'
jobs:
  a: {run: [sh, -c, 'echo a >>effects; touch begun; while [ -e hold ]; do sleep 0.05; done'], gpus: 0}
  b: {run: [sh, -c, 'echo b >>effects; exit 1'], gpus: 0}
END
    graph_begin g.yaml
    "$MUSTER" add --needs b -- sh -c 'echo one >>effects'
    "$MUSTER" add -- sh -c 'echo two >>effects'
    rm hold
    map_end
    ended_with 1
    sed -e '/ b:/d' -e 's/touch/true; touch/' g.yaml >less
    cp g.yaml whole
    mv less g.yaml
    graph_begin g.yaml
    run "$MUSTER" add -- sh -c 'echo three >>effects'
    ended_with 0
    [ "$output" = added/3 ]
    rm hold
    map_end
    ended_with 0
    sed 's/exit 1/exit 0/' whole >g.yaml
    graph g.yaml
    ended_with 0
    [ "$(effects)" = "a a a b b one three two " ]
}

@test "a job that adds another by its name may run again" {
    cat >g.yaml <<'END'
jobs:
  adds: {run: [sh, -c, '"$MUSTER" add --name more --needs adds -- sh -c "echo more >>effects"; echo $? >>statuses; touch begun; while [ -e hold ]; do sleep 0.05; done'], gpus: 0}
END
    graph_begin g.yaml
    graph_kill
    resume
    ended_with 0
    [ "$(cat statuses)" = $'0\n0' ]
    [ "$(effects)" = "more " ]
    sed -i 's/echo more/echo other/' g.yaml
    graph g.yaml
    [ "$(tail -1 statuses)" = 69 ] # another one by that name
}

progress() { "$MUSTER" status | grep progress; }

@test "status counts the jobs of the graph as it is now, and none as done that is to run again" {
    cat >g.yaml <<'END'
vars: {n: 1..4}
jobs:
  job: {for: [n], run: [sh, -c, 'touch begun; [ {n} != 1 ] || while [ -e hold ]; do sleep 0.05; done; [ {n} != 4 ]'], gpus: 0}
END
    graph g.yaml
    ended_with 1
    graph g.yaml vars.n=1..2
    ended_with 0
    [[ $(progress) == *" 2 of 2 jobs (100.0 %)" ]]
    sed -i 's/touch/true; touch/' g.yaml
    query "update jobs set started_ms = ended_ms - 3600000 where name like '%1'" # the longest begins first
    graph_begin -j 1 g.yaml
    "$MUSTER" stop --no-wait latest
    wait_for holds muster-runs/latest/orchestrator.log "finishing what is in flight"
    rm hold
    map_end
    ended_with 75
    [[ $(progress) == *" 1 of 4 jobs (25.0 %)" ]]
    graph g.yaml
    [[ $(progress) == *" 3 of 4 jobs (75.0 %), 1 failed" ]]
}

@test "half a file that a killed run left is not adopted by a fresh one" {
    make_and_use
    rm -r muster-runs effects made used
    sed -i -e '/other/d' -e 's/touch begun/echo half >made; touch begun/' g.yaml
    graph_begin g.yaml
    graph_kill
    graph --fresh --adopt g.yaml
    ended_with 0
    [ "$(cat made)" = 1 ]
    graph --fresh --adopt g.yaml
    ended_with 0
    [ "$(effects)" = "make make use " ]
}

@test "a job that was released from --only runs also when the session ends before, and not after another --only" {
    make_and_use
    rm -r muster-runs effects made used
    graph_begin g.yaml --only make
    run "$MUSTER" release use
    says "1 job released"
    "$MUSTER" stop --no-wait latest
    wait_for holds muster-runs/latest/orchestrator.log "finishing what is in flight"
    rm hold
    map_end
    ended_with 75
    cp -r muster-runs before
    resume
    ended_with 0
    [ "$(effects)" = "make use " ]
    rm -r used muster-runs
    mv before muster-runs
    graph_begin g.yaml --only make --redo make
    graph_kill
    resume
    ended_with 0
    [ "$(effects)" = "make make make use " ]
}

written_bytes() { awk '$1 == "wchar:" { print $2 }' /proc/$PID/io; }

@test "thousands of jobs that --only excludes are released in one order without writing their list for each" {
    cat >g.yaml <<'END'
vars: {n: 1..3000}
jobs:
  make: {run: [sh, -c, 'touch begun; while [ -e hold ]; do sleep 0.05; done'], gpus: 0}
  apart: {for: [n], run: [sh, -c, 'exit 1'], needs: make, gpus: 0}
END
    graph_begin g.yaml --only make
    before=$(written_bytes)
    run "$MUSTER" release apart
    says "3000 jobs released"
    [ $(($(written_bytes) - before)) -lt 16000000 ]
    [ "$(query "SELECT length(value) - length(replace(value, char(10), '')) FROM facts WHERE key = 'released'")" = 3000 ]
    graph_kill
}

@test "what an older version noted of several needs makes nothing run again" {
    cat >g.yaml <<'END'
jobs:
  a: {run: [sh, -c, 'echo a >>effects'], gpus: 0}
  b: {run: [sh, -c, 'echo b >>effects'], gpus: 0}
  all: {run: [sh, -c, 'echo all >>effects'], needs: [a, b], gpus: 0}
END
    graph g.yaml
    ended_with 0
    # The mark of 1 and then of 2, each XXH3 of the number with what was before for its seed.
    query "UPDATE jobs SET outs_digest = 1 WHERE name = 'a'; UPDATE jobs SET outs_digest = 2 WHERE name = 'b';
        UPDATE jobs SET needs_digest = -4228195790913258360 WHERE name = 'all'"
    graph g.yaml
    ended_with 0
    [ "$(effects)" = "a all b " ]
    query "UPDATE jobs SET outs_digest = 3 WHERE name = 'b'"
    graph g.yaml
    ended_with 0
    [ "$(effects)" = "a all all b " ]
}

@test "nobody knows what an adopted job takes" {
    echo "jobs: {first: {run: [sh, -c, 'echo 1 >first'], out: first, gpus: 0}}" >g.yaml
    touch first
    graph g.yaml --adopt
    ended_with 0
    graph --dry-run g.yaml --redo first
    ended_with 0
    [[ $output == *"1 of 1 job would run, in "*"the time of 1 is not known"* ]]
}

@test "--redo and --from are refused of a job that --only excludes, and such a job is not said to run again" {
    make_and_use
    for word in --redo --from; do
        graph g.yaml $word make --only other
        ended_with 2
        [[ $stderr == *"$word 'make' matches no job of those of --only"* ]]
    done
    sed -i 's/echo use/echo used/' g.yaml
    run limited "$MUSTER" graph -g cpu:2 g.yaml --only other --redo other
    ended_with 0
    says "other runs again: --redo names it"
    says_not "use runs again"
    run limited "$MUSTER" graph -g cpu:2 g.yaml
    ended_with 0
    says "use runs again: its command changed"
    [ "$(effects)" = "make other other use used " ]
}

@test "a job that was to run again when the session was killed is not done for who asks, holds or cancels it" {
    make_and_use
    sed -i 's/; echo 1 >used/; [ -e fails ] || echo 1 >used/' g.yaml
    graph_begin g.yaml --redo make
    graph_kill
    run "$MUSTER" why use other
    says "use: it was done, and runs again when the graph goes on" "other: done, in"
    run "$MUSTER" hold other
    ended_with 69
    run "$MUSTER" hold use
    says "1 job held, when the run goes on"
    resume
    ended_with 75
    [ "$(effects)" = "make make make other use " ]
    "$MUSTER" release use
    touch fails
    resume
    ended_with 1 # the file of before proves nothing
    rm fails
    resume
    ended_with 0
}

@test "a dry run names the jobs that would fail for want of a file that they read" {
    cat >g.yaml <<'END'
jobs:
  bad: {run: 'true', in: [there, nowhere], gpus: 0}
  after: {run: 'true', needs: bad, gpus: 0}
  make: {run: 'true', out: sub/made, gpus: 0}
  use: {run: 'true', in: [./sub/../sub/made, sub, sub/made/part], needs: make, gpus: 0}
END
    touch there
    graph --dry-run g.yaml
    ended_with 0
    [[ $output == *"bad fails: it reads nowhere, which is not there, and no job leaves it"* ]]
    [[ $output == *"2 of 4 jobs would run, in "*"; 1 would fail; 1 needs one that would not run"* ]]
    touch nowhere
    graph --dry-run g.yaml
    [[ $output == *"4 of 4 jobs would run, in "* && $output != *"fail"* ]]
}

@test "the last run of a graph is the one that began last, also if the clock was set back before it" {
    printf 'jobs: {a: {run: [sh, -c, "echo one >>effects; echo 1 >made"], out: made, gpus: 0}}\n' >g.yaml
    graph g.yaml
    ended_with 0
    # As if the clock had been a day ahead then.
    local first
    first=$(basename "$(run_dir)")
    "$PYTHON" - "muster-runs/$first/manifest.json" <<'END'
import json, sys
manifest = json.load(open(sys.argv[1]))
manifest["started_ms"] += 86400000
json.dump(manifest, open(sys.argv[1], "w"), indent=1)
END
    sed -i 's/echo one/echo two/' g.yaml
    graph --fresh --overwrite g.yaml
    ended_with 0
    graph g.yaml # goes on with that, and so once more
    graph g.yaml
    ended_with 0
    [ "$(effects)" = "one two " ]
    [ "$(basename "$(run_dir)")" != "$first" ]
    # The run's own time is what the clock said.
    "$PYTHON" -c 'import json, time; assert json.load(open("muster-runs/latest/manifest.json"))["started_ms"] / 1000 < time.time() + 1'
}

# The batches of a job that fits with so many of `room`, and leaves a file when it is done.
fits_with() {
    cat >g.yaml <<'END'
jobs:
  fits:
    run: [sh, -c, "echo {batch} >>batches; [ {batch} -le $(cat room) ] || {{ echo 'torch.OutOfMemoryError: CUDA out of memory.' >&2; exit 1; }}; [ -e ok ] && echo 1 >made"]
    batch: 32
    out: made
END
    echo 8 >room
}
batches() { tr '\n' ' ' <batches; rm batches; }
at_batch() { grep -qsx "$1" batches; }

@test "a batch that was halved for lack of memory is not tried whole again in a later session, until the job is another one" {
    fits_with
    graph g.yaml
    ended_with 1
    [ "$(batches)" = "32 16 8 " ]
    graph g.yaml
    ended_with 1
    [ "$(batches)" = "8 " ]
    run "$MUSTER" why fits
    says "at batch 8"
    echo 3 >room
    touch ok
    graph g.yaml
    ended_with 0
    [ "$(batches)" = "8 4 2 " ]
    [ "$(query 'SELECT batch, n_halvings FROM jobs')" = "2|4" ]
    graph --redo fits g.yaml
    [ "$(batches)" = "2 " ]
    rm ok
    graph --redo fits g.yaml
    ended_with 1
    [ "$(batches)" = "2 " ]
    "$MUSTER" retry fits
    graph g.yaml # with its whole batch, as while the graph runs
    [ "$(batches)" = "32 16 8 4 2 " ]
    sed -i 's/batch: 32/batch: 48/' g.yaml
    graph g.yaml
    [ "$(batches)" = "48 24 12 6 3 " ]
    sed -i 's/; exit 1/; echo >\&2; exit 1/' g.yaml
    graph g.yaml
    [ "$(batches)" = "48 24 12 6 3 " ]
}

@test "a session that is killed leaves the batch to the next one, also one that an older muster began" {
    fits_with
    echo 16 >room
    sed -i 's/; \[ -e ok \]/; until [ -e ok ]; do sleep 0.02; done; [ -e ok ]/' g.yaml
    "$MUSTER" graph -q -g cpu:2 g.yaml >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for at_batch 16
    graph_kill
    [ "$(batches)" = "32 16 " ]
    touch ok
    graph g.yaml
    ended_with 0
    [ "$(batches)" = "16 " ]
    query 'ALTER TABLE jobs DROP COLUMN n_halvings'
    run "$MUSTER" why fits
    says "fits: done"
    run "$MUSTER" ls
    says " 1/1 "
    graph --redo fits g.yaml
    ended_with 0
    [ "$(batches)" = "32 16 " ]
}

@test "after a run of a command line that is done, the same line begins anew, whatever is left of an older run" {
    echo 'echo $1 >>ran; [ -e cured ]' >job
    graph -j 1 -- sh job {} ::: 1 2
    ended_with 1
    touch cured
    graph --fresh -j 1 -- sh job {} ::: 1 2
    ended_with 0
    [ "$(ls -d muster-runs/20* | wc -l)" -eq 2 ]
    : >ran
    graph -j 1 -- sh job {} ::: 1 2
    ended_with 0
    [ "$(tr -d '\n' <ran)" = 12 ]
    [ "$(ls -d muster-runs/20* | wc -l)" -eq 3 ]
}
