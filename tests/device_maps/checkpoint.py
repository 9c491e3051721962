# SPDX-License-Identifier: Apache-2.0
"""A recorded model (see README.md) as the files that save_pretrained would leave: config.json, and safetensors whose
tensors are holes, so that a model of any size takes a few blocks of disk."""
import json
import math
import os
import re
import struct

NAMES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
         "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL", "complex64": "C64", "float8_e4m3fn": "F8_E4M3"}
BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1, "C64": 8,
         "F8_E4M3": 1}
SHARD_BYTES = 5 * 10**9


class Model:
    def __init__(self, name, class_name):
        self.name, self.class_name, self.config, self.lines, self.maps = name, class_name, None, [], []


def models(path):
    """Each model of a file."""
    model = None
    for line in path.read_text(encoding="utf-8").splitlines():
        word, _, rest = line.partition(" ")
        if word == "model":
            if model:
                yield model
            model = Model(*rest.split())
        elif word == "config":
            model.config = json.loads(rest)
        elif word == "map":
            model.maps.append(rest)
        elif word != "whole":
            model.lines.append(line)
    yield model


def tree(lines):
    """(kind, words, children) of lines that are indented by one space a level."""
    root = []
    stack = [root]
    for line in lines:
        depth = len(line) - len(line.lstrip(" "))
        kind, *words = line.split()
        node = (kind, words, [])
        stack[depth].append(node)
        stack[depth + 1:] = [node[2]]
    return root


def tensors(nodes, prefix="", seen=None):
    """(name, type, shape) of what a checkpoint has: no buffers that are not persistent, tied tensors once."""
    seen = set() if seen is None else seen
    for kind, words, children in nodes:
        if kind == "m":
            first, _, last = words[0].partition("..")
            numbers = range(int(first), int(last) + 1) if last else [first]
            for number in numbers:
                yield from tensors(children, f"{prefix}{number}.", seen)
            continue
        tie = next((word for word in words if word.startswith("=")), None)
        if "fleeting" in words or tie in seen:
            continue
        if tie:
            seen.add(tie)
        shape = [int(size) for size in re.findall(r"\d+", words[2])]
        yield prefix + words[0], NAMES[words[1]], shape


def shard_write(path, members):
    header, at = {}, 0
    for name, kind, shape in sorted(members, key=lambda member: (-BYTES[member[1]], member[0])):
        size = BYTES[kind] * math.prod(shape)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}, separators=(",", ":")).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + at)


def write(folder, model, shard_bytes=SHARD_BYTES):
    """Writes the model's files into the folder."""
    shards, filled = [[]], 0
    for member in tensors(tree(model.lines)):
        size = BYTES[member[1]] * math.prod(member[2])
        if shards[-1] and filled + size > shard_bytes:
            shards.append([])
            filled = 0
        shards[-1].append(member)
        filled += size
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(model.config, file)
    if len(shards) == 1:
        shard_write(os.path.join(folder, "model.safetensors"), shards[0])
        return
    weight_map = {}
    for number, members in enumerate(shards, 1):
        name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        shard_write(os.path.join(folder, name), members)
        weight_map.update({member[0]: name for member in members})
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as file:
        json.dump({"metadata": {}, "weight_map": weight_map}, file)
