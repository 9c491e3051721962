#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# muster kge train on several ranks: the same bits on any number of them, whatever dies in between, and what is
# refused. What one process leaves: kge_train.bats.
load helpers

setup() {
    common_setup
    "$PYTHON" "$BATS_TEST_DIRNAME/../python/small_graph.py" .
    DATA=(--train train.txt --valid valid.txt --entity-to-id node_dict.txt --relation-to-id rel_dict.txt)
    SMALL=("${DATA[@]}" --embedding-dim 24 --embedding-height 4 --output-channels 8 --batch-size 16)
}

# wide_graph: several tiles of entities, several pieces of rows and of fc's columns, and a last batch that is short.
wide_graph() {
    mkdir wide
    awk 'BEGIN { srand(1)
        for (i = 0; i < 2500; i++) print "e" i "\t" i >"wide/nodes.txt"
        for (i = 0; i < 3; i++) print "r" i "\t" i >"wide/relations.txt"
        for (i = 0; i < 280; i++)
            print "e" int(2500 * rand()) "\tr" i % 3 "\te" int(2500 * rand()) >(i < 250 ? "wide/train.txt" : "wide/valid.txt") }'
    WIDE=(--train wide/train.txt --valid wide/valid.txt --entity-to-id wide/nodes.txt --relation-to-id wide/relations.txt
        --embedding-dim 80 --embedding-height 8 --output-channels 20 --batch-size 100 --epochs 1)
}

alone() { run limited "$MUSTER" kge train "$@"; }

# ranks N ARGS…: to train on N ranks.
ranks() {
    local n=$1
    shift
    run limited "$MUSTER" launch --no-python --nproc-per-node "$n" "$MUSTER" kge train "$@"
}

# begin WORD…: in the background, $pid; what it says is in log.
begin() {
    rm -f log
    "$@" 3>&- 4>&- >log 2>&1 &
    pid=$!
}

launch_begin() {
    local n=$1
    shift
    begin "$MUSTER" launch --no-python --nproc-per-node "$n" "${LAUNCH[@]}" "$MUSTER" kge train "$@"
}

# its_end: $status and $output, as after run.
its_end() {
    status=0
    wait_for is_gone "$pid" || kill -KILL "$pid"
    wait "$pid" || status=$?
    output=$(cat log)
}

# rank_of NUMBER: the process of that rank.
rank_of() {
    local candidate
    for candidate in $(marked); do
        if grep -qsz "^RANK=$1$" "/proc/$candidate/environ" &&
            tr '\0' ' ' 2>/dev/null <"/proc/$candidate/cmdline" | grep -qE '^([^ ]*muster-)?kge train '; then
            echo "$candidate"
        fi
    done | head -1
}

# same_bytes FOLDER FOLDER
same_bytes() {
    local name
    for name in final_model best_model training_state; do
        cmp "$1/$name.safetensors" "$2/$name.safetensors" || return 1
    done
}

# Without the seconds.
history_of() { sed 's/"seconds":[^,]*//' "$1/training_history.jsonl"; }

# The epoch in which the training in log stood last.
reached() { sed -n 's/.*muster: epoch \([0-9]*\) of .*: loss.*/\1/p' log | tail -1; }

@test "one process, and 1, 2, 3, 4 and 8 ranks train the same bits" {
    wide_graph
    alone "${WIDE[@]}" -o whole
    ended_with 0
    for n in 1 2 3 4 8; do
        ranks $n "${WIDE[@]}" -o model$n
        ended_with 0
        [ "$(grep -c "epoch 1 of 1: loss" <<<"$output")" = 1 ] # rank 0 alone speaks
        same_bytes whole model$n
        [ "$(history_of whole)" = "$(history_of model$n)" ]
    done
    says "8 ranks of 1 thread"
    ranks 3 "${WIDE[@]}" -o threads --threads 2
    same_bytes whole threads
    ranks 2 "${WIDE[@]}" -o other --seed 1
    ended_with 0
    ! cmp -s whole/final_model.safetensors other/final_model.safetensors
}

