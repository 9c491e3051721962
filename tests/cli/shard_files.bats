#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What shards leave behind: how many records each file is to hold, where the files go, and what is said
# about them.
load helpers

# evaluate START COUNT NAME: answers, one a line, and the metrics of all of them in a CSV of one row.
evaluator() {
    worker evaluate <<'END'
#!/bin/sh
mkdir -p out
seq "$1" $(($1 + $2 - 1)) | sed 's/.*/{"id":&}/' >"out/answers_$3.jsonl"
printf 'accuracy,n\n0.5,%s\n' "$2" >"out/metrics_$3.csv"
END
}

@test "a small file beside the answers may hold any number of records, and the answers may not" {
    evaluator
    map --items 7 -g cpu:2 -o all.jsonl --collect 'out/answers_{suffix}.jsonl' --also 'out/metrics_{suffix}.csv=metrics.csv' -- \
        ./evaluate {start} {count} {suffix}
    ended_with 0
    [ "$(cat metrics.csv)" = $'accuracy,n\n0.5,4\n0.5,3' ]
    [ "$(wc -l <all.jsonl)" = 7 ]
    map --items 7 -g cpu:2 -r 0 -f -o all.jsonl --collect 'out/answers_{suffix}.jsonl' --also 'out/metrics_{suffix}.csv=metrics.csv' -- \
        ./evaluate {start} 3 {suffix}
    ended_with 1
    says "answers_cpu_0.jsonl holds 3 records, expected 4, one for each item: the program lost 1"
}

@test "--also-counted asks for a record for each item, whatever --any-count says of the main file" {
    evaluator
    map --items 7 -g cpu:2 -r 0 -o all.jsonl --any-count --collect 'out/answers_{suffix}.jsonl' \
        --also-counted 'out/metrics_{suffix}.csv=metrics.csv' -- ./evaluate {start} {count} {suffix}
    ended_with 1
    says "metrics_cpu_0.csv holds 1 record, expected 4" "(--also, where a file is not meant to have one for each item"
    map --items 2 --shards 2 -g cpu:2 -f -o all.jsonl --any-count --collect 'out/answers_{suffix}.jsonl' \
        --also-counted 'out/metrics_{suffix}.csv=metrics.csv' -- ./evaluate {start} 5 {suffix}
    ended_with 0
    [ "$(wc -l <all.jsonl)" = 10 ]
}

@test "--also puts the shards' files into a folder, under their own names" {
    evaluator
    map --items 7 -g cpu:2 -o all.jsonl --collect 'out/answers_{suffix}.jsonl' --also 'out/metrics_{suffix}.csv=kept/' -- \
        ./evaluate {start} {count} {suffix}
    ended_with 0
    says "also       kept/"
    [ "$(ls kept | tr '\n' ' ')" = "metrics_cpu_0.csv metrics_cpu_1.csv " ]
    same kept/metrics_cpu_1.csv out/metrics_cpu_1.csv
    map --fresh --items 7 -g cpu:2 -o more.jsonl --collect 'out/answers_{suffix}.jsonl' --also 'out/metrics_{suffix}.csv=kept/' -- \
        ./evaluate {start} {count} {suffix}
    ended_with 2
    says "the output folder kept/ is not empty; --force"
}

@test "two shards' files of one name are not put into one folder" {
    worker twins <<'END'
#!/bin/sh
mkdir -p "out/$1"
echo "$1" >"out/$1/metrics.txt"
echo "$1" >"out/$1.txt"
END
    map --items 2 -g cpu:2 -o all.txt --collect 'out/{start}.txt' --also 'out/{start}/metrics.txt=kept/' -- ./twins {start}
    ended_with 1
    says "have the same name, and cannot both be put into one folder"
    [ ! -e all.txt ]
    [ ! -e kept ]
}

@test "folders of --also stand beside a folder of -o, and beside a pipe; nothing is in them before all is well" {
    evaluator
    local files=(--collect 'out/answers_{suffix}.jsonl' --also 'out/metrics_{suffix}.csv=kept/')
    map --items 4 -g cpu:2 -o answers/ "${files[@]}" -- ./evaluate {start} {count} {suffix}
    ended_with 0
    [ "$(ls answers kept | grep -c _)" = 4 ]
    rm -r kept
    "$MUSTER" map --items 4 -g cpu:2 -o - "${files[@]}" -- ./evaluate {start} {count} {suffix} >printed
    [ "$(wc -l <printed)" = 4 ]
    [ "$(ls kept | wc -l)" = 2 ]
    rm -r kept
    map --items 4 -g cpu:2 -o all.jsonl "${files[@]}" --id nothing -- ./evaluate {start} {count} {suffix}
    ended_with 65
    [ ! -e all.jsonl ]
    [ ! -e kept ]
}

