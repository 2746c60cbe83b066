"""Published definitions: kept by name and version for every process, and started by processes that have no file."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, SyncHoldfast, step, workflow
from holdfast.errors import DuplicateName, InvalidArguments, InvalidDefinition, InvalidRequest, WorkflowUnknown
from holdfast.programs.definition.compiler.batch import Draft, in_order
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from holdfast.testing.virtual import run_virtually


@step(name="published.note")
async def note(text: str) -> str:
    return text


def document(*nodes: dict[str, Any], name: str = "claims", version: int = 1, **parts: Any) -> dict[str, Any]:
    return {"holdfast": "definition/1", "name": name, "version": version, "steps": list(nodes), **parts}


LETTERS = document(
    {"wait": {"wait": "sent"}}, {"done": {"end": '="letter " + start.to'}}, name="letters", title="Letters"
)
NEWER = {**LETTERS, "version": 2, "title": "Letters again"}
CLAIMS = document(
    {"noted": {"step": "published.note", "with": {"text": "=start.to"}, "as": "state.to"}},
    {"tell": {"run": "letters@^1", "with": {"to": "=state.to"}, "as": "state.letter"}},
    {"done": {"end": "=state.letter"}},
)


def play(work: Callable[[Holdfast, Holdfast], Awaitable[None]]) -> None:
    """Two engines on one store, as two processes."""

    async def main() -> None:
        store = MemoryStore()
        async with Holdfast(store) as one, Holdfast(store.twin()) as two:
            await work(one, two)

    asyncio.run(main())


def test_another_process_starts_what_was_published() -> None:
    """By name, by version and by range; the children, too, without a file."""

    async def main(one: Holdfast, two: Holdfast) -> None:
        published = await one.definitions.publish_all([CLAIMS, LETTERS], by="ann")
        assert sorted(each.reference for each in published) == ["claims@1", "letters@1"]
        for reference in ("claims", "claims@1", "claims@^1"):
            run = await two.start(reference, {"to": "Bo"}, id=f"by {reference}")
            child = two.run(f"{run.id}~1")
            while not [each async for each in two.list(parent=run.id)]:
                await two.changed(0.05)
            await child.signal("sent")
            assert await run.result(30) == "letter Bo"
            assert (await run.info()).workflow == "claims"
        with pytest.raises(InvalidArguments):
            await two.start("letters", 1, 2)

    play(main)


def test_a_version_is_immutable_and_the_same_again_changes_nothing() -> None:
    """The audit has one entry for each that was really published, with who and what."""

    async def main(one: Holdfast, two: Holdfast) -> None:
        first = await one.definitions.publish(LETTERS, by="ann")
        again = await two.definitions.publish(LETTERS, by="bob")
        assert again == first
        with pytest.raises(DuplicateName, match=r"letters version 1 is published with other content .* a new version"):
            await two.definitions.publish({**LETTERS, "title": "changed"}, by="bob")
        newer = await two.definitions.publish(NEWER, by="bob")
        listed = [info async for info in one.definitions.list()]
        assert listed == [first, newer]
        assert [(info.title, info.uses.steps) for info in listed] == [("Letters", ()), ("Letters again", ())]
        said = [entry.text async for entry in one.audit.list()]
        assert said == [
            f"publish letters version 1 ({first.digest[:12]}) by ann",
            f"publish letters version 2 ({newer.digest[:12]}) by bob",
        ]
        assert (await one.audit.verify()).good

    play(main)


def test_tenants_have_their_own_definitions() -> None:
    async def main(one: Holdfast, two: Holdfast) -> None:
        await one.definitions.publish(LETTERS, tenant="acme", by="ann")
        await one.definitions.publish({**LETTERS, "title": "other"}, tenant="bolt", by="ann")
        assert [info.title async for info in two.definitions.list(tenant="bolt")] == ["other"]
        assert [info async for info in two.definitions.list()] == []
        assert await two.definitions.load("letters", tenant="default") is None
        found = await two.definitions.load("letters", tenant="acme")
        assert found is not None
        assert found.definition.title == "Letters"
        with pytest.raises(WorkflowUnknown, match=r"'letters@1' here, and none is published in tenant 'default'"):
            await two.start("letters@1", {"to": "Bo"})

    play(main)


def test_what_a_definition_runs_is_published_before_or_with_it() -> None:
    """Nothing is published where one is invalid, and all faults come at once."""

    async def main(one: Holdfast, two: Holdfast) -> None:
        one.definitions.add(LETTERS)  # only this process has it
        with pytest.raises(InvalidDefinition, match=r"there is no workflow 'letters@\^1'"):
            await one.definitions.publish(CLAIMS, by="ann")
        missing = document({"x": {"step": "published.gone"}}, name="missing")
        with pytest.raises(InvalidDefinition) as caught:
            await one.definitions.publish_all([LETTERS, CLAIMS, missing, document(name="empty")], by="ann")
        assert "missing: x: there is no step 'published.gone'" in str(caught.value)
        assert len(caught.value.faults) >= 2
        assert [info async for info in one.definitions.list()] == []
        await one.definitions.publish(missing, by="ann", check_uses=False)
        await one.definitions.publish(LETTERS, by="ann")
        await two.definitions.publish(NEWER, by="ann")
        claims = await two.definitions.publish(CLAIMS, by="ann")
        kept = await one.definitions.load("claims")
        assert kept is not None
        verb: Any = kept.definition.steps[1].verb
        assert (verb.workflow, verb.version) == ("letters", 2)
        assert claims.uses.workflows == ("letters@^1",)
        later = document({"x": {"run": "letters@9"}}, name="later")
        with pytest.raises(InvalidDefinition, match="there is no version 'letters@9': the newest is letters@2"):
            await one.definitions.publish(later, by="ann", check_uses=False)
        with pytest.raises(InvalidRequest, match="say who steers"):
            await one.definitions.publish(NEWER, by="")

    play(main)


def test_a_definition_of_the_process_must_not_differ_from_the_published_one() -> None:
    """Its name and version would mean two things at once."""

    async def main(one: Holdfast, two: Holdfast) -> None:
        await one.definitions.publish(LETTERS, by="ann")
        two.definitions.add({**LETTERS, "title": "changed"})
        with pytest.raises(DuplicateName, match="letters version 1 is published with other content"):
            await two.start("letters", {"to": "Bo"})
        one.definitions.add(LETTERS)
        await one.start("letters", {"to": "Bo"}, id="same")
        with pytest.raises(DuplicateName, match=r"a workflow function called .published\.function."):
            await _named_like_a_function(one)

    play(main)


async def _named_like_a_function(app: Holdfast) -> None:
    @workflow(name="published.function")
    async def function() -> None: ...

    await app.definitions.publish({**LETTERS, "name": "published.function"}, by="ann")


def test_a_function_that_is_imported_and_not_served_takes_no_definitions_name() -> None:
    """Else the start would be of a function that no worker of this engine runs. Without the definition it is meant."""

    @workflow(name="published.imported")
    async def imported() -> None: ...

    async def main() -> None:
        async with Holdfast("memory://", workflows=[]) as app:
            early = await app.start("published.imported")
            await app.definitions.publish({**LETTERS, "name": "published.imported"}, by="ann")
            run = await app.start("published.imported", {"to": "Bo"})
            await run.signal("sent")
            assert await run.result(30) == "letter Bo"
            assert (await early.info()).status == "queued"

    asyncio.run(main())


def test_of_two_processes_that_publish_at_once_one_is_refused() -> None:
    """Both have looked, and none was there: the store decides, and the other is told."""

    async def main(one: Holdfast, two: Holdfast) -> None:
        answers = await asyncio.gather(
            *(
                app.definitions.publish({**LETTERS, "title": f"by {number}"}, by="ann")
                for number, app in enumerate((one, two))
            ),
            return_exceptions=True,
        )
        assert sorted(type(answer).__name__ for answer in answers) == ["DefinitionInfo", "DuplicateName"]

    play(main)


def test_files_and_folders_are_published(tmp_path: Path) -> None:
    """Each file with its line, where something is wrong."""
    (tmp_path / "a.yaml").write_text("holdfast: definition/1\nname: a\nversion: 1\nsteps: [{x: {run: b}}]\n")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.json").write_text('{"holdfast": "definition/1", "name": "b", "version": 1, "steps": []}')
    (tmp_path / "notes.txt").write_text("no definition")

    async def main() -> None:
        async with Holdfast(MemoryStore()) as app:
            with pytest.raises(InvalidDefinition, match=r"b\.json:1:\d+: "):
                await app.definitions.publish_all([tmp_path], by="ann")
            steps = '[{"y": {"sleep": "1s"}}]'
            good = (tmp_path / "deep" / "b.json").read_text().replace("[]", steps)
            (tmp_path / "deep" / "b.json").write_text(good)
            found = await app.definitions.publish_all([tmp_path], by="ann")
            assert [each.reference for each in found] == ["b@1", "a@1"]

    run_virtually(main())


def test_a_batch_is_compiled_in_the_order_of_its_needs() -> None:
    """All versions of a name come before whoever runs it; circles end."""
    drafts = [
        Draft("a", {"name": "a", "steps": [{"x": {"run": "b@1"}}]}),
        Draft("b1", {"name": "b", "steps": [{"x": {"fork": {"l": [{"y": {"continue": "c"}}]}}}]}),
        Draft("c", {"name": "c", "steps": [{"x": {"run": "d"}}]}),
        Draft("b2", {"name": "b"}),
        Draft("d", {"name": "d", "steps": [{"x": {"run": "c"}}]}),
    ]
    labels = [draft.label for draft in in_order(drafts)]
    assert sorted(labels) == ["a", "b1", "b2", "c", "d"]
    assert labels.index("a") > max(labels.index("b1"), labels.index("b2"))
    assert labels.index("b1") > labels.index("c")


def test_code_that_is_not_in_the_store_is_named() -> None:
    """A row without its code cannot be started, and says so."""

    async def main(one: Holdfast, two: Holdfast) -> None:
        published = await one.definitions.publish(LETTERS, by="ann")
        code = two.store.code

        async def nothing(tenant: str, digests: Any) -> dict[bytes, p.Code]:
            return {}

        two.store.code = nothing  # type: ignore[method-assign]
        with pytest.raises(Exception, match=f"the code {published.digest} of letters version 1 of tenant 'default'"):
            await two.start("letters", {"to": "Bo"})
        two.store.code = code  # type: ignore[method-assign]

    play(main)


def test_definitions_are_given_and_published_without_a_loop() -> None:
    with SyncHoldfast(MemoryStore(), definitions=[{**LETTERS, "name": "given"}]) as app:
        info = app.definitions.publish(LETTERS, by="ann")
        assert list(app.definitions.list()) == [info]
        assert app.definitions.info("letters@1") == info
        for name in ("given", "letters"):
            run = app.start(name, {"to": "Bo"}, id=name)
            run.signal("sent")
            assert run.result(30) == "letter Bo"
            assert run.instance().definition == name
