#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What jobs took in earlier runs is known in a new one.
load helpers

graph() { run --separate-stderr limited "$MUSTER" graph -q -g "${DEVICES:-cpu:2}" "$@"; }
memory() { echo "$XDG_CACHE_HOME/muster/graph.json"; }

a_file() {
    cat >g.yaml <<'END'
vars: {n: [1, 2]}
jobs:
  make: {for: [n], run: sleep 0.4, gpus: 1}
  use: {for: [n], needs: make, run: sleep 0.2, gpus: 1}
END
}

@test "a new run knows how long the jobs of each stage took, whatever became of the old one" {
    a_file
    graph --dry-run g.yaml
    says "4 of 4 jobs would run, in 2 m 00 s; the time of 4 is not known"
    graph g.yaml
    ended_with 0
    graph --fresh --dry-run g.yaml
    says_not "is not known"
    [[ $output =~ ([45]..)" ms"\ +cpu\ [01]\ +make/n=1 ]]
    [[ $output =~ ([23]..)" ms"\ +cpu\ [01]\ +use/n=1 ]]
    rm -r muster-runs
    sed -i 's/sleep 0.2/sleep 0.3/' g.yaml
    graph --dry-run g.yaml
    says "the time of 2 is not known"
    mkdir elsewhere
    cd elsewhere
    graph --dry-run ../g.yaml
    says "the time of 4 is not known"
}

@test "a command line that was finished knows its time, with other arguments too, and what jobs take now is nearer" {
    graph -- sleep {} ::: 0.3 0.31
    ended_with 0
    graph --dry-run -- sleep {} ::: 0.8 0.81
    says_not "is not known"
    [[ $output =~ [34]..\ ms ]]
    graph -- sleep {} ::: 0.8 0.81
    graph --dry-run -- sleep {} ::: 1 2
    [[ $output =~ [89]..\ ms ]]
    printf 'sleep 0.1\nsleep 0.11\n' >commands
    graph <commands
    ended_with 0
    graph --dry-run <commands
    says_not "is not known"
    graph --dry-run <<<"sleep 5"
    says "the time of 1 is not known"
}

@test "a memory that is damaged, of others or no file is left out of account with a sentence" {
    a_file
    mkdir -p "$(dirname "$(memory)")"
    for content in '{' '[]' '{"version":2,"stages":[]}' '{"version":1,"stages":[7]}' \
        '{"version":1,"stages":[{"signature":1,"ms":0,"mem_peak_bytes":1}]}' ''; do
        printf '%s' "$content" >"$(memory)"
        run --separate-stderr limited "$MUSTER" graph -g cpu:2 --fresh g.yaml
        ended_with 0
        [[ $stderr == *"what jobs took in earlier runs is not used: "*"graph.json is damaged"* ]]
        graph --fresh --dry-run g.yaml
        says_not "is not known"
        [ -z "$stderr" ]
    done
    rm "$(memory)" && mkfifo "$(memory)"
    run --separate-stderr limited "$MUSTER" graph -g cpu:2 --fresh g.yaml
    ended_with 0
    [[ $stderr == *"regular file"* ]]
    rm "$(memory)"
    echo precious >mine
    ln -s "$PWD/mine" "$(memory)"
    graph --fresh g.yaml
    ended_with 0
    [ "$(cat mine)" = precious ]
    rm "$(memory)"
    graph --fresh g.yaml
    chmod 666 "$(memory)"
    run --separate-stderr limited "$MUSTER" graph -g cpu:2 --fresh --dry-run g.yaml
    says "the time of 4 is not known"
    [[ $stderr == *"graph.json"* ]]
    rm -r "$XDG_CACHE_HOME" && touch "$XDG_CACHE_HOME"
    graph --fresh g.yaml
    ended_with 0
    has_logged "what the jobs took is not remembered: "
}

@test "graphs that end at once all remember what they took" {
    local i pids=
    for i in 1 2 3 4 5 6; do
        "$MUSTER" graph -q -g cpu:8 --run-dir "run$i" -- sleep 0.1 "{}" ::: "0.0$i" &
        pids+=" $!"
    done
    wait $pids
    for i in 1 2 3 4 5 6; do
        "$MUSTER" graph -q -g cpu:8 --run-dir "other$i" -- "sleep" "0.0$i" "{}" ::: 0 &
        pids+=" $!"
    done
    wait $pids
    [ "$(grep -c signature "$(memory)")" -eq 7 ]
}

@test "the device memory that a stage took is reserved in a new run, and never more than there is" {
    printf 'echo b >>log; echo $1 >used; sleep 2; echo e >>log; echo 0 >used\n' >job
    echo 0 >used
    export MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=1,memfile=0:$PWD/used MUSTER_SYSFS=/nowhere DEVICES=all
    jobs_of() { printf 'jobs: {train: {for: {n: 1..%s}, run: "sh job %s", gpus: {memory: auto}}}\n' "$1" "$2" >g.yaml; }
    jobs_of 1 8
    graph g.yaml
    ended_with 0
    jobs_of 3 8
    rm log
    graph --fresh g.yaml
    ended_with 0
    [[ $(tr '\n' ' ' <log) == "b b "* ]]
    jobs_of 1 130
    graph --fresh g.yaml
    ended_with 0
    graph --fresh g.yaml
    ended_with 0
}
