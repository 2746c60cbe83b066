"""A user's program with mistakes: each line marked ``# wrong: CODE`` must be refused by mypy with that code."""

from __future__ import annotations

from holdfast import Holdfast, RunHandle, WorkerOptions, receive, step, workflow


@step
async def charge(cents: int) -> str:
    return str(cents)


@step
def plain(text: str) -> int:
    return len(text)


@workflow
async def checkout(cents: int) -> str:
    number: int = await charge(cents)  # wrong: assignment
    await charge("twelve")  # wrong: arg-type
    await charge()  # wrong: call-arg
    await plain(text=3)  # wrong: arg-type
    text: str = await receive("approval", bool)  # wrong: arg-type
    print(text)
    charge(cents).upper()  # wrong: attr-defined
    return number  # wrong: return-value


@workflow  # wrong: arg-type
def not_async(cents: int) -> int:
    return cents


@step(retries="three")  # wrong: call-overload
async def impatient() -> None: ...


async def main() -> None:
    async with Holdfast("memory://", options=WorkerOptions(leases=3)) as app:  # wrong: call-arg
        run: RunHandle[int] = await app.start(checkout, 3)  # wrong: arg-type
        print(await run.signal("approval"))  # wrong: func-returns-value
        app.list(status="ended")  # wrong: arg-type
