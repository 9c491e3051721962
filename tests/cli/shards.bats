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

@test "a shard is charged for its failure only where another has succeeded" {
    worker twice_bad <<'END'
#!/bin/sh
echo "$1" >>tried
[ "$1" -gt 0 ] || [ "$(grep -c "^$1$" tried)" -gt 1 ] || exit 3
[ "$1" -lt 2 ] || exit 3
echo "$1" >"$2"
END
    map --items 3 --shards 3 -g cpu:1 -r 0 -o out.txt -- ./twice_bad {shard} {output}
    ended_with 1
    [ "$(sort tried | tr '\n' ' ')" = "0 0 1 2 " ]
    rm tried
    map -q --fresh -f --items 3 --shards 3 -g cpu:1 -r 0 -o out.txt -- ./twice_bad {shard} {output}
    ended_with 1
    [ "$output" = "muster: 1 shard was set aside, with reasons in out.txt.failed.jsonl; go on with: muster resume $(basename "$(run_dir)") --retry-failed" ]
    [ "$(cat out.txt)" = $'0\n1' ]
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

@test "{input} is there for the next attempt, whichever worker makes it and however soon" {
    worker late <<'END'
#!/bin/sh
[ -e "$1" ] || { echo "no input" >>lost; exit 4; }
[ "$3" = 1 ] || [ -e well ] || { touch well; sleep 0.05; exit 3; }
cp "$1" "$2"
END
    seq 10 >in.txt
    for _ in $(seq 20); do
        rm -f well
        map in.txt --fresh -f --shards 2 -g cpu:2 -o out.txt -- ./late {input} {output} {shard}
        ended_with 0
        [ ! -e lost ]
    done
}

# A shard from item 20 on waits for the file `go`.
gate() {
    ranger
    worker gate <<'END'
#!/bin/sh
while [ "$1" -ge 20 ] && [ ! -e go ]; do sleep 0.02; done
exec ./ranger "$@"
END
}

@test "muster killed in mid-run: resumed to the same bytes, and no shard is done twice" {
    gate
    map_begin --items 40 --shards 8 -g cpu:2 -o out.jsonl -- ./gate {start} {count} {output}
    wait_for has_lines shards_seen 4
    wait_for ledger_has 4
    kill -KILL "$PID"
    wait_for nobody_is_left
    [ ! -e out.jsonl ]
    touch go
    run limited "$MUSTER" resume latest -g cpu:3
    ended_with 0
    holds "$(run_dir)/orchestrator.log" "going on: 4 shards are done, 0 set aside"
    is_whole 40
    [ "$(sort shards_seen | uniq -d)" = "" ]
    [ "$(wc -l <shards_seen)" = 8 ]
}

# A shard at 0 ends at once, and its file is long on its way to the disk; the other one does not end.
half_begin() {
    [ -n "${SLOW_FS:-}" ] || skip "not with a sanitizer"
    worker half <<'END'
#!/bin/sh
[ "$1" = 0 ] || [ -e go ] || sleep 1000
echo "$1" >>shards_seen
echo "$1" >"$2"
END
    LD_PRELOAD=$SLOW_FS map_begin --items 2 -g cpu:2 -o out.txt --collect '{shard}.slow-disk' -- ./half {shard} {shard}.slow-disk
    wait_for test -e syncing
    kill -TERM "$PID"
    wait_for holds "$(run_dir)/orchestrator.log" "SIGTERM: ending the workers"
}

half_end() {
    touch synced
    map_end
    ended_with 143
    touch go
    run limited "$MUSTER" resume latest
    ended_with 0
    [ "$(cat out.txt)" = $'0\n1' ]
}

@test "ended while the file of a shard that is done is looked at: it is done" {
    half_begin
    half_end
    [ "$(cat shards_seen)" = $'0\n1' ]
}

cpu_ticks() { sed 's/.*) //' "/proc/$PID/stat" | cut -d' ' -f12,13 | tr ' ' '+'; }

@test "while a shard's file is looked at, muster waits" {
    half_begin
    ticks=$(cpu_ticks)
    sleep 1
    [ $(($(cpu_ticks) - ($ticks))) -lt 30 ]
    half_end
}

@test "ended twice while the file of a shard that is done is looked at: it is done" {
    half_begin
    kill -TERM "$PID"
    wait_for holds "$(run_dir)/orchestrator.log" "cpu_1 ended"
    half_end
    [ "$(cat shards_seen)" = $'0\n1' ]
}

@test "the limit for a shard is on its program, not on the look at its file" {
    [ -n "${SLOW_FS:-}" ] || skip "not with a sanitizer"
    LD_PRELOAD=$SLOW_FS map_begin --items 2 --shards 1 -g cpu:1 --timeout 1s -r 0 -o out.txt --collect '{shard}.slow-disk' -- \
        sh -c 'printf "0\n1\n" >{shard}.slow-disk'
    wait_for test -e syncing
    sleep 2
    touch synced
    map_end
    ended_with 0
    [ "$(cat out.txt)" = $'0\n1' ]
}

ledger_has() { [ "$(query 'select count(*) from ranges' 2>/dev/null || echo 0)" -ge "$1" ]; }

@test "muster killed half a second after a shard was done: it is done" {
    gate
    map_begin --items 40 --shards 2 -g cpu:2 -o out.jsonl -- ./gate {start} {count} {output}
    wait_for grep -qs "is done at shard 0" muster-runs/latest/orchestrator.log
    sleep 0.5
    kill -KILL "$PID"
    wait_for nobody_is_left
    ledger_has 1
}

@test "the same command again goes on, with the shards that it began with" {
    gate
    map_begin --items 40 -g cpu:4 -o out.jsonl --collect 'res/*_{run}_{suffix}.jsonl' -- ./gate {start} {count} res/x_{run}_{suffix}.jsonl
    wait_for has_lines shards_seen 2
    wait_for ledger_has 2
    kill -TERM "$PID"
    map_end
    ended_with 143
    says "go on with: muster resume" "20 of 40 items, 2 of 4 shards" "missing    shard 2 (items 20 to 29), shard 3 (items 30 to 39)"
    touch go
    map --items 40 -g cpu:1 -o out.jsonl --collect 'res/*_{run}_{suffix}.jsonl' -- ./gate {start} {count} res/x_{run}_{suffix}.jsonl
    ended_with 0
    is_whole 40
    [ "$(ls res | sed 's/.*_cpu/cpu/' | tr '\n' ' ')" = "cpu_0.jsonl cpu_1.jsonl cpu_2.jsonl cpu_3.jsonl " ]
    [ "$(ls res | sed 's/_cpu.*//' | uniq | wc -l)" = 1 ]
}

@test "a shard whose file is gone, or cut, when the run goes on is run again" {
    gate
    map_begin --items 40 --shards 8 -g cpu:2 -o out.jsonl --collect 'res/{suffix}.jsonl' -- ./gate {start} {count} res/{suffix}.jsonl
    wait_for ledger_has 4
    kill -TERM "$PID"
    map_end
    rm res/shard_1.jsonl
    echo '{"id":10}' >res/shard_2.jsonl
    touch go
    run limited "$MUSTER" resume latest
    ended_with 0
    says "shard 1 (items 5 to 9) is run again: its file" "res/shard_1.jsonl is gone" "shard 2 (items 10 to 14) is run again" "has 10 bytes, and had 50"
    is_whole 40
}

@test "a run.db that says more than its parts is damaged, and its shards are not taken for done" {
    gate
    map_begin --items 40 --shards 8 -g cpu:2 -o out.jsonl -- ./gate {start} {count} {output}
    wait_for ledger_has 4
    kill -TERM "$PID"
    map_end
    query 'update ranges set count = 2 where first = 3'
    run "$MUSTER" results
    ended_with 65
    says "run.db is damaged: a result of 2 shards from shard 3"
    run limited "$MUSTER" resume latest
    ended_with 65
    says "run.db is damaged: a result of 2 shards from shard 3"
}

@test "a run of shards goes on with a shard command only, and another run with none" {
    ranger
    seq 4 >in.txt
    map in.txt -r 0 -g cpu:1 -o out.jsonl -- sh -c 'exit 3' {start} {output}
    ended_with 1
    run limited "$MUSTER" resume latest --retry-failed -- cat
    ended_with 2
    says "this is a run of shards: its command needs {start}"
    run limited "$MUSTER" resume latest --retry-failed -- ./ranger {start} {count} {output}
    ended_with 0
    is_whole 4
    map in.txt -g cpu:1 -r 0 -o lines.txt -- sh -c 'read a; echo $a; read b; exit 1'
    ended_with 1
    run limited "$MUSTER" resume latest --retry-failed -- ./ranger {start} {count} {output}
    ended_with 2
    says "this run was begun without shards"
}

@test "last week's file in the way is not taken for this one's" {
    ranger
    mkdir res
    seq 5 >res/a_shard_0.jsonl
    map --items 10 --shards 2 -g cpu:1 -o out.jsonl --collect 'res/*_{suffix}.jsonl' -- true {start}
    ended_with 1
    says "res/a_shard_0.jsonl was there before it began; move it away, or let the name hold {run}"
    map --fresh --items 10 --shards 2 -g cpu:1 -o out.jsonl --collect 'res/*_{suffix}.jsonl' -- ./ranger {start} {count} res/b_{suffix}.jsonl
    ended_with 0
    is_whole 10
}

@test "two files where one is expected, and one that is another shard's" {
    ranger
    worker twice <<'END'
#!/bin/sh
./ranger "$1" "$2" "$3.a.jsonl"
./ranger "$1" "$2" "$3.b.jsonl"
END
    map --items 10 --shards 2 -g cpu:1 -o out.jsonl --collect 'res/{suffix}.*' -- ./twice {start} {count} res/{suffix}
    ended_with 1
    says "2 new files match --collect, here 'res/shard_0.*', where one is expected: res/shard_0.a.jsonl, res/shard_0.b.jsonl"
}

@test "a pattern that matches another shard's file as well is not trusted" {
    ranger
    map --items 22 --shards 11 -r 0 -g cpu:1 --max-failures 3 -o out.jsonl --collect 'res/{suffix}*' -- ./ranger {start} {count} res/{suffix}.jsonl
    ended_with 1
    says "res/shard_10.jsonl matches --collect, but it may be the file of shard 1; let the pattern tell them apart"
    map --fresh -f --items 22 --shards 11 -r 0 -g cpu:1 -o out.jsonl --collect 'res/{suffix}.*' -- ./ranger {start} {count} res/{suffix}.jsonl
    ended_with 0
    is_whole 22
}

@test "a shard that fails on one device is retried on another, under its own name" {
    ranger
    worker picky <<'END'
#!/bin/sh
[ "$MUSTER_DEVICE_INDEX" = 1 ] && exit 7
exec ./ranger "$@"
END
    map --items 9 --shards 3 -g sim:3xH200 -o out.jsonl --collect 'res/*_{suffix}.jsonl' -- ./picky {start} {count} res/x_{suffix}.jsonl
    ended_with 0
    is_whole 9
    [ "$(ls res | tr '\n' ' ')" = "x_gpu_0.jsonl x_gpu_1.jsonl x_gpu_2.jsonl " ]
}

@test "ids far apart: what is filled in, and what is in the environment" {
    worker teller <<'END'
#!/bin/sh
echo "$*|$MUSTER_SHARD|$MUSTER_SHARDS|$MUSTER_START|$MUSTER_COUNT|$CUDA_VISIBLE_DEVICES|${MUSTER_CHANNEL:-none}" >>told
read -r line && echo "stdin: $line" >>told
shift $(($# - 1))
echo '{}' >$1
END
    export MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=8
    map --items 2 -g 5,7 -s 1 --batch 8 -o out.jsonl -- ./teller {gpu} {gpu_uuid} {start}-{end} {shards} {suffix} {batch} {attempt} {{gpu}} '{print}' '${gpu}' {output}
    ended_with 0
    sort told >sorted
    dir=$(run_dir)
    cat >expected <<END
5 GPU-a5000000-1111-4222-8333-444444444444 0-1 2 gpu_5 8 1 {gpu} {print} \${gpu} $dir/shard-output/shard_0.jsonl|0|2|0|1|5|none
7 GPU-a7000000-1111-4222-8333-444444444444 1-2 2 gpu_7 8 2 {gpu} {print} \${gpu} $dir/shard-output/shard_1.jsonl|1|2|1|1|7|none
END
    same expected sorted
}

@test "a seed depends on the base seed and the shard's start, not on the devices" {
    worker seeder <<'END'
#!/bin/sh
echo "$1" >$2
END
    map --items 12 --shards 4 -g cpu:1 -o a.txt --collect 'x{start}' -- ./seeder {seed} x{start}
    says "1 record, expected 3"
    map --fresh --items 12 --shards 4 -g cpu:1 -o a.txt --any-count --collect 'x{start}' -- ./seeder {seed} x{start}
    ended_with 0
    [ "$(wc -l <a.txt)" = 4 ]
    for devices in 1 3; do
        map --fresh --items 4 --shards 4 -g cpu:$devices -o $devices.txt -- ./seeder {seed} {output}
        ended_with 0
    done
    same 1.txt 3.txt
    [ "$(sort -u 1.txt | wc -l)" = 4 ]
    [ "$(awk '$1 > 2147483647' 1.txt | wc -l)" = 0 ]
    map --items 4 --shards 4 -s 7 -g cpu:1 -o 7.txt -- ./seeder {seed} {output}
    ! cmp -s 1.txt 7.txt
}

@test "-o FOLDER/ puts the shards' files there as they are, under their own names" {
    ranger
    map --items 10 --shards 3 -g cpu:2 -o merged/ --collect 'res/*_{suffix}.pt' -- ./ranger {start} {count} res/x_{suffix}.pt
    ended_with 0
    says "merged/: 10 items in 3 shards, complete"
    for k in 0 1 2; do same res/x_shard_$k.pt merged/x_shard_$k.pt; done
    map --fresh --items 10 --shards 3 -g cpu:2 -o merged/ --collect 'res/*_{suffix}.pt' -- ./ranger {start} {count} res/x_{suffix}.pt
    ended_with 2
    says "the output folder merged/ is not empty; --force"
    map --fresh --force --items 10 --shards 11 -g cpu:2 -o merged/ --format-out jsonl -- ./ranger {start} {count} {output}
    ended_with 0
    [ "$(cat merged/shard_*.jsonl | jq .id | tr '\n' ' ')" = "0 1 2 3 4 5 6 7 8 9 " ]
}

@test "the program's own file in the very folder of -o stays where it is" {
    ranger
    map --items 4 --shards 2 -g cpu:2 -o res/ --collect 'res/*_{suffix}.npy' -- ./ranger {start} {count} res/x_{suffix}.npy
    ended_with 0
    [ "$(ls res | tr '\n' ' ')" = "x_shard_0.npy x_shard_1.npy " ] || [ "$(ls res | tr '\n' ' ')" = "x_cpu_0.npy x_cpu_1.npy " ]
}

@test "muster killed: no shard's process is left" {
    worker sleeper <<'END'
#!/bin/sh
sleep 1000 &
setsid sleep 1000 &
echo $$ >>pids
sleep 1000
END
    map_begin --items 4 -g cpu:2 -o out.txt -- ./sleeper {shard} {output}
    wait_for has_lines pids 2
    kill -KILL "$PID"
    wait_for nobody_is_left
}

@test "a shard over its time limit is ended, and set aside in the end" {
    worker sleeper <<'END'
#!/bin/sh
[ "$1" = 1 ] && sleep 1000
echo "$1" >"$2"
END
    map --items 3 --shards 3 -g cpu:1 -t 500ms -r 1 --grace 200ms -o out.txt -- ./sleeper {shard} {output}
    ended_with 1
    says "out.txt: 2 of 3 items, 2 of 3 shards" "missing    shard 1 (item 1)"
    [ "$(cat out.txt)" = $'0\n2' ]
    [[ "$(jq -r .reason out.txt.failed.jsonl)" == "took longer than the limit for a shard"* ]]
}

@test "out of memory: the same shard is tried again there with half the batch" {
    ranger
    worker hungry <<'END'
#!/bin/sh
echo "$4 $MUSTER_BATCH" >>batches
[ "$4" -gt 3 ] && { echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20 GiB" >&2; exit 1; }
exec ./ranger "$@"
END
    map --items 8 --shards 2 --batch 200 -r 0 -g cpu:1 -o out.jsonl -- ./hungry {start} {count} {output} {batch}
    ended_with 0
    is_whole 8
    [ "$(tr '\n' ',' <batches)" = "200 200,100 100,50 50,25 25,12 12,6 6,3 3,3 3," ]
    says "out of memory; at most 3 items at once from now on"
}

# LatentMAS's worker, as muster sees it: its arguments, its files, its words; and its end without a share.
latent_mas() {
    pyworker run.py <<'END'
import argparse, os, sys, time
p = argparse.ArgumentParser()
for name in ("method", "model_name", "task", "output_suffix", "prm_batch_timestamp"):
    p.add_argument("--" + name)
for name in ("gpu_id", "data_start_idx", "max_samples", "seed"):
    p.add_argument("--" + name, type=int)
p.add_argument("--collect_prm_data", action="store_true")
p.add_argument("--prm_output_dir", default="prm_data")
a = p.parse_args()
questions = list(range(1000))[a.data_start_idx:a.data_start_idx + a.max_samples]
correct = 0
for done, question in enumerate(questions, 1):
    correct += question % 4 != 0
    print("[PROGRESS:%d/%d|acc:%.4f|correct:%d/%d]" % (done, len(questions), correct / done, correct, done),
          file=sys.stderr, flush=True)
    time.sleep(float(os.environ.get("PACE", "0")))
if not questions:
    sys.exit(0)
name = "%s_%s_%s_%s" % (a.task, a.method, a.prm_batch_timestamp, a.output_suffix)
os.makedirs(a.prm_output_dir, exist_ok=True)
for kind in (".pt", "_metadata.json"):
    with open(os.path.join(a.prm_output_dir, name + kind), "w") as f:
        f.write("".join('{"q":%d}\n' % q for q in questions))
print("Accuracy: %d" % correct)
END
    RUN_PY='./run.py --method latent_mas_multipath --model_name Qwen/Qwen3-0.6B --task gsm8k --gpu_id {gpu} --data_start_idx {start} --max_samples {count} --seed {seed} --output_suffix {suffix} --prm_batch_timestamp {run} --collect_prm_data'
    export MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=8
}

@test "LatentMAS's own worker, unchanged, on the devices that its script cannot use" {
    latent_mas
    mkdir prm_data
    touch prm_data/gsm8k_latent_mas_multipath_20200101_000000_gpu_1.pt
    # shellcheck disable=SC2086
    map --items 43 -g 1,3,5,7 -o merged/ --collect 'prm_data/*_{run}_{suffix}.pt' -- $RUN_PY
    ended_with 0
    says "merged/: 43 items in 4 shards, complete" "correct 32, seen 43  (accuracy 0.7442)"
    says_not "PROGRESS"
    stamp=$(basename "$(run_dir)" -map)
    for id in 1 3 5 7; do echo "gsm8k_latent_mas_multipath_${stamp}_gpu_$id.pt"; done >expected
    ls merged >found
    same expected found
    [ "$(cat merged/*.pt | jq .q | tr '\n' ' ')" = "$(seq -s' ' 0 42) " ]
    holds "$(run_dir)/logs/gpu_1_stderr.log" "[PROGRESS:1/11|acc:0.0000|correct:0/1]"
    [ "$(query 'select sum(json_extract(metrics, "$.seen")) from ranges')" = 43.0 ] ||
        [ "$(query "select sum(json_extract(metrics, '\$.seen')) from ranges")" = 43 ]
}

@test "progress and accuracy are summed over the shards while they run" {
    latent_mas
    export PACE=0.05
    # shellcheck disable=SC2086
    map_begin --items 160 -g 0,1 -o merged/ --collect 'prm_data/*_{run}_{suffix}.pt' -- $RUN_PY
    wait_for grep -qE '[1-9][0-9]* of 160 \([0-9.]+ %\), .* left [0-9].*, accuracy 0\.[67]' said
    wait_for progress_is_known
    kill -TERM "$PID"
    map_end
    ended_with 143
    says_not "metrics"
}

progress_is_known() { [ "$(jq '.done + .answered' muster-runs/latest/status.json)" -ge 10 ]; }

@test "--dry-run shows each shard's command, and makes nothing" {
    ranger
    seq 10 | gzip >in.txt.gz
    map in.txt.gz --shards 3 -g cpu:2 --run-dir here -o out.jsonl --dry-run -- ./ranger {start} {count} {output} 'a b'
    ended_with 0
    says "shard 0 (items 0 to 3) on cpu_0: ./ranger 0 4 $PWD/here/shard-output/shard_0.jsonl 'a b'"
    says "shard 2 (items 7 to 9) when a worker is free, say cpu_0: ./ranger 7 3"
    [ ! -e here ] && [ ! -e muster-runs ] && [ ! -e shards_seen ]
}

@test "what is there so far is printed by muster results, and counted in items by status and ls" {
    gate
    map_begin --items 40 --shards 8 -g cpu:2 -o out.jsonl -- ./gate {start} {count} {output}
    wait_for ledger_has 4
    "$MUSTER" results >so_far 2>said_of_it
    [ "$(jq .id so_far | tr '\n' ' ')" = "$(seq -s' ' 0 19) " ]
    holds said_of_it "20 records so far; 4 shards are missing"
    kill -TERM "$PID"
    map_end
    run "$MUSTER" status
    says "20 of 40 items (50.0 %)"
    run "$MUSTER" ls
    says "20/40"
}

# Shard 2 waits for ever; the others leave rows of CSV, or what the name's end says, in files called so.
some_begin() {
    worker some <<'END'
#!/bin/sh
[ "$1" = 2 ] && sleep 1000
printf 'id,%s\n%s,2\n' "$3" "$1" >"$2"
END
    map_begin --items 3 --shards 3 -g cpu:3 "$@"
    wait_for ledger_has 2
}

@test "muster results reads the shards' files as the run does" {
    some_begin -o out.csv --collect 'x{shard}' --union -- ./some {shard} x{shard} 'b{shard}'
    run "$MUSTER" results
    ended_with 0
    [ "${output/muster*/}" = $'id,b0,b1\n0,2,\n1,,2\n' ]
    run "$MUSTER" results -o so-far/
    ended_with 2
    says "-o so-far/ names a folder; the results go into one file"
    [ ! -e so-far ]
    run "$MUSTER" results -o so-far.csv.gz
    ended_with 2
    says "so-far.csv.gz: the output is not packed; name it without .gz and pack it afterwards, or from -o -"
    kill -TERM "$PID"
    map_end
}

@test "muster results says where files are that cannot be joined" {
    some_begin -o out/ --collect 'x{shard}.pt' -- ./some {shard} x{shard}.pt b
    run "$MUSTER" results
    ended_with 2
    says "files of tensors become one such file: -o so_far.pt; those of the shards that are done lie where $PWD/x0.pt does"
    kill -TERM "$PID"
    map_end
}

@test "files that the shards have packed are counted, and joined as what they hold" {
    worker packed <<'END'
#!/bin/sh
seq "$1" $(($1 + $2 - 1)) | sed 's/.*/{"id":&}/' | $3 >"$4"
END
    map --items 5 -g cpu:2 -o out.jsonl --collect '{shard}.jsonl.gz' -- ./packed {start} {count} gzip {shard}.jsonl.gz
    ended_with 0
    is_whole 5
    map --items 5 -g cpu:2 -f -o out.jsonl --collect 'x{shard}.zst' -- ./packed {start} {count} zstd x{shard}.zst
    ended_with 0
    is_whole 5
    map --items 5 -g cpu:2 -r 0 -o 4.jsonl --collect 'x{shard}.zst' -- ./packed {start} 2 zstd x{shard}.zst
    ended_with 1
    says "x0.zst holds 2 records, expected 3"
}

@test "arrays of the shards become one file, one behind the other" {
    pyworker arrays.py <<'END'
import struct, sys
start, count, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
head = repr({"descr": "<i8", "fortran_order": False, "shape": (count,)}).encode()
head += b" " * (-(len(head) + 11) % 64) + b"\n"
with open(path, "wb") as out:
    out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + struct.pack("<%dq" % count, *range(start, start + count)))
END
    map --items 7 --shards 3 -g cpu:2 -o all.npy -- ./arrays.py {start} {count} {output}
    ended_with 0
    says "all.npy: 7 items in 3 shards, complete"
    [ "$(tail -c 56 all.npy | od -An -td8 -v | tr -s ' \n' ' ')" = " 0 1 2 3 4 5 6 " ]
    map --items 7 --shards 3 -g cpu:2 -f --rule '.=same' -o all.npy -- ./arrays.py {start} {count} {output}
    ended_with 65
    says "the results are not merged" "also with another --rule"
    [ "$(tail -c 56 all.npy | od -An -td8 -v | tr -s ' \n' ' ')" = " 0 1 2 3 4 5 6 " ]
}

@test "arrays of the shards are counted by their rows" {
    pyworker rows.py <<'END'
import struct, sys, zipfile
n_rows, path = int(sys.argv[1]), sys.argv[2]
def npy(*shape):
    head = repr({"descr": "|u1", "fortran_order": False, "shape": shape}).encode()
    size = 1
    for dim in shape:
        size *= dim
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head) + 1) + head + b"\n" + bytes(size)
with open(path, "wb") as out:
    if path.endswith(".npy"):
        out.write(npy(n_rows, 3))
    elif path.endswith(".npz"):
        with zipfile.ZipFile(out, "w") as entries:
            for name, shape in (("x", (n_rows, 2)), ("scale", ()), *((n, (int(k),)) for n, k in (a.split("=") for a in sys.argv[3:]))):
                entries.writestr(name + ".npy", npy(*shape))
    else:
        head = b'{"x":{"dtype":"U8","shape":[%d,1],"data_offsets":[0,%d]}}' % (n_rows, n_rows)
        out.write(struct.pack("<Q", len(head)) + head + bytes(n_rows))
END
    local run='--items 6 --shards 2 -g cpu:2 -r 0 -f'
    for kind in npy npz; do
        map $run -o all.$kind -- ./rows.py 2 {output}
        ended_with 1
        says "holds 2 records, expected 3, one for each item: the program lost 1; see its log (if the program is not meant to write one record for each item, --any-count turns this check off)"
        [ ! -e all.$kind ]
        map $run -o all.$kind -- ./rows.py {count} {output}
        ended_with 0
        says "6 items in 2 shards, complete"
        map $run --any-count -o all.$kind -- ./rows.py 2 {output}
        ended_with 0
    done
    map $run -o all.npz --rule y=first -- ./rows.py {count} {output} y=7
    ended_with 0
    map $run -o all.npz -- ./rows.py 2 {output} y=7 # nobody can say which of the two
    ended_with 0
    map $run -o all.npy --rule .=first -- ./rows.py 1 {output}
    ended_with 0
    map $run -o all.safetensors -- ./rows.py 2 {output} # kept once, as all have the same
    ended_with 0
    map $run -o all.safetensors --rule x=cat0 -- ./rows.py 2 {output}
    ended_with 1
    says "holds 2 records, expected 3"
    map $run -o some/ --collect 'x{shard}.npy' -- ./rows.py 2 x{shard}.npy
    ended_with 1
    says "x0.npy holds 2 records, expected 3"
    map $run -o more/ --collect 'y{shard}.npy' -- cp rows.py y{shard}.npy # whatever it is, it is not read
    ended_with 0
}

@test "two runs that begin in the same second have a {run} of their own" {
    worker named <<'END'
#!/bin/sh
seq "$1" $(($1 + $2 - 1)) >"$3"
END
    run_named() {
        map --items 4 -g cpu:2 "$@" --collect 'x_{run}_{shard}.txt' -- ./named {start} {count} x_{run}_{shard}.txt
        ended_with 0
    }
    for ahead in 0 1 2 3 4 5; do mkdir -p "muster-runs/$(date -d "+$ahead seconds" +%Y%m%d_%H%M%S)-map"; done
    run_named -o 'all_{run}.txt'
    stamp=$(basename "$(realpath muster-runs/latest)")
    [ "${stamp#*-map}" = -2 ]
    stamp=${stamp%-map-2}-2
    [ "$(cat "all_$stamp.txt" | tr '\n' ' ')" = "0 1 2 3 " ]
    [ -s "x_${stamp}_0.txt" ]
    rm x_*
    run_named -o a.txt --run-dir a &
    run_named -o b.txt --run-dir b
    wait
    [ "$(ls x_*_0.txt | sed 's/.*-//' | sort -u | wc -l)" = 2 ]
}

# seeds SHARD FOLDER: an array, and metadata with a seed of its own.
seeds() {
    pyworker seeds.py <<'END'
import os, struct, sys
k, folder = int(sys.argv[1]), sys.argv[2]
os.makedirs(folder, exist_ok=True)
head = b"{'descr': '<i8', 'fortran_order': False, 'shape': (1,)}"
head += b" " * (-(len(head) + 11) % 64) + b"\n"
with open(folder + "/a.npy", "wb") as out:
    out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + struct.pack("<q", k))
with open(folder + "/m.json", "w") as out:
    out.write('{"num_items": 1, "seed": %d}' % (k + 7))
END
}

