#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# One command on every device.
load helpers

setup() {
    common_setup
    export MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=4 MUSTER_SYSFS=/nowhere
}

each() { run --separate-stderr limited "$MUSTER" each "$@"; }

@test "every device has its command, which sees its own device alone" {
    each -g 0,2 -- sh -c 'echo "$MUSTER_WORKER of $MUSTER_WORKERS on $CUDA_VISIBLE_DEVICES"; echo "$MUSTER_DEVICE_INDEX" >&2'
    ended_with 0
    [ "$(sort <<<"$output")" = $'gpu_0: 0 of 2 on 0\ngpu_2: 1 of 2 on 2' ]
    [ "$(sort <<<"$stderr")" = $'gpu_0: 0\ngpu_2: 2' ]
}

@test "the status is the highest, and who failed is said" {
    each -g cpu:3 -- sh -c '[ $MUSTER_WORKER -lt 2 ] || exit 7'
    ended_with 7
    [ "$stderr" = "muster: cpu_2: status 7" ]
    each -g cpu:2 -- sh -c 'kill -SEGV $$'
    ended_with 139
    run -127 --separate-stderr limited "$MUSTER" each -g cpu:2 -- ./nosuch
    [[ $stderr == *"cpu_1: could not be executed: No such file or directory"* ]]
}

@test "what Python prints comes at once, and nothing of a worker that started it reaches the command" {
    MUSTER_CHANNEL=taken "$MUSTER" each -g cpu:1 -- "$PYTHON" -c 'import os, time; print(os.environ.get("MUSTER_CHANNEL")); time.sleep(60)' >said 3>&- 4>&- &
    PID=$!
    wait_for holds said "cpu_0: None"
    kill $PID
    wait $PID || true
}

@test "an output that cannot be written is told" {
    export -f limited
    run --separate-stderr bash -c 'limited "$MUSTER" each -g cpu:2 -- echo x >/dev/full'
    ended_with 75
    [[ $stderr == *"No space left on device"* ]]
    run --separate-stderr bash -c 'limited "$MUSTER" each -g cpu:2 -- echo x >&-'
    ended_with 1
    [[ $stderr == *"Bad file descriptor"* ]]
}

@test "lines stay whole, whatever the pieces they come in, and a last one gets its newline" {
    pyworker pieces <<'END'
import os, sys, time
for _ in range(200):
    for piece in (b"a" * 50, b"b" * 50, b"\nc\n\nd"):
        os.write(1, piece)
END
    each -g cpu:4 -- ./pieces
    ended_with 0
    [ "$(cut -d' ' -f2 <<<"$output" | sort | uniq -c | awk '{ print $1, length($2) }' | sort | tr '\n' ';')" = "4 1;4 100;796 101;800 0;800 1;" ]
    [ "$(cut -d: -f1 <<<"$output" | sort | uniq -c | awk '{ print $1 }' | sort -u)" = 601 ]
}

@test "a signal ends all commands and what they started; a second one does not wait" {
    ends_by_signals each -g cpu:2 --
}

@test "kill -9 leaves nobody, and the devices are free again" {
    "$MUSTER" each -g 1 -- sh -c 'touch runs; sleep 1000' >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for test -e runs
    each -g 1 -- true
    ended_with 69
    [[ $stderr == *"gpu 1 is taken by pid $PID"* ]]
    kill -KILL "$PID"
    wait "$PID" || true
    wait_for nobody_is_left
    each -g 1 -- true
    ended_with 0
}

@test "limits, readers that go, and wrong usage" {
    each -g cpu:2 --time-limit 300ms -- sleep 100
    ended_with 124
    [[ $stderr == *"the limit of 300 ms on the whole run was reached"* ]]
    run bash -c '"$0" each -g cpu:2 -- yes 2>/dev/null | head -1; exit ${PIPESTATUS[0]}' "$MUSTER"
    ended_with 141
    each -g cpu:2
    ended_with 2
    [[ $stderr == *"no command"* ]]
    each -g cpu:2 file -- true
    ended_with 2
    [[ $stderr == *"unexpected 'file'"* ]]
}

@test "--dry-run shows what would run where, and runs nothing" {
    run limited "$MUSTER" each -g sim:2xH200:141GiB --dry-run -- touch "a file"
    ended_with 0
    [ "${#lines[@]}" -eq 2 ]
    [[ ${lines[1]} == "worker 1: gpu_1 SIM-1, "*" threads: touch 'a file'" ]]
    [ ! -e "a file" ]
}
