#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small knowledge graph and a ConvE model of it, as TiePin's trainer saves one; no torch needed.

    tiny_kge.py FOLDER: train.txt test.txt node_dict.txt rel_dict.txt node_name_dict.txt edge_map.json model.pt
"""
import collections
import json
import pathlib
import random
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from torch_like import FloatStorage, LongStorage, Storage, Tensor, module, saved  # noqa: E402

HEIGHT, WIDTH, FILTERS = 3, 4, 2
ENTITIES = ["CHEBI:1", "CHEBI:2", "MONDO:1", "MONDO:2", "gene a/b", 'quoted "q", comma', "\N{GREEK SMALL LETTER BETA}-catenin",
            "HP:1", "lonely"]
RELATIONS = ["predicate:0", "predicate:1"]
TRAIN = [(0, 0, 2), (0, 1, 4), (4, 1, 2), (4, 0, 3), (1, 0, 3), (1, 1, 4), (5, 0, 2), (6, 1, 5), (6, 0, 7), (0, 0, 2), (7, 1, 7),
         (2, 1, 0)]
TEST = [(0, 0, 3), (1, 0, 2), (6, 1, 2)]


def tensor(values, *shape):
    return Tensor(Storage(FloatStorage, struct.pack(f"<{len(values)}f", *values)), shape)


def state(n_entities, n_relations, draw):
    dim = HEIGHT * WIDTH
    features = FILTERS * (HEIGHT - 2) * (2 * WIDTH - 2)

    def normal(*shape):
        size = 1
        for side in shape:
            size *= side
        return tensor([draw.gauss(0, 0.4) for _ in range(size)], *shape)

    def norm(name, size):
        return [(f"{name}.weight", tensor([draw.uniform(0.5, 1.5) for _ in range(size)], size)), (f"{name}.bias", normal(size)),
                (f"{name}.running_mean", normal(size)),
                (f"{name}.running_var", tensor([draw.uniform(0.5, 2) for _ in range(size)], size)),
                (f"{name}.num_batches_tracked", Tensor(Storage(LongStorage, struct.pack("<q", 7)), ()))]

    return collections.OrderedDict([
        ("entity_embeddings.weight", normal(n_entities, dim)), ("relation_embeddings.weight", normal(n_relations, dim)),
        *norm("bn0", 1), ("conv1.weight", normal(FILTERS, 1, 3, 3)), ("conv1.bias", normal(FILTERS)), *norm("bn1", FILTERS),
        ("fc.weight", normal(dim, features)), ("fc.bias", normal(dim)), *norm("bn2", dim)])


def checkpoint(n_entities=len(ENTITIES), n_relations=len(RELATIONS), seed=1, spoil=None, rates=()):
    """`rates`: of the optimizer's groups of parameters, as torch.optim.Adam.state_dict() has them."""
    tensors = state(n_entities, n_relations, random.Random(seed))
    if spoil:
        tensors[spoil].storage.data = struct.pack("<f", float("nan")) + tensors[spoil].storage.data[4:]
    config = {"num_entities": n_entities, "num_relations": n_relations, "embedding_dim": HEIGHT * WIDTH,
              "embedding_height": HEIGHT, "embedding_width": WIDTH}
    optimizer = {"state": {}, "param_groups": [{"lr": rate, "betas": (0.9, 0.999), "params": [i]} for i, rate in enumerate(rates)]}
    return saved({"epoch": 3, "model_state_dict": tensors, "optimizer_state_dict": optimizer, "model_config": config})


PYKEEN = {"bn0": "interaction.hr2d.0", "conv1": "interaction.hr2d.2", "bn1": "interaction.hr2d.3", "fc": "interaction.hr1d.0",
          "bn2": "interaction.hr1d.2", "entity_embeddings": "entity_representations.0._embeddings",
          "relation_embeddings": "relation_representations.0._embeddings"}


def pykeen_state(relations=len(RELATIONS), dim=HEIGHT * WIDTH):
    """The state dict of PyKEEN's ConvE, in its order; embeddings are images of HEIGHT x WIDTH, one below the other."""
    draw = random.Random(2)
    plain = state(len(ENTITIES), relations, draw)
    size = FILTERS * (2 * HEIGHT - 2) * (WIDTH - 2)
    plain["fc.weight"] = tensor([draw.gauss(0, 0.4) for _ in range(dim * size)], dim, size)
    named = collections.OrderedDict()
    for name, value in plain.items():
        module, part = name.rsplit(".", 1)
        named[f"{PYKEEN[module]}.{part}"] = value
    for table in ("entity_representations.0", "relation_representations.0"):
        named.move_to_end(f"{table}._embeddings.weight")
    named["entity_representations.1._embeddings.weight"] = tensor([draw.gauss(0, 0.4) for _ in ENTITIES], len(ENTITIES), 1)
    named.move_to_end("relation_representations.0._embeddings.weight")
    return named


class ConvEShapeInformation:
    """What PyKEEN's models hold of how an embedding becomes an image; pickled, it is its attributes."""
    def __init__(self):
        self.__dict__.update(embedding_dim=HEIGHT * WIDTH, input_channels=1, image_height=HEIGHT, image_width=WIDTH,
                             output_channels=FILTERS, kernel_height=3, kernel_width=3)


class Interaction:
    def __init__(self):
        self.shape_info = ConvEShapeInformation()


module("pykeen")
module("pykeen.nn")
module("pykeen.nn.modules", ConvEShapeInformation=ConvEShapeInformation, Interaction=Interaction)


def pykeen_model():
    """As if a whole model had been pickled: shape_info in an object beside its parameters."""
    return {"interaction": Interaction(), "parameters": pykeen_state()}


def triples(rows):
    return "".join(f"{ENTITIES[h]}\t{RELATIONS[r]}\t{ENTITIES[t]}\n" for h, r, t in rows)


def write(folder):
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "train.txt": triples(TRAIN), "test.txt": triples(TEST),
        "node_dict.txt": "".join(f"{name}\t{i}\n" for i, name in enumerate(ENTITIES)),
        "rel_dict.txt": "".join(f"{name}\t{i}\n" for i, name in enumerate(RELATIONS)),
        "node_name_dict.txt": "aspirin\t0\nheadache, mild\t2\n",
        "edge_map.json": json.dumps({json.dumps({"predicate": "biolink:treats", "qualifier": ""}): "predicate:0"}),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "model.pt").write_bytes(checkpoint())
    (folder / "pykeen.pt").write_bytes(saved(pykeen_state()))
    (folder / "pykeen.pkl").write_bytes(saved(pykeen_model()))
    (folder / "inverse.pt").write_bytes(saved(pykeen_state(relations=2 * len(RELATIONS))))
    bare = [pair for pair in state(len(ENTITIES), len(RELATIONS), random.Random(1)).items() if not pair[0].startswith("bn")]
    (folder / "bare.pt").write_bytes(saved(collections.OrderedDict(bare)))
    (folder / "other_size.pt").write_bytes(checkpoint(n_entities=7))
    (folder / "nan.pt").write_bytes(checkpoint(spoil="fc.weight"))


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]))
