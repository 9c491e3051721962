#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# muster kge as users meet it: what it refuses, and the words and the status with which it does. What it writes is
# compared field by field by tests/python/test_kge.py.
load helpers

TINY=$BATS_TEST_DIRNAME/../python/tiny_kge.py

setup() {
    common_setup
    "$PYTHON" "$TINY" .
    DATA=(--train train.txt --entity-to-id node_dict.txt --relation-to-id rel_dict.txt)
    MODEL=(--model-path model.pt)
}

kge() { run limited "$MUSTER" kge "$@"; }

# refused STATUS WORDS OPTION…: kge tracin says these words and leaves no result.
refused() {
    local status_wanted=$1 words=$2
    shift 2
    kge tracin "$@"
    ended_with "$status_wanted"
    says "$words"
    [ ! -e out.json ] || { echo "out.json was written"; return 1; }
}

@test "help names the verbs, and each verb its options" {
    run "$MUSTER" kge --help
    ended_with 0
    says "usage: muster kge VERB" "tracin" "check" "filter" "graph" "See muster-kge(1)."
    run "$MUSTER" kge tracin --help
    ended_with 0
    says "usage: muster kge tracin" "--entity-to-id FILE" "--top-k N" "Accepted for TiePin's sake, without effect"
    run "$MUSTER" help kge
    says "usage: muster kge VERB"
    kge trace
    ended_with 2
    says "muster kge: unknown verb 'trace'"
    kge tracin --top-l 3
    ended_with 2
    says "unknown option '--top-l' (did you mean '--top-k'?)"
    MUSTER_KGE_TOP_K=0 kge tracin
    ended_with 2
    says "MUSTER_KGE_TOP_K: "
}

@test "completion knows the verbs and their options" {
    run bash -c 'eval "$("$MUSTER" completion bash)"; eval "$("$MUSTER" kge completion bash)"
        COMP_WORDS=(muster kge tracin --test-) COMP_CWORD=3; _muster; echo "${COMPREPLY[*]}"
        COMP_WORDS=(muster kge fi) COMP_CWORD=2; _muster; echo "${COMPREPLY[*]}"
        COMP_WORDS=(muster kg) COMP_CWORD=1; _muster; echo "${COMPREPLY[*]}"
        COMP_WORDS=(muster kge tracin --mode s) COMP_CWORD=4; _muster; echo "${COMPREPLY[*]}"
        COMP_WORDS=(muster map --order "") COMP_CWORD=3; _muster; echo "${COMPREPLY[*]}"'
    [ "${lines[0]}" = "--test-indices --test-triple --test-triples" ]
    [ "${lines[1]}" = "filter" ]
    [ "${lines[2]}" = "kge" ]
    [ "${lines[3]}" = "self single" ]
    [ "${lines[4]}" = "input any" ]
}

# bash splits words at `=`; zsh does not, and neither does bash without it in COMP_WORDBREAKS.
@test "completion offers the values of --name=VALUE, in one word and in three" {
    touch file.txt
    run bash -c 'eval "$("$MUSTER" completion bash)"; eval "$("$MUSTER" kge completion bash)"
        COMP_WORDS=(muster map --order = "") COMP_CWORD=4; _muster; echo "${COMPREPLY[*]}"
        COMP_WORDS=(muster map --order =) COMP_CWORD=3; _muster; echo "${COMPREPLY[*]}"
        COMP_WORDS=(muster map --order = a) COMP_CWORD=4; _muster; echo "${COMPREPLY[*]}"
        COMP_WORDS=(muster map --order=) COMP_CWORD=2; _muster; echo "${COMPREPLY[*]}"
        COMP_WORDS=(muster map --order=a) COMP_CWORD=2; _muster; echo "${COMPREPLY[*]}"
        COMP_WORDS=(muster kge tracin --mode = s) COMP_CWORD=5; _muster; echo "${COMPREPLY[*]}"
        COMP_WORDS=(muster map --output = file.) COMP_CWORD=4; _muster; echo "${COMPREPLY[*]}"
        COMP_WORDS=(muster map --output=file.) COMP_CWORD=2; _muster; echo "${COMPREPLY[*]}"
        COMP_WORDS=(muster launch --nproc_) COMP_CWORD=2; _muster; echo "${COMPREPLY[*]}"
        COMP_WORDS=(muster launch --numa_binding = c) COMP_CWORD=4; _muster; echo "${COMPREPLY[*]}"
        COMP_WORDS=(muster launch --nproc) COMP_CWORD=2; _muster; echo "${COMPREPLY[*]}"'
    [ "${lines[0]}" = "input any" ]
    [ "${lines[1]}" = "input any" ]
    [ "${lines[2]}" = "any" ]
    [ "${lines[3]}" = "--order=input --order=any" ]
    [ "${lines[4]}" = "--order=any" ]
    [ "${lines[5]}" = "self single" ]
    [ "${lines[6]}" = "file.txt" ]
    [ "${lines[7]}" = "--output=file.txt" ]
    [ "${lines[8]}" = "--nproc_per_node" ] # as torchrun's users type it
    [ "${lines[9]}" = "core-complex" ]
    [ "${lines[10]}" = "--nproc-per-node" ]
}

