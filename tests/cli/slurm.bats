#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Under a Slurm of four nodes on this machine (tests/slurm/cluster).
load helpers
load slurm_helpers

setup_file() {
    cluster_up
}
teardown_file() { cluster_down; }

setup() { cluster_setup; }


@test "inside an allocation, every node takes part, with the GPUs that the job has there" {
    # The nodes are one machine, so each needs locks of its own.
    worker there <<END
#!/bin/sh
MUSTER_LOCK_DIR=$PWD/locks.\$SLURMD_NODENAME MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=8 exec "$MUSTER" "\$@"
END
    run --separate-stderr limited salloc -Q -N2 --gpus-per-node=3 "$MUSTER" each --hosts slurm --agent-path "$PWD/there" -g all -- sh -c 'echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES'
    ended_with 0
    [ "$(sort <<<"$output" | tr '\n' ';')" = "n1_gpu_0: n1 0;n1_gpu_1: n1 1;n1_gpu_2: n1 2;n2_gpu_0: n2 0;n2_gpu_1: n2 1;n2_gpu_2: n2 2;" ]
}

@test "nodes without muster get it through srun" {
    seq 1 50000 >in.txt
    MUSTER_SEND_AGENT=1 limited salloc -Q -N2 "$MUSTER" map --hosts slurm -g cpu:2 -o out.txt in.txt -- cat
    same in.txt out.txt
    grep -q "n[12]: installed muster .* in $PWD/cache/muster" muster-runs/latest/orchestrator.log
    [ "$(ls -A cache/muster | wc -l)" = 1 ]
}

