#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Workers on other hosts. The hosts are agents on this machine, reached by `--via`: the command `env` runs what stands
# behind it, and ./reach HOST notes its own pid, whose child is the agent of that host.
load helpers

setup() {
    common_setup
    reach_worker
    slow_filter
}

is_started() { [ -s "pid.$1" ] && [ -n "$(agent_of "$1")" ]; }
log() { cat muster-runs/latest/orchestrator.log; }

@test "the devices of all hosts do one run, in order, and each worker has its host's name" {
    seq 1 30000 >in.txt
    map --hosts one=cpu:2,two=cpu:1,local=cpu:1 --via env -o out.txt in.txt -- cat
    ended_with 0
    same in.txt out.txt
    [ "$(log | grep -o '[a-z]*_*cpu_[01]: attempt' | sort -u | tr '\n' ' ')" = "cpu_0: attempt one_cpu_0: attempt one_cpu_1: attempt two_cpu_0: attempt " ]
    [ -e muster-runs/latest/logs/two_cpu_0_stderr.log ]
}

@test "the work for a line on its way to a host grows with its length, not with the square of it" {
    head -c 100000000 /dev/zero | tr '\0' x >in.txt
    echo >>in.txt
    # Of processor time: a sanitizer takes more.
    [ -z "${DEAD_FS:-}" ] || ulimit -t 4
    map --hosts one=cpu:1 --via env -o out.txt in.txt -- cat
    ended_with 0
    same in.txt out.txt
}

