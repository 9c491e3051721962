#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Hosts and links that are not as they should be: the run says so in a sentence, and loses nothing.
load helpers

setup() {
    common_setup
    # ./relay MODE AT COMMAND…: runs the command behind a link. The first time, byte AT on its way to the head is
    # changed, dropped or comes twice; "idle": the link is cut when nothing passes for AT milliseconds.
    pyworker relay <<'END'
import os, selectors, subprocess, sys
mode, at, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
is_bad = mode != "idle" and not os.path.exists("spoilt")
count = 0
def spoil(data):
    global count, is_bad
    i, count = at - count, count + len(data)
    if not is_bad or not 0 <= i < len(data):
        return data
    is_bad = False
    open("spoilt", "w").close()
    middle = {"flip": bytes([data[i] ^ 4]), "drop": b"", "repeat": data[i:i + 1] * 2}[mode]
    return data[:i] + middle + data[i + 1:]
def put(fd, data):
    while data:
        data = data[os.write(fd, data):]
ways = selectors.DefaultSelector()
ways.register(0, selectors.EVENT_READ, (child.stdin.fileno(), lambda data: data))
ways.register(child.stdout, selectors.EVENT_READ, (1, spoil))
is_open = True
while is_open:
    ready = ways.select(at / 1000 if mode == "idle" else None)
    is_open = bool(ready)
    for key, _ in ready:
        to, change = key.data
        data = os.read(key.fd, 65536)
        is_open = is_open and bool(data)
        put(to, change(data))
if not ready:
    print("the link was idle", file=sys.stderr)
child.stdin.close()
sys.exit(child.wait())
END
    pyworker slow <<'END'
import sys, time
for line in sys.stdin:
    time.sleep(0.005)
    sys.stdout.write(line)
    sys.stdout.flush()
END
}

@test "a byte that is changed, dropped or comes twice costs the connection, and nothing of the result" {
    seq 1 300 >in.txt
    local mode
    for mode in flip drop repeat; do
        rm -f spoilt
        map --hosts one=cpu:2 --via "./relay $mode 3000" -o "$mode.txt" in.txt -- ./slow
        ended_with 0
        same in.txt "$mode.txt"
        says "one: lost; what it had not answered runs elsewhere: frame " "bytes were changed, lost or repeated on the way" "one: it is connected again"
        [ -e spoilt ]
        [ ! -e "$mode.txt.failed.jsonl" ]
    done
}

@test "a byte that is wrong in the first frames is said, and the other host goes on; an only host is tried again" {
    seq 1 20 >in.txt
    map --hosts one=cpu:1 --via './relay flip 40' -o only.txt in.txt -- cat
    ended_with 0
    same in.txt only.txt
    has_logged "it is tried again"
    rm spoilt
    map --hosts one=cpu:1,two=cpu:1 --via "sh -c 'if [ \$0 = one ]; then set -- ./relay flip 40 \"\$@\"; fi; exec \"\$@\"' {host}" -o out.txt in.txt -- cat
    ended_with 0
    same in.txt out.txt
    says "one: cannot be had: frame 0 " "bytes were changed, lost or repeated on the way"
}

@test "a proxy that closes idle streams sees pings, as often as --host-timeout asks for them" {
    seq 1 2 >in.txt
    map --hosts one=cpu:1 --via './relay idle 1500' --host-timeout 3s -o out.txt in.txt -- sh -c 'while read -r l; do sleep 4; echo "$l"; done'
    ended_with 0
    same in.txt out.txt
    says_not "lost"
}

@test "a program for another architecture is named by what cannot execute it" {
    seq 1 5 >in.txt
    mkdir far
    # the beginning of a program for s390x
    printf '\177ELF\002\002\001\000\000\000\000\000\000\000\000\000\000\002\000\026\000\000\000\001%0200d' 0 >far/muster
    chmod +x far/muster
    map --hosts one,two=cpu:1 --via "bash -c '\"\$@\"' bash" --agent-path "$PWD/far/muster" -o out.txt in.txt -- cat
    ended_with 69
    says "0 of 2 hosts can be had; one: bash ended with status 126: " "far/muster: cannot execute binary file: Exec format error"
}

@test "an agent of another version is refused with both versions, and the other hosts go on" {
    seq 1 20 >in.txt
    local there="muster [0-9.]* ([0-9a-f]*) there speaks protocol 99, muster [0-9.]* ([0-9a-f]*) here protocol [0-9]*; install the same version on both, or leave --agent-path out"
    map --hosts old,new=cpu:1 --via "sh -c '[ \$0 = new ] || exec $OTHER_AGENT $MUSTER; exec \"\$@\"' {host}" --agent-path "$MUSTER" -o out.txt in.txt -- cat
    ended_with 0
    same in.txt out.txt
    grep -q "old: cannot be had: $there" <<<"$output"
    map --hosts old --via "$OTHER_AGENT $MUSTER" --agent-path "$MUSTER" -o out2.txt in.txt -- cat
    ended_with 69
    grep -q "0 of 1 hosts can be had; old: $there" <<<"$output"
    [ ! -e out2.txt ]
}

