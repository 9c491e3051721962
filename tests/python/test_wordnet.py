#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/wordnet: the graph is the same each time, its parts share no pair of synsets, and train knows them all.

    test_wordnet.py MAKE_GRAPH
"""
import json
import pathlib
import subprocess
import sys
import tempfile

MAKE_GRAPH = sys.argv[1]
N = 800


def make(folder, *options):
    subprocess.run([sys.executable, MAKE_GRAPH, folder, *options], check=True, stdout=subprocess.DEVNULL)
    return {path.name: path.read_text(encoding="utf-8") for path in pathlib.Path(folder).iterdir()}


def rows(text):
    return [tuple(line.split("\t")) for line in text.splitlines()]


def check(files):
    parts = {name: rows(files[name + ".txt"]) for name in ("train", "valid", "test")}
    entities = [name for name, index in rows(files["node_dict.txt"])]
    relations = {name for name, index in rows(files["rel_dict.txt"])}
    pairs = {name: {frozenset((head, tail)) for head, _, tail in part} for name, part in parts.items()}
    assert len(entities) == len(set(entities)) == N
    assert [index for _, index in rows(files["node_dict.txt"])] == [str(i) for i in range(N)]
    assert len(rows(files["node_name_dict.txt"])) == N
    assert len(parts["valid"]) > 10 and len(parts["test"]) > 10 and len(parts["train"]) > N
    assert not pairs["train"] & pairs["test"] and not pairs["train"] & pairs["valid"] and not pairs["valid"] & pairs["test"]
    assert {entity for head, _, tail in parts["train"] for entity in (head, tail)} == set(entities)
    everything = [triple for part in parts.values() for triple in part]
    assert len(everything) == len(set(everything))
    assert {relation for _, relation, _ in everything} <= relations
    names = {relation: json.loads(key)["predicate"] for key, relation in json.loads(files["edge_map.json"]).items()}
    assert set(names) == relations
    hypernym = next(relation for relation, name in names.items() if name == "hypernym")
    assert ("n00001930", hypernym, "n00001740") in everything  # a physical entity is an entity


def main():
    if not pathlib.Path("/usr/share/wordnet/data.noun").exists():
        print("skipped: wordnet-base is not installed")
        return 77
    with tempfile.TemporaryDirectory() as name:
        first = make(name + "/a", "--synsets", str(N))
        check(first)
        assert make(name + "/b", "--synsets", str(N)) == first, "the same arguments gave other bytes"
        other = make(name + "/c", "--synsets", str(N), "--seed", "2")
        check(other)
        assert other["test.txt"] != first["test.txt"]
        bad = subprocess.run([sys.executable, MAKE_GRAPH, name + "/d", "--wordnet", name], capture_output=True, text=True)
        assert bad.returncode == 69 and "apt-get install wordnet-base" in bad.stderr
    return 0


if __name__ == "__main__":
    sys.exit(main())
