# SPDX-License-Identifier: Apache-2.0
"""Files as torch.save, numpy and safetensors write them, with nothing but Python's own modules."""
import collections, io, json, pickle, pickletools, struct, sys, types, zipfile


def module(name, **members):
    made = types.ModuleType(name)
    for key, member in members.items():
        member.__module__, member.__qualname__ = name, key
        setattr(made, key, member)
    sys.modules[name] = made
    return made


def _rebuild_tensor_v2(*args):
    raise AssertionError("nothing is to be built")


class FloatStorage: pass
class LongStorage: pass
class DoubleStorage: pass
class Strange: pass


module("torch", FloatStorage=FloatStorage, LongStorage=LongStorage, DoubleStorage=DoubleStorage)
module("torch._utils", _rebuild_tensor_v2=_rebuild_tensor_v2)
module("somewhere", Strange=Strange)
SIZES = {FloatStorage: 4, LongStorage: 8, DoubleStorage: 8}


def scalar(*args):
    raise AssertionError("nothing is to be built")


def _reconstruct(*args):
    raise AssertionError("nothing is to be built")


def _frombuffer(*args):
    raise AssertionError("nothing is to be built")


class ndarray: pass


class dtype:
    """numpy's, as it is pickled."""
    def __init__(self, name, order="<"):
        self.name, self.order = name, order

    def __reduce__(self):
        return dtype, (self.name, False, True), (3, self.order, None, None, None, -1, -1, 0)


module("numpy", dtype=dtype, ndarray=ndarray)
module("numpy.core")
module("numpy.core.multiarray", scalar=scalar, _reconstruct=_reconstruct)
module("numpy.core.numeric", _frombuffer=_frombuffer)


class Scalar:
    """A scalar of numpy."""
    def __init__(self, kind, data, order="<"):
        self.kind, self.data, self.order = kind, data, order

    def __reduce__(self):
        return scalar, (dtype(self.kind, self.order), self.data)


class Array:
    def __init__(self, kind, shape, data, fortran=False, order="<"):
        self.state = 1, shape, dtype(kind, order), fortran, data

    def __reduce__(self):
        return _reconstruct, (ndarray, (0,), b"b"), self.state


class Buffer:
    """An array as protocol 5 has it."""
    def __init__(self, kind, shape, data, order="C"):
        self.args = data, dtype(kind), shape, order

    def __reduce__(self):
        return _frombuffer, self.args


class Storage:
    def __init__(self, kind, data):
        self.kind, self.data = kind, data


class Tensor:
    def __init__(self, storage, shape, offset=0, stride=None):
        steps = [1]
        for size in reversed(shape[1:]):
            steps.insert(0, steps[0] * size)
        self.storage, self.shape, self.offset = storage, tuple(shape), offset
        self.stride = tuple(stride if stride is not None else steps[:len(shape)])

    def __reduce__(self):
        return _rebuild_tensor_v2, (self.storage, self.offset, self.shape, self.stride, False, collections.OrderedDict())


class Pickler(pickle.Pickler):
    def __init__(self, out, protocol):
        super().__init__(out, protocol=protocol)
        self.storages = []

    def persistent_id(self, obj):
        if not isinstance(obj, Storage):
            return None
        if obj not in self.storages:
            self.storages.append(obj)
        return "storage", obj.kind, str(self.storages.index(obj)), "cpu", len(obj.data) // SIZES[obj.kind]


class LegacyPickler(Pickler):
    """Of before torch 1.6, whose storages may be views of others."""
    def persistent_id(self, obj):
        said = super().persistent_id(obj)
        return said and (*said, None)


def pickled(obj, protocol=2):
    out = io.BytesIO()
    pickler = Pickler(out, protocol)
    pickler.dump(obj)
    return out.getvalue(), [storage.data for storage in pickler.storages]


def records(obj, protocol=2):
    data, storages = pickled(obj, protocol)
    return {"data.pkl": data, **{f"data/{i}": s for i, s in enumerate(storages)}, "version": b"3\n"}