@test "every kind of model and update is the same on ranks" {
    wide_graph
    local kinds=("--layout height --entity-bias --reciprocal --accumulate 2" "--precision bf16 --backend ref --output-channels 4"
        "--one-positive --batch-size 2 --train some.txt --eval-every 2")
    head -7 wide/train.txt >some.txt
    for kind in "${kinds[@]}"; do
        # shellcheck disable=SC2086
        alone "${WIDE[@]}" $kind -o whole --force
        ended_with 0
        # shellcheck disable=SC2086
        ranks 3 "${WIDE[@]}" $kind -o model --force # more ranks than there are rows, in the last
        ended_with 0
        same_bytes whole model
        [ "$(grep -o "off by .*" <<<"$output" | wc -l)" -le 1 ]
    done
}

@test "--gpus starts the ranks" {
    alone "${SMALL[@]}" --epochs 3 -o whole
    alone "${SMALL[@]}" --epochs 3 -o model --gpus cpu:2
    ended_with 0
    says "2 ranks of " "epoch 3 of 3"
    same_bytes whole model
    MUSTER_KGE_GPUS=cpu:3 MUSTER_NPROC_PER_NODE=7 alone "${SMALL[@]}" --epochs 3 -o quiet -q --reproducible
    ended_with 0
    [ -z "$output" ]
    same_bytes whole quiet
    alone "${SMALL[@]}" --epochs 3 -o none -g nonsense
    ended_with 2
    says "nonsense"
    alone "${SMALL[@]}" --epochs 3 -o none -g none
    ended_with 2
    says "--gpus takes no device" "each rank needs one (--gpus-min); --gpus cpu:N takes CPU slots"
    alone "${SMALL[@]}" --epochs 3 -o none -g cpu:65
    ended_with 2
    says "--gpus has 65 devices; ranks that start again on fewer (--gpus-min) can have 64 at most; take fewer"
    says_not "--nproc-per-node"
    alone "${SMALL[@]}" --epochs 0 -o none -g cpu:2
    ended_with 2
    says_not "rank"
    [ ! -e none ]
}

@test "with --gpus a rank that is killed starts all again, which end with the same bytes; wrong usage and a stop do not" {
    local epochs=12
    alone "${SMALL[@]}" --epochs $epochs -o whole
    for victim in 0 1; do
        begin "$MUSTER" kge train "${SMALL[@]}" --epochs $epochs --state-every 1ms -o model$victim -g cpu:2
        wait_for holds log ": loss"
        kill -KILL "$(rank_of $victim)"
        wait_for holds log "going on in epoch "
        its_end
        ended_with 0
        says "rank $victim (pid " "all ranks start again in 2.0 s (restart 1 of 3)" "going on in epoch "
        same_bytes whole model$victim
    done
    alone "${SMALL[@]}" --train nowhere.txt --epochs 3 -o none -g cpu:2
    ended_with 2
    says_not "start again"
}

@test "with --gpus and --force a single rank that starts again goes on" {
    begin "$MUSTER" kge train "${SMALL[@]}" --epochs 12 --state-every 1ms -o model --force -g cpu:1
    wait_for holds log ": loss"
    kill -KILL "$(rank_of 0)"
    its_end
    ended_with 0
    says "restart 1 of 3" "going on in epoch "
    alone "${SMALL[@]}" --epochs 12 -o whole
    same_bytes whole model
}

@test "a rank that is killed ends all and is named, and another number goes on to the same bytes" {
    local epochs LAUNCH=()
    for victim in 0 2; do
        launch_begin 3 "${SMALL[@]}" --epochs 100000 --state-every 1ms -o model
        wait_for holds log ": loss"
        kill -KILL "$(rank_of $victim)"
        its_end
        ended_with 137
        says "rank $victim (pid " "failed first: signal 9 (Killed)" "the process of rank $victim (pid "
        epochs=$(($(reached) + 2))
        ranks $((4 - victim)) "${SMALL[@]}" --epochs $epochs -o model
        ended_with 0
        says "going on in epoch "
    done
    alone "${SMALL[@]}" --epochs $epochs -o whole
    same_bytes whole model
    has_lines model/training_history.jsonl $epochs
}

