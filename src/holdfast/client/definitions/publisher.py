"""The definitions that the store has: published, found, and made ready to be started."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.client.definitions.compilation import CompileAnswer, Compiled, CompileQuestion, accepted_of, encoded
from holdfast.client.definitions.readers import caller_key, reads_apart
from holdfast.client.definitions.workflows import AnyName, PublishedName, PublishedWorkflows, taken
from holdfast.client.operators import operator_note
from holdfast.client.people.permission import require_later
from holdfast.client.views.definitions import DefinitionInfo, definition_info
from holdfast.errors import EngineError, InvalidDefinition, StoreCorrupt
from holdfast.programs.definition.compiler.batch import (
    Batch,
    RejectedSource,
    SourceData,
    compile_batch,
    drafts_of,
    read_sources,
)
from holdfast.programs.definition.compiler.compiler import load
from holdfast.programs.definition.described_tools import describe
from holdfast.programs.definition.kind import code_of
from holdfast.programs.definition.model import Accepted
from holdfast.programs.definition.versions import latest, parse_reference
from holdfast.runs.published import published
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast
    from holdfast.programs.definition.compiler.batch import DefinitionSource

CACHED: Final = 256
"""How many published definitions are kept in memory."""
QUICK_BYTES: Final = 32 * 1024
"""Definitions of this size, in canonical bytes, are read in a few milliseconds."""


class Publisher:
    """The published definitions of one engine's store."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app
        self._kept: OrderedDict[tuple[str, bytes], Accepted] = OrderedDict()

    def bound_to(self, app: Holdfast) -> Publisher:
        """The same for another client of the engine; what was read is known by tenant."""
        found = Publisher(app)
        found._kept = self._kept
        return found

    # -- finding -------------------------------------------------------------------------------------------------------

    def rows(self, tenant: str, name: str | None = None) -> AsyncIterator[p.DefinitionRow]:
        """The published definitions, by name and version."""
        return published(self._app.store, tenant, name)

    async def infos(self, tenant: str, name: str | None = None) -> AsyncIterator[DefinitionInfo]:
        """The published definitions as views, by name and version."""
        async for row in self.rows(tenant, name):
            yield definition_info(row, await self.accepted(row))

    async def find(self, reference: str, tenant: str) -> p.DefinitionRow | None:
        """The newest published definition that ``name``, ``name@3`` or ``name@^2`` means; None where there is none."""
        name, wanted = parse_reference(reference)
        found = {row.version: row async for row in self.rows(tenant, name)}
        version = latest(found, wanted)
        return None if version is None else found[version]

    async def accepted(self, row: p.DefinitionRow) -> Accepted:
        """A published definition. Raises StoreCorrupt where its code is not in the store or cannot be read."""
        (found,) = await self._read([row])
        return found

    async def _read(self, rows: Sequence[p.DefinitionRow]) -> list[Accepted]:
        """These definitions, which are all of one tenant."""
        lacking = [row for row in rows if (row.tenant, row.digest) not in self._kept]
        code = await self._app.store.code(lacking[0].tenant, [row.digest for row in lacking]) if lacking else {}
        for row in lacking:
            self._kept[row.tenant, row.digest] = _accepted(row, code.get(row.digest))
        found = [self._kept[row.tenant, row.digest] for row in rows]
        while len(self._kept) > CACHED:
            self._kept.popitem(last=False)
        return found

    # -- publishing ----------------------------------------------------------------------------------------------------

    async def publish(
        self, sources: Iterable[DefinitionSource], tenant: str, by: str | None, *, check_uses: bool
    ) -> list[DefinitionInfo]:
        """Publish all of these, or none where one is invalid or its version is taken. See ``AppDefinitions``."""
        found = await self.compile(sources, tenant, check_uses=check_uses)
        return [await self._commit(accepted, tenant, by) for accepted in found]

    async def compile(self, sources: Iterable[DefinitionSource], tenant: str, *, check_uses: bool) -> list[Accepted]:
        """What would be published. Raises InvalidDefinition and DuplicateName.

        What users send is compiled in another process, on a budget: it raises TooCostly and TooManyRequests, too.
        """
        data, unread = read_sources(sources)
        rows = {row.digest.hex(): row async for row in self.rows(tenant)}
        names = [PublishedName(row.name, row.version, digest) for digest, row in rows.items()]
        if reads_apart(self._app):
            found = await self._compile_apart(data, names, rows, check_uses=check_uses) if not unread else []
            Batch([], unread).refuse()
        else:
            found = await self._compile_here(data, unread, names, rows, check_uses=check_uses)
        for accepted in found:
            self._app.definitions.check_name(accepted.definition.name)
        return found

    async def _compile_here(
        self,
        data: list[SourceData],
        unread: list[RejectedSource],
        names: list[PublishedName],
        rows: Mapping[str, p.DefinitionRow],
        *,
        check_uses: bool,
    ) -> list[Accepted]:
        drafts, rejected = drafts_of(data)
        workflows = PublishedWorkflows(names, self._app.workflows.keys() if check_uses else AnyName())
        tools = self._app.definitions.tools if check_uses else None
        while True:
            batch = compile_batch(drafts, tools, workflows, workflows.learn)
            if not workflows.lacking:
                break
            workflows.read(await self._read([rows[digest] for digest in workflows.lacking]))
        batch.rejected[:0] = [*unread, *rejected]
        batch.refuse()
        return batch.accepted

    async def _compile_apart(
        self,
        data: list[SourceData],
        names: list[PublishedName],
        rows: Mapping[str, p.DefinitionRow],
        *,
        check_uses: bool,
    ) -> list[Accepted]:
        functions = sorted(self._app.workflows) if check_uses else None
        steps = describe(self._app.definitions.tools) if check_uses else None
        code: dict[str, bytes] = {}
        spent = 0.0
        while True:
            question = encoded(CompileQuestion(data, names, code, functions, steps))
            answer, took = await self._app.readers.work(caller_key(self._app), "compile", question, spent)
            found = msgspec.msgpack.decode(answer, type=CompileAnswer)
            if not found.lacking:
                return await self._loaded(found.accepted)
            spent += took
            for each in await self._read([rows[digest] for digest in found.lacking]):
                code[each.digest] = each.canonical

    async def _loaded(self, found: list[Compiled]) -> list[Accepted]:
        """In a thread if it takes long: then others get their turn every few milliseconds."""
        code = [(each.digest, each.canonical) for each in found]
        is_quick = sum(len(data) for _, data in code) <= QUICK_BYTES
        loaded = accepted_of(code) if is_quick else await asyncio.to_thread(accepted_of, code)
        return [msgspec.structs.replace(one, order=each.order) for one, each in zip(loaded, found, strict=True)]

    async def _commit(self, accepted: Accepted, tenant: str, by: str | None) -> DefinitionInfo:
        from holdfast.client.schedules.declarer import published_schedule  # who only looks loads no scheduler

        definition = accepted.definition
        details = {"definition": definition.name, "version": str(definition.version), "digest": accepted.digest}
        written = msgspec.json.encode(accepted.order, order="sorted").decode()
        change = p.Publish(tenant, definition.version, code_of(accepted), self._app.clock.now(), written)
        while True:
            schedule = await published_schedule(self._app, accepted, tenant, self._app.person_of(by))
            row, more = (None, {}) if schedule is None else schedule
            if row is not None and definition.schedule is not None:  # it starts runs in the publisher's name
                await require_later(self._app, f"schedule {row.id}", ["schedules.change", "runs.start"])
            added = {"schedule": row.id, **more} if row is not None else {}
            note = operator_note(self._app, tenant, "publish", by, None, "", {**details, **added})
            beside = () if row is None else (p.PutItem(row),)
            answer = await self._app.committer.commit(p.Operate(note, (change, *beside)))
            if not isinstance(answer, p.Fenced):  # the schedule was changed meanwhile
                break
        if isinstance(answer, p.VersionTaken):
            raise taken(accepted, answer.digest.hex())
        if not isinstance(answer, p.OperatedOn | p.Repeated | p.Kept):
            raise EngineError(f"publishing {definition.name} was answered {answer!r}")
        self._app.wake_sealer()
        self._app.hint()
        found = await self.find(f"{definition.name}@{definition.version}", tenant)
        return definition_info(change.row if found is None else found, accepted)


def _accepted(row: p.DefinitionRow, code: p.Code | None) -> Accepted:
    name = f"{row.name} version {row.version} of tenant {row.tenant!r}"
    if code is None:
        raise StoreCorrupt(f"the code {row.digest.hex()} of {name} is not in the store: restore it from a backup.")
    try:
        order = msgspec.json.decode(row.written, type=dict[str, tuple[str, ...]])
        return Accepted(definition=load(code.data), digest=row.digest.hex(), canonical=code.data, order=order)
    except (InvalidDefinition, ValueError, EOFError) as error:
        raise StoreCorrupt(f"{name} cannot be read ({error}): a newer Holdfast may have written it.") from error
