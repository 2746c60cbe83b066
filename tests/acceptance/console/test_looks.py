"""Every page of the console in a real browser: it opens without an error, everybody can read it, without a script."""

from __future__ import annotations

import re
from pathlib import Path

import axe_playwright_python
import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.console.conftest import NewPage
from tests.acceptance.console.office import Office

pytestmark = pytest.mark.xdist_group("browser")

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
RULES = """async () => {
    const kinds = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
    const found = await axe.run(document, {runOnly: kinds});
    return found.violations.map(each => `${each.id}: ${each.nodes.map(node => node.html).slice(0, 3).join(" | ")}`);
}"""
UNFOLD = """() => {
    for (const each of document.querySelectorAll("details")) { each.removeAttribute("name"); each.open = true; }
}"""


def pages_of(office: Office) -> dict[str, str]:
    """A path for every page, and what a reader must find there."""
    return {
        "/runs": "Runs",
        "/runs?status=cancelled": "No run matches",
        "/runs/invoice-1001": "It completed",
        "/runs/renewal-halden": "send_offer",
        "/runs/order-502": "the printer has no label for kites",
        "/runs/claim-18?at=5": "as it was at event 5",
        "/start?workflow=pay_invoice": "supplier",
        "/tasks": "wait for you",
        "/tasks?show=all": "All tasks",
        f"/tasks/{office.task_of('invoice-1003')}": "Two people must approve it",
        f"/tasks/{office.task_of('limit-falk')}": "Compare with the present",
        f"/tasks/{office.task_of('claim-18')}": "Your decision",
        f"/tasks/{office.task_of('invoice-1004')}": "Nobody knows",
        "/receipts": "unknown outcome",
        f"/receipts/{office.receipt_of('invoice-1001')}": "It was done",
        "/audit?span=all": "Check it now",
        "/evidence/invoice-1001": "The journal is whole",
        "/definitions": "claims.settle",
        "/definitions/claims.settle": "version 1",
        "/templates": "claims",
        "/templates/claims": "It can be started",
        "/schedules": "tidy-up",
        "/schedules/tidy-up": "What became of the last ones",
        "/workers": "running",
        "/people": "What each level may do",
        "/people/you": "Effective permissions",
        "/tenants": "Workspaces of default",
    }


def test_every_page_is_read_without_a_script(new_page: NewPage, office: Office) -> None:
    """What a page says is in what the server sends: a heading, and the answer that a reader looks for."""
    page = new_page(java_script_enabled=False)
    for path, words in pages_of(office).items():
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == 200, path
        expect(page.locator("h1")).to_have_count(1)
        expect(page.locator("main")).to_contain_text(words)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_keeps_anybody_out(new_page: NewPage, office: Office, scheme: str) -> None:
    """axe finds nothing against WCAG 2.2 AA, in light and in dark; and nothing is reported in the browser's console."""
    page = new_page(color_scheme=scheme, bypass_csp=True)
    found = {}
    paths = [*pages_of(office), "/login", "/nothing-here"]
    for path in paths if scheme == "light" else paths[::4]:
        open_all(page, path)
        page.evaluate(AXE)
        if violations := page.evaluate(RULES):
            found[path] = violations
    assert found == {}


def open_all(page: Page, path: str) -> None:
    """Open a page, and everything on it that can be unfolded."""
    if path == "/nothing-here":
        page.context.route("**/nothing-here", lambda route: route.fulfill(response=route.fetch(), status=200))
    page.goto(path)
    page.evaluate(UNFOLD)


def test_every_page_fits_a_phone(new_page: NewPage, office: Office) -> None:
    """On a narrow screen nothing but tables and pictures, which scroll themselves, is wider than the screen."""
    page = new_page(viewport={"width": 375, "height": 740})
    for path in pages_of(office):
        page.goto(path)
        width = page.evaluate("() => document.documentElement.scrollWidth")
        assert width <= 376, (path, width)


def test_nothing_comes_from_elsewhere(new_page: NewPage, office: Office) -> None:
    """Every page says by its policy that nothing inline is run, and asks this server alone."""
    page = new_page()
    asked: set[str] = set()
    page.on("request", lambda request: asked.add(request.url.split("/")[2]))
    for path in pages_of(office):
        answer = page.goto(path)
        assert answer is not None
        policy = answer.headers["content-security-policy"]
        assert re.search(r"default-src 'none'", policy)
        assert "unsafe" not in policy
        assert page.locator("[style], style, script:not([src]), [onclick]").count() == 0
    assert asked == {office.address.removeprefix("http://")}
