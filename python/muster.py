# SPDX-License-Identifier: Apache-2.0
"""Be a worker of ``muster map``, in Python.

    import muster

    model = load()
    for item in muster.items():
        item.done(text=model(item.data["prompt"]))

Load the model after the import and before the loop. `item.data` is the record (what `json.loads`
makes of it), `item.seed` a number that depends on the run's seed and the item alone. Several at
once:

    for batch in muster.batches(32):
        with batch:                         # optional: an exception fails the batch's items,
            for item, text in zip(batch, model([item.data for item in batch])):
                item.done(text=text)        # "out of memory" gives them back in halves

    muster.serve(answer, concurrency=512)   # async def answer(item): return {"text": await ...}

Run by hand, without muster, the same script reads its items as lines from stdin and writes its
results as lines to stdout: ``head -3 data.jsonl | python worker.py`` (a line that is a JSON object,
array or string is taken as JSON, any other line as text).

Importing this module in a worker tells muster at once that it speaks over the channel, so that
nothing it prints is taken for a result. The one exception: a script that uses `claim_stdout` stays
a filter, which reads lines and writes lines.

The standard library only; Python 3.8 or newer. `item.done` and the like may be called from any
thread, the loop belongs to one. SIGTERM ends the worker where it stands, as it does any Python
program: muster gives unfinished items to another worker. muster-worker(7) has the protocol.
"""

from __future__ import annotations

import atexit
import base64
import codecs
import functools
import hashlib
import inspect
import json
import math
import numbers
import os
import random
import select
import socket
import sys
import threading
import time
import traceback
from collections import deque
from types import FrameType, TracebackType
from typing import (
    Any,
    Awaitable,
    Callable,
    Deque,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    TextIO,
    Tuple,
    Type,
    Union,
)

__all__ = [
    "Batch",
    "ChannelError",
    "Item",
    "Unfinished",
    "base_seed",
    "batch_size",
    "batches",
    "check_replicas",
    "claim_stdout",
    "device_count",
    "device_kind",
    "items",
    "loaded",
    "oom",
    "seed_all",
    "serve",
]
__version__ = "0.1.0"

_WINDOW_MAX = 1024  # items asked for ahead, when they take next to no time
_WINDOW_S = 0.010  # the work that may lie ready, where items are fast
_AHEAD_S = 0.050  # of items quicker than this the next one lies ready
_FLUSH_BYTES = 32 << 10
_FLUSH_S = 0.001
_HELD_S = 0.002
_READ_BYTES = 1 << 18
_TAKEN = "taken"  # MUSTER_CHANNEL for the children of a worker, which must not speak in its place
_NOTHING: Any = object()


class ChannelError(RuntimeError):
    """The channel cannot be used, or muster said something that is not in the protocol."""


class Unfinished(RuntimeError):
    """The loop asked for more while an item it had was neither done nor failed."""


# ------------------------------------------------------------------------------------------------
# Results
# ------------------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    """What JSON can carry instead of a tensor, an array or one of their scalars."""
    for convert in (getattr(value, "tolist", None), getattr(value, "item", None)):
        if callable(convert):
            plain = convert()
            if type(plain) is not type(value):  # numpy's longdouble has no plain form
                return plain
    raise TypeError(f"{type(value).__name__} cannot be written as JSON: convert it first")


def _where_not_finite(value: Any, path: str = "result") -> Optional[str]:
    """The path of the first NaN or infinity, for the message."""
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{path} is {value}"
    if isinstance(value, dict):
        inner: Iterable[Any] = ((f"{path}[{key!r}]", each) for key, each in value.items())
    elif isinstance(value, (list, tuple)):
        inner = ((f"{path}[{i}]", each) for i, each in enumerate(value))
    elif value is None or isinstance(value, (str, int)):
        return None
    else:
        inner = [(path, _plain(value))]
    return next(filter(None, (_where_not_finite(each, at) for at, each in inner)), None)


