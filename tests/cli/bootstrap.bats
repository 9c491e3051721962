#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The agent on hosts where muster is not installed. The hosts are this machine, on which muster would start its own
# program; with MUSTER_SEND_AGENT it does not, and sends it as to any other machine.
load helpers

setup() {
    common_setup
    export MUSTER_SEND_AGENT=1 HOME=$PWD/home
    seq 1 200 >in.txt
    machine=$(uname -m)
}

# hosts_map HOSTS VIA [OPTION…]: a run that must succeed, through that transport.
hosts_map() {
    local hosts=$1 via=$2
    shift 2
    map --force --hosts "$hosts" --via "$via" "$@" -o out.txt in.txt -- cat
    ended_with 0
    same in.txt out.txt
}

# refused VIA WORDS…: no host can be had, and why.
refused() {
    map --hosts one=cpu:1 --via "$1" -o refused.txt in.txt -- cat
    ended_with 69
    shift
    says "$@"
}

log() { cat muster-runs/latest/orchestrator.log; }
installed() { log | sed -n 's/.*host: \([a-z]*\): installed muster .* in \(.*\)/\1 \2/p'; }
# The programs that are kept in a cache folder, and whatever else is there.
kept() { (cd "$1" && ls -A); }

# in_mounts COMMANDS: a transport that first runs these in a mount namespace of its own.
in_mounts() {
    echo "unshare -m sh -c '$1; exec \"\$@\"' x"
}

# ./carry KIND COMMAND…: hands on what it reads, but for what KIND says.
carrying() {
    pyworker carry <<'END'
import os, subprocess, sys, time
kind = sys.argv[1]
child = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE)
n = 0
while True:
    piece = os.read(0, 65536)
    if not piece or kind == "cut" and n > 400000:
        break
    if kind == "stop" and n > 400000:
        open("stopped", "w").close()
        time.sleep(1000)
    if kind == "damage" and n <= 200000 < n + len(piece):
        piece = piece[:-1] + bytes([piece[-1] ^ 1])
    n += len(piece)
    child.stdin.write(piece)
    child.stdin.flush()
child.stdin.close()
sys.exit(child.wait())
END
}

# tools FOLDER NAME…: a folder for PATH with these programs alone.
tools() {
    local folder=$1 name
    mkdir "$folder"
    shift
    for name; do ln -s "$(type -P "$name")" "$folder/$name"; done
}

@test "a host without muster gets it through the stream, once" {
    hosts_map one=cpu:2 env
    [ "$(installed)" = "one $PWD/cache/muster" ]
    [[ $(log) == *"one: installed muster 0.1.0 ("*" MiB) in"* ]]
    [ "$(kept cache/muster | grep -cE '^[0-9a-f]{32}$')" = 1 ]
    [ "$(kept cache/muster | wc -l)" = 1 ]
    [ "$(stat -c %a cache/muster)" = 700 ]
    [ -z "$(find cache/muster -mindepth 1 ! -perm 700)" ]
    hosts_map two=cpu:2 env
    [ -z "$(installed)" ]
    unset XDG_CACHE_HOME
    hosts_map one=cpu:2 env
    [ "$(installed)" = "one $PWD/home/.cache/muster" ]
    map --dry-run --hosts one=cpu:1 --via "env HOME=$PWD/other" -o out2.txt in.txt -- cat
    ended_with 0
    says "muster: one: installed muster 0.1.0 (" " in $PWD/other/.cache/muster"
}

@test "on this machine the program itself is started, and nothing is sent or kept" {
    unset MUSTER_SEND_AGENT
    hosts_map one=cpu:2 env
    [ -z "$(installed)" ]
    [ ! -e cache ]
    unshare --fork --pid --mount-proc true 2>/dev/null || skip "no namespaces of processes here"
    hosts_map one=cpu:2 "unshare --fork --pid --mount-proc" # as in a container: the path may be another program's
    [ "$(installed)" = "one $PWD/cache/muster" ]
}

