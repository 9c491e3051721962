#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`muster merge` and `muster split` of safetensors, npy and npz: every element is where Python puts it,
files are byte for byte what their libraries would write, and what does not fit is refused without an output.

    test_arrays.py MUSTER
"""
import io, itertools, json, os, random, resource, shutil, struct, subprocess, sys, tempfile, zipfile

MUSTER = os.path.abspath(sys.argv[1])
SIZES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "I16": 2, "F16": 2, "BF16": 2, "I32": 4, "F32": 4, "F64": 8,
         "I64": 8, "U64": 8}
RANKS = list(SIZES)
checks = []


def check(function):
    checks.append(function)
    return function


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


def merged(paths, *options, out="out"):
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
        large(name, Array("<f8", (2, 600000), [], fortran), 8)
    refused(["f.npy", "save them all in one order"], ["c.npy", "f.npy"])


@check
def npy_files_that_do_not_fit_are_refused():
    rng = random.Random(9)
    x = drawn(rng, "<f4", (2, 3), 4)
    write("a.npy", npy(x))
    for other, words in ((drawn(rng, "<f8", (2, 3), 8), ["<f4 in a.npy and <f8 in b.npy"]),
                         (drawn(rng, ">f4", (2, 3), 4), ["<f4 in a.npy and >f4 in b.npy"]),
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
        refused(["'n' is in a.npz and in b.npz", "their elements"], ["a.npz", "b.npz"])
        merged(["a.npz", "b.npz"], *rules("n=first", "x=first"), out="out.npz")
        assert npz_read("out.npz")["x.npy"] == npy(a["x"])


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


def peak_kib(*args):
    child = subprocess.Popen([MUSTER, *args], stderr=subprocess.PIPE)
    text = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, text
    return usage.ru_maxrss


@check
def memory_does_not_follow_the_size():
    for fortran in (False, True):
        large("a.npy", Array("<f8", (500000, 32), [], fortran), 8)
        large("b.npy", Array("<f8", (250000, 32), []), 8)
        used = peak_kib("merge", "-q", "-f", "a.npy", "b.npy", "-o", "out.npy")
        assert os.path.getsize("out.npy") == 128 + 750000 * 32 * 8
        assert used < (16 << 10) or "san" in os.environ.get("ASAN_OPTIONS", "san-"), used
    for name in ("a.npy", "b.npy", "out.npy"):
        os.unlink(name)


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


def main():
    failed = 0
    print(f"1..{len(checks)}")
    for i, function in enumerate(checks, 1):
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            name = function.__name__.replace("_", " ")
            try:
                function()
                print(f"ok {i} - {name}", flush=True)
            except ImportError as missing:
                print(f"ok {i} - {name} # SKIP {missing.name} is not here", flush=True)
            except Exception as error:
                failed += 1
                print(f"not ok {i} - {name}\n# line {error.__traceback__.tb_next and error.__traceback__.tb_next.tb_lineno}: {error!r}"[:2000], flush=True)
            os.chdir("/")
    return failed > 0


sys.exit(main())