def _encode(value: Any) -> bytes:
    """One line of JSON. NaN is refused: it is none, and rarely meant."""
    try:
        text = json.dumps(
            value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain
        )
    except ValueError as error:
        where = _where_not_finite(value) if "JSON compliant" in str(error) else None
        if where is None:
            raise
        raise ValueError(
            f"{where}, which JSON cannot carry: write None or a string instead"
        ) from error
    except RecursionError as error:
        raise ValueError("result is nested too deeply: 512 levels are the most") from error
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(value, allow_nan=False, separators=(",", ":"), default=_plain).encode()


def _is_finite(number: Union[int, float]) -> bool:
    """As a double, which muster's sums are: 10**400 is none."""
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def _number(value: Any) -> Union[int, float, None]:
    """None if it is no number, or not one that is real."""
    if isinstance(value, (int, float)):
        return value
    try:
        plain = _plain(value)
    except TypeError:
        plain = _as_double(value)
    return plain if isinstance(plain, (int, float)) else None


def _as_double(number: Any) -> Optional[float]:
    """Decimal, Fraction and numpy's longdouble have no plain form; the sums are doubles anyway."""
    try:
        return float(number) if isinstance(number, numbers.Number) else None
    except (TypeError, OverflowError):
        return None


def _metrics(metrics: Any) -> Dict[str, Union[int, float]]:
    if not isinstance(metrics, Mapping):
        raise TypeError(
            f"metrics is {metrics!r:.40}: numbers by name are needed, as in {{'seen': 1}}, "
            "which muster sums"
        )
    plain = {}
    for name, value in metrics.items():
        number = _number(value)
        if number is None or not _is_finite(number):
            kind = TypeError if number is None else ValueError
            raise kind(
                f"the metric {name!r} is {value!r:.40}: a finite number is needed, muster sums it"
            )
        plain[str(name)] = int(number) if isinstance(number, bool) else number
    return plain


def _metrics_tail(metrics: Any, has_fields: bool) -> bytes:
    """The metrics of a message. In done(**row) they may be a field that happens to have this name:
    what is neither metrics nor None is refused there, because the field would be lost."""
    if metrics is None:
        return b""
    try:
        return b',"metrics":' + _encode(_metrics(metrics))
    except (TypeError, ValueError) as error:
        if not has_fields:
            raise
        raise TypeError(
            f"{error}; a field called 'metrics' is written with the others as one object: "
            "item.done({...})"
        ) from error


# ------------------------------------------------------------------------------------------------
# Items
# ------------------------------------------------------------------------------------------------


class Item:
    """One item of the input.

    index     its place in the input, from 0
    data      its record: for JSONL and CSV what `json.loads` makes of it, for lines a str, for
              what is not UTF-8 bytes
    seed      depends on the run's base seed and the index alone, 64 bits; see `seed_all`
    attempt   from 1
    """

    __slots__ = ("index", "data", "seed", "attempt", "is_finished", "_worker")

    def __init__(self, worker: _Worker, index: int, data: Any, seed: int, attempt: int) -> None:
        self._worker = worker
        self.index = index
        self.data = data
        self.seed = seed
        self.attempt = attempt
        self.is_finished = False

    def done(
        self,
        result: Any = _NOTHING,
        /,
        *,
        metrics: Optional[Mapping[str, Any]] = None,
        **fields: Any,
    ) -> None:
        """Finish with a result: done({"a": 1}), done("text"), or done(a=1, b=2) for an object.

        Arrays and tensors become lists, their scalars numbers. metrics are numbers that muster sums
        over the committed items: {"correct": 1, "seen": 1}. Every other name is that of a field. A
        record that may have a field called "metrics" is written as one object: done(row), not
        done(**row).
        """
        if (result is not _NOTHING) == bool(fields):
            raise TypeError(
                f"item {self.index}: done takes a result or fields by name, one of both"
            )
        try:
            encoded = _encode(fields if fields else result)
            tail = _metrics_tail(metrics, bool(fields))
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"item {self.index}: {error}") from error
        self._finish()
        self._worker.report_done(self.index, encoded, tail)

    def fail(self, error: Union[str, BaseException], *, retry: bool = True) -> None:
        """Finish without a result. retry: whether trying again, perhaps elsewhere, may help."""
        may_help = bool(retry)  # muster takes what is neither true nor false as true, a 0 too
        self._finish()
        self._worker.report_fail(self.index, _describe(error), may_help)

    def _finish(self) -> None:
        if self.is_finished:
            raise RuntimeError(f"item {self.index} is finished already")
        self.is_finished = True

    def __enter__(self) -> Item:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> bool:
        """An exception in the block fails the item, unless it was finished before."""
        if not isinstance(error, Exception) or self.is_finished:
            return False
        _print_trace(error)
        self.fail(error)
        return True

    def __reduce__(self) -> Any:
        raise TypeError(
            "an item stays in the process that got it, and cannot be pickled or copied: "
            "send item.data, and item.index with it, to the other process"
        )

    def __repr__(self) -> str:
        return f"<muster.Item {self.index}, attempt {self.attempt}>"


