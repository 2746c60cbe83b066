"""A reader who follows a page: saves its files under the names that the text gives, types its commands, compares.

A page's commands share one shell, as in one terminal. ``holdfast worker`` serves until Ctrl-C, so it is typed in a
terminal of its own, and the next worker takes its place.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec

from tests.docs.pages import Block, all_blocks

SECONDS = 30.0
MARK = "<<the command ended with"

_VARYING = (
    (r"\bworker [\w.-]+-\d+-[0-9a-f]{8}\b", "worker W"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "TIME"),
    (r"\b(\d+m \d+s|\d+(\.\d+)? (ms|s|seconds|minutes))(?!\w)", "SPAN"),
    (r"\b(sha256[: ])?[0-9a-f]{64}\b", "HASH"),
    (r"\bkey [0-9a-f]{32}\b", "key K"),
    (r"\b\d+ bytes\b", "N bytes"),
    (r"[ \t]+", " "),
)
_ID = re.compile(r"\b(?:a-[0-9a-f]{12}|r-[0-9a-f]{12}-\d+-[0-9a-f]{8})\b")
_LOOKS = re.compile(r"holdfast (explain|list|receipts|show|tasks)\b")
_FILE = re.compile(r"`([\w./-]+\.(?:py|yaml))`")


class Command(msgspec.Struct, frozen=True):
    """A command line, and what the page shows below it."""

    line: str
    shown: str

    @property
    def is_refused(self) -> bool:
        return self.shown.startswith("error: ")


def commands_of(block: Block) -> Iterator[Command]:
    """The commands of a console block, each with its output."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        line, _, shown = part.partition("\n")
        yield Command(line, shown)


def file_of(block: Block) -> str:
    """The file that the text before a block tells the reader to save it as."""
    named = _FILE.findall(block.before)
    assert named, f"line {block.line}: the text does not say which file this is"
    return str(named[-1])


def shape(text: str) -> str:
    """A text without what differs from one run to the next: times, ids, hashes, and the blanks that align them."""
    for pattern, stead in ((_ID.pattern, "ID"), *_VARYING):
        text = re.sub(pattern, stead, text)
    return "\n".join(line.strip() for line in text.strip().splitlines())


class Reader:
    """Someone with the package installed and an empty folder. Leaving the ``with`` closes their terminals."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._shell = self._open("bash", "--norc", "--noprofile")
        self._worker: subprocess.Popen[str] | None = None
        self._learnt: dict[str, str] = {}

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
        """Do what the page says, from top to bottom. ``failing`` commands end badly the first time."""
        done = 0
        left = list(failing)
        for block in all_blocks(page):
            if block.why_not is not None or block.kind == "text":
                continue
            if block.kind != "console":
                (self._folder / file_of(block)).write_text(block.text, encoding="utf-8")
                continue
            for command in commands_of(block):
                fails = command.line in left
                if fails:
                    left.remove(command.line)
                self._do(command, f"{page.name}:{block.line}: {command.line}", fails or command.is_refused)
                done += 1
        return done

    def _do(self, command: Command, where: str, fails: bool) -> None:
        if re.match(r"holdfast worker\b", command.line):
            self._serve(command, where)
            return
        deadline = time.monotonic() + SECONDS
        while True:
            code, said = self._type(command.line)
            assert "Traceback" not in said, f"{where}\n{said}"
            fits = (code != 0) == fails and (not command.shown or shape(said) == shape(command.shown))
            if fits or not _LOOKS.match(command.line) or time.monotonic() > deadline:
                break  # what a worker does is seen a moment later
        assert (code != 0) == fails, f"{where}: exit code {code}\n{said}"
        if command.shown:
            assert shape(said) == shape(command.shown), f"{where}\n{said}"
            self._learn(command.shown, said)

    def _learn(self, shown: str, said: str) -> None:
        """A reader types the ids that they see, not those of the page."""
        self._learnt.update(zip(_ID.findall(shown), _ID.findall(said), strict=True))

    def _type(self, line: str) -> tuple[int, str]:
        typed = _ID.sub(lambda found: self._learnt.get(found[0], found[0]), line)
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f'{typed}\nprintf "\\n%s %s>>\\n" "{MARK}" $?\n')
        self._shell.stdin.flush()
        said = ""
        for heard in self._shell.stdout:
            if heard.startswith(MARK):
                return int(heard.removeprefix(MARK).rstrip(">\n")), said
            said += heard
        raise AssertionError(f"the shell ended with {line!r}\n{said}")

    def _serve(self, command: Command, where: str) -> None:
        self._stop_serving()
        self._worker = self._open("bash", "-c", f"exec {command.line}")
        said = _next_line(self._worker.stdout)
        assert shape(said) == shape(command.shown), f"{where}\n{said}"

    def _stop_serving(self) -> None:
        if self._worker is not None:
            self._worker.send_signal(signal.SIGINT)
            said, _ = self._worker.communicate(timeout=SECONDS)
            assert self._worker.returncode == 0, said
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


def _next_line(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline()


def quiet_environment(binaries: Path) -> dict[str, str]:
    """Nothing of the checkout, and nothing of this session's settings."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "PYTHON", "VIRTUAL"))
    }
    path = f"{binaries}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**kept, "PATH": path, "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8", "PYTHONWARNINGS": "error"}
