#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Folders for runs that others can write to: what is planted there is refused or passed over, at once, and
# nothing of the caller is touched.
load helpers

# In a folder of another user, and so on, a muster that hangs is ended with status 137.
at_once() { run timeout --foreground -s KILL 10 "$MUSTER" "$@"; }

# Within a second, or LIMIT_MS, at one of three tries: others may be at work on this machine.
LIMIT_MS=1000
within_a_second() {
    local begin took_ms=
    for _ in 1 2 3; do
        begin=$EPOCHREALTIME
        at_once "$@"
        took_ms=$(((${EPOCHREALTIME/./} - ${begin/./}) / 1000))
        [ $took_ms -gt $LIMIT_MS ] || return 0
    done
    echo "took $took_ms ms"
    return 1
}

# One run of another command with all files that a run can have, its muster killed.
interrupted_run() {
    seq 6 >in.txt
    worker work <<'END'
#!/bin/sh
while read -r line; do [ "$line" = 5 ] && [ -n "$SLOW" ] && sleep 30; echo "$line"; done
END
    SLOW=1 map_begin -g cpu:1 --run-dir runs/20260101_000000-map in.txt -o out.txt --no-reissue -- ./work
    wait_for has_begun
    kill -KILL "$PID"
    wait "$PID" 2>/dev/null || true
    wait_for nobody_is_left
    local dir=runs/20260101_000000-map
    echo '{}' >$dir/failed.jsonl
    : >$dir/output.id
    ln -sfn 20260101_000000-map runs/latest
    mv runs good
}

has_begun() { [ -e runs/20260101_000000-map/logs/cpu_0_stderr.log ] && [ -e runs/20260101_000000-map/status.json ]; }

# What is planted under the name $2, in the manner $1; a file of the caller is `precious`.
plant() {
    local how=$1 path=$2
    case $how in
    link)
        rm -rf "$path"
        ln -s "$PWD/precious" "$path"
        ;;
    fifo)
        rm -rf "$path"
        mkfifo "$path"
        ;;
    owner) chown -R 54321 "$path" ;;
    zeros)
        rm -rf "$path"
        truncate -s 10G "$path"
        ;;
    esac
}

planted_files() {
    local dir=runs/20260101_000000-map name
    echo $dir
    echo runs/latest
    for name in manifest.json run.db run.db-wal run.db-shm run.db-journal lock status.json status.json.new \
        orchestrator.log failed.jsonl output.id stop stop.new parts parts/1.part logs logs/cpu_0_stderr.log; do
        echo $dir/$name
    done
}

# The same of a graph, with the files of a submitted job. A job of it failed.
interrupted_graph() {
    printf 'vars: {n: 1..2}\njobs: {job: {for: [n], run: [sh, -c, "touch begun{n}; [ -e go{n} ] || exec sleep 30"], gpus: 0}}\n' >g.yaml
    touch go1
    "$MUSTER" graph -q -g cpu:1 --run-dir runs/20260101_000000-graph g.yaml 3>&- 4>&- &
    PID=$!
    wait_for has_begun_job
    kill -KILL $PID
    wait $PID 2>/dev/null || true
    wait_for nobody_is_left
    touch go2
    local dir=runs/20260101_000000-graph
    echo '{"at":1,"job":17,"event":"submitted","verb":"graph"}' >$dir/jobs.jsonl
    echo '{"job":"job/2","why":"job/2: waits"}' >$dir/open_jobs.jsonl
    echo '{"name":"more","argv":["true"],"gpus":0}' >$dir/added.jsonl
    ln -sfn 20260101_000000-graph runs/latest
    mv runs good
}

has_begun_job() { [ -e begun2 ] && [ -e runs/20260101_000000-graph/jobs.json ]; }

planted_graph_files() {
    local dir=runs/20260101_000000-graph name
    for name in order-1-1 order-1-1.new answers.json jobs.json jobs.json.new open_jobs.jsonl job.sh jobs.jsonl stdin folder.begun runs \
        added.jsonl manifest.json.new logs/job+2_stderr.log; do
        echo $dir/$name
    done
}