class Batch(List[Item]):
    """A list of items. As a context it fails what an exception leaves unfinished; "out of memory"
    instead tells muster, and the items come again in batches of half the size."""

    def __enter__(self) -> Batch:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> bool:
        left = [item for item in self if not item.is_finished]
        if not isinstance(error, Exception) or not left:
            return False
        if _is_oom(error) and len(self) > 1:
            _free_memory()
            left[0]._worker.give_back(left, max(1, len(self) // 2))
        else:
            _print_trace(error)
            for item in left:
                item.fail(error)
        return True


def _describe(error: Union[str, BaseException]) -> str:
    if isinstance(error, str):
        return error
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _print_trace(error: BaseException) -> None:
    """muster gets the last line; where it came from belongs in the log."""
    traceback.print_exception(type(error), error, error.__traceback__)


def _is_oom(error: BaseException) -> bool:
    """Torch, CuPy, JAX and vLLM all say one of these; none has a class that is there without it."""
    name, text = type(error).__name__, str(error).lower()
    return isinstance(error, MemoryError) or "OutOfMemory" in name or "out of memory" in text


def _free_memory() -> None:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


# ------------------------------------------------------------------------------------------------
# Wires: the channel, and stdin and stdout by hand. Both give messages and take reports.
# ------------------------------------------------------------------------------------------------


class _Wire:
    """Lines in and lines out over two descriptors, which for the channel are one socket.

    What is written waits for company until the worker is about to wait, until it is large, or until
    it has waited for a millisecond or two, so that trivial items do not cost a system call each. The
    last is for a thread, or a result would wait behind an item that takes long: muster would blame
    it when the worker hangs, and have it done again when it dies. A worker whose items take longer
    has no such thread.
    """

    by_hand = False

    def __init__(self, in_fd: int, out_fd: int) -> None:
        self.in_fd, self.out_fd = in_fd, out_fd
        self.lock = threading.Lock()
        self.pid = os.getpid()
        self._out: List[bytes] = []
        self._out_bytes = 0
        self._flushed_s = time.monotonic()
        self._waiting = False
        self._held: Optional[threading.Event] = None  # set while something waits for the thread
        self._lines: Deque[bytes] = deque()
        self._partial: List[bytes] = []
        self._has_ended = False

    def _check_owner(self) -> None:
        """Before the lock is taken: in a fork it may be held for ever, by a thread that is not there."""
        if os.getpid() != self.pid:
            raise ChannelError(
                "this process was forked from the worker, and only the worker may report"
            )

    def send(self, *pieces: bytes) -> None:
        self._check_owner()
        with self.lock:
            self._out.extend(pieces)
            self._out_bytes += sum(map(len, pieces))
            due = self._out_bytes >= _FLUSH_BYTES or time.monotonic() - self._flushed_s >= _FLUSH_S
            if due or self._waiting:
                self._flush()
            elif self._held is not None:
                if not self._held.is_set():
                    self._held.set()
            elif not self._begin_late():
                self._flush()

    def _begin_late(self) -> bool:
        held = threading.Event()
        held.set()
        thread = threading.Thread(
            target=self._flush_late, args=(held,), name="muster-late", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # no more threads, or the interpreter is about to end
            return False
        self._held = held
        return True

    def _flush_late(self, held: threading.Event) -> None:
        while held.wait():
            time.sleep(_HELD_S)
            with self.lock:
                held.clear()
                try:
                    if self._out:
                        self._flush()
                except ChannelError:  # the next report or read says so where it can be caught
                    return

    def flush(self) -> None:
        self._check_owner()
        with self.lock:
            self._flush()

    def _flush(self) -> None:
        left = memoryview(b"".join(self._out))
        self._out, self._out_bytes = [], 0
        self._flushed_s = time.monotonic()
        try:
            while left:
                left = left[os.write(self.out_fd, left) :]
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ChannelError("what was done cannot be reported: the reader has gone") from error

    def line(self, timeout_s: Optional[float] = None) -> Optional[bytes]:
        """The next line; None at the end, or when timeout_s pass with nothing on its way."""
        while not self._lines and not self._has_ended:
            self._check_owner()
            with self.lock:
                self._waiting = True
                self._flush()
            try:
                if timeout_s is not None and not self._partial and not self._is_readable(timeout_s):
                    return None
                self._fill()
            finally:
                self._waiting = False
        return self._lines.popleft() if self._lines else None

    def has_ended(self) -> bool:
        return self._has_ended and not self._lines

    def _is_readable(self, timeout_s: float) -> bool:
        poll = select.poll()
        poll.register(self.in_fd, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))

    def _fill(self) -> None:
        try:
            chunk = os.read(self.in_fd, _READ_BYTES)
        except ConnectionResetError:  # muster gone with our words unread: an end like another
            chunk = b""
        self._has_ended = not chunk
        pieces = chunk.split(b"\n")
        if len(pieces) > 1:
            self._partial.append(pieces[0])
            self._lines.append(b"".join(self._partial))
            self._lines.extend(pieces[1:-1])
            self._partial = []
        if pieces[-1]:
            self._partial.append(pieces[-1])
        if self._has_ended and self._partial:
            self._end_midline(b"".join(self._partial))
            self._partial = []

    def _end_midline(self, rest: bytes) -> None:
        raise ChannelError("the channel ended within a message")


class _Channel(_Wire):
    def __init__(self, where: str) -> None:
        if "/" in where:
            with socket.socket(socket.AF_UNIX) as made:
                made.connect(where)
                fd = made.detach()
        elif where.isdigit():
            fd = int(where)
        else:
            raise ChannelError(f"MUSTER_CHANNEL: expected a descriptor or a path, found {where!r}")
        os.set_inheritable(fd, False)
        os.set_blocking(fd, True)
        super().__init__(fd, fd)

    def message(self, timeout_s: Optional[float] = None) -> Optional[Dict[str, Any]]:
        line = self.line(timeout_s)
        if line is None:
            return None
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            raise ChannelError(f"not a message of the channel: {line[:120]!r}")
        return message

    def grant(self, credits: int) -> None:
        self.send(b'{"ready":%d}\n' % credits)

    def done(self, index: int, result: bytes, metrics: bytes) -> None:
        self.send(b'{"done":%d,"result":' % index, result, metrics, b"}\n")

    def fail(self, index: int, error: str, retry: bool) -> None:
        self.send(_encode({"fail": index, "error": error, "retry": retry}), b"\n")

    def tell(self, message: Dict[str, Any]) -> None:
        self.send(_encode(message), b"\n")
        self.flush()


class _ByHand(_Wire):
    """Without muster: a line of stdin is an item, a line of stdout a result."""

    by_hand = True

    def __init__(self) -> None:
        super().__init__(0, 1)
        self._n_items = 0
        self._base_seed = base_seed()

    def _end_midline(self, rest: bytes) -> None:
        self._lines.append(rest)  # the last line may lack its newline

    def message(self, timeout_s: Optional[float] = None) -> Optional[Dict[str, Any]]:
        line = self.line(timeout_s)
        if line is None:
            return None
        if self._n_items == 0 and line.startswith(codecs.BOM_UTF8):
            line = line[len(codecs.BOM_UTF8) :]  # no part of the first item for muster map either
        index, self._n_items = self._n_items, self._n_items + 1
        return {
            "item": index,
            "seed": f"{_item_seed(self._base_seed, index):016x}",
            "data": _record(line),
        }

    def grant(self, credits: int) -> None:
        pass

    def done(self, index: int, result: bytes, metrics: bytes) -> None:
        self.send(result, b"\n")

    def fail(self, index: int, error: str, retry: bool) -> None:
        print(f"item {index} failed: {error}", file=sys.stderr)

    def tell(self, message: Dict[str, Any]) -> None:
        pass


def _record(line: bytes) -> Any:
    line = line[:-1] if line.endswith(b"\r") else line
    if line[:1] in (b"{", b"[", b'"'):
        try:
            return json.loads(line)
        except ValueError:
            pass
    return line.decode(errors="replace")


def _mix64(x: int) -> int:
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)


def _item_seed(base_seed: int, index: int) -> int:
    """muster's own function, so that an item run by hand sees the seed it has in a run."""
    gamma = 0x9E3779B97F4A7C15
    return _mix64((_mix64((base_seed + gamma) % 2**64) + (index + 1) * gamma) % 2**64)


# ------------------------------------------------------------------------------------------------
# The worker: credits out, items in
# ------------------------------------------------------------------------------------------------


class _Worker:
    def __init__(self, wire: Union[_Channel, _ByHand]) -> None:
        self.wire = wire
        self.limit = 0  # muster's "batch", 0: none
        self.pending = 0  # credits given whose item has not come
        self.has_stopped = False
        self.is_looping = False
        self.returned: Deque[Item] = deque()  # given back after "out of memory"
        atexit.register(self._at_exit)

    def _at_exit(self) -> None:
        """Results that are done are worth keeping, whatever ends the worker."""
        if os.getpid() == self.wire.pid:
            try:
                self.wire.flush()
            except OSError:
                pass

    def report_done(self, index: int, result: bytes, metrics: bytes) -> None:
        self.wire.done(index, result, metrics)

    def report_fail(self, index: int, error: str, retry: bool) -> None:
        self.wire.fail(index, error, retry)

    def give_back(self, left: List[Item], batch: int) -> None:
        self.oom(batch)
        self.returned.extendleft(reversed(left))

    def oom(self, batch: int) -> None:
        self.limit = batch
        self.wire.tell({"oom": True, "batch": batch})

    def ask_for(self, credits: int) -> None:
        if credits > 0 and not self.has_stopped:
            self.pending += credits
            self.wire.grant(credits)

    def capped(self, n: int) -> int:
        return min(n, self.limit) if self.limit > 0 else n

    def next(self, timeout_s: Optional[float] = None) -> Optional[Item]:
        """The next item; None at the end, or when timeout_s pass with nothing on its way."""
        while not self.has_stopped:
            message = self.wire.message(timeout_s)
            if message is None:
                self.has_stopped = self.wire.has_ended()
                return None
            if "batch" in message:
                self.limit = int(message["batch"])
            if "item" in message:
                self.pending -= 1
                return self._item(message)
            self.has_stopped = bool(message.get("stop"))
        return None

    def _item(self, message: Dict[str, Any]) -> Item:
        if "data_b64" in message:
            data: Any = base64.b64decode(message["data_b64"])
        else:
            data = message.get("data")
        return Item(
            self,
            message["item"],
            data,
            int(message.get("seed", "0"), 16),
            message.get("attempt", 1),
        )

    def begin_loop(self) -> None:
        if self.is_looping:
            raise RuntimeError(
                "muster.items(), batches() and serve() share one input: use one at a time"
            )
        self.is_looping = True

    def end_loop(self) -> None:
        self.is_looping = False
        self.wire.flush()


def _check_finished(items: Iterable[Item], returned: Iterable[Item] = ()) -> None:
    back = {item.index for item in returned}
    left = [str(item.index) for item in items if not item.is_finished and item.index not in back]
    if left:
        some = ", ".join(left[:10]) + (", ..." if len(left) > 10 else "")
        what = f"item {some} was" if len(left) == 1 else f"items {some} were"
        raise Unfinished(f"{what} neither done nor failed before the loop asked for more")


class _Pace:
    """How many items to ask for at once: what fits into 10 ms at the pace of late, at most twice as
    many as before. A fast worker does not wait for muster at every item; of middling ones the next
    is there when it is asked for; a slow one has none waiting behind the one it works on, where
    another device could take it."""

    def __init__(self) -> None:
        self.window = 1
        self._asked_s = -math.inf  # the first call asks for one item
        self._n_items = -1

    def credits(self, worker: _Worker) -> int:
        self._n_items += 1
        if worker.pending > self.window // 2:
            return 0
        now_s = time.monotonic()
        each_s = max(now_s - self._asked_s, 1e-6) / max(self._n_items, 1)
        # The way to another host and back counts four times: credits are asked for anew when half
        # of the window is used, and while items wait for the way, this speed is too low a measure.
        way_s = 4 * min(float(os.environ.get("MUSTER_ROUND_TRIP_MS") or 0), 10000) / 1000
        target = max(int((_WINDOW_S + way_s) / each_s), 2 if each_s < _AHEAD_S + way_s else 1)
        self.window = min(target, self.window * 2, _WINDOW_MAX)
        self._asked_s, self._n_items = now_s, 0
        return worker.capped(self.window) - worker.pending


def items() -> Iterator[Item]:
    """The items, one by one. Each must be done or failed before the next is asked for."""
    worker = _the_worker()
    worker.begin_loop()
    pace = _Pace()
    try:
        while True:
            worker.ask_for(pace.credits(worker))
            item = worker.next()
            if item is None:
                return
            yield item
            _check_finished([item])
    finally:
        worker.end_loop()


def batches(n: Optional[int] = None, *, linger: float = 0.010) -> Iterator[Batch]:
    """The items in lists of up to n, all of one to be done or failed before the next.

    Without n muster decides: `--batch`, or what it finds to fit; with n, that is the most, and
    muster may lower it (after out of memory) and raise it again. A list is shorter than that when
    the items run out: muster's last word comes with the last items, and where it does not (another
    worker's items may still come back), a list goes out as it is when `linger` seconds pass after
    its last item without another one on its way. While items keep coming, a full list is waited
    for.
    """
    if n is not None and n < 1:
        raise ValueError(f"batches of {n}: at least 1 is needed")
    worker = _the_worker()
    worker.begin_loop()
    try:
        while True:
            batch = _next_batch(worker, n, linger)
            if not batch:
                return
            yield batch
            _check_finished(batch, worker.returned)
    finally:
        worker.end_loop()


def _next_batch(worker: _Worker, n: Optional[int], linger: float) -> Batch:
    def size() -> int:
        """Anew each time: muster may change its mind with the items."""
        return batch_size() if n is None else worker.capped(n)

    batch = Batch()
    while worker.returned and len(batch) < size():
        batch.append(worker.returned.popleft())
    if batch:
        return batch
    worker.ask_for(size() - worker.pending)
    while len(batch) < size() and (not batch or worker.pending > 0):
        item = worker.next(timeout_s=linger if batch else None)
        if item is None:
            break
        batch.append(item)
    return batch


def serve(handle: Callable[[Item], Awaitable[Any]], concurrency: int = 64) -> None:
    """Run `handle(item)` for every item, up to `concurrency` at once, until muster has no more.

    What it returns is the item's result, None too, unless it has called item.done or item.fail
    itself. An exception fails the item, and so does a cancellation that does not come from the end
    of the loop. For engines that batch by themselves: an async vLLM engine, an HTTP server.
    """
    import asyncio  # here, because it takes as long to import as all the rest

    worker = _the_worker()
    worker.begin_loop()
    try:
        asyncio.run(_serve(worker, handle, max(1, concurrency)))
    finally:
        worker.end_loop()


async def _serve(
    worker: _Worker, handle: Callable[[Item], Awaitable[Any]], concurrency: int
) -> None:
    import asyncio

    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[Union[Item, BaseException, None]] = asyncio.Queue()
    tasks: set[asyncio.Task[None]] = set()
    # By hand there are no credits to hold the reader back.
    room = threading.Semaphore(concurrency)
    owed = 0  # credits given whose item is not finished
    is_due = False
    is_over = False  # the loop ends, and cancels the handlers that are left

    def read_items() -> None:
        try:
            while True:
                room.acquire()
                item = worker.next()
                loop.call_soon_threadsafe(arrived.put_nowait, item)
                if item is None:
                    return
        except Exception as error:  # to be raised by the loop, unless that is what has ended
            if not loop.is_closed():
                loop.call_soon_threadsafe(arrived.put_nowait, error)

    def give_credits() -> None:
        """Once for all the items that end in one turn of the loop."""
        nonlocal is_due, owed
        is_due = False
        credits = worker.capped(concurrency) - owed
        if credits > 0 and not worker.has_stopped:
            owed += credits
            worker.wire.grant(credits)
        worker.wire.flush()

    def end(item: Item, task: asyncio.Task[None]) -> None:
        nonlocal is_due, owed
        tasks.discard(task)
        owed -= 1
        room.release()
        if not task.cancelled() and task.exception() is not None:
            arrived.put_nowait(task.exception())
        elif task.cancelled() and not is_over:
            try:
                _fail_cancelled(item, task)
            except Exception as error:
                arrived.put_nowait(error)
        if not is_due:
            is_due = True
            loop.call_soon(give_credits)

    async def work() -> None:
        while True:
            item = await arrived.get()
            if isinstance(item, BaseException):
                raise item
            if item is None:
                break
            task = loop.create_task(_handle_one(handle, item))
            tasks.add(task)
            task.add_done_callback(functools.partial(end, item))
        while tasks:
            await asyncio.wait(tasks)
            await asyncio.sleep(0)
        while not arrived.empty():
            error = arrived.get_nowait()
            if isinstance(error, BaseException):
                raise error

    give_credits()
    threading.Thread(target=read_items, name="muster", daemon=True).start()
    try:
        await work()
    finally:
        is_over = True


def _fail_cancelled(item: Item, task: asyncio.Task[None]) -> None:
    """The handler was cancelled while the loop goes on: by itself or by what it awaited."""
    import asyncio

    try:
        task.result()
    except asyncio.CancelledError as error:
        _print_trace(error)
        if not item.is_finished:  # else it has its result, and others go on
            item.fail(error)


async def _handle_one(handle: Callable[[Item], Awaitable[Any]], item: Item) -> None:
    is_async = True
    try:
        result: Any = handle(item)
        is_async = inspect.isawaitable(result)
        if is_async:
            result = await result
    except Exception as error:
        if item.is_finished:
            raise
        _print_trace(error)
        item.fail(error)
        return
    if not is_async:
        raise TypeError(
            "muster.serve needs an async function (async def), which lets others run while it waits"
        )
    if not item.is_finished:
        item.done(result)


# ------------------------------------------------------------------------------------------------
# About the worker itself
# ------------------------------------------------------------------------------------------------


def loaded() -> None:
    """Say that the model is loaded: the time limit for starting ends, the one for items begins."""
    _the_worker().wire.tell({"loaded": True})


def oom(batch: int) -> None:
    """Say that the device's memory ran out and that the worker goes on with `batch` items at once.

    It keeps the items it has, and must still finish them. `with batch:` does this by itself.
    """
    _the_worker().oom(max(1, int(batch)))


def batch_size(default: int = 1) -> int:
    """How many items muster wants in hand at once: its last word, else `--batch`, else default."""
    limit = _worker.limit if _worker is not None else 0
    return limit or int(os.environ.get("MUSTER_BATCH") or 0) or default


def device_count() -> int:
    """How many devices this worker was given, at least 1 (a CPU slot counts as one)."""
    return os.environ.get("MUSTER_DEVICE", "").count(",") + 1


def device_kind() -> str:
    """cuda, rocm, intel or cpu; cpu when run by hand."""
    return os.environ.get("MUSTER_DEVICE_KIND") or "cpu"


def base_seed() -> int:
    """The run's base seed; 0 when run by hand without MUSTER_SEED."""
    return int(os.environ.get("MUSTER_SEED") or 0)


def seed_all(seed: int) -> None:
    """Seed `random`, and NumPy and PyTorch where the worker has imported them."""
    random.seed(seed)
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)
    if torch is not None:
        torch.manual_seed(seed % 2**63)


