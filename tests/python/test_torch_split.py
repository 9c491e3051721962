#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`muster split` of files of torch.save: every record is in one part, counts are right in each, a part has
the storages that it needs, and `muster merge` of the parts gives back the values.

    test_torch_split.py MUSTER
"""
import collections, json, os, struct, subprocess, sys, zipfile
from checks import check, run_checks
import torch_like as made

MUSTER = os.path.abspath(sys.argv[1])
def tensor(*values, shape=None):
    storage = made.Storage(made.FloatStorage, struct.pack(f"<{len(values)}f", *values))
    return made.Tensor(storage, shape if shape is not None else (len(values),))


def view(t, offset, shape, stride=None):
    return made.Tensor(t.storage, shape, offset, stride)


def save(obj, name="in.pt"):
    with open(name, "wb") as file:
        file.write(made.saved(obj))


def muster(*args):
    return subprocess.run([MUSTER, *args], capture_output=True, text=True, timeout=60)


def split(*options, name="in.pt", talk=False):
    for old in os.listdir("parts") if os.path.isdir("parts") else []:
        os.unlink(os.path.join("parts", old))
    ended = muster("split", "--json", name, "-o", "parts/", *options)
    assert ended.returncode == 0, ended
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    if "--dry-run" not in options:
        assert all(os.path.getsize(row["path"]) == row["bytes"] for row in rows), rows
        assert [row["path"] for row in rows] == [os.path.join("parts", n) for n in sorted(os.listdir("parts"))]
    return (rows, ended.stderr) if talk else rows


def refused(words, *options, status=65, name="in.pt"):
    before = sorted(os.walk("."))
    ended = muster("split", name, *options)
    assert ended.returncode == status and sorted(os.walk(".")) == before, ended
    assert all(word in ended.stderr for word in words), (words, ended.stderr)


def again(rows, *options):
    """What a merge of the parts holds."""
    ended = muster("merge", "-q", "-f", *[row["path"] for row in rows], "-o", "again.pt", *options)
    assert ended.returncode == 0, ended
    return made.loaded("again.pt")


def parts(rows):
    return [made.loaded(row["path"]) for row in rows]


@check
def a_list_at_the_root():
    records = [{"id": i, "text": f"word {i}"} for i in range(7)]
    save(records)
    rows = split("-n", "3")
    assert [row["records"] for row in rows] == [3, 2, 2] and [row["first"] for row in rows] == [0, 3, 5]
    assert parts(rows) == [records[:3], records[3:5], records[5:]] and again(rows) == records
    assert split("-n", "3", "--dry-run") == rows
    rows = split("--records", "4")
    assert parts(rows) == [records[:4], records[4:]]
    rows, said = split("-n", "9", talk=True)
    assert parts(rows)[7:] == [[], []] and "2 of the parts have no record" in said and again(rows) == records


@check
def records_in_a_dictionary_with_their_counts():
    questions = [{"question_id": i, "paths": [i, i + 1]} for i in range(5)]
    whole = {"questions": questions, "num_questions": 5, "metadata": {"total_samples": 5, "max_samples": 5, "model": "m"},
             "args": {"num_samples": 5, "seeds": [1, 2]}}
    save(whole)
    rows, said = split("-n", "2", talk=True)
    assert "what is not cut" not in said, said
    for part, begin, end in zip(parts(rows), (0, 3), (3, 5)):
        n = end - begin
        assert part == whole | {"questions": questions[begin:end], "num_questions": n,
                                "metadata": {"total_samples": n, "max_samples": 5, "model": "m"}}, part
    assert again(rows) == whole
    ordered = collections.OrderedDict(whole)
    save(ordered)
    rows, said = split("-n", "2", talk=True)
    assert type(parts(rows)[0]) is collections.OrderedDict and again(rows) == ordered


@check
def a_batch_keeps_its_name():
    whole = {"batch_name": "gsm8k_x_gpu_1", "questions": [1, 2, 3]}
    save(whole)
    rows, said = split("-n", "2", talk=True)
    assert "--rule 'batch_name=same'" in said and again(rows, "--rule", "batch_name=same") == whole


@check
def what_is_cut_can_be_said():
    whole = {"data": {"questions": [1, 2, 3], "a.b": [4, 5, 6]}, "log": ["x", "y"], "num_correct": 2}
    save(whole)
    rows, said = split("-n", "2", "--key", "data.questions", "--key", "data.a.b", talk=True)
    assert parts(rows)[0] == whole | {"data": {"questions": [1, 2], "a.b": [4, 5]}}, parts(rows)
    assert "--rule 'log=same'" in said and "--rule 'num_correct=same'" in said, said
    assert again(rows, "--rule", "log=same", "--rule", "num_correct=same") == whole
    save({"questions": [1, 2, 3], "log": ["x", "y"]})
    refused(["'log' has 2", "have 3", "--key PATH"], "-n", "2")
    refused(["has no 'answers'", "--inspect"], "-n", "2", "--key", "answers", status=2)
    refused(["'questions.0'"], "-n", "2", "--key", "questions.0", status=2)
    refused(["cut by -n or --records"], "--size", "1MB", status=2)
    refused(["--rows is about safetensors"], "-n", "2", "--rows", status=2)
    save({"model": {"w": tensor(1, 2)}, "step": 3})
    refused(["no list and no tensor at its root", "--key PATH"], "-n", "2")
    refused(["'step' is no list and no tensor"], "-n", "2", "--key", "step")
    save(3)
    refused(["'.' is no list"], "-n", "2")


@check
def what_holds_itself_does_so_in_each_part():
    for kind in (dict, collections.OrderedDict):
        whole = kind(questions=[1, 2, 3], num_questions=3)
        whole["me"], whole["in"] = whole, kind(top=whole, x=1)
        save(whole)
        for i, part in enumerate(parts(split("-n", "3"))):
            assert part["questions"] == [i + 1] and part["num_questions"] == 1 and type(part) is kind
            assert part["me"] is part and part["in"]["top"] is part and part["in"]["x"] == 1


def rebuild(name):
    """A callable of torch's, by its name, which nobody calls."""
    def made_here(*args):
        raise AssertionError(name)
    made_here.__module__, made_here.__qualname__ = "torch._utils", name
    setattr(sys.modules["torch._utils"], name, made_here)
    return made_here


