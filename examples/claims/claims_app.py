"""What the definition in claims.yaml calls: a score, a register, a payment, a letter."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from holdfast import Holdfast, action, step

HERE = Path(__file__).parent


@step(name="claims.score")
async def score(items: list[dict[str, Any]]) -> float:
    """How odd a claim looks, from 0 to 1."""
    return min(1.0, sum(item["amount"] for item in items) / 10_000)


@step(name="claims.cover")
async def cover(claim: str) -> bool:
    """Whether the policy covers it."""
    return not claim.startswith("X")


@action(name="claims.take_back", connector="bank", operation="payment.cancel")
async def take_back(payment: str) -> None:
    """Cancel a payment."""
    print(f"  the bank cancels {payment}")


@action(name="claims.pay", connector="bank", operation="payment.make", target="{claim}")
async def pay(claim: str, amount: float) -> str:
    """Pay the claim."""
    print(f"  the bank pays {amount:.2f} for {claim}")
    return f"P-{claim}"


@step(name="claims.tell")
async def tell(person: str, decision: str) -> None:
    """Write a letter."""
    print(f"  a letter to {person}: {decision}")


def engine(url: str) -> Holdfast:
    """An engine with the definition, under a policy that allows payments."""
    app = Holdfast(url, policy=HERE / "policy.yaml")
    app.definitions.add(HERE / "claims.yaml")
    return app


app = engine(os.environ.get("HOLDFAST_STORE", "sqlite:///claims.db"))
