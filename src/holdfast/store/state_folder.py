"""The folder of this user's state, for the few small files that belong to a process and not to its database.

It is ``holdfast`` below ``$XDG_STATE_HOME``, or below ``~/.local/state``.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path


def state_folder() -> Path | None:
    """The folder, which may not exist yet; None where neither variable names one."""
    state, home = Path(os.environ.get("XDG_STATE_HOME", "")), Path(os.environ.get("HOME", ""))
    if state.is_absolute():  # by its specification, any other is ignored
        return state / "holdfast"
    if home.is_absolute():
        return home / ".local" / "state" / "holdfast"
    return None


def made_folder() -> Path | None:
    """The folder, made if it is missing, for this user alone. None where there is none. Raises OSError."""
    folder = state_folder()
    if folder is not None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            folder.mkdir(0o700)
    return folder


def replace_file(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old one or the new one, whole. Raises OSError."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
