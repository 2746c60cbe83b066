"""Compiling as a question and an answer that are data, so that another process can do it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from holdfast.client.definitions.workflows import PublishedName, PublishedWorkflows, names_or_any
from holdfast.client.views.definitions import ImportedDefinition
from holdfast.errors import InvalidDefinition
from holdfast.programs.definition.compiler.batch import SourceData, compile_batch, drafts_of
from holdfast.programs.definition.compiler.compiler import as_written, compile_document, load, refuse
from holdfast.programs.definition.compiler.document import write_document
from holdfast.programs.definition.compiler.faults import FaultList
from holdfast.programs.definition.compiler.plain_data import plain_data
from holdfast.programs.definition.described_tools import DescribedStep, DescribedTools
from holdfast.programs.definition.model import Accepted

_WARMING: Final = {
    "holdfast": "definition/1",
    "name": "warm",
    "version": 1,
    "start": {"type": "object"},
    "steps": [{"sum": {"set": {"state.sum": "=start.one + 1"}}}, {"done": {"end": {}}}],
}


class CompileQuestion(msgspec.Struct, frozen=True, array_like=True):
    """Sources, and what there is beside them. ``code`` is that of the published definitions that are ``lacking``.

    Without ``steps`` what definitions call is not checked; without ``functions`` any name may be one.
    """

    sources: Sequence[tuple[str, Any]]
    published: Sequence[PublishedName]
    code: dict[str, bytes]
    functions: Sequence[str] | None
    steps: dict[str, DescribedStep] | None


class Compiled(msgspec.Struct, frozen=True, array_like=True):
    """A definition that was accepted, without its model."""

    name: str
    version: int
    digest: str
    canonical: bytes
    order: dict[str, tuple[str, ...]]


class CompileAnswer(msgspec.Struct, frozen=True, array_like=True):
    """What was accepted; or the digests of published definitions whose code is ``lacking``: ask again with it."""

    accepted: list[Compiled]
    lacking: list[str]


def encoded(question: CompileQuestion) -> bytes:
    """A question as it is sent. Raises InvalidDefinition if a source is no data at all."""
    try:
        return msgspec.msgpack.encode(question)
    except (TypeError, ValueError, RecursionError, OverflowError):
        for source in question.sources:
            _refuse_no_data(SourceData(*source))
        raise


def _refuse_no_data(source: SourceData) -> None:
    drafts, rejected = drafts_of([source])
    for each in rejected:
        raise each.error
    faults = FaultList()
    for draft in drafts:
        plain_data(draft.document, faults)
    refuse(faults, None)


def compiled(data: bytes) -> CompileAnswer:
    """The answer to a question. Raises InvalidDefinition and DuplicateName."""
    question = msgspec.msgpack.decode(data, type=CompileQuestion)
    workflows = PublishedWorkflows(question.published, names_or_any(question.functions))
    workflows.read(accepted_of(question.code.items()))
    tools = None if question.steps is None else DescribedTools(question.steps)
    drafts, rejected = drafts_of(SourceData(*each) for each in question.sources)
    batch = compile_batch(drafts, tools, workflows, workflows.learn)
    if workflows.lacking:
        return CompileAnswer([], workflows.lacking)
    batch.rejected[:0] = rejected
    batch.refuse()
    return CompileAnswer([_compiled(each) for each in batch.accepted], [])


def _compiled(accepted: Accepted) -> Compiled:
    definition = accepted.definition
    return Compiled(definition.name, definition.version, accepted.digest, accepted.canonical, dict(accepted.order))


def accepted_of(code: Iterable[tuple[str, bytes]]) -> list[Accepted]:
    """Definitions of their digests and canonical bytes."""
    return [Accepted(definition=load(data), digest=digest, canonical=data) for digest, data in code]


def imported(data: bytes) -> ImportedDefinition:
    """A document of Serverless Workflow as a definition. Raises InvalidDefinition."""
    return read_serverless(msgspec.msgpack.decode(data, type=str))


def read_serverless(text: str) -> ImportedDefinition:
    """The same of a text."""
    from holdfast.programs.definition.decompiler.yaml_text import yaml_of
    from holdfast.programs.definition.serverless.importer.workflow import import_text

    found = import_text(text)
    return ImportedDefinition(
        name=found.definition.name,
        version=found.definition.version,
        digest=found.digest,
        text=yaml_of(as_written(found)),
        document=write_document(found.definition),
    )


def warm() -> None:
    """Load what compiling needs, so that the first definition need not wait for it."""
    import holdfast.programs.definition.compiler.source  # noqa: F401

    try:
        compile_document(_WARMING)
    except InvalidDefinition as error:
        raise AssertionError(error) from error
