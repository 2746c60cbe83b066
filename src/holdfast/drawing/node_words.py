"""What a box says of a node: its verb and the essential of it, then what else holds for it. One short line each."""

from __future__ import annotations

import json
from typing import Any, Final

from holdfast.programs.definition import model as m
from holdfast.programs.definition.spans import write_span

WAITS: Final = (m.WaitVerb, m.SleepVerb, m.TaskVerb)
"""Verbs that wait for time, a signal or people."""


def verb_word(verb: m.Verb) -> str:
    """The verb in the word of the format."""
    match verb:
        case m.CallVerb(kind=kind):
            return kind
        case m.TransportVerb(verb=word):
            return word
        case m.BlockVerb():
            return "do"
        case _:
            return type(verb).__name__.removesuffix("Verb").lower()


def essential(verb: m.Verb) -> str:
    """The verb, and the essential of it."""
    comma = "," if isinstance(verb, m.ForkVerb | m.PickVerb) else ""
    return f"{verb_word(verb)}{comma} {_object(verb)}".rstrip()


def _object(verb: m.Verb) -> str:
    match verb:
        case m.SetVerb(values=values):
            return ", ".join(".".join(path) for path, _ in values)
        case m.CallVerb(name=name):
            return name
        case m.TransportVerb(request=request):
            return _request(request)
        case m.TaskVerb(task=task):
            return task
        case m.WaitVerb(signal=signal, key=key):
            return signal if key is None else f"{signal} # {value_text(key)}"
        case m.SleepVerb(span=span, at=at):
            return f"until {value_text(at)}" if span is None else span_text(span)
        case m.RunVerb(workflow=name, version=version) | m.ContinueVerb(workflow=name, version=version):
            return name if version is None else f"{name}@{version}"
        case m.SendVerb(signal=signal, to=to):
            return f"{signal} to {value_text(to)}"
        case m.EndVerb(result=result):
            return "" if result is None else value_text(result)
        case m.RaiseVerb(code=code):
            return value_text(code)
        case m.CheckVerb(value=value):
            return value_text(value)
        case m.CompensateVerb(node=node):
            return node
        case _:
            return _block(verb)


def _block(verb: m.Verb) -> str:
    match verb:
        case m.RepeatVerb():
            return _iterations(verb)
        case m.ForkVerb(branches=branches, join=join):
            return "join all" if join is None else "join any" if join == 1 else f"join {join} of {len(branches)}"
        case m.PickVerb():
            return "the first that comes"
        case m.GraphVerb(nodes=nodes):
            return f"of {len(nodes)}"
        case _:
            return ""


def _iterations(verb: m.RepeatVerb) -> str:
    if verb.over is not None:
        text = f"for {verb.item} in {value_text(verb.over)}"
    elif verb.times is not None:
        text = f"{value_text(verb.times)} times"
    elif verb.while_ is not None:
        text = f"while {verb.while_}"
    else:
        text = f"until {verb.until}"
    return text


def _request(request: Any) -> str:
    """The essential of a transport's request: the connector's operation, or method and address."""
    if not isinstance(request, dict):
        return value_text(request)
    if "call" in request:
        return value_text(request["call"])
    for method in ("get", "post", "put", "patch", "delete", "head", "options"):
        if method in request:
            return f"{method.upper()} {value_text(request[method])}"
    return value_text(request.get("url", next(iter(request.values()), "")))


def extras(node: m.Node) -> list[str]:
    """What else holds for a node: its condition; where its result goes; tries and limits."""
    found = []
    if node.when is not None:
        found.append(f"when {node.when}")
    if isinstance(node.verb, m.WaitVerb) and node.verb.match is not None:
        found.append(f"match {node.verb.match}")
    if isinstance(node.verb, m.RepeatVerb):
        found.append(_bounds(node.verb))
    rest = [
        "" if node.into is None else f"→ {'.'.join(node.into)}",
        "" if node.retry is None else _tries(node.retry),
        "" if node.timeout is None else _limits(node.timeout),
    ]
    found.append(" · ".join(text for text in rest if text))
    return [text for text in found if text]


def _bounds(verb: m.RepeatVerb) -> str:
    """How many iterations there may be, and how many at once."""
    texts = [
        "" if verb.at_once is None else f"{verb.at_once} at once",
        "" if verb.most is None else f"at most {verb.most}",
        "errors are kept" if verb.keep_errors else "",
    ]
    return " · ".join(text for text in texts if text)


def _tries(retry: str | m.NodeRetry) -> str:
    return f"retry {retry}" if isinstance(retry, str) else f"{retry.max} tries"


def _limits(timeout: m.Timeout) -> str:
    if timeout.whole is not None:
        return f"within {span_text(timeout.whole)}"
    if timeout.at is not None:
        return f"until {value_text(timeout.at)}"
    return "" if timeout.attempt is None else f"each within {span_text(timeout.attempt)}"


def span_text(span: m.Span) -> str:
    """A duration, or the expression for one."""
    return write_span(span) if isinstance(span, int) else value_text(span)


def value_text(value: Any) -> str:
    """A value of the format: an expression without its ``=``, a text as it is, anything else as JSON."""
    if isinstance(value, str):
        return value.removeprefix("=")
    if isinstance(value, dict):
        return ", ".join(f"{name}: {value_text(item)}" for name, item in value.items())
    return json.dumps(value, ensure_ascii=False, default=str)
