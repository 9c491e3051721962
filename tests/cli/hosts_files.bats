#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Shards on hosts that do not share the run's folder: their files go and come through the connection. Such a host is an
# agent in a mount namespace, where another folder lies over the test's own, with a TMPDIR of its own (./island).
load helpers

setup() {
    common_setup
    needs_mounts
    BOX=$BATS_TEST_TMPDIR
    export BOX
    mkdir head
    cat >island <<'END'
#!/bin/sh
host=$1
shift
mkdir -p "$BOX/over.$host" "$BOX/tmp.$host"
cp -a "$BOX"/tools/. "$BOX/over.$host"
export TMPDIR="$BOX/tmp.$host"
exec unshare -m sh -c 'mount --bind "$BOX/over.$0" "$BOX/head" && cd "$BOX/head" && echo $$ >>"$BOX/pids.$0" &&
    eval "${EXTRA:-:}" && exec $RELAY "$@"' "$host" "$@"
END
    chmod +x island
    mkdir tools
    cd head || return 1
}

# What the hosts have as well.
tool() { cp -a "$@" "$BOX/tools"; }
agent_of() { tail -1 "$BOX/pids.$1"; }
nothing_is_left() { [ -z "$(find "$BOX"/tmp.* -mindepth 1 2>/dev/null)" ]; }
runs_of() { cat "$BOX"/over.*/"$1" "$1" 2>/dev/null | wc -l; }
# The largest file that is on its way to the head has at least so many bytes.
has_come() { [ -n "$(find muster-runs/latest/shard-output -name '*.part' -size +"$1"c 2>/dev/null)" ]; }

@test "{input} goes to hosts that do not share the folder, {output} comes back, and the bytes are those of a local run" {
    seq 1 5000 >in.txt
    map -q -g cpu:2 --shards 7 -o local.txt in.txt -- sh -c 'sed "s/^/x/" "$0" >"$1"' {input} {output}
    ended_with 0
    map --hosts one=cpu:2,two=cpu:1 --via "$BOX/island {host}" --shards 7 -o out.txt in.txt -- sh -c 'sed "s/^/x/" "$0" >"$1"' {input} {output}
    ended_with 0
    same local.txt out.txt
    [ "$(grep -c "does not share the run's folder" "$(run_dir)/orchestrator.log")" = 2 ]
    [ ! -e "$(run_dir)/shard-output" ]
    nothing_is_left
}

@test "hosts that share the folder and hosts that do not, in one run" {
    seq 1 600 >in.txt
    printf '#!/bin/sh\n[ "$1" != far ] || exec "$BOX/island" "$@"\nshift\nexec "$@"\n' >via
    chmod +x via
    map --hosts local=cpu:1,near=cpu:1,far=cpu:1 --via './via {host}' --shards 9 -o out.txt in.txt -- sh -c 'sleep 0.05; cp "$0" "$1"' {input} {output}
    ended_with 0
    same in.txt out.txt
    grep -q "near: it shares the run's folder" "$(run_dir)/orchestrator.log"
    grep -q "far: it does not share" "$(run_dir)/orchestrator.log"
    nothing_is_left
}

# A program like LatentMAS's worker: it names its files itself, below the folder of work.
collector() {
    pyworker collector <<'END'
import json, os, sys
start, count, suffix, stamp = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
os.makedirs("prm_data", exist_ok=True)
with open(f"prm_data/task_{stamp}_{suffix}.jsonl", "w") as out:
    for question in range(start, start + count):
        print(json.dumps({"question": question}), file=out)
with open(f"prm_data/task_{stamp}_{suffix}_meta.jsonl", "w") as out:
    print(json.dumps({"start": start, "count": count}), file=out)
END
    tool collector
}

@test "--collect and --also find the files where the program left them, and fetch them" {
    collector
    local where
    for where in "-g cpu:3" "--hosts one=cpu:2,two=cpu:1 --via $BOX/island\ {host}"; do
        rm -rf out.jsonl meta.jsonl folder parts prm_data
        eval "map $where --items 43 --shards 6 -o out.jsonl --collect 'prm_data/*_{run}_{suffix}.jsonl' \
            --also 'prm_data/*_{run}_{suffix}_meta.jsonl=meta.jsonl' -- ./collector {start} {count} {suffix} {run}"
        ended_with 0
        eval "map $where --items 43 --shards 6 -o folder/ --collect 'prm_data/*_x_{suffix}.jsonl' \
            --also 'prm_data/*_x_{suffix}_meta.jsonl=parts/' -- ./collector {start} {count} {suffix} x"
        ended_with 0
        [ -e first ] || { mkdir first; cp -r out.jsonl meta.jsonl folder parts first; }
    done
    [ ! -e prm_data ]
    same out.jsonl first/out.jsonl
    same meta.jsonl first/meta.jsonl
    diff -r folder first/folder
    diff -r parts first/parts
    nothing_is_left
}

@test "after a wrong --collect, a resume with the right one fetches the files that the hosts have" {
    collector
    map --hosts one=cpu:1,two=cpu:1 --via "$BOX/island {host}" --items 12 --shards 4 -o out.jsonl --collect 'prm_data/nothing_{suffix}' \
        --also 'prm_data/*_{run}_{suffix}_meta.jsonl=meta.jsonl' -- ./collector {start} {count} {suffix} {run}
    ended_with 1
    says "it left no file that matches --collect" "muster resume"
    run limited "$MUSTER" resume latest --collect 'prm_data/*_{run}_{suffix}.jsonl'
    ended_with 0
    [ "$(jq -s -c 'map(.question)' out.jsonl)" = "[0,1,2,3,4,5,6,7,8,9,10,11]" ]
    [ "$(wc -l <meta.jsonl)" = 4 ]
    grep -q 'of 4 shards are taken as they are' "$(run_dir)/orchestrator.log"
    [ "$(grep -c 'starts at shard 0' "$(run_dir)/orchestrator.log")" = 1 ]
    nothing_is_left
}

@test "a file from before, two files, none, and one with too few records are refused as on this machine" {
    worker leaver <<'END'
#!/bin/sh
mkdir -p res
case $1 in
two) echo 1 >res/a_$2; echo 1 >res/b_$2 ;;
short) echo 1 >res/a_$2 ;;
old) [ -e res/a_$2 ] || { echo 1 >res/a_$2; echo 1 >>res/a_$2; exit 3; } ;;
esac
END
    tool leaver
    local what words
    while IFS='|' read -r what words; do
        map --fresh -f --hosts one=cpu:1 --via "$BOX/island {host}" -r 1 --items 2 --shards 1 -o out.txt --collect "res/?_$what" -- ./leaver $what $what {start}
        ended_with 1
        says "$words"
    done <<'END'
