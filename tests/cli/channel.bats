#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What workers say that is not in the protocol: no message ends the run, whatever it is.
load helpers

# speaker NAME <<'END': a worker with the socket in hand. `say` sends bytes, `items` are the messages with an
# item, asked for one by one.
speaker() {
    {
        cat <<'END'
import json, os, socket, sys
channel = socket.socket(fileno=int(os.environ["MUSTER_CHANNEL"]))
say = channel.sendall
def items(ask=b'{"ready":1}\n'):
    say(ask)
    for line in channel.makefile("rb"):
        message = json.loads(line)
        if "item" in message:
            yield message
            say(ask)
END
        cat
    } | pyworker "$1"
}

# Of each message what becomes of its item: a text that is in its reason, or done.
@test "no message ends the run: each kind, wrong in each way" {
    cat >cases.py <<'END'
DEEP = 100000
RESULT = [  # the value of "result", as it stands in the message
    (b'NaN', "it has NaN or infinity"), (b'{"a":[-Infinity]}', "it has NaN or infinity"), (b'"\xff"', "it is not UTF-8"),
    (b'"\xed\xa0\x80"', "it is not UTF-8"), (b'"a\0b"', "control character"), (b'"\\x"', "wrong escape"),
    (b'nope', "no JSON"), (b'[1,]', "no JSON"), (b'', "no JSON"), (b'01', "no JSON"),
    (b'[' * DEEP + b']' * DEEP, "nested deeper than 512 levels"), (b'{"a":' * DEEP + b'1' + b'}' * DEEP, "nested deeper"),
    (b'"\\ud800"', "done"), (b'1e400', "done"), (b'-0', "done"), (b'10000000000000000000001', "done"), (b'{"a":1,"a":2}', "done"),
    (b'"' + b'x' * 3000000 + b'"', "done"),
]
NUMBER = [  # of an item: what is not its number
    b'"%d"', b'-1', b'%d.5', b'null', b'true', b'[%d]', b'{}', b'1e-400', b'-1e400', b'NaN', b'""',
]
CASES = [("result", b'{"done":%d,"result":' + value + b'}', outcome) for value, outcome in RESULT]
CASES += [("result first", b'{"result":' + value + b',"done":%d}', outcome) for value, outcome in RESULT]
CASES += [("done", b'{"done":' + value + b',"result":1}', "not the number of an item" if value != b'NaN' else "has NaN") for value in NUMBER]
CASES += [("fail", b'{"fail":' + value + b'}', "not the number of an item" if value != b'NaN' else "has NaN") for value in NUMBER]
CASES += [("ready", b'{"ready":' + value.replace(b'%d', b'4') + b'}', "no whole number from 0 on" if value != b'NaN' else "has NaN") for value in NUMBER]
CASES += [("another spelling", b'{"done":' + value + b',"result":1}', "done") for value in (b'%d.0', b'%de0', b'%d0e-1')]
DONE = b'{"done":%d,"result":1}'
CASES += [("beside it", value + b'\n' + DONE, "done") for value in (
    b'{"ready":0}', b'{"ready":-0}', b'{"ready":0.0}', b'{"ready":1.0}', b'{"ready":4.0}', b'{"ready":40e-1}', b'{"loaded":true}', b'{"loaded":false}', b'{"oom":false,"batch":8}',
    b'{"oom":true,"batch":"8"}', b'{"oom":true,"batch":1e400}', b'{"oom":null}', b'{}', b'{"hello":1}', b'   ', b'{"batch":4}', b'{"metrics":{}}',
    b'{"done":99999999,"result":1}', b'{"done":1e400,"result":1}', b'{"fail":99999999}', b'{"' + b'n' * 100000 + b'":1}', b'{"\\u0072eady":0}')]
CASES += [("metrics", b'{"done":%d,"result":1,"metrics":' + value + b'}', "done") for value in (
    b'{"a":1}', b'{"a":"b"}', b'{"a":1e400}', b'[1]', b'null', b'{"' + b'a' * 300 + b'":1}', b'{"a":{}}',
    b'{' + b','.join(b'"m%d":1' % i for i in range(40)).replace(b'%', b'%%') + b'}')]
CASES += [("metrics", b'{"done":%d,"result":1,"metrics":{"a":NaN}}', "it has NaN")]
CASES += [("error", b'{"fail":%d,"error":' + value + b'}', outcome) for value, outcome in (
    (b'"why \\u00e9 \\ud800 \\u0001"', "why"), (b'{"code":5}', '{"code":5}'), (b'null', "null"), (b'""', "failed"), (b'"\xff"', "it is not UTF-8"),
    (b'"' + b'e' * 3000000 + b'"', "eeee"))]
CASES += [("retry", b'{"fail":%d,"error":"no","retry":"maybe"}', "no")]
CASES += [("unreadable", value, outcome) for value, outcome in (
    (b'garbage', "no JSON object"), (b'[1]', "no JSON object"), (b'17', "no JSON object"), (b'"done"', "no JSON object"), (b'null', "no JSON object"),
    (b'{"done":%d,"result":1', "no JSON object"), (b'{"done":%d,"result":"a', "no JSON object"), (b'\xff\xfe{\0', "no JSON object"), (b'{', "no JSON object"),
    (DONE + DONE.replace(b'%d', b'1'), "no JSON object"), (b'[' * DEEP, "no JSON object"), (b'{"a":' * DEEP, "no JSON object"),
    (b'{"done":%d,"fail":1}', "both"), (b'{"result":1}', "without the number"), (b'{"error":"x"}', "without the number"), (b'{"a":NaN}', "has NaN"), (b'{"loaded":NaN}', "has NaN"),
    (b'{"done":%d,"done":1,"result":1}', "a member twice"), (b'{"done":%d,"result":1,"result":2}', "a member twice"),
    (b'{"done":%d,"\\u0072esult":1,"result":2}', "a member twice"), (b'{"ready":1,"ready":2}', "a member twice"))]
ALL = [case for bad in CASES for case in (bad, ("good", DONE, "done"))]
END
    speaker hostile <<'END'
import cases
for message in items():
    name, text, _ = cases.ALL[message["item"]]
    number = b"%d" % message["item"]
    say(text.replace(b"%d", number).replace(b"%%", b"%") + b"\n")
END
    cat >check.py <<'END'
import json, cases
failed = {line["item"]: line["reason"] for line in map(json.loads, open("out.jsonl.failed.jsonl"))}
for item, (name, text, outcome) in enumerate(cases.ALL):
    found = failed.get(item, "done")
    assert outcome in found and (outcome == "done") == (found == "done"), (item, name, text[:90], outcome, found)
print(len(cases.ALL), "messages")
END
    $PYTHON -c 'import cases; print("\n".join(map(str, range(len(cases.ALL)))))' >in.txt
    map -g cpu:4 --retries 0 in.txt -o out.jsonl -- ./hostile
    ended_with 1
    printf '%s\n' "$output" >said
    for words in "which is not in the protocol, is ignored" "which it was not given, is dropped" \
        "or is the 17th, is not summed" "is not summed: the sum is no finite number" "is neither true nor false" "that is not true is ignored"; do
        [ "$(grep -cF -- "$words" said)" = 1 ] || { echo "$words"; false; }
    done
    run $PYTHON check.py
    ended_with 0
}

