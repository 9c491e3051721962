#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Devices under a graph: ill ones, lost ones, those that are too small, and what the run says of each.
load helpers

setup() {
    common_setup
    export MUSTER_NVML=$FAKE_NVML MUSTER_SYSFS=/nowhere
}

graph() { run --separate-stderr limited "$MUSTER" graph -g "${DEVICES:-all}" "$@"; }
ask() { sqlite3 muster-runs/latest/run.db "$1" | tr '\n' ' '; }
log() { cat muster-runs/latest/orchestrator.log; }

@test "a device that several jobs find ill is benched, and they run elsewhere uncharged" {
    export MUSTER_FAKE_NVML=gpus=2
    worker train <<'END'
#!/bin/sh
[ "$1" != 1 ] || { echo 'RuntimeError: CUDA error: uncorrectable ECC error encountered' >&2; exit 1; }
echo "$1" >>ran
sleep 0.3
END
    printf 'jobs: {train: {for: {n: 1..6}, run: "./train {gpu}", gpus: 1, retries: 0}}\n' >g.yaml
    graph g.yaml
    ended_with 0
    [[ $stderr == *"gpu 1 is not used any more: several jobs found it ill"* ]]
    [ "$(tr -d '\n' <ran)" = 000000 ]
    [ "$(ask "SELECT kind, json FROM events WHERE kind = 'bench'")" = 'bench|{"device":"gpu 1"} ' ]
    [ "$(ask "SELECT count(*) FROM events WHERE kind = 'died' AND json LIKE '%ECC%'")" = "2 " ]
    [ "$(ask "SELECT count(*) FROM job_attempts WHERE devices = 'gpu 1'")" = "2 " ]
}

@test "a device that falls off the bus: its job runs elsewhere, and when it is back it has jobs again" {
    worker train <<'END'
#!/bin/sh
echo "$1" >>ran
i=0
until [ -e over ]; do sleep 0.1; done
END
    printf 'jobs: {train: {for: {n: 1..3}, run: "./train {gpu}", gpus: 1, retries: 0}}\n' >g.yaml
    "$MUSTER" graph -q -g sim:2xH200:141GiB,lost@1:1s-3s --grace 1s g.yaml 2>said &
    local pid=$!
    kind_is_there() { [ -n "$(ask "SELECT 1 FROM events WHERE kind = '$1'" 2>/dev/null)" ]; }
    wait_for kind_is_there return
    touch over
    wait $pid
    [ "$(ask "SELECT kind, json FROM events WHERE kind IN ('lost', 'return') ORDER BY id")" = \
        'lost|{"device":"gpu 1"} return|{"device":"gpu 1"} ' ]
    [ "$(ask "SELECT count(*) FROM jobs WHERE state = 'done'")" = "3 " ]
    [ "$(ask "SELECT count(*) FROM job_attempts WHERE is_well = 0 AND devices = 'gpu 1'")" = "1 " ]
}

@test "out of memory: alone, then on a larger device, then with smaller batches" {
    export MUSTER_FAKE_NVML=gpus=2,small=0
    cat >g.yaml <<'END'
jobs:
  beside: {run: [sh, -c, "until [ $(wc -l <tries) -gt 1 ]; do sleep 0.1; done"], gpus: {memory: 100GiB}}
  train:
    run: [sh, -c, "echo {gpu} {batch} >>tries; sleep 0.2; [ {batch} -le 4 ] || {{ echo 'torch.OutOfMemoryError: CUDA out of memory.' >&2; exit 1; }}"]
    batch: 16
    gpus: {memory: 20GiB}
    retries: 0
END
    : >tries
    graph g.yaml
    ended_with 0
    [[ $(head -2 tries | tr '\n' ' ') =~ ^[01]" 16 0 16 "$ ]]
    [ "$(sed 1,2d tries | tr '\n' ' ')" = "1 16 1 8 1 4 " ]
    [ "$(ask "SELECT count(*) FROM events WHERE kind = 'oom'")" = "4 " ]
}

