# SPDX-License-Identifier: Apache-2.0
"""
Runs a launch line by muster or by torchrun or accelerate, and reduces what its ranks got to what must be the same on every machine.

A line of lines.json has the options of a line in a public repository, which `source` names, as they are typed there. What
is not an option of the launcher was exchanged: hosts by this machine, the number of ranks by 4 at most, gpu by cpu or auto,
--gpu_ids by all, the script by a probe, most of its arguments by none. Words in braces stand for what differs between runs:

    {script}   a Python script            {program}  an executable       {port}  a free port, the same for all machines
    {module}   a module for -m            {path}     an absolute path    {node}  the number of the machine, from 0

`machines`: how many processes play one each; `port`: the one that the line takes without naming it; `failures`: how often
rank 0 fails; `is_refused`: the line is bad. Lines without a source have the options that no other line has.
"""
import fcntl
import functools
import json
import os
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT_S = 90
PORT_WAIT_S = 20
N_PROCESSORS = 2
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
LAUNCHER = re.compile(
    r"torchrun|accelerate launch|python3?( -u)? -m (torch\.distributed\.(run|launch)|accelerate\.commands\.launch)"
)
# accelerate takes several processes for a mistake where there are no GPUs to be seen.
ACCELERATE = """
import torch
torch.cuda.is_available = lambda: True
torch.cuda.device_count = lambda: 4
from accelerate.commands import launch
launch.main()
"""


def lines_read():
    with open(os.path.join(HERE, "lines.json"), encoding="utf-8") as file:
        return json.load(file)


def words_split(text):
    """The words of a line: (variables, the launcher, the words after it)."""
    words = shlex.split(text)
    variables = {}
    while re.match(r"[A-Z][A-Z0-9_]*=", words[0]):
        name, value = words.pop(0).split("=", 1)
        variables[name] = value
    for n in range(1, 5):
        if LAUNCHER.fullmatch(" ".join(words[:n])):
            return variables, " ".join(words[:n]), words[n:]
    raise ValueError(f"no launcher is known in: {text}")


class Muster:
    n_at_once = 4

    def __init__(self, program):
        self.program = program

    def command(self, launcher):
        # torch.distributed.launch passes --local-rank=N unless it is told not to.
        is_old = launcher.endswith("torch.distributed.launch")
        return [self.program, "launch", *(["--pass-local-rank"] if is_old else [])]


class Torchrun:
    n_at_once = 2

    def __init__(self, program):
        self.program = program
        with open(program, "rb") as file:
            self.python = file.readline().decode().removeprefix("#!").strip()

    def command(self, launcher):
        if launcher == "torchrun":
            return [self.program]
        if "accelerate" in launcher:
            return [self.python, "-c", ACCELERATE]
        return [self.python, "-m", launcher.split()[-1]]


