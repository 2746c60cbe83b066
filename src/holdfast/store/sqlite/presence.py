"""Detects at once that a worker on this host is dead: a living worker holds a lock on a file beside the database."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

try:
    from fcntl import LOCK_EX, LOCK_NB, flock

    HAS_LOCKS = True
except ImportError:  # not a POSIX system: leases end by expiry there
    HAS_LOCKS = False

STALE_SECONDS: Final = 60.0
"""Younger files are left alone: their workers may be about to lock them and register."""

_held: dict[Path, int] = {}


def _let_go_after_fork() -> None:
    # A forked child shares the lock. It may outlive this worker, which must not look alive then.
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
    if not HAS_LOCKS or path in _held:
        return
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    flock(descriptor, LOCK_EX | LOCK_NB)
    _held[path] = descriptor


def withdraw(database: str, worker: str) -> None:
    """Release the lock and remove its file."""
    path = _file(database, worker)
    descriptor = _held.pop(path, None)
    path.unlink(missing_ok=True)
    if descriptor is not None:
        os.close(descriptor)


def is_dead(database: str, worker: str) -> bool:
    """Whether the worker is known to be dead: its file exists and no process holds the lock on it."""
    path = _file(database, worker)
    if not HAS_LOCKS or path in _held:
        return False
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        flock(descriptor, LOCK_EX | LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def sweep(database: str, registered: Collection[str]) -> None:
    """Remove the files of workers that died after their announcement and before their registration."""
    place = Path(database)
    mark = f"{place.name}-"
    oldest = time.time() - STALE_SECONDS
    for file in list(place.parent.iterdir()):
        if not file.name.startswith(mark) or file.suffix != ".alive":
            continue
        worker = file.name.removeprefix(mark).removesuffix(".alive")
        try:
            stale = file.stat().st_mtime < oldest
        except OSError:  # another process was quicker
            continue
        if stale and worker not in registered and is_dead(database, worker):
            withdraw(database, worker)