@test "each runs on every seat of every host, with the numbers of the whole run" {
    run --separate-stderr limited "$MUSTER" each --hosts one=cpu:2,two=cpu:1 --via env -- sh -c 'echo $MUSTER_WORKER of $MUSTER_WORKERS in "$PWD"'
    ended_with 0
    [ "$(sort <<<"$output")" = "one_cpu_0: 0 of 3 in $PWD
one_cpu_1: 1 of 3 in $PWD
two_cpu_0: 2 of 3 in $PWD" ]
}

@test "a worker sees the devices of its host, and nothing of the head's environment but muster's variables" {
    export MUSTER_SYSFS=/nowhere SECRET=do-not-send
    run --separate-stderr limited "$MUSTER" each -g 1 --hosts one --via "env -u SECRET MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=2 THERE=1" -- \
        sh -c 'echo "$CUDA_VISIBLE_DEVICES $MUSTER_DEVICE_KIND ${THERE-} ${SECRET-none}"'
    ended_with 0
    [ "$output" = "one_gpu_1: 1 cuda 1 none" ]
}

@test "--env and --setup, of map, each and resume, here and on hosts; --dry-run names what is sent" {
    export GIVEN="a value" HIDDEN=1
    unset PYTHONUNBUFFERED
    seq 1 3 >in.txt
    echo 'export SOURCED=yes; say() { echo "said $*"; }; export -f say' >env.sh
    local where show='echo "${GIVEN-} ${SET-} ${SOURCED-} $(say it)"'
    for where in "-g cpu:1" "--hosts one=cpu:1 --via 'env -u GIVEN -u HIDDEN'"; do
        eval "run --separate-stderr limited $MUSTER each $where --env GIVEN --env 'SET=x y' --setup 'source ./env.sh # the site' -- bash -c '$show'"
        ended_with 0
        [ "${output#*: }" = "a value x y yes said it" ]
        eval "map -q --fresh -f $where --env GIVEN --env 'SET=x y' --setup 'source ./env.sh' -o out.txt in.txt -- bash -c 'while read -r line; do $show; done'"
        ended_with 0
        [ "$(sort -u out.txt)" = "a value x y yes said it" ]
    done
    map --dry-run --hosts one=cpu:1 --via env --env GIVEN --env SET=1 -o out2.txt in.txt -- cat
    says "sent to other hosts: MUSTER_* of the run, GIVEN, PYTHONUNBUFFERED, SET"
    says_not "a value"
    map --hosts one=cpu:1 --via env --setup 'test -e well || exit 9' -r 0 -o out3.txt in.txt -- cat
    ended_with 1
    says "status 9"
    touch well
    run limited "$MUSTER" resume latest --retry-failed
    ended_with 0
    same in.txt out3.txt
    run limited "$MUSTER" each -g cpu:1 --env NOWHERE -- true
    ended_with 2
    says "--env: NOWHERE has no value here"
}

@test "an agent that is killed loses its devices, not the run; it is connected again" {
    seq 1 400 >in.txt
    map_begin --hosts one=cpu:2,two=cpu:2 --via './reach {host}' -o out.txt in.txt -- ./slow
    wait_for is_started one
    wait_for holds muster-runs/latest/orchestrator.log "two_cpu_1: attempt"
    sleep 0.5
    kill -KILL "$(agent_of one)"
    map_end
    ended_with 0
    same in.txt out.txt
    says "one: lost; what it had not answered runs elsewhere" "one: it is connected again"
    says_not "retries, 1 crash" "died"
    [ ! -e out.txt.failed.jsonl ]
}

@test "the only host is lost: the run waits until it is back, and goes on there" {
    seq 1 100 >in.txt
    map_begin --hosts one=cpu:1 --via './reach {host}' -o out.txt in.txt -- ./slow
    wait_for has_logged "one_cpu_0: attempt"
    sleep 0.4
    kill -KILL "$(agent_of one)"
    map_end
    ended_with 0
    same in.txt out.txt
}

@test "an agent that hangs is given up after --host-timeout, and ends its workers when it finds the head gone" {
    seq 1 200 >in.txt
    map_begin --hosts one=cpu:1,two=cpu:1 --host-timeout 1s --via './reach {host}' -o out.txt in.txt -- ./slow
    wait_for has_logged "two_cpu_0: attempt"
    local agent
    agent=$(agent_of one)
    kill -STOP "$agent"
    wait_for has_logged "one: lost"
    kill -CONT "$agent" || true
    map_end
    ended_with 0
    same in.txt out.txt
    says "nothing was heard for 1.0 s"
}

@test "a head that is killed leaves nothing on its hosts, and resume completes the run" {
    seq 1 200 >in.txt
    map_begin --hosts one=cpu:2,two=cpu:1 --via './reach {host}' -o out.txt in.txt -- ./slow
    wait_for has_logged "two_cpu_0: attempt"
    sleep 0.5
    kill -KILL "$PID"
    wait_for nobody_is_left
    run limited "$MUSTER" resume latest
    ended_with 0
    same in.txt out.txt
}

@test "a head that hangs is given up by its agents, which end their workers" {
    seq 1 200 >in.txt
    map_begin --hosts one=cpu:1 --host-timeout 1s --via './reach {host}' -o out.txt in.txt -- sh -c 'touch there; exec ./slow'
    wait_for test -e there
    kill -STOP "$PID"
    wait_for is_gone "$(agent_of one)"
    kill -CONT "$PID"
    map_end
    ended_with 0
    same in.txt out.txt
}

@test "an agent that is told to end says so to its head, and not on its standard error" {
    worker quiet <<'END'
#!/bin/sh
host=$1
shift
echo $$ >pid.$host
"$@" 2>>agent.err
END
    worker deaf <<'END'
#!/bin/sh
trap "" TERM
touch there
exec ./slow
END
    seq 1 100 >in.txt
    map_begin --hosts one=cpu:1,two=cpu:1 --grace 1s --via './quiet {host}' -o out.txt in.txt -- ./deaf
    wait_for test -e there
    kill -TERM "$(agent_of one)"
    wait_for has_logged "one: lost; what it had not answered runs elsewhere: its agent was told to end"
    local agent
    agent=$(agent_of two)
    kill -KILL "$PID"
    kill -TERM "$agent" || true
    wait_for nobody_is_left
    ! grep SIGTERM agent.err
}

# As reach, in a Slurm job, as far as an agent can tell; and a filter that notes each item when it begins it.
job_workers() {
    mkdir begun
    worker job <<'END'
#!/bin/sh
host=$1
shift
echo $$ >pid.$host
SLURM_JOB_ID=7 "$@"
END
    worker noting <<'END'
#!/bin/sh
while read -r item; do
    echo "$item" >>"begun/$$"
    sleep 0.2
    echo "$item"
done
END
}
has_begun() { [ "$(cat begun/* 2>/dev/null | wc -l)" -ge "$1" ]; }

@test "an agent in a Slurm job that gets TERM keeps its workers until they have finished their items; it is asked again" {
    job_workers
    seq 1 60 >in.txt
    map_begin --hosts one=cpu:2,two=cpu:1 --no-reissue --via './job {host}' -o out.txt in.txt -- ./noting
    wait_for has_begun 8
    kill -TERM "$(agent_of one)"
    wait_for has_logged "one: its job ends soon (it got SIGTERM); its workers finish their items"
    map_end
    ended_with 0
    same in.txt out.txt
    says "one: it has left the run; it is asked again" "one: it joins the run: 2 more workers"
    says_not "lost" "died"
    [ "$(cat begun/* | sort -n)" = "$(cat in.txt)" ]
}

@test "the only host, in a Slurm job, gets TERM: the run goes on when it can be had again" {
    job_workers
    seq 1 30 >in.txt
    map_begin --hosts one=cpu:1 --no-reissue --via './job {host}' -o out.txt in.txt -- ./noting
    wait_for has_begun 3
    kill -TERM "$(agent_of one)"
    map_end
    ended_with 0
    same in.txt out.txt
    says "one: its job ends soon" "one: it joins the run: 1 more worker"
    [ "$(cat begun/* | sort -n)" = "$(cat in.txt)" ]
}

@test "an agent in a Slurm job ends at once after a second TERM, and when a worker of it got one too" {
    job_workers
    worker stays <<'END'
#!/bin/sh
while read -r item; do
    [ "$item" != 1 ] || [ -e once ] || { echo $$ >once; exec sleep 1000; }
    echo "$item"
done
END
    seq 1 20 >in.txt
    local second
    for second in agent worker; do
        rm -f once
        map_begin --fresh -f --hosts one=cpu:1 --via './job {host}' -o out.txt in.txt -- ./stays
        wait_for test -s once
        kill -TERM "$(agent_of one)"
        wait_for has_logged "its job ends soon (it got SIGTERM)"
        case $second in
        agent) kill -TERM "$(agent_of one)" ;;
        worker) kill -TERM "$(cat once)" ;;
        esac
        map_end
        ended_with 0
        same in.txt out.txt
        says "lost before its workers had finished: its agent was told to end"
        says_not "died"
    done
}

