#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# muster map: what goes in, what comes out, and what is refused.
load helpers

# ---- filters ----

@test "a filter's results come in the order of the items" {
    seq 3000 >in.txt
    map -g cpu:3 in.txt -o out.txt -- sed -u 's/^/x/'
    ended_with 0
    says "out.txt: 3,000 results, complete"
    seq 3000 | sed 's/^/x/' >want.txt
    same out.txt want.txt
}

@test "--order any gives every result once, in the order they come" {
    seq 200 >in.txt
    worker slow_first <<'END'
#!/bin/sh
while read -r n; do [ "$n" -gt 1 ] || sleep 0.3; echo "$n"; done
END
    map -g cpu:2 --no-reissue --order any in.txt -o out.txt -- ./slow_first
    ended_with 0
    [ "$(head -1 out.txt)" != 1 ]
    sort -n out.txt >sorted.txt
    same sorted.txt in.txt
}

@test "JSONL in, JSONL out" {
    records 50 >in.jsonl
    map -g cpu:2 in.jsonl -o out.jsonl -- jq -c --unbuffered '{n: (.id * 2)}'
    ended_with 0
    jq -c '{n: (.id * 2)}' in.jsonl >want.jsonl
    same out.jsonl want.jsonl
}

@test "--join writes the input's fields with the result's" {
    records 20 >in.jsonl
    map -g cpu:2 --join in.jsonl -o out.jsonl -- jq -c --unbuffered '{length: (.text | length)}'
    ended_with 0
    [ "$(sed -n 3p out.jsonl)" = '{"id":2,"text":"word 2","length":6}' ]
    [ "$(wc -l <out.jsonl)" -eq 20 ]
}

@test "--key takes results in any order" {
    records 40 >in.jsonl
    pyworker shuffle <<'END'
import sys, json
held = []
for line in sys.stdin:
    held.append(json.loads(line))
    if len(held) == 2 or held[0]["id"] % 4 == 3:
        for r in reversed(held):
            print(json.dumps({"id": r["id"], "double": 2 * r["id"]}), flush=True)
        held = []
for r in reversed(held):
    print(json.dumps({"id": r["id"], "double": 2 * r["id"]}), flush=True)
END
    map -g cpu:4 --key id in.jsonl -o out.jsonl -- ./shuffle
    ended_with 0
    says_not "is ended"
    jq -c '[.id, .double]' out.jsonl >found.txt
    seq 0 39 | awk '{print "[" $1 "," 2 * $1 "]"}' >want.txt
    same found.txt want.txt
}

@test "--key knows a value however the worker writes it" {
    printf '%s\n' '{"id":"é"}' '{"id":"a/b"}' '{"id":1.00}' '{"id":10000000000000000000001}' '{"id":"😀"}' '{"id":{"b":1,"a":2}}' >in.jsonl
    pyworker dumps <<'END'
import sys, json
for line in sys.stdin:
    print(json.dumps({"id": json.loads(line)["id"], "was": line.strip()}, sort_keys=True), flush=True)
END
    map -g cpu:1 --key id in.jsonl -o out.jsonl -- ./dumps
    ended_with 0
    says_not "is ended"
    jq -r .was out.jsonl >found
    same found in.jsonl
}

@test "--batch sends whole batches" {
    seq 25 >in.txt
    pyworker batches <<'END'
import os, sys
n = int(os.environ["MUSTER_BATCH"])
def answer(batch):
    sys.stdout.write("".join(f"{line} of {len(batch)}\n" for line in batch))
    sys.stdout.flush()
batch = []
for line in sys.stdin:
    batch.append(line.strip())
    if len(batch) == n:
        answer(batch)
        batch = []
answer(batch)
END
    map -g cpu:1 --batch 8 in.txt -o out.txt -- ./batches
    ended_with 0
    seq 25 | awk '{print $1 " of " ($1 > 24 ? 1 : 8)}' >want.txt
    [ "$(cut -d' ' -f1 out.txt | tr '\n' ' ')" = "$(seq -s' ' 25) " ]
    grep -q " of 8" out.txt
}

