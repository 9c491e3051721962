#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Files that a run reads: they must stay as they are while it does, and it must not write over them.
load helpers

# A run in whose midst the first input, in.txt, is something else. Its words are those of map_begin.
gate() {
    worker gate <<'END'
#!/bin/sh
while read -r n; do
    [ -e at_gate ] && until [ -e go ]; do sleep 0.02; done
    touch at_gate
    echo "$n"
done
END
}

gate_begin() {
    gate
    map_begin "$@"
    wait_for test -e at_gate
}

gate_end() {
    touch go
    map_end
}

@test "an input that is written to in its place while a run reads it gives no output, but 65" {
    seq -f "a%02000.0f" 600 >in.txt
    gate_begin -g cpu:1 in.txt -o out.txt -- ./gate
    seq -f "b%02000.0f" 600 | dd of=in.txt conv=notrunc status=none
    gate_end
    ended_with 65
    says "in.txt was written to while it was read" "start over with a file that stays as it is"
    [ ! -e out.txt ]
    [ "$(query 'SELECT value FROM facts WHERE key = "state"')" = failed ]
    run limited "$MUSTER" map -g cpu:1 in.txt -o out.txt -- ./gate
    ended_with 0
    says_not "going on with"
    same out.txt in.txt
}

@test "a run whose input was written to is not resumed, also when the input is as it was" {
    seq 100 >in.txt
    cp -p in.txt kept.txt
    gate_begin -g cpu:1 --run-dir run in.txt -o out.txt -- ./gate
    seq 200 299 >in.txt
    gate_end
    ended_with 65
    cp -p kept.txt in.txt
    run limited "$MUSTER" status run
    says "next" "start over"
    says_not "muster resume"
    run limited "$MUSTER" resume run
    ended_with 65
    says "was written to while this run read it" "start over" "muster results"
    [ ! -e out.txt ]
}

@test "an input that grows while a run reads it is told early, without waiting for the work" {
    seq 100 >in.txt
    gate_begin -g cpu:1 --grace 1s in.txt -o out.txt -- ./gate
    echo 101 >>in.txt
    map_end
    ended_with 65
    says "in.txt was written to" "292 bytes then, 296 now"
    [ ! -e out.txt ]
}

@test "an unfinished run whose input has grown since names the way to start over" {
    seq 600 >in.txt
    gate_begin -g cpu:1 in.txt -o out.txt -- ./gate
    run limited "$MUSTER" stop --now
    map_end
    echo 601 >>in.txt
    map -g cpu:1 in.txt -o out.txt -- ./gate
    ended_with 2
    says "in.txt has grown" "muster map --fresh starts over"
    touch go
    map --fresh -g cpu:1 in.txt -o out.txt -- ./gate
    ended_with 0
    same in.txt out.txt
}

@test "a standard input that cannot be read is refused before anything begins" {
    run limited sh -c '"$MUSTER" map -g cpu:1 -o out.txt - -- cat <&-'
    ended_with 2
    says "standard input, is closed"
    run limited sh -c '"$MUSTER" map -g cpu:1 -o out.txt - -- cat <.'
    ended_with 2
    says "standard input, is a folder"
    run limited sh -c '"$MUSTER" map -g cpu:1 -o out.txt - -- cat 0>written'
    ended_with 2
    says "or open for writing only"
    [ ! -e muster-runs ]
}

@test "a run whose folder is removed while it goes on is not one to resume" {
    seq 600 >in.txt
    gate_begin -g cpu:1 in.txt -o out.txt -- ./gate
    rm -rf muster-runs
    gate_end
    says_not "muster resume"
    says "the run's folder is gone"
}

@test "results are not written over what the run reads and keeps, or what another one writes" {
    seq 600 >in.txt
    gate_begin -g cpu:1 in.txt -o out.txt -- ./gate
    run limited "$MUSTER" results -o out.txt
    ended_with 69
    says "is at work on the output out.txt"
    for place in in.txt muster-runs/latest/run.db muster-runs/latest/parts/new; do
        run limited "$MUSTER" results --force -o $place
        ended_with 2
    done
    says "(-o) is where the run keeps its own files; name another place"
    run limited "$MUSTER" results -o muster-runs/latest/so_far.txt
    ended_with 0
    gate_end
    ended_with 0
    same in.txt out.txt
}

