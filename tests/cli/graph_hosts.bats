#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Jobs of a graph on other hosts. The hosts are agents on this machine, reached by `--via`: `env` runs what stands behind
# it, and ./reach HOST notes its own pid, whose child is the agent of that host. HOST is in the environment of its jobs.
load helpers

setup() {
    common_setup
    worker reach <<'END'
#!/bin/sh
export HOST=$1
shift
echo $$ >pid.$HOST
"$@"
END
}

graph() { run --separate-stderr limited "$MUSTER" graph "$@"; }
graph_begin() {
    "$MUSTER" graph "$@" >said 2>&1 3>&- 4>&- &
    PID=$!
}
on_gpus() { export MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=$1 MUSTER_SYSFS=/nowhere; }
effects() { sort effects | tr '\n' ' '; }
host_is() { "$MUSTER" hosts 2>/dev/null | grep -q "^$1 .* $2 "; }

# waiting_jobs NUMBERS GPUS: jobs without end but for a file `go`, or `go.HOST`; each notes its host.
waiting_jobs() {
    cat >g.yaml <<END
vars: {n: [$1]}
defaults: {shell: true}
jobs:
  job:
    for: [n]
    run: 'echo begun{n}.\$HOST >>effects; until [ -e go ] || [ -e go.\$HOST ]; do sleep 0.05; done; echo {n}.\$HOST >left{n}'
    out: left{n}
    gpus: ${2:-1}
END
}

@test "jobs are spread over the devices of all hosts, and those without devices over their CPUs" {
    cat >g.yaml <<'END'
vars: {n: [1, 2, 3]}
defaults: {shell: true}
jobs:
  make:
    for: [n]
    run: 'echo $HOST-$MUSTER_DEVICE-{gpu}-{gpus} >made{n}; until [ $(ls made? | wc -l) = 3 ]; do sleep 0.05; done'
    out: made{n}
  use:
    for: [n]
    run: 'cp made{n} used{n}; echo $HOST:$MUSTER_DEVICE_KIND >>hosts'
    needs: make
    gpus: 0
    out: used{n}
END
    graph --hosts one=cpu:2,two=cpu:1 --via './reach {host}' g.yaml
    ended_with 0
    [ "$(cat used? | sort | tr '\n' ' ')" = "one-cpu-0-0-0 one-cpu-1-1-1 two-cpu-0-0-0 " ]
    [ "$(grep -cxE '(one|two):cpu' hosts)" = 3 ]
    [[ $stderr == *"6 of 6 jobs are done"*"  host       one: "*"  host       two: "* ]]
    has_logged "attempt 1 starts on one cpu 1"
    graph --hosts one=cpu:2,two=cpu:1 --via './reach {host}' g.yaml
    ended_with 0
    [[ $stderr == *"(0 of them now)"* ]]
}

@test "--joblog names the host of each job" {
    graph -q --hosts one=cpu:1,two=cpu:1 --via "./reach {host}" --joblog log -- sh -c 'echo begun >begun{}; until [ -e begun1 ] && [ -e begun2 ]; do sleep 0.05; done' ::: 1 2
    ended_with 0
    [ "$(tail -n +2 log | cut -f 2 | sort | tr '\n' ' ')" = "one two " ]
}

@test "jobs go to the hosts of their patterns; this machine takes part only if it is named" {
    mkdir there
    cat >g.yaml <<'END'
defaults: {shell: true}
jobs:
  here: {run: 'echo ${{HOST-local}} $(realpath .) >left', cwd: there, out: left, hosts: local}
  far: {run: 'echo ${{HOST-local}} $(realpath .) $(realpath $PWD) >left', cwd: there, needs: here, hosts: ["o*e", three]}
  else: {run: 'true', hosts: nowhere}
END
    graph --hosts local=cpu:1,one=cpu:1,two=cpu:1 --via './reach {host}' --only here g.yaml
    ended_with 0
    [ "$(cat there/left)" = "local $PWD/there" ]
    graph --hosts local=cpu:1,one=cpu:1,two=cpu:1 --via './reach {host}' g.yaml
    ended_with 1
    [ "$(cat there/left)" = "one $PWD/there $PWD/there" ]
    [[ $stderr == *"else: cannot run here: it needs "*" on a host of nowhere"* ]]
    graph --fresh --overwrite --hosts one=cpu:1 --via './reach {host}' --only here g.yaml
    ended_with 1
    [[ $stderr == *"here cannot run here"* ]]
}

