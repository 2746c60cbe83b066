"""All routes of the API, in the order of the documentation."""

from __future__ import annotations

from typing import Final

from holdfast.server.route import Route
from holdfast.server.routes import (
    audit,
    bulk,
    definitions,
    events,
    history,
    installation,
    machines,
    people,
    receipts,
    runs,
    schedules,
    slack,
    subscriptions,
    tasks,
    templates,
    webhooks,
)

SUBJECTS: Final = {
    "runs": "Runs",
    "history": "What a run did",
    "bulk": "Many runs at once",
    "tasks": "Tasks",
    "definitions": "Definitions",
    "templates": "Templates, instances and events",
    "machines": "Machines and cells",
    "schedules": "Schedules",
    "webhooks": "Webhooks",
    "subscriptions": "Subscriptions",
    "receipts": "Receipts",
    "audit": "Audit and keys",
    "people": "Users, tokens and workspaces",
    "slack": "Slack",
    "installation": "The installation",
    "events": "Streams of events",
}
"""The modules of routes and their headings."""

ROUTES: Final[tuple[Route, ...]] = (
    *runs.ROUTES,
    *history.ROUTES,
    *bulk.ROUTES,
    *tasks.ROUTES,
    *definitions.ROUTES,
    *templates.ROUTES,
    *machines.ROUTES,
    *schedules.ROUTES,
    *webhooks.ROUTES,
    *subscriptions.ROUTES,
    *receipts.ROUTES,
    *audit.ROUTES,
    *people.ROUTES,
    *slack.ROUTES,
    *installation.ROUTES,
    *events.ROUTES,
)
