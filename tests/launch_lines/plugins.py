#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
What of FSDP, DeepSpeed, Megatron-LM and fp8 a rank is told, by a file of `accelerate config` or by options: the same
variables as by accelerate launch. plugins.json has the cases, and what accelerate gave. TAP.

    plugins.py MUSTER          compares
    plugins.py --record        runs the accelerate of this Python, and writes the table anew; needs torch, but no GPU
"""
import json
import os
import subprocess
import sys
import tempfile

import launcher

TABLE = os.path.join(launcher.HERE, "plugins.json")
PREFIXES = ("ACCELERATE_", "FSDP_", "MEGATRON_LM_", "PYTHONPATH")
PROBE = "import json, os; print(json.dumps(dict(os.environ)), flush=True)"
# What torchrun gets is what it hands on. DeepSpeed and libraries for fp8 are not needed for that.
ACCELERATE = f"""
import sys, types
sys.path[:] = {sys.path}
import torch.distributed.run
def run(args):
    {PROBE}
torch.distributed.run.run = run
{launcher.ACCELERATE.replace("launch.main()", "")}
for name in ("deepspeed", "deepspeed.launcher", "deepspeed.launcher.runner"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["deepspeed.launcher.runner"].DEEPSPEED_ENVIRONMENT_NAME = "none"
launch.is_deepspeed_available = launch.is_bf16_available = lambda *_: True
sys.modules["accelerate.utils.launch"].is_fp8_available = lambda: True
launch.main()
"""


def environment_of(command, case):
    """The variables of rank 0 that are accelerate's; the text of a failure."""
    with tempfile.TemporaryDirectory(prefix="plugins-") as folder:
        words = case.get("words", "").split()
        if "config" in case:
            words += ["--config_file", "config.yaml"]
            with open(os.path.join(folder, "config.yaml"), "w", encoding="utf-8") as file:
                file.write(case["config"])
        with open(os.path.join(folder, "probe.py"), "w", encoding="utf-8") as file:
            file.write(PROBE)
        own = {name: value for name, value in os.environ.items() if not name.startswith((*PREFIXES, "PET_"))}
        given = {"PYTHON_EXEC": sys.executable, "MUSTER_NVML": "/nonexistent", "MUSTER_SYSFS": "/nonexistent"}
        ended = subprocess.run(
            command + words + ["probe.py"],
            cwd=folder,
            env={**own, **given, "HOME": folder, "PYTHONPATH": "/given"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=launcher.LIMIT_S,
        )
        for line in ended.stdout.splitlines():
            seen = json.loads(line) if line.startswith("{") else {}
            if seen.get("RANK", "0") == "0" and seen:
                return {
                    name: value.replace(os.path.realpath(folder), "{folder}")
                    for name, value in sorted(seen.items())
                    if name.startswith(PREFIXES)
                }
        return {"failed": f"status {ended.returncode}: {ended.stderr}"}


def record(cases):
    with open(TABLE, "w", encoding="utf-8") as file:
        for case in cases:
            case["environment"] = environment_of([sys.executable, "-c", ACCELERATE], case)
        file.write("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


def differences(case, ours):
    theirs = case["environment"]
    return [
        f"{name} is {ours.get(name)!r}, with accelerate {theirs.get(name)!r}"
        for name in sorted({*theirs, *ours})
        if ours.get(name) != theirs.get(name)
    ]


def compare(muster, cases):
    has_failed = False
    print(f"TAP version 13\n1..{len(cases)}")
    for n, case in enumerate(cases, 1):
        found = differences(case, environment_of([os.path.abspath(muster), "launch"], case))
        has_failed |= bool(found)
        print(f"{'not ok' if found else 'ok'} {n} - {case['name']}")
        for text in found:
            print("# " + text.replace("\n", "\n# "))
    return 1 if has_failed else 0


def main():
    with open(TABLE, encoding="utf-8") as file:
        cases = json.load(file)
    if sys.argv[1] == "--record":
        return record(cases)
    return compare(sys.argv[1], cases)


if __name__ == "__main__":
    sys.exit(main())
