"""The app with actions that the command line's tests load, and the policy that judges them."""

from __future__ import annotations

from typing import Any

from holdfast import DidNotHappen, OutcomeUnknown, Receipt, action, workflow

POLICY = """
version: 1
rules:
  - name: large payments want two people
    when: action.operation == "pay" && action.fields.amount >= 1000
    effect: needs_approval
    tier: high
    two_person: true
    expires_in: 4h
    candidates: [bob, cid, "oncall-*"]
  - name: payments want a person
    when: action.operation == "pay"
    effect: needs_approval
    tier: med
  - name: the rest is free
    when: "true"
    effect: allow
"""


@action(connector="bank", operation="refund", target="{receipt.target}", name="cli_refund")
async def refund(receipt: Receipt) -> dict[str, Any]:
    return {"refunded": receipt.result["payment"]}


async def find_payment(account: str, amount: int, token: str) -> DidNotHappen:
    return DidNotHappen({"amount": 0, "account": account, "opened with": token})


@action(
    connector="bank",
    operation="pay",
    target="account {account}",
    reverse=refund,
    probe=find_payment,
    secret=["token"],
    name="cli_pay",
)
async def pay(account: str, amount: int, token: str) -> dict[str, Any]:
    return {"payment": f"p-{amount}"}


@action(connector="bank", operation="wire", target="account {account}", name="cli_wire")
async def wire(account: str) -> str:
    raise OutcomeUnknown("the line broke after it was sent")


@workflow(name="cli_payment")
async def payment(account: str, amount: int) -> dict[str, Any]:
    return await pay(account, amount, "s3cret")


@workflow(name="cli_wiring")
async def wiring(account: str) -> str:
    return await wire(account)
