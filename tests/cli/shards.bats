#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Shard commands: a program is started for each range of the items, and leaves one file behind.
load helpers

# ranger START COUNT FILE: a line for each item of the range, with the item's number.
ranger() {
    worker ranger <<'END'
#!/bin/sh
mkdir -p "$(dirname "$3")"
i=$1
end=$(($1 + $2))
while [ $i -lt $end ]; do
    echo "{\"id\":$i}"
    i=$((i + 1))
done >"$3.part"
mv "$3.part" "$3"
echo "$MUSTER_SHARD $MUSTER_SHARDS $MUSTER_START $MUSTER_COUNT" >>shards_seen
END
}

# out.jsonl has the items 0 … N-1, in order.
is_whole() { [ "$(jq .id out.jsonl | tr '\n' ' ')" = "$(seq -s' ' 0 $(($1 - 1))) " ]; }

@test "each shard gets its range, and the files are joined in order" {
    ranger
    map --items 11 -g cpu:2 -o out.jsonl -- ./ranger {start} {count} {output}
    ended_with 0
    is_whole 11
    [ "$(sort shards_seen)" = $'0 2 0 6\n1 2 6 5' ]
    says "out.jsonl: 11 items in 2 shards, complete"
    [ ! -e "$(run_dir)/shard-output" ]
}

@test "the records of an input are counted, and --collect names the files" {
    ranger
    seq 10 >in.txt
    map in.txt -g cpu:3 -o out.jsonl --collect 'res/*_{suffix}.jsonl' -- ./ranger {start} {count} res/x_{suffix}.jsonl
    ended_with 0
    is_whole 10
    [ "$(ls res | tr '\n' ' ')" = "x_cpu_0.jsonl x_cpu_1.jsonl x_cpu_2.jsonl " ]
}

@test "more shards than workers: they are called by their numbers" {
    ranger
    map --items 10 --shards 4 -g cpu:2 -o out.jsonl --collect 'res/{suffix}.jsonl' -- ./ranger {start} {count} res/{suffix}.jsonl
    ended_with 0
    is_whole 10
    [ "$(ls res | tr '\n' ' ')" = "shard_0.jsonl shard_1.jsonl shard_2.jsonl shard_3.jsonl " ]
}

@test "shards beyond the number of items are not started" {
    ranger
    map --items 2 --shards 5 -g cpu:3 -o out.jsonl -- ./ranger {start} {count} {output}
    ended_with 0
    says "2 items make 2 shards, not 5"
    has_lines shards_seen 2
    ! has_lines shards_seen 3
}

@test "a file with too few records is a failure that says so" {
    ranger
    map --items 10 -g cpu:1 --shards 2 -r 0 -o out.jsonl -- ./ranger {start} 5 {output}
    ended_with 0
    map --fresh -f --items 10 -g cpu:1 --shards 2 -r 0 -o out.jsonl -- ./ranger {start} 4 {output}
    ended_with 1
    says "holds 4 records, expected 5"
}

@test "a typo does not burn a night: shards that leave nothing end the run early" {
    ranger
    map --items 100 --shards 50 -g cpu:2 -o out.jsonl --collect 'res/*_{suffix}.json' -- ./ranger {start} {count} res/x_{suffix}.jsonl
    ended_with 1
    says "it left no file that matches --collect, here 'res/*_shard_0.json'"
    says "is the command right?"
    [ "$(wc -l <shards_seen)" -le 4 ]
    [ ! -e out.jsonl ]
}

@test "a shard that fails is missing, by name, and one command finishes the run" {
    worker moody <<'END'
#!/bin/sh
[ "$1" = 6 ] && [ ! -e well ] && { echo "no such model" >&2; exit 3; }
exec ./ranger "$@"
END
    ranger
    map --items 9 --shards 3 -g cpu:1 -r 1 -o out.jsonl -- ./moody {start} {count} {output}
    ended_with 1
    says "out.jsonl: 6 of 9 items, 2 of 3 shards" "missing    shard 2 (items 6 to 8)"
    is_whole 6
    [ "$(jq -r '.shard, .start, .count' out.jsonl.failed.jsonl | tr '\n' ' ')" = "2 6 3 " ]
    [ "$(jq -r .reason out.jsonl.failed.jsonl)" = "status 3 on cpu_0" ]
    touch well
    run limited $(sed -n 's/^  next *//p' <<<"$output" | sed "s|^muster|$MUSTER|")
    ended_with 0
    is_whole 9
    [ "$(grep -c '^0 ' shards_seen)" = 1 ]
}

# A program that reads one file and writes another, and knows nothing of shards.
whole_file() {
    worker whole_file <<'END'
#!/bin/sh
cat "$1" >>inputs_seen
cp "$1" "$2"
END
}

@test "{input} holds just the shard's records: lines" {
    whole_file
    printf 'a\n\nc\r\nd' >in.txt
    map in.txt -g cpu:3 -o out.txt -- ./whole_file {input} {output}
    ended_with 0
    printf 'a\n\nc\nd\n' | cmp - out.txt
    [ ! -e "$(run_dir)/shard-input" ]
}

@test "{input} holds just the shard's records: CSV with its header" {
    whole_file
    printf 'id,"a, b"\r\n1,"x\ny"\r\n2,z\r\n3,"q""q"\r\n' >in.csv
    map in.csv -g cpu:1 --shards 3 -o out.csv -- ./whole_file {input} {output}
    ended_with 0
    printf 'id,"a, b"\n1,"x\ny"\n2,z\n3,"q""q"\n' | cmp - out.csv
    printf 'id,"a, b"\n1,"x\ny"\nid,"a, b"\n2,z\nid,"a, b"\n3,"q""q"\n' | cmp - inputs_seen
}

@test "{input} holds just the shard's records: an array of JSON" {
    whole_file
    printf '[{"id": 0},\n {"id":\n 1}, {"id": 2}]\n' >in.json
    map in.json -g cpu:2 -o out.json -- ./whole_file {input} {output}
    ended_with 0
    [ "$(jq -c . out.json)" = '[{"id":0},{"id":1},{"id":2}]' ]
    [ "$(jq -c . inputs_seen | sort)" = $'[{"id":0},{"id":1}]\n[{"id":2}]' ]
}

@test "{input} of a packed file, of several files, and of stdin" {
    whole_file
    records 10 >all.jsonl
    head -4 all.jsonl | gzip >a.jsonl.gz
    tail -6 all.jsonl >b.jsonl
    map a.jsonl.gz b.jsonl -g cpu:3 -o out.jsonl -- ./whole_file {input} {output}
    ended_with 0
    same all.jsonl out.jsonl
    run limited "$MUSTER" map - --format jsonl -g cpu:3 -o stdin.jsonl -- ./whole_file {input} {output} <all.jsonl
    ended_with 0
    same all.jsonl stdin.jsonl
}
