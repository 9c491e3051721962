#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Device maps. That the maps of Accelerate's methods are Accelerate's is tested in tests/device_maps.
load helpers

model() { "$PYTHON" "$BATS_TEST_DIRNAME/plan_models.py" "$@"; }
plan() { run --separate-stderr limited "$MUSTER" plan "$@"; }
# json KEY: a member of the last line, as JSON.
json() { tail -1 <<<"$output" | "$PYTHON" -c 'import json, sys; print(json.dumps(json.load(sys.stdin)[sys.argv[1]]))' "$1"; }
# refused STATUS WORDS OPTION…
refused() {
    local status_wanted=$1 words=$2
    plan "${@:3}"
    ended_with "$status_wanted"
    [[ $stderr == *"$words"* ]] || { printf 'expected: %s\nfound: %s\n' "$words" "$stderr"; return 1; }
}

@test "a model is spread so that weights, cache and activations fit" {
    model llama llama
    plan llama --devices 2x12GiB --context 8192 --batch 2 -o map.json --plot map.svg --explain
    ended_with 0
    says "llama: 8,030,261,248 parameters in 291 tensors of 4 files, LlamaForCausalLM; weights 16-bit floats" \
        "8192 tokens * 2 sequences; 32 blocks" "gpu 0: model.embed_tokens, model.layers.0-" "model.norm, model.rotary_emb, lm_head" \
        "KV cache: 2048 elements a token in each of 32 layers that keep one (8 KV heads, of 128): 2.0 GiB" "method: optimal"
    "$PYTHON" - <<'END'
import json
import xml.etree.ElementTree as tree
keys = json.load(open("map.json"))
layers = [f"model.layers.{i}" for i in range(32)]
assert list(keys) == ["model.embed_tokens", *layers, "model.norm", "model.rotary_emb", "lm_head"], keys
assert list(keys.values()) == sorted(keys.values()) and set(keys.values()) == {0, 1}
titles = [box.text for box in tree.parse("map.svg").iter("{http://www.w3.org/2000/svg}title")]
assert len([title for title in titles if title.startswith("model.layers.")]) == 32, titles
END
    plan llama --devices 2x12GiB --context 8192 --batch 2 --json
    ended_with 0
    "$PYTHON" -c '
import json, sys
*devices, whole = map(json.loads, sys.stdin)
# 2 * 8 * 128 * 32 * 2 bytes a token; the embeddings and the head are 2 * 128256 * 4096 bytes each
assert sum(device["cache_bytes"] for device in devices) == 131072 * 8192 * 2, devices
assert sum(device["weight_bytes"] for device in devices) == 16060522496 + 2 * 64 * 2, devices
assert whole["missing_bytes"] == 0 and whole["device_map"] == json.load(open("map.json"))' <<<"$output"
}

@test "what does not fit is said, with how much is missing and what would help" {
    model llama llama
    plan llama --devices 2x10GiB --batch 4 --context 8192 -o map.json
    ended_with 1
    says "fits nowhere" "It would fit with one of these:" "another device of 10.0 GiB" "--cpu SIZE" "--disk"
    [[ $stderr == *"it does not fit: "*" are missing; "*"is the largest part without a place"* ]]
    [ ! -e map.json ]
    # What is said to help does.
    batch=$(sed -n 's/^--batch \([0-9]*\), .*/\1/p' <<<"$output")
    context=$(sed -n 's/^--context \([0-9]*\), .*/\1/p' <<<"$output")
    [ "$batch" -lt 4 ] && [ "$context" -lt 8192 ]
    plan llama --devices 2x10GiB --batch "$batch" --context 8192
    ended_with 0
    plan llama --devices 2x10GiB --batch 4 --context "$context"
    ended_with 0
    plan llama --devices 2x10GiB --batch 4 --context $((context + 1))
    ended_with 1
    plan llama --devices 3x10GiB --batch 4 --context 8192
    ended_with 0
    plan llama --devices 2x10GiB --cpu 64GiB --batch 4 --context 8192 -o map.json
    ended_with 0
    grep -q '"cpu"' map.json
    plan llama --devices 20GiB --dtype float32
    ended_with 1
    says "--dtype bfloat16, half the bytes"
}