@test "the command of TiePin's guide works, and what changes nothing is said to" {
    export MUSTER_KGE_CUDA=$PWD/none.so
    kge tracin "${MODEL[@]}" "${DATA[@]}" --test test.txt --output out.json --use-optimized-tracin --use-mixed-precision \
        --use-torch-compile --enable-multi-gpu --batch-size 512 --device cuda
    ended_with 0
    says "--use-optimized-tracin has no effect" "--use-mixed-precision has no effect: the precision is that of --dtype" \
        "--use-torch-compile has no effect: there is no torch" "--batch-size has no effect" "--enable-multi-gpu has no effect" \
        "--device cuda: the processors compute, and the results are the same: backend cuda: $PWD/none.so"
    [ "$(jq '.results | length' out.json)" = 3 ]
    kge tracin "${MODEL[@]}" "${DATA[@]}" --test test.txt --output out.json
    ended_with 2
    says "out.json exists; --force replaces it"
    kge tracin -q "${MODEL[@]}" "${DATA[@]}" --test test.txt --output out.json --force
    ended_with 0
    [ -z "$output" ]
}

@test "influences of rounded numbers come with the error that was measured" {
    for precision in bf16 fp16; do
        kge tracin "${MODEL[@]}" "${DATA[@]}" --test test.txt --top-k 3 -o $precision.json --precision $precision
        ended_with 0
        says "--precision $precision: on a sample of 3 test x 12 training triples the relative error is " \
            "of the 30 strongest influences "
        median=$(sed -n 's/.*error is \([^ ]*\) in the median.*/\1/p' <<<"$output")
        jq -en "$median > 0 and $median < $([ $precision = bf16 ] && echo 4e-3 || echo 5e-4)"
    done
    kge tracin "${MODEL[@]}" "${DATA[@]}" --test test.txt --top-k 3 -o plain.json --precision fp32
    ended_with 0
    [[ $output != *"--precision"* ]]
    ! cmp -s plain.json bf16.json
    refused 2 "--precision rounds float32" "${MODEL[@]}" "${DATA[@]}" --test test.txt -o out.json --precision bf16 --dtype float64
    refused 2 "leave it out with --mode self" "${MODEL[@]}" "${DATA[@]}" --mode self -o out.json --precision fp16
    refused 2 "--precision: expected fp32, bf16 or fp16, found 'tf32'" "${MODEL[@]}" "${DATA[@]}" --test test.txt -o out.json \
        --precision tf32
}

@test "a GPU that cannot be used is one sentence: what is missing, and what computes without" {
    export MUSTER_KGE_CUDA=$PWD/none.so
    refused 69 "backend cuda: $PWD/none.so: cannot open shared object file" "${MODEL[@]}" "${DATA[@]}" --test test.txt \
        -o out.json --backend cuda
    says "compute with --backend blas"
    echo "no module" >none.so
    refused 69 "backend cuda: $PWD/none.so: file too short" "${MODEL[@]}" "${DATA[@]}" --test test.txt -o out.json --backend cuda
    export CUDA_VISIBLE_DEVICES=
    unset MUSTER_KGE_CUDA
    refused 69 "backend cuda: " "${MODEL[@]}" "${DATA[@]}" --test test.txt -o out.json --backend cuda
    says "--backend blas"
    run "$MUSTER" kge --version
    ended_with 0
    [[ ${lines[0]} == "muster kge "* && ${lines[1]} == "blas: "* && ${lines[2]} == "ref: plain loops" ]]
    [[ ${lines[3]} == "cuda: "* ]]
    run "$MUSTER" kge eval "${MODEL[@]}" "${DATA[@]}" --test test.txt --backend cuda
    ended_with 2
    says "backend cuda trains and computes influences, and ranks nothing: blas or ref"
}

@test "what is missing on the command line is named" {
    refused 2 "--output is needed" "${MODEL[@]}" "${DATA[@]}" --test test.txt
    refused 2 "--test FILE or --test-triple H R T is needed" "${MODEL[@]}" "${DATA[@]}" -o out.json
    refused 2 "--train is needed" "${MODEL[@]}" --test test.txt -o out.json
    refused 2 "--model-path is needed" "${DATA[@]}" --test test.txt -o out.json
    refused 2 "--entity-to-id and --relation-to-id go together" "${MODEL[@]}" --train train.txt --entity-to-id node_dict.txt \
        --test test.txt -o out.json
    refused 2 "--test-triples FILE is needed" "${MODEL[@]}" "${DATA[@]}" --output-dir out
}

