"""Tasks that call something: ``call`` of HTTP, of an OpenAPI operation and of declared functions, and ``run``."""

from __future__ import annotations

from typing import Any, Final

from holdfast.programs.definition.serverless.importer.draft import Node
from holdfast.programs.definition.serverless.importer.tasks import TaskDraft, put
from holdfast.programs.definition.serverless.importer.values import address_of, jq_of
from holdfast.programs.definition.serverless.vocabulary import (
    RESPONSE,
    definition_name,
    definition_version,
    without_none,
)

METHODS: Final = ("get", "head", "post", "put", "patch", "delete", "options")
ELSEWHERE: Final = {
    "a2a": "agents are called over HTTP, with `call: http`",
    "asyncapi": "there is no message broker",
    "grpc": "write a Python step, and a definition that calls it",
    "mcp": "write a Python step, and a definition that calls it",
}
_PROCESSES: Final = ("container", "script", "shell")


def call(task: TaskDraft) -> list[Node]:
    """``call``, by what is called."""
    called, given = task.task["call"], task.draft.mapping(task.task.get("with"), (*task.trail, "with"))
    if called == "http":
        return _http(task, given)
    if called == "openapi":
        return _openapi(task, given)
    if called in ELSEWHERE:
        task.wrong(f"`call: {called}` is not supported: {ELSEWHERE[called]}", "call")
        return [{task.core_name(): put("=.")}]
    return _function(task, str(called), given)


def _http(task: TaskDraft, given: dict[str, Any]) -> list[Node]:
    known = ("method", "endpoint", "headers", "query", "body", "output", "redirect")
    task.draft.only(given, known, (*task.trail, "with"), "a call of HTTP")
    method = str(given.get("method", "")).lower()
    if method not in METHODS:
        task.wrong(f"the method is one of {', '.join(METHODS)}, not {given.get('method')!r}", "with", "method")
        method = "get"
    address, auth = _endpoint(task, given.get("endpoint"), "with", "endpoint")
    request = {
        method: address,
        "headers": _pairs(task, given.get("headers")),
        "query": _pairs(task, given.get("query")),
        "json": task.value(given["body"]) if "body" in given else None,
        "auth": auth,
        **_options(task, given),
    }
    core: list[Node] = [{task.core_name(): {"http": without_none(request), "as": "local.data"}}]
    return core + _shaped(task, given)


def _pairs(task: TaskDraft, data: Any) -> Any:
    return None if data is None else task.value(data)


def _options(task: TaskDraft, given: dict[str, Any]) -> dict[str, Any]:
    output = given.get("output", "content")
    if output not in ("content", "response", "raw"):
        task.wrong(f"output is content, response or raw, not {output!r}", "with", "output")
    found: dict[str, Any] = {} if output == "content" else {"give": output}
    return {**found, "redirect": True, "accept": ["3xx"]} if given.get("redirect") is True else found


def _shaped(task: TaskDraft, given: dict[str, Any]) -> list[Node]:
    return [{task.helper("shape"): put(RESPONSE)}] if given.get("output") == "response" else []


def _endpoint(task: TaskDraft, data: Any, *inside: str) -> tuple[str, Any]:
    """Where a call goes, and who makes it."""
    found = {"uri": data} if isinstance(data, str) else task.draft.mapping(data, (*task.trail, *inside))
    task.draft.only(found, ("uri", "authentication"), (*task.trail, *inside), "an endpoint")
    try:
        address = task.noted(address_of(str(found.get("uri", ""))))
    except ValueError as error:
        task.wrong(str(error), *inside)
        address = "https://unknown.invalid"
    return address, authentication(task, found.get("authentication"), *inside, "authentication")


