#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# One muster for an output, names that leave no room, and words of others on the way to a terminal.
load helpers

@test "two graphs never leave the same file at the same time" {
    for name in one two; do
        printf 'jobs:\n  %s:\n    run: [sh, -c, "./wait; echo %s >same.txt"]\n    out: same.txt\n' $name $name >$name.yaml
    done
    worker wait <<'END'
#!/bin/sh
touch at_gate
while [ ! -e go ]; do sleep 0.02; done
END
    "$MUSTER" graph -q -g cpu:1 one.yaml >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for test -e at_gate
    run limited "$MUSTER" graph -q -g cpu:1 two.yaml
    ended_with 69
    says "is at work on the output same.txt"
    run limited "$MUSTER" graph -q -g cpu:1 --runs-dir others one.yaml
    ended_with 69
    says "is at work on the output same.txt"
    # A map sees it too.
    seq 3 >in.txt
    run limited "$MUSTER" map -q -g cpu:1 in.txt -o same.txt -- cat
    ended_with 69
    touch go
    map_end
    ended_with 0
    [ "$(cat same.txt)" = one ]
}

@test "what a graph claims is free for what its own jobs start, and a claim on another host is no lost host" {
    seq 3 >in.txt
    cat >inner.yaml <<'END'
jobs:
  i: {run: [sh, -c, "mkdir res; echo inner >res/i"], out: res/}
END
    cat >outer.yaml <<END
jobs:
  o: {run: ["$MUSTER", graph, -q, -g, "cpu:1", inner.yaml], out: res/}
  m: {run: ["$MUSTER", map, -q, -g, "cpu:1", in.txt, -o, m.txt, --, cat], out: m.txt}
END
    run limited "$MUSTER" graph -q -g cpu:2 outer.yaml
    ended_with 0
    [ "$(cat res/i)" = inner ]
    same in.txt m.txt
    printf 'jobs:\n  a: {run: [sh, -c, "touch at_gate; sleep 2; echo a >late"], out: late}\n' >a.yaml
    printf 'jobs:\n  w: {run: [sleep, "1"]}\n  b: {run: [sh, -c, "echo b >late"], needs: w, out: late}\n' >b.yaml
    "$MUSTER" graph -q --hosts far=cpu:1 --via env b.yaml >said 2>&1 3>&- 4>&- &
    PID=$!
    sleep 0.5
    limited "$MUSTER" graph -q -g cpu:1 a.yaml
    map_end
    ended_with 1
    says "b failed for good: process " "is at work on the output late"
    [ "$(grep -c "b: attempt" muster-runs/latest/orchestrator.log)" -le 1 ]
}

