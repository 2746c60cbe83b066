"""Peers: the engines that Holdfast is compared with, their environments under ``.peers/``, and their servers.

A peer that cannot be installed is not an error: the report shows the reason instead of its figures.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / ".peers"
CONTENDERS = Path(__file__).parent / "contenders"

REQUIREMENTS = {
    "dbos": ["dbos"],
    "restate": ["restate-sdk[serde]", "hypercorn", "aiohttp"],
    "absurd": ["absurd-sdk", "absurdctl"],
}
RESTATE_SERVER = "@restatedev/restate-server"


class Contender(NamedTuple):
    """One engine on one store: a line of the table."""

    name: str
    script: str
    environment: str | None  # None for Holdfast, which runs in the environment of this process
    store: str  # sqlite, postgres or restate

    @property
    def python(self) -> str:
        return sys.executable if self.environment is None else str(FOLDER / self.environment / "bin" / "python")

    @property
    def command(self) -> list[str]:
        return [self.python, str(CONTENDERS / self.script)]


HOLDFAST_SQLITE = Contender("Holdfast, SQLite", "with_holdfast.py", None, "sqlite")
HOLDFAST_POSTGRES = Contender("Holdfast, PostgreSQL", "with_holdfast.py", None, "postgres")
RESTATE = Contender("Restate", "with_restate.py", "restate", "restate")
DBOS_SQLITE = Contender("DBOS, SQLite", "with_dbos.py", "dbos", "sqlite")
DBOS_POSTGRES = Contender("DBOS, PostgreSQL", "with_dbos.py", "dbos", "postgres")
ABSURD = Contender("Absurd, PostgreSQL", "with_absurd.py", "absurd", "postgres")

OURS = (HOLDFAST_SQLITE, HOLDFAST_POSTGRES)
DEFINED = (
    Contender("definition, SQLite", "with_definitions.py", None, "sqlite"),
    Contender("definition, PostgreSQL", "with_definitions.py", None, "postgres"),
)
"""W1 as a definition, measured in turn with the functions."""
KEYED = (
    Contender("machine, SQLite", "with_machines.py", None, "sqlite"),
    Contender("machine, PostgreSQL", "with_machines.py", None, "postgres"),
    RESTATE,
)
"""W8: events for keys, by machines and by Restate's virtual objects."""
PEERS = (RESTATE, DBOS_SQLITE, DBOS_POSTGRES, ABSURD)
ALL = OURS + PEERS


def install() -> dict[str, str]:
    """Create the environments that are missing. Returns the reason for each that could not be created, by its name."""
    failed = {}
    for name, packages in REQUIREMENTS.items():
        try:
            _environment(name, packages)
            if name == "restate":
                _restate_server()
        except (OSError, subprocess.CalledProcessError) as error:
            output = getattr(error, "stderr", None) or str(error)
            failed[name] = "could not be installed: " + output.strip().splitlines()[-1]
    return failed


def versions() -> dict[str, str]:
    """The installed versions of the peers."""
    installed = {}
    for name, packages in REQUIREMENTS.items():
        python = FOLDER / name / "bin" / "python"
        if python.exists():
            package = packages[0].split("[")[0]
            code = f"import importlib.metadata as m; print(m.version({package!r}))"
            installed[package] = subprocess.run([python, "-c", code], capture_output=True, text=True).stdout.strip()
    if _restate_binary().exists():
        output = subprocess.run([_restate_binary(), "--version"], capture_output=True, text=True).stdout
        installed["restate-server"] = output.split()[-1]
    return installed


def _environment(name: str, packages: list[str]) -> None:
    folder = FOLDER / name
    done = folder / "installed"
    if done.exists() and done.read_text() == repr(packages):
        return
    shutil.rmtree(folder, ignore_errors=True)
    print(f"installing {', '.join(packages)} …", file=sys.stderr, flush=True)
    _run([sys.executable, "-m", "venv", str(folder)])
    _run([str(folder / "bin" / "pip"), "install", "--quiet", *packages])
    done.write_text(repr(packages))


def _restate_server() -> None:
    if _restate_binary().exists():
        return
    print(f"installing {RESTATE_SERVER} …", file=sys.stderr, flush=True)
    folder = FOLDER / "restate-server"
    folder.mkdir(parents=True, exist_ok=True)
    _run(["npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(folder), RESTATE_SERVER])


def _restate_binary() -> Path:
    # The binary itself, not the script that starts it: a killed script would leave the server behind.
    found = list((FOLDER / "restate-server").glob("node_modules/@restatedev/restate-server-*/bin/restate-server"))
    return found[0] if found else FOLDER / "restate-server" / "missing"


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


def prepare_absurd(url: str) -> None:
    """Create Absurd's schema and queue, with its own tool."""
    tool = str(FOLDER / "absurd" / "bin" / "absurdctl")
    for arguments in (["init"], ["create-queue", "default"]):
        environment = {**os.environ, "ABSURD_DATABASE_URL": url, "PGDATABASE": url}
        subprocess.run([tool, *arguments], check=True, capture_output=True, text=True, env=environment)


@contextmanager
def restate_server(folder: Path) -> Iterator[dict[str, object]]:
    """A new Restate server, single node, with its defaults. Yields the parameters of its contender."""
    ingress, admin, fabric, service = (_free_port() for _ in range(4))
    environment = {
        **os.environ,
        "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{ingress}",
        "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{admin}",
        "RESTATE_BIND_ADDRESS": f"127.0.0.1:{fabric}",
        "RESTATE_BASE_DIR": str(folder / "restate-data"),
        "RUST_LOG": "warn",
    }
    log = (folder / "restate.log").open("w")
    command = [str(_restate_binary()), "--no-logo", "--listen-mode", "tcp"]
    server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
    try:
        _until_healthy(f"http://127.0.0.1:{admin}/health", server, folder / "restate.log")
        _until_healthy(f"http://127.0.0.1:{ingress}/restate/health", server, folder / "restate.log")
        yield {
            "ingress": f"http://127.0.0.1:{ingress}",
            "admin": f"http://127.0.0.1:{admin}",
            "service_port": service,
            "server_pid": server.pid,
            "folder": str(folder),
        }
    finally:
        server.send_signal(signal.SIGKILL)
        server.wait()
        log.close()


def _until_healthy(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        if server.poll() is not None:
            raise RuntimeError(f"restate-server ended: {log.read_text()[-500:]}")
        try:
            with urllib.request.urlopen(url, timeout=1) as answer:
                if answer.status == 200:
                    return
        except OSError:
            pass
        time.sleep(0.05)
    raise RuntimeError(f"restate-server does not answer: {log.read_text()[-500:]}")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