@test "a shard's input that was written to gives no output either" {
    seq 10 >in.txt
    worker shard <<'END'
#!/bin/sh
touch at_gate
until [ -e go ]; do sleep 0.02; done
cp "$1" "$2"
END
    map_begin -g cpu:1 --shards 2 --grace 1s in.txt -o out.txt -- ./shard {input} {output}
    wait_for test -e at_gate
    seq 11 20 >in.txt
    gate_end
    ended_with 65
    says "in.txt was written to"
    says_not "muster resume"
    [ ! -e out.txt ]
}

@test "an input that another file takes the place of is read on as it was" {
    seq 100 >in.txt
    cp in.txt want.txt
    gate_begin -g cpu:1 in.txt -o out.txt -- ./gate
    seq 200 299 >new.txt
    mv new.txt in.txt
    gate_end
    ended_with 0
    same out.txt want.txt
}

@test "a compressed input may change once it was copied" {
    seq 100 | gzip >in.txt.gz
    gate_begin -g cpu:1 in.txt.gz -o out.txt -- ./gate
    wait_for test -e "$(run_dir)/input/input-0.data"
    : >in.txt.gz
    gate_end
    ended_with 0
    seq 100 >want.txt
    same out.txt want.txt
}

# A run whose second shard fails, so that there is something to write into *.failed.jsonl.
half_worker() {
    worker half <<'END'
#!/bin/sh
[ "$1" = 0 ] && cp in.txt "$2"
END
}

@test "an input in the output folder, or beside it where failed items go, is not written over" {
    half_worker
    seq 4 >in.txt
    seq 4 >out.failed.jsonl
    cp out.failed.jsonl want.txt
    map -g cpu:1 --shards 2 --any-count out.failed.jsonl -o out/ -- ./half {shard} {output}
    ended_with 2
    says "out.failed.jsonl is where the failed items are written to" "name another output"
    same out.failed.jsonl want.txt
    mkdir out
    cp want.txt out/shard_0.txt
    ln -s out/shard_0.txt link.txt
    local input
    for input in out/shard_0.txt ./out/../out/shard_0.txt link.txt; do
        map -f -g cpu:1 --shards 2 --any-count --collect 'made/{suffix}.txt' "$input" -o out/ -- ./half {shard} {suffix}
        ended_with 2
        says "lies in the output folder out/" "name another folder"
    done
    same out/shard_0.txt want.txt
}

@test "an empty path is no folder for runs" {
    seq 4 >in.txt
    local option
    for option in --run-dir= --runs-dir=; do
        map -g cpu:1 "$option" in.txt -o out.txt -- cat
        ended_with 2
        says "${option%=}: expected a path, found ''"
    done
    run limited "$MUSTER" ls --runs-dir ''
    ended_with 2
    [ "$(ls)" = in.txt ]
}

@test "an input is not what the output is written to before it is put in place" {
    seq 4 >out.txt.new
    map -f -g cpu:1 out.txt.new -o out.txt -- cat
    ended_with 2
    says "out.txt.new is where the output is written to before it is put in place"
    [ -s out.txt.new ]
}

@test "an input in the folder of --run-dir is not one of the run's own files" {
    mkdir run
    seq 4 >run/failed.jsonl
    cp run/failed.jsonl want.txt
    map -g cpu:1 --run-dir run run/failed.jsonl -o - -- cat
    ended_with 2
    says "run/failed.jsonl is where the run writes its own failed.jsonl" "--run-dir"
    same run/failed.jsonl want.txt
    [ "$(ls run)" = failed.jsonl ]
    seq 4 >run/in.txt
    map -g cpu:1 --run-dir run run/in.txt -o - -- cat
    ended_with 0
}

@test "a long record takes memory by its own size alone, packed or not" {
    "$PYTHON" - <<'END'
import gzip
long = "x" * (32 << 20)
for name, text in (("in.txt", long + "\nb\n"), ("in.jsonl", '{"a":"' + long + '"}\n{"a":1}\n'), ("in.csv", 'a,b\n1,"' + long + '"\n2,x\n')):
    open(name, "w").write(text)
    with gzip.open(name + ".gz", "wt", compresslevel=1) as packed:
        packed.write(text)
END
    measured
    local name most
    most=$((32 * 6 + 16))
    for name in in.txt.gz in.jsonl in.jsonl.gz in.csv.gz; do
        run limited ./measured "$MUSTER" map -f --fresh -g cpu:1 "$name" -o out.jsonl -- cat
        ended_with 0
        has_lines out.jsonl 2
        [[ $output =~ peak\ ([0-9]+)\ MiB ]]
        [ -z "${DEAD_FS:-}" ] || [ "${BASH_REMATCH[1]}" -le "$most" ] || { echo "$name: ${BASH_REMATCH[1]} MiB of $most"; false; } # a sanitizer takes more
    done
}
