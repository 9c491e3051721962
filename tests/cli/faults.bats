#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Workers that fail, crash, hang and run out of memory.
load helpers

# A channel worker whose items say what to do: "ok", "fail", "fail once", "die 7", "segv", "hang".
obedient() {
    pyworker obedient <<'END'
import muster, os, signal, sys, time
for item in muster.items():
    do = item.data["do"]
    if do == "fail" or (do == "fail once" and item.attempt == 1):
        item.fail("told to fail")
    elif do == "fail for good":
        item.fail("no use", retry=False)
    elif do.startswith("die") and (do != "die once" or item.attempt == 1):
        print("last words of item", item.index, file=sys.stderr, flush=True)
        os._exit(7)
    elif do == "segv":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif do == "hang":
        time.sleep(1000)
    else:
        item.done(id=item.index, attempt=item.attempt)
END
}

# script N DO@ITEM…: N items, all "ok" but those.
script() {
    local n=$1 i spec do
    shift
    for ((i = 0; i < n; i++)); do
        do=ok
        for spec; do [ "${spec##*@}" = "$i" ] && do=${spec%@*}; done
        echo "{\"do\":\"$do\"}"
    done
}

@test "an item that failed is tried again" {
    obedient
    script 20 "fail once@3" "fail once@11" >in.jsonl
    map -g cpu:2 in.jsonl -o out.jsonl -- ./obedient
    ended_with 0
    says "2 retries"
    [ "$(wc -l <out.jsonl)" -eq 20 ]
    [ "$(sed -n 4p out.jsonl)" = '{"id":3,"attempt":2}' ]
    [ ! -e out.jsonl.failed.jsonl ]
}

@test "an item that fails again and again is set aside, and leaves no line" {
    obedient
    script 20 "fail@3" >in.jsonl
    map -g cpu:2 --retries 2 in.jsonl -o out.jsonl -- ./obedient
    ended_with 1
    says "1 item" "out.jsonl.failed.jsonl" "muster resume" "--retry-failed"
    [ "$(wc -l <out.jsonl)" -eq 19 ]
    ! grep -q '"id":3,' out.jsonl
    [ "$(jq -c '[.item,.place,.attempts,.data.do]' out.jsonl.failed.jsonl)" = '[3,"in.jsonl line 4",3,"fail"]' ]
    [[ $(jq -r .reason out.jsonl.failed.jsonl) == "told to fail on cpu"* ]]
}

@test "--retries 0 tries once" {
    obedient
    script 8 "fail once@3" >in.jsonl
    map -g cpu:2 --retries 0 in.jsonl -o out.jsonl -- ./obedient
    ended_with 1
    [ "$(jq -c .attempts out.jsonl.failed.jsonl)" = 1 ]
}

@test "fail(retry=False) is not tried again" {
    obedient
    script 8 "fail for good@5" >in.jsonl
    map -g cpu:2 in.jsonl -o out.jsonl -- ./obedient
    ended_with 1
    [ "$(jq -c '[.item,.attempts]' out.jsonl.failed.jsonl)" = '[5,1]' ]
}

@test "--max-failures ends the run early and says why" {
    obedient
    script 400 "fail for good@1" "fail for good@3" "fail for good@5" >in.jsonl
    seq 400 | sed 's/.*/{"do":"fail for good"}/' >in.jsonl
    map -g cpu:2 --max-failures 5 in.jsonl -o out.jsonl -- ./obedient
    ended_with 1
    says "--max-failures" "muster resume" "reasons in out.jsonl.failed.jsonl"
    [ ! -e out.jsonl ]
    [ "$(wc -l <out.jsonl.failed.jsonl)" = "$(query 'select count(*) from asides')" ]
    jq -e '.reason and .data' out.jsonl.failed.jsonl
    run "$MUSTER" ls
    says "stopped"
    [ "$(query 'select count(*) < 50 from asides')" = 1 ]
}