@test "a host that prints without end before, or beside, the protocol is given up, in a short sentence" {
    seq 1 5 >in.txt
    map --hosts loud,two=cpu:1 --via "sh -c '[ \$0 = two ] || exec yes muster; exec \"\$@\"' {host}" -o out.txt in.txt -- cat
    ended_with 0
    says "loud: cannot be had: " "are not muster's"
    [ "$(wc -c <<<"$output")" -lt 8000 ]
    map --hosts loud,two=cpu:1 --via "sh -c '[ \$0 = two ] || { head -c 3000000 /dev/zero | tr \"\\\\000\" x >&2; exit 3; }; exec \"\$@\"' {host}" -o out2.txt in.txt -- cat
    ended_with 0
    says "loud: cannot be had: sh ended with status 3: xxx"
    [ "$(wc -c <<<"$output")" -lt 8000 ]
    same in.txt out2.txt
    map --hosts one=cpu:1 --via "sh -c 'seq -f noise-%g 300 >&2; sleep 1; exec \"\$@\"' sh" -o out3.txt in.txt -- cat
    ended_with 0
    says "one: it says more, which is left out"
    says_not "noise"
    has_logged "one: it printed: noise-20"
    ! has_logged "noise-21" || false
    same in.txt out3.txt
}

@test "a host that cannot be had at the start is named in the run's log, which is opened later" {
    seq 1 5 >in.txt
    map --hosts one=cpu:1,two=cpu:1 --via "sh -c 'shift; [ \$0 = one ] || exit 3; exec \"\$@\"' {host} x" -o out.txt in.txt -- cat
    ended_with 0
    says "two: cannot be had: sh ended with status 3"
    has_logged "WARN  host: two: cannot be had: sh ended with status 3"
}

@test "a command that hands no input on, as kubectl exec without -i, is named, with the cure" {
    seq 1 5 >in.txt
    run limited "$MUSTER" map --hosts one=cpu:1 --via "sh -c 'exec \"\$@\" </dev/null' kubectl" -o out.txt in.txt -- cat
    ended_with 69
    says "one: sh ended with status 0; nothing came back from there (docker exec and kubectl exec need -i)"
}

@test "a terminal on the way to a host is named, with the cure" {
    seq 1 5 >in.txt
    pyworker via <<'END'
import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))
END
    local send
    for send in -uMUSTER_SEND_AGENT MUSTER_SEND_AGENT=1; do
        run limited env $send "$MUSTER" map --hosts one=cpu:1 --via ./via -o out.txt in.txt -- cat
        ended_with 69
        says "0 of 1 hosts can be had; one: there is a terminal on the way, which changes bytes; leave -t out of the command that reaches it"
    done
}

@test "a launcher that wants a password, from its input or from the terminal, gets none, and does not hold up the others" {
    seq 1 5 >in.txt
    worker ask <<'END'
#!/bin/sh
host=$1
shift
[ "$host" != good ] || exec "$@"
printf 'password: ' >&2
if [ "$host" = terminal ]; then read -r answer </dev/tty; else read -r answer; fi
exec sleep 1000
END
    run limited script -qec "\"$MUSTER\" map --hosts input,terminal,good=cpu:1 --host-timeout 2s --via './ask {host}' -o out.txt in.txt -- cat" /dev/null </dev/null
    ended_with 0
    same in.txt out.txt
    says "input: cannot be had: nothing was heard for 2.0 s" "terminal: cannot be had: "
}

@test "a time limit that is over while a host is waited for ends the run before it has begun" {
    worker ask <<'END'
#!/bin/sh
[ "$1" = here ] || sleep 5
shift
exec "$@"
END
    seq 1 5 >in.txt
    hosts=(--time-limit 500ms --hosts local=cpu:1,late=cpu:1 --via './ask {host}')
    map "${hosts[@]}" -o out.txt in.txt -- sh -c 'touch ran; exec cat'
    ended_with 124
    says "the limit of 500 ms on the whole run was reached"
    run limited "$MUSTER" graph "${hosts[@]}" -- touch ran ::: 1
    ended_with 124
    says "the limit of 500 ms on the whole run was reached"
    [ ! -e ran ]
}

@test "-g none is no place for a worker on any host" {
    seq 1 5 >in.txt
    map --hosts one -g none --via env -o out.txt in.txt -- cat
    ended_with 2
    says "-g none leaves no place for a worker"
    run limited "$MUSTER" each --hosts one=none,two=cpu:1 --via env -- true
    ended_with 2
    says "-g none leaves no place for a worker"
}

@test "a folder that is not on a host is said, and its workers start elsewhere" {
    needs_mounts
    mkdir here
    cd here
    run --separate-stderr limited "$MUSTER" each --hosts one=cpu:1 --via "unshare -m sh -c 'cd / && mount -t tmpfs none \"$PWD/..\" && exec \"\$@\"' x" -- sh -c 'pwd'
    ended_with 0
    [ "$output" = "one_cpu_0: /" ]
    [[ $stderr == *"the folder $PWD is not there; workers start in /"* ]]
}

@test "--via without --hosts is refused where no host can be added, with the cure; as a variable it stands there for all commands" {
    local verb
    for verb in "gpus" "doctor" "each -g cpu:1 -- true" "launch --no-python true" "submit --dry-run -n1 each --via env -- true"; do
        run "$MUSTER" "${verb%% *}" $([[ $verb == submit* ]] || echo --via env) ${verb#"${verb%% *}"}
        ended_with 2
        says "--via is for --hosts, which is not given: add --hosts, or leave --via out"
    done
    run "$MUSTER" launch --agent-path /usr/bin/muster --no-python true
    ended_with 2
    says "--agent-path is for --hosts"
    MUSTER_VIA=env run "$MUSTER" launch --no-python true
    ended_with 0
    MUSTER_HOSTS=one=cpu:1 run "$MUSTER" each --via env -- echo here
    ended_with 0
    says "here"
    seq 3 >in.txt # hosts may be added to these by an order
    map -g cpu:1 --via env in.txt -o out.txt -- cat
    ended_with 0
    run "$MUSTER" graph -g cpu:1 --via env -- true ::: 1
    ended_with 0
}
