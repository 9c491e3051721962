#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Input and workers as they come: each ends with a sentence that names the thing and the cure, a
# documented status, nothing lost, and nobody left (teardown looks).
load helpers

echo_worker() {
    pyworker echo_worker <<'END'
import muster
for item in muster.items():
    data = item.data
    item.done(data if not isinstance(data, bytes) else {"bytes": list(data)})
END
}

# ---- the command ----

@test "{} as GNU parallel has it is told not to be filled in" {
    seq 3 >in.txt
    map -g cpu:1 in.txt -o out.txt -- cat {}
    ended_with 1
    says "{} is not filled in here: items come as lines on stdin" "muster graph -- COMMAND {} ::: ITEM..." "cat: {}: No such file"
    map -g cpu:1 in.txt -o out.txt -- cat nowhere
    ended_with 1
    says "is the command right?"
}

# ---- data ----

@test "an empty file, for a channel worker" {
    echo_worker
    : >in.jsonl
    map -g cpu:2 in.jsonl -o out.json -- ./echo_worker
    ended_with 0
    [ "$(jq -c . out.json)" = "[]" ]
}

@test "only empty lines are items of lines, and none of JSONL" {
    printf '\n\n\n' >in.txt
    map -g cpu:1 in.txt -o out.txt -- sed -u 's/^/x/'
    ended_with 0
    [ "$(wc -l <out.txt)" -eq 3 ]
}

@test "--key with equal values: no result goes to another item, and the reason names the field" {
    pyworker backwards <<'END'
import sys
for line in reversed(list(sys.stdin)):
    sys.stdout.write(line)
END
    seq 0 39 | awk '{ printf "{\"id\":%d,\"n\":%d}\n", $1 % 3, $1 }' >in.jsonl
    map -g cpu:1 --key id --join -o out.jsonl in.jsonl -- jq -c '{id, answer: .n}'
    [ "$(jq -c 'select(.n != .answer)' out.jsonl)" = "" ]
    map -g cpu:1 -r 0 --key id --join -o back.jsonl in.jsonl -- ./backwards
    ended_with 1
    [ "$(jq -c .n back.jsonl | wc -l)" -ge 3 ]
    [ $(($(wc -l <back.jsonl) + $(wc -l <back.jsonl.failed.jsonl))) -eq 40 ]
    holds back.jsonl.failed.jsonl "another item with the same value of the --key field, and an answer could be meant for either: values of --key must differ"
}

@test "one item and many workers, channel" {
    echo_worker
    echo '{"a":1}' >in.jsonl
    map -g cpu:8 in.jsonl -o out.jsonl -- ./echo_worker
    ended_with 0
    [ "$(cat out.jsonl)" = '{"a":1}' ]
    [ "$(query 'select count(*) from attempts')" -le 1 ]
}

@test "a line of 100 MB through a filter" {
    head -c 100000000 /dev/zero | tr '\0' x >in.txt
    printf '\nshort\n' >>in.txt
    map -g cpu:2 in.txt -o out.txt -- cat
    ended_with 0
    same out.txt in.txt
}

@test "a line of 30 MB through the channel" {
    echo_worker
    { printf '{"x":"'; head -c 30000000 /dev/zero | tr '\0' x; printf '"}\n{"x":"y"}\n'; } >in.jsonl
    map -g cpu:1 in.jsonl -o out.jsonl -- ./echo_worker
    ended_with 0
    same out.jsonl in.jsonl
}

@test "invalid UTF-8 comes to a channel worker as bytes" {
    pyworker bytes_too <<'END'
import muster
for item in muster.items():
    item.done(list(item.data) if isinstance(item.data, bytes) else item.data)
END
    printf 'good\n\377\376bad\nl\303\266ve\n' >in.txt
    map -g cpu:1 in.txt -o out.jsonl -- ./bytes_too
    ended_with 0
    printf '"good"\n[255,254,98,97,100]\n"löve"\n' >want.jsonl
    jq -c . out.jsonl | sed 's/, /,/g' >found.jsonl
    same found.jsonl want.jsonl
}

@test "invalid UTF-8 goes through a filter as it is" {
    printf 'good\n\377\376bad\n' >in.txt
    map -g cpu:1 in.txt -o out.txt -- cat
    ended_with 0
    same out.txt in.txt
}