# ./reach WORDS runs them as sshd and Slurm do: not as a descendant of this shell. Its input and output are theirs.
elsewhere_begin() {
    cat >elsewhere.py <<'END'
import array, os, socket, subprocess, sys
fds = array.array("i", [0, 1, 2])
if sys.argv[1] == "serve":
    server = socket.socket(socket.AF_UNIX)
    server.bind("elsewhere")
    server.listen()
    while True:
        client, _ = server.accept()
        words, passed, _, _ = client.recvmsg(65536, socket.CMSG_SPACE(3 * fds.itemsize))
        fds = array.array("i", passed[0][2])
        if os.fork() == 0:
            sys.exit(client.send(b"%d" % subprocess.run(words.decode().split("\0"), stdin=fds[0], stdout=fds[1], stderr=fds[2]).returncode) < 0)
        client.close()
        for fd in fds:
            os.close(fd)
client = socket.socket(socket.AF_UNIX)
client.connect("elsewhere")
client.sendmsg(["\0".join(sys.argv[1:]).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
sys.exit(int(client.recv(20)))
END
    "$PYTHON" elsewhere.py serve 3>&- 4>&- &
    SERVER=$!
    wait_for test -S elsewhere
    printf '#!/bin/sh\nexec "%s" elsewhere.py "$@"\n' "$PYTHON" >reach
    chmod +x reach
}

@test "what a graph has claimed is free for its jobs, also where Slurm or sshd has started them" {
    elsewhere_begin
    seq 3 >in.txt
    cat >g.yaml <<END
jobs:
  map: {run: ["$MUSTER", map, -q, -g, "cpu:1", in.txt, -o, map.txt, --, cat], out: map.txt}
  merge: {run: ["$MUSTER", merge, -q, in.txt, -o, merge.txt], out: merge.txt}
  split: {run: ["$MUSTER", split, -n, "1", in.txt, -o, "part{{n}}.txt"], out: part00.txt}
END
    run limited "$MUSTER" graph -q --hosts one=cpu:1 --via ./reach --agent-path "$MUSTER" g.yaml
    kill "$SERVER"
    ended_with 0
    for name in map merge part00; do same in.txt $name.txt; done
}

@test "a file of --also or --also-counted is claimed from the beginning" {
    worker two <<'END'
#!/bin/sh
until [ -e go ]; do sleep 0.02; done
cp "$1" "$2" && cp "$1" "side$3.txt"
END
    seq 4 >in.txt
    local kind
    for kind in --also --also-counted; do
        rm -f go
        map_begin -g cpu:1 --shards 1 in.txt -o first.txt -f $kind 'side{shard}.txt=both.txt' -- ./two {input} {output} {shard}
        wait_for has_logged "shard 0"
        run limited "$MUSTER" map -g cpu:1 --shards 1 in.txt -o second.txt $kind 'side{shard}.txt=both.txt' -- ./two {input} {output} {shard}
        ended_with 69
        says "at work on the output both.txt"
        touch go
        map_end
        ended_with 0
    done
}

@test "the same command three times at once: one does the work, and the others say who" {
    worker work <<'END'
#!/bin/sh
echo started >>starts
until [ -e go ]; do sleep 0.02; done
exec cat
END
    seq 6 >in.txt
    local i n=0 codes=
    for i in 1 2 3; do
        "$MUSTER" map -g cpu:1 in.txt -o out.txt -- ./work >said$i 2>&1 3>&- 4>&- &
        eval "local pid$i=$!"
    done
    wait_for two_are_over
    touch go
    for i in 1 2 3; do
        local code=0
        eval "wait \$pid$i" || code=$?
        codes="$codes $code"
    done
    [ "$(echo $codes | tr ' ' '\n' | sort -n | tr '\n' ' ')" = "0 69 69 " ]
    [ "$(wc -l <starts)" -eq 1 ]
    [ "$(cat said? | grep -c 'is at work on the output out.txt\|is going on and writes to out.txt')" -eq 2 ]
    same in.txt out.txt
}

two_are_over() { [ "$(cat said? | grep -c 'name another output')" -eq 2 ]; }

@test "an output is claimed by name: two others in one folder are no matter, and kill -9 leaves none" {
    holding_worker
    seq 3 >in.txt
    map_begin -g cpu:1 in.txt -o out.txt -- ./hold
    wait_for test -e holding
    map -g cpu:1 in.txt -o other.txt -- cat
    ended_with 0
    map -g cpu:1 --run-dir elsewhere in.txt -o ./out.txt -- cat
    ended_with 69
    says "out.txt"
    [ ! -e elsewhere ]
    kill -KILL "$PID"
    wait "$PID" 2>/dev/null || true
    map -g cpu:1 --fresh in.txt -o out.txt -- cat
    ended_with 0
}

@test "merge and split: what another command is at work on is not read for in vain" {
    seq 3 >in.txt
    holding_worker
    map_begin -g cpu:1 in.txt -o out.txt -- ./hold
    wait_for test -e holding
    run limited "$MUSTER" merge in.txt -o out.txt
    ended_with 69
    says "process $PID of" "is at work on the output out.txt"
    run limited "$MUSTER" merge --dry-run in.txt -o out.txt
    ended_with 0
    touch go
    map_end
    ended_with 0
    head -c 300000000 /dev/zero | tr '\0' '\n' >big.txt
    local words
    for words in "merge big.txt -o merged.txt" "split -n 2 big.txt -o parts_{n}.txt"; do
        # shellcheck disable=SC2086
        stopped_with_claim $words
        # shellcheck disable=SC2086
        run limited "$MUSTER" $words
        ended_with 69
        says "process $PID of"
        kill -CONT "$PID"
        map_end
        ended_with 0
    done
}

@test "a name that is too long is refused before the work, whatever writes it" {
    local long
    long=$(printf '%0256d' 0)
    seq 1000 >in.txt
    printf '{"a":1}\n{"a":2\n' >bad.jsonl # status 65 if it is read
    refused merge bad.jsonl -o "$long"
    says "File name too long"
    refused merge in.txt --score-out "$long.csv" --score a=b -o out.jsonl
    refused split -n 2 in.txt -o "$(printf '%0249d' 0){n}"
    says ".naming: File name too long"
    refused split --dry-run -n 2 in.txt -o "$long{n}"
    refused sim --items 10 --item-time 1s --devices 1 --html "$long.html"
    says_not "10 items"
    map -q -g cpu:1 in.txt -o out.txt -- cat
    refused results -o "$long"
}

@test "however many are refused an output, each is told who has it" {
    holding_worker
    seq 3 >in.txt
    map_begin -g cpu:1 --runs-dir elsewhere in.txt -o out.txt -- ./hold
    wait_for test -e holding
    local i
    for i in $(seq 20); do
        "$MUSTER" map -g cpu:1 --run-dir "run$i" in.txt -o out.txt -- cat >refused 2>&1 || true
        holds refused "process $PID of"
    done
    touch go
    map_end
    ended_with 0
}

@test "an output's name that leaves no room for the list of failed items is refused at the start" {
    local long
    long=$(printf '%0245d' 0)
    seq 3 >in.txt
    map -g cpu:1 in.txt -o "$long" -- cat
    ended_with 2
    says "the output's name is too long" "245 bytes"
    [ ! -e muster-runs ]
    mkdir out.txt.failed.jsonl
    map -g cpu:1 in.txt -o out.txt -- cat
    ended_with 2
    says "out.txt.failed.jsonl is a folder"
    map -g cpu:1 in.txt -o "x.$(printf '%0230d' 0)" -- sh -c 'cp {input} {output}'
    ended_with 2
    says "is too long for one"
}

@test "the longest output's name that is taken holds its promise: failed items are listed, and replaced" {
    local long
    long=$(printf '%0242d' 0)
    seq 3 >in.txt
    map -g cpu:1 --retries 0 in.txt -o "$long" -- sh -c 'while read -r l; do [ "$l" != 2 ] || [ -e mended ] || exit 7; echo "$l"; done'
    ended_with 1
    has_lines "$long.failed.jsonl" 1
    touch mended
    run "$MUSTER" resume --retry-failed
    ended_with 0
    same in.txt "$long"
    [ ! -e "$long.failed.jsonl" ]
    [ -z "$(find . -maxdepth 1 -name '*.new')" ]
}

@test "a list of failed items that cannot be written: what is said of resume is true" {
    seq 3 >in.txt
    worker work <<'END'
#!/bin/sh
while read -r l; do [ "$l" != 2 ] || { mkdir -p out.txt.failed.jsonl; exit 7; }; echo "$l"; done
END
    map -g cpu:1 --retries 0 in.txt -o out.txt -- ./work
    [ "$status" -ne 0 ]
    says "every result is safe" "muster resume"
    rmdir out.txt.failed.jsonl
    run "$MUSTER" resume
    ended_with 1
    has_lines out.txt.failed.jsonl 1
    [ "$(tr '\n' ' ' <out.txt)" = "1 3 " ]
}

@test "--on-finish ignores no signal that muster ignores" {
    seq 3 >in.txt
    map -g cpu:1 --on-finish 'grep SigIgn /proc/self/status >ignored; cat >/dev/null' in.txt -o out.txt -- cat
    ended_with 0
    local mask
    mask=$((16#$(sed 's/SigIgn:\s*//' ignored)))
    [ $((mask & (1 << 12))) -eq 0 ] # SIGPIPE
    [ $((mask & (1 << 24))) -eq 0 ] # SIGXFSZ
}

# Whether SIGPIPE or SIGXFSZ is ignored in what wrote this line of /proc/self/status.
ignores() {
    local mask=$((16#$(sed 's/.*SigIgn:[[:space:]]*//' "$1")))
    [ $((mask & (1 << 12 | 1 << 24))) -ne 0 ]
}

@test "no program that muster starts has signals ignored because muster ignores them" {
    worker look <<'END'
#!/bin/sh
grep SigIgn /proc/self/status >"ignored.$1"
[ "$1" != map ] || exec cat
END
    seq 3 >in.txt
    mkdir bin
    printf '#!/bin/sh\n./look sbatch\necho 17\n' >bin/sbatch
    printf '#!/bin/sh\n./look squeue\n' >bin/squeue
    printf '#!/bin/sh\nexit 1\n' >bin/sinfo
    printf '#!/bin/sh\n./look via\nexec "$@"\n' >via
    chmod +x bin/* via
    PATH=$PWD/bin:$PATH
    limited "$MUSTER" map -q -g cpu:1 in.txt -o out.txt -- ./look map
    limited "$MUSTER" each -q -g cpu:1 --setup './look setup' -- ./look each
    limited "$MUSTER" each -q --hosts one=cpu:1 --via ./via -- ./look host
    limited "$MUSTER" graph -q -g cpu:1 -- ./look {} ::: graph
    limited "$MUSTER" launch -q -g cpu:1 --no-python ./look launch
    limited "$MUSTER" fit -q -g cpu:1 --max 1 -- ./look fit {batch}
    limited "$MUSTER" bench -q -g cpu:1 --rounds 1 -- ./look bench
    limited "$MUSTER" submit --stage 'one: --time=1 -- ./look stage'
    SLURM_JOB_ID=17 SLURM_JOB_NODELIST=here limited sh muster-runs/latest/one.sh
    local name
    for name in map setup each via host graph launch fit bench sbatch squeue stage; do
        [ -s ignored.$name ] || { echo "nothing of $name"; false; }
        ! ignores ignored.$name || { echo "$name: $(cat ignored.$name)"; false; }
    done
}

@test "without /proc that is what is said" {
    unshare -rm true 2>/dev/null || skip "no user namespaces"
    [ -n "${DEAD_FS:-}" ] || skip "a sanitizer wants a /proc"
    seq 3 >in.txt
    unshare -rm sh -c 'mount -t tmpfs none /proc' 2>/dev/null || skip "nothing may be mounted"
    run unshare -rm sh -c 'mount -t tmpfs none /proc && exec "$0" map -g cpu:1 in.txt -o out.txt -- cat' "$MUSTER"
    ended_with 69
    says "/proc is not mounted"
    says_not "muster-guard is not beside"
}

@test "no name, last word or fact reaches the terminal or the log as it is" {
    local name="in$HOSTILE.txt" words
    seq 3 >"$name"
    worker fails <<'END'
#!/bin/sh
printf '\033[2J\033]0;owned\a\r\302\233 last words \342\200\256\n' >&2
exit 7
END
    "$MUSTER" map -g cpu:1 nowhere"$HOSTILE" -o out -- cat >said1 2>&1 || true
    "$MUSTER" map -g cpu:1 "$name" -o "out$HOSTILE" --runs-dir "runs$HOSTILE" -- cat >said2 2>&1
    "$MUSTER" map -g cpu:1 --run-dir "run$HOSTILE" "$name" -o "failed$HOSTILE" -- ./fails >said3 2>&1 || true
    "$MUSTER" "verb$HOSTILE" >said4 2>&1 || true
    "$MUSTER" map "--option$HOSTILE" >said5 2>&1 || true
    "$MUSTER" merge -o x "$HOSTILE" >said6 2>&1 || true
    local n=7
    for words in ls "ls --json" status "status --json" stop resume; do
        # shellcheck disable=SC2086
        "$MUSTER" $words --runs-dir "runs$HOSTILE" >said$n 2>&1 || true
        n=$((n + 1))
    done
    sqlite3 "run$HOSTILE/run.db" "INSERT OR REPLACE INTO facts VALUES ('message', char(27) || '[2J' || char(10) || 'muster: forged')"
    "$MUSTER" status "run$HOSTILE" >said20 2>&1
    "$MUSTER" gpus -g "$HOSTILE" >said21 2>&1 || true
    "$MUSTER" split "$HOSTILE" -n 2 >said22 2>&1 || true
    "$MUSTER" sim --like "$HOSTILE" >said23 2>&1 || true
    cat "runs$HOSTILE"/*/orchestrator.log "run$HOSTILE/orchestrator.log" >said24
    for words in said*; do is_harmless "$words"; done
    holds said20 '\u001b[2J\nmuster: forged'
    jq -e .output said8 >/dev/null
}

@test "logs on a terminal are text and colours" {
    seq 3 >in.txt
    map -g cpu:1 in.txt -o out.txt -- sh -c 'printf "\033[31mred\033[0m \033[2J\033]0;owned\a\302\233\n" >&2; exec cat'
    ended_with 0
    "$PYTHON" -c 'import pty, sys; pty.spawn(sys.argv[1:])' "$MUSTER" logs --stderr >shown </dev/null
    tr -d '\r' <shown | sed 's/\x1b\[[0-9;]*m//g' >text
    is_harmless text
    holds shown $'\e[31mred'
    "$MUSTER" logs --stderr >file
    holds file $'\e[2J'
}

# A model has gigabytes of zeros, which nobody reads here.
files_are() {
    find . -path ./muster-runs -prune -o -type f -size -1025k -exec cksum {} +
    find . -path ./muster-runs -prune -o -type f -size +1024k -printf '%p %i %s %T@ %C@\n'
}

# refused MUSTER'S WORDS…: status 2, and no file has changed. `says` looks at its words.
refused() {
    local before after
    before=$(files_are)
    run limited "$MUSTER" "$@"
    ended_with 2
    after=$(files_are)
    [ "$before" = "$after" ]
}

@test "no two files that a command names may be one, if it writes one of them" {
    seq 1 8 | sed 's/.*/{"a":1,"b":1}/' >s.jsonl
    cp s.jsonl s2.jsonl
    ln s.jsonl link.jsonl
    mkdir rw
    local score=(--score a=b --score-out) shards=(--shards 2 -- cp {input} {output})
    refused map -g cpu:1 "${score[@]}" so.jsonl -o ./so.jsonl s.jsonl -- cat
    says "so.jsonl: -o and --score-out are the same file; name another one"
    refused map -f -g cpu:1 "${score[@]}" link.jsonl -o o.jsonl s.jsonl -- cat
    says "link.jsonl: the input and --score-out are the same file"
    refused merge "${score[@]}" rw/../o.jsonl -o o.jsonl s.jsonl s2.jsonl
    says "rw/../o.jsonl: -o and --score-out are the same file"
    refused merge -f "${score[@]}" s2.jsonl -o o.jsonl s.jsonl s2.jsonl
    says "s2.jsonl: a file to merge and --score-out are the same file"
    refused map -g cpu:1 -f --also 'ex_{shard}=./o.txt' -o o.txt s.jsonl "${shards[@]}"
    says "./o.txt: -o and --also are the same file"
    refused map -g cpu:1 --also 'ex_{shard}=o.txt.failed.jsonl' -o o.txt s.jsonl "${shards[@]}"
    says "o.txt.failed.jsonl: the list of failed items and --also are the same file"
    refused map -g cpu:1 --run-dir rw -o rw/parts/ s.jsonl "${shards[@]}"
    says "rw/parts/ (-o) is where the run keeps its own files; name another place"
    map -g cpu:1 --run-dir rw -o rw/out.txt s.jsonl -- cat
    ended_with 0
}

@test "another command's output is not taken for a list of failed items" {
    seq 1 8 >in.txt
    map -g cpu:1 -o z.txt.failed.jsonl in.txt -- cat
    ended_with 0
    refused map -g cpu:1 -o z.txt in.txt -- cat
    says "z.txt.failed.jsonl exists and is no list of failed items" "--force"
    map -g cpu:1 -r 0 -o y.txt in.txt -- awk '$1 == 5 { exit 3 } { print; fflush() }'
    ended_with 1
    [ -s y.txt.failed.jsonl ]
    map -g cpu:1 -f -o y.txt in.txt -- cat
    ended_with 0
    [ ! -e y.txt.failed.jsonl ]
}

@test "an output that is a link is put where the link leads to, and the link stays" {
    seq 3 >in.txt
    mkdir far
    ln -s far/target.txt link.txt
    refused map -g cpu:1 in.txt -o link.txt -- cat
    says "link.txt exists; --force replaces it"
    refused merge in.txt -o link.txt
    map -f -g cpu:1 in.txt -o link.txt -- cat
    ended_with 0
    same far/target.txt in.txt
    seq 4 6 >in.txt
    run limited "$MUSTER" merge -f in.txt -o link.txt
    ended_with 0
    same far/target.txt in.txt
    ln -s far/part.txt in.part_00.txt
    run limited "$MUSTER" split --force -n 1 in.txt
    ended_with 0
    same far/part.txt in.txt
    map -g cpu:1 in.txt -o out.txt -- cat
    ln -s far/results.txt results.txt
    run limited "$MUSTER" results -o results.txt --force latest
    ended_with 0
    same far/results.txt in.txt
    [ -L link.txt ] && [ -L in.part_00.txt ] && [ -L results.txt ]
    [ "$(ls -A far | tr '\n' ' ')" = "part.txt results.txt target.txt " ]
}

@test "a file that is open already, as /dev/stdout is where it is redirected, is not replaced, also with --force" {
    seq 3 >in.txt
    echo theirs >open.txt
    local force
    for force in "" -f; do
        run limited "$MUSTER" merge $force in.txt -o /dev/fd/7 7>>open.txt
        ended_with 2
        says "/dev/fd/7 leads to " "open.txt, a file that this process has open, and is not replaced; name that file itself"
        says_not "standard output"
        run limited "$MUSTER" map $force -g cpu:1 in.txt -o /dev/fd/7 -- cat 7>>open.txt
        ended_with 2
        says "a file that this process has open, and is not replaced"
        limited "$MUSTER" merge -q $force in.txt -o /dev/stdout >>open.txt 2>said && return 1
        holds said "name that file itself, or write - for standard output"
        limited "$MUSTER" merge -q $force in.txt -o /dev/stderr 2>>errors.txt && return 1
        holds errors.txt "/dev/stderr leads to " "name that file itself"
        holds errors.txt "standard output" && return 1
    done
    printf 'jobs: {a: {run: ["true"]}}\n' >g.yaml
    run limited "$MUSTER" graph g.yaml --dry-run --plot /dev/fd/7 7>>open.txt
    ended_with 2
    says "/dev/fd/7 leads to " "name that file itself"
    says_not "-o -"
    [ "$(cat open.txt)" = theirs ]
    [ -z "$(find . -newer said -name '*.new')" ]
    limited "$MUSTER" merge -q in.txt -o /dev/stdout | cat >piped.txt
    same piped.txt in.txt
}

@test "maps, pictures and pages replace nothing without --force, and never what is read" {
    seq 1 8 >in.txt
    "$PYTHON" "$BATS_TEST_DIRNAME/plan_models.py" llama llama
    local model=llama sim=(sim --items 10 --item-time 1s --devices 1 --html)
    refused plan $model --devices 2x12GiB -o in.txt
    says "in.txt exists; --force replaces it"
    refused plan $model --devices 2x12GiB -f -o $model/config.json
    says "$model/config.json: -o names a file of the model"
    refused plan $model --devices 2x12GiB -o new.json --plot ./new.json
    says "./new.json: -o and --plot are the same file"
    refused plan $model --devices 2x12GiB -f --check in.txt --plot in.txt
    says "in.txt: the map of --check and --plot are the same file"
    refused "${sim[@]}" in.txt
    says "in.txt exists; --force replaces it"
    refused bench -g cpu:1 --force --plot in.txt -i in.txt -- cat
    says "in.txt: --input and --plot are the same file"
    run limited "$MUSTER" "${sim[@]}" in.txt -f
    ended_with 0
    holds in.txt "<html"
}