@test "rules are about all outputs together, metadata among them" {
    seeds
    local run='--items 3 --shards 3 -g cpu:2 -f --collect d{shard}/a.npy'
    # shellcheck disable=SC2086
    map $run --rule seed=first -o all.npy --also 'd{shard}/m.json=m.json' -- ./seeds.py {shard} d{shard}
    ended_with 0
    [ "$(tail -c 24 all.npy | od -An -td8 -v | tr -s ' \n' ' ')" = " 0 1 2 " ]
    [ "$(jq -c '[.seed, .num_items]' m.json)" = "[7,3]" ]
    # shellcheck disable=SC2086
    map $run --rule seed=first --rule no=sum -o all.npy --also 'd{shard}/m.json=n.json' -- ./seeds.py {shard} d{shard}
    says "the rule for 'no' fits nothing"
    [ ! -e n.json ]
    map --items 3 --shards 3 -g cpu:2 --rule seed=max --collect 'e{shard}/m.json' -o o.json -- ./seeds.py {shard} e{shard}
    ended_with 0
    [ "$(jq -c .seed o.json)" = 9 ]
    rm -r muster-runs
    refused "--rule is about files of tensors, and of one JSON object each (.json), and no output is one" \
        --items 3 --rule a=sum -o o.txt -- ./seeds.py {shard} {output}
}

