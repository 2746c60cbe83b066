"""The audit's note of what a person does to runs. It is committed with the act itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.errors import InvalidRequest
from holdfast.people.names import NAME, is_name
from holdfast.store.protocol import Note

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

UNNAMED: Final = "unnamed"
"""The person, where the caller names none."""


def operator_note(
    app: Holdfast,
    tenant: str,
    act: str,
    by: str | None,
    run: str | None,
    reason: str = "",
    details: Mapping[str, str] | None = None,
) -> Note:
    """The note of one act. Raises InvalidRequest where the person's name or the reason cannot be used.

    Its id is new: committed twice the note is kept once, and the same act a moment later has another note.
    """
    from holdfast.audit.notes import note
    from holdfast.audit.records import Operated

    by = app.person_of(by)
    if by is not None and not is_name(by):
        raise InvalidRequest(f"say who steers: {NAME}, not {by!a:.60}")
    check_reason(reason)
    record = Operated(app.clock.now(), act, by or UNNAMED, run, reason, details or {})
    return msgspec.structs.replace(note(tenant, run, record), id=app.token())


def check_reason(reason: object) -> None:
    """Raises InvalidRequest where the reason is no text."""
    if not isinstance(reason, str):
        raise InvalidRequest(f"the reason is a text, not {reason!r:.60}")