def check_replicas(model: Any, group: Any = None) -> None:
    """Compare the parameters and buffers of a PyTorch model between the ranks of a process group.

    For the ranks of a training, not for workers. RuntimeError, on every rank, names the first that
    differs, and the ranks whose bits are not those of most. Every rank of `group` has to call it; for
    others, and without an initialised process group, it does nothing.
    """
    distributed = sys.modules["torch"].distributed
    if not distributed.is_available() or not distributed.is_initialized() or distributed.get_rank(group) < 0:
        return
    own = {name: (str(value.dtype), tuple(value.shape), _bits(value)) for name, value in _values(model)}
    of_ranks: List[Any] = [None] * distributed.get_world_size(group)
    distributed.all_gather_object(of_ranks, own, group=group)
    for name in dict.fromkeys(name for marks in of_ranks for name in marks):
        here = [marks.get(name) for marks in of_ranks]
        usual = max(here, key=here.count)
        others = [rank for rank, mark in enumerate(here) if mark != usual]
        if others:
            whole = (lambda rank: rank) if group is None else (lambda rank: distributed.get_global_rank(group, rank))
            ranks = ", ".join(str(whole(rank)) for rank in others)
            raise RuntimeError(f"replicas differ: {name!r} on rank {ranks} is not what it is on the other ranks")


