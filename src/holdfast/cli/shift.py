"""A shift: a worker, or a server with one, from its start until a signal stops it.

The first SIGINT or SIGTERM lets steps finish within the grace time and gives the rest back; the second stops at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from holdfast.cli import exits, output
from holdfast.client.engine import Holdfast
from holdfast.gate.policy.policy import NO_POLICY
from holdfast.programs.function.reversal import REVERSE
from holdfast.worker.process import tune_process
from holdfast.worker.worker import Worker

if TYPE_CHECKING:
    from holdfast.server.listener import Listener
    from holdfast.slack import Slack


class Shift:
    """One worker from its start to its stop."""

    def __init__(
        self, engine: Holdfast, as_json: bool, exporter: Listener | None = None, slack: Slack | None = None
    ) -> None:
        self.engine = engine
        self._exporter = exporter
        self.slack = slack
        self.as_json = as_json
        self._stopping = asyncio.Event()

    async def work(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._signalled)
        if self.engine.policy.current is not NO_POLICY or self.engine.secrets.has_table:
            loop.add_signal_handler(signal.SIGHUP, self._reload)
        opening = asyncio.create_task(self.open())
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait([opening, stopping], return_when=asyncio.FIRST_COMPLETED)
        try:
            if not opening.done():  # a signal came before the store answered
                opening.cancel()
                await asyncio.wait([opening])
                return
            await opening
            tune_process()
            self.write_ready()
            await stopping
        finally:
            stopping.cancel()
            await self.close()
        self.write("stopped", "stopped")

    async def open(self) -> None:
        """Begin to work."""
        await self.engine.open(worker=True)
        if self._exporter is not None:
            await self._exporter.start()
        if self.slack is not None:
            self.slack.start()

    async def close(self) -> None:
        """End the work; steps may finish first. Whoever watches sees them finish."""
        if self.slack is not None:
            await self.slack.stop()
        await self.engine.close()
        if self._exporter is not None:
            await self._exporter.stop()

    def _reload(self) -> None:
        self.engine.policy.reload()
        self.engine.secrets.reload()

    def _signalled(self) -> None:
        if self._stopping.is_set():
            self._exit_at_once()
        self._stopping.set()
        worker = self.engine.worker
        steps = worker.performer.running if worker is not None and worker.running else 0
        hint = f"finishing {steps} steps, press Ctrl-C again to stop at once"
        self.write("stopping", hint, steps=steps)

    def _exit_at_once(self) -> NoReturn:
        self.write("stopped at once", "stopped at once; other workers take over what was under way")
        logging.shutdown()
        os._exit(exits.INTERRUPTED)

    def write_ready(self) -> None:
        """Say what is served."""
        worker = self.engine.worker
        assert isinstance(worker, Worker)
        functions = {*self.engine.catalogue.serves().functions} - {REVERSE}  # every worker serves the engine's own
        names = [*sorted(functions), *(each.reference for each in self.engine.definitions)]
        known = ", ".join(names[:8]) + (", …" if len(names) > 8 else "") if names else "published definitions"
        sentence = f"worker {worker.id} is ready, serving {known}{from_store(self.engine.url)}{woken_by(self.engine)}"
        metrics = {} if self._exporter is None else {"metrics": f"{self._exporter.address}metrics"}
        sentence += "".join(f", with metrics at {each}" for each in metrics.values())
        self.write("ready", sentence, worker=worker.id, workflows=names, **metrics)

    def write(self, event: str, sentence: str, **more: Any) -> None:
        if self.as_json:
            output.emit({"event": event, **more})
        else:
            output.note(sentence)
        sys.stdout.flush()


def slack_given(engine: Holdfast, *, takes_presses: bool = True) -> Slack | None:
    """Slack as the environment says; None where it says nothing. Raises InvalidSettings, ExtraMissing."""
    if not any(name.startswith("HOLDFAST_SLACK_") for name in os.environ):
        return None
    from holdfast.slack.service import slack_of_environment

    return slack_of_environment(engine, takes_presses=takes_presses)


def woken_by(engine: Holdfast) -> str:
    """The wake-ups, without secrets; nothing for an object that does not describe itself."""
    wakeups = engine.neighbours.wakeups
    return "" if wakeups is None or type(wakeups).__str__ is object.__str__ else f", with wake-ups by {wakeups}"


def from_store(url: str) -> str:
    """The store, without secrets: an app without an engine may be served from another one than its author expects."""
    if not url.startswith("postgres"):
        return f" from {url}" if url else ""
    from holdfast.store.postgres.connection import shown

    return f" from {shown(url)}"