@test "--fixed-batches puts the same items together, whatever the workers" {
    seq 0 99 >in.txt
    pyworker company <<'END'
import muster
for batch in muster.batches(10):
    for item in batch:
        item.done({"first": batch[0].index, "n": len(batch)})
END
    for n in 1 2 4; do
        map -g cpu:$n --batch 10 --fixed-batches in.txt -o out$n.jsonl -- ./company
        ended_with 0
    done
    seq 0 99 | awk '{printf "{\"first\":%d,\"n\":10}\n", int($1 / 10) * 10}' >want.jsonl
    for n in 1 2 4; do same out$n.jsonl want.jsonl; done
}

@test "--fixed-batches puts the same items together after a crash, after one for lack of memory, and in threes" {
    pyworker company <<'END'
import muster, os, signal, sys
for batch in muster.batches(3 if "threes" in sys.argv else None):
    places = [item.data["place"] for item in batch]
    if sys.argv[1] in ("crash", "memory") and 16 in places and not os.path.exists(sys.argv[1]):
        open(sys.argv[1], "w").close()
        if sys.argv[1] == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        sys.exit("RuntimeError: CUDA out of memory")
    for item in batch:
        item.done({"company": places})
END
    seq 0 79 | sed 's/.*/{"place":&}/' >in.jsonl
    local how n
    for how in plain crash memory; do
        map -f -g cpu:2 --batch 8 --fixed-batches in.jsonl -o $how.jsonl -- ./company $how
        ended_with 0
        same plain.jsonl $how.jsonl
    done
    [ -e crash ] && [ -e memory ]
    for n in 1 2 3; do
        map -f -g cpu:$n --batch 8 --fixed-batches in.jsonl -o threes$n.jsonl -- ./company threes
        ended_with 0
        same threes1.jsonl threes$n.jsonl
    done
}

@test "--raw hands records over as they stand" {
    printf '{"a": 1}\n{"a":   2}\nnot json\n' >in.jsonl
    map -g cpu:1 --raw in.jsonl -o out.txt -- sed -u 's/$/!/'
    ended_with 0
    printf '{"a": 1}!\n{"a":   2}!\nnot json!\n' >want.txt
    same out.txt want.txt
}

@test "--limit takes the first items" {
    seq 1000 >in.txt
    map -g cpu:2 --limit 7 in.txt -o out.txt -- cat
    ended_with 0
    seq 7 >want.txt
    same out.txt want.txt
}

# ---- formats ----

@test "CSV in: a row is an object for the worker" {
    printf 'name,age\n"Ada, Countess",36\n"with ""quotes""",7\n' >in.csv
    map -g cpu:1 in.csv -o out.jsonl -- jq -c --unbuffered '{name, older: ((.age | tonumber) + 1)}'
    ended_with 0
    printf '{"name":"Ada, Countess","older":37}\n{"name":"with \\"quotes\\"","older":8}\n' >want.jsonl
    same out.jsonl want.jsonl
}

@test "CSV out: the columns are the results' fields" {
    records 3 >in.jsonl
    map -g cpu:1 in.jsonl -o out.csv -- jq -c --unbuffered '{id, text: ("a, \"b\" " + .text)}'
    ended_with 0
    $PYTHON - <<'END'
import csv
rows = list(csv.DictReader(open("out.csv")))
assert [r["id"] for r in rows] == ["0", "1", "2"], rows
assert rows[2]["text"] == 'a, "b" word 2', rows
END
}

@test "TSV in and out" {
    printf 'a\tb\n1\tx y\n2\tz\n' >in.tsv
    map -g cpu:1 in.tsv -o out.tsv -- jq -c --unbuffered '{b, a}'
    ended_with 0
    printf 'b\ta\nx y\t1\nz\t2\n' >want.tsv
    same out.tsv want.tsv
}

