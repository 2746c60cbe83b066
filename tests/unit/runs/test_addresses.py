"""Ids as parts of paths: every text has one, two texts never share one, and nothing in it can be resolved."""

from __future__ import annotations

import itertools
import re
from urllib.parse import unquote, urljoin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidRequest
from holdfast.runs.addresses import has_dots, part_text, path_part
from holdfast.runs.birth import Trigger, check_new_id, former_run_id

SIGNS = ("~", ".", "/", "\\", "2", "E", "F", "%", "a", "\0")
DOTTED = (".", "..", "./a", "a/.", "../a", "a/..", "a/../b", "..\\a", "a\\.\\b", "/..", "../")
PLAIN = ("...", ".a", "a.", "..a", "a..", "a/.b", "a/b..", "..;", "a:..", "%2e%2e", "~.2E.2E", "order-17", "a/b")


def texts() -> list[str]:
    """All texts of up to four of these signs."""
    return ["".join(each) for length in range(5) for each in itertools.product(SIGNS, repeat=length)]


def test_short_texts_have_parts_of_their_own() -> None:
    """11,111 texts, with all that look like the form of another one."""
    parts = {path_part(text): text for text in texts()}
    assert len(parts) == len(texts())
    assert all(part_text(part) == text for part, text in parts.items())


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_part_is_read_back(text: str) -> None:
    assert part_text(path_part(text)) == text


@given(st.text(st.sampled_from("~./\\2EF5C%") | st.characters(exclude_categories=["Cs"])))
def test_the_form_of_a_form_is_read_back(text: str) -> None:
    """A text that is the form of another text is no less a text."""
    assert part_text(path_part(path_part(text))) == path_part(text)


@pytest.mark.parametrize(
    "text", ["~" * 15_000, "~" * 15_000 + ".2E", "." * 15_000, "~.2E" * 4_000, "~a" * 7_000 + ".2E."]
)
def test_a_long_text_is_read_like_a_short_one(text: str) -> None:
    """Addresses have up to 16 KiB."""
    assert part_text(path_part(text)) == text
    assert isinstance(part_text(text), str)


def test_nothing_in_a_part_is_resolved() -> None:
    """Neither by a browser nor by a proxy that unquotes it, once or twice, and joins slashes."""
    for text in texts():
        part = path_part(text)
        assert urljoin("http://x/a/b/", f"/runs/{part}/c").count("/") == 5, text
        assert part.lower().replace("%2e", ".") not in ("", ".", "..")
        assert "/" not in part
        for seen in (unquote(part), unquote(unquote(part)) if "%25" not in part else ""):
            assert not re.search(r"(^|[/\\])\.\.?([/\\]|$)|[/\\][/\\]|\0", seen), (text, part)


@pytest.mark.parametrize("text", DOTTED)
def test_a_dotted_id_is_not_new(text: str) -> None:
    assert has_dots(text)
    assert set(path_part(text)) <= set("~.2EF5Cab")
    with pytest.raises(InvalidRequest, match="segment"):
        check_new_id(text, "the id")


@pytest.mark.parametrize("text", PLAIN)
def test_dots_elsewhere_are_dots(text: str) -> None:
    assert not has_dots(text)


@pytest.mark.parametrize(
    ("part", "text"),
    [("~", ""), ("%7E.2E.2E", ".."), ("~.2e.2e", "~.2e.2e"), ("~x", "~x"), ("~user:ann", "~user:ann"), ("~.2E", ".")],
)
def test_a_mark_alone_means_itself(part: str, text: str) -> None:
    """Only the exact form of a text that needs it is read as that: addresses of older versions mean what they meant."""
    assert part_text(part) == text


def test_a_trigger_gives_no_dotted_id() -> None:
    """Its reference is text of others. All other triggers give the ids that they gave before."""
    cause = Trigger("webhook", "x/../../runs/victim")
    assert has_dots(former_run_id(cause, "pay"))
    assert re.fullmatch("pay:[0-9a-f]{64}", cause.run_id("pay"))
    for ref in ("INC-42", "../x", "a/b", "x" * 300, "a~b"):
        plain = Trigger("webhook", ref)
        assert plain.run_id("pay") == former_run_id(plain, "pay")
