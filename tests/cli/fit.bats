#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The batch size that fills a device. On a simulated device the memory of the command's process stands for the device's.
load helpers

# ./train BATCH FIXED ITEM LIMIT: holds FIXED + ITEM * BATCH MiB, ends as torch does if that is more than LIMIT, and prints a
# rate that approaches 1000. Each start is a line of `starts`.
setup() {
    common_setup
    unset MUSTER_CACHE_DIR
    pyworker train <<'END'
import os, sys
batch, fixed, item, limit = map(int, sys.argv[1:])
with open("starts", "a") as starts:
    print(batch, os.environ["MUSTER_BATCH"], file=starts)
if fixed + item * batch > limit:
    sys.exit("Traceback (most recent call last):\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB")
held = b"x" * ((fixed + item * batch) << 20)
print("loss: 0.3")
print(f"epoch 1: {1000 * batch / (batch + 16)} samples/s", file=sys.stderr)
END
}

fit() { run --separate-stderr limited "$MUSTER" fit "$@"; }
RATE='epoch 1: ([0-9.]+) samples/s'
# json KEY: a member of the last line.
json() { tail -1 <<<"$output" | "$PYTHON" -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }
best_size() { sed -n 's/^best batch size: \([0-9]*\) .*/\1/p' <<<"$output"; }
n_starts() { wc -l <starts; }

@test "memory bounds the batch: the line through the peaks is followed, and the best size is told with its margin" {
    fit -g sim:1xFake:400MiB --margin 20MiB --rate-pattern "$RATE" -- ./train {batch} 20 4 10000
    ended_with 0
    says "gpu_0 (Fake): 400 MiB, of which others use 0 B and 20.0 MiB are left free: at most 380 MiB" \
        "OUTCOME" "+ 4.0 MiB an item of the batch" "a larger batch does not fit"
    says_not "out of device memory"
    # 380 MiB less 20 and what python itself takes, by 4; sizes that differ by a 16th are the same.
    [ "$(best_size)" -ge 76 ] && [ "$(best_size)" -le 90 ]
    [[ $stderr == *"muster: batch 64: ok, peak "* ]]
    # The words and the variable agree.
    [ -z "$(awk '$1 != $2' starts)" ]
}

@test "out of memory is an answer, at any size" {
    fit -q -g sim:1xFake:64GiB -- ./train {batch} 1 1 41
    ended_with 0
    [ -z "$stderr" ]
    says "out of device memory" "a larger batch does not fit"
    [ "$(best_size)" -ge 38 ] && [ "$(best_size)" -le 40 ]
    fit -q -g sim:1xFake:64GiB --start 32 -- ./train {batch} 1 1 3
    ended_with 0
    says "best batch size: 2 "
    fit -q -g sim:1xFake:64GiB --start 32 -- ./train {batch} 1 1 0
    ended_with 1
    says "no batch size fits" "       1 "
    fit --list
    says_not "1 1 0"
}

@test "a command that ignores the size has no best one, unless somebody names the largest" {
    # Long beside what a busy machine adds to it: twice as long would be half as fast.
    worker same <<'END'
#!/bin/sh
sleep 0.05
END
    fit -q -g sim:1xFake:64GiB --steps 1 -- ./same {batch}
    ended_with 1
    says "does the command use {batch}, or MUSTER_BATCH?" "no best batch size: nothing that was measured changes with it"
    says_not "best batch size: 65536"
    fit -q -g sim:1xFake:64GiB --json -- ./same {batch}
    ended_with 1
    [ "$(json best)" = 0 ] && [ "$(json bound)" = unknown ]
    fit --list
    says_not "./same"
    fit -q -g sim:1xFake:64GiB --max 64 -- ./same {batch}
    ended_with 0
    says "best batch size: 64 "
    fit -q -g sim:1xFake:64GiB --max 65536 -- ./same {batch} # the same number as if nothing is said
    ended_with 0
    says "best batch size: 65536 "
    fit -q -g sim:1xFake:64GiB --start 70000 -- ./same {batch}
    ended_with 2
    [[ $stderr == *"--start 70000 is above --max 65536, the largest one if nothing is said"* ]]
}

