#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Influences in words: `show.py GRAPH INFLUENCES.jsonl [N]` prints the first N test triples (3), each with the training
triples that moved the model most on it."""
import json
import pathlib
import sys


def lines(path):
    return [line.rsplit("\t", 1) for line in path.read_text(encoding="utf-8").splitlines()]


def main(graph, influences, n="3"):
    graph = pathlib.Path(graph)
    by_index = {index: word for word, index in lines(graph / "node_name_dict.txt")}
    words = {name: by_index[index] for name, index in lines(graph / "node_dict.txt")}
    for text, name in json.loads((graph / "edge_map.json").read_text(encoding="utf-8")).items():
        words[name] = json.loads(text)["predicate"]

    def said(triple):
        head, relation, tail = (words[name] for name in triple)
        return f"{head}  --{relation}->  {tail}"

    with open(influences, encoding="utf-8") as file:
        for line in file:
            one = json.loads(line)
            if one["test_index"] >= int(n):
                break
            if one["rank"] == 1:
                print(f"{said(one['test'])}")
            print(f"  {one['influence']:+10.6f}  {said(one['train'])}")


main(*sys.argv[1:])
