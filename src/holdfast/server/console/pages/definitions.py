"""Definitions: their versions with the live runs on each, drawn, compared, and moved."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import msgspec
from starlette.datastructures import FormData
from starlette.responses import Response

from holdfast.client.definitions.drawn import definition_text, drawn
from holdfast.client.views.definitions import DefinitionInfo
from holdfast.errors import TooCostly, TooManyRequests, WorkflowUnknown
from holdfast.programs.definition.compiler.compiler import as_written
from holdfast.programs.definition.compiler.document import write_document
from holdfast.programs.definition.migration.differences import differences
from holdfast.programs.definition.model import Accepted
from holdfast.server.call import RouteCall
from holdfast.server.console.page import ConsoleForm, ConsolePage, Context, Done, ShownInstead
from holdfast.server.console.pictures import sentence, shown_picture
from holdfast.server.console.typed import reason_of
from holdfast.server.pictures import PictureQuery
from holdfast.server.routes.definitions import Version
from holdfast.store.protocol import ENDED

MOST_RUNS: Final = 1000


class DefinitionPageQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which version, and with which older one it is compared."""

    version: Version = ""
    old: Version = ""


class DefinitionPicture(PictureQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which version, and how it is drawn. ``whole`` draws a picture of any size."""

    version: Version
    whole: bool = False


async def load(call: RouteCall[Any, None]) -> Context:
    names: dict[str, list[DefinitionInfo]] = {}
    async for info in call.client.definitions.list(tenant=call.tenant):
        names.setdefault(info.name, []).append(info)
    unavailable = [each.brief for each in call.client.definitions.unavailable]
    newest = {name: versions[-1] for name, versions in names.items()}
    return {"definitions": newest, "versions": names, "unavailable": unavailable}


async def load_definition(call: RouteCall[DefinitionPageQuery, None]) -> Context:
    name, query, definitions = call.path["name"], call.query, call.client.definitions
    versions = [info async for info in definitions.list(tenant=call.tenant, name=name)]
    if not versions:
        raise WorkflowUnknown(f"no definition {name!r} is published here.")
    shown = next((info for info in versions if str(info.version) == query.version), versions[-1])
    found = await _published(call, shown.version)
    older = [info.version for info in versions if info.version < shown.version]
    old = int(query.old) if query.old.isdecimal() and int(query.old) in older else (older[-1] if older else None)
    return {
        "name": name,
        "info": shown,
        "versions": list(reversed(versions)),
        "live": await _live(call, found, versions),
        "older": older,
        "old": old,
        "differences": differences((await _published(call, old)).definition, found.definition) if old else [],
        "text": await _text(call, found),
    }


async def picture(call: RouteCall[DefinitionPicture, None]) -> Response:
    found = await _published(call, int(call.query.version) if call.query.version.isdecimal() else 0)
    query = call.query
    try:
        picture = await drawn(call.client, as_written(found), direction=query.direction, deepest=query.depth)
        return await shown_picture(call.client, picture, query, whole=query.whole)
    except (TooCostly, TooManyRequests) as error:
        return sentence(f"It cannot be drawn: {str(error).splitlines()[0]}")


async def _text(call: RouteCall[Any, None], found: Accepted) -> str:
    """In YAML; in JSON if that takes too long to write."""
    try:
        return await definition_text(call.client, as_written(found), "yaml")
    except (TooCostly, TooManyRequests):
        return msgspec.json.format(msgspec.json.encode(write_document(found.definition))).decode()


async def _published(call: RouteCall[Any, Any], version: int) -> Accepted:
    found = await call.client.definitions.load(f"{call.path['name']}@{version}", tenant=call.tenant)
    if found is None:
        raise WorkflowUnknown(f"version {version} of {call.path['name']} is not published here.")
    return found


async def _live(call: RouteCall[Any, None], newest: Accepted, versions: list[DefinitionInfo]) -> dict[int, int]:
    """How many live runs each version has. Those that are not on an older one are on the newest."""
    page = await call.client.page(tenant=call.tenant, workflow=call.path["name"], limit=MOST_RUNS)
    total = sum(1 for run in page.items if run.status not in ENDED)
    if total == 0 or len(versions) == 1:
        return {versions[-1].version: total}
    moves = await call.client.definitions.plan_moves(newest, tenant=call.tenant)
    counts = Counter(move.before for move in moves)
    rest = total - sum(counts.values())
    return {**counts, newest.definition.version: counts.get(newest.definition.version, 0) + max(0, rest)}


async def migrate(call: RouteCall[Any, None], typed: FormData) -> Done | ShownInstead:
    reason, version = reason_of(typed), str(typed.get("version", ""))
    to = await _published(call, int(version) if version.isdecimal() else 0)
    definitions = call.client.definitions
    if typed.get("confirmed") != "yes":
        moves = await definitions.plan_moves(to, tenant=call.tenant)
        context = {"name": call.path["name"], "version": version, "moves": moves, "reason": reason}
        return ShownInstead(template="migrate.html", context=context)
    moves = await definitions.migrate(to, tenant=call.tenant, by=call.by, reason=reason)
    asked = sum(1 for move in moves if move.asked)
    words = f"{asked} runs were asked to move to version {version}; {len(moves) - asked} stay."
    return Done(path=("definitions", call.path["name"]), words=words)


DEFINITION = ConsolePage(
    path="/definitions/{name}",
    operation="definitions.see",
    words="A definition: its versions, its picture, what changed, and moving runs.",
    load=load_definition,
    template="definition.html",
    data="/v1/definitions/{name}",
    query=DefinitionPageQuery,
)

PAGES = (
    ConsolePage(
        path="/definitions",
        operation="definitions.see",
        words="The published definitions.",
        load=load,
        template="definitions.html",
        data="/v1/definitions",
    ),
    DEFINITION,
    ConsolePage(
        path="/definitions/{name}/diagram",
        operation="definitions.see",
        words="A definition as a picture.",
        load=picture,
        template="",
        data="/v1/definitions/{name}/diagram",
        query=DefinitionPicture,
    ),
)
FORMS = (
    ConsoleForm(
        path="/definitions/{name}/migrate",
        operation="definitions.move",
        words="Move live runs to a version, after a dry run.",
        act=migrate,
        page=DEFINITION,
    ),
)
