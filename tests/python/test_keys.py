#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`muster merge` of .pt, keys and sameness: keys are one where Python's dictionaries have them as one, values are
the same however often, however deep and however ring-shaped they lie, and the work grows with the files.

    test_keys.py MUSTER
"""
import collections, enum, io, itertools, math, os, pickle, random, resource, struct, subprocess, sys
from checks import check, run_checks
import torch_like as made

MUSTER = os.path.abspath(sys.argv[1])


class Colour(enum.Enum):
    RED, BLUE = 1, 2


class Plain:
    def __init__(self, n):
        self.n = n


made.module("somewhere.else", Colour=Colour, Plain=Plain)


def write(parts, protocol=2, name="part"):
    names = [f"{name}_{i}.pt" for i in range(len(parts))]
    for path, part in zip(names, parts):
        with open(path, "wb") as file:
            file.write(part if isinstance(part, bytes) else made.saved(part, protocol))
    return names


def run(names, *options):
    if os.path.exists("out.pt"):
        os.unlink("out.pt")
    return subprocess.run([MUSTER, "merge", "-q", *names, "-o", "out.pt", *options], capture_output=True, text=True, timeout=120)


def rules(*texts):
    return [option for text in texts for option in ("--rule", text)]


def merged(parts, *options, protocol=2):
    ended = run(write(parts, protocol), *options)
    assert ended.returncode == 0, ended
    return made.loaded("out.pt")


def refused(words, parts, *options, protocol=2):
    ended = run(write(parts, protocol), *options)
    assert ended.returncode == 65 and not os.path.exists("out.pt"), ended
    assert all(word in ended.stderr for word in words), ended.stderr


def are_same(a, b, *options):
    """Are they, to muster?"""
    ended = run(write([value if isinstance(value, bytes) and value[:2] == b"PK" else {"x": [value]} for value in (a, b)]), *rules("x=same"), *options)
    assert ended.returncode == 0 or (ended.returncode == 65 and "differs" in ended.stderr), ended
    return ended.returncode == 0


def by_hand(pickled, **more):
    return made.zipped({"data.pkl": b"\x80\x02" + pickled + b".", "version": b"3\n", **more})


def seconds(names, *options):
    """Of the processor; the least of three."""
    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        ended = run(names, *options)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert ended.returncode == 0, ended
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


@check
def counts_are_all_added_however_much_is_compared():
    n_files, n_keys, shared = 3, 3000, tuple(range(10000))
    whole = merged([collections.Counter({(shared, i): 3 for i in range(n_keys)})] * n_files)
    assert len(whole) == n_keys and set(whole.values()) == {3 * n_files}, collections.Counter(whole.values())


@check
def the_work_of_counters_and_dictionaries_grows_with_the_files():
    for make, options in ((lambda k: collections.Counter({f"{k} {i}": i for i in range(8000)}), ()),
                          (lambda k: collections.Counter({f"{i}": i for i in range(8000)}), ()),
                          (lambda k: {"u": {f"{k} {i}": i for i in range(4000)}}, rules("u=union")),
                          (lambda k: {"u": {f"{i}": [i] for i in range(4000)}}, ())):
        names = write([make(k) for k in range(96)])
        few, many = seconds(names[:24], *options), seconds(names, *options)
        assert many <= 8 * few + 0.1, (few, many)


@check
def a_key_of_many_nested_tuples_keeps_its_value():
    key = ()
    for i in range(600):
        key = (i, key)
    assert merged([{"c": collections.Counter({key: 2, 1: 5})}] * 3)["c"] == {key: 6, 1: 15}
    assert merged([{key: [1]}, {key: [2]}]) == {key: [1, 2]}
    assert merged([{"u": {key: 1}}, {"u": {key: 1, 2: 3}}], *rules("u=union"))["u"] == {key: 1, 2: 3}
    refused(["'u.(key)'", "not the same"], [{"u": {key: 1}}, {"u": {key: 2}}], *rules("u=union"))
    assert merged([{"x": {key: 1}}] * 2) == {"x": {key: 1}}


@check
def a_value_that_lies_in_very_many_places_is_compared_once():
    row = (7,) * 9999
    parts = [{"mask": (row,) * 9999, "answers": {f"{i}": "text" for i in range(6000)}} for _ in range(2)]
    assert merged(parts, *rules("answers=union")) == parts[0]
    twice = (1,)
    for _ in range(200):
        twice = (twice, twice)
    for part in ({"t": twice}, {"t": [{"a": twice}]}):
        assert run(write([part] * 2), *rules("t=same")).returncode == 0
    key = b"K\x01" + b"".join(b"q" + bytes([i]) + b"h" + bytes([i]) + b"\x86" for i in range(200)) # Python itself would take for ever
    for options in ((), rules(".=same"), rules(".=union"), rules(".=sum-by-key")):
        assert run(write([by_hand(b"}" + key + b"K\x05s"), by_hand(b"}" + key + b"K\x05s")]), *options).returncode == 0
    other = (2,)
    for _ in range(200):
        other = (other, other)
    refused(["'t'", "differs"], [{"t": twice}, {"t": other}], *rules("t=same"))
    shared = {"big": list(range(2000))}
    parts = [{"u": {f"{i}": [shared] for i in range(2000)}}] * 2
    assert merged(parts, *rules("u=union")) == parts[0]


@check
def a_file_is_the_same_as_its_copy():
    ring, other = [1], [1]
    ring.append((ring, {"ring": ring}))
    other.append((other, {"ring": [1, (other, {"ring": other})]}))
    wrong = [1]
    wrong.append((wrong, {"ring": [2]}))
    assert are_same(ring, ring) and are_same(ring, other) and not are_same(ring, wrong)
    deep = b"]" * 300000 + b"a" * 299999
    pairs = [b"}X\x01\0\0\0x]" + deep + b"as", b"}X\x01\0\0\0x]" + b"]" + deep + b"aas"]
    assert are_same(by_hand(pairs[0]), by_hand(pairs[0])) and not are_same(by_hand(pairs[0]), by_hand(pairs[1]))
    nan, key = math.nan, made.Tensor(made.Storage(made.FloatStorage, b"1234"), (1,))
    for value in ({nan: 1, 2: nan}, {(1, nan): 1, (1, float("nan")): 2}, {key: 1}, {1: {2: {3: {4}}}}, {-0.0: 0.0}, {2**70: -2**70},
                  {frozenset([1, (2, "a")]): b"\xff"}, collections.OrderedDict(a=1), [key, key]):
        assert are_same(value, value), value
    assert not are_same({nan: 1}, {nan: 2}) and not are_same([0.0], [-0.0]) and not are_same({nan: 1}, {1.5: 1})


def twice(*pairs):
    """A dictionary whose keys are set again."""
    return by_hand(b"}(X\x01\0\0\0x](}(" + b"".join(b"K" + bytes([k]) + b"K" + bytes([v]) for k, v in pairs) + b"ueu")


@check
def of_a_key_that_is_set_again_the_last_value_is_compared():
    assert are_same(twice((1, 1), (1, 2)), twice((1, 3), (1, 2))) and are_same(twice((1, 1), (1, 2)), twice((1, 2)))
    assert not are_same(twice((1, 2), (1, 1)), twice((1, 1), (1, 2)))
    def counter(*pairs):
        return by_hand(b"ccollections\nCounter\n}(" + b"".join(b"K" + bytes([k]) + b"K" + bytes([v]) for k, v in pairs) + b"u\x85R")
    assert merged([counter((1, 7), (2, 1), (1, 3)), counter((1, 9), (1, 0)), counter((2, 5))]) == {1: 3, 2: 6}


def random_key(rng, depth=0):
    kind = rng.randrange(13 if depth < 3 else 10)
    if kind >= 10:
        items = [random_key(rng, depth + 1) for _ in range(rng.randrange(3))]
        return tuple(items) if kind < 12 else frozenset(items)
    return rng.choice([lambda: rng.randrange(3), lambda: float(rng.randrange(3)), lambda: rng.random() < 0.5, lambda: rng.choice("abc"),
                       lambda: rng.choice([b"a", b"\xff", b""]), lambda: None, lambda: rng.choice([2**63, 2.0**63, 2**64, -2**63, -2.0**63, -2**63 - 1]),
                       lambda: rng.choice([0.5, -0.5, 1e300, math.inf]), lambda: rng.choice([int(1e300), 2**53 + 1, 2.0**53]), lambda: -0.0])()


@check
def keys_are_one_where_pythons_are():
    rng = random.Random(11)
    for round in range(150):
        parts = [{random_key(rng): rng.randrange(100) for _ in range(rng.randrange(1, 12))} for _ in range(rng.randrange(2, 5))]
        whole = {}
        for key, value in itertools.chain(*(part.items() for part in parts)):
            whole[key] = whole.get(key, 0) + value
        names = [write([part], rng.randrange(2, 6), f"part{i}")[0] for i, part in enumerate(parts)]
        ended = run(names, *rules(".=sum-by-key"))
        assert ended.returncode == 0, ended
        out = made.loaded("out.pt")
        assert out == whole and list(out) == list(whole), (parts, out, whole)
    for text, key in ((b"c__builtin__\ncomplex\nG?\xf0\0\0\0\0\0\0G\0\0\0\0\0\0\0\0\x86R", 1), (b"c__builtin__\nfrozenset\n](K\x01K\x01e\x85R", frozenset([1])),
                      (b"ctorch\nSize\nK\x02K\x03\x86\x85R", (2, 3)), (b"\x8a\x0a\x05" + b"\0" * 9, 5), (b"\x8a\x09" + b"\xff" * 9, -1)):
        ended = run(write([by_hand(b"}" + text + b"K\x01s"), {key: 4}]), *rules(".=sum-by-key"))
        assert ended.returncode == 0, ended
        with made.zipfile.ZipFile("out.pt") as file:
            assert b"K\x05" in file.read("out/data.pkl"), (text, file.read("out/data.pkl"))


@check
def numbers_of_numpy_are_keys_as_their_values_are():
    for kind, data, key in (("i8", struct.pack("<q", -5), -5), ("f4", struct.pack("<f", 2), 2), ("b1", b"\1", True), ("u8", struct.pack("<Q", 2**64 - 1), 2**64 - 1),
                            ("f8", struct.pack("<d", 0.5), 0.5), ("U2", "añ".encode("utf-32-le"), "añ")):
        names = write([{made.Scalar(kind, data): 1}, {key: 4}])
        ended = run(names, *rules(".=sum-by-key"))
        assert ended.returncode == 0, ended
        with made.zipfile.ZipFile("out.pt") as file:
            data = file.read("out/data.pkl")
        assert b"K\x05" in data and b"K\x04" not in data, (kind, data)


@check
def what_is_nan_is_no_others_key():
    whole = merged([collections.Counter({math.nan: 1, "a": 1})] * 2)
    assert sorted(whole.values()) == [1, 1, 2] and whole["a"] == 2, whole
    refused(["'(key)'", "missing"], [{math.nan: [1]}] * 2)
    assert sorted(merged([{"u": {math.nan: 1}}] * 2, *rules("u=union"))["u"].values()) == [1, 1]


@check
def objects_that_look_alike_are_not_taken_for_one():
    assert list(merged_opaque([{Colour.RED: 1, Colour.BLUE: 2}, {Colour.BLUE: 5}]).values()) == [1, 7]
    twins = [{Plain(1): 1, Plain(1): 2}, {Plain(2): 3}]
    refused(["part_0.pt", "look alike"], [{"c": part} for part in twins], "--pass-through", *rules("c=sum-by-key"))
    refused(["part_0.pt", "look alike"], [{"c": part} for part in twins], "--pass-through", *rules("c=union"))


def merged_opaque(parts):
    ended = run(write(parts), "--pass-through", *rules(".=sum-by-key"))
    assert ended.returncode == 0, ended
    with made.zipfile.ZipFile("out.pt") as file:
        return pickle.load(io.BytesIO(file.read("out/data.pkl")))


def random_value(rng, depth=0):
    kind = rng.randrange(9 if depth < 4 else 4)
    if kind < 4:
        return random_key(rng, 3)
    items = [random_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind == 4:
        return {random_key(rng, 2) for _ in range(3)}
    if kind == 5:
        return collections.OrderedDict((random_key(rng, 2), item) for item in items)
    return [list, tuple, lambda items: {random_key(rng, 2): item for item in items}][kind - 6](items)


def shuffled(rng, value):
    """Equal to it: another order of keys and items, and shared where it was not."""
    if isinstance(value, collections.OrderedDict) or type(value) in (list, tuple):
        return type(value)(shuffled(rng, item) for item in value) if not isinstance(value, dict) else \
            collections.OrderedDict((key, shuffled(rng, item)) for key, item in value.items())
    if isinstance(value, dict):
        pairs = [(key, shuffled(rng, item)) for key, item in value.items()]
        rng.shuffle(pairs)
        return dict(pairs)
    return value


@check
def values_are_the_same_where_python_says_so():
    rng = random.Random(5)
    values = [random_value(rng) for _ in range(60)]
    for value in values:
        other = rng.choice(values)
        assert are_same(value, shuffled(rng, value)), value
        assert are_same(value, other) == (pickle.dumps(value) == pickle.dumps(other) or repr(value) == repr(other) and value == other), (value, other)


@check
def files_without_checksums_are_compared_by_their_bytes():
    def part(data):
        storage = made.Storage(made.FloatStorage, data)
        entries = {"a/" + name: content for name, content in made.records({"x": [made.Tensor(storage, (2, 50000)), made.Tensor(storage, (7,))]}).items()}
        whole = bytearray(made.zipped(entries, folder=""))
        for at in range(len(whole) - 20):
            if whole[at:at + 4] == b"PK\x01\x02":
                whole[at + 16:at + 20] = bytes(4)
            elif whole[at:at + 4] == b"PK\x03\x04":
                whole[at + 14:at + 18] = bytes(4)
        return bytes(whole)
    data = bytes(random.Random(1).randbytes(400000))
    assert are_same(part(data), part(data)) and not are_same(part(data), part(data[:-1] + b"?"))


@check
def few_bytes_take_little_time():
    """What shares its parts is small in a file and large when it is gone through."""
    def shared(depth, make):
        value = make(1, 1)
        for _ in range(depth):
            value = make(value, value)
        return value
    texts = {f"{i}": "t" for i in range(50)}
    shapes = [shared(60, lambda a, b: (a, b)), shared(60, lambda a, b: [a, b]), shared(30, lambda a, b: {"a": [a], "b": b}), (((7,) * 999,) * 999,) * 999]
    for value in shapes:
        for options in (rules("x=same"), rules("x=collect"), rules("*=union"), rules("x=first"), ()):
            names = write([{"x": value, "t": texts}] * 2)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            ended = run(names, *options)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            assert ended.returncode in (0, 65) and spent < 4, (ended, spent)


def cost(*args):
    """Status, seconds of the processor, bytes of memory. Started from a small program, which counts as one itself."""
    code = ("import os, resource, sys\nstatus = os.spawnv(os.P_WAIT, sys.argv[1], sys.argv[1:])\n"
            "used = resource.getrusage(resource.RUSAGE_CHILDREN)\nprint(status, used.ru_utime + used.ru_stime, used.ru_maxrss << 10)")
    ended = subprocess.run([sys.executable, "-SIc", code, MUSTER, *args], capture_output=True, text=True, timeout=120, check=True)
    status, spent, peak = ended.stdout.split()[-3:]
    return int(status), float(spent), int(peak)


def costs_little(size, times, *args):
    """What the manual says: so many times the file in memory, beside what any run takes; and a few seconds."""
    with open(MUSTER, "rb") as program:
        is_sanitized = b"__asan_init" in program.read()
    status, spent, peak = cost(*args)
    assert status == 0 and (is_sanitized or (spent < 5 and peak <= (10 << 20) + times * size)), (args, status, spent, peak / size)


@check
def hostile_files_cost_as_much_as_they_are_large():
    strange = b"](" + b"".join(b"cs\nper_%d\n" % i for i in range(50000)) + b"e"
    again = b"}(X\1\0\0\0xq\1K\1" + b"h\1K\1" * 300000 + b"u"
    placed = b"]}q\1(" + b"K\2K\1" * 100000 + b"u0(" + b"h\1" * 100000 + b"e"
    nested = b")" + b"\x85" * 200000
    for pickled, times, options in ((strange, 16, ("--pass-through", *rules(".=collect"))), (again, 8, ()), (again, 8, rules(".=same")),
                                    (again, 8, rules(".=sum-by-key")), (placed, 8, rules(".=same")), (nested, 100, rules(".=same")),
                                    (b"}" + nested + b"K\1s", 100, rules(".=sum-by-key"))):
        names = write([by_hand(pickled)] * 2)
        costs_little(2 * len(pickled), times, "merge", "-q", "-f", *names, "-o", "out.pt", *options)
    write([{f"list {i}": [1, 2] for i in range(40000)}])
    costs_little(os.path.getsize("part_0.pt"), 12, "split", "-q", "--records", "1", "part_0.pt", "-o", "out-{n}.pt")
    for name in ("a.safetensors", "b.safetensors"):
        with open(name, "wb") as file:
            file.write(made.safetensors({"t": ("F32", [1], b"1234")}, {f"key {i}": "v" for i in range(200000)}))
    costs_little(2 * os.path.getsize("a.safetensors"), 6, "merge", "-q", "a.safetensors", "b.safetensors", "-o", "out.safetensors")


@check
def a_packed_array_is_judged_by_its_head():
    n = 1 << 28
    def pieces():
        yield made.npy("|u1", (n,), b"")
        for _ in range(n >> 23):
            yield bytes(1 << 23)
    with made.zipfile.ZipFile("large.npz", "w", made.zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("x.npy", "w", force_zip64=True) as entry:
            for piece in pieces():
                entry.write(piece)
    with open("small.npz", "wb") as file:
        file.write(made.zipped({"x.npy": made.npy("<f4", (1,), b"1234")}, folder=""))
    status, spent, peak = cost("merge", "--inspect", "large.npz")
    assert status == 0 and spent < 1 and peak < 64 << 20, (status, spent, peak)
    status, spent, peak = cost("merge", "-q", "large.npz", "small.npz", "-o", "out.npz")
    assert status == 65 and spent < 1 and peak < 64 << 20, (status, spent, peak)


sys.exit(run_checks())
