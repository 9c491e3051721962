#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Random and hostile files through `muster split`: what Python's csv and json read of the parts is
what they read of the whole, and the parts have the sizes that were promised.

    test_split.py MUSTER [SEED [ROUNDS]]
"""
import csv, gzip, io, json, os, random, subprocess, sys, tempfile

MUSTER = os.path.abspath(sys.argv[1])
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 1
ROUNDS = int(sys.argv[3]) if len(sys.argv) > 3 else 40
PIECES = ["a", "b c", ",", "\t", "\n", "\r\n", '"', '""', "é", "x" * 70, "\\", "", "1", "[", "]", "{", " ", "'"]
BOM = b"\xef\xbb\xbf"
csv.field_size_limit(1 << 30)


def text(rng, n_max=6):
    return "".join(rng.choice(PIECES) for _ in range(rng.randrange(n_max)))


def value(rng, depth=0):
    kind = rng.randrange(8 if depth < 4 else 5)
    if kind < 3:
        return [None, True, rng.randrange(-999, 999), 0.5][rng.randrange(4)]
    if kind < 5:
        return text(rng)
    if kind < 7:
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {f"k{i}{text(rng)}": value(rng, depth + 1) for i in range(rng.randrange(4))}


def rows_of(data, delimiter):
    read = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), delimiter=delimiter)
    return [row for row in read if row]


class Csv:
    """Header in every part; what is behind the headers is the input's bytes."""
    extension, delimiter = ".csv", ","

    def make(self, rng, header):
        self.end = rng.choice(["\n", "\r\n"])
        out = io.StringIO(newline="")
        writer = csv.writer(out, delimiter=self.delimiter, lineterminator=self.end,
                            quoting=rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
        writer.writerow(header)
        if self.end == "\n" and rng.random() < 0.5:
            out.write(self.end * rng.randrange(3))
        for _ in range(rng.choice([0, 1, 5, 60, 400])):
            writer.writerow([text(rng) for _ in header])
            if rng.randrange(20) == 0:
                out.write(self.end * rng.randrange(1, 4))
        mark = BOM if rng.randrange(3) == 0 else b""
        return mark + out.getvalue().encode()

    def files(self, rng, n):
        header = [f"c{i}{text(rng)}" for i in range(rng.choice([1, 2, 3, 9, 70]))]
        return [self.make(rng, header) for _ in range(n)]

    def is_canonical(self, data):
        return one_style(data)

    def records(self, data):
        return rows_of(data, self.delimiter)[1:]

    def head(self, data):
        """The header's bytes: as many as make one row, with its line end."""
        lines = data.splitlines(keepends=True)
        for i in range(1, len(lines) + 1):
            head = b"".join(lines[:i])
            if head.count(b'"') % 2 == 0 and head.endswith(b"\n") and rows_of(head, self.delimiter):
                return head
        return data

    def whole(self, files):
        """Of files without rows nothing goes over, blank lines neither."""
        return b"".join(mended(data)[len(self.head(data)):] for data in files if self.records(data))

    def joined(self, files, parts):
        head = self.head(files[0])
        head += b"" if head.endswith(b"\n") else b"\n"
        for part in parts:
            assert part.startswith(head), (part[:80], head)
        return b"".join(part[len(head):] for part in parts)


class Tsv(Csv):
    extension, delimiter = ".tsv", "\t"


class Jsonl:
    extension = ".jsonl"
    cr_end = b"\n"

    def files(self, rng, n):
        return [self.make(rng) for _ in range(n)]

    def make(self, rng):
        end = rng.choice(["\n", "\r\n"])
        lines = []
        for _ in range(rng.choice([0, 1, 7, 300])):
            lines.append(json.dumps(value(rng), ensure_ascii=rng.random() < 0.5))
            if rng.randrange(10) == 0:
                lines.append(rng.choice(["", "  ", "\t"]))
        mark = BOM if rng.randrange(5) == 0 else b""
        return mark + "".join(line + end for line in lines).encode()

    def is_canonical(self, data):
        return one_style(data)

    def records(self, data):
        lines = data.replace(BOM, b"").split(b"\n")
        return [json.loads(line) for line in lines if line.strip()]

    def whole(self, files):
        rest = [data[len(BOM):] if data.startswith(BOM) else data for data in files]
        mark = BOM if files[0].startswith(BOM) else b""
        return mark + b"".join(mended(data, self.cr_end) for data, asis in zip(rest, files) if self.records(asis))

    def joined(self, files, parts):
        return b"".join(parts)


class Lines(Jsonl):
    extension = ".txt"
    cr_end = b"\r\n"  # of a line a CR at the very end is content

    def make(self, rng):
        n = rng.choice([0, 1, 9, 200])
        return b"".join(rng.choice([b"a", b"\n", b"\r\n", b"\0", b"\xff", b"long " * 30, b'"']) for _ in range(n))

    def records(self, data):
        lines = (data[len(BOM):] if data.startswith(BOM) else data).split(b"\n")
        last = lines.pop()
        return [line[:-1] if line.endswith(b"\r") else line for line in lines] + ([last] if last else [])


class Json:
    extension = ".json"

    def files(self, rng, n):
        return [self.make(rng) for _ in range(n)]

    def make(self, rng):
        items = [value(rng) for _ in range(rng.choice([0, 1, 7, 200]))]
        layout = rng.choice([{}, {"indent": 1}, {"indent": "\t"}, {"separators": (",", ":")}, None])
        if layout is None:
            inner = "\n" + ",\n".join(json.dumps(item) for item in items) + "\n" if items else ""
            made = "[" + inner + "]\n"
        else:
            made = json.dumps(items, ensure_ascii=rng.random() < 0.5, **layout)
        return (rng.choice(["", " ", "\n"]) + made + rng.choice(["", "\n", " \n"])).encode()

    def is_canonical(self, data):
        """As muster writes arrays."""
        lines = data.split(b"\n")
        return data == b"[]\n" or (lines[0] == b"[" and lines[-2:] == [b"]", b""] and all(
            line.endswith(b",") and line[:1] != b" " for line in lines[1:-3]))

    def records(self, data):
        return json.loads(data)

    whole = joined = None


def mended(data, cr_end=b"\n"):
    if not data or data.endswith(b"\n"):
        return data
    if data.endswith(b"\r"):
        return data + cr_end
    tail = data[-(256 * 1024):].rfind(b"\n")
    crlf = tail > 0 and data[-(256 * 1024):][tail - 1:tail] == b"\r"
    return data + (b"\r\n" if crlf else b"\n")


def split(folder, args, expect=0):
    done = subprocess.run([MUSTER, "split", "-q", "--json", *args], cwd=folder, capture_output=True)
    assert done.returncode == expect, (args, done.returncode, done.stderr.decode())
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr.decode()


def sizes_wanted(way, n, number):
    if way == "-n":
        return [n // number + (i < n % number) for i in range(number)]
    return [min(number, n - at) for at in range(0, n, number)] or [0]


def sizes_by_bytes(kind, parts, counts, limit):
    for part, count in zip(parts, counts):
        assert len(part) <= limit or count <= 1, (len(part), limit, count)
    if kind.joined and kind.extension != ".json":  # greedy: the next record would not have fitted
        for i, part in enumerate(parts[:-1]):
            following = parts[i + 1]
            assert counts[i] > 0 and len(part) + len(following) + 2 > limit, (type(kind), limit, i, len(part), len(following), part, following)


def merge_back(kind, folder, files, paths, records):
    """Splitting and merging is the identity: of bytes where the input has one style, else of records."""
    out = os.path.join(folder, "merged" + kind.extension)
    done = subprocess.run([MUSTER, "merge", "-q", "-o", out, "--expect", str(len(records)), *paths],
                          cwd=folder, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    with open(out, "rb") as file:
        data = file.read()
    assert kind.records(data) == records
    if len(files) == 1 and kind.is_canonical(files[0]):
        assert data == files[0], (data[:300], files[0][:300])


def one_style(data):
    crlf = data.count(b"\r\n")
    return data.endswith(b"\n") and not data.startswith(BOM) and crlf in (0, data.count(b"\n"))


def one_round(rng, kind, folder):
    files = kind.files(rng, rng.choice([1, 1, 2, 3]))
    if rng.randrange(3) == 0:
        files[-1] = files[-1].rstrip(b"\n") if kind.extension not in (".json", ".txt") else files[-1]
        if kind.extension in (".csv", ".tsv"):
            files[-1] = files[-1].rstrip(b"\r")
    names = []
    for i, data in enumerate(files):
        packed = rng.randrange(4) == 0
        name = f"in{i}{kind.extension}" + (".gz" if packed else "")
        with (gzip.open if packed else open)(os.path.join(folder, name), "wb") as file:
            file.write(data)
        names.append(name)
    records = [record for data in files for record in kind.records(data)]
    way = rng.choice(["-n", "--records", "--size"])
    number = rng.choice([1, 2, 3, 7, 30, 205] if way != "--size" else [40, 300, 5000, 10**6])
    if way != "-n" and len(records) / number > 100:
        way = "-n"
    rows, _ = split(folder, [way, str(number), "-o", "parts/", *names])
    dry, _ = split(folder, [way, str(number), "-o", "dry/", "--dry-run", *names])
    assert not os.path.exists(os.path.join(folder, "dry"))
    parts = []
    for row, dry_row in zip(rows, dry, strict=True):
        with open(os.path.join(folder, row["path"]), "rb") as file:
            parts.append(file.read())
        assert len(parts[-1]) == row["bytes"] == dry_row["bytes"], (row, dry_row, len(parts[-1]))
    assert sorted(os.listdir(os.path.join(folder, "parts"))) == [os.path.basename(r["path"]) for r in rows]
    read = [kind.records(part) for part in parts]
    assert [len(part) for part in read] == [row["records"] for row in rows], (len(records), rows)
    assert [record for part in read for record in part] == records
    if way == "--size":
        sizes_by_bytes(kind, parts, [len(part) for part in read], number)
    else:
        assert [len(part) for part in read] == sizes_wanted(way, len(records), number)
    merge_back(kind, folder, files, [row["path"] for row in rows], records)
    if kind.whole:
        found, wanted = kind.joined(files, parts), kind.whole(files)
        at = len(os.path.commonprefix([found, wanted]))
        assert found == wanted, (type(kind), names, at, found[at - 20:at + 40], wanted[at - 20:at + 40])


def one_ragged(rng, folder):
    """A field too many or too few somewhere: refused, with its line, and nothing is left."""
    n_columns = rng.choice([2, 3, 20])
    rows = [[text(rng) or "x" for _ in range(n_columns)] for _ in range(rng.choice([1, 30, 3000]))]
    bad = rng.randrange(len(rows))
    rows[bad] = rows[bad] + ["more"] if rng.random() < 0.5 else rows[bad][1:]
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([f"c{i}" for i in range(n_columns)])
    writer.writerows(rows[:bad])
    line = out.getvalue().count("\n") + 1
    writer.writerows(rows[bad:])
    with open(os.path.join(folder, "in.csv"), "w", newline="", encoding="utf-8") as file:
        file.write(out.getvalue())
    _, said = split(folder, ["-n", "3", "in.csv"], expect=65)
    assert f"in.csv line {line}: expected {n_columns} fields" in said, (said, line)
    assert os.listdir(folder) == ["in.csv"], os.listdir(folder)


def one_quote(rng, folder):
    """A quote more somewhere: refused, or read as Python reads it."""
    kind = Csv()
    data = bytearray(kind.make(rng, ["a", "b", "c"]))
    data.insert(rng.randrange(8, len(data) + 1) if len(data) > 8 else len(data), ord('"'))
    path = os.path.join(folder, "in.csv")
    with open(path, "wb") as file:
        file.write(data)
    done = subprocess.run([MUSTER, "split", "-q", "-n", "4", "in.csv"], cwd=folder, capture_output=True)
    assert done.returncode in (0, 65), done.stderr.decode()
    left = sorted(set(os.listdir(folder)) - {"in.csv"})
    if done.returncode == 65:
        assert left == [] and (b" line " in done.stderr or b"header" in done.stderr), (left, done.stderr)
        return
    read = []
    for name in left:
        with open(os.path.join(folder, name), "rb") as file:
            read += kind.records(file.read())
    assert read == kind.records(bytes(data)), "accepted, and read otherwise"


def main():
    for number in range(ROUNDS):
        for make in [*(lambda rng, folder, kind=kind: one_round(rng, kind, folder)
                       for kind in (Csv(), Tsv(), Jsonl(), Lines(), Json())), one_ragged, one_quote]:
            rng = random.Random(f"{SEED} {number}")
            with tempfile.TemporaryDirectory(prefix="muster-split-") as folder:
                try:
                    make(rng, folder)
                except BaseException:
                    print(f"round {number} of seed {SEED} failed: {MUSTER} {SEED} {number + 1}", file=sys.stderr)
                    raise
    print(f"{ROUNDS} rounds of seed {SEED}")


main()
