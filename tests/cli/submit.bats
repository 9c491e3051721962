#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# muster submit, under a Slurm of four nodes on this machine (tests/slurm/cluster).
load helpers
load slurm_helpers

setup_file() {
    cluster_up
    ! has_cluster || long_job
}
teardown_file() { cluster_down; }

# Slurm looks at time limits twice a minute: a job that meets its own goes on beside all tests, and the last one looks at it.
long_job() {
    cd "$BATS_FILE_TMPDIR"
    seq 1 1700 >in.txt
    slow_filter
    SLURM_CONF=$PWD/slurm/slurm.conf MUSTER_SYSFS=/nowhere MUSTER_LOCK_DIR=$PWD/locks XDG_CACHE_HOME=$PWD/cache \
        "$MUSTER" submit -w n4 --time=1 --drain 50s map -g cpu:1 -o out.txt in.txt -- ./slow >said 2>&1 3>&- 4>&-
}

setup() { cluster_setup; }

# A filter that notes each item when it begins it.
noting_filter() {
    mkdir begun
    worker noting <<'END2'
#!/bin/sh
while read -r item; do
    echo "$item" >>"begun/$$"
    sleep 0.03
    echo "$item"
done
END2
}
each_item_was_begun_once() { [ "$(cat begun/* | sort -n)" = "$(cat in.txt)" ]; }

@test "--follow: the results, the words and the status are those of a run here" {
    seq 1 5000 >in.txt
    submit --follow map -g cpu:2 -o out.txt in.txt -- cat
    ended_with 0
    same in.txt out.txt
    submit_said "submitted as job" "out.txt: 5,000 results, complete" "has ended: all is done"
    [ "$(state)" = finished ]
    run "$MUSTER" status
    says "state     finished" "job       $(last_job) has ended: all is done" "5,000 of 5,000 items"
    run "$MUSTER" logs latest "job_$(last_job)"
    says "[job $(last_job)] muster: job $(last_job) on n"
    submit --follow each -g cpu:1 -- sh -c 'echo out; echo bad >&2; exit 7'
    ended_with 7
    [ "$output" = "cpu_0: out" ]
    submit_said "cpu_0: bad" "ended with status 7: it failed, and would fail again"
    [ "$(state | head -1)" = failed ]
}

