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

@test "a disk that is full keeps all outputs away, those in folders too" {
    mkdir disk
    mount -t tmpfs -o size=256k tmpfs disk 2>/dev/null || skip "needs root and a tmpfs mount"
    local folders=(--also 'small_{shard}.txt=disk/small/' --also 'large_{shard}.bin=disk/all/')
    map --items 4 --shards 4 -g cpu:2 -o disk/out.txt "${folders[@]}" -- \
        sh -c 'seq {count} >{output}; echo {shard} >small_{shard}.txt; head -c 100000 /dev/zero >large_{shard}.bin'
    ended_with 75
    find disk -type f >left
    mount -o remount,size=1m disk
    run limited "$MUSTER" resume
    ended_with 0
    find disk -type f | sort >put
    umount disk
    [ ! -s left ]
    [ "$(tr '\n' ' ' <put)" = "$(printf 'disk/%s ' all/large_{0..3}.bin out.txt small/small_{0..3}.txt)" ]
    mkdir more
    map --items 4 --shards 4 -g cpu:2 -o main/ "${folders[@]/disk/more}" -- \
        sh -c 'seq {count} >{output}; echo {shard} >small_{shard}.txt; touch large_{shard}.bin'
    ended_with 0
    [ "$(find main more | wc -l)" = 16 ]
}

@test "a link to {input} is no file that a shard leaves" {
    seq 6 >in.txt
    map in.txt --shards 3 -g cpu:2 -r 0 -o out.txt -- sh -c 'if [ {shard} = 1 ]; then ln -s {input} {output}; else cp {input} {output}; fi'
    ended_with 1
    says "is a link to {input}, which is removed; copy it"
    [ "$(jq .shard out.txt.failed.jsonl)" = 1 ]
    [ "$(tr '\n' ' ' <out.txt)" = "1 2 5 6 " ]
}

@test "a file of a shard that is gone when they are joined is not called safe" {
    seq 6 >in.txt
    map in.txt --shards 3 -g cpu:1 -o out.txt -- sh -c 'cp {input} {output}; [ {shard} != 2 ] || rm "$MUSTER_RUN_DIR"/shard-output/*_0.txt'
    ended_with 1
    says "is gone; the shard is run again by a resume" "the files of the other shards are safe"
    run limited "$MUSTER" resume
    ended_with 0
    same in.txt out.txt
}

@test "--also-counted asks for a record for each item, whatever --any-count says of the main file" {
    evaluator
    map --items 7 -g cpu:2 -r 0 -o all.jsonl --any-count --collect 'out/answers_{suffix}.jsonl' \
        --also-counted 'out/metrics_{suffix}.csv=metrics.csv' -- ./evaluate {start} {count} {suffix}
    ended_with 1
    says "metrics_cpu_0.csv holds 1 record, expected 4" "(if the program is not meant to write one record for each item, --also turns this check off)"
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
until [ -e loaded ]; do sleep 0.02; done
printf '  1%%|          | 1/100 [00:01<?, ?it/s]\r' >&2
until [ -e go ]; do sleep 0.02; done
seq 100 >"$1"
END
    map_begin --items 100 --shards 1 -g cpu:1 -o out.txt -- ./loader {output}
    done_is() { [ "$(jq .answered muster-runs/latest/status.json)" = "$1" ]; }
    written_since() { [ "$(jq .updated_ms muster-runs/latest/status.json 2>/dev/null || echo 0)" -gt "$1" ]; }
    wait_for holds muster-runs/latest/logs/cpu_0_stderr.log 47/47
    wait_for written_since "$(date +%s%3N)"
    done_is 0
    touch loaded
    wait_for done_is 1
    touch go
    map_end
    ended_with 0
}

