#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`muster merge --inspect` shows what Python put into a file, and refuses, with the byte and the
reason, what two readers could understand in two ways.

    test_inspect.py MUSTER [FOLDER]     FOLDER: pt-corpus, pt-hostile and pt-real-newer with their manifests
"""
import collections, json, os, pickle, resource, struct, subprocess, sys, time, zipfile
from checks import Skip, check, run_checks
import torch_like as made

MUSTER = os.path.abspath(sys.argv[1])
DATA = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else os.path.join(os.path.dirname(__file__), "../../../shared/data"))
FLOATS = struct.pack("<6f", *range(6))
def limit_memory():
    """Beyond which hostile files must not make it go. AddressSanitizer's own map of memory is larger."""
    if not os.environ.get("IS_SANITIZED"):
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))


def inspect(path, *options):
    begin = time.monotonic()
    run = subprocess.run([MUSTER, "merge", "--inspect", *options, path], capture_output=True, timeout=60,
                         preexec_fn=limit_memory)
    return run, time.monotonic() - begin


def shown(data, name="file.pt"):
    with open(name, "wb") as file:
        file.write(data)
    run, _ = inspect(name, "--json")
    assert run.returncode == 0, run.stderr.decode()
    return json.loads(run.stdout)


def refused(data, *words, name="file.pt"):
    with open(name, "wb") as file:
        file.write(data)
    run, seconds = inspect(name)
    text = run.stderr.decode()
    assert run.returncode == 65, (run.returncode, text, run.stdout[:200])
    assert name in text and all(word in text for word in words), text
    assert run.stdout == b"" and seconds < 5, (run.stdout, seconds)


def tree(obj, key=None):
    """What --inspect should say of a Python object."""
    node = {} if key is None else {"key": str(key)}
    if isinstance(obj, made.Tensor):
        size = made.SIZES[obj.storage.kind]
        node |= {"type": {4: "float32", 8: "int64"}[size], "shape": list(obj.shape)}
        n = size
        for dim in obj.shape:
            n *= dim
        node["bytes"] = n
        if n != len(obj.storage.data):
            node["note"] = f"view of a storage of {len(obj.storage.data)} B"
    elif obj is None:
        node |= {"type": "None"}
    elif isinstance(obj, (bool, int, float, str)):
        node |= {"type": type(obj).__name__, "value": obj}
    elif isinstance(obj, dict):
        node |= {"type": type(obj).__name__, "count": len(obj)}
        if obj or isinstance(obj, collections.OrderedDict):
            node["items"] = [tree(v, k) for k, v in obj.items()]
    else:
        node |= {"type": type(obj).__name__, "count": len(obj)}
        if obj:
            items = [tree(v, f"[{i}]") for i, v in enumerate(obj)]
            node["items"] = items if len(items) <= 8 else items[:3] + [{"more": len(items) - 3}]
    return node


EVERYTHING = {
    "none": None, "yes": True, "no": False, "small": 7, "large": 70000, "negative": -5, "long": 2**62,
    "float": 0.1, "text": "é ü \U0001f600", "list": [1, 2, 3], "many": list(range(2500)), "tuple": (1, (2, 3)),
    "empty": [], "nothing": {}, "nested": {"a": {"b": [{"c": 1}]}}, "ordered": collections.OrderedDict(x=1),
    5: "a key that is a number",
}


@check
def objects_of_every_protocol():
    for protocol in range(2, 6):
        root = shown(made.saved(EVERYTHING, protocol))["root"]
        assert root == tree(EVERYTHING), (protocol, root)


@check
def text_protocols():
    plain = {"a": [1, -2, 0.5, "x\\y é", True, None, 2**40], "b": (1, 2)}
    for protocol in (0, 1):
        entries = {"data.pkl": pickle.dumps(plain, protocol), "version": b"3\n"}
        assert shown(made.zipped(entries))["root"] == tree(plain), protocol


@check
def tensors_and_views():
    floats = made.Storage(made.FloatStorage, FLOATS)
    longs = made.Storage(made.LongStorage, struct.pack("<2q", 1, 2))
    obj = {"whole": made.Tensor(floats, (2, 3)), "row": made.Tensor(floats, (3,), 3), "none": made.Tensor(floats, (0, 4)),
           "scalar": made.Tensor(longs, (), 1), "expanded": made.Tensor(floats, (2,), 0, (0,)), "again": made.Tensor(longs, (2,))}
    said = shown(made.saved(obj))
    assert said["root"] == tree(obj), said
    assert said["kind"] == "torch" and said["storages"] == 2 and said["storage_bytes"] == 40
    assert [c["name"] for c in said["callables"]] == sorted(c["name"] for c in said["callables"])
    assert all(c["weights_only"] for c in said["callables"])


