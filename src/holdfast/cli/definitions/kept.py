"""``def publish``, ``list`` and ``show``: definitions that the store keeps by name and version."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from holdfast.cli import options, output, session
from holdfast.cli.apps import load_app
from holdfast.cli.definitions.files import compiled, files_of
from holdfast.client.engine import Holdfast
from holdfast.client.views.definitions import DefinitionInfo, definition_record
from holdfast.client.views.times import clock
from holdfast.errors import WorkflowUnknown
from holdfast.programs.definition.compiler.batch import SUFFIXES, DefinitionSource
from holdfast.programs.definition.compiler.document import write_document
from holdfast.programs.definition.decompiler.yaml_text import yaml_of
from holdfast.programs.definition.interpreter.routine import functions_of
from holdfast.programs.definition.model import Accepted

_UNCHECKED: Final = "it was not looked whether its steps, actions and functions are there: --app APP checks that."


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@click.option("--app", metavar="APP", help="Import this module first: the steps and actions must be in it.")
@options.steered_by
@options.tenant
@options.store
def publish(files: tuple[str, ...], app: str | None, who: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Keep the definitions in FILEs (`-` for stdin) or folders in the store, each under its name and version, for good.

    None is published where one is invalid. What a definition runs is published before it, or with it.
    """
    engine = None if app is None else load_app(app)
    sources = [source_of(file) for file in files_of(files)]

    async def work(opened: Holdfast) -> Sequence[DefinitionInfo]:
        publishing = opened.definitions.publish_all(sources, tenant=tenant, by=who, check_uses=app is not None)
        return await session.patiently(opened, publishing)

    found = session.on_store(session.url_of(store, engine), work, create=True, app=engine)
    for info in found:
        if as_json:
            output.emit({**definition_record(info), "action": "publish"})
        else:
            output.say(f"{info.name} version {info.version} is published, {info.digest[:12]}")
    if app is None and any(any((each.uses.steps, each.uses.actions, each.uses.workflows)) for each in found):
        output.note(_UNCHECKED)


def source_of(file: str) -> DefinitionSource:
    """A file, or the text on stdin."""
    if file == "-":
        return sys.stdin.read()
    if not Path(file).exists():
        raise click.ClickException(f"there is no file or folder {file!r}.")
    return Path(file)


@click.command("list")
@click.option("--name", metavar="NAME", help="Only the versions of this one.")
@options.tenant
@options.store
def list_definitions(name: str | None, tenant: str, store: str | None, as_json: bool) -> None:
    """List the published definitions, by name and version."""

    async def work(app: Holdfast) -> list[DefinitionInfo]:
        return [info async for info in app.definitions.list(tenant=tenant, name=name)]

    found = session.on_store(session.url_of(store), work)
    if as_json:
        for info in found:
            output.emit(definition_record(info))
    elif not found:
        output.note("no definitions are published: `holdfast def publish FILE` does that.")
    else:
        rows: list[list[output.Part]] = [_row(info) for info in found]
        output.table(["name", "version", "digest", "published", "title", "uses"], rows)


def _row(info: DefinitionInfo) -> list[output.Part]:
    uses = info.uses
    named = [*uses.steps, *uses.actions, *uses.workflows, *uses.transports]
    published = clock(info.published_at)
    return [info.name, str(info.version), info.digest[:12], published, output.one_line(info.title), ", ".join(named)]


@click.command()
@click.argument("subject", metavar="FILE|NAME[@VERSION]")
@options.tenant
@options.store
def show(subject: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Show the canonical form of a definition: sorted, defaults filled in, expressions in normal text.

    It is that in FILE (`-` for stdin), or else the published one of that name: the newest, or VERSION.
    """
    if is_file(subject):
        found, info = compiled(subject, None)[0], None
    else:
        found, info = session.on_store(session.url_of(store), lambda app: published(app, subject, tenant))
    kept_at = None if info is None else definition_record(info)["published_at"]
    if as_json:
        more = {} if kept_at is None else {"published_at": kept_at}
        functions = list(functions_of(found.definition))
        document = write_document(found.definition)
        output.emit({"digest": found.digest, "functions": functions, "definition": document, **more})
        return
    since = "" if kept_at is None else f", published at {kept_at}"
    output.say(f"# {found.definition.name} version {found.definition.version}, digest {found.digest}{since}")
    output.say(yaml_of(found.definition).rstrip())


def is_file(subject: str) -> bool:
    """Whether a definition is meant by its file, and not by its name."""
    return subject == "-" or Path(subject).suffix in SUFFIXES or Path(subject).exists()


async def published(app: Holdfast, reference: str, tenant: str) -> tuple[Accepted, DefinitionInfo | None]:
    """The published definition of that name, and its view. Raises WorkflowUnknown."""
    found = await app.definitions.load(reference, tenant=tenant)
    if found is None:
        missing = f"there is no file {reference!r}, and no definition of that name is published in tenant {tenant!r}"
        raise WorkflowUnknown(f"{missing}: `holdfast def list` shows what is.")
    exact = f"{found.definition.name}@{found.definition.version}"
    return found, await app.definitions.info(exact, tenant=tenant)