@test "NUL bytes in lines go through" {
    echo_worker
    printf 'a\0b\nc\n' >in.txt
    map -g cpu:1 in.txt -o out.txt -- cat
    ended_with 0
    same out.txt in.txt
    map -g cpu:1 in.txt -o out.jsonl -- ./echo_worker
    ended_with 0
    [ "$(head -1 out.jsonl)" = '"a\u0000b"' ]
}

@test "NUL bytes in CSV are refused with the place" {
    printf 'a,b\n1,\0\n' >in.csv
    map -g cpu:1 in.csv -o out.jsonl -- cat
    ended_with 65
    says "in.csv" "NUL"
}

@test "CRLF: JSON and CSV do not see it" {
    printf '{"a":1}\r\n{"a":2}\r\n' >in.jsonl
    map -g cpu:1 in.jsonl -o out.jsonl -- jq -c --unbuffered .
    ended_with 0
    printf '{"a":1}\n{"a":2}\n' >want.jsonl
    same out.jsonl want.jsonl
    printf 'a,b\r\n1,2\r\n3,4\r\n' >in.csv
    map -g cpu:1 in.csv -o out2.jsonl -- jq -c --unbuffered '[.a,.b]|{a:.[0],b:.[1]}'
    ended_with 0
    printf '{"a":"1","b":"2"}\n{"a":"3","b":"4"}\n' >want.jsonl
    same out2.jsonl want.jsonl
}

@test "CRLF: a line keeps its CR with --raw and in {input}, and has none otherwise" {
    printf 'a\r\nb\r\r\nc\n\r\nd' >in.txt
    map -g cpu:1 --raw in.txt -o raw.txt -- cat
    ended_with 0
    printf 'a\r\nb\r\r\nc\n\r\nd\n' | cmp - raw.txt
    map -g cpu:1 in.txt -o out.txt -- cat
    ended_with 0
    printf 'a\nb\r\nc\n\nd\n' | cmp - out.txt
    map -g cpu:1 --shards 2 in.txt -o shards.txt -- sh -c 'cp {input} seen.{shard}; cp {input} {output}'
    ended_with 0
    cat seen.0 seen.1 | cmp - raw.txt
}

@test "a truncated last record is refused, with the offset and the cure" {
    printf '{"a":1}\n{"a":2}\n{"a":' >in.jsonl
    map -g cpu:1 in.jsonl -o out.jsonl -- cat
    ended_with 65
    says "in.jsonl" "16"
    [ ! -e out.jsonl ]
}

@test "a last line without a newline is a line" {
    printf 'a\nb' >in.txt
    map -g cpu:1 in.txt -o out.txt -- cat
    ended_with 0
    [ "$(wc -l <out.txt)" -eq 2 ]
}

@test "a truncated gzip file" {
    seq 100000 | gzip | head -c 50000 >in.txt.gz
    map -g cpu:1 in.txt.gz -o out.txt -- cat
    ended_with 65
    says "in.txt.gz"
    [ ! -e out.txt ]
}

@test "damaged input found on the way: said once, without advice that cannot help" {
    { seq 200000 | gzip; echo garbage; } >in.txt.gz
    map -g cpu:1 in.txt.gz -o out.txt -- cat
    ended_with 65
    [ "$(grep -c "in.txt.gz: something that is not gzip follows" <<<"$output")" -eq 1 ]
    says_not "muster resume" "truncate"
    printf '{"a":1}\n{"a":' >cut.jsonl
    run limited sh -c '"$MUSTER" map -g cpu:1 --format jsonl - -o out.txt -- cat <cut.jsonl'
    ended_with 65
    says "stdin: the last record, at byte 8, is cut off"
    says_not "truncate" "muster resume"
    holds muster-runs/latest/orchestrator.log "the last record, at byte 8, is cut off"
}

@test "results that do not fit the output's format are safe, and the last line says how to get them" {
    printf '{"i":1}\n{"i":2}\n' >in.jsonl
    map -g cpu:1 in.jsonl -o out.csv -- jq -c --unbuffered '{"f\(.i)":1}'
    ended_with 65
    says "it has 'f2', which the first result has not"
    [[ $(tail -1 <<<"$output") == *"muster results "*"-o FILE"* ]]
    run limited "$MUSTER" results -o out.jsonl
    ended_with 0
    printf '{"f1":1}\n{"f2":1}\n' >want
    same out.jsonl want
}

