#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What a file's name says of it, what its bytes say, and what becomes of what a format cannot hold: the verbs that read
# and write records agree, and say the cause and a cure that helps.
load helpers

# cut WORDS STATUS VERB ARGS…: it fails, and leaves nothing behind but what was there.
refused() {
    local words=$1 wanted=$2 before
    shift 2
    before=$(ls -A)
    run limited "$MUSTER" "$@"
    ended_with "$wanted"
    says "$words"
    rm -rf muster-runs
    [ "$(ls -A)" = "$before" ]
}

# each_reader WORDS FILE: map, merge and split refuse the file, as data.
each_reader() {
    refused "$1" 65 map -q -g cpu:1 "$2" -o out.jsonl -- cat
    refused "$1" 65 merge "$2" -o out.csv --format-out csv
    refused "$1" 65 split -n 2 "$2" -o 'part-{n}'
}

# ---- what is wrong with JSON ----

@test "JSON that is none is refused with the reason" {
    echo '{"a":NaN}' >nan.json
    echo '{"a":1}' >one.json
    refused "nan.json: not a JSON value: it has NaN or infinity, which JSON has no word for" 65 \
        merge nan.json one.json -o out.json
    printf '{"a":1}\n{"a":2}\n' >two.json
    refused "two.json is not one JSON object; if it has one value a line, say --format jsonl" 65 \
        merge two.json one.json -o out.json
    printf '{"a":1}\n{"a":-Infinity}\n{"a":2}\n' >inf.jsonl
    refused "inf.jsonl line 2: not a JSON value: it has NaN or infinity" 65 merge --check inf.jsonl -o out.jsonl
    printf '{"a":1}\n{"a":NaN}' >last.jsonl
    refused "last.jsonl: the last record, at byte 8: not a JSON value: it has NaN" 65 merge last.jsonl -o out.jsonl
    echo '[1,NaN]' >nan_array.json
    refused "nan_array.json element 2: not a JSON value: it has NaN" 65 merge nan_array.json -o out.json
    refused "nan_array.json element 2: not a JSON value: it has NaN" 65 split -n 1 nan_array.json -o 'p-{n}.json'
    run limited "$MUSTER" map -q -g cpu:1 inf.jsonl -o out.jsonl -- cat
    ended_with 1
    holds out.jsonl.failed.jsonl "not a JSON value: it has NaN or infinity"
}

@test "JSON that is nested too deep is said to be so" {
    "$PYTHON" -c 'print("[" * 513 + "]" * 513)' >deep.jsonl
    "$PYTHON" -c 'print("[" * 512 + "]" * 512)' >well.jsonl
    refused "deep.jsonl line 1: it is nested deeper than 512 levels" 65 merge deep.jsonl -o out.jsonl
    head -c -1 deep.jsonl >last.jsonl
    refused "last.jsonl: the last record, at byte 0: it is nested deeper than 512 levels" 65 \
        map -q -g cpu:1 last.jsonl -o out.jsonl -- cat
    run limited "$MUSTER" merge -q well.jsonl -o out.jsonl
    ended_with 0
}
