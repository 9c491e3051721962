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

# ---- line ends ----

@test "a table whose lines end in a carriage return alone is refused with the cure" {
    printf 'id,x\r1,a\r2,b\r' >mac.csv
    printf 'id\tx\r1\ta\r2\tb\r' >mac.tsv
    printf '"id","x"\r"1","a"\r' >quoted.csv
    printf 'id,x\n1,a\rb\n' >one.csv
    each_reader "mac.csv: header: a carriage return outside quotes" mac.csv
    each_reader "tr '\\r' '\\n' makes them newlines" mac.tsv
    each_reader "quoted.csv: header: a carriage return outside quotes" quoted.csv
    each_reader "one.csv line 2: a carriage return outside quotes" one.csv
    tr '\r' '\n' <mac.csv >cured.csv
    run limited "$MUSTER" map -q -g cpu:1 cured.csv -o out.jsonl -- cat
    ended_with 0
    [ "$(wc -l <out.jsonl)" -eq 2 ]
}

@test "a large table of carriage returns is not said to have an open quote" {
    "$PYTHON" -c 'open("mac.csv", "w", newline="").write("id,x\r" + "1,a\r" * 4300000)'
    refused "do its lines end in CR alone?" 65 merge mac.csv -o out.csv
}

@test "a carriage return in quotes, or at the end of a line, is what it was" {
    printf 'id,x\r\n1,"a\rb"\r\n' >in.csv
    run limited "$MUSTER" map -q -g cpu:1 in.csv -o out.jsonl -- cat
    ended_with 0
    [ "$(cat out.jsonl)" = '{"id":"1","x":"a\rb"}' ]
}

# ---- names ----

@test "parts are not given the name of another format, nor of a packed file" {
    printf 'id,x\n1,a\n2,b\n' >in.csv
    refused "the parts are csv, as the input is" 2 split -n 2 -o 'p-{n}.tsv' in.csv
    refused "'{n}.jsonl' names them as another format; muster merge INPUT -o FILE converts first" 2 \
        split -n 2 -o 'p-{n}.jsonl' in.csv
    refused "the parts are csv" 2 split -n 2 -o '{n}.tsv' in.csv
    refused "the parts are csv" 2 split -n 2 -o 'p-{n}.parquet' in.csv
    refused "parts are not packed; name them without .gz" 2 split -n 2 -o 'p-{n}.csv.gz' in.csv
    refused "parts are not packed; name them without .xz" 2 split -n 2 --format lines -o 'p-{n}.csv.xz' in.csv
    local name
    for name in 'p-{n}.CSV' 'q-{n}.txt' 'r-{n}'; do
        run limited "$MUSTER" split -q -n 2 -o "$name" in.csv
        ended_with 0
    done
    same p-01.CSV <(printf 'id,x\n2,b\n')
    echo '{"a":1}' >in.jsonl
    run limited "$MUSTER" split -q -n 1 --format lines -o 'p-{n}.json' in.jsonl
    ended_with 0
    refused "the parts are jsonl" 2 split -n 1 -o 's-{n}.json' in.jsonl
    run limited "$MUSTER" split -q -n 1 --format jsonl -o 's-{n}.json' in.jsonl
    ended_with 0
    same s-00.json in.jsonl
    # the input's own extension, as in a folder
    seq 2 >own.db
    gzip -k own.db
    for name in own.db own.db.gz; do
        run limited "$MUSTER" split -q --force -n 2 -o 't-{n}.db' "$name"
        ended_with 0
        same t-01.db <(echo 2)
    done
    refused "the parts are lines" 2 split -n 2 -o 't-{n}.sqlite' own.db
}

@test "an output is not given the name of a packed file, whatever packs it" {
    printf 'id,x\n1,a\n' >in.csv
    local end
    for end in gz zst bz2 xz lz4 lzma Z zip 7z XZ; do
        refused "the output is not packed; name it without .$end" 2 merge in.csv -o out.csv.$end
        refused "the output is not packed; name it without .$end" 2 map -q -g cpu:1 in.csv -o out.jsonl.$end -- cat
    done
}

@test "the name of a text file tells lines, in capitals too" {
    printf 'a\nb\n' >N.TXT
    gzip -c N.TXT >M.TXT.GZ
    run limited "$MUSTER" merge -q N.TXT M.TXT.GZ -o -
    ended_with 0
    [ "$output" = $'a\nb\na\nb' ]
}

# ---- compressed data ----