class Call:
    def __init__(self, name, *args):
        self.call = rebuild(name), args

    def __reduce__(self):
        return self.call


class Flagged(made.Tensor):
    """Of torch 2.x, whose numbers are to be conjugated."""
    def __reduce__(self):
        callee, args = super().__reduce__()
        return callee, (*args, {"conj": True})


@check
def what_is_no_plain_tensor_is_named_with_the_cure():
    x = tensor(*range(6), shape=(3, 2))
    for value, words in ((Call("_rebuild_parameter", x, True, collections.OrderedDict()), ["is a Parameter", ".detach()"]),
                         (Flagged(x.storage, (3, 2)), ["conjugated or negated", "resolve_conj()"]),
                         (Call("_rebuild_sparse_tensor", 1, (x, x, (3, 2))), ["sparse", "to_dense()"])):
        save({"w": value, "n": 3})
        refused(["in.pt has no list and no plain tensor at its root: 'w' there", *words], "-n", "3")
        refused(["in.pt: 'w' is", *words], "-n", "3", "--key", "w")
        save({"w": value, "rows": [1, 2, 3]})
        rows, said = split("-n", "3", talk=True)
        assert "'w' is not cut, and in every part as a whole, since it is" in said and all(word in said for word in words), said
        save(value)
        refused(["in.pt: '.' is", *words], "-n", "3")
        ended = muster("merge", "in.pt", "parts/in.part_00.pt", "-o", "x.pt", "--rule", ".=cat0")
        assert ended.returncode == 65 and "'.' in in.pt is" in ended.stderr and words[0] in ended.stderr, ended
    save({"loss": tensor(1, shape=()), "rows": [1, 2, 3]})
    assert split("-n", "3", talk=True)[1].count("\n") == 1
    save({"loss": tensor(1, shape=())})
    refused(["no list and no tensor at its root"], "-n", "3")
    refused(["'loss' is no list and no tensor with rows"], "-n", "3", "--key", "loss")


