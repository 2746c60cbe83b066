"""Definitions: workflows as data, published by name and version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from holdfast.client.definitions.drawn import TextForm, definition_text, drawn
from holdfast.client.views.definitions import DefinitionInfo, ImportedDefinition
from holdfast.client.views.moves import MoveInfo
from holdfast.errors import InvalidDefinition, InvalidRequest, MalformedRequest, WorkflowUnknown
from holdfast.programs.definition.compiler.batch import DefinitionSource
from holdfast.programs.definition.compiler.compiler import as_written
from holdfast.programs.definition.compiler.document import write_document
from holdfast.programs.definition.compiler.schema import definition_schema
from holdfast.programs.definition.interpreter.routine import functions_of
from holdfast.programs.definition.migration.differences import Difference, differences
from holdfast.programs.definition.model import Accepted
from holdfast.server.call import FileAnswer, RouteCall
from holdfast.server.fields import Name, Reason
from holdfast.server.pictures import MEDIA, PictureQuery, file_of
from holdfast.server.problems import RequestFault, problem_of
from holdfast.server.route import Nothing, Route

Version = Annotated[str, msgspec.Meta(max_length=40, description="`3`, or a range such as `^2`; else the newest.")]
TEXT_MEDIA: dict[TextForm, str] = {
    "yaml": "application/yaml",
    "json": "application/json",
    "python": "text/x-python",
    "serverless": "application/yaml",
}


class DefinitionQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which definitions."""

    name: Name | None = None


class VersionQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which version."""

    version: Version = ""


class DefinitionBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A definition: its `text` in YAML or JSON, or its `document`. Without `check_uses` it is not looked whether the
    server has the steps, actions and functions that it calls."""

    text: str | None = None
    document: dict[str, Any] | None = None
    check_uses: bool = True


class PublishBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Definitions to publish together: they may run each other, and none is published where one is invalid."""

    texts: list[str] = []
    documents: list[dict[str, Any]] = []
    check_uses: bool = True


class CheckedDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a definition is in order; else all that is wrong with it."""

    valid: bool
    name: str | None = None
    version: int | None = None
    digest: str | None = None
    problems: list[RequestFault] = []


class DefinitionDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A published definition, the functions that its expressions call, and its canonical form."""

    info: DefinitionInfo
    functions: tuple[str, ...]
    document: dict[str, Any]


class DefinitionPictureQuery(PictureQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How it is drawn, and which version."""

    version: Version = ""


class TextQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """In which form, and which version."""

    form: TextForm = "yaml"
    version: Version = ""


class DiffQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Two versions. With `runs` it is said of each live run of the older whether it could move."""

    old: Version
    new: Version = ""
    runs: bool = False


class DefinitionDiff(msgspec.Struct, frozen=True, kw_only=True):
    """What the newer version has that the older has not."""

    name: str
    old: int
    new: int
    differences: list[Difference]
    runs: Sequence[MoveInfo]


class MigrateBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """To which version live runs move: those that are named, else all of the definition."""

    version: Version = ""
    runs: Annotated[list[str], msgspec.Meta(max_length=1000)] | None = None
    dry_run: bool = False
    reason: Reason = ""


class ImportBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A document of CNCF Serverless Workflow 1.0, in YAML or JSON."""

    text: str


async def list_definitions(call: RouteCall[DefinitionQuery, None]) -> list[DefinitionInfo]:
    found = call.client.definitions.list(tenant=call.tenant, name=call.query.name)
    return [info async for info in found]


async def publish(call: RouteCall[Nothing, PublishBody]) -> list[DefinitionInfo]:
    body = call.body
    sources: list[DefinitionSource] = [*body.texts, *body.documents]
    if not sources:
        raise MalformedRequest("nothing is to be published", [("body", "give texts, documents or both")])
    published = call.client.definitions.publish_all(sources, tenant=call.tenant, by=call.by, check_uses=body.check_uses)
    return list(await published)


async def check(call: RouteCall[Nothing, DefinitionBody]) -> CheckedDefinition:
    source, uses = _source(call.body), call.body.check_uses
    try:
        found = await call.client.definitions.compile(source, tenant=call.tenant, check_uses=uses)
    except InvalidDefinition as error:
        faults = problem_of(error, "").problems or [RequestFault(detail=str(error))]
        return CheckedDefinition(valid=False, problems=faults)
    definition = found.definition
    return CheckedDefinition(valid=True, name=definition.name, version=definition.version, digest=found.digest)


async def show(call: RouteCall[VersionQuery, None]) -> DefinitionDetails:
    found = await _published(call, call.query.version)
    info = await call.client.definitions.info(found.reference, tenant=call.tenant)
    assert info is not None
    functions = functions_of(found.definition)
    return DefinitionDetails(info=info, functions=functions, document=write_document(found.definition))


async def diagram(call: RouteCall[DefinitionPictureQuery, None]) -> FileAnswer:
    query = call.query
    found = await _published(call, query.version)
    picture = await drawn(call.client, as_written(found), direction=query.direction, deepest=query.depth)
    return await file_of(call.client, picture, query)