def authentication(task: TaskDraft, data: Any, *inside: str) -> dict[str, Any] | None:
    """Who sends a request, by values that the run has."""
    policy = task.draft.mapping(data, (*task.trail, *inside))
    if "use" in policy:
        policy = task.draft.mapping(
            task.draft.reused("authentications", policy["use"], (*task.trail, *inside)), task.trail
        )
    if not policy:
        return None
    match policy:
        case {"basic": {"username": username, "password": password}}:
            return {"basic": {"username": task.value(username), "password": {"value": task.value(password)}}}
        case {"bearer": {"token": token}}:
            return {"bearer": {"value": task.value(token)}}
        case {"basic": {"use": _}} | {"bearer": {"use": _}}:
            task.wrong("a secret by its name stands in a connector of a definition: write that by hand", *inside)
        case _:
            kinds = ", ".join(map(str, policy))
            task.wrong(f"authentication by {kinds} is not supported: only basic and bearer, with their values", *inside)
    return None


def _openapi(task: TaskDraft, given: dict[str, Any]) -> list[Node]:
    """Two requests: one for the document, one that it describes. Both are recorded, and pass the gate."""
    known = ("document", "operationId", "parameters", "authentication", "output", "redirect")
    task.draft.only(given, known, (*task.trail, "with"), "a call of OpenAPI")
    resource = task.draft.mapping(given.get("document"), (*task.trail, "with", "document"))
    address, auth = _endpoint(task, resource.get("endpoint"), "with", "document", "endpoint")
    operation, parameters = task.value(given.get("operationId", "")), task.value(given.get("parameters") or {})
    more = without_none({"auth": authentication(task, given.get("authentication"), "with", "authentication")})
    more |= _options(task, given)
    request = f"=openapi($local.document; {jq_of(operation)}; {jq_of(parameters)})" + (
        f" + {jq_of(more)}" if more else ""
    )
    document = without_none({"get": address, "auth": auth})
    core: list[Node] = [
        {task.helper("document"): {"http": document, "as": "local.document"}},
        {task.core_name(): {"http": request, "as": "local.data"}},
    ]
    return core + _shaped(task, given)


def _function(task: TaskDraft, called: str, given: dict[str, Any]) -> list[Node]:
    """A declared function: its task, with the arguments as its data."""
    from holdfast.programs.definition.serverless.importer.lists import read_task

    functions = task.draft.use.get("functions") or {}
    if called not in functions:
        known = ", ".join(functions) or "none"
        task.wrong(f"use.functions has no {called!r} (it has {known}), and catalogs are not supported", "call")
        return [{task.core_name(): put("=.")}]
    arguments: Node = {task.helper("with"): put(task.value(given))}
    trail = ("use", "functions", called)
    inner = read_task(task.draft, f"{task.said_name}-{called}", functions[called], trail, within_fork=task.within_fork)
    return [arguments, inner]


def run(task: TaskDraft) -> list[Node]:
    """``run``: another workflow. Nothing here starts processes."""
    given = task.draft.mapping(task.task["run"], (*task.trail, "run"))
    for kind in _PROCESSES:
        if kind in given:
            task.wrong(
                f"`run: {kind}` is not supported: Holdfast starts no processes; write a Python step", "run", kind
            )
            return [{task.core_name(): put("=.")}]
    task.draft.only(given, ("workflow", "await"), (*task.trail, "run"), "run")
    workflow = task.draft.mapping(given.get("workflow"), (*task.trail, "run", "workflow"))
    task.draft.only(workflow, ("namespace", "name", "version", "input"), (*task.trail, "run", "workflow"), "a workflow")
    body = {"with": task.value(workflow.get("input", {}))}
    reference = _reference(task, workflow)
    if given.get("await") is False:
        return [{task.core_name(): {"continue": reference, **body}}]
    return [{task.core_name(): {"run": reference, **body, "as": "local.data"}}]


def _reference(task: TaskDraft, workflow: dict[str, Any]) -> str:
    name = definition_name(str(workflow.get("namespace", "default")), str(workflow.get("name", "")))
    version = str(workflow.get("version", "latest"))
    if version == "latest":
        return name
    number = definition_version(version)
    if number is None:
        task.wrong(f"a version is written as 1.2.3, and is not 0.0.0: {version!r}", "run", "workflow", "version")
    return f"{name}@{number or 1}"
