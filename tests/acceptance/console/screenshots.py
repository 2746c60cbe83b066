"""The pictures of the console in the documentation: ``make screenshots`` takes them of the tests' own office.

Beside them it writes what each page has for headings, labels and buttons. A test compares that with the page as it is.
"""

from __future__ import annotations

import json
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.acceptance.console.office import Office, served_office
from tests.browser import ARGUMENTS, chromium

DOCS = Path(__file__).parents[3] / "docs"
LABELS = Path(__file__).with_name("pictures.json")
READ = r"""() => [...document.querySelectorAll("h1, h2, h3, th, dt, button, summary, nav[aria-label=Pages] a")]
    .filter(each => each.checkVisibility())
    .map(each => each.innerText.replace(/[\d,]+/g, "").replace(/\s+/g, " ").trim())
    .filter(each => each)"""
SIZE = {"width": 1180, "height": 720}


def pictures_of(office: Office) -> dict[str, tuple[str, str]]:
    """For each picture: the page, and light or dark."""
    return {
        "console-runs": ("/runs", "light"),
        "console-run": ("/runs/renewal-halden", "light"),
        "console-approval": (f"/tasks/{office.task_of('invoice-1002')}", "light"),
        "console-dark": ("/runs/invoice-1002", "dark"),
    }


def take(folder: Path) -> list[Path]:
    """Take all pictures into a folder."""
    taken = []
    labels: dict[str, list[str]] = {}
    with served_office() as office, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        for name, (path, scheme) in pictures_of(office).items():
            context = browser.new_context(base_url=office.address, viewport=SIZE, color_scheme=scheme)  # type: ignore[arg-type]
            context.request.get(office.link)
            page = context.new_page()
            page.goto(path, wait_until="load")
            page.locator("h1").wait_for()
            taken.append(folder / f"{name}.png")
            page.screenshot(path=taken[-1])
            labels[name] = labels_of(page)
            context.close()
        browser.close()
    LABELS.write_text(json.dumps(labels, indent=1, ensure_ascii=False) + "\n")
    return taken


def labels_of(page: Page) -> list[str]:
    """The headings, labels and buttons that are to be seen on a page, each once, without numbers."""
    found: list[str] = page.evaluate(READ)
    return sorted(set(found))


if __name__ == "__main__":
    for each in take(DOCS):
        print(each)