@test "a rule for a count is heard when a shard's metadata are counted" {
    worker more_than_it_has <<'END'
#!/bin/sh
echo '{"num_questions": 3, "questions": [1]}' >"$1"
END
    map --items 6 --shards 2 -g cpu:2 -r 0 --rule num_questions=sum -o o.json -- ./more_than_it_has {output}
    ended_with 0
    [ "$(jq .num_questions o.json)" = 6 ]
}

@test "no output is in place where files of one name cannot go into one folder" {
    seeds
    map --items 2 --shards 2 -g cpu:2 -o outf/ --collect 'd{shard}/a.npy' --also 'd{shard}/m.json=m.json' -- ./seeds.py {shard} d{shard}
    ended_with 1
    says "have the same name, and cannot both be put into one folder"
    [ ! -e m.json ]
}

@test "no output is in place where a pipe's cannot be made" {
    seeds
    run --separate-stderr "$MUSTER" map -r 0 --items 2 --shards 2 -g cpu:2 -o - --collect 'd{shard}/m.json' --format-out json \
        --rule seed=same --also 'd{shard}/a.npy=a.npy' -- ./seeds.py {shard} d{shard}
    [ "$status" -ne 0 ]
    [ -z "$output" ]
    [ "$(grep -c "'seed' differs" <<<"$stderr")" -gt 0 ]
    [ ! -e a.npy ]
    run --separate-stderr "$MUSTER" map -r 0 --items 2 --shards 2 -g cpu:2 -o - --collect 'd{shard}/m.json' --format-out json \
        --rule seed=max --also 'd{shard}/a.npy=a.npy' -- ./seeds.py {shard} d{shard}
    [ "$(jq -c .seed <<<"$output")" = 8 ]
    [ -s a.npy ]
}

