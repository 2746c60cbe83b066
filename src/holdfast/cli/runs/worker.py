"""``worker APP``: a worker in this process, until a signal stops it.

The first SIGINT or SIGTERM lets steps finish within the grace time and gives the rest back; the second stops at once.
Nothing is lost in either case: another worker does what was not finished. SIGHUP makes it read the files of
the policy and of the secrets' table at once; without both SIGHUP ends the process, as usual.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from holdfast.cli import exits, options, session
from holdfast.cli.apps import load_app
from holdfast.cli.logs import configure, log_options
from holdfast.cli.server.metrics import exporter
from holdfast.cli.server.metrics import metrics as metrics_option
from holdfast.cli.shift import Shift, slack_given
from holdfast.client.definitions.app_definitions import DefinitionsMode
from holdfast.client.engine import Holdfast
from holdfast.gate.policy.keeper import PolicyKeeper
from holdfast.gate.policy.policy import NO_POLICY
from holdfast.worker.options import WorkerOptions


class Queues(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions only
    """``a,b=4``: the queues served, each with its concurrency (the number after the mark, or that of all steps)."""

    name = "queues"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, int | None]:
        if isinstance(value, dict):
            return value
        queues: dict[str, int | None] = {}
        for part in filter(None, (text.strip() for text in str(value).split(","))):
            name, mark, number = part.partition("=")
            if not name or (mark and not (number.isdecimal() and int(number) > 0)):
                self.fail(f"{part!r} is not a queue: write NAME or NAME=4.", param, ctx)
            queues[name] = int(number) if mark else None
        return queues


@click.command()
@click.argument("app", required=False)
@options.definitions
@options.definitions_mode
@click.option("--queues", type=Queues(), metavar="A,B=4", help="Queues to serve; by default those the steps declare.")
@click.option("--concurrency", type=click.IntRange(min=1), metavar="N", help="Steps under way at once.")
@click.option(
    "--payload-limit-bytes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Large arguments and results of steps under way at once.",
)
@click.option(
    "--lease-seconds", type=click.FloatRange(min=0.5), metavar="S", help="How long a silent worker keeps leases."
)
@click.option(
    "--retention-days", type=click.FloatRange(min=0), metavar="D", help="Keep ended runs so long; 0 for ever."
)
@click.option("--grace-seconds", type=click.FloatRange(min=0), metavar="S", help="How long a stop waits for steps.")
@click.option("--cached-cells", type=click.IntRange(min=0), metavar="N", help="Cells of machines kept in memory.")
@click.option(
    "--cached-cell-bytes", type=click.IntRange(min=0), metavar="N", help="How many bytes those cells may take."
)
@click.option(
    "--executor-key",
    "executor_keys",
    type=options.Pair("a key of an executor: write NAME=FILE"),
    multiple=True,
    envvar="HOLDFAST_EXECUTOR_KEYS",
    metavar="NAME=FILE",
    help="The private key of an executor, as PEM; for each one that this worker signs for.",
)
@options.policy
@options.secrets_table
@metrics_option
@options.tracing
@log_options
@options.store
def worker(
    app: str | None,
    definitions: tuple[Path, ...],
    definitions_mode: DefinitionsMode | None,
    queues: dict[str, int | None] | None,
    concurrency: int | None,
    payload_limit_bytes: int | None,
    lease_seconds: float | None,
    retention_days: float | None,
    grace_seconds: float | None,
    cached_cells: int | None,
    cached_cell_bytes: int | None,
    executor_keys: tuple[tuple[str, str], ...],
    policy: str | None,
    secrets_table: str | None,
    metrics: tuple[str, int] | None,
    tracing: bool,
    log_level: str,
    log_format: str | None,
    store: str | None,
    as_json: bool,
) -> int:
    """Run a worker that serves the workflows of APP: module:attribute or file.py:attribute (by default `app`).

    With --definitions APP may be left out. Every worker serves runs of published definitions.
    Stop it with Ctrl-C or SIGTERM: steps may finish first. A second one stops it at once.
    """
    configure(log_level, log_format, as_json=as_json)
    if app is None and not definitions:
        raise click.UsageError("name the APP whose workflows it serves, or give --definitions PATH.")
    engine = engine_of(None if app is None else load_app(app), store, policy, secrets_table, tracing=tracing)
    engine.definitions.give(definitions, definitions_mode)
    given = {
        "payload_limit_bytes": payload_limit_bytes,
        "lease_seconds": lease_seconds,
        "grace_seconds": grace_seconds,
        "cached_cells": cached_cells,
        "cached_cell_bytes": cached_cell_bytes,
        "executor_keys": {**(engine.options.executor_keys or {}), **dict(executor_keys)} or None,
    }
    engine.options = _options(engine.options, queues, concurrency, retention_days, given)
    listener = None if metrics is None else exporter(engine, metrics)
    session.run(Shift(engine, as_json, listener, slack_given(engine)).work())
    return exits.GOOD


def engine_of(
    app: Holdfast | None,
    store: str | None,
    policy: str | None,
    secrets_table: str | None,
    *,
    tracing: bool = False,
) -> Holdfast:
    """The engine to serve: that of the app, if it has one, with the store, policy, table of secrets and wake-ups of the
    command line.

    The command line has precedence over the app, and the app over the environment. Raises InvalidPolicy,
    InvalidSettings, UnsupportedWakeups, ExtraMissing.
    """
    url = session.url_of(store, app)
    engine = Holdfast(url) if app is None else app
    wakeups = session.wakeups_of(app)
    if app is not None and app.url and app.url != url:
        engine = Holdfast(url, workflows=app.workflows.values(), options=app.options, secrets=app.secrets.given)
        engine.policy = app.policy
        engine.adopt(app)
        engine.observation.tracer = app.observation.tracer
    if tracing and engine.observation.tracer is None:
        engine.observation.trace(True)
    if wakeups is not engine.neighbours.wakeups:
        engine.neighbours.use(wakeups)
    if policy is not None and (engine.policy.current is NO_POLICY or _is_typed("policy")):
        engine.policy = PolicyKeeper(policy)
    if secrets_table is not None and (not engine.secrets.has_table or _is_typed("secrets_table")):
        engine.secrets.use_table(secrets_table)
    return engine


def _is_typed(option: str) -> bool:
    """Whether an option is on the command line, and not from the environment."""
    return click.get_current_context().get_parameter_source(option) is click.core.ParameterSource.COMMANDLINE


def _options(
    given: WorkerOptions,
    queues: dict[str, int | None] | None,
    concurrency: int | None,
    retention_days: float | None,
    others: dict[str, Any],
) -> WorkerOptions:
    """The options of the app, with the changes of the command line."""
    changes = {name: value for name, value in others.items() if value is not None}
    if concurrency is not None:
        changes["step_limit"] = concurrency
    if queues is not None:
        limit = concurrency or given.step_limit
        changes["queues"] = {name: number or limit for name, number in queues.items()}
    if retention_days is not None:
        changes["retention_days"] = retention_days or None
    return msgspec.structs.replace(given, **changes)
