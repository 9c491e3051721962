#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Runs that are stopped, killed, detached and resumed.
load helpers

# Items from 20 on wait until the file `go` is there. Nearly all of those before are then done: what a
# worker that started late had been given may stand behind the gate of the other.
gated() {
    pyworker gated <<'END'
import muster, os, time
for item in muster.items():
    while item.index >= 20 and not os.path.exists("go"):
        time.sleep(0.01)
    item.done(id=item.index, seed=item.seed)
END
    seq 100 >in.txt
}

results_are() { [ "$("$MUSTER" results "${2:-latest}" 2>/dev/null | wc -l)" -ge "$1" ]; }

# A run that stands at its gate.
gated_begin() {
    gated
    map_begin -g cpu:2 --grace 1s "$@" in.txt -o out.jsonl -- ./gated
    wait_for results_are 15
}

complete() {
    [ "$(jq .id out.jsonl | tr '\n' ' ')" = "$(seq -s' ' 0 99) " ]
}

resume() { run limited "$MUSTER" resume "$@"; }

last_line() { tail -1 <<<"$output"; }

@test "a run in a copy of its project does not go on in the original's place" {
    mkdir first
    cd first
    seq 40 >in.txt
    run limited "$MUSTER" map -q -g cpu:1 --retries 0 -o out.txt in.txt -- sh -c 'while read n; do [ "$n" != 20 ] || exit 1; echo "$n"; done'
    ended_with 1
    cp -r . ../second
    cd ../second
    run limited "$MUSTER" resume --retry-failed -- cat
    ended_with 2
    says "is a copy of ${PWD%/second}/first/muster-runs/" "resume that one"
    [ "$(wc -l <../first/out.txt)" = 39 ]
    cp -r ../first/muster-runs/latest/. ../first/backup
    # Also under another name, and in another folder of runs.
    mv muster-runs runs
    mv "$(readlink -f runs/latest)" runs/mine
    run limited "$MUSTER" resume runs/mine --retry-failed -- cat
    ended_with 2
    says "is a copy of "
    mv ../first ../moved
    cp -r ../moved ../third
    cd ../third
    run limited "$MUSTER" resume --retry-failed -- cat # the original is not there
    ended_with 2
    says_not "is a copy of "
    mv ../moved ../first
    cd ../first
    run limited "$MUSTER" resume backup --retry-failed -- cat # a copy, where the original was begun
    ended_with 0
    same in.txt out.txt
}

@test "muster stop finishes what is in flight: 75, and the last line says how to go on" {
    gated_begin
    "$MUSTER" stop --no-wait
    touch go
    map_end
    ended_with 75
    [[ $(last_line) == *"muster resume $(basename "$(run_dir)")"* ]]
    [ ! -e out.jsonl ]
    resume
    ended_with 0
    complete
}

@test "muster stop of a run that is complete with what was in flight names no way to go on" {
    worker late <<'END2'
#!/bin/sh
while read -r item; do
    touch begun
    until [ -e go ]; do sleep 0.02; done
    echo "$item"
done
END2
    echo 1 >in.txt
    "$MUSTER" map -g cpu:1 in.txt -o out.txt -- ./late 2>/dev/null 3>&- 4>&- &
    wait_for test -e begun
    limited "$MUSTER" stop >stopped 2>&1 3>&- 4>&- &
    PID=$!
    wait_for test -e muster-runs/latest/stop
    touch go
    wait "$PID"
    same in.txt out.txt
    run cat stopped
    says "has ended: it is complete"
    says_not "to go on"
}

@test "muster stop --now does not wait" {
    gated_begin
    run limited "$MUSTER" stop --now
    ended_with 0
    map_end
    ended_with 75
    [[ $(last_line) == *"muster resume"* ]]
    results_are 15
    touch go
    resume
    ended_with 0
    complete
}

@test "no second run is started into an output that a run is at work on" {
    gated_begin
    run limited "$MUSTER" map -g cpu:1 in.txt -o out.jsonl -- ./gated
    ended_with 69
    says "run $(basename "$(run_dir)") is going on and writes to out.jsonl" "muster stop"
    run limited "$MUSTER" map --fresh -g cpu:1 in.txt -o ./out.jsonl -- cat
    ended_with 69
    [ "$(find muster-runs -maxdepth 1 -name '2*' | wc -l)" -eq 1 ]
    touch go
    map_end
    ended_with 0
    complete
}

# A run with results that was stopped.
stopped() {
    gated_begin
    "$MUSTER" stop --no-wait --now
    map_end
    ended_with 75
    touch go
}

