#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Options of `muster graph` that decide how a run begins, how many jobs run, and what is drawn.
load helpers

graph() { run --separate-stderr limited "$MUSTER" graph -q -g "${DEVICES:-cpu:2}" "$@"; }
ask() { sqlite3 muster-runs/latest/run.db "$1" | tr '\n' ' '; }

@test "--plot draws the schedule: SVG or a page, as the name of the file says" {
    printf 'jobs: {train: {for: {n: 1..3}, run: "sleep {n}", gpus: 1}}\n' >g.yaml
    graph --dry-run --plot p.svg g.yaml
    ended_with 0
    "$PYTHON" - <<'END'
import xml.etree.ElementTree as xml
root = xml.parse("p.svg").getroot()
assert root.tag == "{http://www.w3.org/2000/svg}svg", root.tag
items = [r for r in root.iter("{http://www.w3.org/2000/svg}rect") if r.get("class") == "item"]
assert len(items) == 3, len(items)
END
    graph --dry-run --plot p.html g.yaml
    ended_with 0
    [ "$(head -c 15 p.html)" = "<!doctype html>" ]
    grep -q "3 of 3 jobs would run" p.html
    grep -q '<svg viewBox' p.html
    graph --dry-run --plot p.svg g.yaml
    ended_with 2
    [[ $stderr == *"p.svg exists; --overwrite replaces it"* ]]
    graph --dry-run --overwrite --plot p.svg g.yaml
    ended_with 0
    cp g.yaml before.yaml
    graph --dry-run --overwrite --plot ./g.yaml g.yaml
    ended_with 2
    [[ $stderr == *"./g.yaml: the graph and --plot are the same file"* ]]
    cmp g.yaml before.yaml
    graph --dry-run --plot nowhere/p.svg g.yaml
    ended_with 2
    [[ $stderr == *"nowhere/p.svg"*"there is no folder nowhere"* ]]
    graph --plot p.svg g.yaml
    ended_with 2
    [[ $stderr == *"--plot"*"--dry-run"* ]]
}

@test "--plot has a row for each device, by its name, and a job of two devices is in both" {
    printf 'jobs: {two: {run: sleep 1, gpus: 2}, one: {run: sleep 1, gpus: 1, needs: two}}\n' >g.yaml
    graph --dry-run --plot p.svg g.yaml
    ended_with 0
    "$PYTHON" - <<'END'
import xml.etree.ElementTree as xml
svg = "{http://www.w3.org/2000/svg}"
root = xml.parse("p.svg").getroot()
labels = [t.text for t in root.iter(svg + "text")]
assert labels[:2] == ["cpu 0", "cpu 1"], labels
items = [r for r in root.iter(svg + "rect") if r.get("class") == "item"]
drawn = sorted((float(r.get("x")), int(r.get("y"))) for r in items)
assert [y for _, y in drawn] == [18, 36, 18], drawn
assert drawn[0][0] == drawn[1][0] < drawn[2][0], drawn
END
}

@test "--halt starts nothing new after the first failure, and the run goes on without it" {
    printf 'jobs: {a: {for: {n: 1..4}, run: "sh job {n}"}}\n' >g.yaml
    echo 'echo $1 >>ran; [ $1 != 1 ] || [ -e cured ]' >job
    graph -j 1 --halt g.yaml
    ended_with 1
    [ "$(tr -d '\n' <ran)" = 1 ]
    graph -j 1 g.yaml
    ended_with 1
    [ "$(tr -d '\n' <ran)" = 11234 ]
    touch cured
    graph --halt g.yaml
    ended_with 0
    [ "$(tr -d '\n' <ran)" = 112341 ]
    graph --halt now,fail=1 -g cpu:1 -- true {} ::: 1 # as GNU parallel has it
    ended_with 2
    [[ $stderr == *"'now,fail=1' is taken for a file of jobs, and a command stands behind --: leave one out"* ]]
}

