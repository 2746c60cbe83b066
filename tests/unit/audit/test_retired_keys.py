"""A rotation retires a key: its later signatures are not trusted, its earlier ones stay good."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from holdfast import Holdfast
from holdfast.audit import keys
from holdfast.audit.archivist import Archivist
from holdfast.audit.bundles import unpack
from holdfast.audit.chain import make_block
from holdfast.audit.check.claims import Verdict
from holdfast.audit.collector import gather
from holdfast.audit.evidence import Inputs, Journal, build
from holdfast.audit.keychain import Keychain
from holdfast.audit.keys import PublicKey, Signer
from holdfast.audit.sealer import Sealer
from holdfast.client.governance.evidence import verify_evidence
from holdfast.errors import StoreCorrupt
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from holdfast.testing.virtual import VirtualClock, run_virtually
from tests.unit.audit.governed import NOW, RUN, TENANT, journal, run_in_store


class Ground:
    """A store whose key is rotated; ``old`` is the first key, opened, as a thief has it."""

    def __init__(self) -> None:
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.store = MemoryStore(self.clock.now)
        self.app = Holdfast(self.store, worker=False, clock=self.clock)
        self.keychain = Keychain(self.store, self.clock)
        self.old: Signer

    async def open(self) -> p.Run:
        """Open it with a governed run whose entries are not sealed yet."""
        await self.app.open()
        self.old = await self.keychain.signer()
        return await run_in_store(self.store)

    async def note(self, act: str = "x", tenant: str = TENANT) -> None:
        body = b'{"kind":"operator","at":1,"act":"%s","who":"y"}' % act.encode()
        await self.store.commit([p.Note(tenant, None, "operator", NOW, body)])

    async def seal(self) -> None:
        await Sealer(self.store, self.clock).seal()

    async def note_and_seal(self, tenant: str = TENANT) -> None:
        await self.note(tenant=tenant)
        await self.seal()

    async def rotate(self) -> bytes:
        """Rotate the key; gives the export of the public keys after it."""
        await self.app.audit.rotate_key(by="ann", tenant="default")
        return await self.app.audit.public_keys()

    def forge(self, tenant: str = TENANT) -> None:
        """Append a block that the old key signs, without the store's operations."""
        tables = self.store._tables
        entry = p.AuditEntry(len(tables.audit) + 1, tenant, None, "operator", NOW, b"{}")
        chain = tables.blocks.setdefault(tenant, [])
        block = make_block(chain[-1] if chain else None, [entry], NOW, self.old)
        tables.audit.append(replace(entry, position=block.first))
        chain.append(block)

    async def verify(self, trusted: bytes | None = None, tenant: str = TENANT) -> Verdict:
        return await self.app.audit.verify(tenant=tenant, trusted=trusted)


async def sealed_once() -> Ground:
    """A ground whose run has one sealed block."""
    ground = Ground()
    await ground.open()
    await ground.seal()
    return ground


async def with_an_idle_chain() -> tuple[Ground, bytes]:
    """A ground with a second tenant that has one block; and the keys."""
    ground = Ground()
    await ground.open()
    await ground.note_and_seal(tenant="idle")
    return ground, await ground.app.audit.public_keys()


def broken(verdict: Verdict) -> str:
    """The broken claims. The samples have no receipts and tasks in the store, so these do not count."""
    return " ".join(c.text for c in verdict.claims if c.state == "broken" and c.about not in ("receipts", "tasks"))


def chain(verdict: Verdict) -> str:
    (claim,) = [claim for claim in verdict.claims if claim.about == "chain"]
    return claim.text


def test_a_block_by_a_retired_key_is_refused() -> None:
    """In a growing chain, in an idle one or in a new one, with the keys of any time."""

    async def main() -> None:
        ground, before = await with_an_idle_chain()
        after = await ground.rotate()
        for tenant in (TENANT, "idle", "new"):
            ground.forge(tenant)
            for trusted in (None, before, after):
                verdict = await ground.verify(trusted, tenant)
                number = 1 if tenant == "new" else 2
                assert f"block {number} is signed by key {ground.old.id}, which key 2 (" in chain(verdict)
                assert not verdict.good

    run_virtually(main())


