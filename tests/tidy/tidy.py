#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the compiler does not check: who includes whom, what the pure part imports, sizes, banned words.

    tests/tidy/tidy.py CHECK SOURCE_ROOT [BUILD_ROOT]

CHECK is the name of one of the functions marked below. A finding is a line `file:line: what is wrong`;
the status is 1 when there was one.
"""
import json
import pathlib
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

# Bodies that are compiled once for each instruction set or type, by a file that defines what they lack.
TEMPLATES = {"src/data/boundaries/rows_kernel.h", "src/data/boundaries/scan_kernel.h",
             "engine/num/conv_kernel.h", "engine/num/element_kernel.h", "engine/num/fast_kernel.h", "engine/num/vec.h",
             "engine/num/ref_kernels.h", "engine/num/grid/kernels.h", "engine/num/grid/kernels_conv.h",
             "engine/num/grid/kernels_half.h", "engine/num/grid/kernels_norm.h", "engine/num/grid/launch.h", "lib/dist/reduce_kernel.h"}
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 700
COLUMNS_MAX = 100
STRUCT_MEMBERS_MAX = 30

# Who may include whom, beside itself. ARCHITECTURE.md draws these arrows; one that nothing uses is a finding.
ROOMS = {
    "base": set(),
    "opt": {"base"},
    "core": {"base"},
    "sim": {"core", "base"},
    "device": {"base"},
    "rule": {"base"},
    "data": {"rule", "base"},
    "tensor": {"rule", "base"},
    "proc": {"base"},
    "store": {"base"},
    "slurm": {"base"},
    "node": {"device", "proc", "slurm", "base"},
    "rendezvous": {"node", "base"},
    "shell": {"node", "store", "ui", "core", "device", "proc", "slurm", "base"},
    "ui": {"base"},
    "agent": {"shell", "slurm", "node", "proc", "base"},
    "map": {"core", "shell", "node", "device", "data", "rule", "proc", "store", "ui", "base"},
    "shard": {"map", "shell", "node", "data", "tensor", "rule", "store", "base"},
    "launch": {"core", "shell", "rendezvous", "node", "device", "proc", "slurm", "base"},
    "graph": {"core", "sim", "shell", "node", "proc", "store", "ui", "base"},
    "model": {"core", "tensor", "base"},
    "plan": {"model", "core", "base"},
    "trial": {"core", "shell", "node", "base"},
    "fit": {"trial", "core", "map", "node", "device", "proc", "base"},
    "bench": {"trial", "core", "map", "node", "base"},
    "submit": {"slurm", "proc", "store", "base"},
    "doctor": {"device", "proc", "base"},
    "mesh": {"doctor", "launch", "rendezvous", "base"},
    "cli": {"opt", "agent", "map", "shard", "model", "plan", "fit", "bench", "submit", "slurm", "launch", "graph", "rendezvous", "shell", "node", "ui", "sim", "doctor", "mesh", "core", "device", "data", "tensor", "rule", "store", "base"},
}
# The same of the engine's rooms.
ENGINE_ROOMS = {
    "graph": {"base"},
    "num": {"base"},
    "conve": {"num", "graph", "tensor", "base"},
    "tracin": {"conve", "num", "graph", "base"},
    "train": {"muster", "conve", "num", "graph", "tensor", "base"},
    "cli": {"muster", "tracin", "train", "conve", "num", "graph", "opt", "data", "map", "shell", "device", "proc", "store", "base"},
}
# Headers of base that bring no system call, clock or file with them.
PURE_ROOMS = {"core", "sim"}
PURE_HEADERS = {"base/attr.h", "base/buf.h", "base/rng.h", "base/share.h"}
PURE_SYSTEM_HEADERS = {"math.h", "signal.h", "stdbool.h", "stddef.h", "stdint.h", "stdlib.h", "string.h"}

# What core's objects may import: memory at the start, bytes, the words of a broken invariant, and what the compiler
# calls for numbers of 128 bits.
PURE_IMPORTS = {
    "calloc", "malloc", "realloc", "free", "abort", "memcpy", "memmove", "memset", "memcmp", "memmem", "memchr", "strlen",
    "snprintf", "fprintf", "fputc", "fwrite", "fputs", "stderr", "strcmp", "bcmp", "sqrt",
    "_GLOBAL_OFFSET_TABLE_", "__udivti3", "__umodti3", "__udivmodti4", "__floatuntidf",
}
PURE_IMPORT_PREFIXES = ("__asan_", "__ubsan_", "__stack_chk_", "__gcov_", "__llvm_", "__sanitizer_")
PURE_BASE_OBJECTS = ("share.c",)
# The simulator may grow, sort and draw from distributions.
SIM_IMPORTS = {"realloc", "qsort", "log", "exp", "cos", "pow"}

BANNED = ("strcpy strcat strncpy strncat sprintf vsprintf strtok gets atoi atol atof system tmpnam mktemp gmtime "
          "localtime ctime asctime rand srand alloca").split()


def c_files(root, *folders):
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".c", ".h"):
                yield path


def code_lines(path):
    """(number, line) with comments and the insides of string literals blanked."""
    text = path.read_text(encoding="utf-8")
    blank = re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'',
                   lambda m: '""' if m.group(0)[0] == '"' else re.sub(r"[^\n]", " ", m.group(0)), text, flags=re.S)
    return list(enumerate(blank.splitlines(), 1))


def raw_lines(path):
    return list(enumerate(path.read_text(encoding="utf-8").splitlines(), 1))


def includes(root, build):
    """Includes point from the command line down to base, and core and sim see only what is pure."""
    used = {"src": {}, "engine": {}}
    for path in c_files(root, "src", "engine"):
        folder, room = path.relative_to(root).parts[:2]
        allowed = (ENGINE_ROOMS if folder == "engine" else ROOMS).get(room)
        if allowed is None:
            if not room.endswith(".c"):
                yield f"{path.relative_to(root)}: {folder}/{room} is no room of the table"
            continue
        for number, line in raw_lines(path):
            match = re.match(r'\s*#\s*include\s+(["<])([^">]+)[">]', line)
            if not match:
                continue
            where, name = f"{path.relative_to(root)}:{number}", match.group(2)
            if match.group(1) == "<":
                if room in PURE_ROOMS and name not in PURE_SYSTEM_HEADERS:
                    yield f"{where}: {room} includes <{name}>, which is not pure"
                continue
            target = name.split("/")[0] if "/" in name else None
            used[folder].setdefault(room, set()).add(target)
            if target and target != room and (target not in allowed or name.endswith("_impl.h")):
                yield f"{where}: {room} must not include {name}"
            if room in PURE_ROOMS and target == "base" and name not in PURE_HEADERS:
                yield f"{where}: {room} includes {name}, which is not pure"
    for folder, rooms in (("src", ROOMS), ("engine", ENGINE_ROOMS)):
        for room, allowed in rooms.items():
            for target in sorted(allowed - used[folder].get(room, set())):
                yield f"tests/tidy/tidy.py: {folder}/{room} may include {target}, which nothing there does"
    for path in c_files(root, "lib", "include"):
        for number, line in raw_lines(path):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if match and "/" in match.group(1) and not match.group(1).startswith("muster/"):
                yield f"{path.relative_to(root)}:{number}: the library includes {match.group(1)}"


def conditionals(root, build):
    """There is no conditional compilation in core and sim."""
    for path in c_files(root, "src/core", "src/sim"):
        for number, line in code_lines(path):
            if re.match(r"\s*#\s*(if|ifdef|ifndef|elif)\b", line):
                yield f"{path.relative_to(root)}:{number}: {line.strip()}"


def symbols(archive, wanted):
    out = subprocess.run(["nm", "-P", str(archive)], check=True, capture_output=True, text=True).stdout
    member = ""
    for line in out.splitlines():
        words = line.split()
        if line.endswith(":"):
            member = line
        elif len(words) >= 2 and wanted(words[1]):
            yield member, words[0]


def imports(root, build):
    """The objects of core and sim import no system call."""
    core, base = build / "src/core/libcore.a", build / "src/base/libbase.a"
    sim = build / "src/sim/libsim.a"
    own = {name for archive in (core, sim) for _, name in symbols(archive, lambda kind: kind not in "Uw")}
    pure_base = {name for member, name in symbols(base, lambda kind: kind not in "Uw")
                 if any(piece in member for piece in PURE_BASE_OBJECTS)}
    checked = list(symbols(core, lambda kind: kind in "Uw"))
    checked += [(member, name) for member, name in symbols(base, lambda kind: kind in "Uw")
                if any(piece in member for piece in PURE_BASE_OBJECTS)]
    checked += [(member, name) for member, name in symbols(sim, lambda kind: kind in "Uw")
                if name not in SIM_IMPORTS]
    for member, name in checked:
        plain = re.sub(r"^__(\w+)_chk$", r"\1", name)
        if name in own or name in pure_base or plain in PURE_IMPORTS or name.startswith(PURE_IMPORT_PREFIXES):
            continue
        yield f"{member} imports {name}"


def headers(root, build):
    """Each header compiles alone."""
    commands = json.loads((build / "compile_commands.json").read_text())
    words = shlex.split(commands[0]["command"])
    compiler = words[0] if not words[0].endswith("ccache") else words[1]
    flags = set()
    for command in commands:
        flags |= {word for word in shlex.split(command["command"]) if word.startswith(("-I", "-std=", "-D_GNU"))}

    def compile_alone(path):
        run = subprocess.run([compiler, *sorted(flags), "-fsyntax-only", "-x", "c", str(path)], cwd=build,
                             capture_output=True, text=True)
        first = next((line for line in run.stderr.splitlines() if "error" in line), "")
        return f"{path.relative_to(root)}: does not compile alone: {first}" if run.returncode else None

    # A header that is the first to be included by a source file has compiled alone already.
    first = [next((line for _, line in raw_lines(path) if line.startswith("#include")), "")
             for path in c_files(root, "src", "engine", "lib") if path.suffix == ".c"]
    shown = {match.group(1) for match in map(re.compile(r'#include "(.*)"').match, first) if match}
    paths = [path for path in c_files(root, "src", "engine", "lib", "include")
             if path.suffix == ".h" and str(path.relative_to(root)) not in TEMPLATES
             and str(pathlib.Path(*path.relative_to(root).parts[1:])) not in shown]
    with ThreadPoolExecutor(4) as pool:
        yield from filter(None, pool.map(compile_alone, paths))


def banned(root, build):
    """No function that cannot be used safely."""
    word = re.compile(r"(?<![\w.>])(" + "|".join(BANNED) + r")\s*\(")
    for path in c_files(root, "src", "engine", "lib", "include", "examples"):
        for number, line in code_lines(path):
            match = word.search(line)
            if match:
                yield f"{path.relative_to(root)}:{number}: {match.group(1)}() is banned"


def sizes(root, build):
    """No function above 70 lines, no file above 700."""
    for path in c_files(root, "src", "engine", "lib", "include", "tests", "bench", "examples"):
        lines = raw_lines(path)
        if len(lines) > FILE_LINES_MAX:
            yield f"{path.relative_to(root)}: {len(lines)} lines, at most {FILE_LINES_MAX}"
        begin = None
        for number, line in lines:
            if line == "{":
                begin = number
            elif line == "}" and begin is not None:
                if number - begin - 1 > FUNCTION_LINES_MAX:
                    yield (f"{path.relative_to(root)}:{begin}: a function of {number - begin - 1} lines, "
                           f"at most {FUNCTION_LINES_MAX}")
                begin = None


def members(body):
    """How many members a struct's body declares; an unnamed struct or union among them is one."""
    flat, depth = [], 0
    for char in re.sub(r"\([^()]*\)", "", re.sub(r"\([^()]*\)", "", body)):
        depth += (char == "{") - (char == "}")
        if depth == 0 and char != "}":
            flat.append(char)
    return sum(declaration.count(",") + 1 for declaration in "".join(flat).split(";") if declaration.strip())