@test "a file that cannot be read is refused by name" {
    [ "$(id -u)" -ne 0 ] || skip "root can read everything"
    seq 3 >in.txt
    chmod 000 in.txt
    map -g cpu:1 in.txt -o out.txt -- cat
    ended_with 2
    says "in.txt" "Permission denied"
}

@test "a file that shrinks while it is worked on ends the run with its name" {
    seq 200000 >in.txt
    worker slow <<'END'
#!/bin/sh
read -r n
echo "$n"
touch begun
until [ -e cut ]; do sleep 0.02; done
exec cat
END
    map_begin -g cpu:1 in.txt -o out.txt -- ./slow
    wait_for test -e begun
    head -c 1000 in.txt >short
    cat short >in.txt
    touch cut
    map_end
    [ "$status" -ne 0 ]
    says "in.txt"
    [ ! -e out.txt ]
}

@test "a file that vanishes between two sessions is refused by name" {
    seq 2000 >in.txt
    map_begin -g cpu:1 --grace 1s in.txt -o out.txt -- sh -c 'read -r n; echo $n; touch begun; sleep 1000'
    wait_for test -e begun
    kill -TERM "$PID"
    map_end
    ended_with 143
    mv in.txt away.txt
    run limited "$MUSTER" resume
    ended_with 2
    says "in.txt" "No such file"
}

@test "an output that is an input as well is refused, also with --force, and stays as it is" {
    seq 5 >in.txt
    cp in.txt copy.txt
    ln in.txt link.txt
    local output_name
    for output_name in in.txt ./in.txt link.txt; do
        map --force -g cpu:1 in.txt -o $output_name -- sed -u 's/^/x/'
        ended_with 2
        says "in.txt is the output as well"
    done
    same in.txt copy.txt
}

@test "places where nothing can be written are refused before anything is computed" {
    seq 3 >in.txt
    map -g cpu:1 in.txt -o in.txt/out.txt -- touch computed
    ended_with 2
    says "the output's folder in.txt is a file"
    map -g cpu:1 in.txt -o "" -- touch computed
    ended_with 2
    says "no output"
    map -g cpu:1 --runs-dir in.txt in.txt -o out.txt -- touch computed
    ended_with 2
    says "in.txt"
    map -g cpu:1 --runs-dir in.txt/runs in.txt -o out.txt -- touch computed
    ended_with 2
    says "in.txt/runs: Not a directory"
    [ ! -e computed ]
}

@test "a device as output is no file that exists, and nothing is put beside it" {
    echo '{"a":1}' >in.jsonl
    echo '{"a":' >>in.jsonl
    echo '{"a":2}' >>in.jsonl
    map -g cpu:1 in.jsonl -o /dev/null -- cat
    ended_with 1
    [ ! -e /dev/null.failed.jsonl ]
    [ -c /dev/null ]
    holds muster-runs/latest/failed.jsonl '"item":1'
}

@test "--limit 0 is refused in words that people use" {
    seq 3 >in.txt
    map -g cpu:1 --limit 0 in.txt -o out.txt -- cat
    ended_with 2
    says "--limit: 0 is too small, the least is 1"
}

@test "items from a terminal: it says that it waits for them" {
    $PYTHON - >said <<'END'
import os, pty, subprocess
ours, theirs = pty.openpty()
muster = subprocess.Popen([os.environ["MUSTER"], "map", "-g", "cpu:1", "-", "-o", "out.txt", "--", "cat"],
                          stdin=theirs, stderr=subprocess.PIPE, text=True)
print(muster.stderr.readline(), flush=True)
os.write(ours, b"one\ntwo\n\x04")
print(muster.communicate(timeout=30)[1], muster.returncode)
END
    cat said
    holds said "the items are read from the terminal; Ctrl-D"
    printf 'one\ntwo\n' >want.txt
    same out.txt want.txt
}

@test "--weight needs fields" {
    seq 3 >in.txt
    map -g cpu:1 --weight w in.txt -o out.txt -- cat
    ended_with 2
    says "--weight needs items with fields"
}

@test "the file of failed items is not taken as input where it would be replaced" {
    echo '{"a":1}' >out.jsonl.failed.jsonl
    map --force -g cpu:1 out.jsonl.failed.jsonl -o out.jsonl -- cat
    ended_with 2
    says "out.jsonl.failed.jsonl" "name another output"
    [ -e out.jsonl.failed.jsonl ]
}

