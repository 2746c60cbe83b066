"""The audit's keys in the store: a key that nobody endorsed signs nothing."""

from __future__ import annotations

import asyncio
import logging

import pytest
from msgspec.structs import replace

from holdfast.audit import keys
from holdfast.audit.keychain import Keychain
from holdfast.audit.sealer import Sealer
from holdfast.errors import StoreCorrupt
from holdfast.store import protocol as p
from holdfast.testing.virtual import run_virtually
from tests.unit.audit.governed import NOW, TENANT
from tests.unit.audit.test_sealer import note, opened


def intruder() -> p.SigningKey:
    """A key that was added by somebody who can write to the database, but cannot open our keys."""
    return replace(keys.generate(NOW, None), number=2, endorsement=b"")


def test_a_key_that_was_not_endorsed_signs_nothing_and_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Entries wait, the log names the key and the remedy once, and sealing continues without the key."""

    async def main() -> p.SigningKey:
        store, clock = await opened()
        sealer = Sealer(store, clock)
        sealer.start()
        await store.commit([note(1)])
        sealer.wake()
        await asyncio.sleep(1)
        first = (await store.signing_keys())[0]
        fake = intruder()
        assert await store.add_signing_key(fake)
        await store.commit([note(2)])
        sealer.wake()
        await asyncio.sleep(30)
        assert [block.signer for block in await store.blocks(TENANT, 0, 10)] == [first.id]
        del store._tables.signing_keys[2]
        await asyncio.sleep(10)
        await sealer.stop()
        assert [block.signer for block in await store.blocks(TENANT, 0, 10)] == [first.id, first.id]
        return fake

    with caplog.at_level(logging.WARNING, "holdfast.sealer"):
        fake = run_virtually(main())
    complaint, recovered = (record.getMessage() for record in caplog.records)
    assert f"key 2 ({fake.id}) is not endorsed by key 1" in complaint
    assert "delete its row from signing_keys" in complaint
    assert recovered == "the audit is sealed again"


def test_no_key_is_endorsed_after_one_that_was_not() -> None:
    """A rotation would accept the intruder's key."""

    async def main() -> None:
        store, clock = await opened()
        keychain = Keychain(store, clock)
        await keychain.signer()
        await store.add_signing_key(intruder())
        for read in (keychain.signer, keychain.published, lambda: keychain.rotate(lambda _: note(1))):
            with pytest.raises(StoreCorrupt, match="is not endorsed by key 1"):
                await read()
        assert len(await store.signing_keys()) == 2

    run_virtually(main())


def test_the_line_of_keys_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for every block, but again after a rotation."""
    lengths: list[int] = []
    check_line = keys.check_line

    def counted(line: list[keys.PublicKey]) -> str | None:
        lengths.append(len(line))
        return check_line(line)

    monkeypatch.setattr(keys, "check_line", counted)

    async def main() -> None:
        store, clock = await opened()
        keychain = Keychain(store, clock)
        for _ in range(3):
            await keychain.signer()
        await keychain.rotate(lambda _: note(1))
        for _ in range(3):
            await keychain.signer()

    run_virtually(main())
    assert lengths == [1, 2]