@test "options that do not go together are refused" {
    refused 2 "--test-indices goes with --mode single" "${MODEL[@]}" "${DATA[@]}" --test test.txt -o out.json --test-indices 1
    refused 2 "--skip-existing is for a batch" "${MODEL[@]}" "${DATA[@]}" --test test.txt -o out.json --skip-existing
    refused 2 "each test triple has files of its own" "${MODEL[@]}" "${DATA[@]}" --test-triples test.txt --output-dir out -o out.json
    refused 2 "--max-total-path-length goes with --path-filtering" "${MODEL[@]}" "${DATA[@]}" --test test.txt -o out.json \
        --n-hops 2 --max-total-path-length 3
    refused 2 "expected pyg, found 'igraph'" "${MODEL[@]}" "${DATA[@]}" --test test.txt -o out.json --n-hops 2 --filter-method igraph
    refused 2 "--min-degree is about the proximity filter: --n-hops N is needed" "${MODEL[@]}" "${DATA[@]}" --test test.txt \
        -o out.json --min-degree 2
    refused 2 "--label-smoothing goes with --loss one-vs-all" "${MODEL[@]}" "${DATA[@]}" --test test.txt -o out.json --label-smoothing 0.1
    refused 2 "leave --csv-output and --top-k out" "${MODEL[@]}" "${DATA[@]}" --test test.txt -o out.npy --top-k 3
    refused 2 "--mode: expected test, self or single, found 'all'" "${MODEL[@]}" "${DATA[@]}" --test test.txt -o out.json --mode all
    refused 2 "--order: expected magnitude or value, found 'size'" "${MODEL[@]}" "${DATA[@]}" --test test.txt -o out.json --order size
    refused 2 "--dtype: expected float32 or float64" "${MODEL[@]}" "${DATA[@]}" --test test.txt -o out.json --dtype bf16
    refused 2 "--last-layers chooses the layers, as --layers does: leave one out" "${MODEL[@]}" "${DATA[@]}" --test test.txt -o out.json \
        --layers fc --last-layers 2
    refused 2 "--last-layers chooses the layers, as --use-last-layers-only does" "${MODEL[@]}" "${DATA[@]}" --test test.txt -o out.json \
        --use-last-layers-only --last-layers 2
    refused 2 "--mode self has no CSV form: name a .json, .jsonl or .npy" "${MODEL[@]}" "${DATA[@]}" --mode self -o out.csv
    refused 2 "--mode self has no CSV form" "${MODEL[@]}" "${DATA[@]}" --mode self -o OUT.CSV
    refused 2 "the number of test triples is --max-triples" "${MODEL[@]}" "${DATA[@]}" --test-triples test.txt --output-dir out --max-test-triples 1
    refused 2 "unexpected operand 'extra'" "${MODEL[@]}" "${DATA[@]}" --test test.txt -o out.json extra
}

@test "numbers out of range are refused with the range" {
    refused 2 "--top-k 13: there are only 12 training triples" "${MODEL[@]}" "${DATA[@]}" --test test.txt -o out.json --top-k 13
    refused 2 "1.0 KiB of memory is too little: one pair of triples takes 1 MiB (--memory)" "${MODEL[@]}" "${DATA[@]}" --test test.txt \
        -o out.json --memory 1K
    refused 2 "--top-k" "${MODEL[@]}" "${DATA[@]}" --test test.txt -o out.json --top-k 0
    refused 2 "there is no test triple 3: there are 3, from 0" "${MODEL[@]}" "${DATA[@]}" --test test.txt --mode single \
        --test-indices 0,3 -o out.json
    refused 2 "--learning-rate: expected a number above 0, found '0'" "${MODEL[@]}" "${DATA[@]}" --test test.txt -o out.json --learning-rate 0
    refused 2 "--learning-rate: 2 rates for 1 checkpoint" "${MODEL[@]}" "${DATA[@]}" --test test.txt -o out.json --learning-rate 1,2
    refused 2 "--start-index 3: test.txt has 3 test triples, from 0" "${MODEL[@]}" "${DATA[@]}" --test-triples test.txt \
        --output-dir out --start-index 3
}

@test "lines that are no triples of the dictionary are refused with their numbers, or left out and counted" {
    printf 'CHEBI:1\tpredicate:0\n' >>test.txt
    printf 'CHEBI:7\tpredicate:0\tCHEBI:1\nCHEBI:1\tpredicate:9\tCHEBI:1\r\n\n' >>test.txt
    refused 65 "test.txt: 1 line without the right number of fields: line 4" "${MODEL[@]}" "${DATA[@]}" --test test.txt -o out.json
    says "1 line with an entity that is not in the dictionary: line 5, 'CHEBI:7'" \
        "1 line with a relation that is not in the dictionary: line 6, 'predicate:9'" "--lenient leaves such lines out"
    kge tracin "${MODEL[@]}" "${DATA[@]}" --test test.txt -o out.json --lenient
    ended_with 0
    says "test.txt: left out: 1 line without the right number of fields: line 4" "train.txt: 1 line repeated from earlier" \
        "test.txt: 1 line ended with CR LF" "test.txt: 1 line blank: line 7"
    [ "$(jq '.results | length' out.json)" = 3 ]
}

@test "a file that is empty, of another kind or not there is refused by name" {
    : >empty.txt
    printf '\xff\xfeC\0H\0' >utf16.txt
    refused 65 "empty.txt: no triple in it" "${MODEL[@]}" "${DATA[@]}" --test empty.txt -o out.json
    refused 65 "utf16.txt: line 1 is not UTF-8" "${MODEL[@]}" "${DATA[@]}" --test utf16.txt -o out.json
    refused 2 "open nowhere.txt: No such file" "${MODEL[@]}" "${DATA[@]}" --test nowhere.txt -o out.json
    refused 2 "nowhere.pt" --model-path nowhere.pt "${DATA[@]}" --test test.txt -o out.json
    refused 65 "train.txt: expected a JSON object" "${MODEL[@]}" "${DATA[@]}" --test test.txt -o out.json --edge-map train.txt
    refused 65 "test.txt" --model-path test.txt "${DATA[@]}" --test test.txt -o out.json
}

