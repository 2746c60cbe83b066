"""Sends events: to this session, to one that it invoked or was invoked by, or to whom the caller of the step knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from holdfast.programs.machine.charts import chart as c
from holdfast.programs.machine.charts import configuration as n
from holdfast.programs.machine.charts.delays import delay_milliseconds
from holdfast.programs.machine.charts.expressions.evaluator import Evaluator
from holdfast.programs.machine.charts.expressions.script import assign
from holdfast.programs.machine.charts.expressions.values import ExpressionFault, stored
from holdfast.programs.machine.charts.work import StepWork

SCXML_TYPES: Final = frozenset({"", "scxml", n.SCXML_PROCESSOR})
_SESSION: Final = "#_scxml_"


class ContentFault(Exception):
    """Content failed with an error event of this name; of a ``<send>``, with its id."""

    def __init__(self, name: str, message: str, sendid: str = "") -> None:
        super().__init__(message)
        self.name = name
        self.sendid = sendid


def session_address(id: str) -> str:
    """The target that reaches a session."""
    return f"{_SESSION}{id}"


def addressed_session(address: str) -> str:
    """The session that an address names."""
    return address.removeprefix(_SESSION)


class Sender:
    """Sends from one session. ``enqueue`` takes what is for its internal queue."""

    def __init__(
        self,
        session: n.ChartSession,
        work: StepWork,
        evaluator: Evaluator,
        enqueue: Callable[[n.ChartEvent], None],
    ) -> None:
        self._session = session
        self._work = work
        self._evaluator = evaluator
        self._enqueue = enqueue
        self.is_cancelled = False  # nobody listens to a session whose parent has left it

    def send(self, content: c.SendContent) -> None:
        """Send what the content says. Raises ContentFault or ExpressionFault, and then nothing was sent."""
        sendid = content.id
        if content.id_location is not None:
            sendid = f"send.{self._work.issue()}"
            assign(self._evaluator, content.id_location, sendid)
        try:
            self._send(content, sendid)
        except ExpressionFault as fault:
            raise ContentFault("error.execution", str(fault), sendid) from fault

    def _send(self, content: c.SendContent, sendid: str) -> None:
        event = n.ChartEvent(
            name=self._text(content.event, content.event_expression),
            data=self._data(content),
            sendid=sendid,
            origin=session_address(self._session.id),
            origintype=n.SCXML_PROCESSOR,
        )
        target = self._text(content.target, content.target_expression)
        type = self._text(content.type, content.type_expression)
        delay_text = self._text(content.delay, content.delay_expression)
        try:
            delay = delay_milliseconds(delay_text) if delay_text else 0
        except ValueError as error:
            raise ExpressionFault(str(error)) from error
        if target == "#_internal" and type in SCXML_TYPES:
            if delay:
                raise ExpressionFault("an event for #_internal has no delay")
            self._enqueue(n.ChartEvent(name=event.name, data=event.data, type="internal", sendid=sendid))
            return
        if type not in SCXML_TYPES and type not in self._work.types:
            raise ExpressionFault(f"nothing is sent by type {type!r}")
        send = self._local(event, target) if type in SCXML_TYPES else n.ChartSend(event=event, target=target, type=type)
        if delay:
            delayed = n.DelayedSend(session=self._session.id, sendid=sendid, send=send)
            self._work.begin_timer(delay, delayed)
        elif not (self.is_cancelled and send.event.session == self._session.parent):
            self._work.sends.append(send)

    def _local(self, event: n.ChartEvent, target: str) -> n.ChartSend:
        """An event for a session of this configuration."""
        own = self._session
        if target in ("", session_address(own.id)):
            return _for(event, own.id)
        if target == "#_parent" and own.parent:
            return _for(event, own.parent, own.invokeid)
        if not target.startswith("#_"):
            raise ExpressionFault(f"{target!r} is no target of SCXML's own processor")
        if target.startswith(_SESSION) and addressed_session(target) in self._work.sessions:
            known = addressed_session(target)
            return _for(event, known, own.invokeid if known == own.parent else "")
        for child in self._work.children(own.id):
            if target == f"#_{child.invokeid}":
                return _for(event, child.id)
        raise ContentFault("error.communication", f"there is no session {target!r}", event.sendid)

    def _text(self, text: str, expression: str | None) -> str:
        if expression is None:
            return text
        value = self._evaluator.evaluate(expression)
        if not isinstance(value, str):
            raise ExpressionFault(f"{expression!r} must give a text, not a {type(value).__name__}")
        return value

    def _data(self, content: c.SendContent) -> Any:
        if content.content is not None:
            value = content.content
            if value.expression is not None:
                return self._evaluator.evaluate(value.expression)
            return stored(value.data, self._work.budget)
        return self.named(content.names, content.params) or None

    def named(self, names: tuple[str, ...], params: tuple[c.ChartParam, ...]) -> dict[str, Any]:
        """The values of locations and parameters by their names. Raises ExpressionFault."""
        found = {name: self._evaluator.evaluate(name) for name in names}
        return found | {param.name: self.param(param) for param in params}

    def param(self, param: c.ChartParam) -> Any:
        """A parameter's value. Raises ExpressionFault."""
        return self._evaluator.evaluate((param.location if param.expression is None else param.expression) or "")


def _for(event: n.ChartEvent, session: str, invokeid: str = "") -> n.ChartSend:
    return n.ChartSend(
        event=n.ChartEvent(
            name=event.name,
            data=event.data,
            sendid=event.sendid,
            origin=event.origin,
            origintype=event.origintype,
            invokeid=invokeid,
            session=session,
        )
    )
