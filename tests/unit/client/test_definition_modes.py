"""Definitions that an engine is made with: in the mode strict all faults at once, in the mode warn the rest runs."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.errors import DuplicateName, InvalidDefinition, InvalidRequest
from holdfast.store.memory import MemoryStore


def text(name: str, version: int = 1, steps: str = "[{done: {end: =start.n}}]") -> str:
    return f"holdfast: definition/1\nname: {name}\nversion: {version}\nsteps: {steps}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three good ones, which need each other in another order than that of the files, and two bad ones."""
    (tmp_path / "a.yaml").write_text(
        text("a", steps="[{x: {run: b, with: =start, as: state.x}}, {y: {end: =state.x}}]")
    )
    (tmp_path / "b1.yaml").write_text(text("b", 1))
    (tmp_path / "b2.yaml").write_text(text("b", 2))
    return tmp_path


def spoil(folder: Path) -> None:
    (folder / "c.yaml").write_text(text("c", steps="[{x: {step: modes.gone}}, {x: {end: 1}}]"))
    (folder / "d.yaml").write_text("name: [\n")
    (folder / "b3.yaml").write_text(text("b", 3, "[{x: {sleep: soon}}]"))


def test_a_folder_is_accepted_when_the_engine_opens(folder: Path) -> None:
    """Whatever the order of its files; `b` means the newest."""

    async def main() -> None:
        async with Holdfast(MemoryStore(), definitions=folder) as app:
            assert [each.reference for each in app.definitions] == ["b@1", "b@2", "a@1"]
            verb: Any = app.definitions.get("a").definition.steps[0].verb  # type: ignore[union-attr]
            assert verb.version == 2
            assert await (await app.start("a", {"n": 7})).result(30) == 7
        given: list[Any] = [text("x"), folder / "b1.yaml", {**_document("y")}]
        async with Holdfast(MemoryStore(), definitions=given) as app:
            assert sorted(each.reference for each in app.definitions) == ["b@1", "x@1", "y@1"]

    asyncio.run(main())


def _document(name: str) -> dict[str, Any]:
    return {"holdfast": "definition/1", "name": name, "version": 1, "steps": [{"done": {"end": 1}}]}


def test_strict_fails_with_all_faults_of_all_files(folder: Path) -> None:
    """And again, if it is opened again. Nothing was opened."""
    spoil(folder)

    async def main() -> None:
        store = MemoryStore()
        app = Holdfast(store, definitions=[folder, folder / "no such.yaml"])
        for _ in range(2):
            with pytest.raises(InvalidDefinition) as caught:
                await app.open()
        message = str(caught.value)
        for part in ("c.yaml:4:", "'modes.gone'", "two nodes are called 'x'", "d.yaml:", "b3.yaml:4:", "no such.yaml"):
            assert part in message
        assert len(caught.value.faults) == len(message.splitlines())
        with pytest.raises(InvalidRequest, match="not open"):
            await app.start("a", {"n": 7})

    asyncio.run(main())


def test_warn_leaves_out_what_is_invalid_and_says_why_at_its_start(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The rest runs. A name that means the invalid one does not mean an older one instead."""
    spoil(folder)

    async def main() -> None:
        async with Holdfast(MemoryStore(), definitions=folder, definitions_mode="warn") as app:
            assert await (await app.start("a", {"n": 7})).result(30) == 7
            assert await (await app.start("b@2", {"n": 8})).result(30) == 8
            with pytest.raises(InvalidDefinition, match=r"c is not available here(.|\n)*c\.yaml:4(.|\n)*modes\.gone"):
                await app.start("c", {})
            for reference in ("b", "b@3", "b@^2"):
                with pytest.raises(InvalidDefinition, match=r"is not available here(.|\n)*b3\.yaml:4"):
                    await app.start(reference, {"n": 8})
            assert sorted(each.name for each in app.definitions.unavailable) == ["", "b", "c"]

    with caplog.at_level(logging.WARNING, "holdfast.definitions"):
        asyncio.run(main())
    logged = "\n".join(record.getMessage() for record in caplog.records if record.name == "holdfast.definitions")
    assert all(part in logged for part in ("c.yaml:4", "modes.gone", "d.yaml", "b3.yaml"))


def test_a_definition_that_is_refused_at_its_start_is_not_listed_as_there() -> None:
    """One that is published with other content, and one whose name a function has got."""

    async def main() -> None:
        store = MemoryStore()
        async with Holdfast(store, definitions=[text("x")]) as app:
            await app.definitions.publish(text("y", steps="[{done: {end: 1}}]"), by="ann")
        async with Holdfast(store, definitions=[text("x"), text("y")]) as app:
            assert [each.reference for each in app.definitions] == ["x@1", "y@1"]
            with pytest.raises(DuplicateName):
                await app.start("y", {"n": 1})
            assert [each.reference for each in app.definitions] == ["x@1"]
            assert [(each.name, each.version) for each in app.definitions.unavailable] == [("y", 1)]

    asyncio.run(main())


def test_two_files_of_one_version_are_refused_by_name(folder: Path) -> None:
    (folder / "e.yaml").write_text(text("b", 2, "[{done: {end: 0}}]"))

    async def main() -> None:
        with pytest.raises(DuplicateName, match=r"e\.yaml: b version 2 is another definition already"):
            await Holdfast(MemoryStore(), definitions=folder).open()

    asyncio.run(main())


def test_a_mode_is_one_of_two() -> None:
    with pytest.raises(InvalidRequest, match="strict or warn"):
        Holdfast(MemoryStore(), definitions_mode="loose")  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="is a folder"):
        Holdfast(MemoryStore()).definitions.add(Path())