@check
def rows_of_tensors_beside_their_list():
    x = tensor(*range(12), shape=(4, 3))
    y = view(tensor(*range(20)), 5, (4,))
    save({"x": x, "y": y, "names": ["a", "b", "c", "d"]})
    rows = split("-n", "3")
    found = parts(rows)
    assert [part["names"] for part in found] == [["a", "b"], ["c"], ["d"]]
    assert [part["x"].shape for part in found] == [(2, 3), (1, 3), (1, 3)]
    floats = [struct.unpack(f"<{len(part['x'].elements()) // 4}f", part["x"].elements()) for part in found]
    assert floats == [tuple(range(6)), (6, 7, 8), (9, 10, 11)], floats
    assert [len(part["y"].storage.data) for part in found] == [8, 4, 4]
    whole = again(rows)
    assert whole["x"].elements() == found[0]["x"].elements() + found[1]["x"].elements() + found[2]["x"].elements()
    assert whole["names"] == ["a", "b", "c", "d"]
    # of one row each, repeated: what one part made must not be taken for the next one's
    once = made.Tensor(x.storage, (4, 3), 0, (0, 1))
    save({"a": once, "b": once, "c": x})
    same = parts(split("-n", "2"))
    assert all(part["a"].elements() == x.storage.data[:12] * 2 for part in same)
    assert same[1]["c"].elements() == x.storage.data[24:]
    save({"x": view(x, 0, (3, 4), (1, 3)), "y": view(x, 1, (3, 2), (4, 2)), "z": view(x, 5, (3, 4), (0, 1)),
          "one": view(x, 2, (3, 0), (7, 1)), "o": view(x, 11, (3, 1), (0, 9))})
    values = lambda part, key: struct.unpack(f"<{len(part[key].elements()) // 4}f", part[key].elements())
    first, last = parts(split("-n", "2"))
    assert (first["x"].shape, last["x"].shape, last["one"].shape) == ((2, 4), (1, 4), (1, 0))
    assert values(first, "x") == (0, 3, 6, 9, 1, 4, 7, 10) and values(last, "x") == (2, 5, 8, 11), values(first, "x")
    assert values(first, "y") == (1, 3, 5, 7) and values(last, "y") == (9, 11), values(first, "y")
    assert values(first, "z") == (5, 6, 7, 8) * 2 and values(last, "z") == (5, 6, 7, 8)
    assert values(first, "o") == (11, 11) and values(last, "o") == (11,)


