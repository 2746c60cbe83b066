"""``tasks fill`` asks for a form field by field; ``tasks complete`` takes files; both tell what came of it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.cli.governance import forms
from tests.unit.cli.conftest import Invoke, _invoker, lines
from tests.unit.cli.gate_fixture import asked

ANN = ("--by", "ann", "--group", "claims")
FORM = {
    "type": "object",
    "required": ["decision", "lines"],
    "x-order": ["decision", "amount", "note", "urgent"],
    "properties": {
        "decision": {"enum": "=state.options", "description": "What shall become of it?"},
        "amount": {"type": "integer", "default": 10, "minimum": 1},
        "note": {"type": "string", "title": "For the file"},
        "urgent": {"type": "boolean"},
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "count": {"type": "integer", "default": 1}},
            },
        },
        "scan": {"format": "file", "contentMediaType": "text/plain"},
    },
    "if": {"properties": {"decision": {"const": "reject"}}, "required": ["decision"]},
    "then": {"properties": {"why": {"type": "string", "description": "Tell them."}}, "required": ["why"]},
}
CLAIM: dict[str, Any] = {
    "holdfast": "definition/1",
    "name": "filling.claim",
    "version": 1,
    "state": {"options": {"type": "array", "default": ["approve", "reject"]}},
    "tasks": {
        "look": {
            "title": "Look at the claim",
            "description": "Compare it with the papers.",
            "for": {"groups": ["claims"]},
            "show": {"total": 12},
            "form": FORM,
            "check": [{"when": "=payload.amount > 500", "say": "more than was asked for", "at": "/amount"}],
            "due": {"in": "2h"},
        }
    },
    "steps": [{"ask": {"task": "look", "as": "state.answer"}}, {"done": {"end": "=state.answer"}}],
}


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store in which a run of the definition asks the group claims."""
    url = f"sqlite:///{tmp_path / 'filling.db'}"

    async def fill() -> None:
        async with Holdfast(url, workflows=[]) as app:
            app.definitions.add(CLAIM)
            await app.start("filling.claim", id="one")
            await asked(app, "one")

    asyncio.run(fill())
    return url


