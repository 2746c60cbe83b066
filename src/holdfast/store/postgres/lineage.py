"""The lineage of a server, and the newest one that this host has seen, kept in a small file.

A process that starts when only the old primary can be reached would know nothing of the promotion. Another process of
the same user on the same host may have seen it, and has left a note. The file is a help and no authority: without it,
or where it cannot be read, a process begins without that knowledge.
"""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from typing import NamedTuple

import msgspec

from holdfast.store.postgres.hosts import place_of
from holdfast.store.state_folder import made_folder, replace_file, state_folder

log = logging.getLogger("holdfast.store")


class Lineage(NamedTuple):
    """A cluster, and which of its primaries: every promotion begins a new timeline."""

    system: int
    timeline: int

    def replaces(self, other: Lineage | None) -> bool:
        return other is not None and self.system == other.system and self.timeline > other.timeline


class LineageFile:
    """The newest lineage that was seen behind a URL."""

    def __init__(self, url: str) -> None:
        folder = state_folder()
        name = f"cluster-{hashlib.sha256(place_of(url).encode()).hexdigest()[:16]}.json"
        self.path: Path | None = None if folder is None else folder / name

    def read(self) -> Lineage | None:
        """The lineage; None where none is known."""
        if self.path is None:
            return None
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=Lineage)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            log.warning("%s cannot be read, and is not used: %s", self.path, error)
            return None

    def write(self, lineage: Lineage) -> None:
        """Keep a lineage, unless a newer one of the same cluster is there."""
        present = self.read()
        if self.path is None or present == lineage or (present is not None and present.replaces(lineage)):
            return
        try:
            made_folder()
            replace_file(self.path, msgspec.json.encode(lineage).decode())
        except OSError as error:
            log.debug("the lineage of the cluster is not kept: %s", error)
