"""``serve APP``: the HTTP API and a worker in one process, until a signal stops them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from holdfast.cli import exits, options, session
from holdfast.cli.apps import load_app
from holdfast.cli.logs import configure, log_options
from holdfast.cli.runs.worker import engine_of
from holdfast.cli.server.extra import check_extra
from holdfast.cli.server.metrics import TOKEN
from holdfast.cli.shift import Shift, from_store, slack_given
from holdfast.client.definitions.app_definitions import DefinitionsMode
from holdfast.people.users import USER

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast
    from holdfast.server import Authenticator, OpenIdSettings, Operator, Server
    from holdfast.server.listener import Listener

_NO_USERS = (
    "there are no users yet. Open this link once to become the first:\n  {link}\n"
    "`holdfast users create` and `holdfast tokens mint` make users as well; --no-auth needs none, on this host alone"
)
_OPERATOR = "open this link to become the operator, in a browser on this host:\n  {link}"
_KEPT = "\n  its key is in {key_file}"


@click.command()
@click.argument("app", required=False)
@options.definitions
@options.definitions_mode
@click.option("--host", default="127.0.0.1", show_default=True, metavar="HOST", help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8420, show_default=True, help="The port; 0 is any free.")
@click.option("--root-path", default="", metavar="PREFIX", help="The prefix that a proxy in front takes off.")
@click.option("--no-worker", is_flag=True, help="Only answer requests: other processes advance the runs.")
@click.option("--read-only", is_flag=True, help="Refuse every request that would change something.")
@click.option("--no-auth", is_flag=True, help="Without users: a link with a key makes you the operator, on this host.")
@click.option("--as", "who", default=options.operator, metavar="NAME", help="Who acts, with --no-auth.")
@click.option(
    "--oidc",
    type=click.Path(path_type=Path),
    envvar="HOLDFAST_OIDC",
    metavar="FILE",
    help="Let people log in with OpenID Connect. Environment: HOLDFAST_OIDC.",
)
@click.option(
    "--trusted-header", metavar="NAME", help="The header in which a trusted proxy names the user, of --tenant."
)
@click.option(
    "--trusted-proxy",
    "proxies",
    multiple=True,
    envvar="HOLDFAST_TRUSTED_PROXY",
    metavar="NETWORK",
    help="A proxy whose headers count; may be repeated. Without it this host. Environment: HOLDFAST_TRUSTED_PROXY.",
)
@click.option(
    "--step-up-seconds",
    type=click.FloatRange(0),
    default=900,
    show_default=True,
    help="A login in the console that is older is proved again for keys, users and approvals of tier high; 0: never.",
)
@options.tenant
@options.policy
@options.secrets_table
@options.tracing
@log_options
@options.store
def serve(
    app: str | None,
    definitions: tuple[Path, ...],
    definitions_mode: DefinitionsMode | None,
    host: str,
    port: int,
    root_path: str,
    no_worker: bool,
    read_only: bool,
    no_auth: bool,
    who: str,
    oidc: Path | None,
    trusted_header: str | None,
    proxies: tuple[str, ...],
    step_up_seconds: float,
    tenant: str,
    policy: str | None,
    secrets_table: str | None,
    tracing: bool,
    log_level: str,
    log_format: str | None,
    store: str | None,
    as_json: bool,
) -> int:
    """Serve API and console for the workflows of APP, with a worker: module:attribute or file.py:attribute.

    Without APP it serves what is published and what other workers serve. Requests carry a token (`holdfast tokens`).
    --no-auth needs no users: it prints a link with a key, and anyone who has the key is NAME in TENANT and may do
    everything, from this host (`holdfast link` prints it again). Stop the server with Ctrl-C or SIGTERM: streams end at
    once, requests and steps may finish first. A second one stops it at once.
    """
    configure(log_level, log_format, as_json=as_json)
    check_extra("the server")
    _check_ways(no_auth, oidc, trusted_header, proxies)
    from holdfast.server import Operator, Server, ServerSettings, kept_key
    from holdfast.server.listener import Listener

    engine = engine_of(None if app is None else load_app(app), store, policy, secrets_table, tracing=tracing)
    engine.definitions.give(definitions, definitions_mode)
    operator = None
    if no_auth:
        operator = Operator(engine, who, tenant, key=kept_key(engine.url, port) if port else None)
    ways: list[Authenticator] | None = None if operator is None else [operator]
    if trusted_header is not None:
        ways = _behind(engine, trusted_header, proxies, tenant)
    settings = ServerSettings(read_only=read_only, metrics_token=os.environ.get(TOKEN), step_up_seconds=step_up_seconds)
    if proxies:
        settings = msgspec.structs.replace(settings, trusted_proxies=proxies)
    slack = slack_given(engine, takes_presses=not read_only)
    server = Server(engine, settings=settings, authenticators=ways, openid=_openid(engine, oidc), slack=slack)
    listener = Listener(server, host, port, root_path=root_path)
    session.run(_Service(server, listener, as_json, operator, has_worker=not no_worker, keeps_key=port != 0).work())
    return exits.GOOD


def _check_ways(no_auth: bool, oidc: Path | None, trusted_header: str | None, proxies: tuple[str, ...]) -> None:
    """Raises UsageError where the options about people cannot be used together."""
    if no_auth and (oidc is not None or trusted_header is not None):
        raise click.UsageError("--no-auth asks nobody who they are: leave it, or --oidc and --trusted-header, out")
    if trusted_header is not None and not proxies:
        raise click.UsageError("--trusted-header needs --trusted-proxy: from whom does the header count?")


def _behind(engine: Holdfast, header: str, proxies: tuple[str, ...], tenant: str) -> list[Authenticator]:
    """The ways to be known to a server behind a proxy that names the user."""
    from holdfast.server import BearerTokens, SessionCookies, TrustedHeader

    return [TrustedHeader(engine, header, proxies, tenant), BearerTokens(engine), SessionCookies(engine)]


def _openid(engine: Holdfast, file: Path | None) -> OpenIdSettings | None:
    """The settings of OpenID Connect, whose secret is there: a missing one is noticed now, not by whoever logs in."""
    if file is None:
        return None
    from holdfast.server.openid.settings import read_settings

    found = read_settings(file)
    if found.client_secret is not None:
        session.run(engine.secrets.login_secret(found.client_secret))
    return found


class _Service(Shift):
    """A server, and a worker unless there is to be none."""

    def __init__(
        self,
        server: Server,
        listener: Listener,
        as_json: bool,
        operator: Operator | None,
        *,
        has_worker: bool,
        keeps_key: bool,
    ) -> None:
        super().__init__(server.app, as_json, slack=server.slack)
        self._server = server
        self._listener = listener
        self._has_worker = has_worker
        self._operator = operator
        self._keeps_key = keeps_key  # one for "any free port" would not be found again
        self._has_users = True

    async def open(self) -> None:
        await self.engine.open(worker=self._has_worker)
        await self._server.keep_login_secret()
        self._has_users = bool(await self.engine.store.items(USER, 1))
        await self._listener.start()
        if self.slack is not None:
            self.slack.start(serves=True)

    async def close(self) -> None:
        await self._listener.stop()
        await super().close()

    def write_ready(self) -> None:
        address = self._listener.address
        worker = "with a worker" if self._has_worker else "without a worker"
        more: dict[str, Any] = {"address": address, "worker": self._has_worker, "users": self._has_users}
        words = ""
        if self._operator is not None:
            more["link"] = self._operator.link(address)
            more["key_file"] = self._key_file()
            words = _OPERATOR.format(**more) + (_KEPT.format(**more) if self._keeps_key else "")
        elif not self._has_users and (first := self._first_link()):
            more["first_user"] = first
            words = _NO_USERS.format(link=first)
        self.write("ready", f"serving {address} {worker}{from_store(self.engine.url)}", **more)
        if words and not self.as_json:
            self.write("link", words)

    def _key_file(self) -> str | None:
        """Where the operator's key is kept, for scripts."""
        from holdfast.server.operator_key import key_file

        return str(key_file(self.engine.url, self._listener.port)) if self._keeps_key else None

    def _first_link(self) -> str:
        """The address of the page for the first user, good once."""
        console = self._server.console
        return "" if console is None else f"{self._listener.address}{console.invite()}"
