#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# muster submit on nodes that are lost or taken away, under a Slurm of four nodes on this machine (tests/slurm/cluster) that
# misses a node soon, and in which jobs of the partition `high` take the place of others.
load helpers
load slurm_helpers

setup_file() {
    SLURM_TEST_LINES='SlurmdTimeout=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=high Nodes=ALL PriorityTier=10 State=UP OverSubscribe=NO' cluster_up
}
teardown_file() { cluster_down; }
setup() { cluster_setup; }

cluster() { "$BATS_TEST_DIRNAME/../slurm/cluster" "$1" "$BATS_FILE_TMPDIR/slurm" "$2" 3>&- 4>&-; }
# Slurm has started it again: it would wait for two minutes. On another node, since Slurm takes the end of the first start
# there for that of the second.
starts_again() { # JOB NODE
    wait_for is_in_state "$1" PENDING || wait_for is_in_state "$1" PENDING
    scontrol update jobid="$1" reqnodelist="$2"
    scontrol update jobid="$1" starttime=now
}
each_item_was_begun_once() { [ "$(cat begun/* | sort -n)" = "$(cat ../in.txt)" ]; }
# The processes of a node die with it.
parent_of() { ps -o ppid= -p "$1" | tr -d ' '; }
job_kill() { # RUN
    local map job
    map=$(sed -n 's/^pid //p' "$1/lock")
    job=$(parent_of "$map")
    kill -KILL "$(parent_of "$job")" "$job" "$map"
}
noting_filter() {
    mkdir begun
    worker noting <<'END'
#!/bin/sh
while read -r item; do
    echo "$item" >>"begun/$$"
    [ -e go ] || sleep 0.1
    echo "$item"
done
END
}

@test "nodes whose daemons are killed: the jobs start on others, and work there when nobody does on their node" {
    local name a b
    seq 1 1500 >in.txt
    noting_filter
    for name in dead alive; do
        mkdir $name
        (cd $name && mkdir begun && "$MUSTER" submit -w "$([ $name = dead ] && echo n1 || echo n2)" map --no-reissue -g cpu:1 -o out.txt ../in.txt -- ../noting 2>/dev/null)
    done
    (cd dead && wait_for has_done 20)
    (cd alive && wait_for has_done 20)
    a=$(cd dead && last_job) b=$(cd alive && last_job)
    cluster lose n1
    cluster lose n2
    job_kill dead/muster-runs/latest
    starts_again "$a" n3
    (cd dead && wait_for holds "$(echo muster-runs/latest/logs/job_*_stderr.log)" "going on with")
    starts_again "$b" n4
    (cd alive && wait_for holds "$(echo muster-runs/latest/logs/job_*_stderr.log)" ", which works on run")
    touch dead/go alive/go
    for name in dead alive; do
        wait_for test -e $name/out.txt
        same in.txt $name/out.txt
        (cd $name && wait_for has_events ended 1)
    done
    (cd alive && each_item_was_begun_once)
    (cd alive && wait_for has_events ended 2 && [ "$(events started restarts | tail -1)" = 1 ])
    # What is in the ledger is not begun again; the results of the last second may not be.
    [ "$(cat dead/begun/* | sort -n | head -10)" = "$(seq 10)" ]
    cluster find n1
    cluster find n2
}

@test "a job that another one takes the place of is started again by Slurm, and goes on: the bytes of a run here" {
    seq 1 300 >in.txt
    slow_filter
    "$MUSTER" submit --follow -w n4 --exclusive map -g cpu:2 -o out.txt in.txt -- ./slow >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for has_done 50
    sbatch -Q -o /dev/null -p high -w n4 --exclusive --wrap 'sleep 600' >/dev/null
    starts_again "$(last_job)" n3
    map_end
    ended_with 0
    same in.txt out.txt
    says "started again by Slurm, on n3" "going on with" # and that it waits, if somebody asked meanwhile
    [ "$(events started restarts | tail -1)" = 1 ]
    [ "$(events submitted | wc -l)" = 1 ]
    scancel -u root -n wrap
}
