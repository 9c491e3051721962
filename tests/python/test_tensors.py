#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`muster merge` of files of torch.save: what comes out is what Python makes of the parts, in a file that
torch.load takes by default; what cannot be merged is refused with its path and the files, and no output.

    test_tensors.py MUSTER
"""
import collections, os, random, resource, struct, subprocess, sys, zipfile
from checks import check, run_checks
import torch_like as made

MUSTER = os.path.abspath(sys.argv[1])
def floats(*values):
    return made.Storage(made.FloatStorage, struct.pack(f"<{len(values)}f", *values))


def tensor(*values, shape=None):
    return made.Tensor(floats(*values), shape if shape is not None else (len(values),))


def rebuilt(t):
    return made.Rebuilt(t.storage, t.offset, t.shape, t.stride, False, {})


def write(parts, protocol=2):
    names = []
    for i, part in enumerate(parts):
        names.append(f"part_{i}.pt")
        with open(names[-1], "wb") as file:
            file.write(part if isinstance(part, bytes) else made.saved(part, protocol))
    return names


def run(parts, *options, out="out.pt"):
    if os.path.exists(out):
        os.unlink(out)
    return subprocess.run([MUSTER, "merge", "-q", *write(parts), "-o", out, *options], capture_output=True, text=True, timeout=60)


def merged(parts, *options):
    ended = run(parts, *options)
    assert ended.returncode == 0 and ended.stdout == "", ended
    return made.loaded("out.pt")


def refused(status, words, parts, *options):
    ended = run(parts, *options)
    assert ended.returncode == status and not os.path.exists("out.pt"), ended
    assert all(word in ended.stderr for word in words), ended.stderr


def rules(*texts):
    return [option for text in texts for option in ("--rule", text)]


@check
def lists_counts_and_what_is_the_same():
    parts = [{"questions": [{"id": i, "t": tensor(i, i + 1)} for i in range(k, k + 3)], "num_questions": 3, "task": "gsm8k",
              "timestamp": f"2026010{k}", "meta": {"num_correct": k, "model": "m"}} for k in range(4)]
    whole = merged(parts)
    assert [q["id"] for q in whole["questions"]] == [i for k in range(4) for i in range(k, k + 3)]
    assert [q["t"] for q in whole["questions"]] == [rebuilt(tensor(i, i + 1)) for k in range(4) for i in range(k, k + 3)]
    assert (whole["num_questions"], whole["task"], whole["timestamp"]) == (12, "gsm8k", "20260103")
    assert whole["meta"] == {"num_correct": 6, "model": "m"} and list(whole) == list(parts[0])


@check
def the_parts_of_a_batch_are_called_by_what_they_share():
    def part(name, n=2):
        return {"batch_name": name, "num_questions": n, "questions": [{"t": tensor(1.0)}] * n}
    assert merged([part(f"gsm8k_x_2025_gpu_{k}") for k in (1, 3, 12)])["batch_name"] == "gsm8k_x_2025_merged"
    assert merged([part("gsm8k_x_merged"), part("gsm8k_x_shard_7")])["batch_name"] == "gsm8k_x_merged"
    assert merged([part("x"), part("x")])["batch_name"] == "x_merged"
    assert merged([part("a_gpu_0"), part("b_gpu_1")], *rules("batch_name=first"))["batch_name"] == "a_gpu_0"
    runs = [{"meta": {"run": f"r_rank_{k}"}} for k in range(2)]
    assert merged(runs, *rules("meta.run=merged"))["meta"]["run"] == "r_merged"
    refused(65, ["'batch_name' is not of one job in part_0.pt and part_1.pt", "--rule 'batch_name=first'"],
            [part("a_gpu_0"), part("b_gpu_1")])
    refused(65, ["'meta.run' is no text in part_1.pt"], [{"meta": {"run": "r_gpu_0"}}, {"meta": {"run": 4}}], *rules("meta.run=merged"))


@check
def a_part_holds_as_many_as_it_says():
    def part(said, held):
        return {"num_questions": said, "questions": [{"t": tensor(1.0)}] * held, "num_samples": 9}
    assert merged([part(2, 2), part(3, 3)])["num_questions"] == 5
    refused(65, ["part_1.pt: 'num_questions' says 3, and 'questions' holds 2", "--rule 'num_questions=sum'"], [part(2, 2), part(3, 2)])
    assert merged([part(2, 2), part(3, 2)], *rules("num_questions=sum"))["num_questions"] == 5


@check
def a_shard_holds_as_many_as_it_says():
    def mapped(status, said, *options, of=dict, count="num_questions", listed="questions"):
        write([of([(count, n), (listed, [1] * 2)]) for n in (2, said)])
        ended = subprocess.run([MUSTER, "map", "-q", "--fresh", "-f", "--items", "4", "--shards", "2", "-g", "cpu:2", "-r", "0", "-o", "all.pt", *options,
                                "--", "cp", os.path.abspath("part_{shard}.pt"), "{output}"], capture_output=True, text=True, timeout=60)
        assert ended.returncode == status, ended
        if status == 0:
            return None
        assert "set aside" in ended.stderr, ended
        with open("all.pt.failed.jsonl") as file:
            return file.read()
    ways = {"of": dict}, {"of": collections.OrderedDict}, {"count": "n_samples", "listed": "samples"}
    for way in ways: # found when the shard is done, not when all are joined
        count = way.get("count", "num_questions")
        said = mapped(1, 3, **way)
        assert f"'{count}' says 3" in said, said
        mapped(0, 2, **way)
    mapped(0, 2, "--rule", "num_questions=sum")
    mapped(0, 1, "--rule", "n_samples=sum", count="n_samples", listed="samples")
    assert made.loaded("all.pt") == {"n_samples": 3, "samples": [1] * 4}
    with open("rules", "w") as file:
        file.write("n_*=sum\n")
    mapped(0, 1, "--rules", "rules", count="n_samples", listed="samples")
    said = mapped(1, 1, "--rule", "num_questions=sum")
    assert "holds 1 record, expected 2" in said, said
    mapped(0, 1, "--rule", "num_questions=sum", "--any-count")
    assert made.loaded("all.pt") == {"num_questions": 3, "questions": [1] * 4}


@check
def a_key_that_is_set_twice_has_its_last_value():
    def part(*pairs):
        text = b"".join(b"X\x01\0\0\0" + key + value for key, value in pairs)
        return made.zipped({"data.pkl": b"\x80\x02}(" + text + b"u.", "version": b"3\n"})
    many = [(key, b"]K" + bytes([i]) + b"a") for i in range(9) for key in (b"a", b"b", b"c")]
    whole = merged([part(*many), part((b"b", b"]"), (b"a", b"]"), (b"b", b"]K\x01a"), (b"c", b"]"))])
    assert whole == {"a": [8], "b": [8, 1], "c": [8]}, whole
    with open("out.pt", "rb") as file:
        assert file.read().count(b"X\x01\0\0\0b") == 1


@check
def a_truth_is_no_id():
    refused(65, ["part_0.pt: questions.0.id is no number and no text"], [{"questions": [{"id": True}]}], "--id", "questions.*.id")


@check
def dictionaries_in_very_many_places():
    def nested(depth):
        inner = {"x": 1}
        for _ in range(depth):
            inner = {"a": inner, "b": inner}
        return inner
    assert merged([nested(12)] * 2) == nested(12)
    whole = merged([nested(40)] * 2)
    assert whole["a"] is whole["b"] and whole["a"]["b"]["a"] is whole["b"]["a"]["b"]
    refused(65, ["exceeds the limit of 200", "occur in too many places to be merged"], [nested(40)] * 2, *rules("*x=sum"))
    refused(65, ["exceeds the limit of 200", "occur in too many places to be merged"], [nested(40)], *rules("*x=sum"))
    assert merged([nested(6)] * 2, *rules("a=first", "b=first")) == nested(6)


@check
def a_dry_run_reads_what_would_be_copied():
    parts = [made.saved({"x": tensor(*[k + 0.5] * 100), "t": [tensor(1, 2)]}) for k in range(2)]
    damaged = bytearray(parts[1])
    at = damaged.index(struct.pack("<f", 1.5) * 50)
    damaged[at + 9] ^= 1
    ended = run(parts, "--dry-run")
    assert ended.returncode == 0 and not os.path.exists("out.pt"), ended
    refused(65, ["part_1.pt", "CRC-32"], [parts[0], bytes(damaged)], "--dry-run")
    refused(65, ["part_1.pt", "CRC-32"], [parts[0], bytes(damaged)])


@check
def every_verb():
    parts = [{"l": [k], "t": tensor(k, k), "n": k, "f": k + 0.5, "first": k, "max": k * 2, "all": {"k": k}, "gone": k,
              "hist": collections.Counter({f"k{k}": 1, "both": 2}), "d": {"a": k, "common": 1}, "u": {f"only{k}": k, "all": 7},
              "correct": k, "seen": 10} for k in range(1, 4)]
    whole = merged(parts, *rules("n=sum", "f=sum", "first=first", "max=max", "all=collect", "gone=drop", "d.a=sum", "u=union",
                                 "+files=count", "+share=correct/seen", "+parts=collect", "correct=sum", "seen=sum"))
    want = {"l": [1, 2, 3], "t": rebuilt(tensor(1, 1, 2, 2, 3, 3)), "n": 6, "f": 7.5, "first": 1, "max": 6,
            "all": [{"k": 1}, {"k": 2}, {"k": 3}], "hist": collections.Counter(k1=1, k2=1, k3=1, both=6),
            "d": {"a": 6, "common": 1}, "u": {"only1": 1, "all": 7, "only2": 2, "only3": 3}, "correct": 6, "seen": 30,
            "files": 3, "share": 0.2}
    assert len(whole.pop("parts")) == 3 and whole == want, whole
    assert type(whole["hist"]) is collections.Counter


@check
def tensors_along_the_first_dimension():
    rows = [made.Tensor(floats(*range(6)), (2, 3)), made.Tensor(floats(*range(12)), (1, 3), 6), made.Tensor(floats(), (0, 3)),
            made.Tensor(floats(*range(9)), (3, 3))]
    whole = merged([{"x": t} for t in rows])["x"]
    assert whole.shape == (6, 3) and whole.offset == 0 and whole.stride == (3, 1)
    assert whole.elements() == b"".join(rebuilt(t).elements() for t in rows)


def longs(n):
    return made.Storage(made.LongStorage, struct.pack(f"<{n}q", *range(n)))


def view(rng, n_rows, tail):
    """Any order of the dimensions in memory, gaps between them, some repeated."""
    shape, strides, step = [n_rows, *tail], [0] * (len(tail) + 1), 1
    for dim in rng.sample(range(len(shape)), len(shape)):
        strides[dim] = 0 if rng.random() < 0.2 else step * rng.choice([1, 1, 1, 2, 3, 700])
        step = max(step, strides[dim] * max(shape[dim], 1))
    last, offset = sum((size - 1) * stride for size, stride in zip(shape, strides) if size), rng.randrange(5)
    storage = floats(*range(last + offset + 1)) if rng.random() < 0.5 or last > 500_000 else longs(last + offset + 1)
    return made.Tensor(storage, tuple(shape), offset, tuple(strides)) if storage.kind is made.FloatStorage else \
        made.Tensor(made.Storage(made.FloatStorage, storage.data), tuple(shape), 2 * offset, tuple(2 * stride for stride in strides))


@check
def tensors_in_any_order_of_memory():
    for seed in range(60):
        rng = random.Random(seed)
        tail = [rng.randrange(6) if rng.random() < 0.1 else rng.randrange(1, 6) for _ in range(rng.randrange(4))]
        parts = [view(rng, rng.randrange(5), tail) for _ in range(rng.randrange(2, 5))]
        whole = merged([{"x": t} for t in parts])["x"]
        assert whole.shape == (sum(t.shape[0] for t in parts), *tail) and whole.offset == 0, seed
        assert whole.elements() == b"".join(rebuilt(t).elements() for t in parts), (seed, [(t.shape, t.stride) for t in parts])


@check
def tensors_that_are_larger_than_what_is_read_at_once():
    n = 1100
    for shape, stride in (((n, n), (1, n)), ((n, 10, n // 10), (1, n, 10 * n)), ((2, n, n // 2), (1, n, 2))):
        part = made.Tensor(longs(n * n), shape, 0, stride)
        whole = merged([{"x": part}, {"x": tensor_like(part)}])["x"]
        elements = rebuilt(part).elements()
        assert whole.shape == (2 * shape[0], *shape[1:]) and whole.storage.data == elements + elements, shape


def tensor_like(part):
    """The same elements in row-major order."""
    return made.Tensor(made.Storage(part.storage.kind, rebuilt(part).elements()), part.shape)


@check
def tensors_that_are_one_in_every_file():
    def part(*values):
        weight = made.Tensor(floats(*values), (2, 2))
        turned = made.Tensor(weight.storage, (2, 2), 0, (1, 2))
        return {"in": weight, "out": made.Tensor(weight.storage, (2, 2)), "turned": turned, "turned_too": turned,
                "row": made.Tensor(weight.storage, (1, 2), 2)}
    whole = merged([part(1, 2, 3, 4), part(5, 6, 7, 8)])
    assert whole["in"].storage is whole["out"].storage and whole["turned"].storage is whole["turned_too"].storage
    assert len({id(t.storage) for t in whole.values()}) == 3
    assert whole["turned"].storage.data == struct.pack("<8f", 1, 3, 2, 4, 5, 7, 6, 8)
    apart = part(5, 6, 7, 8)
    apart["out"] = tensor(5, 6, 7, 8, shape=(2, 2))
    whole = merged([part(1, 2, 3, 4), apart])
    assert whole["in"].storage is not whole["out"].storage and whole["in"].storage.data == whole["out"].storage.data


@check
def what_is_one_object_stays_one():
    shared, storage = ["same"], floats(1, 2, 3)
    part = {"list": [shared, shared, made.Tensor(storage, (3,)), made.Tensor(storage, (2,), 1)]}
    whole = merged([part, part])["list"]
    assert whole[0] is whole[1] and whole[4] is whole[5] and whole[0] is not whole[4]
    assert whole[2].storage is whole[3].storage and whole[6].storage is whole[7].storage is not whole[2].storage


@check
def a_dictionary_that_holds_itself_is_said_to():
    def ring():
        made = {"n": 1, "a": {"b": {"c": 2}}}
        made["a"]["b"]["top"] = made
        return made
    for parts in ([ring()], [ring(), ring()]):
        refused(65, ["'.' holds itself in part_0.pt, at 'a.b.top'", "--rule 'a.b.top=first'"], parts, *rules("n=sum"))
        whole = merged(parts, *rules("n=sum", "a.b.top=first"))
        assert whole["n"] == len(parts) and whole["a"]["b"]["top"]["a"]["b"]["top"]["n"] == 1, whole
    inner = {"x": 1}
    inner["me"] = inner
    refused(65, ["'in' holds itself in part_0.pt, at 'in.me'"], [{"n": 1, "in": inner}], *rules("n=sum"))
    deep = {}
    for _ in range(70):
        deep = {"x": deep}
    refused(65, ["lies deeper than 64 dictionaries"], [{"n": 1, "deep": deep}], *rules("n=sum"))


@check
def what_holds_itself():
    loop = []
    loop.append((loop, 1, 2, 3))
    pair = []
    pair.append((pair,))
    ended = run([{"x": [loop, pair]}])
    assert ended.returncode == 0, ended
    entries = made.zipfile.ZipFile("out.pt")
    whole = made.Unpickler(made.io.BytesIO(entries.read("out/data.pkl")), None).load()["x"]
    assert whole[0][0][0] is whole[0] and whole[1][0][0] is whole[1] and len(whole[0][0]) == 4, whole


@check
def all_protocols_become_the_second():
    obj = {"s": {1, 2}, "f": frozenset([3]), "b": b"\x00\xff\x80x", "e": b"", "a": bytearray(b"\xffy"), "big": 2**100, "neg": -2**70,
           "i": [0, 255, 256, 65535, 65536, -1, -2**31, 2**31, 2**63 - 1, -2**63], "t": ("é\U0001f600", "", None, True, False),
           "x": [0.1, float("inf"), -0.0], "o": collections.OrderedDict(a=1, b=[2]), "l": list(range(2503)), "d": {i: i for i in range(1001)},
           5: {(1, 2): "tuple"}}
    for protocol in range(2, 6):
        names = write([obj], protocol)
        if os.path.exists("out.pt"):
            os.unlink("out.pt")
        subprocess.run([MUSTER, "merge", "-q", *names, "-o", "out.pt", "--rule", ".=first"], check=True, timeout=60)
        whole = made.loaded("out.pt")
        assert whole == obj and repr(whole["x"]) == repr(obj["x"]) and type(whole["o"]) is collections.OrderedDict, protocol


def anything(rng, depth=0):
    kind = rng.randrange(9 if depth < 4 else 6)
    if kind < 4:
        return [None, rng.random(), rng.randrange(-2**40, 2**40), "é" * rng.randrange(300)][kind]
    if kind == 4:
        return tensor(*[rng.random() for _ in range(rng.randrange(4))])
    if kind == 5:
        return bytes(rng.randrange(256) for _ in range(rng.randrange(300)))
    items = [anything(rng, depth + 1) for _ in range(rng.randrange(6))]
    if kind == 6:
        return tuple(items)
    return items if kind == 7 else {f"k{i}": item for i, item in enumerate(items)}


def plain(obj):
    if isinstance(obj, made.Tensor):
        return rebuilt(obj)
    if isinstance(obj, (list, tuple)):
        return type(obj)(plain(item) for item in obj)
    return {k: plain(v) for k, v in obj.items()} if isinstance(obj, dict) else obj


@check
def random_objects():
    for seed in range(40):
        rng = random.Random(seed)
        parts = [{"items": [anything(rng) for _ in range(rng.randrange(5))]} for _ in range(rng.randrange(1, 4))]
        assert merged(parts)["items"] == [plain(item) for part in parts for item in part["items"]], seed


@check
def what_has_no_rule_is_refused():
    refused(65, ["'seed'", "part_0.pt", "part_1.pt", "--rule 'seed=first'"], [{"seed": 1}, {"seed": 2}])
    refused(65, ["'a.b'", "missing in part_1.pt"], [{"a": {"b": 1}}, {"a": {}}])
    refused(65, ["'a.b'", "part_1.pt", "missing in part_0.pt"], [{"a": {}}, {"a": {"b": 1}}])
    refused(65, ["'x'", "differs"], [{"x": [1]}, {"x": {}}])
    refused(65, ["'x'", "no list in part_1.pt"], [{"x": [1]}, {"x": {}}], *rules("x=concat"))
    refused(65, ["'x'", "no number in part_1.pt"], [{"x": 1}, {"x": "1"}], *rules("x=sum"))
    refused(65, ["'x'", "64 bits"], [{"x": 2**62}, {"x": 2**62}], *rules("x=sum"))
    refused(65, ["'u.k'", "not the same"], [{"u": {"k": 1}}, {"u": {"k": 2}}], *rules("u=union"))
    refused(65, ["'a'", "'b'", "ratio"], [{"r": 1.0}], *rules("r=a/b"))


@check
def the_order_of_sets_and_keys_does_not_count():
    ways = [[{0, 8}, {8, 0}], [frozenset([0, 8]), frozenset([8, 0])], [{"a": {1: [2]}, "b": {0, 8}}, {"b": {8, 0}, "a": {1: [2]}}],
            [collections.Counter(a=1, b=2), collections.Counter(b=2, a=1)], [{(0, frozenset([8, 0])): 1}, {(0, frozenset([0, 8])): 1}],
            [{k: -k for k in range(3000)}, {k: -k for k in reversed(range(3000))}]]
    for protocol in (2, 4):
        for a, b in ways:
            assert merged([made.saved({"x": [a]}, protocol), made.saved({"x": [b]}, protocol)], *rules("x=same"))["x"] == [a], (a, b)
    differ = [[{0, 8}, {8, 1}], [{0, 8}, {0, 8, 1}], [{0}, frozenset([0])], [{"a": 1, "b": 2}, {"b": 1, "a": 2}], [{"a": 1}, {"b": 1}],
              [collections.OrderedDict(a=1, b=2), collections.OrderedDict(b=2, a=1)], [collections.Counter(a=1, b=2), collections.Counter(b=1, a=2)]]
    for a, b in differ:
        refused(65, ["'x'", "differs"], [{"x": [a]}, {"x": [b]}], *rules("x=same"))


@check
def tensors_that_do_not_fit_are_refused():
    refused(65, ["'x'", "part_1.pt", "first dimension"], [{"x": tensor(1, 2, shape=(1, 2))}, {"x": tensor(1, 2, 3, shape=(1, 3))}])
    refused(65, ["'x'", "no dimension"], [{"x": tensor(1, shape=())}, {"x": tensor(1, shape=())}])
    refused(65, ["'x'", "collect"], [{"x": tensor(1, shape=())}] * 2)
    refused(65, ["'x'", "expand", "2 GiB"], [{"x": made.Tensor(floats(1), (2**20, 2**20), 0, (0, 0))}] * 2)
    refused(65, ["'x'", "expand", "2 GiB"], [{"x": made.Tensor(floats(1), (2**40, 2**40), 0, (0, 0))}] * 2)
    longs = made.Tensor(made.Storage(made.LongStorage, struct.pack("<2q", 1, 2)), (2,))
    refused(65, ["'x'", "another type"], [{"x": tensor(1, 2)}, {"x": longs}])


@check
def a_single_file_goes_over_as_it_stands():
    norm = collections.OrderedDict(weight=tensor(1, 2), steps=tensor(7, shape=()))
    for options in ((), ("--compact",), ("--plain",), rules("more=drop")):
        whole = merged([{"model": norm, "more": {"lr": 0.5}}], *options)
        assert (whole["model"]["steps"].shape, whole["model"]["steps"].elements()) == ((), struct.pack("<f", 7)), options
        assert ("more" in whole) == (options != rules("more=drop"))
    across = made.Tensor(floats(*range(6)), (2, 2), 1, (1, 2))
    whole = merged([{"x": across}])["x"]
    assert (whole.offset, whole.stride, whole.storage.data) == (1, (1, 2), across.storage.data)
    assert merged([{"batch_name": "b_gpu_0", "n": 2**70, "t": (1,)}]) == {"batch_name": "b_gpu_0", "n": 2**70, "t": (1,)}
    itself = {"x": [1, 2]}
    itself["a"] = itself["b"] = itself
    whole = merged([itself], "--expect", "2")
    assert whole["a"] is whole and whole["b"] is whole and whole["x"] == [1, 2]
    refused(1, ["expected 3 records, found 2"], [itself], "--expect", "3")
    deep = {"x": 1}
    for _ in range(100):
        deep = {"d": deep}
    assert merged([deep]) == deep
    refused(65, ["'a.num_questions' says 3, and 'questions' holds 1"], [{"a": {"questions": [1], "num_questions": 3}}])


@check
def what_a_reviewer_found():
    big = floats(*range(50000))
    views = [made.saved({"x": made.Tensor(big, (10, 4), 10 * k)}) for k in (1, 2)]
    at = views[1].index(struct.pack("<2f", 25, 26))
    refused(65, ["part_1.pt", "CRC-32"], [views[0], views[1][:at] + b"\x01" + views[1][at + 1:]])
    refused(65, ["'meta.x'", "missing in part_1.pt"], [{"meta": {"x": 5}}, {"meta": {"z": 5}}], *rules("meta=union", "meta.x=sum"))
    parts = [{"meta": {"x": 5, f"y{k}": k}} for k in range(2)]
    assert merged(parts, *rules("meta=union", "meta.x=sum")) == {"meta": {"x": 10, "y0": 0, "y1": 1}}
    parts = [{"args": {"total_steps": 1000, "betas": [0.9, 0.99]}, "total_time": 1.5}] * 2
    assert merged(parts) == parts[0]
    refused(65, ["'d'", "another kind"], [{"d": collections.OrderedDict(a=[1])}, {"d": collections.Counter(a=1)}], *rules("d=deep"))
    wide = {(i, i + 1): [i] for i in range(20000)} | {i + 0.5: [i] for i in range(20000)}
    assert len(merged([wide, wide])) == 40000
    deep = (1,)
    for _ in range(40):
        deep = (deep, deep)
    assert run([{"t": deep}, {"t": deep}]).returncode == 0
    refused(65, ["'d.1'", "not the same"], [{"d": {1: "A"}}, {"d": {1.0: "B"}}], *rules("d=union"))
    refused(65, ["'num_gpus' already"], [{"num_gpus": 1}] * 2, *rules("+num_gpus=count"))
    assert merged([{"num_gpus": 1}] * 2, *rules("num_gpus=drop", "+num_gpus=count")) == {"num_gpus": 2}
    whole = merged([{"o": collections.OrderedDict(a=1, b=2)}] * 2, *rules("o=sum-by-key"))["o"]
    assert whole == {"a": 2, "b": 4} and type(whole) is collections.OrderedDict
    refused(65, ["'x'", "NaN"], [{"x": 1.0}, {"x": float("nan")}], *rules("x=max"))
    assert merged([{"a": 0, "b": 0}], *rules("+r=a/b")) == {"a": 0, "b": 0, "r": None}


@check
def rules_are_looked_at():
    refused(2, ["'nowhere'", "fits nothing"], [{"x": [1]}], *rules("nowhere=sum"))
    refused(2, ["'.=same' is never asked", "'.=first' comes before it"], [[1], [2]], *rules(".=first", ".=same"))
    refused(2, ["'x=sum' is never asked", "'[x-z]=first' comes before it"], [{"x": 1}], *rules("[x-z]=first", "x=sum"))
    for below in ("x", "x.y"):
        refused(2, [f"'{below}=sum' is never asked", "'.=first' says what becomes"], [{"x": {"y": 1}}] * 2, *rules(".=first", below + "=sum"))
    refused(2, ["'x.y=sum' is never asked", "'x=first' says"], [{"x": {"y": 1}}] * 2, *rules("x=first", "x.y=sum"))
    refused(2, ["'x'", "no rule", "concat"], [{"x": [1]}], *rules("x"))
    refused(2, ["'x=add'", "no rule"], [{"x": [1]}], *rules("x=add"))
    refused(2, ["+n=sum"], [{"x": [1]}], *rules("+n=sum"))
    refused(2, ["drop everything"], [{"x": [1]}], *rules(".=drop"))
    with open("rules", "w") as file:
        file.write("# what becomes of it\n\n seed = first\n*.n = sum\n")
    assert merged([{"seed": 1, "m": {"n": 1}}, {"seed": 2, "m": {"n": 2}}], "--rules", "rules") == {"seed": 1, "m": {"n": 3}}
    with open("rules", "w") as file:
        file.write("x=first\nx=\n")
    refused(2, ["rules: line 2"], [{"x": 1}], "--rules", "rules")


@check
def a_key_that_a_file_lacks_can_be_left_out():
    parts = [{"m": {"x": 1, "more": [2]}}, {"m": {"x": 1}}]
    refused(65, ["'m.more' is in part_0.pt, and missing in part_1.pt; --rule 'm.more=drop' leaves it out"], parts)
    assert merged(parts, *rules("m.more=drop")) == {"m": {"x": 1}}


@check
def code_is_not_carried_over_unasked():
    parts = [{"x": [made.Strange()]}, {"x": [1]}]
    refused(65, ["part_0.pt: byte ", " of its pickle names somewhere.Strange,", "--pass-through"], parts)
    refused(65, ["part_1.pt: byte "], parts[::-1])
    assert isinstance(merged(parts, "--pass-through")["x"][0], made.Strange)


@check
def damage_is_found():
    good = made.saved({"x": tensor(*range(100))})
    at = good.index(struct.pack("<2f", 50, 51))
    refused(65, ["part_1.pt", "storage 0", "CRC-32"], [good, good[:at] + b"\xff" + good[at + 1:]])
    refused(65, ["part_1.pt", "no zip end record"], [good, good[:-5]])
    refused(65, ["part_2.pt", "no zip end record"], [good, good, good[:-5], good[:-6], good, good[:40]])
    refused(65, ["part_1.pt is named as a file of tensors, and is none"], [good, b"{}\n"])
    refused(2, ["--union"], [good], "--union")
    with open("lines.txt", "w") as file:
        file.write("1\n")
    for names, words in ((["part_0.pt", "lines.txt"], "part_0.pt is a file of tensors, lines.txt is none"), (["lines.txt"], "--rule")):
        ended = subprocess.run([MUSTER, "merge", *names, "-o", "out", "--rule", "x=sum"], capture_output=True, text=True)
        assert ended.returncode == 2 and words in ended.stderr and not os.path.exists("out"), ended


@check
def an_output_that_is_there():
    names = write([{"x": [1]}])
    with open("out.pt", "w") as file:
        file.write("mine")
    ended = subprocess.run([MUSTER, "merge", *names, "-o", "out.pt"], capture_output=True, text=True)
    assert ended.returncode == 2 and "--force" in ended.stderr and open("out.pt").read() == "mine", ended
    ended = subprocess.run([MUSTER, "merge", "-q", "-n", *names, "-o", "new.pt"], capture_output=True, text=True)
    assert ended.returncode == 0 and not os.path.exists("new.pt"), ended
    subprocess.run([MUSTER, "merge", "-qf", *names, "-o", "out.pt"], check=True)
    assert made.loaded("out.pt") == {"x": [1]}
    for files in (["out.pt", *names], [*names, *names]):
        ended = subprocess.run([MUSTER, "merge", "-qf", *files, "-o", "out.pt"], capture_output=True, text=True)
        assert ended.returncode == 2 and made.loaded("out.pt") == {"x": [1]}, ended
    for bad in ("out.pt", "-", "nowhere/out.pt"):
        ended = subprocess.run([MUSTER, "merge", "-n", *names, "-o", bad], capture_output=True, text=True)
        assert ended.returncode == 2, (bad, ended)
    ended = subprocess.run(f"{MUSTER} merge {names[0]} -o - | cat", shell=True, capture_output=True, text=True)
    assert ended.stdout == "" and "names a file" in ended.stderr, ended


def peak_bytes(*args):
    """Of muster's memory. Started from a small program: what is forked from this one counts as large as this."""
    code = ("import os, resource, sys\nstatus = os.spawnv(os.P_WAIT, sys.argv[1], sys.argv[1:])\n"
            "print(status, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
    ended = subprocess.run([sys.executable, "-SIc", code, MUSTER, *args], capture_output=True, text=True, timeout=60, check=True)
    status, kib = map(int, ended.stdout.split()[-2:])
    assert status == 0, ended
    return kib << 10


@check
def what_lies_a_million_deep_takes_little_memory():
    n = 1000 * 1000
    pickled = b"\x80\x02" + b"]" * n + b"a" * (n - 1) + b"."
    with zipfile.ZipFile("deep.pt", "w") as file:
        file.writestr("deep/data.pkl", pickled)
        file.writestr("deep/version", "3\n")
    with open(MUSTER, "rb") as program:
        is_sanitized = b"__asan_init" in program.read()
    program_itself = peak_bytes("--version")
    for args in (["merge", "-o", "deep_out.pt"], ["split", "-n", "1", "-o", "deep-{n}.pt"]):
        peak = peak_bytes(*args, "-q", "deep.pt")
        assert is_sanitized or peak <= (64 << 20) + len(pickled) + program_itself, (args, peak)
    with zipfile.ZipFile("deep_out.pt") as file:
        assert file.read("deep_out/data.pkl") == pickled


@check
def a_limit_on_files_leaves_nothing():
    names = write([{"x": tensor(*range(100000))}])
    before = set(os.listdir())
    if os.path.exists("out2.pt"):
        os.unlink("out2.pt")
    ended = subprocess.run([MUSTER, "merge", *names, "-o", "out2.pt"], capture_output=True, text=True,
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000)))
    assert ended.returncode == 75 and set(os.listdir()) == before, (ended, set(os.listdir()) - before)


sys.exit(run_checks())
