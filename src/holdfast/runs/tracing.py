"""Traces: which trace a run belongs to, and the ids of its spans. No tracing library is known here.

1. A run that is started inside of a trace keeps that as the attribute ``traceparent``, in the form of W3C Trace
   Context. Its row has it, so every process that takes the run over has it, too. Children and detached runs get it
   with the commit that starts them.
2. A run without that attribute has a trace of its own, whose id follows from its id. Its children share it.
3. A span's id follows from the run, or from the promise and its attempt. So each process knows the ids without asking,
   and an attempt that is reported by two processes is one span.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import weakref
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final, Self

import msgspec

from holdfast.journal.promise import PromiseId
from holdfast.runs.birth import CHILD_MARK
from holdfast.store.protocol import Key, Run

TRACEPARENT: Final = "traceparent"
"""The attribute of a run, and the header of a request."""

_FORM: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED: Final = 0x01
_NOTHING: Final[Mapping[str, str]] = {}

outgoing: ContextVar[str | None] = ContextVar("holdfast-outgoing-trace", default=None)
"""The context that requests of the attempt under way carry; None where nothing is traced."""


class TraceContext(msgspec.Struct, frozen=True, gc=False):
    """A place in a trace: a span, and whether the trace is kept."""

    trace_id: int
    span_id: int
    is_sampled: bool = True

    @classmethod
    def parse(cls, text: str | None) -> Self | None:
        """The context of a ``traceparent``; None where the text is none, as the standard wants it."""
        found = None if text is None else _FORM.fullmatch(text)
        if found is None or found[1] == "ff" or (found[1] == "00" and found[5]):
            return None
        trace_id, span_id = int(found[2], 16), int(found[3], 16)
        return cls(trace_id, span_id, bool(int(found[4], 16) & _SAMPLED)) if trace_id and span_id else None

    def __str__(self) -> str:
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{int(self.is_sampled):02x}"


class RunTrace(msgspec.Struct, frozen=True, gc=False):
    """The place of a run: its own span, and the one above. Where nobody has decided yet whether the trace is kept,
    ``is_sampled`` is None."""

    trace_id: int
    span_id: int
    parent_id: int | None
    is_sampled: bool | None


def trace_of(key: Key, traceparent: str | None, parent: str | None) -> RunTrace:
    """The place of a run, by its attribute and by the run that started it."""
    own, given = run_span_id(key), TraceContext.parse(traceparent)
    if given is not None:
        return RunTrace(given.trace_id, own, given.span_id, given.is_sampled)
    above = None if parent is None else run_span_id(Key(key.tenant, parent))
    return RunTrace(_trace_id(key), own, above, None)


def child_attributes(run: Run) -> Mapping[str, str]:
    """The attributes of a run that this one starts: it belongs to the same trace, below this one's span."""
    given = TraceContext.parse(run.attributes.get(TRACEPARENT)) if run.attributes else None
    if given is None:
        return _NOTHING
    return {TRACEPARENT: str(TraceContext(given.trace_id, run_span_id(run.key), given.is_sampled))}


def run_span_id(key: Key, again: int = 0) -> int:
    """The id of a run's span. ``again`` is the generation of a retried run, which ends more than once."""
    return _number(8, "run", key.tenant, key.run, *([str(again)] if again else []))


def attempt_span_id(what: str, promise: PromiseId, mark: str, generation: int, attempt: int) -> int:
    """The id of an attempt's span. A retried run may make the same attempt of the same promise again."""
    return _number(8, what, str(promise), mark, str(generation), str(attempt))


def _trace_id(key: Key) -> int:
    """The id of the trace of a run that nobody gave one: that of the run from which it descends."""
    return _number(16, "trace", key.tenant, key.run.partition(CHILD_MARK)[0])


def _number(size: int, *parts: str) -> int:
    digest = hashlib.sha256("\0".join(("holdfast", *parts)).encode()).digest()
    return int.from_bytes(digest[:size]) or 1  # zero is no id


# -- requests ----------------------------------------------------------------------------------------------------------


class _Request:
    """The trace of a request, for the task that answers it. Other tasks inherit the variable: it is not theirs."""

    __slots__ = ("_task", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._task: weakref.ref[asyncio.Task[Any]] | None = _reference()

    @property
    def is_here(self) -> bool:
        return self._task is not None and self._task() is asyncio.current_task()


_incoming: ContextVar[_Request | None] = ContextVar("holdfast-incoming-trace", default=None)


def receive_trace(traceparent: str | None) -> None:
    """The present task answers a request with this header: a run that it starts belongs to that trace."""
    _incoming.set(None if TraceContext.parse(traceparent) is None else _Request(str(traceparent)))


def received_trace() -> str | None:
    """The trace of the request that the present task answers."""
    found = _incoming.get()
    return found.text if found is not None and found.is_here else None


def _reference() -> weakref.ref[asyncio.Task[Any]] | None:
    task = asyncio.current_task()
    return None if task is None else weakref.ref(task)