@test "a missing or cut part is named before anything is computed" {
    stopped
    cp -r "$(run_dir)/parts" kept
    truncate -s 10 "$(run_dir)"/parts/*
    resume
    ended_with 65
    says "/parts/" "has 10 bytes, and results of this run reach up to" "muster map --fresh"
    rm "$(run_dir)"/parts/*
    resume
    ended_with 65
    says ".part is missing" "muster map --fresh"
    rmdir "$(run_dir)/parts"
    resume
    ended_with 65
    says ".part is missing"
    mv kept "$(run_dir)/parts"
    resume
    ended_with 0
    complete
}

@test "a run's damaged files are named, with what can be done" {
    stopped
    local run_db manifest
    run_db=$(run_dir)/run.db manifest=$(run_dir)/manifest.json
    cp "$run_db" run.db.kept
    cp "$manifest" manifest.kept
    echo garbage >"$run_db"
    rm -f "$run_db"-*
    resume
    ended_with 65
    says "run.db" "it is damaged" "muster map --fresh"
    run limited "$MUSTER" results
    ended_with 65
    says "it is damaged"
    cp run.db.kept "$run_db"
    : >"$manifest"
    resume
    ended_with 65
    says "manifest.json is damaged" "muster results"
    run limited sh -c '"$MUSTER" results 2>/dev/null'
    ended_with 0
    [ "$(wc -l <<<"$output")" -ge 15 ]
    rm "$manifest"
    resume
    ended_with 2
    says "manifest.json is not there" "muster map"
    jq 'del(.output)' manifest.kept >"$manifest"
    resume
    ended_with 65
    says "manifest.json names no output"
    jq '.argv[2] = "--bogus"' manifest.kept >"$manifest"
    resume
    ended_with 2
    says "the command line in the run's manifest: unknown option '--bogus'"
    cp manifest.kept "$manifest"
    resume
    ended_with 0
    complete
}

@test "a run's folder that cannot be written is refused by name" {
    [ "$(id -u)" -ne 0 ] || [ -n "$(command -v setpriv)" ] || skip "root can write everything"
    stopped
    chmod -R a+rX,a-w "$(run_dir)"
    local as=
    [ "$(id -u)" -ne 0 ] || as="setpriv --reuid 65534 --regid 65534 --clear-groups"
    # shellcheck disable=SC2086
    $as test -r "$(run_dir)/manifest.json" || { chmod -R u+w "$(run_dir)"; skip "the folder for tests is private"; }
    # shellcheck disable=SC2086
    run limited $as "$MUSTER" resume
    chmod -R u+w "$(run_dir)"
    ended_with 2
    says "must be writable for who goes on with it"
}

@test "a copied run can be resumed where it is" {
    stopped
    cp -a "$(run_dir)" copied
    rm -rf muster-runs
    resume ./copied
    ended_with 0
    complete
}

@test "muster stop waits until the run has ended" {
    gated_begin
    touch go.soon
    (sleep 0.3; touch go) 3>&- 4>&- &
    run limited "$MUSTER" stop
    ended_with 0
    [ -e go ] # it waited
    [ "$("$MUSTER" status --json latest | jq -r .state)" != running ]
    map_end
    [ "$status" -eq 75 ] || [ "$status" -eq 0 ]
}

@test "a run that is part of another command names that command wherever it says how to go on" {
    export MUSTER_GO_ON="muster kge tracin --model 'a b'"
    gated_begin
    unset MUSTER_GO_ON
    run limited "$MUSTER" stop --now
    ended_with 0
    says "to go on: muster kge tracin --model 'a b'"
    map_end
    ended_with 75
    says "go on with: muster kge tracin --model 'a b'"
    run limited "$MUSTER" status
    says "go on     muster kge tracin --model 'a b'"
}

@test "INT ends a run with 130, TERM with 143, HUP with 129, and each can be resumed" {
    local pair
    for pair in INT:130 TERM:143 HUP:129; do
        rm -rf go out.jsonl muster-runs
        gated_begin
        kill "-${pair%:*}" "$PID"
        map_end
        ended_with "${pair#*:}"
        [[ $(last_line) == *"muster resume"* ]]
        touch go
        resume
        ended_with 0
        complete
    done
}

@test "a HUP that was ignored at start stays ignored" {
    gated
    (
        trap '' HUP
        exec "$MUSTER" map -g cpu:2 in.txt -o out.jsonl -- ./gated
    ) >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for results_are 15
    kill -HUP "$PID"
    touch go
    map_end
    ended_with 0
    complete
}

@test "--time-limit ends the run with 124, and it can be resumed" {
    gated
    map -g cpu:2 --grace 1s --time-limit 700ms in.txt -o out.jsonl -- ./gated
    ended_with 124
    says "limit" "muster resume"
    touch go
    resume --time-limit 50s
    ended_with 0
    complete
}

@test "kill -9, then the same command again goes on and says so" {
    gated_begin
    kill -KILL "$PID"
    map_end
    wait_for nobody_is_left
    [ "$(query 'SELECT count(*) FROM attempts WHERE ended_ms IS NULL AND items_done IS NULL AND times IS NULL')" = 2 ]
    touch go
    run "$MUSTER" status
    says "interrupted"
    map -g cpu:2 --grace 1s in.txt -o out.jsonl -- ./gated
    ended_with 0
    says "going on with $(basename "$(run_dir)")" "--fresh"
    complete
    [ "$(find muster-runs -name run.db | wc -l)" -eq 1 ]
}

@test "the same command with the same --run-dir goes on in that folder" {
    gated
    map_begin -g cpu:2 --run-dir "here 1" in.txt -o out.jsonl -- ./gated
    wait_for results_are 15 "here 1"
    kill -KILL "$PID"
    map_end
    wait_for nobody_is_left
    touch go
    map -g cpu:2 --grace 1s --run-dir "here 1" in.txt -o out.jsonl -- ./gated
    ended_with 0
    says "going on with here 1"
    complete
}

@test "--fresh starts over" {
    gated_begin
    kill -KILL "$PID"
    map_end
    touch go
    map -g cpu:2 --fresh in.txt -o out.jsonl -- ./gated
    ended_with 0
    complete
    [ "$(find muster-runs -name run.db | wc -l)" -eq 2 ]
}

@test "what a later run has replaced is not gone on with" {
    gated_begin
    kill -KILL "$PID"
    map_end
    sed -i 's/seed=item.seed/by="mended"/' gated
    touch go
    map -g cpu:2 --fresh in.txt -o out.jsonl -- ./gated
    ended_with 0
    rm out.jsonl
    map -g cpu:2 in.txt -o out.jsonl -- ./gated
    ended_with 0
    says_not "going on with"
    [ "$(grep -c mended out.jsonl)" = 100 ]
    seq 99 >in.txt # the unfinished run would be refused now
    map -g cpu:2 -f in.txt -o out.jsonl -- ./gated
    ended_with 0
    # The folder that is named is another matter.
    rm go out.jsonl
    map_begin -g cpu:2 --grace 1s --run-dir here in.txt -o out.jsonl -- ./gated
    wait_for results_are 15 here
    kill -KILL "$PID"
    map_end
    touch go
    map -g cpu:2 --run-dir here in.txt -o out.jsonl -- ./gated
    ended_with 0
    says "going on with here"
}

@test "what is left of an interrupted run are items that kill their worker: it comes to its end" {
    pyworker killer <<'END'
import muster, os, time
for item in muster.items():
    if item.index >= 28: # the last, as nothing may wait behind them
        while not os.path.exists("go"):
            time.sleep(0.01)
        os._exit(9)
    item.done(item.index)
END
    seq 0 29 >in.txt
    map_begin -g cpu:2 --grace 0s --retries 1 in.txt -o out.jsonl -- ./killer
    wait_for results_are 28
    kill -KILL "$PID"
    map_end
    touch go
    map -g cpu:1 --retries 1 in.txt -o out.jsonl -- ./killer
    ended_with 1
    says "going on with" "2 items"
    [ "$(wc -l <out.jsonl)" = 28 ]
    [ "$(jq -c .item out.jsonl.failed.jsonl | tr '\n' ' ')" = "28 29 " ]
}

@test "another command, input or output is another run" {
    gated_begin
    kill -KILL "$PID"
    map_end
    touch go
    map -g cpu:1 in.txt -o other.txt -- cat
    ended_with 0
    same other.txt in.txt
    [ "$(find muster-runs -name run.db | wc -l)" -eq 2 ]
}

@test "a run that was resumed with other devices gives the same bytes" {
    gated
    touch go
    map -g cpu:1 --runs-dir elsewhere in.txt -o want.jsonl -- ./gated
    ended_with 0
    rm go
    gated_begin
    kill -KILL "$PID"
    map_end
    touch go
    resume latest -g cpu:5
    ended_with 0
    same out.jsonl want.jsonl
}

@test "nothing that was committed is computed again" {
    pyworker counted <<'END'
import muster, os, time
for item in muster.items():
    while item.index >= 20 and not os.path.exists("go"):
        time.sleep(0.01)
    with open("ran", "a") as f:
        f.write(f"{item.index}\n")
    time.sleep(0.002)
    item.done(item.index)
END
    seq 100 >in.txt
    map_begin -g cpu:2 --no-reissue in.txt -o out.jsonl -- ./counted
    wait_for results_are 15
    "$MUSTER" results >committed
    kill -KILL "$PID"
    map_end
    wait_for nobody_is_left
    touch go
    resume latest
    ended_with 0
    local item
    while read -r item; do
        [ "$(grep -cx "$item" ran)" -eq 1 ] || { echo "item $item ran again"; return 1; }
    done <committed
    seq 0 99 >want.jsonl
    same out.jsonl want.jsonl
}

@test "the run that goes on is the latest, also after a kill before it was named so" {
    gated_begin
    kill -KILL "$PID"
    map_end
    rm muster-runs/latest
    touch go
    map -g cpu:2 in.txt -o out.jsonl -- ./gated
    ended_with 0
    complete
    [ -f muster-runs/latest/run.db ]
}

@test "--retry-failed tries what was set aside again, with a new command" {
    seq 0 49 >in.txt
    pyworker picky <<'END'
import muster, os
for item in muster.items():
    if item.index % 10 == 3 and not os.path.exists("mended"):
        item.fail("not mended yet")
    else:
        item.done(item.index)
END
    map -g cpu:2 --retries 0 in.txt -o out.jsonl -- ./picky
    ended_with 1
    [ "$(wc -l <out.jsonl)" -eq 45 ]
    [ "$(wc -l <out.jsonl.failed.jsonl)" -eq 5 ]
    "$MUSTER" status | grep -q "go on  *muster resume .* --retry-failed"
    touch mended
    resume latest --retry-failed
    ended_with 0
    seq 0 49 >want.jsonl
    same out.jsonl want.jsonl
    [ ! -e out.jsonl.failed.jsonl ]
}

@test "a resume replaces an output that exists only with --force" {
    gated_begin
    kill -KILL "$PID"
    map_end
    touch go
    echo precious >out.jsonl
    resume latest
    ended_with 2
    says "--force"
    [ "$(cat out.jsonl)" = precious ]
    resume latest --force
    ended_with 0
    [ "$(wc -l <out.jsonl)" -gt 1 ]
}

@test "muster resume RUN -- NEW COMMAND" {
    seq 0 49 >in.txt
    pyworker broken <<'END'
import muster
for item in muster.items():
    item.fail("always") if item.index % 10 == 3 else item.done(item.index)
END
    pyworker fixed <<'END'
import muster
for item in muster.items():
    item.done(item.index)
END
    map -g cpu:2 --retries 0 in.txt -o out.jsonl -- ./broken
    ended_with 1
    resume latest --retry-failed -- ./fixed
    ended_with 0
    seq 0 49 >want.jsonl
    same out.jsonl want.jsonl
}

@test "an input that changed is refused, with what changed" {
    gated_begin
    kill -KILL "$PID"
    map_end
    touch go
    echo 101 >>in.txt
    resume latest
    ended_with 2
    says "in.txt" "292" "296"
    [ ! -e out.jsonl ]
}

@test "a run that goes on already is not resumed a second time" {
    gated_begin
    resume latest
    [ "$status" -ne 0 ]
    says "$PID"
    touch go
    map_end
    ended_with 0
    complete
}

@test "a run that is finished is not run again" {
    seq 5 >in.txt
    map -g cpu:1 in.txt -o out.txt -- cat
    ended_with 0
    resume latest
    ended_with 0
    says "is complete: its results are in $PWD/out.txt"
    rm out.txt
    resume latest
    ended_with 2
    says "$PWD/out.txt is no longer there"
}

# What the last words say to type.
advised() { grep -o 'muster resume [^ ]*' <<<"$output" | tail -1 | cut -d' ' -f3; }

@test "what is said to be typed finds the run, wherever it is and one is" {
    gated
    MUSTER_RUNS_DIR='' map_begin -g cpu:2 --grace 1s --runs-dir elsewhere in.txt -o out.jsonl -- ./gated
    wait_for test -e elsewhere/latest
    wait_for results_are 15 elsewhere/latest
    run limited "$MUSTER" map -g cpu:1 --runs-dir elsewhere in.txt -o out.jsonl -- ./gated
    ended_with 69
    says "muster stop $PWD/elsewhere/"
    run limited "$MUSTER" stop --now --runs-dir elsewhere
    ended_with 0
    [ -d "$(advised)" ]
    map_end
    ended_with 75
    [ -d "$(advised)" ]
    run limited "$MUSTER" status --runs-dir elsewhere
    [ -d "$(advised)" ]
    (cd / && limited "$MUSTER" resume --time-limit 1s "$OLDPWD/elsewhere/latest") >said 2>&1 || true
    output=$(<said)
    touch go
    resume "$(advised)"
    ended_with 0
    complete
}

@test "a run beside others is called by its name, from the folder that they are in" {
    gated_begin
    "$MUSTER" stop --no-wait --now
    map_end
    ended_with 75
    [ "$(advised)" = "$(basename "$(run_dir)")" ]
    (cd / && ! limited "$MUSTER" resume --time-limit 1s "$OLDPWD/muster-runs/latest" >"$OLDPWD/said" 2>&1)
    output=$(<said)
    [ "$(advised)" = "$(run_dir)" ]
}

@test "shards that could not be joined are joined by a resume with what was missing" {
    worker columns <<'END'
#!/bin/sh
echo ran >>ran
[ "$1" = 0 ] && names=a,b || names=a,c
printf '%s\n1,2\n3,4\n' $names >"$2"
END
    map -g cpu:1 --items 4 --shards 2 -o out.csv -- ./columns {shard} {output}
    ended_with 65
    says "--union leaves such cells empty" "muster resume" "also with another --rule, --union"
    resume --union
    ended_with 0
    [ "$(head -1 out.csv)" = a,b,c ]
    has_lines out.csv 5
    [ "$(wc -l <ran)" -eq 2 ]
}

@test "--id is refused before the work where the shards' files have no fields, or are not joined" {
    seq 4 >in.txt
    local words
    for words in '-o out.txt' '-o out.dat' '-o out.jsonl --format-out lines' '-o out/'; do
        map -g cpu:1 --shards 2 --id id in.txt $words -- cp {input} {output}
        ended_with 2
        says "--id"
    done
    map -g cpu:1 --shards 2 --id id --collect 'made/{suffix}.txt' in.txt -o out.jsonl -- cp {input} {suffix}
    ended_with 2
    says "--id needs records with fields"
    [ ! -e muster-runs ]
}

@test "--dry-run where a run would go on plans what is left of it" {
    stopped
    local left
    left=$((100 - $(query 'SELECT items_done FROM progress')))
    ls -A "$(run_dir)" >before
    map -g cpu:3 --dry-run in.txt -o out.jsonl -- ./gated
    ended_with 0
    says "run $(basename "$(run_dir)") goes on: $left of 100 items are left" "worker 2"
    map -g cpu:3 --dry-run --fresh in.txt -o out.jsonl -- ./gated
    says_not "goes on"
    ls -A "$(run_dir)" >after
    same before after
    resume
    ended_with 0
    complete
}

@test "--dry-run of a run that is going on ends as resume would" {
    gated_begin
    resume --dry-run
    ended_with 69
    says "is going on: pid $PID on "
    touch go
    map_end
    ended_with 0
}

@test "--dry-run of shards that would go on shows those that are left, as they were cut" {
    worker cut <<'END'
#!/bin/sh
[ "$1" -ge 20 ] && until [ -e go ]; do touch at_gate; sleep 0.02; done
seq "$1" $(($1 + $2 - 1)) >"$3"
END
    map_begin -g cpu:1 --grace 1s --items 40 -o out.txt --shards 4 -- ./cut {start} {count} {output}
    wait_for test -e at_gate
    "$MUSTER" stop --no-wait --now
    map_end
    ended_with 75
    map -g cpu:2 --dry-run --items 40 -o out.txt --shards 4 -- ./cut {start} {count} {output}
    ended_with 0
    says "goes on: 2 of 4 shards are left" "shard 2 (items 20 to 29) on cpu_0: ./cut 20 10 $(run_dir)/shard-output/" "shard 3 (items 30 to 39) on cpu_1:"
    says_not "shard 0" "shard 1"
    touch go
    map -g cpu:2 --items 40 -o out.txt --shards 4 -- ./cut {start} {count} {output}
    ended_with 0
    seq 0 39 >want.txt
    same out.txt want.txt
}

@test "a table of failed items that cannot be read is named" {
    seq 5 >in.txt
    worker picky <<'END'
#!/bin/sh
while read -r n; do [ "$n" = 3 ] && exit 1; echo "$n"; done
END
    map -g cpu:1 --retries 0 in.txt -o out.txt -- ./picky
    ended_with 1
    sqlite3 "$(run_dir)/run.db" 'ALTER TABLE asides RENAME COLUMN place TO spot'
    resume
    ended_with 1
    says "run.db" "place"
}

@test "a look at a finished run, as of a map that is refused, leaves nothing in its folder" {
    seq 5 >in.txt
    map -g cpu:1 in.txt -o out.txt -- cat
    ended_with 0
    ls -A "$(run_dir)" >before
    map -g cpu:1 in.txt -o out.txt -- cat
    ended_with 2
    says "the output out.txt exists"
    run limited "$MUSTER" ls
    says "finished"
    run limited "$MUSTER" status
    ended_with 0
    resume latest
    ended_with 0
    ls -A "$(run_dir)" >after
    same before after
}

@test "a status that is watched ends with its reader" {
    gated_begin
    export -f limited
    run bash -c 'set -o pipefail; limited "$MUSTER" status -w | head -n 1'
    ended_with 0
    says_not "Broken pipe"
    touch go
    map_end
}

@test "results of a finished run whose output is another file now come with a word about it" {
    seq 3 >in.txt
    map -g cpu:1 in.txt -o out.txt --run-dir first -- cat
    cp -p out.txt copy && mv copy out.txt
    [ -z "$("$MUSTER" results first 2>&1 >/dev/null)" ]
    map -g cpu:1 in.txt -o out.txt --force --run-dir second -- sed s/^/x/
    run --separate-stderr "$MUSTER" results first
    ended_with 0
    [[ $stderr == *"/out.txt is not as the run left it: it was changed, replaced or copied since" ]]
    [ -z "$("$MUSTER" results second 2>&1 >/dev/null)" ]
    run "$MUSTER" resume first
    ended_with 0
    says "its results are in $PWD/out.txt, which was changed, replaced or copied since"
}

@test "a part of the results is not written where the run is to put all of them" {
    stopped
    out=$(jq -r .output muster-runs/latest/manifest.json)
    for force in "" --force; do
        run limited "$MUSTER" results $force -o "$out"
        ended_with 2
        says "is the output of run " ", which the run itself writes; name another file"
        [ ! -e "$out" ]
    done
    resume
    ended_with 0
}

@test "results of a finished run come in the format that is asked for" {
    seq 3 | sed 's/.*/{"n":&}/' >in.jsonl
    seq 3 >in.txt
    map -g cpu:1 in.jsonl -o out.jsonl -- cat
    run --separate-stderr "$MUSTER" results --format-out csv
    [ "$output" = $'n\n1\n2\n3' ]
    [ "$("$MUSTER" results --format-out json | jq -c 'map(.n)')" = "[1,2,3]" ]
    "$MUSTER" results --format-out lines | cmp - out.jsonl
    "$MUSTER" results -o copy.tsv
    [ "$(head -n 1 copy.tsv)" = n ]
    run "$MUSTER" results -o copy.tsv
    ended_with 2
    map -g cpu:1 in.jsonl -o json.txt -- cat
    [ "$("$MUSTER" results --format-out csv | wc -l)" = 4 ]
    map -g cpu:1 in.txt -o out.txt -- cat
    [ "$("$MUSTER" results --format-out jsonl | tr '\n' ' ')" = '"1" "2" "3" ' ]
    "$MUSTER" results | cmp - out.txt
}

