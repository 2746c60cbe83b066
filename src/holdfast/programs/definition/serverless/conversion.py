"""Documents of Serverless Workflow to definitions and back, for programs; the command line has the same."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.programs.definition.compiler.compiler import compile_document, compile_file, compile_text
from holdfast.programs.definition.compiler.document import write_document
from holdfast.programs.definition.model import Definition


def from_serverless(source: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    """The definition of a Serverless Workflow document: a file, the text of one, or its data. ``app.definitions.add``
    takes what it gives. Raises InvalidDefinition with all that is not supported, each with its place."""
    from holdfast.programs.definition.serverless.importer.workflow import import_document, import_text

    if isinstance(source, Path):
        found = import_text(source.read_text(encoding="utf-8"), file=str(source))
    else:
        found = import_text(source) if isinstance(source, str) else import_document(dict(source))
    return write_document(found.definition)


def to_serverless(source: str | Path | Mapping[str, Any] | Definition) -> dict[str, Any]:
    """The Serverless Workflow document of a definition: a file, the text of one, a document, or the definition itself.
    Raises InvalidDefinition with all that cannot be said in one."""
    from holdfast.programs.definition.serverless.exporter.workflow import export_definition

    if isinstance(source, Definition):
        return export_definition(source)
    if isinstance(source, Path):
        return export_definition(compile_file(source).definition)
    return export_definition((compile_text(source) if isinstance(source, str) else compile_document(source)).definition)
