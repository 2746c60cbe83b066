"""Signatures of webhooks: made as Standard Webhooks says, and checked in the ways that senders use.

A check tells nothing but yes or no, and compares in constant time. ``standard`` signs the id and the time with the
body. The other schemes sign the body alone, so nothing else of a message is proved by them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from holdfast.errors import InvalidRequest

Scheme = Literal["standard", "github", "hmac"]

ID: Final = "webhook-id"
TIMESTAMP: Final = "webhook-timestamp"
SIGNATURE: Final = "webhook-signature"
HUB: Final = "x-hub-signature-256"

TOLERANCE_SECONDS: Final = 300
"""How far the time of a message may be from ours."""
SHORTEST_SECRET: Final = 16
LONGEST_SECRET: Final = 500
LONGEST_ID: Final = 200

_MARK: Final = "whsec_"
_BYTES: Final = range(24, 65)
_VERSION: Final = "v1"


def new_secret(scheme: Scheme) -> str:
    """A secret of 256 bits, as its scheme writes it."""
    if scheme == "standard":
        return _MARK + base64.b64encode(secrets.token_bytes(32)).decode()
    return secrets.token_urlsafe(32)


def check_secret(secret: object, scheme: Scheme) -> str:
    """A secret that somebody gives. Raises InvalidRequest, which never quotes it."""
    if not isinstance(secret, str) or not SHORTEST_SECRET <= len(secret) <= LONGEST_SECRET or not secret.isascii():
        raise InvalidRequest(f"a secret is {SHORTEST_SECRET} to {LONGEST_SECRET} ASCII characters: give a longer one")
    if not secret.isprintable():
        raise InvalidRequest("a secret has no control characters: look for a line's end behind it")
    if scheme == "standard" and secret.startswith(_MARK) and len(_key(secret)) not in _BYTES:
        raise InvalidRequest(f"a secret that begins with {_MARK} goes on with 24 to 64 bytes in base64")
    return secret


def _key(secret: str) -> bytes:
    """The bytes that sign by Standard Webhooks. A secret without its mark stands for itself."""
    if not secret.startswith(_MARK):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(_MARK), validate=True)
    except (binascii.Error, ValueError):
        return b""


def signed_headers(keys: Sequence[str], id: str, at_seconds: int, body: bytes) -> dict[str, str]:
    """The headers of a message by Standard Webhooks: a signature by each of the secrets."""
    return {
        ID: id,
        TIMESTAMP: str(at_seconds),
        SIGNATURE: " ".join(_standard(secret, id, str(at_seconds), body) for secret in keys),
    }


def _standard(secret: str, id: str, timestamp: str, body: bytes) -> str:
    content = f"{id}.{timestamp}.".encode() + body
    return f"{_VERSION},{base64.b64encode(hmac.digest(_key(secret), content, 'sha256')).decode()}"


def proved_id(
    scheme: Scheme, keys: Sequence[str], headers: Mapping[str, str], body: bytes, now_seconds: float, header: str = ""
) -> str | None:
    """The id of a message that one of the secrets has signed; None where that is not proved.

    ``headers`` are by small letters. ``header`` is where the scheme ``hmac`` has its signature. Where the id is not
    signed, the hash of the body is the id.
    """
    if scheme == "standard":
        return _proved_by_standard(keys, headers, body, now_seconds)
    given = headers.get(HUB if scheme == "github" else header.lower(), "").strip().removeprefix("sha256=")
    is_good = False
    for secret in keys:
        digest = hmac.digest(secret.encode(), body, "sha256")
        forms = (digest.hex(), base64.b64encode(digest).decode())
        said = (given.lower(), given)
        for form, text in zip(forms, said, strict=True):
            is_good |= hmac.compare_digest(form.encode(), text.encode())
    return hashlib.sha256(body).hexdigest() if is_good else None


def _proved_by_standard(keys: Sequence[str], headers: Mapping[str, str], body: bytes, now_seconds: float) -> str | None:
    id, timestamp = headers.get(ID, ""), headers.get(TIMESTAMP, "").strip()
    given = headers.get(SIGNATURE, "").split()
    is_good = False
    for secret in keys:
        expected = _standard(secret, id, timestamp, body).encode()
        for each in given[:10]:
            is_good |= hmac.compare_digest(expected, each.encode())
    is_now = timestamp.isdecimal() and len(timestamp) < 12 and abs(now_seconds - int(timestamp)) <= TOLERANCE_SECONDS
    is_id = 0 < len(id) <= LONGEST_ID and id.isprintable()
    return id if is_good and is_now and is_id else None