@test "of sizes that are equally fast the smallest is best, and multiples are kept" {
    fit -g sim:1xFake:64GiB --multiple-of 8 --rate-pattern "$RATE" --json -- ./train {batch} 1 0 10000
    ended_with 0
    [ -z "$stderr" ]
    # 512 is 97 %, 2048 99 % of 1000: two doublings gain too little, and are run twice to be sure.
    [ "$(json best)" = 512 ]
    [ "$(json bound)" = rate ]
    [ "$(json remembered)" = False ]
    [ "$(json device)" = Fake ]
    [ -z "$(awk '$1 % 8' starts)" ]
    [ "$(grep -c '^1024 ' starts)" = 2 ] && [ "$(grep -c '^2048 ' starts)" = 2 ]
    [ "$(grep -c '^4096 ' starts)" = 0 ]
    "$PYTHON" -c 'import json, sys
rows = [json.loads(line) for line in sys.stdin][:-1]
assert [row["trial"] for row in rows] == list(range(1, len(rows) + 1))
assert all(row["outcome"] == "ok" and row["fits"] and row["peak_bytes"] > 0 and row["rate"] > 0 for row in rows)' <<<"$output"
}

@test "a command that fails at the first size is shown, and one that fails later is bounded" {
    worker fails <<'END'
#!/bin/sh
[ "$1" -lt "$2" ] && exit
seq 30
echo "bad size $1" >&2
exit 3
END
    fit -g sim:1xFake:1GiB -- ./fails {batch} 1
    ended_with 1
    [[ $stderr == *"muster: | bad size 1"* ]]
    [[ $stderr == *"the command fails at batch 1, the first size (status 3: bad size 1)"* ]]
    says_not "best batch size"
    fit -q -g sim:1xFake:1GiB -- ./fails {batch} 20
    ended_with 0
    says "status 3: bad size 32" "best batch size: 19 " "the command fails with a larger batch"
    worker guardless <<'END'
#!/bin/sh
[ "$1" -lt 2 ] && exit
kill -KILL $PPID
sleep 1000
END
    fit -q -g sim:1xFake:1GiB -- ./guardless {batch}
    ended_with 0
    says "SIGKILL" "best batch size: 1 "
    fit -g sim:1xFake:1GiB -- ./nosuch {batch}
    ended_with 69
    [[ $stderr == *"./nosuch is not there"* ]]
    fit -q -g sim:1xFake:1GiB --rate-pattern 'speed ([0-9]+)' -- ./fails {batch} 20
    ended_with 1
    [[ $stderr == *"nothing that the command printed matches --rate-pattern 'speed ([0-9]+)'"* ]]
}

@test "a run that takes too long bounds the size, and one that does not end is measured by what it prints" {
    worker slow <<'END'
#!/bin/sh
[ "$1" -lt 4 ] || exec sleep 1000
END
    fit -q -g sim:1xFake:1GiB --trial-limit 2s -- ./slow {batch}
    ended_with 0
    says "not done after 2.0 s" "best batch size: 2 " "a larger batch takes longer than --trial-limit"
    fit -q -g sim:1xFake:1GiB --trial-limit 500ms --start 4 -- ./slow {batch}
    ended_with 1
    [[ $stderr == *"not done after 500 ms at batch 4, the first size"* ]]
    worker endless <<'END'
#!/bin/sh
printf 'step 1, %s it/s\rstep 2, %s it/s\r' 1 $((100 * $1))
exec sleep 1000
END
    fit -q -g sim:1xFake:1GiB --trial-limit 2s --max 2 --repeat 1 --rate-pattern '([0-9.]+) it/s' --json -- ./endless {batch}
    ended_with 0
    [ "$(json best)" = 2 ]
    [ "$(json rate)" = 200.0 ]
    fit -q -g sim:1xFake:1GiB --time-limit 300ms -- ./slow 4
    ended_with 124
    wait_for nobody_is_left
}

