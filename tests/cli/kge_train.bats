#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# muster kge train: what it leaves, that it goes on to the same bytes whatever stops it, and what it
# refuses. That its steps are those of PyTorch: tests/python/test_engine.py.
load helpers
load kge_train_helpers

# In the background, $pid, with its words in log: none of an earlier training's are left there.
train_begin() {
    rm -f log
    "$MUSTER" kge train "$@" 3>&- 2>log &
    pid=$!
}

# same_bytes FOLDER FOLDER: models and state, whatever else was written on the way.
same_bytes() {
    local name
    for name in final_model best_model training_state; do
        cmp "$1/$name.safetensors" "$2/$name.safetensors" || return 1
    done
}

# learned MODEL SIDE…: it knows what it was trained on; chance would be an MRR of 0.08.
learned() {
    local model=$1
    shift
    kge eval --model-path "$model" "${DATA[@]}" --test train.txt --json
    ended_with 0
    echo "$output" | "$PYTHON" -c '
import json, sys
lines = {line["side"]: line for line in (json.loads(line) for line in sys.stdin if line.startswith("{"))}
assert all(lines[side]["n"] == 192 and lines[side]["mrr"] > 0.5 for side in sys.argv[1:]), lines' "$@"
}

refused() {
    local words=$1
    shift
    train "$@"
    ended_with 2
    says "$words"
    [ ! -e model/final_model.safetensors ]
}

@test "a model that is trained answers" {
    train -o model --epochs 60 --learning-rate 0.01 --checkpoint-every 20
    ended_with 0
    says "questions in batches of 16" "epoch 60 of 60: loss " "best validation MRR"
    [ -e model/checkpoint_epoch_20.safetensors ] && [ -e model/checkpoint_epoch_60.safetensors ]
    [ ! -e model/checkpoint_epoch_30.safetensors ]
    has_lines model/training_history.jsonl 60
    "$PYTHON" -c '
import json
lines = [json.loads(line) for line in open("model/training_history.jsonl")]
assert [line["epoch"] for line in lines] == list(range(1, 61))
assert lines[-1]["loss"] < lines[0]["loss"] / 2, lines[-1]
assert all(0 < line["valid_mrr"] < 1 for line in lines), lines[-1]'
    learned model/final_model.safetensors tails
    kge check --model-path model/best_model.safetensors "${GRAPH[@]}" --pairs 50
    ended_with 0
}

@test "a model says the learning rate of its last updates, which tracin takes" {
    local i=0 epoch
    train -o model --epochs 3 --learning-rate 0.01 --lr-decay 0.5 --checkpoint-every 1
    ended_with 0
    for epoch in 1 2 3; do models[i++]=--model-path models[i++]=model/checkpoint_epoch_$epoch.safetensors; done
    kge tracin "${models[@]}" "${GRAPH[@]}" --top-k 3 -o sum.json
    ended_with 0
    says "learning rates 0.01, 0.005, 0.0025, as the checkpoints say; --learning-rate says otherwise"
    kge tracin --model-path model/final_model.safetensors "${GRAPH[@]}" --top-k 3 -o one.json
    says "learning rate 0.0025, as the checkpoint says"
    kge tracin --model-path model/training_state.safetensors "${GRAPH[@]}" --top-k 3 -o state.json --quiet
    ended_with 0
    same one.json state.json
}

@test "threads and backends: threads change no bit" {
    train -o one --epochs 3 --threads 1
    ended_with 0
    train -o three --epochs 3 --threads 3
    ended_with 0
    same_bytes one three
    train -o again --epochs 3 --threads 2
    same_bytes one again
    train -o other --epochs 3 --seed 1
    ended_with 0
    ! cmp -s one/final_model.safetensors other/final_model.safetensors
}

@test "killed at any moment, the same command ends with the same bytes" {
    local args=("${DATA[@]}" "${SMALL[@]}" --epochs 200 --batch-size 4 --checkpoint-every 50 --state-every 10ms) kills=0
    kge train "${args[@]}" -o whole
    ended_with 0
    while [ ! -e model/final_model.safetensors ]; do
        train_begin "${args[@]}" -o model
        sleep "$(awk "BEGIN { srand($RANDOM); print 0.1 * rand() * (1 + $kills / 8) }")" # a slow machine gets further in time
        [ $kills -ge 12 ] || ! kill -KILL $pid 2>/dev/null || kills=$((kills + 1))
        wait $pid || true
        [ $kills -lt 12 ] || break
    done
    echo "# $kills kills" >&3
    "$MUSTER" kge train "${args[@]}" -o model
    same_bytes whole model
    has_lines model/training_history.jsonl 200
    for epoch in 50 100 150 200; do cmp {whole,model}/checkpoint_epoch_$epoch.safetensors; done
}

