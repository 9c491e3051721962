#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Distributed ranks: what torchrun gives a script, and what happens when a rank fails.
load helpers

setup() {
    common_setup
    export MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=4 MUSTER_SYSFS=/nowhere TMPDIR=$PWD/tmp
    unset PYTHON_EXEC ${!PET_@}
    mkdir tmp
}

launch() { run --separate-stderr limited "$MUSTER" launch "$@"; }
# For Python scripts in this folder: record(message) leaves an error as torch's @record does.
record_module() {
    cat >error_record.py <<'END'
import json, os, time
def record(message):
    error = {"message": {"message": message, "extraInfo": {"timestamp": str(int(time.time()))}}}
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as out:
        json.dump(error, out)
END
}

# What a rank sees, on a line.
shows() {
    cat >shows.py <<'END'
import os, sys
names = sys.argv[1].split(",")
print(os.environ["RANK"], *(os.environ.get(name, "-") for name in names), *sys.argv[2:])
END
}

@test "every rank has the environment that torchrun gives it" {
    shows
    launch --standalone --nproc_per_node=2 --max-restarts 3 --role trainer --rdzv-id job7 shows.py LOCAL_RANK,WORLD_SIZE,LOCAL_WORLD_SIZE,GROUP_RANK,GROUP_WORLD_SIZE,ROLE_NAME,ROLE_RANK,ROLE_WORLD_SIZE,MASTER_ADDR
    ended_with 0
    [ "$(sort <<<"$output")" = $'0 0 2 2 0 1 trainer 0 2 localhost\n1 1 2 2 0 1 trainer 1 2 localhost' ]
    launch --nproc 2 --max_restarts 3 --rdzv-id job7 shows.py TORCHELASTIC_RESTART_COUNT,TORCHELASTIC_MAX_RESTARTS,TORCHELASTIC_RUN_ID,TORCHELASTIC_USE_AGENT_STORE,TORCH_NCCL_ASYNC_ERROR_HANDLING,OMP_NUM_THREADS
    ended_with 0
    [ "$(sort <<<"$output")" = $'0 0 3 job7 False 1 1\n1 0 3 job7 False 1 1' ]
    OMP_NUM_THREADS=5 TORCH_NCCL_ASYNC_ERROR_HANDLING=3 launch --nproc 1 shows.py TORCH_NCCL_ASYNC_ERROR_HANDLING,OMP_NUM_THREADS
    [ "$output" = "0 3 5" ]
    launch shows.py OMP_NUM_THREADS,WORLD_SIZE
    [ "$output" = "0 - 1" ]
    [ "$(ls -A tmp)" = "" ]
}

@test "options are written as torchrun's: underscores, beginnings of names, PET_ variables; what is behind the script is its own" {
    shows
    launch --nproc_per 2 --max_re=1 shows.py TORCHELASTIC_MAX_RESTARTS --nproc-per-node 9 -m --help
    ended_with 0
    [ "$(sort <<<"$output")" = $'0 1 --nproc-per-node 9 -m --help\n1 1 --nproc-per-node 9 -m --help' ]
    PET_NPROC_PER_NODE=2 PET_MAX_RESTARTS=4 launch --max-restarts 5 shows.py TORCHELASTIC_MAX_RESTARTS
    [ "$(sort <<<"$output")" = $'0 5\n1 5' ]
    PET_STANDALONE=1 PET_NPROC_PER_NODE=3 MUSTER_NPROC_PER_NODE=1 launch shows.py WORLD_SIZE
    [ "$output" = "0 1" ]
    launch shows.py WORLD_SIZE -- a -- b
    [ "$output" = "0 1 -- a -- b" ]
    launch --no-python echo -- a -- b
    [ "$output" = "a -- b" ]
    launch --no-python -- echo -- a
    [ "$output" = "-- a" ]
    launch --no-python echo --
    [ "$output" = "" ]
    launch -r=1 -t=1 --log-dir equals --no-python echo said
    [ "$output" = "[default0]:said" ]
    launch --rdzv 1 shows.py
    ended_with 2
    [[ $stderr == *"option '--rdzv' may be --rdzv-endpoint or --rdzv-backend"* ]]
    launch --nprocs 1 shows.py
    ended_with 2
    [[ $stderr == *"unknown option '--nprocs'"* ]]
    launch --nproc 2 --help
    ended_with 0
    [[ $output == "usage: muster launch "* ]]
    launch --nproc 2
    ended_with 2
    [[ $stderr == *"no script"* ]]
}