def structs(root, build):
    """No struct has more than 30 members, and no two in headers have one name."""
    found = {}
    for path in c_files(root, "src", "engine", "lib", "include"):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
        for match in re.finditer(r"^struct (\w+) \{\n(.*?)^\}", text, re.S | re.M):
            name, where = match.group(1), f"{path.relative_to(root)}: struct {match.group(1)}"
            if members(match.group(2)) > STRUCT_MEMBERS_MAX:
                yield f"{where} has {members(match.group(2))} members, at most {STRUCT_MEMBERS_MAX}"
            if path.suffix == ".h" and name in found:
                yield f"{where} has the name of one in {found[name]}"
            if path.suffix == ".h":
                found[name] = path.relative_to(root)


def columns(root, build):
    """No line is wider than 100 columns (a warning for now)."""
    files = {}
    for path in c_files(root, "src", "engine", "lib", "include", "tests", "bench", "examples"):
        wide = sum(len(line) > COLUMNS_MAX for _, line in raw_lines(path))
        if wide:
            files[path.relative_to(root)] = wide
    for path, wide in sorted(files.items(), key=lambda entry: -entry[1]):
        print(f"warning: {path}: {wide} lines wider than {COLUMNS_MAX} columns")
    return iter(())


CHECKS = {check.__name__: check
          for check in (includes, conditionals, imports, headers, banned, sizes, structs, columns)}


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in CHECKS:
        print(f"tidy: expected one of {', '.join(CHECKS)} and the source folder", file=sys.stderr)
        return 2
    check = CHECKS[sys.argv[1]]
    build = pathlib.Path(sys.argv[3]).resolve() if len(sys.argv) > 3 else None
    findings = list(check(pathlib.Path(sys.argv[2]).resolve(), build))
    for finding in findings:
        print(finding)
    print(f"{check.__doc__.splitlines()[0]} {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