# stopped_in: the epoch in which a training that was told to stop stood, as its log says.
stopped_in() { sed -n 's/.*stopped in epoch \([0-9]*\) after .*/\1/p' log; }

@test "a state that another user put there is not gone on from" {
    [ "$(id -u)" -eq 0 ] || skip "only root can give a file away"
    train -o model --epochs 2
    ended_with 0
    chown 54321 model/training_state.safetensors
    train -o model --epochs 3
    ended_with 2
    says "training_state.safetensors belongs to uid 54321" "--force begins anew"
}

@test "told to stop it saves where it stands, and goes on" {
    local stopped args=("${DATA[@]}" "${SMALL[@]}" --batch-size 4)
    kge train "${args[@]}" --epochs 1 -o model # --force clears it away
    train_begin "${args[@]}" --epochs 100000 -o model --force
    wait_for holds log "epoch 3 of"
    train -o model --epochs 20
    ended_with 2
    says "another training is at work in model"
    kill -TERM $pid
    status=0
    wait $pid || status=$?
    [ $status -eq 75 ]
    grep "the same command without --force goes on from there" log
    [ ! -e model/final_model.safetensors ]
    train -o model --batch-size 4 --epochs 1
    ended_with 2
    says "model/training_state.safetensors is " " on, past --epochs 1: more of them, or --force to begin anew"
    stopped=$(stopped_in)
    kge train "${args[@]}" --epochs $((stopped + 1)) -o model
    ended_with 0
    kge train "${args[@]}" --epochs $((stopped + 1)) -o whole
    ended_with 0
    same_bytes whole model
}

# stopped_at GOAL ARGS…: trains on until epoch GOAL is done, and is told to stop in epoch $stopped,
# which may be a later one: no machine's speed matters.
stopped_at() {
    local goal=$1
    shift
    train_begin "$@" --epochs 100000 -o model
    wait_for holds log "epoch $goal of"
    kill -TERM $pid
    status=0
    wait $pid || status=$?
    [ $status -eq 75 ]
    stopped=$(stopped_in)
}

@test "told to stop it does not wait for its update, and stands at the one before" {
    local stopped args=("${GRAPH[@]}" --embedding-dim 200 --embedding-height 10 --output-channels 16 --batch-size 2 --backend ref)
    args+=(--accumulate 1000000 --threads 2) # an update is an epoch
    stopped_at 1 "${args[@]}"
    grep "after 0 of 96 batches" log
    kge train "${args[@]}" --epochs "$stopped" -o model
    ended_with 0
    kge train "${args[@]}" --epochs "$stopped" -o whole
    ended_with 0
    cmp {whole,model}/final_model.safetensors
    cmp {whole,model}/training_state.safetensors
}

@test "told to stop while it validates, it validates again" {
    local stopped=1 args=("${GRAPH[@]}" "${SMALL[@]}" --valid many.txt --batch-size 64 --backend ref)
    for _ in {1..800}; do cat valid.txt; done >many.txt # so validating is nearly all it does
    stopped_at 2 "${args[@]}"
    until grep "after 3 of 3 batches" log || [ "$stopped" -gt 60 ]; do stopped_at $((stopped + 1)) "${args[@]}"; done
    kge train "${args[@]}" --epochs $((stopped + 1)) -o model
    ended_with 0
    says "going on in epoch $stopped, after 3 of 3 batches"
    kge train "${args[@]}" --epochs $((stopped + 1)) -o whole
    ended_with 0
    same_bytes whole model
}