@test "--help is shortened too, and whole numbers are written as for Python's int()" {
    local words port
    shows
    for words in --hel --help -h; do
        launch "$words"
        ended_with 0
        [[ $output == *"muster launch"*"--nproc-per-node"* ]]
    done
    launch --he shows.py
    ended_with 2
    [[ $stderr == "muster: launch: option '--he' may be --healthy-after or --help"* ]]
    launch --h shows.py
    ended_with 2
    [[ $stderr == "muster: launch: option '--h' may be --"* ]]
    launch --no-python echo --he
    [ "$output" = "--he" ]
    launch --max-restarts=--hel shows.py
    ended_with 2
    port=$(free_port)
    PET_NNODES=' +1' launch --nproc=$'\t+2 ' --max-restarts ' 1_0' --node_rank +0 --master-port "${port:0:1}_${port:1} " shows.py TORCHELASTIC_MAX_RESTARTS,MASTER_PORT
    ended_with 0
    [ "$(sort <<<"$output")" = "0 10 $port"$'\n'"1 10 $port" ]
    PET_MAX_RESTARTS=1_000 TORCH_ELASTIC_SHUTDOWN_TIMEOUT=+1 launch shows.py TORCHELASTIC_MAX_RESTARTS
    [ "$output" = "0 1000" ]
    for words in 1__0 _1 1_ +_1 + '1 0' -1 '' ' ' 0x1 1.0; do
        launch --max-restarts "$words" shows.py
        ended_with 2
        [[ $stderr == *"--max-restarts: expected a whole number, found"* ]]
        launch --nproc "$words" shows.py
        ended_with 2
    done
}

@test "scripts, modules, programs, runpy, and another interpreter" {
    mkdir package
    touch package/__init__.py
    echo 'import sys; print(__name__, __package__, sys.argv[1:])' >package/train.py
    launch -m package.train --a
    [ "$output" = "__main__ package ['--a']" ]
    launch --run-path package/train.py --a
    [ "$output" = "__main__  ['--a']" ]
    launch --no-python sh -c 'echo "$RANK $1"' sh 'x${local_rank}$local_rank$local_ranks'
    [ "$output" = "0 x00\$local_ranks" ]
    launch --no-python sh -c 'echo "$@"' sh '$$x' '$$local_rank' '$$$local_rank' '$ x$$'
    [ "$output" = '$x $local_rank $0 $ x$' ]
    worker other <<'END'
#!/bin/sh
echo "other $*"
END
    PYTHON_EXEC=$PWD/other launch train.py --a
    [ "$output" = "other -u train.py --a" ]
    launch --no-python ./nosuch
    ended_with 69
    launch -m --no-python x
    ended_with 2
    run --separate-stderr limited env PATH="$PWD" "$MUSTER" launch train.py
    ended_with 69
    [[ $stderr == *"there is no python3 in PATH"* ]]
}

@test "a script that is not there, or is a folder, is refused before anything is started" {
    launch --nproc 4 --max-restarts 3 nosuch.py
    ended_with 2
    [ "$stderr" = "muster: launch: the script nosuch.py: No such file or directory" ]
    mkdir folder
    launch --nproc 4 folder
    ended_with 2
    [ "$stderr" = "muster: launch: the script folder is a folder without a __main__.py; name the file to run" ]
    launch --run-path folder
    ended_with 2
    launch sh -c 'echo x'
    ended_with 2
    [[ $stderr == *"the script sh: No such file or directory; to run the program of that name, give --no-python" ]]
    echo 'print("main")' >folder/__main__.py
    launch folder
    ended_with 0
    [ "$output" = main ]
    launch --setup 'echo "print(7)" >made.py' made.py
    [ "$output" = 7 ]
    launch -- -c 'print(8)'
    [ "$output" = 8 ]
}

@test "a script for torch.distributed.launch has its --local-rank, unless the line says --use-env" {
    launch --nproc 2 --pass-local-rank --no-python sh -c 'echo x'
    ended_with 2
    [[ $stderr == *"--no-python and --pass-local-rank exclude each other"* ]]
    echo 'import sys; print(sys.argv[1:])' >args.py
    launch --nproc 2 --pass-local-rank args.py --a
    ended_with 0
    [[ $stderr == *"--pass-local-rank: --local-rank=N is before the script's arguments"* ]]
    [ "$(sort <<<"$output")" = $'[\'--local-rank=0\', \'--a\']\n[\'--local-rank=1\', \'--a\']' ]
    launch --nproc 2 --pass-local-rank --use_env args.py --a
    ended_with 0
    [[ $stderr == *"--use-env: LOCAL_RANK is in the environment, as without it"* ]]
    [ "$output" = $'[\'--a\']\n[\'--a\']' ]
    launch --use-env args.py --use-env
    [ "$output" = "['--use-env']" ]
    launch --pass-local-rank --run-path "$PWD/args.py" --a
    [ "$output" = "['--local-rank=0', '--a']" ]
}

@test "what torchrun refuses is refused, also where it would have no effect" {
    local words
    for words in "--start-method thread" "--monitor-interval often" "--rdzv-conf timeout" "--rdzv-conf is_host=x"; do
        launch $words --no-python true
        ended_with 2
    done
    launch --start-method forkserver --monitor-interval 0.5 --rdzv-conf timeout=9,x=y --no-python true
    ended_with 0
}

