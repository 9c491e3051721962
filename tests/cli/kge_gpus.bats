#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# muster kge tracin --gpus: the same results from any number of devices, whatever dies in between.
load helpers

WIDE=$BATS_TEST_DIRNAME/../python/wide_kge.py
ALIKE=$BATS_TEST_DIRNAME/../python/alike.py

DATA=(-q --train train.txt --entity-to-id node_dict.txt --relation-to-id rel_dict.txt --model-path model.pt)

# graph TRAIN TESTS: files of that many triples, and a model.
graph() { "$PYTHON" "$WIDE" . "$1" "$2"; }

# A second of one processor, so that there is time to kill somebody.
SLOW=(--test test.txt --backend ref --dtype float64 --top-k 5 --threads 1)

# The graph of these, and whole.jsonl, what comes of them.
slow_graph() { cp "$BATS_FILE_TMPDIR"/slow/* .; }

setup_file() {
    mkdir "$BATS_FILE_TMPDIR/slow"
    cd "$BATS_FILE_TMPDIR/slow" || return 1
    graph 24000 30
    MUSTER_LOCK_DIR=$BATS_FILE_TMPDIR/locks "$MUSTER" kge tracin "${DATA[@]}" "${SLOW[@]}" -o whole.jsonl --gpus cpu:2
}

kge() { run limited "$MUSTER" kge tracin "${DATA[@]}" "$@"; }

# done_with OPTION…: muster kge tracin succeeds, says nothing, and leaves no folder of a run.
done_with() {
    kge "$@"
    ended_with 0
    [ -z "$(compgen -G '*.run')" ] || { echo "left behind: $(echo *.run)"; return 1; }
}

refused() {
    local status_wanted=$1 words=$2
    shift 2
    kge "$@"
    ended_with "$status_wanted"
    says "$words"
}

alike() { "$PYTHON" "$ALIKE" "$@"; }

# Without a process: what is waited for takes a second.
has_answers() {
    local part
    for part in "$1"/map/parts/*.part; do
        [ -s "$part" ] && return
    done
    return 1
}

# begin OUTPUT OPTION…: in the background; returns when something is answered. Its pid is $PID.
begin() {
    local out=$1
    shift
    "$MUSTER" kge tracin "${DATA[@]}" -o "$out" "$@" >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for has_answers "$out.run"
}

# its_end: $status and $output, as after run.
its_end() {
    status=0
    wait "$PID" || status=$?
    output=$(cat said)
}

# The worker's program, under the guard under muster kge.
worker_of() {
    local pid
    for pid in $(marked); do
        if tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -q '^[^ ]*muster-kge tracin-worker'; then
            echo "$pid"
        fi
    done | head -1
}

@test "any number of devices gives the same bytes, those of one process but for rounding" {
    graph 6000 30
    done_with --test test.txt --top-k 5 -o here.jsonl
    for slots in 1 2 3; do
        done_with --test test.txt --top-k 5 -o "slots$slots.jsonl" --gpus cpu:$slots
    done
    alike here.jsonl slots1.jsonl
    same slots1.jsonl slots2.jsonl
    same slots1.jsonl slots3.jsonl
}

@test "every form of result comes from devices too" {
    graph 3000 6
    form() { # FILE OPTION…
        local file=$1
        shift
        done_with "$@" -o "here.$file"
        done_with "$@" -o "there.$file" -g cpu:2
        alike "here.$file" "there.$file"
    }
    form all.json --test test.txt
    form some.csv --test test.txt --top-k 3 --order value
    form matrix.npy --test test.txt --n-hops 3
    form single.json --test test.txt --mode single --test-indices 4,1,4 --top-k 2 --csv-output single.csv --force
    form self.jsonl --mode self
    form self.npy --mode self
    # Most are zero: equal ones stand in the order of the file, in whatever ranges they were.
    form ties.jsonl --test test.txt --last-layer-names embeddings --top-k 9
}

@test "a batch with a filter for each test triple comes from devices too" {
    graph 3000 12
    printf 'e0\tr0\te0\n' >>test.txt
    sed -i '/\te0$/d; /^e0\t/d' train.txt
    kge --test-triples test.txt --n-hops 2 --top-k 3 --output-dir here
    ended_with 1
    kge --test-triples test.txt --n-hops 2 --top-k 3 --output-dir there -g cpu:2
    ended_with 1
    says "have no training triple near them"
    [ ! -e there/batch_tracin.run ]
    [ "$(jq '[.successful, .failed_filtering] | join(" ")' here/batch_tracin_summary.json)" = \
        "$(jq '[.successful, .failed_filtering] | join(" ")' there/batch_tracin_summary.json)" ]
    [ "$(jq .successful there/batch_tracin_summary.json)" -gt 1 ]
    for file in here/*_tracin.*; do
        case $file in *summary*) ;; *) alike "$file" "there/${file#*/}" ;; esac
    done
    # Those that are there stay; the others are computed.
    rm "$(compgen -G 'there/*_tracin.csv' | head -1)"
    kge --test-triples test.txt --n-hops 2 --top-k 3 --output-dir there -g cpu:1 --skip-existing
    ended_with 1
    [ "$(jq .successful there/batch_tracin_summary.json)" = 1 ]
    [ ! -e there/batch_tracin.run ]
}

