"""What was typed into a form's fields, read as values. A field that cannot be read is refused with its name."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from starlette.datastructures import FormData

from holdfast.errors import InvalidRequest
from holdfast.server.fields import LONGEST_TEXT


def text_of(typed: FormData, name: str) -> str:
    """A text, without the blanks around it; empty where nothing was typed."""
    found = typed.get(name, "")
    return found.strip() if isinstance(found, str) else ""


def reason_of(typed: FormData) -> str:
    """The reason. The audit keeps it, so none is taken for granted: raises InvalidRequest where there is none."""
    reason = text_of(typed, "reason")
    if not reason:
        raise InvalidRequest("say why: the audit keeps the reason.")
    if len(reason) > LONGEST_TEXT:
        raise InvalidRequest(f"the reason may have {LONGEST_TEXT} characters at most.")
    return reason


def json_of(typed: FormData, name: str) -> Any:
    """A value that was typed as JSON; None where nothing was typed."""
    text = text_of(typed, name)
    if not text:
        return None
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidRequest(f'{name} is JSON ({error}): write a text in quotes, such as "yes".') from error


def number_of(typed: FormData, name: str, words: str) -> int | None:
    """A whole number; None where nothing was typed. ``words`` say what it is."""
    text = text_of(typed, name)
    if not text:
        return None
    if not text.isdecimal() or len(text) > 15:
        raise InvalidRequest(f"{words} is a whole number.")
    return int(text)


def time_of(typed: FormData, name: str) -> datetime | None:
    """A time, in UTC where it names no zone; None where nothing was typed."""
    text = text_of(typed, name)
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequest(f"{name} is a time, such as 2026-01-31T06:00.") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
