"""``def draw``: a definition's file, or a run with the states of its nodes, as a picture."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from holdfast.cli import options, output, session
from holdfast.cli.definitions.files import compiled, write_file
from holdfast.client.engine import Holdfast
from holdfast.drawing.definitions import DEEPEST, draw_definition
from holdfast.drawing.picture import Direction, Picture
from holdfast.drawing.writers.style import Theme
from holdfast.programs.definition.compiler.compiler import as_written

FORMS: Final = ("svg", "png", "json", "mmd")
_SOURCES: Final = (".yaml", ".yml", ".json")


@click.command()
@click.argument("subject", metavar="FILE|RUN")
@click.option("-o", "--output", "target", metavar="PATH", help="The file to write. Its ending says the form. [stdout]")
@click.option("--form", type=click.Choice(FORMS), help="The form, where no file's ending says it. [svg]")
@click.option("--at", "version", type=click.IntRange(min=1), metavar="VERSION", help="A run as it was at this version.")
@click.option("--across/--down", default=False, help="Left to right, or from the top down. [--down]")
@click.option("--depth", type=click.IntRange(min=0), default=DEEPEST, show_default=True, help="Fold deeper blocks.")
@click.option("--theme", type=click.Choice(["auto", "light", "dark"]), default="auto", help="The colours. [auto]")
@click.option("--app", metavar="APP", help="Import this module first: a run's code must be known.")
@options.tenant
@options.store
def draw(
    subject: str,
    target: str | None,
    form: str | None,
    version: int | None,
    across: bool,
    depth: int,
    theme: Theme,
    app: str | None,
    tenant: str,
    store: str | None,
    as_json: bool,
) -> None:
    """Draw the definition in FILE (`-` for stdin), or RUN as it stands or stood: SVG, PNG, JSON or Mermaid."""
    chosen = _form(target, form, as_json)
    direction: Direction = "across" if across else "down"
    if _is_file(subject):
        if version is not None:
            raise click.UsageError("--at is for a run: a file has no past")
        picture = _of_file(subject, direction, depth)
    else:
        picture = _of_run(subject, tenant, store, app, version, direction, depth)
    written = _written(picture, chosen, theme)
    if target is None or target == "-":
        sys.stdout.buffer.write(written)
        sys.stdout.buffer.flush()
        return
    write_file(target, written)
    if as_json:
        output.emit({"file": target, "form": chosen, "width": picture.width, "height": picture.height})
    else:
        output.say(f"{target}: {len(picture.boxes)} boxes, {picture.width} × {picture.height}")


def _form(target: str | None, form: str | None, as_json: bool) -> str:
    """The form that is asked for. Raises UsageError where a file's ending says none."""
    if form is not None:
        return form
    if target is None or target == "-":
        return "json" if as_json else "svg"
    ending = Path(target).suffix.removeprefix(".").lower()
    if ending not in FORMS:
        raise click.UsageError(f"{target!r} ends in none of .svg, .png, .json and .mmd: say --form")
    return ending


def _is_file(subject: str) -> bool:
    return subject == "-" or subject.lower().endswith(_SOURCES) or Path(subject).is_file()


def _of_file(subject: str, direction: Direction, depth: int) -> Picture:
    return draw_definition(as_written(compiled(subject, None)[0]), direction=direction, deepest=depth)


def _of_run(
    run: str, tenant: str, store: str | None, app: str | None, version: int | None, direction: Direction, depth: int
) -> Picture:
    from holdfast.cli.apps import load_app
    from holdfast.client.definitions.pictures import picture_of_run
    from holdfast.store.protocol import Key

    engine = load_app(app) if app else None

    async def work(opened: Holdfast) -> Picture:
        return await picture_of_run(opened, Key(tenant, run), at=version, direction=direction, deepest=depth)

    return session.on_store(session.url_of(store, engine), work)


def _written(picture: Picture, form: str, theme: Theme) -> bytes:
    """The picture as a file. A writer is imported when it is used."""
    match form:
        case "png":
            from holdfast.drawing.writers.png import png_of

            return png_of(picture, theme=theme)
        case "json":
            from holdfast.drawing.writers.json_text import json_of

            return json_of(picture).encode()
        case "mmd":
            from holdfast.drawing.writers.mermaid import mermaid_of

            return mermaid_of(picture).encode()
        case _:
            from holdfast.drawing.writers.svg import svg_of

            return svg_of(picture, theme=theme).encode()