@pytest.fixture
def holdfast(url: str, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Commands on that store, with what the test types instead of a terminal."""
    monkeypatch.setattr(forms, "has_terminal", lambda: True)
    return _invoker(url)


@pytest.fixture
def id(url: str) -> str:
    (record,) = lines(_invoker(url)("tasks", "--json"))
    return str(record["id"])


def answer_of(holdfast: Invoke, id: str) -> Any:
    (record,) = lines(holdfast("tasks", "show", id, "--json"))
    return record["answers"][-1]["value"] if record["answers"] else None


def typed(*texts: str) -> str:
    return "".join(f"{text}\n" for text in texts)


def test_a_form_is_shown_with_its_fields_their_help_and_their_conditions(holdfast: Invoke, id: str) -> None:
    text = holdfast("tasks", "show", id).stdout
    for part in (
        "Look at the claim",
        "Compare it with the papers.",
        "one of approve, reject: What shall become of it?",
        "whole number, from 1, by default 10, optional",
        "text, optional: For the file",
        "list, each group of fields",
        "file (text/plain), optional",
        "text, where decision is reject: Tell them.",
        "group claims",
        "due",
        f"holdfast tasks fill {id} --as YOU --group claims\n",
    ):
        assert part in text


def test_the_commands_that_answer_a_form_name_the_group(holdfast: Invoke) -> None:
    """Without it nobody may answer a task that is for a group."""
    assert "--answer JSON --by NAME --group claims`" in holdfast("explain", "one").stdout


def test_a_form_is_filled_in_field_by_field(holdfast: Invoke, id: str, tmp_path: Path) -> None:
    """What does not fit is asked again; a choice brings a further field; nothing else is asked."""
    scan = tmp_path / "scan.txt"
    scan.write_text("it is so")
    text = typed(
        *("3", "2"),  # there is no third choice
        *("x", "0", ""),  # neither a number nor enough; then the default
        *("", "maybe", "yes"),
        *("y", "bread", "2", "y", "salt", "", "n"),
        *("nothing.txt", str(scan)),
        *("", "too late"),  # what is needed cannot be left out
        "yes",
    )
    done = holdfast("tasks", "fill", id, *ANN, input=text)
    assert done.exit_code == 0, done.output
    asked = ("What shall become of it?", "1. approve", "For the file")
    for part in (*asked, "choose by number", "say yes or no", "there is no file"):
        assert part in done.stderr
    assert "answered by ann, completed" in done.stdout
    answer = answer_of(holdfast, id)
    assert answer.pop("scan")["name"] == "scan.txt"
    assert answer == {
        "decision": "reject",
        "amount": 10,
        "urgent": True,
        "lines": [{"name": "bread", "count": 2}, {"name": "salt", "count": 1}],
        "why": "too late",
    }
    to = tmp_path / "back.txt"
    assert "text/plain" in holdfast("tasks", "file", id, "/scan", "-o", str(to)).stdout
    assert to.read_text() == "it is so"


def test_what_the_whole_answer_lacks_is_asked_again_and_a_summary_comes_before_sending(
    holdfast: Invoke, id: str
) -> None:
    text = typed("approve", "600", "", "", "n", "", "20", "yes")
    done = holdfast("tasks", "fill", id, *ANN, input=text)
    assert done.exit_code == 0, done.output
    assert "/amount: more than was asked for" in done.stderr
    assert "Your answer:\n  decision: approve\n  amount: 20\n" in done.stderr
    assert answer_of(holdfast, id) == {"decision": "approve", "amount": 20, "lines": []}


@pytest.mark.parametrize("text", [typed("approve", "", "", "", "n", "", "no"), typed("approve", "")])
def test_who_says_no_or_breaks_off_sends_nothing(holdfast: Invoke, id: str, text: str) -> None:
    """The end of the input is the same as Ctrl-C."""
    done = holdfast("tasks", "fill", id, *ANN, input=text)
    assert done.exit_code == 1
    assert "nothing was sent" in done.stderr
    assert answer_of(holdfast, id) is None


def test_who_may_not_answer_is_told_before_they_fill_anything_in(holdfast: Invoke, id: str) -> None:
    done = holdfast("tasks", "fill", id, "--by", "eve", input="")
    assert done.exit_code != 0
    assert "eve may not answer" in done.stderr
    assert "decision" not in done.stderr
    assert "there is no task" in holdfast("tasks", "fill", "f-none", *ANN, input="").stderr


def test_without_a_terminal_the_command_for_json_is_named(url: str, id: str) -> None:
    for word in ("fill", "complete"):
        done = _invoker(url)("tasks", word, id, *ANN)
        assert done.exit_code == 2
        assert f"tasks complete {id} --answer JSON --by ann" in done.stderr


def test_files_and_whole_answers_come_from_paths(
    holdfast: Invoke, id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text that begins with @ is a path only where the form wants a file."""
    (tmp_path / "scan.txt").write_text("it is so")
    path = tmp_path / "answer.json"
    path.write_text(f'{{"decision": "approve", "note": "@home", "lines": [], "scan": "@{tmp_path / "scan.txt"}"}}')
    missing = holdfast("tasks", "complete", id, "--answer", "@nothing.json", *ANN)
    assert (missing.exit_code, "cannot be read from nothing.json" in missing.stderr) == (2, True)
    bad = holdfast("tasks", "complete", id, "--answer", '{"decision": "approve", "lines": [], "scan": "@no"}', *ANN)
    assert "the file no cannot be read" in bad.stderr
    done = holdfast("tasks", "complete", id, "--answer", f"@{path}", *ANN, "--settle", "1s", "--json")
    (record,) = lines(done)
    assert record["progress"]["id"] == "one"
    assert record["progress"]["at_rest"] is False
    answer = answer_of(holdfast, id)
    assert (answer["note"], answer["scan"]["size"]) == ("@home", 8)
    (written,) = lines(holdfast("tasks", "file", id, "-o", str(tmp_path / "out"), "--json"))
    assert written["name"] == "scan.txt"
    monkeypatch.chdir(tmp_path)
    refused = holdfast("tasks", "file", id)  # under its own name, which is taken here
    assert "there is a file scan.txt here already" in refused.stderr


def test_start_tells_how_the_run_stands_when_it_rests(url: str) -> None:
    """Without a worker it stays queued, and the time is over."""
    holdfast = _invoker(url)
    done = holdfast("start", "filling.nobody", "--id", "two", "--settle", "1s")
    assert "run two is queued, and still moving" in done.stdout
    (record,) = lines(holdfast("start", "filling.nobody", "--id", "two", "--settle", "1s", "--json"))
    assert (record["status"], record["tasks"], record["at_rest"]) == ("queued", [], False)
    assert "give one of them" in holdfast("start", "x", "--wait", "--settle", "1s").stderr


def test_a_real_terminal_asks_and_ctrl_c_sends_nothing(url: str, id: str) -> None:
    """Once through, once broken off: in a pseudo-terminal, with a process of its own."""
    broken = Terminal(url, "tasks", "fill", id, *ANN)
    broken.expect("1 to 2")
    broken.interrupt()
    assert "nothing was sent" in broken.rest()
    assert broken.code() == 1
    whole = Terminal(url, "tasks", "complete", id, *ANN)
    for prompt, text in (
        ("1 to 2", "1\n"),
        ("amount", "\n"),
        ("note", "gr\u00fcn\n"),
        ("urgent", "\n"),
        ("Add one", "n\n"),
        ("scan", "\n"),
        ("Send it?", "yes\n"),
    ):
        whole.expect(prompt)
        whole.type(text)
    assert "answered by ann" in whole.rest()
    assert whole.code() == 0
    assert answer_of(_invoker(url), id) == {"decision": "approve", "amount": 10, "note": "gr\u00fcn", "lines": []}


class Terminal:
    """A command in a pseudo-terminal."""

    def __init__(self, url: str, *args: str) -> None:
        self._leader, follower = pty.openpty()
        environment = {**os.environ, "HOLDFAST_STORE": url, "PYTHONUTF8": "1", "TERM": "dumb", "COLUMNS": "200"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *args],
            stdin=follower,
            stdout=follower,
            stderr=follower,
            env=environment,
            start_new_session=True,
            preexec_fn=_own_terminal,
        )
        os.close(follower)
        self._seen = ""

    def expect(self, text: str) -> None:
        """Wait until this is written."""
        while text not in self._seen:
            assert self._read(), f"it ended with {self._seen!r}"
        self._seen = self._seen.partition(text)[2]

    def type(self, text: str) -> None:
        os.write(self._leader, text.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C until it is heard: Python misses one that comes just before it begins to read a line."""
        for _ in range(6):
            self.type("\x03")
            deadline = time.monotonic() + 5
            while time.monotonic() < deadline:
                if select.select([self._leader], [], [], 0.2)[0] and not self._read():
                    return
                if "nothing was sent" in self._seen:
                    return

    def rest(self) -> str:
        """All that is still written."""
        while self._read():
            pass
        return self._seen

    def code(self) -> int:
        return self._process.wait(60)

    def _read(self) -> bool:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            ready, _, _ = select.select([self._leader], [], [], 1)
            if ready:
                try:
                    data = os.read(self._leader, 4096)
                except OSError:  # the other side is closed
                    return False
                self._seen += data.decode(errors="replace")
                return bool(data)
        self._process.kill()
        self._process.wait()
        raise AssertionError(f"nothing came after {self._seen!r}")


def _own_terminal() -> None:
    """Make the pseudo-terminal the process's own, so that Ctrl-C reaches it as a signal, even where tests ignore it."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
