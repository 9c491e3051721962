#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The proximity filter against the same definition written down slowly, on random graphs.

    test_proximity.py PROXIMITY_DUMP [SEED [ROUNDS]]

The slow one works with sets of edges, as the original does, and knows the strict hop constraint, which the
fast one has no switch for: it never changes anything.
"""
import random
import subprocess
import sys


def distances(edges, sources, n_hops):
    found, layer = {source: 0 for source in sources}, set(sources)
    for hop in range(1, n_hops + 1):
        layer = {b for a, b in edges if a in layer and b not in found}
        found.update({entity: hop for entity in layer})
    return found


def on_path(src, dst, head, tail, limit):
    if any(entity not in ball for entity in (src, dst) for ball in (head, tail)):
        return False
    for a, b in ((src, dst), (dst, src)):
        if head[a] <= head[b] and tail[b] <= tail[a] and (limit == 0 or head[a] + tail[b] <= limit):
            return True
    return False


def slow(triples, test, n_hops, min_degree, no_preserve, on_paths, limit, strict):
    """Places of the kept triples."""
    edges = {(h, t) for h, _, t in triples} | {(t, h) for h, _, t in triples}
    head, tail = distances(edges, [test[0]], n_hops), distances(edges, [test[2]], n_hops)
    either = distances(edges, [test[0], test[2]], n_hops)
    entities = (set(head) & set(tail)) | {test[0], test[2]}
    candidates = {(a, b) for a, b in edges if (a in head and b in head) or (a in tail and b in tail)}
    degree = {entity: sum(a == entity for a, _ in candidates) for entity in entities}
    kept = set()
    for a, b in candidates:
        if a not in entities or b not in entities:
            continue
        touches = not no_preserve and not {a, b}.isdisjoint({test[0], test[2]})
        if not touches and degree[a] < min_degree and degree[b] < min_degree:
            continue
        if strict and (either.get(a, n_hops + 1) > n_hops or either.get(b, n_hops + 1) > n_hops):
            continue
        if on_paths and not on_path(a, b, head, tail, limit):
            continue
        kept.add((a, b))
    return [i for i, (h, _, t) in enumerate(triples) if (h, t) in kept or (t, h) in kept]


def main():
    dump, seed = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 150
    n_kept = n_all = 0
    for number in range(rounds):
        draw = random.Random(seed * 1000003 + number)
        n = draw.choice([1, 2, 3, 6, 12, 30])
        entity = lambda: min(draw.randrange(n), draw.randrange(n)) if draw.random() < 0.5 else draw.randrange(n)
        triples = [(entity(), draw.randrange(2), entity()) for _ in range(draw.randrange(1, 3 * n + 2))]
        tests = [(draw.randrange(n), 0, draw.randrange(n)) for _ in range(8)]
        options = [draw.randrange(5), draw.randrange(5), draw.randrange(2), draw.randrange(2), draw.randrange(5)]
        words = [n, len(triples), len(tests), *options] + [word for triple in triples + tests for word in triple]
        found = subprocess.run([dump], input=" ".join(map(str, words)), capture_output=True, text=True, check=True)
        for test, line in zip(tests, found.stdout.splitlines(), strict=True):
            expected = slow(triples, test, *options, strict=draw.random() < 0.5)
            n_kept, n_all = n_kept + len(expected), n_all + len(triples)
            if list(map(int, line.split())) != expected:
                print(f"seed {seed} round {number} test {test} options {options}\n{triples}\n"
                      f"expected {expected}\nfound {line}")
                return 1
    print(f"{rounds} graphs, {n_kept} of {n_all} triples kept")
    return 0 if 0 < n_kept < n_all else 1


if __name__ == "__main__":
    sys.exit(main())
