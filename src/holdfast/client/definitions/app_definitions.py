"""``app.definitions``: the definitions that this engine can start runs of."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from holdfast.client.definitions.compilation import read_serverless
from holdfast.client.definitions.moves import Mover
from holdfast.client.definitions.publisher import Publisher
from holdfast.client.definitions.readers import caller_key, reads_apart
from holdfast.client.definitions.workflows import taken
from holdfast.client.people.permission import operation
from holdfast.client.views.definitions import DefinitionInfo, ImportedDefinition, definition_info
from holdfast.client.views.moves import MoveInfo
from holdfast.errors import DuplicateName, InvalidArguments, InvalidDefinition, InvalidRequest, WorkflowUnknown
from holdfast.programs.definition.compiler.batch import DefinitionSource, RejectedSource, compile_batch, read_drafts
from holdfast.programs.definition.interpreter.routine import Routine
from holdfast.programs.definition.kind import Definitions, code_of, pin_of
from holdfast.programs.definition.model import Accepted, Definition
from holdfast.programs.definition.schema_values import start_problems
from holdfast.programs.definition.sketch import Sketch
from holdfast.programs.definition.versions import latest, parse_reference
from holdfast.programs.definition.walks import in_authors_order
from holdfast.programs.function.values import encode
from holdfast.runs.birth import Pin, check_id
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast
    from holdfast.journal.payload import Payload

log = logging.getLogger("holdfast.definitions")

DefinitionsMode = Literal["strict", "warn"]


class EngineWorkflows:
    """What definitions run: other definitions of the engine, and its workflow functions."""

    def __init__(self, kind: Definitions, functions: Mapping[str, Any]) -> None:
        self._kind = kind
        self._functions = functions

    def definition(self, reference: str) -> Accepted | None:
        return self._kind.find(reference)

    def function_names(self) -> Collection[str]:
        return self._functions.keys()

    def definition_names(self) -> Collection[str]:
        return {each.definition.name for each in self._kind}


class AppDefinitions:
    """The definitions of one engine: those that it was given, and those that its store has."""

    def __init__(
        self,
        app: Holdfast,
        kind: Definitions,
        sources: Iterable[DefinitionSource] | DefinitionSource = (),
        mode: DefinitionsMode = "strict",
    ) -> None:
        self._app = app
        self._publisher = Publisher(app)
        self._sources = (
            (sources,) if isinstance(sources, str | Path | Mapping | Definition | Sketch) else tuple(sources)
        )
        self._mode = mode
        self._compared: set[tuple[str, str]] = set()
        self._differing: dict[tuple[str, str], RejectedSource] = {}
        self.kind = kind
        self._mover = Mover(app, kind)
        self.tools = kind.tools

    def shared_with(self, app: Holdfast) -> AppDefinitions:
        """These, for another engine."""
        return AppDefinitions(app, self.kind, self._sources, self._mode)

    def bound_to(self, app: Holdfast) -> AppDefinitions:
        """These, for a client that acts for a user: it shares what is known, and judges who asks."""
        found = AppDefinitions(app, self.kind, mode=self._mode)
        found._publisher = self._publisher.bound_to(app)
        found._compared, found._differing = self._compared, self._differing
        return found

    # -- those that the engine is given --------------------------------------------------------------------------------

    def accept_sources(self) -> None:
        """Accept what the engine was made with, once; called when it opens.

        In the mode ``strict`` it raises InvalidDefinition with all faults of all of them. In the mode ``warn`` those
        that cannot be accepted are logged and unavailable: starting one says why.
        """
        if not self._sources:
            return
        drafts, unread = read_drafts(self._sources)
        batch = compile_batch(drafts, self.tools, self._workflows(), self._accept)
        batch.rejected[:0] = unread
        if self._mode == "strict":
            batch.refuse()
        for each in batch.rejected:
            log.warning("a definition is unavailable: %s", each)
        self.kind.unavailable.extend(batch.rejected)
        self._sources = ()

    @operation("definitions.add")
    def give(self, sources: Iterable[DefinitionSource], mode: DefinitionsMode | None = None) -> None:
        """Have the engine accept these, too, when it opens, and all of them in this mode: without one in its own."""
        self._sources, self._mode = (*self._sources, *sources), mode or self._mode

    @property
    def unavailable(self) -> tuple[RejectedSource, ...]:
        """The definitions that the engine was given and could not accept, each with its error; and those that are
        published with other content, once a start has shown that."""
        tenant = self._app.tenant_of(None)
        return (*self.kind.unavailable, *(each for (its, _), each in self._differing.items() if its == tenant))

    @operation("definitions.add")
    def add(self, source: DefinitionSource) -> Accepted:
        """Accept a definition: a file, the text of one, a document, or what the DSL gives.

        Raises InvalidDefinition with all that is wrong, and DuplicateName where its name and version mean another, or
        its name a workflow function of this engine.
        """
        _check_no_folder(source)
        drafts, unread = read_drafts([source])
        batch = compile_batch(drafts, self.tools, self._workflows(), self._accept)
        batch.rejected.extend(unread)
        batch.refuse()
        return batch.accepted[0]

    def _workflows(self) -> EngineWorkflows:
        return EngineWorkflows(self.kind, self._app.workflows)

    def _accept(self, accepted: Accepted) -> None:
        self.check_name(accepted.definition.name)
        self.kind.add(accepted)

    def check_name(self, name: str) -> None:
        """Raises DuplicateName where a function of this engine has that name."""
        function = self._app.workflows.get(name)
        if function is not None:
            raise DuplicateName(
                f"this engine serves a workflow function called {name!r} ({function.module}.{function.qualname}), so "
                "a start by that name would be ambiguous: give the definition or the function another name."
            )

    def get(self, reference: str) -> Accepted | None:
        """The definition of this engine that ``name``, ``name@3`` or ``name@^2`` means; None where there is none.

        Raises DuplicateName where a function of that name was registered after the definition, and InvalidDefinition
        where the one that is meant could not be accepted.
        """
        found = self.kind.find(reference)
        self._check_available(reference, found)
        if found is not None:
            self.check_name(found.definition.name)
        return found

    def _check_available(self, reference: str, found: Accepted | None) -> None:
        if not self.kind.unavailable:
            return
        name, wanted = parse_reference(reference)
        present = 0 if found is None else found.definition.version
        for each in self.kind.unavailable:
            if each.name == name and (
                each.version is None or (each.version > present and latest([each.version], wanted))
            ):
                raise InvalidDefinition(f"{reference} is not available here, because it is invalid:\n{each}")

    def __iter__(self) -> Iterator[Accepted]:
        """Those that a run can be started of, as far as that is known."""
        functions, tenant = self._app.workflows, self._app.tenant_of(None)
        for each in self.kind:
            if each.definition.name not in functions and (tenant, each.digest) not in self._differing:
                yield each

    def __contains__(self, name: object) -> bool:
        return any(each.definition.name == name for each in self.kind)

    # -- those that the store has --------------------------------------------------------------------------------------

    @operation("definitions.publish")
    async def publish(
        self,
        source: DefinitionSource,
        *,
        tenant: str | None = None,
        by: str | None = None,
        check_uses: bool = True,
    ) -> DefinitionInfo:
        """Publish a definition: keep it in the store under its name and version, for every process and for good.

        What it runs must be published before. The audit records who publishes it, in the same commit; publishing the
        same again changes nothing. Without ``check_uses`` it is not looked whether this process has the steps, actions,
        transports and functions that it calls. Raises as ``add`` does, and DuplicateName where the name and version are
        published with other content.

        What a client that acts for a user gives, and everything where a server serves this engine, is compiled in
        another process: it raises TooCostly where that takes 2 s of processor time or 1,024 MiB, and TooManyRequests
        where too many others wait.
        """
        _check_no_folder(source)
        return (await self.publish_all([source], tenant=tenant, by=by, check_uses=check_uses))[0]

    @operation("definitions.publish")
    async def publish_all(
        self,
        sources: Iterable[DefinitionSource],
        *,
        tenant: str | None = None,
        by: str | None = None,
        check_uses: bool = True,
    ) -> Sequence[DefinitionInfo]:
        """Publish several definitions, which may run each other. None is published where one cannot be."""
        self._app.check_open()
        tenant = check_id(self._app.tenant_of(tenant), "the tenant")
        return await self._publisher.publish(sources, tenant, by, check_uses=check_uses)

    @operation("definitions.check")
    async def compile(
        self, source: DefinitionSource, *, tenant: str | None = None, check_uses: bool = True
    ) -> Accepted:
        """The definition as it would be published; nothing is changed. Raises as ``publish`` does."""
        _check_no_folder(source)
        (found,) = await self._publisher.compile([source], self._app.tenant_of(tenant), check_uses=check_uses)
        return found

    @operation("definitions.import")
    async def import_serverless(self, text: str, *, tenant: str | None = None) -> ImportedDefinition:
        """A document of CNCF Serverless Workflow as a definition; nothing is changed. Raises InvalidDefinition with all
        that is not supported; TooCostly and TooManyRequests as ``publish`` does."""
        self._app.check_open()
        self._app.tenant_of(tenant)
        if not reads_apart(self._app):
            return read_serverless(text)
        question = msgspec.msgpack.encode(text)
        answer, _ = await self._app.readers.work(caller_key(self._app), "import", question)
        return msgspec.msgpack.decode(answer, type=ImportedDefinition)

    @operation("definitions.see")
    async def list(self, *, tenant: str | None = None, name: str | None = None) -> AsyncIterator[DefinitionInfo]:
        """The published definitions, by name and version."""
        async for info in self._publisher.infos(self._app.tenant_of(tenant), name):
            yield info

    @operation("definitions.see")
    async def load(self, reference: str, *, tenant: str | None = None) -> Accepted | None:
        """The published definition that ``name``, ``name@3`` or ``name@^2`` means; None where there is none."""
        row = await self._publisher.find(reference, self._app.tenant_of(tenant))
        return None if row is None else await self._publisher.accepted(row)

    @operation("definitions.see")
    async def info(self, reference: str, *, tenant: str | None = None) -> DefinitionInfo | None:
        """The same as a view."""
        row = await self._publisher.find(reference, self._app.tenant_of(tenant))
        return None if row is None else definition_info(row, await self._publisher.accepted(row))

    async def as_written(self, routine: Routine, tenant: str) -> Definition:
        """The definition of a run in its author's order, where this process or the store has it."""
        definition, digest = routine.definition, routine.digest
        reference = f"{definition.name}@{definition.version}"
        row = await self._publisher.find(reference, tenant)
        found = self.kind.find(reference) if row is None else await self._publisher.accepted(row)
        return definition if found is None or found.digest != digest else in_authors_order(definition, found.order)

    # -- moving --------------------------------------------------------------------------------------------------------

    @operation("definitions.see")
    async def plan_moves(
        self,
        to: Accepted,
        *,
        tenant: str | None = None,
        runs: Collection[str] | None = None,
        before: Accepted | None = None,
    ) -> Sequence[MoveInfo]:
        """Whether the live runs of a definition, or these, could move to another version of it; nothing is changed.

        With ``before`` only those that have that version are looked at. Raises InvalidRequest or RunEnded where a run
        that was named is none of it or has ended.
        """
        tenant = self._app.tenant_of(tenant)
        return await self._mover.plans(to, tenant, runs, only=None if before is None else before.digest)

    @operation("definitions.move")
    async def migrate(
        self,
        to: Accepted,
        *,
        tenant: str | None = None,
        runs: Collection[str] | None = None,
        by: str | None = None,
        reason: str = "",
    ) -> Sequence[MoveInfo]:
        """Ask the live runs of a definition, or these, to move to another version of it.

        Those that cannot move are left as they are; their ``reasons`` say why. So are those that end meanwhile. A run
        moves when a worker takes it up.
        """
        moves = await self._mover.plans(to, self._app.tenant_of(tenant), runs)
        return [move if move.verdict == "blocked" else await self._mover.ask(to, move, by, reason) for move in moves]

    # -- starting ------------------------------------------------------------------------------------------------------

    async def to_start(self, reference: str, tenant: str) -> Startable | None:
        """The definition that a run is started of: one of this engine, else one of the store. None means a function:
        one that this engine serves, or no definition has the name. One that is only imported takes no definition's
        name.

        Raises WorkflowUnknown where a version is named that is not there, and DuplicateName where a definition of this
        engine is published with other content.
        """
        if reference in self._app.workflows and reference not in self:
            return None
        found = self.get(reference)
        if found is not None:
            await self._compare(found, tenant)
            return Startable(found, is_kept=False)
        kept = await self.load(reference, tenant=tenant)
        if kept is None and "@" in reference:
            raise WorkflowUnknown(
                f"there is no definition {reference!r} here, and none is published in tenant {tenant!r}: "
                "`holdfast def list` shows what is."
            )
        return None if kept is None else Startable(kept, is_kept=True)

    async def _compare(self, found: Accepted, tenant: str) -> None:
        """Once for each definition: what is published never means anything else."""
        if (tenant, found.digest) in self._compared:
            return
        row = await self._publisher.find(f"{found.definition.name}@{found.definition.version}", tenant)
        if row is not None and row.digest.hex() != found.digest:
            error, definition = taken(found, row.digest.hex()), found.definition
            self._differing[tenant, found.digest] = RejectedSource("", definition.name, definition.version, error)
            raise error
        self._compared.add((tenant, found.digest))

    def start_of(
        self, startable: Startable, tenant: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> DefinitionStart:
        """What a new run of a definition is made of. Raises InvalidArguments where the start payload does not fit."""
        found = startable.accepted
        if len(args) > 1 or (args and kwargs):
            raise InvalidArguments(f"{found.definition.name} is started with one value, or with named ones")
        start = args[0] if args else kwargs
        if wrong := start_problems(found.definition.start, start):
            text = "; ".join(f"{place or '/'}: {problem}" for place, problem in wrong)
            raise InvalidArguments(f"{found.definition.name} cannot be started with this: {text}")
        code = [code_of(each) for each in ([found] if startable.is_kept else self.kind.reachable(found))]
        self._app.catalogue.learn(tenant, code)
        payload = encode([[start], {}], f"the start of {found.definition.name}")
        keep = () if startable.is_kept else tuple(p.KeepCode(tenant, each) for each in code)
        return DefinitionStart(found.definition.name, pin_of(found), payload, keep)


def _check_no_folder(source: DefinitionSource) -> None:
    if isinstance(source, Path) and source.is_dir():
        raise InvalidRequest(f"{source} is a folder: give its files one by one, or Holdfast(…, definitions=[it]).")


class Startable(NamedTuple):
    """A definition of which runs can be started, and whether the store has its code already."""

    accepted: Accepted
    is_kept: bool


class DefinitionStart(NamedTuple):
    """A start of a definition: the run's name, its pin and input, and the changes that keep the code."""

    name: str
    pin: Pin
    payload: Payload
    keep: tuple[p.KeepCode, ...]