@test "--dry-run shows the script, and nothing is submitted or made" {
    seq 1 5 >in.txt
    submit --dry-run -N2 -p debug --comment "it's \"two\" words" --setup 'source env.sh' -t 8:00:00 map -o out.txt 'in.txt' -- cat 'a b'
    ended_with 0
    local dir
    dir=$(sed -n 's/^exec.* --ledger \([^ ]*\) .*/\1/p' <<<"$output")
    [[ $dir == "$PWD/muster-runs/20"*-map ]]
    [ "$output" = "#!/bin/bash
#SBATCH --job-name=muster-map
#SBATCH --chdir=$PWD
#SBATCH --error=$dir/logs/job_%j_stderr.log
#SBATCH --output=$dir/logs/job_%j_stdout.log
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --nodes=2
#SBATCH --partition=debug
#SBATCH \"--comment=it's \\\"two\\\" words\"
#SBATCH --time=8:00:00
source env.sh || exit
exec $MUSTER job --again=100 --ledger $dir map --run-dir=$dir --hosts=slurm -o out.txt in.txt -- cat 'a b'" ]
    [ ! -e muster-runs ]
    mkdir there
    submit --dry-run --no-requeue -J mine --signal B:USR1@9 -o log -D there --again 3 launch -m pkg
    ended_with 0
    [ "$(grep -c SBATCH <<<"$output")" = 7 ]
    [[ $output != *--requeue* && $output == *"job --again=3 $PWD/there/muster-runs/"* ]]
    [[ $(submit --dry-run -t 2 map -o o in.txt -- cat && echo "$output") == *"--signal=B:USR1@30"* ]]
}

@test "what cannot work is said where it is typed, with its status, and leaves nothing" {
    seq 1 5 >in.txt
    refused() { # STATUS WORDS OPTION...
        local expected=$1 words=$2
        shift 2
        submit "$@"
        ended_with "$expected"
        submit_said "$words"
    }
    refused 2 "no verb"
    refused 2 "unknown verb 'mpa'" mpa
    refused 2 "unknown option '--nods' (did you mean '--nodes'?)" --nods=2 map
    refused 2 "submit it on a node of the other cluster" -M other map -o o in.txt -- cat
    refused 2 "--signal=USR2@60: without B: the script does not get the signal; say B:USR1" --signal=USR2@60 map -o o in.txt -- cat
    refused 2 "map: unknown option '--outptu' (did you mean '--output'?)" map --outptu o in.txt -- cat
    refused 2 "map: open nothing: No such file" map -o o nothing -- cat
    refused 2 "a job has no standard input" map -o o - -- cat
    refused 2 "name the output with -o FILE" map -o - in.txt -- cat
    refused 69 "'no-such-program' is not in PATH" map -o o in.txt -- no-such-program
    refused 2 "--dry-run stands before the verb" map --dry-run -o o in.txt -- cat
    refused 2 "in the background already" map --detach -o o in.txt -- cat
    refused 2 "the script nothing.py: No such file" launch nothing.py
    refused 2 "exclude each other" -N2 launch --nnodes 2 --no-python true
    refused 2 "submit is not submitted itself" submit map
    refused 2 "muster kge tracin: unknown option '--tripels'" kge tracin --tripels x
    refused 2 "--follow waits" --wait map -o o in.txt -- cat
    refused 2 "there are no runs" resume latest
    refused 69 "there is no partition 'nowhere'; there are debug" -p nowhere map -o o in.txt -- cat
    refused 2 "--drain 300s is not less than the time of the job, 60s" --time=1 --drain 5m map -o o in.txt -- cat
    refused 69 "sbatch" --time=tomorrow map -o o in.txt -- cat
    mkdir bin
    ln -s "$(command -v cat)" bin
    PATH=$PWD/bin run "$MUSTER" submit map -o o in.txt -- cat
    ended_with 69
    says "there is no Slurm here: sbatch is not in PATH"
    [ -z "$(ls -A muster-runs 2>/dev/null)" ]
    run "$MUSTER" job . map
    ended_with 69
    says "this is no Slurm job"
    submit --dry-run --setup 'false # no' map -o o in.txt -- cat
    [ "$(bash <<<"$output"; echo $?)" = 1 ]
    submit --dry-run --setup ' ' map -o o in.txt -- cat
    bash -n <<<"$output"
    submit --dry-run --drain 1d map -o o in.txt -- cat
    ended_with 2
    submit_said "--drain: expected 1s to 65535s"
    submit --dry-run --array 4 map --run-dir R --items 8 -o o -- cat {output}
    ended_with 2
    submit_said "--array: --run-dir is given to each task by submit; leave it out"
    submit --dry-run --setup 'PATH=/there' map -o o in.txt -- no-such-program # the setup may bring it
    ended_with 0
}

@test "a job that waits: status and ls say why, stop cancels it" {
    seq 1 5 >in.txt
    submit -H map -g cpu:1 -o out.txt in.txt -- cat
    ended_with 0
    [ "$(state)" = queued ]
    run "$MUSTER" resume
    ended_with 2
    says "has nothing to go on with: job $(last_job) waits: it is held"
    run "$MUSTER" status
    says "state     queued" "job       $(last_job) waits: it is held: scontrol release"
    rm -rf cache
    SLURM_CLUSTERS=other run "$MUSTER" status
    says "state     queued"
    SLURM_CLUSTERS=other SCANCEL_STATE=RUNNING SCANCEL_INTERACTIVE=1 run "$MUSTER" stop
    ended_with 0
    says "job $(last_job) is cancelled" "to go on: sbatch "
    is_over "$(last_job)"
    [ "$(state)" = stopped ]
    run "$MUSTER" stop
    says "there is nothing to stop"
    "$MUSTER" submit --follow -H map -g cpu:1 -o out.txt in.txt -- cat >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for holds said "it is held"
    scancel "$(last_job)" # by somebody else
    wait_for is_in_state "$(last_job)" CANCELLED
    rm -rf cache
    map_end
    ended_with 1
    says "job $(last_job) is over: it was cancelled"
    [ "$(state | head -1)" = stopped ]
}

@test "before the time limit the work is drained, and submitted again until it is complete: each item is begun once" {
    seq 1 400 >in.txt
    noting_filter
    "$MUSTER" submit --follow map --no-reissue -g cpu:2 -o out.txt in.txt -- ./noting >said 2>&1 3>&- 4>&- &
    PID=$!
    local n jobs before=0
    for n in 1 2; do
        wait_for has_events started $n
        wait_for has_done $((before + 30)) # a job that gains nothing is not submitted again
        limit_comes "$(last_job)"
        wait_for has_events ended $n
        before=$(n_done)
    done
    map_end
    ended_with 0
    same in.txt out.txt
    each_item_was_begun_once
    mapfile -t jobs < <(events submitted) # Slurm leaves numbers out
    says "the time of job ${jobs[0]} is over soon; map finishes what it has in hand" "going on with" \
        "its time was over, and work is left; submitted again as job ${jobs[1]}" "job ${jobs[2]} has ended: all is done"
    run "$MUSTER" status
    says "submitted again 2 times"
    [ "$(events submitted verb | grep -c map)" = 1 ]
    wait_for is_over "$(last_job)"
}

@test "logs shows a submitted run from the login node: -f from the queue on, over the job that is submitted again, to the end" {
    seq 1 60 >in.txt
    worker wordy <<'END2'
#!/bin/sh
while read -r item; do
    echo "begins $item" >&2
    sleep 0.05
    echo "$item"
done
END2
    "$MUSTER" submit -H --begin=now+1day map --no-reissue -g cpu:1 -o out.txt in.txt -- ./wordy 2>/dev/null
    limited "$MUSTER" logs -f >said 2>&1 3>&- 4>&- &
    PID=$!
    ! grep -E 'hold|begin' "$(run_dir)/job.sh" # they would be those of the next job as well
    scontrol update jobid="$(last_job)" starttime=now
    scontrol release "$(last_job)"
    wait_for holds said "begins 10"
    wait_for holds said "muster: job $(last_job) on n"
    run limited "$MUSTER" logs
    ended_with 0
    says "begins 1" "job $(last_job) on n"
    limit_comes "$(last_job)"
    wait_for has_events ended 1
    map_end
    ended_with 0
    same in.txt out.txt
    [ "$(grep -c 'begins' said)" = 60 ] # not once more in what the jobs printed
    says "begins 60" "submitted again as job $(last_job)" "muster: job $(last_job) on n"
    run "$MUSTER" logs latest "job_$(last_job)"
    says "[cpu 0] begins 60"
}

run_is() { [ "$(state | head -1)" = "$1" ]; }

@test "a job that is killed at its limit is followed by another, unless nothing was gained in it" {
    worker patient <<'END2'
#!/bin/sh
[ "$1" -lt 2 ] || [ -e go ] || exec sleep 1000
echo "$1" >"$2"
END2
    time_is_over
    "$MUSTER" submit map -g cpu:1 --items 4 --shards 4 -o out.txt -- ./patient {start} {output} 2>/dev/null
    wait_for has_done 2
    limit_comes "$(last_job)"
    wait_for holds muster-runs/latest/stop drain
    scancel "$(last_job)"
    wait_for has_events submitted 2
    wait_for has_events started 2
    wait_for has_logged "attempt 4"
    limit_comes "$(last_job)"
    wait_for holds muster-runs/latest/stop drain
    scancel "$(last_job)"
    wait_for has_events ended 2
    [ "$(events ended why | tail -1)" = "nothing was gained in its time: an item, or a job of a graph, takes longer than that" ]
    wait_for run_is stopped # said before, since SIGKILL may come at any time
    touch go
    submit --follow resume latest
    ended_with 0
    [ "$(tr '\n' ' ' <out.txt)" = "0 1 2 3 " ]
}

@test "scancel ends a run for good, also when its time was told to be over soon" {
    local signals
    worker deaf <<'END2'
#!/bin/sh
trap '' TERM
echo "$1" >"$2"
[ "$1" -lt 1 ] || sleep 30
END2
    # Slow: it answers when the job is being ended already. Raised: the limit, which was about to come when the job began.
    # Near: the limit, but scancel comes before.
    time_is_over
    mv bin/squeue over
    worker bin/squeue <<END2
#!/bin/sh
[ ! -e slow ] || until [ -e cancelled ]; do sleep 0.05; done
[ ! -e near ] || { $(command -v squeue) "\$@" | sed 's/|[^|]*\$/|0:30/'; exit; }
[ -e raised ] && [ -n "\$SLURM_JOB_ID" ] || exec $(command -v squeue) "\$@"
rm raised
./over "\$@"
touch asked
END2
    for signals in none usr1 slow raised near; do
        rm -f slow cancelled
        case $signals in slow | raised | near) touch $signals ;; esac
        PATH=$PWD/bin:$PATH "$MUSTER" submit map -g cpu:1 --grace 1s --items 3 --shards 3 -o out.$signals -- ./deaf {start} {output} 2>/dev/null
        wait_for has_done 1
        case $signals in usr1 | slow | near) limit_comes "$(last_job)" ;; esac
        case $signals in
        raised) wait_for test -e asked ;;
        usr1 | near) wait_for holds muster-runs/latest/stop drain ;;
        esac
        scancel "$(last_job)"
        touch cancelled
        wait_for has_events interrupted 1
        [ "$(events submitted | wc -l)" = 1 ]
        [ "$(events interrupted why)" = "it was interrupted by scancel or by Slurm" ]
        wait_for is_over "$(last_job)"
    done
}

