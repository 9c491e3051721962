#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Random and real CSV, TSV, JSON and JSONL: muster's items are what Python's csv and json read."""
import csv, json, os, random, subprocess, sys, tempfile

DUMP = sys.argv[1]
# Compared where the package ieee-data is.
REAL_CSV = ["/usr/share/ieee-data/oui.csv", "/usr/share/ieee-data/mam.csv"]
PIECES = ["a", "b c", ",", "\t", "\n", "\r\n", '"', '""', "é", "x" * 90, "\\", "", "1", "[", "]"]


def field(rng):
    return "".join(rng.choice(PIECES) for _ in range(rng.randrange(6)))


def value(rng, depth=0):
    kind = rng.randrange(8 if depth < 4 else 5)
    if kind < 3:
        return [None, True, rng.randrange(-999, 999), rng.random()][rng.randrange(4)]
    if kind < 5:
        return field(rng)
    if kind < 7:
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {f"k{i}{field(rng)}": value(rng, depth + 1) for i in range(rng.randrange(4))}


def dump(path):
    done = subprocess.run([DUMP, path], capture_output=True)
    if done.returncode != 0:
        raise AssertionError(f"{path}: {done.stderr.decode()}")
    # Not splitlines(): it also splits at U+0085 and others.
    return [json.loads(line) for line in done.stdout.split(b"\n")[:-1]]


def read_csv(path, delimiter):
    with open(path, newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


def one_csv(rng, path, delimiter):
    n_columns = rng.randrange(1, 5)
    end = rng.choice(["\n", "\r\n"])
    quoting = rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    with open(path, "w", newline="", encoding=rng.choice(["utf-8", "utf-8-sig"])) as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator=end, quoting=quoting)
        writer.writerow([f"c{i}{field(rng)}" for i in range(n_columns)])
        for _ in range(rng.randrange(200)):
            writer.writerow([field(rng) for _ in range(n_columns)])
            if rng.randrange(20) == 0:
                file.write(end)
    return read_csv(path, delimiter)


def one_json(rng, path):
    items = [value(rng) for _ in range(rng.randrange(200))]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(items, file, indent=rng.choice([None, 1]), ensure_ascii=rng.random() < 0.5)
    return items


def one_jsonl(rng, path):
    items = [value(rng) for _ in range(rng.randrange(200))]
    with open(path, "w", encoding="utf-8", newline="") as file:
        for i, item in enumerate(items):
            file.write(rng.choice(["", "", "", "\n", " \t\r\n"]))
            file.write(json.dumps(item, ensure_ascii=False))
            is_cut = i == len(items) - 1 and rng.random() < 0.5
            file.write("" if is_cut else rng.choice(["\n", "\r\n"]))
    return items


def compare(name, found, expected):
    for i, (f, e) in enumerate(zip(found, expected)):
        assert f == e, f"{name}: item {i}: found {f!r}, expected {e!r}"
    assert len(found) == len(expected), f"{name}: {len(found)} items, expected {len(expected)}"


def main():
    makers = [
        ("a.csv", lambda rng, path: one_csv(rng, path, ",")),
        ("a.tsv", lambda rng, path: one_csv(rng, path, "\t")),
        ("a.json", one_json),
        ("a.jsonl", one_jsonl),
    ]
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(200):
            name, make = makers[seed % 4]
            path = os.path.join(folder, name)
            expected = make(random.Random(seed), path)
            compare(f"seed {seed}, {name}", dump(path), expected)
        for path in filter(os.path.exists, REAL_CSV):
            compare(path, dump(path), read_csv(path, ","))


main()
