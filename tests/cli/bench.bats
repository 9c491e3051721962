#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Which variant is faster: rounds in turn, speed-ups, and what may not be compared.
load helpers

# ./amdahl N: a tenth of a second that cannot be shared, then twelve items of 50 ms over N. Each start is a line of `starts`.
setup() {
    common_setup
    export TMPDIR=$BATS_TEST_TMPDIR/tmp
    mkdir tmp
    worker amdahl <<'END'
#!/bin/sh
echo "$1 ${MUSTER_BATCH:-}" >>starts
sleep 0.1
echo ready
for i in $(seq $((12 / $1))); do sleep 0.05; done
echo "did 12 items"
END
    # ./loads: a filter that loads for 0.2 s, then takes 20 ms an item.
    pyworker loads <<'END'
import os, sys, time
if int(os.environ.get("MUSTER_BATCH", 1)) > 4:
    sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB")
time.sleep(0.2)
for line in sys.stdin:
    time.sleep(0.02)
    sys.stdout.write(line)
    sys.stdout.flush()
END
}

teardown() {
    common_teardown
}

bench() { run --separate-stderr limited "$MUSTER" bench "$@"; }
# figure FILTER: of all objects, as a list.
figure() { jq -cs "$1" <<<"$output"; }
nothing_is_left_in_tmp() { [ -z "$(ls tmp)" ]; }