@test "when a rank fails, it is named, the others are ended, and its status is the status" {
    worker part <<'END'
#!/bin/sh
[ "$RANK" = 2 ] && { echo "what went wrong" >&2; exit 7; }
exec sleep 1000
END
    launch --nproc 4 --no-python ./part
    ended_with 7
    [[ $stderr == "what went wrong"*"muster: rank 2 (pid "*") failed first: status 7"*"3 other ranks ended after it"* ]]
    launch --nproc 4 --exit-code torchrun --no-python ./part
    ended_with 1
    launch --nproc 2 --no-python sh -c '[ $RANK = 0 ] || kill -SEGV $$$$; sleep 1000' # $$ is $
    ended_with 139
    [[ $stderr == *"rank 1 "*"signal 11"* ]]
}

@test "of many ranks that fail, the one that recorded the first error is the cause" {
    cat >bad.py <<'END'
import json, os, sys, time
rank = int(os.environ["RANK"])
error = {"message": {"message": f"ValueError: rank {rank}\x1b[31m", "extraInfo": {"timestamp": str(100 - rank)}}}
with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as out:
    json.dump(error, out)
print(f"last words of {rank}", file=sys.stderr)
open(f"spoke.{rank}", "w").close()
while rank or not all(os.path.exists(f"spoke.{other}") for other in range(3)):
    time.sleep(0.01)
sys.exit(10)
END
    launch --nproc 3 -t 3 bad.py
    [[ $stderr == *"muster: rank 2 (pid "*"failed first: ValueError: rank 2\\u001b[31m; rank 0 ended first: status 10"*"  | last words of 2"* ]]
    ended_with 10
}

@test "an error that was recorded a moment before another rank died is the cause" {
    record_module
    cat >bad.py <<'END'
import os, sys, time
from error_record import record
time.sleep(1.05 - time.time() % 1) # all within one second
if os.environ["RANK"] == "0":
    while not os.path.exists("recorded"):
        time.sleep(0.01)
    time.sleep(0.4)
    sys.exit(5)
record("ValueError: first")
open("recorded", "w").close()
time.sleep(30)
END
    launch --nproc 2 bad.py
    [[ $stderr == *"muster: rank 1 (pid "*"failed first: ValueError: first; rank 0 ended first: status 5"* ]]
}

@test "who has named a file for errors, as TorchX does, finds the first one there, with its status" {
    record_module
    cat >bad.py <<'END'
import os, sys, time
from error_record import record
rank = int(os.environ["RANK"])
if rank == 0:
    time.sleep(10)
record("ValueError: first\nand more")
sys.exit(7)
END
    echo "longer than what comes, longer than what comes, longer than what comes, longer than what comes, longer than what comes" >error.json
    TORCHELASTIC_ERROR_FILE=error.json launch --nproc 2 bad.py
    ended_with 7
    [ "$(jq -c '.message | [.message, .errorCode]' error.json)" = '["ValueError: first\nand more",7]' ]
    [[ $stderr =~ "rank 1 (pid "[0-9]+") failed first: status 7: ValueError: first ..." && $stderr != *"first\\nand"* ]]
    rm error.json
    TORCHELASTIC_ERROR_FILE=error.json launch --nproc 2 --no-python sh -c 'exit 3' # it has recorded nothing
    ended_with 3
    [ ! -e error.json ]
    TORCHELASTIC_ERROR_FILE=error.json launch --hosts one=cpu:1,two=cpu:1 --via env --env PYTHON_EXEC="$PYTHON" bad.py
    ended_with 7
    [ "$(jq -c '.message | [.message, .errorCode]' error.json)" = '["ValueError: first\nand more",7]' ]
    TORCHELASTIC_ERROR_FILE=none/error.json launch --nproc 2 bad.py
    ended_with 7
    [[ $stderr == *"TORCHELASTIC_ERROR_FILE: open none/error.json: No such file or directory"* ]]
}

@test "what is recorded after the first rank died is an echo, and no file of that name is waited for" {
    record_module
    cat >echo.py <<'END'
import os, signal, sys, time
from error_record import record
if os.environ["RANK"] == "0":
    os.kill(os.getpid(), signal.SIGKILL)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(1.2)
record("reset by peer")
sys.exit(1)
END
    launch --nproc 2 echo.py
    ended_with 137
    [[ $stderr == *"rank 0 (pid "*") failed first: signal 9 (Killed)"* && $stderr != *"reset by peer"* ]]
    launch --no-python sh -c 'mkfifo "$TORCHELASTIC_ERROR_FILE"; exit 3'
    ended_with 3
    launch --no-python sh -c 'mkdir "$TORCHELASTIC_ERROR_FILE"; exit 255'
    ended_with 255
    [[ $stderr == *"failed first: status 255"* ]]
    [ -z "$(ls -A tmp)" ]
}

@test "what is recorded at once when another rank has died is an echo" {
    record_module
    cat >echo.py <<'END'
import os, signal, socket, sys, time
from error_record import record
if os.environ["RANK"] == "0":
    server = socket.socket(socket.AF_UNIX)
    server.bind("listens")
    server.listen()
    peer, _ = server.accept()
    peer.recv(1)
    time.sleep(1.05 - time.time() % 1) # all within one second
    os.kill(os.getpid(), signal.SIGKILL)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
peer = socket.socket(socket.AF_UNIX)
while peer.connect_ex("listens") != 0:
    time.sleep(0.01)
peer.send(b".")
while not peer.recv(1):
    record("closed by peer")
    sys.exit(1)
END
    launch --nproc 2 echo.py
    ended_with 137
    [[ $stderr == *"rank 0 (pid "*") failed first: signal 9 (Killed)"* && $stderr != *"closed by peer"* ]]
}

