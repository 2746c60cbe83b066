"""Tasks with errors: ``raise``, and ``try`` with its filters and retries.

An error is problem details: in ``details`` of what is raised, and in the name that ``catch.as`` says. A try is a block
whose handler judges the error::

    get: {do: […], on: {failure: [
      {get-caught: {let: {error: =$error | problem({…})}, do: [
        {get-judge: {let: {catch_with: =$error | caught({…})}, do: [
          {get-which: {switch: [{when: =$catch_with, do: […]}, {else: [{get-again: {raise: …}}]}]}}]}}]}}]}}

With retries it is repeated until it is done.
"""

from __future__ import annotations

import json
from typing import Any, Final

from holdfast.programs.definition.serverless.importer.draft import Node
from holdfast.programs.definition.serverless.importer.tasks import TaskDraft, put
from holdfast.programs.definition.serverless.importer.values import seconds_of
from holdfast.programs.definition.serverless.importer.ways import ends
from holdfast.programs.definition.serverless.vocabulary import pointer

_FILTERS: Final = ("type", "status", "instance", "title", "details")


def raised(task: TaskDraft) -> list[Node]:
    """``raise``: an error by its problem details."""
    given = task.draft.mapping(task.task["raise"], (*task.trail, "raise"))
    error = task.draft.reused("errors", given.get("error"), (*task.trail, "raise", "error"))
    error = task.draft.mapping(error, (*task.trail, "raise", "error"))
    task.draft.only(
        error, ("type", "status", "title", "detail", "instance"), (*task.trail, "raise", "error"), "an error"
    )
    details = {"instance": pointer(task.trail), **task.value(error)}
    message = details.get("detail") or details.get("title") or details.get("type")
    return [{task.core_name(): {"raise": {"code": details.get("type", ""), "message": message, "details": details}}}]


def tried(task: TaskDraft) -> list[Node]:
    """``try``."""
    return _Try(task).nodes()