@test "a checkpoint that does not fit the dictionaries, or holds what is no number, is refused" {
    refused 65 "7" --model-path other_size.pt "${DATA[@]}" --test test.txt -o out.json
    says "9"
    refused 65 "fc.weight" --model-path nan.pt "${DATA[@]}" --test test.txt -o out.json
}

@test "a dictionary with holes or twice the same is refused" {
    printf 'a\t0\nb\t2\n' >holes.txt
    refused 65 "holes.txt: 'b' has index 2, but 2 names have the indices 0 to 1" "${MODEL[@]}" --train train.txt --test test.txt \
        --entity-to-id holes.txt --relation-to-id rel_dict.txt -o out.json
    printf 'a\t0\nb\t0\n' >twice.txt
    refused 65 "'a' and 'b' have the same index 0" "${MODEL[@]}" --train train.txt --test test.txt --entity-to-id twice.txt \
        --relation-to-id rel_dict.txt -o out.json
}

@test "a place where nothing can be written is refused" {
    refused 2 "nowhere/out.json: there is no folder nowhere; mkdir -p makes it" "${MODEL[@]}" "${DATA[@]}" --test test.txt -o nowhere/out.json
    ln -s /dev/null device.npy
    refused 2 "an array is written out of order" "${MODEL[@]}" "${DATA[@]}" --test test.txt -o device.npy
    touch file
    refused 2 "create folder file/filtered_training: Not a directory" "${MODEL[@]}" "${DATA[@]}" --test-triples test.txt --output-dir file
}

@test "a dry run says what would be computed, and writes nothing" {
    run --separate-stderr limited "$MUSTER" kge tracin "${MODEL[@]}" "${DATA[@]}" --test test.txt -o out.json --dry-run
    ended_with 0
    says "3 test triples, 12 training triples, 36 pairs, 1 checkpoint" "memory: "
    [ ! -e out.json ]
    run --separate-stderr limited "$MUSTER" kge tracin "${MODEL[@]}" "${DATA[@]}" --test-triples test.txt --output-dir out --dry-run --n-hops 1
    ended_with 0
    says "3 test triples, 12 training triples, 6 pairs"
    run --separate-stderr limited "$MUSTER" kge tracin "${MODEL[@]}" "${DATA[@]}" --test-triples test.txt --output-dir out --dry-run --n-hops 1 --start-index 1 --max-triples 1
    ended_with 0
    says "1 test triple"
    refused 2 "--start-index 3: test.txt has 3 test triples, from 0" "${MODEL[@]}" "${DATA[@]}" --test-triples test.txt --output-dir out --dry-run --start-index 3
    [ ! -e out ]
}

@test "check compares with gradients written out in full" {
    kge check "${MODEL[@]}" "${DATA[@]}" --pairs 10
    ended_with 0
    says "10 pairs, largest relative difference" "worst: train (" "found"
    run --separate-stderr limited "$MUSTER" kge check "${MODEL[@]}" "${DATA[@]}" --test test.txt --json
    ended_with 0
    [ "$(jq '.ok, .pairs' <<<"$output" | tr '\n' ' ')" = "true 64 " ]
    kge check "${MODEL[@]}" "${DATA[@]}" --tolerance 1e-30
    ended_with 1
    says "the largest relative difference is" "above 1e-30"
    kge check "${MODEL[@]}" "${DATA[@]}" --tolerance x
    ended_with 2
}

@test "eval prints a table, and refuses what it cannot rank" {
    run --separate-stderr limited "$MUSTER" kge eval "${MODEL[@]}" "${DATA[@]}" --test test.txt
    ended_with 0
    says "MRR  Hits@1  Hits@3 Hits@10  mean rank  questions" "tails " "heads " "both " "ties: mean, where entities have the answer's score"
    run --separate-stderr limited "$MUSTER" kge eval "${MODEL[@]}" "${DATA[@]}" --test test.txt --tails-only --raw --ties pessimistic
    ended_with 0
    says_not "heads" "both"
    says "tails " "ties: pessimistic"
    run --separate-stderr limited "$MUSTER" kge eval "${MODEL[@]}" "${DATA[@]}" --test test.txt --tails-only --json
    [ "$(jq -r .side <<<"$output")" = tails ]
    kge eval "${MODEL[@]}" "${DATA[@]}"
    ended_with 2
    says "--model-path and --test are needed"
    kge eval --model-path other_size.pt "${DATA[@]}" --test test.txt
    ended_with 65
    kge eval "${MODEL[@]}" "${DATA[@]}" --test test.txt --ties worst
    ended_with 2
    says "expected mean, pessimistic or optimistic, found 'worst'"
}

@test "filter keeps what is near a test triple, in the order of the file" {
    kge filter "${DATA[@]}" --test test.txt --n-hops 1 --min-degree 1 -o near.txt
    ended_with 0
    says "6 of 12 training triples are near one of 3 test triples"
    sed -n '2,4p;6,8p' train.txt >expected.txt
    same near.txt expected.txt
    printf 'lonely\tpredicate:0\tlonely\n' >lonely.txt
    kge filter "${DATA[@]}" --test lonely.txt -o none.txt
    ended_with 65
    says "no training triple is near a test triple"
    [ ! -e none.txt ]
    kge filter "${DATA[@]}" --test test.txt --strict-hop-constraint --cache x -o near2.txt
    says "--strict-hop-constraint has no effect" "--cache has no effect"
}

