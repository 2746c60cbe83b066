"""Commands and programs as processes that begin in milliseconds: forked from a process that has loaded the package.

Each is a process of its own, with its own id, signals, folder, environment and files. To load the package is most of
the processor time of a command, and these tests start hundreds. What the start itself does is tested elsewhere, by
processes that a shell or ``subprocess`` starts.

The tests' process sends an order with open files over a socket; the server answers with the id of the new process, and
writes the exit code into the last of the files when the process has ended.
"""

from __future__ import annotations

import array
import atexit
import gc
import importlib
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from functools import cache
from pathlib import Path
from typing import IO

import msgspec

ROOT = Path(__file__).parents[1]
LOADED = ("cli", "client", "store", "worker")
MOST_BYTES = 1 << 20


class Order(msgspec.Struct):
    """``holdfast`` or a program with these arguments, begun in this folder with this environment."""

    program: str | None
    arguments: list[str]
    folder: str
    environment: dict[str, str]
    new_session: bool


class ForkedProcess:
    """What tests use of ``subprocess.Popen``, for a process that the server started."""

    def __init__(self, pid: int, status: int, stdout: IO[str] | None, stderr: IO[str] | None) -> None:
        self.pid = pid
        self.stdout, self.stderr = stdout, stderr
        self.returncode: int | None = None
        self._status = status

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, and return the exit code: negative for the signal that ended it."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
            told = os.read(self._status, 100)
            os.close(self._status)
            assert told, "the fork server died"
            self.returncode = int(told)
        return self.returncode

    def poll(self) -> int | None:
        if self.returncode is None and not select.select([self._status], [], [], 0)[0]:
            return None
        return self.wait(0)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float) -> tuple[str, str]:
        """What it still prints to its end, on stdout and on stderr."""
        deadline = time.monotonic() + timeout
        printed = ["", ""]

        def read(number: int, stream: IO[str]) -> None:
            with stream:
                printed[number] = stream.read()

        open_streams = [
            (number, each)
            for number, each in enumerate((self.stdout, self.stderr))
            if each is not None and not each.closed
        ]
        readers = [threading.Thread(target=read, args=each, daemon=True) for each in open_streams]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(max(0.0, deadline - time.monotonic()))
            if reader.is_alive():
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        self.wait(max(0.0, deadline - time.monotonic()))
        return printed[0], printed[1]


class ForkServer:
    """The process that has loaded the package, seen from the tests' process."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-W", "error", "-m", __name__, str(theirs.fileno())]
            self._process = subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()], start_new_session=True)

    def start(
        self,
        arguments: list[str],
        folder: Path,
        environment: dict[str, str],
        *,
        program: Path | None = None,
        output: IO[bytes] | None = None,
        new_session: bool = False,
    ) -> ForkedProcess:
        """Start ``holdfast`` with these arguments. It prints into ``output``, or else into two pipes.

        ``program`` is a file that is run instead. In it every warning is an error.
        """
        order = Order(None if program is None else str(program), arguments, str(folder), environment, new_session)
        pipes = [os.pipe() for _ in range(1 if output is not None else 3)]
        with Path(os.devnull).open("rb") as nothing:
            printing = [end for _, end in pipes[1:]] or [output.fileno() if output is not None else -1] * 2
            files = array.array("i", [nothing.fileno(), *printing, pipes[0][1]])
            passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)]
            self._control.sendmsg([msgspec.json.encode(order)], passed)
        for _, end in pipes:
            os.close(end)
        pid = int(self._control.recv(100))
        streams = [os.fdopen(end, encoding="utf-8", errors="replace") for end, _ in pipes[1:]] or [None, None]
        return ForkedProcess(pid, pipes[0][0], streams[0], streams[1])

    def close(self) -> None:
        self._control.close()
        self._process.wait(60)


@cache
def fork_server() -> ForkServer:
    """The one server of the tests' process."""
    started = ForkServer()
    atexit.register(started.close)
    return started


# -- in the server's process ---------------------------------------------------------------------------------------


def _load() -> None:
    import holdfast

    for part in LOADED:
        folders = [f"{folder}/{part}" for folder in holdfast.__path__]
        for module in pkgutil.walk_packages(folders, f"holdfast.{part}."):
            importlib.import_module(module.name)
    assert threading.active_count() == 1, "a fork of a process with threads may wait for ever"
    gc.collect()
    gc.freeze()


def _serve(control: socket.socket) -> Order | None:
    """Answer orders until the tests' process closes its end. In each new process, return its order."""
    woken, wakes = os.pipe()
    for end in (woken, wakes):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    running: dict[int, int] = {}
    while True:
        if woken in select.select([control, woken], [], [])[0]:
            os.read(woken, 4096)
            _reap(running)
            continue
        data, files, _, _ = socket.recv_fds(control, MOST_BYTES, 4)
        if not data:
            return None
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            for end in (woken, wakes, files[3], *running.values()):
                os.close(end)
            control.close()
            order = msgspec.json.decode(data, type=Order)
            _become(order, files[:3])
            return order
        running[pid] = files[3]
        for end in files[:3]:
            os.close(end)
        control.send(str(pid).encode())


def _reap(running: dict[int, int]) -> None:
    for pid, status in list(running.items()):
        ended, code = os.waitpid(pid, os.WNOHANG)
        if ended:
            os.write(status, str(os.waitstatus_to_exitcode(code)).encode())
            os.close(status)
            del running[pid]


def _become(order: Order, files: list[int]) -> None:
    """Make this process like one that was started with the order."""
    if order.new_session:
        os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(order.folder)
    os.environ.clear()
    os.environ.update(order.environment)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
    sys.path[0] = order.folder if order.program is None else str(Path(order.program).parent)
    sys.argv[:] = [order.program or "holdfast", *order.arguments]
    if order.program is None:
        warnings.resetwarnings()
        warnings.simplefilter("ignore")
    sys.dont_write_bytecode = bool(order.environment.get("PYTHONDONTWRITEBYTECODE"))


if __name__ == "__main__":
    _load()
    if order := _serve(socket.socket(fileno=int(sys.argv[1]))):
        if order.program is not None:
            runpy.run_path(order.program, run_name="__main__")
        else:
            from holdfast.cli.main import main

            main()
