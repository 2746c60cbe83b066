"""What can be started, and the form for its arguments: from a definition's schema, or from a function's signature."""

from __future__ import annotations

import inspect
import typing
from typing import Any

import msgspec

from holdfast.programs.function.decorators import Workflow
from holdfast.programs.function.reversal import REVERSE
from holdfast.server.call import RouteCall


async def startable(call: RouteCall[Any, None]) -> list[str]:
    """The names of what can be started here: functions that this server knows, and published definitions."""
    functions = {*call.client.catalogue.serves().functions} - {REVERSE}
    published = {info.name async for info in call.client.definitions.list(tenant=call.tenant)}
    given = {each.definition.name for each in call.client.definitions}
    return sorted(functions | published | given)


async def schema_of(call: RouteCall[Any, None], name: str) -> tuple[dict[str, Any] | None, bool]:
    """The JSON Schema of what a workflow takes, and whether it is a definition's; None where it is not known here."""
    workflow = call.client.workflows.get(name)
    if workflow is not None:
        return _signature(workflow), False
    found = await call.client.definitions.load(name, tenant=call.tenant) or call.client.definitions.get(name)
    return (None, False) if found is None else (dict(found.definition.start), True)


def _signature(workflow: Workflow[..., Any]) -> dict[str, Any]:
    """An object with a member for each parameter. What has no schema is asked for as JSON."""
    parameters = inspect.signature(workflow.function).parameters
    hints = typing.get_type_hints(workflow.function)
    properties: dict[str, Any] = {}
    for name, parameter in parameters.items():
        schema = _schema(hints.get(name, Any))
        if parameter.default is not inspect.Parameter.empty:
            schema = {**schema, "default": msgspec.to_builtins(parameter.default, enc_hook=str)}
        properties[name] = schema
    required = [name for name, each in parameters.items() if each.default is inspect.Parameter.empty]
    definitions = {key: each for part in properties.values() for key, each in part.pop("$defs", {}).items()}
    return {"type": "object", "properties": properties, "required": required, "$defs": definitions}


def _schema(kind: Any) -> dict[str, Any]:
    try:
        return dict(msgspec.json.schema(kind))
    except TypeError:
        return {}