@test "SIGTERM that reaches the script alone, as with proctrack/cgroup, ends the workers as if they had got it" {
    seq 1 3 >in.txt
    worker tidy <<'END2'
#!/bin/sh
trap 'echo tidied >>said; exit 1' TERM
touch begun
while :; do sleep 0.05; done
END2
    local verb
    for verb in "each -g cpu:1 --" "launch --nproc-per-node 1 --no-python" "map -g cpu:1 -o out.txt in.txt --"; do
        rm -f begun said
        "$MUSTER" submit $verb ./tidy 2>/dev/null
        wait_for test -e begun
        scancel --batch --signal=TERM "$(last_job)"
        wait_for is_over "$(last_job)"
        [ "$(cat said)" = tidied ]
        [ "$(events interrupted why)" = "it was interrupted by scancel or by Slurm" ]
        [ "$(events submitted | wc -l)" = 1 ]
        # To all processes of the job, as without it: no worker is ended in haste.
        rm begun said
        "$MUSTER" submit $verb ./tidy 2>/dev/null
        wait_for test -e begun
        scancel --full --signal=TERM "$(last_job)"
        wait_for is_over "$(last_job)"
        [ "$(sort -u said)" = tidied ]
        run cat muster-runs/latest/logs/job_*_stderr.log
        says "SIGTERM: ending the"
    done
    [ "$(state | head -1)" = stopped ]
}