@test "the sent program has its own libraries, muster.py, and the worker's folder, umask and environment" {
    needs_mounts
    umask 022
    cat >worker.py <<'END'
import os, sys, muster
print(os.path.dirname(muster.__file__), os.getcwd(), os.environ["PWD"], oct(os.umask(0)), "OLDPWD" in os.environ, [n for n in os.environ if n.startswith("ms_")])
END
    run --separate-stderr limited "$MUSTER" each --hosts one=cpu:1 --via env -- "$PYTHON" worker.py
    ended_with 0
    [ "$output" = "one_cpu_0: $PWD/cache/muster/$(kept cache/muster) $PWD $PWD 0o22 False []" ]
    [ -e cache/muster/*/lib/libuv.so.1 ] || ! ldd "$MUSTER" | grep -q libuv
    needs_mounts
    worker without_libraries <<END
#!/bin/sh
for library in \$(ldd "$MUSTER" | awk '\$3 ~ /^\\// && \$1 !~ /^lib[cm]\\.so/ { print \$3 }'); do
    mount --bind /dev/null "\$(readlink -f "\$library")"
done
exec "\$@"
END
    hosts_map one=cpu:2 "unshare -m ./without_libraries"
    mkdir -p deep/here
    cd deep/here
    run --separate-stderr limited "$MUSTER" each --hosts one=cpu:1 --via "$(in_mounts 'mount -t tmpfs none ../../deep; cd /usr')" -- sh -c pwd
    ended_with 0
    [ "$output" = "one_cpu_0: /usr" ]
}

@test "eight agents that install at once leave one program" {
    hosts_map a=cpu:1,b=cpu:1,c=cpu:1,d=cpu:1,e=cpu:1,f=cpu:1,g=cpu:1,h=cpu:1 env
    [ "$(installed | wc -l)" -ge 1 ]
    [ "$(kept cache/muster | wc -l)" = 1 ]
    hosts_map a=cpu:1,b=cpu:1 env
    [ -z "$(installed)" ]
}

@test "a kept program that lacks a file, or whose file was emptied or cut, is replaced, once" {
    local damage name
    hosts_map one=cpu:2 env
    name=$(kept cache/muster)
    for damage in "rm muster" "rm muster-guard" "truncate -s 0 muster" "truncate -s 0 muster-guard" "truncate -s 70000 muster"; do
        (cd "cache/muster/$name" && $damage)
        hosts_map one=cpu:2 env
        [ "$(installed)" = "one $PWD/cache/muster" ]
        hosts_map one=cpu:2 env
        [ -z "$(installed)" ]
        [ "$(kept cache/muster)" = "$name" ]
    done
}

@test "what a profile prints is skipped, and stands in the log; one that prints without end, or waits for an answer, is given up" {
    hosts_map one=cpu:2 "sh -c 'echo Welcome; echo Banner >&2; printf \"no newline\"; exec \"\$@\"' x"
    log | grep -q "INFO  host: one: it printed: Welcome"
    log | grep -q "INFO  host: one: it printed: no newline"
    log | grep -q "INFO  host: one: it printed: Banner"
    local i
    for i in 1 2 3 4 5 6 7 8; do # there is no script, and the agent speaks at once: its first words may be read before these
        limited "$MUSTER" map -q --fresh -f --hosts one=cpu:1 --via "sh -c 'echo Late >&2; exec \"\$@\"' x" --agent-path "$MUSTER" -o out.txt in.txt -- cat
        log | grep -q "host: one: .*Late"
    done
    refused "sh -c 'yes motd | head -c 3000000; exec \"\$@\"' x" "one: more than 1048576 bytes came that are not muster"
    refused "sh -c 'echo Welcome; exit 3'" "one: sh ended with status 3 (it printed: Welcome)"
    map --host-timeout 1s --hosts one=cpu:1 --via "sh -c 'printf Password:; exec sleep 1000'" -o out2.txt in.txt -- cat
    ended_with 69
    says "one: nothing was heard for 1.0 s"
}

@test "a program that is damaged or cut short on the way is refused, and leaves nothing" {
    carrying
    local way
    tools plain sh printf uname id mkdir chmod head tail cat mv rm cksum
    for way in env "env PATH=$PWD/plain"; do
        refused "./carry damage $way" "one: the program arrived there damaged"
        refused "./carry cut $way" "one: the program arrived there damaged"
        [ -z "$(kept cache/muster)" ]
    done
    # Without any checksum but the program's own.
    rm plain/cksum
    refused "./carry damage env PATH=$PWD/plain" "one: the program"
    [ -z "$(kept cache/muster)" ]
    hosts_map one=cpu:2 "./carry whole env"
}

@test "a head that is stopped while it sends the program leaves nothing" {
    carrying
    map_begin --hosts one=cpu:1 --via './carry stop env' -o out.txt in.txt -- cat
    wait_for test -e stopped
    [ "$(kept cache/muster | grep -c '^new-')" = 1 ]
    kill -TERM "$PID"
    map_end
    ended_with 143
    wait_for nobody_is_left
    [ -z "$(kept cache/muster)" ]
}

@test "a host has neither checksums nor gzip, or all its tools are busybox or toybox" {
    tools bare sh printf uname id mkdir chmod head tail cat mv rm
    hosts_map one=cpu:2 "env XDG_CACHE_HOME=$PWD/bare.cache PATH=$PWD/bare"
    [ "$(installed)" = "one $PWD/bare.cache/muster" ]
    [ "$(kept bare.cache/muster | wc -l)" = 1 ]
    local box name found=
    for box in busybox toybox; do
        command -v $box >/dev/null || continue
        mkdir $box
        for name in sh printf uname id mkdir chmod head tail cat mv rm cksum gzip; do
            ! $box --help $name >/dev/null 2>&1 || ln -s "$(command -v $box)" $box/$name
        done
        [ -e $box/sh ] || ln -s "$(command -v dash)" $box/sh # Debian's toybox has none
        hosts_map one=cpu:2 "env XDG_CACHE_HOME=$PWD/$box.cache PATH=$PWD/$box"
        [ "$(installed)" = "one $PWD/$box.cache/muster" ]
        [ "$(kept $box.cache/muster | wc -l)" = 1 ]
        found="$found $box"
    done
    [ -n "$found" ] || skip "neither busybox nor toybox here"
}

@test "sh may be any of the usual shells" {
    local shell
    for shell in dash bash busybox ksh mksh zsh yash; do
        command -v $shell >/dev/null || { echo "# no $shell here" >&3; continue; }
        tools "$shell.bin" printf uname id mkdir chmod head tail cat mv rm cksum gzip
        ln -s "$(command -v $shell)" "$shell.bin/sh"
        hosts_map one=cpu:2 "env XDG_CACHE_HOME=$PWD/$shell.cache PATH=$PWD/$shell.bin"
        [ "$(installed)" = "one $PWD/$shell.cache/muster" ]
        hosts_map one=cpu:2 "env XDG_CACHE_HOME=$PWD/$shell.cache PATH=$PWD/$shell.bin"
        [ -z "$(installed)" ]
    done
}

@test "the login shell may be any, as sshd runs it" {
    local shell
    mkdir bin
    # The words behind the host become one, for the user's shell.
    printf '#!/bin/sh\nshift\nexec $LOGIN -c "$*"\n' >bin/ssh
    chmod +x bin/ssh
    for shell in dash bash "busybox sh" tcsh fish zsh ksh mksh; do
        command -v ${shell% *} >/dev/null || { echo "# no ${shell% *} here" >&3; continue; }
        hosts_map one=cpu:2 "env LOGIN='$shell' XDG_CACHE_HOME=$PWD/${shell% *}.cache $PWD/bin/ssh {host}"
        [ "$(installed)" = "one $PWD/${shell% *}.cache/muster" ]
        LOGIN=$shell XDG_CACHE_HOME=$PWD/${shell% *}.cache hosts_map one=cpu:2 "$PWD/bin/ssh {host}"
        [ -z "$(installed)" ]
    done
}

@test "a home that is read-only, noexec, full or another's: the next folder is taken" {
    needs_mounts
    local way options
    for options in ro noexec size=64k size=1m; do
        hosts_map one=cpu:2 "$(in_mounts "mkdir -p cache; mount -t tmpfs none /var/tmp; mount -t tmpfs -o $options none cache; export HOME=")"
        [ "$(installed)" = "one /var/tmp/muster-$(id -u)" ]
    done
    if [ "$(id -u)" -eq 0 ]; then
        mkdir -p cache/muster
        chown 12345 cache/muster
        hosts_map one=cpu:2 "$(in_mounts "mount -t tmpfs none /var/tmp; export HOME=")"
        [ "$(installed)" = "one /var/tmp/muster-0" ]
        [ -z "$(kept cache/muster)" ]
    fi
    rm -rf cache
    XDG_CACHE_HOME=relative hosts_map one=cpu:2 env
    [ "$(installed)" = "one $PWD/home/.cache/muster" ]
}

@test "a link in a folder that all may write to is not followed" {
    needs_mounts
    refused "$(in_mounts "mount -t tmpfs none /var/tmp; mount -t tmpfs none /mnt; mkdir /mnt/mine; ln -s /mnt/mine /var/tmp/muster-$(id -u); for place in /srv /tmp /dev/shm; do mount -t tmpfs -o ro none \$place; done; export HOME= XDG_CACHE_HOME=/srv")" \
        "/var/tmp/muster-$(id -u) (it belongs to somebody else), /tmp/muster"
}

@test "no folder can keep the program: a sentence with all that were tried" {
    needs_mounts
    refused "$(in_mounts "mkdir -p cache; mount -t tmpfs -o ro none /var/tmp; mount -t tmpfs -o noexec none /dev/shm; mount -t tmpfs -o size=64k none cache; mount --bind cache /srv; mount -t tmpfs -o ro none /tmp; export HOME= XDG_CACHE_HOME=/srv")" \
        "one: no folder there can keep the program: /srv/muster (there is no room), /var/tmp/muster-$(id -u) (no folder can be made), /tmp/muster-$(id -u) (no folder can be made), /dev/shm/muster-$(id -u) (programs must not be executed)" \
        "--agent-path"
}

@test "another kind of machine gets its own bundle, and without one a sentence says so" {
    mkdir -p prog fake
    cp "$MUSTER" "$(dirname "$MUSTER")/muster-guard" prog/
    printf '#!/bin/sh\necho riscv64\n' >fake/uname
    chmod +x fake/uname
    MUSTER=$PWD/prog/muster
    refused "env PATH=$PWD/fake:$PATH" "one: it is a machine of the kind riscv64, and there is no muster for it here" "agents/riscv64 beside muster"
    mkdir -p prog/agents/riscv64 prog/agents/"$machine"
    cp prog/muster prog/muster-guard prog/agents/riscv64
    cp prog/muster prog/muster-guard prog/agents/"$machine"
    echo "# mine" >prog/agents/"$machine"/muster.py
    hosts_map one=cpu:2 "env PATH=$PWD/fake:$PATH"
    hosts_map two=cpu:2 env
    [ "$(cd cache/muster && echo */* | tr ' ' '\n' | cut -d/ -f2 | sort | tr '\n' ' ')" = "muster muster muster-guard muster-guard muster.py " ]
    # One that does not start there.
    printf '#!/bin/sh\necho "wrong C library" >&2\nexit 1\n' >prog/agents/riscv64/muster
    refused "env PATH=$PWD/fake:$PATH" "one: the program that was sent does not start there: wrong C library (a portable build"
    [ "$(kept cache/muster | wc -l)" = 2 ]
    # One that is kept, and does not start any more.
    for n in cache/muster/*; do printf '#!/bin/sh\necho "wrong C library" >&2\nexit 1\n' >$n/muster; done
    hosts_map two=cpu:2 env
    [ "$(installed)" = "two $PWD/cache/muster" ]
    refused "env PATH=$PWD/fake:$PATH" "one: the program that was sent does not start there: wrong C library (a portable build"
}

@test "programs that are not used any more are removed, but for the newest" {
    local n old
    mkdir -p cache/muster/new-1 cache/muster/old-1 cache/muster/new-2
    touch -d '2 days ago' cache/muster/new-1 cache/muster/old-1
    for n in 1 2 3 4 5 6; do
        old=cache/muster/$(printf %032d $n)
        mkdir "$old"
        touch "$old/muster"
        touch -d "$n days ago 1 hour ago" "$old"
    done
    touch cache/muster/$(printf %032d 6) # in use
    echo precious >cache/muster/notes
    hosts_map one=cpu:2 env
    [ "$(kept cache/muster | grep -vE '[1-9a-f]{3}')" = "$(printf '%032d\n' 1 2 6; echo new-2; echo notes)" ]
    [ "$(kept cache/muster | wc -l)" = 6 ]
}

@test "an agent of another build is told in the log" {
    LC_ALL=C sed 's/serves a muster on another machine/SERVES a muster on another machine/' "$MUSTER" >other
    cmp -s other "$MUSTER" && false
    chmod +x other
    ln -s "$(dirname "$MUSTER")/muster-guard" muster-guard
    hosts_map one=cpu:2 env --agent-path "$PWD/other"
    [[ $(log) == *"one: another build is there: muster 0.1.0 ("*"), here 0.1.0 ("* ]]
    [ -z "$(installed)" ]
    hosts_map one=cpu:2 env --agent-path "$MUSTER"
    [[ $(log) != *"another build"* ]]
}