@test "a signal ends the workers of all hosts" {
    seq 1 1000 >in.txt
    map_begin --hosts one=cpu:1,two=cpu:1 --via './reach {host}' -o out.txt in.txt -- ./slow
    wait_for has_logged "two_cpu_0: attempt"
    kill -TERM "$PID"
    map_end
    ended_with 143
    wait_for nobody_is_left
}

@test "a signal while hosts are being connected ends muster" {
    seq 1 10 >in.txt
    map_begin --hosts one --via "sh -c 'touch asked; exec sleep 1000'" -o out.txt in.txt -- cat
    wait_for test -e asked
    kill -INT "$PID"
    map_end
    ended_with 130
    wait_for nobody_is_left
    [ ! -e muster-runs ]
}

@test "a host that cannot be had is named with its launcher's words, and the others go on" {
    seq 1 100 >in.txt
    worker via <<'END'
#!/bin/sh
echo "Welcome to $1"
[ "$1" = good ] || { echo "Permission denied (publickey)." >&2; exit 255; }
shift
exec "$@"
END
    map --hosts bad,good=cpu:1 --via './via {host}' -o out.txt in.txt -- cat
    ended_with 0
    same in.txt out.txt
    says "bad: cannot be had: ./via ended with status 255: Permission denied (publickey)."
    map --hosts bad,good=cpu:1 --hosts-min 3 --via './via {host}' -o out2.txt in.txt -- cat
    ended_with 2
    says "--hosts-min 3 is more than the 2 of --hosts"
    map --hosts bad,good=cpu:1 --hosts-min 2 --via './via {host}' -o out2.txt in.txt -- cat
    ended_with 69
    says "1 of 2 hosts can be had; bad: ./via ended with status 255: Permission denied (publickey)."
    map --hosts bad --via "sh -c 'echo Welcome; exit 3'" -o out2.txt in.txt -- cat
    ended_with 69
    says "0 of 1 hosts can be had; bad: sh ended with status 3 (it printed: Welcome)"
    map --hosts bad --via ./nosuch -o out2.txt in.txt -- cat
    ended_with 69
    says "bad: ./nosuch: No such file or directory"
}

