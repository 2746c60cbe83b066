"""Secrets: masked in every view of a call, and removed from the texts of errors."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, NamedTuple, NewType, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidFunction
from holdfast.journal.payload import Failure
from holdfast.journal.quotes import MASK, SHORTEST, without_forms
from holdfast.programs.function.secrets import Secrets

ARGUMENTS = ["token", "fields", "number"]


def secrets(*names: str) -> Secrets:
    return Secrets(names, ARGUMENTS, "pay")


class Inner(msgspec.Struct, rename="kebab"):
    pass_word: str
    user_name: str = ""


class Renamed(msgspec.Struct, rename="camel"):
    api_key: str
    inner: Inner | None = None
    inners: list[Inner] = []


class Nameless(msgspec.Struct, array_like=True):
    api_key: str


@dataclasses.dataclass
class Held:
    config: Renamed


@dataclasses.dataclass
class Unresolved:
    money: Money  # type: ignore[name-defined]  # noqa: F821  # as behind TYPE_CHECKING


class Typed(TypedDict):
    config: Renamed


class Named(NamedTuple):
    api_key: str


@pytest.mark.parametrize(
    ("kind", "name", "written"),
    [
        (Renamed, "c.api_key", "c.apiKey"),
        (Renamed, "c.apiKey", "c.apiKey"),
        (Renamed | None, "c.api_key", "c.apiKey"),
        (Annotated[list[Renamed], "said"], "c.api_key", "c.apiKey"),
        (Renamed, "c.inner.pass_word", "c.inner.pass-word"),
        (Renamed, "c.inners.pass_word", "c.inners.pass-word"),
        (Held, "c.config.api_key", "c.config.apiKey"),
        (dict[str, str], "c.api_key", "c.api_key"),
        (Any, "c.api_key", "c.api_key"),
        (Renamed | Inner, "c.user_name", "c.user-name"),
        (dict[str, Renamed], "c.main.api_key", "c.main.apiKey"),
        (Mapping[str, Renamed], "c.main.api_key", "c.main.apiKey"),
        (Iterable[Renamed], "c.api_key", "c.apiKey"),
        (tuple[Renamed, ...], "c.api_key", "c.apiKey"),
        (NewType("Config", Renamed), "c.api_key", "c.apiKey"),
        (Typed, "c.config.api_key", "c.config.apiKey"),
        (Renamed | Held, "c.config.api_key", "c.config.apiKey"),
        (Renamed | dict[str, str], "c.api_kye", "c.api_kye"),
        (Unresolved, "c.money", "c.money"),
    ],
)
def test_a_path_is_followed_as_the_values_are_written(kind: Any, name: str, written: str) -> None:
    """A struct may write its members by other names: a mask by the wrong names would leave the secret visible."""
    assert Secrets([name], ["c"], "pay", {"c": kind}).written[-1] == written


@pytest.mark.parametrize(
    ("kind", "name", "why"),
    [
        (Renamed, "c.api_kye", "names 'api_kye', which is no member there .the members: api_key, inner, inners."),
        (Renamed, "c.inner.token", "names 'token', which is no member there"),
        (Nameless, "c.api_key", "a member of Nameless, which is written without names: name all of it"),
        (dict[str, Renamed], "c.*.api_key", "knows no patterns: name all of 'c'"),
        (Held, "c.confg", "no member there .the members: config"),
        (Typed, "c.confg", "no member there .the members: config"),
        (Named, "c.api_key", "a member of Named, which is written without names: name all of it"),
    ],
)
def test_a_path_that_leads_nowhere_is_refused(kind: Any, name: str, why: str) -> None:
    """At the declaration, before the secret could be shown."""
    with pytest.raises(InvalidFunction, match=why):
        Secrets([name], ["c"], "pay", {"c": kind})


def test_whichever_name_is_written_is_masked() -> None:
    """A union of a struct and a dictionary may be either."""
    secret = Secrets(["c.api_key"], ["c"], "pay", {"c": Renamed | dict[str, str]})
    assert secret.mask({"c": {"apiKey": "x", "host": "h"}}) == {"c": {"apiKey": MASK, "host": "h"}}
    assert secret.mask({"c": {"api_key": "x", "host": "h"}}) == {"c": {"api_key": MASK, "host": "h"}}
    assert secret.scrub_text("no luck with s3cr3t", {"c": {"apiKey": "s3cr3t"}}) == f"no luck with {MASK}"


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
        (("fields.a",), {"fields": "no mapping"}, {"fields": MASK}),
        (("fields.a",), {"fields": ["no", "names", None]}, {"fields": [MASK, MASK, None]}),
        (("fields.a",), {"fields": {"b": 1}}, {"fields": {"b": 1}}),
        (("fields.a",), {"fields": None}, {"fields": None}),
        (("token", "fields.a"), {"token": "x", "fields": {"a": 1}}, {"token": MASK, "fields": {"a": MASK}}),
    ],
)
def test_what_is_named_is_masked_and_nothing_else(names: tuple[str, ...], given_: Any, shown: Any) -> None:
    """By its path, also inside lists; a missing member changes nothing."""
    before = repr(given_)
    assert secrets(*names).mask(given_) == shown
    assert repr(given_) == before  # the call itself still needs them


def test_a_secret_that_no_call_has_is_refused() -> None:
    """A misspelt secret would be shown to everyone."""
    with pytest.raises(InvalidFunction, match=r"action pay: secret= names 'tokne', which is no argument .*token, "):
        secrets("tokne")


def test_the_arguments_that_hold_a_secret_are_known() -> None:
    """Each by its own name, at any depth of the secret."""
    assert secrets("token", "fields.a.b").names == {"token", "fields"}
    assert not secrets()


@pytest.mark.parametrize(
    ("value", "message", "left"),
    [
        ("s3cret", "bad token s3cret, s3cret!", f"bad token {MASK}, {MASK}!"),
        ("it's\nsecret", 'got "it\'s\\nsecret" there', f'got "{MASK}" there'),
        (123456, "pin 123456 is wrong", f"pin {MASK} is wrong"),
        ({"a": "first", "b": ["second"]}, "first and second", f"{MASK} and {MASK}"),
        ("abcdef", "abcd is a part only", "abcd is a part only"),
        (321, "bad pin 321", f"bad pin {MASK}"),
        ("321", "pins '321', 3210, 0321, x321 and 321.", f"pins '{MASK}', 3210, 0321, x321 and {MASK}."),
        (["7", 8, 1.5], "7, 8 or 1.5, but 78", f"{MASK}, {MASK} or {MASK}, but 78"),
        ("", "nothing at all", "nothing at all"),
        (None, "None of it, and null", "None of it, and null"),
        (True, "True, true or 1", "True, true or 1"),
        (b"s3cret", "got s3cret, b's3cret' and more", f"got {MASK}, b'{MASK}' and more"),
        (b"\xff\x00ab", r"got b'\xff\x00ab'", f"got b'{MASK}'"),
        (b"12", "got 12 or b'12', but 123", f"got {MASK} or b'{MASK}', but 123"),
        ("pässwörd\n", r'got "p\u00e4ssw\u00f6rd\n"', f'got "{MASK}"'),
        ("pässwörd\n", r'got "pässwörd\n"', f'got "{MASK}"'),
        ("pässwörd\n", r"got 'p\xe4ssw\xf6rd\n'", f"got '{MASK}'"),
        ("pässwörd\n", r"got b'p\xc3\xa4ssw\xc3\xb6rd\n'", f"got b'{MASK}'"),
        ('quo"te', r'{"token": "quo\"te"}', f'{{"token": "{MASK}"}}'),
        ("it's", r"""'it\'s "that" one'""", f"""'{MASK} "that" one'"""),
    ],
)
def test_errors_do_not_quote_secrets(value: Any, message: str, left: str) -> None:
    """Plain, and in the forms of ``repr``, ``ascii``, JSON and bytes; short ones as whole words; in both texts."""
    scrubbed = secrets("token").scrub(Failure("T", message, f"Traceback: {message}"), {"token": value})
    assert (scrubbed.type, scrubbed.message, scrubbed.trace) == ("T", left, f"Traceback: {left}")


def test_a_longer_secret_is_taken_out_before_one_that_it_contains() -> None:
    """Otherwise a part of it would remain."""
    found = secrets("token", "fields").scrub(
        Failure("T", "s3cret-long"), {"token": "s3cret", "fields": ["s3cret-long"]}
    )
    assert found.message == MASK


def test_secrets_that_overlap_leave_no_rest() -> None:
    """In any order, and where a secret overlaps with itself."""
    arguments = {"token": "abcd", "fields": ["bcdefgh", "xyxyx"]}
    scrubbed = secrets("token", "fields").scrub(Failure("T", "abcdefgh, then xyxyxyx"), arguments)
    assert scrubbed.message == f"{MASK}, then {MASK}"


def test_a_text_that_is_no_failure_is_scrubbed_alike() -> None:
    """For other texts that may quote a call's arguments."""
    assert secrets("token").scrub_text("cost= failed: s3cret", {"token": "s3cret"}) == f"cost= failed: {MASK}"
    assert secrets().scrub_text("as it is", {"token": "as it is"}) == "as it is"