@test "a worker that asks for more than it reads costs no memory" {
    awk 'BEGIN { s = "x"; while (length(s) < 1000000) s = s s; for (i = 0; i < 400; i++) print substr(s, 1, 1000000) }' </dev/null >in.txt
    speaker greedy <<'END'
import time
say(b'{"ready":100000}\n')
time.sleep(3)
for line in channel.makefile("rb"):
    message = json.loads(line)
    if "item" in message:
        say(b'{"done":%d,"result":{}}\n' % message["item"])
END
    measured
    run limited ./measured "$MUSTER" map -g cpu:1 in.txt -o out.jsonl -- ./greedy
    ended_with 0
    [ "$(wc -l <out.jsonl)" -eq 400 ]
    [[ $output =~ peak\ ([0-9]+)\ MiB ]]
    # Of 400 MB; 40 MiB, and 90 if memory that is freed is written to (MALLOC_PERTURB_). A sanitizer takes more.
    [ -z "${DEAD_FS:-}" ] || [ "${BASH_REMATCH[1]}" -le 150 ]
}

@test "a message or line without an end costs its item and no memory" {
    seq 0 3 | sed 's/.*/{"id":&}/' >in.jsonl
    seq 0 3 >in.txt
    speaker endless <<'END'
for message in items():
    if message["item"] == 1:
        say(b'{"done":1,"result":"')
        while True:
            say(b"x" * 1000000)
    say(b'{"done":%d,"result":{}}\n' % message["item"])
END
    speaker nameless <<'END'
for message in items():
    while message["item"] == 1:
        say(b"x" * 1000000)
    say(b'{"done":%d,"result":{}}\n' % message["item"])
END
    pyworker pour <<'END'
import sys
for line in sys.stdin:
    while "1" in line:
        sys.stdout.write("x" * 1000000)
    sys.stdout.write(line)
    sys.stdout.flush()
END
    measured
    local input worker
    for worker in "in.jsonl ./endless" "in.jsonl ./nameless" "in.jsonl ./pour" "in.txt ./pour"; do
        read -r input worker <<<"$worker"
        run limited ./measured "$MUSTER" map --fresh -f -g cpu:1 --retries 0 --line-max 16MiB "$input" -o out.jsonl -- "$worker"
        ended_with 1
        [ "$(jq -c '[.item, .attempts]' out.jsonl.failed.jsonl)" = '[1,1]' ]
        grep -q "longer than 16.0 MiB (--line-max)" out.jsonl.failed.jsonl
        [ "$(wc -l <out.jsonl)" -eq 3 ]
        [[ $output =~ peak\ ([0-9]+)\ MiB ]]
        [ -z "${DEAD_FS:-}" ] || [ "${BASH_REMATCH[1]}" -le 80 ] # a sanitizer takes more
    done
    map -g cpu:1 --line-max 1KiB in.txt -o other.txt -- cat
    ended_with 2
    says "--line-max"
}