# With these words, until there is a file `can`. It stands before the other one in $PWD/bin.
sbatch_of_jobs_fails() {
    mkdir bin
    worker bin/sbatch <<END2
#!/bin/sh
case "\$*" in *afterany*) [ -e can ] || { echo "$1" >&2; exit 1; } ;; esac
exec $(command -v sbatch) "\$@"
END2
}

@test "scancel ends a run for good, also while its job cannot be submitted again" {
    sbatch_of_jobs_fails "Socket timed out"
    seq 1 500 >in.txt
    slow_filter
    PATH=$PWD/bin:$PATH "$MUSTER" submit map -g cpu:1 -o out.txt in.txt -- ./slow 2>/dev/null
    wait_for has_done 1
    limit_comes "$(last_job)"
    wait_for grep -q "sbatch: Socket timed out; trying again" muster-runs/latest/logs/job_*_stderr.log
    touch can
    scancel "$(last_job)"
    wait_for has_events interrupted 1
    wait_for is_over "$(last_job)"
    [ "$(events submitted | wc -l)" = 1 ]
    [ "$(state)" = stopped ]
}

@test "a controller that is away for longer than a few tries does not end the work" {
    local tried="sbatch: Unable to contact slurm controller (connect failure); trying again"
    sbatch_of_jobs_fails "Unable to contact slurm controller (connect failure)"
    seq 1 100 >in.txt
    slow_filter
    PATH=$PWD/bin:$PATH "$MUSTER" submit map -g cpu:1 -o out.txt in.txt -- ./slow 2>/dev/null
    wait_for has_done 1
    limit_comes "$(last_job)"
    is_tried() { [ "$(cat muster-runs/latest/logs/job_*_stderr.log | grep -c "$tried")" -ge 5 ]; }
    wait_for is_tried || wait_for is_tried
    touch can
    wait_for is_complete || wait_for is_complete
    same in.txt out.txt
    [ "$(events submitted | wc -l)" = 2 ]
}

