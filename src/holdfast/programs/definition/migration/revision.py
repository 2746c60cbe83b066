"""A revision: the message by which a run is given another version of its definition.

It carries the canonical definition itself, so a replay needs nothing but the journal.
"""

from __future__ import annotations

from collections.abc import Callable

import cbor2
import msgspec

from holdfast.errors import InvalidDefinition
from holdfast.journal.cbor import canonical
from holdfast.journal.payload import Payload
from holdfast.journal.revisions import coded
from holdfast.programs.definition.interpreter.routine import Routine
from holdfast.programs.definition.migration.plan import RULES
from holdfast.programs.definition.model import Accepted

RoutineLoader = Callable[[bytes, str], Routine]


class AskedRevision(msgspec.Struct, frozen=True):
    """What a revision says. ``rules`` are those by which the run moves, now and in every replay."""

    rules: int
    version: int
    digest: str
    canonical: bytes


class Revision(msgspec.Struct, frozen=True, array_like=True):
    """What became of a revision: the run has moved, or it stays, for these reasons."""

    before: int  # versions
    after: int
    digest: str
    reasons: tuple[str, ...] = ()


def write_revision(accepted: Accepted) -> Payload:
    """The message that asks a run to move to this definition."""
    asked = AskedRevision(RULES, accepted.definition.version, accepted.digest, accepted.canonical)
    return coded(canonical(msgspec.structs.asdict(asked)), accepted.digest)


def read_revision(payload: Payload) -> AskedRevision:
    """The inverse of ``write_revision``. Raises InvalidDefinition where the run moves by rules that are not known here.

    By these rules it would stand elsewhere than by its own.
    """
    asked = AskedRevision(**cbor2.loads(payload.data))
    if asked.rules != RULES:
        raise InvalidDefinition(
            f"the run was moved to version {asked.version} by a newer Holdfast, whose rules of moves (number "
            f"{asked.rules}) are not known here: upgrade this worker, then resume the run"
        )
    return asked