@test "compressed data without a name that says so are named, also where a format is given" {
    printf '{"a":1}\n' | gzip >in.jsonl.gz
    printf 'a,b\n1,2\n' | gzip -c >table
    local format
    for format in auto jsonl json csv tsv; do
        refused "stdin is compressed by gzip, which holds no text records; unpack it on its way, by zcat FILE | muster" 65 \
            map -q -g cpu:1 --format $format - -o out.jsonl -- cat <in.jsonl.gz
        refused "stdin is compressed by gzip" 65 split -n 2 --format $format -o 'p-{n}' - <in.jsonl.gz
    done
    refused "table is compressed by gzip, which holds no text records; give it a name that ends in .gz" 65 \
        merge --format csv table -o out.csv
    printf '\xfd7zXZ\0\0\4rest' >in.csv.xz
    printf '\4\x22\x4d\x18rest' >in.csv.lz4
    each_reader "in.csv.xz is compressed by xz" in.csv.xz
    refused "in.csv.xz is compressed by xz" 65 merge --format csv in.csv.xz -o out.csv
    each_reader "in.csv.lz4 is compressed by lz4" in.csv.lz4
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

@test "a NUL in a row is not said to be in the header" {
    printf '{"a":"\\u0000z"}\n' >in.jsonl
    run limited "$MUSTER" merge -q in.jsonl -o nul.csv
    ended_with 0
    refused "nul.csv line 2: a NUL byte, which text has not" 65 merge nul.csv -o out.csv
    refused "nul.csv, in the 64 bytes from byte 2 on: a NUL byte" 65 map -q -g cpu:1 nul.csv -o out.jsonl -- cat
    printf 'a\0,b\n1,2\n' >head.csv
    each_reader "head.csv has a NUL byte in its header; is it text?" head.csv
}

# ---- what a table cannot hold ----

@test "half of a character in JSON is kept in JSON, and refused where it would be lost" {
    printf '{"a":"x\\ud800"}\n' >cell.jsonl
    printf '{"\\udc00":1}\n' >name.jsonl
    refused "it has half of a character, a surrogate on its own" 65 merge cell.jsonl -o out.csv
    refused "(-o with .jsonl keeps it)" 65 merge name.jsonl -o out.tsv
    run limited "$MUSTER" merge -q cell.jsonl name.jsonl -o out.json
    ended_with 0
    holds out.json 'x\ud800'
    printf '{"a":"\\ud83d\\ude00 \\u00e9"}\n' >whole.jsonl
    run limited "$MUSTER" merge -q whole.jsonl -o out.csv
    ended_with 0
    [ "$(cat out.csv)" = $'a\n😀 é' ]
    run limited "$MUSTER" map -q -g cpu:1 cell.jsonl -o mapped.csv -- cat
    ended_with 65
    says "item 0: it has half of a character"
}

@test "a table without rows keeps its header in another format" {
    printf 'a,"b c"\n' >head.csv
    printf 'a,"b c"\n' >more.csv
    run limited "$MUSTER" merge -q head.csv more.csv -o - --format-out tsv
    ended_with 0
    [ "$output" = $'a\tb c' ]
    run limited "$MUSTER" merge -q head.csv -o out.jsonl
    ended_with 0
    [ ! -s out.jsonl ]
    printf 'z\n' >other.csv
    run limited "$MUSTER" merge -q --union head.csv other.csv -o - --format-out tsv
    ended_with 0
    [ "$output" = $'a\tb c\tz' ]
    printf '"b c",a\n1,2\n' >rows.csv
    run limited "$MUSTER" merge -q head.csv rows.csv -o - --format-out tsv
    ended_with 0
    [ "$output" = $'a\tb c\n2\t1' ]
    run limited "$MUSTER" map -q -g cpu:1 --join head.csv -o joined.tsv -- cat
    ended_with 0
    [ "$(cat joined.tsv)" = $'a\tb c' ]
}

# ---- figures ----

@test "white space is part of a label" {
    printf '{"t":"a","p":"a "}\n{"t":"a","p":"a"}\n{"t":" b","p":" b"}\n' >in.jsonl
    run limited "$MUSTER" merge -q in.jsonl -o out.jsonl --score t=p --score-out figures.json
    ended_with 0
    says "accuracy 0.6667" "'a ' (1)"
    holds figures.json '" b"'
}

@test "a merge of metadata counts what it lists, and says where a file contradicts itself" {
    echo '{"num_gpus":4,"gpu_metadata":[{"a":1},{"a":2}]}' >merged.json
    echo '{"a":3}' >one.json
    run limited "$MUSTER" merge merged.json one.json -o out.json
    ended_with 0
    says "merged.json says num_gpus 4 and lists 2 in gpu_metadata; it counts as the 2 that it lists"
    holds out.json '"num_gpus": 3'
}