@test "graph counts, and numbers names in the order in which they are first seen" {
    run --separate-stderr limited "$MUSTER" kge graph --train train.txt --test test.txt --write-dicts dicts --json
    ended_with 0
    [ "$(jq -c '[.entities, .relations, .train, .train_repeated, .train_loops, .edges, .idle, .degree_max]' <<<"$output")" = "[8,2,12,1,1,10,0,4]" ]
    [ "$(head -3 dicts/node_dict.txt | tr '\t\n' '= ')" = "CHEBI:1=0 MONDO:1=1 gene a/b=2 " ]
    [ "$(tr '\t\n' '= ' <dicts/rel_dict.txt)" = "predicate:0=0 predicate:1=1 " ]
    kge graph --train train.txt --entity-to-id dicts/node_dict.txt --relation-to-id dicts/rel_dict.txt --write-dicts dicts
    ended_with 2
    says "dicts/node_dict.txt exists; --force replaces it"
    kge graph --train train.txt --test test.txt
    says "           8  entities" "           1  of them lead from an entity to itself"
}

@test "a result does not replace what the command reads, whatever --force says" {
    cp -r . ../kept
    ln train.txt other_name.txt
    for path in train.txt ./test.txt other_name.txt node_dict.txt rel_dict.txt node_name_dict.txt edge_map.json model.pt; do
        kge tracin "${MODEL[@]}" "${DATA[@]}" --test test.txt --node-name-dict node_name_dict.txt --edge-map edge_map.json -o $path --force
        ended_with 2
        says "$path is read by this command, and its result would replace it: name another file"
    done
    kge tracin "${MODEL[@]}" "${DATA[@]}" --test test.txt -o out.json --csv-output test.txt --force
    ended_with 2
    kge eval "${MODEL[@]}" "${DATA[@]}" --test test.txt -o model.pt --force
    ended_with 2
    says "model.pt is read by this command"
    rm other_name.txt
    diff -r . ../kept
}

@test "a model without batch norm is computed without, and said to be" {
    kge tracin --model-path bare.pt --embedding-height 3 "${DATA[@]}" --test test.txt --last-layers 1 -o 1.jsonl
    ended_with 0
    says "bare.pt has no batch norm, and is computed without"
    kge tracin --model-path bare.pt --embedding-height 3 "${DATA[@]}" --test test.txt --layers fc -o fc.jsonl
    same 1.jsonl fc.jsonl
    kge eval --model-path bare.pt --embedding-height 3 "${DATA[@]}" --test test.txt
    ended_with 0
    says "bare.pt has no batch norm"
    kge check --model-path bare.pt --embedding-height 3 "${DATA[@]}" --pairs 100
    ended_with 0
    refused 2 "this model has no 'bn2'" --model-path bare.pt --embedding-height 3 "${DATA[@]}" --test test.txt -o out.json --layers bn2
    refused 2 "expected 1 to 3 last layers, found 4" --model-path bare.pt --embedding-height 3 "${DATA[@]}" --test test.txt -o out.json \
        --last-layers 4
    refused 65 "bare.pt and model.pt are models of different sizes or kinds" --model-path bare.pt "${MODEL[@]}" --embedding-height 3 "${DATA[@]}" \
        --test test.txt -o out.json
}

@test "a model that is a folder or a pipe is refused at once" {
    mkfifo pipe
    refused 2 "pipe is no file that can be read from any place" --model-path pipe "${DATA[@]}" --test test.txt -o out.json
    refused 2 ". is a folder: expected a checkpoint, .pt or .safetensors" --model-path . "${DATA[@]}" --test test.txt -o out.json
}

@test "a full disk leaves no result, and says what to do" {
    run limited bash -c 'ulimit -f 0; exec "$@"' - "$MUSTER" kge tracin "${MODEL[@]}" "${DATA[@]}" --test test.txt -o out.json
    ended_with 75
    says "out.json" "ulimit -f" "; once there is room, give the same command again"
    [ ! -e out.json ]
    run limited bash -c 'ulimit -f 0; exec "$@"' - "$MUSTER" kge tracin "${MODEL[@]}" "${DATA[@]}" --test-triples test.txt --output-dir out
    ended_with 75
    says "; once there is room, the same command with --skip-existing goes on"
    kge tracin "${MODEL[@]}" "${DATA[@]}" --test-triples test.txt --output-dir out --skip-existing
    ended_with 0
    run limited bash -c 'ulimit -f 0; exec "$@"' - "$MUSTER" kge train "${DATA[@]}" --embedding-dim 12 --embedding-height 3 --epochs 1 -o m --force
    ended_with 75
    says "; once there is room, the same command without --force goes on"
    run limited bash -c 'ulimit -f 0; exec "$@"' - "$MUSTER" kge filter "${DATA[@]}" --test test.txt --min-degree 1 -o near.txt
    ended_with 75
    says "; once there is room, give the same command again"
    run limited bash -c 'ulimit -f 0; exec "$@"' - "$MUSTER" kge graph "${DATA[@]}" --write-dicts dicts
    ended_with 75
    says "; once there is room, give the same command with --force"
}

