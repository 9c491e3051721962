#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Options that every verb reads in the same way: their variables, and what is said when they are refused.
load helpers

setup() {
    common_setup
    seq 5 >in.txt
    printf '%s\n' '{"t":"A","p":"A"}' '{"t":"B","p":"A"}' '{"t":"C","p":"C"}' >labels.jsonl
}

@test "an option that may be repeated replaces what its variable says, if it is given" {
    export MUSTER_IGNORE=C
    map -g cpu:1 labels.jsonl -o out.jsonl --score t=p -- cat
    ended_with 0
    says "records left out by --ignore: 'C': 1"
    map -g cpu:1 labels.jsonl -o out2.jsonl --score t=p --ignore B -- cat
    ended_with 0
    says "records left out by --ignore: 'B': 1"
    map -g cpu:1 labels.jsonl -o out3.jsonl --score t=p --ignore B --ignore A -- cat
    ended_with 0
    says "records left out by --ignore: 'B', 'A': 2"
}

@test "a run in the background, and one that is resumed, have the lists that they had" {
    export MUSTER_IGNORE=C
    map -g cpu:1 labels.jsonl -o out.jsonl --score t=p --ignore B --run-dir r -- sh -c '[ -e go ] && exec cat'
    ended_with 1
    touch go
    run limited "$MUSTER" resume --retry-failed r
    ended_with 0
    says "records left out by --ignore: 'B': 1"
    map -g cpu:1 labels.jsonl -o out2.jsonl --score t=p --detach --run-dir r2 -- cat
    ended_with 0
    wait_for test -e out2.jsonl
    jq -e '[.. | strings | select(. == "--ignore=C")] | length == 1' r2/manifest.json
}

@test "the checkpoints of muster kge replace those of its variable" {
    "$PYTHON" "$BATS_TEST_DIRNAME/../python/tiny_kge.py" .
    local words=(kge tracin --train train.txt --entity-to-id node_dict.txt --relation-to-id rel_dict.txt --test test.txt --top-k 2)
    limited "$MUSTER" "${words[@]}" --model-path model.pt -o once.json
    MUSTER_KGE_MODEL_PATH=model.pt limited "$MUSTER" "${words[@]}" --model-path model.pt -o typed.json
    same once.json typed.json
}

@test "the variable of an option without a value takes yes and no, in any case of letters, and nothing else" {
    for value in 1 true YES on; do
        MUSTER_DRY_RUN=$value map -g cpu:1 in.txt -o out.txt -- cat
        ended_with 0
        [ ! -e out.txt ] || { echo "MUSTER_DRY_RUN=$value ran"; return 1; }
    done
    for value in '' 0 False no OFF; do
        MUSTER_DRY_RUN=$value map -g cpu:1 in.txt -o "out$value.txt" -- cat
        ended_with 0
        [ -e "out$value.txt" ] || { echo "MUSTER_DRY_RUN=$value did not run"; return 1; }
    done
    for value in 2 ' 1' y; do
        MUSTER_DRY_RUN=$value map -g cpu:1 in.txt -o never.txt -- cat
        ended_with 2
        says "muster: map: MUSTER_DRY_RUN: expected 1, true, yes or on, or else 0, false, no or off; found '$value'"
    done
    MUSTER_KGE_DRY_RUN=maybe run limited "$MUSTER" kge tracin
    ended_with 2
    says "muster kge tracin: MUSTER_KGE_DRY_RUN: expected 1"
}

@test "an unknown letter is shown in the word that was typed" {
    map -j4 in.txt -o out.txt -- cat # as GNU parallel has it; -j is --join here
    ended_with 2
    says "unknown option '-4' in '-j4'; see muster map --help"
    map -z in.txt -o out.txt -- cat
    ended_with 2
    says "unknown option '-z'; see muster map --help"
}

@test "help and completion that cannot be written are a failure" {
    export -f limited
    local words
    mkfifo pipe
    for words in "completion bash" "completion fish" "kge completion zsh" "map --help" "help map" "kge train --help" "--help" "--version" "kge --version"; do
        # shellcheck disable=SC2086
        run --separate-stderr bash -c 'limited "$MUSTER" "$@" >/dev/full' - $words
        [ "$status" -eq 75 ] && [[ $stderr == *": No space left on device"* ]] || { echo "muster $words >/dev/full: $status, $stderr"; return 1; }
        # shellcheck disable=SC2086
        run --separate-stderr bash -c 'limited "$MUSTER" "$@" >&-' - $words
        [ "$status" -eq 1 ] && [[ $stderr == *": Bad file descriptor"* ]] || { echo "muster $words >&-: $status, $stderr"; return 1; }
        # shellcheck disable=SC2086
        run --separate-stderr bash -c 'exec 4<>pipe 5>pipe 4<&-; limited "$MUSTER" "$@" >&5' - $words
        [ "$status" -eq 1 ] && [[ $stderr == *": Broken pipe"* ]] || { echo "muster $words without a reader: $status, $stderr"; return 1; }
    done
}