@test "before the run begins, a host that refuses is tried three times, unless the reason will not pass" {
    worker via <<'END'
#!/bin/sh
host=$1
shift
echo try >>"tries.$host"
[ "$(wc -l <"tries.$host")" -gt "$REFUSES" ] || { echo "$WORDS" >&2; exit 255; }
exec "$@"
END
    export WORDS="kex_exchange_identification: Connection closed by remote host" REFUSES=2
    seq 1 100 >in.txt
    map --hosts one=cpu:1 --via './via {host}' -o out.txt in.txt -- cat
    ended_with 0
    same in.txt out.txt
    log | grep -q "one: ./via ended with status 255: $WORDS; it is tried again"
    [ "$(wc -l <tries.one)" = 3 ]
    rm tries.*
    run --separate-stderr limited "$MUSTER" launch --hosts two,one -g cpu:1 --via './via {host}' --no-python echo well
    ended_with 0
    [ "$output" = $'well\nwell' ]
    rm tries.*
    REFUSES=3
    map --hosts one=cpu:1,local=cpu:1 --hosts-min 2 --via './via {host}' -o out2.txt in.txt -- cat
    ended_with 69
    says "1 of 2 hosts can be had; one: ./via ended with status 255: $WORDS"
    [ "$(wc -l <tries.one)" = 3 ]
    rm tries.*
    for WORDS in "me@one: Permission denied (publickey,password)." "ssh: Could not resolve hostname one: Name or service not known"; do
        map --hosts one=cpu:1 --via './via {host}' -o out2.txt in.txt -- cat
        ended_with 69
        [ "$(wc -l <tries.one)" = 1 ]
        rm tries.*
    done
}

@test "a worker's program that is missing on one host is said before items fail there" {
    seq 1 100 >in.txt
    mkdir bin
    printf '#!/bin/sh\nexec cat\n' >bin/tool
    chmod +x bin/tool
    worker via <<'END'
#!/bin/sh
[ "$1" = with ] && PATH=$PWD/bin:$PATH
shift
exec "$@"
END
    map --hosts with=cpu:1,without=cpu:1 --via './via {host}' -o out.txt in.txt -- tool
    ended_with 0
    same in.txt out.txt
    says "without: cannot be had: the worker's program 'tool' is not in PATH"
}

@test "a worker's script that is missing on one host is said before items fail there, with the cure" {
    seq 1 100 >in.txt
    echo 'while read -r line; do echo "$line"; done' >job.sh
    mkdir there empty
    cp job.sh there
    worker via <<'END'
#!/bin/sh
folder=$1
shift
exec unshare -m sh -c 'mount --bind "$PWD/'$folder'" "$PWD" && cd "$PWD" && exec "$@"' sh "$@"
END
    needs_mounts
    map --hosts there=cpu:1,empty=cpu:1 --via "$PWD/via {host}" -o out.txt in.txt -- sh job.sh
    ended_with 0
    same in.txt out.txt
    says "empty: cannot be had: the worker's script job.sh in $PWD (copy it to that host, or name it by its whole path): No such file or directory"
    says_not "died"
    map --hosts empty=cpu:1 --via "$PWD/via {host}" -o out2.txt in.txt -- bash -e "$PWD/job.sh"
    ended_with 69
    says "the worker's script $PWD/job.sh (copy it to that host): No such file or directory"
    map --hosts empty=cpu:1 --via "$PWD/via {host}" --setup true -r 0 -o out2.txt in.txt -- sh job.sh
    ended_with 1
    says_not "cannot be had"
    run --separate-stderr limited "$MUSTER" each --hosts empty=cpu:1 --via "$PWD/via {host}" -- sh job.sh
    ended_with 69
}

@test "bytes that are not muster's end the connection with a sentence" {
    seq 1 10 >in.txt
    map --hosts one --agent-path x --via "sh -c 'printf \"\\n\\001muster-wire-1\\n0123456789abcdef0123456789abcdef\"; sleep 1000'" -o out.txt in.txt -- cat
    ended_with 69
    says "one: frame 0 " "bytes were changed, lost or repeated on the way"
    run bash -c "printf '\n\001muster-wire-1\n0123456789abcdef0123456789abcdef' | timeout 20 '$MUSTER' agent | tail -c 1000 | tr -d '\000'"
    says "muster: frame 0 "
    ended_with 0
}

@test "channel workers on a host, by descriptor and by path" {
    records 300 >in.jsonl
    pyworker chan <<'END'
import sys, os
sys.path.append(os.environ["PYTHONPATH"].split(":")[-1])
import muster
for item in muster.items():
    item.done(id=item.data["id"])
END
    local way
    for way in "" --channel-path; do
        map $way --hosts one=cpu:1,two=cpu:1 --via env -o "out$way.jsonl" in.jsonl -- ./chan
        ended_with 0
        [ "$(jq -s 'map(.id) | add' "out$way.jsonl")" = 44850 ]
        [ "$(wc -l <"out$way.jsonl")" = 300 ]
    done
    [ -z "$(ls -d "${TMPDIR:-/tmp}"/muster-agent-* 2>/dev/null)" ]
}