@test "Accelerate's methods are there by their names, and the table says what they forget" {
    model llama llama
    plan llama --devices 3x10GiB --method balanced_low_0 -o -
    ended_with 0
    [ "$(grep -c ': 0' <<<"$output")" -lt "$(grep -c ': 1' <<<"$output")" ]
    plan llama --devices 10GiB,10GiB --method sequential --context 8192 --batch 4 -o sequential.json
    ended_with 1
    says "lacks"
    grep -q '"lm_head": 1' sequential.json
    plan llama --devices 6GiB,6GiB --method sequential -o none.json
    ended_with 1
    [ ! -e none.json ]
    plan llama --devices 14GiB,14GiB --method optimal --context 8192 --batch 4
    ended_with 0
    plan llama -g sim:2xH100:80GiB --method auto --json
    ended_with 0
    [ "$(json method)" = '"balanced"' ]
    says '"label":"gpu 0 (H100)"'
    plan llama -g cpu:2 --json --context 1
    says '{"device":"cpu"'
    says_not '"device":"0"'
}

@test "a faster device gets more of the model, if time is to be least" {
    model llama llama
    plan llama --devices 40GiB,40GiB=3 --goal stage --json
    ended_with 0
    "$PYTHON" -c '
import json, sys
slow, fast, _ = map(json.loads, sys.stdin)
share = fast["weight_bytes"] / slow["weight_bytes"]
assert 2.6 < share < 3.4, share' <<<"$output"
    plan llama --devices 40GiB,40GiB=3 --json
    "$PYTHON" -c '
import json, sys
slow, fast, _ = map(json.loads, sys.stdin)
assert 0.8 < fast["weight_bytes"] / slow["weight_bytes"] < 1.25' <<<"$output"
}