@test "how busy each device was, its energy and its memory: summary, run.db, --on-finish, log" {
    export MUSTER_FAKE_NVML="gpus=2,busy=0:80,busy=1:20,memfile=0:$PWD/used"
    printf 'echo 40 >used; sleep 3.2; echo 3 >used\n' >job
    echo 1 >used
    printf 'jobs: {train: {run: "sh job {gpu}", gpus: 1}}\n' >g.yaml
    graph --on-finish 'cat >told' g.yaml
    ended_with 0
    [[ $stderr =~ "devices    2, busy "[45][0-9]\.[0-9]" % of the time, "0\.[4-9]" kJ" ]]
    [[ $stderr =~ "             gpu 0: busy 80.0 % of the time, "0\.[2-4]" kJ" ]]
    [[ $stderr == *"             gpu 1: busy 20.0 % of the time, "* ]]
    [[ $stderr == *$'\n'"  memory     gpu 0: 1.0 GiB in use at the start, 40.0 GiB at most, 3.0 GiB at the end, of 141 GiB"$'\n'"             gpu 1: "* ]]
    [[ $(jq -c '.devices[0] | [.device, .busy_percent, .mem_peak_bytes]' told) == '["gpu 0",80'*',42949672960]' ]]
    [ "$(jq '.devices[1].joules > 150 and .devices[1].seen_ms > 2000' told)" = true ]
    [ "$(ask "SELECT json_extract(value, '\$[1].busy_percent') FROM facts WHERE key = 'devices'")" = "20.0 " ]
    [ "$(ask "SELECT min(busy_percent), max(busy_percent), max(mem_used_bytes) >> 30, max(power_w) FROM samples WHERE device = 0")" = \
        "80|80|40|75.5 " ]
    log | grep "GPU memory"
    [[ $(log) == *"GPU memory at the start: gpu 0: 1.0 GiB used of 141 GiB"* ]]
    [[ $(log) == *"GPU memory at the end: gpu 0: 3.0 GiB used of 141 GiB"* ]]
}

@test "orders and a stop are events; what a later session knows of them is none of its own" {
    export MUSTER_FAKE_NVML=gpus=1
    printf 'jobs: {train: {for: {n: 1..3}, run: "sleep 0.8", gpus: 1}, other: {run: "true", needs: train}}\n' >g.yaml
    "$MUSTER" graph -q -g all g.yaml &
    local pid=$!
    wait_for has_logged "attempt 1 starts"
    "$MUSTER" hold train/n3
    "$MUSTER" release train/n3
    "$MUSTER" cancel train/n3
    "$MUSTER" stop
    wait $pid || true
    graph g.yaml
    ended_with 1
    [ "$(ask "SELECT kind || ' ' || coalesce(json_extract(json, '\$.job'), json_extract(json, '\$.text')) FROM events ORDER BY id")" = \
        "hold train/n3 release train/n3 cancel train/n3 halt stopped " ]
}

@test "devices: a job runs on those that it names alone, by index, model or identity" {
    export MUSTER_FAKE_NVML=gpus=4,mixed
    cat >g.yaml <<'END'
jobs:
  second: {for: {n: 1..3}, run: "sh job second {gpu}", devices: 2}
  old: {for: {n: 1..4}, run: "sh job old {gpu}", devices: "*A100*"}
  both: {run: "sh job both {gpus}", gpus: 2, devices: [0, 2]}
  one: {run: "sh job one {gpu_uuid}", devices: "GPU-a3000000-*"}
END
    echo 'echo "$1 $2" >>ran; sleep 0.2' >job
    graph -q g.yaml
    ended_with 0
    [ "$(grep second ran | sort -u | tr '\n' ' ')" = "second 2 " ]
    [ "$(grep -c '^old [13]$' ran)" -eq 4 ]
    [[ $(grep both ran) == "both 0,2" || $(grep both ran) == "both 2,0" ]]
    grep -q 'one GPU-a3000000-' ran
    graph --fresh --dry-run g.yaml
    [ "$(grep -c 'gpu 2  *second' <<<"$output")" -eq 3 ]
}

