"""Knowing at once that a worker on this host is dead: it holds an operating-system lock on a file beside the database."""

from __future__ import annotations

import os
from pathlib import Path

try:
    import fcntl
except ImportError:  # not a POSIX system: leases end by expiry there
    fcntl = None  # type: ignore[assignment]

_held: dict[Path, int] = {}


def _let_go_after_fork() -> None:
    # A lock is shared with a forked child, which may outlive this worker and must not keep it looking alive.
    for descriptor in _held.values():
        os.close(descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_after_fork)


def _file(database: str, worker: str) -> Path:
    return Path(f"{database}-{worker}.alive")


def announce(database: str, worker: str) -> None:
    """Hold the worker's lock for as long as this process lives."""
    path = _file(database, worker)
    if fcntl is None or path in _held:
        return
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    _held[path] = descriptor


def withdraw(database: str, worker: str) -> None:
    """Let go of the lock and remove its file."""
    path = _file(database, worker)
    descriptor = _held.pop(path, None)
    path.unlink(missing_ok=True)
    if descriptor is not None:
        os.close(descriptor)


def is_dead(database: str, worker: str) -> bool:
    """Whether the worker is known to be dead: its file is there and nobody holds the lock on it."""
    path = _file(database, worker)
    if fcntl is None or path in _held:
        return False
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
