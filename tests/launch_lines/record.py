#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Records what torchrun, or accelerate, gives to the ranks of every line of lines.json, into recorded.json. accelerate is that of
torchrun's Python.

    record.py [--torchrun PROGRAM] [NAME]...    all lines, or those of these names (default: the torchrun in PATH)
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import launcher

TABLE = os.path.join(launcher.HERE, "recorded.json")


def table_read():
    with open(TABLE, encoding="utf-8") as file:
        table = json.load(file)
    for found in table["lines"].values():
        common = found["ranks"].pop("all", {})
        for name, own in found["ranks"].items():
            environment = {**common["environment"], **own["environment"]}
            found["ranks"][name] = {**common, **own, "environment": environment}
    return table


def version_of(torchrun):
    code = "import torch; print(torch.__version__.split('+')[0])"
    return subprocess.run([torchrun.python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def accelerate_version(torchrun):
    code = "import importlib.metadata as m; print(m.version('accelerate'))"
    return subprocess.run([torchrun.python, "-c", code], capture_output=True, text=True).stdout.strip()


def row(name, value, end):
    return f"    {json.dumps(name)}: {json.dumps(value, sort_keys=True)}{end}\n"


def rows(found):
    """What all ranks have, and what is a rank's own: a row each, so that a difference is read easily."""
    ranks = found["ranks"]
    common = table_common(list(ranks.values()))
    parts = {"all": common, **{name: table_own(seen, common) for name, seen in ranks.items()}} if ranks else {}
    return "".join(row(name, part, "," if i < len(parts) - 1 else "") for i, (name, part) in enumerate(parts.items()))


def table_common(ranks):
    """The pairs that all have; of the environment, those of its own."""
    if not ranks:
        return {}
    common = {key: value for key, value in ranks[0].items() if all(rank[key] == value for rank in ranks)}
    common["environment"] = dict(set.intersection(*(set(rank["environment"].items()) for rank in ranks)))
    return common


def table_own(rank, common):
    own = {key: value for key, value in rank.items() if key not in common}
    own["environment"] = dict(rank["environment"].items() - common["environment"].items())
    return own


def table_write(table):
    with open(TABLE, "w", encoding="utf-8") as file:
        versions = {name: table[name] for name in ("torch", "accelerate")}
        file.write(json.dumps(versions)[:-1] + ', "lines": {\n')
        texts = []
        for name, found in table["lines"].items():
            head = f'  {json.dumps(name)}: {{"status": {found["status"]}, "ranks": {{'
            body = "\n" + rows(found) + "  " if found["ranks"] else ""
            texts.append(head + body + "}}")
        file.write(",\n".join(texts) + "\n}}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torchrun", default=shutil.which("torchrun"))
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if not options.torchrun:
        sys.exit("there is no torchrun in PATH; --torchrun names one")
    torchrun = launcher.Torchrun(options.torchrun)
    lines = [line for line in launcher.lines_read() if not options.names or line["name"] in options.names]
    if not accelerate_version(torchrun) and any("accelerate" in line["line"] for line in lines):
        sys.exit("torchrun's Python has no accelerate, which some of the lines need")
    table = table_read() if options.names else {"lines": {}}
    table["torch"] = version_of(torchrun)
    table["accelerate"] = accelerate_version(torchrun) or table["accelerate"]
    with ThreadPoolExecutor(torchrun.n_at_once) as pool:
        for line, found in zip(lines, pool.map(lambda line: launcher.line_run(torchrun, line), lines)):
            said = found.pop("said")
            print(f"{line['name']}: status {found['status']}, {len(found['ranks'])} ranks", flush=True)
            if (found["status"] != 0) != line.get("is_refused", False):
                print(said)
            table["lines"][line["name"]] = found
            table_write(table)


if __name__ == "__main__":
    main()