def test_earlier_signatures_stay_good() -> None:
    """A chain over one or two rotations, and one that is idle since, are trusted by the first key and by the last."""

    async def main() -> None:
        ground, before = await with_an_idle_chain()
        for _ in range(2):
            after = await ground.rotate()
            await ground.note_and_seal()
            for tenant in (TENANT, "idle", "default"):
                for trusted in (before, after):
                    verdict = await ground.verify(trusted, tenant)
                    assert (verdict.trusted, broken(verdict)) == (True, "")

    run_virtually(main())


def test_a_chain_that_was_cut_off_before_the_rotation_is_found() -> None:
    """The new key has signed for its last block."""

    async def main() -> None:
        ground = await sealed_once()
        await ground.note_and_seal()
        await ground.rotate()
        tables = ground.store._tables
        tables.blocks[TENANT].pop()
        tables.audit = [entry for entry in tables.audit if entry.tenant != TENANT or entry.run is not None]
        assert "the chain was cut off: it ends with block 1, and key 2 (" in chain(await ground.verify())

    run_virtually(main())


def test_an_altered_retirement_is_found() -> None:
    """The ends, or the key's signature over them. Its removal is found by a reader who knows of the rotation."""

    async def main() -> None:
        ground = await sealed_once()
        after = await ground.rotate()
        await ground.note_and_seal()
        tables = ground.store._tables
        second, (end,) = tables.signing_keys[2], tables.chain_ends[2]
        tables.chain_ends[2] = [replace(end, number=9)]
        assert "the ends of chains that key 2" in broken(await ground.verify())
        tables.chain_ends[2] = [end]
        tables.signing_keys[2] = replace(second, heads=bytes(32))
        assert "its signature is not over it" in broken(await ground.verify())
        tables.signing_keys[2] = replace(second, retirement=b"")
        assert "names ends without its signature" in broken(await ground.verify())
        tables.signing_keys[2] = replace(second, retirement=b"", heads=b"", chains=0)
        assert broken(await ground.verify()) == ""
        assert f"key {ground.old.id} is retired, and the store has lost" in broken(await ground.verify(after))

    run_virtually(main())


def test_a_rotation_by_an_earlier_version_verifies_as_before() -> None:
    """It does not retire the old key, so that key counts until a later rotation."""

    async def main() -> None:
        ground = await sealed_once()
        (first,) = await ground.store.signing_keys()
        assert await ground.store.add_signing_key(keys.generate(NOW, None, (first, ground.old)))
        await ground.note_and_seal()
        exported = await ground.app.audit.public_keys()
        assert b"retired" not in exported
        assert (await ground.verify(exported)).trusted
        ground.forge()
        assert broken(await ground.verify(exported)) == ""
        ground.store._tables.blocks[TENANT].pop()
        ground.store._tables.audit.pop()
        assert (await ground.rotate()).count(b" (retired)\n") == 2
        ground.forge()
        assert "which key 3 (" in chain(await ground.verify())

    run_virtually(main())


async def over_a_rotation(ground: Ground) -> tuple[bytes, bytes, bytes, bytes]:
    """A run with a block on each side of a rotation: its evidence before and after, and the keys before and after."""
    run = await ground.open()
    await ground.seal()
    first = (await gather(ground.store, ground.keychain, ground.clock, run)).data
    before = await ground.app.audit.public_keys()
    after = await ground.rotate()
    note = p.Note(TENANT, RUN, "operator", NOW, b'{"kind":"operator","at":1,"act":"x","who":"y","run":"order-1"}')
    await ground.store.commit([note])
    await ground.seal()
    second = (await gather(ground.store, ground.keychain, ground.clock, run)).data
    return first, second, before, after