@test "a result whose name has no form that is known is refused, and capital letters are small ones" {
    local name
    for name in t.xyz u.tsv results v.json.gz; do
        kge tracin "${MODEL[@]}" "${DATA[@]}" --test test.txt -o $name
        ended_with 2
        says "$name: expected a name that ends in .json, .jsonl, .csv or .npy"
        [ ! -e $name ]
    done
    kge tracin "${MODEL[@]}" "${DATA[@]}" --mode self -o self.tsv
    ended_with 2
    says "self.tsv: expected a name that ends in .json, .jsonl or .npy"
    for name in jsonl csv npy json; do
        kge tracin "${MODEL[@]}" "${DATA[@]}" --test test.txt -o small.$name
        kge tracin "${MODEL[@]}" "${DATA[@]}" --test test.txt -o large."${name^^}"
        ended_with 0
        same small.$name large."${name^^}"
    done
    run --separate-stderr limited "$MUSTER" kge tracin "${MODEL[@]}" "${DATA[@]}" --test test.txt -o -
    ended_with 0
    same small.json <(echo "$output")
    kge export "${MODEL[@]}" -o model.SAFETENSORS
    ended_with 0
}

@test "files of each test triple that are of another command are told" {
    local each=(kge tracin "${MODEL[@]}" "${DATA[@]}" --test test.txt --output-per-triple -o any)
    "${each[@]}"
    ended_with 0
    says_not "other tracin_test"
    "${each[@]}" --max-test-triples 1 --force
    ended_with 0
    says ". has 2 other tracin_test_*.json, which are not of this command and stay"
    [ -e tracin_test_2.json ]
}

@test "what a model's file states is not asked for otherwise" {
    kge export "${MODEL[@]}" -o model.safetensors
    kge tracin --model-path model.safetensors "${DATA[@]}" --test test.txt --layout height -o out.json
    ended_with 2
    says "model.safetensors states layout width, not height: leave --layout out"
    kge eval --model-path model.safetensors "${DATA[@]}" --test test.txt --embedding-height 4
    ended_with 2
    says "model.safetensors states that its embeddings are images of height 3, not 4: leave --embedding-height and --embedding-width out"
    refused 65 "embeddings of 12 numbers, as images of height 12 in layout height, and 2 filters of " --model-path pykeen.pt "${DATA[@]}" \
        --test test.txt --embedding-height 12 -o out.json
}

@test "layers are named by the options of the manual as by TiePin's" {
    local names=("--layers fc,bn2" "--last-layers 2" "--last-layer-names bn2,fc" "--last-layer-names bn2 fc")
    for i in 0 1 2 3; do
        # shellcheck disable=SC2086
        kge tracin "${MODEL[@]}" "${DATA[@]}" --test test.txt -o "$i.jsonl" ${names[i]}
        ended_with 0
        cmp 0.jsonl "$i.jsonl"
    done
    kge tracin "${MODEL[@]}" "${DATA[@]}" --test test.txt -o all.jsonl
    ! cmp -s 0.jsonl all.jsonl
    kge tracin "${MODEL[@]}" "${DATA[@]}" --test test.txt -o 4.jsonl --num-last-layers 3
    ended_with 0
    says "--num-last-layers has no effect: it goes with --use-last-layers-only"
    cmp 4.jsonl all.jsonl
    kge tracin "${MODEL[@]}" "${DATA[@]}" --test test.txt -o 5.jsonl --use-last-layers-only --num-last-layers 5 --last-layer-names bn2,fc
    says "--num-last-layers has no effect: the layers are named"
    cmp 5.jsonl 0.jsonl
    refused 2 "--layers and --last-layer-names are the same" "${MODEL[@]}" "${DATA[@]}" --test test.txt -o out.json --layers fc \
        --last-layer-names fc
    refused 2 "--layers: there is no layer 'bn9'" "${MODEL[@]}" "${DATA[@]}" --test test.txt -o out.json --layers bn9
}

# parameters_of WORDS OPTION…: these are the parameters that kge tracin says it uses; the influences are in out.jsonl.
parameters_of() {
    local words=$1
    shift
    kge tracin "${DATA[@]}" --test test.txt -o out.jsonl --force "$@"
    ended_with 0
    says "muster: gradients of $words"
    run --separate-stderr limited "$MUSTER" kge tracin -q "${DATA[@]}" --test test.txt -o none.jsonl --dry-run "$@"
    ended_with 0
    says "gradients of $words"
}

