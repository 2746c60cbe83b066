"""``tasks complete``, ``claim``, ``release``, ``assign`` and ``delegate``, on a store with a form in it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast import Holdfast
from tests.unit.cli.conftest import Invoke, _invoker, lines
from tests.unit.cli.gate_fixture import asked
from tests.unit.worker.asking_people import review

ANN = ("--by", "ann", "--group", "claims")


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store in which a run asks the group claims, and not fred."""
    url = f"sqlite:///{tmp_path / 'forms.db'}"

    async def fill() -> None:
        async with Holdfast(url, workflows=[review]) as app:
            await app.start(review, "fred", id="one", actor="fred")
            await asked(app, "one")

    asyncio.run(fill())
    return url


@pytest.fixture
def holdfast(url: str) -> Invoke:
    return _invoker(url)


@pytest.fixture
def id(holdfast: Invoke) -> str:
    (record,) = lines(holdfast("tasks", "--json"))
    return str(record["id"])


def test_a_form_is_shown_with_all_that_is_needed_to_answer(holdfast: Invoke, id: str) -> None:
    """What is shown, what is asked for, who may, and the command that answers."""
    text = holdfast("tasks", "show", id).stdout
    for part in ("review claim", "total", "12", "decision", "group claims; not fred", f"tasks complete {id} --answer"):
        assert part in text
    (record,) = lines(holdfast("tasks", "show", id, "--json"))
    assert record["details"]["shown"] == {"total": 12}
    assert record["form"]["$defs"]["Review"]["required"] == ["decision"]
    assert "review claim" in holdfast("show", "one").stdout


def test_a_bad_answer_is_refused_with_its_places_and_the_next_one_counts(holdfast: Invoke, url: str, id: str) -> None:
    """The task stays open until then, and the run continues with the answer."""
    bad = holdfast("tasks", "complete", id, "--answer", '{"amount": "x"}', *ANN)
    assert bad.exit_code != 0
    assert "/amount" in bad.stderr
    assert '"decision" is a required property' in bad.stderr
    assert holdfast("tasks", "complete", id, "--answer", "{", *ANN).exit_code == 2
    good = holdfast("tasks", "complete", id, "--answer", '{"decision": "pay"}', *ANN)
    assert "answered by ann, completed" in good.stdout

    async def result() -> object:
        async with Holdfast(url, workflows=[review]) as app:
            return await app.run("one").result(30)

    assert asyncio.run(result()) == ["pay", 0]


def test_a_task_goes_from_hand_to_hand(holdfast: Invoke, id: str) -> None:
    """Each time one person holds it, or nobody."""
    assert "is now ann's" in holdfast("tasks", "claim", id, *ANN).stdout
    assert holdfast("tasks", "claim", id, "--by", "bob", "--group", "claims").exit_code != 0
    assert "nobody's any more: group claims" in holdfast("tasks", "release", id, "--by", "ann").stdout
    assert holdfast("tasks", "assign", id, "--by", "lea", "--to", "bob").exit_code != 0
    assert (
        "is now bob's" in holdfast("tasks", "assign", id, "--by", "lea", "--to", "bob", "--to-group", "claims").stdout
    )
    moved = holdfast("tasks", "delegate", id, "--as", "bob", "--to", "cy", "--to-group", "claims")
    assert "is now cy's" in moved.stdout
    assert "excluded" in holdfast("tasks", "delegate", id, "--by", "cy", "--to", "Fred", "--to-group", "claims").stderr
    (record,) = lines(holdfast("tasks", "--json"))
    verdicts = [answer["verdict"] for answer in record["answers"]]
    assert verdicts == ["claimed", "released", "assigned to bob", "delegated to cy"]
    assert holdfast("audit", "verify").exit_code == 0
