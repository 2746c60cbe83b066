"""Answers of HTTP: what a call gives, and what is wrong with an answer.

It knows no HTTP library: an answer is plain data here.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Collection, Mapping
from typing import Any, Final, NoReturn

import msgspec

from holdfast.errors import AnswerUnusable, NotAuthorised, RequestRefused, ServiceFailed, TransportFailed
from holdfast.journal.cbor import canonical
from holdfast.journal.quotes import value_without, without_forms
from holdfast.transports.http.call import HttpCall
from holdfast.transports.http.refusals import leaves_open, may_mend, seconds_of

LARGEST_ANSWER: Final = 8 * 1024 * 1024
"""How many bytes of an answer are taken, after decompression."""

EXCERPT: Final = 1000
"""How many characters of a refusing answer a failure keeps."""

_ELSEWHERE: Final = frozenset({301, 302, 303})
"""Answers to what may have been carried out: its result is elsewhere."""
_TEXTS: Final = frozenset({"application/javascript", "application/x-www-form-urlencoded", "application/xml"})


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What came back. ``forms`` are all forms of the secrets that were sent: nothing that leaves here quotes one.

    ``is_cut`` is whether it was larger than may be, and ``url`` where it came from, after redirects.
    """

    call: HttpCall
    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str
    forms: Collection[str] = ()
    is_cut: bool = False


# -- what is given -----------------------------------------------------------------------------------------------------


def result_of(answer: Answer) -> bytes:
    """What the call gives, as it is recorded. Raises AnswerUnusable."""
    try:
        return canonical(given_by(answer))
    except (ValueError, RecursionError):  # lone surrogates, or nested too deep
        return _unusable(answer, "cannot be kept: it is nested too deep, or has half a character in it")


def given_by(answer: Answer) -> Any:
    """What the call gives, as plain data. Raises AnswerUnusable."""
    if answer.is_cut:
        _unusable(answer, f"is larger than {LARGEST_ANSWER:,} bytes: ask for less, a page at a time")
    give = answer.call.give
    if give == "raw":
        return base64.b64encode(_clean_bytes(answer)).decode()
    content = content_of(answer)
    if give == "content":
        return content["data"] if answer.call.answers == "graphql" else content
    shown = {"status": answer.status, "headers": dict(answer.headers), "content": content, "request": _request(answer)}
    return _clean(shown, answer) if answer.forms else shown


def content_of(answer: Answer) -> Any:
    """The answer's content: JSON as data, texts as text, anything else as bytes. Raises AnswerUnusable."""
    kind, charset = _kind(answer.headers.get("content-type", ""))
    if not answer.body:
        return None
    if kind.endswith(("/json", "+json")):
        return _clean(_json(answer), answer)
    if kind.startswith("text/") or kind.endswith("+xml") or kind in _TEXTS:
        return _clean(_text(answer.body, charset), answer)
    try:
        return _clean(answer.body.decode("utf-8"), answer)
    except UnicodeDecodeError:
        return _clean_bytes(answer)