refused() {
    local words=$1
    shift
    map "$@"
    ended_with 2
    says "$words"
    [ ! -e muster-runs ]
}

@test "what cannot be is refused before anything is made" {
    ranger
    seq 4 >in.txt
    local run="-- ./ranger {start} {count} {output}"
    # shellcheck disable=SC2086
    {
        refused "unknown placeholder {strat} (did you mean {start}?" --items 4 -o o.txt -- ./ranger {strat} {count} {output}
        refused "unknown placeholder {sufix} (did you mean {suffix}?" --items 4 -o o.txt --collect 'x{sufix}' -- ./ranger {start} {count} x
        refused "let it write to {output}, or name its file by --collect" --items 4 -o o.txt -- ./ranger {start} {count} x
        refused "{count} makes this a shard command" in.txt -o o.txt -- "$PYTHON" -c 'import sys; [print(f"{count}") for count, _ in enumerate(sys.stdin)]'
        refused "(in a filter { count } with spaces stands for itself)" in.txt -o o.txt -- awk '{count}'
        refused "{output} and --collect both name the file" --items 4 -o o.txt --collect 'x{shard}' $run
        refused "--items 4 and the input in.txt: leave one out" --items 4 in.txt -o o.txt $run
        refused "--items: 0 is too small" --items 0 -o o.txt $run
        refused "--shards: 0 is not between 1 and" --items 4 --shards 0 -o o.txt $run
        refused "name a data file, or say --items N" -o o.txt $run
        refused "{input} needs a data file" --items 4 -o o.txt -- ./ranger {input} {output}
        refused "{batch} needs --batch N" --items 4 -o o.txt -- ./ranger {start} {batch} {output}
        refused "--items is for shard commands, but the command holds no {start}" --items 4 -o o.txt -- ./ranger
        refused "--collect is for shard commands" in.txt --collect 'x*' -o o.txt -- cat
        refused "-o out/ names a folder, which is for shard commands only" in.txt -o out/ -- cat
        refused "--collect names files of tensors, and they become one such file: o.jsonl needs the extension .pt" --items 4 -o o.jsonl --collect 'x{shard}.pt' -- ./ranger {start} {count} x
        refused "o.pt is a file of tensors, and --collect 'x{shard}.csv' names files of records" --items 4 -o o.pt --collect 'x{shard}.csv' -- ./ranger {start} {count} x
        refused "--union and --format-out are about records; o.pt is a file of tensors" --items 4 --union -o o.pt $run
        refused "--plain is about files of tensors (.pt), and no output is one" --items 4 --plain -o o.txt $run
        refused "'a=plus' is no rule" --items 4 --rule a=plus -o o.pt $run
        refused "--renumber changes the ids that --id names; give --id too" --items 4 --renumber -o o.pt $run
        refused "--renumber-path is about files of tensors (.pt), and no output is one" --items 4 --renumber-path a=b -o o.txt $run
    refused "--renumber-path is about the .pt file of -o, and o.txt is none" --items 4 --renumber-path a=b --also 'x{shard}.pt=y.pt' -o o.txt $run
    refused "--renumber-path 'a' is not PATH=REFERENCE" --items 4 --renumber-path a -o o.pt $run
    refused "--rule is for shard commands" in.txt --rule a=sum -o o.txt -- cat
        refused "--also is for shard commands" in.txt --also 'x*=y' -o o.txt -- cat
        refused "--also 'x{shard}' does not say where its files go; write GLOB=FILE" --items 4 --also 'x{shard}' -o o.txt $run
        refused "--also 'x{shard}=-': standard output (-) is not possible here; name a file" --items 4 --also 'x{shard}=-' -o o.txt $run
    refused "y/: two of --also are the same file" --items 4 --also 'x{shard}=y' --also 'z{shard}=y/' -o o.txt $run
        refused "o.jsonl.gz: the output is not packed; name it without .gz" in.txt -o o.jsonl.gz -- cat
        refused "y.json.zst: the output is not packed" --items 4 --also 'x{shard}=y.json.zst' -o o.txt $run
        refused "o_{shard}.txt: all shards become this one file, so {run} alone can stand in its name" --items 4 -o 'o_{shard}.txt' $run
        refused "--run-dir names another; say the output's name as well" --items 4 --run-dir d -o 'o_{run}.txt' $run
        refused "--also: .png files cannot be joined into one; GLOB=FOLDER/" --items 4 --also 'x{shard}.png=y.png' -o o.txt $run
        refused "o.txt: -o and --also are the same file" --items 4 --also 'x{shard}=o.txt' -o o.txt $run
        refused "--also: unknown placeholder {sufix} (did you mean {suffix}?" --items 4 --also 'x{sufix}=y.txt' -o o.txt $run
        refused "the output in.txt exists; --force replaces it" --items 4 --also 'x{shard}=in.txt' -o o.txt $run
        refused "the input in.txt is the output as well" in.txt -f --also 'x{shard}=in.txt' -o o.txt $run
        refused "o.jsonl.gz: the output is not packed" --items 4 -o o.jsonl.gz $run
        refused ".bz2 files cannot be joined into one" --items 4 -o o.txt --collect 'x{shard}.jsonl.bz2' -- ./ranger {start} {count} x
        refused ".npy files cannot be joined into one" --items 4 -o o.txt --collect 'x{shard}.NPY.gz' -- ./ranger {start} {count} x
        refused "--collect names files of tensors, and they become one such file: o.txt needs the extension .npy" --items 4 -o o.txt --collect 'x{shard}.npy' -- ./ranger {start} {count} x
        refused "o.pt needs the extension .npy" --items 4 -o o.pt --collect 'x{shard}.npy' -- ./ranger {start} {count} x
        refused "--id is about records and files of torch.save; o.npy is npy" --items 4 --id q -o o.npy $run
        refused "--plain is about files of tensors (.pt), and no output is one" --items 4 --plain -o o.npz $run
        refused ".parquet files cannot be joined into one; -o FOLDER/" --items 4 -o o.parquet $run
        refused "--join is not for shard commands" in.txt -j -o o.txt $run
        refused "--start-timeout is not for shard commands: --timeout is the limit for a whole shard" in.txt --start-timeout 1s -o o.txt $run
        refused "in.txt is a file, not a folder" --items 4 -o in.txt/ $run
    }
    map --items 4 -g cpu:2 -o o.txt --collect 'x_{run}.txt' -- ./ranger {start} {count} x
    ended_with 2
    says "names the same file for all 2 shards"
    map --items 4 -g cpu:2 -o o.txt --also 'x_{run}=y.txt' -- ./ranger {start} {count} {output}
    ended_with 2
    says "--also 'x_{run}' names the same file for all 2 shards"
    : >empty.txt
    map empty.txt -g cpu:2 -o o.txt -- ./ranger {start} {count} {output}
    ended_with 2
    says "the input holds no records"
    [ -z "$(ls muster-runs)" ]
}