@test "a job that was submitted although sbatch got no answer is not submitted a second time" {
    mkdir bin
    worker bin/sbatch <<END2
#!/bin/sh
case "\$*" in *afterany*) $(command -v sbatch) "\$@" >>taken; echo "Batch job submission failed: Socket timed out on send/recv operation" >&2; exit 1 ;; esac
exec $(command -v sbatch) "\$@"
END2
    seq 1 100 >in.txt
    slow_filter
    PATH=$PWD/bin:$PATH "$MUSTER" submit map -g cpu:1 -o out.txt in.txt -- ./slow 2>/dev/null
    wait_for has_done 1
    limit_comes "$(last_job)"
    wait_for has_events submitted 2
    [ "$(last_job)" = "$(cat taken)" ]
    wait_for is_complete || wait_for is_complete
    same in.txt out.txt
    [ "$(events submitted | wc -l)" = 2 ]
}

@test "a second job of a run begins when the first one has ended" {
    seq 1 300 >in.txt
    slow_filter
    "$MUSTER" submit map -g cpu:1 -o out.txt in.txt -- ./slow 2>/dev/null
    wait_for has_done 1
    local first
    first=$(last_job)
    submit resume latest
    ended_with 0
    submit_said "job $first of this run runs on" "the new one begins when it has ended"
    [[ $(squeue -h -j "$(last_job)" -o %E) == afterany:$first* ]]
    submit --dependency=afterany:"$(last_job)" resume latest
    ended_with 0
    [[ $stderr != *"of this run"* ]]
    # Those that wait are cancelled, and the one that works finishes what it has in hand.
    run limited "$MUSTER" stop
    ended_with 0
    wait_for has_events ended 1
    [ "$(events ended)" = "$first" ]
    [ "$(events ended why)" = "it was stopped by muster stop" ]
    [ "$(events cancelled | wc -l)" = 2 ]
    wait_for is_over "$first"
    [ "$(state)" = stopped ]
}

@test "stop of a run that goes on ends it for good; a submitted resume completes it, on other devices" {
    seq 1 120 >in.txt
    noting_filter
    "$MUSTER" submit map --no-reissue -g cpu:1 -o out.txt in.txt -- ./noting 2>/dev/null
    wait_for has_done 20
    run limited "$MUSTER" stop
    ended_with 0
    says "finishes what is in flight" "has ended; to go on: sbatch $(run_dir)/job.sh"
    wait_for has_events ended 1
    [ "$(events ended why)" = "it was stopped by muster stop" ]
    [ "$(state)" = stopped ]
    [ ! -e out.txt ]
    submit --follow resume latest -g cpu:2
    ended_with 0
    same in.txt out.txt
    each_item_was_begun_once
    [ "$(query 'select count(distinct seat) from attempts')" = 2 ]
    [ "$(ls -d muster-runs/2* | wc -l)" = 1 ]
}

@test "a node that is lost: Slurm starts the job again, and it goes on" {
    seq 1 200 >in.txt
    slow_filter
    "$MUSTER" submit --follow -w n1 map -g cpu:2 -o out.txt in.txt -- ./slow >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for has_done 50
    scontrol update nodename=n1 state=down reason=test
    wait_for is_in_state "$(last_job)" PENDING
    rm -rf cache
    wait_for holds said "waits to be started again"
    # On another node, since Slurm takes the end of the first start there for that of the second; now, since it waits for
    # two minutes.
    scontrol update jobid="$(last_job)" reqnodelist=n2
    scontrol update jobid="$(last_job)" starttime=now
    map_end
    ended_with 0
    same in.txt out.txt
    says "started again by Slurm, on" "going on with"
    [ "$(events started restarts | tail -1)" = 1 ]
    [ "$(query 'select count(*) from ranges')" -ge 2 ]
}

