"""A store from its URL."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from holdfast.errors import UnsupportedStore
from holdfast.store.protocol import Store


def store_at(url: str) -> Store:
    """The store that a URL names, not opened yet. Raises UnsupportedStore."""
    scheme = urlsplit(url).scheme
    match scheme:
        case "memory":
            from holdfast.store.memory import MemoryStore

            return MemoryStore()
        case "sqlite":
            from holdfast.store.sqlite.store import SqliteStore

            return SqliteStore(_path(url))
        case "postgresql" | "postgres":
            from holdfast.store.postgres.store import PostgresStore

            return PostgresStore(url)
        case _:
            raise UnsupportedStore(
                f"{url!r} names no store: use sqlite:///FILE, postgresql://USER@HOST/DATABASE, or memory://"
            )


def store_of(given: str | Store) -> Store:
    """The store that a URL names, or the given one. Raises UnsupportedStore, for None from a missing setting, say."""
    if isinstance(given, str):
        return store_at(given)
    if not callable(getattr(given, "commit", None)):
        raise UnsupportedStore(
            f"{given!r:.60} names no store: give a URL, sqlite:///FILE or postgresql://USER@HOST/DATABASE, or a store."
        )
    return given


def _path(url: str) -> str:
    """``sqlite:///shop.db`` is relative, ``sqlite:////var/shop.db`` absolute."""
    rest = url.removeprefix("sqlite:")
    if not rest.startswith("///"):
        raise UnsupportedStore(
            f"{url!r}: a SQLite URL has three slashes before a relative path, four before an absolute one"
        )
    return unquote(rest.removeprefix("///"))