def test_evidence_over_a_rotation_is_proved() -> None:
    """By the key before the rotation and by the one after it: the bundle shows that its old block is early enough."""

    async def main() -> None:
        ground = Ground()
        first, second, before, after = await over_a_rotation(ground)
        for trusted in (before, after):
            verdict = verify_evidence(second, trusted=trusted)
            assert (verdict.trusted, broken(verdict)) == (True, "")
        assert b'"holdfast.evidence.3"' in unpack(second)["manifest.json"]
        assert b'"holdfast.evidence.2"' in unpack(first)["manifest.json"]
        assert verify_evidence(first, trusted=before).trusted

    run_virtually(main())


def test_old_evidence_is_not_proved_to_a_reader_who_knows_of_the_rotation() -> None:
    """It is good but not trusted: a thief of the old key could have made the same."""

    async def main() -> None:
        first, _, _, after = await over_a_rotation(Ground())
        verdict = verify_evidence(first, trusted=after)
        assert (verdict.good, verdict.trusted) == (True, False)
        (claim,) = [claim for claim in verdict.claims if claim.about == "trust"]
        assert claim.state == "not proved"
        assert "made again" in claim.text

    run_virtually(main())


async def forged(
    ground: Ground, line: Sequence[PublicKey], signer: Signer, *, number: int = 1, ends: bool = True
) -> bytes:
    """Evidence of a run that never existed, in a block with this number that the old key signs."""
    (run,) = await ground.store.get([p.Key(TENANT, RUN)])
    mine = await ground.store.entries_in([p.Span(run.key)], 100)
    genuine = (await ground.store.blocks(TENANT, 1, 1))[0]
    previous = None if number == 1 else replace(genuine, number=number - 1)
    block = make_block(previous, mine, NOW, ground.old)
    entries = [replace(entry, position=at) for at, entry in enumerate(mine, block.first)]
    shown = {2: await ground.store.chain_ends(2)} if ends else {}
    inputs = Inputs(run, 0, [Journal(0, journal())], entries, [block], ends=shown)
    return build(inputs, line, signer, NOW)


def test_evidence_by_a_retired_key_is_refused() -> None:
    """With or without the new key in it, and whoever signs the manifest."""

    async def main() -> None:
        ground = Ground()
        _, _, _, after = await over_a_rotation(ground)
        line, new = await ground.keychain.present()
        stolen = await forged(ground, line, ground.old)
        assert "in the same bundle has retired" in broken(verify_evidence(stolen, trusted=after))
        hidden = verify_evidence(await forged(ground, line[:1], ground.old), trusted=after)
        assert not hidden.trusted
        own = keys.generate(NOW, None, ((await ground.keychain.line())[0], ground.old))
        own_line = [line[0], keys.published(own)]
        endorsed = await forged(ground, own_line, keys.unlock(own, None), ends=False)
        assert "no endorsement leads there from a key that was given" in broken(
            verify_evidence(endorsed, trusted=after)
        )
        for number, ends in ((1, True), (1, False), (2, True), (5, True)):
            problem = broken(verify_evidence(await forged(ground, line, new, number=number, ends=ends), trusted=after))
            assert f"block {number} is signed by key {ground.old.id}, which key 2 (" in problem

    run_virtually(main())


@pytest.mark.parametrize("where", ["place", "number", "head", "hashes"])
def test_an_end_that_was_altered_in_a_bundle_is_found(where: str) -> None:
    """Its hashes must lead to the root that the new key signed."""

    async def main() -> None:
        ground = Ground()
        run = await ground.open()
        for tenant in ("a", "b", "z"):
            await ground.note(tenant=tenant)
        await ground.seal()
        after = await ground.rotate()
        line, new = await ground.keychain.present()
        ends = await ground.store.chain_ends(2)
        mine = [replace(end, number=end.number + 1) if where == "number" else end for end in ends]
        if where == "head":
            mine = [replace(end, head=bytes(32)) for end in ends]
        if where == "hashes":
            mine = ends[:2]
        if where == "place":
            mine = [replace(end, tenant=TENANT) if end.tenant == "b" else end for end in ends if end.tenant != TENANT]
        (block,) = await ground.store.blocks(TENANT, 1, 9)
        entries = await ground.store.entries(p.AuditQuery(TENANT), 100)
        inputs = Inputs(run, 0, [Journal(0, journal())], entries, [block], ends={2: mine})
        problem = broken(verify_evidence(build(inputs, line, new, NOW), trusted=after))
        assert "the end that key 2 signed for was altered" in problem

    run_virtually(main())