@test "a second signal ends it at once, but two hangups are one" {
    local first
    for first in TERM INT HUP; do
        train_begin "${DATA[@]}" "${SMALL[@]}" --epochs 100000 -o $first
        wait_for holds log "epoch 2 of"
        kill -STOP $pid
        kill -$first $pid
        kill -HUP $pid
        kill -CONT $pid
        status=0
        wait $pid || status=$?
        [ $status -eq 75 ]
    done
    train_begin "${DATA[@]}" "${SMALL[@]}" --epochs 100000 -o model
    wait_for holds log "epoch 2 of"
    kill -STOP $pid
    kill -TERM $pid
    kill -INT $pid
    kill -CONT $pid
    status=0
    wait $pid || status=$?
    [ $status -ge 128 ]
    kge train "${DATA[@]}" "${SMALL[@]}" --epochs 1 -o model --force
    ended_with 0
}

@test "more epochs add to a finished training" {
    train -o whole --epochs 6
    ended_with 0
    train -o model --epochs 4
    train -o model --epochs 6
    ended_with 0
    says "going on in epoch 5, after 0 of "
    same_bytes whole model
    train -o model --epochs 6
    ended_with 0
    says "the training is over already, after epoch 6: a larger --epochs goes on"
    says_not "going on in epoch"
    same_bytes whole model
}

@test "what ends before the final model is there needs no epoch again" {
    train -o whole --epochs 4
    ended_with 0
    train -o model --epochs 2
    ended_with 0
    rm model/final_model.safetensors
    mkdir -p model/final_model.safetensors/in_the_way
    train -o model --epochs 4
    ended_with 2
    says "model/final_model.safetensors"
    rm -r model/final_model.safetensors
    train -o model --epochs 4
    ended_with 0
    says "the training is over already, after epoch 4"
    same_bytes whole model
}

# loss_of FOLDER: after its last epoch.
loss_of() { tail -1 "$1/training_history.jsonl" | jq .loss; }

@test "in 16 bits it learns the same, and says how far off it is" {
    local precision gradients
    train -o plain --epochs 60 --learning-rate 0.01
    train -o fp32 --epochs 60 --learning-rate 0.01 --precision fp32
    ended_with 0
    [[ $output != *"--precision"* ]]
    same_bytes plain fp32
    for precision in bf16 fp16; do
        train -o $precision --epochs 60 --learning-rate 0.01 --precision $precision
        ended_with 0
        says "--precision $precision: what fc and the scores of all entities multiply is rounded" "only emulates it, and is slower"
        gradients=$(sed -n 's/.*gradients are off by \([^ ]*\) of .*/\1/p' <<<"$output")
        jq -en "$gradients > 0 and $gradients < $([ $precision = bf16 ] && echo 2e-2 || echo 2e-3)"
        ! cmp -s plain/final_model.safetensors $precision/final_model.safetensors
        jq -en "$(loss_of $precision) / $(loss_of plain) | . > 0.9 and . < 1.1"
        learned $precision/final_model.safetensors tails
    done
    refused "--precision: expected fp32, bf16 or fp16, found 'fp61'" -o model --precision fp61
}

@test "in 16 bits threads and kills change no bit" {
    local precision args=(--epochs 150 --batch-size 4 --state-every 10ms)
    for precision in bf16 fp16; do
        train -o $precision "${args[@]}" --precision $precision --threads 1
        ended_with 0
        train_begin "${DATA[@]}" "${SMALL[@]}" "${args[@]}" --precision $precision -o killed_$precision
        wait_for holds log "epoch 9 of"
        kill -KILL $pid
        wait $pid || true
        [ ! -e killed_$precision/final_model.safetensors ]
        train -o killed_$precision "${args[@]}" --precision $precision --threads 3
        ended_with 0
        says "going on in epoch "
        same_bytes $precision killed_$precision
        train -o $precision --epochs 151 --batch-size 4
        ended_with 2
        says "other settings: precision=$precision there and nothing here"
    done
    train -o bf16 --epochs 151 --batch-size 4 --precision fp16
    ended_with 2
    says "precision=bf16 there and precision=fp16 here"
}

@test "other settings are named, and --force begins anew" {
    train -o model --epochs 2
    ended_with 0
    train -o model --epochs 4 --batch-size 8 --learning-rate 0.1
    ended_with 2
    says "training began with other settings: batch_size=16 there and batch_size=8 here, learning_rate=0.001" "--force begins anew"
    head -150 train.txt >fewer.txt
    train -o model --epochs 4 --train fewer.txt
    ended_with 2
    says "triples="
    train -o model --epochs 4 --batch-size 8 --learning-rate 0.1 --seed 9 --lr-decay 0.5 --label-smoothing 0 --one-positive
    ended_with 2
    says "questions=grouped there and questions=one-positive here, batch_size=16" "and 3 more; --force begins anew"
    train -o model --epochs 2 --batch-size 8 --force
    ended_with 0
    rm model/training_state.safetensors
    train -o model --epochs 2
    ended_with 2
    says "model/final_model.safetensors exists" "--force"
}

