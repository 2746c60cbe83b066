"""``tasks present``: what an action's probe finds now, beside what a task proposes."""

from __future__ import annotations

import click
import msgspec

from holdfast.cli import options, output, session
from holdfast.cli.output import TableCell
from holdfast.client.engine import Holdfast
from holdfast.client.governance.present import PresentInfo
from holdfast.client.views.values import quoted

WORDS = {
    "done": "It has happened already: the probe found it done.",
    "not done": "It has not happened.",
    "unknown": "Nothing was found out: the probe does not know, or did not answer in time.",
}


@click.command("present")
@click.argument("id")
@click.option("--app", metavar="APP", required=True, help="The code: its action has the probe that looks.")
@click.option("--as", "--by", "who", required=True, metavar="NAME", help="Who looks: only who may approve it may.")
@options.in_group
@options.tenant
@options.store
def compare(
    id: str, app: str, who: str, groups: tuple[str, ...], tenant: str, store: str | None, as_json: bool
) -> None:
    """Let the probe of the action that task ID proposes look what is there now. Nothing is changed or kept."""
    from holdfast.cli.apps import load_app

    engine = load_app(app)

    async def work(opened: Holdfast) -> PresentInfo:
        return await opened.tasks.present(id, by=who, groups=groups, tenant=tenant)

    found = session.on_store(session.url_of(store, engine), work, app=engine)
    if as_json:
        output.emit(msgspec.to_builtins(found))
        return
    output.say(WORDS[found.state])
    if found.state == "done" and found.result is not None:
        output.say(f"  it gave {quoted(found.result)}")
    if found.fields:
        rows = [
            [
                each.name,
                quoted(each.present),
                TableCell(quoted(each.proposed), "bold" if each.differs else "") if each.proposed is not None else "",
            ]
            for each in found.fields
        ]
        output.table(("field", "now", "after it"), rows)