@test "launch starts the ranks again, which go on, though the command says --force" {
    local epochs
    worker twice <<END
#!/bin/sh
epochs=100000
if [ "\$TORCHELASTIC_RESTART_COUNT" -gt 0 ]; then
    until [ -s goal ]; do sleep 0.02; done
    epochs=\$(cat goal)
fi
exec "$MUSTER" kge train ${SMALL[*]} --epochs \$epochs --state-every 1ms -o model --force
END
    begin "$MUSTER" launch --no-python --nproc-per-node 2 --max-restarts 1 ./twice
    wait_for holds log ": loss"
    kill -KILL "$(rank_of 1)"
    wait_for holds log "all ranks start again"
    epochs=$(($(reached) + 2))
    echo $epochs >new
    mv new goal
    its_end
    ended_with 0
    says "muster: going on in epoch "
    alone "${SMALL[@]}" --epochs $epochs -o whole
    same_bytes whole model
}

@test "with --force, ranks that start again replace another training that the first ones did not come to" {
    alone "${SMALL[@]}" --epochs 2 -o model
    ended_with 0
    worker second <<END
#!/bin/sh
[ "\$TORCHELASTIC_RESTART_COUNT" -gt 0 ] || exit 1
exec "$MUSTER" kge train ${SMALL[*]} --epochs 3 --seed 9 -o model --force
END
    run limited "$MUSTER" launch --no-python --nproc-per-node 2 --max-restarts 1 ./second
    ended_with 0
    alone "${SMALL[@]}" --epochs 3 --seed 9 -o whole
    same_bytes whole model
}

@test "a training that was started again says that the same command goes on without --force" {
    TORCHELASTIC_RESTART_COUNT=1 begin "$MUSTER" kge train "${SMALL[@]}" --epochs 100000 -o model --force
    wait_for holds log ": loss"
    kill -TERM "$pid"
    its_end
    ended_with 75
    says "the same command without --force goes on from there"
}

@test "ranks on several hosts train the same bits over TCP, and start again on all of them" {
    local epochs=12 port far
    alone "${SMALL[@]}" --epochs $epochs -o whole
    ended_with 0
    run limited "$MUSTER" launch --hosts a=cpu:1,b=cpu:2 --via env --no-python "$MUSTER" kge train "${SMALL[@]}" --epochs $epochs -o hosts
    ended_with 0
    says "3 ranks of 1 thread"
    same_bytes whole hosts
    # Two musters, each of which starts its own ranks.
    export MUSTER_DIST_BACKEND=tcp
    port=$(free_port)
    "$MUSTER" launch --nnodes 2 --node-rank 1 --master-port "$port" --nproc-per-node 2 --no-python \
        "$MUSTER" kge train "${SMALL[@]}" --epochs $epochs -o model >far 2>&1 3>&- 4>&- &
    far=$!
    begin "$MUSTER" launch --nnodes 2 --node-rank 0 --master-port "$port" --max-restarts 1 --no-python \
        "$MUSTER" kge train "${SMALL[@]}" --epochs $epochs --state-every 1ms -o model
    wait_for holds log ": loss"
    kill -KILL "$(rank_of 2)"
    wait_for holds log "going on in epoch "
    its_end
    ended_with 0
    wait $far
    says "the process of rank 2 has ended, or cannot be reached" "rank 2 (pid " "failed first: signal 9" "3 ranks of 1 thread"
    same_bytes whole model
}

@test "told to stop, ranks save where they stand, and another number goes on" {
    local epochs LAUNCH=()
    launch_begin 2 "${SMALL[@]}" --epochs 100000 -o model
    wait_for holds log ": loss"
    ranks 2 "${SMALL[@]}" --epochs 5 -o model
    ended_with 2
    says "another training is at work in model"
    kill -TERM $pid
    its_end
    ended_with 143
    says "the same command goes on from there"
    [ "$(grep -c "stopped in epoch" log)" = 1 ] # rank 0 alone speaks
    begin "$MUSTER" kge train "${SMALL[@]}" --epochs 100000 -o model --gpus cpu:3
    wait_for holds log ": loss"
    kill -TERM "$(rank_of 1)" # that all stop if one is told to
    its_end
    ended_with 75
    epochs=$(($(sed -n 's/.*stopped in epoch \([0-9]*\) after .*/\1/p' log) + 1))
    alone "${SMALL[@]}" --epochs $epochs -o model
    ended_with 0
    alone "${SMALL[@]}" --epochs $epochs -o whole
    same_bytes whole model
}

