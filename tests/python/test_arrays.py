#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`muster merge` and `muster split` of safetensors, npy and npz: every element is where Python puts it,
files are byte for byte what their libraries would write, and what does not fit is refused without an output.

    test_arrays.py MUSTER
"""
import io, itertools, json, os, random, resource, shutil, struct, subprocess, sys, zipfile
from checks import check, run_checks

MUSTER = os.path.abspath(sys.argv[1])
SIZES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "I16": 2, "F16": 2, "BF16": 2, "I32": 4, "F32": 4, "F64": 8,
         "I64": 8, "U64": 8}
RANKS = list(SIZES)
class Array:
    """Elements in row-major order, each as its bytes."""

    def __init__(self, dtype, shape, elements, fortran=False):
        self.dtype, self.shape, self.elements, self.fortran = dtype, tuple(shape), list(elements), fortran

    def rows(self, begin, end):
        width = 1
        for dim in self.shape[1:]:
            width *= dim
        return Array(self.dtype, (end - begin,) + self.shape[1:], self.elements[begin * width:end * width],
                     self.fortran)

    def data(self):
        if not self.is_fortran():
            return b"".join(self.elements)
        places = itertools.product(*[range(dim) for dim in reversed(self.shape)])
        return b"".join(self.elements[self.place(tuple(reversed(at)))] for at in places)

    def place(self, at):
        place = 0
        for index, dim in zip(at, self.shape):
            place = place * dim + index
        return place

    def is_fortran(self):
        return self.fortran and 0 not in self.shape and sum(dim > 1 for dim in self.shape) > 1


def concat(*arrays, fortran=None):
    first = arrays[0]
    return Array(first.dtype, (sum(a.shape[0] for a in arrays),) + first.shape[1:],
                 [e for a in arrays for e in a.elements], first.fortran if fortran is None else fortran)


def drawn(rng, dtype, shape, size, fortran=False):
    n = 1
    for dim in shape:
        n *= dim
    return Array(dtype, shape, [rng.randbytes(size) for _ in range(n)], fortran)


# ---- writers, as the libraries write ----

def npy_head(array, version=1):
    """As numpy.save of 1.24 and newer has it, with room for the dimension that may grow."""
    fortran = array.is_fortran()
    head = f"{{'descr': {array.dtype!r}, 'fortran_order': {fortran}, 'shape': {array.shape!r}, }}"
    if array.shape:
        head += " " * (21 - len(str(array.shape[-1 if fortran else 0])))
    head = head.encode("utf-8" if version == 3 else "latin-1")
    width = 2 if version == 1 else 4
    padding = 64 - (8 + width + len(head) + 1) % 64
    return (b"\x93NUMPY" + bytes((version, 0)) + (len(head) + padding + 1).to_bytes(width, "little") + head +
            b" " * padding + b"\n")


def npy(array, version=1):
    return npy_head(array, version) + array.data()


def npz(arrays, method=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as z:
        for name, array in arrays.items():
            z.writestr(name + ".npy", npy(array))
    return file.getvalue()


def npz_read(path):
    with zipfile.ZipFile(path) as z:
        assert z.testzip() is None
        return {info.filename: z.read(info) for info in z.infolist()}


def safetensors(arrays, metadata=None, sort=True):
    header, data = {}, b""
    if metadata is not None:
        header["__metadata__"] = metadata
    order = sorted(arrays, key=lambda name: (-RANKS.index(arrays[name].dtype), name.encode())) if sort else arrays
    for name in order:
        array = arrays[name]
        header[name] = {"dtype": array.dtype, "shape": list(array.shape),
                        "data_offsets": [len(data), len(data) + len(array.data())]}
        data += array.data()
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def large(name, array, size):
    """The head of an array whose elements are all zeros, a hole in the file."""
    write(name, npy_head(array))
    for dim in array.shape:
        size *= dim
    os.truncate(name, os.path.getsize(name) + size)


def tensors(rng, **shapes):
    return {name: drawn(rng, dtype, shape, SIZES[dtype]) for name, (dtype, shape) in shapes.items()}


# ---- running ----

def put(**files):
    for name, data in files.items():
        write(name.replace("__", "."), data)


def write(name, data):
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    with open(name, "wb") as file:
        file.write(data)


def read(name):
    with open(name, "rb") as file:
        return file.read()


def muster(*args):
    return subprocess.run([MUSTER, *args], capture_output=True, text=True, timeout=60)


def merged(paths, *options, out="whole.out"):
    if os.path.isfile(out):
        os.unlink(out)
    ended = muster("merge", "-q", *paths, "-o", out, *options)
    assert ended.returncode == 0 and ended.stdout == "" and ended.stderr == "", ended
    return read(out)


def refused(words, paths, *options, status=65, out="new"):
    before = sorted(os.listdir("."))
    ended = muster("merge", *paths, "-o", out, *options)
    assert ended.returncode == status and sorted(os.listdir(".")) == before, ended
    assert all(word in ended.stderr for word in words), (words, ended.stderr)


def rules(*texts):
    return [option for text in texts for option in ("--rule", text)]


# ---- merge: safetensors ----

@check
def names_of_all_files_in_the_order_of_the_library():
    rng = random.Random(1)
    a = tensors(rng, w=("F32", (3, 4)), b=("I64", (5,)), h=("F16", (2, 2)), e=("F32", (0, 3)))
    b = tensors(rng, a=("F32", ()), t=("BOOL", (3,)), g=("BF16", (3,)))
    b['q"\\/\n\té\x01'] = drawn(rng, "I8", (7,), 1)
    write("a.safetensors", safetensors(a, {"format": "pt"}))
    write("b.bin", safetensors(b, {"format": "pt", "b": "é"}))
    assert merged(["a.safetensors", "b.bin"]) == safetensors(a | b, {"b": "é", "format": "pt"})
    write("plain", safetensors(b, None))
    assert merged(["plain"]) == safetensors(b, None)
    unsorted = safetensors(dict(reversed(list(b.items()))), sort=False)
    assert unsorted != safetensors(b)
    write("unsorted", unsorted)
    assert merged(["unsorted"]) == safetensors(b)


@check
def names_are_the_same_however_they_are_written():
    x = drawn(random.Random(2), "F32", (2,), 4)
    other = drawn(random.Random(3), "F32", (2,), 4)
    write("a", safetensors({"abc": x}))
    escaped = rb'{"\u0061bc":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'
    write("b", struct.pack("<Q", len(escaped) + 1) + escaped + b"}" + x.data())
    write("c", safetensors({"aXc": other}).replace(b"aXc", b"abc"))
    assert merged(["a", "b"]) == safetensors({"abc": x})
    refused(["'abc'"], ["b", "c"])
    escaped += b',"abc":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}}'
    write("twice", struct.pack("<Q", len(escaped)) + escaped + x.data() * 2)
    refused(["twice", "abc", "there twice"], ["twice"])


@check
def the_same_name_goes_by_rule():
    rng = random.Random(4)
    a, b = (tensors(rng, x=("F32", (n, 3)), same=("I64", (2,)), only=("U8", (n,))) for n in (2, 1))
    b["same"] = a["same"]
    write("a", safetensors({"x": a["x"], "same": a["same"]}))
    write("b", safetensors({"x": b["x"], "same": b["same"], "only": b["only"]}))
    refused(["'x' is in a and in b", "their shape", "--rule 'x=cat0'"], ["a", "b"])
    rest = {"same": a["same"], "only": b["only"]}
    assert merged(["a", "b"], *rules("x=cat0")) == safetensors(rest | {"x": concat(a["x"], b["x"])})
    assert merged(["b", "a"], *rules("x=cat0")) == safetensors(rest | {"x": concat(b["x"], a["x"])})
    assert merged(["a", "b"], *rules("x=first")) == safetensors(rest | {"x": a["x"]})
    assert merged(["a", "b"], *rules("x=drop")) == safetensors(rest)
    refused(["'x'", "cat0, same, union, first and drop"], ["a", "b"], *rules("x=sum"), status=2)
    refused(["'nothing'", "fits nothing"], ["a", "b"], *rules("x=drop", "nothing=drop"), status=2)
    refused(["drop everything"], ["a", "b"], *rules("*=drop"), status=2)
    changed = Array("F32", (2, 3), [b"\0\0\0\1"] + a["x"].elements[1:])
    write("c", safetensors({"x": changed}))
    refused(["'x'", "their elements"], ["a", "c"])
    write("d", safetensors({"x": Array("I32", (2, 3), a["x"].elements)}))
    refused(["'x'", "their type"], ["a", "d"])
    refused(["'x' is F32 in a and I32 in d"], ["a", "d"], *rules("x=cat0"))
    write("e", safetensors({"x": Array("F32", (2, 3, 1), a["x"].elements)}))
    refused(["(2, 3) in a and (2, 3, 1) in e"], ["a", "e"], *rules("x=cat0"))
    write("f", safetensors({"x": Array("F32", (), a["x"].elements[:1])}))
    refused(["no dimension in f"], ["a", "f"], *rules("x=cat0"))


@check
def metadata_that_differs_is_named_with_its_cure():
    x = tensors(random.Random(5), x=("F32", (2,)), y=("F32", (2,)))
    write("a", safetensors({"x": x["x"]}, {"format": "pt", "step": "1"}))
    write("b", safetensors({"y": x["y"]}, {"format": "pt", "step": "2"}))
    refused(["__metadata__.step", "'1' in a", "'2' in b", "--rule '__metadata__.step=first'"], ["a", "b"])
    assert merged(["a", "b"], *rules("__metadata__.step=first")) == safetensors(x, {"format": "pt", "step": "1"})
    assert merged(["a", "b"], *rules("__metadata__.step=drop")) == safetensors(x, {"format": "pt"})
    assert merged(["a", "b"], *rules("__metadata__=drop")) == safetensors(x)
    refused(["does not go by cat0"], ["a", "b"], *rules("__metadata__.step=cat0"), status=2)
    write("d", safetensors({"x": x["x"]}, {"a\0b": "c\0d", "é": ""}))
    assert merged(["d"]).replace(b"\\u0000", b"\0") == safetensors({"x": x["x"]}, {"a\0b": "c\0d", "é": ""}).replace(
        b"\\u0000", b"\0")
    write("c", safetensors({"x": x["x"]}, {"format": 3}))
    refused(["c: its __metadata__ is not names and texts"], ["c"])


def index(folder, parts, **changes):
    """Shards and their index, as transformers writes them."""
    weight_map, total = {}, 0
    for name, part in parts.items():
        write(os.path.join(folder, name), safetensors(part, {"format": "pt"}))
        weight_map |= {key: name for key in part}
        total += sum(len(array.data()) for array in part.values())
    said = {"metadata": {"total_size": total}, "weight_map": weight_map} | changes
    write(os.path.join(folder, "model.safetensors.index.json"), json.dumps(said, indent=2).encode())


@check
def an_index_stands_for_its_shards_and_is_checked():
    rng = random.Random(6)
    a, b = tensors(rng, x=("F32", (3,)), y=("F16", (2,))), tensors(rng, z=("F32", (1, 2)))
    parts, path = {"m-1.safetensors": a, "m-2.safetensors": b}, "m/model.safetensors.index.json"
    index("m", parts)
    assert merged([path]) == safetensors(a | b, {"format": "pt"})
    more = tensors(rng, more=("U8", (3,)))
    write("more.safetensors", safetensors(more))
    assert merged(["more.safetensors", path]) == safetensors(a | b | more, {"format": "pt"})
    refused(["same file"], [path, "m/m-1.safetensors"], status=2)
    os.link(path, "m/again.safetensors")
    refused(["is one of the files"], [path], "--force", status=2, out="m/again.safetensors")
    refused([path, "another format"], [path], "--force", status=2, out=path)
    index("m", parts, metadata={"total_size": 27})
    refused([path, "total_size is 27", "24 bytes"], [path])
    right = {"x": "m-1.safetensors", "y": "m-1.safetensors", "z": "m-2.safetensors"}
    for wrong, words in (({"y": "m-2.safetensors"}, ["'y' is not in its shard"]),
                         ({"y": None}, ["'y' is in no shard"]),
                         ({"w": "m-1.safetensors"}, ["'w' is not in its shard"]),
                         ({"y": "m-3.safetensors"}, ["m-3.safetensors is not there"]),
                         ({"y": "../m-3.safetensors"}, ["is no file beside it"])):
        index("m", parts, weight_map=right | wrong)
        refused([path, *words], [path])
    index("m", parts, weight_map={"x": "m-1.safetensors", "z": "m-2.safetensors"})
    refused([path, "'y' of", "is not in the index"], [path])
    write("m/m-2.safetensors", b"{}\n")
    index("m", {"m-1.safetensors": a}, weight_map=right)
    refused([path, "is no file of safetensors"], [path])


# ---- merge: npy ----

DTYPES = {"<f8": 8, ">i4": 4, "|b1": 1, "<U2": 8, "|S5": 5, "<M8[ns]": 8, "<c16": 16,
          (("a", "<f4"), ("b", ">i8", (2,))): 20}


def dtype_of(key):
    return list(key) if isinstance(key, tuple) else key


@check
def npy_files_go_behind_one_another_in_both_orders():
    rng = random.Random(7)
    shapes = [(4,), (3, 2), (2, 3, 4), (5, 1, 2), (2, 2, 3, 2), (0, 3)]
    for key, shape, fortran in itertools.product(DTYPES, shapes, (False, True)):
        parts = [drawn(rng, dtype_of(key), (n,) + shape[1:], DTYPES[key], fortran) for n in (shape[0], 1, 3)]
        for i, part in enumerate(parts):
            write(f"p{i}.npy", npy(part))
        found = merged(["p0.npy", "p1.npy", "p2.npy"])
        assert found == npy(concat(*parts)), (key, shape, fortran, found[:200])


@check
def npy_files_of_both_orders_become_row_major():
    rng = random.Random(8)
    for shape in ((30, 7), (5, 3, 4), (2, 3, 2, 2)):
        parts = [drawn(rng, "<f4", shape, 4, fortran) for fortran in (True, False, True)]
        for i, part in enumerate(parts):
            write(f"p{i}.npy", npy(part))
        assert merged(["p0.npy", "p1.npy", "p2.npy"]) == npy(concat(*parts, fortran=False)), shape
    for name, fortran in (("c.npy", False), ("f.npy", True)):
        large(name, Array("<f8", (2, 2, 300000), [], fortran), 8)
    refused(["f.npy: a row of 4800000 bytes", "save them all in one order"], ["c.npy", "f.npy"])


@check
def npy_files_that_do_not_fit_are_refused():
    rng = random.Random(9)
    x = drawn(rng, "<f4", (2, 3), 4)
    write("a.npy", npy(x))
    for other, words in ((drawn(rng, "<f8", (2, 3), 8), ["<f4 in a.npy and <f8 in b.npy: make them one type first"]),
                         (drawn(rng, ">i4", (2, 3), 4), ["<f4 in a.npy and >i4 in b.npy"]),
                         (drawn(rng, "|S4", (2, 3), 4), ["<f4 in a.npy and |S4 in b.npy"]),
                         (drawn(rng, ">f8", (2, 3), 8), ["<f4 in a.npy and >f8 in b.npy"]),
                         (drawn(rng, "<f4", (2, 4), 4), ["(2, 3) in a.npy and (2, 4) in b.npy"]),
                         (drawn(rng, "<f4", (6,), 4), ["(2, 3) in a.npy and (6,) in b.npy"]),
                         (drawn(rng, "<f4", (), 4), ["no dimension in b.npy"]),
                         (Array("|O", (1,), [b"\x80\x02N."]), ["b.npy", "Python objects"]),
                         (Array([("a", "|O")], (1,), [b"\x80\x02N."]), ["b.npy", "Python objects"])):
        write("b.npy", npy(other))
        refused(words, ["a.npy", "b.npy"])
    write("b.npy", npy(x)[:-1])
    refused(["b.npy", "24 bytes, 23 are there"], ["a.npy", "b.npy"])
    write("b.npy", npy(drawn(rng, [("a", "<f4")], (3,), 4))[:-1])
    refused(["b.npy", "12 bytes, 11 are there"], ["b.npy"])
    write("b.npy", npy(x)[:60])
    refused(["b.npy", "cut off"], ["a.npy", "b.npy"])
    write("b.npz", npz({"x": x}))
    refused(["a.npy is npy, b.npz is npz"], ["a.npy", "b.npz"], status=2)
    write("b.jsonl", b"{}\n")
    refused(["a.npy is a file of tensors, b.jsonl is none"], ["a.npy", "b.jsonl"], status=2)
    refused(["same file"], ["a.npy", "./a.npy"], status=2)
    refused(["--id"], ["a.npy"], "--id", "x", status=2)


@check
def a_type_is_the_same_however_it_is_written():
    x, y = drawn(random.Random(10), "<f4", (2,), 4), drawn(random.Random(11), "=f4", (1,), 4)
    write("a.npy", npy(x))
    write("b.npy", npy(y))
    assert merged(["a.npy", "b.npy"]) == npy(concat(x, y))
    names = [("é", "<f4")]
    write("a.npy", npy(Array(names, (2,), x.elements), version=3))
    write("b.npy", npy(Array(names, (1,), y.elements), version=3))
    assert merged(["a.npy", "b.npy"]) == npy(Array(names, (3,), x.elements + y.elements), version=3)
    write("b.npy", npy(Array([("Ã©", "<f4")], (1,), y.elements)))
    refused(["a.npy", "b.npy"], ["a.npy", "b.npy"])


def widened(array, dtype, size, unit):
    """Elements as they are in an array of another type: the bytes of a unit turned round if there is one, then zeros."""
    def element(old):
        pieces = [old[at:at + unit][::-1] for at in range(0, len(old), unit)] if unit else [old]
        return b"".join(pieces).ljust(size, b"\0")
    return Array(dtype, array.shape, [element(e) for e in array.elements], array.fortran)


@check
def texts_of_other_widths_and_numbers_of_the_other_byte_order_are_joined():
    rng = random.Random(14)
    for types in ((("<U1", 4, 0), ("<U3", 12, 0), ("<U2", 8, 0)), (("|S5", 5, 0), ("|S2", 2, 0), ("|S64", 64, 0)),
                  ((">i4", 4, 4), ("<i4", 4, 0), (">i4", 4, 4)), (("<c16", 16, 0), (">c16", 16, 8), ("<c16", 16, 0)),
                  ((">M8[ns]", 8, 8), ("<M8[ns]", 8, 0), ("<M8[ns]", 8, 0)), ((">U1", 4, 4), ("<U3", 12, 0), ("<U1", 4, 0)),
                  (("<U0", 0, 0), ("<U2", 8, 0), (">U0", 0, 4)), (("|S3", 3, 0), ("|S0", 0, 0), ("|S0", 0, 0))):
        made = next(t for t in types if t[1] == max(size for _, size, _ in types) and t[0][0] in "<|")
        for shape, orders in itertools.product([(4,), (3, 2), (2, 3, 4), (0, 3)], [(0, 0, 0), (1, 1, 1), (1, 0, 1)]):
            parts = [drawn(rng, dtype, (n,) + shape[1:], size, bool(fortran))
                     for (dtype, size, _), n, fortran in zip(types, (shape[0], 2, 3), orders)]
            for i, part in enumerate(parts):
                write(f"p{i}.npy", npy(part))
            wanted = concat(*[widened(part, made[0], made[1], unit) for part, (_, _, unit) in zip(parts, types)],
                            fortran=all(part.is_fortran() or 0 in part.shape or len(shape) == 1 for part in parts))
            found = merged(["p0.npy", "p1.npy", "p2.npy"])
            assert found == npy(wanted), (types, shape, orders, found[:300], npy(wanted)[:300])
    # more than a window, whose end is within an element
    parts = [drawn(rng, "|S7", (90000,), 7), drawn(rng, "|S11", (3,), 11)]
    for i, part in enumerate(parts):
        write(f"p{i}.npy", npy(part))
    assert merged(["p0.npy", "p1.npy"]) == npy(concat(*[widened(part, "|S11", 11, 0) for part in parts]))
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        for dtype, size in (("<U2", 8), ("<U0", 0)):
            a, b = drawn(rng, dtype, (3,), size), drawn(rng, "<U5", (2,), 20)
            write("a.npz", npz({"t": a}, method))
            write("b.npz", npz({"t": b}, method))
            merged(["a.npz", "b.npz"], out="out.npz")
            assert npz_read("out.npz") == {"t.npy": npy(concat(widened(a, "<U5", 20, 0), b))}


# ---- merge: npz ----

@check
def arrays_of_npz_that_all_have_are_joined_and_others_kept():
    rng = random.Random(12)
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        a = {"x": drawn(rng, "<f4", (3, 2), 4), "n": drawn(rng, "<i8", (), 8), "f": drawn(rng, "<i2", (3, 4), 2, True)}
        b = {"only": drawn(rng, "|u1", (4,), 1), "f": drawn(rng, "<i2", (2, 4), 2, True), "n": a["n"],
             "x": drawn(rng, "<f4", (1, 2), 4)}
        write("a.npz", npz(a, method))
        write("b.npz", npz(b, method))
        merged(["a.npz", "b.npz"], out="out.npz")
        wanted = {"x": concat(a["x"], b["x"]), "n": a["n"], "f": concat(a["f"], b["f"]), "only": b["only"]}
        found = npz_read("out.npz")
        assert list(found) == [name + ".npy" for name in wanted], list(found)
        assert found == {name + ".npy": npy(array) for name, array in wanted.items()}
        b["n"] = drawn(rng, "<i8", (), 8)
        write("b.npz", npz(b, method))
        refused(["'n' is in a.npz and in b.npz", "their elements; --rule 'n=first' keeps the first file's, drop leaves it out"],
                ["a.npz", "b.npz"])
        merged(["a.npz", "b.npz"], *rules("n=drop"), out="out.npz")
        merged(["a.npz", "b.npz"], *rules("n=first", "x=first"), out="out.npz")
        assert npz_read("out.npz")["x.npy"] == npy(a["x"])


@check
def entries_of_npz_may_lack_their_ending():
    x, y = drawn(random.Random(15), "<f4", (3,), 4), drawn(random.Random(16), "<f4", (2,), 4)
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        for name, array in (("a.npz", x), ("b.npz", y)):
            with zipfile.ZipFile(name, "w", method) as z:
                z.writestr("x", npy(array))
        merged(["a.npz", "b.npz"], out="out.npz")
        assert npz_read("out.npz") == {"x.npy": npy(concat(x, y))}
        ended = muster("merge", "--inspect", "a.npz")
        assert ended.returncode == 0 and "npz" in ended.stdout and "x: <f4 [3]" in ended.stdout, ended


@check
def damaged_npz_is_named_with_its_entry():
    rng = random.Random(13)
    x = drawn(rng, "<f4", (3000,), 4)
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        good = npz({"x": x, "y": x}, method)
        write("a.npz", good)
        bad = bytearray(good)
        bad[5000] ^= 4
        write("b.npz", bad)
        refused(["b.npz: entry x.npy"], ["a.npz", "b.npz"])
        refused(["b.npz: entry x.npy"], ["a.npz", "b.npz"], "--dry-run")
        refused(["b.npz: entry x.npy"], ["a.npz", "b.npz"], *rules("*=same"))
        write("b.npz", good[:-30])
        refused(["b.npz"], ["a.npz", "b.npz"])
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as z:
        z.writestr("x.npy", npy(x))
        z.writestr("notes.txt", "no array")
    write("b.npz", file.getvalue())
    refused(["b.npz: notes.txt: it is no array"], ["b.npz"])
    write("a.npz", npz({"x": x}))
    refused(["cannot be written to a pipe"], ["a.npz"], out="-", status=2)


# ---- split ----

def split(path, *options):
    """Paths, first records and counts of the parts, checked with the sizes on disk."""
    ended = muster("split", "-q", "--json", path, *options)
    assert ended.returncode == 0 and ended.stderr == "", ended
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    if "--dry-run" not in options:
        assert all(os.path.getsize(row["path"]) == row["bytes"] for row in rows), rows
    return rows


def split_refused(words, path, *options, status=65):
    before = sorted(os.walk("."))
    ended = muster("split", path, *options)
    assert ended.returncode == status and sorted(os.walk(".")) == before, ended
    assert all(word in ended.stderr for word in words), (words, ended.stderr)


def forget(*rows):
    for row in rows:
        os.unlink(row["path"])


@check
def rows_of_npy_in_both_orders_and_the_whole_again():
    rng = random.Random(20)
    for shape, key, fortran in itertools.product([(7,), (5, 3), (4, 2, 3), (0, 3), (1, 1)], ("<f4", "<U2"), (0, 1)):
        array = drawn(rng, key, shape, DTYPES.get(key, 4), bool(fortran))
        write("in.npy", npy(array))
        for options, counts in ((["-n", "3"], [shape[0] // 3 + (i < shape[0] % 3) for i in range(3)]),
                                (["--records", "2"], [min(2, shape[0] - i) for i in range(0, shape[0], 2)] or [0])):
            dry = split("in.npy", *options, "--dry-run")
            rows = split("in.npy", *options)
            assert dry == rows and [row["records"] for row in rows] == counts, rows
            assert rows[0]["path"] == "in.part_00.npy"
            for row in rows:
                end = row["first"] + row["records"]
                assert read(row["path"]) == npy(array.rows(row["first"], end)), (shape, key, fortran, row)
            assert merged([row["path"] for row in rows]) == npy(array)
            forget(*rows)


@check
def parts_of_a_size_are_no_larger():
    rng = random.Random(21)
    write("in.npy", npy(drawn(rng, "<f4", (100, 5), 4)))
    rows = split("in.npy", "--size", "500")
    assert all(row["bytes"] <= 500 for row in rows) and sum(row["records"] for row in rows) == 100
    assert rows[0]["bytes"] + 20 > 500 and len(rows) == 6, rows
    forget(*rows)
    rows = split("in.npy", "--size", "1", "-o", "{n}.npy")
    assert [row["records"] for row in rows] == [1] * 100
    many = {f"t{i:03}": drawn(rng, "F32", (i,), 4) for i in range(60)}
    write("in.safetensors", safetensors(many))
    rows = split("in.safetensors", "--size", "1000")
    assert all(row["bytes"] <= 1000 for row in rows) and sum(row["records"] for row in rows) == 60, rows
    assert all(a["bytes"] + b["bytes"] > 1000 for a, b in zip(rows, rows[1:]))


@check
def whole_tensors_as_transformers_names_them_with_their_index():
    rng = random.Random(22)
    a = tensors(rng, w=("F32", (30, 4)), b=("I64", (5,)), h=("F16", (20, 2)), e=("F32", (0, 3)), s=("F32", ()),
                big=("F32", (100, 2)), t=("BOOL", (3,)))
    a['q"é'] = drawn(rng, "U8", (9,), 1)
    for metadata in ({"format": "pt"}, None):
        whole = safetensors(a, metadata)
        write("model.safetensors", whole)
        rows = split("model.safetensors", "-n", "4", "-o", "out/")
        names = [f"model-{i}-of-00004.safetensors" for i in ("00001", "00002", "00003", "00004")]
        assert [row["path"] for row in rows] == ["out/" + name for name in names], rows
        assert all(row["records"] > 0 for row in rows) and sum(row["records"] for row in rows) == len(a)
        said = json.loads(read("out/model.safetensors.index.json"))
        assert said["metadata"] == {"total_size": sum(len(x.data()) for x in a.values())}, said
        assert set(said["weight_map"]) == set(a) and list(said["weight_map"]) == sorted(a)
        for name in names:
            mine = {key: a[key] for key, file in said["weight_map"].items() if file == name}
            assert read("out/" + name) == safetensors(mine, metadata), name
        assert sorted(os.listdir("out")) == sorted(names + ["model.safetensors.index.json"])
        assert merged(["out/model.safetensors.index.json"]) == whole
        assert merged(["out/" + name for name in reversed(names)]) == whole
        split_refused(["exists; --force"], "model.safetensors", "-n", "4", "-o", "out/", status=2)
        again = split("out/model.safetensors.index.json", "-n", "2", "-o", "again/")
        assert len(again) == 2 and merged(["again/model.safetensors.index.json"]) == whole
        split_refused(["would replace the input"], "out/model.safetensors.index.json", "-n", "3", "--force", status=2)
        shutil.rmtree("out")
        shutil.rmtree("again")
    rows = split("model.safetensors", "--records", "3", "-o", "p/{n}-{parts}.st")
    assert [row["path"] for row in rows] == ["p/00-03.st", "p/01-03.st", "p/02-03.st"], rows
    assert merged(["p/model.safetensors.index.json"]) == whole
    few = muster("split", "-n", "12", "model.safetensors", "-o", "few/")
    assert few.returncode == 0 and "4 of the parts have no tensor" in few.stderr, few
    assert merged(["few/model.safetensors.index.json"]) == whole


@check
def whole_tensors_are_balanced_as_well_as_can_be():
    rng = random.Random(23)
    for _ in range(30):
        sizes = [rng.randrange(1, 200) for _ in range(rng.randrange(1, 9))]
        n_parts = rng.randrange(1, len(sizes) + 1)
        write("m.safetensors", safetensors({f"t{i}": drawn(rng, "U8", (n,), 1) for i, n in enumerate(sizes)}))
        rows = split("m.safetensors", "-n", str(n_parts), "-o", "out/")
        largest = max(sum(sizes[row["first"]:row["first"] + row["records"]]) for row in rows)
        cuts = itertools.combinations(range(1, len(sizes)), n_parts - 1)
        best = min(max(sum(sizes[a:b]) for a, b in zip((0,) + cut, cut + (len(sizes),))) for cut in cuts)
        assert largest == best, (sizes, n_parts, rows)
        shutil.rmtree("out")


@check
def every_tensor_by_its_rows():
    rng = random.Random(24)
    a = tensors(rng, x=("F32", (7, 3)), y=("F16", (7,)), z=("I64", ()), w=("U8", (7, 0)))
    write("in.safetensors", safetensors(a, {"k": "v"}))
    rows = split("in.safetensors", "--rows", "-n", "3")
    assert [row["path"] for row in rows] == [f"in.part_0{i}.safetensors" for i in range(3)]
    assert [row["records"] for row in rows] == [3, 2, 2]
    for row in rows:
        mine = {name: x.rows(row["first"], row["first"] + row["records"]) if x.shape else x for name, x in a.items()}
        assert read(row["path"]) == safetensors(mine, {"k": "v"})
    parts = [row["path"] for row in rows]
    assert merged(parts, *rules("z=same", "*=cat0")) == safetensors(a, {"k": "v"})
    forget(*rows)
    rows = split("in.safetensors", "--rows", "--size", "300")
    assert all(row["bytes"] <= 300 for row in rows) and sum(row["records"] for row in rows) == 7, rows
    forget(*rows)
    a |= tensors(rng, v=("F32", (8, 3)))
    write("in.safetensors", safetensors(a))
    split_refused(["in.safetensors", "8", "7", "without --rows"], "in.safetensors", "--rows", "-n", "2")
    write("in.safetensors", safetensors(tensors(rng, z=("I64", ()))))
    split_refused(["no array with a dimension"], "in.safetensors", "--rows", "-n", "2")
    # F4 as the library has it: two elements in a byte, so a row of three is no whole byte
    text = b'{"x":{"dtype":"F4","shape":[2,3],"data_offsets":[0,3]}}'
    write("in.safetensors", struct.pack("<Q", len(text)) + text + b"abc")
    split_refused(["'x'", "whole bytes"], "in.safetensors", "--rows", "-n", "2")


@check
def rows_of_npz_and_the_whole_again():
    rng = random.Random(25)
    a = {"x": drawn(rng, "<f4", (5, 3), 4), "n": drawn(rng, "<i8", (), 8), "f": drawn(rng, "<i2", (5, 4), 2, True)}
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        write("in.npz", npz(a, method))
        dry = split("in.npz", "-n", "2", "--dry-run")
        rows = split("in.npz", "-n", "2")
        assert dry == rows
        for row in rows:
            end = row["first"] + row["records"]
            assert npz_read(row["path"]) == {name + ".npy": npy(x.rows(row["first"], end) if x.shape else x)
                                             for name, x in a.items()}
        merged([row["path"] for row in rows], out="out.npz")
        assert npz_read("out.npz") == {name + ".npy": npy(x) for name, x in a.items()}
        forget(*rows)
        bad = bytearray(npz({"x": drawn(rng, "<f4", (3000,), 4)}, method))
        bad[5000] ^= 4
        write("bad.npz", bad)
        split_refused(["bad.npz: entry x.npy"], "bad.npz", "-n", "2")
        split_refused(["bad.npz: entry x.npy"], "bad.npz", "-n", "2", "--dry-run")
    write("in.npz", npz(a | {"y": drawn(rng, "<f4", (6,), 4)}))
    split_refused(["'x' has 5 rows", "'y' 6"], "in.npz", "-n", "2")


@check
def what_cannot_be_asked_of_tensors_is_said():
    write("a.npy", npy(drawn(random.Random(26), "<f4", (3,), 4)))
    write("a.jsonl", b"{}\n")
    split_refused(["one file of tensors is cut at a time"], "a.npy", "a.npy", "-n", "2", status=2)
    split_refused(["--format is about records"], "a.npy", "-n", "2", "--format", "csv", status=2)
    split_refused(["--rows, --key and --pass-through are about files of tensors"], "a.jsonl", "-n", "2", "--rows", status=2)
    write("b.npy", npy(drawn(random.Random(26), "<f4", (), 4)))
    split_refused(["b.npy", "no array with a dimension"], "b.npy", "-n", "2")


# ---- what holds for all ----

@check
def an_output_that_exists_stays_and_stdout_gets_the_file():
    x = drawn(random.Random(14), "<f4", (3,), 4)
    write("a.npy", npy(x))
    write("old.npy", b"old")
    ended = muster("merge", "a.npy", "-o", "old.npy")
    assert ended.returncode == 2 and "--force" in ended.stderr and read("old.npy") == b"old"
    ended = muster("merge", "a.npy", "-o", "a.npy", "--force")
    assert ended.returncode == 2 and "is one of the files" in ended.stderr and read("a.npy") == npy(x)
    ended = muster("merge", "a.npy", "-o", "old.npy", "--force", "-n")
    assert ended.returncode == 0 and "would go into" in ended.stderr and read("old.npy") == b"old"
    ended = muster("merge", "a.npy", "-o", "old.npy", "--force")
    assert ended.returncode == 0 and "1 file of tensors into" in ended.stderr, ended
    assert read("old.npy") == npy(x)
    ended = subprocess.run([MUSTER, "merge", "-q", "a.npy", "-o", "-"], capture_output=True, timeout=60)
    assert ended.returncode == 0 and ended.stdout == npy(x)


def within_16_mib(*args):
    """ru_maxrss would be that of this program, which it was forked from."""
    most = resource.RLIM_INFINITY if b"__asan_init" in read(MUSTER) else 16 << 20
    ended = subprocess.run([MUSTER, *args], capture_output=True, text=True, timeout=60,
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (most, most)))
    assert ended.returncode == 0, ended


@check
def memory_does_not_follow_the_size():
    for fortran in (False, True):
        large("a.npy", Array("<f8", (500000, 32), [], fortran), 8)
        large("b.npy", Array("<f8", (250000, 32), []), 8)
        within_16_mib("merge", "-q", "-f", "a.npy", "b.npy", "-o", "out.npy")
        assert os.path.getsize("out.npy") == 128 + 750000 * 32 * 8
        within_16_mib("split", "-q", "-n", "3", "a.npy", "-o", "parts/")
        shutil.rmtree("parts")


@check
def wide_arrays_are_transposed():
    import numpy
    rng = numpy.random.default_rng(2)
    for shape, dtype in (((600, 3000), "<f8"), ((70, 2, 3, 5001), "<i4"), ((3, 600000), "<f8"), ((1100, 2100), "S64"), ((2, 3), "<c16")):
        a = numpy.asfortranarray(rng.integers(0, 256, (*shape, numpy.dtype(dtype).itemsize), "u1").view(dtype)[..., 0])
        b = rng.integers(0, 256, (2, *shape[1:], numpy.dtype(dtype).itemsize), "u1").view(dtype)[..., 0]
        numpy.save("a.npy", a)
        numpy.save("b.npy", b)
        within_16_mib("merge", "-q", "-f", "a.npy", "b.npy", "-o", "out.npy")
        whole = numpy.load("out.npy")
        assert whole.flags.c_contiguous and whole.tobytes() == numpy.concatenate([a, b]).tobytes(), (shape, dtype)


@check
def the_libraries_agree():
    import numpy
    rng = numpy.random.default_rng(1)
    a, b = rng.random((3, 4, 2)), rng.random((2, 4, 2))
    for order in "CF":
        numpy.save("a.npy", numpy.asarray(a, order=order))
        numpy.save("b.npy", numpy.asarray(b, order=order))
        merged(["a.npy", "b.npy"], out="out.npy")
        assert (numpy.load("out.npy") == numpy.concatenate([a, b])).all()
    texts, numbers = [["b", "aé"], ["abc"]], [numpy.array([1, 2], ">i4"), numpy.array([3], "<i4")]
    for parts in ([numpy.array(t) for t in texts], [numpy.array(t).astype("S") for t in (["a"], ["bcd"])], numbers):
        numpy.save("a.npy", parts[0])
        numpy.save("b.npy", parts[1])
        merged(["a.npy", "b.npy"], out="out.npy")
        found, wanted = numpy.load("out.npy"), numpy.concatenate(parts)
        assert found.dtype == wanted.dtype and (found == wanted).all(), (found, wanted)
    numpy.savez("a.npz", x=a, y=numpy.float32(3))
    numpy.savez_compressed("b.npz", x=b, y=numpy.float32(3))
    merged(["a.npz", "b.npz"], out="out.npz")
    both = numpy.load("out.npz")
    assert (both["x"] == numpy.concatenate([a, b])).all() and both["y"] == 3


@check
def the_library_of_safetensors_agrees():
    from safetensors import numpy as library
    import numpy
    a, b = {"x": numpy.ones((3, 4), "float32"), "i": numpy.arange(5)}, {"h": numpy.ones(3, "float16")}
    library.save_file(a, "a.safetensors", {"format": "np"})
    library.save_file(b, "b.safetensors", {"format": "np"})
    assert merged(["a.safetensors", "b.safetensors"]) == library.save(a | b, {"format": "np"})


@check
def more_packed_arrays_than_files_may_be_open():
    rng = random.Random(9)
    arrays = {f"a{i}": drawn(rng, "<i4", (4, 2), 4) for i in range(300)}
    with open("in.npz", "wb") as file:
        file.write(npz(arrays, zipfile.ZIP_DEFLATED))
    few = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))}
    for command in (["split", "-n", "2", "in.npz", "-o", "{n}.npz"], ["merge", "00.npz", "01.npz", "-o", "out.npz"],
                    ["merge", "in.npz", "-o", "one.npz"]):
        ended = subprocess.run([MUSTER, *command], capture_output=True, text=True, **few)
        assert ended.returncode == 0, ended
    for path in ("out.npz", "one.npz"):
        assert npz_read(path) == {name + ".npy": npy(array) for name, array in arrays.items()}


@check
def what_is_about_files_of_torch_is_refused():
    with open("a.npy", "wb") as file:
        file.write(npy(drawn(random.Random(1), "<i4", (4,), 4)))
    for option in (["--id", "x"], ["--expect", "4"], ["--plain"], ["--compact"], ["--reflink"], ["--pass-through"], ["--id", "x", "--renumber"], ["--renumber-path", "a=b"]):
        ended = muster("merge", "a.npy", "-o", "out.npy", *option)
        words = "--id, --expect, --renumber, --renumber-path, --plain, --compact, --reflink and --pass-through are about files of torch, and these are "
        assert ended.returncode == 2 and words in str(ended.stderr) and not os.path.exists("out.npy"), ended


@check
def shards_have_as_many_digits_as_are_asked_for():
    with open("m.safetensors", "wb") as file:
        file.write(safetensors({f"t{i}": drawn(random.Random(i), "F32", (3,), 4) for i in range(4)}))
    rows = split("m.safetensors", "-n", "2", "--digits", "7", "-o", "out/")
    assert [row["path"] for row in rows[:2]] == ["out/m-0000001-of-0000002.safetensors", "out/m-0000002-of-0000002.safetensors"], rows
    rows = split("m.safetensors", "-n", "2", "--digits", "3", "-o", "few/")
    assert rows[0]["path"] == "few/m-00001-of-00002.safetensors", rows


def bytes_read():
    """By this process and those that it has waited for."""
    with open("/proc/self/io", encoding="ascii") as file:
        return int(file.readline().split()[1])


@check
def a_transposed_array_is_read_about_once():
    n_rows, n_columns = 60000, 1000
    with open("f.npy", "wb") as file:
        file.write(npy_head(Array("|i1", (n_rows, n_columns), [], True)))
        head_bytes = file.tell()
        for k in (0, 1, n_columns - 1):
            file.seek(head_bytes + k * n_rows + n_rows - 1)
            file.write(bytes((k % 100 + 1,)))
    with open("c.npy", "wb") as file:
        file.write(npy(Array("|i1", (2, n_columns), [b"\7"] * 2 * n_columns)))
    before = bytes_read()
    assert muster("merge", "-q", "c.npy", "f.npy", "-o", "out.npy").returncode == 0
    assert bytes_read() - before < 2 * n_rows * n_columns, bytes_read() - before
    with open("out.npy", "rb") as file:
        rows = file.read()[-n_columns * 2:]
    assert rows == bytes(n_columns) + bytes((1, 2)) + bytes(n_columns - 3) + bytes((100,))


sys.exit(run_checks())