@test "--force takes the checkpoints of the older training away, and nothing else" {
    train -o model --epochs 6 --checkpoint-every 2
    ended_with 0
    touch model/notes.txt model/checkpoint_epoch_best.safetensors model/checkpoint_epoch_4.safetensors.bak
    train -o model --epochs 3 --checkpoint-every 3 --seed 1 --force
    ended_with 0
    [ "$(cd model && echo checkpoint*)" = "checkpoint_epoch_3.safetensors checkpoint_epoch_4.safetensors.bak checkpoint_epoch_best.safetensors" ]
    [ -e model/notes.txt ]
    rm model/{training_state,final_model}.safetensors
    train -o model --epochs 1 --seed 2
    ended_with 2
    says "model/best_model.safetensors exists and is not of this training; another -o keeps it, --force replaces it"
    rm model/best_model.safetensors
    train -o model --epochs 1 --seed 2
    ended_with 0
    says "model has 1 checkpoint that is not of this training, which stays"
    [ -e model/checkpoint_epoch_3.safetensors ]
}

@test "a state that was cut off or changed is refused" {
    train -o model --epochs 2
    ended_with 0
    cp model/training_state.safetensors kept
    head -c 5000 kept >model/training_state.safetensors
    train -o model --epochs 4
    ended_with 65
    says "model/training_state.safetensors"
    sed 's/train.epoch/train.epoxy/' kept >model/training_state.safetensors
    train -o model --epochs 4
    ended_with 65
    says "no state of training: __metadata__ has no train.epoch"
    cp model/final_model.safetensors model/training_state.safetensors
    train -o model --epochs 4
    ended_with 65
}

# with_state KEY VALUE: the state, but for one number of its metadata.
with_state() {
    "$PYTHON" - "$1" "$2" <<'END'
import json, struct, sys
data = open("kept", "rb").read()
n = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + n])
tensors = bytearray(data[8 + n:])
if sys.argv[1] in header:
    begin = header[sys.argv[1]]["data_offsets"][0]
    tensors[begin:begin + 4] = struct.pack("<f", float(sys.argv[2]))
else:
    header["__metadata__"][sys.argv[1]] = sys.argv[2]
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
open("model/training_state.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + tensors)
END
}

@test "words of a state that say too much leave room for the cure" {
    local e=$'\e'
    train -o model --epochs 2
    ended_with 0
    cp model/training_state.safetensors kept
    with_state train.settings "$(printf 'x%.0s' {1..100000}) $e]0;owned$e\\ $(printf '\u20ac%.0s' {1..1000}) $e[2J a b c d"
    train -o model --epochs 4
    ended_with 2
    says "xxxx... there and nothing here" "€€... there and nothing here" "more; --force begins anew"
    says_not "$e" owned
    with_state train.settings ""
    train -o model --epochs 4
    ended_with 2
    says " there and entities=60 here" "more; --force begins anew"
    with_state train.epoch "$(printf '9%.0s' {1..100000})"
    train -o model --epochs 4
    ended_with 65
    says "nothing to go on from (--force begins anew): model/training_state.safetensors: train.epoch"
}

@test "a state that no training comes to is refused" {
    local key value words
    train -o model --epochs 2
    ended_with 0
    cp model/training_state.safetensors kept
    while read -r key value words; do
        with_state "$key" "$value"
        train -o model --epochs 4
        ended_with 65
        says "nothing to go on from (--force begins anew): model/training_state.safetensors: $words"
    done <<'END'
train.epoch 9223372036854775808 no training comes to where it stands
train.batch 5 no training comes to where it stands
train.batch 99 it stands at batch 99 of
train.n_updates 18446744073709551615 no training comes to where it stands
train.n_questions 7 no training comes to where it stands
train.best 2 no training comes to where it stands
train.best_epoch 3 no training comes to where it stands
train.loss_sum inf train.loss_sum: expected a number, found 'inf'
train.epoch -1 train.epoch: expected a whole number, found '-1'
adam.exp_avg.fc.weight nan adam.exp_avg.fc.weight[0] is nan
adam.exp_avg_sq.fc.weight -1 adam.exp_avg_sq.fc.weight[0] is -1
bn1.running_var -1 model: bn1.running_var[0] is -1
END
    train -o model --epochs 4 --force
    ended_with 0
}

