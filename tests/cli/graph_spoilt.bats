#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Files of a job that others changed after it had ended. They are checked before a job that needs them starts: it does not
# start, and the sentence, the status and the explanations say why.
load helpers

graph() { run --separate-stderr limited "$MUSTER" graph -q -g cpu:2 "$@"; }
why() { run "$MUSTER" why "$@"; }
effects() { sort effects | tr '\n' ' '; }
gate_runs() { "$MUSTER" why gate 2>/dev/null | grep -q "^gate: runs since"; }
has_effect() { grep -qsx "$1" effects; }
prepares() { "$MUSTER" why use 2>/dev/null | grep -q "looked at first"; }
ended() { ! kill -0 $PID 2>/dev/null; }
spoilt_is_told() { "$MUSTER" status | grep -q spoilt; }

# In the background, with a job `gate` that waits for the file `go`.
graph_begin() {
    "$MUSTER" graph -q -g cpu:2 "$@" >said 2>&1 3>&- 4>&- &
    PID=$!
    wait_for gate_runs
}

# The jobs of stdin come behind `make`, which leaves a folder. Once the gate runs, whoever reads this folder has to wait for
# the file `walked`.
slow_graph_begin() {
    [ -n "${SLOW_FS:-}" ] || skip "not with a sanitizer"
    cat >g.yaml <<'END'
defaults: {shell: true, gpus: 0}
jobs:
  make: {run: 'mkdir -p slow-folder; echo 1 >slow-folder/f', out: slow-folder/}
  gate: {run: 'rm walking walked; until [ -e go ]; do sleep 0.02; done', needs: make}
END
    cat >>g.yaml
    touch walked
    LD_PRELOAD=$SLOW_FS graph_begin g.yaml
}

@test "a job that writes what another one has left: a sentence and a status, and nothing is built on it" {
    cat >g.yaml <<'END'
defaults: {shell: true, gpus: 0}
jobs:
  make: {run: 'echo make >>effects; echo right >made', out: made}
  spoils: {run: 'echo spoils >>effects; [ -e mended ] || echo wrong >>made', needs: make}
  use: {run: 'echo use >>effects; cat made >used', needs: [make, spoils], out: used, retries: 2}
END
    graph g.yaml
    ended_with 1
    [[ $stderr == *"make: $PWD/made, which it left, was changed after it had ended, by another job or somebody else; the job runs again next time, and all that needs it"* ]]
    [ "$(effects)" = "make spoils " ]
    [ ! -e used ]
    why make use
    says "make: done, but $PWD/made, which it left, was changed after it had ended, by another job or somebody else; it runs again when the graph goes on" \
        "use: failed 1 of 1, it was not started: $PWD/made, which make left, was changed after that had ended"
    run "$MUSTER" status
    says "message   1 job is done, but with files that were changed since" "make 1/1 (1 spoilt)" \
        "make: done, but $PWD/made" "use: failed 1 of 1, it was not started"
    run "$MUSTER" status --json
    says '"message":"1 job is done, but with files that were changed since'
    [ "$("$MUSTER" status | sed -n 's/^progress *//p')" = "1 of 3 jobs (33.3 %), 1 failed" ]
    touch mended
    graph g.yaml
    ended_with 0
    [ "$(cat used)" = right ]
    [ "$(effects)" = "make make spoils spoils use " ]
    why make
    says "make: done, in "
    touch made # is no change
    graph g.yaml
    ended_with 0
    [ "$(effects)" = "make make spoils spoils use " ]
}

@test "the last job of a run spoils a file: status, why and the next session know it" {
    cat >g.yaml <<'END'
defaults: {shell: true, gpus: 0}
jobs:
  make: {run: 'echo make >>effects; echo right >made', out: made}
  spoils: {run: '[ -e mended ] || echo wrong >made', needs: make}
END
    graph g.yaml
    ended_with 1
    [[ $stderr == *"make: $PWD/made, which it left, was changed"* ]]
    why make spoils
    says "make: done, but $PWD/made, which it left, was changed after it had ended" "spoils: done, in "
    run "$MUSTER" status
    says "make 1/1 (1 spoilt)" "message   1 job is done, but with files that were changed since"
    echo right >made # somebody mends it
    graph g.yaml
    ended_with 0
    [ "$(effects)" = "make " ]
    why make
    says "make: done, in "
    run "$MUSTER" status
    says_not "spoilt" "message"
}

