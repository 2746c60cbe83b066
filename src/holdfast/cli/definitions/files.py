"""``def check``, ``test``, ``schema``: what can be done with a file alone. No store is needed."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from holdfast.cli import exits, options, output
from holdfast.cli.apps import load_app
from holdfast.errors import DuplicateName, InvalidDefinition
from holdfast.programs.definition.compiler.batch import SUFFIXES, Draft, files_in, one_by_one
from holdfast.programs.definition.compiler.compiler import compile_document
from holdfast.programs.definition.compiler.faults import DefinitionFault
from holdfast.programs.definition.compiler.schema import definition_schema
from holdfast.programs.definition.compiler.source import read_source
from holdfast.programs.definition.compiler.source_map import SourceMap
from holdfast.programs.definition.engine_tools import EngineTools
from holdfast.programs.definition.interpreter.routine import Routine, Toolbox
from holdfast.programs.definition.kind import Definitions
from holdfast.programs.definition.model import Accepted
from holdfast.programs.definition.trials import TrialResult, play, read_trials
from holdfast.programs.function.decorators import STEPS

_app = click.option("--app", metavar="APP", help="Import this module first: the steps and actions must be in it.")


@click.command()
@click.argument("files", nargs=-1, required=True)
@_app
@options.as_json
def check(files: tuple[str, ...], app: str | None, as_json: bool) -> int:
    """Compile FILES (`-` for stdin) or folders and say all that is wrong; exit 1 where something is. They may run each
    other."""
    given_files = files_of(files)
    found = _compiled_together(given_files, _tools(app) if app else None)
    for file in given_files:
        given = found[file]
        if isinstance(given, Accepted):
            definition = given.definition
            identity = {"name": definition.name, "version": definition.version, "digest": given.digest}
            if as_json:
                output.emit({"file": file, "valid": True, **identity})
            else:
                output.say(f"{file} is in order: {definition.name} version {definition.version}, {given.digest[:12]}")
        elif as_json:
            output.emit({"file": file, "valid": False, "problems": [_fault(each) for each in _faults(given)]})
        else:
            output.say(str(given) if isinstance(given, InvalidDefinition) else f"{file}: {given}")
    return exits.GOOD if all(isinstance(each, Accepted) for each in found.values()) else exits.NO


Checked = Accepted | InvalidDefinition | DuplicateName


def _compiled_together(files: Sequence[str], tools: Toolbox | None) -> dict[str, Checked]:
    """What each file gives, those first that others run."""
    found: dict[str, Checked] = {}
    drafts: list[Draft] = []
    for file in files:
        try:
            drafts.append(Draft(file, *_read(file)))
        except InvalidDefinition as error:
            found[file] = error
    given = _GivenWorkflows()
    for draft, known in one_by_one(drafts, given):
        try:
            accepted = compile_document(draft.document, tools, known, draft.marks)
            given.add(accepted)
            found[draft.label] = accepted
        except (InvalidDefinition, DuplicateName) as error:
            found[draft.label] = error
    return found


class _GivenWorkflows(Collection[str]):
    """The definitions of the files; as names of functions, all others: nobody knows here what else there is."""

    def __init__(self) -> None:
        self._kind = Definitions(EngineTools({}))
        self.add = self._kind.add
        self.definition = self._kind.find

    def definition_names(self) -> Collection[str]:
        return {each.definition.name for each in self._kind}

    def function_names(self) -> Collection[str]:
        return self

    def __contains__(self, name: object) -> bool:
        return name not in self.definition_names()

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


@click.command()
@click.argument("files", nargs=-1, required=True)
@click.option("--crash", is_flag=True, help="Take every turn again, as after a crash before and after its commit.")
@_app
@options.as_json
def test(files: tuple[str, ...], crash: bool, app: str | None, as_json: bool) -> int:
    """Play the tests in FILES or folders; exit 1 where one does not come out as expected."""
    tools = _tools(app)
    results: list[tuple[str, TrialResult]] = []
    for file in files_of(files):
        found, document = compiled(file, None if app is None else tools)
        routine = Routine(found.definition, found.digest, _Loose(tools))
        specs = read_trials(document.get("tests") if isinstance(document, Mapping) else None)
        results += [(file, play(routine, spec, crash=crash)) for spec in specs]
    failed = sum(bool(result.problems) for _, result in results)
    if as_json:
        for file, result in results:
            output.emit({"file": file, "test": result.name, "status": result.status, "problems": list(result.problems)})
    else:
        for file, result in results:
            output.say(f"{'FAILED' if result.problems else 'passed'}  {Path(file).name}: {result.name}")
            for problem in result.problems:
                output.say(f"        {problem}")
        output.note(f"{len(results) - failed} passed, {failed} failed")
    return exits.NO if failed else exits.GOOD


@click.command()
def schema() -> None:
    """Print the JSON Schema of the format, for editors."""
    output.say(json.dumps(definition_schema(), indent=2, ensure_ascii=False))


class _Loose:
    """Tools for tests, whose calls are mocked: a step that is not imported counts as one that takes anything."""

    def __init__(self, tools: Toolbox) -> None:
        self._tools = tools
        self.names = tools.names
        self.transport = tools.transport

    def step(self, name: str) -> Any:
        return self._tools.step(name) or _mocked(name)


def _mocked(name: str) -> Any:
    from holdfast.journal.payload import ONCE
    from holdfast.programs.function.decorators import Step

    async def anything(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(name)

    return Step(
        anything,
        name=name,
        retry=ONCE,
        timeout=None,
        heartbeat_timeout=None,
        queue=None,
        concurrency=None,
        undo=None,
    )


def _tools(app: str | None) -> EngineTools:
    if app is not None:
        load_app(app)
    return EngineTools(STEPS)


def compiled(file: str, tools: Toolbox | None) -> tuple[Accepted, Any]:
    """The definition in a file, and its document. Without tools nobody looks whether its steps are there."""
    document, marks = _read(file)
    return compile_document(document, tools, None, marks), document


def _read(file: str) -> tuple[Any, SourceMap]:
    text = sys.stdin.read() if file == "-" else read_text(file)
    return read_source(text, "stdin" if file == "-" else file)


def files_of(given: Sequence[str]) -> list[str]:
    """These files and those of these folders, each once. Raises ClickException where a folder has none."""
    found: list[str] = []
    for each in given:
        inside = [] if each == "-" or not Path(each).is_dir() else files_in(Path(each))
        if not inside and each != "-" and Path(each).is_dir():
            raise click.ClickException(f"the folder {each} has no definitions: their files end in {_ENDINGS}")
        found += map(str, inside) if inside else [each]
    return list(dict.fromkeys(found))


_ENDINGS: Final = ", ".join(SUFFIXES)


def write_file(target: str, data: bytes) -> None:
    """Write what a command made. Raises ClickException where that cannot be."""
    try:
        Path(target).write_bytes(data)
    except OSError as error:
        raise click.ClickException(f"{target} cannot be written: {error}") from error


def read_text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{file} cannot be read: {error}") from error


def _faults(error: InvalidDefinition | DuplicateName) -> Sequence[object]:
    return error.faults if isinstance(error, InvalidDefinition) else [error]


def _fault(fault: object) -> dict[str, Any]:
    if not isinstance(fault, DefinitionFault):
        return {"problem": str(fault)}
    return {"line": fault.line, "column": fault.column, "node": fault.node, "problem": fault.message}
