"""A definition as the source of a Python program that builds it with ``define`` and ``D``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast.expressions.parser import parse
from holdfast.expressions.syntax import Constant, ListDisplay, MapDisplay, Prefix
from holdfast.programs.definition import model as m
from holdfast.programs.definition.compiler.document import write_document
from holdfast.programs.definition.compiler.words import TRANSPORT_WORDS, VERB_WORDS
from holdfast.programs.definition.dsl import JqText
from holdfast.programs.definition.term_source import source_of

HEADING: Final = "from holdfast.definition import D, define, has, jq, value, when\n\n"

_HEAD: Final = (
    "version",
    "start",
    "state",
    "reference",
    "schedule",
    "cleanup_timeout",
    "title",
    "description",
    "language",
    "uses",
    "migrate",
    "inline",
)
_PLAIN: Final = ("schedule", "start", "state", "connectors", "inline")
"""The parts in which a text with ``=`` is no expression, or one of another definition."""

Document = Mapping[str, Any]


def python_of(definition: m.Definition, name: str = "definition") -> str:
    """The source: ``name`` is the definition when it has been run. Compiling it gives the same definition."""
    document = write_document(definition)
    if definition.language == "jq":
        document = {word: part if word in _PLAIN else _marked(part) for word, part in document.items()}
    lines = [f"define({_arguments(_head(document))})"]
    lines += [f".ask({_quoted(task)}, {_arguments(_asked(body))})" for task, body in document.get("tasks", {}).items()]
    lines += [f".retrying({_quoted(key)}, {_named(body)})" for key, body in document.get("retries", {}).items()]
    connectors = document.get("connectors", {})
    lines += [f".connector({_quoted(key)}, **{body!r})" for key, body in connectors.items()]
    lines += _calls(document["steps"])
    body = "\n".join(f"    {line}" for line in "\n".join(lines).splitlines())
    return f"{HEADING}{name} = (\n{body}\n)\n"


def _head(document: Document) -> list[tuple[str, str]]:
    return [
        ("", _quoted(document["name"])),
        *[(word, _head_source(word, document[word])) for word in _HEAD if word in document],
    ]


def _head_source(word: str, value: Any) -> str:
    return repr(value) if word in _PLAIN else _source(value)


def _arguments(arguments: list[tuple[str, str]]) -> str:
    return ", ".join(f"{name}={text}" if name else text for name, text in arguments)


def _named(members: Document) -> str:
    return _arguments([(name, _source(value)) for name, value in members.items()])


def _asked(task: Document) -> list[tuple[str, str]]:
    found = [("", _source(task["title"])), ("", _source(task.get("form", {})))]
    found += [(word, _source(value)) for word, value in task.get("for", {}).items()]
    found += [(word, _source(task[word])) for word in ("show", "check", "description") if word in task]
    due = task.get("due", {})
    return found + [({"in": "due"}.get(word, word), _source(value)) for word, value in due.items()]


def _calls(nodes: list[dict[str, Any]]) -> list[str]:
    """One call of the builder for each node."""
    return [f".{_call(name, dict(body))}" for node in nodes for name, body in node.items()]


def _lambda(nodes: list[dict[str, Any]]) -> str:
    if not nodes:
        return "lambda d: d"
    return (
        "lambda d: (\n    d\n"
        + "\n".join(f"    {line}" for call in _calls(nodes) for line in call.splitlines())
        + "\n)"
    )


def _call(name: str, body: dict[str, Any]) -> str:
    verb = "repeat" if "repeat" in body else next(word for word in body if word in VERB_WORDS)
    own = {word: body.pop(word) for word in (verb, *VERB_WORDS[verb]) if word in body}
    write = _WRITERS.get(verb)
    options = _options(body)
    if write is not None:
        return write(name, own, options)
    return f"{verb}({_arguments([('', _quoted(name)), ('', _source(own[verb])), *options])})"


def _options(body: Document) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for word, value in body.items():
        if word == "on":
            found += [(f"on_{when}", _lambda(nodes) if nodes else "None") for when, nodes in value.items()]
        else:
            found.append(({"as": "into", "when": "only_if"}.get(word, word), _source(value)))
    return found


def _write_call(name: str, own: Document, options: list[tuple[str, str]]) -> str:
    verb = next(iter(own))
    arguments = own.get("with", {})
    given = [("with_", _source(arguments))] if arguments else []
    return f"{verb}({_arguments([('', _quoted(name)), ('', _source(own[verb])), *given, *options])})"


def _write_wait(name: str, own: Document, options: list[tuple[str, str]]) -> str:
    rest = [(word, _source(own[word])) for word in ("key", "match") if word in own]
    return f"wait({_arguments([('', _quoted(name)), ('', _quoted(own['wait'])), *rest, *options])})"


def _write_sleep(name: str, own: Document, options: list[tuple[str, str]]) -> str:
    span = own["sleep"]
    given = ("until", _source(span["until"])) if isinstance(span, dict) else ("", _source(span))
    return f"sleep({_arguments([('', _quoted(name)), given, *options])})"


def _write_continue(name: str, own: Document, options: list[tuple[str, str]]) -> str:
    given = [("", _quoted(name)), ("", _source(own["continue"]))]
    given += [("", _source(own["with"]))] if "with" in own else []
    given += [("id", _source(own["id"]))] if "id" in own else []
    return f"continue_with({_arguments([*given, *options])})"


def _write_send(name: str, own: Document, options: list[tuple[str, str]]) -> str:
    send = own["send"]
    given = [("", _quoted(name)), ("", _source(send["to"])), ("", _quoted(send["signal"]))]
    given += [(word, _source(send[word])) for word in ("value", "key") if word in send]
    return f"send({_arguments([*given, *options])})"


def _write_switch(name: str, own: Document, options: list[tuple[str, str]]) -> str:
    lines = [f"switch({_arguments([('', _quoted(name)), *options])})"]
    for case in own["switch"]:
        if "else" in case:
            lines.append(f".otherwise({_lambda(case['else'])})")
        else:
            lines.append(f".when({_source(case['when'])}, {_lambda(case['do'])})")
    if "else" not in own["switch"][-1]:
        lines.append(".done()")
    return "\n".join(lines)


def _write_repeat(name: str, own: Document, options: list[tuple[str, str]]) -> str:
    repeat = [({"while": "while_"}.get(word, word), _source(value)) for word, value in own["repeat"].items()]
    repeat = [("keep_errors", "True") if word == "errors" else (word, text) for word, text in repeat]
    gives = [("gives", _source(own["gives"]))] if "gives" in own else []
    return f"repeat({_arguments([('', _quoted(name)), ('', _lambda(own['do'])), *repeat, *gives, *options])})"


def _write_fork(name: str, own: Document, options: list[tuple[str, str]]) -> str:
    branches = ", ".join(f"{_quoted(key)}: {_lambda(nodes)}" for key, nodes in own["fork"].items())
    rest = [(word, _source(own[word])) for word in ("join", "gives") if word in own]
    return f"fork({_arguments([('', _quoted(name)), ('', f'{{{branches}}}'), *rest, *options])})"


def _write_pick(name: str, own: Document, options: list[tuple[str, str]]) -> str:
    found = []
    for key, body in own["pick"].items():
        rest = {word: value for word, value in body.items() if word != "do"}
        trigger = f"lambda d: d.{_call(key, rest)}"
        found.append(f"{_quoted(key)}: ({trigger}, {_lambda(body['do']) if 'do' in body else 'None'})")
    return f"pick({_arguments([('', _quoted(name)), ('', '{' + ', '.join(found) + '}'), *options])})"


def _write_graph(name: str, own: Document, options: list[tuple[str, str]]) -> str:
    nodes = [{key: body} for key, body in own["graph"].items()]
    return f"graph({_arguments([('', _quoted(name)), ('', _lambda(nodes)), *options])})"


def _write_block(name: str, own: Document, options: list[tuple[str, str]]) -> str:
    let = [("let", _source(own["let"]))] if "let" in own else []
    return f"block({_arguments([('', _quoted(name)), ('', _lambda(own['do'])), *let, *options])})"


def _write_check(name: str, own: Document, options: list[tuple[str, str]]) -> str:
    given = [("", _source(own["check"])), ("", repr(own["schema"]))]
    return f"check({_arguments([('', _quoted(name)), *given, *options])})"


def _write_raise(name: str, own: Document, options: list[tuple[str, str]]) -> str:
    given = [("", _source(own["raise"]["code"]))]
    given += [(word, _source(own["raise"][word])) for word in ("message", "details") if word in own["raise"]]
    return f"fail({_arguments([('', _quoted(name)), *given, *options])})"


def _write_task(name: str, own: Document, options: list[tuple[str, str]]) -> str:
    given = [("", _quoted(own["task"])), *([("with_", _source(own["with"]))] if "with" in own else [])]
    return f"task({_arguments([('', _quoted(name)), *given, *options])})"


def _write_transport(name: str, own: Document, options: list[tuple[str, str]]) -> str:
    (verb, request), *_ = own["transport"].items()
    return f"transport({_arguments([('', _quoted(name)), ('', _quoted(verb)), ('', _source(request)), *options])})"


_WRITERS: Final = {
    "action": _write_call,
    "check": _write_check,
    "continue": _write_continue,
    "do": _write_block,
    "fork": _write_fork,
    "graph": _write_graph,
    "pick": _write_pick,
    "raise": _write_raise,
    "repeat": _write_repeat,
    "run": _write_call,
    "send": _write_send,
    "sleep": _write_sleep,
    "step": _write_call,
    "switch": _write_switch,
    "task": _write_task,
    "transport": _write_transport,
    "wait": _write_wait,
}
"""What is not written as its verb with a name and one value: ``set``, ``http`` and the like are."""

assert {*TRANSPORT_WORDS, "set", "end", "compensate"} | _WRITERS.keys() == VERB_WORDS.keys()


def _quoted(text: str) -> str:
    return repr(text)


def _marked(value: Any) -> Any:
    """A value with its expressions in jq marked as such."""
    if isinstance(value, str):
        return JqText(value[1:]) if value.startswith("=") and not value.startswith("==") else value
    if isinstance(value, Mapping):
        return {name: _marked(item) for name, item in value.items()}
    return [_marked(item) for item in value] if isinstance(value, list) else value


def _source(value: Any) -> str:
    """A value as Python: expressions are terms."""
    if isinstance(value, JqText):
        return f"jq({str(value)!r})"
    if isinstance(value, str):
        if value.startswith("=="):
            return repr(value[1:])
        return _term(value[1:]) if value.startswith("=") else repr(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name!r}: {_source(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_source(item) for item in value) + "]"
    return repr(value)


def _term(text: str) -> str:
    tree = parse(text)
    source = source_of(tree)
    return f"value({source})" if isinstance(tree, Constant | ListDisplay | MapDisplay | Prefix) else source
