"""Whether the file that is open is still the file at its path.

SQLite keeps writing into a file that was deleted or replaced, without an error. Changes that are acknowledged then are
lost with the last process that has the file open. So every commit checks the file before its answer, during the wait
for the disk; the watch checks it for processes that only read. An acknowledged change is in the file that had this path
when it was committed.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path

from holdfast.errors import StoreLost


class FileIdentity:
    """The database file, and its log, as they were when they were opened."""

    def __init__(self, path: str) -> None:
        self._path = str(Path(path).absolute())  # the process may change its folder
        self._log = f"{self._path}-wal"
        self._file = _identity(self._path)
        self._log_file: tuple[int, int] | None = None  # created by the first write of any process
        self.lost = False

    def look(self) -> None:
        """Note whether another file, or none, has the path now. A file that is put back is accepted again."""
        self.lost = _identity(self._path) != self._file or self._log_is_lost()

    def check(self) -> None:
        """Look, and raise StoreLost where the file is missing or replaced."""
        self.look()
        if self.lost:
            raise self.error()

    def name(self) -> str:
        """The file by its place on this machine, whatever path leads to it: only its processes can share the file.

        Containers of a machine have names of their own, but one kernel.
        """
        try:
            machine = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        except OSError:
            machine = platform.node()
        return f"sqlite {machine} {self._file}"

    def error(self) -> StoreLost:
        return StoreLost(
            f"{self._path} was deleted or replaced while it was in use, and what is written now would be lost with "
            "this process. Put the file back, with its -wal, or restore a backup; then restart every worker and "
            "client that uses it."
        )

    def _log_is_lost(self) -> bool:
        found = _identity(self._log)
        if self._log_file is None:
            self._log_file = found
        return found != self._log_file


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116  # after every commit: a Path would cost more than the look
    except OSError:
        return None
    return status.st_dev, status.st_ino