@test "whoever is killed, the same command goes on to the same bytes, on other devices too" {
    slow_graph

    begin killed.jsonl "${SLOW[@]}" -g cpu:1
    kill -KILL "$PID" # its guard ends its worker, and the next command waits for that
    its_end
    ended_with 137
    [ ! -e killed.jsonl ]
    done_with "${SLOW[@]}" -o killed.jsonl -g cpu:2
    same whole.jsonl killed.jsonl

    begin alone.jsonl "${SLOW[@]}" -g cpu:1
    pgrep -P "$PID" | xargs kill -KILL "$PID" # nobody ends its worker but the next command
    its_end
    ended_with 137
    done_with "${SLOW[@]}" -o alone.jsonl -g cpu:3
    same whole.jsonl alone.jsonl
}

# typed_again: the command that `said` names is typed, as it stands there.
typed_again() {
    local command
    command=$(sed -n 's/.*; go on with: \(muster kge tracin .*\)$/\1/p' said)
    [ -n "$command" ] || { echo "no command is named:"; cat said; return 1; }
    run limited env PATH="$(dirname "$MUSTER"):$PATH" bash -c "$command"
    ended_with 0
}

@test "a command that is stopped from elsewhere names the whole command, which goes on when it is typed" {
    slow_graph
    mv test.txt "the user's test.txt"
    SLOW=(--test "the user's test.txt" "${SLOW[@]:2}")
    begin out.jsonl "${SLOW[@]}" -g cpu:1
    "$MUSTER" status out.jsonl.run/map | grep -q running
    "$MUSTER" stop out.jsonl.run/map
    its_end
    ended_with 75
    ! holds said "muster resume"
    typed_again
    same whole.jsonl out.jsonl
    [ ! -e out.jsonl.run ]
}

@test "begun with --force it replaces what was there, also when it is gone on with without" {
    slow_graph
    echo old >out.jsonl
    begin out.jsonl "${SLOW[@]}" -g cpu:1 --force
    kill -TERM "$PID"
    its_end
    ended_with 143
    [ "$(cat out.jsonl)" = old ]
    typed_again
    same whole.jsonl out.jsonl
    [ ! -e out.jsonl.run ]
}

@test "a worker that is killed is no matter, and an interrupt ends everybody" {
    slow_graph

    begin bereft.jsonl "${SLOW[@]}" -g cpu:1
    kill -KILL "$(worker_of)"
    its_end
    ended_with 0
    same whole.jsonl bereft.jsonl
    [ ! -e bereft.jsonl.run ]

    begin stopped.jsonl "${SLOW[@]}" -g cpu:1
    kill -INT "$PID"
    its_end
    ended_with 130
    says "interrupted; go on with: muster kge tracin"
    wait_for nobody_is_left
    [ ! -e stopped.jsonl ]
    done_with "${SLOW[@]}" -o stopped.jsonl -g cpu:2
    same whole.jsonl stopped.jsonl
}

@test "killed while files were put in place, it puts all of them there" {
    graph 10000 300
    "$MUSTER" kge tracin "${DATA[@]}" --test test.txt --top-k 1 -o all.json --output-per-triple -g cpu:2 >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for test -e tracin_test_0.json
    kill -KILL "$PID"
    its_end
    [ -e all.json.run ] || skip "it was faster"
    # As if it had been long: what the workers said of their time is all that is known of it.
    sed -i -E 's/"load_ms":[0-9]+,"work_ms":[0-9]+/"load_ms":3100,"work_ms":40/; 1s/"worker":[0-9]/"worker":7/; 1s/"life":[0-9]/"life":7/' \
        all.json.run/answers.jsonl
    DATA=("${DATA[@]:1}")
    done_with --test test.txt --top-k 1 -o all.json --output-per-triple -g cpu:2
    says "loading took 3.1 s a worker, the work 0.8 s: one device would have done"
    [ "$(compgen -G 'tracin_test_*.json' | wc -l)" = 300 ]
    jq -e '.top_influences | length == 1' tracin_test_299.json >/dev/null
}

