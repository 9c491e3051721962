#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Records device maps of Accelerate, for the test that muster makes the same ones: of the public models of models.py, each in
a file, and of small drawn trees of modules in drawn.txt. Models are built on the meta device, so nothing is downloaded. It
needs torch, transformers and accelerate.

    record.py FOLDER [NAME]...      all models, or those of these names; drawn is a name, too
    record.py --seed N FILE COUNT   other drawn trees

The format of the files: README.md beside this one.
"""
import json
import logging
import os
import random
import re
import sys
import warnings

# Sets of names decide about the order of groups of tied parameters.
if os.environ.get("PYTHONHASHSEED") != "0":
    os.execve(sys.executable, [sys.executable] + sys.argv, {**os.environ, "PYTHONHASHSEED": "0"})

import torch
import transformers
from accelerate.utils import modeling
from torch import nn

from models import MODELS


# ---------------------------------------------------------------- the model as text


class Tree:
    """The lines of a model: modules, each with its tensors and its modules below, indented by their depth."""

    def __init__(self, model):
        self.order = {}
        self.ties = {}
        self.shared = {}
        for tensor in self.tensors(model):
            self.shared[id(tensor)] = self.shared.get(id(tensor), 0) + 1
        self.lines = self.module(model, "")

    def tensors(self, module):
        yield from (t for t in module._parameters.values() if t is not None)
        yield from (t for t in module._buffers.values() if t is not None)
        for _, child in module.named_children():
            yield from self.tensors(child)

    def tensor(self, kind, name, tensor, module):
        words = [kind, name, str(tensor.dtype).removeprefix("torch."), str(list(tensor.shape)).replace(" ", "")]
        if kind == "b" and name in module._non_persistent_buffers_set:
            words.append("fleeting")
        if self.shared[id(tensor)] > 1:
            words.append(f"={self.ties.setdefault(id(tensor), len(self.ties) + 1)}")
        return " ".join(words)

    def module(self, module, path):
        """The lines of what is in a module."""
        self.order[path] = len(self.order)
        dotted = path + "." if path else ""
        lines = []
        for kind, tensors in (("p", module._parameters), ("b", module._buffers)):
            for name, tensor in tensors.items():
                if tensor is not None:
                    lines.append(self.tensor(kind, name, tensor, module))
                    self.order[dotted + name] = len(self.order)
        children = [[name, name, type(child).__name__, self.module(child, dotted + name)]
                    for name, child in module.named_children()]
        for first, last, kind, below in joined(children):
            lines.append(f"m {first if first == last else first + '..' + last} {kind}")
            lines += [" " + line for line in below]
        return lines


def joined(children):
    """Modules with numbers for names, which differ in nothing else, as one."""
    found = []
    for child in children:
        last = found[-1] if found else None
        if (last and last[2:] == child[2:] and last[1].isdigit() and child[0].isdigit()
                and int(child[0]) == int(last[1]) + 1 and not any(" =" in line for line in child[3])):
            last[1] = child[1]
        else:
            found.append(child)
    return found


# ---------------------------------------------------------------- maps


class Case:
    def __init__(self, method, limits, *flags):
        self.method, self.limits, self.flags = method, limits, flags

    def words(self):
        limits = ",".join(str(v) if isinstance(k, int) else f"{k}={v}" for k, v in self.limits.items()) or "-"
        return " ".join(["map", self.method, limits, *self.flags])

    def device_map(self, model, whole):
        limits, is_free = dict(self.limits), "free" in self.flags
        real = modeling.get_max_memory
        modeling.get_max_memory = lambda given=None: dict(limits) if given is None else real(given)
        try:
            if self.method != "sequential":
                limits = modeling.get_balanced_memory(
                    model, max_memory=None if is_free else limits, no_split_module_classes=whole,
                    low_zero=self.method == "balanced_low_0")
            return modeling.infer_auto_device_map(
                model, max_memory=limits, no_split_module_classes=whole, clean_result="pieces" not in self.flags,
                fallback_allocation="fallback" in self.flags)
        finally:
            modeling.get_max_memory = real


def key_split(key):
    """Around its last number."""
    match = re.fullmatch(r"((?:.*\.)?)(\d+)((?:\.\D[^.]*)*)", key)
    return (match[1], int(match[2]), match[3]) if match else (key, None, "")


def map_words(tree, found):
    """Keys in the order of the model; those that differ in a number, and follow each other, as one."""
    runs = []
    for key in sorted(found, key=tree.order.__getitem__):
        before, number, after = key_split(key)
        last = runs[-1] if runs else None
        if last and number is not None and last[:2] == [before, after] and last[4] == found[key] and last[3] == number - 1:
            last[3] = number
        else:
            runs.append([before, after, number, number, found[key]])
    for before, after, first, last, device in runs:
        number = "" if first is None else str(first) if first == last else f"{first}..{last}"
        yield f"{before}{number}{after}={device}"


def map_line(tree, model, whole, case):
    """
    None if Accelerate fails, or if its map depends on the order of a set. It fails if it cannot find a module around a
    tied parameter (IndexError), and at sizes with a fraction of a byte (AttributeError).
    """
    real = modeling.find_tied_parameters
    maps = []
    ties = sorted(real(model))
    for order in (1, -1) if len(ties) > 1 else (1,):
        modeling.find_tied_parameters = lambda model, order=order: ties[::order]
        try:
            maps.append(case.device_map(model, whole))
        except (IndexError, AttributeError):
            return None
        finally:
            modeling.find_tied_parameters = real
    return " ".join([case.words(), *map_words(tree, maps[0])]) if maps[0] == maps[-1] else None


def gpus(*sizes, **others):
    return {**{i: int(size) for i, size in enumerate(sizes)}, **{name: int(size) for name, size in others.items()}}


def cases_of(size):
    """What is asked of a model of this size: even and uneven GPUs, too small ones, offloading."""
    yield Case("auto", gpus(*[size] * 2, cpu=size))
    yield Case("auto", gpus(*[size * 0.4] * 3, cpu=size))
    yield Case("auto", gpus(*[size * 0.3] * 4, cpu=size))
    yield Case("auto", gpus(*[size * 0.16] * 8, cpu=size))
    yield Case("auto", gpus(size * 0.2, size * 0.45, size * 0.7, cpu=size))
    yield Case("auto", gpus(size * 0.3, size * 0.25, cpu=size * 0.3))
    yield Case("auto", gpus(size * 0.3, size * 0.3))
    yield Case("auto", gpus(size * 2))
    yield Case("auto", gpus(size * 1.05, cpu=size), "free")
    yield Case("auto", gpus(size * 0.4, 0, size * 0.7, cpu=size))
    yield Case("auto", gpus(*[size * 0.02] * 2, cpu=size * 0.05))
    yield Case("auto", gpus(cpu=size * 0.6))
    yield Case("balanced_low_0", gpus(*[size * 0.7] * 2, cpu=size))
    yield Case("balanced_low_0", gpus(*[size * 0.35] * 4, cpu=size))
    yield Case("balanced_low_0", gpus(*[size * 0.3] * 3, cpu=size), "pieces")
    yield Case("sequential", gpus(*[size * 0.4] * 4, cpu=size))
    yield Case("sequential", gpus(size * 0.3, size * 0.2, cpu=size * 0.2), "pieces")
    yield Case("sequential", gpus(size * 0.03, size * 0.05, size, cpu=size), "fallback")


def record(out, model, whole, cases):
    tree = Tree(model)
    out.write(f"whole {' '.join(whole) or '-'}\n")
    out.writelines(line + "\n" for line in tree.lines)
    for case in cases:
        line = map_line(tree, model, whole, case)
        if line:
            out.write(line + "\n")


def model_size(model):
    return modeling.compute_module_sizes(model)[""]


# ---------------------------------------------------------------- public models


def model_build(model_type, auto, dtype, config):
    classes = transformers.AutoConfig.for_model(model_type, **config)
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = getattr(transformers, auto).from_config(classes, dtype=getattr(torch, dtype))
    model.config.architectures = [type(model).__name__]
    return model


def model_record(folder, name, model_type, auto, dtype, config):
    model = model_build(model_type, auto, dtype, config)
    with open(os.path.join(folder, name + ".txt"), "w", encoding="utf-8") as out:
        text = json.dumps(json.loads(model.config.to_json_string(use_diff=True)), separators=(",", ":"))
        out.write(f"model {name} {type(model).__name__}\nconfig {text}\n")
        record(out, model, sorted(model._no_split_modules or []), cases_of(model_size(model)))


# ---------------------------------------------------------------- drawn trees


class Cut(nn.Module):
    """A module that may be cut."""


class Block(nn.Module):
    pass


class Tower(nn.Module):
    pass


NAMES = ["a", "b", "model", "c_model", "head", "a_b"]


def drawn_module(rng, depth, parameters, tie_odds):
    module = rng.choice([Cut, Cut, Cut, Block, Tower])()
    for i in range(rng.choice([0, 0, 1, 1, 2])):
        shape = (rng.choice([0, 1, 2, 3, 5, 8, 20, 60]),)
        dtype = rng.choice([torch.float16, torch.float32, torch.int64])
        if parameters and rng.random() < tie_odds:
            setattr(module, f"w{i}", rng.choice(parameters))
            continue
        parameter = nn.Parameter(torch.empty(shape, dtype=dtype, device="meta"), requires_grad=False)
        setattr(module, f"w{i}", parameter)
        parameters.append(parameter)
    if rng.random() < 0.2:
        dtype = rng.choice([torch.float32, torch.float32, torch.bool])
        buffer = torch.empty((rng.choice([1, 8, 13, 40]),), dtype=dtype, device="meta")
        module.register_buffer("table", buffer, persistent=rng.random() < 0.5)
    if depth > 0:
        for i in range(rng.choice([0, 1, 2, 3, 4] if depth < 3 else [2, 3, 4, 6])):
            name = str(i) if rng.random() < 0.5 else rng.choice(NAMES)
            if name not in module._modules:
                module.add_module(name, drawn_module(rng, depth - 1, parameters, tie_odds))
    return module


def drawn_case(rng, size):
    limits = gpus(*[size * rng.choice([0, 0.03, 0.1, 0.2, 0.4, 0.6, 1.2]) for _ in range(rng.randint(0, 5))])
    if rng.random() < 0.6:
        limits["cpu"] = int(size * rng.choice([0.05, 0.2, 0.5, 2]))
    flags = [flag for flag, odds in (("pieces", 0.2), ("fallback", 0.35), ("free", 0.15)) if rng.random() < odds]
    method = rng.choice(["auto", "balanced_low_0", "sequential"])
    return Case(method, limits, *[flag for flag in flags if flag != "free" or method != "sequential"])


def drawn_record(path, seed, count):
    rng = random.Random(seed)
    with open(path, "w", encoding="utf-8") as out:
        for number in range(count):
            model = drawn_module(rng, 3, [], rng.choice([0, 0, 0.02, 0.05]))
            whole = rng.choice([[], ["Block"], ["Block", "Tower"]])
            out.write(f"model drawn-{number} {type(model).__name__}\n")
            record(out, model, whole, [drawn_case(rng, model_size(model) * rng.choice([1, 1, 2])) for _ in range(5)])


def main(args):
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    logging.disable()
    if args and args[0] == "--seed":
        drawn_record(args[2], int(args[1]), int(args[3]))
        return
    folder, names = args[0], set(args[1:])
    for name, *rest in MODELS:
        if not names or name in names:
            print(name, file=sys.stderr)
            model_record(folder, name, *rest)
    if not names or "drawn" in names:
        drawn_record(os.path.join(folder, "drawn.txt"), 1, 80)


if __name__ == "__main__":
    main(sys.argv[1:])
