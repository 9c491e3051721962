# SPDX-License-Identifier: Apache-2.0
"""Functions that check something, run one after the other and reported as TAP."""
import os, tempfile, traceback

checks = []


class Skip(Exception):
    """What it needs is not here."""


def check(function):
    checks.append(function)
    return function


def outcome(function):
    """None, or what is wrong; each has a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            function()
        except Skip:
            raise
        except ImportError as missing:
            raise Skip(f"{missing.name} is not here") from missing
        except Exception as error:
            frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
            return f"line {frames[0].lineno}: {error!r}"[:2000].replace("\n", "\n# ")
        finally:
            os.chdir("/")
    return None


def run_checks():
    """The exit status."""
    failed = 0
    print(f"1..{len(checks)}")
    for i, function in enumerate(checks, 1):
        name = function.__name__.replace("_", " ")
        try:
            wrong = outcome(function)
        except Skip as reason:
            print(f"ok {i} - {name} # SKIP {reason}", flush=True)
            continue
        failed += wrong is not None
        print(f"not ok {i} - {name}\n# {wrong}" if wrong else f"ok {i} - {name}", flush=True)
    return failed > 0
