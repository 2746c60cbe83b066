"""``holdfast worker`` as it is watched: metrics on a port, spans, and a log in JSON, all from one process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx

from holdfast import SyncHoldfast

APP = """
import logging
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from holdfast import Holdfast, step, workflow

provider = TracerProvider()
file = open("spans.jsonl", "a")
write = lambda span: span.to_json(indent=None) + "\\n"
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=file, formatter=write)))
trace.set_tracer_provider(provider)
app = Holdfast("sqlite:///watched.db")


@step
async def add(a: int, b: int) -> int:
    logging.getLogger("shop").info("adding")
    return a + b


@workflow
async def total(number: int) -> int:
    return await add(number, 1)
"""
TRACE = "0af7651916cd43dd8448eb211c80319c"
OPTIONS = ("--metrics", "0", "--tracing", "--log-format", "json", "--json")


def test_a_worker_is_watched_by_its_metrics_its_spans_and_its_log(tmp_path: Path) -> None:
    """A run that another process starts inside a trace is counted, traced there, and named in the step's own line."""
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    command = [sys.executable, "-m", "holdfast", "worker", "app.py", *OPTIONS]
    with (tmp_path / "log").open("w") as log:
        worker = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=log, text=True)
        assert worker.stdout is not None
        try:
            ready = json.loads(worker.stdout.readline())
            with SyncHoldfast(f"sqlite:///{tmp_path / 'watched.db'}", worker=False) as app:
                given = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
                run = app.start("total", 1, id="one", attributes=given)
                assert run.result() == 2
            text = httpx.get(ready["metrics"], trust_env=False).text
        finally:
            worker.send_signal(signal.SIGTERM)
            worker.communicate(timeout=30)
    assert worker.returncode == 0
    assert 'holdfast_runs_total{outcome="completed",workflow="total"} 1.0' in text.splitlines()
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    (line,) = (line for line in lines if line["logger"] == "shop")
    assert (line["message"], line["run"], line["step"], line["trace_id"]) == ("adding", "one", "add", TRACE)
    spans = [json.loads(line) for line in (tmp_path / "spans.jsonl").read_text().splitlines()]
    assert [span["name"] for span in spans] == ["step add", "run total"]
    assert {span["context"]["trace_id"] for span in spans} == {f"0x{TRACE}"}
    assert spans[0]["parent_id"] == spans[1]["context"]["span_id"]


def test_a_worker_that_cannot_trace_says_what_to_install(tmp_path: Path) -> None:
    """The flag is no wish: without the library the start is refused, and says so."""
    (tmp_path / "app.py").write_text("from holdfast import Holdfast\napp = Holdfast('sqlite:///w.db')\n")
    blocked = "import sys; sys.modules['opentelemetry'] = None; from holdfast.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", blocked, "worker", "app.py", "--tracing"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        env=dict(os.environ),
    )
    assert done.returncode != 0
    assert "pip install 'holdfast[otel]'" in done.stderr
