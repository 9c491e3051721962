#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`muster merge` of files of torch.save has two ways for long lists: as nodes, and spliced. Both say the same, and
make the same object: values, and what in it is one object.

    test_splices.py MUSTER [ROUNDS [SEED]]      SPLICE_CORPUS names folders of .pt files that are merged too, each with itself
"""
import collections, io, os, pickle, pickletools, random, shutil, struct, subprocess, sys, zipfile
from checks import Skip, check, run_checks
import torch_like as made

MUSTER = os.path.abspath(sys.argv[1])
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 60
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else 1
NEVER = str(2**64 - 1)


class Object:
    """What a call makes, with all that is done to it."""
    def __new__(cls, *args, **_):
        new = super().__new__(cls)
        new.args, new.done = args, []
        return new

    def __init__(self, *_):
        pass

    def append(self, item):
        self.done.append(("item", item))

    def extend(self, items):
        self.done += [("item", item) for item in items]

    def __setitem__(self, key, value):
        self.done.append(("pair", key, value))

    def __setstate__(self, state):
        self.done.append(("state", state))


class Unpickler(pickle.Unpickler):
    def __init__(self, data, read):
        super().__init__(io.BytesIO(data))
        self.read, self.names, self.storages = read, {}, {}

    def find_class(self, module, name):
        return self.names.setdefault((module, name), type(f"{module}.{name}", (Object,), {}))

    def persistent_load(self, pid):
        if pid[2] not in self.storages:
            self.storages[pid[2]] = Object(*pid[:2], *pid[3:], self.read("data/" + pid[2]))
        return self.storages[pid[2]]


def parts_of(obj):
    if isinstance(obj, dict):
        return [part for pair in obj.items() for part in pair]
    if isinstance(obj, Object):
        return [type(obj).__name__, *obj.args, *(part for done in obj.done for part in done)]
    return list(obj)


def shape_of(root):
    """Everything that can be found out about an object, in one list: of what was met before, only where."""
    out, met, todo, kept = [], {}, [root], []
    while todo:
        obj = todo.pop()
        if isinstance(obj, (list, tuple, dict, set, frozenset, Object)) and obj != ():
            if id(obj) in met:
                out.append(("again", met[id(obj)]))
                continue
            met[id(obj)] = len(met)
            parts = parts_of(obj) if not isinstance(obj, (set, frozenset)) else sorted(obj, key=repr)
            kept.append(parts)
            out.append((type(obj).__name__, len(parts)))
            todo += reversed(parts)
        else:
            out.append((type(obj).__name__, repr(obj)))
    return out


def opened(path):
    archive = zipfile.ZipFile(path)
    assert archive.testzip() is None
    name = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
    return archive, archive.read(name), name[:-len("data.pkl")]


def object_of(path):
    archive, data, folder = opened(path)
    assert {op.name for op, _, _ in pickletools.genops(data)} <= made.OPCODES | {"POP", "POP_MARK", "LONG4"}
    unpickler = Unpickler(data, lambda name: archive.read(folder + name))
    obj = unpickler.load()
    assert len([name for name in archive.namelist() if name.startswith(folder + "data/")]) == len(unpickler.storages)
    return obj


def merge(names, least, *options):
    """The status, what was said, and the object."""
    if os.path.exists("out.pt"):
        os.unlink("out.pt")
    ended = subprocess.run([MUSTER, "merge", *names, "-o", "out.pt", *options], capture_output=True, text=True, timeout=120,
                           env={**os.environ, "MUSTER_SPLICE_LEAST": least})
    assert os.path.exists("out.pt") == (ended.returncode == 0), ended
    said = ended.stderr if ended.returncode else ended.stderr.rsplit("(", 1)[0] # but for the size
    return ended.returncode, said, shape_of(object_of("out.pt")) if ended.returncode == 0 else None


def both(names, *options):
    ways = [merge(names, least, *options) for least in ("1", NEVER)]
    for a, b in zip(*ways):
        assert a == b, (names, str(a)[:800], str(b)[:800])
    return ways[0]


def write(parts, protocol=2):
    names = []
    for i, part in enumerate(parts):
        names.append(f"part_{i}.pt")
        with open(names[-1], "wb") as file:
            file.write(part if isinstance(part, bytes) else made.saved(part, protocol))
    return names


def count(code, path="out.pt"):
    return sum(op.name == code for op, _, _ in pickletools.genops(opened(path)[1]))


def is_spliced(parts, *options):
    """Then the batches of the parts stay apart."""
    names = write(parts)
    both(names, *options)
    n_batches = []
    for least in ("1", NEVER):
        assert merge(names, least, *options)[0] == 0
        n_batches.append(count("APPENDS"))
    return n_batches[0] > n_batches[1]


def record(i):
    return {"id": i, "prompt": f"question {i}", "score": i / 7, "correct": i % 3 == 0, "tags": ["a", ["b", i]], "span": (i, i + 1, "x", None)}


@check
def records_are_spliced():
    def parts(n):
        return [{"num_records": n, "records": [record(k * n + i) for i in range(n)]} for k in range(3)]
    for n in (2, 7, 1001, 2500):
        assert is_spliced(parts(n)), n
    both(write(parts(1000)))
    assert is_spliced([[record(i) for i in range(5)] for _ in range(2)])
    whole = made.loaded("out.pt")
    assert whole == [record(i) for i in range(5)] * 2
    both(write(parts(1)))
    both(write(parts(0)))


@check
def what_is_longer_than_a_window():
    for n in (100, 250000, 300000, 1000000):
        part = {"list": [record(0), "x" * n, record(1), ["y" * n, "ü" * (n // 2)], "x" * n, record(2)] * 3}
        assert is_spliced([part, part]), n
    part = {"list": [[i, "w" * (i % 977), "w"] for i in range(6000)]}
    both(write([part, part]))


@check
def nothing_is_written_where_nothing_is_to_be():
    names = write([[record(i) for i in range(5)]] * 2)
    ended = subprocess.run([MUSTER, "merge", "-n", *names, "-o", "none.pt"], capture_output=True, text=True, timeout=60,
                           env={**os.environ, "MUSTER_SPLICE_LEAST": "1"})
    assert ended.returncode == 0 and not os.path.exists("none.pt") and "would go" in ended.stderr, ended


@check
def little_memory_for_many_records():
    parts = [{"list": [{"id": i, "text": f"text {i} " * 20} for i in range(60000)]} for _ in range(4)]
    names = write(parts)
    code = ("import os, resource, sys\nstatus = os.spawnv(os.P_WAIT, sys.argv[1], sys.argv[1:])\n"
            "print(status, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
    with open(MUSTER, "rb") as program:
        is_sanitized = b"__asan_init" in program.read()
    peaks = []
    for least in ("65536", NEVER):
        ended = subprocess.run([sys.executable, "-SIc", code, MUSTER, "merge", "-qf", *names, "-o", "out.pt"], capture_output=True, text=True,
                               timeout=60, check=True, env={**os.environ, "MUSTER_SPLICE_LEAST": least})
        status, kib = map(int, ended.stdout.split())
        assert status == 0, ended
        peaks.append(kib << 10)
    n_bytes = len(opened(names[0])[1])
    assert is_sanitized or (peaks[0] <= 2 * n_bytes + (16 << 20) and peaks[1] > 4 * n_bytes), (peaks, n_bytes)


@check
def words_are_found_wherever_they_were_said_first():
    word, key = "word that is said in many places", "prompt"
    part = {"before": word, "head": {key: 1}, "list": [{key: word, "new": f"n{i}"} for i in range(4)], "other": [{"new": 1, key: word}] * 1 + [{"new": "n1"}] * 2, "after": word,
            "new": {"new": key}}
    assert is_spliced([part, part])
    assert is_spliced([part, part], "--rule", "list=drop")
    assert is_spliced([part, part], "--rule", "list=first")
    both(write([part, part]), "--rule", "list=collect")
    both(write([part, part]), "--rule", "before=drop", "--rule", "head=drop")


@check
def what_is_one_object_stays_one():
    shared, shared_dict = ["shared"], {"k": ["v"]}
    assert is_spliced([{"list": [shared, shared, [shared_dict], shared_dict]}] * 2)
    both(write([{"list": [shared, 1], "other": [shared, 2]}] * 2))
    assert not is_spliced([{"list": [shared, 1, 2], "other": [1, shared]}] * 2)
    long = [{"n": i, "one": shared_dict} for i in range(2500)]
    assert is_spliced([{"list": long}] * 2)
    both(write([{"list": long, "last": shared_dict}] * 2))
    both(write([{"list": long[:1001], "last": long[1000]}] * 2))
    both(write([{"a": shared, "b": shared, "list": long}] * 2))
    owner = {"list": [1, 2, 3]}
    both(write([{"a": owner, "b": owner}] * 2))
    both(write([{"a": owner, "b": (owner,)}] * 2), "--rule", "b=first")


@check
def what_holds_itself():
    ring = {"n": 1}
    ring["self"] = ring
    both(write([{"list": [ring, 2, 3]}] * 2))
    whole = [1, 2]
    whole.append({"whole": whole})
    both(write([{"list": whole}] * 2))
    tied = ([],)
    tied[0].append(tied)
    both(write([{"list": [tied, 2, 3]}] * 2))


@check
def lists_that_are_compared():
    parts = [{"args": {"stop": ["a", "b", {"c": [1, 2]}]}, "list": [1, 2]} for _ in range(2)]
    both(write(parts))
    both(write(parts), "--rule", "list=same")
    both(write([{"x": {"list": [1, 2]}}, {"x": {"list": [1, 3]}}]), "--rule", "x=same")
    both(write([{"x": {"list": [1, 2]}}, {"x": {"list": [1, 3]}}]), "--rule", "x=first")
    both(write([{"x": {1, 2, 3}}] * 2))
    both(write([{"x": collections.Counter("abc"), "list": [1, 2]}] * 2))
    both(write([{"num_list": 3, "list": [1, 2]}] * 2))
    for options in (["--expect", "4"], ["--expect", "5"], ["--id", "list.*"], ["--compact"], ["--plain"]):
        both(write([{"list": [1, 2]}, {"list": [3, 4]}]), *options)


@check
def tensors_and_calls_in_records():
    def storage(n):
        return made.Storage(made.FloatStorage, struct.pack("<2f", n, n))
    one = storage(1)
    both(write([{"list": [{"t": made.Tensor(storage(i), (2,)), "same": made.Tensor(one, (1,))} for i in range(3)], "t": made.Tensor(one, (2,))} for _ in range(2)]))
    both(write([{"list": [collections.OrderedDict(a=i) for i in range(3)], "set": [{1, 2}, {3}], "bytes": [b"\xff", b"", bytearray(b"x")]} for _ in range(2)]))
    assert is_spliced([{"list": [collections.OrderedDict(a=i) for i in range(1500)]}] * 2)
    both(write([{"list": [made.Strange(), made.Strange()]}] * 2))
    both(write([{"list": [made.Scalar("f8", struct.pack("<d", i)) for i in range(1500)]}] * 2))


@check
def other_protocols():
    for protocol in range(6):
        both(write([{"list": [record(i) for i in range(1100)], "after": "prompt"} for _ in range(2)], protocol))


def machine_made(*pickles):
    return [made.zipped({"data.pkl": p, "version": b"3\n"}) for p in pickles]


@check
def pickles_that_no_pickler_makes():
    head, end = b"\x80\x02}X\x01\x00\x00\x00l", b"s."
    for body in (b"](K\x01K\x02e",                              # no PUT
                 b"]q\x00(K\x01K\x02e(K\x03K\x04e",             # two batches
                 b"]q\x00(K\x01K\x02eK\x03a(K\x04K\x05e",       # one alone in between
                 b"](X\x01\x00\x00\x00aq\x05h\x05eh\x05a(h\x05h\x05e",
                 b"](X\x01\x00\x00\x00aq\x05X\x01\x00\x00\x00bq\x05h\x05e(h\x05h\x05e", # put twice
                 b"](]q\x05(K\x01K\x02eh\x05eh\x05(K\x07K\x08e0",   # added to later
                 b"]q\x00(h\x00(K\x01K\x02e0K\x05e",            # to itself
                 b"](}q\x05K\x01e(h\x05K\x01K\x02seK\x09a",     # set in an earlier one
                 b"](}q\x05K\x01e(h\x05K\x01K\x02s0K\x07e",
                 b"](K\x01K\x02t",                              # a mark that makes something else
                 b"](K\x01K\x02u", b"]((K\x01eK\x02e", b"]2(K\x01K\x02e0",
                 b"](K\x01q\x01h\x01e(h\x01h\x01e", b"](K\x01K\x02e\x85", b"](0K\x01a", b"](1K\x01a",
                 b"](]q\x03h\x03e(\x8c\x01aK\x01e(h\x03h\x03e",
                 b"](h\x07K\x01e", b"](X\x01\x00\x00\x00\xffK\x01e", b"](K\x01K\x02", b"](]K\x01K\x02se", b"](}]K\x01sK\x02e", b"]e", b"](e(K\x01K\x02e",
                 b"](cposix\nsystem\nq\x01K\x02e(h\x01(tRK\x01e", b"](c__builtin__\nset\nq\x01]\x85RK\x02e(h\x01]\x85RK\x01e",
                 b"](cposix.a\nsys.tem\nq\x01K\x02e(h\x01h\x01e"):
        data = head + body + end
        names = write(machine_made(data, data))
        both(names)
        both(names, "--rule", "l=first")
        both(names, "--pass-through")


def value_make(random, depth, pool):
    kind = random.random()
    if pool and kind < 0.15:
        return random.choice(pool)
    if depth == 0 or kind < 0.5:
        return random.choice([None, True, False, 0, 255, 65536, -1, 2**31, -2**40, 2**70, -2**2100, 1.5, float("nan"), "", "a", "key", "wörd", "\ud800",
                              "x" * 300, b"\x80b", ()])
    if kind < 0.52:
        return made.Tensor(made.Storage(made.FloatStorage, struct.pack("<2f", 1, 2)), (2,))
    if kind < 0.54:
        return random.choice([{1, "a"}, bytearray(b"q"), frozenset([3]), collections.OrderedDict(a=1), collections.Counter("ab")])
    n = random.choice([0, 1, 2, 3, 5])
    if kind < 0.7:
        new = [value_make(random, depth - 1, pool) for _ in range(n)]
    elif kind < 0.8:
        return tuple(value_make(random, depth - 1, pool) for _ in range(n))
    else:
        new = {random.choice(["key", "a", "id", i, (i, "t"), f"k{i}"]): value_make(random, depth - 1, pool) for i in range(n)}
    if random.random() < 0.3:
        pool.append(new)
    return new


def part_make(random, pool):
    part = {}
    for key in random.sample(["records", "key", "list", "wörd"], random.randint(1, 4)):
        n = random.choice([0, 1, 2, 3, 20, 1000, 1001, 2003]) if random.random() < 0.3 else random.randint(0, 8)
        inner = random.random() < 0.7
        part[key] = [value_make(random, random.randint(0, 3), pool if inner else []) for _ in range(n)]
        if random.random() < 0.3:
            pool.clear()
    return part


@check
def anything():
    for n in range(SEED, SEED + ROUNDS):
        rng = random.Random(n)
        parts = []
        for _ in range(rng.randint(2, 3)):
            parts.append(part_make(rng, []))
        keys = set.intersection(*(set(part) for part in parts))
        parts = [{"version": "key", **{key: part[key] for key in part if key in keys}, "word": "key", "n": {"list": ["key"] * rng.randint(0, 3)}} for part in parts]
        parts = rng.choice([parts, [part.get("records", [part]) for part in parts]])
        names = write(parts, rng.choice([2, 2, 2, 2, 2, 2, 0, 3, 4]))
        try:
            both(names, *rng.choice([[], [], [], ["--rule", "key=first"], ["--rule", "list=drop"], ["--rule", "records=collect"]]))
        except Exception as wrong:
            raise AssertionError(f"seed {n}: {wrong}") from wrong


@check
def corpora():
    folders = os.environ.get("SPLICE_CORPUS", "").split(":")
    if folders == [""]:
        raise Skip("SPLICE_CORPUS names no folder")
    for path in (os.path.join(folder, name) for folder in folders for name in sorted(os.listdir(folder)) if name.endswith(".pt")):
        shutil.copy(path, "first.pt")
        shutil.copy(path, "second.pt")
        both(["first.pt", "second.pt"])
        both(["first.pt", "second.pt"], "--rule", ".=first")


sys.exit(run_checks())
