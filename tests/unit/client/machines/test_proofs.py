"""The proof of a cell: made on a store, checked by its bytes alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from holdfast import Holdfast
from holdfast.audit.keychain import Keychain
from holdfast.audit.keys import to_pem
from holdfast.client.governance.evidence import verify_evidence
from holdfast.errors import InvalidRequest
from holdfast.runs.lanes import lane_id
from holdfast.store.memory import MemoryStore
from holdfast.testing.virtual import VirtualClock, run_virtually
from tests.unit.client.machines.test_lane_counts import Bell, Rung, _bell, _echo, _engine


def _on_engine(check: Callable[[Holdfast], Awaitable[None]]) -> None:
    async def whole() -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        app = await _engine(MemoryStore(clock.now), clock, _bell(2), _echo(2))
        await check(app)
        await app.close()

    run_virtually(whole())


async def _ring(app: Holdfast, *names: str) -> None:
    for name in names:
        place = (await app.machines.send(Rung(name))).places[0]
        assert await app.machines.cell("bell", name).state(after=place) is not None


async def _pem(app: Holdfast) -> bytes:
    (key,) = await Keychain(app.whole_store, app.clock).published()
    return to_pem(key.public)


def _claims(data: bytes, trusted: bytes | None = None) -> dict[str, str]:
    return {claim.about: claim.state for claim in verify_evidence(data, trusted=trusted).claims}


def test_a_proof_shows_the_record_of_a_cell_to_whoever_trusts_the_key() -> None:
    """It names the version of the lane's journal, and says what it does not show."""

    async def check(app: Holdfast) -> None:
        await _ring(app, *(f"b{number}" for number in range(150)))
        made = await app.machines.cell("bell", "b7").proof()
        assert made.exists
        verdict = verify_evidence(made.data, trusted=await _pem(app))
        assert verdict.good
        assert verdict.trusted
        states = {claim.about: claim.state for claim in verdict.claims}
        assert {states[each] for each in ("signature", "block", "root", "cell", "keys", "trust")} == {"proved"}
        assert {states[each] for each in ("since", "handlers")} == {"not proved"}
        told = next(claim.text for claim in verdict.claims if claim.about == "cell")
        assert "the key 'b7' of machine bell" in told
        assert f"version {made.version}" in told
        record = bytes.fromhex(msgspec.json.decode(made.data)["record"])
        (row,) = await app.store.cells(app.machines.cell("bell", "b7").lane_key, [b"bb7"])
        assert record == row.record

    _on_engine(check)


def test_a_proof_without_a_trusted_key_is_only_consistent() -> None:
    async def check(app: Holdfast) -> None:
        await _ring(app, "b1")
        verdict = verify_evidence((await app.machines.cell("bell", "b1").proof()).data)
        assert verdict.good
        assert not verdict.trusted

    _on_engine(check)


def test_that_a_key_has_no_cell_is_proved_too() -> None:
    """In its own lane alone: in another lane no key of this one has a cell."""

    async def check(app: Holdfast) -> None:
        await _ring(app, *(f"b{number}" for number in range(20)))
        made = await app.machines.cell("bell", "none").proof()
        assert not made.exists
        assert _claims(made.data, await _pem(app))["cell"] == "proved"
        handle = app.machines.cell("bell", "b1")
        other = lane_id("bell", 1 - handle.lane)
        elsewhere = next(f"b{n}" for n in range(20) if app.machines.cell("bell", f"b{n}").lane != handle.lane)
        shown = msgspec.json.decode((await app.machines.cell("bell", elsewhere).proof()).data)
        assert shown["lane"] == other
        forged = {**shown, "key": handle._bytes.hex(), "record": None}
        assert _claims(msgspec.json.encode(forged))["cell"] == "broken"

    _on_engine(check)


CHANGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "record": lambda shown: shown["record"].replace("61", "62", 1) + "00",
    "version": lambda shown: shown["version"] + 1,
    "head": lambda shown: "0" * 64,
    "root": lambda shown: "1" * 64,
    "tenant": lambda shown: "other",
    "machine": lambda shown: "echo",
    "lane": lambda shown: lane_id("bell", 1 - int(shown["lane"][-1])),
    "lanes": lambda shown: 1,
    "key": lambda shown: "6162",
    "nodes": lambda shown: shown["nodes"][:-2],
    "signature": lambda shown: "00" * 64,
    "signer": lambda shown: "0" * 32,
    "made_at": lambda shown: shown["made_at"] + 1,
    "format": lambda shown: "holdfast.cell.9",
    "keys": lambda shown: [],
}


@pytest.mark.parametrize("field", CHANGES)
def test_a_proof_with_anything_changed_is_broken(field: str) -> None:
    async def check(app: Holdfast) -> None:
        await _ring(app, "b1")
        shown = msgspec.json.decode((await app.machines.cell("bell", "b1").proof()).data)
        changed = msgspec.json.encode({**shown, field: CHANGES[field](shown)})
        assert "broken" in _claims(changed, await _pem(app)).values()

    _on_engine(check)


@pytest.mark.parametrize("data", [b"{}", b"{", b' {"format": 1}', b"{" * 100_000])
def test_a_file_that_is_no_proof_is_refused(data: bytes) -> None:
    assert not verify_evidence(data).good


def test_nothing_is_proved_of_a_lane_that_never_had_a_cell() -> None:
    async def check(app: Holdfast) -> None:
        with pytest.raises(InvalidRequest, match="never had one"):
            await app.machines.cell("bell", "b1").proof()

    _on_engine(check)


def test_a_cell_is_proved_at_its_present_state() -> None:
    """A root is made where something was written since the last one, and only there."""

    async def check(app: Holdfast) -> None:
        await _ring(app, "b1")
        first = await app.machines.cell("bell", "b1").proof()
        assert (await app.machines.cell("bell", "b1").proof()).version == first.version
        await _ring(app, "b1")
        later = await app.machines.cell("bell", "b1").proof()
        assert later.version > first.version
        assert await app.machines.cell("bell", "b1").state() == Bell(2)
        for made in (first, later):
            assert _claims(made.data, await _pem(app))["cell"] == "proved"

    _on_engine(check)