@test "the last line of a long report is there" {
    launch --nproc 2 -r 2 --no-python sh -c '[ $RANK = 0 ] && exec sleep 100; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do printf "%0150d\\n" $i >&2; done; echo "the real reason" >&2; exit 4'
    ended_with 4
    [[ $stderr == *"  | the real reason"*"1 other rank ended after it" ]]
}

@test "a full disk under standard output is said, a reader that is gone is not" {
    run --separate-stderr limited sh -c '"$0" launch --no-python echo x >/dev/full' "$MUSTER"
    ended_with 75
    [[ $stderr == *"No space left on device"* || $stderr == *"space"* ]]
    run --separate-stderr limited sh -c '{ "$0" launch --no-python sh -c "sleep 0.3; echo x; sleep 100"; echo $? >status; } | true' "$MUSTER"
    wait_for test -s status
    [ "$(cat status)" = 141 ]
}

@test "ranks that cannot be started are no failures of ranks, and a signal in a pause ends it" {
    launch --log-dir lg --max-restarts 3 --restart-pause 10ms --no-python sh -c 'touch "$(dirname "$(dirname "$(dirname "$TORCHELASTIC_ERROR_FILE")")")/attempt_1"; exit 5'
    ended_with 69
    [[ $stderr == *"(restart 1 of 3)"* && $stderr != *"(restart 2 of 3)"* && $stderr != *"pid 0"* ]]
    "$MUSTER" launch --max-restarts 3 --restart-pause 60s --no-python sh -c 'exit 5' >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for holds said "start again in"
    kill -TERM "$PID"
    map_end
    ended_with 143
}

@test "ranks start again on the devices that are left, and on one that is back" {
    export MUSTER_FAKE_NVML=gpus=3,lostfile=1:$PWD/lost
    worker part <<'END'
#!/bin/sh
echo "start $TORCHELASTIC_RESTART_COUNT: rank $RANK of $WORLD_SIZE/$LOCAL_WORLD_SIZE on ${CUDA_VISIBLE_DEVICES-none}"
[ "$TORCHELASTIC_RESTART_COUNT" = 0 ] || exit 0
[ "$RANK" = 1 ] || exec sleep 100
touch lost
sleep "${1-0}"
exit 3
END
    launch -g 0-2 --gpus-min 2 --max-restarts 1 --restart-pause 3s --no-python ./part
    ended_with 0
    says "start 0: rank 1 of 3/3 on 0,1,2" "start 1: rank 1 of 2/2 on 0,2"
    says_not "start 1: rank 2"
    [[ $stderr == *"2 of 3 devices have a rank from now on; lost: gpu 1"* ]]
    rm lost
    launch -g 0-2 --gpus-min 3 --max-restarts 1 --restart-pause 3s --no-python ./part
    ended_with 69
    [[ $stderr == *"2 of 3 devices are left (lost: gpu 1), and --gpus-min is 3"* ]]
    launch -g sim:3xH200:141GiB,lost@1:1s-4s --gpus-min 1 --max-restarts 1 --restart-pause 5s --no-python ./part 2
    ended_with 0
    says "start 1: rank 2 of 3/3"
    [[ $stderr == *"2 of 3 devices have a rank from now on; lost: gpu 1"*"3 of 3 devices have a rank from now on"* ]]
}

@test "--gpus-min that cannot be is refused" {
    local wrong
    for wrong in "" "-g 0" "-g 0-1 --max-restarts 1 --nproc-per-node 1" "-g 0 --max-restarts 1" "--hosts a --max-restarts 1"; do
        # shellcheck disable=SC2086
        launch --gpus-min 2 $wrong --no-python true
        ended_with 2
        [[ $stderr == *"--gpus-min"* ]]
    done
}

@test "after a status that would come again there is no restart" {
    worker once <<'END'
#!/bin/sh
exit $((6 + TORCHELASTIC_RESTART_COUNT))
END
    launch --max-restarts 5 --restart-pause 0s --no-restart-after 2,7 --no-python ./once
    ended_with 7
    [[ $stderr == *"restart 1 of 5"* ]]
    [[ $stderr != *"restart 2 of 5"* ]]
    MUSTER_NO_RESTART_AFTER=6 launch --max-restarts 5 --restart-pause 0s --no-restart-after 7 --no-python ./once
    ended_with 7 # a status of the variable alone, which the option replaces
    launch --no-restart-after 2,256 --no-python true
    ended_with 2
}

