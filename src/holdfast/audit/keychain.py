"""The audit's keys in the store: the first is made when it is needed, the last one signs.

Nothing is signed with a key that the key before it does not endorse. Otherwise a person who can write to the database,
but cannot open a key, could add a new one.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from holdfast.audit import keys
from holdfast.audit.keys import PublicKey, Signer
from holdfast.audit.retirement import check_retirement, end_of, retire
from holdfast.errors import StoreCorrupt
from holdfast.runs.clock import Clock
from holdfast.store.protocol import Note, SigningKey, Store


def passphrase_of_environment() -> str | None:
    """The passphrase that keys are encrypted with, if there is one."""
    return os.environ.get(keys.PASSPHRASE_VARIABLE) or None


class Keychain:
    """Opens each key once. It reads the passphrase whenever it needs one, so the passphrase may be set later."""

    def __init__(
        self, store: Store, clock: Clock, passphrase: Callable[[], str | None] = passphrase_of_environment
    ) -> None:
        self._store = store
        self._clock = clock
        self._passphrase = passphrase
        self._opened: Signer | None = None
        self._checked: list[PublicKey] = []

    async def line(self) -> list[SigningKey]:
        """All keys, in order; the first is made now if there is none. Raises StoreCorrupt where one is not endorsed."""
        line = await self._store.signing_keys()
        while not line:
            # Of two processes that do this at once, the store takes one key, and both read that one.
            await self._store.add_signing_key(keys.generate(self._clock.now(), self._passphrase()))
            line = await self._store.signing_keys()
        self._check(line)
        return line

    async def signer(self) -> Signer:
        """The key that signs now. Raises KeyLocked, or as ``line`` does."""
        return self._open((await self.line())[-1])

    async def published(self) -> list[PublicKey]:
        """The public halves."""
        return [keys.published(key) for key in await self.line()]

    async def present(self) -> tuple[list[PublicKey], Signer]:
        """The public halves and the key that signs, from one read. Raises as ``signer`` does."""
        line = await self.line()
        return [keys.published(key) for key in line], self._open(line[-1])

    async def rotate(self, note_of: Callable[[SigningKey], Note]) -> SigningKey:
        """Add the next key, endorsed by the present one, with its note for the audit; it signs from now on.

        It signs for the last block of each tenant's chain, which retires the keys before it: they may sign no later
        block. Where a chain grows before that is committed, it tries again. Raises KeyLocked, or as ``line`` does.
        """
        following: SigningKey | None = None
        while True:
            present = (await self.line())[-1]
            if following is None or following.number != present.number + 1:
                following = keys.generate(self._clock.now(), self._passphrase(), (present, self._open(present)))
                signer = keys.unlock(following, self._passphrase())
            ends = [end_of(head) for head in await self._store.heads()]
            retiring = retire(following, signer, ends)
            if await self._store.add_signing_key(retiring, note_of(retiring), ends):
                return retiring

    def _check(self, line: list[SigningKey]) -> None:
        """Check that each key follows from the one before it. An unchanged line is not checked again."""
        publics = [keys.published(key) for key in line]
        if publics != self._checked:
            problems = (keys.check_line(publics), *(check_retirement(key) for key in publics))
            if (problem := next((each for each in problems if each is not None), None)) is not None:
                raise StoreCorrupt(
                    f"the signing keys in the store are not in order: {problem} Nothing is signed until they are: find "
                    "out who wrote that key, delete its row from signing_keys, or restore the table from a backup."
                )
            self._checked = publics

    def _open(self, key: SigningKey) -> Signer:
        if self._opened is None or self._opened.id != key.id:
            self._opened = None
            self._opened = keys.unlock(key, self._passphrase())
        return self._opened
