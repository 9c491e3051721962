# SPDX-License-Identifier: Apache-2.0
"""Mounts a file system that never answers: who opens a file in it is blocked in the kernel (state D) once it gets a signal,
and not even SIGKILL ends it, until this program does. Needs root and /dev/fuse.

    deaf_fs.py FOLDER      prints "mounted"
"""
import ctypes
import os
import struct
import sys

INIT = 26

libc = ctypes.CDLL(None, use_errno=True)
fuse = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={fuse},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
if libc.mount(b"deaf", sys.argv[1].encode(), b"fuse", 0, options.encode()) != 0:
    sys.exit(f"mount: {os.strerror(ctypes.get_errno())}")
print("mounted", flush=True)
while True:
    request = os.read(fuse, 1 << 20)
    _, opcode, unique = struct.unpack_from("<IIQ", request)
    if opcode == INIT:
        minor = struct.unpack_from("<I", request, 44)[0]
        body = struct.pack("<IIIIHHI", 7, minor, 0, 0, 1, 1, 4096) + bytes(40)
        os.write(fuse, struct.pack("<IiQ", 16 + len(body), 0, unique) + body)
