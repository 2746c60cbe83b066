"""The file of an operator's key: one for each store and port, so that the key is the same after a restart.

It is in the folder of this user's state. Only its user may read the file and the folder. A file or a folder that others
could read or have made, and a symbolic link, are refused: the key allows everything. Two servers that start at once
have the same key: a file appears under its name only once, and whole.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from holdfast.errors import InvalidOperatorKey, InvalidRequest
from holdfast.store.state_folder import made_folder, state_folder

_KEY: Final = re.compile(r"[A-Za-z0-9_-]{43}\n?")
_SENT: Final = re.compile(r"[A-Za-z0-9_-]{32,}")
_LONGEST: Final = 100
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe in its place would never answer
_MAKE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def check_key(key: str) -> None:
    """Raises InvalidRequest for a key that could be guessed, or could not be sent, such as an empty one."""
    if not _SENT.fullmatch(key):
        raise InvalidRequest("an operator's key has at least 32 characters: letters, digits, - and _.")


def new_key() -> str:
    """A key that cannot be guessed: 256 random bits."""
    return secrets.token_urlsafe(32)


def kept_key(store: str, port: int) -> str:
    """The key of the server of this store, by its URL, on this port; made if there is none yet.

    Raises InvalidOperatorKey if it cannot be kept, or if what is kept is not safe.
    """
    path = key_file(store, port)
    try:
        made_folder()
        with _opened(path.parent) as folder:
            try:
                return _read(path, folder)
            except FileNotFoundError:
                _write(path, folder)
                return _read(path, folder)
    except OSError as error:
        raise InvalidOperatorKey(
            f"no operator's key can be kept in {path}: {error.strerror}. Set XDG_STATE_HOME to a folder of your own."
        ) from error


def found_key(store: str, port: int) -> str:
    """The key of such a server that was started before. Raises InvalidOperatorKey."""
    path = key_file(store, port)
    try:
        with _opened(path.parent) as folder:
            return _read(path, folder)
    except OSError as error:
        raise InvalidOperatorKey(
            f"{path}: {error.strerror}. `holdfast serve --no-auth` makes it: give its --store and --port here, too."
        ) from error


def key_file(store: str, port: int) -> Path:
    """The file of that key. Raises InvalidOperatorKey if there is no folder for it."""
    folder = state_folder()
    if folder is None:
        raise InvalidOperatorKey(
            "no folder is known to keep the operator's key in: set HOME, or XDG_STATE_HOME, to a folder of your own."
        )
    digest = hashlib.sha256(_place_of(store).encode()).hexdigest()
    return folder / f"operator-{port}-{digest[:16]}.key"


def _place_of(store: str) -> str:
    """The store in one spelling, from whatever folder it is named, and without its password."""
    if store.startswith("postgres"):
        from holdfast.store.postgres.connection import shown

        return shown(store)
    scheme, mark, path = store.partition(":///")
    return f"{scheme}{mark}{os.path.realpath(path)}" if mark else store


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """The folder. Its files are opened in it, and not by their paths, so nobody can exchange it meanwhile."""
    found = _open(folder)
    try:
        _check(folder, found, is_folder=True)
        yield found
    finally:
        os.close(found)


def _read(path: Path, folder: int) -> str:
    file = _open(path, folder)
    try:
        _check(path, file, is_folder=False)
        text = os.read(file, _LONGEST).decode("latin-1")
    finally:
        os.close(file)
    if not _KEY.fullmatch(text):
        raise InvalidOperatorKey(f"{path} does not hold an operator's key: delete it, and start the server again.")
    return text.strip()


def _write(path: Path, folder: int) -> None:
    """Make the file. One that another server has made meanwhile stays."""
    draft = f"{path.name}.{secrets.token_hex(8)}"
    with os.fdopen(os.open(draft, _MAKE, 0o600, dir_fd=folder), "w", encoding="ascii") as file:
        try:
            file.write(f"{new_key()}\n")
            file.flush()
            os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(draft, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            os.unlink(draft, dir_fd=folder)


def _open(path: Path, folder: int | None = None) -> int:
    try:
        return os.open(path if folder is None else path.name, _READ, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InvalidOperatorKey(f"{path} is a symbolic link: remove it, and start the server again.") from error
        raise


def _check(path: Path, found: int, *, is_folder: bool) -> None:
    """Raises InvalidOperatorKey unless it is this user's, and nobody else can read or write it."""
    status = os.fstat(found)
    is_right = stat.S_ISDIR(status.st_mode) if is_folder else stat.S_ISREG(status.st_mode)
    if not is_right:
        raise InvalidOperatorKey(f"{path} is not a {'folder' if is_folder else 'file'}: remove it.")
    if status.st_uid != os.geteuid():
        raise InvalidOperatorKey(
            f"{path} belongs to another user: remove it, or set XDG_STATE_HOME to a folder of your own."
        )
    if (mode := stat.S_IMODE(status.st_mode)) & 0o077:
        remedy = f"run `chmod 700 {path}`" if is_folder else "they may know the key, so delete it"
        raise InvalidOperatorKey(f"{path} is open to others (mode {mode:o}): {remedy}, and start the server again.")