@test "--detach leaves the terminal; status and results work while it runs" {
    gated
    run limited "$MUSTER" map -g cpu:2 --detach in.txt -o out.jsonl -- ./gated
    ended_with 0
    says "muster status"
    wait_for results_are 15
    run "$MUSTER" status
    says "running" "out.jsonl"
    run "$MUSTER" status --json
    [ "$(jq -r .state <<<"$output")" = running ]
    run "$MUSTER" ls
    says "running"
    touch go
    run limited "$MUSTER" status --watch
    ended_with 0
    says "finished"
    wait_for test -e out.jsonl
    complete
}

@test "a resume stays in the foreground, though the run was begun with --detach" {
    gated
    run limited "$MUSTER" map -g cpu:2 --detach in.txt -o out.jsonl -- ./gated
    ended_with 0
    wait_for results_are 15
    run limited "$MUSTER" stop --now
    touch go
    run limited "$MUSTER" resume
    ended_with 0
    [ -e out.jsonl ]
    complete
}

@test "--detach still says what is wrong here and now" {
    seq 5 >in.txt
    map -g cpu:1 --detach in.txt -o out.txt -- no-such-program
    ended_with 69
    says "no-such-program"
    map -g cpu:1 --detach nowhere.txt -o out.txt -- cat
    ended_with 2
    says "nowhere.txt"
}

