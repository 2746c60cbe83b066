"""Triage an incident under a policy, take the change back, and prove all of it: ``make incident``.

    python examples/incident/run.py [--crash] [--interactive] [--folder FOLDER]

A service desk runs on a port of this machine, the engine on one SQLite file, its worker in a process of its own.
``--crash`` kills the worker after the change was made and before anyone could write that down. ``--interactive`` leaves
the approvals to you, in another terminal.
"""

from __future__ import annotations

import argparse
import re
import secrets
import subprocess
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import cbor2
from server import Desk, Server
from worker import HOLDFAST, Worker

from holdfast import SyncHoldfast, Trigger
from holdfast.client.sync import SyncRunHandle
from holdfast.errors import TaskForbidden
from holdfast.store.protocol import TaskRow

T = TypeVar("T")

PATIENCE_SECONDS = 60.0


class Story:
    """What happens, in order, on one store and one service."""

    def __init__(self, folder: Path, server: Server, client: SyncHoldfast, *, crash: bool, interactive: bool) -> None:
        self._folder = folder
        self._server = server
        self._client = client
        self._crash = crash
        self._interactive = interactive
        self._url = url_of(folder)

    def tell(self, token: str, environment: dict[str, str]) -> None:
        """From the first request to the proof."""
        words = self._folder / "worker.log"
        run = self._start(token)
        if self._crash:
            self._kill_between_act_and_record(run.id, Worker(words, environment))
        with Worker(words, environment):
            if not self._crash:
                self._approve(run.id)
            print(f"The run is done: {run.result(timeout=PATIENCE_SECONDS)!r}")
            self._show_incident()
            self._reverse(self._show_receipts(run.id))
            self._prove(run.id)

    def _start(self, token: str) -> SyncRunHandle[str]:
        say("Ann reports INC-7, and the desk's webhook comes twice")
        trigger = Trigger("webhook", "INC-7")
        runs: list[SyncRunHandle[str]] = [
            self._client.start("triage", "INC-7", token, actor="ann", trigger=trigger) for _ in range(2)
        ]
        print(f"There is one run: {', '.join(sorted({run.id for run in runs}))}")
        return runs[0]

    def _approve(self, run: str) -> None:
        """Wait for the question, show it, and have it answered by the right person."""
        task = wait_for(lambda: next(self._client.tasks.list(run=run), None), "a task")
        details = cbor2.loads(task.details)
        print(f"TaskRow {task.id} asks: {task.summary}")
        print(f"  with    {_shown(details['fields'])}")
        print(f"  because {details['why']}; {', '.join(task.candidates)} may answer")
        if self._interactive:
            self._leave_it_to_the_reader(task)
            return
        try:
            self._client.tasks.approve(task.id, by="ann")
        except TaskForbidden as error:
            print(f"  ann tries: {error}")
        self._client.tasks.approve(task.id, by="ben", reason="seen on the dashboard")
        print("  ben approves it.")

    def _leave_it_to_the_reader(self, task: TaskRow) -> None:
        print(f"\nIn another terminal:\n\n  export HOLDFAST_STORE={self._url}")
        print(f"  holdfast explain {task.run}\n  holdfast tasks show {task.id}")
        print(f"  holdfast approve {task.id} --as ben\n\nThis one waits …", flush=True)
        wait_for(lambda: self._client.tasks.get(task.id).status != "requested", "an answer", seconds=None)
        print(f"It is {self._client.tasks.get(task.id).status}.")

    def _kill_between_act_and_record(self, run: str, worker: Worker) -> None:
        change_made = self._server.desk.withhold_next_change()
        with worker:
            self._approve(run)
            if not change_made.wait(PATIENCE_SECONDS):
                raise SystemExit("the change was not made")
            worker.kill()
        say(f"kill -9 {worker.pid}: the change is made, and nobody has written that down")
        print("Another worker starts. It cannot know the outcome, so it looks at the service, by the action's probe.")

    def _show_incident(self) -> None:
        incident = self._server.desk.incidents["INC-7"]
        print(f"INC-7 is {incident.fields}; notes {len(incident.notes)}, changes {len(incident.history)}")

    def _show_receipts(self, run: str) -> str:
        """Print the receipts and what they cost; gives the id of the update's."""
        say("What was done, receipt by receipt")
        update, spent = "", 0.0
        for receipt in self._client.receipts.list(run=run):
            cost = float(receipt.cost["amount"]) if receipt.cost else 0.0
            spent += cost
            reversible = f"reversible by {receipt.reverse}" if receipt.reverse else ""
            print(f"  {receipt.id}  {receipt.state:9}  {receipt.action:16} {receipt.target:8} {reversible}".rstrip())
            if receipt.action == "update_incident":
                update = receipt.id
                print(f"    arguments {receipt.arguments}")
        print(f"It cost {spent:.4f} USD.")
        return update

    def _reverse(self, update: str) -> None:
        say(f"Cleo takes {update} back: through the gate, like everything")
        handle_id = self._client.receipts.reverse(update, by="cleo", reason="a false alarm")
        self._approve(handle_id)
        self._client.run(handle_id).result(timeout=PATIENCE_SECONDS)
        self._show_incident()
        print(f"Receipt {update} is reversed by {self._client.receipts.get(update).reversed_by}.")

    def _prove(self, run: str) -> None:
        say("The proof")
        wait_for(lambda: self._client.run(run).info().evidence, "the evidence")
        bundle, forged, keys = (str(self._folder / name) for name in ("triage.zip", "forged.zip", "desk.pem"))
        holdfast("keys", "export", "-o", keys, "--store", self._url)
        holdfast("evidence", run, "-o", bundle, "--store", self._url)
        # From here on nothing but the file and the key is needed: no store, no engine, no network.
        holdfast("verify", bundle, "--key", keys)
        forge(Path(bundle), Path(forged))
        print("\nSomeone writes another name into a copy of it.")
        holdfast("verify", forged, "--key", keys, wanted=1)