@test "two jobs never work on one run: the second waits, and finds it complete" {
    seq 1 100 >in.txt
    slow_filter
    "$MUSTER" submit map -g cpu:1 -o out.txt in.txt -- ./slow 2>/dev/null
    wait_for has_done 10
    sbatch muster-runs/latest/job.sh
    wait_for has_events ended 2
    same in.txt out.txt
    grep -q "which works on run" muster-runs/latest/logs/job_*_stderr.log
    grep -q "is complete" muster-runs/latest/logs/job_*_stderr.log
    [ "$(events ended status | tr '\n' ' ')" = "0 0 " ]
}

map_cancelled() {
    seq 1 100 >in.txt
    slow_filter
    "$MUSTER" submit map -g cpu:1 -o out.txt in.txt -- ./slow 2>/dev/null
    wait_for has_done 10
    scancel "$(last_job)"
    wait_for is_over "$(last_job)"
}

@test "a job by which the user went on is known before it begins, and can be stopped" {
    map_cancelled
    [ "$(state)" = interrupted ] || [ "$(state)" = stopped ]
    (cd muster-runs/latest && sbatch --parsable -H job.sh) >number
    [ "$(state)" = queued ]
    rm -rf cache
    run limited "$MUSTER" status
    says "job       $(cat number) waits: it is held"
    limited "$MUSTER" stop latest
    wait_for is_over "$(cat number)"
    events cancelled | grep -qx "$(cat number)"
    [ "$(state)" != queued ]
    run limited "$MUSTER" status
    says "job       $(cat number) was cancelled by muster stop" "go on     sbatch /"
}

@test "stop ends every job by which the user went on, however late it was submitted" {
    local number
    seq 1 100 >in.txt
    "$MUSTER" submit -H map -g cpu:1 -o out.txt in.txt -- cat 2>/dev/null
    scancel "$(last_job)"
    wait_for is_over "$(last_job)"
    [ "$(state)" = stopped ]
    (cd muster-runs/latest && sbatch --parsable -H job.sh && sbatch --parsable -H job.sh) >numbers
    limited "$MUSTER" stop
    for number in $(cat numbers); do
        is_over "$number"
        events cancelled | grep -qx "$number"
    done
    [ "$(state)" = stopped ]
}

@test "jobs of resume begin one after another, also behind one by which the user went on" {
    local number own second
    map_cancelled
    own=$(sbatch --parsable -H muster-runs/latest/job.sh)
    rm -rf cache
    "$MUSTER" submit resume latest
    second=$(last_job)
    [ "$(squeue -h -j "$second" -o %E)" = "afterany:$own(unfulfilled)" ]
    rm -rf cache
    "$MUSTER" submit resume latest
    [ "$(squeue -h -j "$(last_job)" -o %E)" = "afterany:$second(unfulfilled)" ]
    limited "$MUSTER" stop latest
    for number in $own $second $(last_job); do wait_for is_over "$number"; done
}

@test "launch on two nodes: the ranks are one gang, its lines come to the terminal, stop ends it" {
    submit --follow -N2 --gpus-per-node=2 launch -g cpu:2 --no-python sh -c 'echo $RANK $WORLD_SIZE $SLURMD_NODENAME; echo said by $RANK >&2'
    ended_with 0
    [ "$(sort <<<"$output" | cut -d' ' -f1,2 | tr '\n' ';')" = "0 4;1 4;2 4;3 4;" ]
    [ "$(cut -d' ' -f3 <<<"$output" | sort -u | wc -l)" = 2 ]
    submit_said "said by 3"
    "$MUSTER" submit --again 5 -N2 launch -g cpu:1 --no-python sh -c 'echo $RANK >>ranks; trap "echo $RANK >>saved; exit 1" TERM; sleep 1000 & wait' 2>/dev/null
    wait_for has_lines ranks 2
    [ "$(state | head -1)" = running ]
    limit_comes "$(last_job)"
    wait_for has_lines saved 2 # time for a checkpoint
    wait_for has_lines ranks 4
    run limited "$MUSTER" stop
    ended_with 0
    wait_for has_events ended 2
    [ "$(events ended why | tr '\n' ';')" = "its time was over, and work is left;it was stopped by muster stop;" ]
    [ "$(sort saved | tr '\n' ' ')" = "0 0 1 1 " ]
    wait_for is_over "$(last_job)"
}