GRAPH_VERBS=("ls --json --runs-dir runs" "status --runs-dir runs latest" "status --json --runs-dir runs latest" "hosts --runs-dir runs latest"
    "hosts --runs-dir runs --add other latest" "why --runs-dir runs --run latest job/2" "retry --runs-dir runs --run latest job" "hold --runs-dir runs --run latest job"
    "release --runs-dir runs --run latest job" "cancel --runs-dir runs --run latest job" "add --runs-dir runs --run latest --gpus-per-job 0 -- true"
    "logs --runs-dir runs latest" "stop --now --runs-dir runs latest" "resume --runs-dir runs latest -g cpu:1"
    "graph -q -g cpu:1 --run-dir runs/20260101_000000-graph g.yaml")
# Each verb that reads or takes runs.
MAP_VERBS=("submit --time 1 resume --runs-dir runs latest" "ls --runs-dir runs" "status --runs-dir runs latest" \
        "results --runs-dir runs latest" "logs --runs-dir runs latest" \
        "logs --orchestrator --runs-dir runs latest" "stop --runs-dir runs latest" \
        "sim --like runs/20260101_000000-map --devices 1" "hosts --runs-dir runs --add other latest" "map -g cpu:1 --take runs in.txt -o out-map.txt -- cp {input} {output}" \
        "resume --runs-dir runs latest -g cpu:1" \
        "map -g cpu:1 --runs-dir runs in.txt -o out-map.txt -- ./work" \
        "map -g cpu:1 --run-dir runs/20260101_000000-map in.txt -o out.txt --no-reissue -- ./work")

# verbs_end_at_once WHAT-WAS-PLANTED VERB…
verbs_end_at_once() {
    local what=$1 words
    for words in "${@:2}"; do
        # shellcheck disable=SC2086
        if ! within_a_second $words || [ "$status" -ge 128 ]; then
            echo "$what: muster $words: status $status"
            echo "$output" | head -c 2000
            return 1
        fi
        if ! cmp -s precious precious.copy; then
            echo "$what: muster $words touched a file of the caller"
            return 1
        fi
        rm -f out.txt out-map.txt
    done
}

table() {
    slurm_stands_in
    interrupted_run
    planted_table "$1" planted_files "${MAP_VERBS[@]}"
}

graph_table() {
    LIMIT_MS=3000 # jobs run in it, and Slurm is asked
    slurm_stands_in
    interrupted_graph
    printf '#!/bin/sh\nexit 1\n' >bin/squeue
    planted_table "$1" planted_graph_files "${GRAPH_VERBS[@]}"
}

# planted_table HOW FILES VERB…
planted_table() {
    local how=$1 path
    echo "do not touch" >precious
    chmod 600 precious
    cp precious precious.copy
    for path in $("$2"); do
        rm -rf runs
        cp -a good runs
        if [ "$how" = owner ] && [ ! -e "$path" ]; then : >"$path"; fi
        mkdir -p "$(dirname "$path")"
        plant "$how" "$path"
        verbs_end_at_once "$how at $path" "${@:3}"
    done
}

@test "links in the place of a run's files: no verb follows them" { table link; }
@test "FIFOs in the place of a run's files: no verb waits for them" { table fifo; }
@test "10 GB of zeros in the place of a run's files: no verb reads them" { table zeros; }
@test "files of another user in the place of a run's files: no verb takes them over" {
    [ "$(id -u)" -eq 0 ] || skip "only root can give a file away"
    table owner
}

@test "links in the place of a graph's files: no verb follows them" { graph_table link; }
@test "FIFOs in the place of a graph's files: no verb waits for them" { graph_table fifo; }
@test "10 GB of zeros in the place of a graph's files: no verb reads them" { graph_table zeros; }
@test "files of another user in the place of a graph's files: no verb takes them over" {
    [ "$(id -u)" -eq 0 ] || skip "only root can give a file away"
    graph_table owner
}