@test "what cannot be is refused before anything is made, with the status that it has everywhere" {
    graph 1500 3
    refused 2 "--top-k 1501: there are only 1,500 training triples" --test test.txt --top-k 1501 -o out.json -g cpu:2
    refused 2 "-g: devices 'cpu:many': expected a whole number" --test test.txt -o out.json -g cpu:many
    MUSTER_NVML=/nowhere MUSTER_SYSFS=/nowhere refused 69 "GPU 7 is not available" --test test.txt -o out.json -g 7
    refused 2 "--run-dir goes with --gpus" --test test.txt -o out.json --run-dir run
    refused 2 "--run-dir DIR names one" --test test.txt -o - -g cpu:1
    refused 2 "-o and --run-dir both name ./out.json" --test test.txt -o ./out.json -g cpu:1 --run-dir out.json
    [ ! -e out.json ]
    cp "$(dirname "$MUSTER")/muster-kge" alone
    run limited ./alone tracin "${DATA[@]}" --test test.txt -o out.json -g cpu:1
    ended_with 69
    says "muster-guard is not beside $PWD/alone"
    [ ! -e out.json ]
    echo mine >out.json
    refused 2 "out.json exists; --force replaces it" --test test.txt -o out.json -g cpu:2
    touch self.npy
    refused 2 "self.npy exists" --mode self -o self.npy -g cpu:2
    mkdir others
    echo mine >others/train
    refused 2 "others is there and no run of muster kge tracin" --test test.txt -o new.json -g cpu:2 --run-dir others
    [ "$(cat out.json others/train)" = $'mine\nmine' ]
    [ "$(ls others)" = train ]
    [ -z "$(compgen -G '*.run')" ]
}

@test "what ends a worker ends it, with one sentence and the status that it has without devices" {
    graph 1500 3
    refused 65 "the model's numbers are too large for this precision" --test test.txt -o out.json --model-path too_large.pt
    refused 65 "muster kge tracin: an influence is not finite: the model's numbers are too large for this precision" \
        --test test.txt -o out.json --model-path too_large.pt -g cpu:2 --run-dir failed
    [ -e failed/map/orchestrator.log ]
    ! "$MUSTER" kge --version | grep -q "^ *cuda: not here" && return 0 # there are GPUs behind those that are played
    MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=2 MUSTER_SYSFS=/nowhere refused 69 "muster kge tracin: backend cuda: " \
        --test test.txt -o out.json -g all
    says "--gpus cpu:N takes processors"
    [ ! -e out.json ]
}

@test "a run is gone on with by its own command alone, and --force begins anew" {
    slow_graph
    begin out.jsonl "${SLOW[@]}" -g cpu:1
    refused 69 "another muster kge tracin is at work in $PWD/out.jsonl.run" "${SLOW[@]}" -o out.jsonl -g cpu:1
    kill -TERM "$PID"
    its_end
    ended_with 143
    refused 2 "out.jsonl.run holds what another command has begun" "${SLOW[@]}" -o out.jsonl -g cpu:1 --order value
    head -20000 train.txt >fewer.txt
    mv train.txt all.txt && mv fewer.txt train.txt
    refused 2 "the triples have changed since the run began: --force begins anew" "${SLOW[@]}" -o out.jsonl -g cpu:2
    mv all.txt train.txt
    touch model.pt
    refused 2 "its checkpoint has changed since" "${SLOW[@]}" -o out.jsonl -g cpu:2
    [ ! -e out.jsonl ]
    done_with --test test.txt --top-k 5 -o out.jsonl -g cpu:2 --force
    has_lines out.jsonl 150
    # Defaults for muster's own runs are not for these.
    MUSTER_LIMIT=1 MUSTER_ORDER=any MUSTER_DRY_RUN=1 MUSTER_KGE_GPUS=cpu:2 done_with --test test.txt --top-k 5 -o again.jsonl --run-dir elsewhere
    same out.jsonl again.jsonl
    [ ! -e elsewhere ]
}

