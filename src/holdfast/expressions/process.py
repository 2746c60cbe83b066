"""Work in another process, which ends if the work takes too much processor time or memory.

The engines of expressions hold Python's interpreter lock while they evaluate, and cannot be interrupted: in a thread
they would stop the whole process. The other process is started when it is first needed, is introduced to what it must
know, and ends with its parent. After it was ended, the next question starts another. Any thread may ask; it answers one
question at a time, and callers wait.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Final

import cbor2

START_SECONDS: Final = 30.0
BARE_ENVIRONMENT: Final[Mapping[str, str]] = {"TZ": "UTC", "LC_ALL": "C"}
"""The environment of a process that reads what others wrote: no secrets, and no home whose files a library reads."""
_LENGTH: Final = 8


class CutOff(Exception):
    """The process took too long, and has ended. ``doing`` is the last thing that it said it had begun."""

    def __init__(self, doing: str) -> None:
        super().__init__(doing)
        self.doing = doing


class ProcessEnded(OSError):
    """The process ended while it worked on a question: it needed more memory than it may use."""


class EvaluationProcess:
    """A process that runs ``module``, whose ``main`` reads ``questions`` and gives each a ``reply``."""

    def __init__(
        self,
        module: str,
        introduction: Any,
        cut_off_seconds: float,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._module = module
        self._introduction = introduction
        self._cut_off_seconds = cut_off_seconds
        self._environment = environment
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._end: Callable[[], Any] = lambda: None

    def ask(self, question: Any) -> Any:
        """The answer to a question. Raises CutOff, or OSError where no process can be started or it has ended."""
        data = cbor2.dumps(question)
        with self._lock:
            try:
                process = self._asked(data)
                return _answer(process, time.monotonic() + self._cut_off_seconds)
            except BaseException:
                self.end()
                raise

    def _asked(self, data: bytes) -> subprocess.Popen[bytes]:
        """The process with the question. One that was killed between two questions is replaced."""
        try:
            _send(process := self._started(), data)
        except BrokenPipeError:
            self.end()
            _send(process := self._started(), data)
        return process

    @property
    def is_running(self) -> bool:
        """Whether the process is there for the next question."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process if it does not run, so that the next question need not wait for that. Raises as ``ask``."""
        with self._lock:
            try:
                self._started()
            except BaseException:
                self.end()
                raise

    def stop(self) -> None:
        """End the process from another thread; one that waits for its answer gets ProcessEnded."""
        if self._lock.acquire(blocking=False):
            try:
                self.end()
            finally:
                self._lock.release()
        elif (process := self._process) is not None:
            process.kill()

    def end(self) -> None:
        """End the process at once."""
        self._process = None
        self._end()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.end()
            environment = os.environ if self._environment is None else self._environment
            process = subprocess.Popen(  # noqa: S603  # this very interpreter, with a module of ours
                [sys.executable, "-m", self._module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**environment, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,  # signals from the terminal do not reach it
            )
            self._end = weakref.finalize(self, _kill, process)
            self._process = process
            _send(process, cbor2.dumps(self._introduction))
            _answer(process, time.monotonic() + START_SECONDS)
        return self._process


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):  # a question that it did not read is still to be written
                pipe.close()
    process.wait()


def _send(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(len(data).to_bytes(_LENGTH) + data)
    process.stdin.flush()


def _answer(process: subprocess.Popen[bytes], deadline: float) -> Any:
    """The answer of the process. Before it come the names of what it begins: CutOff has the last one."""
    assert process.stdout is not None
    doing, unread = "", bytearray()  # bytes would be copied as a whole for each part that comes
    while True:
        while len(unread) < _LENGTH or len(unread) < _LENGTH + int.from_bytes(unread[:_LENGTH]):
            ready, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise CutOff(doing)
            data = os.read(process.stdout.fileno(), 65_536)
            if not data and process.wait() == -signal.SIGPROF:
                raise CutOff(doing)
            if not data:
                raise ProcessEnded("the process that was asked has ended")
            unread += data
        size = _LENGTH + int.from_bytes(unread[:_LENGTH])
        kind, content = cbor2.loads(bytes(unread[_LENGTH:size]))
        del unread[:size]
        if kind == "done":
            return content
        doing = content


# -- in the process ----------------------------------------------------------------------------------------------------


def questions(stream: BinaryIO) -> Iterator[Any]:
    """The introduction, then each question, until the input ends."""
    while len(head := stream.read(_LENGTH)) == _LENGTH:
        yield cbor2.loads(stream.read(int.from_bytes(head)))


_limited = False


def is_limited() -> bool:
    """Whether this is a process whose work is cut off, so that the engines may be called in it as they are."""
    return _limited


def limited(asked: Iterator[Any], seconds: float) -> Iterator[Any]:
    """The questions; this process ends if one takes it more seconds of its own processor time."""
    for question in asked:
        with cut_off(seconds):
            yield question


@contextmanager
def cut_off(seconds: float) -> Iterator[None]:
    """End this process if what is inside takes it more seconds of its own processor time.

    The system sees to it: no other process has to be awake for it, and how busy the machine is does not count.
    """
    global _limited
    _limited = True
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # it ends the process, also where a parent has ignored it
    signal.setitimer(signal.ITIMER_PROF, seconds)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)


def limit_memory(bytes: int) -> None:
    """This process can have so many bytes of memory: what needs more fails, or ends it."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (bytes, bytes))


def reply(kind: str, content: Any) -> None:
    """``done`` answers the last question; ``begun`` says before that what is under way."""
    data = cbor2.dumps([kind, content])
    sys.stdout.buffer.write(len(data).to_bytes(_LENGTH) + data)
    sys.stdout.buffer.flush()