def _json(answer: Answer) -> Any:
    try:
        found = json.loads(answer.body, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        message = "it is nested too deep" if isinstance(error, RecursionError) else type(error).__name__
        _unusable(answer, f"says that it is JSON, and is not ({message})")
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def _text(body: bytes, charset: str) -> str:
    try:
        return body.decode(charset or "utf-8", "replace")
    except LookupError:  # no charset of that name is known
        return body.decode("utf-8", "replace")


def _kind(content_type: str) -> tuple[str, str]:
    kind, *parameters = (part.strip() for part in content_type.split(";"))
    charsets = [each[8:].strip("\"' ") for each in parameters if each.lower().startswith("charset=")]
    return kind.lower(), charsets[0] if charsets else ""


def _clean(value: Any, answer: Answer) -> Any:
    return value_without(value, answer.forms) if answer.forms else value


def _clean_bytes(answer: Answer) -> bytes:
    if not answer.forms:
        return answer.body
    forms = [form.encode("utf-8", "replace").decode("latin-1") for form in answer.forms]
    return without_forms(answer.body.decode("latin-1"), forms).encode("latin-1")


def _request(answer: Answer) -> dict[str, Any]:
    """The request that was sent, its secrets by name."""
    fields = answer.call.fields()
    return {"method": fields["method"], "url": answer.url, "headers": fields.get("headers", {})}


# -- what is wrong -----------------------------------------------------------------------------------------------------


def is_accepted(call: HttpCall, status: int) -> bool:
    """Whether the status is a good one for this call."""
    return 200 <= status < 300 or status in call.accept or f"{status // 100}xx" in call.accept


def refusal_of(answer: Answer, *, done_before: bool = False) -> TransportFailed:
    """What an answer that is not accepted means. ``done_before``: a redirect left open whether it wrote."""
    status, call = answer.status, answer.call
    is_unknown = call.writes and (done_before or _leaves_open(call, status))
    wait = seconds_of(answer.headers.get("retry-after"), time.time())
    retryable = may_mend(status)
    kind = NotAuthorised if status in (401, 403) else ServiceFailed if retryable else RequestRefused
    members = members_of(answer)
    body = members.get("body")
    message = f"{call.method} {_place(answer)} answered {status}" + (f": {_short(body)}" if body else "")
    return kind(message, members=members, retryable=retryable, retry_after=wait, is_unknown=is_unknown)


def _leaves_open(call: HttpCall, status: int) -> bool:
    return status in _ELSEWHERE or (leaves_open(status) and status not in call.not_done)


def graphql_refusal_of(answer: Answer) -> TransportFailed | None:
    """What is wrong with an answer of GraphQL whose status is good; None where nothing is."""
    content = None if answer.is_cut else content_of(answer)
    if not answer.is_cut and not (isinstance(content, dict) and ("data" in content or content.get("errors"))):
        _unusable(answer, "has neither data nor errors: look whether the endpoint speaks GraphQL")
    errors = content.get("errors") if isinstance(content, dict) else None
    if not errors:
        return None
    first = errors[0] if isinstance(errors, list) and isinstance(errors[0], dict) else {}
    extensions = first.get("extensions")
    code = extensions.get("code") if isinstance(extensions, dict) else None
    kind = NotAuthorised if code in ("UNAUTHENTICATED", "FORBIDDEN") else AnswerUnusable
    members = {**members_of(answer), "errors": errors[:10] if isinstance(errors, list) else errors}
    message = f"{_place(answer)} answered with errors: {_short(first.get('message') or errors)}"
    data = content.get("data") if isinstance(content, dict) else None
    partly = isinstance(data, dict) and any(value is not None for value in data.values())
    return kind(message, members=members, is_unknown=answer.call.writes and partly)


def members_of(answer: Answer) -> dict[str, object]:
    """What programs may read of an answer that is none they wanted."""
    members: dict[str, object] = {"status": answer.status, "method": answer.call.method, "url": _place(answer)}
    body = _excerpt(answer)
    return members if body is None else {**members, "body": body}


def _excerpt(answer: Answer) -> Any:
    """The words of a refusing answer: data where it is JSON and short, else the beginning of its text."""
    text = _text(answer.body, _kind(answer.headers.get("content-type", ""))[1]).replace(
        "\0", "\N{REPLACEMENT CHARACTER}"
    )
    if not text.strip():
        return None
    if len(text) <= EXCERPT:
        try:
            return _clean(json.loads(text, parse_constant=_no_number), answer)
        except (ValueError, RecursionError):
            pass
    return without_forms(text, answer.forms)[:EXCERPT]


def _short(words: object) -> str:
    text = words if isinstance(words, str) else json.dumps(words, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= 200 else text[:199] + "…"


def _place(answer: Answer) -> str:
    """Where it came from, without the query: that may have what people must not read."""
    return without_forms(answer.url.partition("?")[0], answer.forms)


def _unusable(answer: Answer, why: str) -> NoReturn:
    message = f"the answer of {_place(answer)} {why}"
    members = {"status": answer.status, "method": answer.call.method, "url": _place(answer)}
    raise AnswerUnusable(message, members=members, is_unknown=answer.call.writes)