@test "a result that appears meanwhile stays, and the run's is not lost" {
    slow_graph
    SLOW=(--test test.txt --backend ref --dtype float64 --threads 1)
    begin out.npy "${SLOW[@]}" -g cpu:1
    echo mine >out.npy
    its_end
    ended_with 2
    says "out.npy exists; --force replaces it"
    refused 2 "out.npy exists; --force replaces it" "${SLOW[@]}" -o out.npy -g cpu:2
    [ "$(cat out.npy)" = mine ]
    rm out.npy
    cp -r out.npy.run kept.run
    kge "${SLOW[@]}" -o out.npy -g cpu:2
    ended_with 0
    [ ! -e out.npy.run ]
    same kept.run/rows out.npy
    # As if it had been killed when the array was in its place, before that could be noted.
    mv kept.run out.npy.run
    touch out.npy.run/placing
    cp out.npy whole.npy
    rm out.npy.run/rows
    done_with "${SLOW[@]}" -o out.npy -g cpu:2
    same whole.npy out.npy
}

@test "a dry run says how many items there are" {
    graph 6000 30
    run --separate-stderr limited "$MUSTER" kge tracin "${DATA[@]}" --test test.txt --top-k 5 -o out.json -g cpu:2 --dry-run
    ended_with 0
    says "on devices: 24 items of up to 30 test triples and 256 training triples"
    run --separate-stderr limited "$MUSTER" kge tracin "${DATA[@]}" --test test.txt -o out.npy -g cpu:2 --dry-run
    says "on devices: 24 items" "on disk meanwhile: 1.4 MiB"
    [ -z "$(compgen -G 'out.*')" ]
}

@test "too little work for the devices is said" {
    graph 300 3
    run limited "$MUSTER" kge tracin "${DATA[@]:1}" --test test.txt --top-k 5 -o out.json -g cpu:3
    ended_with 0
    says "2 items; what is done is kept in" \
        "there is too little work for many devices: at most 2 devices of --gpus will be used"
}

# Of a link, a pipe, another user's file and ten gigabytes.
planted() { # HOW FILE
    rm -rf "$2"
    case $1 in
    link) ln -s "$PWD/precious" "$2" ;;
    pipe) mkfifo "$2" ;;
    owner) touch "$2" && chown 54321 "$2" ;;
    large) truncate -s 10G "$2" ;;
    esac
}

@test "what others put in the place of a run's files is refused at once, and nothing is written through it" {
    local how name
    slow_graph
    begin out.jsonl "${SLOW[@]}" -g cpu:1
    kill -KILL "$PID"
    its_end
    wait_for nobody_is_left
    mv out.jsonl.run good
    echo "do not touch" >precious
    cp precious precious.copy
    for how in link pipe owner large; do
        [ $how != owner ] || [ "$(id -u)" -eq 0 ] || continue
        for name in lock options train tests items.jsonl map rows answers.jsonl why placing replaces; do
            [ $how != large ] || [[ " options train items.jsonl " == *" $name "* ]] || continue
            rm -rf out.jsonl.run
            cp -a good out.jsonl.run
            planted $how out.jsonl.run/$name
            run timeout --foreground -s KILL 10 "$MUSTER" kge tracin "${DATA[@]}" "${SLOW[@]}" -o out.jsonl -g cpu:1
            [ "$status" -eq 2 ] || [ "$status" -eq 65 ] || { echo "$how $name: status $status: $output"; false; }
            cmp precious precious.copy
            [ ! -e out.jsonl ]
        done
    done
    says "--force begins anew"
    rm -rf out.jsonl.run
    cp -a good out.jsonl.run
    if [ "$(id -u)" -eq 0 ]; then
        chown 54321 out.jsonl.run
        refused 2 "belongs to uid 54321" "${SLOW[@]}" -o out.jsonl -g cpu:1
        says "--run-dir names another place"
        chown 0 out.jsonl.run
    fi
    planted link out.jsonl.run/rows
    kge "${SLOW[@]}" -o out.jsonl -g cpu:1 --force
    ended_with 0
    same whole.jsonl out.jsonl
    cmp precious precious.copy
}

@test "of two commands for one result one computes, with devices and without" {
    slow_graph
    stopped_with_claim kge tracin "${DATA[@]}" "${SLOW[@]}" -o out.jsonl
    local with
    for with in "" "-g cpu:1"; do
        # shellcheck disable=SC2086
        refused 69 "process $PID of" "${SLOW[@]}" -o out.jsonl $with
        says "is at work on the output out.jsonl"
    done
    kill -CONT "$PID"
    wait "$PID"
    has_lines out.jsonl 150
}
