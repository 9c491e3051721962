#!/usr/bin/env bats
# From the last result to the end: the output does not wait for workers that take their time to end.
load helpers

# ./slow KIND: a worker that ends only when the output is there, and says whether it came.
slow_worker() {
    pyworker slow <<'END'
import os
import sys
import time

if sys.argv[1] == "channel":
    sys.path.append(os.environ["PYTHONPATH"].split(":")[-1])
    import muster

    for item in muster.items():
        item.done(int(item.data))
else:
    for line in sys.stdin:
        sys.stdout.write(line)
        if sys.argv[1] == "flushes":
            sys.stdout.flush()
    sys.stdout.flush()
for _ in range(500):
    if os.path.exists("out.txt"):
        break
    time.sleep(0.02)
with open("seen.%d" % os.getpid(), "w") as file:
    file.write("in place\n" if os.path.exists("out.txt") else "not there\n")
END
}

output_is_seen_by() {
    slow_worker
    seq 2000 >in.txt
    map -g cpu:2 in.txt -o out.txt -- ./slow "$1"
    ended_with 0
    same in.txt out.txt
    [ "$(cat seen.* | sort -u)" = "in place" ]
}

@test "a channel worker that is still ending sees the output in place" { output_is_seen_by channel; }
@test "a filter that is still ending sees the output in place" { output_is_seen_by flushes; }
@test "a filter that flushed at the end of its input sees the output in place" { output_is_seen_by holds; }

@test "the end of each worker is recorded, also when it comes after the output" {
    slow_worker
    seq 20 >in.txt
    map -g cpu:1 in.txt -o out.txt -- ./slow channel
    ended_with 0
    [ "$(query "SELECT count(*) FROM attempts WHERE ended_by = 'status 0'")" -eq 1 ]
    is_finished
}

@test "the log and the record of a worker count the same items, and not those that failed" {
    seq 7 >in.txt
    pyworker some <<'END'
import muster
for item in muster.items():
    if int(item.data) % 3 == 0:
        item.fail("no", retry=False)
    else:
        item.done(1)
END
    map -g cpu:1 in.txt -o out.txt -- ./some
    ended_with 1
    has_logged "ended (status 0) after 5 items; 2 failed"
    [ "$(query 'SELECT items_done FROM attempts')" = 5 ]
}

@test "a worker that does not end within --grace is named and ended, and the result stands" {
    worker stay <<'END'
#!/bin/sh
cat
exec sleep 1000
END
    seq 5 >in.txt
    map -g cpu:1 --grace 1s in.txt -o out.txt -- ./stay
    ended_with 0
    same in.txt out.txt
    says "cpu_0 is ended: it did not end within --grace after its last result"
}

@test "a copy of an item whose worker gives its first answer after the merge is no error" {
    printf '1\n2\n' >in.txt
    worker slow <<'END'
#!/bin/sh
trap '' TERM
while read -r line; do
    [ "$MUSTER_WORKER" != 0 ] || until [ -e out.txt ] && [ ! -e muster-runs/latest/parts ]; do sleep 0.02; done
    echo "$line"
done
END
    map -g cpu:2 --grace 1s -o out.txt in.txt -- ./slow
    ended_with 0
    same in.txt out.txt
    says "1 item given twice"
    ! grep ERROR muster-runs/latest/orchestrator.log || false
}

@test "a worker that prints megabytes while it ends is heard to its end" {
    pyworker chatty <<'END'
import sys

for line in sys.stdin:
    sys.stdout.write(line)
    sys.stdout.flush()
sys.stderr.write("x" * 79 + "\n")
sys.stderr.write(("y" * 79 + "\n") * 100000)
END
    seq 100 >in.txt
    map -q -g cpu:1 in.txt -o out.txt -- ./chatty
    ended_with 0
    same in.txt out.txt
    [ "$(grep -c '^y' muster-runs/latest/logs/cpu_0_stderr.log)" -eq 100000 ]
}

is_finished() { [ "$(query "SELECT value FROM facts WHERE key = 'state'")" = finished ]; }

staying_worker() {
    worker stay <<'END'
#!/bin/sh
cat
touch staying
exec sleep 1000
END
    seq 5 >in.txt
    map_begin -g cpu:1 --grace 100s in.txt -o out.txt -- ./stay
    wait_for test -e out.txt -a -e staying
}