@test "the last layers are the parameters that TiePin takes, and those that are used are said" {
    local table=_representations
    parameters_of "all 12 parameters" "${MODEL[@]}"
    parameters_of "2 of the 12 parameters: fc.weight, fc.bias" "${MODEL[@]}" --use-last-layers-only
    mv out.jsonl last.jsonl
    parameters_of "2 of the 12 parameters: fc.weight, fc.bias" "${MODEL[@]}" --last-layer-names fc.weight fc.bias
    same last.jsonl out.jsonl
    parameters_of "2 of the 12 parameters: fc.weight, fc.bias" "${MODEL[@]}" --use-last-layers-only --num-last-layers 1
    parameters_of "4 of the 12 parameters: bn1.weight, bn1.bias, fc.weight, fc.bias" "${MODEL[@]}" --use-last-layers-only \
        --num-last-layers 4
    MODEL=(--model-path pykeen.pt --embedding-height 3)
    parameters_of "1 of the 13 parameters: relation$table.0._embeddings.weight" "${MODEL[@]}" --use-last-layers-only --num-last-layers 1
    parameters_of "2 of the 13 parameters: relation$table.0._embeddings.weight, entity$table.1._embeddings.weight" "${MODEL[@]}" \
        --use-last-layers-only
    mv out.jsonl last.jsonl
    parameters_of "2 of the 13 parameters: relation$table" "${MODEL[@]}" --layers entity_bias.weight,relation_embeddings.weight
    same last.jsonl out.jsonl
    parameters_of "4 of the 13 parameters: entity$table.0._embeddings.weight, relation$table.0._embeddings.weight, \
interaction.hr1d.2.bias, entity$table.1._embeddings.weight" "${MODEL[@]}" --use-last-layers-only --num-last-layers 4
}

@test "a chosen test triple is named, in the order of its file or in PyKEEN's" {
    (tac test.txt; head -1 test.txt) >mixed.txt
    local asked=(kge tracin "${MODEL[@]}" "${DATA[@]}" --test mixed.txt --mode single --force --top-k 3)
    "${asked[@]}" --test-indices 0 2 -o out.json
    ended_with 0
    says "test triple 0: (6, 1, 2) is (β-catenin, predicate:1, MONDO:1)" "test triple 2: (0, 0, 3) is (CHEBI:1, predicate:0, MONDO:2)" \
        "test triple 0 of PyKEEN: (0, 0, 3) is (CHEBI:1, predicate:0, MONDO:2)" "--triples-order pykeen"
    [ "$(jq -c '[.[].test_triple]' out.json)" = '[[6,1,2],[0,0,3]]' ]
    "${asked[@]}" --test-indices 0 2 -o out.json --triples-order pykeen
    ended_with 0
    says "11 training triples are left of 12; duplicates are dropped" "3 test triples are left of 4; duplicates are dropped" \
        "test triple 0: (0, 0, 3) is (CHEBI:1, predicate:0, MONDO:2)"
    [[ $output != *"of PyKEEN"* ]]
    [ "$(jq -c '[.[].test_triple]' out.json)" = '[[0,0,3],[6,1,2]]' ]
    "${asked[@]}" --test-indices 3 -o out.json
    says "PyKEEN, which keeps each test triple once, has no test triple 3"
    rm out.json
    refused 2 "there is no test triple 3: there are 3, from 0" "${MODEL[@]}" "${DATA[@]}" --test mixed.txt --mode single \
        --test-indices 3 -o none.json --triples-order pykeen
    "${asked[@]}" --test-indices 0 -o out.jsonl
    [ "$(head -1 out.jsonl | jq -c '[.test, .test_ids]')" = '[["β-catenin","predicate:1","MONDO:1"],[6,1,2]]' ]
    # On devices too, the tests are those that were counted.
    "${asked[@]}" --test-indices 0 2 -o devices.json --triples-order pykeen -g cpu:2
    ended_with 0
    [ "$(jq -c '[.[].test_triple]' devices.json)" = '[[0,0,3],[6,1,2]]' ]
}

@test "a test triple can be given by its indices, its names or a file of its own" {
    kge tracin "${MODEL[@]}" "${DATA[@]}" --test-triple 6 1 2 -o indices.json --no-cache-test-gradients --embedding-width 4
    ended_with 0
    says "test triple 0: (6, 1, 2) is (β-catenin, predicate:1, MONDO:1)" "--no-cache-test-gradients has no effect"
    jq -e '.test_triple == {head: 6, relation: 1, tail: 2} and (keys_unsorted == ["test_triple", "top_k", "learning_rate", "influences"])
        and (.influences | length == 12) and (.influences[0] | keys_unsorted == ["train_head", "train_relation", "train_tail", "influence"])' \
        indices.json >/dev/null
    kge tracin "${MODEL[@]}" "${DATA[@]}" --test-triple β-catenin predicate:1 MONDO:1 -o names.json
    same indices.json names.json
    sed -n 3p test.txt >one.txt
    kge tracin "${MODEL[@]}" "${DATA[@]}" -o file.json --test-triple one.txt --entity-labels node_name_dict.txt
    same indices.json file.json
    kge tracin "${MODEL[@]}" "${DATA[@]}" -o one.csv --test-triple one.txt --entity-labels node_name_dict.txt --relation-labels edge_map.json
    ended_with 0
    has_lines one.csv 13
    refused 2 "expected head, relation and tail, or a file with one triple" "${MODEL[@]}" "${DATA[@]}" -o out.json --test-triple 1 2
    refused 2 "'9' is no entity of the dictionary, and no index below 9" "${MODEL[@]}" "${DATA[@]}" -o out.json --test-triple 9 0 0
    refused 2 "leave --test, --test-indices and --mode self out" "${MODEL[@]}" "${DATA[@]}" -o out.json --test-triple 0 0 3 --test test.txt
    refused 65 "test.txt holds 3 triples, expected one" "${MODEL[@]}" "${DATA[@]}" -o out.json --test-triple test.txt
    refused 2 "one.txt is read by this command" "${MODEL[@]}" "${DATA[@]}" -o one.txt --force --test-triple one.txt
    sed -i 's/^HP:1\t/3\t/' node_dict.txt
    sed -i 's/HP:1/3/g' train.txt
    refused 2 "'3' is the name of entity 7, and entity 3 has another name" "${MODEL[@]}" "${DATA[@]}" -o out.json --test-triple 0 0 3
}