@test "-j: no more jobs at a time than that, whatever is free" {
    echo 'echo b >>log; sleep 0.3; echo e >>log' >job
    graph -j 1 -- sh job {} ::: 1 2 3
    ended_with 0
    [ "$(tr -d '\n' <log)" = bebebe ]
    rm log
    graph -j 2 -- sh job {} ::: 1 2 3 4
    ended_with 0
    [[ $(tr -d '\n' <log) == bb* && $(tr -d '\n' <log) != *bbb* ]]
}

@test "--detach returns when the run has begun, and an error before that is told" {
    printf 'jobs: {a: {run: "sh job"}}\n' >g.yaml
    echo 'until [ -e over ]; do sleep 0.05; done; echo done' >job
    graph --detach g.yaml
    ended_with 0
    run "$MUSTER" status
    says "running"
    graph g.yaml
    ended_with 69
    touch over
    ended() { [ "$(ask "SELECT value FROM facts WHERE key = 'state'")" = "finished " ]; }
    wait_for ended
    [ "$(tail -n 1 muster-runs/latest/logs/a_stdout.log)" = done ]
    rm over
    graph --detach --redo a g.yaml
    run limited "$MUSTER" stop --now
    echo 'sleep 1; echo done' >job
    run limited "$MUSTER" resume
    ended_with 0
    [ "$(ask "SELECT value FROM facts WHERE key = 'state'")" = "finished " ]
    graph --detach nosuch.yaml
    ended_with 2
    [[ $stderr == *nosuch.yaml* ]]
}

@test "--header names the sources, and --colsep divides arguments" {
    printf 'lr,seed\n0.1,7\n0.2,8\n' >table.csv
    graph --header --colsep , -- echo "lr={lr} seed={seed} {2}" :::: table.csv
    ended_with 0
    [ "$(sort <<<"$output")" = "$(printf 'lr=0.1 seed=7 7\nlr=0.2 seed=8 8')" ]
    [ "$(ask "SELECT name FROM jobs ORDER BY name")" = "job/lr=0.1,seed=7 job/lr=0.2,seed=8 " ]
    graph --header -- echo "{model}" ::: model a b
    ended_with 0
    [ "$(sort <<<"$output" | tr '\n' ' ')" = "a b " ]
    graph --colsep : -- echo "{2}-{1}" ::: a:b c:d
    ended_with 0
    [ "$(sort <<<"$output" | tr '\n' ' ')" = "b-a d-c " ]
}

# Each example is a file of experiments, or lines of which each is a key of a job, or overrides of the first.
@test "the examples of muster-graph(5) are accepted" {
    "$PYTHON" - "$BATS_TEST_DIRNAME/../../docs/man/muster-graph.5" <<'END'
import re
import sys

page = open(sys.argv[1]).read()
head = "vars: {data: [MATH, TLDR], model: [gemma, phi], round: 1..2, size: [1, 7]}\njobs:\n  j:\n"
usual = {"for": "[data, model, round, size]", "run": "x", "out": '"{model}{data}{round}{size}"'}
n = 0
for block in re.findall(r"\.Bd -literal[^\n]*\n(.*?)\n\.Ed", page, re.S):
    if "jobs:" in block:
        open("whole.yaml", "w").write(block + "\n")
    elif re.match(r"\w+\.", block):
        open("overrides", "w").write("\n".join(block.split()) + "\n")
    else:
        for line in block.split("\n"):
            key = line.split(":")[0]
            left_out = {key} | ({"run"} if key in ("map", "launch") else set()) | ({"out"} if key == "for" else set())
            others = "".join(f"    {k}: {v}\n" for k, v in usual.items() if k not in left_out)
            open(f"line{n}.yaml", "w").write(f"{head}    {line}\n{others}")
            n += 1
END
    local file words
    mapfile -t words <overrides
    [ "${#words[@]}" -gt 3 ]
    run limited "$MUSTER" graph --dry-run -g cpu:2 whole.yaml "${words[@]}"
    ended_with 0
    local lines=(line*.yaml)
    [ "${#lines[@]}" -ge 7 ]
    for file in whole.yaml "${lines[@]}"; do
        run limited "$MUSTER" graph --dry-run -g cpu:2 "$file"
        ended_with 0
    done
}
