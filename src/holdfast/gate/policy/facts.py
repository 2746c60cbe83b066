"""Gives CEL the facts about an action that a rule uses, and no others.

There are two ways, which must agree. ``nested`` builds the maps that an expression is written over; it is simple and
slow. ``Sheet`` gives flat variables, one for each fact.
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
"""A longer text is not remembered, because it would hardly come again."""

Values = tuple[Any, ...]


class _Absent:
    """The value of an entry that a map does not have."""


ABSENT: Final = _Absent()
_LASTING: Final = frozenset({str, int, bool, type(None), _Absent})
"""Types whose equal values are the same fact. Floats are not: 0.0 equals -0.0. Lists are not: they can change."""


def nested(facts: Iterable[Fact], proposal: Proposal, run: RunFacts, now: int) -> dict[str, Any]:
    """The variables of an expression, with these facts only."""
    variables: dict[str, Any] = {}
    for fact in sorted(facts, key=lambda fact: fact.presence):
        if fact.root == "time":
            variables["time"] = _moment(now)
            continue
        root = variables.setdefault(fact.root, {})
        members = (fact.member,) if fact.member else MEMBERS[fact.root]
        for member in members:
            if fact.root == "actor" and run.actor is None:  # CEL then reports a missing key
                continue
            value = _member(fact.root, member, proposal, run)
            if fact.entry is None:
                root[member] = dict(value) if isinstance(value, Mapping) else value
            elif fact.entry in value:
                # Where only presence matters, the value is left out: CEL may not be able to take it.
                root.setdefault(member, {}).setdefault(fact.entry, True if fact.presence else value[fact.entry])
            else:
                root.setdefault(member, {})
    return variables


def value_of(fact: Fact, proposal: Proposal, run: RunFacts) -> Any:
    """The value of a fact: a member, an entry of one, or all members; None where it is missing."""
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
    """The facts that all rules together use, as flat variables. Threads may share it."""

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
        """The values of all members that rules use."""
        return self._of_action(proposal) + self._of_run(run)

    def entries(self, proposal: Proposal, run: RunFacts) -> Values:
        """The values of all entries of maps that rules use, and which entries are present."""
        if not self._entries:
            return ()
        fields, attributes = proposal.fields, run.attributes
        values = [fields.get(entry, ABSENT) for entry in self._fields]
        if self._attributes:
            values += [attributes.get(entry, ABSENT) for entry in self._attributes]
        if self._has_fields:
            values += [entry in fields for entry in self._has_fields]
        if self._has_attributes:
            values += [entry in attributes for entry in self._has_attributes]
        return tuple(values)

    def key(self, simple: Values, entries: Values) -> Values | None:
        """The key under which a ruling over these values is remembered; None where it is not.

        The types of fields are in the key, because 1, 1.0 and True are equal in Python and differ in CEL.
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
        """The flat variables; a missing entry has none."""
        named = dict(zip((*self._simple, *self._entries), (*simple, *entries), strict=True))
        present = {name: value for name, value in named.items() if value is not ABSENT}
        if present.get(_ACTOR, ABSENT) is None:
            del present[_ACTOR]
        if _COST in present:
            present[_COST] = float(present[_COST]) + 0.0
        for fact in self._wholes:
            whole = nested((fact,), proposal, run, now)[fact.root]
            present[fact.variable] = whole[fact.member] if fact.member else whole
        return present


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