@test "standard input is kept: a run from a pipe can be resumed" {
    gated
    cat in.txt | "$MUSTER" map -g cpu:2 --grace 1s - -o out.jsonl -- ./gated >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for results_are 15
    kill -KILL "$PID"
    map_end
    touch go
    resume latest
    ended_with 0
    complete
}

@test "the same command with other standard input does not take the old one's results" {
    gated
    cat in.txt | "$MUSTER" map -g cpu:2 --grace 1s - -o out.jsonl -- ./gated >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for results_are 15
    kill -KILL "$PID"
    map_end
    wait_for nobody_is_left
    touch go
    local other
    seq 1001 1100 >other_1
    seq 99 >other_2
    seq 101 >other_3
    for other in other_1 other_2 other_3 /dev/null; do
        run limited "$MUSTER" map -g cpu:2 - -o out.jsonl -- ./gated <"$other"
        ended_with 2
        says "stdin has other content than when the run began" "--fresh"
        [ ! -e out.jsonl ]
    done
    run limited "$MUSTER" map -g cpu:2 - -o out.jsonl -- ./gated < <(head -50 in.txt; sleep 0.2; tail -n +51 in.txt)
    ended_with 0
    says "going on with"
    complete
    # With --limit what comes behind it is not asked for.
    rm go out.jsonl
    "$MUSTER" map -g cpu:2 --grace 1s -n 50 - -o out.jsonl -- ./gated <in.txt >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for results_are 15
    kill -KILL "$PID"
    map_end
    wait_for nobody_is_left
    touch go
    run limited "$MUSTER" map -g cpu:2 -n 50 - -o out.jsonl -- ./gated < <(cat in.txt; seq 1000)
    ended_with 0
    says "going on with"
    [ "$(wc -l <out.jsonl)" = 50 ]
}