@test "answers that are too long cost their items, not the devices" {
    seq 0 299 >in.txt
    pyworker long <<'END'
import sys
for line in sys.stdin:
    n = int(line)
    print("x" * (300000 if n // 12 == 10 else 1), flush=True)
END
    speaker babbler <<'END'
for message in items():
    say(b"what?\n" if message["item"] // 12 == 10 else b'{"done":%d,"result":{}}\n' % message["item"])
END
    local filter
    for filter in long babbler; do
        map --fresh -f -g cpu:2 --line-max 64KiB in.txt -o out.txt -- ./$filter
        ended_with 1
        says_not "no device is left"
        [ "$(jq '.item / 12 | floor' out.txt.failed.jsonl | sort | uniq -c | xargs)" = "12 10" ]
        [ "$(wc -l <out.txt)" -eq 288 ]
    done
}

@test "what is as long as --line-max allows is taken" {
    seq 0 1 >in.txt
    speaker long <<'END'
for message in items():
    head = b'{"done":%d,"result":"' % message["item"]
    say(head + b"x" * (65536 + message["item"] - len(head) - 2) + b'"}\n')
END
    map -g cpu:1 --retries 0 --line-max 64KiB in.txt -o out.jsonl -- ./long
    ended_with 1
    [ "$(jq -c .item out.jsonl.failed.jsonl)" = 1 ]
    [ "$(wc -l <out.jsonl)" -eq 1 ]
}

@test "a filter's line that is JSON but for NaN fails its item, and the others keep their places" {
    seq 0 299 | sed 's/.*/{"id":&}/' >in.jsonl
    pyworker score <<'END'
import json, sys
for line in sys.stdin:
    i = json.loads(line)["id"]
    if i % 100 == 99:
        sys.stdout.buffer.write(b'{"id":%d,"text":"\xff"}\n' % i)
    else:
        print(json.dumps({"id": i, "loss": float("nan") if i % 100 == 7 else i}), flush=True)
    sys.stdout.flush()
END
    local key
    for key in "" "--key id"; do
        # shellcheck disable=SC2086
        map --fresh -f -g cpu:2 --retries 0 $key in.jsonl -o out.jsonl -- ./score
        ended_with 1
        says_not "is ended"
        [ "$(jq .item out.jsonl.failed.jsonl | wc -l)" -eq 6 ]
        [ "$(jq -r 'select(.item % 100 == 7) | .reason' out.jsonl.failed.jsonl | grep -c "NaN or infinity")" -eq 3 ]
        [ "$(jq -r 'select(.item % 100 == 99) | .reason' out.jsonl.failed.jsonl | grep -c "not UTF-8")" -eq 3 ]
        jq -e 'select(.id != .loss)' out.jsonl && false
        [ "$(wc -l <out.jsonl)" -eq 294 ]
    done
}

@test "text that cannot become JSON or CSV fails its item, not the output" {
    seq 0 1999 >in.txt
    local out
    for out in out.jsonl out.json; do
        map -f -g cpu:2 --retries 0 in.txt -o $out -- perl -pe 's/^(.*)37$/$1\xff/'
        ended_with 1
        [ "$(wc -l <$out.failed.jsonl)" -eq 20 ]
        [ "$(jq .item $out.failed.jsonl | awk '$1 % 100 != 37' | wc -l)" -eq 0 ]
        jq -r .reason $out.failed.jsonl | grep -q "not UTF-8, which JSON and CSV need"
    done
    [ "$(jq length out.json)" -eq 1980 ]
    jq -r . out.jsonl >found
    awk '$1 % 100 != 37' in.txt >want
    same found want
    map -g cpu:2 in.txt -o out.txt -- perl -pe 's/37$/\xff/'
    ended_with 0
}

@test "a filter may fail its first line and its last" {
    printf '{"id":0}\n{"id":1}\n{"id":2}\n' >in.jsonl
    map -g cpu:1 --retries 0 in.jsonl -o out.jsonl -- sed -u '1s/0/NaN/; 3s/2/NaN/'
    ended_with 1
    [ "$(cat out.jsonl)" = '{"id":1}' ]
    map --fresh -g cpu:1 --retries 0 in.jsonl -o all.jsonl -- sed -u 's/:./:NaN/'
    ended_with 1
    [ "$(wc -l <all.jsonl.failed.jsonl)" -eq 3 ]
}

@test "a run waits for descriptors without turning round" {
    seq 0 9 >in.txt
    pyworker patient <<'END'
import muster
for item in muster.items():
    item.done(item.index)
END
    holding_worker
    map_begin -g cpu:1 --channel-path in.txt -o out.jsonl -- sh -c 'touch holding; until [ -e go ]; do sleep 0.02; done; exec ./patient'
    wait_for test -e holding
    prlimit --pid "$PID" --nofile=3:4096
    touch go
    wait_for holds said "its connection waits"
    before=$(cut -d' ' -f14,15 "/proc/$PID/stat")
    sleep 1
    after=$(cut -d' ' -f14,15 "/proc/$PID/stat")
    prlimit --pid "$PID" --nofile=1024:4096
    map_end
    ended_with 0
    [ "$(wc -l <out.jsonl)" -eq 10 ]
    # In hundredths of a second of CPU time; turning round takes all there is.
    [ $((${after% *} + ${after#* } - ${before% *} - ${before#* })) -le 30 ]
}

@test "an item that kills is found in as few lives as its place in a batch allows, and the rest goes on" {
    pyworker batches <<'END'
import os, sys

import muster

muster.loaded()
for batch in muster.batches(2):
    if any(item.data == sys.argv[1] for item in batch):
        os._exit(3)
    for item in batch:
        item.done(int(item.data))
END
    seq 0 59 >in.txt
    local poison
    for poison in 4 5; do
        map -g cpu:1 -r 0 in.txt -o out$poison.jsonl -- ./batches $poison
        ended_with 1
        [ "$(wc -l <out$poison.jsonl)" -eq 59 ]
        [ "$(query "SELECT count(*) FROM attempts")" -le 4 ]
    done
}

@test "a channel worker that dies before its first result is told with its last words" {
    local hint="no worker gave a single result on any device; is the command right? (its worker's end: "
    seq 8 >in.txt
    # ended LINE SENTENCE: what a worker with this line ends with, without a word about the protocol
    ended() {
        printf '#!/usr/bin/env python3\nimport muster\n%s\n' "$1" >dies
        chmod +x dies
        for devices in cpu:1 cpu:2; do
            map --fresh -q -g $devices in.txt -o out.jsonl -- ./dies
            ended_with 1
            says "$hint$2"
            says_not "protocol" "closed its input"
        done
    }
    ended 'import nosuch' "status 1: ModuleNotFoundError: No module named 'nosuch'); go on with"
    ended 'for item in muster.items(): raise KeyError(item.data)' "status 1: KeyError: "
    ended 'muster.loaded(); raise SystemExit(7)' "status 7); go on with"
    ended 'raise SystemExit(0)' "status 0 without an answer: it spoke over the channel"
    # a filter that did not say that it is one
    ended 'import sys; [print(line) for line in sys.stdin]' "status 0 without an answer: it spoke over the channel"
    says "a filter that imports muster calls muster.claim_stdout())"
}

@test "a breach is told although its worker then dies, and a later death although there was a breach" {
    seq 8 >in.txt
    pyworker babbles <<'END'
import os, sys
os.write(int(os.environ["MUSTER_CHANNEL"]), b'{"ready":1}\nhello\n')
sys.exit("then this")
END
    map -q -g cpu:1 in.txt -o out.jsonl -- ./babbles
    ended_with 1
    says "the worker breaks the protocol of the channel, see muster-worker(7) (a message that is no JSON object: hello)"
    pyworker closes <<'END'
import os, time
fd = int(os.environ["MUSTER_CHANNEL"])
os.write(fd, b'{"ready":1}\n')
os.read(fd, 65536)
os.close(fd)
time.sleep(60)
END
    map -q -g cpu:1 in.txt -o closed.jsonl -- ./closes
    ended_with 1
    says "the worker breaks the protocol of the channel, see muster-worker(7) (it closed the channel, and did not end)"
    pyworker later <<'END'
import os, sys
if os.environ["MUSTER_ATTEMPT"] == "1":
    os.write(int(os.environ["MUSTER_CHANNEL"]), b'{"ready":0}\nhello\n')
    os.read(int(os.environ["MUSTER_CHANNEL"]), 65536)
sys.exit("the model is not there")
END
    map -q -g cpu:1 in.txt -o later.jsonl -- ./later
    ended_with 1
    says "is the command right? (its worker's end: status 1: the model is not there)"
}

@test "sums that cannot hold a metric are told once, and counts are printed in full" {
    seq 1 20 >in.txt
    pyworker counts <<'END'
import muster
for item in muster.items():
    more = {"huge": 1e308} if item.index < 10 else {f"name{item.index}_{i}": 1 for i in range(8)}
    item.done(1, metrics={"tokens": 12345678901, **more})
END
    for option in "" "--fixed-batches --batch 4"; do
        map --force -g cpu:1 in.txt -o out.jsonl $option -- ./counts
        ended_with 0
        says "metrics    tokens 246913578020, huge 1e+308"
        [ "$(grep -c "is not summed: the sum is no finite number, or there are more than 16 names; this is said once" \
            muster-runs/latest/orchestrator.log)" -eq 1 ]
    done
}

@test "the progress line counts what its percentage counts, and has an accuracy if there is one" {
    seq 1 6 >in.txt
    pyworker aside <<'END'
import sys, time, muster
for item in muster.items():
    if item.index < 5:
        item.fail("no", retry=False)
    else:
        time.sleep(3)
        item.done(1, metrics={name: 1 for name in sys.argv[1:]})
END
    map -g cpu:1 in.txt -o out.jsonl -- ./aside seen
    ended_with 1
    [[ $output =~ muster:\ ([1-5])\ of\ 6\ \(([0-9]+)\.[0-9]\ %\).*,\ ([0-9])\ failed ]]
    [ "${BASH_REMATCH[2]}" -eq $((${BASH_REMATCH[1]} * 100 / 6)) ]
    [ "${BASH_REMATCH[1]}" -eq "${BASH_REMATCH[3]}" ]
    says "out.jsonl: 1 result" "metrics    seen 1"
    says_not "1 results"
    # after a result with both sums
    pyworker judged <<'END'
import sys, time, muster
for item in muster.items():
    time.sleep(3 * (item.index == 5))
    item.done(1, metrics={name: 1 for name in sys.argv[1:]})
END
    for names in "seen" "seen correct"; do
        map --force -g cpu:1 in.txt -o judged.jsonl -- ./judged $names
        ended_with 0
        line=$(grep "^muster: 5 of 6 (83.3 %), " <<<"$output")
        [[ $line == *", accuracy 1.0000" ]] || [ "$names" = seen ]
        [[ $line != *accuracy* ]] || [ "$names" = "seen correct" ]
    done
}

# The worker's number is the limit: it is not halved once more.
@test "a worker that runs out of memory goes on with as many items as it says" {
    pyworker says.py <<'END'
import sys
import muster
has_told = False
for batch in muster.batches(16):
    with batch:
        n = len(batch)
        if not has_told and n == 16 and sys.argv[1] == "0":
            has_told = True
            raise MemoryError("out of memory")
        elif not has_told and n == 16:
            has_told = True
            muster.oom(int(sys.argv[1]))
        for item in batch:
            item.done(n=n)
END
    seq 200 >in.txt
    local told_left told left
    for told_left in 8:8 2:2 1:1 0:8; do # 0: an exception, after which the module halves the batch
        told=${told_left%:*} left=${told_left#*:}
        map --fresh -q -g cpu:1 in.txt -o out.jsonl --force -- ./says.py "$told"
        ended_with 0
        has_logged "out of memory; at most $left item$([ "$left" = 1 ] || echo s) at once from now on"
        [ "$(tail -n 100 out.jsonl | jq -s 'map(.n) | max')" = "$left" ]
    done
}
