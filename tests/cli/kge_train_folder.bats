#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# muster kge train: what its folders hold, and that nothing there is taken for what it is not.
load helpers
load kge_train_helpers

@test "a training goes on with the validation that it began with, and with more patience" {
    local option
    head -20 valid.txt >fewer.txt
    kge train "${DATA[@]}" "${SMALL[@]}" --epochs 2 -o model
    ended_with 0
    cp -r model kept
    for option in "--valid fewer.txt" "--max-valid-triples 3" "--eval-every 2" "--test valid.txt"; do
        # shellcheck disable=SC2086
        train -o model --epochs 3 $option
        ended_with 2
        says "training began with other settings: " "--force begins anew"
    done
    kge train "${GRAPH[@]}" "${SMALL[@]}" --epochs 3 -o model
    ended_with 2
    says "other settings: validated=24 there and validated=none here"
    kge train --train train.txt "${DATA[@]:4}" "${SMALL[@]}" --epochs 3 -o model
    ended_with 2
    says "test=24/" "test=0/"
    diff -r kept model
    train -o model --epochs 3 --max-valid-triples 24 --patience 9
    ended_with 0
}

@test "a state of before goes on, which does not say how it was validated" {
    train -o model --epochs 2
    ended_with 0
    "$PYTHON" - <<'END'
import json, struct
name = "model/training_state.safetensors"
data = open(name, "rb").read()
n = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + n])
del header["__metadata__"]["train.validation"]
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
open(name, "wb").write(struct.pack("<Q", len(text)) + text + data[8 + n:])
END
    train -o model --epochs 3 --max-valid-triples 3
    ended_with 0
    says "going on in epoch 3"
    train -o model --epochs 4
    ended_with 2
    says "validated=3 there and validated=24 here"
}

@test "a best model that is gone, or another one's, is no success" {
    train -o model --epochs 3
    ended_with 0
    train -o other --epochs 3 --seed 1
    cp model/best_model.safetensors kept
    rm model/best_model.safetensors
    train -o model --epochs 3
    ended_with 2
    says "model/best_model.safetensors is gone, the best model so far, of epoch " ": put it back, or --force begins anew"
    cp other/best_model.safetensors model
    train -o model --epochs 3
    ended_with 2
    says "model/best_model.safetensors is of another training: put that of this one back, or --force begins anew"
    cp kept model/best_model.safetensors
    train -o model --epochs 3
    ended_with 0
    rm model/best_model.safetensors
    train -o model --epochs 3 --force
    ended_with 0
    same kept model/best_model.safetensors
}

@test "checkpoints of other trainings in one folder are neither replaced nor removed" {
    local args=(--checkpoint-dir all --checkpoint-every 1)
    train -o s1 --epochs 2 "${args[@]}"
    ended_with 0
    cp -r all kept
    train -o s2 --epochs 2 --seed 1 "${args[@]}"
    ended_with 2
    says "exists and is not of this training; another --checkpoint-dir keeps it, --force replaces it"
    [ ! -e s2/final_model.safetensors ]
    diff -r kept all
    train -o s2 --epochs 4 --seed 1 --checkpoint-dir all --checkpoint-every 4
    ended_with 0
    says "all has 2 checkpoints that are not of this training, which stay"
    echo mine >all/checkpoint_epoch_7.safetensors
    train -o s1 --epochs 3 "${args[@]}" # goes on
    ended_with 0
    train -o s1 --epochs 7 "${args[@]}"
    ended_with 2
    says "all/checkpoint_epoch_"
    cp -r all kept2
    # --force takes away its own, of earlier settings too, and what is in its way.
    train -o s1 --epochs 1 --seed 2 "${args[@]}" --force
    ended_with 0
    [ "$(cd all && echo *)" = "checkpoint_epoch_1.safetensors checkpoint_epoch_4.safetensors checkpoint_epoch_7.safetensors" ]
    same kept2/checkpoint_epoch_4.safetensors all/checkpoint_epoch_4.safetensors
    train -o s1 --epochs 7 --seed 2 "${args[@]}" --force
    ended_with 0
    has_lines s1/training_history.jsonl 7
    # The same training in another folder writes the same.
    train -o s3 --epochs 7 --seed 2 "${args[@]}"
    ended_with 0
}