@test "speed-ups of a known program, with and without loading" {
    bench -q -g cpu:4 --devices 1,2,4 --rounds 4 --full --items 12 --ready-pattern '^ready' --json -- ./amdahl {devices}
    ended_with 0
    [ -z "$stderr" ]
    # 0.7, 0.4 and 0.25 s as a whole; 0.6, 0.3 and 0.15 s when loaded. A busy machine adds to all of them.
    [ "$(figure 'map(select(.devices)) | map(.loaded_speedup.median) |
        .[0] == 1 and .[1] > 1.6 and .[1] < 2.4 and .[2] > 3 and .[2] < 5')" = true ]
    [ "$(figure 'map(select(.devices)) | map(.speedup.median) | .[1] > 1.4 and .[1] < 2 and .[2] > 2 and .[2] < 3.2')" = true ]
    [ "$(figure 'map(select(.devices)) | all(.efficiency > 0.75 and .efficiency < 1.25 and .loading_s.median >= 0.1 and
        .items == 12 and .seconds.runs == 4 and .peak_bytes > 0 and .joules_per_item == null)')" = true ]
    # In turn: each round has every row once, and the second is the first backwards.
    [ "$(figure 'map(select(.run)) | map(.row) | .[0:6]')" = "[1,2,3,3,2,1]" ]
    [ "$(figure 'map(select(.run)) | map(.row) | [.[6:9], (.[9:12] | reverse)] | .[0] == .[1]')" = true ]
    [ "$(figure '.[-1] | [.rounds, .ended, .deciding, .best, .unit]')" = '[4,"rounds","loaded",3,"items"]' ]
    nothing_is_left_in_tmp
}

@test "a worker of muster map is measured on every number of devices" {
    seq 60 >in.txt
    bench -q -g cpu:2 -i in.txt -n 40 --devices 1,2 --rounds 3 --full --json -- ./loads
    ended_with 0
    [ "$(figure 'map(select(.devices)) | map([.method, .items, .outcome])')" = '[["map",40,"ok"],["map",40,"ok"]]' ]
    [ "$(figure 'map(select(.devices)) | .[1].loaded_speedup.median | . > 1.3 and . < 2.7')" = true ]
    [ "$(figure 'map(select(.devices)) | all(.loading_s.median > 0.2 and .loaded_items_per_s.median > .items_per_s.median)')" = true ]
    [ ! -e muster-runs ]
    nothing_is_left_in_tmp
}

@test "a channel worker is loaded when it asks for items, or says so" {
    seq 24 >in.txt
    pyworker asks <<'END'
import os, sys, time
import muster
if os.environ.get("LATE"):
    items = muster.items()
    first = next(items)
    time.sleep(0.4)
    muster.loaded()
    first.done(1)
    for item in items:
        time.sleep(0.005)
        item.done(1)
else:
    time.sleep(0.4)
    for batch in muster.batches():
        time.sleep(0.1)
        for item in batch: item.done(1)
END
    # Three batches of 0.1 s: at most 80 items a second, though two follow the first result.
    bench -q -g cpu:1 -i in.txt --batch 8 --rounds 1 --json -- ./asks
    ended_with 0
    [ "$(figure 'map(select(.devices))[0] | .loading_s.median >= 0.4 and .loaded_items_per_s.median < 85 and .loaded_items_per_s.median > 2')" = true ]
    bench -q -g cpu:1 -i in.txt --rounds 1 --env LATE=1 --json -- ./asks
    ended_with 0
    [ "$(figure 'map(select(.devices))[0] | .loading_s.median >= 0.4')" = true ]
}

@test "a muster map in a method has the devices of its row, and tells the same" {
    seq 20 >in.txt
    bench -q -g sim:4xFake:1GiB --devices 1,4 --rounds 1 --json --items 20 \
        --method "map=$MUSTER map in.txt -o {output} -- sh -c 'echo \$MUSTER_DEVICE_INDEX >>devices; sleep 0.5; exec cat'"
    ended_with 0
    [ "$(sort -u devices | tr '\n' ' ')" = "0 1 2 3 " ]
    [ "$(wc -l <devices)" -ge 5 ]
    [ "$(figure 'map(select(.devices)) | map(.items)')" = "[20,20]" ]
    # 75 W for each device, as simulated ones have. A run that is over before the first sample has no energy.
    [ "$(figure 'map(select(.devices)) | map(.joules_per_item.median * 20 / .seconds.median / .devices | . > 70 and . < 80)')" = "[true,true]" ]
}

@test "on GPUs a run sees its own, and a muster in it takes them though they are locked" {
    seq 20 >in.txt
    export MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=4 MUSTER_SYSFS=/nowhere
    bench -q --devices 1,2 --rounds 1 --items 20 --json --method 'sees=echo $CUDA_VISIBLE_DEVICES {gpu} {devices} >>seen' \
        --method "map=$MUSTER map -q in.txt -o {output} -- sh -c 'echo \$CUDA_VISIBLE_DEVICES >>devices; exec cat'"
    ended_with 0
    [ "$(sort seen | tr '\n' ' ')" = "0 0 1 0,1 0,1 2 " ]
    [ "$(sort -u devices | tr '\n' ' ')" = "0 1 " ]
    bench -q -g 3,1 --devices 2 --rounds 1 --full -- sh -c 'echo $CUDA_VISIBLE_DEVICES >seen'
    ended_with 0
    [ "$(cat seen)" = "3,1" ]
    bench -q -g 0 --devices 2 -- true
    ended_with 69
    bench -q --devices 8 -- true
    ended_with 69
    [[ $stderr == *"8"* ]]
}

@test "it ends when the differences are clear, and says which is fastest" {
    bench --rounds 20 -g cpu:1 --method 'slow=sleep 0.4' --method 'fast=sleep 0.1'
    ended_with 0
    says "METHOD" "SPEED-UP" "fastest: fast, 1 device, "
    says_not "ITEMS/S" "LOADED" "BATCH" "not certain"
    [ "$(sed -n 's/^1 x .*; \([0-9]*\) rounds in turn.*/\1/p' <<<"$output")" -lt 20 ]
    [[ $stderr == *"muster: slow, 1 device: "*" runs/s, "* ]]
}

@test "the guide's table: methods with numbers of devices of their own, as Markdown and as a picture" {
    bench -q -g cpu:4 --rounds 1 --devices 4 --markdown --plot rates.svg --items-pattern 'did ([0-9]+)' \
        --method 'sequential@1=./amdahl 1' --method 'a & <b>|c=./amdahl {devices}'
    ended_with 0
    says "| METHOD | DEVICES | SECONDS | ITEMS/S | SPEED-UP |" "| sequential | 1 | " '| a & <b>\|c | 4 | '
    "$PYTHON" -c 'import sys, xml.dom.minidom as x
bars = [r for r in x.parse(sys.argv[1]).getElementsByTagName("rect") if r.getAttribute("class") == "bar"]
assert len(bars) == 2 and float(bars[0].getAttribute("width")) < float(bars[1].getAttribute("width"))' rates.svg
    grep -q 'a &#38; &#60;b&#62;|c, 4 devices' rates.svg
}

@test "a method that fails is left out, with its last words" {
    bench -g cpu:2 --devices 1 --rounds 2 --method 'good=true' --method 'bad=echo early; echo "no such model" >&2; exit 3'
    ended_with 1
    says "bad" "status 3: no such model"
    [[ $stderr == *"| no such model"* ]]
    [ "$(grep -c '^bad  .* 0 ' <<<"$output")" = 1 ]
    # The first row is what the others are compared with.
    bench -q -g cpu:1 --rounds 2 --json --method 'bad=exit 3' --method 'good=true'
    ended_with 1
    [ "$(figure 'map(select(.devices)) | map([.outcome, .speedup])')" = '[["failed",null],["ok",null]]' ]
    bench -q -g cpu:1 --rounds 2 --method 'bad=exit 3' --method 'good=true'
    says "no speed-ups: the first row (bad, 1 device)"
}

@test "a batch that does not fit is an answer" {
    seq 12 >in.txt
    bench -q -g cpu:1 -i in.txt --batch 4,8 --rounds 2 -- ./loads
    ended_with 0
    says "out of device memory" "fastest: 1 device, batch 4"
    bench -q -g cpu:1 --batch 4,8 --rounds 2 --json -- sh -c '[ $1 = 4 ] || { echo "CUDA out of memory. Tried to allocate" >&2; exit 1; }' x {batch}
    ended_with 0
    [ "$(figure 'map(select(.devices)) | map(.outcome)')" = '["ok","oom"]' ]
}

@test "other work is not compared" {
    bench -q -g cpu:1 --rounds 2 --items-pattern 'did ([0-9]+)' --method 'a=echo did 5' --method 'b=echo did 4'
    ended_with 1
    says "did 4 items; the first row that ended well did 5"
    # Rates of items have no ratio to rates of runs, whichever row is first.
    local map="map=seq 50 >in; $MUSTER map -q in -o {output} -- cat" plain='plain=seq 50 | cat >out'
    bench -q -g cpu:1 --rounds 2 --method "$map" --method "$plain"
    ended_with 1
    says "did not tell how many items it did (--items); the first row that ended well did 50"
    bench -q -g cpu:1 --rounds 2 --method "$plain" --method "$map"
    ended_with 1
    says "did 50 items; the first row that ended well did not tell how many (--items 50)"
    bench -q -g cpu:1 --rounds 2 --items 50 --method "$plain" --method "$map"
    ended_with 0
    bench -q -g cpu:1 --rounds 2 --items 5 --json --method "a=seq 5 >in; $MUSTER map in -o {output} -- cat" \
        --method "b=seq 5 >in; $MUSTER map in --limit 3 -o {output} -- cat"
    ended_with 1
    [ "$(figure 'map(select(.devices)) | map([.outcome, .speedup.median == 1, .speedup.median == null])')" = '[["ok",true,false],["other work",false,true]]' ]
}

@test "a signal ends it, and what was measured is printed" {
    "$MUSTER" bench -g cpu:2 --devices 1,2 --rounds 9 -- sh -c 'echo >>starts; [ $(wc -l <starts) -lt 4 ] || exec sleep 1000' >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for has_lines starts 4
    kill -INT "$PID"
    map_end
    ended_with 130
    wait_for nobody_is_left
    says "interrupted: this is what was measured until then" "; 1 round in turn"
    nothing_is_left_in_tmp
}

@test "time has limits" {
    bench -q -g cpu:1 --max-time 1s -- sleep 0.3
    ended_with 0
    says "the time of --max-time is over"
    bench -q -g cpu:1 --max-time 500ms -- sleep 1000
    ended_with 124
    [[ $stderr == *"the time of --max-time was over before every row had a run"* ]]
    bench -q -g cpu:1 --trial-limit 300ms -- sleep 1000
    ended_with 1
    says "not done after 300 ms"
    bench -q -g cpu:1 --trial-limit 300ms --rounds 1 --rate-pattern '([0-9.]+) it/s' -- sh -c 'echo 12.5 it/s; exec sleep 1000'
    ended_with 0
    says "12.5"
    wait_for nobody_is_left
}

@test "wrong usage is refused before anything runs" {
    refused() { # status, words, arguments
        local expected=$1 words=$2
        shift 2
        bench "$@"
        ended_with "$expected"
        [[ $stderr == *"$words"* ]] || { echo "$stderr"; return 1; }
        [ -z "$output" ] && [ ! -e starts ]
    }
    : >empty.txt
    refused 2 "nothing to measure"
    refused 2 "nothing to measure" -g cpu:1 --
    refused 2 "the worker that gets the items stands behind --" -i in.txt
    refused 2 "there are no items in empty.txt" -q -g cpu:1 -i empty.txt -- cat
    refused 2 "open nowhere.txt" -i nowhere.txt -- cat
    refused 2 "it must be a file" -i /dev/null -- cat
    refused 2 "{batch} needs --batch" -- ./amdahl {batch}
    refused 2 "fills in {batch}, {devices}" -- ./amdahl {start}
    refused 2 "occurs twice" --devices 1,1 -- ./amdahl 1
    refused 2 "--batch" --batch 0 -- ./amdahl 1
    refused 2 "tell the same number" --items 3 --items-pattern x -- ./amdahl 1
    refused 2 "such as 'rate: " --rate-pattern '([0-9]' -- ./amdahl 1
    refused 2 "--limit is about the items of -i" -n 3 -- ./amdahl 1
    refused 2 "give one of --json and --markdown" --json --markdown -- ./amdahl 1
    refused 2 "unexpected 'x'" x -- ./amdahl 1
    refused 69 "4 devices are asked for, and there are 2" -g cpu:2 --devices 1,4 -- ./amdahl 1
    refused 69 "nowhere" -g cpu:1 -- ./nowhere
    bench -q -g cpu:1 --ready-pattern 'never said' -- true
    ended_with 1
    says "it printed nothing that matches --ready-pattern 'never said'"
}

@test "--dry-run shows the rows and their commands" {
    bench -g cpu:2 --devices 1,2 --batch 4 --dry-run -- ./amdahl {devices} {batch} {gpu} {output} '{{x}} ${batch}'
    ended_with 0
    says "2 devices, batch 4: ./amdahl 2 4 0,1 output '{x} \${batch}'"
    [ ! -e starts ]
    nothing_is_left_in_tmp
}

@test "a table that cannot be written is said, with the status of a full disk" {
    export -f limited
    run --separate-stderr bash -c 'limited "$MUSTER" bench -q -g cpu:1 --items 1 --rounds 1 -- true >/dev/full'
    ended_with 75
    [[ $stderr == *"write to stdout: No space left on device"* ]]
    run --separate-stderr bash -c 'limited "$MUSTER" fit -q -g cpu:1 --items 1 --max 2 -- true >/dev/full'
    ended_with 75
}

@test "figures that no float holds leave the JSON what it is" {
    local rate
    for rate in 1e308 inf nan 1e999; do
        bench -q -g cpu:1 --rounds 2 --json --rate-pattern 'rate (.*)' -- echo "rate $rate"
        [ $rate != 1e308 ] || ended_with 0
        grep '^{' <<<"$output" | "$PYTHON" -c 'import json, sys; [json.loads(line, parse_constant=int) for line in sys.stdin]'
    done
}
