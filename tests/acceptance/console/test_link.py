"""The link to a server without users, in a real browser."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Request, expect

from tests.acceptance.console.conftest import PATIENCE_MILLISECONDS
from tests.acceptance.console.office import Office

pytestmark = pytest.mark.xdist_group("browser")


@contextmanager
def another_site(body: str) -> Iterator[str]:
    """A page of another site: its name is not that of the office, though it is on this host, too."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://localhost:{server.server_address[1]}/"
        server.shutdown()
        thread.join(60)


def test_the_link_lets_a_browser_in_and_is_seen_nowhere_afterwards(browser: Browser, office: Office) -> None:
    """Without it a page says how to get it. It is opened from a page of another site, as from a mail: the page that it
    names is shown at once. From then on pages, forms and streams work, also those that another site leads to; and no
    request has the key in its address or its Referer."""
    key = office.link.partition("?key=")[2]
    tasks, runs = f"{office.address}/tasks", f"{office.address}/runs"
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MILLISECONDS)
    page = context.new_page()
    sent: list[Request] = []
    page.on("request", lambda each: sent.append(each))
    page.goto(tasks)
    expect(page.locator("h1")).to_have_text("This server is for its operator alone")
    expect(page.locator(".trouble")).to_contain_text("holdfast link")
    letter = f'<a href="{tasks}?show=all&key={key}">the link</a> <a href="{runs}">the runs</a>'
    with another_site(letter) as site:
        page.goto(site)
        page.get_by_role("link", name="the link").click()
        expect(page).to_have_url(f"{tasks}?show=all")
        expect(page.locator("h1")).to_have_text("Tasks")
        (kept,) = context.cookies(office.address)
        assert kept.get("name") == f"holdfast-key-{urlsplit(office.address).port}"
        assert key not in str(kept.get("value"))
        assert (kept.get("httpOnly"), kept.get("sameSite")) == (True, "Lax")
        page.goto(site)
        page.get_by_role("link", name="the runs").click()
        expect(page.locator("h1")).to_have_text("Runs")
    office.post("runs", workflow="order", kwargs={"item": "a stool"}, id="linked")
    with page.expect_request("**/v1/events/runs/linked*"):
        page.goto(f"{runs}/linked")
    page.locator("#pause > summary").click()
    page.locator("#pause [name=reason]").fill("it wobbles")
    page.locator("#pause form button").click()
    expect(page.locator(".head .chip")).to_contain_text("paused")
    assert [each.url for each in sent if key in each.url] == [f"{tasks}?show=all&key={key}"]
    assert not [each for each in sent if key in each.all_headers().get("referer", "")]
    context.close()