@test "a JSON array in and out" {
    printf '[{"id": 1,\n  "t": "a\\nb"},\n {"id": 2, "t": "[,]"} ]\n' >in.json
    map -g cpu:2 in.json -o out.json -- jq -c --unbuffered '{id, t}'
    ended_with 0
    [ "$(jq -c . out.json)" = '[{"id":1,"t":"a\nb"},{"id":2,"t":"[,]"}]' ]
}

@test "--format and --format-out override the extensions" {
    records 4 >in.data
    map -g cpu:1 --format jsonl --format-out csv in.data -o out.data -- jq -c --unbuffered '{id}'
    ended_with 0
    [ "$(tr -d '\r' <out.data | tr '\n' ' ')" = "id 0 1 2 3 " ]
}

@test "gzip and zstd inputs" {
    seq 500 | gzip >a.txt.gz
    seq 501 1000 | zstd -q >b.txt.zst
    map -g cpu:2 a.txt.gz b.txt.zst -o out.txt -- sed -u 's/^/x/'
    ended_with 0
    seq 1000 | sed 's/^/x/' >want.txt
    same out.txt want.txt
}

@test "several files are one data set" {
    seq 10 >a.txt
    printf '11\n12' >b.txt
    seq 13 20 >c.txt
    map -g cpu:2 a.txt b.txt c.txt -o out.txt -- cat
    ended_with 0
    seq 20 >want.txt
    same out.txt want.txt
}

@test "standard input in, standard output out" {
    seq 100 | "$MUSTER" map -q -g cpu:2 - -o - -- sed -u 's/^/y/' >out.txt
    seq 100 | sed 's/^/y/' >want.txt
    same out.txt want.txt
}

@test "work begins before standard input has ended" {
    mkfifo pipe
    "$MUSTER" map -g cpu:1 - -o out.txt -- tee -a seen <pipe >said 2>&1 3>&- &
    PID=$!
    exec 9>pipe
    echo first >&9
    wait_for holds seen first
    echo second >&9
    exec 9>&-
    map_end
    ended_with 0
    printf 'first\nsecond\n' >want.txt
    same out.txt want.txt
}

@test "channel results over lines are JSON lines" {
    printf 'a\nb\n' >in.txt
    pyworker upper <<'END'
import muster
for item in muster.items():
    item.done(text=item.data.upper())
END
    map -g cpu:1 in.txt -o out.jsonl -- ./upper
    ended_with 0
    printf '{"text":"A"}\n{"text":"B"}\n' >want.jsonl
    same out.jsonl want.jsonl
}

# ---- channel workers ----

@test "import muster works without PYTHONPATH and without an install" {
    seq 5 >in.txt
    pyworker one <<'END'
import muster
for item in muster.items():
    item.done(int(item.data) * 2)
END
    unset PYTHONPATH
    map -g cpu:1 in.txt -o out.jsonl -- ./one
    ended_with 0
    seq 2 2 10 >want.jsonl
    same out.jsonl want.jsonl
}

@test "a worker's log begins with one line that has the time and the attempt" {
    seq 3 >in.txt
    map -g cpu:1 in.txt -o out.txt -- cat
    ended_with 0
    log=muster-runs/latest/logs/cpu_0_stderr.log
    [ "$(wc -l <$log)" -eq 1 ]
    grep -qE '^==> [-0-9]+T[0-9:.+]+ attempt 1 of cpu_0 <==$' $log
}

@test "what a channel worker prints is logged, not taken for results" {
    seq 20 >in.txt
    pyworker talker <<'END'
import muster, sys
print("banner on stdout")
for item in muster.items():
    print("now", item.index)
    print("careful", file=sys.stderr)
    item.done(item.data)
END
    map -g cpu:1 in.txt -o out.jsonl -- ./talker
    ended_with 0
    [ "$(wc -l <out.jsonl)" -eq 20 ]
    holds muster-runs/latest/logs/cpu_0_stdout.log "banner on stdout"
    holds muster-runs/latest/logs/cpu_0_stdout.log "now 19"
    holds muster-runs/latest/logs/cpu_0_stderr.log "careful"
    says "[cpu 0]"
}