@test "a job on several devices of a host sees all of them, and no other" {
    on_gpus 3
    cat >g.yaml <<'END'
defaults: {shell: true}
jobs:
  pair: {run: 'echo $CUDA_VISIBLE_DEVICES $MUSTER_DEVICE $MUSTER_DEVICE_INDEX {gpus} {gpu_uuid} >pair', gpus: 2, out: pair}
  all: {run: 'echo $CUDA_VISIBLE_DEVICES {gpus} >all', gpus: 3, out: all, needs: pair}
  none: {run: 'echo [$CUDA_VISIBLE_DEVICES] $MUSTER_DEVICE_KIND >none', gpus: 0, out: none}
  four: {run: 'true', gpus: 4}
END
    graph -q -g all --hosts one --via './reach {host}' g.yaml
    ended_with 1
    [[ $stderr == *"four cannot run here: it needs more than there is"* ]]
    local visible devices indices gpus uuid
    read -r visible devices indices gpus uuid <pair
    [[ $gpus =~ ^[0-2],[0-2]$ ]]
    [ "$visible" = "$gpus" ]
    [ "$indices" = "$gpus" ]
    [[ $devices == "$uuid",GPU-* ]]
    [ "$(cat all)" = "0,1,2 0,1,2" ]
    [ "$(cat none)" = "[] cpu" ]
}

@test "a job gets devices near each other on its host, also on one that comes later" {
    on_gpus 8 # NVLink connects i and i+4
    cat >g.yaml <<'END'
vars: {n: [1, 2]}
jobs:
  job: {for: [n], run: [sh, -c, 'echo {gpus} >pair{n}; until [ -e go ]; do sleep 0.05; done'], gpus: 2, out: "pair{n}", hosts: "h{n}"}
END
    worker apart <<'END'
#!/bin/sh
[ "$1" = h1 ] || [ -e h2.is.there ] || exit 1
export MUSTER_LOCK_DIR=$PWD/locks.$1
exec ./reach "$@"
END
    graph_begin -g all --hosts local=cpu:1,h1,h2 --via './apart {host}' g.yaml
    wait_for test -s pair1
    touch h2.is.there
    wait_for test -s pair2
    touch go
    map_end
    ended_with 0
    [ "$(cat pair1)" = 0,4 ]
    [ "$(cat pair2)" = 0,4 ]
}

@test "a map and a launch as jobs on another host have the devices that the agent has locked" {
    on_gpus 2
    seq 1 20 >in.txt
    worker notes <<'END'
#!/bin/sh
echo $MUSTER_DEVICE_INDEX >>devices.$HOST
exec cat
END
    cat >g.yaml <<'END'
jobs:
  map: {map: {worker: ./notes, input: in.txt}, gpus: 2, out: out.txt}
  ranks: {launch: {no-python: true, command: [sh, -c, 'echo $RANK of $WORLD_SIZE >>ranks.$HOST']}, gpus: 2, needs: map}
END
    graph -g all --hosts one --via './reach {host}' g.yaml
    ended_with 0
    same in.txt out.txt
    [ "$(sort ranks.one | tr '\n' ' ')" = "0 of 2 1 of 2 " ]
    [ "$(sort devices.one | tr '\n' ' ')" = "0 1 " ]
}