@test "a worker that prints without end is held back, and a dead one's last words come back" {
    seq 1 4 >in.txt
    pyworker loud <<'END'
import sys
sys.stderr.write("x" * 4000000 + "\n")
sys.stderr.flush()
for line in sys.stdin:
    sys.stdout.write(line)
    sys.stdout.flush()
END
    map --hosts one=cpu:1 --via env -o out.txt in.txt -- ./loud
    ended_with 0
    same in.txt out.txt
    map --hosts one=cpu:1 --via env --retries 0 -o out2.txt in.txt -- sh -c 'read l; echo "the reason" >&2; exit 7'
    ended_with 1
    says "status 7" "its last words: the reason"
}

@test "a host's GPUs are sampled, and a dead worker's memory is waited for there too" {
    export MUSTER_SYSFS=/nowhere
    seq 1 400 >in.txt
    pyworker frail <<'END'
import os, sqlite3, sys, time
def is_sampled():
    ledger = sqlite3.connect("file:%s/run.db?mode=ro" % os.environ["MUSTER_RUN_DIR"], uri=True)
    return ledger.execute("select count(*) from samples").fetchone()[0] > 0
for n, line in enumerate(sys.stdin):
    while n == 0 and not is_sampled():
        time.sleep(0.05)
    if n == 150:
        os.kill(os.getpid(), 11)
    sys.stdout.write(line)
    sys.stdout.flush()
END
    map -g all --hosts one --via "env MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=1" --retries 20 -o out.txt in.txt -- ./frail
    ended_with 0
    same in.txt out.txt
    says "one_gpu_0 died (SIGSEGV) after 150 items" "memory     one gpu 0: 512 MiB of 141 GiB"
    [ "$(query "select count(*) from samples")" -ge 1 ]
}

@test "what an agent warns of is shown once, and stands in the run's log once, although that is opened later" {
    local via="env MUSTER_NVML=/nowhere MUSTER_SYSFS=/nowhere" warning="using [0-9]* CPU slots\? instead"
    seq 1 5 >in.txt
    map --dry-run --hosts one --via "$via" -o out.txt in.txt -- cat
    ended_with 0
    [ "$(grep -c "muster: one: $warning" <<<"$output")" = 1 ]
    map --hosts one --via "$via" -o out.txt in.txt -- cat
    ended_with 0
    [ "$(grep -c "muster: one: $warning" <<<"$output")" = 1 ]
    [ "$(log | grep -c "WARN  host: one: $warning")" = 1 ]
    map --hosts one,two --hosts-min 2 --via "sh -c '[ \$0 = one ] || exit 1; exec $via \"\$@\"' {host}" -f --fresh -o out.txt in.txt -- cat
    ended_with 69
    [ "$(grep -c "muster: one: $warning" <<<"$output")" = 1 ]
}

@test "a run of another host's device is refused there, by its lock" {
    export MUSTER_SYSFS=/nowhere MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=1
    seq 1 10 >in.txt
    holding_worker
    map_begin -g 0 --hosts one --via env -o out.txt in.txt -- ./hold
    wait_for test -e holding
    map -g 0 --hosts two --via env -o out2.txt in.txt -- cat
    ended_with 69
    says "0 of 1 hosts can be had; two: gpu 0 is taken by pid" ", run $(basename "$(readlink -f muster-runs/latest)")"
    local first=$PID
    "$MUSTER" map -g 0 --hosts two --via './reach {host}' --wait 60s -o out3.txt in.txt -- cat >waits 2>&1 3>&- 4>&- &
    local second=$!
    wait_for is_started two
    sleep 0.5
    kill -KILL $second # an agent that waits for devices sees that its head is gone
    wait_for is_gone "$(agent_of two)"
    "$MUSTER" map -g 0 --hosts three --via './reach {host}' --wait 60s -o out4.txt in.txt -- cat >waits 2>&1 3>&- 4>&- &
    second=$!
    wait_for is_started three
    touch go
    PID=$first
    map_end
    ended_with 0
    wait $second
    same in.txt out4.txt
}

