"""For whom a command acts: ``--token`` or HOLDFAST_TOKEN, or ``--as`` where the tenant has users.

Every command that opens a store has these options. Whoever is named is looked up before the command begins; from then
on the tenant and the name in its options are theirs, and all that it does is judged as theirs. Without any of them the
command is the operator's own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

_TOKEN: Final = "holdfast.token"  # noqa: S105  # where the context keeps it
_USER: Final = "holdfast.user"
_BOUND: Final = "holdfast.bound"

FOR_OPERATORS: Final = frozenset({"backup", "doctor", "init", "migrate", "prune"})
"""Commands that concern all tenants. No user may give them."""


UNBOUND: Final = frozenset({"link", "serve", "worker"})
"""Commands that are about a process of this host, and do nothing in a store as a user would."""


class ActingUser(NamedTuple):
    """A user, by name and tenant, or by a token."""

    who: str
    tenant: str | None


def bindable(command: click.Command, path: str) -> click.Command:
    """The command, with these options where it opens a store; of a group, all its commands."""
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            bindable(each, f"{path} {name}")
        return command
    names = {parameter.name for parameter in command.params}
    if "store" not in names or path in UNBOUND or any("--token" in each.opts for each in command.params):
        return command
    asks = [parameter for parameter in command.params if parameter.name == "who"]
    needs_name = any(parameter.required for parameter in asks)
    for parameter in asks:
        parameter.required = False  # a token says who it is
    command.params += [_token_option()] if asks else [_token_option(), _user_option()]
    command.invoke = partial(_invoke, command.invoke, path, needs_name)  # type: ignore[method-assign]
    return command


def acting(app: Holdfast) -> Holdfast:
    """The engine for whom the present command acts."""
    context = click.get_current_context(silent=True)
    bound: ActingUser | None = None if context is None else context.meta.get(_BOUND)
    return app if bound is None else app.acting_as(bound.who, tenant=bound.tenant)


def _token_option() -> click.Option:
    return click.Option(
        ["--token"],
        envvar="HOLDFAST_TOKEN",
        metavar="TOKEN",
        expose_value=False,
        is_eager=True,
        callback=partial(_keep, _TOKEN),
        help="Act for the user of this token. [HOLDFAST_TOKEN]",
    )


def _user_option() -> click.Option:
    return click.Option(
        ["--as"],
        metavar="NAME",
        expose_value=False,
        callback=partial(_keep, _USER),
        help="Act for this user, where the tenant has users.",
    )


def _keep(place: str, context: click.Context, _: click.Parameter, value: Any) -> None:
    if value is not None:
        context.meta[place] = value


def _invoke(invoke: Callable[[click.Context], Any], path: str, needs_name: bool, context: click.Context) -> Any:
    from holdfast.cli import session

    token, named = context.meta.get(_TOKEN), context.meta.get(_USER)
    if named is None and context.get_parameter_source("who") in (
        ParameterSource.COMMANDLINE,
        ParameterSource.ENVIRONMENT,
    ):
        named = context.params["who"]
    if token is not None and not _is_token(token):
        raise click.UsageError("a token begins with hf_: `holdfast tokens mint` makes one")
    if token is None and named is None:
        if needs_name:
            raise click.MissingParameter(ctx=context, param_hint="'--as'", param_type="option")
        return invoke(context)
    tenant = context.params.get("tenant") or "default"
    asked = ActingUser(named or "", tenant) if token is None else ActingUser(token, None)
    url = session.url_of(context.params.get("store"))
    if token is not None:
        context.meta[_BOUND] = asked
    if _is_there(url):
        found = session.run(_look(url, asked, path))
        if found is not None:
            context.meta[_BOUND] = asked
            _fill(context, found)
    return invoke(context)


def _is_token(text: str) -> bool:
    from holdfast.people.tokens import is_token

    return is_token(text)


def _is_there(url: str) -> bool:
    """Whether there is a database. Some commands need none; those that open it find out for themselves."""
    from holdfast.cli.store.schemas import sqlite_path

    return not url.startswith("sqlite:") or sqlite_path(url).exists()


def _fill(context: click.Context, found: ActingUser) -> None:
    """Put the user's name and tenant where the command looks for them, unless the command line says otherwise."""
    if "who" in context.params and context.get_parameter_source("who") is not ParameterSource.COMMANDLINE:
        context.params["who"] = found.who
    if "tenant" in context.params and context.get_parameter_source("tenant") is ParameterSource.DEFAULT:
        context.params["tenant"] = found.tenant


async def _look(url: str, asked: ActingUser, path: str) -> ActingUser | None:
    """Who that is; None where it is a name and the tenant has no users. Raises NotPermitted and the like."""
    from holdfast.cli import session
    from holdfast.client.people.permission import operating
    from holdfast.people.users import USER

    async with session.opened(url, is_bound=False) as app:
        if asked.tenant is not None and not await app.store.items(USER, 1, tenant=asked.tenant):
            return None
        client = app.acting_as(asked.who, tenant=asked.tenant)
        async with operating(client, "installation.operate" if path in FOR_OPERATORS else "users.see_self"):
            caller = client.caller
        return None if caller is None else ActingUser(caller.user, caller.tenant)
