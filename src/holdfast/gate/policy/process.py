"""Evaluates rules in a process of its own, which is ended where they take too long.

CEL holds the interpreter while it evaluates, and cannot be interrupted: a thread would stop its whole process. The
process is started when it is first needed, knows one policy, and ends with whoever started it. After it was ended the
next question starts another. It is asked one thing at a time, from any thread; whoever asks waits.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final

import cbor2

CUT_OFF_SECONDS: Final = 0.25
START_SECONDS: Final = 30.0
_LENGTH: Final = 8


class CutOff(Exception):
    """It took too long, and was ended. ``doing`` is what it last said that it began."""

    def __init__(self, doing: str) -> None:
        super().__init__(doing)
        self.doing = doing


class PolicyProcess:
    """A process that knows one policy."""

    def __init__(self, text: bytes, source: str, cut_off_seconds: float = CUT_OFF_SECONDS) -> None:
        self._introduction = [text, source]
        self._cut_off_seconds = cut_off_seconds
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._end: Callable[[], Any] = lambda: None

    def ask(self, question: Any) -> Any:
        """The answer to a question. Raises CutOff, or OSError where there is no process to be had."""
        data = cbor2.dumps(question)
        with self._lock:
            try:
                process = self._started()
                _send(process, data)
                return _answer(process, time.monotonic() + self._cut_off_seconds)
            except BaseException:
                self.end()
                raise

    def end(self) -> None:
        """End the process, whatever it does."""
        self._process = None
        self._end()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.end()
            process = subprocess.Popen(  # noqa: S603  # this very interpreter, with this very module
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,  # what is typed at a terminal is not for it
            )
            self._end = weakref.finalize(self, _kill, process)
            _send(process, cbor2.dumps(self._introduction))
            _answer(process, time.monotonic() + START_SECONDS)
            self._process = process
        return self._process


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    process.wait()


def _send(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(len(data).to_bytes(_LENGTH) + data)
    process.stdin.flush()


def _answer(process: subprocess.Popen[bytes], deadline: float) -> Any:
    """What the process says in the end. What it says to begin before that is kept in case it does not end."""
    assert process.stdout is not None
    doing, left = "", b""
    while True:
        while len(left) < _LENGTH or len(left) < _LENGTH + int.from_bytes(left[:_LENGTH]):
            ready, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise CutOff(doing)
            data = os.read(process.stdout.fileno(), 65_536)
            if not data:
                raise OSError("the process that evaluates rules has ended")
            left += data
        size = _LENGTH + int.from_bytes(left[:_LENGTH])
        said, told = cbor2.loads(left[_LENGTH:size])
        left = left[size:]
        if said == "done":
            return told
        doing = told


# -- in the process ----------------------------------------------------------------------------------------------------


def _questions(stream: BinaryIO) -> Iterator[Any]:
    while len(head := stream.read(_LENGTH)) == _LENGTH:
        yield cbor2.loads(stream.read(int.from_bytes(head)))


def _say(said: str, told: Any) -> None:
    data = cbor2.dumps([said, told])
    sys.stdout.buffer.write(len(data).to_bytes(_LENGTH) + data)
    sys.stdout.buffer.flush()


def main() -> None:
    """Answer questions about one policy until nobody asks any more."""
    from holdfast.gate.policy.policy import parse

    questions = _questions(sys.stdin.buffer)
    text, source = next(questions)
    # What else the machine does must not count: only the time that this process itself has used does.
    policy = parse(text, source, clock=time.process_time_ns)
    _say("done", None)
    for question in questions:
        _say("done", policy.answer(question, lambda rule: _say("begun", rule)))


if __name__ == "__main__":
    main()