@test "a dry run of which a line could not be written is a failure" {
    export -f limited
    # shellcheck disable=SC2016
    run --separate-stderr bash -c 'limited "$MUSTER" map -g cpu:1 --dry-run in.txt -o out.txt -- echo $(seq 9000) >/dev/full'
    ended_with 1
    [ "$stderr" = "muster: part of standard output was not written" ] || { echo "$stderr"; return 1; }
}

# refused_by WORDS VARIABLE=VALUE… -- OPTION…: a map is refused with these words.
refused_by() {
    local words=$1 variables=()
    shift
    while [ "$1" != -- ]; do
        variables+=("$1")
        shift
    done
    shift
    run limited env "${variables[@]}" "$MUSTER" map in.txt -o never.txt "$@" -- cat
    ended_with 2
    [ "$output" = "muster: map: $words" ] || { printf 'expected: %s\nfound: %s\n' "$words" "$output"; return 1; }
}

@test "an option that a variable set is told from one that was typed" {
    refused_by "--line-max: at least 4096 bytes are needed (--line-max is set by MUSTER_LINE_MAX)" MUSTER_LINE_MAX=1 --
    refused_by "--line-max: at least 4096 bytes are needed" MUSTER_LINE_MAX=1 -- --line-max 2
    refused_by "--line-max: at least 4096 bytes are needed" -- --line-max=2
    refused_by "MUSTER_LINE_MAX: expected a size such as 16GiB, found 'x'" MUSTER_LINE_MAX=x --
    refused_by "--also is for shard commands, but the command holds no {start}, {count}, {end}, {shard}, {input} or {output} (--also is set by MUSTER_ALSO)" MUSTER_ALSO=x --
    local grow="--grow takes devices that become free: leave -g out, or give -g free"
    refused_by "$grow (--grow is set by MUSTER_GROW)" MUSTER_GROW=1 -- -g cpu:1
    refused_by "$grow (-g is set by MUSTER_GPUS)" MUSTER_GPUS=cpu:1 -- --grow
    refused_by "$grow (-g is set by MUSTER_GPUS; --grow is set by MUSTER_GROW)" MUSTER_GPUS=cpu:1 MUSTER_GROW=yes --
    refused_by "$grow" -- --grow -gcpu:1
    MUSTER_LINE_MAX=1 run limited "$MUSTER" submit --dry-run map in.txt -o never.txt -- cat
    ended_with 2
    says "muster: submit: map: --line-max: at least 4096 bytes are needed (--line-max is set by MUSTER_LINE_MAX)"
}

@test "-q leaves stderr to errors, also in a run that goes to the background" {
    for run in "map -q -g cpu:1 in.txt -o out.txt --detach -- cat" "graph -q -g cpu:1 --detach -- true ::: 1"; do
        # shellcheck disable=SC2086
        run --separate-stderr limited "$MUSTER" $run
        ended_with 0
        [ -z "$stderr" ] || { echo "$run: $stderr"; return 1; }
    done
    MUSTER_DETACH=1 run --separate-stderr limited "$MUSTER" map -q -g cpu:1 in.txt -o out2.txt -- cat
    ended_with 0
    [ -z "$stderr" ] || { echo "$stderr"; return 1; }
    wait_for test -e out2.txt
    wait_for nobody_is_left
}

@test "each line of gpus on stderr begins with the name of the program" {
    run --separate-stderr limited "$MUSTER" gpus
    ended_with 0
    [ -n "$stderr" ] && ! grep -v '^muster: ' <<<"$stderr"
}

@test "what fails in a current folder that was deleted says so, and no other failure" {
    local cwd=$PWD
    mkdir gone
    # shellcheck disable=SC2016
    run bash -c 'cd gone && rmdir ../gone && exec "$MUSTER" map -g cpu:1 "$1"/in.txt -o "$1"/out.txt -- cat' - "$cwd"
    ended_with 2
    says "muster: map: create folder muster-runs: No such file or directory; the current folder was deleted: change to another one (cd)"
    map -g cpu:1 nowhere.txt -o out.txt -- cat
    ended_with 2
    says "No such file or directory"
    says_not "deleted"
}
