#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`muster merge --reflink`: the output is right on any file system, and on those that can share blocks (an image
of XFS and of Btrfs, mounted where this may be done) it takes next to no disk.

    test_reflink.py MUSTER
"""
import contextlib, os, random, shutil, struct, subprocess, sys, tempfile, time
import torch_like as made

MUSTER = os.path.abspath(sys.argv[1])
IMAGE_BYTES, TENSOR_BYTES, N_TENSORS = 400 << 20, 1 << 20, 8
MAKERS = {"xfs": ["mkfs.xfs", "-q", "-m", "reflink=1"], "btrfs": ["mkfs.btrfs", "-q"]}


def storage(rng, n_bytes):
    return made.Storage(made.FloatStorage, rng.randbytes(n_bytes))


def part(rng):
    large = [made.Tensor(storage(rng, TENSOR_BYTES + 4 * i), (TENSOR_BYTES // 4 + i,)) for i in range(N_TENSORS)]
    view = made.Tensor(storage(rng, 400_000), (50_000,), 100)
    return {"large": large, "small": [made.Tensor(storage(rng, 1000), (250,))], "rows": made.Tensor(storage(rng, 512 * 1024), (512, 256)),
            "view": view}


def aligned(obj):
    """As torch writes it: data at multiples of 64."""
    out, directory, entries = b"", b"", made.records(obj)
    for name, data in entries.items():
        name = ("a/" + name).encode()
        padding = -(len(out) + 30 + len(name) + 4) % 64
        fields = struct.pack("<HHHHHIIIHH", 10, 0x0800, 0, 0, 0x21, made.zipfile.crc32(data), len(data), len(data), len(name), padding + 4)
        directory += struct.pack("<IH", 0x02014b50, 0x031e) + fields[:-2] + struct.pack("<HHHHII", 0, 0, 0, 0, 0, len(out)) + name
        out += struct.pack("<I", 0x04034b50) + fields + name + struct.pack("<HH", 0x4246, padding) + b"Z" * padding + data
    return out + directory + struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, len(entries), len(entries), len(directory), len(out), 0)


def contents(whole):
    return {"large": [t.storage.data for t in whole["large"]], "rows": whole["rows"].storage.data, "view": whole["view"].storage.data}


def used_bytes(folder):
    subprocess.run(["sync", "-f", folder], check=True, timeout=60)
    at = os.statvfs(folder)
    return (at.f_blocks - at.f_bfree) * at.f_frsize


def merge(folder, can_share):
    rng = random.Random(5)
    parts, names = [part(rng) for _ in range(2)], []
    for i, obj in enumerate(parts):
        names.append(os.path.join(folder, f"part_{i}.pt"))
        with open(names[-1], "wb") as file:
            file.write(aligned(obj))
    before, out = used_bytes(folder), os.path.join(folder, "out.pt")
    ended = subprocess.run([MUSTER, "merge", "--reflink", *names, "-o", out], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended
    time.sleep(0.5)
    grown = used_bytes(folder) - before
    whole = contents(made.loaded(out))
    assert whole["large"] == [t.storage.data for obj in parts for t in obj["large"]]
    assert whole["rows"] == b"".join(obj["rows"].storage.data for obj in parts)
    assert whole["view"] == b"".join(obj["view"].storage.data[400:200_400] for obj in parts)
    assert ("are shared" if can_share else "were copied") in ended.stderr, ended
    assert not can_share or grown < os.path.getsize(out) / 2, (grown, os.path.getsize(out))
    with open(names[0], "r+b") as file:
        file.seek(TENSOR_BYTES)
        file.write(bytes(TENSOR_BYTES))
    assert contents(made.loaded(out)) == whole


@contextlib.contextmanager
def mounted(kind, folder):
    """The folder of a new file system; None where this machine makes or mounts none."""
    image, at = os.path.join(folder, kind + ".img"), os.path.join(folder, kind)
    os.mkdir(at)
    with open(image, "wb") as file:
        file.truncate(IMAGE_BYTES)
    maker = [shutil.which(MAKERS[kind][0], path=os.environ.get("PATH", "") + ":/sbin:/usr/sbin"), *MAKERS[kind][1:], image]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    can = os.geteuid() == 0 and maker[0] and subprocess.run(maker, **quiet).returncode == 0 and \
        subprocess.run(["mount", "-o", "loop", image, at], **quiet).returncode == 0
    try:
        yield at if can else None
    finally:
        if can:
            subprocess.run(["umount", at], check=True)


def main():
    failed = 0
    print("1..3")
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        cases = [(1, "where blocks cannot be shared", None), (2, "xfs", "xfs"), (3, "btrfs", "btrfs")]
        for number, name, kind in cases:
            try:
                with mounted(kind, folder) if kind else contextlib.nullcontext(folder) as at:
                    if at:
                        merge(at, kind is not None)
                    print(f"ok {number} - {name}" + ("" if at else " # SKIP it takes root, mkfs and a loop device"), flush=True)
            except Exception as error:
                failed += 1
                text = repr(error)[:1500].replace("\n", "\n# ")
                print(f"not ok {number} - {name}\n# {text}", flush=True)
    return failed > 0


sys.exit(main())
