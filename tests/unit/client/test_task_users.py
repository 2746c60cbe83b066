"""Where a tenant has users, those who answer tasks are users, enabled ones, and their groups are the engine's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from holdfast import Holdfast, action, ask, workflow
from holdfast.errors import NotPermitted, TaskForbidden
from holdfast.store import protocol as p
from tests.unit.worker.ground import policy_of


class Review(msgspec.Struct):
    good: bool = True


@workflow(name="staff.review")
async def review() -> bool:
    return (await ask("good?", Review, candidates=["zoe"], groups=["claims"])).good


@action(connector="bank", operation="pay", name="staff.pay")
async def pay() -> str:
    return "paid"


@workflow(name="staff.paying")
async def paying() -> str:
    return await pay()


TWO_PERSON = policy_of({"effect": "needs_approval", "tier": "high", "two_person": True})


@asynccontextmanager
async def engine() -> AsyncIterator[Holdfast]:
    async with Holdfast("memory://", workflows=[review, paying], policy=TWO_PERSON) as app:
        await app.tenants.create("default")
        for name, level, groups in (
            ("ann", 2, ["claims"]),
            ("bob", 2, []),
            ("cec", 1, ["claims"]),
            ("dan", 3, []),
            ("zoe", 2, []),
            ("root", 6, []),
        ):
            await app.users.create(name, level=level, groups=groups)
        yield app


async def asked(app: Holdfast, run: str = "r1") -> str:
    await app.start(review, id=run)
    await app.run(run).settled(timeout=30)
    return (await anext(app.tasks.list(run=run))).id


def test_groups_are_those_of_the_user() -> None:
    """What the caller says of groups does not count; unbound and bound alike."""

    async def main() -> None:
        async with engine() as app:
            task = await asked(app)
            with pytest.raises(TaskForbidden, match="may not answer"):
                await app.tasks.complete(task, {}, by="bob", groups=["claims"])
            with pytest.raises(TaskForbidden, match="no user"):
                await app.tasks.complete(task, {}, by="eve", groups=["claims"])
            with pytest.raises(TaskForbidden, match="level 1"):
                await app.tasks.complete(task, {}, by="cec")
            with pytest.raises(NotPermitted, match="level 2"):
                await app.acting_as("cec").tasks.complete(task, {})
            with pytest.raises(TaskForbidden):
                await app.acting_as("bob").tasks.claim(task, groups=["claims"])
            await app.users.set_groups("bob", ["claims"])
            assert (await app.acting_as("bob").tasks.claim(task)).owner == "bob"
            assert (await app.tasks.complete(task, {"good": False}, by="BOB")).answers[-1].who == "bob"
            assert await app.run("r1").result(timeout=30) is False

    asyncio.run(main())


def test_a_candidate_answers_under_the_name_of_the_user() -> None:
    """However the caller spells it."""

    async def main() -> None:
        async with engine() as app:
            task = await asked(app)
            await app.tasks.complete(task, {}, by="ZOE")
            assert await app.run("r1").result(timeout=30)

    asyncio.run(main())


def test_a_task_goes_to_users_only() -> None:
    """Who may answer it, with groups that the engine knows."""

    async def main() -> None:
        async with engine() as app:
            task, dan = await asked(app), app.acting_as("dan")
            for name, problem in (("eve", "no user"), ("cec", "level 1"), ("bob", "may not answer")):
                with pytest.raises(TaskForbidden, match=problem):
                    await dan.tasks.assign(task, to=name, to_groups=["claims"])
            with pytest.raises(NotPermitted, match="level 3"):
                await app.acting_as("ann").tasks.assign(task, to="ann")
            await dan.tasks.assign(task, to="Ann")
            assert (await app.tasks.get(task)).owner == "ann"
            with pytest.raises(TaskForbidden, match="no user"):
                await app.acting_as("ann").tasks.delegate(task, to="eve")
            await app.acting_as("ann").tasks.delegate(task, to="zoe")
            await app.users.disable("zoe")
            with pytest.raises(NotPermitted, match="disabled"):
                await app.acting_as("zoe").tasks.complete(task, {})
            with pytest.raises(TaskForbidden, match="disabled"):
                await app.tasks.complete(task, {}, by="zoe")

    asyncio.run(main())


def test_what_was_approved_before_stays() -> None:
    """The first of two approvers is disabled afterwards: their approval counts, and they cannot give another."""

    async def main() -> None:
        async with engine() as app:
            await app.start(paying, id="r1", actor="root")
            await app.run("r1").settled(timeout=30)
            task = (await anext(app.tasks.list(run="r1"))).id
            await app.acting_as("ann").tasks.approve(task)
            await app.users.disable("ann")
            with pytest.raises(NotPermitted, match="disabled"):
                await app.acting_as("ann").tasks.approve(task)
            with pytest.raises(TaskForbidden):
                await app.tasks.approve(task, by="root")
            await app.tasks.approve(task, by="bob")
            assert await app.run("r1").result(timeout=30) == "paid"

    asyncio.run(main())


def test_who_is_disabled_while_they_answer_has_not_answered() -> None:
    """Between the look at the user and the commit: by a name that the process gives, and bound."""

    async def main() -> None:
        async with engine() as app:
            for number, tasks in enumerate((app.tasks, app.acting_as("ann").tasks)):
                task = await asked(app, f"r{number}")
                commit = app.committer.commit

                async def late(change: p.Change, commit=commit) -> p.Answer:  # type: ignore[no-untyped-def]
                    app.committer.commit = commit  # type: ignore[method-assign]
                    await app.users.disable("ann")
                    return await commit(change)  # type: ignore[no-any-return]

                app.committer.commit = late  # type: ignore[method-assign]
                by = {"by": "ann"} if number == 0 else {}
                with pytest.raises((TaskForbidden, NotPermitted), match="disabled"):
                    await tasks.complete(task, {}, **by)
                assert (await app.tasks.get(task)).answers == ()
                await app.users.enable("ann")

    asyncio.run(main())


def test_without_users_the_caller_says_who_is_in_which_group() -> None:
    async def main() -> None:
        async with Holdfast("memory://", workflows=[review]) as app:
            task = await asked(app)
            await app.tasks.complete(task, {}, by="anyone", groups=["claims"])
            assert await app.run("r1").result(timeout=30)

    asyncio.run(main())