@test "--max-failures as a share of the items" {
    obedient
    seq 600 | sed 's/.*/{"do":"fail for good"}/' >in.jsonl
    map -g cpu:2 --max-failures 10% in.jsonl -o out.jsonl -- ./obedient
    ended_with 1
    says "--max-failures"
    head -n 30 in.jsonl >few.jsonl
    map -g cpu:2 --max-failures 10% few.jsonl -o few.out.jsonl -- ./obedient
    ended_with 1
    says "--max-failures"
    [ "$(query 'select count(*) from asides')" -lt 10 ]
    map -g cpu:2 --items 12 --shards 6 --retries 0 --max-failures 20% -o shards.txt -- \
        sh -c 'if [ {shard} -ge 2 ]; then exit 1; fi; seq {count} >{output}'
    ended_with 1
    says "--max-failures"
}

@test "a worker's own end is named: status 7, with its last words" {
    obedient
    script 10 "die@4" >in.jsonl
    map -g cpu:2 --retries 1 in.jsonl -o out.jsonl -- ./obedient
    ended_with 1
    says "status 7" "last words of item 4"
    [ "$(wc -l <out.jsonl)" -eq 9 ]
    [[ $(jq -r .reason out.jsonl.failed.jsonl) == *"status 7"* ]]
    [[ $(jq -r .stderr_tail out.jsonl.failed.jsonl) == *"last words of item 4"* ]]
}

@test "a worker's own end is named: SIGSEGV" {
    obedient
    script 10 "segv@0" >in.jsonl
    map -g cpu:2 --retries 1 in.jsonl -o out.jsonl -- ./obedient
    ended_with 1
    says "SIGSEGV"
    [ "$(wc -l <out.jsonl)" -eq 9 ]
}

@test "a crash is not charged to its neighbours: they are halved until the culprit runs alone" {
    seq 0 199 >in.txt
    pyworker poison <<'END'
import os, sys
for line in sys.stdin:
    if line.strip() == "77":
        os.abort()
    print("r" + line, end="", flush=True)
END
    map -g cpu:2 --batch 20 --retries 1 in.txt -o out.txt -- ./poison
    ended_with 1
    seq 0 199 | grep -vx 77 | sed 's/^/r/' >want.txt
    same out.txt want.txt
    [ "$(jq .item out.txt.failed.jsonl)" = 77 ]
    [[ $(jq -r .reason out.txt.failed.jsonl) == *SIGABRT* ]]
}

@test "a command that dies everywhere ends the run at once, with its own words" {
    seq 10000 >in.txt
    map -g cpu:2 in.txt -o out.txt -- sh -c 'echo "no such model: qwen" >&2; exit 7'
    ended_with 1
    says "no such model: qwen" "status 7" "gave a single result"
    [ "$(query 'select count(*) <= 6 from attempts')" = 1 ]
}

@test "a script with a typo says what Python said" {
    seq 100 >in.txt
    pyworker typo <<'END'
import no_such_module
END
    map -g cpu:2 in.txt -o out.txt -- ./typo
    ended_with 1
    says "No module named 'no_such_module'"
}

@test "--timeout ends the worker of an item that takes too long" {
    obedient
    script 12 "hang@5" >in.jsonl
    map -g cpu:2 --timeout 300ms --retries 1 --grace 1s in.jsonl -o out.jsonl -- ./obedient
    ended_with 1
    says "longer than"
    [ "$(wc -l <out.jsonl)" -eq 11 ]
    [ "$(jq .item out.jsonl.failed.jsonl)" = 5 ]
    [[ $(jq -r .reason out.jsonl.failed.jsonl) == *"limit for one item"* ]]
}

@test "--timeout also holds for filters" {
    seq 12 >in.txt
    worker slow <<'END'
#!/bin/sh
while read -r n; do [ "$n" != 5 ] || sleep 1000; echo "r$n"; done
END
    map -g cpu:2 --timeout 300ms --retries 0 --grace 1s in.txt -o out.txt -- ./slow
    ended_with 1
    [ "$(wc -l <out.txt)" -eq 11 ]
    [ "$(jq .item out.txt.failed.jsonl)" = 4 ]
}

@test "--start-timeout ends a worker that never gets ready" {
    seq 12 >in.txt
    map -g cpu:2 --start-timeout 300ms --grace 1s in.txt -o out.txt -- sleep 1000
    ended_with 1
    says "not ready within"
}