def _shown(fields: dict[str, Any]) -> Any:
    """The arguments of an action; of a receipt that is taken back, what it changed."""
    return fields["receipt"]["result"] if "receipt" in fields else fields


def forge(bundle: Path, forged: Path) -> None:
    """A copy in which someone else approved; the zip itself is in order, checksums and all."""
    with zipfile.ZipFile(bundle) as whole:
        entries = whole.read("entries.jsonl")
    other, count = re.subn(rb'(\\"who\\":\\")\w', rb"\1X", entries)
    if count == 0:
        raise SystemExit("nobody's name is in the evidence")
    old, new = (zlib.crc32(each).to_bytes(4, "little") for each in (entries, other))
    forged.write_bytes(bundle.read_bytes().replace(entries, other).replace(old, new))


def holdfast(*arguments: str, wanted: int = 0) -> None:
    """Run a command in a process of its own, shown as it is typed; it must end as wanted."""
    print(f"\n$ holdfast {' '.join(arguments)}", flush=True)
    done = subprocess.run([*HOLDFAST, *arguments], check=False)
    if done.returncode != wanted:
        raise SystemExit(f"it ended with {done.returncode}, and not with {wanted}")


def wait_for(condition: Callable[[], T | None], what: str, seconds: float | None = PATIENCE_SECONDS) -> T:
    """Look until there is something."""
    began = time.monotonic()
    while not (found := condition()):
        if seconds is not None and time.monotonic() - began > seconds:
            raise SystemExit(f"waited too long for {what}")
        time.sleep(0.05)
    return found


def say(title: str) -> None:
    print(f"\n— {title}.", flush=True)


def url_of(folder: Path) -> str:
    return f"sqlite:///{folder.resolve() / 'incident.db'}"


def tell(folder: Path, *, crash: bool, interactive: bool) -> None:
    """The whole story on a fresh folder."""
    token, own = (secrets.token_hex(16) for _ in range(2))
    desk = Desk({token: "ann", own: "holdfast"}, folder / "requests.jsonl")
    with Server(desk) as server:
        environment = {"HOLDFAST_STORE": url_of(folder), "INCIDENT_DESK": server.address, "INCIDENT_TOKEN": own}
        with SyncHoldfast(url_of(folder), worker=False) as client:
            Story(folder, server, client, crash=crash, interactive=interactive).tell(token, environment)


def main() -> None:
    """Read the options, and tell the story in the folder that they name or in one that is thrown away."""
    parser = argparse.ArgumentParser(description="Triage an incident under a policy, take it back, and prove it.")
    parser.add_argument("--crash", action="store_true", help="kill the worker between the act and its record")
    parser.add_argument("--interactive", action="store_true", help="leave the approvals to you")
    parser.add_argument("--folder", type=Path, help="keep everything there (an empty folder)")
    given = parser.parse_args()
    if given.folder is not None:
        given.folder.mkdir(parents=True, exist_ok=True)
        tell(given.folder, crash=given.crash, interactive=given.interactive)
        return
    with tempfile.TemporaryDirectory() as folder:
        tell(Path(folder), crash=given.crash, interactive=given.interactive)


if __name__ == "__main__":
    main()
