"""Reading: states of runs, filters, pages with cursors, counts, signals that nobody has received."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from holdfast import Holdfast, workflow
from holdfast.client.views.cursors import read_cursor, write_cursor
from holdfast.client.views.signals import signal_record, unreceived
from holdfast.client.views.states import VOCABULARIES, narrowed, state_of, states_of
from holdfast.errors import InvalidRequest
from holdfast.runs import journals
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from holdfast.testing.stores.samples import begun, row, start


@workflow(name="reading.nothing")
async def nothing() -> None:
    return None


def play(main: Callable[[Holdfast], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with Holdfast(MemoryStore(), worker=False) as app:
            await main(app)

    asyncio.run(whole())


PAUSES = (None, p.PAUSED, "nondeterminism: it differs")
WAITS = (None, '[{"kind":"invoke","name":"pay","position":1,"task":"t-1"}]', '[{"task":null}]')
STANDINGS: tuple[p.Standing, ...] = ("queued", "running", "waiting", "completed", "failed", "cancelled")


@pytest.mark.parametrize("words", VOCABULARIES)
def test_every_run_is_in_one_state_and_found_by_it(words: str) -> None:
    """Whatever its standing, its pause and its waits: in the words of runs, of instances and of machines."""

    async def main() -> None:
        store = MemoryStore()
        await store.open()
        cases = list(itertools.product(STANDINGS, PAUSES, WAITS, (False, True)))
        for number, (standing, pause, waiting, cancelling) in enumerate(cases):
            projection = p.Projection(standing, pause=pause, waiting=waiting, cancelling=cancelling)
            await begun(store, start(f"run-{number}", projection=projection))
        found: dict[str, str] = {}
        for state in VOCABULARIES[words]:
            filter = state if words == "run" else f"{words}:{state}"
            for run in await store.find(narrowed(p.Query(), filter), 1000):
                assert run.key.run not in found, (run, state)
                found[run.key.run] = state
        assert len(found) == len(cases)
        for number, (standing, pause, waiting, _) in enumerate(cases):
            run = await row(store, f"run-{number}")
            assert states_of(run)[words] == found[f"run-{number}"], (standing, pause, waiting)
            assert states_of(run)["run"] == state_of(run)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("projection", "state"),
    [
        (p.Projection("waiting", waiting=WAITS[1]), "waiting_approval"),
        (p.Projection("waiting", waiting=WAITS[2]), "running"),
        (p.Projection("queued", pause=p.PAUSED), "queued"),
        (p.Projection("running", pause="poison"), "failed_retryable"),
        (p.Projection("failed"), "failed_terminal"),
        (p.Projection("completed"), "succeeded"),
    ],
)
def test_a_state_is_what_the_table_says(projection: p.Projection, state: str) -> None:
    """One row for each state."""

    async def main() -> None:
        store = MemoryStore()
        await store.open()
        assert state_of(await begun(store, start(projection=projection))) == state

    asyncio.run(main())


@pytest.mark.parametrize(
    ("projection", "instance", "machine"),
    [
        (p.Projection("queued"), "queued", "running"),
        (p.Projection("waiting"), "running", "waiting"),
        (p.Projection("waiting", cancelling=True), "cancelled", "waiting"),
        (p.Projection("completed", cancelling=True), "completed", "completed"),
        (p.Projection("failed"), "failed", "failed"),
        (p.Projection("cancelled"), "cancelled", "failed"),
    ],
)
def test_an_instance_is_cancelled_from_the_request_on(projection: p.Projection, instance: str, machine: str) -> None:
    async def main() -> None:
        store = MemoryStore()
        await store.open()
        states = states_of(await begun(store, start(projection=projection)))
        assert (states["instance"], states["machine"]) == (instance, machine)

    asyncio.run(main())


def test_pages_follow_each_other_by_cursor() -> None:
    """All runs, each once, in the order of the list; the last page has no cursor behind it."""

    async def main(app: Holdfast) -> None:
        for number in range(7):
            await app.start(nothing, id=f"run-{number}", actor="ann" if number % 2 else None)
        whole = [run.id async for run in app.list()]
        seen: list[str] = []
        after = None
        while True:
            page = await app.page(limit=3, after=after)
            seen += [run.id for run in page.items]
            if (after := page.next) is None:
                break
        assert seen == whole
        first = await app.page(limit=3)
        assert [run.id async for run in app.list(after=first.next)] == whole[3:]
        assert [run.id async for run in app.list(actor="ann")] == ["run-5", "run-3", "run-1"]
        assert [run async for run in app.list(state="succeeded")] == []
        assert len([run async for run in app.list(state="queued")]) == 7
        assert [run async for run in app.list(ended_after=datetime(2000, 1, 1, tzinfo=UTC))] == []
        assert await app.counts() == [p.RunCount("default", "queued", 7)]

    play(main)


def test_entries_of_the_audit_have_pages_too() -> None:
    """In the order of the chain."""

    async def main(app: Holdfast) -> None:
        for number in range(5):
            await app.start(nothing, id=f"run-{number}", actor="ann")
        first = await app.audit.page(limit=3)
        rest = await app.audit.page(limit=3, after=first.next)
        assert [entry.run for entry in [*first.items, *rest.items]] == [f"run-{number}" for number in range(5)]
        assert rest.next is None

    play(main)


def test_a_cursor_behind_the_last_entry_of_the_audit_gives_an_empty_page() -> None:
    """It may be forged, or come from before a backup was restored."""

    async def main(app: Holdfast) -> None:
        await app.start(nothing, id="one", actor="ann")
        forged = write_cursor("audit", p.Cursor(10**6, "default", ""))
        assert (await app.audit.page(after=forged)).items == []

    play(main)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "not a cursor",
        "\u00e9",
        write_cursor("tasks", p.Cursor(1, "a", "b")),
        write_cursor("runs", p.Cursor(2**63, "a", "b")),
        write_cursor("runs", p.Cursor(-1, "a", "b")),
    ],
)
def test_what_is_no_cursor_of_the_list_is_refused(text: str) -> None:
    """The error is the caller's, whatever the text."""
    with pytest.raises(InvalidRequest):
        read_cursor("runs", text)


def test_a_cursor_survives_its_text() -> None:
    """With any tenant and id."""
    cursor = p.Cursor(7, "tenant \u00fc", "id/+=")
    assert read_cursor("runs", write_cursor("runs", cursor)) == cursor


def test_a_state_that_there_is_not_is_refused() -> None:
    """And the error names the known states."""

    async def main(app: Holdfast) -> None:
        with pytest.raises(InvalidRequest, match="waiting_approval"):
            await app.page(state="done")  # type: ignore[typeddict-item]

    play(main)


def test_signals_that_nobody_received_are_shown() -> None:
    """Those in the inbox, with their values."""

    async def main(app: Holdfast) -> None:
        run = await app.start(nothing, id="one")
        await run.signal("paid", {"amount": 7})
        found = await journals.row_of(app.store, run.key)
        entries = [entry async for entry in journals.read(app.store, found)]
        (signal,) = [signal_record(each) for each in await unreceived(app.store, found, entries)]
        assert (signal["name"], signal["value"], signal["in_journal"]) == ("paid", {"amount": 7}, False)

    play(main)