@check
def what_is_no_data_is_named_and_not_run():
    said = shown(made.zipped({"data.pkl": b"\x80\x02cposix\nsystem\nX\x05\x00\x00\x00touch\x85R.", "version": b"3\n"}))
    assert said["callables"] == [{"name": "posix.system", "is_data": False, "weights_only": False}], said
    run, _ = inspect("file.pt")
    assert b"not taken" in run.stdout and b"posix.system" in run.stdout


@check
def trees_are_bounded():
    deep = []
    for _ in range(300):
        deep = [deep]
    assert len(shown(made.saved(deep))["root"]) > 0
    laughs = ["x"] * 8
    for _ in range(25):  # 8 ** 25 leaves, were they expanded
        laughs = [laughs] * 8
    data = made.saved(laughs)
    with open("file.pt", "wb") as file:
        file.write(data)
    run, seconds = inspect("file.pt")
    assert run.returncode == 0 and seconds < 5 and len(run.stdout) < 4 << 20, (run.returncode, seconds, len(run.stdout))


def pickle_refused(data, *words):
    refused(made.zipped({"data.pkl": data, "version": b"3\n"}), "data.pkl", *words)


@check
def pickles_that_are_refused():
    pickle_refused(b"\x80\x02]", "cut off")
    pickle_refused(b"\x80\x02N.N.", "byte 4", "follows the end")
    pickle_refused(b"\x80\x02NN.", "one object at the end")
    pickle_refused(b"\x80\x02h\x05.", "BINGET", "not there")
    pickle_refused(b"\x80\x02Nr\xfe\xff\xff\xff.", "memo")
    pickle_refused(b"\x80\x02](K\x01u.", "SETITEMS")
    pickle_refused(b"\x80\x02}K\x01a.", "APPEND")
    pickle_refused(b"\x80\x02}]K\x01s.", "SETITEM", "can change")
    pickle_refused(b"\x80\x02X\x01\x00\x00\x00\xff.", "UTF-8")
    pickle_refused(b"\x80\x02\x8b\xff\xff\xff\xff.", "LONG4")
    pickle_refused(b"\x80\x02K\x01K\x02R.", "REDUCE")
    pickle_refused(b"\x80\x02K\x05Q.", "persistent id")
    pickle_refused(b"\x80\x09N.", "protocol")
    pickle_refused(b"\x80\x02\xff.", "not known")


def view_refused(word, shape, offset=0, stride=None):
    refused(made.saved(made.Tensor(made.Storage(made.FloatStorage, FLOATS), shape, offset, stride)), word)


@check
def tensors_that_are_refused():
    view_refused("within its storage", (7,))
    view_refused("within its storage", (3,), 4)
    view_refused("within its storage", (2, 2), 0, (1 << 62, 1 << 62))
    view_refused("differ in number", (2, 3), 0, (1,))
    entries = made.records(made.Tensor(made.Storage(made.FloatStorage, FLOATS), (6,)))
    refused(made.zipped(entries | {"data/0": FLOATS[:-4]}), "storage 0", "not as long")
    del entries["data/0"]
    refused(made.zipped(entries), "storage 0", "missing")


@check
def zips_that_are_refused():
    good = made.saved([1])
    refused(good[:-1], "no zip end record")
    refused(good + b"x", "no zip end record")
    refused(b"x" + good, "none of .pt")
    refused(made.zipped({"data.pkl": b"\x80\x02N."}), "version")
    refused(made.zipped({"version": b"3\n"}), "data.pkl")
    refused(made.zipped({"data.pkl": b"\x80\x02N.", "version": b"3\n"}, folder=""), "in no folder")
    refused(made.zipped({"data.pkl": b"\x80\x02N.", "version": b"3\n", "constants.pkl": b""}), "TorchScript")
    refused(made.zipped({"data.pkl": b"\x80\x02N.", "version": b"3\n", "byteorder": b"odd"}), "byteorder")
    refused(made.zipped({"data.pkl": b"\x80\x02N.", "version": b"3\n", "../x": b""}), "leads out")
    refused(made.zipped({"data.pkl": b"\x80\x02N." * 99, "version": b"3\n"}, method=zipfile.ZIP_DEFLATED), "packed")
    at = good.index(b"\x80\x02")
    refused(good[:at + 2] + b"}" + good[at + 3:], "CRC")
    refused(b"", "empty")


@check
def safetensors_shown():
    said = shown(made.safetensors({"a": ("F32", [2, 3], FLOATS), 'q"': ("I64", [], b"\0" * 8)}, {"format": "pt"}), "m.safetensors")
    assert said["kind"] == "safetensors" and said["tensors"] == 2
    assert said["root"]["items"] == [
        {"key": "__metadata__", "type": "metadata", "value": {"format": "pt"}},
        {"key": "a", "type": "F32", "shape": [2, 3], "bytes": 24}, {"key": 'q"', "type": "I64", "shape": [], "bytes": 8}], said


