"""The payments of the gate's engine tests: an action, the same as a step, and workflows of each."""

from __future__ import annotations

import pytest

from holdfast import ActionDenied, ApprovalExpired, ApprovalRejected, Holdfast, RunFailed, action, step, workflow
from holdfast.journal.payload import Failure

DONE: list[str] = []
"""What was done outside, in order."""


@action(connector="bank", operation="pay", target="account {account}", name="gov.pay")
async def pay(account: str, amount: int = 1) -> str:
    DONE.append(f"{account} {amount}")
    return f"paid {amount}"


@step(name="gov.step")
async def paid(account: str, amount: int = 1) -> str:
    return f"paid {amount}"


@workflow(name="gov.paying")
async def paying(account: str, times: int = 1) -> list[str]:
    return [await pay(account, number) for number in range(1, times + 1)]


@workflow(name="gov.stepping")
async def stepping(account: str, times: int = 1) -> list[str]:
    return [await paid(account, number) for number in range(1, times + 1)]


@workflow(name="gov.careful")
async def careful(account: str) -> str:
    """It goes on when its action is refused, and returns the reason."""
    try:
        return await pay(account)
    except ActionDenied as error:
        return f"denied: {error}"
    except ApprovalRejected as error:
        return f"rejected: {error}"
    except ApprovalExpired as error:
        return f"expired: {error}"


ALL = (paying, stepping, careful)


async def failure_of(app: Holdfast, run: str) -> Failure:
    with pytest.raises(RunFailed) as raised:
        await app.run(run).result()
    assert isinstance(raised.value.failure, Failure)
    return raised.value.failure