@test "what was found is remembered for the command, its program and the device" {
    local asked=(-q -g sim:1xFake:1GiB --max 4 --rate-pattern "$RATE" -- ./train {batch} 1 1 100)
    fit "${asked[@]}"
    ended_with 0
    n=$(n_starts)
    fit "${asked[@]}"
    ended_with 0
    [[ $output == "best batch size: 4 (peak "*", 200 items/s), as measured on Fake at 20"* ]]
    [ "$(n_starts)" = "$n" ]
    fit "${asked[@]:0:3}" --json "${asked[@]:3}"
    [ "$(json remembered)" = True ] && [ "$(json best)" = 4 ]
    [ "$(n_starts)" = "$n" ]
    for other in "--multiple-of 2" "--margin 10%" "--fresh" "--env A=b"; do
        # shellcheck disable=SC2086
        fit "${asked[@]:0:3}" $other "${asked[@]:3}"
        ended_with 0
        [ "$(n_starts)" -gt "$n" ]
        n=$(n_starts)
    done
    fit -q -g sim:1xFake:2GiB "${asked[@]:3}"
    [ "$(n_starts)" -gt "$n" ]
    n=$(n_starts)
    echo "# changed" >>train
    fit "${asked[@]}"
    [ "$(n_starts)" -gt "$n" ]
    fit --list
    ended_with 0
    [ "${#lines[@]}" = 6 ]
    [[ ${lines[0]} == *"4  20"*"Fake, 1.0 GiB  ./train '{batch}' 1 1 100" ]]
    fit --forget -- ./train {batch} 1 1 100
    [[ $stderr == "muster: forgot 5 results" ]] # that of --env is of another command
    fit --forget
    [[ $stderr == "muster: forgot 1 result" ]]
    fit --list
    [ -z "$output" ]
    MUSTER_CACHE_DIR=elsewhere fit "${asked[@]}"
    test -s elsewhere/fit.json
}

@test "a memory that is damaged, foreign or no file is left out of account with a sentence" {
    local asked=(-q -g sim:1xFake:1GiB --max 2 -- ./train {batch} 1 1 100) file=cache/muster/fit.json n
    for content in '{' '[]' '{"version":2,"fits":[]}' '{"version":1,"fits":[{"batch":7}]}' '{"version":1,"fits":[7]}' ''; do
        mkdir -p cache/muster
        printf '%s' "$content" >$file
        n=$(n_starts 2>/dev/null || echo 0)
        fit "${asked[@]}"
        ended_with 0
        says "best batch size: 2 "
        [[ $stderr == *"what muster fit remembers is not used: "*"fit.json is damaged"* ]]
        [ "$(n_starts)" -gt "$n" ]
        fit "${asked[@]}"
        [[ $output == *"as measured on"* ]]
        [ -z "$stderr" ]
    done
    rm -r cache/muster && mkdir cache/muster && mkfifo $file
    fit "${asked[@]}"
    ended_with 0
    says "best batch size: 2 "
    [[ $stderr == *"regular file"* ]]
    rm -f $file
    echo precious >mine
    ln -s "$PWD/mine" $file
    fit "${asked[@]}"
    ended_with 0
    [ "$(cat mine)" = precious ]
    rm -f $file
    fit "${asked[@]}"
    chmod 666 $file
    fit "${asked[@]}"
    ended_with 0
    says_not "as measured on"
    rm -r cache/muster
    touch cache/muster
    fit "${asked[@]}"
    ended_with 0
    [[ $stderr == *"the result is not remembered: "* ]]
}

@test "searches at once all remember what they found" {
    local pids=() i
    for i in 1 2 3 4; do
        "$MUSTER" fit -q -g sim:1xFake:1GiB --max 2 -- ./train {batch} 1 1 10$i >out.$i 2>&1 3>&- 4>&- &
        pids+=($!)
    done
    wait "${pids[@]}"
    fit --list
    [ "${#lines[@]}" = 4 ]
}

is_searching() { [ "$(wc -l 2>/dev/null <starts)" -ge 2 ]; }
search_begin() {
    worker holds <<'END'
#!/bin/sh
echo "$1" >>starts
[ "$1" -lt 2 ] || { sleep 1000 & sleep 1000; }
END
    export MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=1 MUSTER_SYSFS=/nowhere
    "$MUSTER" fit -g 0 -- ./holds {batch} >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for is_searching
}

@test "a signal ends the search, and nothing is remembered" {
    search_begin
    kill -TERM "$PID"
    map_end
    ended_with 143
    wait_for nobody_is_left
    says "       1 " # what was measured is printed
    says_not "best batch size"
    fit --list
    [ -z "$output" ]
}

@test "kill -9 in the middle of a search leaves nobody, and the device is free again" {
    search_begin
    fit -g 0 -- true
    ended_with 69
    [[ $stderr == *"gpu 0 is taken by pid $PID"* ]]
    kill -KILL "$PID"
    wait "$PID" || true
    wait_for nobody_is_left
    fit -q -g 0 --max 1 -- ./holds {batch}
    ended_with 0
    says "best batch size: 1 "
}

