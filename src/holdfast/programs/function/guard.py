"""The guard of workflow bodies: it judges what Python's audit hooks report while a body runs.

A body that reads a file, writes one or starts a thread does not do the same in its next replay. What Python does by
itself on a body's behalf is allowed: imports, with all that a module does when it is imported; tracebacks, which quote
source; time zones; logging, with its files.
"""

from __future__ import annotations

import logging
import os
import sys
import sysconfig
import zoneinfo
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final

log = logging.getLogger("holdfast.workflow")

BLOCKING: Final = frozenset(
    {
        "ftplib.connect",
        "http.client.connect",
        "os.system",
        "smtplib.connect",
        "socket.bind",
        "socket.connect",
        "socket.getaddrinfo",
        "socket.gethostbyname",
        "sqlite3.connect",
        "subprocess.Popen",
        "time.sleep",
        "urllib.Request",
    }
)
"""What no body and no handler may do, in any edition."""

_OPEN: Final = "open"
_THREADS: Final = frozenset({"_thread.start_new_thread", "_thread.start_joinable_thread"})
WATCHED: Final = BLOCKING | _THREADS | {_OPEN}
"""All that is judged in a body: the rest by edition 2, and runs that began before are warned of it."""

_LOOP: Final = "holdfast.programs.function.loop"
_ON_BEHALF: Final = frozenset({"importlib", "linecache", "logging", "pdb", "traceback", "zoneinfo"})
"""Modules of Python that open files, or start threads, wherever they are used."""

_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_warned: Final[set[tuple[str, str]]] = set()


def refuse_in_body(
    edition: int, workflow: str, event: str, args: tuple[Any, ...], refuse: Callable[[str], Any]
) -> None:
    """Call ``refuse`` if the body must not do this, by the rules of the edition that its run began with."""
    if event in BLOCKING:
        refuse(event)
    elif (what := _judge(event, args)) is not None:
        if edition >= 2:
            refuse(what)
        else:
            _warn(workflow, what)


def _judge(event: str, args: tuple[Any, ...]) -> str | None:
    """What the body did that it must not do, with its line; None if it may do that."""
    path, what = "", "starting a thread"
    if event == _OPEN:
        opened, _, flags = args
        if isinstance(opened, int):  # a descriptor that is open already
            return None
        path, writes = os.fsdecode(opened), flags & _WRITING
        if not writes and _is_code(path):
            return None
        what = f"opening {path!r} to {'write' if writes else 'read'}"
    line = None
    for frame in _frames_of_body(sys._getframe(1)):
        name = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if name in _ON_BEHALF or frame.f_code.co_filename == path:
            return None
        if line is None and name != "holdfast" and name not in sys.stdlib_module_names:
            line = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    return f"{what}, in {line}" if line is not None else what


def _frames_of_body(frame: FrameType | None) -> Iterator[FrameType]:
    """From the place where a hook was called out to the durable loop, which runs the body."""
    while frame is not None and frame.f_globals.get("__name__") != _LOOP:
        yield frame
        frame = frame.f_back


def _is_code(path: str) -> bool:
    """Whether a file is where code and the data of Python are: what it holds changes only with a deployment."""
    library = sysconfig.get_paths()
    folders = (*sys.path, *zoneinfo.TZPATH, library["stdlib"], library["platstdlib"])
    return any(Path(path).absolute().is_relative_to(Path(folder).absolute()) for folder in folders)


def _warn(workflow: str, what: str) -> None:
    """Log what a run that began before edition 2 did: once for each workflow and place."""
    if (workflow, what) not in _warned:
        _warned.add((workflow, what))
        line = "the body of workflow %s did what bodies of new runs are refused (%s): move it into a @step"
        log.warning(line, workflow, what)
