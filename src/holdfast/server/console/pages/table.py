"""All pages and forms of the console, and the ones that the navigation names."""

from __future__ import annotations

from typing import Final, NamedTuple

from holdfast.server.console.page import ConsoleForm, ConsolePage
from holdfast.server.console.pages import (
    audit,
    definitions,
    machines,
    my_tokens,
    people,
    receipts,
    run,
    run_forms,
    runs,
    schedules,
    start,
    tasks,
    templates,
    tenants,
    webhooks,
    workers,
)


class NavigationEntry(NamedTuple):
    """An entry of the navigation: its word, the first part of its path, its key after ``g``, and what it needs."""

    word: str
    place: str
    key: str
    operation: str


NAVIGATION: Final = (
    NavigationEntry("Runs", "runs", "r", "runs.see"),
    NavigationEntry("Tasks", "tasks", "t", "tasks.see"),
    NavigationEntry("Receipts", "receipts", "c", "receipts.see"),
    NavigationEntry("Audit", "audit", "a", "audit.see"),
    NavigationEntry("Definitions", "definitions", "d", "definitions.see"),
    NavigationEntry("Templates", "templates", "m", "templates.see"),
    NavigationEntry("Machines", "machines", "e", "machines.see"),
    NavigationEntry("Schedules", "schedules", "s", "schedules.see"),
    NavigationEntry("Webhooks", "webhooks", "h", "webhooks.see"),
    NavigationEntry("Workers", "workers", "w", "workers.see"),
    NavigationEntry("People", "people", "p", "users.see"),
    NavigationEntry("Tenants", "tenants", "n", "tenants.see"),
)

PAGES: Final[tuple[ConsolePage, ...]] = (
    *runs.PAGES,
    *run.PAGES,
    *start.PAGES,
    *tasks.PAGES,
    *receipts.PAGES,
    *audit.PAGES,
    *definitions.PAGES,
    *templates.PAGES,
    *machines.PAGES,
    *schedules.PAGES,
    *webhooks.PAGES,
    *workers.PAGES,
    *people.PAGES,
    *my_tokens.PAGES,
    *tenants.PAGES,
)
FORMS: Final[tuple[ConsoleForm, ...]] = (
    *runs.FORMS,
    *run_forms.FORMS,
    *start.FORMS,
    *tasks.FORMS,
    *receipts.FORMS,
    *audit.FORMS,
    *definitions.FORMS,
    *templates.FORMS,
    *machines.FORMS,
    *schedules.FORMS,
    *webhooks.FORMS,
    *people.FORMS,
    *my_tokens.FORMS,
    *tenants.FORMS,
)
