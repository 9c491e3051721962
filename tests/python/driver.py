# SPDX-License-Identifier: Apache-2.0
"""Plays muster for one channel worker: gives items within its credits, takes what it reports."""

import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import time

LIMIT_S = 30  # nothing here takes a second; this is for a machine under load
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PYTHON_DIR = os.path.join(ROOT, "python")


def environment(**more):
    env = {key: value for key, value in os.environ.items() if not key.startswith("MUSTER_")}
    env["PYTHONPATH"] = PYTHON_DIR
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    env.update(more)
    return env


def message_of(index, data=None, **fields):
    message = {"item": index, "seed": f"{index * 7919 + 1:016x}", "attempt": 1}
    if "data_b64" not in fields:
        message["data"] = data
    message.update(fields)
    return message


class Muster:
    """with Muster([worker, ...]) as muster: ..."""

    def __init__(self, argv, path=False, **env):
        self.credits = 0
        self.reports = []  # every message of the worker, in order
        self.buffer = b""
        self.files = [tempfile.TemporaryFile(), tempfile.TemporaryFile()]
        if path:
            self.folder = tempfile.TemporaryDirectory()
            name = os.path.join(self.folder.name, "channel")
            with socket.socket(socket.AF_UNIX) as door:
                door.bind(name)
                door.listen(1)
                door.settimeout(LIMIT_S)
                self._start(argv, environment(MUSTER_CHANNEL=name, **env))
                self.socket = door.accept()[0]
        else:
            self.socket, theirs = socket.socketpair()
            with theirs:
                self._start(
                    argv, environment(MUSTER_CHANNEL=str(theirs.fileno()), **env), theirs.fileno()
                )
        self.socket.settimeout(LIMIT_S)

    def _start(self, argv, env, *fds):
        self.process = subprocess.Popen(
            argv,
            env=env,
            pass_fds=fds,
            stdin=subprocess.DEVNULL,
            stdout=self.files[0],
            stderr=self.files[1],
        )

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.socket.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for file in self.files:
            file.close()

    def output(self, which):
        """What the worker wrote to stdout (1) or stderr (2)."""
        file = self.files[which - 1]
        file.seek(0)
        return file.read().decode()

    def send_raw(self, data):
        self.socket.sendall(data)

    def send(self, *messages):
        self.send_raw(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def give(self, *messages):
        """Items, in one write, which the worker must have asked for."""
        self.await_credits(len(messages))
        self.credits -= len(messages)
        self.send(*messages)

    def receive(self):
        """The worker's next message; None at its end."""
        while b"\n" not in self.buffer:
            chunk = self.socket.recv(1 << 20)
            if not chunk:
                assert not self.buffer, f"the worker ended within {self.buffer[:80]!r}"
                return None
            self.buffer += chunk
        line, self.buffer = self.buffer.split(b"\n", 1)
        message = json.loads(line)
        self.credits += message.get("ready", 0)
        self.reports.append(message)
        return message

    def expect(self, kind):
        """The next message that has the key `kind`."""
        while True:
            message = self.receive()
            assert message is not None, f"the worker ended before a '{kind}': {self.output(2)}"
            if kind in message:
                return message

    def await_credits(self, n):
        while self.credits < n:
            assert (
                self.receive() is not None
            ), f"the worker ended before it asked for {n}: {self.output(2)}"

    def is_silent(self, seconds):
        return not self.buffer and not select.select([self.socket], [], [], seconds)[0]

    def finish(self):
        """Stop, take what is still said, and return the exit status."""
        self.send({"stop": True})
        self.socket.shutdown(socket.SHUT_WR)
        return self.end()

    def end(self):
        while self.receive() is not None:
            pass
        return self.process.wait(LIMIT_S)

    def map(self, data, per_write=64):
        """Every item of data, as credits allow; the reports 'done' and 'fail' by index."""
        messages = [message_of(i, each) for i, each in enumerate(data)]
        sent, over = 0, {}
        while len(over) < len(messages):
            while self.credits > 0 and sent < len(messages):
                n = min(self.credits, per_write, len(messages) - sent)
                self.give(*messages[sent : sent + n])
                sent += n
            report = self.receive()
            assert report is not None, f"the worker ended early: {self.output(2)}"
            index = report.get("done", report.get("fail"))
            if index is not None:
                assert (
                    index < sent and index not in over
                ), f"item {index} is reported twice, or was never given"
                over[index] = report
        return over

    def results(self, data):
        over = self.map(data)
        return [over[i]["result"] for i in range(len(over))]


def run_by_hand(argv, text, **env):
    """The worker without muster: its exit status, stdout and stderr."""
    done = subprocess.run(
        argv, input=text.encode(), env=environment(**env), capture_output=True, timeout=LIMIT_S
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def script(text):
    """A Python worker from its text."""
    return [sys.executable, "-c", text]


class Watch:
    def __init__(self):
        self.begin_s = time.monotonic()

    def seconds(self):
        return time.monotonic() - self.begin_s