@test "the jobs of a host that is lost run elsewhere, each once to its end" {
    waiting_jobs "1, 2, 3, 4"
    graph_begin --hosts one=cpu:2,two=cpu:2 --via './reach {host}' --host-timeout 1s --grace 1s g.yaml
    wait_for has_lines effects 4
    local agent
    agent=$(agent_of one)
    rm reach # it does not come back
    kill -KILL "$agent"
    wait_for has_logged "its host was lost"
    touch go
    map_end
    ended_with 0
    [ "$(cat left? | cut -d. -f2 | sort -u)" = two ]
    [ "$(grep -c two effects)" = 4 ]
    [ "$(grep -c one effects)" = 2 ]
    says "one: lost; what it had not answered runs elsewhere" "4 of 4 jobs are done" "two: 4 jobs done"
}

@test "a job on a host that Slurm tells to end is told at once, so that it can save its state, and begins again" {
    worker job <<'END'
#!/bin/sh
echo $$ >pid.one
SLURM_JOB_ID=7 "$@"
END
    worker saves <<'END'
#!/bin/sh
[ ! -e saved ] || exit 0
trap 'touch saved; exit 1' TERM
touch there
sleep 1000 & wait
END
    echo 'jobs: {save: {run: ./saves}}' >g.yaml
    "$MUSTER" graph --hosts one=cpu:1 --host-timeout 1s --grace 1s --via ./job g.yaml >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for test -e there
    kill -TERM "$(agent_of one)"
    map_end
    ended_with 0
    says "one: lost; what it had not answered runs elsewhere: its agent was told to end"
    [ -e saved ]
}

@test "a job of a host that is lost begins elsewhere only when it is gone there" {
    cat >g.yaml <<'END'
jobs:
  job:
    run: [sh, -c, 'exec 9>lock; flock -n 9 || echo $HOST >>both; trap "" TERM; echo $HOST >>effects; until [ -e go ]; do sleep 0.05; done; echo $HOST >left']
    out: left
END
    graph_begin --hosts one=cpu:1,two=cpu:1 --via './reach {host}' --host-timeout 1s --grace 1500ms g.yaml
    wait_for has_lines effects 1
    local first
    first=$(cat effects)
    kill -TERM "$(agent_of "$first")" # it ends its job, which does not mind
    wait_for has_lines effects 2
    touch go
    map_end
    ended_with 0
    [ ! -e both ]
    [ "$(cat left)" != "$first" ] || says "it is connected again"
}

@test "a signal ends a run that waits for a lost host with nothing running" {
    waiting_jobs 1
    worker reach_if_up <<'END'
#!/bin/sh
[ ! -e down ] && exec ./reach "$@"
END
    graph_begin --hosts one=cpu:1 --host-timeout 2s --grace 1s --via './reach_if_up {host}' g.yaml
    wait_for has_lines effects 1
    touch down
    kill -KILL "$(agent_of one)"
    wait_for grep -q "one: lost" said
    sleep 4 # what ran there is gone for sure
    kill -TERM "$PID"
    wait_for is_gone "$PID"
    local rc=0
    wait "$PID" || rc=$?
    [ "$rc" -eq 143 ]
}