async def text(call: RouteCall[TextQuery, None]) -> FileAnswer:
    found = await _published(call, call.query.version)
    written = await definition_text(call.client, as_written(found), call.query.form)
    return FileAnswer(written.encode(), TEXT_MEDIA[call.query.form])


async def diff(call: RouteCall[DiffQuery, None]) -> DefinitionDiff:
    query = call.query
    old, new = await _published(call, query.old), await _published(call, query.new)
    moves: Sequence[MoveInfo] = ()
    if query.runs:
        moves = await call.client.definitions.plan_moves(new, tenant=call.tenant, before=old)
    return DefinitionDiff(
        name=new.definition.name,
        old=old.definition.version,
        new=new.definition.version,
        differences=differences(old.definition, new.definition),
        runs=moves,
    )


async def migrate(call: RouteCall[Nothing, MigrateBody]) -> list[MoveInfo]:
    body = call.body
    to, definitions = await _published(call, body.version), call.client.definitions
    if body.dry_run:
        return list(await definitions.plan_moves(to, tenant=call.tenant, runs=body.runs))
    return list(await definitions.migrate(to, tenant=call.tenant, runs=body.runs, by=call.by, reason=body.reason))


async def schema(_: RouteCall[Nothing, None]) -> dict[str, Any]:
    return definition_schema()


async def import_serverless(call: RouteCall[Nothing, ImportBody]) -> ImportedDefinition:
    return await call.client.definitions.import_serverless(call.body.text, tenant=call.tenant)


def _source(body: DefinitionBody) -> DefinitionSource:
    if (body.text is None) == (body.document is None):
        raise MalformedRequest("there is no definition", [("body", "give text or document, and not both")])
    return body.text if body.text is not None else body.document or {}


async def _published(call: RouteCall[Any, Any], version: str) -> Accepted:
    """The published definition of the path. Raises WorkflowUnknown."""
    name = call.path["name"]
    if "@" in name:
        raise InvalidRequest("a definition's name has no @: give the version as ?version=3")
    reference = f"{name}@{version}" if version else name
    found = await call.client.definitions.load(reference, tenant=call.tenant)
    if found is None:
        raise WorkflowUnknown(f"no definition {reference!r} is published: GET /v1/definitions lists what is.")
    return found


DEFINITION = "/v1/definitions/{name}"

ROUTES = (
    Route(
        method="GET",
        path="/v1/definitions",
        operation="definitions.see",
        words="List the published definitions, by name and version.",
        handler=list_definitions,
        query=DefinitionQuery,
        answer=list[DefinitionInfo],
    ),
    Route(
        method="POST",
        path="/v1/definitions",
        operation="definitions.publish",
        words="Publish definitions, each under its name and version, for good. The same again changes nothing.",
        handler=publish,
        body=PublishBody,
        answer=list[DefinitionInfo],
        status=201,
    ),
    Route(
        method="POST",
        path="/v1/checks/definition",
        operation="definitions.check",
        words="Compile a definition, and say all that is wrong with it, with line and column. Nothing is kept.",
        handler=check,
        body=DefinitionBody,
        answer=CheckedDefinition,
        only_looks=True,
    ),
    Route(
        method="POST",
        path="/v1/imports/serverless",
        operation="definitions.import",
        words="Read a CNCF Serverless Workflow document as a definition, or say all that is not supported.",
        handler=import_serverless,
        body=ImportBody,
        answer=ImportedDefinition,
        only_looks=True,
    ),
    Route(
        method="GET",
        path="/v1/schemas/definition",
        operation="definitions.see",
        words="The JSON Schema of the format of definitions, for editors.",
        handler=schema,
        answer=dict[str, Any],
    ),
    Route(
        method="GET",
        path=DEFINITION,
        operation="definitions.see",
        words="Show a published definition: what it uses, and its canonical form.",
        handler=show,
        query=VersionQuery,
        answer=DefinitionDetails,
    ),
    Route(
        method="GET",
        path=f"{DEFINITION}/diagram",
        operation="definitions.see",
        words="The picture of a published definition.",
        handler=diagram,
        query=DefinitionPictureQuery,
        media=tuple(MEDIA.values()),
    ),
    Route(
        method="GET",
        path=f"{DEFINITION}/text",
        operation="definitions.see",
        words="A published definition as text: YAML, JSON, Python or Serverless Workflow.",
        handler=text,
        query=TextQuery,
        media=tuple(dict.fromkeys(TEXT_MEDIA.values())),
    ),
    Route(
        method="GET",
        path=f"{DEFINITION}/diff",
        operation="definitions.see",
        words="What one version has that another has not, and which live runs could move.",
        handler=diff,
        query=DiffQuery,
        answer=DefinitionDiff,
    ),
    Route(
        method="POST",
        path=f"{DEFINITION}/migrate",
        operation="definitions.move",
        words="Ask live runs to move to a version; `dry_run` only says which could. Those that cannot are left alone.",
        handler=migrate,
        body=MigrateBody,
        answer=list[MoveInfo],
    ),
)
