"""How the values of options are read."""

from __future__ import annotations

import datetime

import click
import pytest

from holdfast.cli import options
from holdfast.cli.runs.worker import Queues


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("15m", 900), ("36h", 129600), ("1.5d", 129600), ("1d12h", 129600), ("2w", 1209600)],
)
def test_a_duration_has_a_unit_and_adds_up(text: str, seconds: float) -> None:
    """A number means nothing without its unit; several parts are one length."""
    assert options.Duration().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "90", "d", "-1d", "1y", "1d 2h", "soon"])
def test_what_is_no_duration_is_refused_with_examples(text: str) -> None:
    """Nothing is guessed: a deletion may depend on it."""
    with pytest.raises(click.BadParameter, match="write 90s, 15m"):
        options.Duration().convert(text, None, None)


def test_a_time_without_a_zone_is_utc() -> None:
    """What the command line shows is UTC, so what it reads is, too."""
    expected = datetime.datetime(2026, 5, 1, 12, tzinfo=datetime.UTC)
    for text in ("2026-05-01T12:00", "2026-05-01T12:00:00Z", "2026-05-01T14:00:00+02:00"):
        assert options.Moment().convert(text, None, None) == expected


def test_a_time_may_be_so_long_ago() -> None:
    """``2h`` means two hours before now."""
    ago = datetime.datetime.now(datetime.UTC) - options.Moment().convert("2h", None, None)
    assert abs(ago.total_seconds() - 7200) < 60


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("true", True),
        ("null", None),
        ('{"a": [1]}', {"a": [1]}),
        ('"3"', "3"),
        ("hello", "hello"),
        ("o-1", "o-1"),
    ],
)
def test_a_value_is_json_or_else_plain_text(text: str, value: object) -> None:
    """Numbers, booleans and objects need no second quotes, and a word is a text."""
    assert options.value_of(text) == value


@pytest.mark.parametrize("text", ['{"a": 1', "[1,", '"open', "{a: 1}"])
def test_broken_json_is_refused_and_never_taken_for_text(text: str) -> None:
    """A typing error in an object must not start a run with a text instead."""
    with pytest.raises(click.BadParameter, match="not valid JSON"):
        options.value_of(text)


@pytest.mark.parametrize("text", ["[1]", "3", "{"])
def test_named_arguments_are_a_json_object(text: str) -> None:
    """Names need an object."""
    with pytest.raises(click.BadParameter):
        options.object_of(text, "--kwargs")


def test_queues_have_names_and_perhaps_numbers() -> None:
    """``a,b=4`` serves both, b with four at once."""
    assert Queues().convert("a, b=4", None, None) == {"a": None, "b": 4}
    for text in ("a=x", "a=0", "=3", "a=-1"):
        with pytest.raises(click.BadParameter, match="is not a queue"):
            Queues().convert(text, None, None)


def test_a_trigger_has_a_type_and_a_reference() -> None:
    """The first colon parts them; the reference may have more of them."""
    assert options.TypedReference().convert("webhook:INC:42", None, None) == ("webhook", "INC:42")
    for text in ("webhook", "webhook:", ":INC-42", ""):
        with pytest.raises(click.BadParameter, match="is not TYPE:REF"):
            options.TypedReference().convert(text, None, None)


def test_who_steers_is_the_systems_user_or_unnamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The audit always has a name, even where the system knows none."""
    monkeypatch.setenv("LOGNAME", "ann")
    assert options.operator() == "ann"
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 2**31 - 7)
    assert options.operator() == options.UNNAMED
