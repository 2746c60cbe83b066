"""Machines: their cells by status, why a cell does not move, what it did, and what people do about it."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from starlette.datastructures import FormData

from holdfast.cells.cell import STATUSES
from holdfast.client.views.cells import CellInfo, plain_data, shown_key
from holdfast.client.views.cursors import Page
from holdfast.server.call import RouteCall
from holdfast.server.console.page import ConsoleForm, ConsolePage, Context, Done
from holdfast.server.console.typed import reason_of, text_of
from holdfast.server.routes.machines import CellListQuery, cell_of, conditions_of, view_of

SHOWN: Final = 50
TRACED: Final = 200


async def load(call: RouteCall[Any, None]) -> Context:
    machines = call.client.machines
    letters = await machines.dead_letters_page(limit=SHOWN, tenant=call.tenant)
    found = [each async for each in machines.list(tenant=call.tenant)]
    return {
        "machines": found,
        "parked": sum(each.cells.get("parked", 0) for each in found),
        "letters": letters.items,
        "more_letters": letters.next is not None,
    }


async def load_cells(call: RouteCall[CellListQuery, None]) -> Context:
    query = call.query
    page: Page[CellInfo[Any]] = await call.client.machines.cells_page(
        query.machine,
        limit=min(query.limit, SHOWN),
        after=query.after,
        tenant=call.tenant,
        status=query.status,
        state=conditions_of(query.where),
        active_since=query.active_since,
    )
    pairs = [("machine", query.machine), *(("where", each) for each in query.where)]
    return {
        "machine": await call.client.machines.show(query.machine, tenant=call.tenant),
        "cells": [(path_key(each), view_of(each)) for each in page.items],
        "next": None if page.next is None else urlencode([*_pairs(query, pairs), ("after", page.next)]),
        "first": urlencode(_pairs(query, pairs)),
        "is_first": query.after is None,
        "status": query.status,
        "statuses": STATUSES,
        "filter": urlencode(pairs),
        "where": query.where,
    }


def _pairs(query: CellListQuery, pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return pairs if query.status is None else [*pairs, ("status", query.status)]


def path_key(info: CellInfo[Any]) -> str:
    """The key of a cell in a path."""
    return "-" if info.key is None else shown_key(plain_data(info.key))


async def load_cell(call: RouteCall[Any, None]) -> Context:
    cell = cell_of(call)
    info = await cell.show()
    trace = await cell.trace(limit=TRACED)
    return {
        "cell": view_of(info),
        "key": path_key(info),
        "causes": (await cell.diagnose()).causes,
        "items": list(reversed(trace.items)),
        "is_whole": trace.first == 0 and len(trace.items) < TRACED,
    }


async def release(call: RouteCall[Any, None], typed: FormData) -> Done:
    drop = typed.get("drop") == "yes"
    await cell_of(call).release(drop=drop, by=call.by, reason=reason_of(typed))
    words = "It goes on, without the event that parked it." if drop else "It goes on with what was held for it."
    return Done(path=("cells", call.path["machine"], call.path["key"]), words=words)


async def redeliver(call: RouteCall[Any, None], typed: FormData) -> Done:
    letter = text_of(typed, "letter")
    await call.client.machines.redeliver(letter, tenant=call.tenant, by=call.by, reason=reason_of(typed))
    return Done(path=("machines",), words="It is delivered again.")


MACHINES = ConsolePage(
    path="/machines",
    operation="machines.see",
    words="Machines with their cells, and the events that no cell could handle.",
    load=load,
    template="machines.html",
    data="/v1/machines",
)
CELLS = ConsolePage(
    path="/cells",
    operation="machines.see",
    words="The cells of a machine.",
    load=load_cells,
    template="cells.html",
    data="/v1/cells",
    query=CellListQuery,
)
CELL = ConsolePage(
    path="/cells/{machine}/{key}",
    operation="machines.see",
    words="A cell: why it does not move, its state, and what it did.",
    load=load_cell,
    template="cell.html",
    data="/v1/cells/{machine}/{key}",
)

PAGES = (MACHINES, CELLS, CELL)
FORMS = (
    ConsoleForm(
        path="/cells/{machine}/{key}/release",
        operation="machines.release",
        words="Let a parked cell go on.",
        act=release,
        page=CELL,
    ),
    ConsoleForm(
        path="/machines/redeliver",
        operation="machines.redeliver",
        words="Deliver a dead letter again.",
        act=redeliver,
        page=MACHINES,
    ),
)