class _Try:
    def __init__(self, task: TaskDraft) -> None:
        self._task = task
        draft, trail = task.draft, (*task.trail, "catch")
        task.needs_input = True
        self._catch = draft.mapping(task.task.get("catch"), trail)
        draft.only(self._catch, ("errors", "as", "when", "exceptWhen", "retry", "do"), trail, "catch")
        retry = draft.reused("retries", self._catch.get("retry"), (*trail, "retry"))
        self._retry = None if retry is None else draft.mapping(retry, (*trail, "retry"))
        self._name = task.name_of(self._catch.get("as", "error"), "catch", "as")
        self._let, self._condition = self._judgement()

    def nodes(self) -> list[Node]:
        from holdfast.programs.definition.serverless.importer.lists import read_list

        task = self._task
        core, known = task.core_name(), set(task.draft.trails)
        inner = read_list(task.draft, task.task.get("try"), (*task.trail, "try"), task.name, task.within_fork)
        places = {name: pointer(trail) for name, trail in task.draft.trails.items() if name not in known}
        problem = f"=$error | problem({json.dumps(places, ensure_ascii=False, sort_keys=True)})"
        if self._retry is None:
            handler = self._handler(problem, [], [])
            return [{core: {"do": inner, "on": {"failure": handler}}}]
        return self._repeated(core, inner, problem)

    def _handler(self, problem: str, first: list[dict[str, Any]], last: list[Node]) -> list[Node]:
        """What is done with an error. ``first`` are cases before the usual one, ``last`` comes behind that."""
        task = self._task
        back = {task.helper("back"): put("=$input")}
        let, condition = self._let, self._condition
        body = [back, *self._caught()]
        body += [] if ends(body) else last
        if first or condition:
            usual = {"when": f"={condition}", "do": body} if condition else {"else": body}
            cases = [*first, usual, *([{"else": [self._again()]}] if condition else [])]
            body = [{task.helper("which"): {"switch": cases}}]
        if let:
            body = [{task.helper("judge"): {"let": let, "do": body}}]
        return [{task.helper("caught"): {"let": {self._name: problem}, "do": body}}]

    def _caught(self) -> list[Node]:
        from holdfast.programs.definition.serverless.importer.lists import read_list

        task = self._task
        if "do" not in self._catch:
            return []
        name = f"{task.name}-catch"
        return read_list(task.draft, self._catch["do"], (*task.trail, "catch", "do"), name, task.within_fork)

    def _again(self) -> Node:
        name = self._name
        message = f"=${name}.detail // ${name}.title // ${name}.type"
        body = {"code": f"=${name}.type", "message": message, "details": f"=${name}"}
        return {self._task.helper("again"): {"raise": body}}

    def _judgement(self) -> tuple[dict[str, Any], str]:
        """The names that a handler judges by, and the condition under which the error is caught."""
        task, let = self._task, {}
        errors = task.draft.mapping(self._catch.get("errors"), (*task.trail, "catch", "errors"))
        filter = task.draft.mapping(errors.get("with"), (*task.trail, "catch", "errors", "with"))
        task.draft.only(filter, _FILTERS, (*task.trail, "catch", "errors", "with"), "a filter of errors")
        if filter:
            let["catch_with"] = f"=${self._name} | caught({json.dumps(filter, ensure_ascii=False, sort_keys=True)})"
        if "when" in self._catch:
            let["catch_when"] = task.expression(self._catch["when"], "catch", "when")
        if "exceptWhen" in self._catch:
            let["catch_except"] = task.expression(self._catch["exceptWhen"], "catch", "exceptWhen")
        condition = " and ".join(f"(${name} | not)" if name == "catch_except" else f"${name}" for name in let)
        if self._retry is not None:
            if "when" in self._retry:
                let["retry_when"] = task.expression(self._retry["when"], "catch", "retry", "when")
            if "exceptWhen" in self._retry:
                let["retry_except"] = task.expression(self._retry["exceptWhen"], "catch", "retry", "exceptWhen")
        return let, condition

    # -- retries -------------------------------------------------------------------------------------------------------

    def _repeated(self, core: str, inner: list[Node], problem: str) -> list[Node]:
        task, retry = self._task, self._retry or {}
        place = ("catch", "retry")
        task.draft.only(retry, ("when", "exceptWhen", "delay", "backoff", "limit"), (*task.trail, *place), "a retry")
        limit = task.draft.mapping(retry.get("limit"), (*task.trail, *place, "limit"))
        attempt = task.draft.mapping(limit.get("attempt"), (*task.trail, *place, "limit", "attempt"))
        slug = task.draft.slug(task.name)
        begin: dict[str, Any] = {f"local.done.{slug}": False}
        limits = []
        if "count" in attempt:
            limits.append(f"($retry_attempt + 1 < {int(attempt['count'])})")
        if "duration" in limit:
            begin[f"local.since.{slug}"] = "=now"
            longest = self._seconds(limit["duration"], *place, "limit", "duration")
            limits.append(f"(now - $local.since.{slug} < {longest})")
        caught = self._condition
        said = ["$retry_when"] * ("when" in retry) + ["($retry_except | not)"] * ("exceptWhen" in retry)
        again = " and ".join([*([caught] if caught else []), *said, *limits]) or "true"
        rest: Node = {task.helper("rest"): {"sleep": self._delay(retry)}}
        done: Node = {task.helper("done"): {"set": {f"local.done.{slug}": True}}}
        mended: Node = {task.helper("mended"): {"set": {f"local.done.{slug}": True}}}
        handler = self._handler(problem, [{"when": f"={again}", "do": [rest]}], [mended])
        body: dict[str, Any] = {"do": inner if ends(inner) else [*inner, done], "on": {"failure": handler}}
        if "duration" in attempt:
            body["timeout"] = task.span(attempt["duration"], *place, "limit", "attempt", "duration")
        each = [{task.helper("reset"): put("=$input")}, {task.helper("try"): body}]
        repeat = {"repeat": {"until": f"=$local.done.{slug}", "index": "retry_attempt"}, "do": each}
        return [{task.helper("begin"): {"set": begin}}, {core: repeat}]

    def _seconds(self, data: Any, *inside: str) -> float:
        try:
            return seconds_of(data)
        except ValueError as error:
            self._task.wrong(str(error), *inside)
            return 0

    def _delay(self, retry: dict[str, Any]) -> str:
        task, delay = self._task, retry.get("delay", {"seconds": 0})
        backoff = task.draft.mapping(retry.get("backoff"), (*task.trail, "catch", "retry", "backoff"))
        match backoff:
            case {"exponential": dict(more)} if not more:
                return f"={self._seconds(delay, 'catch', 'retry', 'delay')} * pow(2; $retry_attempt)"
            case {"linear": dict(more)} if not more:
                return f"={self._seconds(delay, 'catch', 'retry', 'delay')} * ($retry_attempt + 1)"
            case {} if not backoff or backoff == {"constant": {}}:
                return task.span(delay, "catch", "retry", "delay")
        task.wrong("backoff is constant, linear or exponential, and says no more", "catch", "retry", "backoff")
        return "0s"
