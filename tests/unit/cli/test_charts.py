"""``machines import``: an SCXML chart becomes a Python module with a machine that runs."""

from __future__ import annotations

import json
import runpy
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from holdfast.cli import exits
from holdfast.cli.main import main
from holdfast.testing import machine_engine, run_virtually

CHART = """\
<scxml xmlns="http://www.w3.org/2005/07/scxml" version="1.0" datamodel="python" initial="open" name="ticket">
  <state id="open">
    <onentry><send event="forgotten" delay="30s"/></onentry>
    <transition event="solved" target="closed"/>
    <transition event="forgotten" target="escalated"/>
  </state>
  <state id="escalated"><transition event="solved" target="closed"/></state>
  <final id="closed"/>
</scxml>
"""


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    path = tmp_path / "ticket.scxml"
    path.write_text(CHART)
    return path


def _machine(path: Path, name: str) -> Any:
    return runpy.run_path(str(path))[name]


def test_an_imported_chart_is_a_module_whose_machine_runs(chart: Path, tmp_path: Path) -> None:
    target = tmp_path / "ticket.py"
    found = CliRunner().invoke(main, ["machines", "import", str(chart), "--from", "scxml", "-o", str(target)])
    assert found.exit_code == exits.GOOD, found.output
    assert CHART in target.read_text()
    ticket = _machine(target, "ticket")

    async def main_() -> None:
        async with machine_engine([ticket]) as engine:
            await engine.send(ticket.event("t1"), ticket.event("t2"), ticket.event("t1", "solved"))
            await engine.restart()
            await engine.pass_time(timedelta(seconds=31))
            first, second = await engine.record(ticket, "t1"), await engine.record(ticket, "t2")
            assert first is not None
            assert second is not None
            assert (first.status, second.status) == ("completed", "running")
            state = await engine.state(ticket, "t2")
            assert ticket.configuration(state).active == ("escalated",)

    run_virtually(main_())


def test_an_import_prints_what_it_would_write(chart: Path) -> None:
    found = CliRunner().invoke(main, ["machines", "import", str(chart), "--from", "scxml", "--name", "help-desk"])
    assert found.exit_code == exits.GOOD
    assert "help_desk = machine_of_scxml(SCXML, name='help-desk', file='ticket.scxml')" in found.output


def test_a_check_writes_nothing_and_says_that_all_is_supported(chart: Path) -> None:
    found = CliRunner().invoke(main, ["machines", "import", str(chart), "--from", "scxml", "--check"])
    assert found.exit_code == exits.GOOD
    assert "3 states, all supported: machine ticket" in found.output


def test_a_program_gets_one_object(chart: Path) -> None:
    found = CliRunner().invoke(main, ["machines", "import", str(chart), "--from", "scxml", "--json"])
    shown = json.loads(found.stdout)
    assert (shown["machine"], shown["states"], shown["supported"], shown["notes"]) == ("ticket", 3, True, [])
    assert CHART in shown["module"]


def test_what_is_not_supported_is_said_with_its_line(chart: Path) -> None:
    chart.write_text(CHART.replace('<send event="forgotten"', '<send event="forgotten" type="http://x/http"'))
    found = CliRunner().invoke(main, ["machines", "import", str(chart), "--from", "scxml"])
    assert found.exit_code == exits.NO
    assert f"{chart}:3: " in found.output
    assert "machine_of_scxml" not in found.output


def test_a_faulty_chart_is_refused_with_its_line(chart: Path) -> None:
    chart.write_text(CHART.replace('target="escalated"', 'target="nowhere"'))
    found = CliRunner().invoke(main, ["machines", "import", str(chart), "--from", "scxml"])
    assert found.exit_code != exits.GOOD
    assert f"{chart}:5" in found.output


def test_files_that_a_chart_names_are_part_of_the_module(chart: Path, tmp_path: Path) -> None:
    invoking = CHART.replace('<state id="open">', '<state id="open"><invoke type="scxml" src="inner.scxml"/>')
    chart.write_text(invoking.replace('name="ticket"', 'name="nested"'))
    (tmp_path / "inner.scxml").write_text(CHART.replace("ticket", "inner"))
    target = tmp_path / "ticket.py"
    found = CliRunner().invoke(main, ["machines", "import", str(chart), "--from", "scxml", "-o", str(target)])
    assert found.exit_code == exits.GOOD, found.output
    chart.unlink()
    (tmp_path / "inner.scxml").unlink()
    assert _machine(target, "nested").chart.name == "nested"
