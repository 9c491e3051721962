# SPDX-License-Identifier: Apache-2.0
#
# What the fuzzers found, as a user would meet it.
load helpers

@test "files whose names are not UTF-8 are read, written and resumed" {
    seq 20 >$'in\xff.txt'
    map -g cpu:1 $'in\xff.txt' -o $'out\xfe.txt' -- cat
    ended_with 0
    same $'in\xff.txt' $'out\xfe.txt'
    map -g cpu:1 --retries 0 $'in\xff.txt' -o other.txt -- sh -c 'read -r a; [ -e on ] || exit 1; echo $a; exec cat'
    touch on
    run limited "$MUSTER" resume --retry-failed
    ended_with 0
    same $'in\xff.txt' other.txt
}

@test "two messages on one line are said to be malformed, and no item is waited for in vain" {
    pyworker glued <<'END'
import json, os, socket
channel = socket.socket(fileno=int(os.environ["MUSTER_CHANNEL"]))
channel.sendall(b'{"ready":2}\n')
held = []
for line in channel.makefile("rb"):
    held += [m["item"] for m in [json.loads(line)] if "item" in m]
    if len(held) == 2 or os.path.exists("glued_once"):
        open("glued_once", "w").close()
        channel.sendall(b"".join(b'{"done":%d,"result":%d}' % (item, item) for item in held) + b"\n")
        held = []
END
    seq 2 >in.txt
    map -g cpu:1 --retries 0 in.txt -o out.jsonl -- ./glued
    ended_with 0
    says "a message that is no JSON object"
    [ "$(sort out.jsonl | tr -d '\n')" = 01 ]
}

@test "a manifest without an output, or without options, is no crash" {
    seq 5 >in.txt
    map -g cpu:1 in.txt -o out.txt -- cat
    ended_with 0
    manifest=$(run_dir)/manifest.json
    cp "$manifest" whole.json
    jq 'del(.output)' whole.json >"$manifest"
    run limited "$MUSTER" resume
    ended_with 65
    says "names no output or no command"
    run limited "$MUSTER" results
    [ "$status" -ne 139 ] && [ "$status" -ne 134 ]
    jq '.options = 3' whole.json >"$manifest"
    run limited "$MUSTER" resume
    ended_with 65
    says "is not a manifest that this muster understands"
}

@test "a ledger that says what no muster writes is refused, not believed" {
    seq 5 >in.txt
    map -g cpu:1 --keep-parts in.txt -o out.txt -- cat
    query 'update ranges set count = 9000000000000000000, first = 3; update facts set value = "stopped" where key = "state"'
    rm out.txt
    run limited "$MUSTER" resume
    ended_with 65
    says "item 5 has a result, but there are only 5 items"
    seq 5 >again.txt
    map -g cpu:1 --longest-first --retries 0 again.txt -o other.txt -- sh -c 'read -r a; exit 1'
    query 'insert or replace into ranges (first, count, part, offset, bytes, seat, attempt, seq) values (3, 9000000000000000000, 1, 0, 5, 0, 1, 1)'
    echo abcd >"$(run_dir)/parts/1.part"
    run limited "$MUSTER" resume --retry-failed
    ended_with 65
    says "but there are only 5 items"
}