@test "files of torch and of llama.cpp are read as well" {
    model tiny tiny
    plan tiny --devices 2x1GiB --reserve 0 --json
    expected=$(json device_map)
    [ "$(json weight_type_bytes)" = 4 ]
    model torch-shards shards
    plan shards --devices 2x1GiB --reserve 0 --json
    ended_with 0
    [ "$(json device_map)" = "$expected" ]
    # Without config.json the storage that two tensors share is what is known: they stay together.
    model torch torch
    plan torch --devices 3KiB,20KiB --reserve 0 --json
    ended_with 0
    [[ $stderr == *"no config.json names an architecture: the order of modules is guessed"* ]]
    [ "$(json is_guessed)" = true ]
    json device_map | "$PYTHON" -c 'import json, sys
keys = json.load(sys.stdin)
find = lambda name: next(device for key, device in keys.items() if key == "" or (name + ".").startswith(key + "."))
assert find("lm_head") == find("model.embed_tokens"), keys'
    model gguf gguf
    plan gguf --devices 512MiB,1GiB --reserve 64MiB --json
    ended_with 0
    # 256 elements of Q4_K have 144 bytes, 32 of Q8_0 have 34.
    "$PYTHON" -c '
import json, sys
*devices, whole = map(json.loads, sys.stdin)
weights = 4096 * 32000 // 256 * 144 + 4096 * 32000 // 32 * 34 + 4096 * 4
weights += 4 * (4096 * 4 + 4096 * 4096 // 256 * 144 + 4096 * 11008 // 32 * 34)
assert sum(device["weight_bytes"] for device in devices) == weights, devices
assert whole["blocks"] == 4 and whole["cache_bytes"] == 4 * 2 * 8 * 128 * 2 * 2048 and whole["context"] == 2048' <<<"$output"
    expected=$(json device_map)
    model gguf-split split
    plan split/m-00002-of-00002.gguf --devices 512MiB,1GiB --reserve 64MiB --json
    ended_with 0
    [ "$(json device_map)" = "$expected" ]
    rm split/m-00001-of-00002.gguf
    refused 65 "is one of 2 files, and split/m-00001-of-00002.gguf is not there" split/m-00002-of-00002.gguf --devices 1GiB
}

@test "a given map is checked" {
    model tiny tiny
    plan tiny --devices 2x1GiB --reserve 0 -o map.json
    plan tiny --devices 2x1GiB --reserve 0 --check map.json
    ended_with 0
    says "gpu 0: model.embed_tokens"
    echo '{"": "cuda:1"}' >all.json
    plan tiny --devices 2x1GiB --reserve 0 --check all.json
    ended_with 0
    says "gpu 1: all"
    check() {
        echo "$1" >bad.json
        refused 1 "$2" tiny --devices 2x1GiB --reserve 0 --check bad.json
    }
    check '{"model": 0}' "'lm_head.weight' has no device"
    check '{"model": 0, "lm_head": 7}' "'lm_head' is on 7, which is none of the devices"
    check '{"": 0, "lm_head": 1}' "'lm_head.weight' has 2 devices"
    check '{"model": 0, "lm_head": 1, "head": 1}' "'head' is no module of the model"
    check '{"model": 0, "model": 1, "lm_head": 1}' "'model' is there twice"
    check '{"model.embed_tokens": 0, "model.layers.0.mlp": 1, "model.layers.0": 0, "model.layers": 0, "model.norm": 0, "lm_head": 0}' "has 3 devices"
    check '{"model.embed_tokens": 0, "model.layers.0.mlp": 1, "model.layers.0.self_attn": 0, "model.layers.0.input_layernorm": 0, "model.layers.0.post_attention_layernorm": 0, "model.layers.1": 0, "model.layers.2": 0, "model.layers.3": 0, "model.norm": 0, "lm_head": 0}' \
        "'model.layers.0' is cut: a block must be on one device"
    refused 1 "it does not fit" tiny --devices 1KiB,1KiB --reserve 0 --check map.json
    echo '[]' >bad.json
    refused 65 "bad.json: it is no JSON object" tiny --devices 1GiB --check bad.json
    refused 2 "nosuch" tiny --devices 1GiB --check nosuch
    "$PYTHON" - <<'END'
import json
config = json.load(open("tiny/config.json"))
config["tie_word_embeddings"] = True
json.dump(config, open("tiny/config.json", "w"))
END
    check '{"model": 0, "lm_head": 1}' "'model.embed_tokens.weight' and 'lm_head.weight' are tied, and on two devices"
}

@test "layers keep the cache that config.json says" {
    model tiny tiny
    cache() {
        "$PYTHON" -c 'import json, sys
config = json.load(open("tiny/config.json"))
config.update(json.loads(sys.argv[1]))
json.dump(config, open("tiny/config.json", "w"))' "$1"
        plan tiny --devices 1GiB --context 1000 --batch 3 --json
        ended_with 0
        [ "$(json cache_bytes)" = "$2" ] || { json cache_bytes; return 1; }
    }
    # 2 * one KV head of 4 elements of 4 bytes, for each token
    cache '{}' $((32 * 4 * 1000 * 3))
    cache '{"sliding_window": 16, "layer_types": ["sliding_attention", "full_attention", "linear_attention", "sliding_attention"]}' \
        $((32 * 3 * (16 + 1000 + 0 + 16)))
    cache '{"layer_types": null, "qk_nope_head_dim": 5, "qk_rope_head_dim": 2, "v_head_dim": 3}' $((2 * 10 * 4 * 4 * 3000))
    cache '{"v_head_dim": null, "num_attention_heads": null, "num_key_value_heads": null, "n_heads": 2}' $((64 * 4 * 3000))
}

@test "what config.json does not let compute is said to be missing" {
    model tiny tiny
    plan tiny --devices 1GiB --reserve 0 --context 100 --json
    ended_with 0
    [ "$(json is_partial)" = false ]
    sed -i 's/"num_\(attention_heads\|key_value_heads\)": .,//g' tiny/config.json
    plan tiny --devices 1GiB --reserve 0 --context 100 --json
    ended_with 0
    [ "$stderr" = "muster: the KV cache is not counted: config.json does not say how the layers are made" ]
    [ "$(json cache_bytes)" = 0 ] && [ "$(json is_partial)" = true ]
    # s (4 h + 2 i) e + 4 v, for which the number of heads is not needed
    [[ $output == *'"reserve_bytes":'$((100 * (4 * 8 + 2 * 16) * 4 + 4 * 32))','* ]]
    rm tiny/config.json
    plan tiny --devices 1GiB
    ended_with 0
    [[ $stderr == *"KV cache and activations are not counted: config.json is not beside the weights"* ]]
}

@test "an architecture that is not in the table is said, and may be described" {
    model tiny tiny
    sed -i 's/LlamaForCausalLM/OtherForCausalLM/' tiny/config.json
    plan tiny --devices 2x1GiB --reserve 0 -o -
    ended_with 0
    [[ $stderr == *"OtherForCausalLM is not in the table of architectures"* ]]
    [ "$(sed -n 2p <<<"$output")" = '  "model.embed_tokens": 0,' ]
    [ "$(tail -2 <<<"$output" | head -1)" = '  "lm_head": 1' ]
    plan tiny --devices 2x1GiB --reserve 0 --layout 'lm_head model.norm model.layers.*! model.embed_tokens' -o -
    ended_with 0
    [ -z "$stderr" ]
    [ "$(sed -n 2p <<<"$output")" = '  "lm_head": 0,' ]
    refused 2 "'model!!' is no module of a layout" tiny --devices 1GiB --layout 'model!!'
}

@test "bad input gets a sentence and a status" {
    model tiny tiny
    refused 2 "no devices: -g all" tiny
    refused 2 "give one model" --devices 1GiB
    refused 2 "the last object of --json has device_map" tiny --devices 1GiB --json -o -
    refused 2 "not both" tiny -g all --devices 1GiB
    refused 2 "'x' is no size of a device" tiny --devices 1GiB,x
    refused 2 "'24' is no size of a device, such as 24GiB, 4x24GiB or 80GiB=2: 24 bytes" tiny --devices 24
    refused 2 "more than 1024 devices" tiny --devices 1000x1GiB,25x1GiB
    refused 2 "expected optimal, balanced" tiny --devices 1GiB --method best
    refused 2 "there is no such file or folder" nosuch --devices 1GiB
    mkdir empty
    refused 2 "it has no model.safetensors" empty --devices 1GiB
    model gguf gguf
    cp gguf/tiny.gguf cut.gguf
    truncate -s 300000 cut.gguf
    refused 65 "cut.gguf: byte " cut.gguf --devices 1GiB
    truncate -s 200 cut.gguf
    refused 65 "the file ends within its header" cut.gguf --devices 1GiB
    printf 'GGUF\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' >old.gguf
    refused 65 "GGUF of version 1" old.gguf --devices 1GiB
    printf 'GGUF\3\0\0\0\377\377\377\377\377\377\377\377\0\0\0\0\0\0\0\0' >many.gguf
    refused 65 "more tensors, or values, than any has" many.gguf --devices 1GiB
    model torch torch
    truncate -s 1000 torch/pytorch_model.bin
    refused 65 "torch/pytorch_model.bin" torch --devices 1GiB
    echo '{"num_hidden_layers":4,"num_attention_heads":1000000000,"head_dim":1000000000,"hidden_size":8}' >tiny/config.json
    refused 65 "more bytes than any machine" tiny --devices 1GiB --context 1000000000 --batch 1000000000
}