@test "how an embedding becomes an image is read from PyKEEN's model, and else an option is named" {
    refused 2 "its sizes fit 2 x 6 along height, 3 x 4 along height: name one by --embedding-height N" --model-path pykeen.pt "${DATA[@]}" \
        --test test.txt -o out.json
    kge tracin --model-path pykeen.pkl "${DATA[@]}" --test test.txt -o model.jsonl
    ended_with 0
    for given in "--embedding-height 3" "--embedding-width 4" "--embedding-width 4 --embedding-height 3"; do
        # shellcheck disable=SC2086
        kge tracin --model-path pykeen.pt "${DATA[@]}" --test test.txt -o state.jsonl --force $given
        ended_with 0
        same model.jsonl state.jsonl
    done
    kge eval --model-path pykeen.pt "${DATA[@]}" --test test.txt --embedding-width 4
    ended_with 0
    refused 2 "its embeddings have 12 numbers, which --embedding-width 5 does not fit" --model-path pykeen.pt "${DATA[@]}" \
        --test test.txt -o out.json --embedding-width 5
    refused 2 "which --embedding-width 4 with --embedding-height does not fit" --model-path pykeen.pt "${DATA[@]}" \
        --test test.txt -o out.json --embedding-width 4 --embedding-height 2
}

@test "a model goes to PyKEEN's names and back to the same bytes" {
    local image="--embedding-height 3"
    # shellcheck disable=SC2086
    kge export --model-path pykeen.pt $image -o plain.safetensors
    ended_with 0
    for form in pt safetensors; do
        kge export --pykeen --model-path plain.safetensors -o "named.$form"
        ended_with 0
        says "is for ConvE(triples_factory=..., embedding_dim=12, output_channels=2, embedding_height=3, embedding_width=4, " \
            "of 9 entities and 2 relations"
        kge export --model-path "named.$form" -o back.safetensors --force
        same plain.safetensors back.safetensors
    done
    kge export --model-path model.pt -o model.safetensors
    kge export --model-path model.safetensors -o again.pt
    kge export --model-path again.pt -o again.safetensors
    same model.safetensors again.safetensors
    kge tracin "${MODEL[@]}" "${DATA[@]}" --test test.txt -o first.jsonl
    kge tracin --model-path again.pt "${DATA[@]}" --test test.txt -o again.jsonl
    same first.jsonl again.jsonl
}

@test "PyKEEN's inverse relations, 2 r and 2 r + 1, are exported both ways" {
    refused 65 "muster kge export --reciprocal --model-path inverse.pt -o FILE makes one that goes with the dictionary" \
        --model-path inverse.pt --embedding-height 3 "${DATA[@]}" --test test.txt -o out.json
    kge export --reciprocal --model-path inverse.pt --embedding-height 3 -o ours.safetensors
    ended_with 0
    kge eval --model-path ours.safetensors "${DATA[@]}" --test test.txt
    ended_with 0
    kge export --pykeen --model-path ours.safetensors -o theirs.pt
    says "2 relations, its factory with create_inverse_triples=True"
    kge export --model-path theirs.pt -o back.safetensors
    same ours.safetensors back.safetensors
    kge export --reciprocal "${MODEL[@]}" -o out.pt
    ended_with 2
    says "--reciprocal is for models that PyKEEN wrote; "
}

@test "what cannot be exported is refused, and nothing is replaced unasked" {
    kge export --pykeen "${MODEL[@]}" -o out.pt
    ended_with 2
    says "model.pt has head and relation side by side, and PyKEEN's ConvE has them one below the other: train with --layout height"
    [ ! -e out.pt ]
    kge export "${MODEL[@]}" -o out.onnx
    ended_with 2
    says "out.onnx: expected a name that ends in .pt, .pth or .safetensors"
    kge export "${MODEL[@]}" -o model.pt --force
    ended_with 2
    says "model.pt is read by this command"
    echo mine >out.pt
    kge export "${MODEL[@]}" -o out.pt
    ended_with 2
    says "out.pt exists"
    [ "$(cat out.pt)" = mine ]
    kge export --model-path bare.pt --embedding-height 3 -o bare.safetensors
    kge export --model-path bare.safetensors -o bare_again.pt
    kge export --model-path bare_again.pt -o again.safetensors
    same bare.safetensors again.safetensors
}

@test "filter takes the options of TiePin's filters" {
    kge filter "${DATA[@]}" --test test.txt -o all.txt --min-degree 1
    kge filter "${DATA[@]}" --test test.txt -o single.txt --min-degree 1 --preserve-test-edges --single-triple --profile
    ended_with 0
    says "near one of 1 test triple" "--profile has no effect"
    head -1 test.txt >first.txt
    kge filter "${DATA[@]}" --test first.txt -o first_near.txt --min-degree 1
    same single.txt first_near.txt
    kge filter "${DATA[@]}" --test test.txt -o train.txt --force
    ended_with 2
    says "train.txt is read by this command"
}
