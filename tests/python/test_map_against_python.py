#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What `muster map` makes of files, beside what Python's csv and json make of them.

Workers give back what they get, so the output must hold just the records that Python reads: from real files
(those of the packages ieee-data and iso-codes, where they are), from generated ones, and from bytes that mean
ill. What Python refuses must be set aside, and nothing else. Prints TAP.

    MUSTER=build/muster test_map_against_python.py [NAME...]
"""

import csv
import glob
import io
import json
import os
import random
import re
import subprocess
import sys
import tempfile

MUSTER = os.environ["MUSTER"]
LIMIT_S = 120
N_SEEDS = 6  # for each format
N_MUTATED = 3000
DEPTH_MAX = 512  # what muster takes, and Python does not mind

csv.field_size_limit(sys.maxsize)
sys.setrecursionlimit(20000)

# The data as the bytes that they are: Python's own idea of them would change numbers.
ECHO = f"""#!{sys.executable} -S
import os, socket
channel = socket.socket(fileno=int(os.environ["MUSTER_CHANNEL"])).makefile("rwb")
channel.write(b'{{"ready":20}}\\n')
channel.flush()
for line in channel:
    number, mark, data = line.rstrip().partition(b',"data":')
    if mark:
        number = number[len(b'{{"item":') :].split(b",")[0]
        channel.write(b'{{"done":%s,"result":%s,"ready":1}}\\n' % (number, data[:-1]))
        channel.flush()
    elif b'"stop"' in line:
        break
"""
WORKERS = {"filter": "cat", "channel": "./echo"}

PIECES = ["a", "b c", ",", "\t", "\n", "\r\n", "\r", '"', '""', "é", "\u2028", "\x85", "x" * 90, "\\", "", "1", "[", "]", "\U0001f600"]


# ---- values, with numbers as they are written and members in their order ----


def refuse(text):
    raise ValueError(text)


def loads(text):
    """As json.loads, but 1e400 stays what it is, names may occur twice, and NaN is none."""
    return json.loads(text, parse_float=Number, parse_int=Number, parse_constant=refuse, object_pairs_hook=Members)


class Number(str):
    def __repr__(self):
        return f"number {str(self)}"

    def __eq__(self, other):
        return isinstance(other, Number) and str(self) == str(other)

    __hash__ = str.__hash__


class Members(list):
    pass


def row_of(names, fields):
    return Members(zip(names, fields))


def rows_of(data, delimiter):
    reader = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), delimiter=delimiter, strict=True)
    rows = [row for row in reader if row]
    return [row_of(rows[0], row) for row in rows[1:]]


# ---- running muster ----


class Place:
    """A folder for one run after the other."""

    def __init__(self, folder):
        self.folder = folder
        with open(os.path.join(folder, "echo"), "w", encoding="utf-8") as file:
            file.write(ECHO)
        os.chmod(os.path.join(folder, "echo"), 0o755)
        self.env = {**os.environ, "MUSTER_LOCK_DIR": os.path.join(folder, "locks"), "PYTHONDONTWRITEBYTECODE": "1"}

    def path(self, name):
        return os.path.join(self.folder, name)

    def map(self, name, data, out="out.jsonl", worker="filter", status=0):
        """What is written, as bytes, and what was set aside, as numbers of items."""
        with open(self.path(name), "wb") as file:
            file.write(data)
        for old in (out, out + ".failed.jsonl"):
            if os.path.exists(self.path(old)):
                os.unlink(self.path(old))
        done = subprocess.run([MUSTER, "map", "-q", "--fresh", "-g", "cpu:2", name, "-o", out, "--", WORKERS[worker]],
                              cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S)  # fmt: skip
        if done.returncode != status:
            raise AssertionError(f"{name}, {worker}: status {done.returncode}: {done.stderr.decode(errors='replace')[-600:]}")
        aside = []
        if os.path.exists(self.path(out + ".failed.jsonl")):
            with open(self.path(out + ".failed.jsonl"), "rb") as file:
                aside = [json.loads(line)["item"] for line in file]
        with open(self.path(out), "rb") as file:
            return file.read(), aside


def lines_of(data):
    """Not splitlines(), which also splits at U+0085 and others."""
    return data.split(b"\n")[:-1]


def same(what, found, expected):
    for i, (f, e) in enumerate(zip(found, expected)):
        assert f == e, f"{what}: record {i}: found {str(f)[:300]!r}, expected {str(e)[:300]!r}"
    assert len(found) == len(expected), f"{what}: {len(found)} records, expected {len(expected)}"


def agrees(place, name, data, expected):
    """The results of a filter are objects where its input is JSON."""
    are_objects = all(isinstance(item, Members) for item in expected)
    for worker in WORKERS if are_objects else ["channel"]:
        out, aside = place.map(name, data, worker=worker)
        assert not aside, f"{name}: set aside: {aside}"
        same(f"{name}, {worker}", [loads(line) for line in lines_of(out)], expected)


def table_agrees(place, name, data):
    agrees(place, name, data, rows_of(data, "\t" if name.endswith(".tsv") else ","))


# ---- real files ----


def real_tables(place):
    paths = glob.glob("/usr/share/ieee-data/[om]*.csv")
    for path in paths:
        with open(path, "rb") as file:
            table_agrees(place, os.path.basename(path), file.read())
    return None if paths else "SKIP the package ieee-data is not here"


def real_arrays(place):
    paths = glob.glob("/usr/share/iso-codes/json/iso_[346]*-[123].json")
    for path in paths:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        array = text[text.index("[") : text.rindex("]") + 1]
        items = loads(array)
        agrees(place, "iso.json", array.encode(), items)
        lines = "".join(re.sub(r"\s*\n\s*", " ", element) + "\n" for element in elements(array))
        agrees(place, "iso.jsonl", lines.encode(), items)
    return None if paths else "SKIP the package iso-codes is not here"


def elements(array):
    """The elements of an array as they are written."""
    decoder, at = json.JSONDecoder(), 1
    while True:
        at = re.compile(r"[\s,]*").match(array, at).end()
        if array[at] == "]":
            return
        _, end = decoder.raw_decode(array, at)
        yield array[at:end]
        at = end


# ---- generated ones ----


def field(rng):
    return "".join(rng.choice(PIECES) for _ in range(rng.randrange(6)))


def table_field(rng, quoting):
    """Python's writer leaves a CR without LF unquoted, which its reader takes for the end of a record."""
    found = field(rng)
    return found if quoting == csv.QUOTE_ALL else re.sub("\r(?!\n)", "", found)


