"""Ids of older versions that a browser would resolve, in a real browser: links and forms reach what they name."""

from __future__ import annotations

import asyncio
import os

import pytest
from playwright.async_api import async_playwright

from holdfast import Holdfast
from holdfast.errors import RunCancelled
from holdfast.runs.addresses import path_part
from holdfast.server import Operator, Server
from tests.browser import ARGUMENTS, NAMED, chromium
from tests.serving import served
from tests.unit.server.older_ids import RUNS, older_run
from tests.unit.server.test_runs import WORKFLOWS, waiting

MISSING = f"NO BROWSER: links of older ids were not followed. Set {NAMED}, or `make browser` fetches one with npm"


@pytest.mark.long
def test_a_browser_reaches_older_runs_and_no_other() -> None:
    """Each is opened by its link, and cancelled by the form of its page."""
    path = chromium()
    if path is None:
        if os.environ.get("CI"):
            pytest.fail(MISSING)
        pytest.skip(MISSING)

    async def main() -> None:
        async with Holdfast("memory://", workflows=WORKFLOWS) as app, async_playwright() as playwright:
            victim = await app.start(waiting, id="victim")
            for id in RUNS:
                await older_run(app, waiting, "default", id)
                await app.run(id).settled(30)
            browser = await playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
            operator = Operator(app, "root")
            async with served(app, server=Server(app, authenticators=[operator])) as address:
                page = await browser.new_page()
                await page.goto(operator.link(address))
                for id in RUNS:
                    await page.goto(f"{address}/runs")
                    await page.get_by_role("link", name=id, exact=True).click()
                    await page.wait_for_url(f"{address}/runs/{path_part(id)}")
                    panel = page.locator("details#cancel")
                    await panel.locator("summary").click()
                    await panel.locator("[name=reason]").fill("a test")
                    await panel.get_by_role("button").click()
                    await page.wait_for_url(f"{address}/runs/{path_part(id)}")
                    with pytest.raises(RunCancelled):
                        await app.run(id).result(30)
                await browser.close()
            assert (await victim.settled(30)).run.status == "waiting"

    asyncio.run(main())
