"""A duty: what is done about items of one kind when they are due. Clients know what, and workers when."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from holdfast.store.protocol import ItemRow

Duty = Callable[[Sequence[ItemRow]], Awaitable[None]]
"""Does what is due about items of one kind and one tenant. An item is due until a change of it says otherwise."""