@test "on a GPU the device's own memory counts, less what others use, and a run waits until it is free again" {
    worker fills <<'END'
#!/bin/sh
[ "$(cat memory)" = 10 ] || echo "begins with $(cat memory) GiB" >>wrong
(flock 9; touch busy; echo $((10 + 5 + $1 * 8)) >new; mv new memory) 9>lock
sleep 2
rm busy
END
    # Drivers free memory a while after the end.
    worker frees <<'END'
#!/bin/sh
while [ ! -e end ]; do
    sleep 0.5
    (flock 9; [ -e busy ] || { echo 10 >new; mv new memory; }) 9>lock
done
END
    echo 10 >memory
    export MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=2,memfile=1:$PWD/memory MUSTER_SYSFS=/nowhere
    ./frees 3>&- 4>&- &
    PID=$!
    fit -g 1 --margin 100GiB --json -- ./fills {batch}
    touch end
    wait "$PID"
    ended_with 0
    # 141 GiB, less 10 and 100: 31 GiB have room for 3 of 8 GiB, beside 5.
    [ "$(json best)" = 3 ]
    [ "$(json limit_bytes)" = $((31 << 30)) ]
    [ "$(json peak_bytes)" = $((29 << 30)) ]
    [ "$(json fixed_bytes)" = $((5 << 30)).0 ]
    [ "$(json item_bytes)" = $((8 << 30)).0 ]
    [ ! -e wrong ]
}

@test "a device that is lost ends the search" {
    worker loses <<'END'
#!/bin/sh
touch lost
exec sleep 1000
END
    export MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=1,lostfile=0:$PWD/lost MUSTER_SYSFS=/nowhere
    fit -g 0 -- ./loses {batch}
    ended_with 69
    [[ $stderr == *"gpu 0 was lost"* ]]
}

@test "of several devices one is taken, and only that" {
    export MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=4 MUSTER_SYSFS=/nowhere
    worker sees <<'END'
#!/bin/sh
echo "$CUDA_VISIBLE_DEVICES $1 $2" >>seen
END
    for spec in "" "-g any:3" "-g free" "-g 2,3" "-g all"; do
        # shellcheck disable=SC2086
        fit -q $spec --max 1 --fresh -- ./sees {gpu} {{gpu}}
        ended_with 0
    done
    [ "$(tr '\n' ';' <seen)" = "0 0 {gpu};0 0 {gpu};0 0 {gpu};2 2 {gpu};0 0 {gpu};" ]
    fit -g none -- ./sees
    ended_with 2
}

@test "each run gets the file of --stdin from its beginning" {
    seq 30000 >numbers
    worker sums <<'END'
#!/bin/sh
[ "$(md5sum)" = "$(md5sum <numbers)" ] || exit 9
END
    fit -q -g cpu:2 --max 4 --items 30000 --stdin numbers -- ./sums
    ended_with 0
    fit -q -g cpu:2 --max 4 --items 30000 --stdin numbers -- true # it need not be read
    ended_with 0
    mkfifo pipe
    fit -g cpu:2 --stdin pipe -- ./sums
    ended_with 2
    [[ $stderr == *"it must be a file"* ]]
    fit -g cpu:2 --stdin nosuch -- ./sums
    ended_with 2
}

@test "wrong usage is refused before anything runs" {
    refused() {
        fit "${@:2}"
        ended_with 2
        [[ $stderr == *"$1"* ]] || { echo "$stderr"; return 1; }
    }
    refused "no command" -g cpu:1
    refused "unexpected 'file'" -g cpu:1 file -- ./train {batch} 1 1 1
    refused "give one" --items 3 --steps 4 -- ./train {batch} 1 1 1
    refused "--start 9 is above --max 8" --start 9 --max 8 -- ./train {batch} 1 1 1
    refused "no multiple of 16 is at most --max 8" --multiple-of 16 --max 8 -- ./train {batch} 1 1 1
    refused "--rate-pattern '(': " --rate-pattern '(' -- ./train {batch} 1 1 1
    refused "did you mean {batch}" -- ./train {bacth} 1 1 1
    refused "{batch}, {gpu} and {gpu_uuid} only" -- ./train {batch} {start}
    refused "--margin" --margin 200% -- ./train {batch} 1 1 1
    refused "leaves nothing" -g sim:1xFake:1GiB --margin 1GiB -- ./train {batch} 1 1 1
    refused "expected inference or training, found 'fun'" --estimate x --for fun
    refused "give one of --estimate, --list and --forget" --list --forget
    refused "runs no command" --estimate x -- ./train
    for option in "--batch 8" "--context 10" "--for training" "--optimizer sgd" "--recompute full" "--device-memory 1GiB"; do
        # shellcheck disable=SC2086
        refused "${option% *} is for --estimate, which is not given" -g cpu:1 $option -- ./train {batch} 1 1 1
    done
    [ ! -e starts ]
    fit -g sim:1xFake:1GiB --multiple-of 8 --dry-run -- ./train {batch} 1 1 1
    ended_with 0
    says "./train 8 1 1 1"
    MUSTER_BATCH=8 fit -g sim:1xFake:1GiB --dry-run -- ./train {batch} 1 1 1 # as in a job of a graph
    ended_with 0
    [ ! -e starts ]
}

