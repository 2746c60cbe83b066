"""Signatures, by the examples of those who defined them."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from holdfast.errors import InvalidRequest
from holdfast.webhooks.signatures import check_secret, new_secret, proved_id, signed_headers

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
AT = 1614265330
BODY = b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
GOOD = {"webhook-id": ID, "webhook-timestamp": str(AT), "webhook-signature": SIGNATURE}

HUB_SECRET = "It's a Secret to Everybody"
HUB_BODY = b"Hello, World!"
HUB = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"


def test_standard_webhooks_are_signed_as_their_example_is() -> None:
    assert signed_headers([SECRET], ID, AT, BODY) == GOOD


@pytest.mark.parametrize(
    "changed",
    [
        {"webhook-id": "msg_other"},
        {"webhook-timestamp": str(AT + 1)},
        {"webhook-signature": SIGNATURE.replace("g0", "g1")},
        {"webhook-signature": ""},
        {"webhook-signature": "v2" + SIGNATURE[2:]},
        {"webhook-signature": "v1a," + SIGNATURE[3:]},
    ],
)
def test_whatever_is_changed_is_not_proved(changed: dict[str, str]) -> None:
    """The id and the time are signed with the body."""
    assert proved_id("standard", [SECRET], GOOD, BODY, AT) == ID
    assert proved_id("standard", [SECRET], {**GOOD, **changed}, BODY, AT) is None
    assert proved_id("standard", [SECRET], GOOD, BODY + b" ", AT) is None
    assert proved_id("standard", [new_secret("standard")], GOOD, BODY, AT) is None


@pytest.mark.parametrize(("seconds", "is_good"), [(300, True), (-300, True), (301, False), (-301, False)])
def test_a_stale_message_proves_nothing(seconds: int, is_good: bool) -> None:
    assert (proved_id("standard", [SECRET], GOOD, BODY, AT + seconds) is not None) == is_good


def test_one_of_several_signatures_and_of_several_secrets_is_enough() -> None:
    """While a secret is rotated, on either side."""
    other = new_secret("standard")
    both = signed_headers([other, SECRET], ID, AT, BODY)
    assert proved_id("standard", [SECRET], both, BODY, AT) == ID
    assert proved_id("standard", [other, SECRET], GOOD, BODY, AT) == ID


def test_github_signs_the_body_which_is_then_the_id() -> None:
    """A header beside it is not signed: whoever caught one delivery could send it under any id."""
    found = proved_id("github", [HUB_SECRET], {"x-hub-signature-256": HUB, "x-github-delivery": "1"}, HUB_BODY, AT)
    assert found == hashlib.sha256(HUB_BODY).hexdigest()
    assert proved_id("github", [HUB_SECRET], {"x-hub-signature-256": HUB}, HUB_BODY + b"!", AT) is None
    assert proved_id("github", [HUB_SECRET], {}, HUB_BODY, AT) is None


def test_a_plain_hmac_is_hex_or_base64_in_a_header_of_the_senders() -> None:
    digest = hmac.digest(HUB_SECRET.encode(), HUB_BODY, "sha256")
    for text in (digest.hex(), digest.hex().upper(), "sha256=" + digest.hex(), base64.b64encode(digest).decode()):
        assert proved_id("hmac", [HUB_SECRET], {"x-signature": text}, HUB_BODY, AT, "X-Signature")
    assert proved_id("hmac", [HUB_SECRET], {"x-signature": "é"}, HUB_BODY, AT, "X-Signature") is None


@pytest.mark.parametrize("secret", ["short", "x" * 501, "line\nend of a secret", "schöner geheimer Text", None])
def test_a_secret_that_cannot_be_used_is_refused_without_being_quoted(secret: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_secret(secret, "hmac")
    assert secret is None or secret not in str(caught.value)