def number(rng):
    return rng.choice(["0", "-0", "1e400", "-1E-400", "0.1", "123456789012345678901234567890", "1" * 400, "-7", "2.50"])


def value(rng, depth=0):
    """As text, so that there is something else than json.dumps writes."""
    kind = rng.randrange(9 if depth < 4 else 5)
    if kind < 2:
        return rng.choice(["null", "true", "false", number(rng)])
    if kind < 5:
        return text(rng, field(rng))
    blank = rng.choice(["", "", " ", "\t "])
    if kind < 7:
        return "[" + blank + f",{blank}".join(value(rng, depth + 1) for _ in range(rng.randrange(4))) + "]"
    return "{" + blank + f",{blank}".join(f"{text(rng, field(rng))}:{value(rng, depth + 1)}" for _ in range(rng.randrange(4))) + "}"


def some_values(rng, seed):
    """Objects, which any worker may give back, or whatever there is."""
    n_values = rng.randrange(300)
    return [f'{{"v":{value(rng)}}}' if seed % 2 else value(rng) for _ in range(n_values)]


def text(rng, content):
    """A JSON string, escaped in one of the ways there are."""
    if rng.random() < 0.5:
        return json.dumps(content, ensure_ascii=rng.random() < 0.5)
    units = content.encode("utf-16-be")
    return '"' + "".join(f"\\u{units[i]:02x}{units[i + 1]:02X}" for i in range(0, len(units), 2)) + '"'


def random_tables(place):
    for seed in range(2 * N_SEEDS):
        rng, name = random.Random(seed), ["a.csv", "a.tsv"][seed % 2]
        end, n_columns = rng.choice(["\n", "\r\n"]), rng.randrange(1, 6)
        quoting = rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
        file = io.StringIO(newline="")
        writer = csv.writer(file, delimiter="\t" if name == "a.tsv" else ",", lineterminator=end, quoting=quoting)
        writer.writerow([f"c{i}{table_field(rng, quoting)}" for i in range(n_columns)])
        for _ in range(rng.randrange(300)):
            writer.writerow([table_field(rng, quoting) for _ in range(n_columns)])
            file.write(end if rng.randrange(20) == 0 else "")
        table_agrees(place, name, file.getvalue().encode(rng.choice(["utf-8", "utf-8-sig"])))