@test "a filter's own braces, with spaces in them, are left alone" {
    seq 4 >in.txt
    map in.txt -g cpu:1 -o o.txt -- awk '{ count++ } { print count, "{ end }"; fflush() }'
    ended_with 0
    [ "$(tail -1 o.txt)" = "4 { end }" ]
    records 2 >in.jsonl
    map in.jsonl -g cpu:1 -o o.jsonl -- jq -c --unbuffered '.id as $input | { $input }'
    ended_with 0
    [ "$(cat o.jsonl)" = $'{"input":0}\n{"input":1}' ]
}

@test "none of the shards left its file: nothing is collected, and no output is made" {
    map --items 4 --shards 2 -t 200ms --grace 100ms -r 0 -g cpu:2 -o out.jsonl -- sleep 1000 {output}
    ended_with 1
    says "sleep: invalid" "is the command right?"
    map --fresh --items 4 --shards 2 -t 200ms --grace 100ms -r 0 -g cpu:2 -o out.jsonl -- sh -c 'sleep 1000' {output}
    ended_with 1
    says "nothing was collected: none of the 2 shards left its file" "--retry-failed"
    [ ! -e out.jsonl ]
    [ "$(jq .shard out.jsonl.failed.jsonl | sort | tr '\n' ' ')" = "0 1 " ]
}

