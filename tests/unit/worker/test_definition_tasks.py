"""Tasks of definitions on whole engines: forms, files, who answered, deadlines, and what came of an answer."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import Attachment, Holdfast, action
from holdfast.audit import records as r
from holdfast.errors import (
    InvalidAnswer,
    InvalidRequest,
    RunParked,
    StoreCorrupt,
    TaskClosed,
    TaskForbidden,
    TaskNotFound,
)
from holdfast.store import protocol as p
from tests.unit.worker.ground import OPTIONS, Ground, asked, asking, kill, notes, rested

DEFINITIONS = replace(OPTIONS, checkpoint_events=1)
Check = Callable[[Holdfast, Any], Awaitable[None]]


@action(name="people.pay", connector="bank", operation="pay", writes=True, target="{to}")
async def pay(to: str) -> str:
    return f"paid {to}"


def document(*nodes: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return {"holdfast": "definition/1", "name": "people", "version": 1, "steps": list(nodes), **parts}


def asks(task: dict[str, Any], *after: dict[str, Any], node: dict[str, Any] | None = None) -> dict[str, Any]:
    """A definition that asks one task, and gives its answer."""
    return document(
        {"ask": {"task": "it", "as": "state.answer", **(node or {})}},
        *(after or ({"done": {"end": "=state.answer"}},)),
        tasks={"it": {"title": "Say it", **task}},
        state={"options": {"type": "array", "default": ["red", "blue"]}},
    )


def played(ground: Ground, what: dict[str, Any], check: Check, **engine: Any) -> None:
    """Start the definition with ``n`` 7, and look at the run with ``check``."""

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS, **engine) as app:
            app.definitions.add(what)
            await check(app, await app.start("people", {"n": 7}, id="one", actor="fred"))

    ground.play(main)


# -- forms -------------------------------------------------------------------------------------------------------------

ORDER = {
    "type": "object",
    "required": ["colour"],
    "properties": {
        "colour": {"enum": "=state.options", "description": "What we have today."},
        "count": {"type": "integer", "default": 1, "minimum": 1},
        "wrapped": {"type": "boolean"},
        "gifts": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["to"],
                "properties": {"to": {"type": "string"}, "note": {"type": "string", "default": "from us"}},
            },
        },
    },
    "if": {"properties": {"wrapped": {"const": True}}, "required": ["wrapped"]},
    "then": {"properties": {"paper": {"enum": ["plain", "gold"], "default": "plain"}}, "required": ["paper"]},
    "else": {"properties": {"paper": False}},
    "dependentRequired": {"gifts": ["wrapped"]},
    "additionalProperties": True,
}


def test_a_form_is_recorded_as_it_was_asked_and_filled_in_with_its_defaults(ground: Ground) -> None:
    """Choices come from state when the task is made; defaults of conditions and of items are filled in, too."""

    async def check(app: Holdfast, run: Any) -> None:
        task = await app.tasks.get((await asked(app, "one")).id)
        assert task.form is not None
        assert task.form["properties"]["colour"]["enum"] == ["red", "blue"]
        answer = {"colour": "red", "wrapped": True, "gifts": [{"to": "ann"}, {"to": "bob", "note": "hi"}]}
        await app.tasks.complete(task.id, answer, by="eve")
        assert await run.result(30) == {
            "colour": "red",
            "count": 1,
            "wrapped": True,
            "paper": "plain",
            "gifts": [{"to": "ann", "note": "from us"}, {"to": "bob", "note": "hi"}],
        }

    played(ground, asks({"form": ORDER}), check)


@pytest.mark.parametrize(
    ("answer", "places"),
    [
        ({"colour": "green", "count": 0}, ["/colour", "/count"]),
        ({}, [""]),
        ({"colour": "red", "gifts": [{"to": "ann"}, {"note": "x"}]}, ["", "/gifts/1"]),
        ({"colour": "red", "wrapped": True, "paper": "old"}, ["/paper"]),
        ({"colour": "red", "wrapped": False, "paper": "gold"}, ["/paper"]),
        ("red", [""]),
    ],
)
def test_a_bad_answer_leaves_the_task_open_with_all_its_problems(
    ground: Ground, answer: object, places: list[str]
) -> None:
    async def check(app: Holdfast, run: Any) -> None:
        task = await asked(app, "one")
        with pytest.raises(InvalidAnswer, match="stays open") as refused:
            await app.tasks.complete(task.id, answer, by="eve")
        assert [place for place, _ in refused.value.problems] == places
        assert (await app.tasks.get(task.id)).status == "requested"
        await app.tasks.complete(task.id, {"colour": "blue"}, by="eve")
        assert (await run.result(30))["colour"] == "blue"

    played(ground, asks({"form": ORDER}), check)


@pytest.mark.long
def test_a_check_that_takes_too_long_refuses_the_answer(ground: Ground) -> None:
    """It is ended after its processor time elsewhere, and a better answer is taken."""
    checks = [{"when": "=payload.l.exists(x, payload.s.contains(payload.t))", "say": "it is there"}]
    heavy = {"l": list(range(1_900)), "s": "a" * 600_000, "t": "a" * 300_000 + "b"}

    async def check(app: Holdfast, run: Any) -> None:
        task = await asked(app, "one")
        began = process_time()
        with pytest.raises(InvalidAnswer, match=r"cannot be checked.*takes too long, or too much memory"):
            await app.tasks.complete(task.id, heavy, by="eve")
        assert process_time() - began < 1
        await app.tasks.complete(task.id, {**heavy, "t": "b"}, by="eve")
        assert (await run.result(30))["t"] == "b"

    played(ground, asks({"form": {"type": "object"}, "check": checks}), check)


def test_a_check_over_several_fields_and_the_state_refuses_an_answer(ground: Ground) -> None:
    form = {"type": "object", "properties": {"low": {"type": "integer"}, "high": {"type": "integer"}}}
    checks = [
        {"when": "=payload.low > payload.high", "say": "the bounds are the wrong way round", "at": "/low"},
        {"when": "=payload.high > start.n", "say": "more than there is", "at": "/high"},
    ]

    async def check(app: Holdfast, run: Any) -> None:
        task = await asked(app, "one")
        with pytest.raises(InvalidAnswer) as refused:
            await app.tasks.complete(task.id, {"low": 9, "high": 8}, by="eve")
        assert refused.value.problems == (
            ("/low", "the bounds are the wrong way round"),
            ("/high", "more than there is"),
        )
        await app.tasks.complete(task.id, {"low": 2, "high": 7}, by="eve")
        assert await run.result(30) == {"low": 2, "high": 7}

    played(ground, asks({"form": form, "check": checks}), check)


def test_a_form_that_state_makes_unusable_parks_the_run(ground: Ground) -> None:
    async def check(app: Holdfast, run: Any) -> None:
        with pytest.raises(RunParked, match=r"node ask: the form is no JSON Schema"):
            await run.result()

    played(ground, asks({"form": {"properties": {"x": {"minLength": "=state.options"}}}}), check)


# -- who may answer ----------------------------------------------------------------------------------------------------


def test_an_answer_counts_once_by_somebody_who_may_and_in_time(ground: Ground) -> None:
    what = asks(
        {"for": {"groups": ["claims"], "exclude": "=['fred']"}, "due": {"expire": "1h"}},
        node={"on": {"timeout": [{"late": {"end": "late"}}]}},
    )

    async def check(app: Holdfast, run: Any) -> None:
        id = (await asked(app, "one")).id
        answer = {"x": 1}
        with pytest.raises(TaskForbidden, match="group claims may"):
            await app.tasks.complete(id, answer, by="eve")
        with pytest.raises(TaskForbidden, match="excluded"):
            await app.tasks.complete(id, answer, by="Fred", groups=["claims"])
        with pytest.raises(TaskForbidden, match="not even by delegation"):
            await app.tasks.delegate(id, by="ann", groups=["claims"], to="fred", to_groups=["claims"])
        with pytest.raises(TaskForbidden, match="excluded"):
            await app.tasks.delegate(id, by="fred", groups=["claims"], to="ann", to_groups=["claims"])
        with pytest.raises(TaskNotFound):
            await app.tasks.complete("f-none", answer, by="ann")
        await app.tasks.complete(id, answer, by="ann", groups=["claims"])
        with pytest.raises(TaskClosed, match="completed by ann"):
            await app.tasks.complete(id, answer, by="bob", groups=["claims"])
        assert await run.result(30) == answer

    played(ground, what, check)


SEEN = "=[run.task, payload]"


def test_the_person_who_gave_an_answer_is_known_to_later_nodes(ground: Ground) -> None:
    """Four eyes: who answered first may not answer second, by any spelling, nor be given the second task."""
    what = document(
        {"first": {"task": "it", "as": "state.one", "on": {"success": [{"seen": {"set": {"state.seen": SEEN}}}]}}},
        {"between": {"set": {"state.between": "=nodes.first.by"}}},
        {"second": {"task": "again", "as": "state.two"}},
        {
            "done": {
                "end": {
                    "by": "=[nodes.first.by, nodes.second.by]",
                    "quiet": "=nodes.between.by == null",
                    "seen": "=state.seen",
                }
            }
        },
        tasks={
            "it": {"title": '=run.task + " first"'},
            "again": {"title": "second", "for": {"exclude": "=[nodes.first.by]"}},
        },
    )

    async def check(app: Holdfast, run: Any) -> None:
        first = await asked(app, "one")
        assert first.summary == "it first"
        await app.tasks.complete(first.id, {"x": 1}, by="ann")
        second = await asked(app, "one", other_than=first.id)
        await rested(app, "one")
        for who in ("ann", "Ann"):
            with pytest.raises(TaskForbidden, match="excluded"):
                await app.tasks.complete(second.id, {}, by=who)
            with pytest.raises(TaskForbidden, match="excluded"):
                await app.tasks.assign(second.id, by="bob", to=who)
        await app.tasks.complete(second.id, {}, by="bob")
        assert await run.result(30) == {"by": ["ann", "bob"], "quiet": True, "seen": ["it", {"x": 1}]}
        assert (await run.verify()).good

    played(ground, what, check)


def test_senders_of_signals_and_approvers_are_known_too(ground: Ground) -> None:
    """One signal is put aside first: it does not match. A rejection names who rejected."""
    what = document(
        {"go": {"wait": "go", "match": '=payload == "yes"', "as": "state.go"}},
        {"pay": {"action": "people.pay", "with": {"to": "ann"}}},
        {"other": {"wait": "go"}},
        {"more": {"action": "people.pay", "with": {"to": "bob"}, "on": {"failure": []}}},
        {"done": {"end": "=[nodes.go.by, nodes.pay.by, nodes.other.by, nodes.more.by]"}},
    )

    async def check(app: Holdfast, run: Any) -> None:
        await run.signal("go", "no", by="eve")
        await run.signal("go", "yes", by="dan")
        first = await asked(app, "one")
        await app.tasks.approve(first.id, by="ann")
        second = await asked(app, "one", other_than=first.id)
        await app.tasks.reject(second.id, by="bob", reason="enough")
        assert await run.result(30) == ["dan", "ann", "eve", "bob"]
        assert (await run.verify()).good

    played(ground, what, check, policy=asking())


# -- files -------------------------------------------------------------------------------------------------------------

SCAN = {
    "type": "object",
    "required": ["scan"],
    "properties": {
        "scan": {"type": "string", "contentMediaType": "application/pdf"},
        "photos": {"type": "array", "items": {"format": "file", "contentMediaType": "image/*"}},
    },
}


def test_files_of_an_answer_are_kept_beside_the_journal(ground: Ground, tmp_path: Path) -> None:
    """The answer names them by hash; the next engine reads them back; the journal stays small."""
    paper, photo = b"%PDF" + bytes(200_000), Attachment("cat.png", b"\x89PNG", "image/png")
    path = tmp_path / "claim.pdf"
    path.write_bytes(paper)
    what = asks({"form": SCAN}, {"go": {"wait": "go"}}, {"done": {"end": "=state.answer.scan.sha256"}})

    async def check(app: Holdfast, run: Any) -> None:
        id = (await asked(app, "one")).id
        task = await app.tasks.complete(id, {"scan": path, "photos": [photo]}, by="ann")
        digest = hashlib.sha256(paper).hexdigest()
        scan = {"name": "claim.pdf", "type": "application/pdf", "size": len(paper), "sha256": digest}
        assert task.answer["scan"] == scan
        await rested(app, "one")
        segments = await app.store.segments(p.Key("default", "one"), 0, 0, 100)
        assert sum(len(segment.events) for segment in segments) < 5_000
        assert await app.tasks.file(id, "/scan") == Attachment("claim.pdf", paper, "application/pdf")
        assert await app.tasks.file(id, "/photos/0") == photo
        with pytest.raises(InvalidRequest, match="it has /photos/0, /scan"):
            await app.tasks.file(id)
        with pytest.raises(InvalidRequest, match="no file at '/x'"):
            await app.tasks.file(id, "/x")
        await run.signal("go")
        assert await run.result(30) == digest

    played(ground, what, check)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"scan": "claim.pdf"}, "this is a file of type application/pdf: give one"),
        ({"scan": Attachment("x.png", b"1")}, "this is a file of type application/pdf: give one"),
        (
            {"scan": {"name": "a", "type": "application/pdf", "size": 1, "sha256": "a" * 64}},
            "this names a file by its hash: give the file itself",
        ),
    ],
)
def test_an_answer_must_bring_the_files_that_it_names(ground: Ground, answer: object, problem: str) -> None:
    """A hash alone would give its sender a file that somebody else has attached."""

    async def check(app: Holdfast, run: Any) -> None:
        id = (await asked(app, "one")).id
        with pytest.raises(InvalidAnswer) as refused:
            await app.tasks.complete(id, answer, by="ann")
        assert [place for place, _ in refused.value.problems] == ["/scan"]
        assert problem in refused.value.problems[0][1]
        assert (await app.tasks.get(id)).status == "requested"

    played(ground, asks({"form": SCAN}), check)


def test_a_file_that_cannot_be_read_and_one_that_was_altered_are_named(ground: Ground, tmp_path: Path) -> None:
    async def check(app: Holdfast, run: Any) -> None:
        id = (await asked(app, "one")).id
        with pytest.raises(InvalidRequest, match=r"nothing\.pdf cannot be read"):
            await app.tasks.complete(id, {"scan": tmp_path / "nothing.pdf"}, by="ann")
        await app.tasks.complete(id, {"scan": Attachment("a.pdf", b"1")}, by="ann")
        task = await app.store.task("default", id)
        assert task is not None
        forged = task.answers[-1].value
        assert forged is not None
        other = hashlib.sha256(b"2").hexdigest().encode()
        forged = forged.replace(hashlib.sha256(b"1").hexdigest().encode(), other)
        await app.store.commit(
            [p.PutTask(replace(task, version=task.version + 1, answers=(replace(task.answers[-1], value=forged),)))]
        )
        with pytest.raises(StoreCorrupt, match="missing"):
            await app.tasks.file(id)

    played(ground, asks({"form": SCAN}), check)


# -- deadlines ---------------------------------------------------------------------------------------------------------

PATIENT = asks(
    {
        "for": {"users": ["ann"]},
        "due": {"in": "2h", "remind": ["1h", "90m"], "escalate": {"groups": ["leads"]}, "expire": "3h"},
    },
    node={"on": {"timeout": [{"late": {"end": {"class": "=error.class", "task": "=run.task"}}}]}},
)


def test_an_overdue_task_is_reminded_of_escalated_and_expires(virtual: Ground) -> None:
    """Expiry goes to ``on.timeout``. No worker polls: the run is woken at each of these times."""

    async def check(app: Holdfast, run: Any) -> None:
        task = await app.tasks.get((await asked(app, "one")).id)
        begun = task.created_at
        assert await run.result(4 * 3600) == {"class": "timeout", "task": "it"}
        task = await app.tasks.get(task.id)
        assert task.status == "expired"
        assert task.reminded_at is not None
        assert task.escalated_at is not None
        assert timedelta(minutes=90) <= task.reminded_at - begun < timedelta(minutes=91)
        assert timedelta(hours=2) <= task.escalated_at - begun < timedelta(minutes=121)
        with pytest.raises(TaskClosed, match="expired"):
            await app.tasks.complete(task.id, {}, by="ann")
        said = [note.verdict for note in await notes(app, r.Asked, "one")]
        assert said == ["requested", "reminded", "reminded", "escalated", "expired"]

    played(virtual, PATIENT, check)


def test_escalation_adds_people_and_keeps_the_owner(virtual: Ground) -> None:
    async def check(app: Holdfast, run: Any) -> None:
        id = (await asked(app, "one")).id
        with pytest.raises(TaskForbidden, match="ann may"):
            await app.tasks.claim(id, by="lea", groups=["leads"])
        await app.tasks.claim(id, by="ann")
        while (task := await app.tasks.get(id)).escalated_at is None:
            await app.changed(60)
        assert task.owner == "ann"
        with pytest.raises(TaskForbidden, match="ann may"):
            await app.tasks.complete(id, {"x": 1}, by="lea", groups=["leads"])
        await app.tasks.release(id, by="ann")
        await app.tasks.complete(id, {"x": 1}, by="lea", groups=["leads"])
        assert await run.result(30) == {"x": 1}

    played(virtual, PATIENT, check)


def test_a_task_goes_from_hand_to_hand_and_over_a_crash(ground: Ground) -> None:
    what = asks({"for": {"users": ["ann", "bob", "cay"]}})

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            app.definitions.add(what)
            await app.start("people", {"n": 7}, id="one")
            id = (await asked(app, "one")).id
            await app.tasks.claim(id, by="ann")
            await app.tasks.release(id, by="ann")
            await app.tasks.assign(id, by="eve", to="bob")
            await app.tasks.delegate(id, by="bob", to="cay")
            await rested(app, "one")
            kill(app)
        async with ground.engine(options=DEFINITIONS) as app:
            with pytest.raises(TaskForbidden, match="cay may"):
                await app.tasks.complete(id, {"x": 1}, by="bob")
            await app.tasks.complete(id, {"x": 1}, by="cay")
            assert await app.run("one").result(30) == {"x": 1}

    ground.play(main)
