#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A graph that can be learned: `small_graph.py FOLDER` writes train.txt, valid.txt, test.txt and both dictionaries.

Entities are numbers of a circle of 60, a relation is a step on it; of the triples a tenth each is for validation and test.
"""
import pathlib
import random
import sys

ENTITIES, STEPS = 60, (1, 7, 13, 30)


def main(folder):
    folder = pathlib.Path(folder)
    draw = random.Random(1)
    triples = [(f"e{head}", f"step:{step}", f"e{(head + step) % ENTITIES}") for head in range(ENTITIES) for step in STEPS]
    draw.shuffle(triples)
    parts = {"valid.txt": triples[:24], "test.txt": triples[24:48], "train.txt": triples[48:]}
    for name, part in parts.items():
        (folder / name).write_text("".join("\t".join(triple) + "\n" for triple in part), encoding="utf-8")
    (folder / "node_dict.txt").write_text("".join(f"e{i}\t{i}\n" for i in range(ENTITIES)), encoding="utf-8")
    (folder / "rel_dict.txt").write_text("".join(f"step:{step}\t{i}\n" for i, step in enumerate(STEPS)), encoding="utf-8")


main(sys.argv[1])
