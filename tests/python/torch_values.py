#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""With torch and numpy: what they saved comes out of `muster merge --plain --compact` with the same values, types
and strides, in a file that torch.load takes by default.

    torch_values.py MUSTER
"""
import os, subprocess, sys
import numpy as np
import torch


def merged(parts, *options):
    names = []
    for i, part in enumerate(parts):
        names.append(f"saved_{i}.pt")
        torch.save(part, names[-1])
    ended = subprocess.run([sys.argv[1], "merge", "-qf", *names, "-o", "whole.pt", *options], capture_output=True, text=True)
    assert ended.returncode == 0, ended
    return torch.load("whole.pt")


def same(tensor, other):
    assert tensor.dtype == other.dtype and tensor.stride() == other.stride(), (tensor, other)
    assert tensor.shape == other.shape and tensor.tolist() == other.tolist(), (tensor, other)


def scalars():
    values = [np.float64(0.1), np.float32(0.1), np.float16(-0.3), np.int64(-5), np.int8(-3), np.uint64(2**64 - 1), np.bool_(True),
              np.str_("hé\U0001f600"), np.str_(""), np.float64("inf")]
    whole = merged([{"l": values}] * 2, "--plain")["l"]
    want = [v.item() for v in values] * 2
    assert whole == want and [type(v) for v in whole] == [type(v) for v in want], whole
    assert merged([{"l": [np.bytes_(b"a\xff")]}], "--plain")["l"] == [b"a\xff"]


def arrays():
    kinds = "f8 f4 f2 i8 i4 i2 i1 u1 b1 c8 c16".split()
    values = [np.arange(6).reshape(2, 3).astype(kind) for kind in kinds] + [np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.zeros((0, 3)), np.array(5)]
    for tensor, array in zip(merged([{"l": values}], "--plain")["l"], values, strict=True):
        plain = torch.from_numpy(array)
        same(tensor, plain if array.size else torch.zeros(array.shape, dtype=plain.dtype))
    parts = [{"x": np.arange(3) + k} for k in range(2)]
    same(merged(parts, "--plain")["x"], torch.tensor([0, 1, 2, 1, 2, 3]))


def views():
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool):
        big = torch.arange(10000).to(dtype)
        shown = [big[10:20], big[15:30:2], big[5:5], big.view(100, 100)[:3, :4].t(), big[0:1].expand(5)]
        whole = merged([{"l": shown}] * 2, "--compact")["l"]
        for tensor, view in zip(whole, shown * 2, strict=True):
            same(tensor, view)
        whole[0][0] = whole[3][0, 0] = 1
        assert len({t.storage().data_ptr() for t in whole if t.numel()}) == 2 and os.path.getsize("whole.pt") < 10000
    model = torch.nn.Linear(3, 2)
    state = merged([{"m": model.state_dict(), "p": [model.weight]}], "--compact", "--rule", "m=first")
    assert state["m"].keys() == model.state_dict().keys() and torch.equal(state["m"]["weight"], model.weight)
    assert state["p"][0].data_ptr() == state["m"]["weight"].data_ptr() and state["p"][0].requires_grad


for run in (scalars, arrays, views):
    run()