def views(storage, n_tensors, n_rows):
    """Tensors of so many rows and two columns, by turns: as they lie, transposed, with gaps, one row over and over, one
    column over and over, a single column."""
    ways = [(2, (2, 1)), (2, (1, n_rows)), (2, (4, 3)), (2, (0, 1)), (2, (1, 0)), (1, (3, 1))]
    for i in range(n_tensors):
        n_columns, stride = ways[i % len(ways)]
        yield made.Tensor(storage, (n_rows, n_columns), i // len(ways), stride)


@check
def tensors_parts_rows_and_strides():
    table = [(t, p, r) for t in (1, 2, 6, 13, 32) for p in range(2, 9) for r in (4, 12)] + [(7, 2, 25000), (7, 8, 25000)]
    for n_tensors, n_parts, n_rows in table:
        floats = range(4 * n_rows + 16)
        storage = made.Storage(made.FloatStorage, struct.pack(f"<{len(floats)}f", *floats))
        whole = {f"t{i}": t for i, t in enumerate(views(storage, n_tensors, n_rows))}
        save(whole)
        rows = split("-n", str(n_parts))
        found, joined = parts(rows), again(rows)
        for name, t in whole.items():
            want = made.Rebuilt(t.storage, t.offset, t.shape, t.stride, False, {}).elements()
            case = n_tensors, n_parts, n_rows, name
            assert b"".join(part[name].elements() for part in found) == want, case
            assert joined[name].shape == t.shape and joined[name].elements() == want, case


def bytes_read():
    """By this process and those that it has waited for."""
    with open("/proc/self/io") as file:
        return int(file.readline().split()[1])


@check
def a_storage_is_proven_once_for_all_parts():
    save({"x": tensor(*range(200_000), shape=(200, 1000))})
    before = bytes_read()
    split("-n", "100", "--dry-run")
    used = bytes_read() - before
    assert used < 4 << 20, used # of 800,000; each time anew they would be 80 MB


@check
def a_part_has_the_storages_that_it_refers_to():
    records = [{"h": tensor(*[i] * 1000)} for i in range(6)]
    shared = tensor(7, 8)
    save({"questions": records, "head": {"w": shared, "again": shared}})
    rows = split("-n", "6", "--key", "questions")
    for i, row in enumerate(rows):
        with zipfile.ZipFile(row["path"]) as z:
            assert z.testzip() is None
            sizes = sorted(info.file_size for info in z.infolist() if "/data/" in info.filename)
        assert sizes == [8, 4000] and row["bytes"] < 7000, (sizes, row)
        part = made.loaded(row["path"])
        assert part["head"]["w"].storage is part["head"]["again"].storage
        assert part["questions"][0]["h"].elements() == struct.pack("<f", i) * 1000


@check
def what_was_one_list_stays_one():
    records = [1, 2, 3]
    save({"a": records, "b": records})
    part = parts(split("-n", "2"))[0]
    assert part["a"] == [1, 2] and part["a"] is part["b"]


@check
def damage_is_found_and_nothing_is_left():
    save({"questions": [{"h": tensor(*[i] * 1000)} for i in range(6)]})
    with open("in.pt", "rb") as file:
        data = bytearray(file.read())
    at = data.index(struct.pack("<f", 5) * 100)
    data[at + 50] ^= 1
    with open("bad.pt", "wb") as file:
        file.write(data)
    refused(["bad.pt", "CRC-32"], "-n", "2", name="bad.pt")
    refused(["bad.pt", "CRC-32"], "-n", "2", "--dry-run", name="bad.pt")


@check
def a_dry_run_writes_nothing_that_has_a_name():
    save({"questions": [{"h": tensor(i)} for i in range(6)]})
    wanted = split("-n", "2")
    os.mkfifo("muster-split.pt")  # opened for writing, it waits for a reader
    ended = subprocess.run([MUSTER, "split", "--json", "--dry-run", "in.pt", "-o", "parts/", "--force", "-n", "2"], capture_output=True, text=True,
                           timeout=20, env=dict(os.environ, TMPDIR=os.getcwd()))
    assert ended.returncode == 0 and [json.loads(line) for line in ended.stdout.splitlines()] == wanted, ended


@check
def what_lies_deep_is_cut_or_refused():
    def deep(n):
        made = {"questions": [1, 2, 3, 4], "num_questions": 4}
        for _ in range(n):
            made = {"k": made}
        return made
    for n in (70, 200):
        save(deep(n))
        wholes = parts(split("-n", "2", "--key", "k." * n + "questions"))
        for i, whole in enumerate(wholes):
            while "k" in whole:
                whole = whole["k"]
            assert whole == {"questions": [2 * i + 1, 2 * i + 2], "num_questions": 2}, whole
    many = b"}X\1\0\0\0k" * 1500 + b"]K\1a" + b"s" * 1500
    with open("in.pt", "wb") as file:
        file.write(made.zipped({"data.pkl": b"\x80\x02" + many + b".", "version": b"3\n"}))
    refused(["dictionaries are nested more than 1000 deep"], "-n", "1", "--key", "k." * 1499 + "k")


sys.exit(run_checks())