# SQL that makes something other than tables of the ledger.
@test "a run's folder may be reached through links" {
    interrupted_run
    mv good real
    mkdir -p elsewhere runs
    ln -s "$PWD/real/20260101_000000-map" runs/20260101_000000-map
    ln -s "$PWD/elsewhere" link
    map -g cpu:1 --runs-dir runs in.txt -o out.txt --no-reissue -- ./work
    ended_with 0
    says "going on with 20260101_000000-map"
    map -g cpu:1 --run-dir link in.txt -o linked.txt -- cat
    ended_with 0
    same in.txt linked.txt
    [ -e elsewhere/run.db ]
}

@test "a ledger that computes: views without end, triggers, columns that are expressions" {
    local sql table
    interrupted_run
    echo "do not touch" >precious
    cp precious precious.copy
    for table in facts progress ranges asides attempts; do
        rm -rf runs
        cp -a good runs
        sqlite3 runs/latest/run.db "DROP TABLE $table; CREATE VIEW $table AS
            WITH RECURSIVE c(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM c)
            SELECT n AS first, 1 AS count, n AS item, n AS id, n AS key, n AS value, n AS ranges,
            n AS items_done, n AS result_bytes, n AS next_part FROM c WHERE n < 0"
        verbs_end_at_once "a view $table" "${MAP_VERBS[@]}"
    done
    for sql in "CREATE TRIGGER t AFTER INSERT ON facts BEGIN DELETE FROM ranges; END" \
        "ALTER TABLE ranges ADD COLUMN much TEXT AS (hex(zeroblob(100000000)))"; do
        rm -rf runs
        cp -a good runs
        sqlite3 runs/latest/run.db "$sql"
        at_once resume --runs-dir runs latest
        ended_with 65
        says "is no table"
        at_once results --runs-dir runs latest
        ended_with 65
    done
}

@test "a graph's ledger that computes: views without end" {
    local table
    interrupted_graph
    echo "do not touch" >precious
    cp precious precious.copy
    for table in events samples jobs job_attempts; do
        rm -rf runs
        cp -a good runs
        sqlite3 runs/latest/run.db "DROP TABLE $table; CREATE VIEW $table AS
            WITH RECURSIVE c(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM c)
            SELECT n AS name, n AS state, n AS attempts, n AS definition, n AS outs_digest, n AS needs_digest, n AS started_wall_ms,
            n AS ended_wall_ms, n AS end, n AS attempt, n AS devices, n AS is_well, n AS log, n AS batch, n AS id, n AS at FROM c WHERE n < 0"
        verbs_end_at_once "a view $table" "${GRAPH_VERBS[@]}"
    done
}

