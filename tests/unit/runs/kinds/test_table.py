"""The law of kinds: a new kind of invocation is one file, and one line in the table."""

from __future__ import annotations

import pytest

from holdfast import workflow
from holdfast.cli.timeline import item_rows
from holdfast.client.views.timeline import fold
from holdfast.runs import journals
from holdfast.runs.kinds import table
from holdfast.runs.kinds.kind import Place
from holdfast.store.protocol import AuditQuery
from holdfast.testing.engine import virtual_engine
from holdfast.testing.virtual import run_virtually
from tests.unit.runs.kinds.remark import Remark, remark


@workflow(name="kinds.remarking")
async def remarking(text: str, settled: bool) -> str:
    await remark(text, settled=settled)
    return "said"


@pytest.fixture(autouse=True)
def one_line_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(table.KINDS, Remark.name, Remark())


def test_a_kind_of_another_part_is_planned_and_carried_out_by_its_commit() -> None:
    async def scenario() -> None:
        async with virtual_engine() as app:
            run = await app.start(remarking, "all is well", True)
            assert await run.result() == "said"
            (entry,) = await app.store.entries(AuditQuery("default", run.id, "remark"), 10)
            assert entry.body == b"all is well"

    run_virtually(scenario())


def test_a_kind_of_another_part_is_explained_and_shown() -> None:
    async def scenario() -> None:
        async with virtual_engine() as app:
            run = await app.start(remarking, "anyone there?", False)
            await app.changed(1)
            assert "waiting for an answer to the remark 'anyone there?'" in await run.explain()
            entries = [entry async for entry in journals.read(app.store, await journals.row_of(app.store, run.key))]
            rows = item_rows(fold(entries))
            assert [rows[1][2], rows[1][5]] == ["remarked: anyone there?", "for the audit"]

    run_virtually(scenario())


def test_without_its_line_nobody_knows_the_kind_and_the_run_is_parked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(table.KINDS, Remark.name)

    async def scenario() -> None:
        async with virtual_engine() as app:
            run = await app.start(remarking, "unheard", True)
            await app.changed(1)
            assert "no worker knows the invoke kind 'remark'" in await run.explain()

    run_virtually(scenario())


def test_every_kind_says_where_its_calls_are_done() -> None:
    places = {name: (kind.place(None), kind.place("mail")) for name, kind in table.KINDS.items()}
    assert places == {
        "action": (Place.GATE, Place.GATE),
        "cells": (Place.COMMIT, Place.COMMIT),
        "detached": (Place.COMMIT, Place.COMMIT),
        "form": (Place.GATE, Place.GATE),
        "remark": (Place.COMMIT, Place.COMMIT),
        "signal": (Place.COMMIT, Place.COMMIT),
        "step": (Place.HERE, Place.COMMIT),
        "workflow": (Place.COMMIT, Place.COMMIT),
    }


def test_a_call_of_an_unknown_kind_can_be_looked_at() -> None:
    assert table.readable_kind("of tomorrow").place(None) is Place.COMMIT
    assert not table.is_gated("of tomorrow")
