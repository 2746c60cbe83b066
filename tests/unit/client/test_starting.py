"""Who starts a run, and with what: a name or an argument that cannot be used starts nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import Holdfast, SyncHoldfast, Trigger, step, workflow
from holdfast.errors import HoldfastError, InvalidArguments, InvalidRequest, RunFailed, WorkflowUnknown
from holdfast.tasks import answers as tasks
from tests.unit.tasks.test_answers import NOW, task

NO_NAMES = ["", " ", "ann ", "\tann", "an\nn", "ann\x1b[31m", "\u200bann", "ann\ufe0f", "ann  b"]


@pytest.mark.parametrize("name", NO_NAMES, ids=repr)
def test_an_actor_that_could_not_answer_starts_nothing(name: str) -> None:
    """With one blank more, the starter of a run would count as another person when they approve it."""

    async def main() -> None:
        async with Holdfast("memory://", worker=False) as app:
            with pytest.raises(InvalidRequest, match="the actor is a name, without blanks around it"):
                await app.start("greet", actor=name, id="one")
            assert [row async for row in app.list()] == []

    asyncio.run(main())
    with pytest.raises(InvalidRequest):
        tasks.answer(task(), name, tasks.APPROVED, "", NOW)


@pytest.mark.parametrize("name", [None, "ann", "Ann B. Ö'Hara", "svc:cron@example.org"])
def test_an_actor_is_any_name_or_nobody(name: str | None) -> None:
    """What a terminal can show, as it is."""

    async def main() -> None:
        async with Holdfast("memory://", worker=False) as app:
            run = await app.start("greet", actor=name)
            assert (await run.info()).actor == name

    asyncio.run(main())


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"actor": 42}, "the actor is a name"),
        ({"id": 5}, "the id is a text, not 5"),
        ({"trigger": "webhook:7"}, r"the trigger is a Trigger\(type, ref\), not 'webhook:7'"),
        ({"id": b"x"}, "the id is a text, not b'x'"),
        ({"tenant": 5}, "the tenant is a text, not 5"),
        ({"workspace": None}, "the workspace is a text, not None"),
        ({"workspace": 7}, "the workspace is a text, not 7"),
        ({"trigger": Trigger("webhook", 7)}, "the trigger's ref is a text, not 7"),  # type: ignore[arg-type]
        ({"trigger": Trigger(None, "x")}, "the trigger's type is a text, not None"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_text_is_refused_before_it_is_stored(given: dict[str, Any], why: str) -> None:
    """A row that cannot be read again would stop more than its own run."""

    async def main() -> None:
        async with Holdfast("memory://", worker=False) as app:
            with pytest.raises(InvalidRequest, match=why):
                await app.start("anything", **given)

    asyncio.run(main())


class Item(msgspec.Struct):
    name: str
    cents: int


@workflow(name="starting.order")
async def order(item: Item, count: int = 1, *, gift: bool = False, id: int = 0) -> str:
    return f"{count} {item.name} {gift} {id}"


@step(name="starting.step")
async def a_step() -> None: ...


BOOK = {"name": "book", "cents": 1200}


@pytest.mark.parametrize(
    ("args", "kwargs", "why"),
    [
        ((), {}, "starting.order cannot be called like this: missing a required argument: 'item'"),
        ((BOOK, 1, 2), {}, "starting.order cannot be called like this: too many positional arguments"),
        ((BOOK,), {"colour": "red"}, "got an unexpected keyword argument 'colour'"),
        ((BOOK, "two"), {}, "argument 'count' of starting.order is 'two', which does not fit int: Expected `int`"),
        ((BOOK,), {"gift": "yes"}, "argument 'gift' of starting.order is 'yes', which does not fit bool"),
        (({"name": "book"},), {}, "argument 'item' .* does not fit Item: Object missing required field `cents`"),
        (({"name": "book", "cents": "1"},), {}, r"does not fit Item: Expected `int`, got `str` - at `\$.cents`"),
    ],
)
@pytest.mark.parametrize("which", [order, "starting.order"], ids=["by itself", "by its name"])
@pytest.mark.parametrize("worker", [True, False], ids=["with a worker", "client only"])
def test_arguments_that_do_not_fit_start_nothing(
    args: tuple[Any, ...], kwargs: dict[str, Any], why: str, which: Any, worker: bool
) -> None:
    """They are read at once as the worker will read them, and the error says what was expected."""

    async def main() -> None:
        async with Holdfast("memory://", worker=worker) as app:
            with pytest.raises(InvalidArguments, match=why):
                await app.start(which, *args, id="one", **kwargs)
            assert [row async for row in app.list()] == []

    asyncio.run(main())
    assert issubclass(InvalidArguments, TypeError)


def test_what_the_worker_would_convert_is_taken() -> None:
    """Plain data for a struct, a whole number for a fraction: the same rules."""

    async def main() -> None:
        async with Holdfast("memory://") as app:
            for item in (BOOK, Item("book", 1200)):
                assert await (await app.start(order, item, 2, gift=True)).result() == "2 book True 0"

    asyncio.run(main())


def test_bound_arguments_may_have_the_names_of_options() -> None:
    """``id`` is the workflow's own in bind(), and the run's in start()."""

    async def main() -> None:
        async with Holdfast("memory://") as app:
            run = await app.start(order.bind(Item("book", 1), gift=True, id=7), id="run-1")
            assert (run.id, await run.result()) == ("run-1", "1 book True 7")
            with pytest.raises(InvalidRequest, match="bound already"):
                await app.start(order.bind(Item("book", 1)), 3, id="run-1")  # type: ignore[call-overload]
            with pytest.raises(InvalidArguments, match="missing a required argument"):
                await app.start(order.bind(), id="run-2")  # type: ignore[call-arg]
            with pytest.raises(WorkflowUnknown, match="decorate it with @workflow"):
                await app.start(a_step, id="run-3")  # type: ignore[arg-type]

    asyncio.run(main())
    with SyncHoldfast("memory://") as sync:
        assert sync.start(order.bind(Item("book", 1), id=7), id="run-1").result() == "1 book False 7"


def test_a_worker_fails_a_run_whose_arguments_do_not_fit(tmp_path: Path) -> None:
    """Its caller did not know the workflow. It is not parked: there is nothing to mend here."""
    url = f"sqlite:///{tmp_path}/s.db"

    async def main() -> None:
        async with Holdfast(url, worker=False) as app:
            await app.start("starting.unknown", "two", id="one")

        @workflow(name="starting.unknown")
        async def unknown(count: int) -> int:
            return count

        async with Holdfast(url, workflows=[unknown]) as app:
            problem = r"failed: InvalidArguments: argument 'count' of starting.unknown is 'two', which does not fit int"
            with pytest.raises(RunFailed, match=problem):
                await app.run("one").result()

    asyncio.run(main())


@pytest.mark.parametrize(("call", "why"), [({"id": 5}, "the id is a text"), ({"id": "x", "tenant": 5}, "the tenant")])
def test_a_handle_is_asked_for_by_texts(call: dict[str, Any], why: str) -> None:
    """A number would be looked for in vain, or trouble the driver."""

    async def main() -> None:
        async with Holdfast("memory://", worker=False) as app:
            with pytest.raises(HoldfastError, match=why):
                app.run(**call)

    asyncio.run(main())


@workflow(name="starting.known")
async def known() -> str:
    return "done"


def test_a_name_that_no_running_worker_knows_is_refused_at_once(tmp_path: Path) -> None:
    """A misspelt name would wait for ever. Nothing is started, and the message has the name that was meant."""
    url = f"sqlite:///{tmp_path}/names.db"

    async def main() -> None:
        async with Holdfast(url, workflows=[known]) as app:
            with pytest.raises(WorkflowUnknown, match=r"did you mean 'starting\.known'\?"):
                await app.start("starting.knwon", id="misspelt")
            assert [row async for row in app.list()] == []
            async with Holdfast(url, worker=False) as other:
                with pytest.raises(WorkflowUnknown):
                    await other.start("starting.unknown")
                assert await (await other.start("starting.known")).result() == "done"

    asyncio.run(main())


def test_a_name_waits_for_a_worker_where_none_is_running(tmp_path: Path) -> None:
    """Then nobody can say that it is misspelt. A run that is there is found later, too, whoever runs."""
    url = f"sqlite:///{tmp_path}/names.db"

    async def main() -> None:
        async with Holdfast(url, worker=False) as app:
            assert (await app.start("starting.later", id="early")).is_new
        async with Holdfast(url, workflows=[known]) as app:
            assert not (await app.start("starting.later", id="early")).is_new

    asyncio.run(main())