@test "an item's seed is the same with 1, 2 and 4 workers, and changes with --seed" {
    seq 60 >in.txt
    pyworker seeds <<'END'
import muster
for item in muster.items():
    item.done(seed=item.seed)
END
    for n in 1 2 4; do
        map -g cpu:$n in.txt -o out$n.jsonl -- ./seeds
        ended_with 0
    done
    same out1.jsonl out2.jsonl
    same out1.jsonl out4.jsonl
    [ "$(sort -u out1.jsonl | wc -l)" -eq 60 ]
    map -g cpu:2 --seed 43 in.txt -o out43.jsonl -- ./seeds
    [ "$(sort -u out43.jsonl out1.jsonl | wc -l)" -eq 120 ]
}

@test "metrics are summed over committed items only" {
    seq 40 >in.txt
    pyworker flaky <<'END'
import muster
for item in muster.items():
    if item.attempt == 1 and item.index % 4 == 0:
        item.fail("first time")
    elif item.index == 7:
        item.fail("never", retry=False)
    else:
        item.done(item.index, metrics={"correct": item.index % 2, "seen": 1})
END
    map -g cpu:2 --retries 2 in.txt -o out.jsonl --on-finish 'cat >summary.json' -- ./flaky
    ended_with 1
    [ "$(jq .metrics.seen summary.json)" = 39 ]
    [ "$(jq .metrics.correct summary.json)" = 19 ]
    says "accuracy 0.4872"
    echo 1 >one.txt
    pyworker huge <<'END'
import muster
for item in muster.items():
    item.done(1, metrics={"correct": 1e308, "seen": 1})
END
    map -g cpu:1 one.txt -o huge.jsonl -- ./huge
    ended_with 0
    says "metrics    correct 1e+308, seen 1  (accuracy 1e+308)"
}

@test "--on-finish gets the summary on its stdin" {
    seq 12 >in.txt
    map -g cpu:2 in.txt -o out.txt --on-finish 'jq -c "[.status,.items,.done,.failed,.workers]" >finish.txt' -- cat
    ended_with 0
    [ "$(cat finish.txt)" = "[0,12,12,0,2]" ]
}

@test "the summary and run.db say how long an item takes, also where answers come by the batch" {
    seq 60 >in.txt
    pyworker batches <<'END'
import muster, time
for batch in muster.batches(10):
    time.sleep(0.1)
    for item in batch:
        item.done(1)
END
    map -g cpu:1 in.txt -o out.txt --on-finish 'jq "[.item_us_median, .item_us_p99]" >took.txt' -- ./batches
    ended_with 0
    [[ $output == *"  an item "* ]]
    jq -e '.[0] >= 9000 and .[0] < 30000' took.txt
    [ "$(query 'select sum(items_done) from attempts')" -eq 60 ]
    [ "$(query 'select sum(json_extract(times, "$.n")) from attempts')" -ge 50 ]
}

@test "a filter's attempts are recorded with the items that count" {
    seq 500 >in.txt
    map -g cpu:2 in.txt -o out.txt -- cat
    ended_with 0
    [ "$(query 'select sum(items_done) from attempts')" -eq 500 ]
}