@test "while a graph runs, why says that a file was written since, and followers are not started on it" {
    cat >g.yaml <<'END'
defaults: {shell: true, gpus: 0}
jobs:
  made: {for: [k], run: 'mkdir -p d{k}; echo a >d{k}/f; echo b >f{k}', out: ["d{k}/", "f{k}"]}
  gate: {run: 'until [ -e go ]; do sleep 0.02; done', needs: made}
  use: {for: [k], run: 'echo {k} >>effects', needs: [gate, made]}
vars: {k: [touched, same, size, inside, gone, link]}
END
    graph_begin g.yaml
    touch ftouched dtouched/f
    echo b >fsame
    echo bb >fsize
    echo c >new
    touch -r finside new
    echo z >dinside/f
    rm fgone
    touch -r flink new
    mv new flink # the same size and time
    why made/touched made/size made/gone
    says "made/touched: done; $PWD/ftouched, which it left, was written or touched since" \
        "made/size: done; $PWD/fsize, which it left, was written or touched since" "made/gone: done"
    touch go
    wait $PID || RC=$?
    [ "$RC" = 1 ]
    [ "$(effects)" = "gone same touched " ]
    why use/size use/inside use/link
    says "use/size: failed 1 of 1, it was not started: $PWD/fsize, which made/size left" \
        "use/inside: failed 1 of 1, it was not started: $PWD/dinside, which made/inside left" \
        "use/link: failed 1 of 1, it was not started: $PWD/flink, which made/link left"
    run "$MUSTER" status
    says "made 6/6 (3 spoilt)"
}

@test "a spoilt file that is as it was again is none: its follower runs with muster retry" {
    cat >g.yaml <<'END'
defaults: {shell: true, gpus: 0}
jobs:
  make: {run: 'echo right >made', out: made}
  gate: {run: 'until [ -e go ]; do sleep 0.02; done', needs: make}
  use: {run: 'cat made >used', needs: [make, gate], out: used}
  long: {run: 'until [ -e end ]; do sleep 0.02; done', needs: make}
END
    graph_begin g.yaml
    echo wrong >made
    touch go
    wait_for spoilt_is_told
    why use
    says "use: failed 1 of 1, it was not started: $PWD/made, which make left, was changed" "again: muster retry use"
    echo right >made
    run "$MUSTER" retry use
    ended_with 0
    wait_for test -e used
    touch end
    wait $PID
    why make use
    says "make: done, in " "use: done, in "
}

@test "a job that is to end while its files are looked at does not begin" {
    slow_graph_begin <<'END'
  use: {run: 'echo use >>effects', needs: [make, gate]}
END
    touch go
    wait_for test -e walking
    wait_for prepares
    run "$MUSTER" cancel use
    ended_with 0
    touch walked
    wait $PID || true
    [ ! -e effects ]
    why use
    says "use: cancelled"
}

@test "a folder that takes long to be walked through holds up its job alone" {
    [ -n "${SLOW_FS:-}" ] || skip "not with a sanitizer"
    mkdir slow-folder
    echo 1 >slow-folder/model
    echo 1 >in
    cat >g.yaml <<'END'
defaults: {gpus: 0}
jobs:
  reads: {map: {worker: cat, input: in, output: out}, in: slow-folder, gpus: 1}
  gate: {run: [sh, -c, 'until [ -e go ]; do sleep 0.02; done'], gpus: 0}
  other: {run: [touch, other], gpus: 0, needs: gate}
END
    LD_PRELOAD=$SLOW_FS graph_begin g.yaml
    wait_for test -e walking
    touch go
    wait_for test -e other
    run timeout 5 "$MUSTER" why reads
    ended_with 0
    says "reads: runs since " "; files that it needs are looked at first"
    [ ! -e out ]
    touch walked
    wait $PID
    same in out
}

@test "a run that is to end does not look at files first" {
    slow_graph_begin </dev/null
    wait_for test ! -e walking
    kill -INT $PID
    wait $PID || RC=$?
    [ "$RC" = 130 ]
    [ ! -e walking ]
}

@test "a signal while files are looked at in the end ends that at once, and takes nothing of what was done" {
    slow_graph_begin <<'END'
  last: {run: 'echo last >>effects; touch left', needs: gate, out: left}
END
    touch go
    wait_for has_effect last
    wait_for test -e walking
    kill -INT $PID
    wait_for ended
    touch walked
    wait $PID || RC=$?
    [ "$RC" = 130 ]
    graph g.yaml
    ended_with 0
    [ "$(effects)" = "last " ]
}

@test "a look at a folder that took long is not repeated for the next job" {
    slow_graph_begin <<'END'
  one: {run: 'echo one >>effects', needs: [make, gate]}
  two: {run: 'ls walking walked >>looked 2>/dev/null || true', needs: [make, one]}
END
    wait_for test ! -e walked
    touch go
    wait_for test -e walking
    sleep 1
    rm walking
    touch walked
    wait $PID
    [ "$(effects)" = "one " ]
    [ "$(cat looked)" = walked ]
}