def random_arrays(place):
    for seed in range(N_SEEDS):
        rng = random.Random(seed)
        values = some_values(rng, seed)
        array = "[" + rng.choice([",", " ,\n", ",\r\n\t"]).join(values) + "]"
        agrees(place, "a.json", array.encode(), [loads(v) for v in values])


def random_lines(place):
    for seed in range(N_SEEDS):
        rng = random.Random(seed)
        values = some_values(rng, seed)
        lines = "".join(rng.choice(["", "", "\n", " \t\r\n"]) + v + rng.choice(["\n", "\r\n", " \n"]) for v in values)
        agrees(place, "a.jsonl", lines.encode(), [loads(v) for v in values])


# ---- those that mean ill ----

TABLES = {
    "quoted newlines of every kind": b'a,b\r\n"1\n2","3\r\n4"\r\n"\r","\n"\r\n',
    "a mark of the byte order before a quoted name": b'\xef\xbb\xbf"a","b"\n1,2\n',
    "a mark of the byte order that is none": 'a,b\n\ufeff1,"\ufeff2"\n'.encode(),
    "quotes that are written twice": b'a,b\n"""",""""""\n"x""y",""\n',
    "nothing behind the last separator": b"a,b,c\n1,,\n,,\n",
    "one column, with empty fields": b'a\n""\n\n"x"\n',
    "no newline at the end": b'a,b\n1,"2\n3"',
    "a header alone": b"a,b\n",
    "a field of two million bytes": b'a,b\n"' + b'x,\n""' * 400000 + b'",2\n',
    "three thousand columns": ",".join(f"c{i}" for i in range(3000)).encode() + b"\n" + b",".join([b'"1,2"'] * 3000) + b"\n",
    "a long row at each place of a block": b"a,b\n" + b"".join(b"x" * n + b',"' + b"\n" * (n % 3) + b'"\n' for n in range(200)),
    "names that are numbers, empty, or blank": b"1,, \nx,y,z\n",
    "spaces around quotes": b'a,b\n "x" ,y\n1 , 2\n',
}


def hostile_tables(place):
    for what, data in TABLES.items():
        try:
            table_agrees(place, "t.csv", data)
            table_agrees(place, "t.tsv", data.replace(b",", b"\t"))
        except AssertionError as error:
            raise AssertionError(f"{what}: {error}") from None


VALUES = [
    '"\\u0041\\ud83d\\ude00\\u0000\\/\\b\\f\\n\\r\\t\\"\\\\"', '"\u2028\u2029\x85\x7f"', "[" * (DEPTH_MAX - 1) + "]" * (DEPTH_MAX - 1),
    '{"a":' * (DEPTH_MAX - 1) + "1" + "}" * (DEPTH_MAX - 1), "9" * 5000, "-0.0e-0", "1E+9", "1e-99999", '{"a":1,"a":2,"":{"":[]}}', '"' + "\\\\" * 99999 + '"',
    "[[],{},[{}],\"]\",\"[\",\"{\",\"\\\"]\"]", " \t null \r", '"' + "x" * 63 + '"', '"' + "é" * 40 + '\\""', "{ }", "[\t]",
]  # fmt: skip


def hostile_values(place):
    for values in VALUES, [f'{{"v":{value}}}' for value in VALUES]:
        expected = [loads(value) for value in values]
        agrees(place, "v.jsonl", "\n".join(values).encode() + b"\n", expected)
        agrees(place, "v.json", b"\xef\xbb\xbf\n[\n" + ",\n".join(values).encode() + b"\r\n]\n", expected)


def deep_values(place):
    deep = ["[" * depth + "]" * depth for depth in (DEPTH_MAX, DEPTH_MAX + 1, 100000)]
    out, aside = place.map("d.json", f"[{','.join(deep)},1]".encode(), worker="channel", status=1)
    assert aside == [1, 2], aside
    same("deep values", [loads(line) for line in lines_of(out)], [loads(deep[0]), Number("1")])


def mutated(rng, line):
    """One or two bytes otherwise: what is in a string, a number, a name or between them."""
    line = bytearray(line)
    for _ in range(rng.randrange(1, 3)):
        at = rng.randrange(len(line))
        kind = rng.randrange(4)
        if kind == 0:
            line[at] = rng.choice(b'"\\,:[]{}0123456789.eE+-unftx \t\r\x00\x0b\x1f\x80\xc3\xed\xff')
        elif kind == 1:
            del line[at : at + rng.randrange(1, 4)]
        elif kind == 2:
            line[at:at] = rng.choice([b"\\u12", b"\\ud800", b"\\x", b"01", b"1.", b".5", b"+1", b"NaN", b"Infinity", b"//", b",", b"\xc0\x80", b"'"])
        else:
            line[at:at] = line[at : at + rng.randrange(1, 9)]
        line = line or bytearray(b"0")
    return bytes(line).replace(b"\n", b" ")


