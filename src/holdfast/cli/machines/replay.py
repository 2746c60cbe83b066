"""``machines export|replay``: what was recorded, replayed against new code without a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from holdfast.cli import exits, options, output, session
from holdfast.cli.apps import load_app
from holdfast.cli.machines.manifests import write_report
from holdfast.client.engine import Holdfast
from holdfast.client.machines.recordings import read_recording, replay_recording
from holdfast.programs.machine.kind import Machines


@click.command()
@click.argument("machine")
@click.option("-o", "--output", "target", metavar="FILE", required=True, help="Write it there.")
@options.tenant
@options.store
def export(machine: str, target: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Write the recorded events and cells of a machine into FILE, for `machines replay`.

    It holds events and states as they are: it is as secret as the store.
    """

    async def work(opened: Holdfast) -> bytes:
        return await opened.machines.recording(machine, tenant=tenant)

    data = session.on_store(session.url_of(store), work)
    Path(target).write_bytes(data)
    found = read_recording(data)
    if as_json:
        output.emit({"machine": machine, "file": target, "lanes": len(found.lanes), "cells": len(found.cells)})
    else:
        output.say(f"{len(found.lanes)} lanes and {len(found.cells):,} cells of {machine} are in {target}")


@click.command()
@click.argument("file", type=click.File("rb"))
@click.option("--app", metavar="APP", required=True, help="The code: module:attribute or file.py:attribute.")
@options.as_json
def replay(file: Any, app: str, as_json: bool) -> int:
    """Replay what `machines export` wrote against the code, without a store. Exit 1 where something differs."""
    load_app(app)
    report = session.run(replay_recording(read_recording(file.read()), Machines()))
    if as_json:
        output.emit({**msgspec.json.decode(msgspec.json.encode(report)), "agrees": report.agrees})
    else:
        write_report(report)
    is_seen = not any(each.unseen for each in report.machines)
    return exits.GOOD if report.agrees and is_seen else exits.NO