@test "standard descriptors that are closed are not taken for files" {
    seq 2000 >in.txt
    local closed
    for closed in '<&-' '>&-' '2>&-' '<&- >&- 2>&-'; do
        rm -f out.txt
        run limited sh -c "\"\$MUSTER\" map --fresh -g cpu:2 in.txt -o out.txt -- sed -u 's/^/x/' $closed"
        ended_with 0
        sed 's/^/x/' in.txt >want.txt
        same out.txt want.txt
        [ "$(query 'pragma integrity_check')" = ok ]
    done
    run limited sh -c '"$MUSTER" map -g cpu:1 in.txt -o - -- cat >&-'
    ended_with 1
    says "stdout" "every result is safe"
    run limited sh -c '"$MUSTER" map -g cpu:1 - -o out2.txt -- cat <&-'
    [ "$status" -ne 0 ]
    says "standard input, is closed"
    [ ! -e out2.txt ]
}

@test "many workers get the descriptors that they need" {
    seq 400 >in.txt
    # shellcheck disable=SC2016
    run limited sh -c 'ulimit -Sn 64; "$MUSTER" map -g cpu:12 in.txt -o out.txt -- sh -c "while read -r n; do echo \$n; sleep 0.01; done"'
    ended_with 0
    same out.txt in.txt
    says_not "could not be started"
}

# ---- disk ----

@test "a limit on the size of files is like a full disk: 75, and it can be resumed" {
    seq 400000 >in.txt
    run limited sh -c 'ulimit -f 1000; "$MUSTER" map -g cpu:2 in.txt -o out.txt -- cat'
    ended_with 75
    says "muster resume"
    run limited "$MUSTER" resume
    ended_with 0
    same out.txt in.txt
}


