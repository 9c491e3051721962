#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Words of others on the way to a terminal, verb by verb: names, last words, answers of other programs. What map and the verbs
# about runs say is in claims.bats, what gpus and doctor say of a host that lies is in hosts_look.bats.
load helpers

# tells FILE ARGUMENT…: what that muster says, to be looked at by all_are_harmless.
tells() { limited "$MUSTER" "${@:2}" >"said-$1" 2>&1 </dev/null || true; }
all_are_harmless() {
    local file
    for file in said-*; do
        [ -s "$file" ] || { echo "$file is empty"; return 1; }
        is_harmless "$file" || return
    done
}

# ./fails: with last words of this kind.
failing_worker() {
    worker fails <<'END'
#!/bin/sh
printf '\033[2J\033]0;owned\a\r\302\233 last words \342\200\256\n' >&2
exit 7
END
}

@test "graph: names of files and jobs, commands, last words, and what status, why and retry say of them" {
    failing_worker
    printf 'vars: {n: ["\\e[2J\\u009b31m\\u202e", "b\\rc\\nmuster: forged"]}\njobs:\n  a: {for: [n], run: [./fails, "{n}"], gpus: 0}\n  z: {run: [cat], needs: a}\n' >g.yaml
    tells print graph --print g.yaml
    tells dry graph --dry-run -g cpu:1 g.yaml
    tells run graph -g cpu:1 g.yaml
    tells quiet graph -q -g cpu:1 g.yaml
    tells explain graph --explain -g cpu:1 g.yaml --redo "$HOSTILE"
    local words n=0
    for words in status "status --json" ls stop resume "why z" "hosts" "logs nosuch"; do
        # shellcheck disable=SC2086
        tells verb$n $words
        n=$((n + 1))
    done
    for words in why retry hold release cancel; do tells "$words" $words "$HOSTILE"; done
    "$MUSTER" graph --print g.yaml | jq -r .job | head -1 >name
    tells why-job why "$(cat name)"
    cp "g.yaml" "g$HOSTILE.yaml"
    tells file graph -g cpu:1 "g$HOSTILE.yaml"
    tells no-file graph -g cpu:1 "nosuch$HOSTILE.yaml"
    printf 'jobs: {"a\\e[2J": {run: x, "ne\\eeds": b}}\n' >bad.yaml
    tells bad graph bad.yaml
    tells override graph g.yaml "vars.x$HOSTILE=1"
    # What jobs of a list print is passed on as it is.
    printf '#!/bin/sh\nexit 7\n' >fails
    tells list graph -g cpu:1 -- ./fails {1} ::: "$HOSTILE"
    tells list-none graph -g cpu:1 -- "./nosuch$HOSTILE" {1} ::: a
    tells list-only graph -g cpu:1 --only "$HOSTILE" -- ./fails {1} ::: a
    tells list-header graph -g cpu:1 --header -- ./fails {1} ::: "h$HOSTILE" a
    cat muster-runs/*/orchestrator.log >said-log
    all_are_harmless
}

@test "a dry run of map: the command, the run's name, the pattern of its files" {
    seq 3 >in.txt
    tells command map --dry-run -g cpu:1 -o out.txt in.txt -- cat "$HOSTILE"
    tells shard map --dry-run -g cpu:1 -o "out$HOSTILE.txt" --also "a$HOSTILE*=b$HOSTILE" in.txt -- sh -c 'cp {input} {output}' "$HOSTILE"
    tells setup map --dry-run -g cpu:1 --env "A$HOSTILE=b" -o out.txt in.txt -- cat
    "$MUSTER" map -g cpu:1 --run-dir "run$HOSTILE" -o out.txt in.txt -- sh -c 'head -1; exec false' >/dev/null 2>&1 || true
    tells again map --dry-run -g cpu:1 --run-dir "run$HOSTILE" -o out.txt in.txt -- sh -c 'head -1; exec false'
    all_are_harmless
}

@test "merge and split: names of files, of fields and of labels" {
    local name="a$HOSTILE.jsonl"
    printf '{"id\\u009b\\u001b[2J":"\\u009b\\nmuster: forged"}\n{"id":2}\n' >"$name"
    tells merge merge --dry-run -o "out$HOSTILE.jsonl" "$name"
    tells merge-json merge --dry-run --json -o "out$HOSTILE.jsonl" "$name"
    tells merge-id merge --id "x$HOSTILE" -o out.jsonl "$name"
    tells merge-inspect merge --inspect "$name"
    tells merge-inspect-json merge --inspect --json "$name"
    "$PYTHON" - <<'END'
import json, struct
header = json.dumps({"t\x1b[2J\x9b\nmuster: forged": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
                     "__metadata__": {"k\x1b": "\x1b]0;x\x07"}}).encode()
open("a.safetensors", "wb").write(struct.pack("<Q", len(header)) + header + bytes(4))
END
    cp a.safetensors "$HOSTILE.safetensors"
    tells tensors merge --inspect a.safetensors "$HOSTILE.safetensors"
    tells tensors-json merge --inspect --json a.safetensors
    tells split split --dry-run -n 2 "$name"
    tells split-json split --dry-run --json -n 2 "$name"
    all_are_harmless
}

@test "each, fit and bench: commands, last words, what is printed" {
    failing_worker
    cp fails "fails$HOSTILE"
    tells each each -g cpu:1 -- "./nosuch$HOSTILE"
    tells each-setup each -g cpu:1 --setup "exit 3 # $HOSTILE" -- true "$HOSTILE"
    tells fit fit -g cpu:1 --start 2 -- "./fails$HOSTILE" {batch} "$HOSTILE"
    tells fit-none fit -g cpu:1 -- "./nosuch$HOSTILE" {batch}
    worker says <<'END'
#!/bin/sh
printf 'rate \033[2J\302\2335\n'
END
    tells fit-rate fit -g cpu:1 --max 2 --rate-pattern 'rate (.*)' -- ./says {batch} "$HOSTILE"
    tells fit-json fit -g cpu:1 --max 2 --json -- ./says {batch} "$HOSTILE"
    tells fit-list fit --list
    tells fit-list-json fit --list --json
    tells bench bench -g cpu:1 --rounds 1 --method "a$HOSTILE=./fails $HOSTILE" --method b=./says
    tells bench-json bench -g cpu:1 --rounds 1 --json --method "a$HOSTILE=./fails $HOSTILE" --method b=./says
    tells bench-one bench -g cpu:1 --rounds 1 -- ./fails "$HOSTILE"
    all_are_harmless
}

@test "launch: errors that ranks leave, names and files" {
    cat >record.py <<'END'
import json, os, sys
error = {"message": "\x1b[2J\x9b31m\u202e\nmuster: forged", "extraInfo": {"timestamp": "\x1b[2J\x9b", "py_callstack": "\x1b[2J\n\x9b31m"}}
json.dump({"message": error}, open(os.environ["TORCHELASTIC_ERROR_FILE"], "w"))
sys.exit(3)
END
    tells dry launch --dry-run -g cpu:2 --no-python true "$HOSTILE"
    tells name launch -g cpu:1 --no-python "./nosuch$HOSTILE"
    tells script launch "nosuch$HOSTILE.py"
    tells record launch -g cpu:2 record.py
    tells role launch -g cpu:1 --role "r$HOSTILE" --rdzv-id "i$HOSTILE" record.py
    tells conf launch -g cpu:1 --rdzv-conf "a$HOSTILE=b" record.py
    tells endpoint launch --rdzv-endpoint "a$HOSTILE:1" --nnodes 2 record.py
    tells nodes launch --nnodes "$HOSTILE" record.py
    tells hosts launch --hosts "a$HOSTILE" record.py
    printf '"a\\e[2J": "b\\u009b"\ndistributed_type: "M\\e[2J\\u009b"\n' >"acc$HOSTILE.yaml"
    tells config launch --config_file "acc$HOSTILE.yaml" record.py
    all_are_harmless
}

@test "plan: names of folders, tensors, classes and keys" {
    "$PYTHON" "$BATS_TEST_DIRNAME/plan_models.py" tiny "tiny"
    cp -r tiny "tiny$HOSTILE"
    tells plan plan "tiny$HOSTILE" --devices 1GiB
    "$PYTHON" - <<'END'
import json, pathlib
path = pathlib.Path("tiny/config.json")
config = json.loads(path.read_text())
config["architectures"] = ["\x1b[2J\x9b\nmuster: forged"]
config["model_type"] = config["torch_dtype"] = "\x1b]0;x\x07"
path.write_text(json.dumps(config))
END
    tells plan-class plan tiny --devices 1GiB --explain
    printf '{"model\\u001b[2J\\u009b\\nmuster: forged": 0, "a": "\\u001b"}' >map.json
    tells plan-check plan "tiny$HOSTILE" --devices 1GiB --check map.json
    tells plan-json plan tiny --devices 1GiB --json
    tells estimate fit --estimate "tiny$HOSTILE"
    tells estimate-json fit --estimate tiny --json
    tells plan-none plan "nosuch$HOSTILE" --devices 1GiB
    tells plan-devices plan tiny --devices "$HOSTILE"
    all_are_harmless
}

@test "submit: what sbatch, squeue and sinfo say" {
    mkdir bin
    local name
    for name in sbatch squeue sinfo scontrol sacctmgr; do
        printf '#!/bin/sh\nprintf "\\033[2J\\302\\233\\r x\\n"; printf "\\033[2J\\302\\233 error\\n" >&2; exit %d\n' 1 >bin/$name
        chmod +x bin/$name
    done
    export PATH=$PWD/bin:$PATH
    seq 3 >in.txt
    tells refused submit --time=1 "--comment=$HOSTILE" map -g cpu:1 -o out in.txt -- cat
    tells verb submit "verb$HOSTILE"
    tells option submit "--option$HOSTILE" map -o out in.txt -- cat
    printf '#!/bin/sh\necho 17\n' >bin/sbatch
    tells done submit --time=1 "--comment=$HOSTILE" --job-name "$HOSTILE" map -g cpu:1 -o "out$HOSTILE" in.txt -- cat "$HOSTILE"
    tells status status
    tells ls ls
    printf '#!/bin/sh\nprintf "17|\\033[2J\\302\\233|\\033]0;x\\a|\\033|\\033|\\033\\n"\n' >bin/squeue
    tells status-odd status
    tells ls-odd ls
    tells stop stop
    all_are_harmless
}

@test "names of hosts, in lists, in orders and in a run's snapshot" {
    seq 3 >in.txt
    local words n=0
    for words in gpus doctor "map -o out in.txt" each; do
        # shellcheck disable=SC2086
        tells reach$n $words --hosts "a$HOSTILE" --via 'sh -c "printf \"\033[2J\302\233\" >&2; exit 3" {host}' --host-timeout 2s -- cat
        # shellcheck disable=SC2086
        tells via$n $words --hosts "ab" --via 'sh -c "printf \"\033[2J\302\233 \r no way\n\" >&2; exit 3" {host}' --host-timeout 2s -- cat
        n=$((n + 1))
    done
    "$MUSTER" map -q -g cpu:1 -o out in.txt -- cat
    jq '.hosts = [{name: "a\u001b[2J\u009b\nmuster: forged", state: "up\u001b[2J", done: 1, devices: 1, workers: 1, why: "\u001b]0;x\u0007"}] | .state = "running\u001b[2J" | .host = "\u001b[2J"' muster-runs/latest/status.json >new
    cp new muster-runs/latest/status.json
    tells hosts hosts
    tells hosts-json hosts --json
    tells add hosts --add "a$HOSTILE"
    tells drop hosts --drop "a$HOSTILE"
    tells status status
    tells status-json status --json
    all_are_harmless
}
