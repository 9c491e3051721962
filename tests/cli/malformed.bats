#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Malformed records: each is set aside with its place, whatever the format and whoever the worker,
# and everything beside it is done. What makes it uncertain where records begin ends the run.
load helpers

echo_worker() {
    pyworker echo_worker <<'END'
import muster
for item in muster.items():
    item.done(item.data)
END
}

# sets_aside INPUT PLACE REASON: by a filter and by a channel worker alike, and `want` is the rest.
sets_aside() {
    local worker
    echo_worker
    for worker in cat ./echo_worker; do
        rm -f out.jsonl out.jsonl.failed.jsonl
        map --fresh -g cpu:2 "$1" -o out.jsonl -- "$worker"
        ended_with 1
        says "set aside: $2: $3"
        jq -c . out.jsonl >found
        same found want
        [ "$(jq -r .place out.jsonl.failed.jsonl)" = "$2" ]
        [ "$(jq -r .reason out.jsonl.failed.jsonl)" = "$3" ]
        says "mend these records"
        says_not "--retry-failed"
    done
}

@test "a line of JSONL that is no JSON is set aside, for filters and for channel workers" {
    printf '{"a":1}\n{"a":\n{"a":3}\n{"a":4}\n' >in.jsonl
    printf '{"a":1}\n{"a":3}\n{"a":4}\n' >want
    sets_aside in.jsonl "in.jsonl line 2" "not a JSON value"
    [ "$(jq -r .record out.jsonl.failed.jsonl)" = '{"a":' ]
}

@test "a NUL byte in JSONL is set aside" {
    printf '{"a":"\0"}\n{"a":3}\n' >in.jsonl
    echo '{"a":3}' >want
    sets_aside in.jsonl "in.jsonl line 1" "not a JSON value: it has a control character within a text"
}

@test "an element of a JSON array that is no JSON is set aside" {
    echo '[{"a":1},{"a":},{"a":3}]' >in.json
    printf '{"a":1}\n{"a":3}\n' >want
    sets_aside in.json "in.json element 2" "not a JSON value"
}

@test "a CSV row with too few fields is set aside" {
    printf 'a,b\n1,2\n3\n5,6\n' >in.csv
    printf '{"a":"1","b":"2"}\n{"a":"5","b":"6"}\n' >want
    sets_aside in.csv "in.csv line 3" "expected 2 fields as in the header, found 1"
}

@test "a CSV row that is not UTF-8 is set aside, and kept as bytes" {
    printf 'a,b\n1,\377\n5,6\n' >in.csv
    echo '{"a":"5","b":"6"}' >want
    sets_aside in.csv "in.csv line 2" "not UTF-8; iconv converts it, --raw passes it on as it stands"
    [ "$(jq -r .record_b64 out.jsonl.failed.jsonl | base64 -d | od -An -tx1)" = " 31 2c ff" ]
}

@test "wrong quotes in CSV end the run: where rows begin is not certain after them" {
    printf 'a,b\n1,5" disk\n2,ok\n3,7" disk\n4,ok\n' >in.csv
    map -g cpu:1 in.csv -o out.jsonl -- cat
    ended_with 65
    says "in.csv line 2"
    [ ! -e out.jsonl ]
}

@test "an item without its --key is set aside" {
    printf '{"id":1}\n{"x":2}\n{"id":3}\n' >in.jsonl
    map -g cpu:1 --key id in.jsonl -o out.jsonl -- cat
    ended_with 1
    says "set aside: in.jsonl line 2: it has no field 'id'"
    printf '{"id":1}\n{"id":3}\n' >want
    same out.jsonl want
}

@test "--raw checks nothing" {
    printf '{"a":1}\n{"a":\n' >in.jsonl
    map -g cpu:1 --raw in.jsonl -o out.txt -- cat
    ended_with 0
    same out.txt in.jsonl
}

@test "malformed lines everywhere, for filters that answer at once, buffer, or take batches" {
    $PYTHON - <<'END'
import random
random.seed(7)
with open("in.jsonl", "w") as all, open("want", "w") as good:
    for i in range(6000):
        line = '{"a":%d%s\n' % (i, "" if random.random() < 0.3 else "}")
        all.write(line)
        if line.endswith("}\n"):
            good.write(line)
END
    local options
    for options in "cat" "jq -c ." "sed -u s/x/x/"; do
        rm -f out.jsonl
        # shellcheck disable=SC2086
        map --fresh -q -g cpu:2 in.jsonl -o out.jsonl -- $options
        ended_with 1
        same out.jsonl want
    done
    for options in "--batch 7" "--batch 7 --fixed-batches" "--longest-first"; do
        rm -f out.jsonl
        # A worker whose last items were answered by another is ended, which looks as if it had failed.
        # shellcheck disable=SC2086
        map --fresh -q -g cpu:2 --no-reissue $options in.jsonl -o out.jsonl -- cat
        ended_with 1
        same out.jsonl want
        [ "$(query "select count(*) from attempts where ended_by != 'status 0'")" = 0 ]
    done
}

@test "text that is called JSONL ends the run early" {
    yes hello | head -3000 >in.jsonl
    map -g cpu:2 in.jsonl -o out.jsonl -- cat
    ended_with 65
    says "a thousand records are malformed" "--format"
    [ ! -e out.jsonl ]
}

@test "status proposes no retry of records that are malformed" {
    { seq 3 | sed 's/.*/{"a":&}/'; echo '{broken'; } >in.jsonl
    map -g cpu:1 in.jsonl -o out.jsonl -- cat
    ended_with 1
    says "mend these records, and run them as an input of their own"
    "$MUSTER" status >status
    grep -q "^next  *mend the malformed records, and run them as an input of their own" status
    ! grep -q "go on" status
    # one that failed otherwise can be tried again
    echo '{"b":5}' >>in.jsonl
    map -f -r 0 -g cpu:1 in.jsonl -o out.jsonl -- sed -u /b/Q3
    ended_with 1
    "$MUSTER" status | grep -q "^go on  *muster resume .* --retry-failed"
    run limited "$MUSTER" resume latest --retry-failed -- cat
    ended_with 1
    "$MUSTER" status | grep -q "^next  *mend the malformed records"
}

@test "--max-failures counts malformed records" {
    { seq 5; echo x; echo y; seq 5; } >in.jsonl
    map -g cpu:1 --max-failures 2 in.jsonl -o out.jsonl -- jq -c '{a:.}'
    ended_with 1
    says "too many items failed"
}

@test "a file that shrinks while a channel worker has it ends the run with its name" {
    seq 300000 >in.txt
    pyworker slow <<'END'
import muster, os, time
for item in muster.items():
    open("begun", "w").close()
    while not os.path.exists("cut"):
        time.sleep(0.01)
    item.done(item.data)
END
    map_begin -g cpu:1 in.txt -o out.txt -- ./slow
    wait_for test -e begun
    head -c 1000 in.txt >short
    cat short >in.txt
    touch cut
    map_end
    ended_with 65
    # Whoever comes first: the next read, or the look at the file when all of it is known.
    [[ $output == *"in.txt has shrunk"* || $output == *"in.txt was written to while it was read"* ]]
    [ ! -e out.txt ]
}
