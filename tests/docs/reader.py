"""A reader who follows a page: saves its files under the names in the text, types its commands, compares the output.

A page's commands share one shell, as in one terminal. ``holdfast worker`` and ``holdfast serve`` run until
Ctrl-C, so they are typed in a second terminal, and stopped before the next one starts.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec

from tests.docs.pages import Block, all_blocks

SECONDS = 90.0
MARK = "<<the command ended with"
PORT = "8420"
"""The port on the pages."""

_VARYING = (
    (r"\bworker [\w.-]+-\d+-[0-9a-f]{8}\b", "worker W"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "TIME"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
    (r"\bis published, [0-9a-f]{12}\b", "is published, HASH"),
    (r"\b(\d+d \d+h|\d+m \d+s|\d+(\.\d+)? (ms|s|seconds|minutes))(?!\w)", "SPAN"),
    (r"\b(sha256[: ])?[0-9a-f]{64}\b", "HASH"),
    (r"\bkey [0-9a-f]{32}\b", "key K"),
    (r"\b\d+ bytes\b", "N bytes"),
    (r"[ \t]+", " "),
)
_ID = re.compile(r"\b(?:[af]-[0-9a-f]{12}|r-[0-9a-f]{12}-\d+-[0-9a-f]{8})\b")
_LOOKS = re.compile(r"holdfast (explain|list|receipts|show|tasks|schedules (list|show))\b")
_FILE = re.compile(r"`([\w./-]+\.(?:py|yaml))`")


class Command(msgspec.Struct, frozen=True):
    """A command line, and the output that the page shows below it."""

    line: str
    output: str

    @property
    def is_refused(self) -> bool:
        return self.output.startswith("error: ")


def commands_of(block: Block) -> Iterator[Command]:
    """The commands of a console block, each with its output."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        line, _, output = part.partition("\n")
        yield Command(line, output)


def file_of(block: Block) -> str:
    """The name under which a reader saves the block: the last file name in the text before it."""
    names = _FILE.findall(block.before)
    assert names, f"line {block.line}: the text does not say which file this is"
    return str(names[-1])


def shape(text: str) -> str:
    """A text without the parts that differ in every run: times, ids, hashes, and the blanks that align them."""
    for pattern, placeholder in ((_ID.pattern, "ID"), *_VARYING):
        text = re.sub(pattern, placeholder, text)
    return "\n".join(line.strip() for line in text.strip().splitlines())


class Reader:
    """Someone with the package installed and an empty folder. Leaving the ``with`` closes their terminals."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._shell = self._open("bash", "--norc", "--noprofile")
        self._worker: subprocess.Popen[str] | None = None
        self._ids: dict[str, str] = {}  # the real id for each id on the page
        self._port = _free_port()

    def _open(self, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command,
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def follow(self, page: Path, failing: tuple[str, ...] = ()) -> int:
        """Follow the page from top to bottom; the number of commands. ``failing`` ones fail the first time."""
        done = 0
        expected_failures = list(failing)
        for block in all_blocks(page):
            if block.why_not is not None or block.kind == "text":
                continue
            if block.kind != "console":
                (self._folder / file_of(block)).write_text(block.text, encoding="utf-8")
                continue
            for command in commands_of(block):
                fails = command.line in expected_failures
                if fails:
                    expected_failures.remove(command.line)
                self._do(command, f"{page.name}:{block.line}: {command.line}", fails or command.is_refused)
                done += 1
        return done

    def _do(self, command: Command, where: str, fails: bool) -> None:
        if re.match(r"holdfast (worker|serve)\b", command.line):
            self._serve(command, where)
            return
        deadline = time.monotonic() + SECONDS
        while True:
            code, output = self._type(command.line)
            assert "Traceback" not in output, f"{where}\n{output}"
            fits = (code != 0) == fails and (not command.output or shape(output) == shape(command.output))
            if fits or not _LOOKS.match(command.line) or time.monotonic() > deadline:
                break  # else look again: the worker may need a moment
        assert (code != 0) == fails, f"{where}: exit code {code}\n{output}"
        if command.output:
            assert shape(output) == shape(command.output), f"{where}\n{output}"
            self._remember_ids(command.output, output)

    def _remember_ids(self, on_page: str, real: str) -> None:
        """A reader types the ids in the real output, not those of the page."""
        self._ids.update(zip(_ID.findall(on_page), _ID.findall(real), strict=True))

    def _type(self, line: str) -> tuple[int, str]:
        typed = _ID.sub(lambda match: self._ids.get(match[0], match[0]), line).replace(PORT, self._port)
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f'{typed}\nprintf "\\n%s %s>>\\n" "{MARK}" $?\n')
        self._shell.stdin.flush()
        output = ""
        for printed in self._shell.stdout:
            if printed.startswith(MARK):
                return int(printed.removeprefix(MARK).rstrip(">\n")), output
            output += printed
        raise AssertionError(f"the shell ended with {line!r}\n{output}")

    def _serve(self, command: Command, where: str) -> None:
        self._stop_serving()
        port = f" --port {self._port}" if command.line.startswith("holdfast serve") else ""
        self._worker = self._open("bash", "-c", f"exec {command.line}{port}")
        first_line = _next_line(self._worker.stdout).replace(self._port, PORT)
        assert shape(first_line) == shape(command.output), f"{where}\n{first_line}"

    def _stop_serving(self) -> None:
        if self._worker is not None:
            self._worker.send_signal(signal.SIGINT)
            output, _ = self._worker.communicate(timeout=SECONDS)
            assert self._worker.returncode == 0, output
            self._worker = None

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.ExitStack() as closing:
            closing.callback(self._close_shell)
            self._stop_serving()

    def _close_shell(self) -> None:
        if self._worker is not None:
            self._worker.kill()
            self._worker.communicate()
        self._shell.communicate("exit\n", timeout=SECONDS)


def _free_port() -> str:
    """A port for the server: other readers may follow the same page at the same time."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return str(found.getsockname()[1])


def _next_line(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline()


def quiet_environment(binaries: Path) -> dict[str, str]:
    """An environment without the checkout and without this session's settings."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "PYTHON", "VIRTUAL"))
    }
    path = f"{binaries}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**kept, "PATH": path, "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8", "PYTHONWARNINGS": "error"}
