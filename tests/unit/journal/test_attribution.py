"""Who gave a value: recorded beside its bytes, which stay the same."""

from __future__ import annotations

import pytest

from holdfast.journal.attribution import decided_by, decider_of, given_by, giver_of, is_given
from holdfast.journal.payload import CONTINUED, NOTHING, Err, Failure, Ok, Payload
from holdfast.journal.render import payload as rendered

ANN = given_by(Payload(b"\x01"), "ann; by=x")


def test_a_name_is_read_back_whatever_it_contains_and_the_bytes_stay() -> None:
    assert (giver_of(ANN), ANN.data) == ("ann; by=x", b"\x01")
    assert rendered(ANN) == "1"


@pytest.mark.parametrize("payload", [NOTHING, Payload(b"\x01", CONTINUED), Payload(b"\x01", "cbor;secret=[]")])
def test_other_values_name_nobody(payload: Payload) -> None:
    assert giver_of(payload) is None
    assert not is_given(payload.codec)
    assert given_by(payload, None) is payload


def test_only_a_plain_value_gets_a_name() -> None:
    """A call that names its secrets keeps that name: else they would be shown."""
    call = Payload(b"\x01", "cbor;secret=[]")
    assert given_by(call, "ann") is call


def test_an_error_has_its_name_among_its_details() -> None:
    failed = Err(Failure("holdfast.errors:ApprovalRejected", "no", "", '{"status":3}'))
    named = decided_by(failed, "bob")
    assert decider_of(named) == "bob"
    assert isinstance(named, Err)
    assert named.failure.details == '{"by":"bob","status":3}'
    assert decider_of(failed) is None
    assert decider_of(None) is None
    assert decided_by(failed, None) is failed


def test_an_outcome_has_the_name_of_its_value() -> None:
    assert decider_of(decided_by(Ok(Payload(b"\x01")), "ann")) == "ann"
