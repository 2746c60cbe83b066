"""What a body does to files and threads: what would not replay is refused as it is done, and the rest is not."""

from __future__ import annotations

import importlib
import inspect
import logging
import os
import sys
import threading
import traceback
import zoneinfo
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import BlockedLoop
from holdfast.programs.function.decorators import Workflow, workflow
from holdfast.worker.watchdog import guard
from tests.runs import Run

FOLDER: list[Path] = []


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder outside of every path from which Python takes code."""
    guard()
    FOLDER.append(tmp_path)
    yield tmp_path
    FOLDER.clear()


def body(act: Callable[[], object]) -> Workflow[..., Any]:
    async def flow() -> str:
        act()
        return "done"

    return workflow(name=f"guarded.{act.__name__}")(flow)


def write() -> None:
    Path(FOLDER[0], "out.txt").write_text("once", encoding="utf-8")


def append() -> None:
    with Path(FOLDER[0], "in.txt").open("a", encoding="utf-8") as file:
        file.write("again")


def write_beside_the_code() -> None:
    Path(__file__).with_name("test_guarded_bodies.txt").write_text("once", encoding="utf-8")


def read() -> None:
    Path(FOLDER[0], "in.txt").read_text(encoding="utf-8")


def read_by_descriptor() -> None:
    os.open(FOLDER[0] / "in.txt", os.O_RDONLY)


def thread() -> None:
    threading.Thread(target=print).start()


def swallow() -> None:
    try:
        write()
    except Exception:
        traceback.format_exc()


@pytest.mark.parametrize("act", [write, append, write_beside_the_code, read, read_by_descriptor, thread, swallow])
def test_what_would_not_replay_is_refused_with_its_line(act: Callable[[], None], folder: Path) -> None:
    """Also where the body swallows the refusal. Nothing of it is done."""
    Path(folder, "in.txt").write_text("data", encoding="utf-8")
    with pytest.raises(BlockedLoop, match=rf"{__file__}:\d+\).*@step"):
        Run(body(act)).advance()
    assert [each.name for each in folder.iterdir()] == ["in.txt"]
    assert Path(folder, "in.txt").read_text(encoding="utf-8") == "data"


def import_a_module() -> None:
    """One that reads and writes a file and starts a thread when it is imported, and whose bytecode is written."""
    importlib.import_module("guarded_module")


def import_of_python() -> None:
    sys.modules.pop("this_is_not_loaded", None)
    importlib.reload(importlib.import_module("colorsys"))


def quote_a_trace() -> None:
    try:
        raise ValueError("seen")
    except ValueError:
        assert "raise ValueError" in traceback.format_exc()


def read_own_source() -> None:
    assert "read_own_source" in Path(__file__).read_text(encoding="utf-8")
    assert "read_own_source" in inspect.getsource(read_own_source)


def read_a_zone() -> None:
    zoneinfo.ZoneInfo.no_cache("Europe/Vienna")


def log_to_a_file() -> None:
    handler = logging.FileHandler(FOLDER[0] / "app.log", delay=True, encoding="utf-8")
    log = logging.getLogger("guarded.app")
    log.addHandler(handler)
    log.warning("a line")
    log.removeHandler(handler)
    handler.close()


@pytest.mark.parametrize(
    "act", [import_a_module, import_of_python, quote_a_trace, read_own_source, read_a_zone, log_to_a_file]
)
def test_what_python_does_for_a_body_is_not(
    act: Callable[[], None], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Imports, traces, time zones, logging."""
    data = folder / "data.txt"
    (folder / "modules").mkdir()
    (folder / "modules" / "guarded_module.py").write_text(
        "import pathlib, threading\n"
        f"pathlib.Path({str(data)!r}).write_text('x')\npathlib.Path({str(data)!r}).read_text()\n"
        "thread = threading.Thread(target=int)\nthread.start()\nthread.join()\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(folder / "modules"))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.delitem(sys.modules, "guarded_module", raising=False)
    run = Run(body(act))
    run.advance()
    assert run.result() == "done"
    assert (folder / "app.log").exists() == (act is log_to_a_file)
    assert data.exists() == (act is import_a_module)


def test_a_run_that_began_before_is_warned_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It goes on as it began."""
    for _ in range(2):
        run = Run(body(write), edition=1)
        run.advance()
        assert run.result() == "done"
    [record] = [record for record in caplog.records if record.name == "holdfast.workflow"]
    assert "guarded.write" in record.getMessage()
    assert "to write" in record.getMessage()
