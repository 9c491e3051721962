# SPDX-License-Identifier: Apache-2.0
#
# What the tests of the command share. Each test runs in a folder of its own, which is removed after
# it. Everything it starts carries MUSTER_TEST_MARK in its environment, and the test fails if a
# process with that mark is left at its end.
bats_require_minimum_version 1.5.0

: "${MUSTER:?the program to test}"
PYTHON=${PYTHON:-/usr/bin/python3}

common_setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    TEST_MARK="$$-$BATS_TEST_NUMBER-$RANDOM$RANDOM"
    export MUSTER_TEST_MARK=$TEST_MARK
    export MUSTER_LOCK_DIR=$BATS_TEST_TMPDIR/locks XDG_CACHE_HOME=$BATS_TEST_TMPDIR/cache
    export PYTHONDONTWRITEBYTECODE=1 LC_ALL=C.UTF-8
    unset CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER MUSTER_RUNS_DIR PYTHONPATH OMP_NUM_THREADS
    unset ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES GPU_DEVICE_ORDINAL MUSTER_SYSFS
    unset BATS_RUN_ERREXIT MUSTER_NVML MUSTER_FAKE_NVML MUSTER_SEND_AGENT
    KEPT=
}

# The pids of living processes that carry this test's mark (a zombie has no environment). Only what
# was executed carries it: not this shell, and not the grep.
marked() {
    local path
    for path in $(env -u MUSTER_TEST_MARK grep -lszF "MUSTER_TEST_MARK=$TEST_MARK" /proc/[0-9]*/environ 2>/dev/null); do
        echo "${path//[!0-9]/}"
    done
}

nobody_is_left() {
    [ -z "$(marked)" ]
}

marked_kill() {
    local pid
    for pid in $(marked); do kill -KILL "$pid" 2>/dev/null || true; done
    nobody_is_left
}

common_teardown() {
    local pid left=0
    for pid in $KEPT; do kill -KILL "$pid" 2>/dev/null || true; done
    if [ -n "${BATS_TEST_COMPLETED:-}" ] && ! wait_for nobody_is_left; then
        left=1
        for pid in $(marked); do
            echo "left running: $pid $(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | cut -c1-150)"
        done
    fi
    wait_for marked_kill
    return $left
}

setup() { common_setup; }
teardown() { common_teardown; }

# wait_for COMMAND…: until it succeeds; fails after 20 seconds.
wait_for() {
    local end=$((SECONDS + 20))
    until "$@"; do
        if [ $SECONDS -ge $end ]; then
            echo "waited in vain for: $*"
            return 1
        fi
        read -rt 0.02 <> <(:) || true
    done
}