two|2 new files match --collect, here 'res/?_two', where one is expected: res/a_two, res/b_two
short|holds 1 record, expected 2
none|it left no file that matches --collect, here 'res/?_none'
old|it wrote nothing that --collect names: res/a_old was there before it began
END
    nothing_is_left
}

@test "a link, a pipe and a folder in the place of the file are refused" {
    worker leaver <<'END'
#!/bin/sh
case $1 in
link) ln -s /etc/passwd "$2" ;;
pipe) mkfifo "$2" ;;
folder) mkdir "$2" ;;
esac
END
    tool leaver
    local what words
    while IFS='|' read -r what words; do
        map --fresh -f --hosts one=cpu:1 --via "$BOX/island {host}" -r 0 --items 2 --shards 1 -o out.txt -- ./leaver $what {output} {start}
        ended_with 1
        says "$words"
        [ ! -e out.txt ]
    done <<'END'
link|is a link, and links are not followed between hosts
pipe|is no regular file
folder|is no regular file
END
    nothing_is_left
}

@test "names with spaces, newlines and signs of patterns" {
    mkdir "a b"
    pyworker leaver <<'END'
import os, sys
os.makedirs("re s", exist_ok=True)
open(f"re s/[x]\n{sys.argv[1]} *.txt", "w").write(f"{sys.argv[1]}\n")
END
    tool leaver
    map --hosts one=cpu:2 --via "$BOX/island {host}" --run-dir "a b/r[u]n
1" --items 3 --shards 3 -o 'a b/out/' --collect 're s/\[x]*{shard} \*.txt' -- ./leaver {shard}
    ended_with 0
    [ "$(cat "a b/out/[x]"*"1 "*)" = 1 ]
    [ "$(find "a b/out" -type f | wc -l)" = 6 ] # three names of two lines
    map --hosts one=cpu:2 --via "$BOX/island {host}" --run-dir "a b/run 2" --items 3 --shards 3 -o out.txt -- sh -c 'echo "$0" >"$1"' {shard} {output}
    ended_with 0
    [ "$(cat out.txt)" = "0
1
2" ]
    nothing_is_left
}

@test "an agent that is killed while a large file comes: only the rest is sent again, and no program runs twice" {
    worker maker <<'END'
#!/bin/sh
echo run >>made
head -c 110000000 /dev/urandom | base64 -w 99 >kept
cp kept "$1"
END
    tool maker
    map_begin --hosts one=cpu:1 --via "$BOX/island {host}" --host-timeout 5s --any-count --items 1 --shards 1 -o out.txt -- ./maker {output} {start}
    wait_for has_come 20000000
    kill -KILL "$(agent_of one)"
    map_end
    ended_with 0
    says "one: lost" "one: it is connected again"
    [ "$(runs_of made)" = 1 ]
    same "$BOX/over.one/kept" out.txt
    wait_for nothing_is_left
}

@test "a shard of a lost host runs again only when its program must have ended there" {
    local server
    seq 1 20 >in.txt
    linked_via
    # The first of its shard is slow, and would write into the file of the second.
    worker work <<'END'
#!/bin/sh
[ "$1" != two_cpu_0 ] || [ -e slow ] || exec >"left_$1.txt" sh -c 'echo $$ >slow; trap "touch asked" TERM; while :; do echo a line of the first; sleep 0.1; done'
[ "$1" != two_cpu_0 ] || ! kill -0 "$(cat slow)" 2>/dev/null || touch both
seq "$2" >"left_$1.txt"
END
    map_begin --shards 2 --grace 1s --host-timeout 2s --hosts one=cpu:1,two=cpu:1 --via './via {host}' --collect 'left_{suffix}.txt' -o out.txt in.txt -- ./work {suffix} {count}
    wait_for test -s slow
    kill -STOP "$(pgrep -P "$server")" # nothing arrives there any more
    kill -KILL "$(cat way)"
    map_end
    ended_with 0
    says "two_cpu_0 may still work on its lost host: what it had runs again in 4.0 s" "two: it is connected again"
    [ ! -e both ]
    [ -e asked ]
    [ "$(wc -l <out.txt)" = 20 ]
    [ -z "$(grep first out.txt)" ]
    kill -KILL "$server" $(pgrep -P "$server")
}

@test "a file that has changed when the host is back is not taken: the shard runs again" {
    worker maker <<'END'
#!/bin/sh
echo run >>made
mkdir -p res
head -c 100000000 /dev/zero | tr '\0' 'x' >res/file.txt.new
echo >>res/file.txt.new
mv res/file.txt.new res/file.txt
END
    tool maker
    map_begin --hosts one=cpu:1 --via "$BOX/island {host}" --host-timeout 5s --items 1 --shards 1 -o out.txt --collect res/file.txt -- ./maker {start}
    wait_for has_come 20000000
    kill -KILL "$(agent_of one)"
    echo more >>"$BOX/over.one/res/file.txt"
    map_end
    ended_with 0
    says "is run again" "has changed since its program ended"
    [ "$(runs_of made)" = 2 ]
    [ "$(wc -c <out.txt)" = 100000001 ]
}

@test "a file that changes whenever it is fetched: the run ends, with the program's failures" {
    worker maker <<'END'
#!/bin/sh
echo run >>made
mkdir -p res
echo one >res/file.txt
END
    tool maker
    while sleep 0.002; do { [ ! -e "$BOX/over.one/res/file.txt" ] || echo >>"$BOX/over.one/res/file.txt"; } 2>/dev/null; done 3>&- &
    local writer=$!
    # The head asks for the file 200 ms after the program's end, at the earliest: the writer has its turn before.
    RELAY="$LINK_RELAY --delay-ms 100" map --hosts one=cpu:1 --via "$BOX/island {host}" -r 0 --items 1 --shards 1 -o out.txt --collect res/file.txt -- ./maker {start}
    kill "$writer"
    wait "$writer" || true
    ended_with 1
    says "is run again" "has changed since its program ended" "failed"
    [ "$(runs_of made)" = 3 ] # one that is not counted, and two failures
}

@test "a head that is killed while a large file comes: resume completes the run, and nothing is left" {
    worker maker <<'END'
#!/bin/sh
echo run >>made
head -c 100000000 /dev/zero | tr '\0' "$2" >"$1"
echo >>"$1"
END
    tool maker
    map_begin --hosts one=cpu:1 --via "$BOX/island {host}" --host-timeout 2s --items 2 --shards 2 -o out.txt -- ./maker {output} {shard}
    wait_for has_come 20000000
    kill -KILL "$PID"
    wait_for nobody_is_left
    run limited "$MUSTER" resume latest
    ended_with 0
    [ "$(wc -c <out.txt)" = 200000002 ]
    [ "$(cut -c1 out.txt | tr '\n' ' ')" = "0 1 " ]
    wait_for nothing_is_left
}

@test "a signal while a file waits for its host to come back ends the run, which can be resumed" {
    worker maker <<'END'
#!/bin/sh
head -c 60000000 /dev/zero | tr '\0' x >"$1"
echo >>"$1"
END
    tool maker
    printf '#!/bin/sh\n[ ! -e "$BOX/down" ] || exit 1\nexec "$BOX/island" "$@"\n' >via
    chmod +x via
    map_begin --hosts one=cpu:1 --via './via {host}' --host-timeout 2s --items 1 --shards 1 -o out.txt -- ./maker {output} {start}
    wait_for has_come 10000000
    touch "$BOX/down"
    kill -KILL "$(agent_of one)"
    wait_for holds muster-runs/latest/orchestrator.log "one: lost"
    kill -INT "$PID"
    map_end
    ended_with 130
    rm "$BOX/down"
    run limited "$MUSTER" resume latest
    ended_with 0
    [ "$(wc -c <out.txt)" = 60000001 ]
    wait_for nothing_is_left
}

@test "bytes that are changed on the way end the connection, not the run" {
    pyworker flip <<'END'
import os, subprocess, sys
box = os.environ["BOX"]
first = not os.path.exists(f"{box}/flipped")
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)
passed = 0
while True:
    data = os.read(child.stdout.fileno(), 65536)
    if not data:
        break
    if first and passed + len(data) > 5000000:
        data = bytearray(data)
        data[len(data) // 2] ^= 64
        first = False
        open(f"{box}/flipped", "w").close()
    passed += len(data)
    while data:
        data = data[os.write(1, data):]
END
    worker maker <<'END'
#!/bin/sh
echo run >>made
head -c 20000000 /dev/urandom | base64 -w 99 >"$1"
cp "$1" kept
END
    tool maker flip
    RELAY=./flip map --hosts one=cpu:1 --via "$BOX/island {host}" --host-timeout 5s --any-count --items 1 --shards 1 -o out.txt -- ./maker {output} {start}
    ended_with 0
    says "bytes were changed, lost or repeated on the way"
    [ "$(runs_of made)" = 1 ]
    same "$BOX/over.one/kept" out.txt
}

@test "a large file is not held in memory, at either end" {
    worker maker <<'END'
#!/bin/sh
head -c 300000000 /dev/zero | tr '\0' 'x' >"$1"
echo >>"$1"
END
    tool maker
    map_begin --hosts one=cpu:1 --via "$BOX/island {host}" --items 1 --shards 1 -o out/ -- ./maker {output} {start}
    wait_for has_come 100000000
    local head agent
    head=$(sed -n 's/^VmHWM:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$PID/status")
    agent=$(sed -n 's/^VmHWM:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$(agent_of one)/status")
    map_end
    ended_with 0
    [ "$(cat out/* | wc -c)" = 300000001 ]
    echo "head $head KiB, agent $agent KiB"
    [ "$head" -lt 65536 ]
    [ "$agent" -lt 65536 ]
}

@test "a host whose folder is full is named with it, and another host does the shard; nobody is charged" {
    seq 1 400000 >in.txt
    cat >via <<'END'
#!/bin/sh
[ "$1" = small ] || exec "$BOX/island" "$@"
export EXTRA='mount -t tmpfs -o size=1m none "$TMPDIR"'
exec "$BOX/island" "$@"
END
    chmod +x via
    map --hosts small=cpu:1,large=cpu:1 --via './via {host}' -r 0 --shards 2 -o out.txt in.txt -- cp {input} {output}
    ended_with 0
    same in.txt out.txt
    says "small: $BOX/tmp.small/muster-agent"
    # The input fits, and the output does not.
    map --fresh -f --hosts small=cpu:1,large=cpu:1 --via './via {host}' -r 0 --items 2 --shards 2 -o out2.txt -- \
        sh -c 'head -c 2000000 /dev/zero | tr "\0" x >"$0" && echo >>"$0"' {output} {start}
    ended_with 0
    says "is full"
    [ "$(wc -c <out2.txt)" = 4000002 ]
}

@test "a program that does not notice that a disk is full: what it left is not taken, there and here" {
    cat >via <<'END'
#!/bin/sh
[ "$1" = small ] || exec "$BOX/island" "$@"
export EXTRA='mount -t tmpfs -o size=1m none "$TMPDIR"'
exec "$BOX/island" "$@"
END
    chmod +x via
    # Nothing counts what is in these files.
    local ignores='head -c 2000000 /dev/zero 2>&- >"$0"; exit 0'
    map --hosts small=cpu:1,large=cpu:1 --via './via {host}' -r 0 --items 2 --shards 2 -o out/ -- sh -c "$ignores" {output} {start}
    ended_with 0
    says "small: $BOX/tmp.small/muster-agent" "no space is left on this disk"
    [ "$(cat out/* | wc -c)" = 4000000 ]
    mkdir disk
    mount -t tmpfs -o size=1m tmpfs disk
    map -g cpu:1 -r 0 --items 1 --shards 1 --collect 'disk/made-{shard}' -o here/ -- sh -c "$ignores" disk/made-{shard}
    umount disk
    ended_with 75
    says "its disk is full" "may have been cut short"
    [ ! -e here ]
}

@test "what a killed agent and its keeper have left is removed by the next agent" {
    seq 1 10 >in.txt
    mkdir -p "$BOX/tmp.one/muster-agent-$(id -u)-0123456789abcdef/shard-output"
    printf '1\nelsewhere 1\n/run' >"$BOX/tmp.one/muster-agent-$(id -u)-0123456789abcdef/.lock"
    touch -d '10 seconds ago' "$BOX/tmp.one/muster-agent-$(id -u)-0123456789abcdef/.lock"
    mkdir -p "$BOX/tmp.one/muster-agent-$(id -u)-1123456789abcdef"
    printf '60000\nelsewhere 1\n/run' >"$BOX/tmp.one/muster-agent-$(id -u)-1123456789abcdef/.lock"
    map --hosts one=cpu:1 --via "$BOX/island {host}" -o out.txt in.txt -- cat
    ended_with 0
    [ "$(ls "$BOX/tmp.one")" = "muster-agent-$(id -u)-1123456789abcdef" ]
}

@test "--dry-run says which hosts share the folder and what is sent to them, and leaves nothing" {
    export TOKEN=secret
    unset PYTHONUNBUFFERED
    printf '#!/bin/sh\n[ "$1" != far ] || exec "$BOX/island" "$@"\nshift\nexec "$@"\n' >via
    chmod +x via
    seq 1 10 >in.txt
    map --dry-run --hosts near=cpu:1,far=cpu:1 --via './via {host}' --env A=1 --env TOKEN -o out.txt in.txt -- cp {input} {output}
    ended_with 0
    says "near: it shares the run's folder" "far: it does not share the run's folder" "sent to other hosts: MUSTER_* of the run, TOKEN, PYTHONUNBUFFERED, A"
    says_not secret
    [ "$(ls)" = "in.txt
via" ]
    nothing_is_left
}

@test "the umask of the head, PWD, --env and --setup, of map, each and resume, here and on hosts" {
    export GIVEN="a value" HIDDEN=1
    umask 0027
    echo 'export SOURCED="from $PWD"; say() { echo "said $*"; }; export -f say' >env.sh
    tool env.sh
    local show='echo "$PWD $(umask) ${GIVEN-} ${HIDDEN-} ${SET-} ${SOURCED-}"; say it' where
    for where in "-g cpu:1" "--hosts one=cpu:1 --via 'env -u GIVEN -u HIDDEN PWD=/wrong $BOX/island {host}'"; do
        eval "run --separate-stderr limited $MUSTER each $where --env GIVEN --env 'SET=x y' --setup 'source ./env.sh # the site' -- bash -c '$show'"
        ended_with 0
        [[ $where = -g* ]] && HIDDEN_HERE=1 || HIDDEN_HERE=
        [ "$(sed 's/^[^:]*: //' <<<"$output")" = "$PWD 0027 a value $HIDDEN_HERE x y from $PWD
said it" ]
        eval "map -q --fresh -f $where --env GIVEN --env 'SET=x y' --setup 'source ./env.sh' --items 2 --shards 1 -o out.txt -- bash -c '{ $show; } >\"\$0\"' {output} {start}"
        ended_with 0
        same out.txt - <<<"$PWD 0027 a value $HIDDEN_HERE x y from $PWD
said it"
    done
    map --hosts one=cpu:1 --via "$BOX/island {host}" --setup 'test -e "$BOX/well" || exit 9' -r 0 --items 1 --shards 1 -o done.txt -- sh -c 'echo done >"$0"' {output} {start}
    ended_with 1
    says "status 9"
    touch "$BOX/well"
    run limited "$MUSTER" resume latest --retry-failed
    ended_with 0
    [ "$(cat done.txt)" = "done" ]
    run limited "$MUSTER" each -g cpu:1 --env NOWHERE -- true
    ended_with 2
    says "--env: NOWHERE has no value here"
}
