# SPDX-License-Identifier: Apache-2.0
"""What a rank was given, as a file of the folder PROBE_OUT."""
import json
import os
import stat
import sys
import time

KINDS = {stat.S_IFIFO: "pipe", stat.S_IFREG: "file", stat.S_IFCHR: "device", stat.S_IFSOCK: "socket"}


def stream_kind(fd):
    return KINDS[stat.S_IFMT(os.fstat(fd).st_mode)]


def report():
    seen = {
        "environment": dict(os.environ),
        "arguments": sys.argv,
        "folder": os.getcwd(),
        "streams": {name: stream_kind(fd) for fd, name in enumerate(("stdin", "stdout", "stderr"))},
        "is_unbuffered": sys.stdout.write_through,
    }
    generation = os.environ["TORCHELASTIC_RESTART_COUNT"]
    path = os.path.join(os.environ["PROBE_OUT"], f"{generation}.{os.environ['RANK']}")
    with open(path + ".part", "x") as out:
        json.dump(seen, out)
    os.link(path + ".part", path + ".json")
    return generation


def all_are_there(generation):
    names = (f"{generation}.{rank}.json" for rank in range(int(os.environ["WORLD_SIZE"])))
    return all(os.path.exists(os.path.join(os.environ["PROBE_OUT"], name)) for name in names)


def main():
    generation = report()
    if int(generation) >= int(os.environ["PROBE_FAILURES"]):
        return 0
    # A failure before the others have reported would end them; they wait for their end.
    while os.environ["RANK"] != "0" or not all_are_there(generation):
        time.sleep(0.01)
    return 3


if __name__ == "__main__":
    sys.exit(main())