@test "squeue is asked once in 15 seconds, whatever looks; ctrl-c leaves the job alone" {
    mkdir bin
    worker bin/squeue <<END2
#!/bin/sh
echo asked >>"$PWD/asked"
exec $(command -v squeue) "\$@"
END2
    PATH=$PWD/bin:$PATH
    "$MUSTER" submit -H map -g cpu:1 -o out.txt /dev/null -- cat 2>/dev/null
    "$MUSTER" submit -H each -g cpu:1 -- true 2>/dev/null
    : >asked
    "$MUSTER" ls >/dev/null
    "$MUSTER" status >/dev/null
    "$MUSTER" ls --json >/dev/null
    set -m # else the shell ignores ctrl-c for it
    "$MUSTER" submit --follow -H each -g cpu:1 -- true >said 2>&1 3>&- 4>&- &
    PID=$!
    set +m
    wait_for holds said "waits"
    [ "$(wc -l <asked)" = 1 ]
    kill -INT "$PID"
    map_end
    ended_with 130
    says "is left alone" "muster stop "
    [ "$(squeue -h -j "$(last_job)" -o %T)" = PENDING ]
    scancel -u root -n muster-each,muster-map
}

# As if squeue had been asked that long ago, in seconds.
cache_ages() {
    local file
    file=$(echo cache/muster/squeue-*)
    awk -v ms="$1"000 'NR == 1 { for (i = 1; i <= NF; i++) $i = sprintf("%.0f", $i - ms) } { print }' "$file" >aged
    mv aged "$file"
}

@test "what squeue said before a job was submitted is no answer about it, also while squeue fails" {
    mkdir bin
    worker bin/squeue <<END2
#!/bin/sh
[ ! -e fails ] || { echo >>asked; echo "Unable to contact slurm controller" >&2; exit 1; }
exec $(command -v squeue) "\$@"
END2
    PATH=$PWD/bin:$PATH
    "$MUSTER" submit -H each -g cpu:1 -- true 2>/dev/null
    "$MUSTER" status >/dev/null
    "$MUSTER" submit -H each -g cpu:1 -- true 2>/dev/null
    touch fails
    cache_ages 20
    run "$MUSTER" status
    says "state     queued" "waits (Slurm cannot be asked: squeue: Unable to contact slurm controller)"
    run "$MUSTER" status # somebody has asked, in vain
    says "state     queued" "job       $(last_job) waits"
    cache_ages 70
    run "$MUSTER" ls
    run "$MUSTER" status "$("$MUSTER" ls --json | jq -sr '.[1].run')" # by what ls was told
    says "state     queued" "waits (Slurm cannot be asked: squeue: Unable to contact slurm controller)"
    [ "$(wc -l <asked)" = 2 ]
    scancel -u root -n muster-each
}

@test "--follow: a job that ends while squeue is asked has the status that it ended with" {
    mkdir bin
    worker bin/squeue <<END2
#!/bin/sh
[ -n "\$SLURM_JOB_ID" ] || until $(command -v squeue) -h --me --states=COMPLETED -n muster-soon | grep -q .; do
    sleep 0.05
done
exec $(command -v squeue) "\$@"
END2
    PATH=$PWD/bin:$PATH submit --follow -J muster-soon each -g cpu:1 -- echo out
    ended_with 0
    [ "$output" = "cpu_0: out" ]
    submit_said "has ended: all is done"
}

@test "a job that meets its time limit, without help: Slurm's own signal drains it" {
    cd "$BATS_FILE_TMPDIR"
    wait_for has_events submitted 2 || wait_for has_events submitted 2
    wait_for is_complete || wait_for is_complete
    same in.txt out.txt
    [[ $(events ended why | head -1) == "its time was over, and work is left" ]]
}
