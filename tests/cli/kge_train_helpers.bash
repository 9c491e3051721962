# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
#
# A small graph, and models that are trained on it.

setup() {
    common_setup
    "$PYTHON" "$BATS_TEST_DIRNAME/../python/small_graph.py" .
    GRAPH=(--train train.txt --test test.txt --entity-to-id node_dict.txt --relation-to-id rel_dict.txt)
    DATA=("${GRAPH[@]}" --valid valid.txt)
    SMALL=(--embedding-dim 24 --embedding-height 4 --output-channels 8 --batch-size 16 --threads 2)
}

kge() { run limited "$MUSTER" kge "$@"; }
train() { kge train "${DATA[@]}" "${SMALL[@]}" "$@"; }