@test "told to stop while they validate, ranks validate again" {
    local epochs LAUNCH=() i
    for ((i = 0; i < 400; i++)); do cat valid.txt; done >many.txt # so validating is nearly all they do
    local args=("${SMALL[@]}" --valid many.txt --batch-size 64 --backend ref)
    launch_begin 2 "${args[@]}" --epochs 100000 -o model
    wait_for holds log ": loss"
    sleep 0.1
    kill -TERM $pid
    its_end
    ended_with 143
    says "the same command goes on from there"
    epochs=$(($(sed -n 's/.*stopped in epoch \([0-9]*\) after .*/\1/p' log) + 1))
    ranks 3 "${args[@]}" --epochs $epochs -o model
    ended_with 0
    alone "${args[@]}" --epochs $epochs -o whole
    same_bytes whole model
}

@test "ranks that cannot train say so once, with one status" {
    ranks 2 "${SMALL[@]}" --epochs 0 -o model
    ended_with 2
    says "--epochs: 0 is too small"
    worker differs <<END
#!/bin/sh
exec "$MUSTER" kge train ${SMALL[*]} --epochs 3 -o model \$(eval echo "\$DIFFERS")
END
    DIFFERS='$([ $RANK = 0 ] || echo --precision bf16)' run limited "$MUSTER" launch --no-python --nproc-per-node 2 ./differs
    ended_with 2
    says "started otherwise than rank 0: nothing there and precision=bf16 here"
    DIFFERS='$([ $RANK = 0 ] || echo --reproducible)' run limited "$MUSTER" launch --no-python --nproc-per-node 2 ./differs
    ended_with 2
    says "started otherwise than rank 0: reproducible=no there and reproducible="
    DIFFERS='--seed $RANK' run limited "$MUSTER" launch --no-python --nproc-per-node 2 ./differs
    ended_with 2
    says "started otherwise than rank 0: seed=0 there and seed=1 here" "rank 1 (pid " "failed first: status 2"
    [ ! -e model/final_model.safetensors ]
    worker unvalidated <<END
#!/bin/sh
[ \$RANK = 0 ] || more="--valid valid.txt"
exec "$MUSTER" kge train --train train.txt ${SMALL[*]:4} --epochs 3 -o model \$more
END
    run limited "$MUSTER" launch --no-python --nproc-per-node 2 ./unvalidated
    ended_with 2
    says "started otherwise than rank 0: validated=none there and validated=24 here, nothing there and eval_every=1 here"
    worker lacks <<END
#!/bin/sh
[ \$RANK = 1 ] && more="--train nowhere.txt"
exec "$MUSTER" kge train ${SMALL[*]} --epochs 3 -o model \$more
END
    run limited "$MUSTER" launch --no-python --nproc-per-node 3 ./lacks
    ended_with 2
    says "nowhere.txt"
    ranks 2 "${SMALL[@]}" --epochs 30 --learning-rate 1e30 -o model
    ended_with 65
    says "a smaller --learning-rate may help"
    [ "$(grep -c "^muster kge train: .*may help" <<<"$output")" = 1 ] # launch may repeat it
    ranks 2 "${SMALL[@]}" --epochs 3 -o node_dict.txt/model
    ended_with 2
    says "rank 0 (pid " "failed first: status 2"
    [ "$(grep -c "^muster kge train: .*node_dict.txt/model" <<<"$output")" = 1 ]
    RANK=0 WORLD_SIZE=2 MUSTER_DIST_TIMEOUT=100ms alone "${SMALL[@]}" --epochs 3 -o model
    ended_with 124
    says "rank 1 of 2 did not come"
}

@test "on devices, which are played, --reproducible gives the same bits on any number of ranks" {
    [ -n "${PLAYED_CUDA:-}" ] || skip "built without the devices that are played"
    wide_graph
    export MUSTER_KGE_CUDA=$PLAYED_CUDA
    WIDE+=(--backend cuda --batch-size 60 --output-channels 8)
    alone "${WIDE[@]}" --reproducible -o whole
    ended_with 0
    for n in 2 3; do
        ranks $n "${WIDE[@]}" --reproducible -o model$n
        ended_with 0
        same_bytes whole model$n
    done
    ranks 2 "${WIDE[@]}" -o model
    ended_with 0
    alone "${WIDE[@]}" -o whole
    ended_with 2
    says "settings: reproducible=1 there and nothing here"
}