@test "a disk that is full at the start: 75, no run, and the same command begins one" {
    mkdir disk
    mount -t tmpfs -o size=64k tmpfs disk 2>/dev/null || skip "needs root and a tmpfs mount"
    seq 5 >in.txt
    map -g cpu:1 --runs-dir disk/runs in.txt -o out.txt -- cat
    first=$status
    echo "$output" >first.txt
    map -g cpu:1 --run-dir disk/a/b in.txt -o out.txt -- cat
    second=$status
    left=$(ls -A disk disk/runs)
    mount -o remount,size=64m disk
    map -g cpu:1 --run-dir disk/a/b in.txt -o out.txt -- cat
    umount disk || umount -l disk
    cat first.txt
    [ "$first" -eq 75 ] && [ "$second" -eq 75 ]
    holds first.txt "no space is left on this disk; free some, then type the same command again"
    [ "$(grep -c "muster resume" first.txt)" -eq 0 ]
    [ "$left" = "disk:
runs

disk/runs:" ]
    ended_with 0
    same out.txt in.txt
}

@test "a limit on the size of files is called by its name" {
    seq 400000 >in.txt
    run limited sh -c 'ulimit -f 1000; "$MUSTER" map -g cpu:2 in.txt -o out.txt -- cat'
    ended_with 75
    says "the limit on the size of files is reached (ulimit -f)"
    says_not "no space" "File too large"
    rm -r muster-runs
    run limited sh -c 'ulimit -f 2; "$MUSTER" map -g cpu:2 in.txt -o out.txt -- cat'
    ended_with 75
    says "the limit on the size of files is reached (ulimit -f)"
}

@test "a --run-dir whose run could not begin is as it was" {
    seq 5 >in.txt
    printf '[1,' >bad.json
    map -g cpu:1 --run-dir a/b/c bad.json -o out.txt -- cat
    ended_with 65
    [ ! -e a ]
    mkdir a
    map -g cpu:1 --run-dir a bad.json -o out.txt -- cat
    ended_with 65
    [ -z "$(ls -A a)" ]
    echo mine >a/mine
    echo mine >a/orchestrator.log
    map -g cpu:1 --run-dir a bad.json -o out.txt -- cat
    ended_with 65
    same a/mine a/orchestrator.log
    [ ! -e a/run.db ] && [ ! -e a/logs ]
    map -g cpu:1 --run-dir a in.txt -o out.txt -- cat
    ended_with 0
}

@test "with --run-dir the cure is another --run-dir, for --fresh writes over no run" {
    seq 5 >in.txt
    map -g cpu:1 --run-dir run in.txt -o out.txt -- cat
    ended_with 0
    map -f --fresh -g cpu:1 --run-dir run in.txt -o out.txt -- cat
    ended_with 2
    says "run holds a run already, which nothing is written over" "another --run-dir"
    sqlite3 run/run.db "UPDATE facts SET value = 'stopped' WHERE key = 'state'"
    map -f -g cpu:1 --run-dir run in.txt -o out.txt -- cat
    says "going on with run (another --run-dir starts over)"
}

@test "a full disk: 75, and after making room a resume finishes" {
    mkdir disk
    mount -t tmpfs -o size=3m tmpfs disk 2>/dev/null || skip "needs root and a tmpfs mount"
    seq 100000 >in.txt
    map -g cpu:2 --runs-dir disk/runs in.txt -o out.txt -- sed -u 's/$/ and much more text to fill the disk with before it is done/'
    echo "$output" >first.txt
    first=$status
    mount -o remount,size=64m disk
    run limited "$MUSTER" resume --runs-dir disk/runs
    umount disk || umount -l disk
    cat first.txt
    [ "$first" -eq 75 ]
    holds first.txt "no space is left on this disk; free some"
    holds first.txt "muster resume"
    ended_with 0
    seq 100000 | sed 's/$/ and much more text to fill the disk with before it is done/' >want.txt
    same out.txt want.txt
}

@test "a full disk under the output: nothing lost, and a resume merges" {
    mkdir disk
    mount -t tmpfs -o size=1m tmpfs disk 2>/dev/null || skip "needs root and a tmpfs mount"
    seq 300000 >in.txt
    map -g cpu:2 in.txt -o disk/out.txt -- cat
    echo "$output" >first.txt
    first=$status
    left=$(ls -A disk)
    mount -o remount,size=64m disk
    run limited "$MUSTER" resume
    cmp disk/out.txt in.txt && equal=yes
    umount disk || umount -l disk
    cat first.txt
    [ "$first" -eq 75 ]
    [ -z "$left" ]
    holds first.txt "muster resume"
    ended_with 0
    [ "$equal" = yes ]
}

# ---- workers that break the rule ----

@test "a banner before the first result is noticed" {
    seq 200 >in.txt
    map -g cpu:1 in.txt -o out.txt -- sh -c 'echo "Loading model v1.2 ..."; exec sed -u "s/^/r/"'
    ended_with 1
    says "one line out for each line in" "Loading model v1.2"
    [ ! -e out.txt ]
}

@test "a log line between results is noticed, whenever it comes" {
    seq 200 >in.txt
    map -g cpu:2 in.txt -o out.txt -- awk '{print "r" $1; if ($1 == 120) print "WARNING: cache is full"; fflush()}'
    ended_with 1
    says "one line out for each line in"
    [ ! -e out.txt ]
}

@test "with JSONL, a line that is no object gives itself away at once" {
    records 200 >in.jsonl
    map -g cpu:1 in.jsonl -o out.jsonl -- awk 'NR == 50 {print "INFO: half way"} {print; fflush()}'
    ended_with 1
    says "INFO: half way"
    [ ! -e out.jsonl ]
}

@test "with --key, a stray line costs nothing but that worker's life" {
    records 60 >in.jsonl
    worker once <<'END'
#!/bin/sh
[ -e strayed ] || { touch strayed; echo "stray line"; }
exec cat
END
    map -g cpu:1 --key id in.jsonl -o out.jsonl -- ./once
    ended_with 0
    same out.jsonl in.jsonl
}

@test "with --key, stray lines of every worker are told by the rule of --key" {
    records 60 >in.jsonl
    map -g cpu:1 --key id in.jsonl -o out.jsonl -- awk '{print} NR == 5 {print "stray line"} {fflush()}'
    ended_with 1
    says "the worker breaks the rule of --key: each line out is a JSON object with its item's own value" "stray line"
    says_not "use --key" "one line out for each line in"
    [ ! -e out.jsonl ]
}

@test "a channel worker's breach is told in the channel's words" {
    seq 3 >in.txt
    pyworker breach <<'END'
import os
fd = int(os.environ["MUSTER_CHANNEL"])
os.write(fd, b'{"ready":1}\n')
os.read(fd, 65536)
os.write(fd, b'Loading weights ...\n')
os.read(fd, 65536)
END
    map -g cpu:1 in.txt -o out.jsonl -- ./breach
    ended_with 1
    says "muster: the worker breaks the protocol of the channel" "a message that is no JSON object: Loading weights ..."
    says_not "one line out for each line in"
}

@test "too few answers: the worker drops lines" {
    seq 100 >in.txt
    map -g cpu:2 in.txt -o out.txt -- awk '$1 % 10 {print; fflush()}'
    ended_with 1
    says "one line out for each line in"
    [ ! -e out.txt ]
}

@test "a worker that never answers is asked about, with the likely reason" {
    seq 10 >in.txt
    worker mute <<'END'
#!/bin/sh
while read -r n; do :; done
END
    map -g cpu:1 in.txt -o out.txt -- ./mute
    ended_with 1
    says "without an answer" "one line for each item"
}

@test "a filter that does not exit after its last answer is ended, and its results count" {
    seq 10 >in.txt
    map -g cpu:2 --grace 1s in.txt -o out.txt -- sh -c 'while read -r n; do echo "$n"; done; exec sleep 1000'
    ended_with 0
    same out.txt in.txt
    [ "$(query 'select count(*) from attempts')" -le 2 ]
}

@test "a worker that hangs without an answer is ended by --silence" {
    seq 10 >in.txt
    map -g cpu:1 --silence 500ms --retries 0 --grace 1s in.txt -o out.txt -- sh -c 'read -r n; echo $n; exec sleep 1000'
    [ "$status" -eq 1 ]
    [ -s out.txt.failed.jsonl ] || says "longer than"
}

@test "a worker that floods stderr fills no disk: --log-cap" {
    seq 20 >in.txt
    worker flood <<'END'
#!/bin/bash
timeout 1 yes 'a line of talk that nobody wants to read' >&2
exec cat
END
    map -q -g cpu:1 --log-cap 1MiB in.txt -o out.txt -- ./flood
    ended_with 0
    same out.txt in.txt
    [ "$(du -sk "$(run_dir)/logs" | cut -f1)" -le 4096 ]
}

@test "logs --stdout --stderr prints both" {
    echo x >in.txt
    map -q -g cpu:1 --items 1 --collect out.part -o out.txt -- sh -c 'echo said; echo told >&2; echo {start} >out.part'
    ended_with 0
    run "$MUSTER" logs --stdout --stderr
    says "[cpu 0] said" "[cpu 0] told"
    run "$MUSTER" logs --stdout
    says_not "[cpu 0] told"
    run "$MUSTER" logs --stderr
    says_not "[cpu 0] said"
}

@test "logs says that the oldest lines were deleted at --log-cap, before the first line that is left" {
    echo x >in.txt
    map -q -g cpu:1 --log-cap 4KiB in.txt -o out.txt -- sh -c 'seq 400 >&2; exec cat' # two files of it are enough
    ended_with 0
    run "$MUSTER" logs
    [ "${lines[1]}" = "[cpu 0] 1" ]
    [[ $output != *deleted* ]]
    map -q -g cpu:1 --log-cap 4KiB in.txt -o out2.txt -- sh -c 'seq 4000 >&2; exec cat'
    ended_with 0
    run "$MUSTER" logs
    [ "${lines[0]}" = "[cpu 0] ==> the oldest lines of this log were deleted (--log-cap) <==" ]
    says "[cpu 0] 4000"
    run "$MUSTER" logs latest cpu_0
    says "[cpu 0] ==> the oldest lines of this log were deleted (--log-cap) <=="
    grep -q 'the oldest lines of this log were deleted (--log-cap)' "$(run_dir)/logs/cpu_0_stderr.log"
}

@test "a flood of stderr on the console is bounded as well" {
    seq 20 >in.txt
    map -g cpu:1 --log-cap 1MiB in.txt -o out.txt -- bash -c 'timeout 0.5 seq 100000000 >&2; exec cat'
    ended_with 0
    [ "${#output}" -le 3000000 ]
}

@test "a worker that closes its stdin early" {
    seq 100 >in.txt
    map -g cpu:1 --grace 1s in.txt -o out.txt -- sh -c 'read -r n; echo $n; exec <&-; exec sleep 1000'
    ended_with 1
    says "closed its"
    [ ! -e out.txt ]
}

@test "a worker that exits 0 early" {
    seq 100 >in.txt
    map -g cpu:2 in.txt -o out.txt -- sh -c 'read -r n; echo $n'
    [ "$status" -le 1 ]
    if [ "$status" -eq 0 ]; then same out.txt in.txt; else says "muster"; fi
}

@test "a worker that exits 0 at once without reading" {
    seq 100 >in.txt
    map -g cpu:2 in.txt -o out.txt -- true
    ended_with 1
    says "status 0"
    [ ! -e out.txt ]
}

@test "a channel worker that exits 0 early is started again" {
    seq 0 99 >in.txt
    pyworker thirty <<'END'
import muster, sys
for n, item in enumerate(muster.items()):
    item.done(item.index)
    if n == 29:
        sys.exit(0)
END
    map -g cpu:2 in.txt -o out.jsonl -- ./thirty
    ended_with 0
    seq 0 99 >want.jsonl
    same out.jsonl want.jsonl
}

@test "a worker that leaves children and daemons behind" {
    seq 20 >in.txt
    worker parent <<'END'
#!/bin/bash
sleep 1000 &
setsid sleep 1000 >/dev/null 2>&1 </dev/null &
disown -a
exec cat
END
    map -g cpu:2 --grace 1s in.txt -o out.txt -- ./parent
    ended_with 0
    same out.txt in.txt
    nobody_is_left
}

@test "children that keep stdout open do not keep muster waiting" {
    seq 20 >in.txt
    map -g cpu:1 --grace 1s in.txt -o out.txt -- bash -c 'sleep 1000 & cat'
    ended_with 0
    same out.txt in.txt
}

# ---- filters that buffer ----

finishes_fast() {
    seq 20000 >in.txt
    local begin=$EPOCHREALTIME
    map -g cpu:2 in.txt -o out.txt -- "$@"
    ended_with 0
    seq 20000 | "$@" >want.txt
    same out.txt want.txt
    local ms=$(((${EPOCHREALTIME/./} - ${begin/./}) / 1000))
    echo "$ms ms"
    [ $ms -lt 12000 ]
}

@test "awk, which buffers" { finishes_fast awk '{print $1 * 2}'; }
@test "sed, which buffers" { finishes_fast sed 's/$/!/'; }
@test "tr, which buffers" { finishes_fast tr 0-9 a-j; }
@test "cut, which buffers" { finishes_fast cut -c1; }
@test "grep, which buffers" { finishes_fast grep ''; }
@test "Python without flush" {
    pyworker unflushed <<'END'
import sys
for line in sys.stdin:
    sys.stdout.write(line.upper())
END
    finishes_fast env -u PYTHONUNBUFFERED ./unflushed
}

@test "jq, which buffers" {
    records 5000 >in.jsonl
    map -g cpu:2 in.jsonl -o out.jsonl -- jq -c '{n: .id}'
    ended_with 0
    jq -c '{n: .id}' in.jsonl >want.jsonl
    same out.jsonl want.jsonl
}

@test "a slow filter that buffers ends, too" {
    seq 60 >in.txt
    pyworker slow_unflushed <<'END'
import sys, time
for line in sys.stdin:
    time.sleep(0.01)
    sys.stdout.write("r" + line)
END
    map -g cpu:2 in.txt -o out.txt -- env -u PYTHONUNBUFFERED ./slow_unflushed
    ended_with 0
    seq 60 | sed 's/^/r/' >want.txt
    same out.txt want.txt
}

@test "a filter that answers only at the end of its input" {
    seq 5000 >in.txt
    map -g cpu:2 in.txt -o out.txt -- $PYTHON -c 'import sys; sys.stdout.write("".join("r" + l for l in sys.stdin.readlines()))'
    ended_with 0
    seq 5000 | sed 's/^/r/' >want.txt
    same out.txt want.txt
}

# ---- what is no text, and what is very wide ----

# head_of NAME MAGIC: a file that begins like one of that format.
head_of() { printf '%b\0\0\0\0rest of it\nmore\n' "$2" >"$1"; }

@test "files that are no text are refused by what they begin with, and taken as lines when told so" {
    local name magic word
    while read -r name magic word; do
        head_of "$name" "$magic"
        map -g cpu:1 "$name" -o out.jsonl -- cat
        ended_with 65
        says "$name is $word"
        [ ! -e out.jsonl ]
    done <<'END'
h.parquet PAR1 Parquet
h.jsonl PAR1 Parquet
table.arrow ARROW1 Arrow
packed.csv \x1f\x8b\x08 compressed by gzip
packed.txt \x28\xb5\x2f\xfd compressed by zstd
book.xlsx PK\x03\x04 a zip file
END
    map -g cpu:1 h.parquet --format lines -o out.txt -- cat
    ended_with 0
    echo 'PAR1 is how Parquet begins' >text.txt
    map -g cpu:1 text.txt -o text.out -- cat
    ended_with 0
    run "$MUSTER" merge h.parquet -o merged.jsonl
    ended_with 65
    says "h.parquet is Parquet"
    run "$MUSTER" split h.parquet -n 2 -o parts/
    ended_with 65
    says "h.parquet is Parquet"
}

@test "an output is not given the name of a format that muster does not write" {
    local name
    echo a >in.txt
    for name in h.parquet h.arrow h.xlsx h.pt h.npz; do
        map -g cpu:1 in.txt -o $name -- cat
        ended_with 2
        says "results are not written as .${name#h.}"
        run "$MUSTER" merge in.txt -o $name
        ended_with 2
        [ ! -e $name ]
    done
    map -g cpu:1 in.txt -o h.pt --format-out jsonl -- cat
    ended_with 0
    [ "$(cat h.pt)" = '"a"' ]
}

@test "a compressed file of no bytes was cut off; one of nothing is empty" {
    : >cut.gz
    : >cut.zst
    local name
    for name in cut.gz cut.zst; do
        map -g cpu:1 $name -o out.txt -- cat
        ended_with 65
        says "$name is empty, which no compressed file is"
        run "$MUSTER" merge $name -o out.txt
        ended_with 65
    done
    gzip </dev/null >nothing.gz
    map -g cpu:1 nothing.gz -o out.txt -- cat
    ended_with 0
    [ ! -s out.txt ]
}

@test "the ending of a compressed file may be in capitals" {
    printf '{"a":1}\n{"a":2}\n' | gzip >IN.JSONL.GZ
    map -g cpu:1 -o out.jsonl IN.JSONL.GZ -- cat
    ended_with 0
    [ "$(cat out.jsonl)" = $'{"a":1}\n{"a":2}' ]
    map -g cpu:1 -o out.GZ IN.JSONL.GZ -- cat
    ended_with 2
    says "the output is not packed"
}

@test "malformed devices and variables are refused by every verb that starts workers, before anything is looked at" {
    local verb
    for verb in "map -o out.txt nothing" "each " "launch --no-python"; do
        run limited "$MUSTER" ${verb%% *} -g cpu:many ${verb#* } -- true
        ended_with 2
        says "devices 'cpu:many': expected a whole number"
        run limited "$MUSTER" ${verb%% *} --env =1 ${verb#* } -- true
        ended_with 2
        says "--env: expected NAME=VALUE or NAME, found '=1'"
    done
    run limited "$MUSTER" each -g 0,1,2 --gpus-per-worker 2 -- true
    ended_with 2
    says "name 2 or 4"
}

@test "twenty thousand columns take no more time than as many cells elsewhere" {
    $PYTHON - <<'END'
n = 20000
with open("wide.csv", "w") as file, open("turned.csv", "w") as turned:
    file.write(",".join("c%d" % i for i in range(n)) + "\n")
    turned.write(",".join("c%d" % i for i in reversed(range(n))) + "\n")
    for row in range(5):
        file.write(",".join(str(row + i) for i in range(n)) + "\n")
        turned.write(",".join(str(row + i) for i in reversed(range(n))) + "\n")
END
    # Before: 1 s, 50 s and 2 s of processor time.
    (ulimit -t 5; "$MUSTER" map -q -g cpu:1 wide.csv -o out.csv -- cat)
    same out.csv wide.csv
    (ulimit -t 10; "$MUSTER" map -q -g cpu:1 wide.csv --join -o joined.jsonl -- cat)
    [ "$(wc -l <joined.jsonl)" -eq 5 ]
    (ulimit -t 5; "$MUSTER" merge -q wide.csv turned.csv -o merged.csv)
    [ "$(sed -n 2p merged.csv)" = "$(sed -n 7p merged.csv)" ]
}
