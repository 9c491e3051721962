#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Random files, whole and damaged: what muster merge makes of them is what Python's csv and json read."""
import csv, io, json, os, random, subprocess, sys, tempfile

MUSTER = sys.argv[1]
PIECES = ["a", "b c", ",", "\t", "\n", "\r\n", '"', '""', "é", "x" * 90, "\\", "", "1", "[", "]"]
csv.field_size_limit(1 << 30)


def text(rng):
    return "".join(rng.choice(PIECES) for _ in range(rng.randrange(5)))


def value(rng, depth=0):
    kind = rng.randrange(8 if depth < 3 else 5)
    if kind < 3:
        return [None, True, rng.randrange(-999, 999), rng.random()][rng.randrange(4)]
    if kind < 5:
        return text(rng)
    if kind < 7:
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {f"k{i}{text(rng)}": value(rng, depth + 1) for i in range(rng.randrange(4))}


def merge(paths, out, *options):
    done = subprocess.run([MUSTER, "merge", "-q", "-f", *options, *paths, "-o", out], capture_output=True, text=True)
    if done.returncode not in (0, 2, 65):
        raise AssertionError(f"status {done.returncode}: {done.stderr}")
    return done


def merged(paths, out, *options):
    done = merge(paths, out, *options)
    if done.returncode:
        raise AssertionError(done.stderr)


def read_csv(path, delimiter=","):
    """Rows as pairs of column and cell: a short or long row shows."""
    with open(path, newline="", encoding="utf-8-sig") as file:
        rows = [row for row in csv.reader(file, delimiter=delimiter) if row]
    return rows[0] if rows else None, rows[1:]


def write_csv(rng, path, header, rows, delimiter):
    memory = io.StringIO()
    writer = csv.writer(memory, delimiter=delimiter, lineterminator=rng.choice(["\n", "\n", "\r\n"]),
                        quoting=rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    writer.writerow(header)
    writer.writerows(rows)
    content = memory.getvalue()
    if rng.randrange(3) == 0:
        content = content.rstrip("\r\n") if rows and not rows[-1][-1].endswith("\n") else content
    with open(path, "w", newline="", encoding=rng.choice(["utf-8", "utf-8-sig"])) as file:
        file.write(content)


def tables(rng, folder, delimiter):
    """Files whose columns stand in any order, and what they hold."""
    width = rng.randrange(1, 5)
    names = [f"c{i}{text(rng)}" for i in range(width)]
    name = ".csv" if delimiter == "," else ".tsv"
    paths, records = [], []
    for i in range(rng.randrange(1, 4)):
        order = rng.sample(names, width) if rng.randrange(3) == 0 else names
        # One cell that is empty, alone in a row, is a blank line for some and nothing for others.
        rows = [[text(rng) or "-" * (width == 1) for _ in order] for _ in range(rng.randrange(40))]
        paths.append(os.path.join(folder, f"{i}{name}"))
        write_csv(rng, paths[-1], order, rows, delimiter)
        records += [dict(zip(order, row)) for row in rows]
    return paths, records, names


def one_table(rng, folder):
    delimiter = rng.choice(",\t")
    paths, records, names = tables(rng, folder, delimiter)
    out = os.path.join(folder, "out.csv" if delimiter == "," else "out.tsv")
    merged(paths, out, "--expect", str(len(records)))
    header, rows = read_csv(out, delimiter)
    assert sorted(header) == sorted(names), (header, names)
    assert [dict(zip(header, row)) for row in rows] == records, paths
    os.unlink(out)
    merged(paths, os.path.join(folder, "out.jsonl"))
    with open(os.path.join(folder, "out.jsonl"), encoding="utf-8") as file:
        assert [json.loads(line) for line in file] == records


def one_union(rng, folder):
    paths, records, names = [], [], ["a", "b", "c", "d"]
    for i in range(rng.randrange(1, 4)):
        order = rng.sample(names, rng.randrange(1, 5))
        rows = [[text(rng) or "-" for _ in order] for _ in range(rng.randrange(20))]
        paths.append(os.path.join(folder, f"u{i}.csv"))
        write_csv(rng, paths[-1], order, rows, ",")
        records += [dict(zip(order, row)) for row in rows]
    out = os.path.join(folder, "union.csv")
    merged(paths, out, "--union")
    header, rows = read_csv(out)
    assert [dict(zip(header, row)) for row in rows] == [{name: one.get(name, "") for name in header} for one in records]


def one_damaged_table(rng, folder):
    """Whatever muster accepts, Python reads the same before and after."""
    paths, _, _ = tables(rng, folder, ",")
    path = rng.choice(paths)
    with open(path, "rb") as file:
        content = bytearray(file.read())
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(content))
        content[at:at + rng.randrange(2)] = rng.choice([b'"', b",", b"\n", b"\r", b"x", b'""', b""])
    with open(path, "wb") as file:
        file.write(content)
    out = os.path.join(folder, "damaged.csv")
    if merge(paths, out).returncode:
        return False
    records = []
    for path in paths:
        header, rows = read_csv(path)
        assert all(len(row) == len(header) for row in rows), path
        records += [dict(zip(header, row)) for row in rows]
    header, rows = read_csv(out)
    assert [dict(zip(header, row)) for row in rows] == records, paths
    return True