@test "muster results gives what there is, in order, in other formats" {
    gated_begin
    "$MUSTER" results --format-out csv >so_far.csv
    [ "$(head -1 so_far.csv | tr -d '\r')" = "id,seed" ]
    "$MUSTER" results -o so_far.jsonl
    [ "$(wc -l <so_far.jsonl)" -ge 15 ]
    jq .id so_far.jsonl | sort -nc
    touch go
    map_end
    ended_with 0
}

@test "muster results after the end" {
    seq 5 >in.txt
    map -g cpu:1 in.txt -o out.txt -- cat
    ended_with 0
    run --separate-stderr "$MUSTER" results
    if [ "$status" -eq 0 ]; then [ "$output" = "$(seq 5)" ]; else says "out.txt"; fi
}

@test "a second INT ends workers that do not obey at once" {
    seq 5 >in.txt
    worker deaf <<'END'
#!/bin/sh
trap '' TERM
read -r n
touch deaf.ready
while :; do sleep 0.1; done
END
    map_begin -g cpu:1 --grace 60s in.txt -o out.txt -- ./deaf
    wait_for test -e deaf.ready
    kill -INT "$PID"
    wait_for holds said "once more"
    kill -INT "$PID"
    map_end
    ended_with 130
}

@test "a run killed between the output's rename and its last commit takes the output for its own" {
    seq 5 >in.txt
    map -g cpu:1 --keep-parts in.txt -o out.txt -- cat
    ended_with 0
    # What that moment leaves: the output in place, the last commit not made.
    sqlite3 muster-runs/latest/run.db "DELETE FROM facts WHERE key IN ('state', 'exit')"
    cp -r muster-runs before
    map -g cpu:1 in.txt -o out.txt -- cat
    ended_with 0
    says "going on with"
    [ "$(cat out.txt)" = "$(seq 5)" ]
    # The same moment, but the file that stands there is somebody else's.
    rm -r muster-runs
    mv before muster-runs
    echo precious >out.txt
    map -g cpu:1 in.txt -o out.txt -- cat
    ended_with 2
    [ "$(cat out.txt)" = precious ]
}

