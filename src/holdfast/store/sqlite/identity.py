"""Whether the file that is open is still the file at its path.

SQLite goes on writing into a file that was deleted or replaced, and says nothing: what is acknowledged then is gone
with the last process that has it open. So the file is looked at during every commit, before its answer, while the disk
is waited for; and by the watch, for those who only read. A change that is acknowledged is in the file that had its name
when it was committed.
"""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.errors import StoreLost


class FileIdentity:
    """The database file, and its log, as they were when they were opened."""

    def __init__(self, path: str) -> None:
        self._path = str(Path(path).absolute())  # the process may change its folder
        self._log = f"{self._path}-wal"
        self._file = _identity(self._path)
        self._log_file: tuple[int, int] | None = None  # made by the first write of anyone
        self.lost = False

    def look(self) -> None:
        """Note whether another file, or none, has the name now. A file that is put back is itself again."""
        self.lost = _identity(self._path) != self._file or self._log_is_lost()

    def check(self) -> None:
        """Look, and raise StoreLost where the file is not there."""
        self.look()
        if self.lost:
            raise self.error()

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