@test "lists of hosts: files, ports, devices, and what is wrong with them" {
    printf '# the lab\none slots=2\n\ntwo slots=1 # small\n' >hosts
    run --separate-stderr limited "$MUSTER" each --hosts @hosts --via "env MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=4 MUSTER_SYSFS=/nowhere MUSTER_LOCK_DIR=" -- true
    run --separate-stderr limited "$MUSTER" each --hosts @hosts -g cpu:1 --via "sh -c 'echo \"\$0 \$1\" >&2; exit 1' {host} {port}" -- true
    ended_with 69
    local list words
    while IFS='|' read -r list words; do
        run limited "$MUSTER" each --hosts "$list" --via env -- true
        ended_with 2
        says "$words"
    done <<'END'
one,one|--hosts: 'one' is named twice
one,,two|--hosts: an entry is empty
one:0|--hosts: 'one:0' has no port behind its colon
-oProxyCommand=x|--hosts: '-oProxyCommand' is no name of a host
a b|--hosts: 'a b' is no name of a host
one=gpu|--hosts: one:
@nosuch|--hosts: 
END
    for words in 0 999ms; do
        run limited "$MUSTER" map --hosts one --via env --host-timeout $words -o out.txt /dev/null -- cat
        ended_with 2
        says "--host-timeout: expected a second at least, found '$words'"
    done
}

