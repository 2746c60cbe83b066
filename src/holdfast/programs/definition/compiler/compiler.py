"""From a document to an accepted definition: read, checked, its expressions in their normal text, and hashed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cbor2

from holdfast.errors import InvalidDefinition
from holdfast.programs.definition import model as m
from holdfast.programs.definition.compiler.checks.expressions import check_expressions
from holdfast.programs.definition.compiler.checks.flow import check_flow
from holdfast.programs.definition.compiler.checks.migrations import check_migrations
from holdfast.programs.definition.compiler.checks.parallel import check_parallel
from holdfast.programs.definition.compiler.checks.references import check_references
from holdfast.programs.definition.compiler.checks.schedules import check_schedule
from holdfast.programs.definition.compiler.checks.schemas import check_schemas
from holdfast.programs.definition.compiler.checks.trials import check_trials
from holdfast.programs.definition.compiler.checks.workflows import Workflows, fill_uses, resolve_workflows
from holdfast.programs.definition.compiler.document import canonical_bytes, digest_of
from holdfast.programs.definition.compiler.faults import DefinitionFault, FaultList, and_more
from holdfast.programs.definition.compiler.plain_data import plain_data
from holdfast.programs.definition.compiler.reader import read_document
from holdfast.programs.definition.compiler.source_map import SourceMap
from holdfast.programs.definition.interpreter.routine import Toolbox
from holdfast.programs.definition.walks import in_authors_order


def compile_file(path: Path, tools: Toolbox | None = None, workflows: Workflows | None = None) -> m.Accepted:
    """The definition in a file. Raises InvalidDefinition with all that is wrong, each with its line."""
    return compile_text(path.read_text(encoding="utf-8"), tools, workflows, file=str(path))


def compile_text(
    text: str, tools: Toolbox | None = None, workflows: Workflows | None = None, *, file: str = ""
) -> m.Accepted:
    """The definition of a text in YAML or JSON. Raises InvalidDefinition."""
    from holdfast.programs.definition.compiler.source import read_source  # YAML is loaded only where a text is read

    document, marks = read_source(text, file)
    return compile_document(document, tools, workflows, marks)


def compile_document(
    document: Any,
    tools: Toolbox | None = None,
    workflows: Workflows | None = None,
    marks: SourceMap | None = None,
) -> m.Accepted:
    """The definition of a document. Raises InvalidDefinition with all that is wrong.

    Without ``tools`` it is not looked whether the steps, actions and transports that it calls are there; without
    ``workflows`` those that it runs are not resolved.
    """
    faults = FaultList()
    plain = plain_data(document, faults)
    refuse(faults, marks)  # nothing can be said of what is no data
    definition = read_document(plain, faults)
    if definition is not None:
        check_schemas(definition, faults, tools)
        check_references(definition, faults, tools)
        check_flow(definition, faults)
        check_parallel(definition, faults)
        check_migrations(definition, faults)
        check_schedule(definition, faults)
        check_trials(plain, definition.tasks, faults)
        definition = resolve_workflows(fill_uses(check_expressions(definition, faults)), faults, workflows)
    refuse(faults, marks)
    assert definition is not None
    return accepted(definition, faults.order)


def accepted(definition: m.Definition, order: Mapping[str, tuple[str, ...]] | None = None) -> m.Accepted:
    """A definition that was checked, with its canonical bytes, its digest and its author's order."""
    data = canonical_bytes(definition)
    return m.Accepted(definition=definition, digest=digest_of(data), canonical=data, order=order or {})


def as_written(found: m.Accepted) -> m.Definition:
    """A definition as its author has ordered it, for pictures and texts."""
    return in_authors_order(found.definition, found.order)


def load(data: bytes) -> m.Definition:
    """The definition that these canonical bytes were made of. Raises InvalidDefinition.

    Nothing is checked but its shape: what was accepted once is run as it is.
    """
    faults = FaultList()
    definition = read_document(cbor2.loads(data), faults)
    refuse(faults, None)
    assert definition is not None
    return definition


def refuse(faults: FaultList, marks: SourceMap | None) -> None:
    """Raise InvalidDefinition if anything is wrong."""
    refuse_for(faults.found, marks, faults.more)


def refuse_for(faults: list[DefinitionFault], marks: SourceMap | None, more: int = 0) -> None:
    """Raise InvalidDefinition for these faults, and so many more, if there are any."""
    if faults:
        located = (
            faults if marks is None else sorted(map(marks.located, faults), key=lambda each: (each.line, each.column))
        )
        told = and_more(located, more)
        raise InvalidDefinition("\n".join(map(str, told)), told)