@test "a host that returns has its jobs again, and the run waits for it" {
    waiting_jobs "1, 2"
    graph_begin --hosts one=cpu:1 --via './reach {host}' --host-timeout 1s --grace 1s g.yaml
    wait_for has_lines effects 1
    local before
    before=$(agent_of one)
    kill -KILL "$before"
    wait_for has_lines effects 2
    touch go
    map_end
    ended_with 0
    [ "$(cat left? | tr '\n' ' ')" = "1.one 2.one " ]
    [ "$(sort effects | uniq -c | awk '{ print $1 $2 }' | tr '\n' ' ')" = "2begun1.one 1begun2.one " ] ||
        [ "$(sort effects | uniq -c | awk '{ print $1 $2 }' | tr '\n' ' ')" = "1begun1.one 2begun2.one " ]
    says "one: it is connected again"
    run sqlite3 muster-runs/latest/run.db "SELECT kind || json FROM events WHERE kind NOT IN ('died', 'join')"
    [ "$output" = 'host-lost{"host":"one"}
host-back{"host":"one"}' ]
}

@test "what one host lacks is tried on another, said once, and not asked of the first again" {
    worker reach_with_tool <<'END'
#!/bin/sh
[ "$1" = two ] && export PATH=$PWD/bin:$PATH
exec ./reach "$@"
END
    mkdir bin
    worker bin/tool <<'END'
#!/bin/sh
echo $1.$HOST >>effects
END
    cat >g.yaml <<'END'
jobs:
  plain: {for: {n: 1..6}, run: "tool {n}"}
  shell: {for: {n: 1..4}, run: "tool s{n}", shell: true, needs: plain}
  there: {run: "tool t", hosts: one, needs: shell}
  nowhere: {run: "./nosuch", needs: shell}
END
    graph --hosts one=cpu:2,two=cpu:1 --via './reach_with_tool {host}' g.yaml
    ended_with 1
    [ "$(effects)" = "1.two 2.two 3.two 4.two 5.two 6.two s1.two s2.two s3.two s4.two " ]
    [ "$(grep -c "plain/.* could not be executed on one in $PWD: No such file.*; it goes to other hosts" <<<"$stderr")" -eq 1 ]
    [ "$(grep -c "shell/.*; it goes to other hosts" <<<"$stderr")" -eq 1 ]
    [ "$(grep -c "plain/n[1-6]: attempt . starts on one" muster-runs/latest/orchestrator.log)" -le 2 ]
    [[ $stderr == *"there failed for good: tool could not be executed on one"* ]]
    [[ $stderr == *"nowhere failed for good: ./nosuch could not be executed on "* ]]
    [ "$(grep -c "nowhere: attempt . starts" muster-runs/latest/orchestrator.log)" -eq 2 ]
}

@test "commands of a line on hosts are printed here" {
    graph -q --hosts one=cpu:1,two=cpu:1 --via './reach {host}' -- sh -c 'echo {}; echo error {} >&2' ::: a b c
    ended_with 0
    [ "$(sort <<<"$output" | tr '\n' ' ')" = "a b c " ]
    [ "$(sort <<<"$stderr" | tr '\n' ' ')" = "error a error b error c " ]
}

@test "a dry run with hosts plays the jobs on the devices of all that can be had, and starts nothing" {
    cat >g.yaml <<'END'
jobs:
  any: {for: {n: 1..4}, run: "touch ran"}
  there: {for: {n: 1..2}, run: "touch ran", hosts: two}
  here: {run: "touch ran", hosts: local}
  both: {run: "touch ran", gpus: 2, needs: any}
  nowhere: {run: "touch ran", hosts: three}
END
    graph --dry-run --hosts one=cpu:1,two=cpu:2 --via './reach {host}' g.yaml
    ended_with 0
    [[ $output == *" one cpu 0 "*" any/"* && $output == *" two cpu 1 "* ]]
    [ "$(grep -c ' two cpu [01] *there/' <<<"$output")" -eq 2 ]
    [ "$(grep -c ' two cpu [01], two cpu [01] *both$' <<<"$output")" -eq 1 ]
    [[ $output == *"7 of 9 jobs would run, in 3 m 00 s"*"2 cannot run on these devices"* ]]
    [ ! -e ran ] && [ ! -e muster-runs ]
    worker reach_or_not <<'END'
#!/bin/sh
[ "$1" = gone ] && exit 7
exec ./reach "$@"
END
    graph --dry-run --hosts one=cpu:1,local=cpu:1,gone=cpu:1 --via './reach_or_not {host}' g.yaml
    ended_with 0
    [[ $stderr == *"gone: cannot be had: "* ]]
    [ "$(grep -c ' local cpu 0 *here$' <<<"$output")" -eq 1 ]
    graph --dry-run --hosts one=cpu:1,gone=cpu:1 --hosts-min 2 --via './reach_or_not {host}' g.yaml
    ended_with 69
    [[ $stderr == *"1 of 2 hosts can be had, and a run begins with 2"* ]]
}

@test "hosts that are slow to answer are waited for, and a signal meanwhile leaves nothing" {
    waiting_jobs 1
    touch go
    worker slow <<'END'
#!/bin/sh
sleep 1.5
exec ./reach "$@"
END
    graph -q --hosts one=cpu:1 --via './slow {host}' g.yaml
    ended_with 0
    [ "$(cat left1)" = 1.one ]
    rm -r muster-runs
    graph_begin --fresh --overwrite --hosts one=cpu:1 --via './slow {host}' g.yaml
    sleep 0.7
    kill -INT "$PID"
    map_end
    ended_with 130
    [ ! -e muster-runs ]
}

@test "a host that comes late takes jobs, and nothing is unfit before; too few hosts are status 69" {
    waiting_jobs 1 2
    touch go
    worker late <<'END'
#!/bin/sh
[ "$1" != two ] || [ -e two.is.there ] || exit 1
exec ./reach "$@"
END
    graph_begin --hosts one=cpu:1,two=cpu:2 --via './late {host}' g.yaml
    wait_for holds said "two: cannot be had"
    sleep 0.5
    touch two.is.there
    map_end
    ended_with 0
    [ "$(cat left1)" = 1.two ]
    rm two.is.there
    graph --fresh --overwrite --hosts one=cpu:1,two=cpu:2 --hosts-min 2 --via './late {host}' g.yaml
    ended_with 69
    [[ $stderr == *"1 of 2 hosts can be had"* ]]
}

@test "hosts are added and dropped while it goes on; a job of the dropped one ends first" {
    waiting_jobs "1, 2, 3"
    graph_begin --hosts one=cpu:1 --via './reach {host}' g.yaml
    wait_for has_lines effects 1
    run limited "$MUSTER" hosts --add two=cpu:1
    ended_with 0
    wait_for has_lines effects 2
    run limited "$MUSTER" hosts --drop one
    ended_with 0
    wait_for host_is one draining
    run limited "$MUSTER" add --name more -- sh -c 'echo more.$HOST >>effects'
    ended_with 0
    touch go.one
    wait_for holds said "one: it has left the run"
    touch go
    map_end
    ended_with 0
    [ "$(sed 's/[123]//' effects | sort | tr '\n' ' ')" = "begun.one begun.two begun.two more.two " ]
    [ "$(cat left? | cut -d. -f1 | tr '\n' ' ')" = "1 2 3 " ]
    says "one: it has left the run" "one: 1 job done; left" "two: 3 jobs done"
}

@test "a host that is dropped at once gives its jobs to others, those without devices too" {
    waiting_jobs "1" 0
    graph_begin --hosts one=cpu:1 --via './reach {host}' --grace 1s g.yaml
    wait_for has_lines effects 1
    run limited "$MUSTER" hosts --add two=cpu:1
    wait_for host_is two up
    run limited "$MUSTER" hosts --drop one --now
    ended_with 0
    wait_for has_lines effects 2
    touch go
    map_end
    ended_with 0
    [ "$(cat left1)" = 1.two ]
    says "one: it has left the run"
}

@test "the environment of a job on another host: what the user and the job name, and nothing else of the head's" {
    export SECRET=no GIVEN=yes SAME=head GONE=1
    cat >g.yaml <<'END'
jobs:
  job: {run: [sh, -c, 'echo ${{SECRET-none}} $GIVEN $SAME $SET ${{THERE-none}} $MUSTER_JOB $MUSTER_ATTEMPT >left'], env: {SAME: head, SET: "{attempt}"}, out: left}
END
    graph -q --hosts one=cpu:1 --env GIVEN --setup 'THERE=setup; export THERE' --via 'env -u SECRET -u GIVEN SAME=far' g.yaml
    ended_with 0
    [ "$(cat left)" = "none yes head 1 setup job 1" ]
}

@test "{muster} is the program that is installed on the other host" {
    mkdir there
    ln -s "$MUSTER" there/muster
    cat >g.yaml <<'END'
jobs:
  job: {run: [sh, -c, '{muster} --version >left; echo {muster} $(realpath {muster}) >>left'], out: left}
END
    graph -q --hosts one=cpu:1 --agent-path "$PWD/there/muster" --via env g.yaml
    ended_with 0
    holds left "muster "
    holds left " $(realpath "$MUSTER")"
}

@test "a file that is not on a shared file system is missed, and muster says why" {
    needs_mounts
    mkdir away
    worker apart <<'END'
#!/bin/sh
mount -t tmpfs none away && exec "$@"
END
    cat >g.yaml <<'END'
jobs:
  job: {run: [sh, -c, 'echo 1 >away/left'], out: away/left}
END
    graph -q --hosts one=cpu:1 --via 'unshare -m ./apart' g.yaml
    ended_with 1
    [[ $stderr == *"it ended with status 0 on one, but it did not leave away/left here; its folder may not be on a file system that the two share"* ]]
}

@test "a file that is seen here only later was left all the same" {
    cat >g.yaml <<'END'
jobs:
  job: {run: [touch, begun], out: left}
END
    graph_begin -q --hosts one=cpu:1 --via env g.yaml
    wait_for test -e begun
    sleep 1
    echo 1 >left
    map_end
    ended_with 0
}

@test "a head that is killed leaves nobody on its hosts, and the same command goes on" {
    waiting_jobs "1, 2, 3"
    graph_begin --hosts one=cpu:1,two=cpu:2 --via './reach {host}' --grace 1s g.yaml
    wait_for has_lines effects 3
    kill -KILL "$PID"
    wait "$PID" || true
    wait_for nobody_is_left
    touch go
    graph -q --hosts one=cpu:1,two=cpu:2 --via './reach {host}' --host-timeout 1s --grace 1s g.yaml
    ended_with 0
    [ "$(cat left? | cut -d. -f1 | tr '\n' ' ')" = "1 2 3 " ]
}

# What the last session left on this machine is known by MUSTER_RUN_DIR, which this job changes: as if it were far away.
@test "after a head was killed, its jobs begin again only when they are gone on the hosts" {
    cat >g.yaml <<'END'
jobs:
  job:
    run: [sh, -c, 'exec 9>lock; flock -n 9 || echo $HOST >>both; trap "" TERM; echo $HOST >>effects; until [ -e go ]; do sleep 0.05; done; echo $HOST >left']
    env: {MUSTER_RUN_DIR: elsewhere}
    out: left
END
    graph_begin --hosts one=cpu:1 --via './reach {host}' --host-timeout 1s --grace 2s g.yaml
    wait_for has_lines effects 1
    sleep 1.5 # it has said how it fares
    kill -KILL "$PID"
    wait "$PID" || true
    graph_begin --hosts one=cpu:1 --via './reach {host}' --host-timeout 1s --grace 2s g.yaml
    wait_for has_lines effects 2
    touch go
    map_end
    ended_with 0
    [ ! -e both ]
    says "jobs begin on other hosts in " "1 of 1 job is done"
}

@test "a stop ends jobs on hosts, also when one was lost meanwhile" {
    waiting_jobs "1, 2"
    graph_begin --hosts one=cpu:1,two=cpu:1 --via './reach {host}' g.yaml
    wait_for has_lines effects 2
    kill -KILL "$(agent_of one)"
    wait_for has_logged "its host was lost"
    kill -TERM "$PID"
    map_end
    ended_with 143
    [ ! -e left1 ] && [ ! -e left2 ]
}
