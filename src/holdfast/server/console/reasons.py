"""The reason that a form asks for. It is kept in the audit, so none is taken for granted."""

from __future__ import annotations

from starlette.datastructures import FormData

from holdfast.errors import InvalidRequest
from holdfast.server.fields import LONGEST_TEXT


def reason_of(typed: FormData) -> str:
    """The reason that was typed. Raises InvalidRequest where there is none."""
    text = typed.get("reason", "")
    reason = text.strip() if isinstance(text, str) else ""
    if not reason:
        raise InvalidRequest("say why: the audit keeps the reason.")
    if len(reason) > LONGEST_TEXT:
        raise InvalidRequest(f"the reason may have {LONGEST_TEXT} characters at most.")
    return reason
