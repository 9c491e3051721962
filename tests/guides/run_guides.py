#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs what the guides say, block by block, in an empty folder for each guide.

    tests/guides/run_guides.py MUSTER GUIDE.md ...

A block ```LANGUAGE NAME is written to the file NAME. A block ```sh is run by one shell that lives as
long as the guide; the first command that fails ends it. Other blocks (```console) are only shown.
A guide whose first line is <!-- needs: MODULE --> is skipped where python3 has no such module.
Prints TAP, one point a guide.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

LIMIT_S = 120


def blocks(text):
    """(line number, info words, body) of each fenced block."""
    info, body, begin = None, [], 0
    for number, line in enumerate(text.splitlines(), 1):
        fence = re.match(r"```(.*)$", line)
        if fence and info is None:
            info, body, begin = fence.group(1).split(), [], number
        elif fence:
            yield begin, info, "\n".join(body) + "\n"
            info = None
        elif info is not None:
            body.append(line)


def script_of(guide, folder):
    parts = ["set -eu\n"]
    for number, info, body in blocks(guide.read_text(encoding="utf-8")):
        if info[:1] == ["sh"]:
            parts.append(f"trap 'echo {guide.name}:{number}: this block failed, status $?' EXIT\n{body}")
        elif len(info) == 2:
            path = folder / info[1]
            path.parent.mkdir(exist_ok=True)
            path.write_text(body, encoding="utf-8")
    return "".join(parts) + "trap - EXIT\n"


def environment(muster):
    env = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
    stand_ins = pathlib.Path(__file__).resolve().parent / "bin"
    env["PATH"] = f"{muster.parent}:{muster.parent}/examples:{stand_ins}:/usr/bin:/bin:{env.get('PATH', '')}"
    env["MUSTER_PYTHON"] = str(pathlib.Path(__file__).resolve().parents[2] / "python")
    env["EXAMPLES"] = str(pathlib.Path(__file__).resolve().parents[2] / "examples")
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    env["CUDA_VISIBLE_DEVICES"] = env["ROCR_VISIBLE_DEVICES"] = ""
    return env


def run(muster, guide):
    with tempfile.TemporaryDirectory(prefix="muster-guide-") as name:
        script = script_of(guide, pathlib.Path(name))
        done = subprocess.run(["sh", "-c", script], cwd=name, env=environment(muster), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S)
    return done.returncode, done.stdout


def lacking(muster, guide):
    """The module that the guide needs and that is not there; else None."""
    needs = re.match(r"<!-- needs: (\w+) -->\n", guide.read_text(encoding="utf-8"))
    if not needs:
        return None
    found = subprocess.run(["python3", "-c", f"import {needs[1]}"], env=environment(muster), capture_output=True)
    return needs[1] if found.returncode else None


def main():
    muster = pathlib.Path(sys.argv[1]).resolve()
    guides = [pathlib.Path(path) for path in sys.argv[2:]]
    failed = 0
    print(f"1..{len(guides)}")
    for number, guide in enumerate(guides, 1):
        missing = lacking(muster, guide)
        if missing:
            print(f"ok {number} - {guide.name} does what it says # SKIP python3 has no {missing}", flush=True)
            continue
        status, output = run(muster, guide)
        failed += status != 0
        print(f"{'ok' if status == 0 else 'not ok'} {number} - {guide.name} does what it says", flush=True)
        if status:
            print("".join(f"# {line}\n" for line in output.splitlines()[-40:]), end="")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