@test "what the environment said of a run stays true of it when it is resumed without" {
    holding_worker
    seq 9 >in.txt
    MUSTER_LIMIT=3 MUSTER_ORDER=any map_begin -g cpu:1 in.txt -o out.txt -- ./hold
    wait_for test -e holding
    kill -KILL "$PID"
    wait "$PID" 2>/dev/null || true
    [ "$(jq -c '.argv[2:]' muster-runs/latest/manifest.json)" = '["--output=out.txt","--limit=3","--order=any","--gpus=cpu:1","in.txt","--","./hold"]' ]
    touch go
    run limited "$MUSTER" resume
    ended_with 0
    [ "$(wc -l <out.txt)" -eq 3 ]
}

@test "resume --dry-run shows what is left, and runs nothing" {
    seq 1 40 >in.txt
    map -g cpu:2 --shards 4 -r 0 -o out.txt in.txt -- sh -c '[ {shard} -lt 2 ] && cp {input} {output}'
    ended_with 1
    run limited "$MUSTER" resume --dry-run --retry-failed
    ended_with 0
    says "goes on: 2 of 4 shards are left" "shard 3 (items 30 to 39) on cpu_1"
    [ "$("$MUSTER" ls --json | jq -r .state)" = failed ]
    printf 'jobs: {a: {run: "true"}, b: {run: "false", needs: a}}\n' >g.yaml
    run limited "$MUSTER" graph g.yaml
    ended_with 1
    run limited "$MUSTER" resume --dry-run
    ended_with 0
    says "1 of 2 jobs would run"
}