def _values(model: Any) -> Iterator[Tuple[str, Any]]:
    yield from model.named_parameters()
    yield from model.named_buffers()


def _bits(value: Any) -> str:
    """A hash of the bits, so that NaN equals itself, and 0 does not equal -0."""
    torch = sys.modules["torch"]
    value = value.detach() if value.layout == torch.strided else value.detach().to_dense()
    flat = value.resolve_conj().resolve_neg().contiguous().cpu().reshape(-1)
    plain = flat.view(torch.uint8).numpy() if flat.numel() else b""
    return hashlib.blake2b(plain, digest_size=16).hexdigest()


_claimed: Optional[TextIO] = None


def claim_stdout() -> TextIO:
    """For filters: keep stdout for results. Returns the real stdout, written out line by line;
    whatever else the process and its libraries print goes to stderr, where it cannot be taken for a
    result.
    """
    global _claimed
    if _worker is not None and not _worker.wire.by_hand:
        raise RuntimeError(
            "claim_stdout is for filters, and this worker speaks over the channel already, "
            "where stdout is its own: report with item.done"
        )
    if _claimed is None:
        sys.stdout.flush()
        results_fd = os.dup(1)
        os.dup2(2, 1)
        _claimed = open(results_fd, "w", buffering=1, encoding="utf-8", newline="\n")
    return _claimed


# ------------------------------------------------------------------------------------------------
# The import
# ------------------------------------------------------------------------------------------------

_worker: Optional[_Worker] = None


def _the_worker() -> _Worker:
    global _worker
    if _worker is None:
        where = os.environ.get("MUSTER_CHANNEL")
        if where == _TAKEN:
            raise ChannelError(
                "the channel belongs to the process that muster started, and this is a child of it"
            )
        _worker = _Worker(_Channel(where) if where else _ByHand())
        if where:
            os.environ["MUSTER_CHANNEL"] = _TAKEN
    return _worker


def _names(code: Any) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if hasattr(inner, "co_names"):
            yield from _names(inner)


def _is_filter() -> bool:
    """Whether a script that is importing this module uses claim_stdout.

    A channel worker must speak before its libraries print, that is now, and a filter must not speak
    at all. Which of both it is stands in the code that imports us.
    """
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None:
        if frame.f_globals is not globals() and "claim_stdout" in _names(frame.f_code):
            return True
        frame = frame.f_back
    return False


def _announce() -> None:
    if os.environ.get("MUSTER_CHANNEL", _TAKEN) == _TAKEN or _is_filter():
        return
    worker = _the_worker()
    worker.wire.grant(0)
    worker.wire.flush()


_announce()
