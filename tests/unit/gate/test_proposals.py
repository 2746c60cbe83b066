"""A proposal's digest, which an approval is for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.gate.proposals import Proposal
from tests.unit.gate.policy.policies import PROPOSAL, proposal

CHANGES: dict[str, Any] = {
    "name": "close_incidents",
    "connector": "service",
    "operation": "incident.open",
    "target": "INC2",
    "fields": {"number": "INC1", "sum": 51},
    "writes": False,
    "risk": "high",
    "key": "k-2",
    "reverse": "reopen",
    "cost_estimate": 0.5,
}


def test_every_field_is_listed() -> None:
    """A new field must change the digest, too. The request is written from the fields, and the former key is an older
    form of the key."""
    assert set(CHANGES) | {"request", "former"} == set(Proposal.__struct_fields__)


@pytest.mark.parametrize("field", CHANGES)
def test_a_change_of_any_field_makes_another_proposal(field: str) -> None:
    """One field is enough."""
    assert proposal(**{field: CHANGES[field]}).digest() != PROPOSAL.digest()


def test_the_order_of_arguments_changes_nothing() -> None:
    """Arguments have names: two workers that list them in another order propose the same."""
    assert proposal(fields={"sum": 50, "number": "INC1"}).digest() == PROPOSAL.digest()


PROPOSALS = st.builds(
    proposal,
    name=st.text(max_size=3),
    connector=st.text(max_size=3),
    operation=st.text(max_size=3),
    target=st.text(max_size=3),
    fields=st.dictionaries(st.text(max_size=2), st.one_of(st.integers(), st.text(max_size=2), st.none()), max_size=2),
    writes=st.booleans(),
    risk=st.sampled_from(["low", "med", "high"]),
    key=st.text(max_size=3),
    reverse=st.one_of(st.none(), st.text(min_size=1, max_size=3)),
    cost_estimate=st.floats(min_value=0, allow_nan=False),
)


@given(PROPOSALS, PROPOSALS)
def test_two_proposals_share_a_digest_only_where_they_are_the_same(one: Proposal, other: Proposal) -> None:
    """The texts in it stay apart."""
    assert (one.digest() == other.digest()) == (one == other)


@given(PROPOSALS, st.data())
def test_moving_a_letter_from_one_text_to_the_next_is_a_change(one: Proposal, data: st.DataObject) -> None:
    """The classic mistake of hashing texts end to end."""
    texts = ["name", "connector", "operation", "target"]
    first = data.draw(st.sampled_from(texts[:-1]))
    second = texts[texts.index(first) + 1]
    text = getattr(one, first)
    if not text:
        return
    moved = msgspec.structs.replace(one, **{first: text[:-1], second: text[-1] + getattr(one, second)})
    assert moved.digest() != one.digest()