def zipped(entries, folder="archive/", method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in entries.items():
            archive.writestr(folder + name, data)
    return out.getvalue()


def saved(obj, protocol=2):
    return zipped(records(obj, protocol))


def safetensors(tensors, metadata=None, pad=0):
    """{name: (dtype, shape, bytes)}"""
    header, at = {"__metadata__": metadata} if metadata else {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode() + b" " * pad
    return struct.pack("<Q", len(text)) + text + b"".join(t[2] for t in tensors.values())


def npy(descr, shape, data, fortran=False, version=1):
    text = repr({"descr": descr, "fortran_order": fortran, "shape": shape}).encode()
    head = 8 + (2 if version == 1 else 4)
    text += b" " * (-(head + len(text) + 1) % 64) + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text + data


class Rebuilt:
    """A tensor as it stands in a file: equal if kind, shape and elements are."""
    def __init__(self, storage, offset, shape, stride, requires_grad, hooks):
        self.storage, self.offset, self.shape, self.stride = storage, offset, tuple(shape), tuple(stride)
        self.requires_grad = requires_grad
        assert hooks == {}

    def elements(self):
        size, out = SIZES[self.storage.kind], []

        def walk(at, dims):
            if not dims:
                out.append(self.storage.data[at * size:(at + 1) * size])
                return
            for i in range(dims[0][0]):
                walk(at + i * dims[0][1], dims[1:])
        walk(self.offset, list(zip(self.shape, self.stride)))
        return b"".join(out)

    def __eq__(self, other):
        return isinstance(other, Rebuilt) and (self.storage.kind, self.shape, self.elements()) == \
            (other.storage.kind, other.shape, other.elements())

    def __repr__(self):
        return f"<{self.storage.kind.__name__} {self.shape}>"


class Unpickler(pickle.Unpickler):
    allowed = {("collections", "OrderedDict"), ("collections", "Counter"), ("torch", "FloatStorage"), ("torch", "LongStorage"), ("torch", "DoubleStorage"),
               ("_codecs", "encode"), ("__builtin__", "bytes"), ("__builtin__", "set"), ("builtins", "set"), ("__builtin__", "bytearray"),
               ("__builtin__", "frozenset"), ("builtins", "frozenset"), ("builtins", "bytearray"), ("somewhere", "Strange")}

    def __init__(self, file, record):
        super().__init__(file)
        self.record, self.storages = record, {}

    def find_class(self, module, name):
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return Rebuilt
        assert (module, name) in self.allowed, (module, name)
        return super().find_class(module, name)

    def persistent_load(self, pid):
        word, kind, key, location, count = pid
        assert word == "storage" and location == "cpu", pid
        if key not in self.storages:
            data = self.record("data/" + key)
            assert len(data) == count * SIZES[kind], (key, len(data), count)
            self.storages[key] = Storage(kind, data)
        return self.storages[key]


# What torch.load takes under weights_only=True, of what protocol 2 has.
OPCODES = set("PROTO MARK STOP NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT BINUNICODE EMPTY_LIST EMPTY_DICT "
              "EMPTY_TUPLE TUPLE1 TUPLE2 TUPLE3 TUPLE APPEND APPENDS SETITEM SETITEMS GLOBAL REDUCE NEWOBJ BUILD BINPERSID "
              "BINPUT LONG_BINPUT BINGET LONG_BINGET".split())


def loaded(path):
    """The object in a file, after everything about the file itself was looked at."""
    stem = path.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert names[0] == stem + "/data.pkl" and stem + "/version" in names and len(set(names)) == len(names), names
        for info in archive.infolist():
            with open(path, "rb") as file:
                file.seek(info.header_offset)
                head = file.read(30)
            assert info.compress_type == zipfile.ZIP_STORED
            assert (info.header_offset + 30 + sum(struct.unpack("<HH", head[26:]))) % 64 == 0, info
            assert struct.unpack("<I", head[14:18])[0] == info.CRC, info
        data = archive.read(stem + "/data.pkl")
        codes = {op.name for op, _, _ in pickletools.genops(data)}
        assert codes <= OPCODES, codes - OPCODES
        unpickler = Unpickler(io.BytesIO(data), lambda name: archive.read(f"{stem}/{name}"))
        obj = unpickler.load()
        n_records = sum(name.startswith(stem + "/data/") for name in names)
        assert n_records == len(unpickler.storages), (n_records, len(unpickler.storages))
    return obj