@test "devices that are not there: an error that says which are, or a job that cannot run" {
    export MUSTER_FAKE_NVML=gpus=2,mixed
    printf 'jobs: {train: {run: "touch ran", devices: "*B200*"}}\n' >g.yaml
    graph -q g.yaml
    ended_with 2
    [[ $stderr == *"train: this run has no device '*B200*'; it has 0 (Stand-in H200), 1 (Stand-in A100)"* ]]
    [ ! -e ran ] && [ ! -e muster-runs/latest ]
    printf 'jobs:\n  train: {run: "touch ran", devices: "*B200*"}\n  other: {run: "true"}\n' >g.yaml
    graph -q --only other g.yaml
    ended_with 0
    rm -r muster-runs
    printf 'jobs: {train: {run: "touch ran", gpus: 2, devices: "*H200*"}}\n' >g.yaml
    graph -q g.yaml
    ended_with 1
    [[ $stderr == *"train cannot run here: it needs more than there is"* ]]
    [ ! -e ran ]
    graph -q --hosts one --via env g.yaml
    ended_with 1
    sed -i 's/H200/0/; s/gpus: 2, //' g.yaml
    sed -i 's/"\*0\*"/0/' g.yaml
    graph -q --hosts one --via env g.yaml
    ended_with 0
    [ -e ran ]
}

@test "the manifest names the devices of the run and their driver, also when it goes on with others" {
    export MUSTER_FAKE_NVML=gpus=2
    printf 'jobs: {one: {run: "true"}, two: {run: "test -e go"}}\n' >g.yaml
    DEVICES=1 graph g.yaml
    ended_with 1
    [ -n "$(jq -er .driver muster-runs/latest/manifest.json)" ]
    [ "$(jq -c '[.devices[].index]' muster-runs/latest/manifest.json)" = "[1]" ]
    touch go
    graph g.yaml
    ended_with 0
    [ "$(jq -c '[.devices[].index]' muster-runs/latest/manifest.json)" = "[0,1]" ]
}

@test "a job that may have some devices only waits for those, and cannot run where there are none" {
    export MUSTER_FAKE_NVML=gpus=3
    cat >g.yaml <<'END'
defaults: {shell: true}
jobs:
  hold: {run: "touch begun; until [ -e go ]; do sleep 0.05; done", devices: 1, gpus: {memory: 100GiB}}
  waits: {run: "true", devices: [1, "*A100*"], gpus: {memory: 60GiB}}
  never: {run: "true", devices: "*A100*"}
END
    "$MUSTER" graph -q -g all --hosts local g.yaml 2>said 3>&- 4>&- &
    local pid=$!
    wait_for test -e begun
    run "$MUSTER" why waits never
    touch go
    wait $pid || true
    says "waits: ready; needs 1 device of 1,*A100* with 60.0 GiB free: gpu 1 has 40.5 GiB"
    says_not "gpu 0" "gpu 2"
    says "never: cannot run here: it needs 1 device of *A100*; the run has 3 devices"
}

@test "who finds a graph's devices taken is told its run, also when it goes on" {
    export MUSTER_FAKE_NVML=gpus=1
    printf 'jobs: {a: {run: [sh, -c, "touch begun; until [ -e go ]; do sleep 0.05; done; exit 1"]}}\n' >g.yaml
    for _ in 1 2; do
        rm -f begun go
        "$MUSTER" graph -q -g 0 g.yaml 2>said 3>&- 4>&- &
        local pid=$!
        wait_for test -e begun
        run limited "$MUSTER" each -g 0 -- true
        touch go
        wait $pid || true
        says "gpu 0 is taken by pid $pid, user $(id -un), run $(basename "$(run_dir)")"
    done
}

@test "what a job needs whose memory is learned is told" {
    export MUSTER_FAKE_NVML=gpus=1,memfile=0:$PWD/used,procfile=0:$PWD/held
    echo 0 >used
    : >held
    touch go
    cat >g.yaml <<'END'
jobs:
  b: {run: [sh, -c, "until [ -e go ]; do sleep 0.05; done"], priority: high}
  a: {run: [sh, -c, "echo $$ 40 >held; echo 41 >used; sleep 1.5; : >held; echo 0 >used"], gpus: {memory: auto}}
END
    graph -q g.yaml
    ended_with 0
    rm go
    "$MUSTER" graph -q --redo a --redo b -g all g.yaml 2>said 3>&- 4>&- &
    local pid=$!
    b_runs() { "$MUSTER" why b 2>/dev/null | grep -q "b: runs since"; }
    wait_for b_runs
    run "$MUSTER" why a
    touch go
    wait $pid
    says "a: ready; needs 1 device with 45.0 GiB free: gpu 0 has 1 job"
}
