#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# muster kge tracin --output-dir: a folder holds results of one kind, whatever command comes next.
load helpers

setup() {
    common_setup
    "$PYTHON" "$BATS_TEST_DIRNAME/../python/small_graph.py" .
    DATA=(--train train.txt --entity-to-id node_dict.txt --relation-to-id rel_dict.txt)
    # --test is read, too: a batch has its own.
    "$MUSTER" kge train -q "${DATA[@]}" --embedding-dim 24 --embedding-height 4 --output-channels 8 --epochs 2 --checkpoint-every 1 -o m
    MODEL=m/checkpoint_epoch_1.safetensors
}

kge() { run limited "$MUSTER" kge "$@"; }
batch() { kge tracin --model-path "$MODEL" "${DATA[@]}" --test-triples test.txt --output-dir bs --top-k 3 "$@"; }

# unchanged: no file of the batch differs from what was kept.
unchanged() { diff -r kept bs; }

@test "a batch goes on with its own command alone, and says what differs" {
    batch
    ended_with 0
    batch --skip-existing
    ended_with 0
    says "24 test triples: 0 computed, 24 skipped"
    head -100 train.txt >tr2.txt
    sed '3s/step:[0-9]*/step:7/; 4s/step:[0-9]*/step:1/' test.txt >te2.txt
    [ "$(cat test.txt)" != "$(cat te2.txt)" ]
    cp -r bs kept
    local option
    for option in "--model-path m/final_model.safetensors" "--train tr2.txt" "--learning-rate 5" "--layers fc" "--loss one-vs-all" \
        "--order value" "--dtype float64" "--path-filtering" "--min-degree 5" "--n-hops 3" "--top-k 5" "--test-triples te2.txt" \
        "--no-preserve-test-edges" "--precision bf16"; do
        # shellcheck disable=SC2086
        batch --skip-existing $option
        ended_with 2
        says "bs holds results of a batch with other settings: " "--force removes them and begins anew, another --output-dir keeps them"
        # shellcheck disable=SC2086
        batch $option
        ended_with 2
        says "other settings"
        unchanged
    done
    batch --skip-existing --top-k 5 --loss one-vs-all
    says "--top-k=3 there, --top-k=5 here, --loss=one-vs-all here"
    # What changes no result is no other setting, nor is a default that is given, and the place of the folder.
    mv bs elsewhere
    batch --output-dir elsewhere --skip-existing --threads 1 --memory 1G --batch-size 7 --n-hops 2 --min-degree 2 --max-triples 5 --start-index 3
    ended_with 0
    says "5 test triples: 0 computed, 5 skipped"
    # Of another checkpoint in the same place too.
    cp m/final_model.safetensors "$MODEL"
    batch --output-dir elsewhere --skip-existing
    ended_with 2
    says "other settings: checkpoint "
}

@test "a batch that ended early goes on, in this process and on devices" {
    batch --max-triples 10
    ended_with 0
    batch --skip-existing
    ended_with 0
    says "24 test triples: 14 computed, 10 skipped"
    rm bs/triple_00*
    batch --skip-existing -g cpu:2
    ended_with 0
    says "24 test triples: 10 computed, 14 skipped"
    batch --skip-existing -g cpu:2 --top-k 4
    ended_with 2
    says "other settings: --top-k=3 there, --top-k=4 here"
}

@test "a batch does not replace the summary of another one unasked" {
    batch --max-triples 4
    ended_with 0
    cp -r bs kept
    batch --start-index 4
    ended_with 2
    says "bs/batch_tracin_summary.json exists; --skip-existing goes on with what is missing, --force replaces it"
    batch --skip-tracin
    ended_with 2
    says "bs/batch_tracin_summary.json exists"
    unchanged
    batch --start-index 4 --skip-existing
    ended_with 0
    [ "$(compgen -G 'bs/*_tracin.json' | wc -l)" = 24 ]
    # The filter alone, and then the rest of it.
    batch --output-dir two --skip-tracin
    ended_with 0
    batch --output-dir two --skip-existing
    ended_with 0
    says "24 computed"
}

@test "--force takes the results of other settings away, and leaves those of the same, and what is the user's" {
    batch
    ended_with 0
    echo mine | tee bs/notes.txt bs/triple_notes_tracin.json bs/filtered_training/mine.txt >/dev/null
    batch --force --max-triples 2
    ended_with 0
    [ "$(compgen -G 'bs/triple_0*_tracin.json' | wc -l)" = 24 ]
    batch --force --top-k 5 --max-triples 2
    ended_with 0
    [ "$(compgen -G 'bs/triple_0*_tracin.*' | wc -l)" = 4 ]
    [ "$(compgen -G 'bs/filtered_training/triple_0*' | wc -l)" = 2 ]
    [ "$(cat bs/notes.txt bs/triple_notes_tracin.json bs/filtered_training/mine.txt)" = $'mine\nmine\nmine' ]
    batch --top-k 5 --skip-existing
    ended_with 0
    says "22 computed, 2 skipped"
}

@test "results of which nothing says what they were computed from are not gone on with" {
    batch
    rm bs/batch_tracin_settings.txt
    cp -r bs kept
    batch --skip-existing
    ended_with 2
    says "_tracin.csv exists, and no batch_tracin_settings.txt says what it was computed from: --force replaces it"
    batch --force --max-triples 2
    ended_with 2
    says "from: remove it, or name another --output-dir"
    unchanged
    batch --force
    ended_with 0
    batch --skip-existing
    says "24 skipped"
}