holds() { grep -qsF -- "$2" "$1"; }
has_lines() { [ -f "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ]; }
needs_mounts() { unshare -m true 2>/dev/null || skip "no mount namespaces here"; }
is_gone() { ! kill -0 "$1" 2>/dev/null; }

# What a run printed must hold each of these texts.
says() {
    local text
    for text; do
        [[ $output == *"$text"* ]] && continue
        printf 'expected the words: %s\nfound: %s\n' "$text" "$output"
        return 1
    done
}

says_not() {
    local text
    for text; do
        [[ $output != *"$text"* ]] && continue
        printf 'expected not to find: %s\nfound: %s\n' "$text" "$output"
        return 1
    done
}

ended_with() {
    [ "$status" -eq "$1" ] && return
    printf 'expected status %s, found %s\n%s\n%s\n' "$1" "$status" "$output" "${stderr:-}"
    return 1
}

same() {
    cmp -s "$1" "$2" && return
    diff "$1" "$2" | head -10
    return 1
}

# worker NAME <<'END': a program of that name in the test's folder.
worker() {
    cat >"$1"
    chmod +x "$1"
}

# pyworker NAME: the same, in Python.
pyworker() {
    { echo "#!$PYTHON"; cat; } >"$1"
    chmod +x "$1"
}

# The log of the latest run has this text.
has_logged() { grep -qsF -- "$1" muster-runs/latest/orchestrator.log; }

# ./slow: a cat that takes 20 ms for a line.
slow_filter() {
    pyworker slow <<'END'
import sys, time
for line in sys.stdin:
    time.sleep(0.02)
    sys.stdout.write(line)
    sys.stdout.flush()
END
}

# ./until_go: the same with 50 ms a line, and without any as soon as there is a file `go`.
until_go_filter() {
    worker until_go <<'END'
#!/bin/sh
while read -r n; do
    [ -e go ] || sleep 0.05
    echo "$n"
done
END
}

# ./reach HOST COMMAND...: the way to a host on this machine, which notes its own pid; the host's agent is its child.
reach_worker() {
    worker reach <<'END'
#!/bin/sh
host=$1
shift
echo $$ >pid.$host
"$@"
END
}
agent_of() { pgrep -P "$(cat "pid.$1")"; }

# ./hold: says so by a file `holding`, and is a cat from when there is a file `go`.
holding_worker() {
    worker hold <<'END'
#!/bin/sh
touch holding
until [ -e go ]; do sleep 0.02; done
exec cat
END
}

# Hosts of --via ./via, of which `two` is reached through a link: killing the process in the file `way` cuts it at the head.
linked_via() {
    link_serve
    worker via <<'END'
#!/bin/sh
host=$1
shift
[ "$host" = two ] || exec "$@"
echo $$ >way
exec "$LINK_RELAY" --to link "$@"
END
}
# A relay at the socket `link`; $server is its pid.
link_serve() {
    "$LINK_RELAY" --serve link 3>&- 4>&- &
    server=$!
    KEPT="$KEPT $server"
    wait_for test -S link
}

# Adds a network namespace. False without the rights for it, or where none can be entered: in a chroot that is no mount.
space_add() {
    [ "$(id -u)" -eq 0 ] && command -v ip >/dev/null && ip netns add "$1" 2>/dev/null || return 1
    ip netns exec "$1" true 2>/dev/null || { ip netns del "$1"; return 1; }
}

# Whatever hangs is ended, with status 137, long before the suite's own limit.
limited() { timeout --foreground -s KILL 60 "$@"; }

map() { run limited "$MUSTER" map "$@"; }

# Start in the background; its words go to the file `said`, its pid into $PID.
map_begin() {
    "$MUSTER" map "$@" >said 2>&1 3>&- 4>&- &
    PID=$!
}

# A muster that has claimed its output, and goes on when it gets SIGCONT. False: it was over before that was seen.
stopped_with_claim() {
    "$MUSTER" "$@" >said 2>&1 3>&- 4>&- &
    PID=$!
    local tries=2000
    until ls -l "/proc/$PID/fd" 2>/dev/null | grep -q socket:; do
        [ $((tries -= 1)) -gt 0 ] || return 1
    done
    kill -STOP "$PID"
}

is_merging() { holds muster-runs/latest/orchestrator.log "merging the parts"; }

# Its end: $status and $output, as after run.
map_end() {
    status=0
    wait_for is_gone "$PID" || kill -KILL "$PID"
    wait "$PID" || status=$?
    output=$(cat said)
}

# Two workers of PID have each begun what they start.
two_sleep() { [ "$(pgrep -P "$(pgrep -d, -P "$(pgrep -d, -P "$PID")")" | wc -l)" -ge 2 ]; }

two_are_deaf() { [ "$(find . -name 'deaf.*' | wc -l)" = 2 ]; }

# ends_by_signals VERB OPTION…: so that two workers of what follows run, which a first signal ends with what they started,
# and which a second one does not wait for.
ends_by_signals() {
    "$MUSTER" "$@" sh -c 'sleep 1000 & sleep 1000' >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for two_sleep
    kill -TERM "$PID"
    map_end
    ended_with 143
    wait_for nobody_is_left
    "$MUSTER" "$@" sh -c 'trap "" INT TERM; mktemp deaf.XXXXXX; while :; do sleep 0.1; done' >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for two_are_deaf
    kill -INT "$PID"
    wait_for holds said "once more ends them at once"
    kill -INT "$PID"
    map_end
    ended_with 130
}

# The run's only folder, or the latest.
run_dir() { readlink -f muster-runs/latest; }
query() { sqlite3 "$(run_dir)/run.db" "$1"; }

# records N: N lines of JSON, {"id":0} and so on.
records() { seq 0 $(($1 - 1)) | sed 's/.*/{"id":&,"text":"word &"}/'; }

# A port that nobody has, and that the kernel gives to nobody who asks for any.
free_port() {
    "$PYTHON" -c '
import random, socket
while True:
    port = random.randrange(10000, 32000)
    try:
        socket.create_server(("", port)).close()
        break
    except OSError:
        pass
print(port)'
}

# ESC, OSC with BEL, CR, C1 in UTF-8, a turn of the text, bytes that are no UTF-8, a newline.
HOSTILE=$'\e[2J\e]0;owned\a\r\xc2\x9b31m\xe2\x80\xae\xff\nmuster: forged'

# Nothing but text, newlines and tabs.
is_harmless() {
    local bad
    bad=$(LC_ALL=C tr -d '\11\12\40-\176\200-\377' <"$1" | od -An -c | head -3)
    bad="$bad$(LC_ALL=C grep -aoP '\xc2[\x80-\x9f]|\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9]|^muster: forged|^\S* INFO forged' "$1" | od -An -c | head -3)"
    [ -z "$bad" ] && return
    echo "reaches the terminal from $1: $bad"
    cat -v "$1" | head -20
    return 1
}

# ./measured COMMAND...: says how much memory it took.
measured() {
    pyworker measured <<'END'
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:]).returncode
print("peak", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024, "MiB")
sys.exit(status)
END
}
