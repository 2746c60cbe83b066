"""Secrets: masked wherever a call is shown, and taken out of the texts of errors."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidDefinition
from holdfast.gate.secrets import MASK, SHORTEST, Secrets
from holdfast.journal.payload import Failure

ARGUMENTS = ["token", "fields", "number"]


def secrets(*names: str) -> Secrets:
    return Secrets(names, ARGUMENTS, "pay")


@pytest.mark.parametrize(
    ("names", "given_", "shown"),
    [
        (("token",), {"token": "abcd", "number": 1}, {"token": MASK, "number": 1}),
        (("token",), {"token": None}, {"token": MASK}),
        (("token",), {"number": 1}, {"number": 1}),
        (("fields",), {"fields": {"a": "abcd"}}, {"fields": MASK}),
        (("fields.a",), {"fields": {"a": "abcd", "b": 2}}, {"fields": {"a": MASK, "b": 2}}),
        (("fields.a.b",), {"fields": {"a": {"b": 1, "c": 2}}}, {"fields": {"a": {"b": MASK, "c": 2}}}),
        (("fields.a",), {"fields": [{"a": 1}, {"a": 2, "b": 3}]}, {"fields": [{"a": MASK}, {"a": MASK, "b": 3}]}),
        (("fields.a",), {"fields": "no mapping"}, {"fields": "no mapping"}),
        (("token", "fields.a"), {"token": "x", "fields": {"a": 1}}, {"token": MASK, "fields": {"a": MASK}}),
    ],
)
def test_what_is_named_is_masked_and_nothing_else(names: tuple[str, ...], given_: Any, shown: Any) -> None:
    """By its path, also inside lists, and also where it is not there."""
    before = repr(given_)
    assert secrets(*names).mask(given_) == shown
    assert repr(given_) == before  # the call itself still needs them


def test_a_secret_that_no_call_has_is_refused() -> None:
    """A misspelt secret would be shown to everyone."""
    with pytest.raises(InvalidDefinition, match=r"action pay: secret= names 'tokne', which is no argument .*token, "):
        secrets("tokne")


def test_the_arguments_that_hold_a_secret_are_known() -> None:
    """Each by its own name, however deep the secret is."""
    assert secrets("token", "fields.a.b").names == {"token", "fields"}
    assert not secrets()


@pytest.mark.parametrize(
    ("value", "message", "left"),
    [
        ("s3cret", "bad token s3cret, s3cret!", f"bad token {MASK}, {MASK}!"),
        ("it's\nsecret", 'got "it\'s\\nsecret" there', f'got "{MASK}" there'),
        (123456, "pin 123456 is wrong", f"pin {MASK} is wrong"),
        ({"a": "first", "b": ["second"]}, "first and second", f"{MASK} and {MASK}"),
        ("abc", "abc is too short to look for", "abc is too short to look for"),
        ("abcdef", "abcd is a part only", "abcd is a part only"),
        (None, "None of it", MASK + " of it"),
    ],
)
def test_errors_do_not_quote_secrets(value: Any, message: str, left: str) -> None:
    """As they are, and as ``repr`` shows them; in the message and in the trace."""
    scrubbed = secrets("token").scrub(Failure("T", message, f"Traceback: {message}"), {"token": value})
    assert (scrubbed.type, scrubbed.message, scrubbed.trace) == ("T", left, f"Traceback: {left}")


def test_a_longer_secret_is_taken_out_before_one_that_it_contains() -> None:
    """Else the rest of it would stay."""
    found = secrets("token", "fields").scrub(
        Failure("T", "s3cret-long"), {"token": "s3cret", "fields": ["s3cret-long"]}
    )
    assert found.message == MASK


@given(st.text(min_size=SHORTEST, max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_no_text_around_it_saves_a_secret(secret: str, before: str, after: str) -> None:
    """Wherever it is quoted, it is gone."""
    scrubbed = secrets("token").scrub(Failure("T", before + secret + after), {"token": secret})
    assert secret not in scrubbed.message.replace(MASK, "\0")