@test "a last update that leaves no numbers is found" {
    kge train "${GRAPH[@]}" "${SMALL[@]}" -o model --epochs 1 --batch-size 1000 --learning-rate 1e300
    ended_with 65
    says "a smaller --learning-rate may help: model: " " is "
    [ ! -e model/final_model.safetensors ] && [ ! -e model/training_state.safetensors ]
}

@test "questions of one positive, batches that are accumulated, and patience" {
    train -o model --epochs 3 --one-positive --accumulate 3
    ended_with 0
    says "192 questions in batches of 16"
    train -o patient --epochs 1000 --patience 2 --learning-rate 1e-9
    ended_with 0
    ! has_lines patient/training_history.jsonl 900
}

@test "reciprocal relations are trained, and asked for heads" {
    train -o model --epochs 60 --learning-rate 0.01 --reciprocal --layout height --entity-bias
    ended_with 0
    learned model/final_model.safetensors tails heads
    kge tracin --model-path model/best_model.safetensors "${GRAPH[@]}" --top-k 3 -o out.json
    ended_with 0
    kge check --model-path model/best_model.safetensors "${GRAPH[@]}" --pairs 20
    ended_with 0
}

@test "what does not go is said, with the cure" {
    kge train "${DATA[@]}"
    ended_with 2
    says "-o is needed"
    refused "--embedding-dim 24 is no multiple of --embedding-height 5" -o model --embedding-height 5
    refused "the model: a kernel" -o model --kernel-size 40
    refused "expected a number from 0 to below 1, found '1'" -o model --input-dropout 1
    refused "expected a number above 0" -o model --learning-rate 0
    refused "there is no backend 'gpu'" -o model --backend gpu
    run limited "$MUSTER" kge train --train train.txt -o model --patience 2
    ended_with 2
    says "--patience needs --valid"
    run limited "$MUSTER" kge train --train train.txt -o model --max-valid-triples 2
    ended_with 2
    says "--max-valid-triples needs --valid"
    head -1 train.txt >one.txt
    refused "batch norm needs two questions in a batch: there is 1 in the training triples, and a batch is of 16; more triples" -o model --train one.txt
    printf 'e0\tstep:1\te1\ne0\tstep:1\te2\n' >same.txt
    refused "with --one-positive each triple is a question of its own" -o model --train same.txt
    train -o model --epochs 50 --learning-rate 1e30
    ended_with 65
    says "the loss is " "a smaller --learning-rate may help"
    touch file
    train -o file/model --epochs 1
    ended_with 2
    says "create folder file/model: Not a directory"
}

@test "a device trains, the host validates, and it goes on from its state" {
    [ -n "$PLAYED_CUDA" ] || skip "no cmocka"
    export MUSTER_KGE_CUDA=$PLAYED_CUDA
    train -o whole --epochs 4 --backend cuda
    ended_with 0
    says "best validation MRR"
    train -o model --epochs 2 --backend cuda
    ended_with 0
    train -o model --epochs 4 --backend cuda
    ended_with 0
    says "going on in epoch 3"
    same_bytes whole model
    for precision in bf16 fp16; do
        train -o $precision --epochs 4 --backend cuda --precision $precision --accumulate 2
        ended_with 0
        says "--precision $precision: what fc"
        [[ $output != *emulates* ]]
        train -o less_$precision --epochs 2 --backend cuda --precision $precision --accumulate 2
        train -o less_$precision --epochs 4 --backend cuda --precision $precision --accumulate 2
        same_bytes $precision less_$precision
    done
    kge eval --backend cuda --model-path model/final_model.safetensors "${DATA[@]}"
    ended_with 2
    says "backend cuda trains and computes influences, and ranks nothing: blas or ref"
}