@test "the bars of other things than the shard's items are not its progress" {
    worker loader <<'END'
#!/bin/sh
printf 'Loading weights: 100%%|##########| 47/47 [00:00<00:00, 900.00it/s]\r\n' >&2
printf '  1%%|          | 1/100 [00:01<?, ?it/s]\r' >&2
until [ -e go ]; do sleep 0.02; done
seq 100 >"$1"
END
    map_begin --items 100 --shards 1 -g cpu:1 -o out.txt -- ./loader {output}
    shown() { [ "$(jq .done muster-runs/latest/status.json 2>/dev/null || echo 0)" -gt 0 ]; }
    wait_for shown
    [ "$(jq .done muster-runs/latest/status.json)" = 1 ]
    touch go
    map_end
    ended_with 0
}

@test "what cannot be known of shards is not said" {
    worker fails <<'END'
#!/bin/sh
exit 3
END
    map --items 2 -g cpu:2 -r 0 -o out.txt --on-finish 'cat >summary.json' -- ./fails {output}
    ended_with 1
    says_not "loading" "efficiency" "items/s"
    [ "$(jq -c '[.load_ms, .efficiency]' summary.json)" = "[null,null]" ]
    worker works <<'END'
#!/bin/sh
sleep 0.02
echo "$1" >"$2"
END
    map --items 2 -g cpu:2 -r 0 -o out.txt --on-finish 'cat >summary.json' -- ./works {start} {output}
    ended_with 0
    says "items/s, over 2 workers" "device-seconds"
    says_not "loading" "efficiency"
    seq 3 >in.txt
    map in.txt -g cpu:1 -o cat.txt --on-finish 'cat >summary.json' -- cat
    says "; loading " ": efficiency "
    [ "$(jq '.load_ms | type' summary.json)" = '"number"' ]
}

@test "--dry-run shows which files each shard is to leave, and what they become" {
    evaluator
    map --dry-run --items 7 -g cpu:2 -o 'all_{run}.jsonl' --collect 'out/answers_{suffix}.jsonl' \
        --also 'out/metrics_{suffix}.csv=metrics_{run}.csv' --also-counted 'out/{start}_x.csv=x/' -- ./evaluate {start} {count} {suffix}
    ended_with 0
    [[ "$output" =~ "    out/answers_cpu_0.jsonl becomes part of all_"[0-9]+_[0-9]+".jsonl" ]]
    [[ "$output" =~ "    out/metrics_cpu_1.csv becomes part of metrics_"[0-9]+_[0-9]+".csv" ]]
    says "    out/4_x.csv becomes part of x/"
    [ ! -e muster-runs ]
}

@test "workers start so far apart as --stagger says, of shards and warm ones, and of a resumed run" {
    worker stamped <<'END'
#!/bin/sh
[ ! -e broken ] || exit 3
echo "$1" >"$2"
END
    apart() { # those from this number on
        [ "$(query "SELECT count(*) FROM (SELECT started_ms - lag(started_ms) OVER (ORDER BY started_ms) AS gap FROM attempts WHERE id >= $1) WHERE gap < 200")" = 0 ]
    }
    touch broken
    map --items 4 -g cpu:4 -r 0 --stagger 400ms -o out.txt -- ./stamped {start} {output}
    ended_with 1
    rm broken
    apart 0
    local next=$(($(query 'SELECT max(id) FROM attempts') + 1))
    run limited "$MUSTER" resume latest --stagger 400ms
    ended_with 0
    [ "$(cat out.txt)" = $'0\n1\n2\n3' ]
    [ "$(query "SELECT count(*) FROM attempts WHERE id >= $next")" = 4 ]
    apart "$next"
    seq 300 >in.txt
    map in.txt -g cpu:3 --stagger 400ms -o cat.txt -- sh -c 'while read x; do sleep 0.01; echo $x; done'
    ended_with 0
    same in.txt cat.txt
    [ "$(query 'SELECT count(*) FROM attempts')" = 3 ]
    apart 0
}
