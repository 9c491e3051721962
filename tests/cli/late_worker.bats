#!/usr/bin/env bats
# Workers that become ready only when there is nothing left for them.

setup() {
    MUSTER=${MUSTER:?the program to test}
    cd "$BATS_TEST_TMPDIR"
}

# until_true SECONDS COMMAND...: polls.
until_true() {
    local tries=$(($1 * 100))
    shift
    until "$@"; do
        [ $((tries -= 1)) -gt 0 ] || return 1
        sleep 0.01
    done
}

@test "a channel worker that becomes ready after the end of its work is told to stop" {
    cat >worker.py <<'PY'
import os
import time

open("up", "w").close()
while not os.path.exists("go"):
    time.sleep(0.002)
import muster

for item in muster.items():
    item.done(item.data)
PY
    echo 1 >in.txt
    # Without the word to stop it would be waited for until the grace time is over.
    timeout 20 "$MUSTER" map -q --grace 60s -g cpu:1 --run-dir run in.txt -o out.txt -- python3 worker.py 3>&- &
    until_true 10 test -e up
    "$MUSTER" stop --no-wait run
    until_true 10 grep -q 'finishing what is in flight' run/orchestrator.log
    touch go
    status=0
    wait $! || status=$?
    [ "$status" -eq 75 ]
}
