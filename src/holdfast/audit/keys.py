"""The keys that sign the audit: Ed25519, numbered from 1, each endorsed by the one before it.

A key's id is the first half of the hash of its public bytes. A reader who has one public key can follow the
endorsements from it to all later keys, and to no earlier one. ``retirement`` says up to which block a retired key
counts. The private half is PKCS8 PEM, encrypted where there was a passphrase when the key was made.

``cryptography`` is imported where it is used: it takes longer to load than all of this package.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.errors import InvalidRequest, KeyLocked
from holdfast.journal.cbor import canonical
from holdfast.store.governance import SigningKey

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PASSPHRASE_VARIABLE: Final = "HOLDFAST_KEY_PASSPHRASE"  # noqa: S105  # a name, not a secret
FIRST_NUMBER: Final = 1

_ENDORSEMENT: Final = "holdfast.audit.key.1"
_RETIRED: Final = re.compile(rb"^key \d+: ([0-9a-f]{32}) \(retired\)\s*$", re.MULTILINE)
_PEM: Final = re.compile(rb"-----BEGIN PUBLIC KEY-----[^-]*+(?:-----END PUBLIC KEY-----)?")
"""One without an end is found, too, and cannot be read."""


class PublicKey(msgspec.Struct, frozen=True, gc=False):
    """The part of a key that may be published."""

    number: int
    id: str
    public: bytes
    created_at: int
    endorsement: bytes = b""
    chains: int = 0
    heads: bytes = b""
    retirement: bytes = b""


class Signer:
    """An opened key."""

    def __init__(self, id: str, private: Ed25519PrivateKey) -> None:
        self.id = id
        self._private = private

    @property
    def public(self) -> bytes:
        """The public half."""
        return self._private.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        return self._private.sign(message)


def key_id(public: bytes) -> str:
    """A key's id, from its public bytes."""
    return hashlib.sha256(public).digest()[:16].hex()


def generate(now: int, passphrase: str | None, previous: tuple[SigningKey, Signer] | None = None) -> SigningKey:
    """A new key: the first, or the one after ``previous``, endorsed by it."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.generate()
    public = private.public_key().public_bytes_raw()
    encryption = (
        serialization.BestAvailableEncryption(passphrase.encode()) if passphrase else serialization.NoEncryption()
    )
    pem = private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    if previous is None:
        return SigningKey(FIRST_NUMBER, key_id(public), public, pem, now)
    before, signer = previous
    number = before.number + 1
    return SigningKey(number, key_id(public), public, pem, now, signer.sign(_endorsement(before.id, number, public)))


def unlock(key: SigningKey, passphrase: str | None) -> Signer:
    """Open a key for signing. Raises KeyLocked where it cannot be opened here."""
    if key.private is None:
        raise KeyLocked(f"the private half of signing key {key.id} is not in this store: seal where it is stored.")
    signer = open_signer(key.private, passphrase, f"signing key {key.id}")
    if signer.public != key.public:
        raise KeyLocked(f"the private half of signing key {key.id} does not belong to its public half: restore it.")
    return signer


def open_signer(pem: bytes, passphrase: str | None, what: str) -> Signer:
    """Open a private half. ``what`` names it. Raises KeyLocked where it cannot be opened, or is no Ed25519 key."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    is_encrypted = b"ENCRYPTED" in pem.partition(b"\n")[0]
    if is_encrypted and not passphrase:
        raise KeyLocked(f"{what} is encrypted: set {PASSPHRASE_VARIABLE} to its passphrase.")
    secret = passphrase.encode() if is_encrypted and passphrase else None
    try:
        private = serialization.load_pem_private_key(pem, secret)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        remedy = f"set {PASSPHRASE_VARIABLE} to the one it was made with" if is_encrypted else "restore it"
        raise KeyLocked(f"{what} cannot be opened ({error}): {remedy}.") from error
    if not isinstance(private, Ed25519PrivateKey):
        raise KeyLocked(f"{what} is no Ed25519 key: make one that is.")
    return Signer(key_id(private.public_key().public_bytes_raw()), private)


def is_signed(public: bytes, signature: bytes, message: bytes) -> bool:
    """Whether this key made this signature over this message."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def published(key: SigningKey) -> PublicKey:
    """The key without its private half."""
    retirement = (key.chains, key.heads, key.retirement)
    return PublicKey(key.number, key.id, key.public, key.created_at, key.endorsement, *retirement)


def check_line(line: Sequence[PublicKey]) -> str | None:
    """The problem of a line of keys, if there is one: numbers, ids and endorsements must follow from each other."""
    if not line:
        return "there is no key."
    before: PublicKey | None = None
    for key in line:
        expected = FIRST_NUMBER if before is None else before.number + 1
        if key.number != expected:
            return f"key {expected} is missing: key {key.number} stands in its place."
        if key.id != key_id(key.public):
            return f"key {key.number} is called {key.id}, and its public bytes give {key_id(key.public)}."
        if before is not None and not _is_endorsed(key, before):
            return f"key {key.number} ({key.id}) is not endorsed by key {before.number} ({before.id})."
        before = key
    return None


def follow(line: Sequence[PublicKey], publics: Collection[bytes]) -> dict[str, bytes]:
    """The trusted keys, by id: those whose public bytes were given, and all later keys that follow by endorsement."""
    trusted: dict[str, bytes] = {}
    before: PublicKey | None = None
    for key in line:
        follows = before is not None and before.id in trusted and _is_endorsed(key, before)
        if key.public in publics or follows:
            trusted[key.id] = key.public
        before = key
    return trusted


def _is_endorsed(key: PublicKey, by: PublicKey) -> bool:
    return is_signed(by.public, key.endorsement, _endorsement(by.id, key.number, key.public))


def _endorsement(by: str, number: int, public: bytes) -> bytes:
    return canonical([_ENDORSEMENT, by, number, public])


def to_pem(public: bytes) -> bytes:
    """A public key as PEM."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    key = Ed25519PublicKey.from_public_bytes(public)
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def key_file(line: Sequence[tuple[PublicKey, bool]]) -> bytes:
    """The file of the public keys: PEM, with a line of text before each that says whether it is retired."""
    parts = [
        f"key {key.number}: {key.id}{' (retired)' if is_retired else ''}\n".encode() + to_pem(key.public)
        for key, is_retired in line
    ]
    return b"".join(parts)


def read_retired(text: bytes) -> set[bytes]:
    """The public keys that a PEM file marks as retired. Raises InvalidRequest."""
    ids = {id.decode() for id in _RETIRED.findall(text)}
    return {public for public in read_pem(text) if key_id(public) in ids}


def read_pem(text: bytes) -> list[bytes]:
    """The public keys in a PEM file, in order; text between them is ignored. Raises InvalidRequest."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    publics: list[bytes] = []
    for pem in _PEM.findall(text):
        try:
            key = serialization.load_pem_public_key(pem)
        except (ValueError, UnsupportedAlgorithm) as error:
            raise InvalidRequest(
                f"a public key cannot be read: {error}. `holdfast keys export` writes them."
            ) from error
        if not isinstance(key, Ed25519PublicKey):
            raise InvalidRequest("a public key is not an Ed25519 key. `holdfast keys export` writes the right ones.")
        publics.append(key.public_bytes_raw())
    if not publics:
        raise InvalidRequest("there is no PEM public key in it. `holdfast keys export` writes them.")
    return publics
