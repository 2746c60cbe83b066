"""One office and one browser for all tests of the console. All of them run in one worker.

Both end with the folder: while the browser is there, its thread has a running loop, and no other test could have one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.acceptance.console.office import Office, served_office
from tests.browser import ARGUMENTS, NAMED, chromium

MISSING = (
    f"NO BROWSER: the console was not looked at. Set {NAMED}, install Chromium, or `make browser` fetches one with npm"
)

NewPage = Callable[..., Page]

PATIENCE_MILLISECONDS = 60_000
"""How long a test waits for a page: only one that fails does."""

expect.set_options(timeout=PATIENCE_MILLISECONDS)


@pytest.fixture(scope="package")
def office() -> Iterator[Office]:
    with served_office() as found:
        yield found


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    path = chromium()
    if path is None:
        if os.environ.get("CI"):
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield found
        found.close()


@pytest.fixture
def new_page(browser: Browser, office: Office) -> Iterator[NewPage]:
    """Makes pages. A test fails where one of them had an error in its console, a broken policy, or a script's error."""
    errors: list[str] = []
    contexts = []

    def new(**options: object) -> Page:
        context = browser.new_context(base_url=office.address, **options)  # type: ignore[arg-type]
        context.set_default_timeout(PATIENCE_MILLISECONDS)
        contexts.append(context)
        context.request.get(office.link)  # the context's pages have the cookie now
        page = context.new_page()
        page.on("console", lambda message: errors.append(message.text) if _is_error(message) else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        return page

    yield new
    for context in contexts:
        context.close()
    assert errors == []


def _is_error(message: ConsoleMessage) -> bool:
    """Whether a browser complains. It says as well that a form was refused: that is what some tests want."""
    return message.type == "error" and re.search(r"status of (400|409|422)", message.text) is None