state_is() { [ "$("$MUSTER" ls --json 2>/dev/null | jq -r .state)" = "$1" ]; }

@test "a resume that is refused leaves the run as it was: its state, and what was set aside" {
    gated_begin
    "$MUSTER" stop --now
    map_end
    ended_with 75
    for part in muster-runs/latest/parts/*; do : >"$part"; done
    resume
    ended_with 65
    run "$MUSTER" status
    says "state     stopped"
    rm -r muster-runs

    seq 1 20 >in.txt
    worker half <<'E'
#!/bin/sh
while read -r x; do [ "$x" -ne 7 ] || exit 4; echo "r$x"; done
E
    map -g cpu:1 -r 0 -o out.txt in.txt -- ./half
    ended_with 1
    state_is failed
    mv muster-runs/latest/parts kept
    resume --retry-failed
    ended_with 65
    says "is missing"
    state_is failed
    [ "$("$MUSTER" ls --json | jq .aside)" -eq 1 ]
    rm -rf muster-runs/latest/parts
    mv kept muster-runs/latest/parts
    sed -i 's/-ne 7/-ne 99/' half
    resume --retry-failed
    ended_with 0
    [ "$(wc -l <out.txt)" -eq 20 ]
}

@test "status says that a run's database or manifest is damaged or missing, and shows no way to go on" {
    gated_begin
    "$MUSTER" stop --now
    map_end
    ended_with 75
    cp muster-runs/latest/run.db kept
    rm muster-runs/latest/run.db*
    run "$MUSTER" status
    ended_with 0
    says "state     stopped" "run.db is missing; put a copy in its place, or start over by"
    says_not "go on "
    run "$MUSTER" ls
    says "run.db is missing"
    resume
    ended_with 65
    says "run.db is missing"
    : >muster-runs/latest/run.db
    run "$MUSTER" status
    says "run.db is damaged (it is empty)"
    head -c 5000 /dev/urandom >muster-runs/latest/run.db
    run "$MUSTER" status
    says "run.db: it is damaged" "put a copy in its place"
    says_not "go on "
    [ "$("$MUSTER" status --json | jq -r .not_read | cut -d: -f2)" = " it is damaged (file is not a database); put a copy in its place, or start over by muster map --fresh, or with another --run-dir" ]
    cp kept muster-runs/latest/run.db
    mv muster-runs/latest/manifest.json kept.json
    run "$MUSTER" status
    says "state     stopped" "manifest.json is not there; put a copy in its place" "muster results prints what is done"
    [ "$("$MUSTER" ls --json 2>/dev/null | jq -r '.verb, (.started_ms > 0)' | tr '\n' ' ')" = "map true " ]
    mv kept.json muster-runs/latest/manifest.json
    run "$MUSTER" status
    says "go on     muster resume"
    says_not "not read"
}

@test "resume --dry-run of a complete run removes nothing" {
    seq 5 >in.txt
    map -g cpu:1 -o out.txt in.txt -- cat -u
    ended_with 0
    mkdir muster-runs/latest/parts.gone # as a muster leaves it that is killed before its end
    resume --dry-run
    ended_with 0
    says "is complete"
    [ -d muster-runs/latest/parts.gone ]
    resume
    ended_with 0
    says "is complete"
    [ ! -e muster-runs/latest/parts.gone ]
}

@test "status and ls name a run of any bytes so that it can be typed, and opened by a script" {
    gated
    name=$'\xff\xfe'
    map_begin -g cpu:2 --grace 1s --run-dir "muster-runs/$name" in.txt -o $'out\xff.jsonl' -- ./gated
    export MUSTER_RUNS_DIR=muster-runs
    done_15() { [ "$("$MUSTER" status --json "muster-runs/$name" | jq .done)" -ge 15 ]; }
    wait_for done_15
    "$MUSTER" stop --now "muster-runs/$name"
    map_end
    ended_with 75
    go_on=$("$MUSTER" status "muster-runs/$name" | sed -n 's/^go on *//p')
    [ "$go_on" = 'muster resume $'"'"'\377\376'"'" ]
    "$MUSTER" ls --json >listed
    "$MUSTER" status --json "muster-runs/$name" >shown
    "$PYTHON" - <<'E'
import json, os
def name(value): return bytes.fromhex(value["bytes"]) if isinstance(value, dict) else os.fsencode(value)
for file in "listed", "shown":
    run = json.load(open(file))
    assert name(run["run"]) == b"\xff\xfe", run
    assert os.path.isdir(name(run["dir"])), run
    assert run["verb"] == "map" and run["not_read"] is None, run
assert os.path.basename(name(json.load(open("listed"))["output"])) == b"out\xff.jsonl"
E
    touch go
    muster() { run limited "$MUSTER" "$@"; }
    eval "$go_on"
    ended_with 0
}

