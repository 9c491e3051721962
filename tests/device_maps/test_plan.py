#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""muster plan, from config.json and the headers of a checkpoint, makes the maps that Accelerate made of the classes.

    test_plan.py MUSTER RECORDED [NAME]...

Prints TAP, one point a model. Maps that no option of muster plan asks for (flags) are left out, and models whose
class is not in muster's table: these are skips.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import checkpoint

METHODS = {"auto": "balanced", "balanced": "balanced", "balanced_low_0": "balanced_low_0", "sequential": "sequential"}
MODELS_LEAST = 40


def expected_of(words):
    """The keys and devices of a recorded map."""
    expected = {}
    for word in words:
        key, _, device = word.rpartition("=")
        device = int(device) if device.isdigit() else device
        span = re.fullmatch(r"(.*?)(\d+)\.\.(\d+)(.*)", key)
        if span:
            for number in range(int(span[2]), int(span[3]) + 1):
                expected[f"{span[1]}{number}{span[4]}"] = device
        else:
            expected[key] = device
    return expected


def options_of(limits):
    gpus = [limit for limit in limits.split(",") if "=" not in limit]
    named = dict(limit.split("=") for limit in limits.split(",") if "=" in limit)
    options = ["--devices", ",".join(gpus)] if gpus else []
    options += ["--cpu", named["cpu"]] if "cpu" in named else []
    return options + ["--disk"]


def planned(muster, folder, method, limits):
    done = subprocess.run([muster, "plan", folder, "--method", METHODS[method], *options_of(limits), "--json",
                           "--context", "1"], capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    if not lines:
        return None, done.stderr
    return json.loads(lines[-1]), done.stderr


def difference(expected, found):
    for key in [*expected, *found]:
        if expected.get(key) != found.get(key):
            return f"'{key}' is on {found.get(key)}, and on {expected.get(key)} in Accelerate's map"
    return ""


def model_test(muster, model):
    """(maps compared, what is wrong); None for a class that is not in the table."""
    n_maps = 0
    with tempfile.TemporaryDirectory(prefix="muster-plan-") as folder:
        checkpoint.write(folder, model)
        for line in model.maps:
            method, limits, *words = line.split(" ")
            flags = [word for word in words if "=" not in word]
            if flags or limits == "-":
                continue
            answer, stderr = planned(muster, folder, method, limits)
            if not answer:
                return n_maps, stderr
            if answer["is_guessed"]:
                return None, ""
            wrong = difference(expected_of(words), answer["device_map"])
            if wrong:
                return n_maps, f"{method} {limits}: {wrong}"
            n_maps += 1
    return n_maps, ""


def main():
    muster, recorded, *names = sys.argv[1:]
    paths = [path for path in sorted(pathlib.Path(recorded).glob("*.txt"))
             if path.stem != "drawn" and (not names or path.stem in names)]
    n_good = n_maps = 0
    for number, path in enumerate(paths, 1):
        for model in checkpoint.models(path):
            n, wrong = model_test(muster, model)
            if n is None:
                print(f"ok {number} {model.name} # SKIP {model.class_name} is not in the table")
            elif wrong:
                print(f"not ok {number} {model.name}\n# {wrong}")
            else:
                print(f"ok {number} {model.name}: {n} maps")
            n_good += n is not None and not wrong
            n_maps += n or 0
    is_enough = bool(names) or n_good >= MODELS_LEAST
    print(f"{'' if is_enough else 'not '}ok {len(paths) + 1} {n_maps} maps of {n_good} models are Accelerate's")
    print(f"1..{len(paths) + 1}")


if __name__ == "__main__":
    main()
