#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# examples/experiments: chains of experiments, killed in the middle, leave the same bytes.
load helpers

EXAMPLE=$BATS_TEST_DIRNAME/../../examples/experiments

setup() {
    [ -r "${WNSEARCHDIR:-/usr/share/wordnet}/data.noun" ] || skip "WordNet is not installed"
    common_setup
}

experiments() {
    run --separate-stderr limited "$MUSTER" graph -q -g cpu:2 experiments.yaml "$@"
}

# What one of the folders of the example's stages leaves.
left_by() { (cd "$1" && find texts models rollouts rescored results report.txt -type f -exec sha256sum {} + | sort -k2); }

@test "experiments, killed when round 2 generates, leave what they leave otherwise" {
    mkdir whole killed
    cp "$EXAMPLE"/* whole
    cp "$EXAMPLE"/* killed
    cd whole
    experiments
    ended_with 0
    cd ../killed
    "$MUSTER" graph -q -g cpu:2 experiments.yaml 3>&- 4>&- &
    PID=$!
    wait_for sh -c 'ls -d muster-runs/latest/runs/generate+*,r2-*/latest'
    kill -KILL $PID
    wait $PID || true
    wait_for nobody_is_left
    [ ! -e report.txt ]
    local n_done
    n_done=$(sqlite3 muster-runs/latest/run.db "SELECT count(*) FROM job_attempts WHERE is_well")
    [ "$n_done" -gt 6 ]
    experiments
    ended_with 0
    left_by ../whole >../whole.sums
    left_by . >../killed.sums
    same ../whole.sums ../killed.sums
    [ "$(wc -l <../whole.sums)" -eq 39 ]
    [ "$(wc -l <report.txt)" -eq 8 ]
    # What was done was not done again.
    run sqlite3 muster-runs/latest/run.db "SELECT name FROM job_attempts WHERE is_well GROUP BY name HAVING count(*) > 1"
    [ -z "$output" ]
    [ "$(sqlite3 muster-runs/latest/run.db 'SELECT count(*) FROM job_attempts WHERE is_well')" -eq 35 ]
}

@test "a round without its checkpoint does not run" {
    cp "$EXAMPLE"/* .
    sed -i 's/def train(model, data, round_):/&\n    assert (model, round_) != ("trigram", "1"), "no luck"/' lm.py
    experiments vars.data=nouns
    ended_with 1
    run "$MUSTER" status
    says "train 2/4 (1 failed, 1 blocked)" "generate 3/4 (1 blocked)" "evaluate 2/4 (2 blocked)"
    run "$MUSTER" why generate/trigram,nouns,r2
    says "waits for train/trigram,nouns,r1: failed 2 of 2" "AssertionError: no luck" "again: the same command"
    [ ! -e rollouts/trigram_nouns_r2.jsonl ]
}

# The project's own 25 lineages x 2 rounds, with stages that only leave their files.
@test "the experiments of PITA: a training of round 1 that fails stops its own lineage, and nothing else" {
    mkdir bin prompts
    for data in GSM8K AIME22to24 MATH IMDBGen TLDR; do
        printf '{"q": 1}\n{"q": 2}\n' >prompts/$data.jsonl
    done
    cat >bin/python <<'END'
#!/bin/sh
[ "$1" = rollouts.py ] && exec cat
stage=$2
shift 2
echo "$stage $*" >>ran
[ -e mended ] || [ "$stage $*" != "train PITA phi MATH 1" ] || exit 3
case $stage in
rescore) echo "$*" >runs/paper/rescored/tmp.$$ && mkdir runs/paper/rescored/$1_$2_r$3.hf && mv runs/paper/rescored/tmp.$$ runs/paper/rescored/$1_$2_r$3.hf/data ;;
train) echo "$*" >runs/paper/models/$1/$3_$2_r$4/classifier.pt ;;
eval) echo '{"num_examples": 3}' >runs/paper/results/$1/$2/$3/r$4/eta$5.json ;;
base) echo '{}' >runs/paper/results/base/$1_$2.json ;;
esac
END
    chmod +x bin/python
    PATH=$PWD/bin:$PATH run --separate-stderr limited "$MUSTER" graph -q -g cpu:4 "$BATS_TEST_DIRNAME/../fixtures/graph/pita.yaml"
    ended_with 1
    [[ $stderr == "muster: train/phi,MATH,PITA,r1 failed for good: status 3" ]]
    run "$MUSTER" status
    # Its four evaluations, and round 2 of that model and data: rollouts, rescoring, three trainings, twelve evaluations.
    says "rollouts 49/50 (1 blocked)" "rescore 49/50 (1 blocked)" "train 146/150 (1 failed, 3 blocked)" "evaluate 584/600 (16 blocked)" "base 25/25"
    grep -q "phi MATH 2" ran && return 1
    run "$MUSTER" why evaluate/phi,MATH,QSharp,r2,eta=4.0
    says "waits for train/phi,MATH,PITA,r1: failed 2 of 2, status 3"
    touch mended
    : >ran
    PATH=$PWD/bin:$PATH run --separate-stderr limited "$MUSTER" graph -q -g cpu:4 "$BATS_TEST_DIRNAME/../fixtures/graph/pita.yaml"
    ended_with 0
    [ "$(wc -l <ran)" -eq 21 ]
    [ "$(sort ran | uniq -d | wc -l)" -eq 0 ]
}
