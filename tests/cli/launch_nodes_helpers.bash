# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2086
#
# Machines that are processes here.

setup() {
    common_setup
    export MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=4 MUSTER_SYSFS=/nowhere TMPDIR=$PWD/tmp
    unset PYTHON_EXEC ${!PET_@} ${!SLURM_@} ${!OMPI_@} ${!PMI@} MASTER_ADDR MASTER_PORT
    mkdir tmp
    PORT=$(free_port)
    cat >shows.py <<'END'
import os, sys
print(os.environ["RANK"], *(os.environ.get(name, "-") for name in sys.argv[1].split(",")), flush=True)
END
    cat >part.sh <<'END'
[ "$RANK" != "$1" ] || { sleep 0.3; echo "rank $RANK is ill" >&2; exit 3; }
exec sleep 60
END
}

# node NAME ARGUMENT...: the muster of another machine. Its output is in NAME.out and NAME.err, its pid in ${PIDS[NAME]}.
declare -gA PIDS
node() {
    local name=$1
    shift
    "$MUSTER" launch "$@" >"$name.out" 2>"$name.err" 3>&- 4>&- &
    PIDS[$name]=$!
}
node_ended_with() {
    local status=0
    wait_for is_gone "${PIDS[$1]}"
    wait "${PIDS[$1]}" || status=$?
    [ $status = "$2" ] || { echo "$1: status $status"; cat "$1.err"; return 1; }
}
launch() { run --separate-stderr limited "$MUSTER" launch "$@"; }
err_says() { output=$stderr says "$@"; }
static() { echo --nnodes "$1" --node-rank "$2" --master-port "$PORT"; }
is_connected() { grep -qi " [0-9A-F]*:[0-9A-F]* [0-9A-F]*:$(printf %04X "$PORT") 01 " /proc/net/tcp /proc/net/tcp6; }
listens() { "$PYTHON" -c "import socket; socket.create_connection(('127.0.0.1', $PORT)).close()" 2>/dev/null; }