@test "{devices} and {gpu} are those of the shard" {
    map --items 4 -g sim:4xF:1GiB --gpus-per-worker 2 --any-count -o out.txt -- sh -c 'echo "$1 $2" >$3' x {devices} {gpu} {output}
    ended_with 0
    [ "$(cat out.txt)" = $'2 0,1\n2 2,3' ]
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
    [ "$(jq -c '[.ready_ms, .loaded_items_per_s]' summary.json)" = "[null,null]" ]
    worker works <<'END'
#!/bin/sh
sleep 0.3 # else one of the two does both
echo "$1" >"$2"
END
    map --items 2 -g cpu:2 -r 0 -o out.txt --on-finish 'cat >summary.json' -- ./works {start} {output}
    ended_with 0
    says "items/s" "over 2 workers" "worker-seconds"
    says_not "loading" "efficiency"
    seq 3 >in.txt
    map in.txt -g cpu:1 -o cat.txt --on-finish 'cat >summary.json' -- cat
    says "; loading " ": efficiency "
    [ "$(jq '.load_ms | type' summary.json)" = '"number"' ]
    [ "$(jq '.ready_ms >= 0 and .ready_ms <= .wall_ms and .loaded_items_per_s > 0' summary.json)" = true ]
    for _ in {1..15}; do # a run of less than a millisecond after its worker was ready
        map in.txt -g cpu:1 -f -o cat.txt --on-finish 'cat >summary.json' -- cat
        [ "$(jq '.loaded_items_per_s > 0' summary.json)" = true ]
    done
    map in.txt -g cpu:2 -n 1 -o cat.txt -f --on-finish 'cat >summary.json' -- cat # one of the two gets no item
    [ "$(jq -c '[.ready_ms, .loaded_items_per_s]' summary.json)" = "[null,null]" ]
    map in.txt -g cpu:1 -o cat.txt -f --on-finish 'cat >summary.json' -- sh -c 'exit 3' # none came as far as a result
    ended_with 1
    says_not "loading"
    [ "$(jq .load_ms summary.json)" = null ]
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

# Each start of ./noted is a line of `started`.
noted_evaluator() {
    evaluator
    worker noted <<'END'
#!/bin/sh
echo "$1" >>started
[ ! -e "broken_$1" ] || exit 3
echo "[PROGRESS:$2/$2|acc:1.0|correct:1/$2]" >&2
exec ./evaluate "$@"
END
}

@test "after a wrong --collect a resume with the right one takes the files that are there" {
    noted_evaluator
    map --items 7 --shards 3 -g cpu:2 -r 0 -o all.jsonl --collect 'out/answer_{suffix}.jsonl' -- ./noted {start} {count} {suffix}
    ended_with 1
    says "it left no file that matches --collect" "without running these shards again: muster resume $(basename "$(run_dir)") --collect 'GLOB'"
    run limited "$MUSTER" resume latest --collect 'out/answerz_{suffix}.jsonl'
    ended_with 2
    says "it left no file that matches --collect, here 'out/answerz_shard_0.jsonl'; nothing was changed"
    run limited "$MUSTER" resume latest --collect 'out/answers_{suffix}.jsonl' --also 'out/metrics_{suffix}.csv=metrics.csv'
    ended_with 0
    says "all.jsonl: 7 items in 3 shards, complete" "also       metrics.csv" "correct"
    [ "$(jq .id all.jsonl | tr '\n' ' ')" = "0 1 2 3 4 5 6 " ]
    [ "$(wc -l <metrics.csv)" = 4 ]
    # Only the third was run, which had been ended with the run.
    [ "$(grep -c '^[03]$' started)" = 2 ]
}

@test "a resume with another --also keeps the shards that have their result, and a later one knows it" {
    noted_evaluator
    touch broken_5
    map --items 7 --shards 3 -g cpu:1 -r 0 -o all.jsonl --collect 'out/answers_{suffix}.jsonl' -- ./noted {start} {count} {suffix}
    ended_with 1
    says "missing    shard 2 (items 5 to 6)"
    run limited "$MUSTER" resume latest --also 'out/metric_{suffix}.csv=metrics.csv'
    ended_with 2
    says "shard 0 (items 0 to 2): it left no file that matches --also" "nothing was changed"
    run limited "$MUSTER" resume latest --also 'out/metrics_{suffix}.csv=metrics.csv'
    ended_with 1
    says "also       metrics.csv" "correct 2, seen 5"
    [ "$(wc -l <started)" = 3 ]
    rm broken_5
    query "UPDATE facts SET value = '0' WHERE key = 'shard_words_taken'" # as if it had been killed while it took them
    run limited $(sed -n 's/^  next *//p' <<<"$output" | sed "s|^muster|$MUSTER|")
    ended_with 0
    [ "$(sort started | tr '\n' ' ')" = "0 3 5 5 " ]
    [ "$(cat metrics.csv)" = $'accuracy,n\n0.5,3\n0.5,2\n0.5,2' ]
    says "correct 3, seen 7"
    run limited "$MUSTER" resume latest --also 'out/metrics_{suffix}.csv=more.csv'
    ended_with 2
    says "is complete, so --collect, --also and --also-counted cannot be used; muster merge joins any files"
}

@test "a shard that left its file in its second attempt asks for no other names" {
    worker second <<'END'
#!/bin/sh
[ -e once ] && echo "$1" >"x_$1"
touch once
END
    map --items 1 -g cpu:1 -o out.txt --collect 'x_{start}' -- ./second {start}
    ended_with 0
    says "it left no file that matches --collect"
    says_not "under other names"
}

@test "a resume takes no file that is older than its shard's program, or has too few records" {
    evaluator
    mkdir -p old
    seq 4 >old/a_0.txt
    seq 3 >old/a_4.txt
    sleep 0.02
    map --items 7 -g cpu:1 --shards 2 -r 0 -o all.txt --collect 'out/a_{start}.txt' -- ./evaluate {start} {count} {start}
    ended_with 1
    run limited "$MUSTER" resume latest --collect 'old/a_{start}.txt'
    ended_with 2
    says "old/a_0.txt was there before it began"
    touch old/a_*
    head -n 2 old/a_4.txt >short
    cat short >old/a_4.txt
    run limited "$MUSTER" resume latest --collect 'old/a_{start}.txt' -- sh -c 'seq 3 >old/a_{start}.txt'
    ended_with 0
    says "shard 1 (items 4 to 6) was not taken" "holds 2 records, expected 3"
    [ "$(wc -l <all.txt)" = 7 ]
}

# advised PATTERN [FROM TO]: the command that the last words have behind a pattern, typed as it stands.
advised() {
    local words
    words=$(sed -n "s/.*$1\(muster [^()]*\).*/\1/p" <<<"$output" | tail -n 1)
    [ -n "$words" ] || { echo "no command behind '$1' in: $output"; return 1; }
    [ $# -lt 2 ] || words=${words/"$2"/"$3"}
    run limited bash -c "$(sed "s|^muster|$MUSTER|" <<<"$words")"
}

@test "the commands that messages name can be typed as they stand, whatever the run's folder is called" {
    evaluator
    worker moody <<'END'
#!/bin/sh
[ -e well ] || exit 3
exec ./evaluate "$@"
END
    local files=(--collect 'out/answers_{suffix}.jsonl')
    for folder in runs/plain "it's a run/of mine"; do
        mkdir -p "$(dirname "$folder")"
        rm -f well all.jsonl*
        map --run-dir "$folder" --items 2 -g cpu:1 -r 0 -o all.jsonl "${files[@]}" -- ./moody {start} {count} {suffix}
        ended_with 1
        touch well
        advised 'go on with: '
        ended_with 0
        [ "$(wc -l <all.jsonl)" = 2 ]
    done
    # Of one that is looked at, and of one that was told nothing but errors.
    rm well
    map -q --run-dir "not 'quiet'" --items 2 --shards 2 -g cpu:1 -r 0 -f -o all.jsonl "${files[@]}" -- sh -c '[ {shard} = 0 ] || [ -e well ] && exec ./evaluate "$@"' x {start} {count} {suffix}
    ended_with 1
    local said=$output
    run "$MUSTER" status "not 'quiet'"
    touch well
    advised 'go on  *'
    ended_with 0
    [ "$(wc -l <all.jsonl)" = 2 ]
    output=$said
    advised 'go on with: '
    ended_with 0
    says "is complete"
    # Files under another name.
    map --run-dir 'of "no" name' --items 2 -g cpu:1 -r 0 -f -o all.jsonl --collect 'out/nothing_{suffix}' -- ./evaluate {start} {count} {suffix}
    ended_with 1
    advised 'these shards again: ' "'GLOB'" "'out/answers_{suffix}.jsonl'"
    ended_with 0
    says "2 items in 1 shard, complete"
}

@test "a run that is going on is stopped by the command that its refusal names, and no other run is" {
    holding_worker
    seq 3 >in.txt
    map_begin --run-dir 'one run' in.txt -g cpu:1 -o one.txt -- ./hold
    wait_for [ -e holding ]
    seq 1 >more.txt
    map more.txt -g cpu:1 -o more.txt.out -- cat # the latest
    ended_with 0
    run limited "$MUSTER" resume 'one run'
    ended_with 69
    says "is going on: pid $PID"
    touch go
    advised 'holds it (' ' ends it' ''
    map_end
    run limited "$MUSTER" resume 'one run'
    ended_with 0
    same in.txt one.txt
}
