"""Reversal: a workflow of the engine whose one action is the one that the receipt names."""

from __future__ import annotations

from typing import Any, Final

from holdfast.errors import NotReversible
from holdfast.gate.receipts import Receipt
from holdfast.programs.function.actions import Action
from holdfast.programs.function.decorators import STEPS, workflow

REVERSE: Final = "holdfast.reverse"

ANYWAY: Final = "anyway"
"""The attribute of a reversal that a person has asked for although an open run relies on the act: those runs."""


@workflow(name=REVERSE)
async def reverse(receipt: Receipt) -> Any:
    """Call the action that undoes this receipt's act; the gate judges it like any other."""
    action = STEPS.get(receipt.reverse or "")
    if not isinstance(action, Action):
        raise NotReversible(
            f"no action is called {receipt.reverse!r} here: deploy the code that defines it, then retry"
        )
    return await action(receipt)
