"""Secrets as they are kept: encrypted where there is a passphrase, and opened only with it, where they were put."""

from __future__ import annotations

import pytest

from holdfast.errors import KeyLocked, StoreCorrupt
from holdfast.store.items import ItemRow
from holdfast.webhooks.vault import KeptSecrets, opened, sealed, secret_key

KEY = secret_key("acme", "out", "ops")
KEPT = KeptSecrets("whsec_present", "whsec_before", 100)


def test_a_secret_is_kept_as_it_is_without_a_passphrase() -> None:
    assert opened(ItemRow(*KEY, 1, sealed(KEPT, KEY))) == KEPT
    assert "whsec" not in repr(KEPT)


def test_with_a_passphrase_it_is_encrypted_and_bound_to_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret of one subscription, copied to another's place by somebody who writes to the store, opens nothing."""
    monkeypatch.setenv("HOLDFAST_KEY_PASSPHRASE", "open sesame")
    body = sealed(KEPT, KEY)
    assert b"whsec" not in body
    assert opened(ItemRow(*KEY, 1, body)) == KEPT
    with pytest.raises(KeyLocked):
        opened(ItemRow(*secret_key("acme", "out", "other"), 1, body))
    monkeypatch.setenv("HOLDFAST_KEY_PASSPHRASE", "open barley")
    with pytest.raises(KeyLocked):
        opened(ItemRow(*KEY, 1, body))
    monkeypatch.delenv("HOLDFAST_KEY_PASSPHRASE")
    with pytest.raises(KeyLocked, match="HOLDFAST_KEY_PASSPHRASE"):
        opened(ItemRow(*KEY, 1, body))


def test_the_secret_before_counts_until_its_time() -> None:
    assert KEPT.at(99) == ("whsec_present", "whsec_before")
    assert KEPT.at(100) == ("whsec_present",)


def test_what_cannot_be_read_is_said_without_being_quoted() -> None:
    with pytest.raises(StoreCorrupt) as caught:
        opened(ItemRow(*KEY, 1, b'{"plain": "whsec_x"}'))
    assert "whsec" not in str(caught.value)