FORMS: list[Callable[[str], str]] = [
    str,
    repr,
    ascii,
    json.dumps,
    lambda text: json.dumps(text, ensure_ascii=False),
    lambda text: repr(text.encode()),
]


@given(
    st.text(st.characters(codec="utf-8", exclude_characters="<>b"), min_size=SHORTEST, max_size=20),
    st.sampled_from(FORMS),
)
def test_however_a_secret_is_quoted_it_is_gone(secret: str, quote: Callable[[str], str]) -> None:
    """Nothing but the quotes is left of it."""
    left = secrets("token").scrub_text(f"<{quote(secret)}>", {"token": secret})
    assert left.replace(MASK, "") in ("<>", "<''>", '<"">', "<b''>", '<b"">')


@given(st.text(min_size=SHORTEST, max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_no_text_around_it_saves_a_secret(secret: str, before: str, after: str) -> None:
    """It is removed in every place that quotes it."""
    scrubbed = secrets("token").scrub(Failure("T", before + secret + after), {"token": secret})
    assert all(secret not in part for part in scrubbed.message.split(MASK))


@given(st.text("ab", max_size=40), st.sets(st.text("ab", min_size=SHORTEST, max_size=12), max_size=3))
def test_every_sign_that_a_form_covers_is_masked_and_no_other(text: str, forms: set[str]) -> None:
    """Also where a form overlaps with itself: what is left is what no occurrence of any form covers."""
    covered = {
        place
        for form in forms
        for start in range(len(text))
        if text.startswith(form, start)
        for place in range(start, start + len(form))
    }
    left = without_forms(text, forms).replace(MASK, "")
    assert left == "".join(sign for place, sign in enumerate(text) if place not in covered)
