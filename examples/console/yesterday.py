"""The renewal as it was yesterday, without the check of the credit: ``python yesterday.py STORE`` starts a run of it.

Today's code in ``office.py`` does not fit the journal of that run: the run parks, and the console shows the difference.
"""

from __future__ import annotations

import asyncio
import sys

from holdfast import Holdfast, receive, step, workflow


@step
async def send_offer(customer: str) -> str:
    """Write to the customer."""
    return f"offer to {customer}"


@workflow
async def renew(customer: str) -> str:
    """Renew a subscription."""
    offer = await send_offer(customer)
    accepted = await receive("accepted", bool)
    return f"{offer}: {'accepted' if accepted else 'declined'}"


async def main(url: str) -> None:
    """Start a run, and leave it where it waits for the customer."""
    async with Holdfast(url, workflows=[renew]) as app:
        run = await app.start(renew, "Halden & Co", id="renewal-halden", actor="ben")
        await run.settled(timeout=30)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