@test "more threads than there is room for are fewer, and none waits for ever" {
    [ -n "${DEAD_FS:-}" ] || skip "a sanitizer wants more memory than this allows"
    local kib
    train -o whole --epochs 2
    ended_with 0
    for kib in 60000 250000 500000 2000000; do
        run bash -c "ulimit -v $kib; exec timeout -k 1 60 \"\$@\"" - "$MUSTER" kge train "${DATA[@]}" "${SMALL[@]}" --threads 256 --epochs 2 -o few --force
        ended_with 0
        says "instead of 256: there is no room for more (ulimit -v, ulimit -u)"
        run bash -c "ulimit -v $kib; exec timeout -k 1 60 \"\$@\"" - "$MUSTER" kge eval "${DATA[@]}" --model-path few/final_model.safetensors --threads 256
        ended_with 0
        run bash -c "ulimit -v $kib; exec timeout -k 1 60 \"\$@\"" - "$MUSTER" kge tracin "${GRAPH[@]}" --model-path few/final_model.safetensors --threads 256 -o out.json --force
        ended_with 0
    done
    same_bytes whole few
}

@test "without memory it is a sentence, and what takes less" {
    [ -n "${DEAD_FS:-}" ] || skip "a sanitizer wants more memory than this allows"
    run bash -c "ulimit -v 60000; exec timeout -k 1 60 \"\$@\"" - "$MUSTER" kge train "${DATA[@]}" --embedding-dim 2000 --embedding-height 20 -o model --backend ref
    ended_with 75
    says "out of memory: could not get " "; fewer --threads and a smaller --batch-size take less"
    command -v dpkg >/dev/null && dpkg -s libopenblas0-pthread >/dev/null 2>&1 || skip "no OpenBLAS"
    run bash -c "ulimit -v 60000; exec timeout -k 1 60 \"\$@\"" - "$MUSTER" kge train "${DATA[@]}" -o model --backend blas
    ended_with 69
    says "OpenBLAS wants 128 MiB of addresses" "raise it, or compute with --backend ref"
}

@test "the command lines of TiePin's trainers are taken as they are" {
    local both=(--train train.txt --valid valid.txt --test test.txt --embedding-dim 12 --batch-size 8 --learning-rate 0.01 --label-smoothing 0.1)
    run limited "$MUSTER" kge train "${both[@]}" --output-dir theirs --output-channels 2 --embedding-height 3 --embedding-width 4 \
        --kernel-height 2 --kernel-width 3 --input-dropout 0.1 --feature-map-dropout 0.2 --output-dropout 0.25 --num-epochs 3 \
        --checkpoint-dir kept/checkpoints --checkpoint-frequency 2 --random-seed 42 --no-gpu --num-workers 4 --use-mixed-precision \
        --use-gradient-checkpointing --disable-memory-cleanup --track-gradients --skip-evaluation --no-early-stopping --patience 1 \
        --entity-to-id node_dict.txt --relation-to-id rel_dict.txt
    ended_with 0
    says "--num-workers has no effect" "--use-mixed-precision has no effect: use --precision" "--track-gradients has no effect"
    [ "$(compgen -G 'kept/checkpoints/*')" = kept/checkpoints/checkpoint_epoch_2.safetensors ]
    has_lines theirs/training_history.jsonl 3
    run limited "$MUSTER" kge train -q "${both[@]}" -o ours --output-channels 2 --embedding-width 4 --kernel-height 2 --input-dropout 0.1 \
        --feature-dropout 0.2 --hidden-dropout 0.25 --epochs 3 --seed 42 --entity-to-id node_dict.txt --relation-to-id rel_dict.txt
    ended_with 0
    [ -z "$output" ]
    same theirs/final_model.safetensors ours/final_model.safetensors
    run limited "$MUSTER" kge train --force "${both[@]}" -o ours --embedding-height 3 --embedding-width 5
    says "--embedding-dim 12 is not --embedding-height 3 times --embedding-width 5"
    run limited "$MUSTER" kge train "${both[@]}" -o ours --resume-from-checkpoint kept/checkpoints/checkpoint_epoch_2.safetensors
    ended_with 2
    says "goes on from the state in its own folder"
    run limited "$MUSTER" kge train "${both[@]}" -o ours --no-gpu --backend cuda
    ended_with 2
    says "--no-gpu and --backend cuda"
    run limited "$MUSTER" kge train "${both[@]}" -o ours --output-dropot 0.1
    says "unknown option '--output-dropot' (did you mean '--output-dropout'?)"
    run "$MUSTER" kge train --help
    says "--num-epochs N" "the same as --epochs"
}
