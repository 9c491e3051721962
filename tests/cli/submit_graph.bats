#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# muster submit graph, under a Slurm of four nodes on this machine (tests/slurm/cluster).
load helpers
load slurm_helpers

setup_file() { cluster_up; }
teardown_file() { cluster_down; }
setup() { cluster_setup; }

# Jobs a/1 … a/N, of which each notes that it began, and the job b behind them.
jobs_are() {
    cat >g.yaml <<END
vars: {i: [$(seq -s, "$1")]}
defaults: {shell: true}
jobs:
  a: {for: [i], run: 'echo a{i} >>effects; echo \$SLURMD_NODENAME >>nodes; sleep 0.2; while [ -e wait{i} ]; do sleep 0.05; done; echo {i} >a{i}', out: 'a{i}'}
  b: {run: 'echo b >>effects; cat $(seq -s' ' -f 'a%g' "$1") >b', needs: a, out: b}
END
}
wanted() {
    seq -f 'a%g' "$1" | cat - <(echo b) | sort
}
effects_are() { diff <(sort effects) <(wanted "$1"); }

@test "a graph is drained before the limit and submitted again until it is complete, on both nodes: each job's effect once" {
    local n jobs before=0
    jobs_are 60
    "$MUSTER" submit --follow -N2 graph -g cpu:1 g.yaml >said 2>&1 3>&- 4>&- &
    PID=$!
    for n in 1 2; do
        wait_for has_events started $n
        wait_for has_done $((before + 4))
        limit_comes "$(last_job)"
        wait_for has_events ended $n
        before=$(n_done)
    done
    mapfile -t jobs < <(events submitted)
    map_end
    ended_with 0
    effects_are 60
    [ "$(sort -u nodes | wc -l)" = 2 ]
    diff b <(seq 60)
    says "the time of job ${jobs[0]} is over soon; graph finishes what it has in hand" \
        "its time was over, and work is left; submitted again as job ${jobs[1]}" "job ${jobs[2]} has ended: all is done"
    run "$MUSTER" status
    says "61 of 61" "submitted again 2 times"
    wait_for is_over "$(last_job)"
}

@test "a job of a graph that is killed at the limit: the graph goes on as long as other jobs are done, or its map gains items" {
    time_is_over
    jobs_are 3
    touch wait3
    submit graph -g cpu:3 g.yaml
    wait_for has_done 2
    limit_is_met "$(last_job)"
    [ "$(events ended why | tail -1)" = "its time was over, and work is left" ]
    wait_for has_events started 2
    wait_for has_lines effects 4
    limit_is_met "$(last_job)"
    says_gained_nothing
    wait_for has_state stopped # ls asks squeue for two seconds at most
    # A program that goes on from a checkpoint gains what nobody sees; --again says how often.
    submit --again 1 graph -g cpu:3 g.yaml
    ended_with 0
    wait_for has_lines effects 5
    limit_is_met "$(last_job)"
    [ "$(events ended why | tail -1)" = "its time was over, and work is left" ]
    rm wait3
    wait_for test -e b
    wait_for is_over "$(last_job)"
    diff b <(seq 3)
    rm -r muster-runs
    seq 40 >in.txt
    until_go_filter
    echo 'jobs: {m: {map: {input: in.txt, output: out.txt, worker: [./until_go]}}}' >m.yaml
    submit graph -g cpu:1 m.yaml
    wait_for nested_has_done 5
    limit_is_met "$(last_job)"
    [ "$(events ended why | tail -1)" = "its time was over, and work is left" ]
    touch go
    wait_for is_complete
    same in.txt out.txt
}
says_gained_nothing() { [[ $(events ended why | tail -1) == "nothing was gained in its time"* ]]; }
nested_has_done() { [ "$("$MUSTER" status --json "$(echo muster-runs/latest/runs/*/2*)" 2>/dev/null | jq '.done // 0')" -ge "$1" ] 2>/dev/null; }

begun_twice() { [ "$(grep -cx "$1" effects)" = 2 ]; }

@test "what --fresh, --from and --redo begin anew is not begun anew by the jobs that follow" {
    jobs_are 6
    limited "$MUSTER" graph -q -g cpu:2 g.yaml
    touch wait2
    submit graph -g cpu:1 --redo 'a*' g.yaml
    ended_with 0
    [ "$(ls -d muster-runs/2* | wc -l)" = 1 ]
    wait_for begun_twice a2 # which waits; the order is that of the times that jobs took
    limit_comes "$(last_job)"
    wait_for holds muster-runs/latest/stop drain
    rm wait2
    wait_for has_events ended 2
    wait_for is_over "$(last_job)"
    diff <(sort effects) <(cat <(wanted 6) <(wanted 6) | sort)
    seq 100 >in.txt
    slow_filter
    limited "$MUSTER" map -q -g cpu:1 --limit 3 -o out.txt in.txt -- ./slow
    submit map --fresh -f -g cpu:1 -o out.txt in.txt -- ./slow
    ended_with 0
    wait_for has_done 10
    limit_comes "$(last_job)"
    wait_for has_events ended 2
    wait_for is_over "$(last_job)"
    same in.txt out.txt
}

@test "a graph that cannot work is refused where it is typed; a list of commands comes from a file" {
    refused() { # STATUS WORDS OPTION...
        local expected=$1 words=$2
        shift 2
        submit graph "$@" <commands.txt
        ended_with "$expected"
        submit_said "$words"
    }
    printf 'echo one >one\necho two >two\n' >commands.txt
    jobs_are 2
    refused 2 "none.yaml" none.yaml
    echo 'jobs: {a: {rum: x}}' >bad.yaml
    refused 2 "bad.yaml:1:" bad.yaml
    refused 2 "a job has no standard input" -g cpu:1
    refused 2 "a job has no standard input" -- sh -c 'echo {1}'
    refused 2 ":::: FILE" -- sh -c 'echo {1}' :::: -
    refused 2 "matches no job" --only nix g.yaml
    refused 2 "--print shows the jobs here" --print g.yaml
    refused 2 "--dry-run stands before the verb" --dry-run g.yaml
    touch a1
    refused 2 "a1 is there, and no run of this graph has made it" g.yaml
    [ ! -e muster-runs ]
    submit -H graph --overwrite g.yaml
    ended_with 0
    refused 69 "the same is submitted already, as run $(basename "$(run_dir)")" --overwrite g.yaml
    [ "$(ls -d muster-runs/2* | wc -l)" = 1 ]
    limited "$MUSTER" stop
    submit --follow graph -g cpu:2 -- :::: commands.txt
    ended_with 0
    [ "$(cat one two)" = $'one\ntwo' ]
    touch wait1
    submit graph -g cpu:1 --overwrite g.yaml
    wait_for has_lines effects 1
    refused 69 "this graph goes on, or waits for Slurm, as run " g.yaml
    rm wait1
    wait_for test -e b
    wait_for is_over "$(last_job)"
    submit --follow graph -g cpu:1 g.yaml
    ended_with 0
    effects_are 2
}
