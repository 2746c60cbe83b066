"""What a run waits for, read from its row."""

from __future__ import annotations

import msgspec

from holdfast.errors import StoreCorrupt
from holdfast.kernel.waits import Wait
from holdfast.store.protocol import Run


def waits_of(run: Run) -> list[Wait]:
    """What the run waits for, from its row. Raises StoreCorrupt where that cannot be read."""
    try:
        return msgspec.json.decode(run.waiting, type=list[Wait]) if run.waiting else []
    except msgspec.DecodeError as error:
        raise StoreCorrupt(
            f"what run {run.key.run!r} of tenant {run.key.tenant!r} waits for cannot be read ({error}): "
            "restore it from a backup."
        ) from error
