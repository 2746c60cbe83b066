"""A definition in the words of its format: the document that reads as the same definition. What is usual is left out.

The canonical bytes are canonical CBOR of this document. So an absent member means its default, and the defaults of a
format never change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from holdfast.journal.cbor import canonical
from holdfast.programs.definition import model as m
from holdfast.programs.definition.compiler.words import TRANSPORT_WORDS
from holdfast.programs.definition.declared_schedule import ScheduleDeclaration
from holdfast.programs.definition.spans import write_span

Document = dict[str, Any]


def canonical_bytes(definition: m.Definition) -> bytes:
    """The bytes that a definition is kept by."""
    return canonical(write_document(definition))


def digest_of(data: bytes) -> str:
    """The digest of canonical bytes."""
    return hashlib.sha256(data).hexdigest()


def write_document(definition: m.Definition) -> Document:
    """The document of a definition, its members in the order in which people write them."""
    d = definition
    return (
        _without_empty(
            {
                "holdfast": m.FORMAT,
                "name": d.name,
                "version": d.version,
                "title": d.title,
                "description": d.description,
                "language": None if d.language == "cel" else d.language,
                "reference": d.reference,
                "schedule": None if d.schedule is None else _schedule(d.schedule),
                "start": d.start,
                "state": d.state,
                "uses": _without_empty({name: list(getattr(d.uses, name)) for name in d.uses.__struct_fields__}),
                "retries": {name: _retry(retry) for name, retry in d.retries.items()},
                "tasks": {name: _task(task) for name, task in d.tasks.items()},
                "connectors": d.connectors,
                "cleanup_timeout": None if d.cleanup_timeout is None else write_span(d.cleanup_timeout),
            }
        )
        | {"steps": write_nodes(d.steps)}
        | _without_empty({"migrate": dict(d.migrate), "inline": dict(d.inline)})
    )


def write_nodes(nodes: Iterable[m.Node]) -> list[Document]:
    """A list of nodes, each by its name."""
    return [{node.name: write_node(node)} for node in nodes]


def write_node(node: m.Node) -> Document:
    """The body of a node."""
    rest = _without_empty(
        {
            "title": node.title,
            "as": None if node.into is None else ".".join(node.into),
            "retry": _retry(node.retry) if isinstance(node.retry, m.NodeRetry) else node.retry,
            "timeout": None if node.timeout is None else _timeout(node.timeout),
            "undo": None if node.undo is None else _undo(node.undo),
            "needs": list(node.needs),
            "after": list(node.after),
        }
    )
    if node.when is not None:
        rest["when"] = f"={node.when}"
    handlers = {name: getattr(node.on, name) for name in ("success", "failure", "timeout")}
    on = {name: write_nodes(nodes) for name, nodes in handlers.items() if nodes is not None}
    return {**_verb(node.verb), **rest, **({"on": on} if on else {})}


def _verb(verb: m.Verb) -> Document:
    match verb:
        case m.SetVerb(values=values):
            return {"set": {".".join(path): value for path, value in values}}
        case m.CallVerb(kind=kind, name=name, arguments=arguments):
            return {kind: name, **_with(arguments)}
        case m.TransportVerb(verb=word, request=request):
            return {word: request} if word in TRANSPORT_WORDS else {"transport": {word: request}}
        case m.TaskVerb(task=task, arguments=arguments):
            return {"task": task, **_with(arguments)}
        case m.WaitVerb(signal=signal, key=key, match=match):
            return {"wait": signal, **_without_none({"key": key, "match": _condition(match)})}
        case m.SleepVerb(span=span, at=at):
            return {"sleep": {"until": at} if span is None else _span(span)}
        case m.SwitchVerb(cases=cases):
            return {"switch": [_case(case) for case in cases]}
        case m.RepeatVerb():
            return _repeat(verb)
        case m.ForkVerb(branches=branches, join=join):
            found: Document = {"fork": {branch.name: write_nodes(branch.do) for branch in branches}}
            found |= _without_none({"gives": verb.gives})
            return found if join is None else {**found, "join": "any" if join == 1 else join}
        case m.PickVerb(options=options):
            return {"pick": {option.trigger.name: _option(option) for option in options}}
        case m.GraphVerb(nodes=nodes):
            return {"graph": {node.name: write_node(node) for node in nodes}}
        case m.BlockVerb(do=do, let=let):
            return {"do": write_nodes(do), **({"let": let} if let else {})}
        case m.CheckVerb(value=value, schema=schema):
            return {"check": value, "schema": schema}
        case m.RunVerb():
            return {"run": _workflow(verb), **_with(verb.arguments)}
        case m.ContinueVerb():
            return {"continue": _workflow(verb), **_with(verb.arguments), **_without_none({"id": verb.id})}
        case m.SendVerb(to=to, signal=signal, key=key, value=value):
            return {"send": {"to": to, "signal": signal, **_without_none({"key": key, "value": value})}}
        case m.EndVerb(result=result):
            return {"end": result}
        case m.RaiseVerb(code=code, message=message, details=details):
            found = {"code": code, **({"message": message} if message else {}), **_without_none({"details": details})}
            return {"raise": found}
        case m.CompensateVerb(node=node):
            return {"compensate": node}


def _with(arguments: Any) -> Document:
    return {} if arguments == {} else {"with": arguments}


def _case(case: m.Case) -> Document:
    do = write_nodes(case.do)
    return {"else": do} if case.when is None else {"when": f"={case.when}", "do": do}


def _repeat(verb: m.RepeatVerb) -> Document:
    usual = m.RepeatVerb(do=())
    repeat = _without_none(
        {
            "over": verb.over,
            "times": verb.times,
            "while": _condition(verb.while_),
            "until": _condition(verb.until),
            "most": verb.most,
            "item": None if verb.item == usual.item else verb.item,
            "index": None if verb.index == usual.index else verb.index,
            "at_once": verb.at_once,
            "errors": "keep" if verb.keep_errors else None,
        }
    )
    return {"repeat": repeat, "do": write_nodes(verb.do), **_without_none({"gives": verb.gives})}


def _option(option: m.Option) -> Document:
    found = write_node(option.trigger)
    return {**found, "do": write_nodes(option.do)} if option.do else found


def _workflow(verb: m.RunVerb | m.ContinueVerb) -> Any:
    if verb.version is None and not verb.digest:
        return verb.workflow
    return {"name": verb.workflow, **_without_empty({"version": verb.version, "digest": verb.digest})}


def _condition(text: str | None) -> str | None:
    return None if text is None else f"={text}"


def _span(span: m.Span) -> str:
    return span if isinstance(span, str) else write_span(span)


def _timeout(timeout: m.Timeout) -> Any:
    whole = None if timeout.whole is None else _span(timeout.whole)
    if whole is not None and timeout.attempt is None and timeout.at is None:
        return whole
    attempt = None if timeout.attempt is None else _span(timeout.attempt)
    return _without_none({"try": attempt, "all": whole, "at": timeout.at})


def _retry(retry: m.NodeRetry) -> Document:
    return {
        "max": retry.max,
        "first": write_span(retry.first),
        "factor": retry.factor,
        "cap": write_span(retry.cap),
        "jitter": retry.jitter,
        **({"on": list(retry.on)} if retry.on else {}),
    }


def _undo(undo: m.UndoCall) -> Any:
    verb = undo.verb
    if undo.inherits and isinstance(verb, m.CallVerb) and verb.kind == "action":
        return verb.name
    found = _verb(verb)
    return found if undo.inherits or isinstance(verb, m.TransportVerb) else {"with": {}, **found}


def _task(task: m.TaskDeclaration) -> Document:
    due = _without_empty(
        {
            "in": None if task.deadlines.due is None else _span(task.deadlines.due),
            "remind": [_span(span) for span in task.deadlines.remind],
            "escalate": None if task.deadlines.escalate is None else _audience(task.deadlines.escalate),
            "expire": None if task.deadlines.expire is None else _span(task.deadlines.expire),
        }
    )
    checks = [_without_empty({"when": f"={check.when}", "say": check.say, "at": check.at}) for check in task.check]
    return {"title": task.title} | _without_empty(
        {
            "description": task.description,
            "for": _audience(task.audience),
            "show": task.show,
            "form": task.form,
            "check": checks,
            "due": due,
        }
    )


def _schedule(schedule: ScheduleDeclaration) -> Document:
    usual = ScheduleDeclaration()
    found = {name: getattr(schedule, name) for name in schedule.__struct_fields__}
    return {
        name: _span(value) if name in ("every", "catch_up_window", "jitter") else value
        for name, value in found.items()
        if value != getattr(usual, name)
    }


def _audience(audience: m.Audience) -> Document:
    found = {name: getattr(audience, name) for name in audience.__struct_fields__}
    return {name: value if isinstance(value, str) else list(value) for name, value in found.items() if value}


def _without_none(members: Document) -> Document:
    return {name: value for name, value in members.items() if value is not None}


def _without_empty(members: Document) -> Document:
    return {name: value for name, value in members.items() if value is not None and value not in ("", [], {}, ())}