@check
def safetensors_refused():
    name = "m.safetensors"
    good = made.safetensors({"a": ("F32", [6], FLOATS)})
    refused(good[:-1], "cut off", name=name)
    refused(good + b"x", "24 bytes of tensors are named, 25", name=name)
    refused(made.safetensors({"a": ("F32", [5], FLOATS)}), "\"a\"", "not as long", name=name)
    refused(made.safetensors({"a": ("F32", [1 << 62, 1 << 62], FLOATS)}), "beyond 64 bits", name=name)
    refused(good.replace(b"[0, 24]", b"[4, 24]"), "\"a\"", name=name)
    refused(good.replace(b"}}", b"} "), "no JSON object", name=name)
    twice = good.replace(b'}}', b'}, "a": {"dtype": "F32", "shape": [0], "data_offsets": [24, 24]}}')
    twice = struct.pack("<Q", twice.index(FLOATS) - 8) + twice[8:]
    refused(twice, "twice", name=name)


@check
def arrays_shown():
    said = shown(made.npy("<f4", (2, 3), FLOATS), "a.npy")
    assert said["root"] == {"type": "<f4", "shape": [2, 3], "bytes": 24}, said
    said = shown(made.npy("<f4", (2, 3), FLOATS, fortran=True, version=2), "a.npy")
    assert said["root"]["note"] == "Fortran order", said
    said = shown(made.npy([("a", "<i4"), ("b", "|S2")], (4,), b"x" * 24), "a.npy")
    assert said["root"]["shape"] == [4], said
    old = made.npy("<f4", (6,), FLOATS).replace(b"(6,)", b"(6L,)").replace(b" \n", b"\n")
    assert shown(old, "a.npy")["root"]["shape"] == [6]
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        entries = {"x.npy": made.npy("<f4", (6,), FLOATS), "y.npy": made.npy("|u1", (90000,), bytes(90000))}
        said = shown(made.zipped(entries, "", method), "a.npz")
        assert said["kind"] == "npz", said
        assert said["root"]["items"] == [{"key": "x", "type": "<f4", "shape": [6], "bytes": 24},
                                         {"key": "y", "type": "|u1", "shape": [90000], "bytes": 90000}], said


@check
def arrays_refused():
    refused(made.npy("|O", (1,), b"\x80\x02N."), "pickle", name="a.npy")
    refused(made.npy("<f4", (7,), FLOATS), "28 bytes, 24", name="a.npy")
    refused(made.npy("<f4", (1 << 62, 16), FLOATS), "64 bits", name="a.npy")
    refused(made.npy("<q9", (6,), FLOATS), "unknown type", name="a.npy")
    refused(made.npy("<f4", (6,), FLOATS)[:40], "cut off", name="a.npy")
    refused(made.npy("<f4", (6,), FLOATS).replace(b"'shape'", b"'shade'"), "not one that numpy writes", name="a.npy")


@check
def what_is_none_of_them():
    refused(b'{"a": 1}\n', "none of .pt", name="a.jsonl")
    assert inspect("missing.pt")[0].returncode == 2
    assert inspect(".")[0].returncode == 2


@check
def one_damaged_file_does_not_hide_the_others():
    for name, data in (("good.pt", made.saved([1])), ("bad.pt", b"PK\3\4")):
        with open(name, "wb") as file:
            file.write(data)
    run = subprocess.run([MUSTER, "merge", "--inspect", "bad.pt", "good.pt"], capture_output=True, check=False)
    assert run.returncode == 65 and b"good.pt: torch" in run.stdout and b"bad.pt" in run.stderr, run


def kept(folder):
    path = os.path.join(DATA, folder)
    if not os.path.isdir(path):
        raise Skip(f"{folder} is not here")
    return sorted(os.path.join(path, name) for name in os.listdir(path) if name.endswith(".pt"))


@check
def corpus_of_real_files():
    for path in kept("pt-corpus") + [p for p in kept("pt-real-newer") if "broken" not in p]:
        run, _ = inspect(path, "--json")
        assert run.returncode == 0, run.stderr.decode()
        json.loads(run.stdout)


@check
def corpus_of_hostile_files():
    paths = kept("pt-hostile")
    with open(os.path.join(DATA, "pt-hostile/manifest.json")) as file:
        manifest = json.load(file)
    for path in paths:
        wanted = manifest[os.path.basename(path)]["expect"]
        run, seconds = inspect(path)
        assert seconds < 5, (path, seconds)
        assert run.returncode in {"refuse": [65], "accept": [0], "policy": [0, 65]}[wanted], (path, run.returncode, run.stderr)
        assert run.returncode == 0 or os.path.basename(path) in run.stderr.decode()


sys.exit(run_checks())
