#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A graph at random with a small model of it, of as many triples as it takes for several items; no torch needed.

    wide_kge.py FOLDER TRAIN TESTS: train.txt test.txt node_dict.txt rel_dict.txt model.pt, and too_large.pt, whose
    influences are above what float32 can hold
"""
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import tiny_kge  # noqa: E402

ENTITIES, RELATIONS = 700, 5
tiny_kge.HEIGHT, tiny_kge.WIDTH, tiny_kge.FILTERS = 6, 8, 8


class Large(random.Random):
    def gauss(self, mean, deviation):
        return super().gauss(mean, 1e9 * deviation)


def lines(draw, n):
    """Some repeated, so that there are influences that are equal."""
    drawn = [f"e{draw.randrange(ENTITIES)}\tr{draw.randrange(RELATIONS)}\te{draw.randrange(ENTITIES)}\n" for _ in range(n)]
    return "".join(drawn[i] if i % 20 else drawn[0] for i in range(n))


def write(folder, n_train, n_tests):
    draw = random.Random(7)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.txt").write_text(lines(draw, n_train))
    (folder / "test.txt").write_text(lines(draw, n_tests))
    for name, letter, n in ("node_dict.txt", "e", ENTITIES), ("rel_dict.txt", "r", RELATIONS):
        (folder / name).write_text("".join(f"{letter}{i}\t{i}\n" for i in range(n)))
    for name, kind in ("model.pt", random.Random), ("too_large.pt", Large):
        tensors = tiny_kge.state(ENTITIES, RELATIONS, kind(1))
        (folder / name).write_bytes(tiny_kge.saved({"model_state_dict": tensors, "model_config": {"embedding_height": tiny_kge.HEIGHT}}))


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