def arrays(rng, folder, damage=False):
    paths, records = [], []
    for i in range(rng.randrange(1, 4)):
        values = [value(rng) for _ in range(rng.randrange(12))]
        content = json.dumps(values, indent=rng.choice([None, 2]), ensure_ascii=rng.randrange(2) == 0)
        if damage and rng.randrange(2) == 0:
            at = rng.randrange(len(content))
            content = content[:at] + rng.choice(['"', ",", "]", "[", "{", "x", "", " "]) + content[at + rng.randrange(2):]
        paths.append(os.path.join(folder, f"{i}.json"))
        with open(paths[-1], "w", encoding="utf-8") as file:
            file.write(content)
        records += [values]
    return paths, records


def load(path):
    """None if it is no array, or has constants that JSON does not know."""
    def refuse(name):
        raise ValueError(name)
    with open(path, encoding="utf-8") as file:
        try:
            found = json.load(file, parse_constant=refuse)
        except ValueError:
            return None
    return found if isinstance(found, list) else None


def one_array(rng, folder):
    paths, values = arrays(rng, folder)
    out, lines = os.path.join(folder, "out.json"), os.path.join(folder, "out2.jsonl")
    merged(paths, out)
    assert load(out) == sum(values, []), paths
    merged(paths, lines)
    with open(lines, encoding="utf-8") as file:
        assert [json.loads(line) for line in file] == sum(values, [])
    merged([lines], out)
    assert load(out) == sum(values, [])


def one_damaged_array(rng, folder):
    """Refused exactly where Python refuses."""
    paths, _ = arrays(rng, folder, True)
    out = os.path.join(folder, "damaged.json")
    found = [load(path) for path in paths]
    is_accepted = merge(paths, out).returncode == 0
    is_whole = all(one is not None for one in found)
    assert is_accepted == is_whole, (paths, is_accepted, found)
    if is_accepted:
        assert load(out) == sum(found, [])
    return is_accepted


def one_jsonl(rng, folder):
    paths, records = [], []
    for i in range(rng.randrange(1, 4)):
        values = [{"id": rng.choice([len(records) + k, f"q{len(records) + k}"]), "x": value(rng)} for k in range(rng.randrange(20))]
        end = rng.choice(["\n", "\r\n", "\n\n"])
        content = "".join(json.dumps(one) + end for one in values)
        content = content.rstrip() if rng.randrange(3) == 0 else content
        paths.append(os.path.join(folder, f"{i}.jsonl"))
        with open(paths[-1], "w", newline="", encoding="utf-8") as file:
            file.write(content)
        records += values
    out = os.path.join(folder, "out3.jsonl")
    merged(paths, out, "--id", "id", "--expect", str(len(records)))
    with open(out, encoding="utf-8") as file:
        assert [json.loads(line) for line in file if line.strip()] == records
    if records:
        again = os.path.join(folder, "again.jsonl")
        with open(again, "w", encoding="utf-8") as file:
            file.write(json.dumps(rng.choice(records)))
        done = merge([*paths, again], out, "--id", "id")
        assert done.returncode == 65 and "as that of" in done.stderr, done.stderr


def main():
    accepted = {"tables": 0, "arrays": 0}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(60):
            for one in (one_table, one_union, one_array, one_jsonl):
                one(random.Random(f"{one.__name__} {seed}"), folder)
            accepted["tables"] += one_damaged_table(random.Random(f"damaged {seed}"), folder)
            accepted["arrays"] += one_damaged_array(random.Random(f"broken {seed}"), folder)
    # Both kinds of damage must occur: what is refused, and what is another table.
    assert all(5 < count < 55 for count in accepted.values()), accepted
    print("ok", accepted)


main()
