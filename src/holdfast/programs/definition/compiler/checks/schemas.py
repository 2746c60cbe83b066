"""What JSON Schemas say of a definition: its own schemas are ones, and transports are asked in their own words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn

from holdfast.programs.definition import model as m
from holdfast.programs.definition.compiler.checks.forms import check_form_defaults
from holdfast.programs.definition.compiler.faults import FaultList, Trail, nearest
from holdfast.programs.definition.compiler.words import TRANSPORT_WORDS
from holdfast.programs.definition.interpreter.routine import Toolbox
from holdfast.programs.definition.walks import all_nodes
from holdfast.transports import schemas

_OWN: Final = {"graphql": schemas.GRAPHQL, "http": schemas.HTTP}
_LONGEST: Final = 200
_TYPES: Final = ("array", "boolean", "integer", "null", "number", "object", "string")

assert _OWN.keys() == set(TRANSPORT_WORDS)


def check_schemas(definition: m.Definition, faults: FaultList, tools: Toolbox | None) -> None:
    """Every schema is one, every default fits its schema, and connectors and requests have the words of transports.

    Requests of a package's transport are looked at where ``tools`` know it.
    """
    if _check_schema(definition.start, ("start",), faults):
        named: dict[str, Any] = {
            name: definition.start[name] for name in ("$defs", "definitions") if name in definition.start
        }
        _check_defaults(definition.start, named, ("start",), faults)
    for name, schema in definition.state.items():
        if _check_schema(schema, ("state", name), faults) and "default" in schema:
            for path, problem in _problems(schema, schema["default"], faults):
                faults.add(("state", name, "default", *path), f"the default does not fit its schema: {problem}")
    for name, task in definition.tasks.items():
        if _check_schema(_without_expressions(task.form), ("tasks", name, "form"), faults):
            check_form_defaults(task.form, ("tasks", name, "form"), faults)
    for path, problem in _problems(schemas.CONNECTORS, definition.connectors, faults):
        faults.add(("connectors", *path), problem)
    for node in all_nodes(definition.steps):
        for verb, inside in ((node.verb, ()), (None if node.undo is None else node.undo.verb, ("undo",))):
            if isinstance(verb, m.TransportVerb):
                _check_request(node, verb, inside, faults, tools)


def _check_defaults(schema: Any, named: Mapping[str, Any], trail: Trail, faults: FaultList) -> None:
    """The defaults of properties, and of those inside them, fit their own schemas."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    for name, field in properties.items() if isinstance(properties, Mapping) else ():
        place = (*trail, "properties", name)
        if isinstance(field, Mapping) and "default" in field:
            for path, problem in _problems({**named, **field}, field["default"], faults):
                faults.add((*place, "default", *path), f"the default does not fit its schema: {problem}")
        _check_defaults(field, named, place, faults)


def _check_schema(schema: Any, trail: Trail, faults: FaultList) -> bool:
    """Whether it is a JSON Schema, complete in itself."""
    import jsonschema_rs  # loaded only where a definition is compiled

    try:
        jsonschema_rs.validator_for(schema, retriever=_no_retriever)
    except jsonschema_rs.ValidationError as error:
        given = error.instance if error.instance_path[-1:] == ["type"] else None
        problem = f"there is no type {given!r}{nearest(given, _TYPES)}" if isinstance(given, str) else ""
        faults.add((*trail, *error.instance_path), problem or f"this is no JSON Schema: {_message(error, {})}")
        return False
    except (ValueError, TypeError) as error:
        faults.add(trail, f"this is no JSON Schema: {str(error).splitlines()[0]}")
        return False
    return True


def _no_retriever(uri: str) -> NoReturn:
    raise ValueError(f"a schema is complete in itself: it cannot refer to {uri}")


def _without_expressions(schema: Any) -> Any:
    """A form without the members that a run fills in."""
    if isinstance(schema, Mapping):
        return {name: _without_expressions(item) for name, item in schema.items() if not _is_expression(item)}
    if isinstance(schema, list):
        return [_without_expressions(item) for item in schema if not _is_expression(item)]
    return schema


def _is_expression(value: object) -> bool:
    return isinstance(value, str) and value.startswith("=") and not value.startswith("==")


def _check_request(
    node: m.Node, verb: m.TransportVerb, inside: tuple[str, ...], faults: FaultList, tools: Toolbox | None
) -> None:
    schema: Mapping[str, Any] | None = _OWN.get(verb.verb)
    if schema is None and tools is not None and (transport := tools.transport(verb.verb)) is not None:
        schema = transport.schema
    if schema is None or isinstance(verb.request, str):  # an expression for all of it
        return
    words = (verb.verb,) if verb.verb in TRANSPORT_WORDS else ("transport", verb.verb)
    for path, problem in _problems(_meant(schema, verb.request), verb.request, faults):
        faults.at_node(node.name, problem, *inside, *words, *path)


def _meant(schema: Mapping[str, Any], value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of several schemas the first whose required members are there, else the last: so a problem has its own words."""
    ways = schema.get("anyOf")
    if not ways:
        return schema
    return next((way for way in ways if all(name in value for name in way.get("required", ("",)))), ways[-1])


def _problems(schema: Mapping[str, Any], value: Any, faults: FaultList) -> Iterator[tuple[Trail, str]]:
    import jsonschema_rs

    validator = jsonschema_rs.validator_for(dict(schema), retriever=_no_retriever)
    for error in validator.iter_errors(value):
        within = _at(schema, error.schema_path[:-1])
        path = tuple(error.instance_path)
        if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.AdditionalProperties):
            known = within.get("properties", {})
            for name in error.kind.unexpected:
                yield (*path, name), f"nobody knows the word {name!r} here{faults.nearest(name, known)}"
        else:
            yield path, _message(error, within)


def _message(error: Any, within: Mapping[str, Any]) -> str:
    """In our words where the library's would not help."""
    from jsonschema_rs import ValidationErrorKind as Kind

    kind = error.kind
    if isinstance(kind, Kind.Required):
        return f"it needs {kind.property!r}"
    if isinstance(kind, Kind.OneOfNotValid | Kind.OneOfMultipleValid):
        ways = [way["required"][0] for way in within.get("oneOf", ()) if way.get("required")]
        if ways:
            return f"it has one of {', '.join(ways)}"
    if isinstance(kind, Kind.AnyOf) and (inner := next(iter(kind.context[-1:]), None)):
        return _message(inner[0], {})
    return str(error.message).splitlines()[0][:_LONGEST]


def _at(schema: Any, path: list[str | int]) -> Mapping[str, Any]:
    found = schema
    for step in path:
        if isinstance(found, list) and isinstance(step, int):
            found = found[step]
        else:
            found = found.get(step, {}) if isinstance(found, Mapping) else {}
    return found if isinstance(found, Mapping) else {}
