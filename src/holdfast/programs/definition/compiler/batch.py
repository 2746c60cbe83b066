"""Several definitions at once: read, compiled in the order in which they need each other, and all faults together.

A definition that runs another is compiled after all versions of that one, wherever they stand. So ``letters`` means the
newest of the batch, whatever the order of files is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from holdfast.errors import DuplicateName, InvalidDefinition, InvalidRequest
from holdfast.programs.definition.compiler.checks.workflows import Workflows
from holdfast.programs.definition.compiler.compiler import compile_document
from holdfast.programs.definition.compiler.document import write_document
from holdfast.programs.definition.compiler.faults import MOST_FAULTS, DefinitionFault, and_more
from holdfast.programs.definition.compiler.source_map import SourceMap
from holdfast.programs.definition.interpreter.routine import Toolbox
from holdfast.programs.definition.model import Accepted, Definition
from holdfast.programs.definition.sketch import Sketch
from holdfast.store.rows import UnavailableDefinition

DefinitionSource = str | Path | Mapping[str, Any] | Definition | Sketch
"""The text of a definition, its file or a folder of files, a document, or what the DSL gives."""

SUFFIXES: Final = (".yaml", ".yml", ".json")


class Draft(NamedTuple):
    """A definition that was read and not compiled yet. ``label`` is its file, or what else people know it by."""

    label: str
    document: Any
    marks: SourceMap | None = None

    @property
    def name(self) -> str:
        """The name that it gives itself; nothing where it gives none."""
        return _text(self.document, "name")


class RejectedSource(NamedTuple):
    """A definition that cannot be accepted, and why. ``name`` and ``version`` are as far as they could be read."""

    label: str
    name: str
    version: int | None
    error: InvalidDefinition | DuplicateName

    @property
    def brief(self) -> UnavailableDefinition:
        """The same with the first problem alone."""
        return UnavailableDefinition(self.name, self.version, str(self).splitlines()[0][:300])

    def __str__(self) -> str:
        text = str(self.error)
        return text if not self.label or text.startswith(self.label) else f"{self.label}: {text}"


class Batch(NamedTuple):
    """What became of several definitions."""

    accepted: list[Accepted]
    rejected: list[RejectedSource]

    def refuse(self) -> None:
        """Raise InvalidDefinition with all faults of all of them, or DuplicateName where that is all that is wrong."""
        if not self.rejected:
            return
        told = self.rejected[:MOST_FAULTS]
        text = "\n".join(map(str, told))
        if all(isinstance(each.error, DuplicateName) for each in self.rejected):
            raise DuplicateName(text)
        faults = [fault for each in told for fault in _faults(each)]
        raise InvalidDefinition(text, and_more(faults, len(self.rejected) - len(told)))


def _faults(rejected: RejectedSource) -> Iterator[DefinitionFault]:
    if isinstance(rejected.error, InvalidDefinition):
        yield from (each for each in rejected.error.faults if isinstance(each, DefinitionFault))
    else:
        yield DefinitionFault(message=str(rejected.error), file=rejected.label)


class SourceData(NamedTuple):
    """A source as data: its label, as of a draft, and its text or its document."""

    label: str
    content: str | Mapping[str, Any]


def read_drafts(sources: Iterable[DefinitionSource]) -> tuple[list[Draft], list[RejectedSource]]:
    """The definitions of these sources, and those that cannot be read. Raises InvalidRequest for what is no source."""
    found, unread = read_sources(sources)
    drafts, rejected = drafts_of(found)
    return drafts, [*unread, *rejected]


def read_sources(sources: Iterable[DefinitionSource]) -> tuple[list[SourceData], list[RejectedSource]]:
    """What these sources hold, and the files that cannot be read. Raises InvalidRequest for what is no source."""
    found: list[SourceData] = []
    unread: list[RejectedSource] = []
    for source in sources:
        if not isinstance(source, Path):
            found.append(_data(source))
            continue
        for file in files_in(source):
            try:
                found.append(SourceData(str(file), file.read_text(encoding="utf-8")))
            except (OSError, UnicodeDecodeError) as error:
                fault = DefinitionFault(message=f"it cannot be read: {error}", file=str(file))
                unread.append(RejectedSource(str(file), "", None, InvalidDefinition(str(fault), [fault])))
    return found, unread


def drafts_of(found: Iterable[SourceData]) -> tuple[list[Draft], list[RejectedSource]]:
    """The definitions that these are, and those that cannot be read."""
    drafts: list[Draft] = []
    rejected: list[RejectedSource] = []
    for label, content in found:
        if not isinstance(content, str):
            drafts.append(Draft(label, content))
            continue
        from holdfast.programs.definition.compiler.source import read_source  # YAML is loaded only where a text is read

        try:
            drafts.append(Draft(label, *read_source(content, label)))
        except InvalidDefinition as error:
            rejected.append(RejectedSource(label, "", None, error))
    return drafts, rejected


def files_in(path: Path) -> Sequence[Path]:
    """The files of definitions in a folder, or the one file. What begins with a dot is left out."""
    if not path.is_dir():
        return [path]
    found = [file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file()]
    return sorted(file for file in found if not any(part.startswith(".") for part in file.relative_to(path).parts))


def _data(source: object) -> SourceData:
    if isinstance(source, str):
        return SourceData("", source)
    if isinstance(source, Definition):
        return SourceData(f"{source.name} version {source.version}", write_document(source))
    if isinstance(source, Sketch | Mapping):
        document = source.document if isinstance(source, Sketch) else source
        return SourceData(_text(document, "name"), document)
    raise InvalidRequest(f"a definition is a Path, a text or a document, not {source!r:.60}")


def compile_batch(
    drafts: Iterable[Draft],
    tools: Toolbox | None,
    workflows: Workflows | None,
    accept: Callable[[Accepted], None],
) -> Batch:
    """Compile definitions, each after those that it runs. ``accept`` makes one known to the next; it may raise
    DuplicateName."""
    batch = Batch([], [])
    for draft, before in one_by_one(drafts, workflows):
        try:
            accepted = compile_document(draft.document, tools, before, draft.marks)
            accept(accepted)
        except (InvalidDefinition, DuplicateName) as error:
            version = draft.document.get("version") if isinstance(draft.document, Mapping) else None
            known = version if isinstance(version, int) else None
            batch.rejected.append(RejectedSource(draft.label, draft.name, known, error))
        else:
            batch.accepted.append(accepted)
    return batch


def one_by_one(drafts: Iterable[Draft], workflows: Workflows | None) -> Iterator[tuple[Draft, _WorkflowsBefore | None]]:
    """The drafts in the order in which they are compiled, each with the workflows that there are for it."""
    ordered = in_order(list(drafts))
    for at, draft in enumerate(ordered):
        later = {each.name for each in ordered[at + 1 :]} - {draft.name}
        yield draft, None if workflows is None else _WorkflowsBefore(workflows, later)


class _WorkflowsBefore:
    """The workflows that there are for one of several definitions. One that comes later is no function.

    It comes later only where the two run each other: else it would have been first.
    """

    def __init__(self, workflows: Workflows, later: Collection[str]) -> None:
        self._workflows = workflows
        self._later = later
        self.definition = workflows.definition

    def function_names(self) -> Collection[str]:
        return NamesBut(self._workflows.function_names(), self._later)

    def definition_names(self) -> Collection[str]:
        return {*self._workflows.definition_names(), *self._later}


class NamesBut(Collection[str]):
    """Some names, without others. The names may be all that there could be, which nobody can list."""

    def __init__(self, names: Collection[str], without: Collection[str]) -> None:
        self._names = names
        self._without = without

    def __contains__(self, name: object) -> bool:
        return name in self._names and name not in self._without

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._names if name not in self._without)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def in_order(drafts: Sequence[Draft]) -> list[Draft]:
    """The drafts, each after all drafts of the names that it runs. Those that run each other stay as they are."""
    named: dict[str, list[int]] = {}
    for at, draft in enumerate(drafts):
        named.setdefault(draft.name, []).append(at)
    needs = [
        [other for name in _runs(draft.document) for other in named.get(name, ()) if other != at]
        for at, draft in enumerate(drafts)
    ]
    done: dict[int, None] = {}
    for first in range(len(drafts)):
        entered: set[int] = set()
        stack = [first]
        while stack:
            at = stack[-1]
            waiting = [] if at in entered else [each for each in needs[at] if each not in done and each not in entered]
            entered.add(at)
            if waiting:
                stack.extend(reversed(waiting))
            else:
                done.setdefault(stack.pop())
    return [drafts[at] for at in done]


def _runs(document: Any) -> set[str]:
    """The names of the workflows that a document runs. It may name too many: this only orders."""
    found: set[str] = set()
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            for word in ("run", "continue"):
                if isinstance(reference := value.get(word), str):
                    found.add(reference.partition("@")[0])
            waiting.extend(value.values())
        elif isinstance(value, list | tuple):
            waiting.extend(value)
    return found


def _text(document: Any, member: str) -> str:
    value = document.get(member) if isinstance(document, Mapping) else None
    return value if isinstance(value, str) else ""
