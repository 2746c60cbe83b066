"""A head that was kept outside the store shows whether the chain was cut off or rewritten since."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from holdfast import Holdfast
from holdfast.audit.check.claims import Claim
from holdfast.audit.records import Operated, encode
from holdfast.audit.sealer import Sealer
from holdfast.errors import InvalidRequest
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from holdfast.testing.virtual import VirtualClock, run_virtually

NOW = 1_700_000_000_000_000


class Ground:
    def __init__(self) -> None:
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.store = MemoryStore(self.clock.now)
        self.app = Holdfast(self.store, worker=False, clock=self.clock)

    async def sealed(self, *names: str, tenant: str = "default") -> None:
        """Commit an entry for each name, each sealed in a separate block."""
        await self.app.open()
        for name in names:
            body = encode(Operated(NOW, "pause", name))
            await self.store.commit([p.Note(tenant, None, "operator", NOW, body)])
            await Sealer(self.store, self.clock).seal()

    def cut(self, count: int, tenant: str = "default") -> None:
        """Remove blocks from the end, with their entries."""
        tables = self.store._tables
        tables.blocks[tenant] = tables.blocks[tenant][:-count]
        tables.audit = [entry for entry in tables.audit if entry.tenant != tenant or (entry.position or 0) < 3 - count]

    async def claim(self, head: bytes, tenant: str = "default") -> Claim:
        verdict = await self.app.audit.verify(tenant=tenant, head=head)
        (claim,) = [claim for claim in verdict.claims if claim.about == "head"]
        assert verdict.good == (claim.state != "broken")
        return claim


def test_a_chain_that_grows_holds_the_head_that_was_kept() -> None:
    """However many blocks follow it."""

    async def main() -> None:
        ground = Ground()
        await ground.sealed("a", "b")
        head = await ground.app.audit.head()
        assert (await ground.claim(head)).state == "consistent"
        await ground.sealed("c", "d", "e")
        claim = await ground.claim(head)
        assert claim.text == "the chain holds block 2, whose head was kept, and 3 blocks follow it."
        assert "head" not in {claim.about for claim in (await ground.app.audit.verify()).claims}

    run_virtually(main())


@pytest.mark.parametrize(("count", "last"), [(1, 2), (2, 1), (3, 0)])
def test_an_end_that_was_cut_off_is_found(count: int, last: int) -> None:
    """A store that was reset to an earlier state looks the same. Without the head nobody would notice."""

    async def main() -> None:
        ground = Ground()
        await ground.sealed("a", "b", "c")
        head = await ground.app.audit.head()
        ground.cut(count)
        if last:
            assert (await ground.app.audit.verify()).good
        claim = await ground.claim(head)
        assert (claim.state, f"ends with block {last}, and the head of block 3 was kept" in claim.text) == (
            "broken",
            True,
        )

    run_virtually(main())


def test_a_chain_that_was_set_back_and_went_on_otherwise_is_found() -> None:
    """It is whole, signed by the same key, and has as many blocks."""

    async def main() -> None:
        ground = Ground()
        await ground.sealed("a", "b", "c")
        head = await ground.app.audit.head()
        ground.cut(1)
        await ground.sealed("not c", "d")
        assert (await ground.app.audit.verify()).good
        claim = await ground.claim(head)
        assert (claim.state, "block 3 is not the one whose head was kept" in claim.text) == ("broken", True)

    run_virtually(main())


def test_a_chain_is_compared_with_the_heads_of_its_tenant() -> None:
    """One file may have the heads of all tenants, and of several times."""

    async def main() -> None:
        ground = Ground()
        await ground.sealed("a", "b", "c")
        first = await ground.app.audit.head(every_tenant=True)
        await ground.sealed("a", "b", "c", tenant="acme")
        heads = first + await ground.app.audit.head(every_tenant=True)
        assert len(heads.splitlines()) == 3
        for tenant in ("default", "acme"):
            assert (await ground.claim(heads, tenant)).state == "consistent"
        ground.cut(1, "acme")
        assert (await ground.claim(heads)).state == "consistent"
        assert (await ground.claim(heads, "acme")).state == "broken"

    run_virtually(main())


def test_no_head_is_judged_where_the_chain_is_broken() -> None:
    """The broken chain is the finding."""

    async def main() -> None:
        ground = Ground()
        await ground.sealed("a", "b")
        head = await ground.app.audit.head()
        tables = ground.store._tables
        tables.audit[0] = replace(tables.audit[0], at=0)
        verdict = await ground.app.audit.verify(head=head)
        assert [claim.state for claim in verdict.claims if claim.about == "head"] == ["not proved"]

    run_virtually(main())


def test_what_is_no_head_is_refused() -> None:
    """Neither another file nor the head of another tenant counts as a head."""

    async def main() -> None:
        ground = Ground()
        await ground.app.open()
        with pytest.raises(InvalidRequest, match="nothing is sealed in the audit of tenant 'default' so far"):
            await ground.store.open()
            await ground.app.audit.head()
        await ground.sealed("a")
        head = await ground.app.audit.head()
        await ground.sealed("a", tenant="acme")
        for data, problem in (
            (b"", "there is no head in it"),
            (b"{}", "a head cannot be read"),
            (b"\xff", "a head cannot be read"),
            (head.replace(b"head.1", b"head.9"), "of format 'holdfast.audit.head.9'"),
            (head.replace(b'"head":"', b'"head":"x'), "a head cannot be read"),
        ):
            with pytest.raises(InvalidRequest, match=problem):
                await ground.app.audit.verify(head=data)
        with pytest.raises(InvalidRequest, match="there is no head of tenant 'acme' in it"):
            await ground.app.audit.verify(tenant="acme", head=head)

    run_virtually(main())