def test_no_evidence_is_made_with_a_block_that_replaced_an_old_one() -> None:
    """The new key would vouch for it. Its hashes do not lead to the end of the chain that the new key signed for."""

    async def main() -> None:
        ground = Ground()
        await over_a_rotation(ground)
        (run,) = await ground.store.get([p.Key(TENANT, RUN)])
        tables = ground.store._tables
        mine = [replace(e, at=e.at + 1) for e in tables.audit if e.tenant == TENANT and e.position is not None][:-1]
        for entry in mine:
            tables.audit[entry.sequence - 1] = entry
        tables.blocks[TENANT][0] = make_block(None, mine, NOW, ground.old)
        with pytest.raises(StoreCorrupt, match="block 1 of tenant acme does not lead to the end of the chain"):
            await gather(ground.store, ground.keychain, ground.clock, run)

    run_virtually(main())


class _Moving(MemoryStore):
    """A store that seals an entry after each of the first three reads of all heads."""

    left = 3

    async def heads(self, tenants: Sequence[str] | None = None) -> list[p.Block]:
        found = await super().heads(tenants)
        if tenants is None and self.left:
            self.left -= 1
            await self.commit([p.Note(TENANT, None, "operator", NOW, b"{}")])
            await Sealer(self, VirtualClock(asyncio.get_running_loop())).seal()
        return found


def test_a_rotation_tries_again_where_a_chain_grows() -> None:
    """It must sign for the real end. Otherwise good blocks would be refused for ever."""

    async def main() -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        store = _Moving(clock.now)
        async with Holdfast(store, worker=False, clock=clock) as app:
            await app.audit.rotate_key(by="ann", tenant=TENANT)
            await Sealer(store, clock).seal()
            assert [end.number for end in await store.chain_ends(2)] == [3]
            assert (await app.audit.verify(tenant=TENANT, trusted=await app.audit.public_keys())).trusted

    run_virtually(main())


class _Rotated(MemoryStore):
    """A store in which the key is rotated, and the new key seals an entry, right after the keys were read."""

    waiting: list[p.Note]

    async def signing_keys(self) -> list[p.SigningKey]:
        found = await super().signing_keys()
        waiting, self.waiting = self.waiting, []
        if waiting:
            clock = VirtualClock(asyncio.get_running_loop())
            await Keychain(self, clock).rotate(lambda _: waiting[0])
            await Sealer(self, clock).seal()
        return found


def test_a_rotation_while_evidence_is_made_or_an_audit_is_verified_breaks_neither() -> None:
    """A block of the new key is not refused because the keys were read before."""

    async def main() -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        store = _Rotated(clock.now)
        store.waiting = []
        async with Holdfast(store, worker=False, clock=clock) as app:
            run = await run_in_store(store)
            await Sealer(store, clock).seal()
            store.waiting = [p.Note(TENANT, None, "operator", NOW, b'{"kind":"operator","at":1,"act":"x","who":"y"}')]
            assert broken(await app.audit.verify(tenant=TENANT)) == ""
            body = b'{"kind":"operator","at":1,"act":"x","who":"y","run":"order-1"}'
            store.waiting = [p.Note(TENANT, RUN, "operator", NOW, body)]
            await Archivist(store, clock).round()
            await Archivist(store, clock).round()
            data = await store.file(run.key, 0, p.EVIDENCE)
            assert data is not None
            assert broken(verify_evidence(data, trusted=await app.audit.public_keys())) == ""

    run_virtually(main())
