"""What a run waits for, read from its row."""

from __future__ import annotations

import msgspec

from holdfast.errors import StoreCorrupt
from holdfast.journal.events import LEAVE_CHILDREN
from holdfast.kernel.waits import Wait
from holdfast.store.protocol import Run


def waits_of(run: Run) -> list[Wait]:
    """What the run waits for, from its row. Raises StoreCorrupt where that cannot be read."""
    return [wait for wait in _all_waits(run) if wait.name != LEAVE_CHILDREN]


def may_leave_children(run: Run) -> bool:
    """Whether the run only waits for its children to end, and a person may let it end without them."""
    return any(wait.name == LEAVE_CHILDREN for wait in _all_waits(run))


def _all_waits(run: Run) -> list[Wait]:
    try:
        return msgspec.json.decode(run.waiting, type=list[Wait]) if run.waiting else []
    except msgspec.DecodeError as error:
        raise StoreCorrupt(
            f"what run {run.key.run!r} of tenant {run.key.tenant!r} waits for cannot be read ({error}): "
            "restore it from a backup."
        ) from error
