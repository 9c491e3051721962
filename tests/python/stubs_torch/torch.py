# SPDX-License-Identifier: Apache-2.0
"""As much of torch as examples/latentmas uses, for where it is not installed: files of the same form."""
import random, struct, sys
import torch_like as made

torch = sys.modules["torch"]  # torch_like's, which whoever imports this gets
draw = random.Random()


class Drawn(made.Tensor):
    def to(self, dtype):
        assert dtype == "float32", dtype
        return self


def randn(*shape):
    count = 1
    for size in shape:
        count *= size
    return Drawn(made.Storage(made.FloatStorage, struct.pack(f"<{count}f", *(draw.gauss(0, 1) for _ in range(count)))), shape)


def save(obj, path):
    with open(path, "wb") as file:
        file.write(made.saved(obj))


torch.float32, torch.manual_seed, torch.randn, torch.save = "float32", draw.seed, randn, save
