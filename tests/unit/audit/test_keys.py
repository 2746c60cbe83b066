"""The audit's keys: signatures, storage, and endorsements from one key to the next."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.audit import keys
from holdfast.errors import InvalidRequest, KeyLocked
from tests.unit.audit.governed import FIRST, LINE, NOW, SECOND, STRANGER, pair

THIRD = pair(SECOND)
LONG = [*LINE, keys.published(THIRD[0])]


def test_a_signature_is_of_one_key_over_one_message() -> None:
    """Another key, another message or another signature is refused, never an error."""
    signature = FIRST[1].sign(b"message")
    assert keys.is_signed(FIRST[0].public, signature, b"message")
    assert not keys.is_signed(FIRST[0].public, signature, b"messagf")
    assert not keys.is_signed(SECOND[0].public, signature, b"message")
    assert not keys.is_signed(FIRST[0].public, signature[:-1], b"message")
    assert not keys.is_signed(b"short", signature, b"message")


def test_an_id_follows_from_the_public_bytes() -> None:
    """Two keys have two ids, of 32 characters."""
    assert FIRST[0].id == keys.key_id(FIRST[0].public)
    assert len({FIRST[0].id, SECOND[0].id, STRANGER[0].id}) == 3
    assert len(FIRST[0].id) == 32


def test_a_key_without_a_passphrase_opens_with_and_without_one() -> None:
    """A passphrase that is set later does not lock earlier keys."""
    assert b"ENCRYPTED" not in (FIRST[0].private or b"")
    assert keys.unlock(FIRST[0], None).id == keys.unlock(FIRST[0], "later").id


def test_an_encrypted_key_opens_only_with_its_passphrase() -> None:
    """For a missing or wrong passphrase the error names the variable to set."""
    key = keys.generate(NOW, "sesame")
    assert b"ENCRYPTED" in (key.private or b"")
    assert keys.is_signed(key.public, keys.unlock(key, "sesame").sign(b"x"), b"x")
    for passphrase in (None, "", "wrong"):
        with pytest.raises(KeyLocked, match="HOLDFAST_KEY_PASSPHRASE"):
            keys.unlock(key, passphrase)


def test_a_key_that_is_stored_elsewhere_cannot_sign_here() -> None:
    """A row may hold the public half alone."""
    with pytest.raises(KeyLocked, match="not in this store"):
        keys.unlock(replace(FIRST[0], private=None), None)


def test_a_private_half_that_is_damaged_or_another_keys_is_refused() -> None:
    """Otherwise one key would sign in the name of another."""
    with pytest.raises(KeyLocked, match="cannot be opened"):
        keys.unlock(replace(FIRST[0], private=b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"), None)
    with pytest.raises(KeyLocked, match="does not belong"):
        keys.unlock(replace(FIRST[0], private=SECOND[0].private), None)


def test_a_line_of_keys_is_whole() -> None:
    """Each is endorsed by the one before; the first is number 1."""
    assert keys.check_line(LONG) is None
    assert [key.number for key in LONG] == [1, 2, 3]


def test_a_broken_line_names_the_key() -> None:
    """Missing, renamed, forged and foreign keys are all found."""
    forged = replace(LINE[1], public=STRANGER[0].public, id=STRANGER[0].id)
    endorsed_by_stranger = replace(LINE[1], endorsement=STRANGER[1].sign(b"key 2"))
    assert keys.check_line([]) == "there is no key."
    assert "key 1 is missing" in (keys.check_line(LONG[1:]) or "")
    assert "key 2 is missing" in (keys.check_line([LONG[0], LONG[2]]) or "")
    assert "key 1 is called nobody" in (keys.check_line([replace(LONG[0], id="nobody")]) or "")
    assert "key 2" in (keys.check_line([LONG[0], forged]) or "")
    assert "is not endorsed by key 1" in (keys.check_line([LONG[0], endorsed_by_stranger]) or "")


def test_an_endorsement_is_for_one_number() -> None:
    """An endorsed key cannot have another number."""
    moved = replace(LONG[1], number=3)
    assert "key 3" in (keys.check_line([LONG[0], LONG[1], moved]) or "")


def test_trust_leads_onwards_and_never_back() -> None:
    """A reader who trusts a key trusts all later keys in the line, and no earlier one."""
    assert set(keys.follow(LONG, [FIRST[0].public])) == {key.id for key in LONG}
    assert set(keys.follow(LONG, [SECOND[0].public])) == {LONG[1].id, LONG[2].id}
    assert set(keys.follow(LONG, [THIRD[0].public])) == {LONG[2].id}
    assert keys.follow(LONG, [STRANGER[0].public]) == {}


def test_trust_ends_where_an_endorsement_is_forged() -> None:
    """A key without an endorsement by a trusted key is not trusted, nor are the keys after it."""
    broken = [LONG[0], replace(LONG[1], endorsement=bytes(64)), LONG[2]]
    assert set(keys.follow(broken, [FIRST[0].public])) == {LONG[0].id}


def test_public_keys_survive_export_and_reading() -> None:
    """One file has several keys, with text between them."""
    text = b"key 1\n" + keys.to_pem(FIRST[0].public) + b"\nkey 2\n" + keys.to_pem(SECOND[0].public)
    assert keys.read_pem(text) == [FIRST[0].public, SECOND[0].public]


@pytest.mark.parametrize("text", [b"", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", b"\xff" * 9])
def test_what_is_no_public_key_is_refused(text: bytes) -> None:
    """The message says which command writes one."""
    with pytest.raises(InvalidRequest, match="holdfast keys export"):
        keys.read_pem(text)


def test_a_private_key_is_not_taken_for_a_public_one() -> None:
    """A reader who is given the wrong half gets an error."""
    with pytest.raises(InvalidRequest):
        keys.read_pem(FIRST[0].private or b"")