@test "out of memory halves the batch, and nothing is lost" {
    seq 0 99 >in.txt
    pyworker hungry <<'END'
import muster
for batch in muster.batches(32):
    with batch:
        if len(batch) > 5:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        for item in batch:
            item.done({"id": item.index, "ok": len(batch) <= 5})
END
    map -g cpu:1 in.txt -o out.jsonl -- ./hungry
    ended_with 0
    says "out of memory" "at most"
    seq 0 99 | sed 's/.*/{"id":&,"ok":true}/' >want.jsonl
    same out.jsonl want.jsonl
}

@test "a worker that dies of memory is started again with less" {
    seq 0 63 >in.txt
    pyworker bursting <<'END'
import muster, os, sys
for batch in muster.batches(16):
    if len(batch) > 4:
        print("torch.cuda.OutOfMemoryError: CUDA out of memory", file=sys.stderr, flush=True)
        os._exit(1)
    for item in batch:
        item.done(item.index)
END
    map -g cpu:1 in.txt -o out.jsonl -- ./bursting
    ended_with 0
    seq 0 63 >want.jsonl
    same out.jsonl want.jsonl
}

@test "a worker that crashes now and then still gives a complete result" {
    seq 0 299 >in.txt
    pyworker flaky <<'END'
import muster, os
for item in muster.items():
    if item.attempt == 1 and item.index % 50 == 49:
        os._exit(3)
    item.done(item.index)
END
    map -g cpu:2 in.txt -o out.jsonl -- ./flaky
    ended_with 0
    seq 0 299 >want.jsonl
    same out.jsonl want.jsonl
}

@test "a program that cannot be executed names the reason" {
    seq 3 >in.txt
    printf '#!/no/such/interpreter\n' >bad
    chmod +x bad
    map -g cpu:1 in.txt -o out.txt -- ./bad
    [ "$status" -eq 69 ] || [ "$status" -eq 1 ]
    says "could not be executed"
}

# ./killed: dies once by SIGKILL, as its cgroup counts a process that the kernel ended for lack of memory.
killed_worker() {
    grep -qE '^0::|memory' /proc/self/cgroup || skip "no memory cgroups here"
    export MUSTER_SYSFS=$PWD/sys
    mkdir -p sys/fs/cgroup/memory
    echo "oom_kill 3" | tee sys/fs/cgroup/memory.events >sys/fs/cgroup/memory/memory.oom_control
    echo "$1" | tee sys/fs/cgroup/memory.max >sys/fs/cgroup/memory/memory.limit_in_bytes
    pyworker killed <<'END'
import muster, os, signal
for batch in muster.batches(8):
    if not os.path.exists("died") and len(batch) == 8:
        open("died", "w").close()
        for path in "memory.events", "memory/memory.oom_control":
            with open("sys/fs/cgroup/" + path, "w") as file:
                file.write("oom_kill 4\n")
        os.kill(os.getpid(), signal.SIGKILL)
    for item in batch:
        item.done(item.index)
END
    records 64 >in.jsonl
}

@test "a large worker that is killed as the kernel ends a process of its cgroup ran out of memory" {
    killed_worker $((64 << 20))
    local where
    for where in "-g cpu:1" "--hosts one=cpu:1 --via env"; do # the facts of the machine where it ran
        rm -f died
        echo "oom_kill 3" | tee sys/fs/cgroup/memory.events >sys/fs/cgroup/memory/memory.oom_control
        map --fresh -f $where --batch 8 in.jsonl -o out.jsonl -- ./killed
        ended_with 0
        says "cpu_0 died (SIGKILL, out of host memory)"
        [ "$(wc -l <out.jsonl)" = 64 ]
    done
}

@test "a small worker that is killed meanwhile did not run out of memory" {
    killed_worker $((1 << 50))
    map -g cpu:1 --batch 8 in.jsonl -o out.jsonl -- ./killed
    ended_with 0
    says "cpu_0 died (SIGKILL, sender unknown; at about that time the kernel killed a process for lack of memory)"
    says_not "out of host memory"
    [ "$(wc -l <out.jsonl)" = 64 ]
}