@test "muster map takes what is remembered" {
    worker answers <<'END'
#!/bin/sh
while read -r n; do echo "$n $MUSTER_BATCH"; done
END
    seq 12 >in.txt
    map -g cpu:2 --batch auto in.txt -o out.txt -- ./answers
    ended_with 2
    says "--batch auto: no batch size is remembered for this command on a device such as "
    fit -q -g cpu:2 --start 3 --max 3 --stdin in.txt -- ./answers
    ended_with 0
    map -g cpu:2 --batch auto in.txt -o out.txt -- ./answers
    ended_with 0
    [ "$(sed -n '1p;12p' out.txt | tr '\n' ';')" = "1 3;12 3;" ]
    grep -q -- '"--batch=3"' muster-runs/latest/manifest.json
    map -g cpu:2 --batch many in.txt -o other.txt -- ./answers
    ended_with 2
}

@test "a shard command has its batch size from fit as well" {
    worker part <<'END'
#!/bin/sh
echo "$1 of $2" >"$2"
END
    fit -q -g cpu:2 --start 3 --max 3 -- ./part {batch} {{output}}
    ended_with 0
    [ "$(cat '{output}')" = '3 of {output}' ]
    map -g cpu:2 --items 2 --shards 2 --batch auto -o out.txt -- ./part {batch} {output}
    ended_with 0
    [ "$(cut -d' ' -f1 out.txt | tr '\n' ' ')" = "3 3 " ]
}

