"""``worker APP``: a worker in this process, until it is told to stop.

The first SIGINT or SIGTERM lets steps finish within the grace time and hands back the rest; the second stops at once.
Either way nothing is lost: what was not finished is done by another worker. SIGHUP has it look at the policy's file at
once; without a policy it ends the process, as ever.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from typing import Any, NoReturn

import click
import msgspec

from holdfast.cli import exits, options, output, session
from holdfast.cli.apps import load_app
from holdfast.cli.logs import configure
from holdfast.client.engine import Holdfast
from holdfast.gate.policy.keeper import PolicyKeeper
from holdfast.gate.policy.policy import NO_POLICY
from holdfast.programs.function.reversal import REVERSE
from holdfast.worker.worker import Worker, WorkerOptions

_LEVELS = ["debug", "info", "warning", "error"]


class Queues(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions only
    """``a,b=4``: the queues served, each with its concurrency (the number after the mark, or that of all steps)."""

    name = "queues"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, int | None]:
        if isinstance(value, dict):
            return value
        found: dict[str, int | None] = {}
        for part in filter(None, (text.strip() for text in str(value).split(","))):
            name, mark, number = part.partition("=")
            if not name or (mark and not (number.isdecimal() and int(number) > 0)):
                self.fail(f"{part!r} is not a queue: write NAME or NAME=4.", param, ctx)
            found[name] = int(number) if mark else None
        return found


@click.command()
@click.argument("app")
@click.option("--queues", type=Queues(), metavar="A,B=4", help="Queues to serve; by default those the steps declare.")
@click.option("--concurrency", type=click.IntRange(min=1), metavar="N", help="Steps under way at once.")
@click.option(
    "--lease-seconds", type=click.FloatRange(min=0.5), metavar="S", help="How long a silent worker keeps leases."
)
@click.option(
    "--retention-days", type=click.FloatRange(min=0), metavar="D", help="Keep ended runs so long; 0 for ever."
)
@click.option("--grace-seconds", type=click.FloatRange(min=0), metavar="S", help="How long a stop waits for steps.")
@options.policy
@click.option("--log-level", type=click.Choice(_LEVELS), default="info", show_default=True, help="What is logged.")
@options.store
def worker(
    app: str,
    queues: dict[str, int | None] | None,
    concurrency: int | None,
    lease_seconds: float | None,
    retention_days: float | None,
    grace_seconds: float | None,
    policy: str | None,
    log_level: str,
    store: str | None,
    as_json: bool,
) -> int:
    """Run a worker that serves the workflows of APP: module:attribute or file.py:attribute (by default `app`).

    Stop it with Ctrl-C or SIGTERM: steps may finish first. A second one stops it at once.
    """
    configure(log_level, as_json=as_json)
    engine = engine_of(load_app(app), store, policy)
    engine.options = _options(engine.options, queues, concurrency, lease_seconds, retention_days, grace_seconds)
    session.run(_Shift(engine, as_json).work())
    return exits.GOOD


def engine_of(app: Holdfast | None, store: str | None, policy: str | None) -> Holdfast:
    """The engine to serve: the app's own, where it has one, with the store and the policy that were asked for.

    The app's own store and policy yield to the command line, and go before the environment. Raises InvalidPolicy.
    """
    url = session.url_of(store, app)
    engine = Holdfast(url) if app is None else app
    if app is not None and app.url and app.url != url:
        engine = Holdfast(url, workflows=app.workflows.values(), options=app.options)
        engine.policy = app.policy
        engine.catalogue = app.catalogue
    source = click.get_current_context().get_parameter_source("policy")
    own = engine.policy.current is not NO_POLICY
    if policy is not None and (not own or source is click.core.ParameterSource.COMMANDLINE):
        engine.policy = PolicyKeeper(policy)
    return engine


def _options(
    given: WorkerOptions,
    queues: dict[str, int | None] | None,
    concurrency: int | None,
    lease_seconds: float | None,
    retention_days: float | None,
    grace_seconds: float | None,
) -> WorkerOptions:
    """The app's own options, changed by what the command line says."""
    changes: dict[str, Any] = {}
    if concurrency is not None:
        changes["step_limit"] = concurrency
    if queues is not None:
        limit = concurrency or given.step_limit
        changes["queues"] = {name: number or limit for name, number in queues.items()}
    if lease_seconds is not None:
        changes["lease_seconds"] = lease_seconds
    if retention_days is not None:
        changes["retention_days"] = retention_days or None
    if grace_seconds is not None:
        changes["grace_seconds"] = grace_seconds
    return msgspec.structs.replace(given, **changes)


class _Shift:
    """One worker from its start to its stop."""

    def __init__(self, engine: Holdfast, as_json: bool) -> None:
        self._engine = engine
        self._as_json = as_json
        self._stopping = asyncio.Event()

    async def work(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._signalled)
        if self._engine.policy.current is not NO_POLICY:
            loop.add_signal_handler(signal.SIGHUP, self._engine.policy.reload)
        opening = asyncio.create_task(self._engine.open(worker=True))
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait([opening, stopping], return_when=asyncio.FIRST_COMPLETED)
        try:
            if not opening.done():  # told to stop before the store answered
                opening.cancel()
                await asyncio.wait([opening])
                return
            await opening
            self._tell_ready()
            await stopping
        finally:
            stopping.cancel()
            await self._engine.close()
        self._tell("stopped", "stopped")

    def _signalled(self) -> None:
        if self._stopping.is_set():
            self._leave()
        self._stopping.set()
        worker = self._engine.worker
        steps = worker.performer.running if worker is not None and worker.running else 0
        hint = f"finishing {steps} steps, press Ctrl-C again to stop at once"
        self._tell("stopping", hint, steps=steps)

    def _leave(self) -> NoReturn:
        self._tell("stopped at once", "stopped at once; other workers take over what was under way")
        logging.shutdown()
        os._exit(exits.INTERRUPTED)

    def _tell_ready(self) -> None:
        worker = self._engine.worker
        assert isinstance(worker, Worker)
        names = sorted({*self._engine.catalogue.serves().functions} - {REVERSE})  # the engine's own goes without saying
        known = ", ".join(names[:8]) + (", …" if len(names) > 8 else "") if names else "no workflows"
        sentence = f"worker {worker.id} is ready, serving {known}{_from(self._engine.url)}"
        self._tell("ready", sentence, worker=worker.id, workflows=names)

    def _tell(self, event: str, sentence: str, **more: Any) -> None:
        if self._as_json:
            output.emit({"event": event, **more})
        else:
            output.note(sentence)
        sys.stdout.flush()


def _from(url: str) -> str:
    """Which store it is: an app without an engine of its own may be served from another than its author thinks of."""
    if not url.startswith("postgres"):
        return f" from {url}" if url else ""
    from holdfast.store.postgres.connection import shown

    return f" from {shown(url)}"