@test "the environment of a worker" {
    printf 'only\n' >in.txt
    worker env_filter <<'END'
#!/bin/sh
read -r line
env | grep -E '^(MUSTER_|OMP_|PYTHON)' >env.txt
echo "$line"
END
    map -g cpu:2 --seed 7 --batch 3 in.txt -o out.txt -- ./env_filter
    ended_with 0
    local name
    for name in MUSTER_RUN_ID MUSTER_RUN_DIR MUSTER_WORKER MUSTER_WORKERS MUSTER_DEVICE MUSTER_DEVICE_INDEX \
        MUSTER_DEVICE_KIND MUSTER_SEED MUSTER_ATTEMPT MUSTER_BATCH MUSTER_CHANNEL OMP_NUM_THREADS PYTHONUNBUFFERED PYTHONPATH; do
        grep -q "^$name=" env.txt || { echo "$name is not set"; cat env.txt; return 1; }
    done
    grep -qx "MUSTER_RUN_DIR=$(run_dir)" env.txt
    grep -qx "MUSTER_RUN_ID=$(basename "$(run_dir)")" env.txt
    grep -qx MUSTER_WORKERS=2 env.txt
    grep -qx MUSTER_SEED=7 env.txt
    grep -qx MUSTER_BATCH=3 env.txt
    grep -qx MUSTER_DEVICE_KIND=cpu env.txt
    grep -qx PYTHONUNBUFFERED=1 env.txt
}

@test "OMP_NUM_THREADS is kept where the user set it" {
    printf 'only\n' >in.txt
    export OMP_NUM_THREADS=17
    map -g cpu:2 in.txt -o out.txt -- sh -c 'read -r l; echo $OMP_NUM_THREADS'
    ended_with 0
    [ "$(cat out.txt)" = 17 ]
}

@test "--channel-path gives the channel as a path" {
    seq 5 >in.txt
    pyworker via_path <<'END'
import os
where = os.environ["MUSTER_CHANNEL"]
import muster
for item in muster.items():
    item.done(path=where.startswith("/"))
END
    map -g cpu:2 --channel-path in.txt -o out.jsonl -- ./via_path
    ended_with 0
    [ "$(sort -u out.jsonl)" = '{"path":true}' ]
    [ -z "$(find muster-runs -name '*.sock')" ]
}

# ---- few items ----

@test "an empty file is a complete result of nothing" {
    : >in.txt
    map -g cpu:2 in.txt -o out.txt -- sh -c 'touch started; cat'
    ended_with 0
    [ -f out.txt ] && [ ! -s out.txt ]
    [ ! -e started ]
}

@test "one item" {
    echo one >in.txt
    map -g cpu:4 in.txt -o out.txt -- cat
    ended_with 0
    [ "$(cat out.txt)" = one ]
}

@test "surplus workers never start" {
    seq 2 >in.txt
    worker note <<'END'
#!/bin/sh
echo "$MUSTER_WORKER" >>started
exec cat
END
    map -g cpu:6 in.txt -o out.txt -- ./note
    ended_with 0
    [ "$(sort -u started | wc -l)" -le 2 ]
}

# ---- refusals ----

@test "an output that exists is refused, with the way out" {
    seq 3 >in.txt
    echo precious >out.txt
    map -g cpu:1 in.txt -o out.txt -- cat
    ended_with 2
    says "out.txt exists" "--force"
    [ "$(cat out.txt)" = precious ]
    [ ! -e muster-runs ]
}

@test "--force replaces an output" {
    seq 3 >in.txt
    echo precious >out.txt
    map -g cpu:1 --force in.txt -o out.txt -- cat
    ended_with 0
    same out.txt in.txt
}

@test "an input that is not there is refused by name" {
    map -g cpu:1 nowhere.jsonl -o out.txt -- cat
    ended_with 2
    says "nowhere.jsonl" "No such file"
    [ ! -e muster-runs ] || [ -z "$(ls muster-runs)" ]
}

@test "a folder as input is refused" {
    mkdir folder
    map -g cpu:1 folder -o out.txt -- cat
    ended_with 2
    says folder
}