# model FOLDER: Llama 3 8B in two files of holes, with the headers that the real ones have.
model() {
    "$PYTHON" - "$1" <<'END'
import json, os, struct, sys
layers, hidden, kv, vocab, inner = 32, 4096, 1024, 128256, 14336
tensors = {"model.embed_tokens.weight": [vocab, hidden], "model.norm.weight": [hidden], "lm_head.weight": [vocab, hidden]}
for i in range(layers):
    shapes = {"q": [hidden, hidden], "k": [kv, hidden], "v": [kv, hidden], "o": [hidden, hidden], "gate": [inner, hidden],
              "up": [inner, hidden], "down": [hidden, inner], "norm": [hidden], "norm2": [hidden]}
    tensors.update({f"model.layers.{i}.{name}.weight": shape for name, shape in shapes.items()})
folder = sys.argv[1]
os.mkdir(folder)
names, where = list(tensors), {}
for number, part in enumerate((names[:150], names[150:]), 1):
    file, head, at = f"model-0000{number}-of-00002.safetensors", {}, 0
    for name in part:
        size = 2
        for side in tensors[name]:
            size *= side
        head[name] = {"dtype": "BF16", "shape": tensors[name], "data_offsets": [at, at + size]}
        at, where[name] = at + size, file
    text = json.dumps(head).encode()
    with open(f"{folder}/{file}", "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        out.truncate(8 + len(text) + at)
json.dump({"metadata": {"total_size": 0}, "weight_map": where}, open(f"{folder}/model.safetensors.index.json", "w"))
json.dump({"model_type": "llama", "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": 32,
           "num_key_value_heads": 8, "vocab_size": vocab, "intermediate_size": inner, "max_position_embeddings": 8192,
           "torch_dtype": "bfloat16"}, open(f"{folder}/config.json", "w"))
END
}

@test "an estimate has the numbers that the headers give, and says where the model fits" {
    model llama
    fit --estimate llama --context 8192 --batch 4 -g sim:2xH100:80GiB --device-memory 20GiB
    ended_with 0
    says "llama: 8,030,261,248 parameters in 291 tensors of 2 files" "weights, BF16                14.958 GiB" \
        "KV cache                      4.000 GiB  128 KiB a token * 8192 tokens * 4 sequences" \
        "total                        18.958 GiB  for inference" "gpu 1 (H100): fits 80.0 GiB (23.7 %; 4.0 GiB are left free)" \
        "a device with so much memory: fits 20.0 GiB (94.8 %; 1.0 GiB are left free)"
    fit --estimate llama --context 8192 --batch 4 --device-memory 19.5GiB
    says "a device with so much memory: does not fit 19.5 GiB (97.2 %; "
    fit --estimate llama --for training --json
    ended_with 0
    # 34 s b h for 32 layers, and 5 s b h + 4 s b v once, with s = 4096, b = 1, h = 4096, v = 128256.
    says '{"part":"weights","dtype":"BF16","parameters":8030261248,"bytes":16060522496}' \
        '{"part":"gradients","bytes":16060522496}' '{"part":"optimizer","bytes":96363134976}' \
        '{"part":"activations","bytes":20438843392}'
    fit --estimate llama --for training --recompute none --optimizer none --json
    says '{"part":"optimizer","bytes":0}' "{\"part\":\"activations\",\"bytes\":$((20438843392 + 5 * 32 * 4096 * 4096 * 32))}"
    sed -i 's/"llama"/"mistral", "sliding_window": 4096/' llama/config.json
    fit --estimate llama --context 8192 --batch 4
    says "KV cache                      2.000 GiB  128 KiB a token * 8192 tokens * 4 sequences; 32 of 32 layers keep the last 4096 tokens"
    fit --estimate llama --context 4096 --batch 4 --json
    says '{"part":"cache","bytes":2147483648,"bytes_per_token":131072,"window":4096,"window_layers":32}'
    rm llama/config.json
    fit --estimate llama
    ended_with 0
    says "the KV cache is not counted: config.json is not beside the weights"
}

@test "hostile headers are refused with the name of the file" {
    refused() {
        fit --estimate "$2"
        ended_with "$1"
        [[ $stderr == *"$3"* ]] || { echo "$stderr"; return 1; }
    }
    refused 2 nosuch "there is no such file"
    mkdir m
    refused 2 m "it has no model.safetensors, no pytorch_model.bin"
    mkfifo m/model.safetensors
    refused 65 m "no regular file"
    rm m/model.safetensors
    printf 'version https://git-lfs.github.com/spec/v1\n' >m/model.safetensors
    refused 65 m "m/model.safetensors: a header of "
    printf '\377\377\377\377\377\377\377\377{}' >m/model.safetensors
    refused 65 m "a header of 18446744073709551615 bytes"
    printf '\2\0\0\0\0\0\0\0{}' >m/model.safetensors
    fit --estimate m
    ended_with 0
    says "0 parameters in 0 tensors of 1 file"
    head='{"a":{"dtype":"B‮16","shape":[1],"data_offsets":[0,2]}}'
    "$PYTHON" -c 'import struct, sys; text = sys.argv[1].encode(); sys.stdout.buffer.write(struct.pack("<Q", len(text)) + text + b"12")' \
        "$(printf '%b' "$head")" >m/model.safetensors
    fit --estimate m
    ended_with 0
    says 'weights, B\u202e16' "1 parameter in 1 tensor of 1 file"
    for config in '[' '[]' '{"hidden_size":-1}' '{"hidden_size":1e99}' '{"hidden_size":"x"}' '{"num_hidden_layers":99999999999999}'; do
        printf '%s' "$config" >m/config.json
        refused 65 m "m/config.json: "
    done
    echo '{"num_hidden_layers":1000000000,"num_key_value_heads":1000000000,"head_dim":1000000000}' >m/config.json
    refused 65 m "more bytes than 64 bits can count"
    rm m/config.json
    for name in ../model.safetensors /etc/passwd .hidden 'a/b' '' 'a\u0000b'; do
        printf '{"weight_map":{"a":"%s"}}' "$name" >m/model.safetensors.index.json
        refused 65 m "it names a file outside of its folder"
    done
    echo '{"weight_map":{"a":7}}' >m/model.safetensors.index.json
    refused 65 m "it names a file outside"
    echo '{"weight_map":{"a":"lost.safetensors"}}' >m/model.safetensors.index.json
    refused 2 m "m/lost.safetensors"
    echo '{"weight_map":[]}' >m/model.safetensors.index.json
    refused 65 m "no weight_map"
}
