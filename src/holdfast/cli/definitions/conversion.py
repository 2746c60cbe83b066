"""``def import`` and ``def export``: definitions from and to other ways of writing workflows."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any, Final

import click
import yaml

from holdfast.cli import output
from holdfast.cli.definitions.files import compiled, read_text, write_file
from holdfast.programs.definition.compiler.compiler import as_written
from holdfast.programs.definition.compiler.document import write_document
from holdfast.programs.definition.decompiler.python_text import python_of
from holdfast.programs.definition.decompiler.yaml_text import yaml_of
from holdfast.programs.definition.serverless.exporter.workflow import export_definition
from holdfast.programs.definition.serverless.importer.workflow import import_text

_FORMS: Final = ("yaml", "json", "python", "serverless")
_IMPORTERS: Final = {"serverless": import_text}


@click.command("import")
@click.argument("file")
@click.option("--from", "source", type=click.Choice(list(_IMPORTERS)), required=True, help="What FILE is.")
@click.option("-o", "--output", "target", metavar="PATH", help="Write it there instead of printing it.")
def import_(file: str, source: str, target: str | None) -> None:
    """Read FILE (`-` for stdin) and write it as a definition in YAML, or say all that is not supported.

    `serverless` is a CNCF Serverless Workflow document of version 1.
    """
    text = sys.stdin.read() if file == "-" else read_text(file)
    found = _IMPORTERS[source](text, file="stdin" if file == "-" else file)
    _put(yaml_of(as_written(found)), target)


@click.command()
@click.argument("file")
@click.option("--to", "form", type=click.Choice(_FORMS), default="yaml", help="The form. [yaml]")
@click.option("-o", "--output", "target", metavar="PATH", help="Write it there instead of printing it.")
def export(file: str, form: str, target: str | None) -> None:
    """Write the definition in FILE in another form. Compiled again, it has the same digest. Its tests are kept in YAML
    and JSON.

    `serverless` writes a CNCF Serverless Workflow document, or says all that cannot be said in one.
    """
    found, document = compiled(file, None)
    tests = document.get("tests") if isinstance(document, Mapping) else None
    if form == "python":
        _put(python_of(as_written(found)), target)
    elif form == "json":
        written = {**write_document(as_written(found)), **({"tests": tests} if tests else {})}
        _put(json.dumps(written, indent=2, ensure_ascii=False), target)
    elif form == "serverless":
        _put(_yaml(export_definition(as_written(found))), target)
    else:
        _put(yaml_of(as_written(found), tests), target)


def _yaml(document: Any) -> str:
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)


def _put(text: str, target: str | None) -> None:
    if target is None:
        output.say(text.rstrip())
    else:
        write_file(target, f"{text.rstrip()}\n".encode())
