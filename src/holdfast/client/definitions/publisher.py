"""The definitions that the store has: published, found, and made ready to be started."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from holdfast.client.operators import operator_note
from holdfast.client.views.definitions import DefinitionInfo, definition_info
from holdfast.errors import DuplicateName, EngineError, InvalidDefinition, StoreCorrupt
from holdfast.programs.definition.compiler.batch import NamesBut, compile_batch, read_drafts
from holdfast.programs.definition.compiler.compiler import load
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
        """What would be published. Raises InvalidDefinition and DuplicateName."""
        drafts, rejected = read_drafts(sources)
        workflows = _PublishedWorkflows([row async for row in self.rows(tenant)], self._functions(check_uses))
        tools = self._app.definitions.tools if check_uses else None
        while True:
            batch = compile_batch(drafts, tools, workflows, workflows.learn)
            if not workflows.lacking:
                break
            workflows.read(await self._read(workflows.lacking))
        batch.rejected[:0] = rejected
        batch.refuse()
        for accepted in batch.accepted:
            self._app.definitions.check_name(accepted.definition.name)
        return batch.accepted

    def _functions(self, check_uses: bool) -> Collection[str]:
        return self._app.workflows.keys() if check_uses else _AnyName()

    async def _commit(self, accepted: Accepted, tenant: str, by: str | None) -> DefinitionInfo:
        from holdfast.client.schedules.declarer import published_schedule  # who only looks loads no scheduler

        definition = accepted.definition
        details = {"definition": definition.name, "version": str(definition.version), "digest": accepted.digest}
        change = p.Publish(tenant, definition.version, code_of(accepted), self._app.clock.now())
        while True:
            schedule = await published_schedule(self._app, accepted, tenant, self._app.person_of(by))
            row, more = (None, {}) if schedule is None else schedule
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


class _AnyName(Collection[str]):
    """All names: where it is not known which functions there are, any may be one."""

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class _PublishedWorkflows:
    """What definitions run that are to be published: others that are published, or are with them; and functions.

    A published one whose code is needed and not there yet is ``lacking``: read it, and compile again.
    """

    def __init__(self, rows: Sequence[p.DefinitionRow], functions: Collection[str]) -> None:
        self._functions = functions
        self._rows: dict[str, dict[int, p.DefinitionRow]] = {}
        self._read: dict[str, Accepted] = {}  # by digest
        self._new: dict[tuple[str, int], Accepted] = {}
        self._lacking: dict[bytes, p.DefinitionRow] = {}
        for row in rows:
            self._rows.setdefault(row.name, {})[row.version] = row

    @property
    def lacking(self) -> list[p.DefinitionRow]:
        return list(self._lacking.values())

    def read(self, accepted: Iterable[Accepted]) -> None:
        """The code that was lacking. Everything is compiled again."""
        self._read.update({each.digest: each for each in accepted})
        self._lacking.clear()
        self._new.clear()

    def learn(self, accepted: Accepted) -> None:
        """One more that is to be published. Raises DuplicateName where its name and version mean another."""
        definition = accepted.definition
        place = definition.name, definition.version
        row, other = self._rows.get(place[0], {}).get(place[1]), self._new.get(place)
        known = other.digest if other is not None else None if row is None else row.digest.hex()
        if known not in (None, accepted.digest):
            raise taken(accepted, known or "")
        self._new[place] = accepted

    def definition(self, reference: str) -> Accepted | None:
        name, wanted = parse_reference(reference)
        rows = self._rows.get(name, {})
        version = latest([*rows, *(number for known, number in self._new if known == name)], wanted)
        if version is None or (name, version) in self._new:
            return self._new.get((name, version or 0))
        row = rows[version]
        found = self._read.get(row.digest.hex())
        if found is None:
            self._lacking[row.digest] = row
        return found

    def function_names(self) -> Collection[str]:
        return NamesBut(self._functions, self.definition_names())

    def definition_names(self) -> Collection[str]:
        return {*self._rows, *(name for name, _ in self._new)}


def taken(accepted: Accepted, digest: str) -> DuplicateName:
    """The name and version of a definition mean another."""
    definition = accepted.definition
    return DuplicateName(
        f"{definition.name} version {definition.version} is published with other content (digest {digest[:12]}, and "
        f"this one is {accepted.digest[:12]}): give the changed one a new version"
    )


def _accepted(row: p.DefinitionRow, code: p.Code | None) -> Accepted:
    name = f"{row.name} version {row.version} of tenant {row.tenant!r}"
    if code is None:
        raise StoreCorrupt(f"the code {row.digest.hex()} of {name} is not in the store: restore it from a backup.")
    try:
        return Accepted(definition=load(code.data), digest=row.digest.hex(), canonical=code.data)
    except (InvalidDefinition, ValueError, EOFError) as error:
        raise StoreCorrupt(f"{name} cannot be read ({error}): a newer Holdfast may have written it.") from error