@test "an interrupt while workers are ending ends them, and the result stands" {
    staying_worker
    kill -INT "$PID"
    map_end
    ended_with 0
    same in.txt out.txt
}

@test "muster killed while workers are ending: the run is complete, and they are ended" {
    staying_worker
    wait_for is_finished
    kill -KILL "$PID"
    map_end
    wait_for nobody_is_left
    same in.txt out.txt
    is_finished
}

@test "a pipe that takes its time gets all results, and how the workers ended is recorded" {
    pyworker wordy <<'END'
import os, sys, time
sys.path.append(os.environ["PYTHONPATH"].split(":")[-1])
import muster

for item in muster.items():
    item.done("x" * 2000)
time.sleep(0.5 + int(os.environ["MUSTER_WORKER"]))
END
    pyworker reader <<'END'
import sys, time
n = 0
while True:
    piece = sys.stdin.buffer.read(65536)
    if not piece:
        break
    n += piece.count(b"\n")
    time.sleep(0.02)
print(n)
END
    seq 3000 >in.txt
    [ "$(limited "$MUSTER" map -q -g cpu:3 in.txt --format-out jsonl -o - -- ./wordy | ./reader)" -eq 3000 ]
    is_finished
    [ "$(query "SELECT count(*) FROM attempts WHERE ended_by IS NULL OR label NOT LIKE 'cpu_%'")" -eq 0 ]
}

@test "a standard output that does not block gets all results" {
    seq 20000 >in.txt
    $PYTHON - "$MUSTER" <<'END'
import os, subprocess, sys, time
ours, theirs = os.pipe()
os.set_blocking(theirs, False)
process = subprocess.Popen([sys.argv[1], "map", "-q", "-g", "cpu:1", "in.txt", "-o", "-", "--", "cat"], stdout=theirs)
os.close(theirs)
time.sleep(0.3)
with open(ours, "rb") as file, open("in.txt", "rb") as wanted:
    assert file.read() == wanted.read()
assert process.wait() == 0
END
}

# Two arrays, 1 GiB in all, that are holes until they are merged.
long_merge_begin() {
    worker zeros <<'END'
#!/usr/bin/env python3
import sys
header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (536870912,), }".ljust(117) + b"\n"
with open(sys.argv[1], "wb") as file:
    file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    file.truncate(file.tell() + 536870912)
END
    map_begin --items 2 --shards 2 -g cpu:2 --any-count -o all.npy "$@" -- ./zeros {output}
    wait_for is_merging
}

long_merge_ended() {
    map_end
    ended_with "$1"
    says "go on with: muster resume"
    [ ! -e all.npy ]
    [ -z "$(ls all.npy*)" ]
    [ "$("$MUSTER" status --json | jq -r .state)" = stopped ]
    run limited "$MUSTER" resume
    ended_with 0
    says "2 items in 2 shards, complete"
    [ "$(stat -c %s all.npy)" -gt 1073741824 ]
    [ "$(grep -c 'runs ./zeros' muster-runs/latest/orchestrator.log)" = 2 ]
    rm all.npy
}

# It holds its answers back, so its lives are short, and the end of each is said with its last items.
@test "the time to end counts from the last result, however long ago the end was said" {
    seq 200 >in.txt
    map -g cpu:1 --grace 1s in.txt -o out.txt -- \
        mawk '{ system("sleep 0.05"); print } END { fflush(); system("sleep 0.15; echo tidied >>ends") }'
    ended_with 0
    same in.txt out.txt
    says_not "did not end within"
    [ "$(wc -l <ends)" -gt 1 ]
    [ "$(wc -l <ends)" -eq "$(query "SELECT count(*) FROM attempts")" ]
}

@test "a signal during the merge ends it: nothing is put in place, and a resume merges" {
    long_merge_begin --explain
    kill -TERM "$PID"
    wait_for holds muster-runs/latest/orchestrator.log "SIGTERM: ending the merge"
    long_merge_ended 143
}

@test "an order to stop at once during the merge ends it" {
    long_merge_begin --explain
    "$MUSTER" stop --now
    long_merge_ended 75
}

@test "an order to stop during the merge lets it be finished" {
    long_merge_begin
    "$MUSTER" stop
    map_end
    ended_with 0
    [ "$(stat -c %s all.npy)" -gt 1073741824 ]
    rm all.npy
}