@test "a folder that cannot be written to" {
    ranger
    [ "$(id -u)" != 0 ] || skip "root may write anywhere"
    mkdir locked
    chmod a-w locked
    map --items 4 -g cpu:2 -o locked/out.jsonl -- ./ranger {start} {count} {output}
    ended_with 2
    map --items 4 -g cpu:2 -o locked/out/ -- ./ranger {start} {count} {output}
    ended_with 2
    says "the output's folder locked"
}

@test "a file that its program's user cannot join: what is wrong is said, and nothing is lost" {
    worker odd <<'END'
#!/bin/sh
printf 'a,%s\n1,2\n' "$1" >"$2"
END
    map --items 2 --shards 2 -g cpu:1 -o out.csv -- ./odd {shard} {output}
    ended_with 65
    says "map: the results are not merged: " "shard_1.csv lacks '0'" "every shard's file is safe; muster resume"
    [ ! -e out.csv ]
    [ -f "$(run_dir)/shard-output/shard_1.csv" ]
    map --items 2 --shards 2 -g cpu:1 --fresh -o out.csv --union -- ./odd {shard} {output}
    ended_with 0
    [ "$(cat out.csv)" = $'a,0,1\n1,2,\n1,,2' ]
}

@test "--id: the records of all shards have it, each once" {
    worker ids <<'END'
#!/bin/sh
echo "{\"id\":$1}" >"$2"
END
    map --items 2 --shards 2 -g cpu:1 -o out.jsonl --id id -- ./ids 0 {output} {shard}
    ended_with 65
    says "map: the results are not merged: " "id"
    map --fresh --items 2 --shards 2 -g cpu:1 -o out.jsonl --id id -- ./ids {shard} {output}
    ended_with 0
}

@test "what a muster killed at its end left of the shards' files goes with the next look" {
    seq 10 >items.txt
    "$MUSTER" map -q -g cpu:2 --run-dir run items.txt -o out.txt -- cp {input} {output}
    mkdir -p run/shard-input run/shard-output
    echo half >run/shard-output/0.txt
    run "$MUSTER" resume run
    [ "$status" -eq 0 ]
    [[ $output == *"is complete"* ]]
    [ ! -e run/shard-input ]
    [ ! -e run/shard-output ]
    cmp items.txt out.txt
}