# Fifteen levels of inner pages, each with a hundred ways to the next: 80 kB that hold 10^30 rows.
endless_tree() {
    "$PYTHON" - "$1" <<'END'
import sqlite3, struct, sys
db = sqlite3.connect(sys.argv[1])
db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
db.execute("PRAGMA journal_mode = DELETE")
db.executemany("INSERT INTO asides VALUES (?, 1, 'a reason', NULL, NULL)", [(i,) for i in range(3000)])
db.commit()
root = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'asides'").fetchone()[0] - 1
db.close()
data = bytearray(open(sys.argv[1], "rb").read())
size = struct.unpack_from(">H", data, 16)[0]
n_pages, cell = len(data) // size, struct.unpack_from(">H", data, root * size + 12)[0]
leaf = struct.unpack_from(">I", data, root * size + cell)[0]

def inner(child):
    page, at = bytearray(size), size
    for i in range(100):
        at -= 6
        struct.pack_into(">IBB", page, at, child, 0x80, i + 1)
        struct.pack_into(">H", page, 12 + 2 * i, at)
    struct.pack_into(">BHHHBI", page, 0, 5, 0, 100, at, 0, child)
    return page

data[root * size:(root + 1) * size] = inner(n_pages + 1)
for level in range(15):
    data += inner(n_pages + level + 2 if level < 14 else leaf)
struct.pack_into(">I", data, 28, len(data) // size)
struct.pack_into(">I", data, 92, struct.unpack_from(">I", data, 24)[0])
open(sys.argv[1], "wb").write(data)
END
}

@test "a ledger whose tree goes on for ever is given up" {
    local words
    interrupted_run
    mv good runs
    endless_tree runs/latest/run.db
    for words in ls status results; do
        at_once $words --runs-dir runs
        if [ "$status" -ge 128 ]; then
            echo "$words: status $status"
            return 1
        fi
    done
}

@test "a file with a second name is not written to" {
    interrupted_run
    local name
    for name in orchestrator.log lock logs/cpu_0_stderr.log; do
        rm -rf runs
        cp -a good runs
        echo "do not touch" >precious
        ln -f precious runs/latest/$name
        at_once resume --runs-dir runs latest -g cpu:1
        ended_with 65
        says "$name has 2 names (hard links)"
        [ "$(cat precious)" = "do not touch" ]
    done
}

@test "what everybody can write to is not believed, and how to mend that is said" {
    interrupted_run
    mv good runs
    chmod o+w runs/latest/run.db
    at_once resume --runs-dir runs latest -g cpu:1
    ended_with 2
    says "run.db is writable by everybody; run chmod o-w on it"
    chmod o-w runs/latest/run.db
    at_once resume --runs-dir runs latest -g cpu:1
    ended_with 0
    same in.txt out.txt
}

@test "jobs that everybody can add are not run" {
    local name
    interrupted_graph
    mv good runs
    echo '{"name":"more","argv":["touch","owned"],"gpus":0}' >runs/latest/added.jsonl
    for name in added.jsonl stdin; do
        touch runs/latest/$name
        chmod o+w runs/latest/$name
        at_once resume --runs-dir runs latest -g cpu:1
        ended_with 2
        says "$name is writable by everybody; run chmod o-w on it"
        chmod o-w runs/latest/$name
    done
    [ ! -e owned ]
}

@test "a run under umask 0 can be resumed: muster makes nothing that everybody can write to" {
    umask 0
    interrupted_run
    mv good runs
    umask 022
    [ -z "$(find -H runs/latest -perm -o+w -not -type l -not -name failed.jsonl -not -name output.id)" ]
    chmod o-w runs/latest/output.id
    at_once resume --runs-dir runs latest -g cpu:1
    ended_with 0
}

@test "a run that another user planted is not gone on with: whose it is is said, and a new one begins" {
    [ "$(id -u)" -eq 0 ] || skip "only root can give a file away"
    seq 6 >in.txt
    worker work <<'END'
#!/bin/sh
touch "started-$$"
exec cat
END
    map -g cpu:1 --runs-dir runs --keep-parts in.txt -o out.txt -- ./work
    ended_with 0
    local dir
    dir=$(readlink -f runs/latest)
    sed -i 's/.*/forged/' "$dir"/parts/1.part
    sqlite3 "$dir/run.db" "UPDATE facts SET value = 'stopped' WHERE key = 'state'"
    chown -R 54321 "$dir"
    rm -f out.txt started-*
    map -g cpu:1 --runs-dir runs --keep-parts in.txt -o out.txt -- ./work
    ended_with 0
    says "run $(basename "$dir") of uid 54321 does the same work" "a new run begins"
    same in.txt out.txt
    rm out.txt
    map -g cpu:1 --run-dir "$dir" --keep-parts in.txt -o out.txt -- ./work
    ended_with 2
    says "belongs to uid 54321"
    run "$MUSTER" resume "$dir"
    ended_with 2
    says "$dir belongs to uid 54321, and this muster runs as root (uid 0)"
    [ ! -e out.txt ]
}

# ./bin/sbatch notes the script that it is given; the queue is empty.
slurm_stands_in() {
    mkdir bin
    printf '#!/bin/sh\necho submitted >>sbatch.calls\necho 17\n' >bin/sbatch
    printf '#!/bin/sh\n[ ! -e queue ] || cat queue\n' >bin/squeue
    printf '#!/bin/sh\nexit 1\n' >bin/sinfo
    chmod +x bin/*
    PATH=$PWD/bin:$PATH
}

@test "no job is submitted from a folder that another user can write to" {
    [ "$(id -u)" -eq 0 ] || skip "only root can give a file away"
    slurm_stands_in
    seq 6 >in.txt
    mkdir theirs
    chown 54321 theirs
    local words
    for words in "map -o out.txt in.txt -- cat" "graph -- echo ::: a"; do
        # shellcheck disable=SC2086
        at_once submit --time 1 ${words%% *} --run-dir theirs ${words#* }
        ended_with 2
        says "theirs belongs to uid 54321"
    done
    [ -z "$(ls -A theirs)" ]
    [ ! -e sbatch.calls ]
    mkdir open
    chmod o+w open
    at_once submit --time 1 map --run-dir open -o out.txt in.txt -- cat
    ended_with 2
    says "open is writable by everybody; run chmod o-w on it"
    chmod o-w open
    at_once submit --time 1 map --run-dir open -o out.txt in.txt -- cat
    ended_with 0
    has_lines sbatch.calls 1
}

@test "what is submitted already is found among any number of newer runs" {
    slurm_stands_in
    seq 6 >in.txt
    at_once submit --time 1 map -o out.txt in.txt -- cat
    ended_with 0
    local i first
    first=$(readlink -f muster-runs/latest)
    for i in $(seq 100 210); do
        mkdir muster-runs/20991231_235959-map-$i
        echo '{"at":4000000000000,"job":1,"event":"cancelled","verb":"map"}' >muster-runs/20991231_235959-map-$i/jobs.jsonl
    done
    echo "17|PENDING|Priority|N/A|N/A||1:00|$first/job.sh" >queue
    rm -rf cache
    at_once submit --time 1 map -o out.txt in.txt -- cat
    ended_with 69
    says "the same is submitted already, as run $(basename "$first")"
    has_lines sbatch.calls 1
    [ "$(wc -l <sbatch.calls)" -eq 1 ]
}

@test "of another user's run of the same graph it is said that it is not gone on with" {
    [ "$(id -u)" -eq 0 ] || skip "only root can give a file away"
    interrupted_graph
    mv good runs
    chown -R 54321 runs/20260101_000000-graph
    at_once graph -g cpu:1 --runs-dir runs g.yaml
    ended_with 0
    says "run 20260101_000000-graph of uid 54321 is of the same graph; it is not yours to go on with"
    at_once graph -q -g cpu:1 --runs-dir runs --fresh g.yaml
    says_not "54321"
}

@test "of a run of the same graph that anybody can write to it is said that it is not gone on with" {
    interrupted_graph
    mv good runs
    chmod o+w runs/20260101_000000-graph
    at_once graph -g cpu:1 --runs-dir runs g.yaml
    ended_with 0
    says "run 20260101_000000-graph is of the same graph, and is not gone on with:" "is writable by everybody; run chmod o-w on it"
}

@test "another user's run is read while it goes on and when it was killed, and nothing is left in its folder" {
    [ "$(id -u)" -eq 0 ] && [ -n "$(command -v setpriv)" ] || skip "only root can be two users"
    open_folder
    pyworker gated <<'END'
import muster, os, time
for item in muster.items():
    while item.index >= 20 and not os.path.exists("go"):
        time.sleep(0.01)
    item.done(id=item.index)
END
    seq 30 >in.txt
    local as="setpriv --reuid 54321 --regid 54321 --clear-groups" dir
    mkdir -m 777 runs locks
    $as test -r "$PWD/in.txt" -a -x "$MUSTER" || skip "the folders for tests are private"
    $as "$MUSTER" map -g cpu:1 --run-dir runs/theirs in.txt -o runs/out.jsonl -- ./gated >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for twenty_are_there
    run "$MUSTER" status runs/theirs
    says "running" "20 of 30 items"
    kill -KILL "$PID"
    wait "$PID" 2>/dev/null || true
    wait_for nobody_is_left
    [ "$("$MUSTER" results runs/theirs | wc -l)" -eq 20 ]
    run "$MUSTER" ls --runs-dir runs
    says "interrupted" "20/30"
    [ -z "$(find runs/theirs -not -user 54321)" ]
    touch go
    $as "$MUSTER" resume -q runs/theirs
    [ "$(wc -l <runs/out.jsonl)" -eq 30 ]
    [ "$("$MUSTER" results runs/theirs | wc -l)" -eq 30 ]
}

@test "ls has the newest run first, whatever it is called" {
    local name
    seq 3 >in.txt
    for name in zz 20200101_000000-map "" aa; do
        map -q -g cpu:1 ${name:+--run-dir "muster-runs/$name"} --fresh in.txt -o "out$name.txt" -- cat
        ended_with 0
    done
    name=$(basename "$(readlink muster-runs/latest)")
    [ "$("$MUSTER" ls --json | jq -r .run | tr '\n' ' ')" = "aa $name 20200101_000000-map zz " ]
    [ "$("$MUSTER" ls -n 1 --json | jq -r .run)" = aa ]
    [ "$("$MUSTER" status --json | jq -r .run)" = "$name" ]
}

@test "ls pads names by the columns that they take, not by their bytes" {
    local name
    seq 3 >in.txt
    for name in 日本語 plain; do
        map -q -g cpu:1 --run-dir "muster-runs/$name" --fresh in.txt -o "$name.txt" -- cat
        ended_with 0
    done
    run "$MUSTER" ls
    says "plain$(printf '%23s' '')  finished" "日本語$(printf '%22s' '')  finished"
}

# Bats' own folder lets nobody else in.
open_folder() {
    OPEN_FOLDER=$(mktemp -d)
    chmod 755 "$OPEN_FOLDER"
    cd "$OPEN_FOLDER" || return 1
    export MUSTER_LOCK_DIR=$PWD/locks
}

teardown() {
    local rc=0
    common_teardown || rc=1
    [ -z "$OPEN_FOLDER" ] || rm -rf "$OPEN_FOLDER"
    return $rc
}

twenty_are_there() { [ "$("$MUSTER" results runs/theirs 2>/dev/null | wc -l)" -ge 20 ]; }

@test "a lock that names any process: stop signals nobody but its owner's" {
    [ "$(id -u)" -eq 0 ] && [ -n "$(command -v setpriv)" ] || skip "only root can be two users"
    interrupted_run
    mv good runs
    sleep 60 3>&- 4>&- &
    local victim=$!
    printf 'pid %d\nhost %s\npidspace %s\n' $victim "$(hostname)" "$(readlink /proc/self/ns/pid)" >runs/latest/lock
    chown -R 54321 runs/2*
    pyworker hold_lock <<'END'
import fcntl, os, struct, time
fd = os.open("runs/latest/lock", os.O_RDWR)
fcntl.fcntl(fd, 37, struct.pack("hhlli4x", fcntl.F_WRLCK, 0, 0, 0, 0))
open("locked", "w")
time.sleep(60)
END
    ./hold_lock 3>&- 4>&- &
    KEPT="$victim $!"
    wait_for test -e locked
    at_once stop --no-wait --runs-dir runs latest
    ended_with 0
    kill -0 $victim
    kill $KEPT
}

@test "an unfinished run is found among any number of newer ones" {
    interrupted_run
    mv good runs
    local i
    for i in $(seq 10 70); do
        mkdir runs/202701${i}_000000-map
        sed 's/out.txt/other.txt/' runs/latest/manifest.json >runs/202701${i}_000000-map/manifest.json
    done
    map -g cpu:1 --runs-dir runs in.txt -o out.txt --no-reissue -- ./work
    ended_with 0
    says "going on with 20260101_000000-map"
}