@test "shards on hosts that share the run's folder use the head's own paths" {
    seq 1 60 >in.txt
    map --hosts one=cpu:2,two=cpu:1 --via env --shards 6 -o out.txt in.txt -- sh -c 'echo "$1" >>outputs; cp "$0" "$1"' {input} {output}
    ended_with 0
    same in.txt out.txt
    [ "$(log | grep -c "it shares the run's folder")" = 2 ]
    [ "$(sort outputs)" = "$(for i in 0 1 2 3 4 5; do echo "$(run_dir)/shard-output/shard_$i.txt"; done)" ]
}

# A server on this machine, whose hosts lab1, lab2 and so on are in keys/config; skips where there is none. Behind the port of
# "csh", tcsh is the login shell. The key of "lab9" is refused without the connection keys/kept.
sshd_begin() {
    PATH=$PATH:/usr/sbin
    command -v sshd ssh ssh-keygen >/dev/null || skip "no sshd here"
    mkdir -p keys
    ssh-keygen -q -t ed25519 -N '' -f keys/host
    ssh-keygen -q -t ed25519 -N '' -f keys/user
    local port=$((20000 + RANDOM % 10000))
    local csh_port=$((port + 1))
    cat >keys/sshd_config <<END
Port $port
Port $csh_port
ListenAddress 127.0.0.1
ListenAddress ::1
HostKey $PWD/keys/host
AuthorizedKeysFile $PWD/keys/user.pub
PidFile $PWD/keys/sshd.pid
StrictModes no
SetEnv XDG_CACHE_HOME=$PWD/far.cache
UsePAM no
Match LocalPort $csh_port
    ForceCommand tcsh -c "\$SSH_ORIGINAL_COMMAND"
END
    cat >keys/config <<END
Host lab* csh
  HostName 127.0.0.1
Host lab* csh ::1
  User $(id -un)
  IdentityFile $PWD/keys/user
  UserKnownHostsFile $PWD/keys/known
  StrictHostKeyChecking accept-new
  LogLevel ERROR
Host csh
  Port $csh_port
Host lab*
  Port $port
Host lab9
  ControlPath $PWD/keys/kept
Host gone
  HostName 127.0.0.1
  Port 1
END
    [ "$(id -u)" -ne 0 ] || mkdir -p /run/sshd
    "$(command -v sshd)" -D -f "$PWD/keys/sshd_config" 3>&- 4>&- &
    KEPT=$!
    wait_for ssh -o BatchMode=yes -F keys/config lab1 true
}

@test "through a real ssh: the bytes, a missing program, a host without muster, one that is not there" {
    sshd_begin
    seq 1 20000 >in.txt
    local via="ssh -o BatchMode=yes -F $PWD/keys/config -T {host}"
    map --hosts lab1=cpu:1,lab2=cpu:1,gone=cpu:1 --via "$via" -o out.txt in.txt -- cat
    ended_with 0
    same in.txt out.txt
    says "gone: cannot be had: ssh ended with status 255" "Connection refused"
    MUSTER_SEND_AGENT=1 map --hosts lab1=cpu:1,lab2=cpu:1 --via "$via" -o out3.txt in.txt -- cat
    ended_with 0
    same in.txt out3.txt
    log | grep -q "installed muster .* in $PWD/far.cache/muster"
    [ "$(ls -A far.cache/muster | wc -l)" = 1 ]
    map --hosts lab1=cpu:1 --via "$via" --agent-path "/no where/muster" -o out2.txt in.txt -- cat
    ended_with 69
    says "lab1: ssh ended with status 127" "/no where/muster"
}

@test "the default command is ssh, whatever the login shell is, also through a connection that the user has opened" {
    sshd_begin
    mkdir bin
    printf '#!/bin/sh\nexec "%s" -F "%s" "$@"\n' "$(command -v ssh)" "$PWD/keys/config" >bin/ssh
    chmod +x bin/ssh
    PATH=$PWD/bin:$PATH
    seq 1 2000 >in.txt
    map --hosts lab1=cpu:1,lab2=cpu:1 -o out.txt in.txt -- cat
    ended_with 0
    same in.txt out.txt
    if grep -qs '^0*1 ' /proc/net/if_inet6; then # ::1
        map --hosts "[::1]:$(sed -n '1s/Port //p' keys/sshd_config)=cpu:1" -o six.txt in.txt -- cat
        ended_with 0
        same in.txt six.txt
    fi
    if command -v tcsh >/dev/null; then
        MUSTER_SEND_AGENT=1 map --hosts csh=cpu:1 -o csh.txt in.txt -- cat
        ended_with 0
        same in.txt csh.txt
    fi
    ssh -fNM -o ControlPersist=yes lab9 >/dev/null 2>&1 3>&- 4>&-
    mv keys/user keys/away
    map --hosts lab9=cpu:1 -o kept.txt in.txt -- cat
    ended_with 0
    same in.txt kept.txt
    ssh -O exit lab9
    map --hosts lab9=cpu:1 -o none.txt in.txt -- cat
    ended_with 69
    says "lab9: ssh ended with status 255: " "Permission denied"
}

# The pids among those given that listen at a TCP port.
listeners() {
    local pid inode
    for pid; do
        for inode in $(awk '$4 == "0A" { print $10 }' /proc/net/tcp /proc/net/tcp6); do
            ls -l "/proc/$pid/fd" 2>/dev/null | grep -qF "socket:[$inode]" && echo "$pid"
        done
    done
    true
}

@test "the limit of open files is raised for the ways to many hosts" {
    seq 1 100 >in.txt
    ulimit -Sn 64
    map --hosts "$(seq -s, -f 'h%g=cpu:1' 1 16)" --hosts-min 16 --via env -o out.txt in.txt -- cat
    ended_with 0
    same in.txt out.txt
}

@test "no port is opened, here or on hosts, and at most eight hosts are starting at once" {
    worker via <<'END'
#!/bin/sh
shift
mkdir "starting.$$"
ls -d starting.* | wc -l >>counts
until [ -e eight ]; do
    [ "$(ls -d starting.* | wc -l)" -lt 8 ] || touch eight
    sleep 0.02
done
rmdir "starting.$$"
exec "$@"
END
    seq 1 400 >in.txt
    map_begin --hosts "$(seq -s, 1 12)" --hosts-min 12 -g cpu:1 --via './via {host}' -o out.txt in.txt -- ./slow
    wait_for has_logged "attempt 12"
    local pids
    pids=$(marked)
    [ "$(wc -w <<<"$pids")" -ge 25 ]
    [ -z "$(listeners $pids)" ]
    map_end
    ended_with 0
    same in.txt out.txt
    [ "$(sort -n counts | tail -1)" -le 8 ]
    [ "$(wc -l <counts)" = 12 ]
    "$PYTHON" -c 'import socket, time; s = socket.socket(); s.listen(); open("listens", "w").close(); time.sleep(1000)' 3>&- 4>&- &
    KEPT=$!
    wait_for test -e listens
    [ "$(listeners $KEPT)" = "$KEPT" ] # it would be seen
}

@test "through mpirun, one for each host" {
    command -v mpirun >/dev/null || skip "mpirun is not installed"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
    seq 1 2000 >in.txt
    map --hosts localhost=cpu:2 --via 'mpirun --host {host} -np 1' -o out.txt in.txt -- cat
    ended_with 0
    same in.txt out.txt
}
