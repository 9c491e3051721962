#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small models for the tests of muster plan.

    plan_models.py KIND FOLDER

Kinds: llama (sparse safetensors of Llama 3 8B's sizes), tiny (the same names, 4 layers of a few KiB), torch (tiny, as
pytorch_model.bin whose head shares the embeddings' storage), torch-shards, gguf, gguf-split, large (140 GB in 30 files).
"""
import json
import os
import pathlib
import struct
import sys

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "device_maps"), str(TESTS / "python")]
import checkpoint  # noqa: E402
import torch_like  # noqa: E402


def llama_tensors(hidden, inner, layers, kv, vocab):
    yield "model.embed_tokens.weight", [vocab, hidden]
    shapes = {"self_attn.q_proj": [hidden, hidden], "self_attn.k_proj": [kv, hidden], "self_attn.v_proj": [kv, hidden],
              "self_attn.o_proj": [hidden, hidden], "mlp.gate_proj": [inner, hidden], "mlp.up_proj": [inner, hidden],
              "mlp.down_proj": [hidden, inner], "input_layernorm": [hidden], "post_attention_layernorm": [hidden]}
    for i in range(layers):
        for name, shape in shapes.items():
            yield f"model.layers.{i}.{name}.weight", shape
    yield "model.norm.weight", [hidden]
    yield "lm_head.weight", [vocab, hidden]


def config_write(folder, hidden, inner, layers, heads, kv_heads, vocab, **more):
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden, "intermediate_size": inner,
              "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads, "vocab_size": vocab,
              "max_position_embeddings": 8192, "tie_word_embeddings": False, "torch_dtype": "bfloat16", **more}
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)


def shards_write(folder, members, n_files):
    per_file, where = -(-len(members) // n_files), {}
    for number in range(n_files):
        part = members[number * per_file:(number + 1) * per_file]
        name = f"model-{number + 1:05d}-of-{n_files:05d}.safetensors"
        checkpoint.shard_write(os.path.join(folder, name), part)
        where.update({member[0]: name for member in part})
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as file:
        json.dump({"metadata": {"total_size": 0}, "weight_map": where}, file)


def sized(folder, hidden, inner, layers, heads, kv_heads, vocab, n_files):
    config_write(folder, hidden, inner, layers, heads, kv_heads, vocab)
    kv = hidden // heads * kv_heads
    shards_write(folder, [(name, "BF16", shape) for name, shape in llama_tensors(hidden, inner, layers, kv, vocab)], n_files)


TINY = {"hidden": 8, "inner": 16, "layers": 4, "kv": 4, "vocab": 32}


def tiny(folder):
    config_write(folder, 8, 16, 4, 2, 1, 32, torch_dtype="float32")
    members = [(name, "F32", shape) for name, shape in llama_tensors(**TINY)]
    checkpoint.shard_write(os.path.join(folder, "model.safetensors"), members)


def torch_state():
    state = {}
    for name, shape in llama_tensors(**TINY):
        n = shape[0] * (shape[1] if len(shape) > 1 else 1)
        state[name] = torch_like.Tensor(torch_like.Storage(torch_like.FloatStorage, bytes(4 * n)), shape)
    state["lm_head.weight"] = torch_like.Tensor(state["model.embed_tokens.weight"].storage, [32, 8])
    return state


def torch(folder):
    with open(os.path.join(folder, "pytorch_model.bin"), "wb") as file:
        file.write(torch_like.saved(torch_state()))


def torch_shards(folder):
    state, where = torch_state(), {}
    config_write(folder, 8, 16, 4, 2, 1, 32, torch_dtype="float32")
    for number, names in enumerate((list(state)[:20], list(state)[20:]), 1):
        file_name = f"pytorch_model-0000{number}-of-00002.bin"
        with open(os.path.join(folder, file_name), "wb") as file:
            file.write(torch_like.saved({name: state[name] for name in names}))
        where.update({name: file_name for name in names})
    with open(os.path.join(folder, "pytorch_model.bin.index.json"), "w", encoding="utf-8") as file:
        json.dump({"weight_map": where}, file)


# ---- GGUF ----

BLOCKS = {"F32": (0, 1, 4), "Q8_0": (8, 32, 34), "Q4_K": (12, 256, 144)}


def text(word):
    return struct.pack("<Q", len(word)) + word.encode()


def gguf_value(value):
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    if isinstance(value, list):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
    return struct.pack("<II", 4, value)


def gguf_write(path, values, tensors, version=3):
    """Tensors are holes; the last one is not padded."""
    out, at, end = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(values)), 0, 0
    for key, value in values.items():
        out += text(key) + gguf_value(value)
    for name, kind, dims in tensors:
        number, elements, size = BLOCKS[kind]
        n = dims[0] * (dims[1] if len(dims) > 1 else 1)
        out += text(name) + struct.pack(f"<I{len(dims)}Q", len(dims), *dims) + struct.pack("<IQ", number, at)
        end = at + n // elements * size
        at = -(-end // 32) * 32
    with open(path, "wb") as file:
        file.write(out)
        file.truncate(-(-len(out) // 32) * 32 + end)


VALUES = {"general.architecture": "llama", "llama.block_count": 4, "llama.context_length": 2048, "llama.embedding_length": 4096,
          "llama.attention.head_count": 32, "llama.attention.head_count_kv": 8, "llama.feed_forward_length": 11008,
          "tokenizer.ggml.tokens": ["token"] * 32000}


def gguf_tensors():
    yield "token_embd.weight", "Q4_K", [4096, 32000]
    for i in range(4):
        yield f"blk.{i}.attn_norm.weight", "F32", [4096]
        yield f"blk.{i}.attn_q.weight", "Q4_K", [4096, 4096]
        yield f"blk.{i}.ffn_up.weight", "Q8_0", [4096, 11008]
    yield "output_norm.weight", "F32", [4096]
    yield "output.weight", "Q8_0", [4096, 32000]


def gguf(folder):
    gguf_write(os.path.join(folder, "tiny.gguf"), VALUES, list(gguf_tensors()))


def gguf_split(folder):
    tensors = list(gguf_tensors())
    gguf_write(os.path.join(folder, "m-00001-of-00002.gguf"), VALUES, tensors[:5], version=2)
    gguf_write(os.path.join(folder, "m-00002-of-00002.gguf"), {"split.no": 1}, tensors[5:], version=2)


def llama(folder):
    sized(folder, 4096, 14336, 32, 32, 8, 128256, 4)


def large(folder):
    sized(folder, 8192, 28672, 80, 64, 8, 128256, 30)


if __name__ == "__main__":
    kind, where_to = sys.argv[1:]
    os.makedirs(where_to)
    {"llama": llama, "tiny": tiny, "torch": torch, "torch-shards": torch_shards, "gguf": gguf, "gguf-split": gguf_split,
     "large": large}[kind](where_to)
