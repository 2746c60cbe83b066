"""Lines of a log with the run that they are about: of the engine itself, of steps, and of workflows' own code.

A record's facts are ``tenant``, ``run``, ``workflow``, ``step``, ``attempt`` and ``trace_id``, each where it is known.
A step's are known by the context that its code runs in, also in its threads and tasks. The engine's own lines bring
theirs along.
"""

from __future__ import annotations

import json
import logging
import time
from typing import Any

from holdfast.programs.function.loop import durable_loop
from holdfast.runs.birth import CHILD_MARK, id_in
from holdfast.runs.log_records import FACTS
from holdfast.runs.tracing import trace_of
from holdfast.worker.steps.performance import Performance, performance_now


def present_facts() -> dict[str, Any]:
    """What is known of the run to which the present code belongs."""
    if (performance := performance_now()) is not None:
        return _of_attempt(performance)
    if (loop := durable_loop()) is not None:
        key = loop.program.idempotency_key
        return {"tenant": key.partition(CHILD_MARK)[0], "run": id_in(key), "workflow": loop.program.workflow.name}
    return {}


def _of_attempt(performance: Performance) -> dict[str, Any]:
    run, key = performance.run, performance.key
    facts: dict[str, Any] = {"tenant": key.tenant, "run": key.run}
    if run is not None:
        facts["workflow"] = run.workflow
    trace = trace_of(key, performance.traceparent, None)
    facts["step"], facts["attempt"] = performance.step.name, performance.attempt
    facts["trace_id"] = f"{trace.trace_id:032x}"
    return facts


class RunContext(logging.Filter):
    """Gives each record the facts of its run as the attribute ``holdfast``, a dictionary that may be empty.

    Add it to a handler that writes in another thread, or whose formatter is your own.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Every record passes."""
        if not hasattr(record, FACTS):
            setattr(record, FACTS, present_facts())
        return True


class JsonFormatter(logging.Formatter):
    """One JSON object per line: ``time``, ``level``, ``logger``, ``message``, the facts of the run, ``traceback``."""

    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        facts = getattr(record, FACTS, None)
        fields = {
            "time": f"{self.formatTime(record, '%Y-%m-%dT%H:%M:%S')}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **(present_facts() if facts is None else facts),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)
