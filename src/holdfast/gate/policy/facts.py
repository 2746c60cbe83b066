"""Hands facts about an action to CEL: all that a rule asks for, and nothing else.

Two ways that must agree. ``nested`` builds the maps that an expression is written over; it is plain and slow. ``Sheet``
gives flat variables, one for each fact.
"""

from __future__ import annotations

import datetime
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from holdfast.gate.policy.expressions import MEMBERS, Fact
from holdfast.gate.proposals import Proposal, RunFacts

EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_ACTOR: Final = Fact("actor", "name").variable
_COST: Final = Fact("action", "cost_estimate").variable
LONGEST_TEXT: Final = 256
"""A longer text is not remembered: it would hardly come again, and would be kept for nothing."""

Values = tuple[Any, ...]


class _Absent:
    """Stands for an entry that a map does not have."""


ABSENT: Final = _Absent()
_LASTING: Final = frozenset({str, int, bool, type(None), _Absent})
"""Types whose equal values are the same fact. Not floats: 0.0 equals -0.0. Not lists: they change in place."""


def nested(facts: Iterable[Fact], proposal: Proposal, run: RunFacts, now: int) -> dict[str, Any]:
    """The variables of an expression, as far as it asks for them."""
    found: dict[str, Any] = {}
    for fact in sorted(facts, key=lambda fact: fact.presence):
        if fact.root == "time":
            found["time"] = _moment(now)
            continue
        root = found.setdefault(fact.root, {})
        members = (fact.member,) if fact.member else MEMBERS[fact.root]
        for member in members:
            if fact.root == "actor" and run.actor is None:  # CEL says then that there is none
                continue
            value = _member(fact.root, member, proposal, run)
            if fact.entry is None:
                root[member] = dict(value) if isinstance(value, Mapping) else value
            elif fact.entry in value:
                # Where only presence is asked for, the value might be one that CEL cannot take.
                root.setdefault(member, {}).setdefault(fact.entry, True if fact.presence else value[fact.entry])
            else:
                root.setdefault(member, {})
    return found


def value_of(fact: Fact, proposal: Proposal, run: RunFacts) -> Any:
    """What a fact is: a member, an entry of one, or all members; None where it is not there."""
    if fact.root == "time" or fact.presence:
        return None
    if not fact.member:
        return [_member(fact.root, member, proposal, run) for member in MEMBERS[fact.root]]
    value = _member(fact.root, fact.member, proposal, run)
    return value if fact.entry is None else value.get(fact.entry)


def _member(root: str, member: str, proposal: Proposal, run: RunFacts) -> Any:
    if root == "actor":
        return run.actor
    value = getattr(proposal if root == "action" else run, member)
    # Adding zero turns -0.0 into 0.0, which is the same cost.
    return float(value) + 0.0 if member == "cost_estimate" else value


def _moment(now: int) -> datetime.datetime:
    return EPOCH + datetime.timedelta(microseconds=now)


class Sheet:
    """The facts that all rules together ask for, as flat variables. Threads may share it."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        wanted = sorted(facts, key=lambda fact: (fact.variable, fact.presence))
        simple = [fact for fact in wanted if fact.member and fact.entry is None and fact.member not in _MAPS]
        action = [fact for fact in simple if fact.root == "action"]
        others = [fact for fact in simple if fact.root != "action"]
        self._of_action = _getter([fact.member for fact in action])
        self._of_run = _getter(["actor" if fact.root == "actor" else fact.member for fact in others])
        parts = {
            (member, presence): [fact for fact in wanted if fact[1::2] == (member, presence) and fact.entry is not None]
            for presence in (False, True)
            for member in _MAPS
        }
        self._fields, self._attributes, self._has_fields, self._has_attributes = (
            tuple(fact.entry or "" for fact in part) for part in parts.values()
        )
        self._simple = tuple(fact.variable for fact in (*action, *others))
        self._entries = tuple(fact.variable for part in parts.values() for fact in part)
        self._wholes = tuple(fact for fact in wanted if fact.root == "time" or not fact.member or _is_map(fact))
        self.lasting = not self._wholes
        """Whether two actions with equal keys have the same facts."""

    def simple(self, proposal: Proposal, run: RunFacts) -> Values:
        """The values of all members that rules ask for."""
        return self._of_action(proposal) + self._of_run(run)

    def entries(self, proposal: Proposal, run: RunFacts) -> Values:
        """The values of all entries of maps that rules ask for, and which are there."""
        if not self._entries:
            return ()
        fields, attributes = proposal.fields, run.attributes
        found = [fields.get(entry, ABSENT) for entry in self._fields]
        if self._attributes:
            found += [attributes.get(entry, ABSENT) for entry in self._attributes]
        if self._has_fields:
            found += [entry in fields for entry in self._has_fields]
        if self._has_attributes:
            found += [entry in attributes for entry in self._has_attributes]
        return tuple(found)

    def key(self, simple: Values, entries: Values) -> Values | None:
        """What a ruling over these values can be remembered by; None where it cannot.

        A field may be anything, and 1, 1.0 and True are equal here and differ in CEL: so its type is in the key.
        """
        if not entries:
            return simple
        kinds = tuple(map(type, entries))
        if not _LASTING.issuperset(kinds):
            return None
        for value in entries:
            if type(value) is str and len(value) > LONGEST_TEXT:
                return None
        return simple, entries, kinds

    def variables(self, simple: Values, entries: Values, proposal: Proposal, run: RunFacts, now: int) -> dict[str, Any]:
        """The flat variables; what is not there has none."""
        given = dict(zip((*self._simple, *self._entries), (*simple, *entries), strict=True))
        found = {name: value for name, value in given.items() if value is not ABSENT}
        if found.get(_ACTOR, ABSENT) is None:
            del found[_ACTOR]
        if _COST in found:
            found[_COST] = float(found[_COST]) + 0.0
        for fact in self._wholes:
            whole = nested((fact,), proposal, run, now)[fact.root]
            found[fact.variable] = whole[fact.member] if fact.member else whole
        return found


_MAPS: Final = ("fields", "attributes")


def _is_map(fact: Fact) -> bool:
    return fact.member in _MAPS and fact.entry is None


def _getter(names: list[str]) -> Callable[[Any], Values]:
    """Attributes as a tuple. ``attrgetter`` makes one only of two or more."""
    if len(names) > 1:
        return operator.attrgetter(*names)
    if names:
        (name,) = names
        return lambda thing: (getattr(thing, name),)
    return lambda _: ()
