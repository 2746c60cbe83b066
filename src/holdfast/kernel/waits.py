"""What a blocked run waits for, as its row keeps it and people see it."""

from __future__ import annotations

import msgspec


class Wait(msgspec.Struct, frozen=True, gc=False):
    """One thing that a blocked run waits for, as people see it."""

    kind: str
    name: str
    position: int
    due: int | None = None
    run: str | None = None
    task: str | None = None
    place: int | None = None  # the position that its call has for others, if that is another
    receipt: str | None = None  # of an act that ``run`` takes back, or does under the key of this call
    by_key: bool = False  # whether it is the key
