#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Shards of one output that several runs share: map --part and --take.
load helpers

setup() { common_setup; }

# Writes the numbers of its range, and notes that it ran.
part() { map -g cpu:2 --items 20 --shards 7 -o out.txt "$@" -- sh -c 'echo {shard} >>ran; [ ! -e bad.{shard} ] || exit 3; seq {start} $(({start}+{count}-1)) >{output}'; }

@test "runs that each do a part make no output, and the run that takes them all runs nothing" {
    seq 0 19 >wanted.txt
    for k in 0 1 2; do
        part --part $k/3 --run-dir tasks/$k
        ended_with 0
        says "part $k of 3:"
        [ ! -e out.txt ]
    done
    [ "$(sort -n ran | tr '\n' ' ')" = "0 1 2 3 4 5 6 " ]
    part --take tasks --run-dir whole
    ended_with 0
    same wanted.txt out.txt
    [ "$(wc -l <ran)" = 7 ]
    [ -e tasks/0/shard-output/shard_0.txt ] # not below this run, so not its own to remove
}

@test "what no part has done is run by the run that takes them, and a file that is gone is made again" {
    seq 0 19 >wanted.txt
    part --part 0/3 --run-dir whole/tasks/0
    part --part 2/3 --run-dir whole/tasks/2
    rm whole/tasks/2/shard-output/shard_6.txt
    mkdir whole/tasks/1 && echo junk >whole/tasks/1/run.db
    : >ran
    part --take whole/tasks --run-dir whole
    ended_with 0
    same wanted.txt out.txt
    [ "$(sort -n ran | tr '\n' ' ')" = "3 4 6 " ]
    grep -q "take passes over .*/whole/tasks/1: " whole/orchestrator.log
    [ ! -e whole/tasks/0/shard-output ] # below this run, and in the output
}

@test "a run takes what is beside it in the folder of --take, and not itself" {
    seq 0 19 >wanted.txt
    part --part 0/2 --run-dir tasks/p0
    : >ran
    part --take tasks --run-dir tasks/whole
    ended_with 0
    same wanted.txt out.txt
    [ "$(sort -n ran | tr '\n' ' ')" = "4 5 6 " ]
    # the link of the runs' folder to the newest run is the run itself
    rm out.txt
    part --part 1/2 --runs-dir runs
    : >ran
    part --take runs --runs-dir runs
    ended_with 0
    same wanted.txt out.txt
    [ "$(sort -n ran | tr '\n' ' ')" = "0 1 2 3 " ]
    # ... or one of those that are taken
    rm out.txt
    part --part 0/1 --runs-dir all
    part --take all --run-dir last
    ended_with 0
    same wanted.txt out.txt
    grep -q "the results of 1 run are taken from " last/orchestrator.log
}

@test "the summary, status and status.json of shards count the same items, of a part its own" {
    touch bad.2
    part -r 0 --run-dir whole --on-finish 'cat >finish'
    ended_with 1
    says "out.txt: 17 of 20 items, 6 of 7 shards"
    [ "$(jq -c '[.items, .done, .failed, .shards]' finish)" = '[20,17,3,{"all":7,"done":6,"failed":1}]' ]
    [ "$(jq -c '[.items, .done, .aside]' whole/status.json)" = "[20,17,3]" ]
    [ "$("$MUSTER" status --json whole | jq -c '[.items, .done, .aside]')" = "[20,17,3]" ]
    rm out.txt
    for k in 0 1; do
        part -r 0 --part $k/2 --run-dir tasks/$k --on-finish 'cat >finish'
        mv finish finish.$k
    done
    [ "$(jq -c '[.items, .done, .failed, .shards]' finish.0)" = '[12,9,3,{"all":4,"done":3,"failed":1}]' ]
    [ "$("$MUSTER" status --json tasks/0 | jq -c '[.items, .done, .aside]')" = "[12,9,3]" ]
    "$MUSTER" status tasks/0 | grep -q "^go on  *muster resume $PWD/tasks/0 --retry-failed"
    [ "$(jq -c '[.items, .done, .failed, .shards]' finish.1)" = '[8,8,0,{"all":3,"done":3,"failed":0}]' ]
    [ "$(jq -c '[.items, .done, .aside]' tasks/1/status.json)" = "[8,8,0]" ]
    [ "$("$MUSTER" status --json tasks/1 | jq -c '[.items, .done, .aside, .state]')" = '[8,8,0,"finished"]' ]
    seq 3 >in.txt
    map -g cpu:1 in.txt -o plain.txt --on-finish 'cat >finish' -- cat
    [ "$(jq -c '[.items, .done, .failed, .shards]' finish)" = '[3,3,0,null]' ]
}

@test "a shard that a part set aside stays set aside, and can be tried again" {
    touch bad.4
    part --retries 1 --part 1/3 --run-dir tasks/1
    ended_with 1
    says "reasons in $PWD/tasks/1/failed.jsonl"
    [ "$(jq .shard tasks/1/failed.jsonl)" = 4 ]
    : >ran
    part --retries 1 --take tasks --run-dir whole
    ended_with 1
    ! grep -q 4 ran
    [ "$(jq .shard out.txt.failed.jsonl)" = 4 ]
    rm bad.4
    seq 0 19 >wanted.txt
    run limited "$MUSTER" resume whole --retry-failed -f
    ended_with 0
    same wanted.txt out.txt
}

@test "a resume may have another command than the parts that it took" {
    touch bad.4
    part --retries 0 --part 1/3 --run-dir tasks/1
    part --retries 0 --take tasks --run-dir whole
    ended_with 1
    seq 0 19 >wanted.txt
    run limited "$MUSTER" resume whole --retry-failed -- sh -c 'seq {start} $(({start}+{count}-1)) >{output}'
    ended_with 0
    same wanted.txt out.txt
}

@test "a part that was ended goes on in its folder" {
    touch bad.1
    part --part 0/3 --run-dir tasks/0
    ended_with 1
    rm bad.1
    : >ran
    run limited "$MUSTER" resume tasks/0 --retry-failed
    ended_with 0
    [ "$(cat ran)" = 1 ]
}

@test "parts of other work are not taken, and what cannot be a part is refused" {
    part --part 0/3 --run-dir tasks/0
    map -g cpu:2 --items 20 --shards 7 -o out.txt --take tasks --run-dir whole -- sh -c 'seq {count} >{output}'
    ended_with 2
    says "--take: the run in $PWD/tasks/0 is about other shards, another command or another seed"
    part --part 3/3
    ended_with 2
    says "--part: expected a whole number" || says "--part: expected K/N"
    part --part 0/8
    ended_with 2
    says "--part: 7 shards have no 8 parts"
    map -g cpu:2 --items 20 --part 0/2 -o out.txt -- sh -c 'seq {count} >{output}'
    ended_with 2
    says "--part needs --shards"
    map -g cpu:2 --items 20 --shards 4 --part 0/2 -o out.txt -- sh -c 'seq {count} >{output}; echo {run}'
    ended_with 2
    says "{run} would differ between the parts"
    map -g cpu:2 --part 0/2 --items 4 -o out.txt -- cat
    ended_with 2
    says "is for shard commands"
    part --take nowhere
    ended_with 2
    says "--take nowhere: No such file or directory"
}
