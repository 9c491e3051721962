#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# muster submit with several jobs, and what the cluster says before: under a Slurm of four nodes on this machine.
load helpers
load slurm_helpers

setup_file() {
    cluster_up
}
teardown_file() { cluster_down; }

setup() { cluster_setup; }

# A plugin of the site's, as those for containers are: --site-image=NAME comes to the job as a variable.
site_plugin() {
    local version
    version=$(sbatch -V | sed 's/^[^0-9]*//; s/[.-]/ /g')
    command -v cc >/dev/null || skip "no C compiler here"
    set -- $version
    cat >spank.c <<END
#include <stddef.h>
struct spank_option { char *name, *arginfo, *usage; int has_arg, val; int (*cb)(int, const char *, int); };
int spank_job_control_setenv(void *, const char *, const char *, int);
int spank_option_register(void *, struct spank_option *);
const char plugin_name[] = "site", plugin_type[] = "spank";
const unsigned plugin_version = $1 << 16 | ${2#0} << 8 | ${3%%[!0-9]*}, spank_plugin_version = 1;
static char image[256];
static int take(int val, const char *arg, int remote)
{
    for (size_t i = 0; arg && arg[i] && i < sizeof(image) - 1; i++)
        image[i] = arg[i];
    return 0;
}
static struct spank_option options[] = {{"site-image", "IMAGE", "[site] the image", 1, 0, take},
    {"par", "WHAT", "[site] a name that begins another one", 1, 1, take}};
int slurm_spank_init(void *spank, int argc, char **argv)
{
    return spank_option_register(spank, &options[0]) || spank_option_register(spank, &options[1]);
}
int slurm_spank_init_post_opt(void *spank, int argc, char **argv)
{
    return image[0] ? spank_job_control_setenv(spank, "SITE_IMAGE", image, 1), 0 : 0;
}
END
    cc -shared -fPIC -o "$BATS_FILE_TMPDIR/spank.so" spank.c
    echo "required $BATS_FILE_TMPDIR/spank.so" >"$BATS_FILE_TMPDIR/slurm/plugstack.conf"
}

@test "options of the site's plugins are handed on, and are the beginning of no other's name" {
    site_plugin
    sbatch --help | grep -q -- "--site-image=IMAGE"
    submit --dry-run --site-image=a#b:c --par x --part debug each -g cpu:1 -- true
    ended_with 0
    says '#SBATCH "--site-image=a#b:c"' "#SBATCH --par=x" "#SBATCH --partition=debug"
    submit --follow --site-image=a#b:c each -g cpu:1 -- sh -c 'env | grep SITE_IMAGE'
    ended_with 0
    says "SITE_IMAGE=a#b:c"
    submit --site-imag=a each -g cpu:1 -- true
    ended_with 2
    submit_said "unknown option '--site-imag'"
    submit --partitoin=debug each -g cpu:1 -- true
    ended_with 2
    submit_said "did you mean '--partition'?"
    rm "$BATS_FILE_TMPDIR/slurm/plugstack.conf"
    submit --site-image=a each -g cpu:1 -- true
    ended_with 2
    submit_said "sbatch has none of this name"
}

roles() { jq -r 'select(.role) | .role' muster-runs/latest/jobs.jsonl; }
job_of() { jq -r "select(.role == \"$1\" and .event == \"submitted\") | .job" muster-runs/latest/jobs.jsonl | tail -1; }
status_now() {
    rm -rf cache # of squeue's answer
    run limited "$MUSTER" status
}

# A map of 8 shards that notes which run; one waits as long as `wait.<shard>` is there, one fails with `bad.<shard>`.
map_words() { words=(map -g cpu:1 --items 40 "$@" -o out.txt -- sh -c 'echo {shard} >>ran; while [ -e wait.{shard} ]; do sleep 0.05; done; [ ! -e bad.{shard} ] || exit 3; seq {start} $(({start}+{count}-1)) >{output}'); }

# Its script dies, as with its node.
task_lost() {
    kill -9 "$("$MUSTER" status muster-runs/latest/tasks/"$1" --json | jq .pid)"
    wait_for is_over "$(job_of tasks)_$1"
}

@test "--array: the tasks share the shards, and the job behind them makes the output of a run here" {
    map_words --shards 8
    limited "$MUSTER" "${words[@]}" 2>said
    mv out.txt wanted.txt
    : >ran
    submit --array 4 "${words[@]}"
    ended_with 0
    submit_said "submitted as jobs " " (tasks), "
    wait_for is_complete
    same wanted.txt out.txt
    [ "$(sort -n ran | tr '\n' ' ')" = "0 1 2 3 4 5 6 7 " ]
    [ ! -e muster-runs/latest/tasks/0/shard-output ]
    status_now
    says "state     finished" "40 of 40 items" "tasks (" ") is over"
}

@test "--array: tasks that Slurm lost are submitted again, and nothing is run twice" {
    map_words --shards 8
    touch wait.5
    submit --array 4%3 "${words[@]}"
    ended_with 0
    wait_for grep -qs 5 ran
    status_now
    says "state     running" "tasks ($(job_of tasks)) runs"
    task_lost 2
    rm wait.5
    wait_for is_complete
    [ "$(roles)" = $'tasks\ntasks' ]
    seq 0 39 | cmp - out.txt
    [ "$(sort -n ran | tr '\n' ' ')" = "0 1 2 3 4 5 5 6 7 " ]
    grep -qh "tasks 2 are not complete: submitted again as job" muster-runs/latest/logs/*
}

@test "--array: what lost tasks lack is run by the job behind them if they cannot be submitted again" {
    mkdir bin
    worker bin/sbatch <<END2
#!/bin/sh
case "\$*" in *--array=*) echo "Socket timed out" >&2; exit 1 ;; esac
exec $(command -v sbatch) "\$@"
END2
    map_words --shards 8
    touch wait.5
    PATH=$PWD/bin:$PATH "$MUSTER" submit --array 4 "${words[@]}" 2>/dev/null
    wait_for grep -qs 5 ran
    task_lost 2
    rm wait.5
    wait_for is_complete || wait_for is_complete
    seq 0 39 | cmp - out.txt
    grep -q "tasks 2 are not complete, and cannot be submitted again (sbatch: Socket timed out); what they lack is run here" \
        muster-runs/latest/logs/job_*_stderr.log
}

# The job behind an array can be submitted so many times; nothing can be cancelled.
merge_is_refused_after() {
    mkdir bin
    seq "$1" >allowed
    worker bin/sbatch <<END2
#!/bin/sh
case "\$*" in *--dependency=*) sed -i 1d $PWD/allowed; [ -s $PWD/allowed ] || { echo "Socket timed out" >&2; exit 1; } ;; esac
exec $(command -v sbatch) "\$@"
END2
    printf '#!/bin/sh\necho "it is deaf" >&2\nexit 1\n' | worker bin/scancel
    PATH=$PWD/bin:$PATH
}

# Submits an array where sbatch takes only $1 - 1 jobs with a dependency, and scancel fails; one shard waits.
array_is_submitted() {
    local path=$PATH
    map_words --shards 8
    touch wait.5
    merge_is_refused_after "$1"
    submit --array 4 "${words[@]}"
    PATH=$path
}

@test "--array: where no job can follow the tasks that are submitted again, the one before says so, and the user goes on behind them" {
    local array
    array_is_submitted 2
    ended_with 0
    wait_for grep -qs 5 ran
    task_lost 2
    wait_for has_events ended 1
    [ "$(events ended why)" = "the job behind tasks 2 cannot be submitted: sbatch: Socket timed out" ]
    array=$(job_of tasks)
    wait_for is_in_state "$array" RUNNING
    status_now
    says "ended with status 69: the job behind tasks 2 cannot be submitted" "tasks ($array) runs" "go on     sbatch --dependency=afterany:$array /"
    rm wait.5
    sbatch --dependency="afterany:$array" muster-runs/latest/job.sh
    wait_for is_complete || wait_for is_complete
    seq 0 39 | cmp - out.txt
}

@test "--array: tasks that are left in the queue without a job behind them are shown as such" {
    local run
    array_is_submitted 1
    ended_with 69
    run=$(ls muster-runs)
    submit_said "may be left in the queue (scancel: it is deaf); muster stop $run ends it" "sbatch: Socket timed out"
    wait_for grep -qs 5 ran
    rm -rf cache
    run limited "$MUSTER" status "$run"
    says "; no job takes its results: sbatch: Socket timed out"
    run limited "$MUSTER" stop "$run"
    ended_with 0
    wait_for is_over "$(jq -s 'map(.job) | max' "muster-runs/$run/jobs.jsonl")"
    PATH=$PWD/bin:$PATH
    rm bin/scancel
    submit --array 4 "${words[@]}"
    ended_with 69
    [ "$(ls muster-runs)" = "$run" ]
}

# The accounting says what the controller has forgotten.
accounting_says() { # State
    mkdir bin
    printf '#!/bin/sh\n%s "$@" | awk -F"|" '"'\$2 != \"CANCELLED\"'" "$(command -v squeue)" | worker bin/squeue
    printf '#!/bin/sh\ncase "$*" in *--jobs=[0-9]*) echo "%s" ;; esac\n' "$1" | worker bin/sacct
}

@test "--array: tasks that are cancelled stay so until the user goes on" {
    local forgotten first
    for forgotten in false true; do
        rm -rf muster-runs out.txt
        : >ran
        ! $forgotten || accounting_says "CANCELLED by 1000"
        map_words --shards 8
        touch wait.5
        PATH=$PWD/bin:$PATH submit --array 4 "${words[@]}"
        wait_for grep -qs 5 ran
        first=$(job_of tasks)
        scancel "$first"
        wait_for has_events ended 1
        [ "$(events ended why)" = "its tasks were cancelled" ]
        [ "$(events ended status)" = 75 ]
        rm wait.5
        [ "$(roles)" = tasks ]
        status_now
        says "its tasks were cancelled" "go on     sbatch /"
        sbatch muster-runs/latest/job.sh
        wait_for is_complete || wait_for is_complete
        [ "$(roles)" = $'tasks\ntasks' ]
        seq 0 39 | cmp - out.txt
    done
}

@test "--array: after all jobs were cancelled, the user's own job goes on with the tasks" {
    map_words --shards 8
    touch wait.5
    submit --array 4 "${words[@]}"
    wait_for grep -qs 5 ran
    scancel "$(job_of tasks)" "$(last_job)"
    wait_for is_over "$(job_of tasks)"
    rm wait.5
    sbatch muster-runs/latest/job.sh
    wait_for is_complete || wait_for is_complete
    [ "$(roles)" = $'tasks\ntasks' ]
    seq 0 39 | cmp - out.txt
}

@test "--array: a shard that fails in its task has failed, and a resume tries it again" {
    map_words --shards 8 --retries 1
    touch bad.3
    submit --array 2 --follow "${words[@]}"
    ended_with 1
    [ "$(jq .shard out.txt.failed.jsonl)" = 3 ]
    [ "$(roles)" = tasks ]
    rm bad.3
    run limited "$MUSTER" resume latest --retry-failed -f
    ended_with 0
    seq 0 39 | cmp - out.txt
}

@test "--array that cannot be is refused where it is typed" {
    map_words
    submit --array 4 --dry-run "${words[@]}"
    ended_with 0
    says "#SBATCH --array=0-3" "--signal=B:TERM@" '/tasks/$SLURM_ARRAY_TASK_ID --part=$SLURM_ARRAY_TASK_ID/4 --shards=4' "job --again=100 --ledger --tasks=4 " "--take="
    [ ! -e muster-runs ]
    map_words --shards 3
    submit --array 4 "${words[@]}"
    ended_with 2
    submit_said "3 shards have no 4 parts"
    submit --array x "${words[@]}"
    ended_with 2
    submit_said "--array=x: expected N tasks"
    submit --array 2 launch --no-python true
    ended_with 2
    submit_said "--array shares the shards of a map"
    seq 4 >in.txt
    submit --array 2 map -g cpu:1 -o o.txt in.txt -- cat
    ended_with 2
    submit_said "is for shard commands"
    [ ! -e muster-runs ]
}

@test "--stage: each begins when the one before it has ended well, with its own GPUs, and they are one run" {
    submit -t 10 --follow \
        --stage 'dump: --gpus 4 -- map -g cpu:1 --items 4 --shards 2 -o dump.txt -- sh -c "seq {count} >{output}"' \
        --stage 'train: --gpus-per-node 8 -t 20 -- sh -c "wc -l <dump.txt >n.txt; echo \$SLURM_JOB_GPUS >>n.txt; echo trained"'
    ended_with 0
    [ "$output" = trained ]
    submit_said " (dump), " " (train)" "dump.txt: 4 items in 2 shards, complete" "--exclusive: 8 GPUs are all that a node has"
    [ "$(cat n.txt)" = $'4\n0,1,2,3,4,5,6,7' ]
    grep -q '^#SBATCH --exclusive$' muster-runs/latest/train.sh
    ! grep -q exclusive muster-runs/latest/dump.sh
    status_now
    says "state     finished" "dump ($(job_of dump)) has ended, train ($(job_of train)) has ended"
}

# A filter that notes each item when it begins it.
noting_filter() {
    mkdir begun
    worker noting <<'END'
#!/bin/sh
while read -r item; do
    echo "$item" >>"begun/$$"
    sleep 0.03
    [ ! -e slow ] || [ "$item" -lt 60 ] || sleep 0.3
    echo "$item"
done
END
}
stage_has_done() { [ "$("$MUSTER" status --json "$(run_dir)/stages/$1" 2>/dev/null | jq '.done // 0')" -ge "$2" ] 2>/dev/null; }
job_of_differs() { [ "$(job_of "$1")" != "$2" ]; }

@test "--stage: a map whose time is over soon goes on in another job, for which the stages behind it wait" {
    seq 1 400 >in.txt
    noting_filter
    "$MUSTER" submit --follow --stage 'a: -- map --no-reissue -g cpu:1 -o a.txt in.txt -- ./noting' --stage 'b: -- sh -c "wc -l <a.txt; echo b >>ran"' \
        --stage 'c: -- sh -c "echo c >>ran"' >said 2>&1 3>&- 4>&- &
    PID=$!
    local first of_b n
    touch slow
    for n in 1 2; do
        wait_for has_events started $n
        wait_for stage_has_done a $((n * 20))
        first=$(job_of a)
        of_b=$(job_of b)
        limit_comes "$first"
        wait_for job_of_differs a "$first"
    done
    rm slow
    map_end
    ended_with 0
    same in.txt a.txt
    [ "$(cat begun/* | sort -n)" = "$(cat in.txt)" ]
    [ "$(job_of b)" = "$of_b" ] # it was not submitted again
    says "the time of job $first is over soon; map finishes what it has in hand" "submitted again as job $(job_of a)" 400
    wait_for is_over "$(job_of c)"
    [ "$(cat ran)" = $'b\nc' ]
    status_now
    says "state     finished" "a ($(job_of a)) has ended, b ($of_b) has ended, c ("
    says_not "a ($first)"
}

@test "--stage: stop lets a map finish what it has in hand, and the way to go on does" {
    seq 1 400 >in.txt
    noting_filter
    touch slow
    submit --stage 'a: -- map --no-reissue -g cpu:1 -o a.txt in.txt -- ./noting' --stage 'b: -- sh -c "echo b >>ran"'
    wait_for stage_has_done a 10
    limit_comes "$(job_of a)"
    wait_for has_events submitted 3
    wait_for stage_has_done a 30
    run limited "$MUSTER" stop
    ended_with 0
    wait_for is_over "$(job_of a)"
    status_now
    says "state     stopped" "go on     job=\$(sbatch --parsable $(run_dir)/a.sh) && job=\$(sbatch --parsable --kill-on-invalid-dep=yes --dependency=afterok:\$job $(run_dir)/b.sh)"
    [ ! -e ran ]
    local begun
    begun=$(events started | wc -l)
    eval "$(sed -n 's/^go on *//p' <<<"$output")"
    wait_for has_events started $((begun + 1))
    wait_for stage_has_done a $(($("$MUSTER" status --json "$(run_dir)/stages/a" | jq .done) + 10))
    limit_comes "$(events started | tail -1)"
    wait_for has_events submitted 4 # and b, which is not noted yet, waits for that one
    rm slow
    wait_for test -e ran
    same in.txt a.txt
    [ "$(cat begun/* | sort -n)" = "$(cat in.txt)" ]
    wait_for is_over "$job"
    status_now
    says "state     finished" "a ($(job_of a)) has ended, b ($job) has ended"
}

@test "--stage: behind one that fails none begins; stop ends the one that runs and those that wait" {
    submit --follow --stage 'a: -- sh -c "exit 3"' --stage 'b: -- touch begun'
    ended_with 3
    wait_for is_over "$(job_of b)"
    status_now
    says "state     failed" "a ($(job_of a)) has failed, b (" "go on     job=\$(sbatch --parsable $PWD/muster-runs/"
    submit --stage 'a: -- sh -c "touch begun.a; exec sleep 1000"' --stage 'b: -- touch begun'
    ended_with 0
    wait_for test -e begun.a
    run limited "$MUSTER" stop
    ended_with 0
    wait_for is_over "$(job_of a)"
    is_over "$(job_of b)"
    status_now
    says "state     stopped" "b ($(job_of b)) was cancelled"
    [ ! -e begun ]
}

@test "--stage: stop of a stage by which the user went on leaves the way to go on" {
    submit --stage 'one: -- true' --stage 'two: -H -- true'
    wait_for has_events ended 1
    scancel "$(job_of two)"
    wait_for is_over "$(job_of two)"
    sbatch -H muster-runs/latest/two.sh
    limited "$MUSTER" stop
    is_over "$(events cancelled | tail -1)"
    status_now
    says "was cancelled by muster stop" "one ($(job_of one)) has ended, two (" "go on     job=" "/two.sh"
}

@test "stages that cannot be are refused, and --dry-run shows all scripts" {
    submit --dry-run --stage 'a: -- true' --stage 'b: --setup-is-no-option -- true'
    ended_with 2
    submit_said "--stage b: unknown option '--setup-is-no-option'"
    submit --dry-run --stage 'a: -- true' --stage 'a: -- true'
    ended_with 2
    submit --stage 'a b: -- true'
    ended_with 2
    submit_said "expected a name of letters and digits"
    submit --stage 'a: --gpus 4'
    ended_with 2
    submit_said "--stage a: it has no command"
    submit --stage 'a: -- no-such-program'
    ended_with 69
    submit_said "'no-such-program' is neither a verb of muster nor a program"
    printf '#!/bin/sh\n' >program # which a path finds, though no folder of PATH has it
    chmod +x program
    PATH=/usr/bin:/bin submit --dry-run --stage 'a: -- ./program'
    ended_with 0
    submit --stage 'a: -- true' map
    ended_with 2
    submit_said "'map' is too much"
    submit --dry-run --stage 'a: -- true' --stage 'b: --gpus=h200:2 -- map -o out.txt made-by-a.txt -- cat'
    ended_with 0
    [ "$(grep -c '^#!/bin/bash$' <<<"$output")" = 2 ]
    [ ! -e muster-runs ]
}

@test "a request that the cluster can never run is refused with the reason; variables are defaults" {
    map_words
    submit -p gpu "${words[@]}"
    ended_with 69
    submit_said "there is no partition 'gpu'; there are debug"
    submit -N1 -G 9 "${words[@]}"
    ended_with 69
    submit_said "9 GPUs of one node are asked for, and no node of partition debug has more than 8"
    submit --gres=gpu:h100:1 "${words[@]}"
    ended_with 69
    submit_said "has GPUs of type 'h100'; there are h200 (8 a node)"
    submit -N9 "${words[@]}"
    ended_with 69
    submit_said "9 nodes are asked for, and partition debug has 4: give --nodes=4"
    submit --mem=20G "${words[@]}"
    ended_with 69
    SBATCH_PARTITION=nix submit "${words[@]}"
    ended_with 69
    SBATCH_PARTITION=nix SBATCH_TIMELIMIT=7 submit --dry-run -p debug "${words[@]}"
    ended_with 0
    says "#SBATCH --partition=debug" "#SBATCH --time=7"
    says_not nix
    map_words --items 5000
    submit --array 1002 "${words[@]}"
    ended_with 69
    submit_said "--array: the highest number is 1001, and this cluster allows 1000 (MaxArraySize)"
    submit -w 'n[1-3]' --dry-run "${words[@]}"
    ended_with 0
    submit_said "--nodelist names 3 nodes, and the job is one of 1"
    [ ! -e muster-runs ]
}
