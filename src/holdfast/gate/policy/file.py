"""The shape of a policy file, and its reader: it gives checked parts, or every problem with its place.

The structs here are the only description. The JSON Schema that is shipped for editors is generated from them, and the
reader checks files by that schema, so the two cannot disagree.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.errors import InvalidPolicy
from holdfast.gate.caps import Caps
from holdfast.gate.policy.expressions import RuleExpression, examine
from holdfast.gate.policy.place import LONGEST, Path, Problem
from holdfast.gate.policy.shape import Schema, misfits
from holdfast.people.names import NAME, is_name, person

if TYPE_CHECKING:
    from holdfast.gate.policy.yaml import Document

SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}

T = TypeVar("T")

Tier = Literal["low", "med", "high"]
Name = Annotated[str, Meta(min_length=1, description="what the rule is called, in decisions and in the audit")]
When = Annotated[
    str | bool,
    Meta(
        description="a CEL expression over action, run, actor and time that is true where the rule holds",
        examples=['action.connector == "slack"'],
    ),
]
Duration = Annotated[
    str,
    Meta(
        pattern=r"^([1-9][0-9]{0,4}[smhdw]){1,5}$",
        description="how long people have to answer; for ever unless it is given",
        examples=["4h", "30m", "7d"],
    ),
]
Person = Annotated[str, Meta(min_length=1, examples=["ann", "oncall-*"])]
Listed = Annotated[str, Meta(pattern=r"^[^/\s]+/[^/\s]+$", examples=["servicenow/incident.*"])]


class Allow(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="effect", tag="allow"):
    """A rule that allows an action."""

    name: Name
    when: When


class Deny(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="effect", tag="deny"):
    """A rule that refuses an action."""

    name: Name
    when: When


class NeedsApproval(
    Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="effect", tag="needs_approval"
):
    """A rule that makes an action wait for people."""

    name: Name
    when: When
    tier: Annotated[Tier, Meta(description="how much is at stake")] = "med"
    two_person: Annotated[bool, Meta(description="whether two people must agree")] = False
    expires_in: Duration | UnsetType = UNSET
    candidates: (
        Annotated[
            list[Person],
            Meta(min_length=1, description="who may answer: names, or patterns with * and ?; anyone unless given"),
        ]
        | UnsetType
    ) = UNSET


Rule = Allow | Deny | NeedsApproval


class PolicyFile(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A policy of Holdfast's gate. The first rule that holds decides; what no rule allows is denied."""

    version: Annotated[Literal[1], Meta(description="the version of this format, which is 1")]
    rules: Annotated[
        list[Rule], Meta(description="the rules; the first that holds decides, and if none holds, the action is denied")
    ]
    allowlist: (
        Annotated[list[Listed], Meta(description="what may be done at all, as connector/operation; all unless given")]
        | UnsetType
    ) = UNSET
    caps: Annotated[Caps, Meta(description="limits on what happens at once, per minute and per run")] = Caps()


class Checked(Struct, frozen=True):
    """A valid file: its content, and its rules' expressions in order."""

    file: PolicyFile
    expressions: list[RuleExpression]


def read(text: str, source: str) -> Checked:
    """The file. Raises InvalidPolicy with every problem that it has."""
    document = _document(text, "it begins with `version: 1` and has `rules:`")
    _fit(document, schema())
    rules = document.data.get("rules") if isinstance(document.data, dict) else None
    expressions = _expressions(document, rules if isinstance(rules, list) else [])
    _cross_check(document, rules if isinstance(rules, list) else [])
    return Checked(_converted(document, PolicyFile, source), expressions)


def read_as(
    text: str, source: str, shape: type[T], check: Callable[[T], Iterable[tuple[Path, str]]], content: str
) -> T:
    """Another YAML file, as its shape; ``check`` gives the problems that no shape can find. Raises InvalidPolicy.

    ``content`` describes the content of such a file, for the message about an empty one.
    """
    document = _document(text, content)
    _fit(document, msgspec.json.schema(shape))
    for path, what in check(_converted(document, shape, source)):
        document.report(path, what)
    return _converted(document, shape, source)


def seconds_of(duration: str) -> int:
    """The length of a duration such as ``4h`` or ``1d12h``."""
    return sum(int(number) * SECONDS[unit] for number, unit in re.findall(r"(?<!\d)(\d+)([smhdw])", duration))


def text_of(data: bytes, source: str) -> str:
    """A file's bytes as text. Raises InvalidPolicy."""
    if len(data) > LONGEST:
        raise InvalidPolicy(source, [(0, 0, f"the file has {len(data)} bytes, and the limit is {LONGEST}")])
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidPolicy(source, [(line, 1, "the file is not UTF-8: save it as UTF-8")]) from error


@functools.cache
def schema() -> Schema:
    """The JSON Schema of a policy file, as it is shipped."""
    loaded: Schema = json.loads(schema_text())
    return loaded


def schema_text() -> str:
    from importlib.resources import files  # loads the libraries of archives: who judges does not need it

    return (files("holdfast.gate") / "policy.schema.json").read_text(encoding="utf-8")


def make_schema() -> dict[str, Any]:
    """The content that ``policy.schema.json`` must have."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Holdfast policy"}
    return {**head, **msgspec.json.schema(PolicyFile)}


def _document(text: str, content: str) -> Document:
    from holdfast.gate.policy.yaml import Document  # YAML is loaded only where a file is read

    document = Document(text)
    if document.data is None and not document.problems:
        document.report((), f"the file is empty: {content}")
    return document


def _fit(document: Document, shape: Schema) -> None:
    if document.data is not None:
        for misfit in misfits(document.data, shape):
            document.report(misfit.path, misfit.what, key=misfit.key)


def _converted(document: Document, shape: type[T], source: str) -> T:
    if document.problems:
        raise InvalidPolicy(source, sorted(document.problems))
    return msgspec.convert(document.data, shape)


def _expressions(document: Document, rules: list[Any]) -> list[RuleExpression]:
    """The rules' expressions; their faults are reported with their places."""
    expressions = []
    for number, rule in enumerate(rules):
        when = rule.get("when") if isinstance(rule, dict) else None
        if isinstance(when, bool):
            when = "true" if when else "false"
        if isinstance(when, str):
            expression = examine(when)
            for fault in expression.faults:
                line, column = document.place_within(("rules", number, "when"), fault.line, fault.column)
                document.problems.append(Problem(line, column, fault.what))
            expressions.append(expression)
    return expressions


def _cross_check(document: Document, rules: list[Any]) -> None:
    """Check what no schema can: names are unique, and there are people who can give an approval."""
    first_uses: dict[str, int] = {}
    for number, rule in enumerate(rules):
        if not isinstance(rule, dict):
            continue
        name = rule.get("name")
        if isinstance(name, str) and first_uses.setdefault(name, number) != number:
            line, _ = document.place(("rules", first_uses[name], "name"))
            document.report(("rules", number, "name"), f"the rule in line {line} is called {name!r}, too: rename one")
        candidates = rule.get("candidates")
        named = [each for each in candidates if isinstance(each, str)] if isinstance(candidates, list) else []
        for place, each in enumerate(named):
            if not is_name(each):
                document.report(("rules", number, "candidates", place), f"a candidate is {NAME}, not {each!a:.60}")
        alone = len({person(each) for each in named}) == 1 and not re.search(r"[*?\[]", named[0])
        if rule.get("two_person") is True and alone:
            what = f"two people must agree, and {named[0]!r} is the only candidate: name another, or a pattern"
            document.report(("rules", number, "candidates"), what)