@test "malformed data ends the run with 65, the file and the place" {
    printf '{"a":1}\n{"a":' >cut.jsonl
    map -g cpu:1 cut.jsonl -o out.jsonl -- cat
    ended_with 65
    says "cut.jsonl" "byte 8"
    printf '[{"a":1},{"a":]' >in.json
    map -g cpu:1 in.json -o out.jsonl -- cat
    ended_with 65
    says "in.json"
    printf 'a,b\n1,"2\n3,4\n' >open.csv
    map -g cpu:1 open.csv -o out.jsonl -- cat
    ended_with 65
    says "open.csv line 2" "quote"
    [ ! -e out.jsonl ]
}

@test "a worker's program that is missing: 69, before anything is made" {
    seq 3 >in.txt
    map -g cpu:1 in.txt -o out.txt -- no-such-program-here
    ended_with 69
    says "no-such-program-here" "PATH"
    map -g cpu:1 in.txt -o out.txt -- ./not-here
    ended_with 69
    says "./not-here"
    [ ! -e muster-runs ]
}

@test "a worker's program that is not executable says how to make it so" {
    seq 3 >in.txt
    echo 'print(1)' >worker.py
    map -g cpu:1 in.txt -o out.txt -- ./worker.py
    ended_with 69
    says "./worker.py" "chmod +x"
}

@test "a wrong SPEC is refused with what was expected" {
    seq 3 >in.txt
    local spec
    for spec in "" "0,0" "1-" "5-2" "any" "any:0" "cpu:0" "cpu:x" "free:lots" "0,,1"; do
        map -g "$spec" in.txt -o out.txt -- cat
        [ "$status" -eq 2 ] || { echo "-g '$spec': status $status: $output"; return 1; }
        says "-g"
    done
}

@test "a GPU that is not there: 69, with the valid choices" {
    seq 3 >in.txt
    export MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=3
    map -g 3 in.txt -o out.txt -- cat
    ended_with 69
    says "GPU 3 is not available: this machine has 0-2"
}

@test "a misspelt option is answered with the right one" {
    seq 3 >in.txt
    map --ouput out.txt in.txt -- cat
    ended_with 2
    says "did you mean" "--output"
}

@test "a misspelt verb is answered with the right one" {
    run "$MUSTER" mpa
    ended_with 2
    says "did you mean 'map'"
}

@test "what is left out is named" {
    seq 3 >in.txt
    map -g cpu:1 in.txt -- cat
    ended_with 2
    says "-o"
    map -g cpu:1 in.txt -o out.txt
    ended_with 2
    says "command"
    map -g cpu:1 -o out.txt -- cat
    ended_with 2
    says "input"
    map -g cpu:1 in.txt -o out.txt --fixed-batches -- cat
    ended_with 2
    says "--batch"
    map -g cpu:1 in.txt -o out.txt --key id -- cat
    ended_with 2
    says "--key"
}

@test "an output in a folder that is not there is refused first" {
    seq 3 >in.txt
    map -g cpu:1 in.txt -o no/such/out.txt -- cat
    ended_with 2
    says "no/such"
}

@test "--dry-run shows the plan and makes nothing" {
    seq 3 >in.txt
    map -g cpu:2 --dry-run in.txt -o out.txt -- cat -u
    ended_with 0
    says "worker 0" "worker 1" "cat -u"
    [ ! -e muster-runs ] && [ ! -e out.txt ]
}

@test "--quiet: items that were set aside are said in one line" {
    seq 10 >in.txt
    map -q -r 0 -g cpu:1 in.txt -o out.txt -- sh -c 'while read -r n; do [ "$n" = 5 ] && kill -9 $$; echo "$n"; done'
    ended_with 1
    [ "$output" = "muster: 1 item was set aside, with reasons in out.txt.failed.jsonl; go on with: muster resume $(basename "$(run_dir)") --retry-failed" ]
}

@test "--quiet: not a word when all goes well" {
    seq 30 >in.txt
    map -q -g cpu:2 in.txt -o out.txt -- cat
    ended_with 0
    [ -z "$output" ]
}