@test "ls and status agree on a run, whatever is looked at" {
    seq 5 >in.txt
    map -g cpu:1 -o out.txt in.txt -- cat -u
    ended_with 0
    printf 'jobs: {a: {run: "true"}}\n' >g.yaml
    run limited "$MUSTER" graph -q g.yaml
    ended_with 0
    for dir in muster-runs/2*; do
        facts='[.run, .dir, .verb, .state, .items, .done, .aside, .started_ms, .updated_ms]'
        before=$("$MUSTER" ls --json | jq -c "select(.run == \"$(basename "$dir")\") | $facts")
        [ "$("$MUSTER" status --json "$dir" | jq -c "$facts")" = "$before" ]
        [ "$("$MUSTER" status --json "$dir" | jq -r .host)" = "$(uname -n)" ]
        sleep 0.05
        "$MUSTER" results "$dir" >/dev/null 2>&1 || true
        touch "$dir/run.db" # as a look at it may
        [ "$("$MUSTER" ls --json | jq -c "select(.run == \"$(basename "$dir")\") | $facts")" = "$before" ]
    done
}

@test "a run whose folder is moved while it goes on says where that is, and goes on from there with all that is done" {
    gated_begin
    "$MUSTER" stop --no-wait
    mv muster-runs elsewhere
    mkdir -p "muster-runs/$(basename "$(readlink elsewhere/latest)")" # another folder, of the same name
    touch go
    map_end
    ended_with 75
    at=$(realpath elsewhere)/$(basename "$(readlink elsewhere/latest)")
    [[ $(last_line) == *"the run's folder was moved to $at while it went on; go on with: muster resume $at" ]]
    run "$MUSTER" status "$at"
    says "state     stopped"
    resume "$at"
    ended_with 0
    complete
}

@test "the results of a run whose folder is moved before the merge are kept" {
    gated
    map_begin -g cpu:1 in.txt -o out.jsonl -- ./gated # a second worker could not begin any more
    wait_for results_are 15
    mv muster-runs elsewhere
    touch go
    map_end
    says "the run's folder was moved to" "go on with: muster resume"
    says_not "is gone"
    run "$MUSTER" status --runs-dir elsewhere
    says "100 of 100 items"
    resume --runs-dir elsewhere latest
    ended_with 0
    complete
}
