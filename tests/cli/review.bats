#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What a second reading found: each test failed once.
load helpers

@test "half a line of a filter that was killed is not an answer" {
    seq 6 >in.txt
    pyworker killed <<'END'
import os, signal, sys
lines = "".join("result-" + line for line in sys.stdin)
if not os.path.exists("again"):
    open("again", "w").close()
    os.write(1, lines[:-4].encode())
    os.kill(os.getpid(), signal.SIGKILL)
os.write(1, lines.encode())
END
    map -g cpu:1 in.txt -o out.txt -- ./killed
    ended_with 0
    sed 's/^/result-/' in.txt >want.txt
    same out.txt want.txt
}

@test "--detach keeps standard input as the input" {
    seq 20 | limited "$MUSTER" map -d -g cpu:1 --run-dir run - -o out.txt -- sed -u s/^/x/
    wait_for has_lines out.txt 20
    seq 20 | sed s/^/x/ >want.txt
    same out.txt want.txt
}

@test "--detach refuses standard output as the output" {
    seq 5 >in.txt
    map -d -g cpu:1 in.txt -o - -- cat
    ended_with 2
    says "--detach" "-o FILE"
    [ ! -e muster-runs ]
}

@test "muster stop --now after muster stop ends the workers" {
    seq 5 >in.txt
    worker stuck <<'END'
#!/bin/sh
read -r line; echo "$line"; while read -r line; do touch stuck_on; sleep 1000; done
END
    map_begin -g cpu:1 --run-dir run in.txt -o out.txt -- ./stuck
    wait_for test -e stuck_on
    run limited "$MUSTER" stop --no-wait run
    wait_for holds run/orchestrator.log "finishing what is in flight"
    run limited "$MUSTER" stop --now run
    ended_with 0
    map_end
    ended_with 75
}

@test "an item whose number is no number breaks the protocol, and is not waited for" {
    seq 3 >in.txt
    pyworker wrong <<'END'
import json, os, socket
channel = socket.socket(fileno=int(os.environ["MUSTER_CHANNEL"]))
channel.sendall(b'{"ready":1}\n')
for line in channel.makefile("rb"):
    message = json.loads(line)
    if "item" in message:
        done = {"done": str(message["item"]), "result": 1}
        channel.sendall(json.dumps(done).encode() + b"\n")
END
    map -g cpu:1 in.txt -o out.txt -- ./wrong
    ended_with 1
    says '"done"'
}

# An interrupted run of some command: its words are those of map_begin.
interrupted() {
    rm -f go begun
    worker slow <<'END'
#!/bin/sh
while read -r n; do touch begun; [ -e go ] || sleep 0.05; echo "$n"; done
END
    map_begin "$@"
    wait_for test -e begun
    kill -INT "$PID"
    map_end
    ended_with 130
    touch go
}

@test "the same output from fewer inputs is other work" {
    seq 5 >a.txt
    seq 200 >b.txt
    interrupted -g cpu:1 a.txt b.txt -o out.txt -- ./slow
    map -g cpu:1 a.txt -o out.txt -- ./slow
    ended_with 0
    says_not "going on with"
    same out.txt a.txt
}

@test "the same command with another limit, seed or batching is other work; with other devices it is not" {
    seq 200 >in.txt
    interrupted -g cpu:1 in.txt -o out.txt -- ./slow
    map -g cpu:1 -n 7 in.txt -o out.txt -- ./slow
    says_not "going on with"
    rm out.txt
    map -g cpu:1 --seed 7 in.txt -o out.txt -- ./slow
    says_not "going on with"
    rm out.txt
    map -g cpu:1 --batch 2 --fixed-batches in.txt -o out.txt -- ./slow
    says_not "going on with"
    rm out.txt
    map -g cpu:2 --retries 7 in.txt -o out.txt -- ./slow
    ended_with 0
    says "going on with"
    same out.txt in.txt
}

@test "--key with --fixed-batches comes to an end" {
    records 30 >in.jsonl
    map -g cpu:2 --key id --batch 4 --fixed-batches in.jsonl -o out.jsonl -- jq -c --unbuffered .
    ended_with 0
    same out.jsonl in.jsonl
}
