"""The calls of earlier generations while a retried run is on its way again: which it has met, and what each then gets.

==================================================  ==========================================================
a call of this kind and name                        then
==================================================  ==========================================================
meets one of equal input, which has an outcome      it gets that outcome, and nothing is done
meets one of equal input, which has none            it is done
meets none, and no result of its name is left       it is done
meets none, and a result of its name is left        RetryDiverged: the run is parked until a person answers
==================================================  ==========================================================

A person's answer for its name, or a call that is ``repeatable``, changes that: it is done, or gets the result that was
left. A replay counts in the same way which calls are met. It needs no outcome: those are in its journal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from typing import Final

import msgspec

from holdfast.errors import RetryDiverged
from holdfast.journal import events as e
from holdfast.journal.former import TIMER, Answers, Former, FormerCall, content_of, shown_input
from holdfast.journal.payload import Outcome
from holdfast.journal.quotes import SHORTEST, forms_of, without_forms
from holdfast.journal.secrecy import visible

_Content = tuple[str, str, bytes]

CHILD: Final = "workflow"


class Met(msgspec.Struct, frozen=True, gc=False):
    """What a call gets: the outcome of a former one, which ended as number ``order``, or None; and the number and place
    of its key."""

    outcome: Outcome | None = None
    order: int = 0
    again: int = 0
    place: int | None = None


class FormerCalls:
    """Those that a journal's start carries. ``answers`` gives what people have said so far, ``met`` are the numbers of
    those that were met before, where the run continues from a checkpoint."""

    def __init__(self, former: Former, answers: Callable[[], Answers], met: Collection[int] = ()) -> None:
        self.met = set(met)
        self.latest: FormerCall | None = None  # the one that the last call has met
        self._former = former
        self._answers = answers
        self._waiting: dict[_Content, deque[int]] = {}
        self._kept: dict[tuple[str, str], deque[int]] = {}
        self._used = dict(former.used)
        self._children = {each for each in former.children if each >= former.since}
        for number, call in enumerate(former.calls):
            self._waiting.setdefault((call.kind, call.name, call.input), deque()).append(number)
            if call.is_kept:
                self._kept.setdefault((call.kind, call.name), deque()).append(number)

    @property
    def left(self) -> list[FormerCall]:
        """Those that no call has met yet."""
        return [call for number, call in enumerate(self._former.calls) if number not in self.met]

    def free_from(self, position: int, content: _Content) -> int:
        """The first position from this one on that such a call can have."""
        while self._is_taken(position, content):
            position += 1
        return position

    def _is_taken(self, position: int, content: _Content) -> bool:
        """Whether another call than this one was a child at this position: its run is named after it, and what is
        answered under it must be known to be that child's end."""
        if position not in self._children:
            return False
        waiting = (self._former.calls[number] for number in self._waiting.get(content, ()) if number not in self.met)
        first = next(waiting, None)
        return first is None or first.key is None or first.key[0] != position

    def call(self, issued: e.InvokeScheduled, *, repeatable: bool, live: bool) -> Met:
        """What a new call gets. Raises RetryDiverged where it is ``live`` and a person must say."""
        position, self.latest = issued.promise_id.path[-1], None
        if position < self._former.since:  # it is in the journal, before the cut
            return Met(again=issued.again)
        found = self._meet(content_of(issued.kind, issued.function_name, issued.input, issued.undoes))
        answers = self._answers()
        is_again = repeatable or answers.new or issued.function_name in answers.again
        if found is None and not is_again and issued.undoes is None:
            found = self._kept_for_another(issued, answers, live=live)
        self.latest = found
        if found is None or found.key is None or (found.is_kept and is_again):
            return Met(again=max(issued.again, self._fresh_number(position)))
        place, again = found.key
        outcome = None if found.failure is not None and is_again else found.outcome
        return Met(outcome, found.order, again, None if place == position else place)

    def timer(self, position: int, duration: int) -> Met:
        """Whether a new timer counts as fired: one of equal duration has."""
        if position < self._former.since:
            return Met()
        found = self._meet((TIMER, "", str(duration).encode()))
        is_fired = found is not None and found.outcome is not None and not self._answers().new
        return Met(found.outcome, found.order) if found is not None and is_fired else Met()

    def _meet(self, call: _Content) -> FormerCall | None:
        waiting = self._waiting.get(call)
        while waiting:
            number = waiting.popleft()
            if number not in self.met:
                self.met.add(number)
                return self._former.calls[number]
        return None

    def _kept_for_another(self, issued: e.InvokeScheduled, answers: Answers, *, live: bool) -> FormerCall | None:
        """The oldest kept result of this name, which was for another input: a person may say that it counts."""
        kept = self._kept.get((issued.kind, issued.function_name), deque())
        while kept and kept[0] in self.met:
            kept.popleft()
        if not kept:
            return None
        found = self._former.calls[kept[0]]
        if issued.function_name in answers.others:
            return None
        if issued.function_name in answers.keep:
            self.met.add(kept.popleft())
            return found
        if live:
            shown = visible(issued)
            assert isinstance(shown, e.InvokeScheduled)
            forms = [form for form in forms_of(self._former.secrets) if len(form) >= SHORTEST]
            raise RetryDiverged(issued.function_name, found.shown, without_forms(shown_input(shown.input), forms))
        return None

    def _fresh_number(self, position: int) -> int:
        """The number of a new act at this position."""
        return self._used[position] + 1 if position in self._used else 0
