"""The files in ``deploy/`` are right as far as they can be checked here: what they name exists."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from prometheus_client.registry import Collector

from holdfast import Holdfast
from holdfast.cli.main import main
from holdfast.server.exporter import Exporter
from holdfast.server.route import EVENTS
from holdfast.server.server import Server

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
UNITS = sorted(DEPLOY.glob("*.service"))
BOARD: dict[str, Any] = json.loads((DEPLOY / "grafana.json").read_text(encoding="utf-8"))
COLUMNS = 24
_USED = re.compile(r"\b(holdfast_[a-z_]+)(?:\{([^}]*)\})?")
_GROUPED = re.compile(r"by \(([^)]*)\)")
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}
SCRAPED = {"job", "instance"}
"""Labels that Prometheus adds."""


def exposed() -> dict[str, set[str]]:
    """The names under which a server's metrics are read, each with its labels."""
    found: dict[str, set[str]] = {}
    registry = Server(Holdfast("memory://")).metrics.registry
    collectors: list[Collector] = list(registry._collector_to_names)
    for collector in collectors:
        (family,) = collector.collect()
        labels = {*collector._labelnames}  # type: ignore[attr-defined]  # it has no other way to say so
        for suffix in SUFFIXES[family.type]:
            found[family.name + suffix] = labels | ({"le"} if suffix == "_bucket" else set())
    return found


def expressions() -> list[str]:
    """Every expression that the dashboard or the documentation asks Prometheus."""
    page = (ROOT / "docs" / "observability.md").read_text(encoding="utf-8")
    asked = re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    inside = [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]
    variables = [each["query"] for each in BOARD["templating"]["list"] if each["type"] == "query"]
    return [*inside, *variables, *(line for text in asked for line in text.splitlines() if "holdfast_" in line)]


def test_every_metric_and_label_that_is_asked_for_exists() -> None:
    """A panel of a metric that is gone would be empty for ever, and an alert on one would never fire."""
    names = exposed()
    asked = expressions()
    for text in asked:
        used = _USED.findall(text)
        assert used, text
        labels = set.union(*(names[name] for name, _ in used)) | SCRAPED
        for _, given in used:
            assert {part.partition("=")[0].rstrip("!~") for part in given.split(",") if part} <= labels, text
        for group in _GROUPED.findall(text):
            assert {each.strip() for each in group.split(",")} <= labels, text
    shown = {name for text in asked for name, _ in _USED.findall(text)}
    families = {re.sub(r"_(total|bucket|count|sum)$", "", name) for name in names}
    assert {re.sub(r"_(total|bucket|count|sum)$", "", name) for name in shown} == families


def test_the_dashboard_has_the_shape_of_one() -> None:
    """Ids are unique, panels do not overlap, each asks the chosen source something."""
    assert {"title", "uid", "schemaVersion", "panels", "templating", "time", "refresh"} <= BOARD.keys()
    assert "id" not in BOARD  # it would overwrite another dashboard
    panels = BOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (place["x"] + column, place["y"] + row)
            for column, row in itertools.product(range(place["w"]), range(place["h"]))
        }
        assert max(column for column, _ in cells) < COLUMNS
        assert not taken & cells, panel["title"]
        taken |= cells
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["title"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"]) > 0
    assert {each["name"] for each in BOARD["templating"]["list"]} == {"datasource", "job"}


def started() -> Iterator[tuple[str, list[str]]]:
    """Every start of ``holdfast`` that the files name, without the program's own path."""
    for unit in UNITS:
        (line,) = re.findall(r"^ExecStart=(.*)$", unit.read_text(encoding="utf-8"), re.MULTILINE)
        yield unit.name, shlex.split(line.replace("%i", "1"))[1:]
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    for arguments in re.findall(r"^(?:#   )?CMD (\[\"(?:serve|worker)\".*\])$", text, re.MULTILINE):
        yield "Containerfile", json.loads(arguments)


@pytest.mark.parametrize(("file", "arguments"), list(started()))
def test_what_is_started_exists_with_its_options(file: str, arguments: list[str]) -> None:
    """A unit with a wrong option would be restarted for ever."""
    command = main.get_command(click.Context(main), arguments[0])
    assert command is not None, file
    command.make_context(arguments[0], arguments[1:])


def test_servers_are_reached_where_the_proxy_and_the_probe_look_for_them() -> None:
    """Port, prefix and addresses of the files agree with each other, and the routes that they name exist."""
    starts = dict(started())
    unit, nginx = starts["holdfast-server.service"], (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    port, prefix = unit[unit.index("--port") + 1], unit[unit.index("--root-path") + 1]
    assert f"server 127.0.0.1:{port};" in nginx
    assert f"location {prefix}/ {{" in nginx
    container = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    assert f"EXPOSE {port}" in container
    server = Server(Holdfast("memory://"))
    paths = {route.path for route in (*server.routes, *server.public)}
    assert f"127.0.0.1:{port}/healthz" in container
    assert {"/healthz", "/metrics"} <= paths
    streams = {route.path for route in server.routes if EVENTS in route.media}
    assert streams
    assert all(path.startswith("/v1/events/") for path in streams)
    assert f"location {prefix}/v1/events/ {{" in nginx


def test_the_proxy_waits_longer_than_the_server_does() -> None:
    """Else it would cut off a stream, or a request that waits for its run."""
    nginx = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    streams, others = nginx.partition("location /engine/v1/events/ {")[2].split("location /engine/ {")
    settings = Server(Holdfast("memory://")).settings

    def seconds(block: str) -> int:
        (found,) = re.findall(r"proxy_read_timeout (\d+)s;", block)
        return int(found)

    assert "proxy_buffering off;" in streams
    assert seconds(streams) > settings.stream_seconds
    assert seconds(others) > settings.wait_seconds


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_is_one_for_systemd(unit: Path, tmp_path: Path) -> None:
    """Its programs are replaced by one that exists here: systemd looks for them."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("NOT CHECKED: there is no systemd-analyze here, so the units in deploy/ are not verified")
    text = unit.read_text(encoding="utf-8")
    (program,) = re.findall(r"^ExecStart=(\S+)", text, re.MULTILINE)
    stop, grace = re.findall(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE), re.findall(r"--grace-seconds (\d+)", text)
    assert int(stop[0]) > int(grace[0] if grace else 10)
    copy = tmp_path / unit.name.replace("@", "@1")
    copy.write_text(text.replace(program, sys.executable), encoding="utf-8")
    done = subprocess.run([analyze, "verify", str(copy)], capture_output=True, text=True, timeout=60)
    said = [line for line in (done.stdout + done.stderr).splitlines() if unit.name.split("@")[0].split(".")[0] in line]
    assert said == []


def test_a_worker_exports_what_a_server_does() -> None:
    """One dashboard serves both: a worker without a server lacks nothing but what its requests would be."""
    worker = Exporter(Holdfast("memory://"), None).metrics.registry
    server = Server(Holdfast("memory://")).metrics.registry
    assert {family.name for family in worker.collect()} == {family.name for family in server.collect()}