@test "all ranks start again, as often as they may, each time with a count" {
    worker again <<'END'
#!/bin/sh
echo "$RANK at $TORCHELASTIC_RESTART_COUNT"
touch "said.$RANK.$TORCHELASTIC_RESTART_COUNT"
while [ ! -e "said.0.$TORCHELASTIC_RESTART_COUNT" ]; do sleep 0.02; done
[ "$RANK" = 1 ] && [ "$TORCHELASTIC_RESTART_COUNT" -lt 2 ] && exit 3
[ "$TORCHELASTIC_RESTART_COUNT" -lt 2 ] && exec sleep 1000
exit 0
END
    launch --nproc 2 --max-restarts 2 --restart-pause 10ms --no-python ./again
    ended_with 0
    [ "$(sort <<<"$output")" = $'0 at 0\n0 at 1\n0 at 2\n1 at 0\n1 at 1\n1 at 2' ]
    [[ $stderr == *"(restart 1 of 2)"*"(restart 2 of 2)"* ]]
    rm said.*
    launch --nproc 2 --max-restarts 1 --restart-pause 10ms --no-python ./again
    ended_with 3
}

@test "output goes to the terminal, into files, or both, as a whole or by local rank" {
    worker speak <<'END'
#!/bin/sh
echo "out $RANK"
echo "err $RANK" >&2
END
    launch --nproc 2 -t 3 -r 0 --rdzv-id a/b --log-dir logs --no-python ./speak
    ended_with 0
    [ "$(sort <<<"$output")" = $'[default0]:out 0\n[default1]:out 1' ]
    [ "$(sort <<<"$stderr")" = $'[default0]:err 0\n[default1]:err 1' ]
    [ "$(cat logs/a_b_*/attempt_0/1/stdout.log)" = "out 1" ]
    [ "$(cat logs/a_b_*/attempt_0/0/stderr.log)" = "err 0" ]
    launch --nproc 3 -r 0:3,1:2 -t 2:1 --log-dir logs2 --no-python ./speak
    [ "$(sort <<<"$output")" = $'[default2]:out 2\nout 1' ]
    [ "$stderr" = "err 2" ]
    [ "$(cd logs2/*/attempt_0 && ls */*.log | tr '\n' ' ')" = "0/stderr.log 0/stdout.log 1/stderr.log 2/stdout.log " ]
    launch --nproc 4 --local-ranks-filter 1,3 --no-python ./speak
    [ "$(sort <<<"$output")" = $'out 1\nout 3' ]
    launch --nproc 1 -r 3 --no-python ./speak
    [[ $stderr == *"the logs are in $PWD/tmp/muster-launch-"* ]]
    launch -r 4 --no-python ./speak
    ended_with 2
    launch -t 1:x --no-python ./speak
    ended_with 2
    launch --local-ranks-filter 1,x --no-python ./speak
    ended_with 2
}

@test "lines of up to a megabyte stay whole, also with a slow reader" {
    cat >long.py <<'END'
import os
letter = "abc"[int(os.environ["RANK"])]
for _ in range(3):
    print(letter * 1_000_000)
END
    cat >slow.py <<'END'
import os, sys, time
while piece := os.read(0, 65536):
    time.sleep(0.02)
    os.write(1, piece)
END
    "$MUSTER" launch --nproc 3 long.py | "$PYTHON" slow.py >lines
    [ "$(awk '{ print length($0), length($0) == gsub(substr($0, 1, 1), "") }' lines | sort | uniq -c | tr -s ' ')" = " 9 1000000 1" ]
}

@test "a disk without room for the folder of logs is no wrong usage" {
    needs_mounts
    mkdir full
    run --separate-stderr limited unshare -m sh -c 'mount -t tmpfs -o nr_inodes="$1" none full && shift && exec "$@"' sh 1 \
        "$MUSTER" launch --log-dir full/logs --no-python true
    ended_with 75
    [[ $stderr == *"--log-dir: create folder $PWD/full/logs: No space left"* ]]
    launch --log-dir /proc/logs --no-python true
    ended_with 2
}

@test "lines with one of some texts are copied into one file for each stream, as torchrun does it" {
    worker speak <<'END'
#!/bin/sh
printf 'loss %s\nstep a,b\nnoise\nlo' "$RANK"
sleep 0.2
printf 'ss end'
echo "loss of $RANK" >&2
[ "$TORCHELASTIC_RESTART_COUNT" != 0 ] || exit 1
END
    launch --nproc 3 -t 0:3,1:3,2:2 --local-ranks-filter 0,2 --duplicate-stdout-filters 'loss,a,,b' --duplicate_stderr_filters loss \
        --max-restarts 1 --log-dir logs --no-python ./speak
    ended_with 0
    [ -e logs/*/attempt_0/filtered_stdout.log ]
    [ "$(cat logs/*/attempt_1/filtered_stdout.log)" = $'[default0]:loss 0\n[default0]:step a,b\n[default0]:loss end' ]
    [ "$(sort logs/*/attempt_1/filtered_stderr.log)" = $'[default0]:loss of 0\n[default2]:loss of 2' ]
    launch --nproc 1 --duplicate-stdout-filters loss --log-dir logs2 --no-python ./speak
    [ "$(cd logs2/*/attempt_0 && stat -c '%n %s' filtered_*)" = "filtered_stdout.log 0" ] # it is of what is copied
    launch --hosts one=cpu:1,two=cpu:1 --via env -t 1 --duplicate-stdout-filters step --max-restarts 1 --log-dir logs3 --no-python ./speak
    [ "$(sort logs3/*/attempt_1/filtered_stdout.log)" = $'[default0]:step a,b\n[default1]:step a,b' ]
    launch --duplicate-stderr-filters 'loss,' --no-python ./speak
    ended_with 2
    [[ $stderr == *"--duplicate-stderr-filters: an empty text is in every line"* ]]
}

