"""Who acts, where nobody is bound: the process itself, which may do everything in every tenant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.runs.birth import DEFAULT_TENANT
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.people.binding import Binding


class Actor:
    """What the parts of a client ask about whoever acts. ``acting.ActingHoldfast`` answers for a bound user."""

    @property
    def binding(self) -> Binding | None:
        """The user that the client is bound to; None where it is the process's own."""
        return None

    def tenant_of(self, tenant: str | None) -> str:
        """The tenant that a call means: the given one, else the caller's own, else the default one."""
        return DEFAULT_TENANT if tenant is None else tenant

    def person_of(self, by: str | None) -> str | None:
        """The person who acts. Bound, it is the caller, and to name another raises NotPermitted."""
        return by

    def conditions(self) -> Sequence[p.ExpectItem]:
        """What must still hold when an act of the caller is committed; none where nobody is bound."""
        return ()