def can_be_bound(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
            probe.listen()
        except OSError:
            return False
        return True


def port_free():
    """Below the ports that the system gives out itself."""
    while True:
        port = random.randrange(15000, 29000)
        if can_be_bound(port):
            return port


class Busy(Exception):
    """A port that the line needs is taken."""


class PortLock:
    """Lines without a port of their own meet at the one that torchrun has for them: one at a time."""

    def __init__(self, port):
        self.port, self.file = port, None

    def __enter__(self):
        if not self.port:
            return
        path = os.path.join(tempfile.gettempdir(), f"muster-launch-lines-{os.getuid()}.lock")
        self.file = open(path, "w")
        fcntl.flock(self.file, fcntl.LOCK_EX)
        end = time.monotonic() + PORT_WAIT_S
        while not can_be_bound(self.port):
            if time.monotonic() > end:
                self.file.close()
                raise Busy(f"port {self.port} is taken")
            time.sleep(0.05)

    def __exit__(self, *_):
        if self.file:
            self.file.close()


@functools.cache
def own_names():
    return {"localhost", socket.gethostname(), socket.getfqdn()}


class Work:
    """A folder for a line, with the programs that it starts."""

    def __init__(self, line):
        self.line = line
        self.root = os.path.realpath(tempfile.mkdtemp(prefix="launch-line-"))
        self.folder = os.path.join(self.root, "work")
        os.mkdir(self.folder)
        self.port = port_free() if "{port}" in line["line"] else 0
        for name in ("out", "tmp", "locks", "package"):
            os.mkdir(os.path.join(self.folder, name))
        with open(os.path.join(HERE, "probe.py"), encoding="utf-8") as file:
            probe = f"#!{sys.executable}\n{file.read()}"
        for name in ("probe.py", "package/train.py"):
            with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
                file.write(probe)
        os.chmod(os.path.join(self.folder, "probe.py"), 0o755)

    def environment(self):
        """What is given to the launcher besides the variables of the line."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": self.folder,
            "TMPDIR": os.path.join(self.folder, "tmp"),
            "LC_ALL": "C.UTF-8",
            "PYTHON_EXEC": sys.executable,
            "PYTHONDONTWRITEBYTECODE": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "MUSTER_NVML": "/nonexistent",
            "MUSTER_SYSFS": "/nonexistent",
            "MUSTER_LOCK_DIR": os.path.join(self.folder, "locks"),
            "PROBE_OUT": os.path.join(self.folder, "out"),
            "PROBE_FAILURES": str(self.line.get("failures", 0)),
        }

    def text(self, node):
        values = {
            "script": "probe.py",
            "module": "package.train",
            "program": "./probe.py",
            "path": os.path.join(self.folder, "probe.py"),
            "port": str(self.port),
            "node": str(node),
        }
        text = self.line["line"]
        for name, value in values.items():
            text = text.replace("{" + name + "}", value)
        return text

    def generic(self, text):
        text = text.replace(self.folder, "{work}")
        return re.sub(rf"\b{self.port}\b", "{port}", text) if self.port else text

    def value(self, name, text):
        """What is of a machine or of a run, by its kind."""
        text = self.generic(text)
        if name == "MASTER_PORT":
            # Ports that a line names, or torchrun by itself, are below those that a system gives out.
            return text if text in ("{port}", "29400", "29500") else "free port"
        if name == "MASTER_ADDR":
            return "this machine" if text in own_names() else text
        if name == "MUSTER_GUARD":
            return re.sub(r"\d+", "pid", text)
        if name == "TORCHELASTIC_RUN_ID":
            return UUID.sub("uuid", text)
        if name == "TORCHELASTIC_ERROR_FILE":
            # LOG_DIR/ID_RANDOM/attempt_N/RANK/error.json; without LOG_DIR in a temporary folder
            path = re.sub(r"_[A-Za-z0-9_]+(/attempt_\d+/\d+/error\.json)$", r"_random\1", UUID.sub("uuid", text))
            return re.sub(r"^\{work\}/tmp/.*(/attempt_)", r"{temporary}\1", path)
        return text

    def rank(self, seen):
        environment, given = seen.pop("environment"), self.environment()
        differs = {
            name: self.value(name, environment[name]) if name in environment else None
            for name in sorted({*environment, *given})
            if environment.get(name) != given.get(name)
        }
        seen["arguments"] = [self.generic(word) for word in seen["arguments"]]
        seen["folder"] = self.generic(seen["folder"])
        return {"environment": differs, **seen}

    def ranks(self):
        found = {}
        for name in sorted(os.listdir(os.path.join(self.folder, "out"))):
            if name.endswith(".json"):
                with open(os.path.join(self.folder, "out", name), encoding="utf-8") as file:
                    found[name.removesuffix(".json")] = self.rank(json.load(file))
        return found

    def release(self):
        shutil.rmtree(self.root, ignore_errors=True)


def processors_limit():
    """--nproc-per-node cpu: as many ranks as on every other machine."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:N_PROCESSORS])


def processes_wait(processes):
    end = time.monotonic() + LIMIT_S
    said = []
    for process in processes:
        try:
            said.append(process.communicate(timeout=max(end - time.monotonic(), 1))[0])
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said.append(process.communicate()[0])
    return said


def line_run(launcher, line):
    """{"status": of the first machine that failed, or 0, "ranks": {"GENERATION.RANK": what it got}, "said": ...}"""
    work = Work(line)
    try:
        with PortLock(line.get("port", 0)):
            processes = []
            for node in range(line.get("machines", 1)):
                variables, program, words = words_split(work.text(node))
                processes.append(
                    subprocess.Popen(
                        launcher.command(program) + words,
                        cwd=work.folder,
                        env={**work.environment(), **variables},
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                        preexec_fn=processors_limit,
                    )
                )
            said = b"".join(processes_wait(processes)).decode(errors="replace")
        status = next((p.returncode for p in processes if p.returncode != 0), 0)
        return {"status": status, "ranks": work.ranks(), "said": said}
    finally:
        work.release()