@test "a question without a newline is shown while the rank waits" {
    "$MUSTER" launch --no-python sh -c 'printf "more? "; while [ ! -e go ]; do sleep 0.05; done; echo yes' >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for holds said "more? "
    touch go
    map_end
    ended_with 0
    [ "$output" = "more? yes" ]
}

@test "a signal ends the ranks and what they started; a second one does not wait" {
    ends_by_signals launch --nproc 2 --no-python
}

@test "a rank that ignores SIGTERM is killed after the time for that; kill -9 of muster leaves nobody" {
    launch --nproc 2 --shutdown-timeout 0.3s --no-python sh -c '[ $RANK = 0 ] || { sleep 0.3; exit 5; }; trap "" TERM; while :; do sleep 0.1; done'
    ended_with 5
    launch --nproc 2 --shutdown-timeout 2.5s --no-python sh -c '[ $RANK = 0 ] || { sleep 0.3; exit 5; }; trap "" TERM; while :; do sleep 0.1; done'
    ended_with 5
    [[ $stderr =~ "rank 1 failed; waiting for rank 0 (pid "[0-9]+") to end; SIGKILL comes 2.5 s after SIGTERM (--shutdown-timeout)" ]]
    local n pid='\(pid [0-9]+\)' slow='[ $RANK = 1 ] && { sleep 0.3; exit 5; }; trap "" TERM; while :; do sleep 0.1; done'
    for n in "3 rank 0 $pid and rank 2 $pid to end" "10 rank 0 $pid, .*, rank 8 $pid and 1 other to end"; do
        launch --nproc "${n%% *}" --shutdown-timeout 2.5s --no-python sh -c "$slow"
        ended_with 5
        [[ $stderr =~ waiting\ for\ ${n#* } ]]
    done
    "$MUSTER" launch --nproc 2 --no-python sh -c 'sleep 1000 & sleep 1000' >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for two_sleep
    kill -KILL "$PID"
    wait "$PID" || true
    wait_for nobody_is_left
}

# The processes of muster, and its ranks themselves.
victims() {
    local pid
    for pid in $(marked); do ! grep -qsE '^(muster|run-keeper)' "/proc/$pid/comm" || echo "$pid"; done
    cat pids
}

@test "KILL to any one or two of muster, guards, keeper and ranks leaves nobody" {
    worker family <<'END'
#!/bin/bash
trap '' HUP INT
sleep 1000 &
setsid sh -c 'sleep 1000 & exec sleep 1000' &
echo $$ >>pids
wait
END
    local round one other
    RANDOM=17
    for round in 1 2 3 4 5; do
        rm -f pids
        "$MUSTER" launch --nproc 3 --shutdown-timeout 0.3s --no-python ./family >said 2>&1 3>&- 4>&- &
        PID=$!
        wait_for has_lines pids 3
        one=$(victims | shuf -n 1 --random-source=<(yes "$RANDOM"))
        other=$(victims | shuf -n 1 --random-source=<(yes "$RANDOM"))
        # The pair that only the keeper can clean up after.
        [ $round != 1 ] || { one=$PID other=$(ps -o ppid= -p "$(head -n 1 pids)" | tr -d ' '); }
        # Without its keeper alone, a run goes on.
        if [ "$one" = "$other" ] && holds "/proc/$one/comm" run-keeper; then other=$PID; fi
        kill -KILL "$one" "$other" 2>/dev/null || true
        wait_for is_gone "$PID"
        wait_for nobody_is_left
    done
}

@test "a rank that not even SIGKILL ends is named, and not waited for" {
    mkdir deaf
    $PYTHON "$BATS_TEST_DIRNAME/deaf_fs.py" deaf >mounted 2>&1 3>&- 4>&- &
    local server=$!
    KEPT="$KEPT $server"
    wait_for grep -q . mounted
    holds mounted "mounted" || skip "no file system can be mounted here"
    launch --nproc 2 --shutdown-timeout 0.1s --no-python sh -c '[ $RANK = 1 ] && exec cat deaf/file; sleep 0.3; exit 3'
    kill -KILL "$server"
    umount -l deaf
    ended_with 3
    [[ $stderr == *"rank 1: process "*" does not end, even by SIGKILL, and is left"*"rank 0 (pid "*") failed first: status 3"* ]]
}

@test "limits: on the whole, and on ranks that stay when another one has ended well" {
    launch --nproc 2 --time-limit 0.3s --no-python sleep 1000
    ended_with 124
    launch --nproc 2 --wait-after-first 0.2s --no-python sh -c '[ $RANK = 1 ] || sleep 1000'
    ended_with 1
    [[ $stderr == *"rank 0 had not ended"* ]]
    launch --nproc 2 --wait-after-first 20s --no-python sh -c '[ $RANK = 1 ] || sleep 0.2'
    ended_with 0
}

@test "the port is free until rank 0 takes it, is held for one run, and one that was asked for is needed" {
    shows
    cat >serve.py <<'END'
import os, socket, sys, time
at = ("127.0.0.1", int(os.environ["MASTER_PORT"]))
if os.environ["RANK"] == "0":
    time.sleep(0.2)
    store = socket.create_server(at, reuse_port=False)
    peer, _ = store.accept()
    print(peer.recv(5).decode())
else:
    for _ in range(200):
        try:
            peer = socket.create_connection(at)
            break
        except OSError:
            time.sleep(0.02)
    peer.sendall(b"hello")
END
    launch --standalone --nproc 2 serve.py
    ended_with 0
    [ "$output" = hello ]
    cat >busy.py <<'END'
import socket, sys, time
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(("127.0.0.1", 0))
server.listen()
print(server.getsockname()[1], flush=True)
time.sleep(1000)
END
    $PYTHON busy.py >port 3>&- 4>&- &
    KEPT="$KEPT $!"
    wait_for test -s port
    launch --master-port "$(cat port)" shows.py MASTER_PORT
    ended_with 69
    [[ $stderr == *"launch: port $(cat port): Address already in use; name another one, or leave --master-port and --rdzv-endpoint out for a free one"* ]]
    launch --rdzv-backend c10d --rdzv-endpoint "[::1]:0" shows.py MASTER_ADDR,TORCHELASTIC_RUN_ID
    [ "$output" = "0 ::1 none" ]
    local endpoint
    for endpoint in host:x :1 '[]:5' 'a]:33' h:1:2 '[::1:3'; do
        launch --rdzv-endpoint "$endpoint" shows.py
        ended_with 2
    done
    # A port is held for one run.
    "$MUSTER" launch --no-python sh -c 'echo "$MASTER_PORT" >first; while [ ! -e go ]; do sleep 0.05; done' >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for test -s first
    launch --master-addr localhost --master-port "$(cat first)" --no-python true
    ended_with 69
    [[ $stderr == *"which another muster holds"* ]]
    touch go
    map_end
    launch --master-port "$(cat first)" shows.py MASTER_ADDR,MASTER_PORT,TORCHELASTIC_RUN_ID
    [ "$output" = "0 127.0.0.1 $(cat first) none" ]
}

@test "ranks for every GPU, for every processor, and devices that are held for them" {
    launch --nproc-per-node gpu --no-python sh -c 'echo $RANK'
    [ "$(sort <<<"$output" | tr '\n' ' ')" = "0 1 2 3 " ]
    launch --nproc-per-node cpu --no-python sh -c 'echo $RANK'
    [ "$(wc -l <<<"$output")" = "$(nproc)" ]
    run --separate-stderr limited taskset -c 0 "$MUSTER" launch --nproc-per-node cpu --no-python sh -c 'echo $RANK'
    [ "$output" = 0 ]
    launch -g 1,3 --no-python sh -c 'echo $RANK $WORLD_SIZE $CUDA_VISIBLE_DEVICES ${MUSTER_DEVICE_INDEX-none}'
    ended_with 0
    [ "$(sort <<<"$output" | cut -d' ' -f1-3)" = $'0 2 1,3\n1 2 1,3' ]
    launch -g cpu:65 --no-python true # which ranks do not see
    ended_with 0
    launch -g sim:65xH200:141GiB --no-python true
    ended_with 2
    [[ $stderr == *"65 devices are more than the 64"* ]]
    launch -g 1,3 --nproc-per-node gpu --no-python sh -c 'echo $RANK'
    [ "$(sort <<<"$output" | tr '\n' ' ')" = "0 1 " ]
    "$MUSTER" launch -g 1 --no-python sh -c 'touch held; while [ ! -e go ]; do sleep 0.05; done' >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for test -e held
    launch -g 1 --no-python true
    ended_with 69
    touch go
    map_end
    ended_with 0
    MUSTER_FAKE_NVML=gpus=0 launch --nproc-per-node gpu --no-python true
    ended_with 69
    launch --nproc-per-node many --no-python true
    ended_with 2
    launch --rdzv-backend etcd --no-python true
    ended_with 2
}

# Eight ranks that fail at once, of which each prints the same traceback, but for its number.
failing() {
    cat >failing.py <<'END'
import os, sys, time
rank = os.environ["RANK"]
open(f"here.{rank}", "w").close()
while len([name for name in os.listdir(".") if name.startswith("here.")]) < 8:
    time.sleep(0.01)
print("loss", rank)
raise ValueError(f"rank {rank}: no such file at {id(rank):#x}")
END
}

# The lines of its stderr that are not muster's.
of_ranks() { grep -vE '^muster: |^  [|0-9]' <<<"$stderr"; }

@test "--fold: what several ranks print on stderr is shown once, with their number; files and stdout have all of it" {
    failing
    launch --nproc 8 --fold always --shutdown-timeout 0.2s failing.py
    ended_with 1
    [ "$(grep -c '^loss' <<<"$output")" -ge 1 ]
    [ "$(of_ranks | grep -c '^Traceback')" = 1 ]
    [ "$(of_ranks | grep -c '^ValueError')" = 1 ]
    grep -E '^muster: ([0-9]+ ranks more|rank [0-7]) printed the same lines \([0-9]' <<<"$stderr"
    grep -E '^  [0-9]+ other ranks? ended after it, [0-9]+ with the same words$' <<<"$stderr"
    rm here.*
    launch --nproc 8 --shutdown-timeout 5s -t 2 --log-dir logs --no-python sh -c 'trap "" TERM; exec "$@"' sh "$PYTHON" failing.py
    ended_with 1
    [ "$(of_ranks | grep -c 'Traceback')" = 8 ] # not on a terminal
    rm here.*
    launch --nproc 8 --fold always --shutdown-timeout 5s -t 2 --log-dir logs2 --no-python sh -c 'trap "" TERM; exec "$@"' sh "$PYTHON" failing.py
    [ "$(of_ranks | grep -c 'Traceback')" = 1 ]
    [ "$(cat logs2/*/attempt_0/*/stderr.log | grep -c Traceback)" = 8 ]
    grep -E '^muster: 7 ranks more printed the same lines' <<<"$stderr" || grep -E '^muster: 8 ranks more printed' <<<"$stderr"
    launch --fold sometimes --no-python true
    ended_with 2
}

@test "--fold: on a terminal it is the default, and a question is shown there while a rank waits" {
    command -v script >/dev/null || skip "script is not installed"
    cat >ask.sh <<'END'
echo same >&2
printf 'more? ' >&2
while [ ! -e go ]; do sleep 0.02; done
echo "yes $RANK" >&2
END
    script -qfec "'$MUSTER' launch --nproc 2 --no-python sh ask.sh" said >/dev/null </dev/null 3>&- 4>&- &
    PID=$!
    wait_for holds said "more? "
    touch go
    map_end
    ended_with 0
    [ "$(grep -c same <<<"$output")" = 2 ] # one of them is muster's own line
    [[ $output == *"printed the same line"* && $output == *"yes 0"* && $output == *"yes 1"* ]]
}

@test "--virtual-local-rank: each rank sees one device, and has the local rank 0" {
    CUDA_VISIBLE_DEVICES=5,3 launch --virtual-local-rank --nproc-per-node 2 --no-python sh -c 'echo $RANK $LOCAL_RANK $CUDA_VISIBLE_DEVICES'
    ended_with 0
    [ "$(sort <<<"$output")" = $'0 0 5\n1 0 3' ]
    launch --virtual_local_rank --nproc-per-node 2 --no-python sh -c 'echo $RANK $LOCAL_RANK $CUDA_VISIBLE_DEVICES'
    [ "$(sort <<<"$output")" = $'0 0 0\n1 0 1' ]
    launch -g 1,3 --virtual-local-rank --no-python sh -c 'echo $RANK $LOCAL_RANK $CUDA_VISIBLE_DEVICES'
    [ "$(sort <<<"$output")" = $'0 0 1\n1 0 3' ]
    launch -g 1,3 --virtual-local-rank --nproc-per-node 3 --no-python true
    ended_with 2
    [[ $stderr == *"3 ranks need a device each"* ]]
    CUDA_VISIBLE_DEVICES=5 launch --virtual-local-rank --nproc-per-node 2 --no-python true
    ended_with 2
    [[ $stderr == *"CUDA_VISIBLE_DEVICES=5"* ]]
}

@test "--log-line-prefix-template: what is before each line of --tee" {
    launch --tee 3 --role train --log-line-prefix-template '<${hostname}|$role_name ${rank}/$local_rank$ranks> ' --no-python echo hello
    ended_with 0
    [ "$output" = "<$(hostname)|train 0/0\$ranks> hello" ]
    TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE='${rank}: ' launch --tee 1 --no-python echo hello
    [ "$output" = "0: hello" ]
}

@test "--dry-run shows each rank's environment and command, and starts none" {
    printf '#!/bin/sh\ntouch started\n' >mark
    chmod +x mark
    run limited "$MUSTER" launch --nnodes 2 --node-rank 1 --master-addr 127.0.0.1 --master-port 29511 --nproc-per-node 2 \
        --max-restarts 3 --no-python --dry-run ./mark "two words"
    ended_with 0
    [ "${#lines[@]}" -eq 3 ]
    [ "${lines[0]}" = "as machine 1 of 2 with 2 ranks each:" ]
    [[ ${lines[2]} == "rank 3: RANK=3 LOCAL_RANK=1 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 GROUP_RANK=1 "*" TORCHELASTIC_MAX_RESTARTS=3 "*" ./mark 'two words'" ]]
    run limited "$MUSTER" launch --hosts one=cpu:2,two=cpu:1 --via env --no-python --dry-run ./mark
    ended_with 0
    [ "${#lines[@]}" -eq 3 ]
    [[ ${lines[2]} == "rank 2 on two: RANK=2 LOCAL_RANK=0 WORLD_SIZE=3 "* ]]
    [ ! -e started ]
}
