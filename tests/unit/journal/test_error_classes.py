"""Classes of errors, and what programs may read of a failure."""

from __future__ import annotations

import json

import pytest

from holdfast import errors
from holdfast.journal.error_classes import CLASSES, class_of_name, error_class, error_members, written_details
from holdfast.journal.payload import Failure
from holdfast.journal.secrecy import scrubbed


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("builtins:TimeoutError", "timeout"),
        ("httpx:ReadTimeout", "timeout"),
        ("holdfast.errors:TransportTimeout", "timeout"),
        ("holdfast.errors:TaskExpired", "timeout"),
        ("holdfast.errors:ActionDenied", "authorisation"),
        ("holdfast.errors:NotAuthorised", "authorisation"),
        ("holdfast.errors:ServiceFailed", "transport"),
        ("builtins:ConnectionResetError", "transport"),
        ("holdfast.errors:InvalidDefinition", "definition"),
        ("holdfast.errors:StoreCorrupt", "consistency"),
        ("builtins:ValueError", "error"),
        ("somewhere:Outer.TimeoutError", "timeout"),
    ],
)
def test_a_failure_is_of_a_class_by_its_name(name: str, expected: str) -> None:
    """Whoever reads it needs neither the exception nor its library."""
    assert error_class(Failure(name, "")) == expected


def test_the_details_of_a_failure_come_before_its_name() -> None:
    """A library may have names of its own: whoever saw the exception says its class."""
    assert error_class(Failure("mine:Slow", "", "", '{"class":"timeout"}')) == "timeout"


@pytest.mark.parametrize(
    "kind", [errors.TransportFailed, *errors.TransportFailed.__subclasses__(), errors.SecretMissing]
)
def test_every_error_of_a_transport_has_a_class(kind: type[Exception]) -> None:
    """Else a definition could not route it."""
    assert class_of_name(kind.__name__) in CLASSES


def test_members_are_read_as_they_were_written() -> None:
    """Also what text alone could not carry."""
    members = {"status": 404, "body": 'a "b" \x00 ü', "url": "https://x/"}
    failure = Failure("x:Y", "", "", written_details(members))
    assert error_members(failure) == members
    assert "\x00" not in failure.details


@pytest.mark.parametrize("details", ["", "no json", "[1]", '"text"'])
def test_details_that_are_no_object_have_no_members(details: str) -> None:
    """A damaged record is no reason to fail."""
    assert error_members(Failure("x:Y", "", "", details)) == {}
    assert error_class(Failure("builtins:TimeoutError", "", "", details)) == "timeout"


def test_details_are_scrubbed_as_data() -> None:
    """A mask inside a text must not break it, and a number may be the secret itself."""
    members = {"body": 'said "s3cret"', "pin": 471147, "status": 404, "s3cret": 1}
    found = scrubbed(Failure("x:Y", "s3cret", "", written_details(members)), ["s3cret", "471147", "404"])
    assert found.message == "[secret]"
    assert json.loads(found.details) == {"body": 'said "[secret]"', "pin": "[secret]", "status": 404, "[secret]": 1}
