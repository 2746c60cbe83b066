"""Fills a form in on a terminal: field by field, with defaults, numbered choices, lists and conditional fields.

What does not fit is asked again. Everything is written to stderr, so that stdout has the answer of the command alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from holdfast.cli.output import visible
from holdfast.client.governance.attachments import type_of
from holdfast.client.views.forms import is_nullable, narrowed, wanted
from holdfast.tasks.fields import Schema, fields_of, is_file, required_of, resolved
from holdfast.tasks.forms import form_problems, holds_in

LEFT_OUT: Final = object()
"""The answer to a field that is not given."""

_TRUE: Final = ("y", "yes", "true", "1")
_FALSE: Final = ("n", "no", "false", "0")

Problems = list[tuple[str, str]]


class FormFiller:
    """Asks for one answer. ``check`` gives the problems of a whole answer that the form itself does not see."""

    def __init__(self, form: Schema, check: Callable[[Any], Problems]) -> None:
        self._form = form
        self._check = check
        self._holds = holds_in(form)
        self._named = {name: form[name] for name in ("$defs", "definitions") if name in form}
        self._asked: set[str] = set()  # the fields of the form that were asked for, answered or left out

    def ask(self) -> Any:
        """The answer, once it fits. Raises Abort where the person gives up."""
        answer = self._value(narrowed(resolved(self._form, self._form), self._form), "the answer", 0)
        while found := self._problems(answer):
            for place, problem in found:
                say(f"{place or 'the answer'}: {problem}")
            answer = self._again(answer, {place.split("/")[1] for place, _ in found if "/" in place})
        return answer

    def _problems(self, answer: Any) -> Problems:
        plain = _without_paths(answer)
        return [
            (place, problem)
            for place, problem in form_problems(self._form, plain) or self._check(plain)
            if not isinstance(_at(answer, place), Path)
        ]

    def _again(self, answer: Any, names: set[str]) -> Any:
        """Ask once more for the fields that do not fit; for all of them where no field is named."""
        if not isinstance(answer, dict) or not names:
            return self._value(narrowed(resolved(self._form, self._form), self._form), "the answer", 0)
        kept = {name: value for name, value in answer.items() if name not in names}
        return self._members(self._form, 0, kept, self._asked - names)

    # -- fields --------------------------------------------------------------------------------------------------------

    def _members(self, schema: Schema, depth: int, given: dict[str, Any], known: set[str]) -> dict[str, Any]:
        """Ask for the members of a group that are not known. An answer may bring further fields, or take some away."""
        answer, asked = dict(given), set(known)
        if not depth:
            self._asked = asked
        while True:
            fields = fields_of(schema, self._form, _without_paths(answer), self._holds)
            name = next((name for name in fields if name not in asked), None)
            if name is None:
                return {name: answer[name] for name in [*fields, *given] if name in answer}
            asked.add(name)
            required = name in required_of(schema, self._form, _without_paths(answer), self._holds)
            value = self._field(name, fields[name], depth, required=required)
            if value is not LEFT_OUT:
                answer[name] = value

    def _field(self, name: str, field: Schema, depth: int, *, required: bool) -> Any:
        if "const" in field:
            return field["const"]
        empty = None if is_nullable(field, self._form) else LEFT_OUT
        chosen = narrowed(field, self._form)
        if help := chosen.get("description") or chosen.get("title"):
            say(str(help), depth)
        if chosen.get("type") == "object" and not required and not _yes(f"Give {name}?", depth, default=False):
            return LEFT_OUT
        value = self._value(chosen, name, depth, required=required, empty=empty)
        return LEFT_OUT if value == [] and not required else value

    def _value(self, field: Schema, name: str, depth: int, *, required: bool = True, empty: Any = LEFT_OUT) -> Any:
        kind = field.get("type")
        if kind == "object" or ("properties" in field and kind is None):
            if depth or name != "the answer":
                say(f"{name}:", depth)
            return self._members(field, depth + (name != "the answer"), {}, set())
        if kind == "array" and "enum" not in field:
            return self._items(field, name, depth)
        return self._scalar(field, name, depth, required=required, empty=empty)

    def _items(self, field: Schema, name: str, depth: int) -> list[Any]:
        items = field.get("items")
        item = narrowed(resolved(items, self._form), self._form) if isinstance(items, dict) else {}
        least, most = field.get("minItems", 0), field.get("maxItems")
        found: list[Any] = []
        while most is None or len(found) < most:
            more = f"Add {'another' if found else 'one'} to {name}?"
            if len(found) >= least and not _yes(more, depth, default=False):
                break
            found.append(self._value(item, f"{name} {len(found) + 1}", depth + 1))
        return found

    def _scalar(self, field: Schema, name: str, depth: int, *, required: bool, empty: Any) -> Any:
        """Ask until the text fits. An empty line means the default, or that it is left out."""
        choices = field["enum"] if isinstance(field.get("enum"), list) else None
        for number, choice in enumerate(choices or (), 1):
            say(f"{number}. {_shown(choice)}", depth + 1)
        optional = "" if required or "default" in field else ", optional"
        label = f"{name} ({_hint(field, choices, self._form)}{optional})"
        while True:
            text = _line(label, depth).strip()
            if not text and "default" in field:
                return field["default"]
            if not text and (not required or empty is None):
                return empty
            value, problem = _read(text, field, choices)
            problem = problem or self._misfit(field, value)
            if not problem:
                return value
            say(problem, depth + 1)

    def _misfit(self, field: Schema, value: Any) -> str:
        if isinstance(value, Path):
            return ""
        return "; ".join(problem for _, problem in form_problems({**self._named, **field}, value))


# -- reading and writing -----------------------------------------------------------------------------------------------


def say(text: str, depth: int = 0) -> None:
    """A line for the person."""
    click.echo("  " * depth + visible(text), err=True)


def _line(label: str, depth: int) -> str:
    given: str = click.prompt("  " * depth + visible(label), default="", show_default=False, err=True)
    return given


def _yes(question: str, depth: int, *, default: bool) -> bool:
    return click.confirm("  " * depth + question, default=default, err=True)


def _hint(field: Schema, choices: list[Any] | None, form: Schema) -> str:
    if choices is None:
        return wanted(field, form)
    usual = f", by default {_shown(field['default'])}" if "default" in field else ""
    return f"1 to {len(choices)}{usual}"


def _read(text: str, field: Schema, choices: list[Any] | None) -> tuple[Any, str]:
    """What a person typed, as the field wants it; or what is wrong with it."""
    if is_file(field):
        return _file(Path(text.removeprefix("@")).expanduser(), field)
    if choices is not None:
        return _chosen(text, choices)
    kind = field.get("type")
    if kind == "string":
        return ("" if text == '""' else text), "" if text else "this is needed"
    if kind == "boolean":
        known = text.lower() in (*_TRUE, *_FALSE)
        return text.lower() in _TRUE, "" if known else "say yes or no"
    try:
        return json.loads(text), ""
    except ValueError:
        wants = {"integer": "a whole number", "number": "a number"}.get(str(kind), "JSON")
        return None, f"this is {wants}, not {text!r}" if text else "this is needed"


def _file(path: Path, field: Schema) -> tuple[Any, str]:
    wants = str(field.get("contentMediaType", ""))
    if not path.is_file():
        return None, f"there is no file {path}"
    kind = type_of(path.name)
    fits = not wants or (kind.startswith(wants[:-1]) if wants.endswith("/*") else kind == wants)
    return path, "" if fits else f"this is a file of type {wants}, and {path.name} is {kind}"


def _chosen(text: str, choices: list[Any]) -> tuple[Any, str]:
    for choice in choices:
        if text == choice or text == _shown(choice):
            return choice, ""
    if text.isdecimal() and 1 <= int(text) <= len(choices):
        return choices[int(text) - 1], ""
    return None, f"choose by number, 1 to {len(choices)}"


def _without_paths(value: Any) -> Any:
    """The answer as a check can read it: files are named by their path as long as they are not sent."""
    if isinstance(value, dict):
        return {name: _without_paths(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_without_paths(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _at(value: Any, place: str) -> Any:
    for part in place.split("/")[1:]:
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (LookupError, ValueError, TypeError):
            return None
    return value


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def summary(answer: Any, depth: int = 1) -> None:
    """The answer for people, before it is sent."""
    if isinstance(answer, dict | list):
        members = answer.items() if isinstance(answer, dict) else enumerate(answer, 1)
        for name, value in members:
            inner = isinstance(value, dict | list) and bool(value)
            say(f"{name}:" if inner else f"{name}: {_plainly(value)}", depth)
            if inner:
                summary(value, depth + 1)
    else:
        say(_plainly(answer), depth)


def _plainly(value: Any) -> str:
    return f"file {value}" if isinstance(value, Path) else _shown(value)
