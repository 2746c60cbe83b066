"""What is sent: the request of a call, with its secrets looked up."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final
from urllib.parse import quote, quote_plus

import httpx
import msgspec

from holdfast.errors import SecretMissing
from holdfast.journal.quotes import forms_of
from holdfast.runs.tracing import TRACEPARENT, outgoing
from holdfast.transports.http.call import HttpCall, SecretName
from holdfast.transports.secrets import secret_of

Trace = Callable[[str, Mapping[str, Any]], Awaitable[None]]

_AGENT: Final = {"accept": "*/*", "accept-encoding": "gzip, deflate", "user-agent": "holdfast"}


class Credentials(msgspec.Struct, frozen=True):
    """The headers that are secret, and every form in which something may quote them."""

    headers: Mapping[str, str]
    forms: Collection[str]


async def credentials_of(call: HttpCall) -> Credentials:
    """The secrets of a call, looked up for the host that it names. Raises SecretMissing."""
    found: dict[str, str] = {}
    values: list[str] = []
    for name, value in call.headers.items():
        if isinstance(value, SecretName):
            found[name] = await secret_of(value.secret, call.url)
            values.append(found[name])
    if call.auth is not None:
        auth = call.auth
        value = auth.value or await secret_of(auth.secret, call.url)
        values.append(value)
        if auth.scheme == "basic":
            pair = base64.b64encode(f"{auth.username}:{value}".encode()).decode()
            values.append(pair)
            found["Authorization"] = f"Basic {pair}"
        elif auth.scheme == "bearer":
            found["Authorization"] = f"Bearer {value}"
        else:
            found[auth.name] = value
    if not all(value.isascii() for value in found.values()):
        raise SecretMissing("a secret of the call has a letter beyond ASCII in it, which no header may have: mend it")
    encoded = [encode(value, safe="") for value in values for encode in (quote, quote_plus)]
    return Credentials(found, forms_of([*values, *encoded]))


def request_of(call: HttpCall, key: str | None, credentials: Credentials, trace: Trace) -> httpx.Request:
    """The request. ``trace`` is told what the library does, as it does it."""
    headers = httpx.Headers(_AGENT)
    headers.update({name: value for name, value in call.headers.items() if isinstance(value, str)})
    if call.writes and key is not None and "idempotency-key" not in headers:
        headers["Idempotency-Key"] = key if key.isascii() and key.isprintable() else quote(key, safe=":/")
    if (traceparent := outgoing.get()) is not None and TRACEPARENT not in headers:
        headers[TRACEPARENT] = traceparent
    headers.update(credentials.headers)
    url = httpx.URL(call.url)
    if call.query:
        url = url.copy_merge_params(call.query)
    content: dict[str, Any] = {}
    if call.json is not msgspec.UNSET:
        # Written here: the same request has the same bytes, whichever version of the library sends it.
        content["content"] = json.dumps(call.json, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        headers.setdefault("Content-Type", "application/json")
    elif call.form is not None:
        content["data"] = call.form
    elif call.body is not None:
        content["content"] = call.body.encode()
        headers.setdefault("Content-Type", "text/plain; charset=utf-8")
    return httpx.Request(call.method, url, headers=headers, extensions={"trace": trace}, **content)
