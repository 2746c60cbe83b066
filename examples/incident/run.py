"""Triage an incident under a policy, reverse the change, and prove all of it: ``make incident``.

    python examples/incident/run.py [--crash] [--interactive] [--folder FOLDER]

A service desk runs on a local port, the engine on one SQLite file, and its worker in another process. ``--crash``
kills the worker after the service made the change and before the worker recorded it. ``--interactive`` leaves the
approvals to you, in another terminal.
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

from server import Desk, Server
from worker import HOLDFAST, Worker

from holdfast import SyncHoldfast, SyncRunHandle, Trigger
from holdfast.errors import TaskForbidden
from holdfast.views import TaskInfo

T = TypeVar("T")

PATIENCE_SECONDS = 60.0


class Story:
    """The events of the example in order, with one store and one service."""

    def __init__(self, folder: Path, server: Server, client: SyncHoldfast, *, crash: bool, interactive: bool) -> None:
        self._folder = folder
        self._server = server
        self._client = client
        self._crash = crash
        self._interactive = interactive
        self._url = url_of(folder)

    def play(self, token: str, environment: dict[str, str]) -> None:
        """Run everything from the first request to the proof."""
        log = self._folder / "worker.log"
        run = self._start(token)
        if self._crash:
            self._kill_between_act_and_record(run.id, Worker(log, environment))
        with Worker(log, environment):
            if not self._crash:
                self._approve(run.id)
            print(f"The run is done: {run.result(timeout=PATIENCE_SECONDS)!r}")
            self._show_incident()
            self._reverse(self._show_receipts(run.id))
            self._prove(run.id)

    def _start(self, token: str) -> SyncRunHandle[str]:
        headline("Ann reports INC-7, and the desk's webhook comes twice")
        trigger = Trigger("webhook", "INC-7")
        runs: list[SyncRunHandle[str]] = [
            self._client.start("triage", "INC-7", token, actor="ann", trigger=trigger) for _ in range(2)
        ]
        print(f"There is one run: {', '.join(sorted({run.id for run in runs}))}")
        return runs[0]

    def _approve(self, run: str) -> None:
        """Wait for the task, show it, and approve it as the right person."""
        task = wait_for(lambda: next(self._client.tasks.list(run=run), None), "a task")
        print(f"Task {task.id} asks: {task.summary}")
        print(f"  with    {_shown(task.details['fields'])}")
        print(f"  because {task.details['why']}; {', '.join(task.candidates)} may answer")
        if self._interactive:
            self._leave_it_to_the_reader(task)
            return
        try:
            self._client.tasks.approve(task.id, by="ann")
        except TaskForbidden as error:
            print(f"  ann tries: {error}")
        self._client.tasks.approve(task.id, by="ben", reason="seen on the dashboard")
        print("  ben approves it.")

    def _leave_it_to_the_reader(self, task: TaskInfo) -> None:
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
        headline(f"kill -9 {worker.pid}: the change is made, and it is not recorded")
        print("Another worker starts. It does not know the outcome, so the action's probe looks at the service.")

    def _show_incident(self) -> None:
        incident = self._server.desk.incidents["INC-7"]
        print(f"INC-7 is {incident.fields}; notes {len(incident.notes)}, changes {len(incident.history)}")

    def _show_receipts(self, run: str) -> str:
        """Print the receipts and their costs; gives the id of the update's receipt."""
        headline("The acts, receipt by receipt")
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
        headline(f"Cleo reverses {update}, through the same gate")
        handle_id = self._client.receipts.reverse(update, by="cleo", reason="a false alarm")
        self._approve(handle_id)
        self._client.run(handle_id).result(timeout=PATIENCE_SECONDS)
        self._show_incident()
        print(f"Receipt {update} is reversed by {self._client.receipts.get(update).reversed_by}.")

    def _prove(self, run: str) -> None:
        headline("The proof")
        wait_for(lambda: self._client.run(run).info().evidence_sha256, "the evidence")
        bundle, forged, keys = (str(self._folder / name) for name in ("triage.zip", "forged.zip", "desk.pem"))
        holdfast("keys", "export", "-o", keys, "--store", self._url)
        holdfast("evidence", run, "-o", bundle, "--store", self._url)
        # The check needs only the file and the key: no store, no engine, no network.
        holdfast("verify", bundle, "--key", keys)
        forge(Path(bundle), Path(forged))
        print("\nSomeone writes another name into a copy of it.")
        holdfast("verify", forged, "--key", keys, wanted=1)


def _shown(fields: dict[str, Any]) -> Any:
    """The arguments of an action; of a reversal, the change that it reverses."""
    return fields["receipt"]["result"] if "receipt" in fields else fields


def forge(bundle: Path, forged: Path) -> None:
    """A copy with another approver's name. The zip itself is valid, with right checksums."""
    with zipfile.ZipFile(bundle) as archive:
        entries = archive.read("entries.jsonl")
    other, count = re.subn(rb'(\\"who\\":\\")\w', rb"\1X", entries)
    if count == 0:
        raise SystemExit("nobody's name is in the evidence")
    old, new = (zlib.crc32(each).to_bytes(4, "little") for each in (entries, other))
    forged.write_bytes(bundle.read_bytes().replace(entries, other).replace(old, new))


def holdfast(*arguments: str, wanted: int = 0) -> None:
    """Print and run a command in another process; its exit code must be ``wanted``."""
    print(f"\n$ holdfast {' '.join(arguments)}", flush=True)
    done = subprocess.run([*HOLDFAST, *arguments], check=False)
    if done.returncode != wanted:
        raise SystemExit(f"the exit code is {done.returncode}, and not {wanted}")


def wait_for(condition: Callable[[], T | None], what: str, seconds: float | None = PATIENCE_SECONDS) -> T:
    """Wait until the condition gives a value that is true."""
    began = time.monotonic()
    while not (value := condition()):
        if seconds is not None and time.monotonic() - began > seconds:
            raise SystemExit(f"waited too long for {what}")
        time.sleep(0.05)
    return value


def headline(title: str) -> None:
    print(f"\n— {title}.", flush=True)


def url_of(folder: Path) -> str:
    return f"sqlite:///{folder.resolve() / 'incident.db'}"


def play(folder: Path, *, crash: bool, interactive: bool) -> None:
    """Play the whole story in an empty folder."""
    token, own = (secrets.token_hex(16) for _ in range(2))
    desk = Desk({token: "ann", own: "holdfast"}, folder / "requests.jsonl")
    with Server(desk) as server:
        environment = {"HOLDFAST_STORE": url_of(folder), "INCIDENT_DESK": server.address, "INCIDENT_TOKEN": own}
        with SyncHoldfast(url_of(folder), worker=False) as client:
            Story(folder, server, client, crash=crash, interactive=interactive).play(token, environment)


def main() -> None:
    """Read the options, and play the story in the folder that they name or in a temporary one."""
    parser = argparse.ArgumentParser(description="Triage an incident under a policy, reverse the change, and prove it.")
    parser.add_argument("--crash", action="store_true", help="kill the worker between the act and its record")
    parser.add_argument("--interactive", action="store_true", help="leave the approvals to you")
    parser.add_argument("--folder", type=Path, help="keep everything there (an empty folder)")
    options = parser.parse_args()
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
        play(options.folder, crash=options.crash, interactive=options.interactive)
        return
    with tempfile.TemporaryDirectory() as folder:
        play(Path(folder), crash=options.crash, interactive=options.interactive)


if __name__ == "__main__":
    main()
