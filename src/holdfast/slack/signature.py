"""Whether a request comes from Slack: by its signature over the raw body and the time, with the app's secret."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from holdfast.errors import NotAuthenticated

TIME_HEADER: Final = "x-slack-request-timestamp"
SIGNATURE_HEADER: Final = "x-slack-signature"
TOLERANCE_SECONDS: Final = 300
"""A request that is older, or more in the future, is refused: it may be a copy of an old one."""


def signature_of(secret: str, time: str, body: bytes) -> str:
    """The signature as Slack writes it."""
    digest = hmac.new(secret.encode(), b"v0:" + time.encode() + b":" + body, hashlib.sha256).hexdigest()
    return f"v0={digest}"


def check_signature(secret: str, time: str | None, signature: str | None, body: bytes, now_seconds: float) -> None:
    """Raises NotAuthenticated where Slack did not send this body, or not now. All wrong ones take equally long."""
    if not secret:
        raise NotAuthenticated("there is no signing secret: nothing can be proved.")
    if time is None or signature is None:
        raise NotAuthenticated("the request is not signed: only Slack may send it.")
    if not (time.isascii() and time.isdecimal() and len(time) <= 12):
        raise NotAuthenticated("the time of the signature is no number.")
    if abs(now_seconds - int(time)) > TOLERANCE_SECONDS:
        raise NotAuthenticated("the signature is too old, or the clocks differ by more than five minutes.")
    if not hmac.compare_digest(signature_of(secret, time, body).encode(), signature.encode("utf-8", "replace")):
        raise NotAuthenticated("the signature is wrong: is the signing secret that of the Slack app?")
