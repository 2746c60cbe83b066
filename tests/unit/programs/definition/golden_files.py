"""The golden definitions: documents, and the canonical bytes that they were first compiled to.

``python -m tests.unit.programs.definition.golden_files`` compiles those that have no bytes yet. It never changes what
is there: runs pin digests, so the bytes of an accepted definition are the same in every release.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from holdfast.programs.definition import model as m
from holdfast.programs.definition.compiler.compiler import compile_file

FOLDER = Path(__file__).parent / "golden"
DOCUMENTS = sorted(FOLDER.glob("*.yaml"))
CHILD = FOLDER / "letters.yaml"


class Letters:
    """The one definition that others run; what else they run is a function."""

    def definition(self, reference: str) -> m.Accepted | None:
        return compile_file(CHILD) if reference.startswith("letters.send") else None

    def function_names(self) -> Collection[str]:
        return ["claims.archive"]

    def definition_names(self) -> Collection[str]:
        return ["letters.send"]


def compiled(document: Path) -> m.Accepted:
    """The definition of a golden document, its workflows resolved."""
    return compile_file(document, None, None if document == CHILD else Letters())


def bytes_of(document: Path) -> Path:
    """Where the canonical bytes of a document are kept."""
    return document.with_suffix(".cbor")


def main() -> None:
    for document in DOCUMENTS:
        if not bytes_of(document).exists():
            bytes_of(document).write_bytes(compiled(document).canonical)
            print(f"{document.name}: {compiled(document).digest}")


if __name__ == "__main__":
    main()
