#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Hosts that join a run and leave it while it lasts. The hosts are agents on this machine: ./reach HOST refuses a host
# until there is a file up.HOST, and notes its own pid, whose child is the agent.
load helpers

setup() {
    common_setup
    worker reach <<'END'
#!/bin/sh
host=$1
shift
[ -e "up.$host" ] || { echo "no route to $host" >&2; exit 255; }
echo $$ >pid.$host
"$@"
END
    pyworker slow <<'END'
import sys, time
for line in sys.stdin:
    time.sleep(0.02)
    sys.stdout.write(line)
    sys.stdout.flush()
END
}

agent_of() { pgrep -P "$(cat "pid.$1")"; }
has_logged() { grep -qsF -- "$1" muster-runs/latest/orchestrator.log; }
logged() { grep -cF -- "$1" muster-runs/latest/orchestrator.log; }

@test "a host that was refused at the start is asked again, and joins with seats behind the present ones" {
    seq 1 300 >in.txt
    touch up.one
    map_begin --hosts one=cpu:1,two=cpu:2 --via './reach {host}' -o out.txt in.txt -- \
        sh -c 'echo "worker $MUSTER_WORKER of $MUSTER_WORKERS" >>seats; exec ./slow'
    wait_for has_logged "one_cpu_0: attempt"
    touch up.two
    map_end
    ended_with 0
    same in.txt out.txt
    says "two: cannot be had: ./reach ended with status 255: no route to two" "two: it joins the run: 2 more workers"
    [ "$(sort seats)" = "worker 0 of 1
worker 1 of 3
worker 2 of 3" ]
    [ "$(query "select count(*) from attempts where items_done > 0")" = 3 ]
}
