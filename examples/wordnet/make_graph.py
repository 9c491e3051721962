#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns WordNet into a knowledge graph: files of triples, dictionaries, labels.

    make_graph.py FOLDER [--synsets N] [--seed S] [--valid SHARE] [--test SHARE] [--wordnet DIR]

An entity is a synset, named by its part of speech and its offset (n00001740); a relation is a kind of
pointer. The same arguments give the same bytes.

WordNet writes most pointers down at both ends: a hypernym here is a hyponym there. A model that is trained on
one direction and tested on the other needs to know nothing else. So one direction of each such pair is kept, of
the symmetric ones that from the lower entity, and whatever connects two synsets goes into the same part.
"""
import argparse
import collections
import json
import pathlib
import random
import sys

PARTS_OF_SPEECH = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
# Pointers that are kept, by the symbols of wninput(5WN); the others are what these are from the other end.
RELATIONS = {
    "@": "hypernym", "@i": "instance_hypernym", "#m": "member_holonym", "#s": "substance_holonym",
    "#p": "part_holonym", ";c": "domain_topic", ";r": "domain_region", ";u": "domain_usage",
    "*": "entailment", ">": "cause", "<": "participle_of", "\\": "pertainym",
    "!": "antonym", "+": "derivation", "=": "attribute", "&": "similar_to", "^": "also_see", "$": "verb_group",
}
SYMMETRIC = {"antonym", "derivation", "attribute", "similar_to", "also_see", "verb_group"}
NAMES = sorted(set(RELATIONS.values()))
ROOT = "n00001740"  # "entity"


def synsets(folder):
    """(entity, first word, [(relation, other entity)]) of each line of data; wndb(5WN)."""
    for letter, name in PARTS_OF_SPEECH.items():
        with open(folder / f"data.{name}", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("  "):  # the licence
                    continue
                fields = line.split(" | ")[0].split()
                n_words = int(fields[3], 16)
                at = 4 + 2 * n_words
                pointers = [fields[at + 1 + 4 * i:at + 5 + 4 * i] for i in range(int(fields[at]))]
                yield letter + fields[0], fields[4].replace("_", " "), [
                    (RELATIONS[symbol], pos + offset) for symbol, offset, pos, _ in pointers if symbol in RELATIONS]


def read(folder):
    words, triples = {}, set()
    for entity, word, pointers in synsets(folder):
        words[entity] = f"{word} ({PARTS_OF_SPEECH[entity[0]]})"
        for relation, other in pointers:
            ends = sorted((entity, other)) if relation in SYMMETRIC else (entity, other)
            triples.add((ends[0], relation, ends[1]))
    return words, sorted(triples)


def nearest(triples, n_synsets):
    """The n synsets that a walk from the root reaches first, breadth first."""
    beside = collections.defaultdict(set)
    for head, _, tail in triples:
        beside[head].add(tail)
        beside[tail].add(head)
    found, queue = {ROOT}, collections.deque([ROOT])
    while queue and len(found) < n_synsets:
        for entity in sorted(beside[queue.popleft()]):
            if entity not in found and len(found) < n_synsets:
                found.add(entity)
                queue.append(entity)
    return found


def split(triples, shares, seed):
    """Lists for train, valid and test: a pair of synsets is in one of them, and every synset stays in train."""
    pairs = collections.defaultdict(list)
    degree = collections.Counter()
    for triple in triples:
        pairs[tuple(sorted((triple[0], triple[2])))].append(triple)
    for ends in pairs:
        degree.update(set(ends))
    order = list(pairs)
    random.Random(seed).shuffle(order)
    parts, wanted = [[], [], []], [share * len(triples) for share in shares]
    for ends in order:
        part = next((i for i in (1, 2) if len(parts[i]) + len(pairs[ends]) <= wanted[i - 1]), 0)
        if part and any(degree[end] == 1 for end in ends):
            part = 0
        if part:
            degree.subtract(set(ends))
        parts[part] += pairs[ends]
    return [sorted(part) for part in parts]


def write(path, lines):
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, help="is made; what is in it is replaced")
    parser.add_argument("--synsets", type=int, default=0, help="so many, nearest to 'entity' (default: all with a pointer)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--valid", type=float, default=0.03, help="share of the triples (default 0.03)")
    parser.add_argument("--test", type=float, default=0.03, help="share of the triples (default 0.03)")
    parser.add_argument("--wordnet", type=pathlib.Path, default=pathlib.Path("/usr/share/wordnet"))
    args = parser.parse_args()
    if not (args.wordnet / "data.noun").exists():
        print(f"make_graph.py: no {args.wordnet}/data.noun: apt-get install wordnet-base", file=sys.stderr)
        return 69
    if args.synsets < 0 or not 0 <= args.valid + args.test < 1 or min(args.valid, args.test) < 0:
        parser.error("expected --synsets of at least 0, and shares of at least 0 that leave something to train on")

    words, triples = read(args.wordnet)
    if args.synsets:
        kept = nearest(triples, args.synsets)
        triples = [triple for triple in triples if triple[0] in kept and triple[2] in kept]
    entities = sorted({entity for triple in triples for entity in (triple[0], triple[2])})
    relations = {name: f"predicate:{i}" for i, name in enumerate(NAMES)}
    args.folder.mkdir(parents=True, exist_ok=True)
    counts = []
    for name, part in zip(("train", "valid", "test"), split(triples, (args.valid, args.test), args.seed)):
        write(args.folder / f"{name}.txt", ("\t".join((h, relations[r], t)) for h, r, t in part))
        counts.append(f"{len(part):,} {name}")
    write(args.folder / "node_dict.txt", (f"{entity}\t{i}" for i, entity in enumerate(entities)))
    write(args.folder / "rel_dict.txt", (f"{relation}\t{i}" for i, relation in enumerate(relations.values())))
    write(args.folder / "node_name_dict.txt", (f"{words[entity]}\t{i}" for i, entity in enumerate(entities)))
    edge_map = {json.dumps({"predicate": name}): relation for name, relation in relations.items()}
    write(args.folder / "edge_map.json", [json.dumps(edge_map, indent=2)])
    print(f"{len(entities):,} entities, {len(relations)} relations; triples: {', '.join(counts)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
