#!/usr/bin/env bats
# Slow filters, as they are: what they have done is kept while they go on.
load helpers

# slow FOLDER INPUT OUTPUT COMMAND…: a run of one worker in a folder of its own, in the background.
slow() {
    local folder=$1 input=$2 output=$3
    shift 3
    mkdir "$folder"
    "$MUSTER" map -q -g cpu:1 --run-dir "$folder/run" "$input" -o "$folder/$output" -- "$@" >"$folder/said" 2>&1 3>&- 4>&- &
    PIDS+=($!)
}

results() { "$MUSTER" results "$1/run" 2>/dev/null | wc -l; }
keeps() { [ "$(results "$1")" -ge 8 ]; }

# Within ten seconds: a drain in twenty, or none before the end of the input, is too late.
keeps_soon() {
    local tries=100
    until keeps "$1"; do
        [ $((tries -= 1)) -gt 0 ] || return 1
        read -rt 0.1 <> <(:) || true
    done
}

@test "awk, sed and jq at 100 ms an item keep what they have done, also after kill -9" {
    PIDS=()
    seq 3000 >in.txt
    records 3000 >in.jsonl
    slow mawk in.txt out.txt mawk '{ system("sleep 0.1"); print "r" $1 }'
    slow gawk in.txt out.txt gawk '{ system("sleep 0.1"); print "r" $1 }'
    slow sed in.txt out.txt sed 's/.*/sleep 0.1; echo r&/e'
    slow sed_u in.txt out.txt sed -u 's/.*/sleep 0.1; echo r&/e'
    slow jq in.jsonl out.jsonl sh -c 'while read -r line; do sleep 0.1; echo "$line"; done | jq -c "{n: .id}"'
    local name pid
    for name in mawk gawk sed sed_u jq; do
        keeps_soon $name || { echo "$name keeps $(results $name)"; cat $name/said; false; }
    done
    for pid in "${PIDS[@]}"; do
        kill -KILL "$pid"
        wait "$pid" || true
    done
    for name in mawk gawk sed sed_u; do
        keeps $name
        "$MUSTER" results $name/run >kept.txt
        head -n "$(wc -l <kept.txt)" in.txt | sed 's/^/r/' >want.txt
        same kept.txt want.txt
    done
    keeps jq
}

# A look at all of them costs the more, the more a machine has, and comes ten times a second for each worker.
@test "a filter that waits for more is known by its own processes, not by all of the machine" {
    [ -n "$(command -v strace)" ] || skip "no strace"
    [ -e /proc/thread-self/children ] || skip "this kernel lists no children"
    local part
    for part in 1 2 3; do
        seq 5
        sleep 0.7
    done | strace -o calls -e trace=openat "$MUSTER" map -q -g cpu:1 -o out.txt - -- awk '{ print }' || skip "nothing may be traced"
    same out.txt - < <(for part in 1 2 3; do seq 5; done)
    [ "$(grep -c '"/proc"' calls)" -le 1 ] # at the end, if a guard is slow
}

@test "a filter that buffers and takes long to start is not started again and again" {
    seq 200 >in.txt
    pyworker loads <<'END'
import sys, time
time.sleep(1.2)
open("starts", "a").write("x\n")
for line in sys.stdin:
    time.sleep(0.005)
    sys.stdout.write("r" + line)
END
    map -g cpu:1 in.txt -o out.txt -- env -u PYTHONUNBUFFERED ./loads
    ended_with 0
    sed 's/^/r/' in.txt >want.txt
    same out.txt want.txt
    [ "$(wc -l <starts)" -le 2 ]
}

# A line that stands for an answer is not believed while its worker is still at the item.
@test "a stray line among slow answers is found, however often they are confirmed" {
    seq 60 >in.txt
    pyworker talks <<'END'
import sys, time
for number, line in enumerate(sys.stdin):
    time.sleep(0.01)
    if number == 10:
        print("note: well begun", flush=True)
    time.sleep(0.01)
    print("r" + line.strip(), flush=True)
END
    map -g cpu:1 in.txt -o out.txt -- ./talks
    ended_with 1
    says "more lines than items were sent"
}
