"""The join sets of one journal: their members, and the members whose results were taken.

A set whose results were all taken is forgotten, and its position is settled like that of a call. A model's sets are
kept.
"""

from __future__ import annotations

from holdfast.errors import LawBroken
from holdfast.journal import events as e
from holdfast.journal.positions import Positions
from holdfast.journal.promise import JoinSetId, PromiseId


class JoinSetState:
    """The facts that later events about one join set are judged by."""

    __slots__ = ("awaited", "consumed", "members", "submitted")

    def __init__(self) -> None:
        self.members: set[PromiseId] = set()
        self.submitted = 0
        self.consumed: set[PromiseId] = set()
        self.awaited = 0


class JoinSets:
    """All open join sets, and the owner of each promise. ``resolved`` is the ledger's.

    ``notes`` are breaks of laws that journals of older editions may have; a checkpoint does not keep them.
    """

    __slots__ = ("_resolved", "_strict", "notes", "open", "owners")

    def __init__(self, resolved: Positions, *, strict: bool) -> None:
        self.open: dict[JoinSetId, JoinSetState] = {}
        self.owners: dict[PromiseId, JoinSetId] = {}
        self.notes: list[LawBroken] = []
        self._resolved = resolved
        self._strict = strict

    def submit(self, event: e.JoinSetSubmitted, *, is_open: bool, edition: int) -> None:
        """Judge a submission and fold it in. Raises LawBroken.

        A call that is not ``is_open`` any more, and has no owner, was taken from its set before: that is only noted of
        the editions 0 and 1.
        """
        state = self.open.get(event.join_set_id)
        if self._is_over(event.join_set_id) if state is None else state.awaited:
            raise LawBroken("JS-2", f"{event.join_set_id} was submitted to after it was awaited")
        if state is None:
            raise LawBroken("JS-1", f"{event.join_set_id} was submitted to and never created")
        if self.owners.setdefault(event.promise_id, event.join_set_id) != event.join_set_id:
            raise LawBroken("JS-7", f"{event.promise_id} belongs to {self.owners[event.promise_id]}")
        if not is_open and self._strict and event.promise_id in self._resolved:
            broken = LawBroken(
                "JS-7", f"{event.promise_id} was submitted to {event.join_set_id} after its result was taken"
            )
            if edition >= 2:
                del self.owners[event.promise_id]
                raise broken
            self.notes.append(broken)
        state.members.add(event.promise_id)
        state.submitted += 1

    def check(self, event: e.JoinSetAwaited, *, completed: bool) -> None:
        """Judge the taking of a result whose promise is ``completed`` or not. Raises LawBroken."""
        state = self.open.get(event.join_set_id)
        promise = event.promise_id
        if state is None and self._is_over(event.join_set_id):
            raise LawBroken("JS-6", f"{event.join_set_id} was awaited more often than submitted to")
        if state is None or promise not in state.members:
            raise LawBroken("JS-3", f"{promise} is no member of {event.join_set_id}")
        if not completed:
            raise LawBroken("JS-4", f"{promise} was awaited before it completed")
        if state.awaited >= state.submitted:
            raise LawBroken("JS-6", f"{event.join_set_id} was awaited more often than submitted to")
        if promise in state.consumed:
            raise LawBroken("JS-5", f"{promise} was consumed before")

    def take(self, event: e.JoinSetAwaited) -> None:
        """Fold in the taking of a result that was checked."""
        state = self.open[event.join_set_id]
        state.consumed.add(event.promise_id)
        state.awaited += 1
        if self._strict and state.awaited == state.submitted:
            del self.open[event.join_set_id]
            for promise in state.members:
                self.owners.pop(promise, None)
            self._resolved.add(event.join_set_id.position)

    def _is_over(self, join_set: JoinSetId) -> bool:
        return self._strict and join_set.position in self._resolved