@test "stdout is the product: nothing but results on it" {
    seq 30 >in.txt
    "$MUSTER" map -g cpu:2 in.txt -o out.txt -- cat >words 2>talk
    [ ! -s words ]
    "$MUSTER" map -g cpu:2 in.txt -o - -- cat >words 2>talk
    same words in.txt
}

@test "a run's folder holds what is promised" {
    seq 30 >in.txt
    map -g cpu:2 in.txt -o out.txt -- cat
    ended_with 0
    local dir
    dir=$(run_dir)
    [[ $(basename "$dir") =~ ^[0-9]{8}_[0-9]{6}-map ]]
    for name in manifest.json run.db status.json orchestrator.log logs/cpu_0_stdout.log logs/cpu_0_stderr.log; do
        [ -f "$dir/$name" ] || { echo "no $name"; return 1; }
    done
    jq -e '.argv and .command and .seed' "$dir/manifest.json"
    [ "$(jq -r .done "$dir/status.json")" = 30 ]
    [ "$(query 'pragma integrity_check')" = ok ]
}

@test "the speed of answers that come together is that of the whole, and a summary's is items by wall time" {
    seq 200 >in.txt
    worker tens <<'END'
#!/bin/bash
while mapfile -tn 10 at && [ ${#at[@]} -gt 0 ]; do
    sleep 0.5
    printf '%s\n' "${at[@]}"
done
END
    map_begin -g cpu:1 in.txt -o out.txt --on-finish 'cat >summary.json' -- ./tens # 20 items a second
    speed_is_known() { cp muster-runs/latest/status.json seen 2>/dev/null && jq -e '.done + .answered >= 30' seen >/dev/null; }
    wait_for speed_is_known
    jq -e '.rate > 2 and .rate < 21 and .eta_ms > (200 - .done - .answered) * 40' seen
    map_end
    ended_with 0
    jq -e '(.items_per_s * .wall_ms / 1000 - 200 | fabs) < 1 and .loaded_items_per_s >= .items_per_s and .loaded_items_per_s < 21' summary.json
    says " once loaded); loading " "worker-seconds: efficiency "
}

@test "status counts an answer once that was committed after status.json was written" {
    seq 20 >in.txt
    pyworker rests <<'END'
import muster, time
for item in muster.items():
    if item.data == "11":
        time.sleep(1000)
    item.done(item.data)
END
    has_committed() { [ "$("$MUSTER" status --json 2>/dev/null | jq -c '[.items, .done, .answered]')" = "$1" ]; }
    map_begin -g cpu:1 in.txt -o out.txt -- ./rests
    wait_for has_committed "[20,10,0]"
    kill -STOP "$PID"
    jq -c '.done = 4 | .answered = 7' muster-runs/latest/status.json >older
    mv older muster-runs/latest/status.json
    [ "$("$MUSTER" status --json | jq -c '[.done, .answered]')" = "[10,1]" ]
    "$MUSTER" status | grep -q "10 of 20 items (50.0 %), .* 1 answered, not yet committed"
    kill -CONT "$PID"
    kill -INT "$PID"
    map_end
    ended_with 130
}

@test "a run goes on as fast as this session does, however much was done before" {
    seq 1000 >in.txt
    pyworker slower <<'END'
import muster, time
for item in muster.items():
    if int(item.data) > 960:
        time.sleep(0.2)
    item.done(item.data)
END
    has_done() { [ "$(jq .done muster-runs/latest/status.json 2>/dev/null || echo 0)" -ge "$1" ]; }
    map_begin -g cpu:1 in.txt -o out.txt -- ./slower
    wait_for has_done 961
    kill -KILL "$PID"
    map_end
    map_begin -g cpu:1 in.txt -o out.txt -- ./slower
    goes_on() { cp muster-runs/latest/status.json seen && jq -e ".pid == $PID and .done >= 970 and .running > 0" seen >/dev/null; }
    wait_for goes_on
    jq -e '.rate > 0 and .rate < 6 and .eta_ms > (999 - .done) * 160' seen
    map_end
    ended_with 0
}

@test "--score: the figures of the output when it is in place, as muster merge has them" {
    printf '{"id":0,"y":"a"}\n{"id":1,"y":"b"}\n{"id":2,"y":"b"}\n' >in.jsonl
    worker answer <<'END'
#!/bin/sh
while read -r line; do echo '{"p":"b"}'; done
END
    limited "$MUSTER" map -q -g cpu:1 in.jsonl --join -o out.jsonl --score y=p --score-out f.csv -- ./answer >table
    "$MUSTER" merge -q out.jsonl -o again.jsonl --score y=p --score-out again.csv >want
    same table want
    same f.csv again.csv
    map -g cpu:1 in.jsonl -o out2.jsonl --score y=p -- ./answer
    ended_with 65
    says "out2.jsonl is in place, but --score failed: out2.jsonl line 1: it has no 'y'"
    has_lines out2.jsonl 3
    map -g cpu:1 in.jsonl -o out.txt --score y=p -- ./answer
    ended_with 2
    says "--score reads two fields of the output's records"
    map -g cpu:1 in.jsonl -o - --score y=p -- ./answer
    ended_with 2
}

@test "the log at level debug has commands, items, files and memory; the manifest has the driver" {
    export MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=1 MUSTER_SYSFS=/nowhere
    seq 5 >in.txt
    map -g 0 --log-level debug in.txt -o out.txt -- sh -c 'exec cat'
    ended_with 0
    has_logged "DEBUG worker: gpu_0 runs sh -c 'exec cat'"
    has_logged "DEBUG map: gpu_0 is given items 0 to "
    has_logged "DEBUG map: gpu_0 writes parts/1.part"
    has_logged "DEBUG device: gpu_0: 512 MiB of 141 GiB used"
    has_logged "/parts is removed"
    [ -n "$(jq -er .driver muster-runs/latest/manifest.json)" ]
    map -g 0 in.txt -o other.txt -- cat
    ! has_logged DEBUG
}

@test "a signal while --on-finish runs ends its command, and not what the run has done" {
    seq 5 >in.txt
    map_begin -g cpu:1 in.txt -o out.txt --on-finish 'touch runs; sleep 1000; touch after' -- cat
    wait_for test -e runs
    kill -TERM "$PID"
    map_end
    ended_with 0
    says "--on-finish: the command ended with SIGTERM"
    wait_for nobody_is_left
    [ ! -e after ]
    map_begin -f -g cpu:1 in.txt -o out.txt --on-finish 'trap "" TERM; touch deaf; while :; do sleep 0.1; done' -- cat
    wait_for test -e deaf
    kill -TERM "$PID"
    sleep 0.3
    kill -TERM "$PID"
    map_end
    ended_with 0
    wait_for nobody_is_left
}

@test "a command of --on-finish that fails is reported, also with --quiet" {
    seq 5 >in.txt
    map -q -g cpu:1 in.txt -o out.txt --on-finish 'exit 9' -- cat
    ended_with 0
    says "--on-finish: the command ended with status 9"
    map -f -g cpu:1 in.txt -o out.txt --on-finish no-such-program -- cat
    ended_with 0
    says "--on-finish: the command ended with status 127"
}

@test "--on-finish may go on with the run that has ended, and start the next one" {
    seq 4 >in.txt
    worker picky <<'END'
#!/bin/sh
while read -r n; do [ -e mended ] || [ "$n" != 3 ] || exit 1; echo "r$n"; done
END
    map -g cpu:1 -r 0 in.txt -o out.txt \
        --on-finish 'touch mended; "$MUSTER" resume latest --retry-failed && "$MUSTER" map -g cpu:1 in.txt -o next.txt -- cat' -- ./picky
    ended_with 1
    [ "$(cat out.txt)" = "$(printf 'r1\nr2\nr3\nr4')" ]
    same next.txt in.txt
}