@test "secrets of the environment are handed on by srun only if --env names them, and are named in the log" {
    export HF_TOKEN=hidden OPENAI_API_KEY=given MAX_TOKENS=7
    seq 1 2 >in.txt
    local how
    for how in "salloc -Q -N1 $MUSTER map --hosts slurm" "$MUSTER map --hosts slurm:1"; do
        limited $how -g cpu:1 --fresh -f --env OPENAI_API_KEY -o out.txt in.txt -- \
            sh -c 'while read -r x; do echo "$x ${HF_TOKEN-none} $OPENAI_API_KEY $MAX_TOKENS"; done'
        same out.txt - <<<"1 none given 7
2 none given 7"
        grep -q "secrets are sent to nodes only if --env names them; here are:.* HF_TOKEN" muster-runs/latest/orchestrator.log
        ! grep "here are:.* OPENAI_API_KEY" muster-runs/latest/orchestrator.log || false
        ! grep -q hidden muster-runs/latest/*.log || false
    done
    # The same of a host that is added later, and once.
    slow_filter
    seq 1 300 >in.txt
    map_begin -g cpu:1 --fresh -f -o out.txt in.txt -- ./slow
    wait_for has_logged "cpu_0: attempt"
    wait_for limited "$MUSTER" hosts --add slurm:1
    "$MUSTER" hosts --add slurm:1 >/dev/null
    map_end
    ended_with 0
    [ "$(grep -c "secrets are sent to nodes only if --env names them; here are:.* HF_TOKEN" muster-runs/latest/orchestrator.log)" = 1 ]
    wait_for nothing_is_queued
}

@test "launch: the ranks of one program on all nodes, and a step that is cancelled is a host that is lost" {
    run --separate-stderr limited salloc -Q -N2 "$MUSTER" launch --hosts slurm -g cpu:1 --nproc-per-node 2 --no-python sh -c 'echo $RANK $LOCAL_RANK $WORLD_SIZE $GROUP_RANK $SLURMD_NODENAME $MASTER_PORT'
    ended_with 0
    [ "$(sort <<<"$output" | cut -d' ' -f1-5)" = $'0 0 4 0 n1\n1 1 4 0 n1\n2 0 4 1 n2\n3 1 4 1 n2' ]
    [ "$(cut -d' ' -f6 <<<"$output" | sort -u | wc -l)" = 1 ]
    # Two restarts: the rank may be seen to die, and start again, before its host is seen to be lost.
    salloc -Q -N2 "$MUSTER" launch --hosts slurm -g cpu:1 --max-restarts 2 --host-timeout 1s --shutdown-timeout 1 --no-python \
        sh -c 'echo $SLURM_JOB_ID.$SLURM_STEP_ID >>steps; [ $TORCHELASTIC_RESTART_COUNT != 0 ] || exec sleep 1000' >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for has_lines steps 2
    scancel "$(head -1 steps)"
    map_end
    ended_with 0
    says "all ranks start again" ": lost" "it is connected again"
    # Slurm kills the agent and the rank: whichever is known first is the reason.
    [[ $output == *"host n"?" was lost with rank "?* || $output == *"rank "?" (pid "*" on n"?") failed first: signal 9"* ]]
    run --separate-stderr limited "$MUSTER" launch --hosts slurm:2 --slurm-args --exclusive -g cpu:1 --no-python sh -c 'echo $RANK $WORLD_SIZE'
    ended_with 0
    [ "$(sort <<<"$output")" = $'0 2\n1 2' ]
}

@test "from a batch script, over four nodes, in order" {
    seq 1 50000 >in.txt
    worker job <<END
#!/bin/sh
#SBATCH -N4
exec "$MUSTER" map --hosts slurm -g cpu:2 -o out.txt in.txt -- cat
END
    sbatch -o said ./job
    wait_for test -e out.txt
    same in.txt out.txt
    [ "$(grep -c 'attempt' muster-runs/latest/orchestrator.log)" -ge 8 ]
}

@test "a step that is cancelled is a host that was lost: the run goes on, and the host is back" {
    seq 1 600 >in.txt
    slow_filter
    salloc -Q -N2 "$MUSTER" map --hosts slurm -g cpu:2 -o out.txt in.txt -- ./slow >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for has_logged "n2_cpu_1: attempt"
    sleep 0.5
    scancel "$(squeue -h -s -o '%i %N' | awk '$2 == "n1" { print $1; exit }')"
    map_end
    ended_with 0
    same in.txt out.txt
    says "n1: lost" "n1: it is connected again"
    wait_for nobody_is_left
}

@test "Slurm's own daemons are killed and started again: the run does not notice" {
    seq 1 1600 >in.txt
    slow_filter
    salloc -Q -N2 "$MUSTER" map --hosts slurm -g cpu:2 -o out.txt in.txt -- ./slow >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for has_logged "n2_cpu_1: attempt"
    "$BATS_TEST_DIRNAME/../slurm/cluster" crash "$BATS_FILE_TMPDIR/slurm" 3>&- 4>&-
    map_end
    ended_with 0
    same in.txt out.txt
    says_not "lost"
    wait_for nobody_is_left
}

@test "a job that Slurm has lost, or that is over, ends the run: a new one goes on with it" {
    seq 1 4000 >in.txt
    slow_filter
    mkdir bin
    worker bin/srun <<END
#!/bin/sh
[ ! -e gone ] || { echo "srun: error: Unable to confirm allocation for job 4: Invalid job id specified" >&2; exit 1; }
exec $(command -v srun) "\$@"
END
    PATH=$PWD/bin:$PATH salloc -Q -N2 "$MUSTER" map --hosts slurm -g cpu:2 -o out.txt in.txt -- ./slow >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for has_done 100
    touch gone
    squeue -h -s -o %i | grep -v -e batch -e extern -e inter | xargs scancel
    map_end
    ended_with 1
    says "n1: given up: " "Invalid job id specified" "no device is left to work on; go on with: muster resume"
    rm gone
    limited salloc -Q -N2 "$MUSTER" resume latest
    same in.txt out.txt
    wait_for nobody_is_left
}

@test "a job that is ended twice, as at its time limit, is complete when its script was submitted a third time" {
    seq 1 2000 >in.txt
    slow_filter
    worker job <<END
#!/bin/sh
#SBATCH -N2
exec "$MUSTER" map --hosts slurm -g cpu:2 -o out.txt in.txt -- ./slow
END
    local id n
    for n in 1 2; do
        id=$(sbatch --parsable -o "said.$n" ./job)
        wait_for has_done $((n * 100))
        scancel "$id"
        wait_for is_over "$id"
    done
    [ ! -e out.txt ]
    sbatch -o said.3 ./job
    wait_for test -e out.txt
    same in.txt out.txt
    grep -q "going on with" said.3
}

@test "a run that uses one of several nodes says so" {
    run --separate-stderr limited salloc -Q -N2 "$MUSTER" each -g cpu:1 -- echo here
    ended_with 0
    [ "$output" = "cpu_0: here" ]
    [ "$stderr" = "muster: this Slurm job has 2 nodes, and this run uses one; --hosts slurm takes them all" ]
    run --separate-stderr limited salloc -Q -N2 srun -N2 -n2 "$MUSTER" each -g cpu:1 -- echo here
    ended_with 0
    [[ $stderr != *"this run uses one"* ]]
}

# The nodes n1 and n2 are taken by others.
others_have() {
    sbatch -Q -o /dev/null --exclusive -w "$1" --wrap 'sleep 600' >/dev/null
    wait_for nodes_are_taken "$1"
}
nodes_are_taken() { [ "$(sinfo -h -N -n "$1" -o %T | sort -u)" = allocated ]; }
jobs_of_muster() { squeue -h -n "$(squeue -h -o %j | grep '^muster-' | sort -u | tr '\n' ',')none" "$@"; }
has_pending() { [ "$(jobs_of_muster -t PD | wc -l)" = "$1" ]; }
nothing_is_queued() { [ -z "$(jobs_of_muster)" ]; }
has_joined() { [ "$(grep -sc 'it joins the run' muster-runs/latest/orchestrator.log)" -ge "$1" ]; }

@test "slurm:4 from outside of a job: begins with the nodes that are free, and others join as Slurm grants them" {
    seq 1 1500 >in.txt
    slow_filter
    others_have n1,n2
    map_begin --hosts slurm:4 --host-timeout 2s -g cpu:1 -o out.txt in.txt -- ./slow
    wait_for has_logged "_cpu_0: attempt"
    wait_for has_pending 2
    local queued
    queued=$(squeue -h -t PENDING -o %i | sort)
    sleep 4
    [ "$(squeue -h -t PENDING -o %i | sort)" = "$queued" ] # a wait in the queue is no silence
    scancel -u root -n wrap
    wait_for has_joined 2
    map_end
    ended_with 0
    same in.txt out.txt
    wait_for nothing_is_queued
    [ "$(query "select count(distinct label) from attempts where items_done > 0")" = 4 ]
}

@test "the run of queued jobs begins with the first one, and a signal leaves nothing in the queue" {
    seq 1 300 >in.txt
    slow_filter
    others_have n1,n2,n3,n4
    map_begin --hosts slurm:3 -g cpu:1 -o out.txt in.txt -- ./slow
    wait_for has_pending 3
    wait_for holds said "waiting for Slurm to grant the first node"
    kill -INT "$PID"
    map_end
    ended_with 130
    wait_for nothing_is_queued
    [ ! -e muster-runs ]
    map_begin --hosts slurm:3 --slurm-args '--exclusive --comment=mine' -g cpu:1 -o out.txt in.txt -- ./slow
    wait_for has_pending 3
    [ "$(jobs_of_muster -o %k | sort -u)" = mine ]
    scancel -u root -n wrap
    wait_for has_logged "attempt"
    kill -KILL "$PID"
    PID=
    wait_for nothing_is_queued
    wait_for nobody_is_left
}

@test "when a job of slurm:N ends, another is asked for, and its node joins" {
    seq 1 800 >in.txt
    slow_filter
    map_begin --hosts slurm:2 -g cpu:1 -o out.txt in.txt -- ./slow
    wait_for has_logged "slurm-2_cpu_0: attempt"
    wait_for has_logged "slurm-1_cpu_0: attempt"
    sleep 0.5
    scancel "$(jobs_of_muster -o %i | head -1)"
    map_end
    ended_with 0
    same in.txt out.txt
    says ": it has left the run; another job is asked for" ": it joins the run: 1 more worker"
    wait_for nothing_is_queued
}

@test "--dry-run asks for no job of slurm:N, and shows the command that would" {
    seq 1 5 >in.txt
    run limited "$MUSTER" map --dry-run --hosts slurm:3 --slurm-args "--time=8 --comment='two words'" -o out.txt in.txt -- cat
    ended_with 69
    says "slurm:3" "srun " "--time=8 '--comment=two words' -N1 -n1 "
    nothing_is_queued
}

# A filter that notes each item when it begins it.
noting_filter() {
    mkdir begun
    worker noting <<'END'
#!/bin/sh
while read -r item; do
    echo "$item" >>"begun/$$"
    sleep 0.2
    echo "$item"
done
END
}

any_begun() { [ -n "$(ls begun)" ]; }

@test "hosts of slurm:N are left before the time of their jobs is over: each item is begun once, and the run waits for other jobs" {
    seq 1 130 >in.txt
    noting_filter
    worker there <<END
#!/bin/sh
# An administrator shortens the first two jobs: limits of Slurm's own are minutes.
{ mkdir one || mkdir two; } 2>/dev/null && scontrol update jobid="\$SLURM_JOB_ID" EndTime=now+14seconds
echo "\$SLURM_JOB_ID" >>jobs
exec "$MUSTER" "\$@"
END
    map_begin --hosts slurm:2 --hosts-min 2 --agent-path "$PWD/there" --no-reissue -g cpu:1 -o out.txt in.txt -- ./noting
    map_end
    ended_with 0
    same in.txt out.txt
    says "slurm-1: its job ends in" "slurm-2: its job ends in" "; its workers finish their items"
    says "slurm-1: it has left the run; another job is asked for" "slurm-2: it has left the run; another job is asked for"
    says "slurm-1: it joins the run" "slurm-2: it joins the run"
    says_not "lost"
    [ "$(cat begun/* | sort -n)" = "$(cat in.txt)" ]
    [ "$(scontrol show job "$(head -1 jobs)" | grep -c 'JobState=COMPLET')" = 1 ] # it was ended by nobody
    wait_for nothing_is_queued
}

@test "a run in a job whose time is over soon stops in time, and the script that is submitted again goes on: each item is begun once" {
    seq 1 150 >in.txt
    noting_filter
    worker job <<END
#!/bin/sh
#SBATCH -N2
[ -e status ] || scontrol update jobid="\$SLURM_JOB_ID" EndTime=now+14seconds
"$MUSTER" map --hosts slurm --no-reissue -g cpu:1 -o out.txt in.txt -- ./noting
echo \$? >>status
END
    sbatch -o said.1 ./job
    wait_for test -s status
    [ "$(cat status)" = 75 ]
    grep -q "the run's Slurm job ends in .*; the workers finish their items, and the run ends" said.1
    [[ "$(tail -1 said.1)" = "muster: stopped; go on with: "* ]]
    [ ! -e out.txt ]
    sbatch -o said.2 ./job
    wait_for test -e out.txt
    same in.txt out.txt
    grep -q "going on with" said.2
    [ "$(cat begun/* | sort -n)" = "$(cat in.txt)" ]
}

@test "an agent that gets TERM, as at a preemption: each item is begun once, slurm:N asks for another job, and the run in a job stops" {
    seq 1 60 >in.txt
    noting_filter
    worker there <<END
#!/bin/sh
echo \$\$ >>agents
exec "$MUSTER" "\$@"
END
    map_begin --hosts slurm:1 --agent-path "$PWD/there" --no-reissue -g cpu:1 -o out.txt in.txt -- ./noting
    wait_for any_begun
    kill -TERM "$(head -1 agents)"
    map_end
    ended_with 0
    same in.txt out.txt
    says "slurm-1: its job ends soon (it got SIGTERM); its workers finish their items" "slurm-1: it has left the run; another job is asked for"
    says_not "lost"
    [ "$(cat begun/* | sort -n)" = "$(cat in.txt)" ]
    [ "$(wc -l <agents)" = 2 ]
    wait_for nothing_is_queued
    rm -r begun agents
    mkdir begun
    salloc -Q -N2 "$MUSTER" map --hosts slurm --agent-path "$PWD/there" --no-reissue -g cpu:1 -o out2.txt in.txt -- ./noting >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for any_begun
    wait_for has_lines agents 2
    kill -TERM "$(head -1 agents)"
    map_end
    ended_with 75
    says "the run's Slurm job ends soon (it got SIGTERM); the workers finish their items, and the run ends"
    run limited salloc -Q -N2 "$MUSTER" resume latest
    ended_with 0
    same in.txt out2.txt
    [ "$(cat begun/* | sort -n)" = "$(cat in.txt)" ]
}

@test "a job is one task on one node with our streams, whatever --slurm-args says of tasks, nodes and files" {
    seq 1 300 >in.txt
    map --hosts slurm:1 --slurm-args '--nodes=2 --ntasks=3 --cpus-per-task=2 -o job-%j.log -i none' -g cpu:2 -o out.txt in.txt -- cat
    ended_with 0
    same in.txt out.txt
    says_not "lost" "cannot be had"
}

@test "options of --slurm-args that Slurm refuses are told with its words" {
    seq 1 10 >in.txt
    map --hosts slurm:2 --slurm-args '-p nowhere' -o out.txt in.txt -- cat
    ended_with 69
    says "0 of 2 hosts can be had; slurm-1: srun ended with status" "Invalid partition name specified"
    map --hosts slurm:0 -o out.txt in.txt -- cat
    ended_with 2
    says "'slurm:0' has no number of nodes"
    map --hosts slurm:1 --slurm-args "'" -o out.txt in.txt -- cat
    ended_with 2
    says "--slurm-args"
}

@test "outside of a job, --hosts slurm says what it needs" {
    run limited "$MUSTER" each --hosts slurm -- true
    ended_with 69
    says "--hosts slurm takes the nodes of a Slurm job, and this is none"
}

@test "srun starts muster launch once on each node: the ranks of all nodes are one gang" {
    # The nodes are one machine, whose name is not theirs.
    MASTER_ADDR=127.0.0.1 run --separate-stderr limited srun -Q -N3 --ntasks-per-node=1 "$MUSTER" launch --nproc-per-node 2 --no-python \
        sh -c 'echo "$RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK $GROUP_WORLD_SIZE"; test "$SLURM_NODEID" = "$GROUP_RANK"'
    ended_with 0
    [ "$(sort <<<"$output")" = $'0 0 6 2 0 3\n1 1 6 2 0 3\n2 0 6 2 1 3\n3 1 6 2 1 3\n4 0 6 2 2 3\n5 1 6 2 2 3' ]
}

@test "with several tasks on a node, each is one rank, and has Slurm's local number; the step fails with the rank's status" {
    MASTER_ADDR=127.0.0.1 run --separate-stderr limited srun -Q -N2 --ntasks-per-node=2 "$MUSTER" launch --no-python \
        sh -c 'echo "$RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK $GROUP_WORLD_SIZE"'
    ended_with 0
    [ "$(sort <<<"$output")" = $'0 0 4 2 0 2\n1 1 4 2 0 2\n2 0 4 2 1 2\n3 1 4 2 1 2' ]
    MASTER_ADDR=127.0.0.1 run limited srun -Q -N2 --ntasks-per-node=2 "$MUSTER" launch --no-python sh -c 'test $RANK != 2 || exit 9; exec sleep 60'
    ended_with 9
    says "rank 2 (pid " "failed first: status 9"
    run limited srun -Q -N2 --ntasks-per-node=2 "$MUSTER" launch --nproc-per-node 2 --no-python true
    says "each of which is one rank"
    run --separate-stderr limited srun -Q -n2 "$MUSTER" launch --standalone --no-python sh -c 'echo "$RANK of $WORLD_SIZE"'
    ended_with 0
    [ "$output" = $'0 of 1\n0 of 1' ]
    wait_for nobody_is_left
}
