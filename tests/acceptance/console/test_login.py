"""A real browser logs in with a provider of identities that is another site."""

from __future__ import annotations

import asyncio
import queue
import re
import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from holdfast import Holdfast
from holdfast.server import Server
from tests.provider import SECRET, providing
from tests.serving import served, token_of

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server, and a provider for it, in a thread: the browser's own thread has a loop already."""
    monkeypatch.setenv("HOLDFAST_SECRET_OIDC", SECRET)
    found: queue.Queue[str] = queue.Queue()
    loop, over = asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        async with Holdfast("memory://", worker=False) as app, providing() as provider:
            provider.issuer = provider.issuer.replace("127.0.0.1", "localhost")  # another site than ours
            await token_of(app, "acme", "ann", 4)
            async with served(app, server=Server(app, openid=provider.settings())) as address:
                found.put(address)
                await over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    yield found.get(timeout=60)
    loop.call_soon_threadsafe(over.set)
    thread.join(60)
    loop.close()


def test_a_browser_logs_in_and_out_through_another_site(browser: Browser, address: str) -> None:
    """Its cookies survive the way there and back, the policy of the pages allows it, and a page that was asked for is
    shown afterwards."""
    context = browser.new_context(base_url=address)
    context.set_default_timeout(10_000)
    page = context.new_page()
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.goto("/tasks?show=all")
    page.get_by_role("link", name="Log in with Example ID").click()
    expect(page).to_have_url(f"{address}/tasks?show=all")
    expect(page.locator(".who")).to_contain_text("ann")
    (kept,) = context.cookies()
    assert (kept.get("name"), kept.get("httpOnly"), kept.get("sameSite")) == ("holdfast-session", True, "Lax")
    page.get_by_role("button", name="Log out").click()
    expect(page.locator(".lead")).to_contain_text("You are logged out here.")
    link = page.get_by_role("link", name="Log out at Example ID, too")
    expect(link).to_have_attribute("href", re.compile(r"^http://localhost:\d+/leave\?client_id=holdfast&"))
    assert context.cookies() == []
    assert errors == []
    context.close()
