"""Every page of the console in a real browser: it opens without an error, everybody can read it, without a script."""

from __future__ import annotations

import json
import re
from pathlib import Path

import axe_playwright_python
import pytest
from playwright.sync_api import Page, expect

from holdfast.server.console.pages.table import NAVIGATION, PAGES
from tests.acceptance.console.conftest import NewPage
from tests.acceptance.console.office import Office
from tests.acceptance.console.screenshots import DOCS, LABELS, labels_of, pictures_of
from tests.scope import one_stays, volume

pytestmark = pytest.mark.xdist_group("browser")

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
RULES = """async () => {
    const kinds = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
    const found = await axe.run(document, {runOnly: kinds, resultTypes: ["violations"], preload: false});
    return found.violations.map(each => `${each.id}: ${each.nodes.map(node => node.html).slice(0, 3).join(" | ")}`);
}"""
UNFOLD = """() => {
    for (const each of document.querySelectorAll("details")) { each.removeAttribute("name"); each.open = true; }
}"""
FOCUSABLE = """() => {
    const all = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']";
    const shown = [...document.querySelectorAll(all)].filter(each => each.checkVisibility() && !each.closest("dialog"));
    window.reached = new Set();
    window.unmarked = [];
    document.addEventListener("focusin", ({target}) => {
        window.reached.add(target);
        if (getComputedStyle(target).outlineStyle === "none") window.unmarked.push(target.outerHTML.slice(0, 80));
    });
    return shown.length;
}"""


def pages_of(office: Office) -> dict[str, str]:
    """A path for every page, and what a reader must find there."""
    return {
        "/runs": "Runs",
        "/runs?workflow=nowhere": "No run matches",
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
        "/definitions/claims.settle": "What changed since version 1",
        "/templates": "claims",
        "/templates/claims": "It can be started",
        "/schedules": "tidy-up",
        "/schedules/tidy-up": "What became of the last ones",
        "/webhooks": "Who tells us",
        "/webhooks/in/orders": "It takes deliveries",
        "/webhooks/out/ops": "next try",
        "/machines": "1 cell is parked",
        "/cells?machine=parcel": "the depot",
        "/cells/parcel/P-8": "a scanner told no place",
        "/workers": "worker is running",
        "/people": "What each level may do",
        "/people/you": "Effective permissions",
        "/me/tokens": "no token stands for you",
        "/tenants": "Workspaces of default",
    }


def test_no_page_is_forgotten_here(office: Office) -> None:
    """Each page of the console's table is one of those that these tests open."""
    opened = [path.partition("?")[0] for path in pages_of(office)]
    for page in PAGES:
        if page.template:  # the others are pictures on pages
            pattern = re.sub(r"\{\w+\}", "[^/]+", page.path)
            assert any(re.fullmatch(pattern, path) for path in opened), page.path


def test_every_page_is_read_without_a_script(new_page: NewPage, office: Office) -> None:
    """What a page says is in what the server sends: a heading, and the answer that a reader looks for."""
    page = new_page(java_script_enabled=False)
    for path, words in pages_of(office).items():
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == 200, path
        expect(page.locator("h1")).to_have_count(1)
        expect(page.locator("main")).to_contain_text(words)


def test_every_page_is_used_by_keyboard_fits_a_phone_and_asks_nobody_else(new_page: NewPage, office: Office) -> None:
    """Tab reaches everything that can be pressed or filled in, and marks where it is; j chooses the first row. On a
    narrow screen nothing but tables and pictures is wider than the screen. Nothing inline is run, nothing is loaded
    from elsewhere."""
    page = new_page()
    asked: set[str] = set()
    page.on("request", lambda request: asked.add(request.url.split("/")[2]))
    for path in [*pages_of(office)][:: volume(4, 1)]:
        page.set_viewport_size({"width": 1180, "height": 740})
        answer = page.goto(path)
        assert answer is not None
        _check_policy(page, answer.headers["content-security-policy"])
        _tab_through(page, path)
        page.set_viewport_size({"width": 375, "height": 740})
        page.evaluate(UNFOLD)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 376, path
    assert asked == {office.address.removeprefix("http://")}


def _check_policy(page: Page, policy: str) -> None:
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.locator("[style], style, script:not([src]), [onclick]").count() == 0


def _tab_through(page: Page, path: str) -> None:
    count = page.evaluate(FOCUSABLE)
    for _ in range(count):
        page.keyboard.press("Tab")
    assert page.evaluate("() => window.reached.size") == count, path
    assert page.evaluate("() => window.unmarked") == [], path
    if page.locator("[data-row]").count():
        page.evaluate("() => document.activeElement.blur()")
        page.keyboard.press("j")
        expect(page.locator("[data-row].at")).to_have_count(1)


def test_g_and_a_letter_lead_to_each_page(new_page: NewPage) -> None:
    """Every entry of the navigation has its key."""
    page = new_page()
    page.goto("/runs")
    for entry in NAVIGATION:
        page.wait_for_load_state("load")  # its script listens then
        page.keyboard.press("g")
        page.keyboard.press(entry.key)
        expect(page.locator("nav[aria-label=Pages] [aria-current]")).to_have_text(re.compile(entry.word))


@pytest.mark.parametrize("scheme", one_stays(["dark", "light"]))
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


PLANS = {
    "/runs/order-502": ("retry", {}, "Nothing has happened yet"),
    "/schedules/tidy-up": (
        "backfill",
        {"since": "2026-01-05T00:00", "until": "2026-01-06T23:00"},
        "Nothing has happened yet",
    ),
    "/definitions/claims.settle": ("migrate", {}, "to version 2?"),
    "/people/you": ("tokens", {"purpose": "a test"}, "It is shown only now"),
    "/audit": ("verify", {"head": ""}, "Nothing is broken"),
}
"""What a form shows instead of leading elsewhere: the page it is on, the form, what is typed, and what is shown."""


@pytest.mark.long
def test_what_forms_show_keeps_nobody_out(new_page: NewPage, office: Office) -> None:
    """Plans, verdicts, tokens and comparisons are sent by the keyboard, open without an error; axe finds nothing."""
    page = new_page(bypass_csp=True)
    page.add_init_script("localStorage.setItem('holdfast-live', 'no')")  # an update would fold what is unfolded here
    plans = {**PLANS, f"/tasks/{office.task_of('limit-falk')}": ("present", {}, "Now, and after it")}
    for path, (name, typed, words) in plans.items():
        open_all(page, path)
        form = page.locator(f"form[action*='/{name}']").last
        for field, value in typed.items():
            form.locator(f"[name={field}]").fill(value)
        if form.locator("[name=reason]").count():
            form.locator("[name=reason]").fill("a test")
        form.locator("button").focus()
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_contain_text(words)
        page.evaluate(AXE)
        assert page.evaluate(RULES) == [], path


def test_the_pictures_in_the_documentation_show_these_pages(new_page: NewPage, office: Office) -> None:
    """Headings, labels and buttons are those of the pictures. Where a page was changed: ``make screenshots``."""
    pictured = json.loads(LABELS.read_text())
    assert pictured.keys() == pictures_of(office).keys()
    page = new_page()
    for name, (path, _) in pictures_of(office).items():
        assert (DOCS / f"{name}.png").exists()
        page.goto(path)
        assert labels_of(page) == pictured[name], name
