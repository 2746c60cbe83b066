"""The law of the catalogue: the code of a run of any kind is found by the name and digest that its journal pinned."""

from __future__ import annotations

import ast
import hashlib
from pathlib import Path

import pytest

import holdfast
from holdfast import workflow
from holdfast.cli.runs.replay import replay_run
from holdfast.client.engine import Holdfast
from holdfast.errors import StoreCorrupt, WorkflowUnknown
from holdfast.journal.payload import NOTHING
from holdfast.programs.catalogue import Catalogue
from holdfast.programs.function.functions import Functions
from holdfast.runs.birth import Birth, Pin
from holdfast.runs.journals import row_of
from holdfast.store import protocol as p
from holdfast.testing.engine import virtual_engine
from holdfast.testing.virtual import run_virtually
from tests.unit.programs.steplist import LIST, Lists


@workflow(name="catalogue.plain")
async def plain() -> str:
    return "done"


def code(data: bytes) -> p.Code:
    return p.Code(hashlib.sha256(data).digest(), LIST, "greetings", data)


def birth(id: str, kept: p.Code) -> Birth:
    pin = Pin(LIST, kept.digest.hex(), kept.digest)
    return Birth(key=p.Key("default", id), workflow="greetings", input=NOTHING, pin=pin)


async def started(app: Holdfast, id: str, kept: p.Code) -> None:
    changes: list[p.Change] = [p.KeepCode("default", kept), birth(id, kept).start(app.clock.now())]
    for change in changes:
        await app.committer.commit(change)
    app.hint()


def test_a_program_of_another_kind_runs_from_the_code_that_its_journal_pins() -> None:
    async def scenario() -> None:
        async with virtual_engine() as app:
            app.catalogue.add(Lists())
            await started(app, "one", code(b'["hello"]'))
            await started(app, "two", code(b'["hello", "goodbye"]'))
            one, two = app.run("one"), app.run("two")
            for run in (one, two):
                await run.signal("hello")
            await one.result()
            await app.changed(1)
            assert "signal 'goodbye'" in await two.explain()
            assert (await replay_run(app, await row_of(app.store, two.key))).good
            await two.signal("goodbye")
            await two.result()

    run_virtually(scenario())


def test_a_run_whose_kind_nobody_serves_waits_and_says_so() -> None:
    async def scenario() -> None:
        async with virtual_engine() as app:
            await started(app, "one", code(b'["hello"]'))
            await app.changed(1)
            explanation = await app.run("one").explain()
            assert "none of the 1 running workers serves programs of kind 'list': start one that does." in explanation
            assert (await app.run("one").info()).status == "queued"

    run_virtually(scenario())


def test_a_run_whose_code_is_not_kept_is_parked_with_the_remedy() -> None:
    async def scenario() -> None:
        async with virtual_engine() as app:
            app.catalogue.add(Lists())
            await app.committer.commit(birth("one", code(b'["hello"]')).start(app.clock.now()))
            app.hint()
            await app.changed(1)
            assert "is not in the store: put it there again" in await app.run("one").explain()

    run_virtually(scenario())


def test_functions_are_served_by_name_and_other_kinds_by_kind() -> None:
    catalogue = Catalogue([Functions({plain.name: plain}), Lists()])
    assert catalogue.serves() == p.Serves((plain.name,), (LIST,))
    assert catalogue.pin(plain.name) == Pin(digest=plain.digest)
    assert catalogue.pin("unheard of") == Pin()
    assert catalogue.knows(p.FUNCTION, plain.name)
    assert not catalogue.knows(p.FUNCTION, "unheard of")
    assert not catalogue.knows("machine", plain.name)


def test_what_is_not_known_is_refused_with_a_remedy() -> None:
    catalogue = Catalogue([Functions({}), Lists()])
    with pytest.raises(WorkflowUnknown, match="no programs of kind 'machine' are served here"):
        catalogue.program("machine", "lane", "lane/1")
    with pytest.raises(WorkflowUnknown, match="the app has no workflow"):
        catalogue.program(p.FUNCTION, plain.name, "")
    with pytest.raises(StoreCorrupt, match="is not in the store"):
        catalogue.program(LIST, "greetings", "", "default", b"x" * 32)


def test_nothing_but_its_front_door_assumes_a_python_function() -> None:
    """Worker, runs, store and commands get programs from the catalogue. Starting a function is the client's."""
    forbidden = {"WORKFLOWS", "Workflow", "FunctionProgram", "Registry"}
    door = {
        "client/engine.py",
        "client/parts.py",
        "client/people/bound_client.py",
        "client/runs/starter.py",
        "client/runs/handle.py",
        "client/sync/engine.py",
        "client/templates/app_templates.py",
        "client/templates/drafts.py",
        "client/schedules/requests.py",
        "templates/start.py",
        "server/console/start_forms.py",
        "testing/engine.py",
        "testing/machines.py",
    }
    root = Path(holdfast.__file__).parent
    found = set()
    for file in root.rglob("*.py"):
        place = file.relative_to(root).as_posix()
        if place.startswith("programs/") or place in door or place == "__init__.py":
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("holdfast.programs.function"):
                found |= {(place, each.name) for each in node.names if each.name in forbidden}
    assert found == set()
