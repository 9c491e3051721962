# SPDX-License-Identifier: Apache-2.0
"""The Python twin of tests/unit/lib/echo_worker.c: the same modes, the same words."""

import sys
import time

import muster

BANNER = "a banner that nobody may take for a result"


def describe(item):
    is_bytes = isinstance(item.data, bytes)
    muster_result = {
        "index": item.index,
        "seed": f"{item.seed:016x}",
        "attempt": item.attempt,
        "bytes": is_bytes,
    }
    size = len(item.data) if is_bytes else len(str(item.data))
    item.done({**muster_result, "len": size}, metrics={"seen": 1, "len": size})


MODES = {
    "echo": lambda item: item.done(item.data),
    "describe": describe,
    "fail": lambda item: item.fail('not today: "é"\n', retry=item.index % 2 == 1),
    "once": lambda item: None,
    "badjson": lambda item: item.done({"a": float("nan")}),
}


def run_batches(size, has_oom):
    for batch in muster.batches(size):
        if has_oom and len(batch) > 1:
            muster.oom(len(batch) // 2)
        for i, item in enumerate(batch):
            if item.data == "hang":
                time.sleep(60)
            item.done([i, len(batch), item.data])


def run_threads(n):
    """serve is Python's way to hold several; here the items are finished by other threads."""

    async def handle(item):
        import asyncio

        await asyncio.get_running_loop().run_in_executor(None, lambda: item.done(item.index))

    muster.serve(handle, concurrency=n)


def main():
    mode = sys.argv[1] if len(sys.argv) > 1 else "echo"
    size = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    print(BANNER, flush=True)
    muster.loaded()
    if mode == "threads":
        run_threads(size)
    elif mode in ("batch", "oom"):
        run_batches(size, mode == "oom")
    else:
        for item in muster.items():
            MODES[mode](item)


if __name__ == "__main__":
    main()
