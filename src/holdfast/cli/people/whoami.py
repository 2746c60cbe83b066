"""``whoami``: for whom a command would act."""

from __future__ import annotations

import click
import msgspec

from holdfast.cli import options, output, session
from holdfast.client.engine import Holdfast
from holdfast.people.caller import Caller


@click.command()
@click.option("--tenant", envvar="HOLDFAST_TENANT", default="default", metavar="NAME", help="The tenant of --as.")
@options.store
def whoami(tenant: str, store: str | None, as_json: bool) -> None:
    """Say for whom a command would act: the operator, or the user of HOLDFAST_TOKEN, --token or --as."""

    async def work(app: Holdfast) -> Caller | None:
        return await app.whoami()

    del tenant  # it is read where --as is

    caller = session.on_store(session.url_of(store), work)
    if as_json:
        output.emit({"operator": True} if caller is None else {"operator": False, **msgspec.to_builtins(caller)})
    elif caller is None:
        output.say("the operator of this installation: nothing is refused")
    else:
        groups = f", in {', '.join(caller.groups)}" if caller.groups else ""
        scope = f", for {', '.join(caller.scope)} only" if caller.scope else ""
        output.say(f"{caller.user} of tenant {caller.tenant}, level {caller.level}{groups}{scope}")
