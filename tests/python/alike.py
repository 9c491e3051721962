#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Do two files say the same, numbers but for rounding?

    alike.py A B [RELATIVE]: text byte for byte but for numbers, arrays of numpy by their numbers; NaN is where NaN is

Influences near zero are compared with a millionth of the largest.
"""
import array
import pathlib
import re
import struct
import sys

NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def parts(path):
    """What must be equal, and the numbers."""
    raw = path.read_bytes()
    if path.suffix != ".npy":
        return NUMBER.split(raw), [float(number) for number in NUMBER.findall(raw)]
    end = 10 + struct.unpack("<H", raw[8:10])[0]
    return raw[:end], array.array("d", raw[end:]).tolist()


def main():
    (words, numbers), (other_words, others) = (parts(pathlib.Path(path)) for path in sys.argv[1:3])
    relative = float(sys.argv[3]) if len(sys.argv) > 3 else 1e-5
    assert words == other_words, f"{sys.argv[1]} and {sys.argv[2]} differ beside their numbers"
    assert len(numbers) == len(others) > 0, (len(numbers), len(others))
    small = 1e-6 * max(abs(x) for x in numbers if x == x)
    for i, (a, b) in enumerate(zip(numbers, others)):
        assert (a != a and b != b) or abs(a - b) <= max(relative * abs(a), small), f"number {i}: {a} and {b}"


if __name__ == "__main__":
    main()
