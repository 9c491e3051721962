#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Looks at other hosts: gpus, doctor and status by host. ./reach HOST … runs what follows on that host, which is this
# machine with another driver, other GPUs and another python3.
load helpers

setup() {
    common_setup
    export MUSTER_SYSFS=/nowhere
    worker reach <<'END'
#!/bin/sh
host=$1
shift
case $host in
big) export MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=2 ;;
old) export MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=1,driver=0:535.10 ;;
refused) echo "Permission denied (publickey)." >&2; exit 255 ;;
prompt) echo "password: " >&2; read -r answer </dev/tty || read -r answer; exit 255 ;;
silent) exec sleep 1000 ;;
liar) exec ./lie ;;
esac
echo $$ >pid.$host
[ ! -e "env.$host" ] || . "./env.$host"
exec "$@"
END
    export PYTHON FAKE_NVML
}

gpus() { run --separate-stderr limited "$MUSTER" gpus --agent-path "$MUSTER" --via './reach {host}' "$@"; }

# What is on stderr must hold each of these texts.
warns() {
    local output=$stderr
    says "$@"
}

# ./lie {host}: a host whose agent is muster, and whose muster, when it is to look, prints what the file `prints` has.
liar() {
    worker lie <<END
#!/bin/sh
mkdir host-\$\$
cp "$MUSTER" host-\$\$/muster
cp "$(dirname "$MUSTER")/muster-guard" host-\$\$/
cp lies host-\$\$/lies
{
    until readlink /proc/\$(pgrep -f "host-\$\$/muster agent")/fd/* 2>/dev/null | grep -q eventpoll; do sleep 0.02; done
    mv host-\$\$/lies host-\$\$/muster
    cat
} | "$PWD/host-\$\$/muster" agent
END
    worker lies <<END
#!/bin/sh
cat "$PWD/prints"
exit \$(cat "$PWD/ends" 2>/dev/null || echo 0)
END
}

@test "gpus shows the devices of all hosts in the list's order, each with its host" {
    gpus --hosts big,local,old
    ended_with 0
    [ "$(awk 'NR > 1 { print $1 }' <<<"$output" | uniq | tr '\n' ' ')" = "big local old " ]
    says "HOST" "big    gpu 1 " "old    gpu 0 " "local  cpu 0 "
    warns "local: no NVIDIA or AMD driver on this machine"
    gpus --hosts big,old --json
    ended_with 0
    [ "$(jq -r '[.host, .index, .driver] | @tsv' <<<"$output" | tr '\t\n' ' ;')" = "big 0 550.54.15;big 1 550.54.15;old 0 535.10;" ]
    [ "$(jq -r 'has("in_use_by") and has("locked_by") and has("time")' <<<"$output" | sort -u)" = true ]
    [ -z "$stderr" ]
}

@test "devices are chosen on each host: by -g for all of them, or in the list for one" {
    gpus --hosts big,old -g 0
    ended_with 0
    [ "$(grep -c ' gpu 0 ' <<<"$output")" = 2 ]
    gpus --hosts big=1,old --json
    ended_with 0
    [ "$(jq -r '.host + " " + (.index | tostring)' <<<"$output" | tr '\n' ';')" = "big 1;old 0;" ]
    gpus --hosts big,old -g 1
    ended_with 69
    warns "old: gpus: GPU 1 is not available" "old: cannot be had: muster gpus ended there with status 69"
    says "big   gpu 1 "
    gpus --hosts big -g nonsense
    ended_with 2
}

@test "a host that cannot be had is named with its launcher's words, and the others are shown" {
    gpus --hosts refused,big,silent --host-timeout 1s
    ended_with 69
    warns "refused: cannot be had: ./reach ended with status 255: Permission denied (publickey)." \
        "silent: cannot be had: no answer within 1.0 s"
    says "big   gpu 0 " "big   gpu 1 "
    gpus --hosts refused --json
    ended_with 69
    [ -z "$output" ]
    gpus --hosts big,big
    ended_with 2
    warns "--hosts: 'big' is named twice"
}

@test "a launcher that asks for a password gets no answer from the terminal, and the look ends" {
    run --separate-stderr limited script -qec "\"$MUSTER\" gpus --hosts prompt --host-timeout 1s --via './reach {host}'" /dev/null </dev/null
    says "prompt: cannot be had: "
    ended_with 69
}

@test "the options of a verb are not taken from a host's environment: no look asks on, or goes on without end" {
    export MUSTER_HOSTS=big MUSTER_VIA='./reach {host}' MUSTER_WATCH=1 MUSTER_JSON=1
    run --separate-stderr limited timeout 3 "$MUSTER" gpus --hosts old
    [ "$(jq -r .host <<<"$output" | sort -u)" = old ]
    ended_with 124
}

@test "gpus --watch keeps the connections, and shows a host again that was away" {
    "$MUSTER" gpus -w 100ms --json --hosts big,old --via './reach {host}' >rows 2>said 3>&- 4>&- &
    PID=$!
    wait_for has_lines rows 6
    local n agent
    agent=$(cat pid.old)
    kill -0 "$agent"
    kill -KILL "$(cat pid.big)"
    n=$(wc -l <rows)
    wait_for has_lines rows $((n + 9))
    [ "$(cat pid.old)" = "$agent" ]
    kill -0 "$(cat pid.big)"
    kill -TERM "$PID"
    map_end
    [ "$(tail -3 rows | jq -r .host | sort | uniq -c | tr -s ' \n' ' ')" = " 2 big 1 old " ]
    wait_for nobody_is_left
}

@test "what a host prints is data: other lines, other members, control characters and floods do no harm" {
    liar
    local words
    while IFS='|' read -r line words; do
        printf "$line" >prints
        gpus --hosts liar,big
        says "big   gpu 0 "
        ended_with "${words%% *}"
        [ -z "${words#* }" ] || warns "${words#* }"
    done <<'END'
Welcome\n|69 liar: cannot be had: line 1 of its answer is no device
{"time":"x"}\n|69 liar: cannot be had: line 1 of its answer is no device
{"a":|69 liar: cannot be had: line 1 of its answer is no device
\000\001\n|69 liar: cannot be had: line 1 of its answer is no device
|0 
END
    printf '{"time":"t","in_use_by":"\\u001b]0;x\\u0007 \\u202e","kind":"cuda","index":7,"name":"\\u001b[2J\\nHOST","uuid":"%0200d","power_w":1e300,"mem_total_bytes":5,"mem_free_bytes":18446744073709551615,"processes":[]}\n' 0 >prints
    gpus --hosts liar
    ended_with 0
    says "liar  gpu 7 " '\u202e'
    says_not $'\e' $'\u202e' $'\a'
    [ "$(wc -l <<<"$output")" = 2 ]
    head -c 9000000 /dev/zero >prints
    gpus --hosts liar,big
    ended_with 69
    warns "liar: cannot be had: its answer is longer than 8.0 MiB"
    says "big   gpu 0 "
    echo 3 >ends
    : >prints
    gpus --hosts liar
    ended_with 69
    warns "liar: cannot be had: muster gpus ended there with status 3"
}

@test "status shows the run by host while one is away, and the summary has a line a host" {
    pyworker slow <<'END'
import sys, time
for line in sys.stdin:
    time.sleep(0.01)
    sys.stdout.write(line)
    sys.stdout.flush()
END
    seq 1 800 >in.txt
    map_begin --hosts one=cpu:1,two=cpu:1,local=cpu:1,refused --via './reach {host}' --on-finish 'cat >finish' -o out.txt in.txt -- ./slow
    wait_for holds muster-runs/latest/status.json '"name":"two","state":"up"'
    sleep 0.3
    kill -KILL "$(cat pid.two)"
    wait_for holds muster-runs/latest/status.json '"name":"two","state":"away"'
    run limited "$MUSTER" status
    says "HOST " "ROUND TRIP" "two           away for " "refused       missing"
    run limited "$MUSTER" status --json
    [ "$(jq -r '.hosts | map(.name) | join(" ")' <<<"$output")" = "local one two refused" ]
    [ "$(jq -r '.hosts[1] | .state == "up" and .done > 0 and .sent_bytes > 100 and .received_bytes > 100 and .lost_ms == 0' <<<"$output")" = true ]
    map_end
    ended_with 0
    same in.txt out.txt
    says "host       one: " " sent, " "host       two: " "; without a connection for " "host       refused: 0 items, 0 items/s; " "; missing"
    [ "$(jq '.hosts | map(.done) | add >= 800' finish)" = true ]
    [ "$(jq -r '.hosts[2] | .lost_ms >= 900 and .lost_ms < 20000 and .away_ms == 0 and .state == "up"' finish)" = true ]
    [ "$(jq -r '.hosts[0] | .name == "local" and .sent_bytes == 0 and .done > 0' finish)" = true ]
    map --on-finish 'cat >finish' -o out2.txt -g cpu:1 in.txt -- cat
    [ "$(jq -c .hosts finish)" = "[]" ]
    says_not "host       "
}

doctor() { run --separate-stderr limited "$MUSTER" doctor --agent-path "$MUSTER" --via './reach {host}' "$@"; }

# The level of what is said about a subject between the hosts, and its words.
between() { jq -r "select(.host == null and .subject == \"$1\") | .level + \" \" + .found" <<<"$output"; }

@test "doctor examines each host, says once what is alike, and names what differs with its cure" {
    mkdir python
    worker python/python3 <<'END'
#!/bin/sh
printf '3.8.9\n/opt/python3\n2.3.1\n\n\n1.26\n'
END
    echo "PATH=\$PWD/python:\$PATH; ulimit -Sn 500; export CUDA_VISIBLE_DEVICES=0" >env.old
    doctor --hosts big,old --json
    [ "$(jq -r 'select(.host != null) | .host' <<<"$output" | uniq | tr '\n' ' ')" = "big old " ]
    [ "$(between driver)" = "warn 550.54.15 on big; 535.10 on old" ]
    [ "$(between devices)" = "warn 2 x Stand-in H200 (141 GiB) on big; 1 x Stand-in H200 (141 GiB) on old" ]
    [ "$(between torch)" = "warn none on big; 2.3.1 on old" ] || [[ $(between torch) == "warn "*"on big; 2.3.1 on old" ]]
    [[ $(between python) == "warn "*" on big; 3.8.9 on old" ]]
    [[ $(between open_files) == "warn "*" on big; 500 on old" ]]
    [ "$(between CUDA_VISIBLE_DEVICES)" = "warn none on big; 0 on old" ]
    [ "$(between kernel)" = "ok $(uname -r)" ]
    [[ $(between clock) == "ok within "* ]]
    [ -z "$(between HIP_VISIBLE_DEVICES)" ]
    [ "$(jq -r 'select(.host == "old" and .check == "limits") | .level' <<<"$output")" = fail ]
    jq -es 'all(.[]; .level == "ok" or .means != "" and .cure != "")' <<<"$output"
    ended_with 1
    doctor --hosts big,old
    [ "$(grep -c 'ok    shm ' <<<"$output")" = 1 ]
    says "big, old:" "between the hosts:" "warn  hosts     driver: 550.54.15 on big; 535.10 on old" "cure"
    doctor --hosts big,old -q health
    ended_with 0
    [ -z "$output" ]
}

@test "doctor compares nothing when checks are named, and hands checks and devices on" {
    doctor --hosts big,old=0 --json driver health
    ended_with 0
    [ "$(jq -r .check <<<"$output" | sort -u | tr '\n' ' ')" = "driver health " ]
    doctor --hosts big,old nonsense
    ended_with 2
    doctor --hosts big,old -g 1 --json health
    ended_with 1
    [ "$(jq -r 'select(.level == "fail") | .subject' <<<"$output")" = old ]
}

@test "doctor: a host that cannot be had, hangs or prints anything is a failure, and the others are examined" {
    liar
    local line
    doctor --hosts big,refused,silent --host-timeout 1s --patience 2s --json driver
    ended_with 1
    [ "$(jq -r 'select(.level == "fail") | .subject + ": " + .found' <<<"$output")" = "refused: cannot be had: ./reach ended with status 255: Permission denied (publickey).
silent: cannot be had: no answer within 1.0 s" ]
    [ "$(jq -r 'select(.host == "big") | .level' <<<"$output")" = ok ]
    for line in 'Welcome\n' '{"check":"shm"}\n' '{"trait":7}\n' '\000\n'; do
        printf "$line" >prints
        doctor --hosts liar,big --json driver
        ended_with 1
        [ "$(jq -r 'select(.level == "fail") | .subject + ": " + .found' <<<"$output")" = "liar: cannot be had: line 1 of its answer is no finding" ]
    done
    printf '{"check":"\\u001b[2Jx","level":"warn","subject":"\\nok    fit","found":"\\u001b]0;t\\u0007","means":"\\u202e","cure":"\\nok"}\n{"trait":"kernel","value":"\\u001b[31m"}\n' >prints
    doctor --hosts liar,big
    ended_with 0
    says "warn" '\u202e'
    says_not $'\e' $'\u202e' $'\a' $'\nok    fit'
    rm prints ends 2>/dev/null || true
    printf '' >prints
    echo 69 >ends
    doctor --hosts liar
    ended_with 1
    says "liar: cannot be had: muster doctor ended there with status 69"
}

@test "doctor --traits tells what a machine is compared by, of this one too" {
    run --separate-stderr limited "$MUSTER" doctor --traits --json clock
    [ "$(jq -r 'select(.trait == "kernel") | .value' <<<"$output")" = "$(uname -r)" ]
    [ "$(jq -r 'select(.trait == "folder") | .value' <<<"$output")" = "$PWD" ]
    run --separate-stderr limited "$MUSTER" doctor --traits --python "$PWD/nowhere" clock
    says "machine                 $(uname -m)" "python                  none"
}

@test "a head that is killed while it looks leaves nothing on its hosts" {
    mkdir python
    worker python/python3 <<'END'
#!/bin/sh
touch asked.$$
exec sleep 1000
END
    echo "PATH=$PWD/python:\$PATH" | tee env.one >env.two
    "$MUSTER" doctor --hosts one,two --via './reach {host}' --patience 60s >said 2>&1 3>&- 4>&- &
    PID=$!
    is_asked() { [ "$(ls asked.* 2>/dev/null | wc -l)" = 2 ]; }
    wait_for is_asked
    kill -KILL "$PID"
    wait_for nobody_is_left
}

@test "a signal ends a look, and what it has started" {
    "$MUSTER" gpus --hosts silent,big --via './reach {host}' >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for test -s pid.big
    kill -INT "$PID"
    map_end
    ended_with 130
    wait_for nobody_is_left
}