def python_takes(line):
    try:
        return [loads(line.decode("utf-8"))]
    except (ValueError, RecursionError):
        return []


def mutated_lines(place):
    rng, lines = random.Random(11), []
    while len(lines) < N_MUTATED:
        line = f'{{"v":{value(rng)}}}'.encode()
        line = mutated(rng, line) if rng.random() < 0.7 else line
        if all(isinstance(found, Members) for found in python_takes(line)):
            lines.append(line)
    items = [line for line in lines if line.strip(b" \t\r")]
    expected = [found for line in items for found in python_takes(line)]
    refused = [i for i, line in enumerate(items) if not python_takes(line)]
    assert 100 < len(refused) < len(items) - 100
    for worker in WORKERS:
        out, aside = place.map("m.jsonl", b"\n".join(lines) + b"\n{}\n", worker=worker, status=1)
        for i in set(aside) ^ set(refused):
            raise AssertionError(f"{worker}: {'only muster' if i in aside else 'only Python'} refuses {items[i]!r}")
        same(f"mutated lines, {worker}", [loads(line) for line in lines_of(out)], [*expected, Members()])


# ---- and out again ----


def cell(found):
    """A value as CSV has it."""
    words = {None: "", True: "true", False: "false"}
    return str(found) if isinstance(found, str) else words[found]


def written_tables(place):
    for seed in range(N_SEEDS):
        rng, out = random.Random(seed), ["out.csv", "out.tsv"][seed % 2]
        names = [f"n{i}{field(rng)}" for i in range(rng.randrange(1, 6))]
        rows = [[value(rng) for _ in names] for _ in range(rng.randrange(1, 200))]
        lines = "".join("{" + ",".join(f"{text(rng, n)}:{v}" for n, v in zip(names, row)) + "}\n" for row in rows)
        data, _ = place.map("w.jsonl", lines.encode(), out=out)
        found = rows_of(data, "\t" if out == "out.tsv" else ",")
        same(out, [[name for name, _ in row] for row in found], [names] * len(rows))
        for row, expected in zip(found, rows):
            for (_, has), wants in zip(row, map(loads, expected)):
                is_nested = isinstance(wants, list)
                assert (loads(has) == wants) if is_nested else (has == cell(wants)), f"{out}: {has!r} for {wants!r}"


def written_arrays(place):
    for seed in range(N_SEEDS):
        rng = random.Random(seed)
        values = [value(rng) for _ in range(rng.randrange(200))]
        lines = "".join(v + "\n" for v in values)
        data, _ = place.map("w.jsonl", lines.encode(), out="out.json", worker="channel")
        same("out.json", loads(data.decode()), [loads(v) for v in values])


TESTS = {
    "real tables (ieee-data) are read as Python reads them": real_tables,
    "real arrays (iso-codes) are read as Python reads them": real_arrays,
    "random CSV and TSV": random_tables,
    "random JSON arrays": random_arrays,
    "random JSON lines": random_lines,
    "hostile CSV and TSV": hostile_tables,
    "hostile JSON": hostile_values,
    "deeper than 512 is set aside": deep_values,
    "of mutated lines muster refuses those that Python refuses, and no others": mutated_lines,
    "CSV and TSV that muster writes": written_tables,
    "JSON arrays that muster writes": written_arrays,
}


def main():
    tests = {name: test for name, test in TESTS.items() if not sys.argv[1:] or any(word in name for word in sys.argv[1:])}
    print(f"1..{len(tests)}")
    n_failed = 0
    for at, (name, test) in enumerate(tests.items(), 1):
        with tempfile.TemporaryDirectory(prefix="muster-python-") as folder:
            try:
                skip = test(Place(folder))
                print(f"ok {at} - {name}" + (f" # {skip}" if skip else ""), flush=True)
            except (AssertionError, ValueError, csv.Error, subprocess.TimeoutExpired) as error:
                n_failed += 1
                print(f"not ok {at} - {name}\n# " + str(error).replace("\n", "\n# "), flush=True)
                print(f"#   again: MUSTER={MUSTER} {sys.argv[0]} '{name}'")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
